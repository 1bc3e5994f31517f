"""Street graphs: intersections, and at most one edge in each compass direction.

A graph comes from CSV files, from OpenStreetMap through OSMnx (the extra
`maps`) or from a generated city (`maps.generate`). Edges are labelled by the
bearing from their start to their end; where two leave an intersection in one
direction, the shorter stays (ties: the smaller neighbour id) and the other is
counted as a collision.

`load_csv` and `load_file` document the formats, and `read_as` of a graph states
how its files were interpreted. Nodes without coordinates are placed by
networkx's spring layout with seed 0, whose longest edge is HOP_M long. Then no
edge is dropped: the edges of an intersection get distinct directions that
minimise the sum of angles to their bearings.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from wm import core
from wm.core import inputs
from wm.worlds.base import csv_file

# Clockwise from north: sector k is centred on 45 k degrees.
DIRECTIONS = ('N', 'NE', 'E', 'SE', 'S', 'SW', 'W', 'NW')

# Attributes of edges that state them; the first present one counts.
STATED = 'direction', 'label', 'bearing'
_NAMED = {'N': 'NORTH', 'E': 'EAST', 'S': 'SOUTH', 'W': 'WEST'}
_WORDS = {
  word: label
  for label, name in enumerate(DIRECTIONS)
  for word in (name, ''.join(_NAMED[letter] for letter in name))
}

EARTH_M = 6_371_009.0  # Mean Earth radius in metres, as OSMnx takes it.
HOP_M = 100.0  # Metres of an edge without length between nodes without places.
MOST_PLACED = 1000  # Limit of nodes of a spring layout, which takes seconds.
# Names of latitudes and longitudes, and of lengths; the first present ones
# count.
PLACES = ('lat', 'lon'), ('lat', 'lng'), ('latitude', 'longitude'), ('y', 'x')
LENGTHS = ('length_m', 'distance_m', 'length', 'distance', 'weight')
# Names that may mean coordinates or lengths, but are not read.
_COORDINATE = re.compile(
  'lat.*|lo?ng?.*|[xy]|[xy]_.*|[xy]?(pos|coord).*|loc.*|geom.*|point|centroid|'
  '(easting|northing).*'
)
_LENGTH = re.compile(
  '.*(len|dist|metre|meter|mile).*|.*_(km|m|ft|mi)|km|weights?|cost.*|'
  '.*(time|duration).*'
)
FAR_M = 5000.0  # Median edge length above which x and y are not degrees.
APART = 20.0  # Limit of the median ratio of lengths and distances.
# Words for a street that is not one-way, in an undirected graph.
TWO_WAY = ('', 'no', 'false', '0', '0.0', 'none')
# Largest share of streets that may be lost, as a shorter one leaves the
# intersection in the same direction.
MOST_LOST = 0.01
# Words of sequences and of states, which nodes must not have as names.
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
    counts: fixes and drops while loading, cause -> count.
    names: [S] names of nodes in sequences, by default their ids.
    lost: sources, labels, targets and metres of the collisions, each [K].
    read_as: see core.Described.
    placed: False if a layout replaces missing coordinates.
  """

  ids: np.ndarray
  lat: np.ndarray
  lon: np.ndarray
  delta: np.ndarray
  length_m: np.ndarray
  counts: dict[str, int] = dataclasses.field(default_factory=dict)
  names: tuple[str, ...] = ()
  lost: tuple[np.ndarray, ...] = ()
  read_as: dict[str, str] = dataclasses.field(default_factory=dict)
  placed: bool = True

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
  """The module networkx, loaded on first use."""
  import networkx

  return networkx


