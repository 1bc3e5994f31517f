"""Routes between pairs of rows of a street graph, under several weightings.

Pairs that share few goals are searched one by one, by A* with landmarks. Other
pairs share one sweep per goal, under all weightings at once. Graphs are as in
`paths`. All routes equal those of its tables, bit for bit.

A sweep counts in integer units: lengths rounded down to int32. A route in units
is the true one if all others are longer by more than the rounding. About one in
a thousand routes is not, and is searched alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy

from wm import core
from wm.core import basics
from wm.kernels.base import calls
from wm.kernels.base.jit import njit
from wm.kernels.maps import paths

LANDMARKS = 16
NEAR = 16  # number of goals close together, whose sweeps share an order
MANY = 256  # searches of pairs above which landmarks are worthwhile
FAR = np.int32(1 << 30)  # units: this far, or no route; twice this still fits
_ONE = np.uint32(1)


class RoadMap(NamedTuple):
  """A graph under K weightings, prepared for routes between pairs.

  Attributes:
    delta: [S, A] int32.
    lengths: [K, S, A] float64 metres.
    leaving, entering, names: edges with lengths [E, K], labels of `leaving`.
    bounds: [K, S, 2 L] float64 metres: distances from L landmarks to each row,
      and negative distances from each row to the landmarks. The distance
      between two rows is at least the difference in each column.
  """

  delta: np.ndarray
  lengths: np.ndarray
  leaving: tuple[np.ndarray, ...]
  entering: tuple[np.ndarray, ...]
  names: np.ndarray
  bounds: np.ndarray


def road_map(
  delta: np.ndarray, lengths: np.ndarray, landmarks: int = LANDMARKS
) -> RoadMap:
  """Computes distances of landmarks, which bound those of all pairs.

  Source: Goldberg and Harrelson 2005, Computing the shortest path: A* search
  meets graph theory.

  Args:
    delta: [S, A].
    lengths: [K, S, A] metres, finite, not negative.
    landmarks: L, number of landmarks; 0 gives no bounds.
  """
  delta, lengths = (
    calls.table(delta, calls.FEW_LABELS),
    np.asarray(lengths, np.float64),
  )
  edges = paths.named_edges(delta, np.moveaxis(lengths, 0, -1))
  # Random landmarks; the choice does not affect routes.
  rows = np.arange(len(delta))
  marks = np.argsort(basics.hash64(0, rows), kind='stable')[:landmarks]
  bounds = np.empty((len(lengths), len(delta), 2 * len(marks)))
  roads = RoadMap(delta, lengths, *edges, bounds)
  orders = [_orders(roads, marks, reverse=back)[0] for back in (False, True)]
  sweep = _new_sweep(roads.leaving)
  far = np.empty((2, len(marks), len(delta), len(lengths)))
  ways = roads.entering, roads.leaving
  # For a landmark l, d(l, v) <= d(l, u) + d(u, v), and d(u, l) <= d(u, v) +
  # d(v, l).
  for reverse, sign in enumerate((1, -1)):
    ahead, back = ways[reverse], ways[1 - reverse]
    for n, order in enumerate(orders[reverse]):
      _order_edges(ahead, back, order, sweep)
      _sweep_rows(back, marks[n], sweep, np.inf)
      far[reverse, n] = sign * sweep.dist[sweep.turns]
  _turn(far.reshape(-1, *far.shape[2:]), bounds)
  return roads


@njit
def _turn(far, bounds) -> None:
  """Copies far [L, S, K] into bounds [K, S, L]; NumPy takes longer."""
  for row in range(far.shape[1]):
    for k in range(far.shape[2]):
      for n in range(far.shape[0]):
        bounds[k, row, n] = far[n, row, k]


def single_routes(
  roads: RoadMap,
  weighting: np.ndarray,
  origins: np.ndarray,
  destinations: np.ndarray,
  most: int,
) -> tuple[np.ndarray, np.ndarray]:
  """Routes by one search per pair, for pairs that share few goals.

  weighting: [B] indices below K. origins, destinations: [B] rows.
  Returns labels [B, most] and moves [B] as `dfa.follow` does.
  """
  pairs = _pairs(roads, weighting, origins, destinations)
  labels = np.full((len(pairs), most), core.DEAD, np.int8)
  moves = np.empty(len(pairs), np.int32)
  size = len(roads.delta)
  search = _PairSearch(
    np.full(size, np.inf),
    np.zeros(size),
    np.zeros(size, np.int64),
    np.full(size, -1, np.int64),
    np.zeros(size, np.int64),
  )
  for k in np.unique(pairs[:, 0]):
    leaving, entering = (
      (*edges[:2], calls.frozen(edges[2][:, k], np.float64))
      for edges in (roads.leaving, roads.entering)
    )
    # Sums along a route, and their differences, have rounding errors. Rows are
    # visited until none is nearer by more than this.
    slack = 1e-9 * leaving[2].sum()
    ways = leaving, entering, roads.names, roads.bounds[k], slack
    rows = np.flatnonzero(pairs[:, 0] == k)
    for part in calls.slices(len(rows)):
      _single_routes(ways, search, pairs, rows[part], labels, moves)
  return _release_stuck(roads, pairs, labels, moves)


def swept_routes(
  roads: RoadMap,
  weighting: np.ndarray,
  origins: np.ndarray,
  destinations: np.ndarray,
  most: int,
) -> tuple[np.ndarray, np.ndarray]:
  """As `single_routes`, by one search per destination under all weightings.

  Pairs whose route is ambiguous in integer units are searched alone.
  """
  pairs = _pairs(roads, weighting, origins, destinations)
  labels = np.full((len(pairs), most), core.DEAD, np.int8)
  moves = np.empty(len(pairs), np.int32)
  # Goals nearest to one centre share the order of their sweeps.
  centres = np.unique(pairs[:, 2])[::NEAR]
  nearest = _nearest(roads, centres)[pairs[:, 2]]
  rows = np.lexsort((pairs[:, 2], nearest))
  for first in range(0, len(centres), paths.LANES):
    orders, farthest = _orders(
      roads, centres[first : first + paths.LANES], reverse=True
    )
    ways = _in_units(roads, farthest)
    sweep = _new_sweep(ways[0])
    for part in calls.slices(len(orders), NEAR):
      inside = [first + part.start, first + part.stop]
      chosen = rows[slice(*np.searchsorted(nearest[rows], inside))]
      which = nearest[chosen] - first
      _swept_routes(ways, orders, which, sweep, pairs, chosen, labels, moves)
  unsure = np.flatnonzero(moves == _STUCK)
  if len(unsure) >= MANY and not roads.bounds.size:
    roads = road_map(roads.delta, roads.lengths)
  if len(unsure):
    number, starts, ends = pairs[unsure].T
    alone = single_routes(roads, number, starts, ends, most)
    labels[unsure], moves[unsure] = alone
  return labels, moves


def _in_units(roads: RoadMap, farthest: float) -> tuple:
  """Edges with lengths in int32 units; the farthest distance is about FAR / 2.

  Leaving and entering edges; labels; lengths [K, E] of leaving edges; and the
  distance from which lengths may be capped. A unit is a power of two, so that
  rounding down is the only loss.
  """
  exponent = np.frexp(FAR / 2)[1] - np.frexp(farthest)[1] - 1
  edges = []
  for indptr, others, lengths in (roads.leaving, roads.entering):
    with np.errstate(over='ignore'):
      units = np.minimum(np.ldexp(lengths, exponent), FAR - 1)
    edges.append((indptr, others, calls.frozen(units, np.int32)))
  lanes = calls.frozen(edges[0][2].T, np.int32)
  return *edges, roads.names, lanes, FAR - lanes.max(initial=0)


def _pairs(roads: RoadMap, *columns: np.ndarray) -> np.ndarray:
  """[B, 3] int32 of weightings, origins and destinations, checked."""
  sizes = len(roads.lengths), *[len(roads.delta)] * 2
  names = 'weighting', 'origins', 'destinations'
  calls.same_length(**dict(zip(names, columns, strict=True)))
  checked = map(calls.rows, columns, sizes, names, [0] * 3)
  return np.stack(list(checked), axis=1)


def _release_stuck(
  roads: RoadMap, pairs: np.ndarray, labels: np.ndarray, moves: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Labels and moves, taken from the tables for routes that are _STUCK."""
  # Level edges might lead in a circle: the tables settle those rows first.
  stuck = moves == _STUCK
  for k in np.unique(pairs[stuck, 0]):
    rows = np.flatnonzero(stuck & (pairs[:, 0] == k))
    _, origins, goals = pairs[rows].T
    labels[rows], moves[rows] = paths.shortest_routes(
      roads.delta, roads.lengths[k], origins, goals, labels.shape[1]
    )
  return labels, moves


