"""Street maps in words: streets one by one, or what leaves each intersection.

streets   From Mira, north leads to Kulo.
places    At Mira you can go N (to Kulo) or E (to Bado).
"""

from __future__ import annotations

import abc
import functools
from typing import ClassVar

import numpy as np

from wm import core
from wm.core.predictor import Tokens
from wm.worlds.base import in_words
from wm.worlds.maps import streets
from wm.worlds.maps.navigation import DIRECTION0, NODE0, Journeys

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
    'two crossings, or the same crossing twice. A direction can come next '
    'exactly where a way goes that way from the current crossing. '
    'The last element is "arrive"; it can come next exactly when the '
    'current crossing is the goal. Passing the goal and going on is allowed '
    'too. Nothing can come after "arrive".'
  ),
}
_DIRECTIONS = {'streets': COMPASS, 'places': streets.DIRECTIONS}
_END = {'streets': 'stop', 'places': 'arrive'}
_TELL = {
  'streets': functools.partial(
    in_words.by_step,
    step='From {here}, {label} leads to {there}.',
    none='From {here}, no street leads on.',
  ),
  'places': functools.partial(
    in_words.by_row,
    row='At {here} you can go {steps}.',
    step='{label} (to {there})',
    between=' or ',
    none='nowhere',
  ),
}


class InWords(Journeys, core.Verbal):
  """Trips on `graph`, told in words."""

  wordings: ClassVar[tuple[str, ...]] = tuple(_TRIP)

  @property
  @abc.abstractmethod
  def graph(self) -> streets.StreetGraph:
    """The street graph."""

  def token_names(self, telling: core.PromptStyle) -> tuple[str, ...]:
    """Directions in words, and the intersections' names or new ones."""
    wording = core.wording_of(self, telling)
    names = self.vocab[NODE0:]
    if telling.seed:
      names = core.new_names(len(self.graph), telling)
    return ('<pad>', _END[wording], *_DIRECTIONS[wording], *names)

  def _table(self, telling: core.PromptStyle) -> in_words.Table:
    spoken = self.token_names(telling)
    return in_words.Table(
      self.graph.delta, spoken[NODE0:], spoken[DIRECTION0:NODE0]
    )

  def rules(self, telling: core.PromptStyle) -> str:
    """See core.Verbal: all intersections by name, and all streets."""
    wording, table = core.wording_of(self, telling), self._table(telling)
    rows = core.shuffled(len(table.names), telling)
    return _TRIP[wording].format(
      num=len(rows),
      names=', '.join(table.names[row] for row in rows),
      body='\n'.join(_TELL[wording](table, rows, telling)),
    )

  def render_trajectory(self, tokens: Tokens, telling: core.PromptStyle) -> str:
    """See core.Verbal: with the intersections that it passes."""
    names = self._table(telling).names
    place = tokens[0] - NODE0
    passed = [names[place]]
    for token in tokens[self.prompt_len :]:
      if token >= DIRECTION0:
        place = int(self.graph.delta[place, token - DIRECTION0])
        passed.append(names[place])
    words = self.render_tokens(tokens, telling)
    return f'{words}. It is at, in this order: {", ".join(passed)}.'

  def extent(self, telling: core.PromptStyle) -> core.Extent:
    """See core.Verbal."""
    wording, table = core.wording_of(self, telling), self._table(telling)

    def tell(rows: np.ndarray) -> list[str]:
      return _TELL[wording](table, rows, telling)

    return in_words.extent(table, tell, 'intersections', _TRIP[wording])