def facts(graph: StreetGraph) -> dict[str, int]:
  """Counts of connectivity.

  Returns:
    components: strongly connected components.
    largest_component: intersections of the largest component.
    sinks: intersections without an exit.
    without_entry: intersections without an entry.
    pairs_without_path: ordered pairs (u, v) of distinct intersections without a
      path from u to v.
  """
  nx = _networkx()
  sources, _, targets = graph.edges()
  size = len(graph)
  streets = nx.DiGraph()
  streets.add_nodes_from(range(size))
  streets.add_edges_from(zip(sources.tolist(), targets.tolist(), strict=True))
  folded = nx.condensation(streets)
  sizes = {c: len(folded.nodes[c]['members']) for c in folded}
  below: dict[int, int] = {}  # Bit c is set if component c is reachable.
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
  """A graph from node columns [N] and edge columns [E].

  Args:
    ids: [N] int64.
    lat: [N] float64, degrees.
    lon: [N] float64, degrees.
    edges: source rows, labels (None: by bearings) and target rows.
    length_m: [E] metres; NaN means the great-circle length.
    where: name of the input in errors.

  Raises:
    InputError: duplicate ids, bad lengths, or no path.
  """
  values, times = np.unique(ids, return_counts=True)
  if (times > 1).any():
    raise core.InputError(
      f'{where}: node id {values[times > 1][0]} is given twice'
    )
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
  # A longer parallel street to the same neighbour does not count as lost.
  rest = np.setdiff1d(order, shortest)
  rest = rest[delta[row[sources[rest]], labels[rest]] != row[targets[rest]]]
  counts = {
    'collisions': len(rest),
    'parallel': len(order) - len(shortest) - len(rest),
    'nodes_without_edges': int((~used).sum()),
    'great_circle_lengths': int(missing[shortest].sum()),
  }
  rest = rest[used[targets[rest]]]
  lost = row[sources[rest]], labels[rest], row[targets[rest]], length_m[rest]
  nodes = ids[used], lat[used], lon[used]
  return StreetGraph(*nodes, delta, lengths, counts, lost=lost)


def check_lost(graph: StreetGraph, where: str) -> None:
  """Raises InputError if more than MOST_LOST of the streets collides."""
  lost = graph.counts['collisions']
  if lost > MOST_LOST * (total := graph.num_edges + lost):
    raise core.InputError(
      f'{where}: {lost} of {total} streets are lost, as a shorter one leaves '
      f'their intersection in the same direction; expected at most '
      f'{100 * MOST_LOST:g} %: give each edge a direction of its own'
    )


def load_csv(nodes: str | Path, edges: str | Path) -> StreetGraph:
  """Two CSV files: nodes, and edges that run one way.

      osm_id,lat,lon                      node,direction,neighbor,length_m
      gate,40.7000,-74.0000               gate,N,yard,120
      yard,40.7011,-74.0001               yard,S,gate,120

  osm_id: an integer or a name. Names become tokens, with '_' for blanks and
      commas, and a final '_' if another token has the name, such as N.
  lat, lon: degrees; also called latitude and longitude, or y and x. Without
      such columns, a spring layout with a fixed seed places the nodes; its
      longest edge is 100 m.
  direction: N, NE, E, SE, S, SW, W or NW. Of several edges of a node in one
      direction, the shortest is kept. Without the column, the bearing decides;
      for nodes without places, the edges get the distinct directions nearest to
      their bearings, so that all edges are kept.
  length_m: metres; also called length, distance or weight. If empty or absent,
      the great-circle distance, or 100 m for nodes without places.

  Raises:
    InputError: a missing file or column, a malformed value, an unknown node
      or direction, or see `build`.
  """
  table = _lowered(csv_file.read(nodes, ('osm_id',)))
  ids, names = _identified(table['osm_id'], str(nodes))
  read_as: dict[str, str] = {}
  places = _located(str(nodes), table, table['osm_id'], read_as)
  table = _lowered(csv_file.read(edges, ('node', 'neighbor')))
  sources = _rows(edges, 'node', table['node'], ids, names)
  targets = _rows(edges, 'neighbor', table['neighbor'], ids, names)
  lengths = _lengths(str(edges), table, len(sources))
  ends = sources, targets
  return _built((ids, names, places), ends, table, lengths, str(edges), read_as)


def _lowered(table: dict[str, list[Any]]) -> dict[str, list[Any]]:
  """Columns by lower-case name; the first of equal names counts."""
  return {name.lower(): table[name] for name in reversed(table)}


