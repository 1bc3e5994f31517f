"""Generated mazes as worlds: walks on a map whose truth is known."""

from __future__ import annotations

import dataclasses
import functools
from typing import ClassVar

from wm import core
from wm.worlds.base import fields
from wm.worlds.mazes import layout, names, walkthrough
from wm.worlds.text_game import maze, walks


@dataclasses.dataclass(frozen=True)
class World(walks.Walks):
  """A maze drawn by a seed, with as much of each difficulty as is asked for.

  `maze` is its map as a walkthrough shows it that sees every passage, with the
  text of each step; `text_game.write` puts it down in the format of MANGO, so
  that all of that benchmark can be asked about it (Ding et al. 2024).

  Attributes:
    places: number of places, those of named passages included.
    loops: two-way passages beyond the tree that joins all places.
    one_way: passages that lead one way, and say so.
    doors: passages that fall shut behind whoever goes through: their opposite,
      which a reader might think of, is refused.
    levels: floors, joined by passages up and down.
    named: places that are entered and left by actions of their own.
    confusable: places of one name but for a mark, such as 'hall (east end)'.
    dark: places whose name the walk is told a step after it comes there.
    seed: of the maze, its names and the walkthrough.
    length: actions in a sequence.
  """

  version: ClassVar[str] = '1'

  places: int = 12
  loops: int = 3
  one_way: int = 1
  doors: int = 1
  levels: int = 2
  named: int = 1
  confusable: int = 3
  dark: int = 1
  seed: int = 0
  length: int = 32

  def cost(self, world: core.World | None = None) -> core.Cost:
    """See core.Bounded."""
    del world
    return core.sequences_cost(self.length, 'length')

  def __post_init__(self) -> None:
    super().__post_init__()
    fields.at_least(self, places=2, levels=1)
    fields.at_least(
      self, loops=0, one_way=0, doors=0, named=0, confusable=0, dark=0, seed=0
    )
    fields.at_least(self, '{} actions', length=2)
    rest = self.places - self.named
    for name, most in (
      ('places', names.MOST + self.named),
      ('named', min(self.places - 1, names.MOST_SMALL)),
      ('levels', rest),
      ('confusable', rest),
      ('dark', self.places - 1),
    ):
      if getattr(self, name) > most:
        raise core.InputError(
          f'mazes: {name}={getattr(self, name)} of places={self.places}, '
          f'named={self.named}; expected at most {most}'
        )

  @functools.cached_property
  def layout(self) -> layout.Layout:
    """The maze as it is; raises InputError where its passages do not fit."""
    given = (getattr(self, name) for name in layout.Wanted._fields)
    wanted = layout.Wanted(*given)
    return layout.draw(wanted, self.seed)

  @functools.cached_property
  def maze(self) -> maze.Maze:
    """The map of the walkthrough, which has all of the maze."""
    return walkthrough.walk(self.layout, self.seed)

  def stats(self) -> dict[str, int]:
    """As of text_game; 'steps' of the walkthrough."""
    return super().stats() | {'steps': len(self.maze.steps) - 1}
