"""Reading what a language model wrote: text is data, and nothing runs it.

All readers take any string and give a `Reading`. They take time linear in its
length, whatever it holds, and name what went wrong by one of `FAILURES`, for
counting. Texts of more than LIMIT characters are not read. `AnswerReader` reads
answers to questions about a world: names of tokens, yes or no, labels.
"""

from __future__ import annotations

import collections
import functools
import json
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from wm import core
from wm.core import queries, verbal
from wm.core.predictor import Tokens
from wm.core.queries import Answer, Query

LIMIT = 1 << 20
DEPTH = 32  # Deeper nesting of brackets is not read.

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
  'too_deep': f'brackets nested more than {DEPTH} deep',
}


class Reading(NamedTuple):
  """A value that was read from a reply.

  Attributes:
    value: see the reader; None where there is none. For a 'truncated' list or
      dict the complete part.
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
  # Most replies have no tag: they are not scanned.
  rest, reasoning = (text, 0) if '<' not in text else _apart(text)
  rest = rest.strip()
  if rest:
    return Reading(rest, '', reasoning)
  return Reading('', 'unfinished' if reasoning else 'empty', reasoning)


def _apart(text: str) -> tuple[str, int]:
  """(text without reasoning, characters of reasoning)."""
  outside: list[str] = []
  # text  <think> r r </think> answer      one pass over the tags, in order
  start, reasoning, inside = 0, 0, False
  for tag in _TAG.finditer(text):
    piece = text[start : tag.start()]
    closes, start = tag.group(1) == '/', tag.end()
    if inside:
      reasoning += len(piece)
    elif closes:
      # All of it so far was reasoning.
      reasoning += sum(map(len, outside)) + len(piece)
      outside = []
    else:
      outside.append(piece)
    # An opening tag within reasoning changes nothing: blocks do not nest.
    inside = not closes
  rest = text[start:]
  if inside:
    return ''.join(outside), reasoning + len(rest)
  return ''.join([*outside, rest]), reasoning


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


def _read(text: str, find: Callable[[str], tuple[Any, str]]) -> Reading:
  """What `find` gives of the visible text: a value, and what is wrong with it.

  A text in which there is nothing is a refusal where it begins as one.
  """
  seen = visible(text)
  if seen.failure:
    return seen._replace(value=None)
  value, failure = find(seen.value)
  if failure == 'nothing' and _DECLINES.match(seen.value):
    failure = 'refused'
  return Reading(value, failure, seen.reasoning)


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
  # The last one counts: reasoning may name an answer before.
  last = None
  for match in pattern.finditer(text):
    last = match
  return last


def after_answer(text: str, loose: bool = False) -> Reading:
  """Reads what follows the last `Answer:`, stripped; any case, any emphasis.

  loose: without one, what follows the last `answer is`, and quotes behind it.

  Returns:
    value: str; '' is a failure too ('nothing').
  """

  def find(words: str) -> tuple[str | None, str]:
    mark = _last(_ANSWER, words)
    if loose and mark is None:
      mark = _last(_ANSWER_IS, words)
    rest = words[mark.end() :].strip() if mark else ''
    return (rest, '') if rest else (None, 'nothing')

  return _read(text, find)


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
  return _read(text, _whole_word if strict else _yes_or_no)


def _whole_word(text: str) -> tuple[bool | None, str]:
  word = text.replace('.', '').replace('\n', '').strip().lower()
  return (word == 'yes', '') if word in ('yes', 'no') else (None, 'nothing')


def _yes_or_no(text: str) -> tuple[bool | None, str]:
  marked = _last(_ANSWER_IS, text)
  first = _SAYS.match(text, marked.end()) if marked else None
  if first:
    return first[1].lower() == 'yes', ''
  first = _SAYS.match(text)
  last = _LINE.fullmatch(text[text.rfind('\n') + 1 :])
  heard = {match[1].lower() for match in (first, last) if match}
  # The beginning and the last line must agree, where both say something.
  if len(heard) != 1:
    return None, 'both' if heard else 'nothing'
  return heard == {'yes'}, ''


def first_value(text: str, opening: str = '[{') -> Reading:
  """Reads the first balanced list or dict: JSON, or Python's literals.

  See first_literal; reasoning is not read.

  opening: the brackets that a value may begin with, of '[{('.

  Returns:
    value: list or dict; of a 'truncated' one what was complete.
  """
  return _read(text, functools.partial(first_literal, opening=opening))


def first_literal(text: str, opening: str = '[{') -> tuple[Any, str]:
  """Reads the first balanced list or dict: JSON, or Python's literals.

  Either kind of quotes may hold a string, and a quote inside of one needs no
  backslash where no comma, colon or bracket follows. Tuples become lists. A
  trailing comma is allowed; NaN and infinities are not. The time is linear in
  the text's length.

  Args:
    text: any.
    opening: the brackets that a value may begin with, of '[{('.

  Returns:
    value: list or dict of str, int, float, bool, None, list and dict; keys are
      str, int, float, bool or None. None where there is none; of a truncated
      one what was complete.
    failure: '', 'nothing' (no bracket), 'malformed' (no literal in brackets),
      'truncated' (the text ends within it), 'too_deep'.
  """
  decoded = _decoded(text, opening)
  return scan_literal(text, opening) if decoded is None else decoded


def scan_literal(text: str, opening: str = '[{') -> tuple[Any, str]:
  """As `first_literal`, by the scan that reads what is not JSON too."""
  return _Scan(text, opening).read()


def _finite(number: str) -> float:
  value = float(number)
  if not math.isfinite(value):
    raise ValueError(number)
  return value


def _constant(name: str) -> float:
  raise ValueError(name)


_JSON = json.JSONDecoder(
  parse_float=_finite, parse_constant=_constant, strict=False
)


def _decoded(text: str, opening: str) -> tuple[Any, str] | None:
  """The same by Python's JSON decoder, much faster; None where it cannot."""
  # From the first bracket on; JSON's decoder ignores what follows the value.
  starts = [at for at in map(text.find, opening) if at >= 0]
  if not starts:
    return None, 'nothing'
  text = text[min(starts) :]
  # Python writes single quotes: without others in the text they are JSON's.
  if '"' not in text and '\\' not in text:
    text = text.replace("'", '"')
  try:
    value, end = _JSON.raw_decode(text)
  except (ValueError, RecursionError):
    return None
  if '\\u' in text:
    return None  # There may be halves of pairs, which the scan replaces.
  # Cheap first: few brackets cannot nest deeply.
  brackets = text.count('[', 0, end) + text.count('{', 0, end)
  if brackets > DEPTH and _deeper(value):
    return None, 'too_deep'
  return value, ''