def _located(
  where: str,
  table: dict[str, list[Any]],
  nodes: Sequence[Any],
  read_as: dict[str, str],
) -> tuple[np.ndarray, np.ndarray] | None:
  """Latitudes and longitudes [S] of nodes; None without coordinates.

  Args:
    where: name of the input in errors.
    table: attributes of nodes by name, None where a node lacks one.
    nodes: names in errors.
    read_as: gets the entry 'places'.

  Raises:
    InputError: only some nodes have coordinates, values are not numbers or out
      of range, or an attribute not in PLACES may be a coordinate.
  """
  listed = ', '.join(f'{x} and {y}' for y, x in PLACES)
  pair = next((pair for pair in PLACES if {*pair} <= {*table}), None)
  if pair is None:
    if single := [name for name in table if _COORDINATE.fullmatch(name)]:
      raise core.InputError(
        f'{where} has a column {single[0]} alone, or of a name unknown here; '
        f'expected places as lat and lon ({listed}), or none'
      )
    read_as['places'] = 'none: a drawing was invented'
    return None
  columns = [table[name] for name in pair]
  lacking = [
    node
    for node, *values in zip(nodes, *columns, strict=True)
    if None in values
  ]
  if lacking:
    raise core.InputError(
      f'{where}: node {lacking[0]} and {len(lacking) - 1} more of {len(nodes)} '
      f'lack {pair[1]} or {pair[0]}; expected both of each, or of none'
    )
  lat, lon = (_numbers(where, name, table[name], float) for name in pair)
  for name, column, most in zip(pair, (lat, lon), (90, 180), strict=True):
    bad = np.flatnonzero(~(np.abs(column) <= most))
    if bad.size:
      raise core.InputError(
        f'{where}: node {nodes[bad[0]]} has {name}={column[bad[0]]}; expected '
        f'degrees from -{most} to {most}'
      )
  read_as['places'] = f'{", ".join(pair)} (degrees)'
  return lat, lon


def _lengths(
  where: str, table: dict[str, list[Any]], num: int
) -> tuple[str, np.ndarray]:
  """Name of the length attribute, or '', and metres [num] or NaN.

  Raises:
    InputError: numbers are not finite, or an attribute not in LENGTHS may be a
      length.
  """
  length_m = np.full(num, np.nan)
  name = next((name for name in LENGTHS if name in table), '')
  if not name:
    if unknown := [name for name in table if _LENGTH.fullmatch(name)]:
      raise core.InputError(
        f'{where}: edges have {unknown[0]}, which may be a length; expected '
        f'metres as one of {", ".join(LENGTHS)}, or no such attribute'
      )
    return name, length_m
  values = [('' if v is None else str(v).strip()) for v in table[name]]
  stated = [n for n, text in enumerate(values) if text]
  texts = [values[n] for n in stated]
  length_m[stated] = _numbers(where, name, texts, float)
  if not np.isfinite(length_m[stated]).all():
    raise core.InputError(f'{where}: {name} must be finite')
  return name if stated else '', length_m


def _token(text: str) -> str:
  """The token of a node from its name in a file; see `load_csv`."""
  name = re.sub(r'[\s,]+', '_', text.strip())
  return name + '_' * (name in RESERVED)


