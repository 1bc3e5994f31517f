"""Searches over street graphs: hop counts and shortest paths.

A graph is a table `delta [S, A] int32` of the row that each label leads to,
DEAD where there is no edge. Edge lengths are [S, A] float64 in metres, read
only where there is an edge.

Many searches run at once, one per vector lane: dist[row, lane] is the distance
of `row` from the root of that lane. Neighbouring sources settle rows in nearly
the same order, so rows are relaxed in that order, all lanes in one operation,
and again only after a neighbour improved. As addition is monotone, the least
fixed point equals the result of a single search, bit for bit.

Edges are (indptr, others[, lengths]): those of row u are the slice
indptr[u]:indptr[u + 1]. Indices are unsigned, which avoids tests for negatives.
"""

from __future__ import annotations

import numpy as np
import scipy

from wm import core
from wm.kernels import dfa
from wm.kernels.base import calls
from wm.kernels.base.jit import njit

GOALS = 512  # destinations per table of distances, if they fit TABLE_BYTES
TABLE_BYTES = 1 << 29
HOP_LANES = 256
LANES = 64
_ONE = np.uint32(1)


def hops(delta: np.ndarray) -> np.ndarray:
  """[S, S] fewest labels from row u to row v, all pairs.

  uint8, or uint16 where some distance is above 252. The maximum of the type
  marks unreachable rows. Raises InputError for distances above 65532.
  """
  delta = calls.table(delta, calls.FEW_LABELS)
  # Bytes first: they suffice for most street graphs and double the lanes.
  for dtype in (np.uint8, np.uint16):
    out = np.empty((len(delta), len(delta)), dtype)
    if _hops(*_edges(delta), out):
      return out
  raise core.InputError('a shortest path has more than 65532 edges')


