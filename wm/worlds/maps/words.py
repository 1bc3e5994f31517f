"""Street maps in words: streets one by one, or what leaves each intersection.

  streets   From Mira, north leads to Kulo.
  places    At Mira you can go N (to Kulo) or E (to Bado).

Both say of each intersection all that leaves it; read literally, nothing else
does.
"""

from __future__ import annotations

import abc
from typing import ClassVar

import numpy as np

from wm import core
from wm.core.predictor import Tokens
from wm.worlds.maps import streets
from wm.worlds.maps.journeys import DIRECTION0, NODE0, Journeys

COMPASS = (
  'north',
  'northeast',
  'east',
  'southeast',
  'south',
  'southwest',
  'west',
  'northwest',
)
SAMPLED = 16  # Intersections that the length of all is estimated from.

_TRIP = {
  'streets': (
    'This is a street map with {num} intersections: {names}.\n{body}\n'
    'There are no other streets, and a street leads one way only, unless the '
    'way back is told too.\n'
    'A trip is a list. First comes the intersection where it starts, then the '
    'intersection that is its destination; each can be any intersection. All '
    'that follows are directions. A direction can come next exactly if a '
    'street leads that way from where the trip is, and takes the trip to the '
    'other end of the street. Exactly when the trip is at its destination, '
    '"stop" can come next, but a trip may also go on from there. After "stop" '
    'nothing can come.'
  ),
  'places': (
    'A town has {num} crossings. Their names: {names}.\n{body}\n'
    'No other way leads anywhere, and none can be gone against its direction '
    'unless that is written too.\n'
    'A journey is written as a list of its origin, its goal, and the '
    'directions that are taken, one after the other. Origin and goal are any '
    'two crossings, or the same crossing twice. A direction is allowed '
    'exactly where a way goes that way from the current crossing. '
    'The last element is "arrive"; it is allowed exactly when the '
    'current crossing is the goal. Passing the goal and going on is allowed '
    'too. Nothing is allowed after "arrive".'
  ),
}
_DIRECTIONS = {'streets': COMPASS, 'places': streets.DIRECTIONS}
_END = {'streets': 'stop', 'places': 'arrive'}


class InWords(Journeys, core.Told):
  """Trips on `graph`, told in words."""

  wordings: ClassVar[tuple[str, ...]] = tuple(_TRIP)

  @property
  @abc.abstractmethod
  def graph(self) -> streets.StreetGraph:
    """The street graph."""

  def spoken(self, telling: core.Telling) -> tuple[str, ...]:
    """Directions in words, and the intersections' names or new ones."""
    wording = core.wording_of(self, telling)
    names = self.vocab[NODE0:]
    if telling.seed:
      names = core.new_names(len(self.graph), telling)
    return ('<pad>', _END[wording], *_DIRECTIONS[wording], *names)

  def rules(self, telling: core.Telling) -> str:
    """See core.Told: all intersections by name, and all streets."""
    wording, num = core.wording_of(self, telling), len(self.graph)
    spoken = self.spoken(telling)
    order = core.shuffled(num, telling)
    names = [spoken[NODE0 + row] for row in order]
    tell = _streets if wording == 'streets' else _places
    body = '\n'.join(tell(self.graph, spoken, order, telling))
    return _TRIP[wording].format(num=num, names=', '.join(names), body=body)

  def walked(self, tokens: Tokens, telling: core.Telling) -> str:
    """See core.Told: with the intersections that it passes."""
    spoken = self.spoken(telling)
    place = tokens[0] - NODE0
    passed = [place]
    for token in tokens[self.prompt_len :]:
      if token >= DIRECTION0:
        place = self.graph.delta[place, token - DIRECTION0]
        passed.append(place)
    names = ', '.join(spoken[NODE0 + row] for row in passed)
    return f'{self.words(tokens, telling)}. It is at, in this order: {names}.'

  def extent(self, telling: core.Telling) -> core.Extent:
    """See core.Told: of a few intersections, as of all."""
    wording, num = core.wording_of(self, telling), len(self.graph)
    spoken = self.spoken(telling)
    rows = np.linspace(0, num - 1, min(num, SAMPLED)).astype(int)
    tell = _streets if wording == 'streets' else _places
    few = tell(self.graph, spoken, rows, telling)
    few += [spoken[NODE0 + row] + ' ' for row in rows]
    size = sum(len(line) + 1 for line in few)
    whole = len(_TRIP[wording]) + size * num // len(rows)
    return core.Extent(num, 'intersections', whole)


def _streets(
  graph: streets.StreetGraph,
  spoken: tuple[str, ...],
  rows: np.ndarray,
  telling: core.Telling,
) -> list[str]:
  """A line for each street that leaves some intersections."""
  lines = []
  for row in rows:
    here = spoken[NODE0 + row]
    labels = np.flatnonzero(graph.delta[row] >= 0)
    for label in labels:
      there = spoken[NODE0 + graph.delta[row, label]]
      lines.append(
        f'From {here}, {spoken[DIRECTION0 + label]} leads to {there}.'
      )
    if not labels.size:
      lines.append(f'From {here}, no street leads on.')
  return [lines[k] for k in core.shuffled(len(lines), telling)]


def _places(
  graph: streets.StreetGraph,
  spoken: tuple[str, ...],
  rows: np.ndarray,
  telling: core.Telling,
) -> list[str]:
  """A line for each of some intersections."""
  lines = []
  for row in rows:
    labels = np.flatnonzero(graph.delta[row] >= 0)
    labels = labels[core.shuffled(len(labels), telling, stream=int(row))]
    ways = [
      f'{spoken[DIRECTION0 + label]} (to '
      f'{spoken[NODE0 + graph.delta[row, label]]})'
      for label in labels
    ]
    go = f'you can go {" or ".join(ways)}' if ways else 'you can go nowhere'
    lines.append(f'At {spoken[NODE0 + row]} {go}.')
  return lines