def _identified(
  texts: Sequence[str], where: str
) -> tuple[np.ndarray, tuple[str, ...]]:
  """Ids [S] of nodes, and their names, () if names are the ids.

  Raises:
    InputError: an empty name, or two nodes with the same name.
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
  nodes: tuple[
    np.ndarray, tuple[str, ...], tuple[np.ndarray, np.ndarray] | None
  ],
  ends: tuple[np.ndarray, np.ndarray],
  table: dict[str, list[Any]],
  lengths: tuple[str, np.ndarray],
  where: str,
  read_as: dict[str, str],
) -> StreetGraph:
  """As `build`, for nodes that may have names and lack places.

  Args:
    nodes: ids [S]; names if ids are 1 .. S, else (); and (lat, lon) or None.
    ends: sources and targets [E].
    table: attributes of edges.
    lengths: see `_lengths`.
    where: name of the input in errors.
    read_as: interpretation so far; gets further entries.
  """
  (ids, names, places), (sources, targets) = nodes, ends
  name, length_m = lengths
  stated, labels = _labels(where, table)
  usual, placed = 'great-circle distances', places is not None
  if places is None:
    usual = f'{HOP_M:g} m each'
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
  else:
    _check_units(places, (sources, targets), lengths, where, read_as)
  lat, lon = places
  if placed and labels is not None:
    ends_at = lat[sources], lon[sources], lat[targets], lon[targets]
    if turned := int((sector(bearing(*ends_at)) != labels).sum()):
      read_as['bearings'] = f'{turned} of {len(labels)} edges have another'
  graph = build(ids, lat, lon, (sources, labels, targets), length_m, where)
  missing = int(np.isnan(lengths[1]).sum())
  stand_in = f'{missing} of {len(lengths[1])} are {usual}' if missing else ''
  unread = [x for x in LENGTHS if x != name and any(table.get(x, ()))]
  about = [f'{name} (metres)' if name else '', stand_in]
  about += [f'{", ".join(unread)} not used'] if unread else []
  read_as['lengths'] = '; '.join(text for text in about if text)
  read_as['directions'] = stated or 'by bearings'
  changes: dict[str, Any] = {'read_as': read_as, 'placed': placed}
  if names:
    changes['names'] = tuple(names[k - 1] for k in graph.ids.tolist())
  return dataclasses.replace(graph, **changes)


def _check_units(
  places: tuple[np.ndarray, np.ndarray],
  ends: tuple[np.ndarray, np.ndarray],
  lengths: tuple[str, np.ndarray],
  where: str,
  read_as: dict[str, str],
) -> None:
  """Raises InputError if places are not degrees or lengths not metres."""
  (lat, lon), (sources, targets), (name, length_m) = places, ends, lengths
  metres = great_circle(lat[sources], lon[sources], lat[targets], lon[targets])
  both = np.isfinite(length_m) & (metres > 0) & (length_m > 0)
  apart = float(np.median(length_m[both] / metres[both])) if both.any() else 1.0
  unclear = read_as['places'] == 'y, x (degrees)' and not both.any()
  if not name.endswith('_m') and not 1 / APART <= apart <= APART:
    wrong = f'by {name}, edges are {apart:.2g} times as long as'
  elif unclear and metres.size and np.median(metres) > FAR_M:
    wrong = f'edges are {np.median(metres) / 1000:,.0f} km long if'
  else:
    return
  raise core.InputError(
    f'{where}: {wrong} places are read as {read_as["places"]}; expected '
    'degrees (lat, lon) and lengths in metres (length_m)'
  )


def _layout(
  size: int, sources: np.ndarray, targets: np.ndarray, where: str
) -> tuple[np.ndarray, np.ndarray]:
  """Latitudes and longitudes [S] by a spring layout, for nodes without any.

  Raises:
    InputError: there are more than MOST_PLACED nodes.
  """
  if size > MOST_PLACED:
    raise core.InputError(
      f'{where}: {size:,} nodes without places; expected at most '
      f'{MOST_PLACED:,}, or lat and lon of each in degrees'
    )
  nx = _networkx()
  graph = nx.Graph()
  graph.add_nodes_from(range(size))
  graph.add_edges_from(zip(sources.tolist(), targets.tolist(), strict=True))
  drawn = nx.spring_layout(graph, seed=0)
  # Rounded, so that last bits of sums, which vary by machine, have no effect.
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
  """Labels [E], distinct at each node and close to the bearings.

  Raises:
    InputError: a node has more than eight edges.
  """
  lat, lon = places
  ends = lat[sources], lon[sources], lat[targets], lon[targets]
  away = np.abs(bearing(*ends)[:, None] - 45 * np.arange(8))
  away = np.minimum(away, 360 - away)
  labels = np.zeros(len(sources), np.int64)
  for node in np.unique(sources):
    edges = np.flatnonzero((sources == node) & (targets != node)).tolist()
    if len(edges) > len(DIRECTIONS):
      raise core.InputError(
        f'{where}: {len(edges)} edges leave node {names[node]}; expected at '
        f'most {len(DIRECTIONS)}, one in each direction; an automaton, '
        'automaton(file=), may have any number'
      )
    labels[edges] = scipy.optimize.linear_sum_assignment(away[edges])[1]
  return labels


def load_turns(
  path: str | Path, graph: StreetGraph
) -> tuple[np.ndarray, np.ndarray]:
  """A CSV file with the order of directions at each intersection.

      node,directions
      42421728,N E SW

  This is the published `valid_turns`; only the published program's boundary
  depends on it. An intersection without an exit may be listed without a
  direction: then that program continues at its neighbours.

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
    labels = _worded(str(path), 'direction', text.split()).tolist()
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


