"""Street maps, and the sequences that travel on them.

A sequence is `origin destination direction ... direction end`. The map is read
from files or generated; `navigation` defines its states and rules.

The generated city is in the manner of Manhattan, for work without downloads:

      o===o===o===o===o     rim and every fourth street: two-way
      |   v   ^ / v   |     other streets and avenues: one-way, alternating
      o-<-o-<-o-<-o-<-o     one diagonal avenue, two-way
      |   v / ^   v   |     culs-de-sac, and streets that leave or enter the
      o===o===o===o===o     map and never come back

The whole is turned by 29 degrees and gently bent, so that labels vary.

Prompts list streets one by one: 'From Mira, north leads to Kulo.'

Origins and destinations are uniform, or from taxi trips in the TLC schema, CSV
or Parquet. Both ends of a trip are mapped to the nearest intersection: in
metres, or in degrees as published (Vafa et al. 2024, appendix B), where a
degree of longitude counts as much as one of latitude. Unusable trips are
dropped and counted by cause, in this order: `unreadable` (missing, not a
number, not a coordinate), `zero` (a meter without a fix writes 0), `outside`
(further than OUTSIDE_M from that intersection), `same_node`.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy

from wm import core
from wm.core import basics, inputs, resources
from wm.core.fields import field, field_error
from wm.kernels.maps import paths
from wm.worlds.base import sampling, verbal
from wm.worlds.maps import navigation, routes, streets
from wm.worlds.maps.navigation import DIRECTION0, END, NODE0

# Length limits in number of directions. Random walks run to 99 of them; the
# published shortest and noisy routes keep under 100 tokens in all.
MAX_MOVES = {'random': 99, 'shortest': 96, 'noisy': 96}
MIN_MOVES = 2
# Minimum bytes: per move of routes planned at once; per weighting.
PLANNED, ROADS = 1024, 256
# Default share of held-out pairs, and the step of this share.
SHARE = 1 / sampling.HELDOUT
# Distances that assign an end of a trip to an intersection.
NEAREST = 'metres', 'degrees'

_READER = streets.__name__

TEXTS = verbal.Texts(__file__)

COMPASS = verbal.words(
  'north northeast east southeast south southwest west northwest'
)

_STEP = 'From {here}, {label} leads to {there}.'
_NONE = 'From {here}, no street leads on.'


@dataclasses.dataclass(frozen=True)
class World(
  navigation.Navigation, core.Verbal, core.Described, core.Generative
):
  """A street map and how sequences travel on it.

  Attributes:
    rows: crossings along the generated city, which is used without files.
    traversal: 'random' walks, 'shortest' paths, or 'noisy' shortest paths.
    nearest: distance for mapping a trip's ends to intersections: 'metres', or
      'degrees' as published.
    max_moves: directions of the longest sequence; 0 is MAX_MOVES[traversal],
      with prefixes of trials as published. Any other value limits prefixes too.
    heldout: share of origin-destination pairs in the held-out split, in steps
      of 1 / sampling.HELDOUT.
  """

  noun: ClassVar[str] = 'this city'

  nodes: str = field(
    '', 'CSV file of intersections, with `edges`', format=f'{_READER}.load_csv'
  )
  edges: str = field('', 'CSV file of streets', format=f'{_READER}.load_csv')
  file: str = field(
    '',
    'GraphML of networkx or OSMnx, or OSM XML, instead of these',
    format=f'{_READER}.load_file',
  )
  around: str = field('', "'LAT,LON': the part of the map within `radius`")
  radius: float = field(0.0, 'metres from there', least=0)
  box: str = field('', "'SOUTH,WEST,NORTH,EAST': the part of the map inside")
  rows: int = 8
  columns: int = field(8, 'crossings across it')
  city_seed: int = field(0, 'seed of the generated city', least=0)
  traversal: str = field('random', choices=tuple(MAX_MOVES))
  trips: str = field(
    '',
    'TLC file, or a folder of them, that origins and destinations are from; '
    'default uniform',
    format='wm.worlds.maps.load_trips',
  )
  nearest: str = field('metres', choices=NEAREST)
  weightings: int = field(50, 'number of noisy weightings', least=1)
  max_moves: int = field(0, least=MIN_MOVES, also=(0,), unit='moves')
  turns: str = field(
    '',
    'CSV file of the order in which the published program takes the directions '
    'of each intersection; default clockwise from north. Only '
    "boundary='published' depends on it",
    format=f'{_READER}.load_turns',
  )
  heldout: float = field(
    1 / sampling.HELDOUT,
    least=1 / sampling.HELDOUT,
    most=1 - 1 / sampling.HELDOUT,
  )

  def cost(self, world: core.World | None = None) -> core.Cost:
    """See core.Bounded; includes street lengths under all weightings."""
    del world
    names, more = ['max_moves'], PLANNED * self.max_moves
    if self.traversal == 'noisy':
      names, more = [*names, 'weightings'], more + ROADS * self.weightings
    return resources.sequences_cost(self.max_moves, *names, more=more)

  def __post_init__(self) -> None:
    super().__post_init__()
    if bool(self.nodes) != bool(self.edges) or (self.nodes and self.file):
      raise field_error(
        self, 'nodes edges file', 'nodes and edges, or file, or neither'
      )
    if bool(self.around) != bool(self.radius) or (self.around and self.box):
      expected = 'around and radius, or box, or neither'
      raise field_error(self, 'around radius box', expected)
    parts = self.heldout * sampling.HELDOUT
    if abs(parts - round(parts)) > 1e-9:
      expected = f'{SHARE} to {1 - SHARE} in steps of {SHARE}'
      raise field_error(self, 'heldout', expected)
    if self.trips and self.traversal == 'random':
      expected = "traversal='shortest' or 'noisy' with trips"
      raise field_error(self, 'trips traversal', expected)

  @functools.cached_property
  def graph(self) -> streets.StreetGraph:
    """The street graph; raises InputError for bad files."""
    if not self.nodes and not self.file:
      whole = generate(self.rows, self.columns, self.city_seed)
      return self._part(whole)
    graph = (
      streets.load_csv(self.nodes, self.edges)
      if self.nodes
      else streets.load_file(self.file)
    )
    streets.check_lost(graph, self.file or self.edges)
    return self._part(graph)

  def _part(self, graph: streets.StreetGraph) -> streets.StreetGraph:
    """The part that `around` and `radius`, or `box`, cut out of the map."""
    if self.around:
      lat, lon = np.array(_coordinates('around', self.around, 'LAT,LON'))
      apart = streets.great_circle(graph.lat, graph.lon, lat, lon)
      return district(graph, apart <= self.radius, f'{self.radius:g} m')
    if self.box:
      names = 'SOUTH,WEST,NORTH,EAST'
      south, west, north, east = _coordinates('box', self.box, names)
      inside = (graph.lat >= south) & (graph.lat <= north)
      inside &= (graph.lon >= west) & (graph.lon <= east)
      return district(graph, inside, f'box={self.box}')
    return graph

  @property
  def moves(self) -> int:
    """Limit of directions in a sequence."""
    return self.max_moves or MAX_MOVES[self.traversal]

  @property
  def prefix_limit(self) -> int:
    """The published limit for every traversal, unless `max_moves` is set."""
    return self.max_moves or navigation.PREFIX_MOVES

  @functools.cached_property
  def turns_known(self) -> tuple[np.ndarray | None, np.ndarray | None]:
    """See table.Tabled."""
    if not self.turns:
      return super().turns_known
    return streets.load_turns(self.turns, self.graph)

  def split_key(self, sequences: core.Sequences) -> np.ndarray:
    """[N] uint64 of origin and destination, by node id."""
    ends = sequences.tokens[:, :2] - NODE0
    ids = self.graph.ids[np.clip(ends, 0, len(self.graph) - 1)]
    return basics.hash64(ids[:, 0], ids[:, 1])

  def _in_split(
    self, origins: np.ndarray, destinations: np.ndarray, split: str
  ) -> np.ndarray:
    """[N] bool: True for pairs of rows in a split."""
    ids = self.graph.ids
    key = basics.hash64(ids[origins], ids[destinations])
    return sampling.in_split(key, split, round(self.heldout * sampling.HELDOUT))

  def sample(self, num: int, seed: int, split: str = 'all') -> core.Sequences:
    """Sequences of the world's traversal; `counts` has the dropped ones.

    Shortest and noisy routes are drawn without replacement, so there may be
    fewer than `num`. `side` has the noisy weighting of each.
    """

    def wanted(origins: np.ndarray, ends: np.ndarray) -> np.ndarray:
      return self._in_split(origins, ends, split)

    if self.traversal == 'random':
      batches = routes.walks(
        self.graph.delta, MIN_MOVES, self.moves, seed, num, wanted
      )
    else:
      pairs, size = self._pairs
      bounds = MIN_MOVES, self.moves
      batches = routes.planned(
        self._roads, pairs, size, bounds, seed, num, wanted
      )
    if self.traversal == 'noisy':
      batches = routes.fresh(batches)
    drawn, counts = routes.collect(batches, num, self.moves)
    return self._sequences(drawn, counts)

  def data_distribution(self, replan: bool = False) -> routes.RouteProcess:
    """See core.Generative and `routes`."""

    def wanted(origins: np.ndarray, ends: np.ndarray) -> np.ndarray:
      if not self.trips:
        return np.ones(len(origins), bool)
      trips = self._trips.pairs @ (len(self.graph), 1)
      return np.isin(origins * len(self.graph) + ends, trips)

    if self.traversal == 'random':
      return routes.RandomWalkProcess(self, wanted, MIN_MOVES, replan)
    planner = routes.ReplannedProcess if replan else routes.PlannedProcess
    return planner(self, wanted, MIN_MOVES, self._roads.lengths)

  def stats(self) -> dict[str, int]:
    """Sizes of the graph, its reachable parts, fixes of loading, and trips.

    See `streets.facts`, `streets.build` and `load_trips`.
    """
    size = {'intersections': len(self.graph), 'streets': self.graph.num_edges}
    return size | self._reached | self.graph.counts | self._trips.counts

  def read_as(self) -> dict[str, str]:
    """How the files were interpreted; empty for a generated city."""
    return dict(self.graph.read_as)

  @functools.cached_property
  def _reached(self) -> dict[str, int]:
    return streets.facts(self.graph)

  @functools.cached_property
  def _trips(self) -> Trips:
    """Trips of the file, each pair once; empty if pairs are uniform."""
    if not self.trips:
      return Trips(np.zeros((0, 2), np.int64), {})
    loaded, counts = load_trips(self.trips, self.graph, self.nearest)
    pairs = np.unique(loaded, axis=0)
    if not len(pairs):
      raise core.InputError(
        f'{self.trips}: none of its {counts["trips"]} trips is on the map'
      )
    names = {f'trips: {cause}': number for cause, number in counts.items()}
    names['trips: same pair'] = len(loaded) - len(pairs)
    return Trips(pairs, names)

  @property
  def _pairs(self) -> tuple[routes.Numbered, int]:
    """Function from numbers to origins and destinations, and their count."""
    size = len(self.graph)
    if not self.trips:
      return lambda number: np.divmod(number, size), size * size
    pairs = self._trips.pairs
    return lambda number: (pairs[number, 0], pairs[number, 1]), len(pairs)

  @functools.cached_property
  def _roads(self) -> routes.Roads:
    """Roads under all noisy weightings; true lengths if there is no noise."""
    lengths = [self.graph.length_m]
    if self.traversal == 'noisy':
      lengths = [
        routes.weighting(self.graph.length_m, number)
        for number in range(self.weightings)
      ]
    return routes.Roads(self.graph.delta, lengths)

  def _sequences(
    self, drawn: routes.RouteBatch, counts: dict[str, int]
  ) -> core.Sequences:
    """Routes as tokens."""
    tokens = np.zeros((len(drawn.moves), self.max_len), np.int32)
    tokens[:, 0] = drawn.origins + NODE0
    tokens[:, 1] = drawn.destinations + NODE0
    np.add(drawn.labels, DIRECTION0, out=tokens[:, 2:-1])
    tokens[:, 2:-1] *= drawn.labels >= 0
    tokens[np.arange(len(tokens)), drawn.moves + 2] = END
    noisy = self.traversal == 'noisy'
    side = {'weighting': drawn.weighting} if noisy else {}
    lengths = (drawn.moves + 3).astype(np.int32)
    distinct = self.traversal != 'random'  # Random walks may repeat.
    return core.Sequences(tokens, lengths, side, counts, distinct)

  def costs(self, sequences: core.Sequences) -> core.Costs:
    """Metres travelled, and metres of each pair's shortest path (Dijkstra).

    The first row is under true lengths; others, of noisy shortest paths, under
    each noisy weighting (section 2).
    """
    tokens, delta = sequences.tokens, self.graph.delta
    pairs = tokens[:, :2] - NODE0
    named = np.all((pairs >= 0) & (pairs < len(delta)), axis=1)
    origins, ends = np.where(named[:, None], pairs, core.DEAD).T
    labels = self._labels(tokens, np.zeros(len(tokens), np.int32))[:, 2:]
    inside = np.arange(2, tokens.shape[1]) < sequences.lengths[:, None]
    labels = np.where(inside & (labels < NODE0 - DIRECTION0), labels, core.DEAD)
    going, rows = labels >= 0, routes.trace(delta, origins, labels)
    lost = (going & (rows[:, 1:] < 0)).any(1) | ~named
    weightings = [self.graph.length_m]
    if self.traversal == 'noisy':
      weightings += self._roads.lengths
    cost, least = np.full((2, len(weightings), len(tokens)), np.nan)
    for k, lengths in enumerate(weightings):
      steps = np.where(going, lengths[rows[:, :-1], labels], 0.0)
      cost[k] = np.where(lost, np.nan, steps.sum(1))
      least[k, named] = routes.metres(
        delta, lengths, origins[named], ends[named]
      )
    return core.Costs(cost, np.where(np.isfinite(least), least, np.nan))

  # In words.

  def token_names(self, style: core.PromptStyle) -> tuple[str, ...]:
    """Directions in words, and the intersections' names or new ones."""
    names = self.vocab[NODE0:]
    if style.seed:
      names = core.verbal.new_names(len(self.graph), style)
    return ('<pad>', 'stop', *COMPASS, *names)

  def _table(self, style: core.PromptStyle) -> verbal.VerbalTable:
    spoken = self.token_names(style)
    labels, names = spoken[DIRECTION0:NODE0], spoken[NODE0:]
    return verbal.VerbalTable(self.graph.delta, names, labels, _STEP, _NONE)

  def rules(self, style: core.PromptStyle) -> str:
    """See core.Verbal: all intersections by name, and all streets."""
    table = self._table(style)
    rows = core.verbal.shuffled(len(table.names), style)
    return TEXTS.render(
      'streets',
      num=len(rows),
      names=table.listed(rows),
      body='\n'.join(table.by_step(rows, style)),
    )

  def extent(self, style: core.PromptStyle) -> core.verbal.Extent:
    """See core.Verbal."""
    frame = TEXTS.frame('streets')
    return self._table(style).extent(style, 'intersections', frame)


