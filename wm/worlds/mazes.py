"""Generated mazes as worlds: text games whose map is known exactly.

A maze has places on a grid of some floors, and passages between neighbors:

    kitchen --- hall (north end)
       |      /      |      |
     crypt ...>  hall (south end)
       ^-|----------+     tent

A tree of two-way passages joins all places. Further passages are loops, one-way
passages (...>), doors (-|>) that shut behind the walker, and passages to places
such as the tent, which are entered and left by special actions.

A walkthrough shows the maze in a game's words. It goes to the nearest passage
that it has not taken, until it has taken each in one direction; passages with
special actions in both, because an action does not name its opposite. Its map
is then the whole maze: an edge is walked, or imputed from its opposite, and
never imputed if no passage leads back.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from typing import ClassVar, NamedTuple

import numpy as np

from wm import core
from wm.core.fields import field, field_error
from wm.worlds import text_game
from wm.worlds.base import verbal
from wm.worlds.text_game import maze as mazes
from wm.worlds.text_game.maze import OPPOSITE

NOUNS = verbal.words(
  'hall kitchen library garden chapel gallery stable workshop pantry study '
  'armory courtyard orchard tower vault crypt bakery laundry nursery bridge '
  'meadow cave quarry mill harbor market theater prison smithy brewery '
  'dormitory observatory'
)
SMALL_NOUNS = verbal.words(
  'tent wardrobe cart boat closet barrel shed coach crate kiosk hut booth'
)
COLORS = ('', 'red ', 'blue ', 'green ', 'white ', 'black ', 'gray ', 'gold ')
MOST_PLACES = len(COLORS) * len(NOUNS)
MOST_SMALL = len(COLORS) * len(SMALL_NOUNS)


@dataclasses.dataclass(frozen=True)
class World(text_game.MazeWorld):
  """A maze drawn by a seed, with a chosen number of each difficulty.

  `maze` is its map from a walkthrough of every passage, with the text of each
  step. `text_game.readers.write` writes it in the format of MANGO, so that all
  questions of that benchmark can be asked about it (Ding et al. 2024).

  Attributes:
    doors: passages that shut behind the walker: the opposite direction, which
      a reader may expect, is illegal.
    named: places that are entered and left by special actions.
    confusable: places whose names differ only by a mark, such as 'hall (east
      end)'.
    dark: places whose name the walkthrough shows one step after arrival.
  """

  noun: ClassVar[str] = 'this maze'

  places: int = field(
    12, 'number of places, those of named passages included', least=2
  )
  loops: int = field(
    3, 'two-way passages beyond the tree that joins all places', least=0
  )
  one_way: int = field(1, 'passages that lead one way, and say so', least=0)
  doors: int = field(1, least=0)
  levels: int = field(2, 'floors, joined by passages up and down', least=1)
  named: int = field(1, least=0, most=MOST_SMALL, below='places')
  confusable: int = field(3, least=0)
  dark: int = field(1, least=0, below='places')
  seed: int = field(
    0, 'seed of the maze, its names and the walkthrough', least=0
  )
  length: int = field(32, 'actions in a sequence', least=2, unit='actions')

  def __post_init__(self) -> None:
    super().__post_init__()
    ordinary = self.places - self.named
    if ordinary > MOST_PLACES:
      raise field_error(
        self, 'places named', f'at most {MOST_PLACES + self.named} places'
      )
    for name in ('levels', 'confusable'):
      if getattr(self, name) > ordinary:
        fields = f'{name} places named'
        raise field_error(self, fields, f'at most {ordinary}')

  @functools.cached_property
  def layout(self) -> Layout:
    """The true maze; raises InputError if its passages do not fit."""
    return draw_layout(self)

  @functools.cached_property
  def maze(self) -> mazes.Maze:
    """The map of the walkthrough, which is the whole maze."""
    return walk(self.layout, self.seed)

  def stats(self) -> dict[str, int]:
    """See text_game; adds 'steps' of the walkthrough."""
    return super().stats() | {'steps': len(self.maze.steps) - 1}


# North, east, up.
STEPS = {
  'north': (1, 0, 0),
  'east': (0, 1, 0),
  'northeast': (1, 1, 0),
  'southeast': (-1, 1, 0),
  'up': (0, 0, 1),
}
STEPS |= {OPPOSITE[name]: (-n, -e, -u) for name, (n, e, u) in [*STEPS.items()]}
ATTEMPTS = 100  # Most trees drawn until one leaves room for more passages.
WAY, SLIDE, DOOR, NAMED = 'way', 'slide', 'door', 'named'
_Cell = tuple[int, int, int]


class Passage(NamedTuple):
  """A way from one place to another.

  Attributes:
    source: place.
    action: that leads from there to the target.
    target: place.
    back: action that leads back; '' where none does.
    kind: WAY, SLIDE (one-way, and said to be), DOOR (shut from the target's
      side, where a walk has just come through), or NAMED (enter and leave).
  """

  source: int
  action: str
  target: int
  back: str
  kind: str


class Layout(NamedTuple):
  """The true maze.

  Attributes:
    places: names of the places; walks start at place 0.
    passages: passages between them.
    dark: places that are dark until a lamp is lit.
  """

  places: tuple[str, ...]
  passages: tuple[Passage, ...]
  dark: frozenset[int]


def draw_layout(sizes: World) -> Layout:
  """A random maze in which every place can be reached from every other.

  Raises:
    InputError: the passages do not fit between the places.
  """
  rng = np.random.default_rng([sizes.seed, 0x3A2E])
  cells, passages = _roomy(sizes, rng)
  passages += _extra(cells, passages, sizes, rng)
  inside = _drawn(SMALL_NOUNS, sizes.named, rng)
  for k, name in enumerate(inside):
    outside = int(rng.integers(len(cells)))
    ends = f'enter {name}', len(cells) + k, f'leave {name}'
    passages.append(Passage(outside, *ends, NAMED))
  dark = rng.permutation(np.arange(1, sizes.places))[: sizes.dark]
  named = place_names(len(cells), sizes.confusable, rng)
  return Layout((*named, *inside), tuple(passages), frozenset(dark.tolist()))


def _roomy(
  sizes: World, rng: np.random.Generator
) -> tuple[list[_Cell], list[Passage]]:
  """Draws trees until one leaves room for the other passages."""
  more = sizes.loops + sizes.one_way + sizes.doors
  for _ in range(ATTEMPTS):
    cells, passages = _tree(sizes.places - sizes.named, sizes.levels, rng)
    room = len(_free(cells, passages))
    if room >= more:
      return cells, passages
  raise core.InputError(
    f'mazes: loops={sizes.loops}, one_way={sizes.one_way} and '
    f'doors={sizes.doors} are {more} passages; {room} more fit between these '
    f'{len(cells)} places'
  )


def _tree(
  num: int, levels: int, rng: np.random.Generator
) -> tuple[list[_Cell], list[Passage]]:
  """A random tree: cells of `num` places, and its passages."""
  cells: list[_Cell] = [(0, 0, 0)]
  taken, passages = set(cells), []
  while len(cells) < num:
    top = max(cell[2] for cell in cells)
    ways = [
      (k, action, cell)
      for k, cell_from in enumerate(cells)
      for action in STEPS
      if (cell := _next(cell_from, action)) not in taken
      and 0 <= cell[2] < levels
    ]
    if num - len(cells) <= levels - 1 - top:  # Just enough for the floors left.
      ways = [way for way in ways if way[2][2] > top]
    source, action, cell = ways[int(rng.integers(len(ways)))]
    passages.append(Passage(source, action, len(cells), OPPOSITE[action], WAY))
    cells.append(cell)
    taken.add(cell)
  return cells, passages


def _next(cell: _Cell, action: str) -> _Cell:
  north, east, up = STEPS[action]
  return cell[0] + north, cell[1] + east, cell[2] + up


def _free(
  cells: list[_Cell], passages: list[Passage]
) -> list[tuple[int, str, int]]:
  """Neighbors that no passage joins yet: place, action, place."""
  place = {cell: k for k, cell in enumerate(cells)}
  joined = {frozenset((p.source, p.target)) for p in passages}
  return [
    (k, action, place[cell])
    for k, cell_from in enumerate(cells)
    for action in STEPS
    if (cell := _next(cell_from, action)) in place
    and k < place[cell]
    and frozenset((k, place[cell])) not in joined
  ]


def _extra(
  cells: list[_Cell],
  passages: list[Passage],
  sizes: World,
  rng: np.random.Generator,
) -> list[Passage]:
  """Loops, one-way passages and doors between neighbors not joined yet."""
  free = _free(cells, passages)
  kinds = [WAY] * sizes.loops + [SLIDE] * sizes.one_way
  kinds += [DOOR] * sizes.doors
  extra = []
  order = rng.permutation(len(free))[: len(kinds)]
  for kind, row in zip(kinds, order.tolist(), strict=True):
    source, action, target = free[row]
    if rng.random() < 0.5:
      source, action, target = target, OPPOSITE[action], source
    back = OPPOSITE[action] if kind == WAY else ''
    extra.append(Passage(source, action, target, back, kind))
  return extra


MARKS = (
  'north end',
  'south end',
  'east end',
  'west end',
  'near the stairs',
  'by the window',
  'under the dome',
  'behind the pillar',
)


def place_names(
  num: int, confusable: int, rng: np.random.Generator
) -> list[str]:
  """Names of at most MOST_PLACES places; some differ only by a mark."""
  plain = _drawn(NOUNS, num, rng)
  groups = -(-confusable // len(MARKS))
  pairs = itertools.product(plain[:groups], MARKS)
  alike = [f'{noun} ({mark})' for noun, mark in pairs]
  names = alike[:confusable] + plain[confusable:]
  return [names[k] for k in rng.permutation(num)]


def _drawn(
  nouns: tuple[str, ...], num: int, rng: np.random.Generator
) -> list[str]:
  """Nouns in random order, then again with a color before them."""
  names = []
  for color in COLORS:
    names += [color + nouns[k] for k in rng.permutation(len(nouns))]
  return names[:num]


LAMP = 'light lamp'


class Move(NamedTuple):
  """One direction of a passage.

  Attributes:
    source: place.
    action: leads from there to the target.
    target: place.
    passage: number of its passage.
    reversible: whether the way back is a direction, so that it is imputed.
  """

  source: int
  action: str
  target: int
  passage: int
  reversible: bool


def moves(layout: Layout) -> list[Move]:
  """Every move that the maze allows."""
  directions = []
  for k, passage in enumerate(layout.passages):
    both = passage.kind == WAY
    directions.append(
      Move(passage.source, passage.action, passage.target, k, both)
    )
    if passage.back:
      directions.append(
        Move(passage.target, passage.back, passage.source, k, both)
      )
  return directions


def walk(layout: Layout, seed: int) -> mazes.Maze:
  """The maze as the walk shows it, steps and places along it included."""
  every = moves(layout)
  taken = _tour(layout, every, seed)
  steps = [mazes.WalkthroughStep(0, 'Init', describe(layout, 0))]
  trail, lit = [0], {0}
  forward: dict[int, tuple[int, int]] = {}
  for number in taken:
    move, step = every[number], len(steps)
    dark = move.target in layout.dark and move.target not in lit
    lit.add(move.target)
    observation = (
      'It is pitch dark here.' if dark else describe(layout, move.target)
    )
    steps.append(mazes.WalkthroughStep(step, move.action, observation))
    trail.append(move.target)
    if dark:
      observation = describe(layout, move.target)
      steps.append(mazes.WalkthroughStep(step + 1, LAMP, observation))
      trail.append(move.target)
    forward.setdefault(number, (step, step + dark))
  labelled = _labelled(layout, every, forward)
  return labelled._replace(steps=tuple(steps), trail=np.array(trail, np.int32))


def _tour(layout: Layout, every: list[Move], seed: int) -> list[int]:
  """Numbers of the moves of the walk."""
  rng = np.random.default_rng([seed, 0x70A2])
  order = rng.permutation(len(every)).tolist()
  leaving: list[list[int]] = [[] for _ in layout.places]
  for number in order:
    leaving[every[number].source].append(number)
  # What has to be walked, by move: its passage; of a named one itself.
  to_walk = {
    number: (move.passage if move.reversible else -1 - number)
    for number, move in enumerate(every)
  }
  left, place = set(to_walk.values()), 0
  taken: list[int] = []
  while left:
    goals = {number for number, what in to_walk.items() if what in left}
    way = _nearest(leaving, every, place, goals)
    taken += way
    left -= {to_walk[number] for number in way}
    place = every[taken[-1]].target
  return taken


def _nearest(
  leaving: list[list[int]], every: list[Move], start: int, goals: set[int]
) -> list[int]:
  """The shortest way from a place that ends with one of some moves."""
  way: dict[int, list[int]] = {start: []}
  queue = [start]
  for place in queue:
    for number in leaving[place]:
      if number in goals:
        return [*way[place], number]
      target = every[number].target
      if target not in way:
        way[target] = [*way[place], number]
        queue.append(target)
  raise AssertionError('every place can be reached from every other')


def _labelled(
  layout: Layout, every: list[Move], forward: dict[int, tuple[int, int]]
) -> mazes.Maze:
  """The map of a walk; forward: first step of each move, and when told."""
  back = {
    (move.passage, move.source): n
    for n, move in enumerate(every)
    if move.reversible
  }
  never = mazes.NEVER, mazes.NEVER
  stamps = []
  for number, move in enumerate(every):
    other = back.get((move.passage, move.target), -1)
    onward, again = forward.get(number, never), forward.get(other, never)
    least = (min(pair) for pair in zip(onward, again, strict=True))
    columns = zip(onward, again, least, strict=True)
    stamps.append([step for column in columns for step in column])
  triples = [
    (layout.places[m.source], m.action, layout.places[m.target]) for m in every
  ]
  actions = list(dict.fromkeys(move.action for move in every))
  names = list(layout.places), actions
  return mazes.made(
    'maze', 'camera_ready', names, triples, stamps, 'the generated maze'
  )


def describe(layout: Layout, place: int) -> str:
  """The game's text at a place: its name and its exits."""
  ways, more = [], []
  for passage in layout.passages:
    if passage.kind == NAMED:
      if passage.source == place:
        more.append(f'There is a {layout.places[passage.target]} here.')
      if passage.target == place:
        more.append(f'You can {passage.back}.')
    elif passage.source == place and passage.kind == SLIDE:
      more.append(f'A slide leads {passage.action}; nobody can climb back.')
    elif passage.source == place and passage.kind == DOOR:
      more.append(f'A heavy door {_towards(passage.action)} stands open.')
    elif passage.source == place:
      ways.append(passage.action)
    elif passage.target == place and passage.kind == DOOR:
      side = _towards(mazes.OPPOSITE[passage.action])
      more.append(f'A heavy door {side} is shut; it has no handle here.')
    elif passage.target == place and passage.back:
      ways.append(passage.back)
  ways.sort(key=list(STEPS).index)
  if ways:
    several = ', '.join(ways[:-1])
    listed = f'{several} and {ways[-1]}' if several else ways[-1]
    more.insert(0, f'{"Ways lead" if several else "A way leads"} {listed}.')
  name = layout.places[place]
  return f'{name}\nYou are in the {name}. {" ".join(more)}'


def _towards(action: str) -> str:
  vertical = {'up': 'above', 'down': 'in the floor'}
  return vertical.get(action, f'to the {action}')
