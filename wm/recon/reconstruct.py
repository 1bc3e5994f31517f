"""Reconstructs the map that routes imply, and measures it.

Routes are placed one after the other on the nodes of the true map. A true edge
is used where it fits. Where none fits, a false edge is added to a node in
reach, chosen so that as much of the rest as possible can be walked (Vafa et al.
2024, section 4 and appendix E). The false edges are what the model got wrong:
their counts and rates are measured here, and of each its bearing, length and
crossings.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import scipy

from wm import core
from wm.evaluation import statistics
from wm.kernels.maps import reconstruction
from wm.kernels.maps.reconstruction import PlacementProblem, UsedEdges
from wm.options.calls import Reconstruction
from wm.recon.routes import CLASSES, LENGTH_CAP, PATH, Fate, Routes
from wm.worlds.maps import streets

EARTH_MILES = 3958.7613  # Mean radius.

# By the kernel's reconstruction.
REASONS = {
  reconstruction.NO_ROOM: 'no_room',
  reconstruction.TOO_FAR: 'destination_too_far',
  reconstruction.NO_CANDIDATE: 'no_candidate',
  reconstruction.OFF_DESTINATION: 'off_destination',
}


# The nodes that a false edge from each of S nodes may lead to, preferred ones
# first: offsets [S + 1] int64 of each node's, and the nodes, int32.
Candidates = tuple[np.ndarray, np.ndarray]


def candidates(
  graph: streets.StreetGraph, options: Reconstruction
) -> Candidates:
  """Returns the nodes within reach of each node, itself included."""
  offsets, nodes = within(graph.lat, graph.lon, options.max_miles)
  # The program's order is that of nodes. The paper does not say: it is taken to
  # be the nearest, then the first.
  if options.variant == 'paper':
    start = np.repeat(np.arange(len(graph)), np.diff(offsets))
    apart = streets.great_circle(
      graph.lat[start], graph.lon[start], graph.lat[nodes], graph.lon[nodes]
    )
    nodes = nodes[np.lexsort((nodes, apart, start))]
  return offsets, nodes


def within(lat: np.ndarray, lon: np.ndarray, miles: float) -> Candidates:
  """Nodes [S] within reach of each by great circle, itself included.

  Those of a node ascend. lat, lon: [S] degrees.
  """
  north, east = np.radians(lat), np.radians(lon)
  flat = np.cos(north)
  points = flat * np.cos(east), flat * np.sin(east), np.sin(north)
  # By straight lines through the sphere, a little longer for rounding.
  angle = min(miles / EARTH_MILES, math.pi)
  chord = 2 * math.sin(angle / 2) * (1 + 1e-9) + 1e-12
  tree = scipy.spatial.KDTree(np.stack(points, -1))
  first, second = tree.query_pairs(chord, output_type='ndarray').T
  metres = streets.great_circle(
    lat[first], lon[first], lat[second], lon[second]
  )
  near = metres * (EARTH_MILES / streets.EARTH_M) <= miles
  first, second, each = first[near], second[near], np.arange(len(lat))
  start = np.concatenate([first, second, each])
  nodes = np.concatenate([second, first, each])
  offsets = np.append(0, np.cumsum(np.bincount(start, minlength=len(lat))))
  return offsets, nodes[np.lexsort((nodes, start))].astype(np.int32)


def reconstruct(
  graph: streets.StreetGraph,
  routes: Routes,
  options: Reconstruction,
  near: Candidates | None = None,
) -> UsedEdges:
  """Places routes in their order; gives the edges in use.

  near: of `candidates`, for calls that share it.
  """
  return reconstruction.reconstruct(problem(graph, routes, options, near))


def problem(
  graph: streets.StreetGraph,
  routes: Routes,
  options: Reconstruction,
  near: Candidates | None = None,
) -> PlacementProblem:
  """The arguments of the kernel."""
  return PlacementProblem(
    graph.delta,
    *(near or candidates(graph, options)),
    routes.origins,
    routes.destinations,
    routes.offsets,
    routes.labels,
    options.max_degree,
    options.variant == 'paper',
  )


def counts(
  graph: streets.StreetGraph, routes: Routes, fate: Fate, edges: UsedEdges
) -> dict[str, int | dict[str, int]]:
  """Counts failures and edges by class.

  A failed route counts as `length_cap`, for any cause, if it was cut off: it
  has the world's greatest length and does not end at its destination.
  `parallel_edges` are false edges between two nodes that another edge, true or
  false, used or not, also joins.
  """
  failed = edges.reasons != reconstruction.OK
  groups = fate.groups(routes)
  cut = groups == LENGTH_CAP
  reasons = {
    name: int((edges.reasons[~cut] == code).sum())
    for code, name in REASONS.items()
  }
  reasons[CLASSES[LENGTH_CAP]] = int(failed[cut].sum())
  true = int((~edges.false).sum())
  source, target = edges.source[edges.false], edges.target[edges.false]
  pairs = source.astype(np.int64) * len(graph) + target
  real = graph.edges()
  joined = np.isin(pairs, real[0].astype(np.int64) * len(graph) + real[2])
  added = pairs[~joined]
  return {
    'failed': int(failed.sum()),
    'failure_reasons': reasons,
    'failed_by_class': {
      name: int(failed[groups == group].sum())
      for group, name in enumerate(CLASSES)
    },
    'true_edges': true,
    'new_edges': int(edges.false.sum()),
    'unused_edges': graph.num_edges - true,
    'self_loops': int((source == target).sum()),
    'parallel_edges': int(joined.sum()) + len(added) - len(np.unique(added)),
  }


def permutation(num: int, order: str | int, shuffle: int = 0) -> np.ndarray:
  """Returns [num] rows in an order: 'file', or drawn from a seed.

  shuffle: number of a further order drawn from the same seed, from 1.

  Raises:
    InputError: the order is neither 'file' nor an integer >= 0.
  """
  if order == 'file' and not shuffle:
    return np.arange(num)
  if not str(order).isdecimal():
    raise core.InputError(f"order {order!r}: expected 'file' or a seed >= 0")
  return np.random.default_rng([int(order), shuffle]).permutation(num)


def rates(
  graph: streets.StreetGraph, routes: Routes, fate: Fate, edges: UsedEdges
) -> dict[str, Any]:
  """Measures how often routes leave the true map, and how many cannot be
  placed.

  Args:
    graph: the true map.
    routes: the routes in order.
    fate: outcomes of the routes on the true map.
    edges: edges of the reconstruction.

  Returns:
    illegal_directions: share of directions without a street, among directions
      that routes take from a known intersection. Directions of a route count up
      to its first illegal one, which is included.
    distinct_directions, distinct_illegal_directions: numbers of different pairs
      of intersection and direction, of all and of illegal ones.
    failed_routes: share of routes that the reconstruction cannot place.
    Each share is {value, low, high, n}, n directions or routes; None without
    any.
  """
  wrong = fate.kind == PATH
  legal, illegal = _pairs(graph, routes, fate, wrong)
  return {
    'illegal_directions': _clustered_share(wrong, fate.steps + wrong),
    'distinct_directions': len(np.union1d(legal, illegal)),
    'distinct_illegal_directions': len(np.unique(illegal)),
    'failed_routes': _clustered_share(
      edges.reasons != reconstruction.OK, np.ones(len(wrong), np.int64)
    ),
  }


def _clustered_share(hits: np.ndarray, trials: np.ndarray) -> dict[str, Any]:
  """The share of hits [G] in trials [G] of routes, with its interval."""
  n = int(trials.sum())
  if not n:
    return {'value': None, 'low': None, 'high': None, 'n': 0}
  totals, weights = hits.astype(np.float64), trials.astype(np.float64)
  low, high, _ = statistics.interval(totals, weights, (0.0, 1.0))
  return {'value': float(hits.sum() / n), 'low': low, 'high': high, 'n': n}


def _pairs(
  graph: streets.StreetGraph, routes: Routes, fate: Fate, wrong: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Legal directions taken, and illegal ones, as node * labels + label."""
  num = len(streets.DIRECTIONS) + len(routes.others)
  node, legal = routes.origins.astype(np.int64), [np.zeros(0, np.int64)]
  for step in range(int(fate.steps.max(initial=0))):
    rows = np.flatnonzero(step < fate.steps)
    labels = routes.labels[routes.offsets[rows] + step]
    legal.append(node[rows] * num + labels)
    node[rows] = graph.delta[node[rows], labels]
  last = routes.labels[routes.offsets[:-1][wrong] + fate.steps[wrong]]
  return np.concatenate(legal), fate.node[wrong] * np.int64(num) + last


