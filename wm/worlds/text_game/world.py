"""A text game's map as a world: sequences are walks from where it starts.

The example, which needs no data, is a hotel whose lift stops at random:

    gate --- yard --- hall --- bar
              ^       |  |
              |     lift  +-up- attic --- the maid's room
              |       |
              +-jump- roof

The lift lets out in the hall or on the roof. From the bar, southwest is the
yard. The way back from the maid's room is only imputed.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import ClassVar

from wm import core
from wm.core import resources
from wm.core.fields import field, field_error
from wm.worlds.base import table
from wm.worlds.text_game import maze as mazes
from wm.worlds.text_game import readers, walks


@dataclasses.dataclass(frozen=True)
class World(walks.Walks):
  """Walks on the map of one text game.

  Attributes:
    folder: folder of games in the format of MANGO (Ding et al. 2024), or its
      packed archive as it is; '' is a small example that needs no data.
    step: last step of the walkthrough that is read; 0: all steps of the map.
    imputed: count edges that are only imputed from their opposites.
    start: place where walks start; '' is where the walkthrough does.
  """

  version: ClassVar[str] = '1'

  folder: str = ''
  game: str = field('', 'name of a game of the folder')
  step: int = field(0, least=0)
  imputed: bool = True
  start: str = ''
  length: int = field(32, 'actions in a sequence', least=2, unit='actions')

  def cost(self, world: core.World | None = None) -> core.Cost:
    """See core.Bounded."""
    del world
    return resources.sequences_cost(self.length, 'length')

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.game and not self.folder:
      raise field_error(
        self, 'game folder', 'the folder of the game, or neither'
      )

  @functools.cached_property
  def maze(self) -> mazes.Maze:
    """The map that walks are on.

    Raises:
      InputError: its files are missing or damaged, or nothing is left of it.
    """
    path = self.folder
    maze = readers.read(path, self.game) if path else hotel()
    if self.step:
      maze = mazes.prefix(maze, self.step)
    if not self.imputed:
      maze = mazes.walked(maze)
    if not maze.edges.size:
      raise core.InputError(
        f'text_game: {maze.game} has no edge by step {self.step}'
      )
    return maze

  @property
  def first(self) -> int:
    """The place where walks start."""
    if not self.start:
      return super().first
    places = self.maze.places
    if self.start not in places:
      shown = ', '.join(places[: table.SHOWN])
      raise core.InputError(
        f'text_game: {self.maze.game} has no place {self.start!r}; available: '
        f'{shown}' + ', ...' * (len(places) > table.SHOWN)
      )
    return places.index(self.start)


# source, action, target; then the steps that walk the edge, and its opposite.
ROWS = (
  ('yard', 'north', 'hall', 1, 5),
  ('hall', 'east', 'bar', 2, 3),
  ('bar', 'west', 'hall', 3, 2),
  ('bar', 'southwest', 'yard', 23, mazes.NEVER),
  ('hall', 'up', 'attic', 9, 10),
  ('attic', 'down', 'hall', 10, 9),
  ('hall', 'south', 'yard', 5, 1),
  ('hall', 'enter lift', 'lift', 7, mazes.NEVER),
  ('lift', 'out', 'hall', 8, mazes.NEVER),
  ('lift', 'out', 'roof', 12, mazes.NEVER),
  ('roof', 'jump', 'yard', 13, mazes.NEVER),
  ('roof', 'enter lift', 'lift', 15, mazes.NEVER),
  ('yard', 'west', 'gate', 16, 18),
  ('gate', 'east', 'yard', 18, 16),
  ('attic', 'east', "the maid's room", 20, mazes.NEVER),
  ("the maid's room", 'west', 'attic', mazes.NEVER, 20),
)


def hotel() -> mazes.Maze:
  """The map of the example."""
  triples = [row[:3] for row in ROWS]
  places = list(dict.fromkeys(n for u, _, v in triples for n in (u, v)))
  actions = list(dict.fromkeys(action for _, action, _ in triples))
  stamps = [[f, r, min(f, r)] * 2 for *_, f, r in ROWS]
  names = places, actions
  where = 'the example'
  return mazes.made('hotel', 'camera_ready', names, triples, stamps, where)
