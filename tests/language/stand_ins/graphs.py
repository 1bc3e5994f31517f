"""Steps between named places, read from any wording that lists them all.

Automata (states or rooms) and places of a lattice; a walk starts at one place.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable

from tests.language.stand_ins import base


class Graph(base.Reading):
  """Places, steps between them, and words that end a walk."""

  def __init__(self, first: str) -> None:
    """first: the place where walks start."""
    self.first = first
    self.steps: dict[str, dict[str, str]] = {}
    # Of each place, the words after which nothing comes.
    self.ends: dict[str, set[str]] = {}

  def lead(self, here: str, word: str, there: str) -> None:
    """Adds a step; ContradictionError where another one has the same word."""
    if self.steps.setdefault(here, {}).setdefault(word, there) != there:
      raise base.ContradictionError(f'{here!r} has two steps {word!r}')

  @property
  def edges(self) -> set[tuple[str, str, str]]:
    """All steps: from where, by which word, to where."""
    return {
      (here, word, there)
      for here, steps in self.steps.items()
      for word, there in steps.items()
    }

  def start(self) -> Hashable:
    """The first place."""
    return self.first

  def step(self, state: str, word: str) -> Hashable | None:
    """The next place; '' after a word that ends a walk."""
    if word in self.ends.get(state, ()):
      return ''
    return self.steps.get(state, {}).get(word)

  def every(self) -> Iterable[str]:
    """All words of steps and ends."""
    words = [word for steps in self.steps.values() for word in steps]
    ends = [word for ends in self.ends.values() for word in sorted(ends)]
    return dict.fromkeys(words + ends)


# How a text says where walks start, and one step; each reads every line.
_STARTS = re.compile(
  r'(?:A machine has \d+ states: .*\. It starts in state|'
  r'A house has \d+ rooms: .*\. A walk begins in room|'
  r'There are \d+ places: .*\. A walk is a list of steps, and starts at) '
  r'(\w+)'
)
_STEP = re.compile(
  r'In state (\w+), reading (\S+) leads to state (\w+)\.|'
  r'At (\w+), (\w+) can come next and leads to (\w+)\.'
)
_ROOM = re.compile(r'Room (\w+) has (.*)\.')
_DOOR = re.compile(r'door (\S+) to room (\w+)')
_FINAL = re.compile(r'(?:The final states are|Rooms with a way out): (.*)\.')
_END = re.compile(r'the word (\w+) can come next; after')


def read(told: str) -> Graph | None:
  """A graph as a text lists it; None where it lists none."""
  lines = told.splitlines()
  first = _STARTS.match(lines[0]) if lines else None
  if not first:
    return None
  graph = Graph(first[1])
  end = _END.search(told)
  for line in lines[1:]:
    if step := _STEP.fullmatch(line):
      graph.lead(*(part for part in step.groups() if part is not None))
    elif room := _ROOM.fullmatch(line):
      for word, there in _DOOR.findall(room[2]):
        graph.lead(room[1], word, there)
    elif (final := _FINAL.fullmatch(line)) and end:
      for name in final[1].split(', '):
        graph.ends.setdefault(name, set()).add(end[1])
  if '"at" with the name of a place' in told:
    names = re.match(r'There are \d+ places: (.*?)\. ', lines[0])
    for name in names[1].split(', ') if names else ():
      graph.ends.setdefault(name, set()).add(f'at {name}')
  return graph
