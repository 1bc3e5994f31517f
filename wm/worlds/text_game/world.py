"""A text game's map as a world: sequences are walks from where it starts.

    north east up down enter_lift out ...     tokens are actions

A sequence stops after `length` actions, or where none leads on. Where an action
has two outcomes, the state is the set of places where the walk may be: see
`places`.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import ClassVar

import numpy as np

from wm import core
from wm.worlds.base import fields, table
from wm.worlds.text_game import example, places, readers
from wm.worlds.text_game import maze as mazes

MOST_ACTIONS = 126  # Labels that compiled kernels take.


@dataclasses.dataclass(frozen=True)
class World(table.NamedTableWorld, core.Sourced):
  """Walks on the map of one text game.

  Attributes:
    folder: of games in the format of MANGO (Ding et al. 2024), or a packed
      archive of it as it is; '' is a small example that needs no data.
    game: name of one of them.
    step: the walkthrough is read up to this step; 0 is all that the map has.
    imputed: whether edges count that are only imputed from their opposites.
    start: place where walks start; '' is where the walkthrough does.
    length: actions in a sequence.
  """

  version: ClassVar[str] = '1'

  folder: str = ''
  game: str = ''
  step: int = 0
  imputed: bool = True
  start: str = ''
  length: int = 32

  def __post_init__(self) -> None:
    if self.game and not self.folder:
      raise core.InputError(
        f'text_game: game={self.game!r} without a folder; expected '
        'folder=, where MANGO GAMES are, or neither for the example'
      )
    fields.at_least(self, step=0)
    fields.at_least(self, '{} actions', length=2)

  @functools.cached_property
  def maze(self) -> mazes.Maze:
    """The map that walks are on.

    Raises:
      InputError: its files are missing or damaged, or nothing is left of it.
    """
    if self.folder:
      found = readers.read(self.folder, self.game)
    else:
      found = example.hotel()
    if self.step:
      found = mazes.prefix(found, self.step)
    if not self.imputed:
      found = mazes.walked(found)
    if not found.edges.size:
      raise core.InputError(
        f'text_game: {found.game} has no edge by step {self.step}'
      )
    return found

  @functools.cached_property
  def _sets(self) -> places.Sets:
    maze = self.maze
    start = maze.start
    if self.start:
      if self.start not in maze.places:
        shown = ', '.join(maze.places[: table.SHOWN])
        raise core.InputError(
          f'text_game: {maze.game} has no place {self.start!r}; available: '
          f'{shown}' + ', ...' * (len(maze.places) > table.SHOWN)
        )
      start = maze.places.index(self.start)
    found = places.sets(maze, start)
    if not (found.delta[0] >= 0).any():
      raise core.InputError(
        f'text_game: no action leads from {maze.places[start]!r}; expected '
        'another start'
      )
    if len(found.actions) > MOST_ACTIONS:
      raise core.InputError(
        f'text_game: {maze.game} has {len(found.actions)} actions; expected at '
        f'most {MOST_ACTIONS}'
      )
    return found

  @property
  def delta(self) -> np.ndarray:
    """[S, A] int32 over sets of places; row 0 is the start."""
    return self._sets.delta

  @functools.cached_property
  def names(self) -> tuple[str, ...]:
    """Places of each row, several with ' | ' between them."""
    return tuple(places.name(self.maze, row) for row in self._sets.members)

  @functools.cached_property
  def vocab(self) -> tuple[str, ...]:
    """'<pad>', then the actions with '_' for each blank."""
    given = [self.maze.actions[action] for action in self._sets.actions]
    return ('<pad>', *('_'.join(name.split()) or '_' for name in given))

  @property
  def max_len(self) -> int:
    """The length of the longest sequences."""
    return self.length

  def facts(self) -> dict[str, int]:
    """Sizes of the map, and what of it walks from the start can reach.

    'ambiguous': pairs of a place and an action with several outcomes. 'sets':
    rows of the table. 'reached': places in some of them.
    """
    edges = self.maze.edges
    leave = edges.source * len(self.maze.actions) + edges.action
    return {
      'places': int(mazes.seen(self.maze).sum()),
      'edges': edges.size,
      'walked': int(edges.walked.sum()),
      'imputed': int((~edges.walked).sum()),
      'ambiguous': int((np.unique(leave, return_counts=True)[1] > 1).sum()),
      'sets': len(self.delta),
      'reached': len({place for row in self._sets.members for place in row}),
    }