_STUCK = -2  # moves of a route that reaches only level edges, see `_release`


@njit
def _trace(edges, names, dist, pair, labels) -> int:
  """Fills labels [most] of a route by `dist` [S] to its goal; returns moves."""
  indptr, heads, lengths = edges
  row, step = np.int64(pair[1]), 0
  if dist[row] == np.inf:
    return -1
  while row != pair[2]:
    if step == len(labels):
      return step + 1
    # The lowest label on a shortest route: `_name` has the same rule.
    following = np.int64(-1)
    for e in range(indptr[row], indptr[row + 1]):
      near = dist[heads[e]]
      if near + lengths[e] == dist[row] and near < dist[row]:
        following = np.int64(e)
        break
    if following < 0:
      labels[:] = -1
      return _STUCK
    labels[step] = names[following]
    row = np.int64(heads[following])
    step += 1
  return step


class _Sweep(NamedTuple):
  """Distances to or from one root, a lane for each weighting.

  Searches from neighbouring roots share an order of the rows and edges. A turn
  is the position of a row in this order.

  Attributes:
    order: [S] uint32 row of each turn; turns: [S] uint32 turn of each row.
    starts: [S + 1] uint32, first edge of each turn. These are edges between it
      and earlier turns: first those that shorten its own distance.
    splits: [S] uint32, first edge that shortens the distance of earlier turns.
    others: [E] uint32 earlier turn of each edge; lengths: [E, K].
    dist: [S, K] by turn, infinity where there is no route.
    queue: [S] uint32, a ring of turns to relax; queued: [S] bool.
  """

  order: np.ndarray
  turns: np.ndarray
  starts: np.ndarray
  splits: np.ndarray
  others: np.ndarray
  lengths: np.ndarray
  dist: np.ndarray
  queue: np.ndarray
  queued: np.ndarray


