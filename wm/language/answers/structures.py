"""Reads replies with numbers or several things: counts, paths, lists, labels.

The text of a reply comes in; a `Reading` goes out, as of `replies`, which is to
be read first. Tasks of papers and `AnswerReader` call these readers.

Counts, seats, paths, lists of objects, numbers by step, labels. The text is
data: it is searched by expressions of bounded reach, and never executed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from wm.core import queries
from wm.core.queries import Answer, Query
from wm.language.answers.replies import (
  BRACKETED,
  DECLINES,
  DENIES,
  SENTENCE,
  SEVERAL,
  STRIPPED,
  Reading,
  Spellings,
  Unread,
  choice,
  listed,
  literals,
  read,
  visible,
  yes_no,
  yes_no_words,
)

# Counts and seats.

_NUMBERS = (
  *('zero', 'one', 'two', 'three', 'four', 'five', 'six'),
  *('seven', 'eight', 'nine', 'ten', 'eleven', 'twelve'),
)
# Not a part of 1,200 or 2.5.
_COUNT = (
  rf'\b(?<!\d[.,])(?:\d{{1,6}}|{"|".join(_NUMBERS)})\b'
  r'(?!,\d|\.\d{0,9}[1-9])'
)
_COUNTED = f'({_COUNT})'
# A count that is bounded, or denied: no number of things.
_VAGUE = re.compile(
  rf'\b(?:not|rather than|instead of|at (?:least|most)|(?:more|less|fewer) than'
  rf'|up to|either|between) {_COUNT}|{_COUNT} ?(?:or|to|[-\u2013]) ?{_COUNT}',
  re.IGNORECASE,
)


def _integer(word: str) -> int:
  return int(word) if word.isdigit() else _NUMBERS.index(word.lower())


def number(text: str, noun: str) -> Reading:
  """Reads a whole number of things, such as clusters.

  noun: of the things; a number before it goes before all others.

  Returns:
    value: int.
  """
  # No other number stands between both.
  things = rf'(?:(?!{_COUNT})[\w\s-]){{0,40}}?\b{noun}'
  counted = re.compile(_COUNTED + things, re.IGNORECASE)
  single = re.compile(_COUNTED, re.IGNORECASE)

  def parse(words: str, marked: bool) -> Any:
    """See read."""
    if marked:
      words = SENTENCE.split(words, maxsplit=1)[0]
    last = BRACKETED.sub(' ', words)
    values = {*counted.findall(last)}
    if not values and (marked or len(last) < 20):
      values = {*single.findall(last)}
    if len({*map(_integer, values)}) > 1 or (values and _VAGUE.search(last)):
      return SEVERAL
    return _integer(values.pop()) if values else None

  return read(text, parse)


_ORDER = ('first', 'second', 'third', 'fourth', 'fifth', 'sixth', 'seventh')
_RANK = rf'(?:(\d)(?:st|nd|rd|th)|({"|".join(_ORDER)})) (?:seat|place)\b'
# Not a distance, nor 'no one' or 'the one on the left'.
_NEAR = r'(?!\s+(?:seats?\s+)?(?:away|apart))'
_ANY = rf'(?<!no )(?<!the ){_COUNTED}{_NEAR}'
# A line on each seat, such as `Seat 1: Ann`.
_SEATING = re.compile(
  rf'^[^\w\n]*(?:seat|place|position) {_COUNTED}\s*[:=-]+\s*[^\W\d]',
  re.I | re.M,
)
_SEAT = (
  r'\b(?:seat(?:ed)?|place|position)'
  r'(?: (?:in|at|on|is|number|the|seat|position|place)){0,4}[ :#=(]{0,4}'
)


def seat(text: str, seats: int) -> Reading:
  """Reads the number of a seat, from 1 to `seats`.

  Of an answer that names seats only these count, else any number of its first
  line; without a mark, of a text of one line. A line with a denial has none.

  Returns:
    value: int.
  """
  named = re.compile(rf'{_SEAT}{_COUNTED}{_NEAR}', re.IGNORECASE)
  ranked = re.compile(_RANK, re.IGNORECASE)
  single = re.compile(_ANY, re.IGNORECASE)

  def numbers(line: str) -> list[int]:
    ranks = [
      int(digit) if digit else _ORDER.index(word.lower()) + 1
      for digit, word in ranked.findall(line)
    ]
    return [*map(_integer, named.findall(line)), *ranks]

  def parse(words: str, marked: bool) -> Any:
    """See read."""
    if len({*_SEATING.findall(words)}) > 1:
      return SEVERAL
    line, *more = words.split('\n')
    if not marked and (more or len(SENTENCE.split(words)) > 1):
      return None
    values = {*numbers(line)} or {*map(_integer, single.findall(line))}
    if not values and line.casefold().strip(STRIPPED) in _ORDER:
      values = {_ORDER.index(line.casefold().strip(STRIPPED)) + 1}
    if len(values) > 1:
      return SEVERAL
    inside = values and 1 <= min(values) <= seats and not DENIES.search(line)
    return values.pop() if inside else None

  return read(text, parse)


# Paths: nodes between commas, arrows, 'and', 'to' or new lines.


def _set(words: str) -> frozenset[str]:
  return frozenset(words.split())


UNKNOWN = -1  # An item that names no node.
_LONGEST, _MOST, _NAME = 100_000, 200, 3  # Characters, items, words of a name.
# 'The shortest path from A to B is A, B': only what comes behind it counts.
_INTRO = re.compile(
  r'\s{0,9}(?:(?:so|therefore|thus|hence|sure|here is|here\'s'
  r'|(?:(?:if you )?(?:start|begin|go)(?:n?ing)? )?(?:at|from|in) '
  r'(?:(?:the )?\w{1,20} )?\w{1,20}),?\s)?'
  r'(?:the(?:\s{1,3}\w{1,20}){0,3}\s{1,3}(?:path|route|order)\b'
  r'[^.:\n]{0,160}?(?:\b(?:is|are|(?:would|should|must) be)\b[:\s]|:\s)'
  r'|(?:[\w]{1,20}\s){0,2}(?:path|route):\s)(?:\s?as follows:)?',
  re.I,
)
# A new speaker, paragraph, sentence or labelled line ends an answer.
_NEXT = re.compile(
  r'\n\s{0,9}\n|\n\s{0,9}(?:user|assistant|human|step \d{1,3})\b'
  r'|\n\s{0,9}[a-z][\w ]{0,30}:\s'
  r'|(?<=[\w)])[.!?]\s(?=\s{0,9}[a-z])',
  re.I,
)
_BETWEEN = re.compile(
  r'[,;|\n]|[-=]{0,3}>{1,2}|\b(?:then|and|to)\b|[-\u2013\u2014](?=\s?\w)', re.I
)
_STEP = re.compile(r'\bto\b|>(?!>)')
_PART = re.compile(r"[\w']+")
# What a name may be wrapped in.
_AROUND = _set(
  'room rooms zone zones node nodes place field fields scholar scholars the '
  'a from start object objects flower flowers left right go goes going at '
  'begin starting finally lastly next move you we'
)
# What holds one of these and names no node is prose.
_PROSE = _set(
  'which who that this it is of with total reward path shortest route way '
  'goal collects because since takes for most'
)
_BEHIND = frozenset(('as', 'since', 'because', 'where', 'which'))
_HEDGES = frozenset(('or', 'either'))
# A number before one of these is no node.
_UNITS = _set('dollar dollars book books flower flowers reward points steps')
_JOINED = re.compile(r'\b(rooms?|zones?)(?=\d)', re.I)
_NUMBERED = re.compile(r'\s*(\d{1,6})[.):]\s*(\S.*)')


class NodeReply(NamedTuple):
  """The nodes that an answer names.

  Attributes:
    nodes: in order; UNKNOWN where an item names none.
    hedged: does an item name alternatives?
  """

  nodes: tuple[int, ...]
  hedged: bool = False


def path(text: str, names: Mapping[str, int]) -> Reading:
  """Reads nodes in order.

  names: name in small letters -> node.

  Returns:
    value: NodeReply.
  """

  def parse(words: str, marked: bool) -> NodeReply | None:
    """See read."""
    if marked:
      reply = _behind_intro(_beginning(words), names)
      return reply if reply.nodes else None
    # A sentence of nodes, and of words around them or in front of them.
    plain = set(_PART.findall(words.lower())) <= _AROUND | names.keys()
    if plain or (_INTRO.match(words) and len(SENTENCE.split(words)) == 1):
      reply = _behind_intro(words, names)
      return reply if reply.nodes and UNKNOWN not in reply.nodes else None
    return None

  return read(text[-_LONGEST:], parse)


def _beginning(words: str) -> str:
  """A passage without what follows an answer."""
  paragraph = _unnumbered(words.split('\n\n')[0])
  return _NEXT.split(paragraph, maxsplit=1)[0].strip()


def _unnumbered(words: str) -> str:
  """Lines without their numbers, where these are 1, 2, ... of two or more."""
  lines = [line for line in words.split('\n') if line.strip()]
  matches = [_NUMBERED.fullmatch(line) for line in lines]
  whole = [match for match in matches if match]
  num = len(whole)
  if num < 2 or [int(m[1]) for m in whole] != [*range(1, num + 1)]:
    return words
  return '\n'.join(match[2] for match in whole)


def _behind_intro(part: str, names: Mapping[str, int]) -> NodeReply:
  intro = _INTRO.match(part)
  if intro:
    reply = _nodes(part[intro.end() :], names)
    if any(node != UNKNOWN for node in reply.nodes):
      return reply
  return _nodes(part, names)


def _nodes(part: str, names: Mapping[str, int]) -> NodeReply:
  whole = part.strip(' .')
  if whole[:1] + whole[-1:] in ('()', '[]'):
    part = whole[1:-1]
  part = _JOINED.sub(r'\1 ', BRACKETED.sub(' ', part))
  nodes: list[int] = []
  hedged = False
  for item in _BETWEEN.split(part, maxsplit=_MOST)[:_MOST]:
    words = [word.lower() for word in _PART.findall(item)]
    hedged |= not _HEDGES.isdisjoint(words)
    node = _node(words, names)
    if node is not None:
      nodes.append(node)
  # 'A to B, B to C' is A, B, C.
  steps = len(_STEP.findall(part))
  if len(nodes) == 2 * steps > 2 and nodes[1:-1:2] == nodes[2::2]:
    nodes = nodes[::2] + nodes[-1:]
  return NodeReply(tuple(nodes), hedged)


def _node(words: list[str], names: Mapping[str, int]) -> int | None:
  """The node that the words of an item name; None where they name nothing."""
  nodes: list[int] = []
  before: list[int] = []  # Those in front of 'is'.
  rest = 0
  for k, word in enumerate(words):
    node = names.get(word.removesuffix("'s"))
    is_number = word.isdigit()
    if is_number and words[k + 1 : k + 2] and words[k + 1] in _UNITS:
      continue
    if node is None and is_number and '1' in names:
      node = UNKNOWN
    if node is not None and is_number and k and words[k - 1] not in _AROUND:
      node = None
    if node is not None:
      nodes.append(node)
    elif word in _BEHIND and nodes:
      break
    elif word == 'is':
      before, nodes = nodes or before, []  # 'The path from A is B': only B.
    elif word not in _AROUND and not is_number:
      rest += 1
  nodes = nodes or before
  if len(set(nodes)) == 1:
    return nodes[0]
  if nodes:
    return UNKNOWN
  return UNKNOWN if 0 < rest <= _NAME and _PROSE.isdisjoint(words) else None


# Values: moves, numbers by step, labels.


def _values(text: str, opening: str) -> tuple[list[Any], str, int]:
  """(values in brackets, the failure of the last brackets, reasoning)."""
  seen = visible(text)
  if seen.failure:
    return [], seen.failure, seen.reasoning
  values, failure = [], 'nothing'
  for literal in literals(seen.value, opening):
    failure = literal.failure
    if literal.value is not None:
      values.append(literal.value)
  if failure == 'nothing' and DECLINES.match(seen.value):
    failure = 'refused'
  return values, failure, seen.reasoning


def records(text: str, fits: Callable[[Any], str]) -> Reading:
  """Reads a list of objects, as JSON or Python write it: the last that fits.

  A list may be within an object, and objects may stand in lines of their own.

  fits: of a list '', or why it is none of these; the last such reason is the
    failure of a text without a list that fits.

  Returns:
    value: list.
  """
  values, failure, reasoning = _values(text, '[')
  if not values and failure != 'truncated' and not text.isascii():
    text = text.translate(_QUOTES)
    values, failure, reasoning = _values(text, '[')
  if failure != 'truncated':
    for value in reversed(values):
      failure = fits(value)
      if not failure:
        return Reading(value, '', reasoning)
    objects, broken, _ = _values(text, '{')
    if objects and not broken and not fits(objects):
      return Reading(objects, '', reasoning)
  return Reading(None, failure, reasoning)


_QUOTES = dict.fromkeys(map(ord, '\u2018\u2019'), "'")
_QUOTES |= dict.fromkeys(map(ord, '\u201c\u201d'), '"')
_POWERS = str.maketrans(
  '\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207b\u2212',
  '0123456789--',
)
_TEN = re.compile(
  r'\s?(?:\u00d7|\\times|x|\*)\s?10\s?(?:\^|\*\*)?(?:\{(-?\d{1,3})\}|(-?\d{1,3}))'
)


def numbers(text: str, steps: int) -> Reading:
  """Reads numbers by step from 0: the last object, or list of so many.

  Returns:
    value: dict of str and whatever is there; of a 'truncated' one the complete
      items.
  """
  text = _TEN.sub(r'e\1\2', text.translate(_QUOTES).translate(_POWERS))
  values, failure, reasoning = _values(text, '[{')
  cut = failure if failure == 'truncated' else ''
  for value in values[-1:] if cut else reversed(values):
    while isinstance(value, dict) and len(inner := _inner(value)) == 1:
      (value,) = inner
    if isinstance(value, dict) and any(
      key.strip().isdecimal() for key in value
    ):
      return Reading(value, cut, reasoning)
    if isinstance(value, list) and len(value) == steps:
      return Reading({str(n): x for n, x in enumerate(value)}, cut, reasoning)
  return Reading(None, failure or 'nothing', reasoning)


def _inner(value: dict[str, Any]) -> list[Any]:
  return [x for x in value.values() if isinstance(x, dict | list)]


# An item of a numbered list, to the next one or a blank line; items may stand
# on one line, in JSON, or repeat the keyword of an answer.
_NEXT_ITEM = re.compile(
  r'(?:[,;|]\s*|(?<=[\w.])[ \t]+)(?=["\'(]?\d{1,3}["\')]?[.):])'
)
_AFTER_ITEM = ' \t\n|"\']})'  # Of tables and JSON.
_BARE = re.compile(r'(?:\W*\b(?:yes|no)\b)+\W*', re.IGNORECASE)
_LIST_ITEM = re.compile(
  r'^[^\w\n]{0,9}(?:(?:item|question|continuation|no\.|q|#)\s?)?(\d{1,3})'
  r'\s?[.):\]|"\'-][^\w\n]{0,9}((?:[^\n]|\n(?!\n|[^\w\n]{0,9}\d{1,3}\W)){0,2000})',
  re.IGNORECASE | re.MULTILINE,
)
_ITEM_MARK = re.compile(
  r'^(\W{0,9}\d{1,3}[.):]\W{0,4})(?:(?:the )?answer|reply)(?: is\b|\W{0,3}:)',
  re.IGNORECASE | re.MULTILINE,
)


def yes_no_list(text: str, num: int) -> Reading:
  """Reads a numbered list of yes and no.

  Of several lists that begin with 1 the last one counts. An item that is
  missing, doubled or unread has no answer; so have all if there are more than
  `num`. A list without numbers is read if it has `num` items, each yes or no.

  Returns:
    value: tuple of `num` bool or None; beside None the failure is 'nothing'.
  """

  def parse(words: str, marked: bool) -> Any:
    """See read."""
    del marked
    values: dict[int, bool | None] = {}
    # text  1. I look.  2. I see.  ...  1. Yes.  2. No.
    #       a list of steps             another list, as it begins with 1
    lists = [values]
    for number, rest in _LIST_ITEM.findall(_NEXT_ITEM.sub('\n', words)):
      if int(number) == 1:
        lists.append(values := {})
      value = yes_no_words(rest.rstrip(_AFTER_ITEM), marked=False)
      if value is None:  # Behind the words of the question: `1. north: yes`.
        answer = rest.rstrip(_AFTER_ITEM).rpartition(':')[2]
        value = yes_no_words(answer, marked=False)
      # Which of two answers to one item counts, nobody can say.
      single = isinstance(value, bool) and int(number) not in values
      values[int(number)] = value if single else None
    # Steps of reasoning have numbers too, but neither yes nor no.
    values = next((x for x in lists[::-1] if {*x.values()} - {None}), {})
    # Their order tells which is which, only if there are as many as items.
    if not values and _BARE.fullmatch(words):
      bare = re.findall(r'yes|no', words.lower())
      values = {k: word == 'yes' for k, word in enumerate(bare, 1)}
      return tuple(values.values()) if len(values) == num else None
    if not values:
      return None
    # Numbers that are not those of the prompt may be of other questions.
    if 1 not in values or max(values) > num:
      return Unread('wrong_length')
    return tuple(values.get(number) for number in range(1, num + 1))

  # `1. Answer: yes` would be taken for the answer to everything.
  reading = read(_ITEM_MARK.sub(r'\1', text), parse)
  unread = not reading.failure and None in reading.value
  return reading._replace(failure='nothing') if unread else reading


NUMBER = re.compile(r'[-+]?\d{1,30}(?:\.\d{0,30})?(?:[eE][-+]?\d{1,3})?')


def labels(text: str, num: int, width: int, classes: int) -> Reading:
  """Reads a list of labels, or numbered lines of them.

  Failures are also 'wrong_length', and 'unknown_label', what is no class, or no
  finite number.

  Args:
    text: any.
    num: of labels.
    width: numbers of each.
    classes: that labels are below; 0: labels are any numbers.

  Returns:
    value: tuple of integers, or of num * width floats.
  """

  def parse(words: str, marked: bool) -> Any:
    """See read."""
    parsed = [
      literal
      for literal in literals(words, '[(')
      if not literal.failure or words[literal.start] == '['
    ]
    if parsed and parsed[-1].failure:
      return Unread(parsed[-1].failure)
    if parsed:
      items = _flat(parsed[-1 if not marked else 0].value)
    elif marked or '\n' not in words:
      items = _bare_labels(words)
    else:
      return None
    if not items or (not marked and not parsed and len(items) != num):
      return None
    if len(items) != num * width:
      return Unread('wrong_length')
    values = tuple(_label(item, classes) for item in items)
    return Unread('unknown_label') if None in values else values

  return read(text, parse)


def _flat(values: Sequence[Any]) -> list[Any]:
  """A list of labels, or of lists of them."""
  items: list[Any] = []
  for value in values:
    items += value if isinstance(value, list) else [value]
  return items


def _bare_labels(text: str) -> list[str]:
  """Labels without brackets: behind commas, or on lines that are numbered."""
  lines = _unnumbered(text)
  if lines != text:
    parts = [line.rpartition(':')[2] for line in lines.split('\n')]
  else:
    parts = re.split('[,;\n]', BRACKETED.sub(' ', text.split('\n\n')[0]))
  return [part.strip(' .*') for part in parts if part.strip(' .*')]


def _label(value: Any, classes: int) -> float | int | None:
  """A class below `classes`, or any number where that is 0; None is neither."""
  if isinstance(value, str):
    if not NUMBER.fullmatch(value.strip()):
      return None
    value = float(value)
  if isinstance(value, bool) or not isinstance(value, int | float):
    return None
  if classes:
    whole = 0 <= value < classes and value == int(value)
    return int(value) if whole else None
  return float(value) if abs(value) < 1e30 else None


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
    if question.kind == queries.LABELS:
      return labels(text, *question.suffixes[0])
    if question.kind == queries.YES_NO:
      return yes_no(text)
    if question.kind == queries.YES_NO_LIST:
      return yes_no_list(text, len(question.suffixes))
    if question.kind == queries.ALL_NEXT:
      return listed(text, self._names)
    places = {
      self._spoken[token]: k for k, (token,) in enumerate(question.suffixes)
    }
    return choice(text, Spellings(places))