def _hops(
  leaving: tuple[np.ndarray, ...],
  entering: tuple[np.ndarray, ...],
  out: np.ndarray,
) -> bool:
  """Fills out [S, S]; False where it is too narrow.

  Infinity is the type's maximum less one, so that one hop more still fits.
  """
  infinity, size = np.iinfo(out.dtype).max - 1, len(out)
  # Column n of `out` is of goal roots[n] until the columns are put in order.
  roots = _clusters(leaving, entering, np.arange(size, dtype='u4'), HOP_LANES)
  for part in calls.slices(-(-size // HOP_LANES), 8):
    ends = part.start * HOP_LANES, part.stop * HOP_LANES
    if not _fill_hops(leaving, entering, roots, *ends, out, infinity):
      return False
  for part in calls.slices(size):
    _permute(out[part], roots, infinity)
  return True


def dijkstra(
  delta: np.ndarray,
  lengths: np.ndarray,
  sources: np.ndarray | None = None,
  *,
  reverse: bool = False,
) -> np.ndarray:
  """Shortest distances, metres: [B, S] float64; inf where there is no route.

  Entry [b, v] is the distance from sources[b] to v, or with `reverse` from v
  to sources[b]. Lengths are added in order from the source on, as Dijkstra's
  algorithm does.

  Args:
    delta: [S, A].
    lengths: [S, A], finite, not negative.
    sources: [B] rows; default all.
    reverse: follow edges backwards.
  """
  delta = calls.table(delta, calls.FEW_LABELS)
  if sources is None:
    sources = np.arange(len(delta))
  sources = calls.rows(sources, len(delta), 'sources', 0)
  none = np.empty((0, len(delta)), np.int8)
  return _search(delta, lengths, sources, reverse, none)


def to_goals(
  delta: np.ndarray, lengths: np.ndarray, goals: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Distances to goals [G] and the label to take next from every row.

  Args:
    delta: [S, A].
    lengths: [S, A] metres, finite, not negative.
    goals: [G] rows.

  Returns:
    dist: [G, S] float64 metres, inf where there is no route.
    labels: [G, S] int8, the lowest label among shortest routes; DEAD at the
      goal and where there is no route.
  """
  delta = calls.table(delta, calls.FEW_LABELS)
  goals = calls.rows(goals, len(delta), 'goals', 0)
  labels = np.empty((len(goals), len(delta)), np.int8)
  return _search(delta, lengths, goals, True, labels), labels


def _search(
  delta: np.ndarray,
  lengths: np.ndarray,
  sources: np.ndarray,
  reverse: bool,
  labels: np.ndarray,
) -> np.ndarray:
  """Distances [B, S]; fills labels [B, S] too, unless they are empty."""
  leaving, entering, names = named_edges(delta, lengths)
  if reverse:
    leaving, entering = entering, leaving
  dist = np.empty((len(sources), len(delta)))
  _distances(leaving, entering, names, sources, dist, labels)
  return dist


def named_edges(
  delta: np.ndarray, lengths: np.ndarray
) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...], np.ndarray]:
  """`_edges` with lengths, and labels [E] int8 of leaving edges."""
  # By row, then label: the order of the edges that leave each row.
  names = calls.frozen(np.nonzero(delta >= 0)[1], np.int8)
  return *_edges(delta, np.asarray(lengths, np.float64)), names


class Reach:
  """Breadth-first searches over one graph, one row at a time.

  For graphs that are too large for `hops`.
  """

  def __init__(self, delta: np.ndarray) -> None:
    delta = calls.table(delta, calls.FEW_LABELS)
    self._leaving, self._entering = _edges(delta)
    self._size = len(delta)

  def hops(self, root: int, to: bool) -> np.ndarray:
    """[S] int32 fewest labels between each row and a root, DEAD without a path.

    to: count from the rows to the root, or else from the root to the rows.
    """
    far = np.full(self._size, core.DEAD, np.int32)
    queue = np.empty(self._size, np.uint32)
    edges = self._entering if to else self._leaving
    _reach(edges, np.uint32(root), self._size, far, queue)
    return far

  def near(self, rows: np.ndarray, goals: np.ndarray, most: int) -> np.ndarray:
    """[B] bool: is goals[b] at most so many hops from rows[b]?"""
    rows = calls.rows(rows, self._size, 'rows', 0)
    goals = calls.rows(goals, self._size, 'goals', 0)
    out = np.empty(len(rows), np.bool_)
    far = np.full(self._size, core.DEAD, np.int32)
    queue = np.empty(self._size, np.uint32)
    for part in calls.slices(len(rows), 1 << 12):
      ends = rows[part].astype(np.uint32), goals[part]
      _near(self._leaving, *ends, most, far, queue, out[part])
    return out

  def picked(
    self, rows: np.ndarray, picks: np.ndarray, most: int
  ) -> np.ndarray:
    """[B] int32: of the rows that are 1 to `most` hops away, number picks[b].

    They are numbered in the order of the search. DEAD where there are no more
    than picks[b].
    """
    rows = calls.rows(rows, self._size, 'rows', 0)
    out = np.full(len(rows), core.DEAD, np.int32)
    far = np.full(self._size, core.DEAD, np.int32)
    queue = np.empty(self._size, np.uint32)
    for part in calls.slices(len(rows), 64):
      _picked(
        *(self._leaving, rows[part].astype(np.uint32), picks[part], most),
        *(far, queue, out[part]),
      )
    return out


def parts(delta: np.ndarray) -> np.ndarray:
  """[S] number of the strongly connected part that each row is in.

  Between any two rows of a part there is a route.
  """
  tails, labels = np.nonzero(delta >= 0)
  # SciPy before 1.15 supports only int32 and does not convert.
  ends = tails.astype(np.int32), delta[tails, labels].astype(np.int32)
  graph = scipy.sparse.coo_array(
    (np.ones(len(tails), bool), ends), (len(delta), len(delta))
  )
  return scipy.sparse.csgraph.connected_components(graph, connection='strong')[
    1
  ]


def shortest_routes(
  delta: np.ndarray,
  lengths: np.ndarray,
  origins: np.ndarray,
  destinations: np.ndarray,
  most: int,
) -> tuple[np.ndarray, np.ndarray]:
  """`dfa.follow` after `to_goals`, for a piece of the destinations at a time.

  origins, destinations: [B] rows. Returns labels [B, most] and moves [B] as
  `dfa.follow` does.
  """
  origins, destinations = np.asarray(origins), np.asarray(destinations)
  calls.same_length(origins=origins, destinations=destinations)
  labels = np.full((len(origins), most), core.DEAD, np.int8)
  moves = np.empty(len(origins), np.int32)
  targets, index = np.unique(destinations, return_inverse=True)
  # Routes sorted by destination: those of one piece are a run of `order`. A
  # table for all destinations at once would take [G, S] bytes.
  order = np.argsort(index, kind='stable')
  each = max(min(GOALS, TABLE_BYTES // (8 * len(delta))), 1)
  for start in range(0, len(targets), each):
    goals = targets[start : start + each]
    low, high = np.searchsorted(index[order], [start, start + each])
    rows = order[low:high]
    table = to_goals(delta, lengths, goals)[1]
    labels[rows], moves[rows] = dfa.follow(
      delta, table, origins[rows], index[rows] - start, goals, most
    )
  return labels, moves


def _edges(
  delta: np.ndarray, lengths: np.ndarray | None = None
) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
  """Edges that leave and that enter each row.

  Each as indptr [S + 1] uint32, the other ends [E] uint32 and, if given,
  lengths [E] of [S, A], or [E, K] of [S, A, K]. Unsigned indices spare
  compiled code a test for negative ones.
  """
  tails, labels = np.nonzero(delta >= 0)
  heads = delta[tails, labels]
  columns = [] if lengths is None else [lengths[tails, labels]]

  def sorted_by(near: np.ndarray, far: np.ndarray) -> tuple:
    """Edges grouped by one of their ends."""
    # Stable: the edges of a row stay in order of label.
    order = np.argsort(near, kind='stable')
    indptr = np.zeros(len(delta) + 1, np.uint32)
    np.cumsum(np.bincount(near, minlength=len(delta)), out=indptr[1:])
    return (
      calls.frozen(indptr, np.uint32),
      calls.frozen(far[order], np.uint32),
      *(calls.frozen(column[order], np.float64) for column in columns),
    )

  return sorted_by(tails, heads), sorted_by(heads, tails)


@njit
def _clusters(leaving, entering, rows, size) -> np.ndarray:
  """Reorders `rows` so that runs of `size` rows are close together.

  Runs grow breadth first, along undirected edges, from the first unused row.
  """
  total = len(leaving[0]) - 1
  # A row may occur more than once, and is then repeated.
  pending = np.zeros(total, np.int64)
  for row in rows:
    pending[row] += 1
  order, queue = np.empty(len(rows), np.uint32), np.empty(total, np.uint32)
  seen, num = np.full(total, -1, np.int64), 0
  # Any row may begin a search: graphs need not be connected.
  for root in range(total):
    while pending[root]:
      queue[0], seen[root] = root, num
      # `seen` stores the number of the search, so it is never cleared.
      mark, at, tail = num, 0, 1
      # A cluster is filled to its size, across searches if necessary.
      stop = min(num + size - num % size, len(rows))
      while at < tail and num < stop:
        row = queue[at]
        at += 1
        while pending[row] and num < stop:
          order[num] = row
          pending[row] -= 1
          num += 1
        for edges in (leaving[:2], entering[:2]):
          for near in edges[1][edges[0][row] : edges[0][row + _ONE]]:
            if seen[near] != mark:
              seen[near] = mark
              queue[tail] = near
              tail += 1
  return order


@njit
def _reach(edges, root, most, far, queue):
  """Fills far with hops from root up to `most`; returns how many are reached.

  far is DEAD before; queue [S] gets the rows that are reached, nearest first.
  """
  far[root], queue[0] = 0, root
  at, num = 0, 1
  while at < num and far[queue[at]] < most:
    row = queue[at]
    at += 1
    for other in edges[1][edges[0][row] : edges[0][row + _ONE]]:
      if far[other] < 0:
        far[other] = far[row] + 1
        queue[num] = other
        num += 1
  return num


@njit
def _near(edges, rows, goals, most, far, queue, out):
  """See `Reach.near`; far is DEAD before and after."""
  for n in range(len(rows)):
    num = _reach(edges, rows[n], most, far, queue)
    out[n] = far[goals[n]] >= 0
    for k in range(num):
      far[queue[k]] = -1


@njit
def _picked(edges, rows, picks, most, far, queue, out):
  """See `Reach.picked`; far is DEAD before and after."""
  for n in range(len(rows)):
    num = _reach(edges, rows[n], most, far, queue)
    # The row itself comes first, and does not count.
    if picks[n] < num - 1:
      out[n] = queue[picks[n] + 1]
    for k in range(num):
      far[queue[k]] = -1


@njit
def _breadth_first(edges, root, order, seen):
  """Fills order [S] with rows in breadth-first order, then unreachable rows."""
  indptr, others = edges[0], edges[1]
  seen[:] = False
  order[0], seen[root] = root, True
  at, num = 0, 1
  while at < num:
    row = order[at]
    at += 1
    for other in others[indptr[row] : indptr[row + _ONE]]:
      if not seen[other]:
        order[num], seen[other] = other, True
        num += 1
  # Rows out of reach come last: other roots of the block may reach them.
  for row in range(len(seen)):
    if not seen[row]:
      order[num] = row
      num += 1


@njit
def _wake(edges, row, dirty):
  """Marks the rows that edges from `row` lead to."""
  for other in edges[1][edges[0][row] : edges[0][row + _ONE]]:
    dirty[other] = True


@njit
def _hop(edges, row, dist):
  """Sets dist to 1 + the neighbours' minimum; returns True if a lane fell."""
  fell, stop = False, edges[0][row + _ONE]
  # Two edges per iteration halve the loads and stores of the row itself.
  for e in range(edges[0][row], stop, 2):
    # The last of an odd number is read twice, without effect.
    first, second = edges[1][e], edges[1][min(e + 1, stop - 1)]
    for lane in range(HOP_LANES):
      near = min(dist[first, lane], dist[second, lane])
      far, old = dist.dtype.type(near + 1), dist[row, lane]
      fell |= far < old
      dist[row, lane] = min(far, old)
  return fell


# inline: a function as an argument would keep its callers from being cached.
@njit(inline='always')
def _block(lower, out, into, roots, infinity, dist, order, dirty):
  """Fills dist [S, lanes] with distances from the root of each lane.

  lower(into, row, dist): relaxes the edges into a row; returns True if any lane
  fell.
  """
  # All lanes share one order: their roots lie close together.
  _breadth_first(out, roots[0], order, dirty)
  dirty[:] = False
  dist[:] = infinity
  for lane in range(len(roots)):
    dist[roots[lane], lane] = 0
    _wake(out, roots[lane], dirty)
  again = True
  # Rows whose in-neighbours fell are dirty; the loop ends when none is. Adding
  # a length is monotone, so this is the least fixed point.
  while again:
    again = False
    for row in order:
      if dirty[row]:
        dirty[row] = False
        if lower(into, row, dist):
          again = True
          _wake(out, row, dirty)


@njit
def _fill_hops(leaving, entering, roots, first, last, out, infinity):
  """Fills hops to roots[first:last]; returns False if `infinity` is too low."""
  size = len(out)
  dist = np.empty((size, HOP_LANES), out.dtype)
  order, dirty = np.empty(size, np.uint32), np.empty(size, np.bool_)
  for start in range(first, min(last, size), HOP_LANES):
    block = roots[start : start + HOP_LANES]
    # From goals against the edges, so that rows of `out` are written in runs.
    _block(_hop, entering, leaving, block, infinity, dist, order, dirty)
    # infinity - 1 stays free: one more hop would equal infinity.
    high = False
    for row in range(size):
      for lane in range(len(block)):
        high |= dist[row, lane] == infinity - 1
        out[row, start + lane] = dist[row, lane]
    if high:
      return False
  return True


@njit
def _permute(out, columns, infinity):
  """Moves column n to columns[n] in place; infinity becomes the maximum."""
  line = np.empty(out.shape[1], out.dtype)
  for row in range(len(out)):
    # A copy of the row, since columns are permuted.
    for n in range(len(columns)):
      line[n] = out[row, n]
    for n in range(len(columns)):
      far = line[n]
      out[row, columns[n]] = far + (far == infinity)


@njit
def _relax(edges, row, dist):
  """Shortens dist[row] over edges from others; True if any lane fell."""
  fell, stop = False, edges[0][row + _ONE]
  for e in range(edges[0][row], stop, 2):
    # Two at a time, as in `_hop`.
    last = min(e + 1, stop - 1)
    first, second = edges[1][e], edges[1][last]
    to_first, to_second = edges[2][e], edges[2][last]
    for lane in range(LANES):
      far = min(dist[first, lane] + to_first, dist[second, lane] + to_second)
      old = dist[row, lane]
      fell |= far < old
      dist[row, lane] = min(far, old)
  return fell


@njit
def _name(into, names, roots, dist, row, labels, stuck):
  """Fills labels [LANES] with the next label of a route at a row, or -1.

  stuck [LANES] becomes True where all edges on shortest routes are level.
  """
  for lane in range(LANES):
    labels[lane] = -1
  # From the last edge back, so that the lowest label stays.
  for k in range(into[0][row + _ONE] - into[0][row]):
    e = into[0][row + _ONE] - 1 - k
    other, length, name = into[1][e], into[2][e], np.int64(names[e])
    for lane in range(LANES):
      near, far = dist[other, lane], dist[row, lane]
      # On a shortest route, and nearer, as level edges might form a circle.
      best = (near + length == far) & (near < far)
      labels[lane] = name if best else labels[lane]
  for lane in range(len(roots)):
    open_end = labels[lane] < 0 and dist[row, lane] < np.inf
    stuck[lane] |= open_end and roots[lane] != row


@njit
def _release(into, names, goal, far, out):
  """Fills out [S], in rounds, for rows whose shortest routes use level edges.

  A round settles the rows that have a level edge to a settled row.
  """
  size = len(far)
  settled, chosen = np.empty(size, np.bool_), np.empty(size, np.int8)
  changed = True
  # A level edge leads to a row at equal distance: its length is 0, or vanishes
  # by rounding. Such edges could form circles, so a row takes a level edge only
  # to a row whose own route is settled.
  for row in range(size):
    settled[row] = out[row] >= 0 or row == goal
  while changed:
    changed = False
    # Labels are chosen for all rows before any is written: a round sees only
    # what earlier rounds have settled.
    for row in range(size):
      chosen[row] = -1
      if settled[row] or far[row] == np.inf:
        continue
      for e in range(into[0][row], into[0][row + 1]):
        other = into[1][e]
        level = far[other] + into[2][e] == far[row]
        if level and settled[other] and chosen[row] < 0:
          chosen[row], changed = names[e], True
    for row in range(size):
      if chosen[row] >= 0:
        out[row], settled[row] = chosen[row], True


@njit
def _write_labels(into, names, roots, dist, places, labels):
  """Writes the labels of a block to rows `places` of labels [B, S]."""
  # Transposed from [row, lane] to [lane, row] in squares that fit in the cache;
  # lanes that are stuck at level edges are settled afterwards.
  size = len(dist)
  square = np.empty((16, LANES), np.int64)
  stuck = np.zeros(LANES, np.bool_)
  for low in range(0, size, 16):
    high = min(low + 16, size)
    for row in range(low, high):
      _name(into, names, roots, dist, np.uint32(row), square[row - low], stuck)
    for lane in range(len(roots)):
      for row in range(low, high):
        labels[places[lane], row] = square[row - low, lane]
  for lane in range(len(roots)):
    if stuck[lane]:
      out = labels[places[lane]]
      _release(into, names, roots[lane], dist[:, lane], out)


@njit
def _blocks(out, into, names, sources, places, result, labels):
  """Searches from all sources, LANES at a time."""
  size = len(out[0]) - 1
  dist = np.empty((size, LANES))
  order, dirty = np.empty(size, np.uint32), np.empty(size, np.bool_)
  for start in range(0, len(sources), LANES):
    roots = sources[start : start + LANES]
    into_rows = places[start : start + LANES]  # Rows of the results.
    _block(_relax, out, into, roots, np.inf, dist, order, dirty)
    # In squares, so that both arrays stay in the cache.
    for low in range(0, size, 16):
      for lane in range(len(roots)):
        for row in range(low, min(low + 16, size)):
          result[into_rows[lane], row] = dist[row, lane]
    if len(labels):
      _write_labels(into, names, roots, dist, into_rows, labels)


def _distances(
  out_edges: tuple[np.ndarray, ...],
  in_edges: tuple[np.ndarray, ...],
  names: np.ndarray,
  sources: np.ndarray,
  dist: np.ndarray,
  labels: np.ndarray,
) -> None:
  """Fills dist [B, S] and, unless empty, labels [B, S].

  With labels given, the sources are goals, the searches go against the edges,
  and `names` are the labels of in_edges.
  """
  rows = sources.astype(np.uint32)
  together = _clusters(out_edges[:2], in_edges[:2], rows, LANES)
  # The position in `rows` of each entry of `together`: stable sorts of both
  # pair every use of a row with a distinct position.
  places = np.empty(len(rows), np.int64)
  places[np.argsort(together, kind='stable')] = np.argsort(rows, kind='stable')
  edges = out_edges, in_edges, names
  for blocks in calls.slices(-(-len(rows) // LANES), 8):
    part = slice(blocks.start * LANES, blocks.stop * LANES)
    _blocks(*edges, together[part], places[part], dist, labels)
