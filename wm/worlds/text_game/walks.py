"""Walks on a maze as a world: tokens are actions, states sets of places.

A sequence stops after `length` actions, or where none leads on. Where an action
has two outcomes, the state is the set of places where the walk may be: see
`places`.
"""

from __future__ import annotations

import abc
import functools

import numpy as np

from wm import core
from wm.worlds.text_game import maze as mazes
from wm.worlds.text_game import words

MOST_ACTIONS = 126  # Labels that compiled kernels take.


class Walks(words.InWords, core.Described):
  """A world on `maze`, from its start or another place."""

  @property
  @abc.abstractmethod
  def maze(self) -> mazes.Maze:
    """The map that walks are on."""

  @property
  @abc.abstractmethod
  def length(self) -> int:
    """Actions in a sequence."""

  @property
  def first(self) -> int:
    """The place where walks start."""
    return self.maze.start

  @functools.cached_property
  def sets(self) -> words.Sets:
    """The table over sets of places.

    Raises:
      InputError: nothing leads on from the start, or there are too many sets
        or actions.
    """
    actions = len(np.unique(self.maze.edges.action))
    if actions > MOST_ACTIONS:
      raise core.InputError(
        f'{self.name}: {self.maze.game} has {actions} actions; expected at '
        f'most {MOST_ACTIONS}'
      )
    found = words.sets(self.maze, self.first)
    if not (found.delta[0] >= 0).any():
      raise core.InputError(
        f'{self.name}: no action leads from {self.maze.places[self.first]!r}; '
        'expected another start'
      )
    return found

  @property
  def delta(self) -> np.ndarray:
    """[S, A] int32 over sets of places; row 0 is the start."""
    return self.sets.delta

  @functools.cached_property
  def names(self) -> tuple[str, ...]:
    """Places of each row, several with ' | ' between them."""
    return tuple(words.name(self.maze, row) for row in self.sets.members)

  @functools.cached_property
  def vocab(self) -> tuple[str, ...]:
    """'<pad>', then the actions with '_' for each blank."""
    given = [self.maze.actions[action] for action in self.sets.actions]
    found = ('<pad>', *('_'.join(name.split()) or '_' for name in given))
    if len(set(found)) < len(found):
      twice = next(name for name in found if found.count(name) > 1)
      raise core.InputError(
        f'{self.name}: several actions of {self.maze.game} are the token '
        f'{twice!r}; expected them to differ in more than blanks'
      )
    return found

  @property
  def max_len(self) -> int:
    """The length of the longest sequences."""
    return self.length

  def stats(self) -> dict[str, int]:
    """Sizes of the map, and what of it walks from the start can reach.

    'walked' and 'imputed' are edges. 'refused': opposites of edges that do not
    lead back, though a reader of the walkthrough might think so. 'ambiguous':
    pairs of a place and an action with several outcomes. 'sets': rows of the
    table. 'reached': places in some of them.
    """
    edges = self.maze.edges
    leave = edges.source * len(self.maze.actions) + edges.action
    return {
      'places': int(mazes.seen(self.maze).sum()),
      'edges': edges.size,
      'walked': int(edges.walked.sum()),
      'imputed': int((~edges.walked).sum()),
      'refused': mazes.with_reverses(self.maze).edges.size - edges.size,
      'ambiguous': int((np.unique(leave, return_counts=True)[1] > 1).sum()),
      'sets': len(self.delta),
      'reached': len({place for row in self.sets.members for place in row}),
    }