def _deeper(value: Any) -> bool:
  """True for values that nest deeper than DEPTH."""
  # Level by level, not by recursion: replies may nest without bound.
  level = [value]
  for _ in range(DEPTH):
    level = [
      inner
      for outer in level
      for inner in (outer.values() if isinstance(outer, dict) else outer)
      if isinstance(inner, list | dict)
    ]
  return bool(level)


_WORDS = {'true': True, 'false': False, 'null': None}
_WORDS |= {'True': True, 'False': False, 'None': None}
_PAIRS = {'[': ']', '{': '}', '(': ')'}
_TOKEN = re.compile(
  r'\s*+(?:(?P<open>[\[{(])|(?P<close>[\]})])|(?P<mark>[,:])|(?P<quote>["\'])'
  r'|(?P<number>[-+]?(?:\d{1,300}+(?:\.\d{0,300}+)?|\.\d{1,300}+)'
  r'(?:[eE][-+]?\d{1,3})?)(?![\w.])'
  rf'|(?P<word>{"|".join(_WORDS)})\b)'
)
_END = re.compile(r'\s*+\Z')
# The rest of a string: a quote ends it where a mark, a closing bracket or the
# text's end follows.
_STRING = {
  quote: re.compile(
    rf'((?:[^{quote}\\]|\\.|{quote}(?!\s*+(?:[,:\]}})]|\Z)))*+){quote}',
    re.DOTALL,
  )
  for quote in '"\''
}
_ESCAPE = re.compile(
  r'\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})'
  r'|\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)',
  re.DOTALL,
)
_ESCAPES = {'n': '\n', 't': '\t', 'r': '\r', 'b': '\b', 'f': '\f', '\n': ''}


