"""Generated mazes as worlds: walks on a map whose truth is known."""

from __future__ import annotations

import dataclasses
import functools
from typing import ClassVar

from wm import core
from wm.core import resources
from wm.core.fields import field, field_error
from wm.worlds.mazes import layout, walkthrough
from wm.worlds.text_game import maze, walks


@dataclasses.dataclass(frozen=True)
class World(walks.Walks):
  """A maze drawn by a seed, with as much of each difficulty as is asked for.

  `maze` is its map as a walkthrough shows it that sees every passage, with the
  text of each step; `text_game.write` puts it down in the format of MANGO, so
  that all of that benchmark can be asked about it (Ding et al. 2024).

  Attributes:
    doors: passages that fall shut behind whoever goes through: their opposite,
      which a reader might think of, is refused.
    named: places that are entered and left by actions of their own.
    confusable: places of one name but for a mark, such as 'hall (east end)'.
    dark: places whose name the walk learns a step after it comes there.
  """

  version: ClassVar[str] = '1'

  places: int = field(
    12, 'number of places, those of named passages included', least=2
  )
  loops: int = field(
    3, 'two-way passages beyond the tree that joins all places', least=0
  )
  one_way: int = field(1, 'passages that lead one way, and say so', least=0)
  doors: int = field(1, least=0)
  levels: int = field(2, 'floors, joined by passages up and down', least=1)
  named: int = field(1, least=0, most=layout.MOST_SMALL, below='places')
  confusable: int = field(3, least=0)
  dark: int = field(1, least=0, below='places')
  seed: int = field(
    0, 'seed of the maze, its names and the walkthrough', least=0
  )
  length: int = field(32, 'actions in a sequence', least=2, unit='actions')

  def cost(self, world: core.World | None = None) -> core.Cost:
    """See core.Bounded."""
    del world
    return resources.sequences_cost(self.length, 'length')

  def __post_init__(self) -> None:
    super().__post_init__()
    ordinary = self.places - self.named
    if ordinary > layout.MOST:
      raise field_error(
        self, 'places named', f'at most {layout.MOST + self.named} places'
      )
    for name in ('levels', 'confusable'):
      if getattr(self, name) > ordinary:
        fields = f'{name} places named'
        raise field_error(self, fields, f'at most {ordinary}')

  @functools.cached_property
  def layout(self) -> layout.Layout:
    """The maze as it is; raises InputError where its passages do not fit."""
    values = (getattr(self, name) for name in layout.Wanted._fields)
    sizes = layout.Wanted(*values)
    return layout.draw(sizes, self.seed)

  @functools.cached_property
  def maze(self) -> maze.Maze:
    """The map of the walkthrough, which has all of the maze."""
    return walkthrough.walk(self.layout, self.seed)

  def stats(self) -> dict[str, int]:
    """As of text_game; 'steps' of the walkthrough."""
    return super().stats() | {'steps': len(self.maze.steps) - 1}
