"""Answers of language models to CogEval's questions, read as nodes.

A reply ends, when all is well, with `Answer: 1, 7, 4, 15`. What is read is the
last `Answer:` that names anything; items are parted by commas, arrows, 'and',
'to' or new lines; markdown, what stands in parentheses, and words such as
'room' or 'field' around a name do not count. The text is data: it is searched
by expressions of bounded reach, and never executed.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from wm.language import replies
from wm.worlds.cognitive_graph import names

UNKNOWN = -1  # An item that names no node.
# Characters of a reply that are read, from its end; items of an answer; the
# number of `Answer:` that are tried, from the last one; words of an item that
# may be a name and is none: longer ones are prose.
LONGEST, MOST, TRIED, NAME = 100_000, 200, 4, 3

ANSWER = re.compile(r'\banswer\s{0,4}(?:is)?[\s*_`"]{0,4}[:=]', re.I)
PARENTHESES = re.compile(r'\([^()]{0,200}\)')
# A new speaker, a new paragraph or a new sentence ends an answer.
# 'The shortest path from A to B is A, B': only what comes behind it counts.
INTRO = re.compile(
  r'\s{0,9}the(?:\s{1,3}\w{1,20}){0,3}\s{1,3}path\b[^.\n]{0,160}?\bis\b[:\s]',
  re.I,
)
NEXT = re.compile(
  r'\n\s{0,9}\n|\n\s{0,9}(?:user|assistant|human|step \d{1,3})\b'
  r'|(?<=[\w)])[.!?][*_`"]{0,3}\s(?=\s{0,9}[a-z])',
  re.I,
)
BETWEEN = re.compile(
  r'[,;|\n]|[-=]{0,3}>{1,2}|[→➔⟶⇒]|â†’|\b(?:then|and|to)\b|[-–—](?=\s?\w)',
  re.I,
)
WORDS = re.compile(r"[\w']+")
# What a name may be wrapped in.
AROUND = frozenset(
  names.words(
    'room rooms zone zones node nodes place field fields scholar scholars the '
    'a from start object objects flower flowers left right'
  )
)
HEDGES = frozenset(('or', 'either'))
# A number before one of these is no node.
UNITS = frozenset(
  names.words('dollar dollars book books flower flowers reward points steps')
)
JOINED = re.compile(r'\b(rooms?|zones?)(?=\d)', re.I)
COUNT = re.compile(r'\b(\d{1,6})\b')
OF_CLUSTERS = re.compile(r'\b(\d{1,6})\b[\w\s*-]{0,40}?\bcluster', re.I)


class Reply(NamedTuple):
  """What was read.

  Attributes:
    nodes: nodes in order; UNKNOWN where an item names none.
    how: 'answer' after the word Answer, 'bare' of a reply without it, or
      'none'.
    text: the part that was read.
    hedged: does an item name alternatives?
  """

  nodes: tuple[int, ...]
  how: str
  text: str
  hedged: bool = False


def read(text: str, known: Mapping[int, str]) -> Reply:
  """The nodes that a reply names as its answer.

  text: the reply, reasoning included.
  known: node -> name.
  """
  table = _table(tuple(known.items()))
  text = replies.visible(text[-LONGEST:]).value
  for part in _answers(text):
    nodes, hedged = _listed(part, table)
    if nodes:
      return Reply(nodes, 'answer', part, hedged)
  if ANSWER.search(text):
    return Reply((), 'none', text)
  nodes, hedged = _items(text, table)
  if all(node == UNKNOWN for node in nodes):
    return Reply((), 'none', text)
  return Reply(nodes, 'bare', text, hedged)


def read_count(text: str) -> Reply:
  """The number of clusters that a reply gives, as its only node."""
  text = replies.visible(text[-LONGEST:]).value
  for part in _answers(text):
    found = OF_CLUSTERS.search(part) or COUNT.search(part)
    if found:
      return Reply((int(found[1]),), 'answer', part)
  found = OF_CLUSTERS.search(text) or COUNT.search(text)
  if not found:
    return Reply((), 'none', text)
  return Reply((int(found[1]),), 'bare', text)


def _answers(text: str) -> Iterator[str]:
  """What follows `Answer:`, from the last one backwards."""
  for found in [*ANSWER.finditer(text)][: -TRIED - 1 : -1]:
    yield NEXT.split(text[found.end() :].lstrip(' \t\r\n*_`"'), 1)[0].strip()


def _listed(
  part: str, table: Mapping[str, int]
) -> tuple[tuple[int, ...], bool]:
  """As _items, of what comes behind an introduction, if that names anything."""
  intro = INTRO.match(part)
  if intro:
    nodes, hedged = _items(part[intro.end() :], table)
    if any(node != UNKNOWN for node in nodes):
      return nodes, hedged
  return _items(part, table)


def _items(part: str, table: Mapping[str, int]) -> tuple[tuple[int, ...], bool]:
  """Nodes of the items of an answer; does one of them hedge?"""
  part = JOINED.sub(r'\1 ', PARENTHESES.sub(' ', part))
  nodes: list[int] = []
  hedged = False
  for item in BETWEEN.split(part, MOST)[:MOST]:
    words = [word.lower() for word in WORDS.findall(item)]
    hedged |= not HEDGES.isdisjoint(words)
    node = _node(words, table)
    if node is not None:
      nodes.append(node)
  return tuple(nodes), hedged


def _node(words: list[str], table: Mapping[str, int]) -> int | None:
  """The node that the words of an item name; None where they name nothing."""
  found: list[int] = []
  rest = 0
  for k, word in enumerate(words):
    node = table.get(word.removesuffix("'s"))
    number = word.isdigit()
    if number and words[k + 1 : k + 2] and words[k + 1] in UNITS:
      continue
    if node is None and number and '1' in table:
      node = UNKNOWN
    if node is not None and number and k and words[k - 1] not in AROUND:
      node = None
    if node is not None:
      found.append(node)
    elif word == 'is':
      found = []  # 'The shortest path from A is B': only B is an item.
    elif word not in AROUND and not number:
      rest += 1
  if len(set(found)) == 1:
    return found[0]
  if found:
    return UNKNOWN
  return UNKNOWN if 0 < rest <= NAME else None


@functools.lru_cache(maxsize=256)
def _table(known: tuple[tuple[int, str], ...]) -> Mapping[str, int]:
  """Name, in small letters, -> node."""
  table = {name.lower(): node for node, name in known}
  for alias, name in names.ALIASES.items():
    if name in table:
      table.setdefault(alias, table[name])
  return table