TURN = math.radians(29)  # Manhattan's avenues, clockwise from north.
BLOCK_M = (110.0, 190.0)  # Metres between streets, and between avenues.
CENTRE = (40.75, -73.98)  # Degrees.
MOST = 1_000_000  # Crossings; a street graph of this size fits in memory.


def generate(rows: int, columns: int, seed: int) -> streets.StreetGraph:
  """A city of rows x columns crossings, and a few dead ends besides.

  Nodes are numbered from 1, crossings first, by row. Nearly all of them are
  strongly connected. Lengths are great-circle distances in metres.

  Raises:
    InputError: fewer than 2 rows or columns, or more than MOST crossings.
  """
  if rows < 2 or columns < 2 or rows * columns > MOST:
    raise core.InputError(
      f'a city of {rows} x {columns} crossings; expected at least 2 x 2 and at '
      f'most {MOST:,} in all'
    )
  rng = np.random.default_rng([seed, rows, columns])
  pairs = _grid(rows, columns, rng) + _diagonal(rows, columns, rng)
  north_east = _places(rows, columns, rng)
  spurs, places = _spurs(rows, columns, north_east, rng)
  lat, lon = _degrees(np.concatenate([north_east.reshape(-1, 2), places]))
  sources, targets = np.array(pairs + spurs).T
  edges, lengths = (sources, None, targets), np.full(len(sources), np.nan)
  ids, where = np.arange(1, len(lat) + 1), f'city of {rows} x {columns}'
  return streets.build(ids, lat, lon, edges, lengths, where)