def _unescaped(escape: re.Match[str]) -> str:
  high, low, code = escape.groups()
  if high:
    return chr(
      0x10000 + ((int(high, 16) & 0x3FF) << 10) + (int(low, 16) & 0x3FF)
    )
  # A backslash before any other character stands for that character.
  if len(code) == 1:
    return _ESCAPES.get(code, code)
  value = int(code[1:], 16)
  return '\ufffd' if 0xD800 <= value < 0xE000 else chr(value)


class _Open:
  """A list, dict or tuple whose end has not been read."""

  def __init__(self, bracket: str, start: int) -> None:
    self.bracket, self.start = bracket, start
    self.keys: list[Any] = []
    self.items: list[Any] = []
    # What may come next: an item (or key), the colon after a key, or a comma.
    self.due = 'item'

  def value(self) -> Any:
    """Its content; a key without a value is dropped."""
    if self.bracket == '{':
      return dict(zip(self.keys, self.items, strict=False))
    return self.items

  def put(self, value: Any) -> bool:
    """Takes an item, or the key of one; False where none is due."""
    if self.due != 'item':
      return False
    if self.bracket == '{' and len(self.keys) == len(self.items):
      self.keys.append(value)
      self.due = ':'
      return not isinstance(value, list | dict)
    self.items.append(value)
    self.due = ','
    return True

  def mark(self, mark: str) -> bool:
    """Takes a comma or a colon; False where it is not due."""
    due, self.due = self.due, 'item'
    return due == mark

  def close(self, bracket: str) -> bool:
    """Takes a closing bracket; False where it does not fit."""
    # A dict may not end behind a key.
    whole = self.bracket != '{' or len(self.keys) == len(self.items)
    return _PAIRS[self.bracket] == bracket and whole


