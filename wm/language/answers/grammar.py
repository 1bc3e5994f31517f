r"""Reads the answer of a reply, by a grammar for each kind of answer.

The text of a reply comes in; a `Reading` goes out, as of `replies`, which finds
the passage that answers. A grammar explains each candidate's name, verdict and
correction in that passage, or the reply is unread:

  north (to the market); east: blocked; not west        This is short.
  name   aside           name  verdict  denial, name    remark: no name

Yes or no, one of some names, lists of names with or without verdicts; `values`
has the other grammars. `AnswerReader` chooses one for a question. The text is
data: it is searched by expressions of bounded reach, and never executed.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wm import core
from wm.core import queries
from wm.core.queries import Answer, Query
from wm.language.answers.replies import (
  NO,
  STRIPPED,
  YES,
  Reading,
  Unread,
  key_words,
  lex,
  read,
  refuse,
  sets,
  short,
)

# Yes or no.


def _side(name: str, yes: bool) -> re.Pattern[str]:
  return getattr(lex, f'{name}_{"yes" if yes else "no"}')


def yes_no_words(text: str, marked: bool) -> Any:
  """Yes or no as the word that a passage begins with, as bool; or None."""
  lines = [lex.checked.fullmatch(x) for x in text.split('\n')] if text else []
  if len(lines) > 1 and all(lines):
    checks = [(m[1] or m[4], m[2] or m[3]) for m in lines if m]
    chosen = [word.lower() == 'yes' for check, word in checks if check == YES]
    return chosen[0] if len(chosen) == 1 else None
  match = lex.yes_or_no.match(text)
  if match is None:
    return None
  word = match['word'].lower()
  verdict = lex.verdict.fullmatch(word)
  if verdict is None:
    return None
  yes = verdict['no'] is None
  if not marked and _side('turns', yes).search(text, match.end()):
    raise Unread('several')
  whole = lex.explanation.split(text[match.end() :], maxsplit=1)[0]
  other = _side('other', yes).search(whole)
  refuse(other and not lex.condition.search(text[match.end() :]), 'several')
  if not yes and not word.isalpha():
    return yes
  plain = word in ('yes', 'yep', 'yeah', 'ja', 'oui') or not word.isascii()
  return yes if plain or lex.clause.match(text, match.end()) else None


def yes_no(text: str) -> Reading:
  """Reads yes or no: the word that the answer begins with.

  A text without a mark that goes on with a 'but', a 'so' or another answer is
  'both'.

  Returns:
    value: bool.
  """
  reading = read(text, yes_no_words)
  both = reading.failure == 'several'
  return reading._replace(failure='both') if both else reading


# Names of candidates.


class Spellings:
  """Names that an answer may hold, each read in several spellings.

  A name is read without regard to case, articles, hyphens and marks around it,
  where no other name is alike; 'go north' and 'n' are north where that is a
  name.
  """

  def __init__(self, names: Mapping[str, int]) -> None:
    """names: name -> what it stands for."""
    self._exact = dict(names)
    alike = collections.Counter(map(_key, names))
    self._ids = {
      key: place
      for name, place in names.items()
      if alike[key := _key(name)] == 1
    }
    # Words of the longest name: more words than that are prose.
    self.longest = max((len(name.split()) for name in names), default=0)

  def exactly(self, text: str) -> int | None:
    """What all of a text names, in one of its spellings."""
    text = text.strip()
    if text in self._exact:
      return self._exact[text]
    key = _key(text)
    for spelling in (key, unabridged(key), key_words(text)):
      if spelling in self._ids:
        return self._ids[spelling]
    return None

  def item(self, text: str) -> int | None:
    """What a text names that may be numbered, or go on with an aside."""
    if text in self._exact or not self._exact:
      return self._exact.get(text)
    text = ' '.join(text.split())
    head = lex.item_begin.match(text)
    line = text[head.end() :] if head else text
    for part in (text, line, lex.bracketed.sub(' ', line)):
      for words in (part, lex.aside.split(part, maxsplit=1)[0]):
        token = self.exactly(words)
        if token is not None:
          return token
    return None

  def spans(self, text: str) -> list[tuple[int, int, int]]:
    """(start, end, what it stands for) of each name in a text, the longest."""
    words = [*lex.name_word.finditer(text)]
    out, at = [], 0
    while at < len(words):
      step = 1
      for num in range(min(self.longest, len(words) - at), 0, -1):
        start, end = words[at].start(), words[at + num - 1].end()
        token = self._ids.get(_key(text[start:end]))
        if token is not None:
          out.append((start, end, token))
          step = num
          break
      at += step
    return out


def unabridged(action: str) -> str:
  """A direction without its verb, and in full: 'north' of 'go n'."""
  bare = lex.verb.sub('', action)
  return short.get(bare, bare)


def _key(name: str) -> str:
  name = name.casefold().strip(STRIPPED).replace('-', '').replace('_', ' ')
  return lex.article.sub('', ' '.join(name.split()))


def claims(text: str, names: Spellings) -> dict[int, bool]:
  """What a clause takes and rejects of the names in it.

  'Not A but B', 'A rather than B, C' and 'A (impossible)' are understood.

  Raises:
    Unread: it doubts, or has words that are not explained.
  """
  spans = names.spans(text)
  out: dict[int, bool] = {}
  takes, instead, end = True, False, 0
  for k, (start, stop, token) in enumerate(spans):
    gap = text[end:start].lower()
    if lex.why.search(gap) and True in out.values():
      break
    refuse(lex.doubts.search(gap), 'unclear')
    turns = ',' in gap and instead and True not in out.values()
    if turns or re.search(r'\bbut\b', gap):
      takes = True
    full = gap = re.sub(r'\bbut\b', '', gap)
    lead = re.split('[,;]', gap)[-1] if k == 0 or ',' in gap else ''
    match = lex.verdict.search(lead)
    refuse(takes and k and re.search(r'\b(?:or|to)\b', gap), 'several')
    gap = lex.joins.sub('', lead)
    if lex.scope.search(lead or full) or (match and match['no']):
      takes, instead = False, 'rather' in full or 'instead' in full
    elif takes and not match and not _plain(gap):
      raise Unread('unclear')
    after = spans[k + 1][0] if k + 1 < len(spans) else len(text)
    verdict = _tail(text[stop:after], takes)
    value = takes if verdict is None else verdict and takes
    refuse(out.setdefault(token, value) != value, 'unclear')
    end = stop
  return out


def _plain(words: str) -> bool:
  """Nothing but words that change nothing?"""
  words = lex.item_begin.sub(' ', words)
  return {x.lower() for x in lex.name_word.findall(words)} <= sets['fillers']


def _tail(words: str, taken: bool = True) -> bool | None:
  """The verdict that follows a name; None without one.

  Raises:
    Unread: what follows doubts, or is not explained.
  """
  rest = words.strip(' \t:=->()[]"\'.,;\u2013\u2014')
  rest = re.sub(r'^(?:is|are|it is)\s', '', rest)
  if rest.lower() in ('1', '0', 'y', 'n'):
    return rest.lower() in ('1', 'y')
  match = lex.verdict.match(rest)
  if match and match[0] == 'no' and not lex.clause.match(rest, match.end()):
    return None  # 'No other street leads there.'
  refuse(lex.doubts.search(words) or re.search(r'\bdepend', rest), 'unclear')
  if match is None:
    aside = re.match(
      r'\s*(?:[(,;:.\u2013\u2014\n-]|(?:because|since|as|which|to)\b|$)', words
    )
    denied = taken and lex.denies.search(re.split(r'[,;]|\bbut\b', words)[0])
    if denied and not lex.why.search(words):
      if re.search(rf'\bis (?:not|wrong)\b|{NO}', words):
        return False
      refuse(not lex.scope.search(words), 'unclear')
    if not aside and not _plain(
      re.sub(
        r'\b(?:but|and|or|nor)\b',
        '',
        lex.why.split(lex.scope.split(rest)[0])[0],
      )
    ):
      raise Unread('unclear')
    return None
  yes = match['no'] is None
  others = [m for m in lex.verdict.finditer(rest, match.end())]
  if '->' in rest or any((m['no'] is None) != yes for m in others):
    raise Unread('unclear')
  return yes


def _remarks(text: str, verdicts: Mapping[int, bool], names: Spellings) -> None:
  """Holds what follows an answer against it.

  Raises:
    Unread: it names a candidate, and neither rejects it nor gives a reason.
  """
  for sentence in lex.sentence.split(text):
    refuse(lex.more.search(sentence), 'incomplete')
    spans = [
      token
      for start, end, token in names.spans(sentence)
      if sentence[start:end].lower() not in sets['common']
      and not lex.place_begin.search(sentence[max(start - 9, 0) : start])
    ]
    refuse(spans and lex.condition.search(sentence), 'unclear')
    if not spans or lex.why.search(sentence):
      continue
    verdicts_said = [m['no'] for m in lex.verdict.finditer(sentence)]
    denies = lex.denies.search(sentence) or any(verdicts_said)
    accepted = [token for token in spans if verdicts.get(token)]
    if bool(denies) == bool(accepted) or (accepted and len({*spans}) > 1):
      raise Unread('unclear')


def choice(text: str, names: Spellings) -> Reading:
  """Reads one of several names, which the answer begins with.

  Returns:
    value: what it stands for.
  """

  def parse(words: str, marked: bool) -> Any:
    """See read."""
    if not marked and len(words) > _LINE_LENGTH:
      return None
    if item := lex.item_begin.match(words):
      words = words[item.end() :] or words
    first = lex.sentence.search(words)
    head = words[: first.start()] if first else words
    rest = words[first.end() :] if first else ''
    whole = names.exactly(head) if '\n' in words else names.item(words)
    listed_verdicts = _checked(words, names)
    if listed_verdicts is not None:
      verdicts, rest = listed_verdicts, ''
    elif len(head) > _LINE_LENGTH:
      return None
    elif marked and '->' in head and lex.verdict.search(head):
      raise Unread('unclear')
    elif marked or whole is not None or lex.labelled_next.match(head):
      exact = names.exactly(head)
      verdicts = {exact: True} if exact is not None else claims(head, names)
    else:
      return None
    taken = [token for token, yes in verdicts.items() if yes]
    refuse(len(taken) > 1, 'several')
    if not taken:
      raise Unread('unclear' if verdicts else 'unknown_name')
    _remarks(rest, verdicts, names)
    return taken[0]

  return read(text, parse)


_LINE_LENGTH = 2000  # Characters of a line with a choice, at most.


def _checked(words: str, names: Spellings) -> dict[int, bool] | None:
  """The candidates of a list that has a verdict on each of several."""
  if '\n' not in words and ';' not in words:
    return None
  try:
    verdicts = _verdicts(words.split('\n\n')[0], names)
  except Unread:
    return None
  if len(verdicts) < 2 or None in verdicts.values():
    return None
  return {token: bool(yes) for token, yes in verdicts.items()}


def listed(text: str, names: Spellings) -> Reading:
  """Reads a list of names, divided by semicolons, lines or commas.

  A name that has a verdict counts by it. What has more words than any name is
  prose, and left out.

  Returns:
    value: sorted tuple of what they stand for, PAD for names of none; () of
      the word 'nothing'.
  """

  def parse(words: str, marked: bool) -> Any:
    """See read."""
    first, *rest = words.split('\n\n')
    if not marked and rest and not names.spans(first):
      first, *rest = rest[-1], *rest[:-1]
    if first.strip() == '[]' or lex.nothing.fullmatch(_key(first)):
      return ()
    lines = first.split('\n')
    asides = [*filter(lex.labelled_aside.match, lines)]
    first = '\n'.join(line for line in lines if line not in asides)
    verdicts = _verdicts(first, names)
    if not marked and (core.PAD in verdicts or not verdicts):
      return None
    refuse(not verdicts, 'nothing')
    values = {*verdicts.values()}
    refuse(True in values and None in values, 'unclear')
    taken = {token: yes is not False for token, yes in verdicts.items()}
    for paragraph in asides + rest:
      _remarks(paragraph, taken, names)
    tokens = tuple(sorted(token for token, yes in taken.items() if yes))
    refuse(marked and tokens == (core.PAD,), 'unknown_name')
    if not tokens and (lex.scope.search(first) or 'cannot' in first):
      raise Unread('unclear')
    return tokens

  return read(text, parse)


def _verdicts(words: str, names: Spellings) -> dict[int, bool | None]:
  """Names of a list -> accepted or not; None where nothing is said of it."""
  out: dict[int, bool | None] = {}
  section: bool | None = None
  for line in words.split('\n'):
    for sentence in re.split(r'(?<=[^\W\d)])[.!]\s+', line):
      for part in _parts(sentence, names):
        section, part = _heading(part, names, section)
        for token, yes in _item(part, names).items():
          yes = section if yes is None else yes
          if token != core.PAD and out.setdefault(token, yes) is not yes:
            raise Unread('unclear')
          out[token] = yes
  return out


def _parts(sentence: str, names: Spellings) -> Iterator[str]:
  """The items of a sentence."""
  for part in filter(str.strip, sentence.split(';')):
    head, colon, rest = part.partition(':')
    whole = names.exactly(part) is not None
    if not whole and colon and not names.spans(head):
      yield head + colon
      part, whole = rest, names.exactly(rest) is not None
    spans = names.spans(part)
    several = len(spans) > 1 or ';' not in sentence
    single = spans and _aside(part[spans[0][1] :], names)
    if (
      whole or not spans or not several or single or lex.splits_not.search(part)
    ):
      yield part
    else:
      yield from filter(str.strip, lex.commas.split(part))


def _heading(
  part: str, names: Spellings, section: bool | None
) -> tuple[bool | None, str]:
  """(the verdict of the section that a part begins or is in, what remains)."""
  head, colon, rest = part.partition(':')
  if not colon or rest.strip() or names.spans(head):
    return section, part
  words = key_words(head)
  match = lex.verdict.search(words)
  if match is None and (lex.denies.search(words) or lex.doubts.search(words)):
    raise Unread('unclear')
  return (match['no'] is None if match else None), rest


def _item(part: str, names: Spellings) -> dict[int, bool | None]:
  """Names of an item -> the verdict on it, or None; prose has none."""
  part = part.strip()
  exact = names.exactly(part)
  if exact is not None:
    return {exact: None}
  refuse(lex.more.search(part), 'incomplete')
  if not lex.says.search(part):
    return {}
  item = lex.item_begin.match(part)
  body = part[item.end() :] if item else part
  exact = names.exactly(body)
  if exact is not None:
    return {exact: None}
  spans = names.spans(body)
  if not spans:
    return _unnamed(body, names)
  refuse(lex.all_but.search(body), 'unclear')
  refuse(re.search(r'\b(?:while|whereas)\b', body), 'unclear')
  plural = re.search(r'\bare (?:all |both |also )?(.*)', body)
  if plural and (match := lex.verdict.match(plural[1])):
    return {token: match['no'] is None for *_, token in spans}
  others = {x[2] for x in spans[1:]} - {spans[0][2]}
  aside = _aside(body[spans[0][1] :], names)
  if others and not aside:
    verdicts = claims(body, names)
    return {k: None if yes else False for k, yes in verdicts.items()}
  start, end, token = spans[0]
  before = body[:start]
  mark = lex.verdict.fullmatch(before.strip(STRIPPED + '-'))
  tail = body[end:]
  if not mark and (lex.denies.search(before) or lex.verdict.search(before)):
    return {token: False}
  if not mark and not _plain(before):
    if lex.denies.search(tail):
      return {token: False}
    raise Unread('unclear')
  if others:  # The remark is about them.
    denied = lex.denies.search(tail)
    return {token: None, **dict.fromkeys(others if denied else (), False)}
  verdict = _tail(tail)
  if verdict is None and lex.says.search(tail) and not lex.leads.search(tail):
    raise Unread('unclear')  # 'East: a wall' is a verdict in other words.
  refuse(lex.denies.search(tail) if verdict is None else mark, 'unclear')
  return {token: mark['no'] is None if mark else verdict}


def _aside(tail: str, names: Spellings) -> bool:
  """Is what follows a name a remark, whatever it names?"""
  begins = re.match(r'\s*(?:[\u2013\u2014-]|->|because|since|as|which)', tail)
  words = tail
  for start, end, _ in names.spans(tail)[::-1]:
    words = words[:start] + words[end:]
  verdicts = {m[0] for m in lex.verdict.finditer(words)} - {'no'}
  prose = len(lex.name_word.findall(words)) > 1 and not verdicts
  whole = lex.bracketed.fullmatch(tail.strip(' .;,'))
  items = any(
    tail[:start].rstrip()[-1:] in (',', ';')
    for start, _, _ in names.spans(tail)
  )
  alone = begins and prose and not items
  return bool(whole or alone) and not re.search(r'\bor\b', words)


def _unnamed(body: str, names: Spellings) -> dict[int, bool | None]:
  words = _key(body).split()
  if lex.doubts.search(body) or re.search(r'\ball but|\bexcept', body):
    raise Unread('unclear')
  if re.search(r'(?<!is )\b(?:all|every|everything|any)\b', body, re.I):
    if lex.denies.search(body):
      return {}
    raise Unread('unclear')
  refuse(lex.verdict.fullmatch(body.strip(STRIPPED)), 'unclear')
  if len(words) > names.longest or lex.verdict.search(body):
    return {}
  return {core.PAD: None}


class AnswerReader:
  """Reads answers of a language model, by the names of a world's tokens."""

  def __init__(self, spoken: Sequence[str]) -> None:
    """spoken: names of all tokens, by id."""
    self._spoken = spoken
    self._names = Spellings({name: k for k, name in enumerate(spoken) if k})

  def read(self, question: Query, text: str) -> Answer:
    """The answer that a text gives to a question; failures are of FAILURES."""
    reading = self._reading(question, text)
    return Answer(reading.value, reading.failure, text=text)

  def _reading(self, question: Query, text: str) -> Reading:
    if question.kind == queries.YES_NO:
      return yes_no(text)
    if question.kind == queries.ALL_NEXT:
      return listed(text, self._names)
    places = {
      self._spoken[token]: k for k, (token,) in enumerate(question.suffixes)
    }
    return choice(text, Spellings(places))