def _new_sweep(edges: tuple[np.ndarray, ...]) -> _Sweep:
  """Room for a sweep over edges of this number and type."""
  indptr, others, lengths = edges
  size = len(indptr) - 1
  return _Sweep(
    np.empty(size, np.uint32),
    np.empty(size, np.uint32),
    np.empty(size + 1, np.uint32),
    np.empty(size, np.uint32),
    np.empty(len(others), np.uint32),
    np.empty(lengths.shape, lengths.dtype),
    np.empty((size, lengths.shape[1]), lengths.dtype),
    np.empty(size, np.uint32),
    np.zeros(size, np.bool_),
  )


@njit
def _order_edges(ahead, back, order, sweep):
  """Puts edges in an order: `ahead` lead to roots, `back` the other way."""
  num = np.uint64(0)
  for turn in range(np.uint64(len(order))):
    sweep.order[turn] = order[turn]
    sweep.turns[order[turn]] = turn
  for turn in range(np.uint64(len(order))):
    sweep.starts[turn] = num
    num = _copy_earlier(ahead, turn, sweep, num)
    sweep.splits[turn] = num
    num = _copy_earlier(back, turn, sweep, num)
  sweep.starts[len(order)] = num


@njit
def _copy_earlier(edges, turn, sweep, num):
  # Copies a turn's edges to earlier ones, from `num` on; where they end.
  indptr, others, lengths = edges
  row = sweep.order[turn]
  for e in range(indptr[row], indptr[row + _ONE]):
    other = sweep.turns[others[e]]
    if other < turn:
      sweep.others[num] = other
      for k in range(lengths.shape[1]):
        sweep.lengths[num, k] = lengths[e, k]
      num += np.uint64(1)
  return num


