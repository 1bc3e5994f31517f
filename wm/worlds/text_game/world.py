"""A text game's map as a world: sequences are walks from where it starts."""

from __future__ import annotations

import dataclasses
import functools
from typing import ClassVar

from wm import core
from wm.worlds.base import fields, table
from wm.worlds.text_game import example, readers, walks
from wm.worlds.text_game import maze as mazes


@dataclasses.dataclass(frozen=True)
class World(walks.Walks):
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

  def cost(self, world: core.World | None = None) -> core.Cost:
    """See core.Bounded."""
    del world
    return core.sequences_cost(self.length, 'length')

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.game and not self.folder:
      raise core.InputError(
        f'text_game: game={self.game!r} without a folder; expected '
        'folder=, of games as MANGO has them, or neither for the example'
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

  @property
  def first(self) -> int:
    """The place where walks start."""
    if not self.start:
      return super().first
    known = self.maze.places
    if self.start not in known:
      shown = ', '.join(known[: table.SHOWN])
      raise core.InputError(
        f'text_game: {self.maze.game} has no place {self.start!r}; available: '
        f'{shown}' + ', ...' * (len(known) > table.SHOWN)
      )
    return known.index(self.start)
