"""A text game's map as a world: sequences are walks from its start.

A token is an action; a state is the set of places where the walk may be. A
sequence stops after `length` actions, or where no action is legal. Some actions
lead to different places at different times: a lift, or a wind. The map alone
then determines only a set of places (the subset construction):

    hall --enter--> {lift}    lift --out--> {hall, roof}    {hall, roof} --..

The example, which needs no data, is a hotel whose lift stops at random:

    gate --- yard --- hall --- bar
              ^       |  |
              |     lift  +-up- attic --- the maid's room
              |       |
              +-jump- roof

The lift stops at the hall or at the roof. From the bar, southwest leads to the
yard. The way back from the maid's room is only imputed.

Prompts describe a maze edge by edge, or place by place:

  ways    From "hall", north leads to "kitchen".
  rooms   In "hall": north goes to "kitchen", enter lift goes to "lift".

Names of places are quoted as in JSON, because some games have names with
brackets, commas and quotes.

maze       a map: places, edges, and the steps at which they are known
readers    mazes of the three published generations, from a folder or archive;
           writes the format of the camera-ready data
questions  the benchmark's questions and minigames, with labels for every prefix
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import json
import re
from typing import ClassVar, NamedTuple

import numpy as np

from wm import core
from wm.core.fields import field, field_error
from wm.worlds.base import table, verbal
from wm.worlds.text_game import maze as mazes
from wm.worlds.text_game import readers


class MazeWorld(table.NamedTableWorld, core.Verbal, core.Described):
  """Walks on `maze` from its start; has a verbal form."""

  @property
  @abc.abstractmethod
  def maze(self) -> mazes.Maze:
    """The map of the walks."""

  @functools.cached_property
  def sets(self) -> PlaceSets:
    """The table over sets of places.

    Raises:
      InputError: no action leads from the start, or there are too many sets or
        actions.
    """
    actions = len(np.unique(self.maze.edges.action))
    if actions > MOST_ACTIONS:
      raise core.InputError(
        f'{self.name}: {self.maze.game} has {actions} actions; expected at '
        f'most {MOST_ACTIONS}'
      )
    table = place_sets(self.maze, self.maze.start)
    if not (table.delta[0] >= 0).any():
      raise core.InputError(
        f'{self.name}: no action leads from the start of {self.maze.game}'
      )
    return table

  @property
  def delta(self) -> np.ndarray:
    """[S, A] int32 over sets of places; row 0 is the start."""
    return self.sets.delta

  @functools.cached_property
  def names(self) -> tuple[str, ...]:
    """Places of each row, several with ' | ' between them."""
    places = self.maze.places
    return tuple(
      BETWEEN.join(places[place] for place in row) for row in self.sets.members
    )

  @functools.cached_property
  def vocab(self) -> tuple[str, ...]:
    """'<pad>', then the actions with '_' for each blank."""
    names = [self.maze.actions[action] for action in self.sets.actions]
    tokens = ('<pad>', *('_'.join(name.split()) or '_' for name in names))
    if len(set(tokens)) < len(tokens):
      twice = next(name for name in tokens if tokens.count(name) > 1)
      raise core.InputError(
        f'{self.name}: several actions of {self.maze.game} are the token '
        f'{twice!r}; expected them to differ in more than blanks'
      )
    return tokens

  def stats(self) -> dict[str, int]:
    """Sizes of the map, and of its part that walks from the start can reach.

    'walked' and 'imputed': edges. 'ambiguous': pairs of place and action with
    several outcomes. 'sets': rows of the table. 'reached': places in these
    sets.
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
      'reached': len({place for row in self.sets.members for place in row}),
    }

  # In words.

  def token_names(self, style: core.PromptStyle) -> tuple[str, ...]:
    """The game's actions; 'action7' if a list cannot contain the action."""
    del style
    names = [self.maze.actions[action] for action in self.sets.actions]
    numbered = [f'action{number}' for number in range(1, len(names) + 1)]
    plain = all(name not in names for name in numbered)
    return (
      '<pad>',
      *(
        name if plain and _PLAIN.fullmatch(name) else number
        for name, number in zip(names, numbered, strict=True)
      ),
    )

  def _called(self, style: core.PromptStyle) -> list[str]:
    """Quoted names of places; a seed above 0 gives new names."""
    names = self.maze.places
    if style.seed:
      names = core.verbal.new_names(len(names), style)
    return [json.dumps(name, ensure_ascii=False) for name in names]

  def rules(self, style: core.PromptStyle) -> str:
    """See core.Verbal: all places by name, and all edges."""
    called, spoken = self._called(style), self.token_names(style)
    label = dict(zip(self.sets.actions, spoken[1:], strict=True))
    leads: dict[int, dict[str, list[str]]] = {}
    for u, a, v in zip(*(c.tolist() for c in self.maze.edges[:3]), strict=True):
      leads.setdefault(v, {})
      leads.setdefault(u, {}).setdefault(label[a], []).append(called[v])
    ways_from = [(called[u], leads[u]) for u in leads]
    ways_from = [
      ways_from[k] for k in core.verbal.shuffled(len(ways_from), style)
    ]
    outcomes = [to for ways in leads.values() for to in ways.values()]
    several = any(len(to) > 1 for to in outcomes)
    lines = [
      f'From {place}, {action} leads to {" or ".join(targets)}.'
      for place, ways in ways_from
      for action, targets in ways.items()
    ]
    return TEXTS.render(
      'ways',
      num=len(ways_from),
      names=', '.join(name for name, _ in ways_from),
      body='\n'.join(verbal.in_order(lines, style)),
      first=called[self.sets.members[0][0]],
      several=several,
    )

  def extent(self, style: core.PromptStyle) -> core.verbal.Extent:
    """See core.Verbal."""
    num = int(mazes.seen(self.maze).sum())
    return core.verbal.Extent(
      num, 'places', core.verbal.text_tokens(self.rules(style))
    )


