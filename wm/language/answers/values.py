"""Reads numbers and sequences of a reply: counts, paths.

As `grammar`, for answers that are no choice among candidates: an answer that
leaves something out, doubts or has an alternative is unread.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from wm.language.answers.replies import (
  LONGEST,
  Reading,
  Unread,
  fields,
  lex,
  lists,
  literals,
  read,
  refuse,
  sets,
  tables,
  visible,
)


def _kept(words: str) -> str:
  """A clause without what it rejects."""
  return lex.rejected.sub(' ', words)


def _integer(word: str) -> int:
  return int(word) if word.isdigit() else lists['numbers'].index(word.lower())


def number(text: str, noun: str) -> Reading:
  """Reads a whole number of things, such as clusters.

  noun: of the things; a number before it goes before all others.

  Returns:
    value: int.
  """
  # No other number stands between both.
  count = lex.counted.pattern
  things = rf'(?:(?!{count[1:-1]})[\w\s-]){{0,40}}?\b{noun}'
  counted = re.compile(count + things, re.IGNORECASE)

  def parse(words: str, marked: bool) -> Any:
    """See read."""
    if marked:
      words = lex.sentence.split(words, maxsplit=1)[0]
    last = _kept(lex.bracketed.sub(' ', words))
    values = {*counted.findall(last)}
    if not values and (marked or len(last) < 20):
      values = {*lex.counted.findall(last)}
    vague = lex.vague.search(last) or lex.doubts.search(words)
    if marked:
      vague = vague or lex.reckoned.search(last)
    refuse(len({*map(_integer, values)}) > 1 or (values and vague), 'several')
    return _integer(values.pop()) if values else None

  return read(text[-LONGEST:], parse)


UNKNOWN = -1  # An item that names no node.

_MOST, _NAME = 200, 3  # Items, words of a name.


def path(text: str, names: Mapping[str, int]) -> Reading:
  """Reads nodes in order.

  names: name in small letters -> node.

  Returns:
    value: tuple of them; UNKNOWN where an item names none.
  """

  def parse(words: str, marked: bool) -> tuple[int, ...] | None:
    """See read."""
    part = _beginning(words, names)
    if part and marked:
      return _behind_intro(part, names) or None
    # A sentence of nodes, and of words around them or in front of them.
    intro = lex.intro.match(words)
    rest = _unnumbered(_kept(words[intro.end() :] if intro else words))
    if _named(rest, names) or (intro and len(lex.sentence.split(words)) == 1):
      nodes = _behind_intro(rest if '\n' in rest else words, names)
      return nodes if nodes and UNKNOWN not in nodes else None
    return None

  return read(text[-LONGEST:], parse)


def _named(words: str, names: Mapping[str, int]) -> bool:
  """Has a text nothing but names and what may stand around them?"""
  return set(lex.part.findall(words.lower())) <= sets['around'] | names.keys()


def _named_in(words: str, names: Mapping[str, int]) -> bool:
  return any(word in names for word in lex.part.findall(words.lower()))


def _beginning(words: str, names: Mapping[str, int]) -> str:
  """A passage without what follows an answer, and what it rejects.

  Raises:
    Unread: it leaves something out, or has alternatives.
  """
  paragraph = _unnumbered(words.split('\n\n')[0])
  part = lex.next.split(paragraph, maxsplit=1)[0].strip()
  lines = part.split('\n')
  # A list in one line is followed by remarks; of a line each, they are longer.
  if len(_nodes(lines[0], names)) > 1:
    num = next(
      (k for k, x in enumerate(lines) if not _named(x, names)), len(lines)
    )
    lines = lines[: max(num, 1)]
  else:
    short = [
      x for x in lines if len(x.split()) < 9 and not lex.states.search(x)
    ]
    lines = lines if len(lines) == 1 else short
  rest = words[words.find(lines[-1]) + len(lines[-1]) :] if lines else ''
  part = _kept('\n'.join(lines))
  head, *aside = re.split(r'\s[-\u2013\u2014]{1,2}\s', part, maxsplit=1)
  if not _named_in(' '.join(aside), names):
    part = head  # 'A, B - two moves'.
  refuse(lex.alternative.search(words), 'several')
  if lex.more.search(part) or (lex.more.search(rest) and '\n' not in part):
    raise Unread('incomplete')
  refuse(lex.retracts.search(part) or re.search(r'\bno\b', part), 'retracted')
  hedge = re.search(r'\b(?:or|either|equally|both|if)\b|\?', part)
  others = _named_in(part[hedge.end() :], names) if hedge else False
  if (hedge and (others or hedge[0] != 'or')) or (
    '/' in part and re.search('[,;>\n]', part)
  ):
    raise Unread('several')
  plain = lex.bracketed.sub(' ', part)
  refuse(lex.detour.search(plain) or re.match(r'\W*not\b', part), 'unclear')
  refuse('revers' in part, 'unclear')
  return part


def _unnumbered(words: str) -> str:
  """Lines without their numbers, where these are 1, 2, ... of two or more."""
  lines = [line for line in words.split('\n') if line.strip()]
  matches = [lex.numbered.fullmatch(line) for line in lines]
  whole = [match for match in matches if match]
  num = len(whole)
  numbers = [int(match[1]) for match in whole]
  if num < 2 or numbers not in ([*range(1, num + 1)], [1] * num):
    return words
  return '\n'.join(match[2] for match in whole)


def _behind_intro(part: str, names: Mapping[str, int]) -> tuple[int, ...]:
  intro = lex.intro.match(part)
  if intro:
    nodes = _nodes(part[intro.end() :], names)
    if {*nodes} - {UNKNOWN}:
      return nodes
  return _nodes(part, names)


def _nodes(part: str, names: Mapping[str, int]) -> tuple[int, ...]:
  whole = part.strip(' .')
  if whole[:1] + whole[-1:] in ('()', '[]'):
    part = whole[1:-1]
  part = lex.joined.sub(r'\1 ', lex.bracketed.sub(' ', part))
  nodes: list[int] = []
  for item in lex.between.split(part, maxsplit=_MOST)[:_MOST]:
    words = [word.lower() for word in lex.part.findall(item)]
    node = _node(words, names)
    if node is not None:
      nodes.append(node)
  # 'A to B, B to C' is A, B, C.
  steps = len(lex.step.findall(part))
  if len(nodes) == 2 * steps > 2 and nodes[1:-1:2] == nodes[2::2]:
    nodes = nodes[::2] + nodes[-1:]
  return tuple(nodes)


def _node(words: list[str], names: Mapping[str, int]) -> int | None:
  """The node that the words of an item name; None where they name nothing."""
  nodes: list[int] = []
  before: list[int] = []  # Those in front of 'is'.
  rest = 0
  for k, word in enumerate(words):
    node = names.get(word.removesuffix("'s"))
    is_number = word.isdigit()
    if is_number and words[k + 1 : k + 2] and words[k + 1] in sets['units']:
      continue
    if node is None and is_number and '1' in names:
      node = UNKNOWN
    if (
      node is not None
      and is_number
      and k
      and words[k - 1] not in sets['around']
    ):
      node = None
    if node is not None:
      nodes.append(node)
    elif word in sets['behind'] and nodes:
      break
    elif word == 'is':
      before, nodes = nodes or before, []  # 'The path from A is B': only B.
    elif word not in sets['around'] and not is_number:
      rest += 1
  nodes = nodes or before
  if len(set(nodes)) == 1:
    return nodes[0]
  if nodes:
    return UNKNOWN
  return (
    UNKNOWN if 0 < rest <= _NAME and sets['prose'].isdisjoint(words) else None
  )


def _values(text: str, opening: str) -> tuple[list[Any], str, int]:
  """(values in brackets, the failure of the last brackets, reasoning)."""
  seen = visible(text)
  if seen.failure:
    return [], seen.failure, seen.reasoning
  values, failure, end, gap = [], 'nothing', 0, ''
  text = tables(seen.value)
  for literal in literals(text, opening):
    failure = literal.failure
    gap = text[end : literal.start]
    if literal.value is not None:
      values.append(literal.value)
    start, end = literal.start, literal.end
  if failure == 'nothing' and lex.declines.match(seen.value):
    failure = 'refused'
  if values and not failure:
    if lex.more.search(text, start):
      return [], 'incomplete', seen.reasoning
    if re.match(r'\W*or\b', text[end : end + 20]):
      return [], 'several', seen.reasoning
    if lex.retracts.search(text, end):
      return [], 'retracted', seen.reasoning
    if len(values) > 1 and values[-2] != values[-1] and lex.option.search(gap):
      return [], 'several', seen.reasoning
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
    objects = objects or fields(text)
    broken = broken if objects is None else broken.replace('nothing', '')
    if objects and not broken and not fits(objects):
      return Reading(objects, '', reasoning)
  return Reading(None, failure, reasoning)


_QUOTES = dict.fromkeys(map(ord, '\u2018\u2019'), "'")

_QUOTES |= dict.fromkeys(map(ord, '\u201c\u201d'), '"')

_POWERS = str.maketrans(
  '\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207b\u2212',
  '0123456789--',
)


def numbers(text: str, steps: int) -> Reading:
  """Reads numbers by step from 0: the last object, or list of so many.

  Returns:
    value: dict of str and whatever is there; of a 'truncated' one the complete
      items.
  """
  text = lex.ten.sub(r'e\1\2', text.translate(_QUOTES).translate(_POWERS))
  values, failure, reasoning = _values(text, '[{')
  cut = failure if failure == 'truncated' else ''
  if failure == 'nothing' and (lines := lex.step_line.findall(text)):
    values, failure = [dict(lines)], ''
  for value in values[-1:] if cut else reversed(values):
    while isinstance(value, dict) and len(inner := _inner(value)) == 1:
      (value,) = inner
    if isinstance(value, dict) and any(
      key.strip().isdecimal() for key in value
    ):
      return Reading(value, cut, reasoning)
    if (
      value
      and isinstance(value, list)
      and all(isinstance(row, dict) and len(row) == 2 for row in value)
    ):
      return Reading(dict(row.values() for row in value), cut, reasoning)
    if isinstance(value, list) and len(value) == steps:
      return Reading({str(n): x for n, x in enumerate(value)}, cut, reasoning)
  return Reading(None, failure or 'nothing', reasoning)


def _inner(value: dict[str, Any]) -> list[Any]:
  return [x for x in value.values() if isinstance(x, dict | list)]