def _grid(
  rows: int, columns: int, rng: np.random.Generator
) -> list[tuple[int, int]]:
  """Edges of streets and avenues; alternate ones run the same way."""
  flip_street, flip_avenue = rng.integers(2, size=2)
  pairs = []
  for r in range(rows):
    line = [r * columns + c for c in range(columns)]
    pairs += _line(line, r, rows, r % 2 == flip_street)
  for c in range(columns):
    line = [r * columns + c for r in range(rows)]
    pairs += _line(line, c, columns, c % 2 == flip_avenue)
  return pairs


def _line(
  line: list[int], index: int, count: int, forward: bool
) -> list[tuple[int, int]]:
  steps = list(itertools.pairwise(line))
  back = [(v, u) for u, v in steps]
  if index in (0, count - 1) or index % 4 == 0:
    return steps + back
  return steps if forward else back


def _diagonal(
  rows: int, columns: int, rng: np.random.Generator
) -> list[tuple[int, int]]:
  """A two-way avenue across the blocks, from one rim to another."""
  start = int(rng.integers(0, max(columns - rows, 0) + 1))
  line = [r * columns + start + r for r in range(rows) if start + r < columns]
  steps = list(itertools.pairwise(line))
  return steps + [(v, u) for u, v in steps]


def _places(rows: int, columns: int, rng: np.random.Generator) -> np.ndarray:
  """[rows, columns, 2] metres along the avenues and across them, bent."""
  along, across = np.meshgrid(
    np.arange(rows) * BLOCK_M[0], np.arange(columns) * BLOCK_M[1], indexing='ij'
  )
  places = np.stack([along, across], axis=-1)
  # Slopes below one keep the bent grid from folding over itself.
  for axis, wave_m in ((0, 1900.0), (1, 1300.0)):
    phase = rng.uniform(0, 2 * math.pi)
    bend = np.sin(2 * math.pi * places[..., 1 - axis] / wave_m + phase)
    places[..., axis] += 0.35 * wave_m / (2 * math.pi) * bend
  return places + rng.normal(0, 6.0, places.shape)