@dataclasses.dataclass(frozen=True)
class World(MazeWorld):
  """Walks on the map of one text game, from the walkthrough's start."""

  noun: ClassVar[str] = 'this text game'

  folder: str = field(
    '',
    'folder of games in the format of MANGO (Ding et al. 2024), or its packed '
    "archive as it is; '' is a small example that needs no data",
    format=readers.__name__,
  )
  game: str = field('', 'name of a game of the folder')
  length: int = field(32, 'actions in a sequence', least=2, unit='actions')

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.game and not self.folder:
      raise field_error(
        self, 'game folder', 'the folder of the game, or neither'
      )

  @functools.cached_property
  def maze(self) -> mazes.Maze:
    """The map that walks are on; raises InputError for bad files."""
    return readers.read(self.folder, self.game) if self.folder else hotel()


MOST_ACTIONS = 126  # Limit of labels in compiled kernels.
TEXTS = verbal.Texts(__file__)
# Actions that need no quotes in a list; others are numbered.
_PLAIN = re.compile(r"[\w' -]+")
MOST_SETS = 50_000
BETWEEN = ' | '  # Between places in the name of a set.


class PlaceSets(NamedTuple):
  """The sets of places that some actions lead to, breadth first.

  Attributes:
    delta: [R, A] int32 next rows, DEAD if no place of a row has the action; row
      0 contains only the start.
    members: [R] places of each row, ascending.
    actions: [A] indices of actions with an edge, ascending.
  """

  delta: np.ndarray
  members: tuple[tuple[int, ...], ...]
  actions: tuple[int, ...]


def place_sets(maze: mazes.Maze, start: int) -> PlaceSets:
  """The subset construction from one place.

  Raises:
    InputError: there are more than MOST_SETS sets.
  """
  edges = maze.edges
  actions = np.unique(edges.action).tolist()
  column = {action: k for k, action in enumerate(actions)}
  leads: dict[tuple[int, int], set[int]] = {}
  for u, a, v in zip(*(c.tolist() for c in edges[:3]), strict=True):
    leads.setdefault((u, column[a]), set()).add(v)
  rows: dict[tuple[int, ...], int] = {(start,): 0}
  delta: list[list[int]] = []
  queue = list(rows)
  for places in queue:
    delta.append([core.DEAD] * len(actions))
    for k in range(len(actions)):
      after = sorted(set().union(*(leads.get((u, k), ()) for u in places)))
      if not after:
        continue
      key = tuple(after)
      if key not in rows:
        rows[key] = len(rows)
        queue.append(key)
      delta[-1][k] = rows[key]
    if len(rows) > MOST_SETS:
      raise core.InputError(
        f'{maze.game}: its actions lead to more than {MOST_SETS:,} sets of '
        'places; expected a map with fewer actions of several outcomes'
      )
  return PlaceSets(np.array(delta, np.int32), tuple(queue), tuple(actions))


# source, action, target; then the first steps of the edge and of its opposite.
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