TRUE, FALSE, UNUSED = range(3)
KINDS = ('true', 'new', 'unused')


def edge_table(
  graph: streets.StreetGraph, routes: Routes, edges: UsedEdges
) -> pd.DataFrame:
  """Measures every edge; used ones come first, by source and label, then true
  ones that are not used.

  Columns:
    source, target: int32, rows of the graph.
    label: int32; 8 and above are no directions.
    kind: int8 index into KINDS.
    line: int64, line of the route that first used it; 0 if unused.
    metres: float64, great-circle length.
    error: float64, degrees in [0, 180] between the geometric bearing and the
      middle of the label's sector; NaN for a self-loop or no direction.
    crossings: int64, other edges, true or new, that a new edge crosses (a
      flyover); those joining the same two nodes count once; -1 elsewhere.
  """
  real = graph.edges()
  key = edges.source.astype(np.int64) * 8 + edges.label
  taken = np.isin(real[0] * 8 + real[1], key[~edges.false])
  used = edges.source, edges.label, edges.target
  source, label, target = (
    np.concatenate([column, unused[~taken]]).astype(np.int32)
    for column, unused in zip(used, real, strict=True)
  )
  kind = np.full(len(source), UNUSED, np.int8)
  kind[: len(edges.false)] = np.where(edges.false, FALSE, TRUE)
  line = np.zeros(len(source), np.int64)
  line[: len(edges.route)] = routes.lines[edges.route]
  ends = (
    graph.lat[source],
    graph.lon[source],
    graph.lat[target],
    graph.lon[target],
  )
  off = np.abs(streets.bearing(*ends) - 45.0 * label) % 360
  error = np.minimum(off, 360 - off)
  error[(source == target) | (label >= len(streets.DIRECTIONS))] = np.nan
  return pd.DataFrame(
    {
      **{'source': source, 'target': target, 'label': label, 'kind': kind},
      **{'line': line, 'metres': streets.great_circle(*ends), 'error': error},
      'crossings': crossings(graph, source, target, kind),
    }
  )