@njit
def _sweep_rows(back, root, sweep, infinity):
  """Fills `sweep.dist` with the distances of a root, all lanes at once.

  Each row is settled in its turn, by earlier rows. If the row then shortens an
  earlier row's distance, the order was wrong for a lane: that row is lowered at
  once.
  """
  starts, others, lengths = sweep.starts, sweep.others, sweep.lengths
  dist = sweep.dist
  size, lanes = dist.shape
  dist[:] = infinity
  dist[sweep.turns[root]] = 0
  # The order belongs to a row nearby and differs close to the root.
  _lower(back, sweep.turns[root], size - 1, 2 * NEAR, sweep)
  for turn in range(np.uint64(size)):
    split, stop = sweep.splits[turn], starts[turn + _ONE]
    for e in range(starts[turn], split):
      near = others[e]
      for k in range(lanes):
        far = dist.dtype.type(dist[near, k] + lengths[e, k])
        dist[turn, k] = min(far, dist[turn, k])
    fell = False
    for e in range(split, stop):
      near = others[e]
      for k in range(lanes):
        fell |= dist.dtype.type(dist[turn, k] + lengths[e, k]) < dist[near, k]
    if fell:
      _lower(back, turn, turn, np.int64(1) << 62, sweep)


@njit
def _lower(back, turn, last, most, sweep):
  """Relaxes edges from the row of a turn to turns up to `last`.

  Continues from lowered rows, until `most` rows have been relaxed.
  """
  indptr, others, lengths = back
  dist, queue, queued = sweep.dist, sweep.queue, sweep.queued
  queue[0], first, num = turn, 0, 1
  while num:
    near, first, num = queue[first], first + 1, num - 1
    if first == len(queue):
      first = 0
    queued[near] = False
    most -= 1
    if most < 0:
      continue  # The ring is empty.
    row = sweep.order[near]
    for e in range(indptr[row], indptr[row + _ONE]):
      other, fell = sweep.turns[others[e]], False
      if other > last:
        continue  # That row reads this one in its own turn.
      for k in range(dist.shape[1]):
        far = dist.dtype.type(dist[near, k] + lengths[e, k])
        fell |= far < dist[other, k]
      if not fell:
        continue
      for k in range(dist.shape[1]):
        far = dist.dtype.type(dist[near, k] + lengths[e, k])
        dist[other, k] = min(far, dist[other, k])
      if not queued[other]:
        # A row is in the ring once, so that it never overflows.
        place = first + num
        queue[place - len(queue) * (place >= len(queue))] = other
        queued[other], num = True, num + 1


def _orders(
  roads: RoadMap, roots: np.ndarray, *, reverse: bool
) -> tuple[np.ndarray, float]:
  """[B, S] uint32 rows by ascending distance from (or to) each root.

  Also returns the largest distance, in metres. Distances use mean lengths. The
  order affects only how many rows a sweep relaxes twice, never a route.
  """
  graph = roads.delta, roads.lengths.mean(0)
  dist = paths.dijkstra(*graph, roots, reverse=reverse)
  # A root that few rows lead to is a poor guide for goals around it: there the
  # order follows the opposite direction.
  few = np.isinf(dist).mean(1) > 0.5
  if few.any():
    dist[few] = paths.dijkstra(*graph, roots[few], reverse=not reverse)
  farthest = dist.max(where=np.isfinite(dist), initial=0.0)
  return np.argsort(dist, axis=1).astype(np.uint32), farthest