class _Scan:
  """Reads a text once, from its first bracket on.

  Where what is open turns out to be no literal, the first complete value inside
  of it counts; without one, reading goes on behind that place with nothing
  open. So each character is read a bounded number of times.
  """

  def __init__(self, text: str, opening: str) -> None:
    self._text, self._at, self._opening = text, 0, opening
    self._bracket = re.compile('[' + re.escape(opening) + ']')
    self._stack: list[_Open] = []
    # The first complete value inside of what is open: (its start, it).
    self._inner: tuple[int, Any] | None = None
    self._whole: Any = None
    self._failure = 'nothing'

  def read(self) -> tuple[Any, str]:
    """See first_literal."""
    while True:
      if not self._stack:
        start = self._bracket.search(self._text, self._at)
        if not start:
          return None, self._failure
        self._at = start.start()
      token = _TOKEN.match(self._text, self._at)
      if token and self._take(token):
        if not self._stack:
          return self._whole, ''
        continue
      if self._failure == 'too_deep':
        return None, 'too_deep'
      if self._failure == 'truncated' or (token is None and self._ends()):
        return self._rest(), 'truncated'
      if self._inner:
        return self._inner[1], ''
      # Nothing of what is open can be read: begin behind it.
      self._stack.clear()
      self._failure = 'malformed'
      self._at += token is None

  def _ends(self) -> bool:
    """True where the text ends at this place, perhaps within a word."""
    if _END.match(self._text, self._at):
      return True
    rest = self._text[self._at : self._at + 9].lstrip()
    ends = self._at + 9 > len(self._text)
    return ends and any(word.startswith(rest) for word in _WORDS)

  def _take(self, token: re.Match[str]) -> bool:
    """Takes a token; False where it cannot follow what was read."""
    kind, text = token.lastgroup, token[0].lstrip()
    if kind == 'open':
      return self._opened(text, token.end())
    top, self._at = self._stack[-1], token.end()
    if kind == 'close':
      return self._closed(text)
    if kind == 'mark':
      return top.mark(text)
    if kind == 'word':
      return top.put(_WORDS[text])
    if kind == 'quote':
      return self._string(text)
    if self._at == len(self._text):
      self._failure = 'truncated'  # More of its digits may have been cut off.
      return False
    value = float(text) if set(text) & set('.eE') else int(text)
    return math.isfinite(value) and top.put(value)

  def _opened(self, bracket: str, end: int) -> bool:
    if len(self._stack) >= DEPTH:
      self._failure = 'too_deep'
      return False
    if self._stack and self._stack[-1].due != 'item':
      return False  # It may begin a value of its own.
    self._at = end
    self._stack.append(_Open(bracket, end))
    return True

  def _closed(self, bracket: str) -> bool:
    top = self._stack[-1]
    if not top.close(bracket):
      return False
    self._stack.pop()
    self._whole = top.value()
    if not self._stack:
      return True
    # Of complete values inside, the one that begins first counts.
    earlier = self._inner is not None and self._inner[0] < top.start
    if not earlier and top.bracket in self._opening:
      self._inner = top.start, self._whole
    return self._stack[-1].put(self._whole)

  def _string(self, quote: str) -> bool:
    string = _STRING[quote].match(self._text, self._at)
    if not string:
      self._failure = 'truncated'
      return False
    self._at = string.end()
    value = string[1]
    if '\\' in value:
      value = _ESCAPE.sub(_unescaped, value)
    return self._stack[-1].put(value)

  def _rest(self) -> Any:
    """The complete part of a text that was cut off."""
    while len(self._stack) > 1:
      value = self._stack.pop().value()
      if value:
        self._stack[-1].put(value)
    return self._stack[0].value()


_NUMBERED = re.compile(r'\s*(\d{1,6})[.):]\s*(\S.*)')
_NUMBER = re.compile(r'[-+]?\d{1,30}(?:\.\d{0,30})?(?:[eE][-+]?\d{1,3})?')
_STRIPPED = ' \t\n.,;:!?*_"\'`'


class AnswerReader:
  """Reads answers of a language model, by the names of a world's tokens."""

  def __init__(self, names: Sequence[str]) -> None:
    """names: of all tokens, by id."""
    self._exact = {name: token for token, name in enumerate(names) if token}
    # Names that differ in case or in marks alone are read exactly or not.
    alike = collections.Counter(map(_plain, names))
    self._ids = {
      plain: token
      for name, token in self._exact.items()
      if alike[plain := _plain(name)] == 1
    }
    # Words of the longest name: more words than that are prose.
    self._longest = max(len(name.split()) for name in names)

  def read(self, question: Query, text: str) -> Answer:
    """The answer that a text gives to a question.

    Failures are those of `replies`, and 'unknown_name', a token's name that is
    none, or none of the choices.
    """
    if question.kind == queries.LABELS:
      return read_labels(question, text)
    if question.kind == queries.YES_NO:
      reading = yes_no(text)
      return Answer(reading.value, reading.failure, text=text)
    reading = after_answer(text, loose=True)
    if reading.failure == 'nothing' and len(text) < 200 and '\n' not in text:
      reading = visible(text)  # The answer alone.
    if reading.failure:
      return Answer(None, reading.failure, text=text)
    value: Tokens | int | None
    if question.kind == queries.ALL_NEXT:
      value = self._all(reading.value)
    else:
      value = self._one(reading.value, question.suffixes)
    return Answer(value, 'unknown_name' if value is None else '', text=text)

  def _token(self, name: str) -> int | None:
    token = self._exact.get(name.strip())
    return self._ids.get(_plain(name)) if token is None else token

  def _all(self, text: str) -> Tokens | None:
    """Tokens of a list, PAD for names of none; None where all are of none.

    What has more words than any name is prose, and left out.
    """
    # The first paragraph is the list; explanations follow it.
    text = text.split('\n\n')[0]
    if _plain(text) == verbal.NOTHING:
      return ()
    parts = text.replace('\n', ';').split(';')
    # Names may have commas: they separate only where nothing else does.
    if len(parts) == 1:
      parts = text.split(',')
    listed: set[int] = set()
    for part in parts:
      token = self._token(part)
      if token is not None:
        listed.add(token)
      elif 0 < len(_plain(part).split()) <= self._longest:
        listed.add(core.PAD)
    return tuple(sorted(listed)) if listed - {core.PAD} else None

  def _one(self, text: str, choices: tuple[Tokens, ...]) -> int | None:
    token = self._token(text.split('\n')[0])
    places = [k for k, (choice,) in enumerate(choices) if choice == token]
    return places[0] if places else None