def crossings(
  graph: streets.StreetGraph,
  source: np.ndarray,
  target: np.ndarray,
  kind: np.ndarray,
) -> np.ndarray:
  """Returns [E] int64: how many edges each false edge crosses, -1 for others.

  Edges are straight, and both directions of a street are one segment. Unused
  edges do not count.
  """
  count = np.full(len(source), -1, np.int64)
  low, high = np.minimum(source, target), np.maximum(source, target)
  pair = low.astype(np.int64) * len(graph) + high
  used = kind != UNUSED
  segments, first, place = np.unique(
    pair[used], return_index=True, return_inverse=True
  )
  added = np.zeros(len(segments), bool)
  added[place[kind[used] == FALSE]] = True
  order = np.argsort(~added, kind='stable')  # False edges come first.
  tails, heads = low[used][first][order], high[used][first][order]
  x, y = streets.project(graph, graph.lat, graph.lon).T.copy()
  crossed = np.zeros(len(segments), np.int64)
  crossed[order[: added.sum()]] = reconstruction.crossings(
    x, y, tails, heads, int(added.sum())
  )
  count[used] = np.where(kind[used] == FALSE, crossed[place], -1)
  return count


def edge_frame(
  graph: streets.StreetGraph, routes: Routes, edges: pd.DataFrame
) -> pd.DataFrame:
  """Returns a row per edge, for edges.csv; NA where a value is not defined."""
  names = np.array([*streets.DIRECTIONS, *routes.others], dtype=object)
  nodes = np.array(graph.names, dtype=object)
  defined = {'line': edges.line > 0, 'crossings': edges.crossings != core.DEAD}
  counts = {k: edges[k].where(x).astype('Int64') for k, x in defined.items()}
  return pd.DataFrame(
    {
      'node': nodes[edges.source],
      'direction': names[edges.label],
      'neighbor': nodes[edges.target],
      'class': np.array(KINDS)[edges.kind],
      'first_line': counts['line'],
      'length_m': edges.metres,
      'direction_error_deg': edges.error,
      'crossings': counts['crossings'],
      **{
        key: edges[key].map('{:.3f}'.format).where(edges[key].notna())
        for key in ('accepted', 'recurs')
        if key in edges
      },
    }
  )