def _labels(
  where: str, table: dict[str, list[Any]]
) -> tuple[str, np.ndarray | None]:
  """The attribute that states directions of edges, and labels [E].

  '' and no labels if none does.

  Raises:
    InputError: only some edges have it, or a value is no direction.
  """
  for name in STATED:
    texts = ['' if v is None else str(v).strip() for v in table.get(name, ())]
    plain = [*map(_plain, texts)]
    if name == 'bearing':
      plain = ['' if text == 'NAN' else text for text in plain]
    # Other labels name streets, say.
    if not texts or (name == 'label' and not _WORDS.keys() & {*plain}):
      continue
    if name != 'direction' and not any(plain):
      continue
    if missing := plain.count(''):
      raise core.InputError(
        f"{where}: unknown {name} '' of {missing} of {len(texts)} edges; "
        'expected one of every edge, or of none'
      )
    if name == 'bearing':
      return name, sector(_numbers(where, name, texts, float))
    return name, _worded(where, name, texts)
  return '', None


def _plain(text: str) -> str:
  return re.sub('[ _-]', '', text).upper()


def _worded(where: str, name: str, texts: Sequence[str]) -> np.ndarray:
  """Labels [E] of words for directions, in any case."""
  for text in {*texts}:
    if _plain(text) not in _WORDS:
      what = f'{where}: unknown {name} {text!r}'
      inputs.check_known(_plain(text), DIRECTIONS, what)
  return np.array([_WORDS[_plain(text)] for text in texts], np.int64)


def to_csv(graph: StreetGraph) -> tuple[str, str]:
  """Text of nodes.csv and edges.csv, which `load_csv` reads back unchanged.

  Default lengths and layouts are left out, and lost streets are included, so
  that `load_csv` reports or refuses them again.
  """

  def lines(header: str, *columns: np.ndarray) -> str:
    # The repr of Python's numbers is exact.
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return '\n'.join([header, *(','.join(map(str, row)) for row in rows), ''])

  sources, labels, targets = graph.edges()
  length_m = graph.length_m[sources, labels]
  if graph.lost:
    columns = zip((sources, labels, targets, length_m), graph.lost, strict=True)
    sources, labels, targets, length_m = map(np.concatenate, columns)
  lat, lon = graph.lat, graph.lon
  usual = np.full(len(sources), HOP_M)
  if graph.placed:
    usual = great_circle(lat[sources], lon[sources], lat[targets], lon[targets])
  metres = np.where(length_m == usual, '', length_m.astype(object))
  names, ids = np.array(DIRECTIONS)[labels], np.array(graph.names)
  return (
    lines('osm_id,lat,lon', ids, lat, lon)
    if graph.placed
    else lines('osm_id', ids),
    lines(
      'node,direction,neighbor,length_m',
      *(ids[sources], names, ids[targets], metres),
    ),
  )


