"""Places on a grid of some floors, and passages between neighbors.

    kitchen --- hall (north end)
       |      /      |      |
     crypt ...>  hall (south end)
       ^-|----------+     tent

A tree of two-way passages joins all places. To it come loops, one-way passages
(...>), doors (-|>) that fall shut behind whoever goes through, and places such
as the tent, which are entered and left by actions of their own.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from wm import core
from wm.worlds.text_game.maze import OPPOSITE

# North, east, up.
STEPS = {
  'north': (1, 0, 0),
  'east': (0, 1, 0),
  'northeast': (1, 1, 0),
  'southeast': (-1, 1, 0),
  'up': (0, 0, 1),
}
STEPS |= {OPPOSITE[name]: (-n, -e, -u) for name, (n, e, u) in [*STEPS.items()]}
ATTEMPTS = 100  # Trees that are drawn until one leaves room for the rest.
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
  """A maze as it is.

  Attributes:
    places: names; walks start at place 0.
    passages: between them.
    dark: places that are dark until a lamp is lit there.
  """

  places: tuple[str, ...]
  passages: tuple[Passage, ...]
  dark: frozenset[int]


class Wanted(NamedTuple):
  """What a maze is to have; see `mazes.World`."""

  places: int
  loops: int
  one_way: int
  doors: int
  levels: int
  named: int
  confusable: int
  dark: int


def draw(sizes: Wanted, seed: int) -> Layout:
  """A random maze in which every place can be reached from every other.

  Raises:
    InputError: so many passages do not fit between so many places.
  """
  rng = np.random.default_rng([seed, 0x3A2E])
  cells, passages = _roomy(sizes, rng)
  passages += _extra(cells, passages, sizes, rng)
  inside = small(sizes.named, rng)
  for k, name in enumerate(inside):
    outside = int(rng.integers(len(cells)))
    ends = f'enter {name}', len(cells) + k, f'leave {name}'
    passages.append(Passage(outside, *ends, NAMED))
  dark = rng.permutation(np.arange(1, sizes.places))[: sizes.dark]
  named = places(len(cells), sizes.confusable, rng)
  return Layout((*named, *inside), tuple(passages), frozenset(dark.tolist()))


def _roomy(
  sizes: Wanted, rng: np.random.Generator
) -> tuple[list[_Cell], list[Passage]]:
  """A tree beside whose passages the others fit; it is drawn until one is."""
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
  """Cells of `num` places that grow from one, and the passages of growth."""
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
  sizes: Wanted,
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


PLACES = (
  'hall',
  'kitchen',
  'library',
  'garden',
  'chapel',
  'gallery',
  'stable',
  'workshop',
  'pantry',
  'study',
  'armory',
  'courtyard',
  'orchard',
  'tower',
  'vault',
  'crypt',
  'bakery',
  'laundry',
  'nursery',
  'bridge',
  'meadow',
  'cave',
  'quarry',
  'mill',
  'harbor',
  'market',
  'theater',
  'prison',
  'smithy',
  'brewery',
  'dormitory',
  'observatory',
)
SMALL = (
  'tent',
  'wardrobe',
  'cart',
  'boat',
  'closet',
  'barrel',
  'shed',
  'coach',
  'crate',
  'kiosk',
  'hut',
  'booth',
)
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
COLORS = ('', 'red ', 'blue ', 'green ', 'white ', 'black ', 'gray ', 'gold ')
MOST = len(COLORS) * len(PLACES)
MOST_SMALL = len(COLORS) * len(SMALL)


def places(num: int, confusable: int, rng: np.random.Generator) -> list[str]:
  """Unlike names of at most MOST places, some of them alike but for a mark."""
  plain = _drawn(PLACES, num, rng)
  groups = -(-confusable // len(MARKS))
  pairs = itertools.product(plain[:groups], MARKS)
  alike = [f'{noun} ({mark})' for noun, mark in pairs]
  names = alike[:confusable] + plain[confusable:]
  return [names[k] for k in rng.permutation(num)]


def small(num: int, rng: np.random.Generator) -> list[str]:
  """Unlike names of at most MOST_SMALL places that are entered and left."""
  return _drawn(SMALL, num, rng)


def _drawn(
  nouns: tuple[str, ...], num: int, rng: np.random.Generator
) -> list[str]:
  """Nouns in random order, and again with a color before them."""
  names = []
  for color in COLORS:
    names += [color + nouns[k] for k in rng.permutation(len(nouns))]
  return names[:num]