def _plain(name: str) -> str:
  name = name.strip().removeprefix('- ').strip(_STRIPPED)
  return ' '.join(name.casefold().split())


def read_labels(question: Query, text: str) -> Answer:
  """A list of as many labels as were asked for, or numbered lines of them.

  Failures are those of `replies`, 'wrong_length', and 'unknown_label', what is
  no class, or no finite number.

  Returns:
    value: tuple of integers, or of M * d floats.
  """
  ((num, width, classes),) = question.suffixes
  seen = visible(text)
  if seen.failure:
    return Answer(None, seen.failure, text=text)
  # The list after the last "Answer:", or anywhere in the text.
  answer = after_answer(seen.value)
  words = seen.value if answer.failure else answer.value
  reading = first_value(words, opening='[')
  if isinstance(reading.value, list) and not reading.failure:
    labels = _flat(reading.value)
  elif reading.failure == 'nothing':
    labels = _bare_labels(words)
    if not labels:
      return Answer(None, answer.failure or 'nothing', text=text)
  else:
    return Answer(None, reading.failure or 'nothing', text=text)
  # num labels of `width` numbers each, flat.
  if len(labels) != num * width:
    return Answer(None, 'wrong_length', text=text)
  numbers = tuple(_label(label, classes) for label in labels)
  if None in numbers:
    return Answer(None, 'unknown_label', text=text)
  return Answer(numbers, text=text)


def _flat(values: Sequence[Any]) -> list[Any]:
  """A list of labels, or of lists of them."""
  labels: list[Any] = []
  for value in values:
    labels += value if isinstance(value, list) else [value]
  return labels


def _bare_labels(text: str) -> list[str]:
  """Labels without brackets: behind commas, or on lines that are numbered."""
  matches = [_NUMBERED.fullmatch(line) for line in text.splitlines()]
  numbered = [match for match in matches if match]
  if numbered and [int(match[1]) for match in numbered] == [
    *range(1, len(numbered) + 1)
  ]:
    return [match[2].rpartition(':')[2].strip(' .*') for match in numbered]
  parts = text.split('\n\n')[0].replace('\n', ',').split(',')
  return [part.strip(' .*') for part in parts if part.strip(' .*')]


def _label(value: Any, classes: int) -> float | int | None:
  """A class below `classes`, or any number where that is 0; None is neither."""
  if isinstance(value, str):
    if not _NUMBER.fullmatch(value.strip()):
      return None
    value = float(value)
  if isinstance(value, bool) or not isinstance(value, int | float):
    return None
  if classes:
    whole = 0 <= value < classes and value == int(value)
    return int(value) if whole else None
  return float(value) if abs(value) < 1e30 else None
