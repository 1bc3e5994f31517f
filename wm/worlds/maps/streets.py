"""Street graphs: intersections, and at most one edge in each compass direction.

A graph comes from CSV files, from OpenStreetMap through OSMnx (the extra
`maps`) or from a generated city. Edges are labelled by the bearing from their
start to their end; where two leave an intersection in one direction, the
shorter stays (ties: the smaller neighbour id) and the other is counted as a
collision.

The generated city is in the manner of Manhattan, for work without downloads:

      o===o===o===o===o     rim and every fourth street: two-way
      |   v   ^ / v   |     other streets and avenues: one-way, alternating
      o-<-o-<-o-<-o-<-o     one diagonal avenue, two-way
      |   v / ^   v   |     culs-de-sac, and streets that leave or enter the
      o===o===o===o===o     map and never come back

The whole is turned by 29 degrees and gently bent, so that labels vary.

`load_csv` and `load_file` say what files may hold. Nodes without coordinates
are placed by networkx's spring layout of seed 0, whose longest edge is HOP_M
long. Then no edge is left out: those of an intersection share its eight
directions, so that the angles to where they lead are smallest in all.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wm import core
from wm.core import inputs
from wm.worlds.base import csv_file

# Clockwise from north: sector k is centred on 45 k degrees.
DIRECTIONS = ('N', 'NE', 'E', 'SE', 'S', 'SW', 'W', 'NW')

EARTH_M = 6_371_009.0  # Mean Earth radius in metres, as OSMnx takes it.
HOP_M = 100.0  # Metres of an edge without length between nodes without places.
MOST_PLACED = 1000  # Nodes of a spring layout, which takes some seconds.
# Words of sequences and of states, which are no names of nodes.
RESERVED = ('<pad>', 'end', *DIRECTIONS, '?')


@dataclasses.dataclass(frozen=True)
class StreetGraph:
  """Intersections and labelled one-way edges; rows follow the input's order.

  Attributes:
    ids: [S] int64, OpenStreetMap ids or numbers of a generated city.
    lat: [S] float64, degrees.
    lon: [S] float64, degrees.
    delta: [S, 8] int32, row of the neighbour in each direction, or DEAD.
    length_m: [S, 8] float64, metres; NaN where there is no edge.
    counts: what was resolved or dropped while loading, cause -> count.
    names: [S] of nodes in sequences, by default their ids.
  """

  ids: np.ndarray
  lat: np.ndarray
  lon: np.ndarray
  delta: np.ndarray
  length_m: np.ndarray
  counts: dict[str, int] = dataclasses.field(default_factory=dict)
  names: tuple[str, ...] = ()

  def __post_init__(self) -> None:
    if not self.names:
      names = tuple(map(str, self.ids.tolist()))
      object.__setattr__(self, 'names', names)

  def __len__(self) -> int:
    return len(self.ids)

  @property
  def num_edges(self) -> int:
    """Number of labelled edges."""
    return int((self.delta != core.DEAD).sum())

  def edges(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sources, labels and targets [E] of all edges, by source then label."""
    sources, labels = np.nonzero(self.delta != core.DEAD)
    return sources, labels, self.delta[sources, labels]

  def two_way(self) -> np.ndarray:
    """[S] int64: neighbours v != u with edges u -> v and v -> u (Fig. 7)."""
    sources, _, targets = self.edges()
    size = len(self)
    forward = np.unique(sources * size + targets)
    backward = np.unique(targets.astype(np.int64) * size + sources)
    both = np.intersect1d(forward, backward)
    both = both[both // size != both % size]
    return np.bincount(both // size, minlength=size)


def _networkx() -> Any:
  """The module networkx, loaded where it is used."""
  import networkx

  return networkx


def facts(graph: StreetGraph) -> dict[str, int]:
  """What can be reached from where, by counts.

  Returns:
    components: of intersections that reach each other, strongly connected.
    largest_component: intersections of the largest.
    sinks: intersections without an exit.
    without_entry: intersections that nothing leads to.
    pairs_without_path: ordered pairs u, v of two intersections where no path
      leads from u to v.
  """
  nx = _networkx()
  sources, _, targets = graph.edges()
  size = len(graph)
  streets = nx.DiGraph()
  streets.add_nodes_from(range(size))
  streets.add_edges_from(zip(sources.tolist(), targets.tolist(), strict=True))
  folded = nx.condensation(streets)
  sizes = {c: len(folded.nodes[c]['members']) for c in folded}
  below: dict[int, int] = {}  # Bit c is set where component c is reached.
  linked = 0
  for c in reversed(list(nx.topological_sort(folded))):
    below[c] = 1 << c
    for head in folded.successors(c):
      below[c] |= below[head]
    reached = sum(sizes[d] for d in folded if below[c] >> d & 1)
    linked += sizes[c] * (reached - 1)
  return {
    'components': len(sizes),
    'largest_component': max(sizes.values()),
    'sinks': size - len(np.unique(sources)),
    'without_entry': size - len(np.unique(targets)),
    'pairs_without_path': size * (size - 1) - linked,
  }


def great_circle(
  lat1: np.ndarray, lon1: np.ndarray, lat2: np.ndarray, lon2: np.ndarray
) -> np.ndarray:
  """Great-circle distances in metres between points in degrees, broadcast."""
  lat1, lon1, lat2, lon2 = map(np.radians, (lat1, lon1, lat2, lon2))
  chord = (
    np.sin((lat2 - lat1) / 2) ** 2
    + np.cos(lat1) * np.cos(lat2) * np.sin((lon2 - lon1) / 2) ** 2
  )
  return 2 * EARTH_M * np.arcsin(np.sqrt(np.minimum(chord, 1.0)))


def bearing(
  lat1: np.ndarray, lon1: np.ndarray, lat2: np.ndarray, lon2: np.ndarray
) -> np.ndarray:
  """Initial bearings in degrees [0, 360), clockwise from north, broadcast."""
  lat1, lon1, lat2, lon2 = map(np.radians, (lat1, lon1, lat2, lon2))
  east = np.sin(lon2 - lon1) * np.cos(lat2)
  north = np.cos(lat1) * np.sin(lat2) - np.sin(lat1) * np.cos(lat2) * np.cos(
    lon2 - lon1
  )
  return np.degrees(np.arctan2(east, north)) % 360


def sector(bearings: np.ndarray) -> np.ndarray:
  """Index into DIRECTIONS of bearings in degrees (8 sectors of 45)."""
  return np.floor(np.asarray(bearings) / 45 + 0.5).astype(np.int64) % 8


def project(graph: StreetGraph, lat: np.ndarray, lon: np.ndarray) -> np.ndarray:
  """[N, 2] metres east and north of the graph's middle (equirectangular)."""
  lat0, lon0 = graph.lat.mean(), graph.lon.mean()
  east = np.radians(lon - lon0) * math.cos(math.radians(lat0))
  return EARTH_M * np.stack([east, np.radians(lat - lat0)], axis=-1)


def build(
  ids: np.ndarray,
  lat: np.ndarray,
  lon: np.ndarray,
  edges: tuple[np.ndarray, np.ndarray | None, np.ndarray],
  length_m: np.ndarray,
  where: str,
) -> StreetGraph:
  """A graph from node columns [N] and edge columns [E]; checks all of them.

  Args:
    ids: [N] int64.
    lat: [N] float64, degrees.
    lon: [N] float64, degrees.
    edges: source rows, labels and target rows; None: by their bearings.
    length_m: [E] metres; NaN stands for the great-circle length.
    where: what to call the input in errors.

  Raises:
    InputError: duplicate ids, bad coordinates or lengths, or no path.
  """
  _check_nodes(ids, lat, lon, where)
  sources, targets = (np.asarray(edges[k], np.int64) for k in (0, 2))
  ends = lat[sources], lon[sources], lat[targets], lon[targets]
  labels = sector(bearing(*ends)) if edges[1] is None else edges[1]
  missing = np.isnan(length_m)
  length_m = np.where(missing, great_circle(*ends), length_m)
  bad = np.flatnonzero(~np.isfinite(length_m) | (length_m < 0))
  if bad.size:
    raise core.InputError(
      f'{where}: edge {ids[sources[bad[0]]]} -> {ids[targets[bad[0]]]} has '
      f'length {length_m[bad[0]]} m; expected a finite length >= 0'
    )
  if not (sources != targets).any():
    raise core.InputError(
      f'{where}: no path between any pair of its {len(ids)} nodes'
    )
  order = np.lexsort((ids[targets], length_m, labels, sources))
  keys = (sources * 8 + labels)[order]
  shortest = order[np.r_[True, keys[1:] != keys[:-1]]]
  used = np.zeros(len(ids), bool)
  used[sources[shortest]] = used[targets[shortest]] = True
  row = np.cumsum(used) - 1
  delta = np.full((int(used.sum()), 8), core.DEAD, np.int32)
  lengths = np.full(delta.shape, np.nan)
  delta[row[sources[shortest]], labels[shortest]] = row[targets[shortest]]
  lengths[row[sources[shortest]], labels[shortest]] = length_m[shortest]
  counts = {
    'collisions': len(order) - len(shortest),
    'nodes_without_edges': int((~used).sum()),
    'great_circle_lengths': int(missing[shortest].sum()),
  }
  return StreetGraph(ids[used], lat[used], lon[used], delta, lengths, counts)


def _check_nodes(
  ids: np.ndarray, lat: np.ndarray, lon: np.ndarray, where: str
) -> None:
  values, counts = np.unique(ids, return_counts=True)
  if (counts > 1).any():
    raise core.InputError(
      f'{where}: node id {values[counts > 1][0]} is given twice'
    )
  for name, column, most in (('lat', lat, 90), ('lon', lon, 180)):
    bad = np.flatnonzero(~(np.abs(column) <= most))
    if bad.size:
      raise core.InputError(
        f'{where}: node {ids[bad[0]]} has {name}={column[bad[0]]}; expected '
        f'degrees from -{most} to {most}'
      )


def load_csv(nodes: str | Path, edges: str | Path) -> StreetGraph:
  """Two CSV files: nodes, and edges that run one way.

      osm_id,lat,lon                      node,direction,neighbor,length_m
      gate,40.7000,-74.0000               gate,N,yard,120
      yard,40.7011,-74.0001               yard,S,gate,120

  osm_id: an integer or a name; names are tokens, with '_' for blanks and
      commas, and with '_' behind one that is a token already, such as N.
  lat, lon: degrees. Without both columns, nodes are placed as in a drawing:
      by a spring layout of a fixed seed, whose longest edge is 100 m.
  direction: N, NE, E, SE, S, SW, W or NW; of several edges of a node in one
      direction the shortest is kept. Without the column it is the bearing; of
      nodes without places, the eight directions nearest to the bearings, each
      once, so that all edges are kept.
  length_m: metres. Empty or absent, it is the great-circle distance; of nodes
      without places 100 m.

  Raises:
    InputError: a missing file or column, a malformed value, an unknown node
      or direction, and all that `build` checks.
  """
  table = csv_file.read(nodes, ('osm_id',))
  ids, names = _identified(table['osm_id'], str(nodes))
  located = {'lat', 'lon'} & {*table}
  if len(located) == 1:
    (column,) = located
    raise core.InputError(
      f'{nodes} has a column {column} alone; expected lat and lon, or neither'
    )
  places = None
  if located:
    lat, lon = (_numbers(nodes, k, table[k], float) for k in ('lat', 'lon'))
    _check_nodes(ids, lat, lon, str(nodes))
    places = lat, lon
  table = csv_file.read(edges, ('node', 'neighbor'))
  sources = _rows(edges, 'node', table['node'], ids, names)
  targets = _rows(edges, 'neighbor', table['neighbor'], ids, names)
  labels = _labels(edges, table['direction']) if 'direction' in table else None
  length_m = np.full(len(sources), np.nan)
  if 'length_m' in table:
    stated = [n for n, text in enumerate(table['length_m']) if text.strip()]
    texts = [table['length_m'][n] for n in stated]
    length_m[stated] = _numbers(edges, 'length_m', texts, float)
    if not np.isfinite(length_m[stated]).all():
      raise core.InputError(f'{edges}: length_m must be finite')
  links = sources, labels, targets
  return _built(ids, names, places, links, length_m, str(edges))


def _token(text: str) -> str:
  """The token of a node that a file calls so; see `load_csv`."""
  name = re.sub(r'[\s,]+', '_', text.strip())
  return name + '_' * (name in RESERVED)


def _identified(
  texts: Sequence[str], where: str
) -> tuple[np.ndarray, tuple[str, ...]]:
  """Ids [S] of nodes, and their names, () where these are the ids.

  Raises:
    InputError: an empty name, or two nodes with one.
  """
  stripped = [text.strip() for text in texts]
  if all(re.fullmatch(r'[+-]?[\d.]+', text) for text in stripped):
    return _numbers(where, 'osm_id', stripped, int), ()
  names = [*map(_token, stripped)]
  numbers: dict[str, int] = {}
  for number, name in enumerate(names, 1):
    if not name:
      raise core.InputError(f'{where}: node {number} has no name; expected one')
    if numbers.setdefault(name, number) != number:
      raise core.InputError(
        f'{where}: nodes {numbers[name]} and {number} have the same name '
        f'{name!r}'
      )
  return np.arange(1, len(names) + 1), tuple(names)


def _built(
  ids: np.ndarray,
  names: tuple[str, ...],
  places: tuple[np.ndarray, np.ndarray] | None,
  edges: tuple[np.ndarray, np.ndarray | None, np.ndarray],
  length_m: np.ndarray,
  where: str,
) -> StreetGraph:
  """As `build`, of nodes that may have names and no places (lat, lon).

  names: of nodes whose ids are 1 .. S; () where their ids are.
  """
  sources, labels, targets = edges
  if places is None:
    places = _layout(len(ids), sources, targets, where)
    length_m = np.where(np.isnan(length_m), HOP_M, length_m)
    if labels is None:
      order = np.lexsort((length_m, targets, sources))
      keys = (sources * len(ids) + targets)[order]
      order = np.sort(order[np.r_[True, keys[1:] != keys[:-1]]])
      sources, targets, length_m = (
        column[order] for column in (sources, targets, length_m)
      )
      named = names or [*map(str, ids.tolist())]
      labels = _spread(places, sources, targets, named, where)
  lat, lon = places
  graph = build(ids, lat, lon, (sources, labels, targets), length_m, where)
  if not names:
    return graph
  used = tuple(names[number - 1] for number in graph.ids.tolist())
  return dataclasses.replace(graph, names=used)


def _layout(
  size: int, sources: np.ndarray, targets: np.ndarray, where: str
) -> tuple[np.ndarray, np.ndarray]:
  """Latitudes and longitudes [S] of nodes that have none, by a drawing.

  Raises:
    InputError: there are more than MOST_PLACED.
  """
  if size > MOST_PLACED:
    raise core.InputError(
      f'{where}: {size:,} nodes without places; expected at most '
      f'{MOST_PLACED:,}, or x and y (lon and lat) of each in degrees'
    )
  nx = _networkx()
  graph = nx.Graph()
  graph.add_nodes_from(range(size))
  graph.add_edges_from(zip(sources.tolist(), targets.tolist(), strict=True))
  drawn = nx.spring_layout(graph, seed=0)
  # Rounded: sums may differ by machine in their last bits, directions not.
  points = np.array([drawn[node] for node in range(size)]).round(3)
  longest = np.linalg.norm(points[sources] - points[targets], axis=1).max()
  east, north = (points * (HOP_M / max(longest, 1e-3))).T
  return np.degrees(north / EARTH_M), np.degrees(east / EARTH_M)


def _spread(
  places: tuple[np.ndarray, np.ndarray],
  sources: np.ndarray,
  targets: np.ndarray,
  names: Sequence[Any],
  where: str,
) -> np.ndarray:
  """Labels [E], different ones at each node and near to the bearings.

  Raises:
    InputError: a node has more than eight edges.
  """
  lat, lon = places
  ends = lat[sources], lon[sources], lat[targets], lon[targets]
  away = np.abs(bearing(*ends)[:, None] - 45 * np.arange(8))
  away = np.minimum(away, 360 - away)
  labels = np.zeros(len(sources), np.int64)
  nx = _networkx()
  for node in np.unique(sources):
    edges = np.flatnonzero((sources == node) & (targets != node)).tolist()
    if len(edges) > len(DIRECTIONS):
      raise core.InputError(
        f'{where}: {len(edges)} edges leave node {names[node]}; expected at '
        f'most {len(DIRECTIONS)}, one in each direction; an automaton, '
        'automaton(file=), may have any number'
      )
    pairs = nx.Graph()
    pairs.add_weighted_edges_from(
      (('edge', e), a, away[e, a]) for e in edges for a in range(8)
    )
    ends_of = [('edge', e) for e in edges]
    chosen = nx.bipartite.minimum_weight_full_matching(pairs, ends_of)
    labels[edges] = [chosen[end] for end in ends_of]
  return labels


def load_turns(
  path: str | Path, graph: StreetGraph
) -> tuple[np.ndarray, np.ndarray]:
  """A CSV file with the order of directions at each intersection.

      node,directions
      42421728,N E SW

  As the published `valid_turns` has it, which only the published program's
  boundary depends on. An intersection without an exit may be listed, with no
  direction: then the program goes on at its neighbours.

  Returns:
    turns: [S, 8] int8 labels, DEAD padded.
    known: [S] bool, intersections that are listed.

  Raises:
    InputError: a missing file or column, a node twice, or directions that
      are not those of the graph.
  """
  columns = csv_file.read(path, ('node', 'directions'))
  row = {name: n for n, name in enumerate(graph.names)}
  legal = [set(np.flatnonzero(labels >= 0)) for labels in graph.delta]
  turns = np.full(graph.delta.shape, core.DEAD, np.int8)
  listed = np.zeros(len(graph), bool)
  nodes = map(_token, columns['node'])
  for node, text in zip(nodes, columns['directions'], strict=True):
    labels = _labels(path, text.split()).tolist()
    place = row.get(node, core.DEAD)
    expected = legal[place] if node in row else set()
    if sorted(labels) != sorted(expected) or (node in row and listed[place]):
      raise core.InputError(
        f'{path}: node {node} has directions {text!r}; expected, once, those '
        f'of its streets: {" ".join(DIRECTIONS[a] for a in sorted(expected))!r}'
      )
    if node in row:
      turns[place, : len(labels)] = labels
      listed[place] = True
  missing = np.flatnonzero(~listed & (graph.delta >= 0).any(1))
  if missing.size:
    raise core.InputError(f'{path}: node {graph.names[missing[0]]} is missing')
  return turns, listed


def _numbers(
  path: str | Path, column: str, texts: Sequence[str], kind: type
) -> np.ndarray:
  """A column as int64 or float64."""
  kinds = {int: np.int64, float: np.float64}
  try:
    return np.array([kind(text) for text in texts], kinds[kind])
  except OverflowError as error:
    raise core.InputError(
      f'{path}: a value of {column} does not fit 64 bits'
    ) from error
  except ValueError as error:
    raise core.InputError(
      f'{path}: bad value in column {column}: {error}'
    ) from error


def _rows(
  path: str | Path,
  column: str,
  texts: Sequence[str],
  ids: np.ndarray,
  names: tuple[str, ...],
) -> np.ndarray:
  """Rows of the nodes that a column names."""
  if names:
    keys: list[Any] = [*map(_token, texts)]
    row = {name: n for n, name in enumerate(names)}
  else:
    keys = _numbers(path, column, texts, int).tolist()
    row = {node: n for n, node in enumerate(ids.tolist())}
  for key, text in zip(keys, texts, strict=True):
    if key not in row:
      raise core.InputError(
        f'{path}: {column} {text.strip()} is not among the {len(ids)} nodes'
      )
  return np.array([row[key] for key in keys], np.int64)


def _labels(path: str | Path, texts: Sequence[str]) -> np.ndarray:
  """Labels of a direction column."""
  index = {name: label for label, name in enumerate(DIRECTIONS)}
  for text in set(texts):
    what = f'{path}: unknown direction {text!r}'
    inputs.check_known(text.strip(), index, what)
  return np.array([index[text.strip()] for text in texts], np.int64)


def to_csv(graph: StreetGraph) -> tuple[str, str]:
  """Text of nodes.csv and edges.csv, which `load_csv` reads back unchanged."""

  def lines(header: str, *columns: np.ndarray) -> str:
    # The repr of Python's numbers is exact.
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return '\n'.join([header, *(','.join(map(str, row)) for row in rows), ''])

  sources, labels, targets = graph.edges()
  length_m = graph.length_m[sources, labels]
  names, ids = np.array(DIRECTIONS)[labels], np.array(graph.names)
  return (
    lines('osm_id,lat,lon', ids, graph.lat, graph.lon),
    lines(
      'node,direction,neighbor,length_m',
      *(ids[sources], names, ids[targets], length_m),
    ),
  )


TURN = math.radians(29)  # Manhattan's avenues, clockwise from north.
BLOCK_M = (110.0, 190.0)  # Metres between streets, and between avenues.
CENTRE = (40.75, -73.98)  # Degrees.
MOST = 1_000_000  # Crossings; a street graph of this size fits in memory.


def generate(rows: int, columns: int, seed: int) -> StreetGraph:
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
  return build(ids, lat, lon, edges, lengths, where)


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
  lat = CENTRE[0] + np.degrees(north / EARTH_M)
  scale = EARTH_M * math.cos(math.radians(CENTRE[0]))
  return lat, CENTRE[1] + np.degrees(east / scale)


# Highways one may drive on, as OSMnx's network type 'drive' has them.
DRIVABLE = frozenset(
  kind + suffix
  for kind in ('motorway', 'trunk', 'primary', 'secondary', 'tertiary')
  for suffix in ('', '_link')
) | {'unclassified', 'residential', 'living_street', 'road'}


def osmnx_library() -> Any:
  """The module osmnx; raises InputError where it is not installed."""
  with inputs.extra('maps', 'a map from OpenStreetMap'):
    import osmnx
  return osmnx


def load_file(path: str | Path) -> StreetGraph:
  """GraphML of networkx or OSMnx (.graphml), or OSM XML (.osm, .xml).

  GraphML is what `networkx.write_graphml` and `osmnx.save_graphml` write:

  nodes: ids are integers or names, as in nodes.csv. Attributes x and y are
      longitude and latitude in degrees. If no node has them, nodes are placed
      as in a drawing, by a spring layout of a fixed seed whose longest edge is
      100 m; then no edge is left out, and at most eight may leave a node.
  edges: directed ones run one way, undirected ones both ways. The attribute
      length is in metres; without, it is the great-circle distance, or 100 m
      of nodes without places. Other attributes are not read.

  Directions are the bearings; of several edges of a node in one direction the
  shortest is kept. OSM XML is read by OSMnx (the extra `maps`), streets that
  one may drive on alone.

  Raises:
    InputError: no such file, another suffix, not a street graph, or what
      `streets.build` refuses.
  """
  return from_networkx(read_file(path), str(path))


def read_file(path: str | Path) -> Any:
  """The file as a networkx graph; one of OSMnx is simplified and drivable."""
  path = Path(path)
  if path.suffix not in ('.graphml', '.osm', '.xml'):
    raise core.InputError(
      f'{path}: unknown suffix {path.suffix!r}; expected .graphml, .osm or .xml'
    )
  with inputs.reading_file(path, 'a street graph in GraphML or OSM XML'):
    if path.suffix != '.graphml':
      return _from_xml(osmnx_library(), path)
    graph = _networkx().read_graphml(path)
    if 'crs' not in graph.graph:
      return graph
    return osmnx_library().io.load_graphml(path)  # It converts the types.


def _from_xml(osmnx: Any, path: Path) -> Any:
  graph = osmnx.graph.graph_from_xml(path, simplify=False, retain_all=True)
  closed = [
    edge
    for *edge, data in graph.edges(keys=True, data=True)
    if data.get('highway') not in DRIVABLE
    or data.get('access') in ('no', 'private')
  ]
  graph.remove_edges_from(closed)
  graph.remove_nodes_from([n for n, d in dict(graph.degree()).items() if not d])
  if not graph.number_of_edges():
    raise core.InputError(f'{path}: no street to drive on')
  return osmnx.simplification.simplify_graph(graph)


def from_networkx(graph: Any, where: str) -> StreetGraph:
  """A street graph from a networkx graph; see `load_file`.

  Nodes with integer ids are in ascending order, others in the graph's. Edges
  from a node to itself have no bearing: they are left out and counted.
  """
  ids, names = _identified([str(node) for node in graph.nodes], where)
  nodes = [*graph.nodes]
  if not names:
    nodes = [nodes[n] for n in np.argsort(ids)]
    ids = np.sort(ids)
  row = {node: n for n, node in enumerate(nodes)}
  places = _places_of(graph, nodes, where)
  with inputs.reading(where, 'a street graph with lengths in metres'):
    edges = [
      (row[u], row[v], float(data.get('length', 'nan')))
      for u, v, data in graph.edges(data=True)
    ]
  if not graph.is_directed():
    edges += [(v, u, length) for u, v, length in edges]
  straight = [edge for edge in edges if edge[0] != edge[1]]
  if not straight:
    raise core.InputError(f'{where}: no path between any pair of nodes')
  sources, targets, length_m = map(np.array, zip(*straight, strict=True))
  links = sources, None, targets
  converted = _built(ids, names, places, links, length_m, where)
  converted.counts['self_loops'] = len(edges) - len(straight)
  return converted


def _places_of(
  graph: Any, nodes: Sequence[Any], where: str
) -> tuple[np.ndarray, np.ndarray] | None:
  """Latitudes and longitudes [S] of nodes; None if no node has them.

  Raises:
    InputError: some nodes have them, or they are no numbers.
  """
  lacking = [n for n in nodes if not {'x', 'y'} <= {*graph.nodes[n]}]
  if len(lacking) == len(nodes):
    return None
  if lacking:
    raise core.InputError(
      f'{where}: node {lacking[0]} and {len(lacking) - 1} more of {len(nodes)} '
      'lack x or y; expected degrees of each, or of none'
    )
  with inputs.reading(where, 'a street graph with x and y in degrees'):
    lat, lon = (
      np.array([float(graph.nodes[n][name]) for n in nodes]) for name in 'yx'
    )
  return lat, lon