def _nearest(roads: RoadMap, centres: np.ndarray) -> np.ndarray:
  """[S] index of the nearest sorted centre, in undirected edges."""
  indptr, heads = (array.astype(np.int32) for array in roads.leaving[:2])
  edges = np.ones(len(heads)), heads, indptr
  sources = scipy.sparse.csgraph.dijkstra(
    scipy.sparse.csr_array(edges, shape=[len(roads.delta)] * 2),
    directed=False,
    indices=centres,
    return_predecessors=True,
    unweighted=True,
    min_only=True,
  )[2]
  return np.searchsorted(centres, sources)  # 0 where none is near.


@njit
def _swept_routes(ways, orders, which, sweep, pairs, rows, labels, moves):
  """Fills labels and moves of pairs, which are sorted by goal."""
  leaving, entering = ways[:2]
  order, start = -1, 0
  while start < len(rows):
    goal, stop = pairs[rows[start], 2], start + 1
    while stop < len(rows) and pairs[rows[stop], 2] == goal:
      stop += 1
    if which[start] != order:
      order = which[start]
      _order_edges(leaving, entering, orders[order], sweep)
    _sweep_rows(entering, goal, sweep, FAR)
    _trace_units(ways, sweep, pairs, rows[start:stop], labels, moves)
    start = stop


@njit
def _trace_units(ways, sweep, pairs, group, labels, moves):
  """As `_trace` for all pairs of a goal; _STUCK where routes are ambiguous.

  Rounding down shortens each edge by less than a unit. So a route of h edges is
  the only shortest one if every deviation is longer by h units, plus one for
  the rounding of true sums.
  """
  leaving, _, names, units, cut = ways
  indptr, heads = leaving[0], leaving[1]
  dist, turns = sweep.dist, sweep.turns
  # Routes are traced in parallel, since each step waits for memory.
  places = np.empty(len(group), np.uint32)
  spares = np.full(len(group), np.int64(FAR))
  going = np.empty(len(group), np.uint32)
  num, step = np.uint64(0), 0
  for n in range(np.uint64(len(group))):
    k, row, goal = pairs[group[n]]
    moves[group[n]] = 0
    if dist[turns[row], k] == FAR:
      moves[group[n]] = _unreached(dist, k, cut)
    elif dist[turns[row], k] == FAR - 1:
      # An edge of at least this length was capped: other routes may be shorter.
      moves[group[n]] = _STUCK
    elif row != goal:
      places[n], going[num] = row, n
      num += np.uint64(1)
  while num:
    left, num = num, np.uint64(0)
    for i in range(left):
      n = going[i]
      b, row = group[n], places[n]
      k = np.uint32(pairs[b, 0])
      best = second = np.int64(2 * FAR)
      following = indptr[row]
      for e in range(indptr[row], indptr[row + _ONE]):
        far = np.int64(dist[turns[heads[e]], k]) + units[k, e]
        second = min(second, max(far, best))
        following = np.uint32(e) if far < best else following
        best = min(far, best)
      # Edges of the route before this one do not count.
      spares[n] = min(spares[n], second - best + step)
      if step < labels.shape[1]:
        labels[b, step] = names[following]
      places[n] = heads[following]
      ends = places[n] == pairs[b, 2]
      # Edges without length might lead in a circle.
      if units[k, following] == 0 or (ends and spares[n] <= step + 1):
        labels[b] = -1
        moves[b] = _STUCK
      elif ends:
        moves[b] = min(step, labels.shape[1]) + 1
      else:
        going[num] = n
        num += np.uint64(1)
    step += 1


@njit
def _unreached(dist, k, cut) -> int:
  # Moves of a row that is FAR: no route if no distance of the lane is capped.
  for near in dist[:, k]:
    if cut <= near < FAR:
      return _STUCK
  return -1