# Drivable highways, as in OSMnx's network type 'drive'.
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
  """Street graph of networkx or OSMnx: GraphML, or OSM XML.

  GraphML is as written by `networkx.write_graphml` and `osmnx.save_graphml`.
  `wm.from_graph` takes graphs in memory.

  nodes: ids are integers or names, as in nodes.csv. Attributes lat and lon,
      latitude and longitude, or y and x are degrees; a graph with a `crs` other
      than EPSG:4326 is refused. If no node has coordinates, a spring layout
      with a fixed seed places the nodes, with a longest edge of 100 m; then no
      edge is dropped, and at most eight may leave a node.
  edges: directed edges run one way, undirected ones both ways. Length,
      length_m, distance or weight is in metres; by default the great-circle
      distance, or 100 m for nodes without places. An attribute states the
      directions of all edges: direction or label, one of the eight (N or
      north), or bearing, in degrees clockwise from north; by default the places
      decide. Labels that are no directions, as names of streets, are ignored.
      Attributes with other names that may mean a place or a length are refused.

  Of several edges of a node in one direction, the shortest is kept. OSMnx reads
  OSM XML (the extra `maps`): only drivable streets, without turn restrictions.

  Raises:
    InputError: a missing file, an unknown suffix, not a street graph, or see
      `streets.build`.
  """
  return from_networkx(read_file(path), str(path))


def read_file(path: str | Path) -> Any:
  """The file as a multigraph of networkx; OSM XML simplified and drivable."""
  path = Path(path)
  kinds = {'.graphml': 'GraphML', '.osm': 'OSM XML', '.xml': 'OSM XML'}
  if path.suffix not in kinds:
    raise core.InputError(
      f'{path}: unknown suffix {path.suffix!r}; expected {", ".join(kinds)}'
    )
  kind = kinds[path.suffix]
  with inputs.reading_file(path, f'a street graph in {kind}'):
    if kind == 'OSM XML':
      return _from_xml(osmnx_library(), path)
    graph = _networkx().read_graphml(path, force_multigraph=True)
    for name in ('node_default', 'edge_default'):  # OSMnx cannot write them.
      del graph.graph[name]
    return graph


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

  Nodes with integer ids are in ascending order, others in the graph's order.
  Self-loops have no bearing: they are dropped and counted.
  """
  ids, names = _identified([str(node) for node in graph.nodes], where)
  nodes = [*graph.nodes]
  if not names:
    nodes = [nodes[n] for n in np.argsort(ids)]
    ids = np.sort(ids)
  row = {node: n for n, node in enumerate(nodes)}
  read_as: dict[str, str] = {}
  table = _columns([graph.nodes[node] for node in nodes])
  crs = str(graph.graph.get('crs') or 'epsg:4326')
  if crs.lower() != 'epsg:4326':
    raise core.InputError(
      f'{where} has the crs {crs}; expected degrees: epsg:4326'
    )
  places = _located(where, table, nodes, read_as)
  edges = [*graph.edges(data=True)]
  if not graph.is_directed():
    edges = _both_ways(edges, where, read_as)
  straight = [edge for edge in edges if edge[0] != edge[1]]
  if not straight:
    raise core.InputError(f'{where}: no path between any pair of nodes')
  sources, targets = (
    np.array([row[edge[k]] for edge in straight]) for k in (0, 1)
  )
  table = _columns([data for _, _, data in straight])
  lengths = _lengths(where, table, len(straight))
  located = ids, names, places
  converted = _built(
    located, (sources, targets), table, lengths, where, read_as
  )
  converted.counts['self_loops'] = len(edges) - len(straight)
  return converted


def _columns(rows: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
  """Attributes of nodes or edges by name, None where one lacks it."""
  lowered = [{str(k).lower(): v for k, v in row.items()} for row in rows]
  names = dict.fromkeys(name for row in lowered for name in row)
  return {name: [row.get(name) for row in lowered] for name in names}


def _both_ways(
  edges: list[tuple[Any, Any, dict[str, Any]]],
  where: str,
  read_as: dict[str, str],
) -> list[tuple[Any, Any, dict[str, Any]]]:
  """Edges of an undirected graph, in both directions."""
  for u, v, data in edges:
    one_way = str(data.get('oneway', 'no')).lower() not in TWO_WAY
    words = {str(data.get(name, '')).upper() for name in STATED[:2]}
    if one_way or 'direction' in data or words & _WORDS.keys():
      raise core.InputError(
        f'{where} is undirected, and its edge {u} - {v} is one-way or has a '
        'direction; expected a directed graph'
      )
  read_as['undirected edges'] = 'run both ways'
  return [*edges, *((v, u, data) for u, v, data in edges)]