def _spurs(
  rows: int, columns: int, places: np.ndarray, rng: np.random.Generator
) -> tuple[list[tuple[int, int]], np.ndarray]:
  """Culs-de-sac (two-way), exits and entries (one-way) at the rim."""
  # Few exits: a long random walk that can end in one will.
  kinds = ('cul', 'cul', 'cul', 'exit', 'cul', 'cul', 'cul', 'entry')
  count = max(rows * columns // 24, 2)
  rim = [(r, c) for r in (0, rows - 1) for c in range(columns)]
  rim += [(r, c) for r in range(1, rows - 1) for c in (0, columns - 1)]
  chosen = rng.permutation(len(rim))[:count]
  middle = places.reshape(-1, 2).mean(0)
  pairs, spots = [], []
  for number, index in enumerate(chosen):
    r, c = rim[index]
    away = places[r, c] - middle
    spots.append(places[r, c] + 90.0 * away / np.linalg.norm(away))
    node, crossing = rows * columns + number, r * columns + c
    if kinds[number % len(kinds)] != 'entry':
      pairs.append((crossing, node))
    if kinds[number % len(kinds)] != 'exit':
      pairs.append((node, crossing))
  return pairs, np.array(spots)


def _degrees(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Latitudes and longitudes of places in metres along and across."""
  along, across = (places - places.mean(0)).T
  north = along * math.cos(TURN) - across * math.sin(TURN)
  east = along * math.sin(TURN) + across * math.cos(TURN)
  lat = CENTRE[0] + np.degrees(north / streets.EARTH_M)
  scale = streets.EARTH_M * math.cos(math.radians(CENTRE[0]))
  return lat, CENTRE[1] + np.degrees(east / scale)


# Farther from every intersection than this is not on the map. The longest
# Manhattan blocks put a kerb at most 150 m from one.
OUTSIDE_M = 300.0

# Wanted order, and how the years of the schema spell each column.
TRIP_COLUMNS = (
  ('pickup_latitude', 'start_lat', 'pickup_lat'),
  ('pickup_longitude', 'start_lon', 'pickup_lon'),
  ('dropoff_latitude', 'end_lat', 'dropoff_lat'),
  ('dropoff_longitude', 'end_lon', 'dropoff_lon'),
)

TRIP_ROWS = 100_000  # Rows held in memory at a time.

Find = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def _coordinates(name: str, text: str, form: str) -> list[float]:
  """The degrees of 'LAT,LON' and the like; raises InputError."""
  expected = form.split(',')
  try:
    values = [float(part) for part in text.split(',')]
  except ValueError:
    values = []
  if len(values) != len(expected) or not np.isfinite(values).all():
    raise core.InputError(f'maps: {name}={text!r}; expected {form} in degrees')
  return values


def district(
  graph: streets.StreetGraph, inside: np.ndarray, where: str
) -> streets.StreetGraph:
  """The largest strongly connected part of some intersections of a map.

  From each of its intersections a route inside it leads to every other one.
  Streets that leave it, and the counts of what was left out, are in `counts`.

  Args:
    graph: the whole map.
    inside: [S] bool, the intersections to choose from.
    where: name of the part in errors.

  Raises:
    InputError: the part would have fewer than two intersections.
  """
  size = len(graph)
  both = inside[:, None] & (graph.delta >= 0) & inside[graph.delta]
  component = paths.parts(np.where(both, graph.delta, core.DEAD))
  # Of equal parts the one with the first intersection.
  sizes = np.bincount(component[inside], minlength=component.max() + 1)
  chosen = inside & (component == sizes.argmax())
  if chosen.sum() < 2:
    raise core.InputError(
      f'maps: no two intersections of {where} have routes to each other '
      f'inside; {inside.sum()} of {size} lie there: expected a larger part'
    )
  rows = np.flatnonzero(chosen)
  # The number of each row in the part; DEAD of others, and of no street.
  number = np.full(size + 1, core.DEAD, np.int32)
  number[rows] = np.arange(len(rows))
  delta = number[graph.delta[rows]]
  gone = (delta == core.DEAD) & (graph.delta[rows] != core.DEAD)
  return dataclasses.replace(
    graph,
    ids=graph.ids[rows],
    lat=graph.lat[rows],
    lon=graph.lon[rows],
    delta=delta,
    length_m=np.where(delta == core.DEAD, np.nan, graph.length_m[rows]),
    names=tuple(graph.names[row] for row in rows),
    lost=(),
    counts={
      **graph.counts,
      'outside the district': int(size - inside.sum()),
      'not strongly connected in it': int(inside.sum() - len(rows)),
      'streets out of the district': int(gone.sum()),
    },
  )


class Trips(NamedTuple):
  """Trips on a graph.

  Attributes:
    pairs: [N, 2] int64 rows of origin and destination, in file order.
    counts: 'trips' read, 'used', and drops by cause.
  """

  pairs: np.ndarray
  counts: dict[str, int]


def load_trips(
  path: str | Path, graph: streets.StreetGraph, nearest: str = 'metres'
) -> Trips:
  """A CSV or Parquet file of taxi trips (TLC), or a folder of such files.

  Columns, the years of the schema spelling them differently; others are not
  read. A trip that is not on the map is dropped, and counted by cause.

      pickup_latitude    start_lat   pickup_lat      degrees
      pickup_longitude   start_lon   pickup_lon
      dropoff_latitude   end_lat     dropoff_lat
      dropoff_longitude  end_lon     dropoff_lon

  Args:
    path: of the file or folder.
    graph: the map.
    nearest: of NEAREST.

  Raises:
    InputError: no such file, no coordinate columns, or not CSV or Parquet.
  """
  find = _nearest(graph, nearest)
  causes = 'unreadable', 'zero', 'outside', 'same_node'
  counts = dict.fromkeys(('trips', 'used', *causes), 0)
  pairs = []
  for places in itertools.chain.from_iterable(
    (_parquet if file.suffix == '.parquet' else _csv)(file)
    for file in _trip_files(path)
  ):
    outcomes, rows = _classify(places, find)
    for cause in ('used', *causes):
      counts[cause] += int((outcomes == cause).sum())
    counts['trips'] += len(places)
    pairs.append(rows[outcomes == 'used'])
  return Trips(np.concatenate([np.zeros((0, 2), np.int64), *pairs]), counts)


def _classify(places: np.ndarray, find: Find) -> tuple[np.ndarray, np.ndarray]:
  """Cause [N] and node rows [N, 2] of places [N, 4] in degrees."""
  limits = np.array([90, 180, 90, 180])
  readable = (np.abs(places) <= limits).all(-1)  # False for NaN.
  points = np.where(readable[:, None], places, 0.0).reshape(-1, 2, 2)
  zero = (points == 0).any(-1).any(-1)
  metres, rows = find(points[..., 0], points[..., 1])
  causes = np.select(
    [~readable, zero, (metres > OUTSIDE_M).any(-1), rows[:, 0] == rows[:, 1]],
    ['unreadable', 'zero', 'outside', 'same_node'],
    'used',
  )
  return causes, rows


def _nearest(graph: streets.StreetGraph, rule: str) -> Find:
  """Function from degrees [...] to metres and row of the nearest node."""

  nodes = streets.project(graph, graph.lat, graph.lon)
  degrees = rule == 'degrees'
  plane = np.stack([graph.lat, graph.lon], -1) if degrees else nodes
  tree = scipy.spatial.KDTree(plane)

  def find(lat: np.ndarray, lon: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    points = streets.project(graph, lat, lon)
    _, rows = tree.query(np.stack([lat, lon], -1) if degrees else points)
    return np.linalg.norm(points - nodes[rows], axis=-1), rows

  return find


def _trip_files(path: str | Path) -> list[Path]:
  """A file, or those of a folder in order of name."""
  path = Path(path)
  if not path.is_dir():
    return [path]
  kinds = '.csv', '.parquet'
  files = sorted(child for child in path.iterdir() if child.suffix in kinds)
  if not files:
    raise core.InputError(f'{path} has no file that ends in .csv or .parquet')
  return files


def _choose(path: Path, header: list[str]) -> list[int]:
  """Position of each of COLUMNS; the 2014 files pad names with spaces."""
  names = [name.strip().lower() for name in header]
  chosen = []
  for spellings in TRIP_COLUMNS:
    matches = [name for name in spellings if name in names]
    if not matches:
      raise core.InputError(
        f'{path} has no column {spellings[0]!r}; expected the TLC schema with '
        f'coordinates (2009 to June 2016), found {", ".join(names) or "none"}'
      )
    chosen.append(names.index(matches[0]))
  return chosen


def _csv(path: Path) -> Iterator[np.ndarray]:
  """Chunks [N, 4] of degrees in the order of COLUMNS; NaN if unreadable."""
  with (
    inputs.reading_file(path, 'a CSV file') as table,
    table.open(encoding='utf-8-sig', newline='') as file,
  ):
    reader = csv.reader(file)
    header = next(reader, [])
    chosen = _choose(path, header)
    rows = []
    for row in reader:
      if row:  # The 2014 files have an empty second line.
        padded = [*row, *[None] * (len(header) - len(row))]
        rows.append([_number(padded[column]) for column in chosen])
      if len(rows) == TRIP_ROWS:
        yield np.array(rows)
        rows = []
    yield np.array(rows).reshape(-1, 4)


def _parquet(path: Path) -> Iterator[np.ndarray]:
  """As `_csv`."""
  from pyarrow import parquet  # Only taxi trips need it.

  with (
    inputs.reading_file(path, 'a readable Parquet file'),
    parquet.ParquetFile(path) as file,
  ):
    header = file.schema_arrow.names
    names = [header[column] for column in _choose(path, header)]
    for batch in file.iter_batches(TRIP_ROWS, columns=names):
      columns = [batch.column(name).to_pylist() for name in names]
      yield np.array([[*map(_number, c)] for c in columns], np.float64).T


def _number(value: Any) -> float:
  """A number as float64; NaN for what is none."""
  try:
    return float(value)  # None raises TypeError.
  except (TypeError, ValueError):
    return float('nan')
