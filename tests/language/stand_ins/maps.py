"""Street maps, read from either wording or from trips that name places."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable

from tests.language.stand_ins import base

# The place a trip is at and its goal; None where it has none yet.
_State = tuple[str | None, str | None]
_OVER: _State = ('', '')
_TRIP = re.compile(r'\d+\. (.*)\. It is at, in this order: (.*)\.')


class Map(base.Reading):
  """Places, and ways between them by direction."""

  def __init__(self, places: Iterable[str], end: str) -> None:
    """A map without ways; end: the word that ends a trip."""
    self.places = dict.fromkeys(places)
    self.ways: dict[str, dict[str, str]] = {name: {} for name in self.places}
    self.end = end

  def lead(self, here: str, direction: str, there: str) -> None:
    """Adds a way; ContradictionError where another one goes the same way."""
    if self.ways.setdefault(here, {}).setdefault(direction, there) != there:
      raise base.ContradictionError(f'{here!r} has two ways {direction!r}')

  @property
  def edges(self) -> set[tuple[str, str, str]]:
    """All ways: from where, which way, to where."""
    return {
      (here, direction, there)
      for here, ways in self.ways.items()
      for direction, there in ways.items()
    }

  def start(self) -> Hashable:
    """Nowhere, going nowhere."""
    return None, None

  def step(self, state: _State, word: str) -> Hashable | None:
    """Origin, destination, directions, and the end at the destination."""
    here, goal = state
    if state == _OVER:
      return None
    if here is None:
      return (word, None) if word in self.places else None
    if goal is None:
      return (here, word) if word in self.places else None
    if word == self.end:
      return _OVER if here == goal else None
    there = self.ways[here].get(word)
    return None if there is None else (there, goal)

  def every(self) -> Iterable[str]:
    """Places, directions and the end."""
    ways = dict.fromkeys(way for ways in self.ways.values() for way in ways)
    return [*self.places, *ways, self.end]


def read(told: str) -> Map | None:
  """A map as its rules tell it; None where the text tells of none."""
  lines = told.splitlines()
  result = re.fullmatch(
    r'(?:This is a street map with|A town has) \d+ (?:intersections|crossings)'
    r'(?::|\. Their names:) (.*)\.',
    lines[0] if lines else '',
  )
  if not result:
    return None
  end = re.search(r'"(\w+)" can come next|last element is "(\w+)"', told)
  if not end:
    return None
  city = Map(result[1].split(', '), end[1] or end[2])
  for line in lines[1:]:
    if way := re.fullmatch(r'From (.+), (\w+) leads to (.+)\.', line):
      city.lead(*way.groups())
    elif way := re.fullmatch(r'At (.+?) you can go (.+)\.', line):
      for step in re.finditer(r'(\w+) \(to ([^)]+)\)', way[2]):
        city.lead(way[1], step[1], step[2])
  return city


def read_walks(told: str) -> Map | None:
  """A map of the trips told, which name the places that they pass."""
  trips = [
    trip for line in told.splitlines() if (trip := _TRIP.fullmatch(line))
  ]
  if not trips:
    return None
  walks = [(trip[1].split(', '), trip[2].split(', ')) for trip in trips]
  places = [name for words, _ in walks for name in words[:2]]
  places += [name for _, passed in walks for name in passed]
  city = Map(places, walks[0][0][-1])
  for words, passed in walks:
    ways = words[2 : 1 + len(passed)]
    for here, way, there in zip(passed, ways, passed[1:], strict=False):
      city.lead(here, way, there)
  return city
