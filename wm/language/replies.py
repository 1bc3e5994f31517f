"""Reading what a language model wrote: text is data, and nothing runs it.

All readers take any string and give a `Reading`. They take time linear in its
length, whatever it holds, and name what went wrong by one of `FAILURES`, for
counting. Texts of more than LIMIT characters are not read.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from wm.language import literals

LIMIT = 1 << 20

# What can be wrong with a reply -> what that means.
FAILURES = {
  'empty': 'no text',
  'too_long': f'more than {LIMIT:,} characters',
  'unfinished': 'reasoning that never ends, and nothing after it',
  'refused': 'the model declines to answer',
  'nothing': 'text without an answer of the form asked for',
  'both': 'yes and no',
  'malformed': 'brackets, and no literal list or dict in them',
  'truncated': 'a list or dict that the text ends in',
  'too_deep': f'brackets nested more than {literals.DEPTH} deep',
}


class Reading(NamedTuple):
  """What was read of a reply.

  Attributes:
    value: as the reader says; None where there is none. Of a 'truncated' list
      or dict it is what was complete.
    failure: '', or a key of FAILURES.
    reasoning: characters of reasoning, which were not read.
  """

  value: Any
  failure: str = ''
  reasoning: int = 0


_SURROGATE = re.compile('[\ud800-\udfff]')
# A block of reasoning; one that never ends runs to the end of the text.
_TAG = re.compile(r'<(/?)(?:think|thinking|reasoning|thought)>', re.IGNORECASE)


def visible(text: str) -> Reading:
  """The text without its reasoning, `<think>...</think>` and its like.

  A closing tag alone ends reasoning that began with the text, as where a
  model's template opened it. What is not UTF-8 (lone surrogates) becomes
  U+FFFD.

  Returns:
    value: the stripped text; '' beside a failure ('empty', 'too_long',
      'unfinished').
  """
  if len(text) > LIMIT:
    return Reading('', 'too_long')
  if not text.isascii():
    text = _SURROGATE.sub('\ufffd', text)
  kept, reasoning = (text, 0) if '<' not in text else _apart(text)
  kept = kept.strip()
  if kept:
    return Reading(kept, '', reasoning)
  return Reading('', 'unfinished' if reasoning else 'empty', reasoning)


def _apart(text: str) -> tuple[str, int]:
  """(text without reasoning, characters of reasoning)."""
  kept: list[str] = []
  start, reasoning, inside = 0, 0, False
  for tag in _TAG.finditer(text):
    piece = text[start : tag.start()]
    closes, start = tag.group(1) == '/', tag.end()
    if inside:
      reasoning += len(piece)
    elif closes:
      # All of it so far was reasoning.
      reasoning += sum(map(len, kept)) + len(piece)
      kept = []
    else:
      kept.append(piece)
    inside = not closes
  rest = text[start:]
  if inside:
    return ''.join(kept), reasoning + len(rest)
  return ''.join([*kept, rest]), reasoning


# `Answer:`, also `**Final answer:**` and `ANSWER =`.
_ANSWER = re.compile(r'\banswer[\s*_]{0,4}[:=][\s*_]*', re.IGNORECASE)
_ANSWER_IS = re.compile(
  r'\banswer[\s*_]{0,4}(?:[:=]|is\b)[\s*_:"\'`]*', re.IGNORECASE
)
_DECLINES = re.compile(
  r"\s*(?:i['\u2019]?m sorry|i am sorry|sorry\b|i apologi[sz]e"
  r"|i (?:cannot|can['\u2019]?t|can not|am unable|am not able|won['\u2019]?t)"
  r"|i['\u2019]m (?:unable|not able)|as an ai\b|unfortunately,? i\b)",
  re.IGNORECASE,
)


def _unread(text: str, failure: str, reasoning: int) -> Reading:
  """Nothing was read; a refusal where the text begins as one."""
  refused = failure == 'nothing' and _DECLINES.match(text)
  return Reading(None, 'refused' if refused else failure, reasoning)


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
  found = None
  for match in pattern.finditer(text):
    found = match
  return found


def after_answer(text: str, loose: bool = False) -> Reading:
  """Reads what follows the last `Answer:`, stripped; any case, any emphasis.

  loose: without one, what follows the last `answer is`, and quotes behind it.

  Returns:
    value: str; '' is a failure too ('nothing').
  """
  seen = visible(text)
  if seen.failure:
    return seen._replace(value=None)
  found = _last(_ANSWER, seen.value)
  if loose and found is None:
    found = _last(_ANSWER_IS, seen.value)
  rest = seen.value[found.end() :].strip() if found else ''
  if not rest:
    return _unread(seen.value, 'nothing', seen.reasoning)
  return Reading(rest, '', seen.reasoning)


# Yes or no as a sentence or clause of its own: `No road ...` is neither, nor
# `Yes or no`.
_SAYS = re.compile(
  r'[\s*_"\'`(\[#>-]*+(yes\b(?!\s+or\b)|no\b(?=[*_"\'`)\]]*+'
  r'(?:\s*+(?:[.,;:!(\u2013\u2014-]|$)|[ \t]*+\n'
  r'|\s++(?:it|this|that|you|they|we|i)\b)))',
  re.IGNORECASE,
)
_LINE = re.compile(r'[\s*_"\'`(\[]*+(yes|no)[\s*_"\'`)\].!]*+', re.IGNORECASE)


def yes_no(text: str, strict: bool = False) -> Reading:
  """Reads yes or no.

  That is what follows the last `answer:` or `answer is`; without one, the word
  that the text begins with, or its last line. A text whose beginning and last
  line say different things is 'both'.

  strict: as published for logic puzzles (Vafa et al. 2024): the whole text is
    the word, but for full stops and new lines.

  Returns:
    value: bool.
  """
  seen = visible(text)
  if seen.failure:
    return seen._replace(value=None)
  words = seen.value
  if strict:
    word = words.replace('.', '').replace('\n', '').strip().lower()
    if word in ('yes', 'no'):
      return Reading(word == 'yes', '', seen.reasoning)
    return _unread(words, 'nothing', seen.reasoning)
  marked = _last(_ANSWER_IS, words)
  said = _SAYS.match(words, marked.end()) if marked else None
  if said:
    return Reading(said[1].lower() == 'yes', '', seen.reasoning)
  said = _SAYS.match(words)
  last = _LINE.fullmatch(words[words.rfind('\n') + 1 :])
  heard = {match[1].lower() for match in (said, last) if match}
  if len(heard) != 1:
    failure = 'both' if heard else 'nothing'
    return _unread(words, failure, seen.reasoning)
  return Reading(heard == {'yes'}, '', seen.reasoning)


_FENCE = re.compile(r'^[ \t]*(?:```+|~~~+)[^\n]*(?:\n|$)', re.MULTILINE)


def fenced(text: str) -> list[str]:
  """Contents of all code fences, in order; one left open runs to the end."""
  marks = list(_FENCE.finditer(text))
  ends = [mark.start() for mark in marks[1::2]] + [len(text)]
  return [
    text[opened.end() : end].strip()
    for opened, end in zip(marks[::2], ends, strict=False)
  ]


def first_value(text: str, opening: str = '[{') -> Reading:
  """Reads the first balanced list or dict: JSON, or Python's literals.

  See literals.first; reasoning is not read.

  opening: the brackets that a value may begin with, of '[{('.

  Returns:
    value: list or dict; of a 'truncated' one what was complete.
  """
  seen = visible(text)
  if seen.failure:
    return seen._replace(value=None)
  value, failure = literals.first(seen.value, opening)
  if failure == 'nothing':
    return _unread(seen.value, failure, seen.reasoning)
  return Reading(value, failure, seen.reasoning)