class _PairSearch(NamedTuple):
  """A* from a goal back to an origin; the heap contains a row once.

  Attributes:
    dist: [S] float64 shortest length to the goal so far, or inf.
    key: [S] float64 dist plus the bound of the rest to the origin.
    heap: [S] int64 rows, smallest key first. place: [S] position of a row in
      the heap, or -1.
    touched: [S] int64 rows whose `dist` is finite.
  """

  dist: np.ndarray
  key: np.ndarray
  heap: np.ndarray
  place: np.ndarray
  touched: np.ndarray


@njit
def _bound(bounds, origin, row) -> float:
  # The least length from the origin to a row that the landmarks leave open;
  # infinite where there is no route. Of two infinities the difference is NaN,
  # and no bound.
  least = 0.0
  for k in range(bounds.shape[1]):
    bound = bounds[row, k] - bounds[origin, k]
    if bound > least:
      least = bound
  return least


@njit
def _up(search, i) -> None:
  # Moves the row at i towards the top while its key is less.
  heap, key, place = search.heap, search.key, search.place
  row = heap[i]
  while i > 0 and key[row] < key[heap[(i - 1) >> 1]]:
    heap[i] = heap[(i - 1) >> 1]
    place[heap[i]] = i
    i = (i - 1) >> 1
  heap[i], place[row] = row, i


@njit
def _pop(search, num) -> int:
  # Takes the row with the least key of `num`.
  heap, key, place = search.heap, search.key, search.place
  top, row = heap[0], heap[num - 1]
  place[top] = -1
  num -= 1
  if num:
    i = 0
    while 2 * i + 1 < num:
      child = 2 * i + 1
      if child + 1 < num and key[heap[child + 1]] < key[heap[child]]:
        child += 1
      if key[row] <= key[heap[child]]:
        break
      heap[i] = heap[child]
      place[heap[i]] = i
      i = child
    heap[i], place[row] = row, i
  return top


@njit
def _find(ways, search, origin, goal) -> int:
  """Fills `dist` of rows on shortest routes; returns the rows touched."""
  dist, key, place = search.dist, search.key, search.place
  _, (indptr, tails, lengths), _, bounds, slack = ways
  dist[goal] = 0.0
  key[goal] = _bound(bounds, origin, goal)
  search.heap[0], place[goal], search.touched[0] = goal, 0, goal
  # Keys never fall along a route except by rounding, so rows come out once.
  num, touched = 1, 1
  # A row whose bound is infinite is on no route from the origin.
  while num and key[search.heap[0]] <= dist[origin] * (1 + 1e-9) + slack:
    row = _pop(search, num)
    num -= 1
    if key[row] == np.inf:
      break
    for e in range(indptr[row], indptr[row + 1]):
      tail, far = tails[e], dist[row] + lengths[e]
      if not far < dist[tail]:
        continue
      # A bound takes K differences, so it is computed once per row.
      if dist[tail] == np.inf:
        bound = _bound(bounds, origin, tail)
        search.touched[touched] = tail
        touched += 1
      else:
        bound = key[tail] - dist[tail]
      dist[tail], key[tail] = far, far + bound
      # Rounding may shorten a row's distance after it was taken: it re-enters.
      if place[tail] < 0:
        search.heap[num] = tail
        place[tail] = num
        num += 1
      _up(search, place[tail])
  while num:  # The next search begins with an empty heap.
    num -= 1
    place[search.heap[num]] = -1
  return touched


@njit
def _single_routes(ways, search, pairs, rows, labels, moves):
  """Fills labels and moves of the pairs in `rows`."""
  leaving, _, names, _, _ = ways
  for b in rows:
    touched = _find(ways, search, pairs[b, 1], pairs[b, 2])
    moves[b] = _trace(leaving, names, search.dist, pairs[b], labels[b])
    # Few rows were touched: the whole array would take longer than the search.
    for k in range(touched):
      search.dist[search.touched[k]] = np.inf
