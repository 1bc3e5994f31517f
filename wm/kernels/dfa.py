"""Finite automata as transition tables (Vafa et al. 2024, section 2).

Steps, walks, random walks, reachable rows, minimisation, and
Myhill-Nerode boundaries: sequences legal from one of two states only.

An automaton is a table `delta [S, A] int32` of next rows, DEAD where a label
is illegal. A state is (row, goal): the end label, numbered A, is legal exactly
where row == goal, and nothing is legal after it. With goal NO_GOAL the end
label is never legal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy

from wm import core
from wm.core import resources
from wm.kernels.base import calls
from wm.kernels.base.bits import below, enlarged, splitmix
from wm.kernels.base.jit import njit

NO_GOAL = calls.NO_GOAL
ATTEMPTS = 1000  # limit of draws for one random walk


class Predecessors(NamedTuple):
  """In-edges by row: those of row v are indptr[v]:indptr[v + 1].

  Attributes:
    indptr: [S + 1] int32.
    sources: [E] int32, rows the edges leave, by label, then source.
    labels: [E] int8 or int16.
  """

  indptr: np.ndarray
  sources: np.ndarray
  labels: np.ndarray


def advance(
  delta: np.ndarray, rows: np.ndarray, labels: np.ndarray
) -> np.ndarray:
  """Rows [B] int32 after one label each.

  rows: [B]; DEAD stays DEAD. labels: [B]; labels that are not columns of delta,
  including the end label, lead to DEAD.
  """
  delta, rows = calls.states(delta, rows=rows)
  labels = calls.frozen(np.atleast_1d(labels), np.int32)
  calls.same_length(rows=rows, labels=labels)
  return _advance(delta, rows, labels)


@njit
def _advance(delta, rows, labels) -> np.ndarray:
  """Rows after one label each."""
  after = np.full(len(rows), -1, np.int32)
  for b in range(len(rows)):
    if rows[b] >= 0 and 0 <= labels[b] < delta.shape[1]:
      after[b] = delta[rows[b], labels[b]]
  return after


def legal(delta: np.ndarray, rows: np.ndarray, goals: np.ndarray) -> np.ndarray:
  """[B, A + 1] bool: labels legal in states (rows, goals) [B]; last is end."""
  return _legal(*calls.states(delta, rows=rows, goals=goals))


@njit
def _legal(delta, rows, goals) -> np.ndarray:
  """Masks of legal labels, end last."""
  end = delta.shape[1]
  masks = np.zeros((len(rows), end + 1), np.bool_)
  for b in range(len(rows)):
    if rows[b] >= 0:
      for label in range(end):
        masks[b, label] = delta[rows[b], label] >= 0
      masks[b, end] = rows[b] == goals[b]
  return masks


def walk(
  delta: np.ndarray,
  rows: np.ndarray,
  goals: np.ndarray,
  labels: np.ndarray,
  lengths: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Follows labels up to the first illegal one.

  Args:
    delta: [S, A].
    rows: [B] starting rows; nothing is legal from DEAD.
    goals: [B], NO_GOAL where there is none.
    labels: [B, K]; labels past lengths[b] are not read.
    lengths: [B].

  Returns:
    steps: [B] int32, labels followed.
    rows: [B] int32, row after them.
    over: [B] bool, the last label followed was the end label.
  """
  delta, rows, goals = calls.states(delta, rows=rows, goals=goals)
  labels = np.asarray(labels)
  # Two dtypes, two compiled versions: a wider copy of int8 labels costs more.
  labels = calls.frozen(
    labels, np.int8 if labels.dtype == np.int8 else np.int32
  )
  lengths = calls.frozen(lengths, np.int32)
  calls.same_length(rows=rows, goals=goals, labels=labels, lengths=lengths)
  if lengths.size and lengths.max() > labels.shape[1]:
    raise core.InputError(
      f'a length is {lengths.max()}; labels have {labels.shape[1]} columns'
    )
  return _walk(delta, rows, goals, labels, lengths)


@njit
def _walk(delta, rows, goals, labels, lengths) -> tuple[np.ndarray, ...]:
  """Follows labels up to the first illegal one."""
  steps = np.empty(len(rows), np.int32)
  after = np.empty(len(rows), np.int32)
  over = np.empty(len(rows), np.bool_)
  for b in range(len(rows)):
    steps[b], after[b], over[b] = _follow(
      delta, rows[b], goals[b], labels[b], lengths[b]
    )
  return steps, after, over


def random_walks(
  delta: np.ndarray, num: int, low: int, high: int, seed: int, *, first: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Uniform random walks: origin, then length, then each next edge.

  Origins are uniform over rows with an edge, lengths over low..high. A walk
  that reaches a row without edges ends there if it has at least `low` moves;
  otherwise it is drawn again (Vafa et al. 2024, appendix B, leaves this open).
  Walk n depends only on (seed, n).

  Args:
    delta: [S, A], with an edge.
    num: N.
    low: least number of moves, at least 1.
    high: greatest.
    seed: of the whole run.
    first: number of the first walk, so that pieces of a run equal the whole.

  Returns:
    origins: [N] int32.
    labels: [N, high] int8 or int16, see calls.label_type, DEAD padded.
    lengths: [N] int32; 0 where ATTEMPTS draws gave no walk of `low` moves.
  """
  delta = calls.table(delta)
  # Rows without edges are not origins, but walks may end there.
  edges = (delta >= 0).sum(1)
  starts = np.flatnonzero(edges)
  # Each row: its edges in order of label, then columns without an edge.
  order = np.argsort(delta < 0, axis=1, kind='stable')
  table = (
    calls.frozen(np.take_along_axis(delta, order, 1), np.int32),
    calls.frozen(order, calls.label_type(delta)),
    calls.frozen(edges, np.int32),
    calls.frozen(starts, np.int32),
  )
  run = np.uint64(seed & (2**64 - 1))
  return calls.run(
    lambda rows: _random_walks(
      *table,
      rows.stop - rows.start,
      low,
      high,
      run,
      first + rows.start,
      ATTEMPTS,
    ),
    num,
  )


@njit
def _random_walks(
  heads, labels, edges, starts, num, low, high, seed, first, attempts
) -> tuple[np.ndarray, ...]:
  """Uniform random walks: two draws for origin and length, one per step."""
  origins = np.full(num, -1, np.int32)
  walked = np.full((num, high), -1, labels.dtype)
  lengths = np.zeros(num, np.int32)
  # Each attempt has its own draws, some of which may remain unused:
  #   attempt * (high + 2) + | 0 origin | 1 length | 2.. its steps |
  run = splitmix(seed)
  for n in range(num):
    key = splitmix(splitmix(run ^ np.uint64(first + n)))
    for attempt in range(attempts):
      draw = attempt * (high + 2)
      row = starts[below(key, draw, len(starts))]
      length = low + below(key, draw + 1, high - low + 1)
      origins[n], steps = row, 0
      while steps < length and edges[row]:
        edge = below(key, draw + 2 + steps, edges[row])
        walked[n, steps] = labels[row, edge]
        row = heads[row, edge]
        steps += 1
      if steps >= low:
        lengths[n] = steps
        break
      walked[n] = -1
  return origins, walked, lengths


def follow(
  delta: np.ndarray,
  table: np.ndarray,
  origins: np.ndarray,
  index: np.ndarray,
  goals: np.ndarray,
  most: int,
) -> tuple[np.ndarray, np.ndarray]:
  """Routes from origins to goals by the labels of `paths.to_goals`.

  Args:
    delta: [S, A].
    table: [G, S] int8 labels of `paths.to_goals`.
    origins: [B] rows.
    index: [B] index of each route's goal.
    goals: [G] rows.
    most: limit of returned moves per route.

  Returns:
    labels: [B, most] int8, DEAD padded; the first ones of longer routes.
    moves: [B] int32; 0 at the goal, DEAD without a route, most + 1 if longer.
  """
  delta = calls.table(delta, calls.FEW_LABELS)
  origins = calls.rows(origins, len(delta), 'origins', 0)
  index = calls.rows(index, len(goals), 'index', 0)
  calls.same_length(origins=origins, index=index)
  calls.same_length(table=table, goals=goals)
  goals = calls.rows(goals, len(delta), 'goals', 0)
  table = calls.frozen(table, np.int8)
  labels = np.full((len(origins), most), core.DEAD, np.int8)
  moves = np.empty(len(origins), np.int32)
  # Routes are sorted by goal, as they read the same row of the table.
  order = np.argsort(index, kind='stable')
  _follow_tables(delta, table, origins, index, goals, order, labels, moves)
  return labels, moves


@njit
def _follow_tables(
  delta, table, origins, index, goals, order, labels, moves
) -> None:
  """Fills labels and moves of routes, in an order that keeps to one table."""
  most = labels.shape[1]
  for b in order:
    row, goal, line = origins[b], goals[index[b]], table[index[b]]
    step = 0
    while row != goal:
      label = line[row]
      if label < 0 or step == most:
        step = -1 if label < 0 else most + 1
        break
      labels[b, step] = label
      row = delta[row, label]
      step += 1
    if step < 0:  # No route: erase the labels written so far.
      labels[b] = -1
    moves[b] = step


def reachable(delta: np.ndarray, rows: np.ndarray) -> np.ndarray:
  """[S] bool: rows reached by zero or more labels from any of `rows` [B]."""

  delta, rows = calls.states(delta, rows=rows)
  sources, labels = np.nonzero(delta >= 0)
  # A search has one start: an extra row with an edge to each of `rows`.
  start = np.full(len(rows), len(delta))
  # SciPy before 1.15 supports only int32 and does not convert.
  edges = tuple(
    ends.astype(np.int32)
    for ends in (np.r_[sources, start], np.r_[delta[sources, labels], rows])
  )
  shape = len(delta) + 1, len(delta) + 1
  graph = scipy.sparse.csr_array((np.ones(len(edges[0]), bool), edges), shape)
  order = scipy.sparse.csgraph.breadth_first_order(
    graph, len(delta), return_predecessors=False
  )
  reached = np.zeros(len(delta) + 1, bool)
  reached[order] = True
  return reached[:-1]


def breadth_first(delta: np.ndarray, start: int) -> np.ndarray:
  """The rows reached from `start`, breadth first, in order of the labels."""
  return _breadth_first(calls.table(delta), start)


@njit
def _breadth_first(delta, start) -> np.ndarray:
  """The order is its own queue."""
  order, seen = np.empty(len(delta), np.int64), np.zeros(len(delta), np.bool_)
  order[0], seen[start], num = start, True, 1
  for place in range(len(delta)):
    if place == num:
      break
    for row in delta[order[place]]:
      if row >= 0 and not seen[row]:
        order[num], seen[row] = row, True
        num += 1
  return order[:num]


def minimize(delta: np.ndarray, classes: np.ndarray) -> np.ndarray:
  """[S] int32 block of each row in the coarsest partition stable under delta.

  Rows share a block exactly when no label sequence leads them to different
  `classes` [S], DEAD being a class of its own (Hopcroft 1971). Blocks are
  numbered in order of first occurrence.
  """
  delta = calls.table(delta)
  classes = np.unique(np.asarray(classes), return_inverse=True)[1]
  calls.same_length(delta=delta, classes=classes)
  # The last row is a sink, a block of its own, that completes the table.
  sink, labels = delta.shape
  heads = np.full((labels, sink + 1), sink, np.int32)
  heads[:, :-1] = np.where(delta >= 0, delta, sink).T
  # In-edges of (label, head) are sources[indptr[i]:indptr[i + 1]] with
  # i = label * (S + 1) + head.
  slots = (heads + np.arange(labels)[:, None] * (sink + 1)).ravel()
  sources = (np.argsort(slots, kind='stable') % (sink + 1)).astype(np.int32)
  counts = np.bincount(slots, minlength=labels * (sink + 1))
  indptr = np.append(0, np.cumsum(counts))
  block = np.append(classes, classes.max(initial=-1) + 1).astype(np.int32)
  _split(block, np.argsort(block, kind='stable'), indptr, sources, labels)
  _, first, number = np.unique(
    block[:-1], return_index=True, return_inverse=True
  )
  return np.argsort(np.argsort(first))[number].astype(np.int32)


@njit
def _split(block, members, indptr, sources, labels):
  """Hopcroft's algorithm, in place; each splitter is used with every label.

  Block i holds members[start[i]:stop[i]]; row r is members[place[r]]. While
  a block is being split, its marked rows are moved to its front:

      members  | marked rows | other rows |
               ^ start       ^ + marks    ^ stop

  `waiting` and the stack `queue` contain blocks that may still split others.
  """
  size, num = len(block), block.max() + 1
  place, marks = np.empty(size, np.int64), np.zeros(size, np.int64)
  for k in range(size):
    place[members[k]] = k
  stop = np.cumsum(np.bincount(block, minlength=size))
  start = np.append(0, stop[:-1])
  touched = np.empty(size, np.int32)
  waiting, queue = np.zeros(size, np.bool_), np.empty(size, np.int32)
  queued = num
  # At first every block may split others: all wait.
  for label in range(num):
    waiting[label], queue[label] = True, label
  while queued:
    queued -= 1
    splitter = queue[queued]
    waiting[splitter] = False
    # A copy, as marking moves rows, including those of the splitter.
    rows = members[start[splitter] : stop[splitter]].copy()
    for label in range(labels):
      # Mark all rows that the label leads into the splitter; each once, as a
      # row has one edge per label.
      hit = 0
      for head in rows:
        slot = label * size + head
        for row in sources[indptr[slot] : indptr[slot + 1]]:
          old = block[row]
          if not marks[old]:
            touched[hit] = old
            hit += 1
          into = start[old] + marks[old]
          other = members[into]
          members[place[row]], place[other] = other, place[row]
          members[into], place[row] = row, into
          marks[old] += 1
      for old in touched[:hit]:
        cut = start[old] + marks[old]
        marks[old] = 0
        if cut == stop[old]:
          continue  # All rows are marked: the block stays whole.
        # The marked rows become block `num`. If the old block is still waiting,
        # both parts must wait; otherwise the smaller suffices (Hopcroft).
        start[num], stop[num], start[old] = start[old], cut, cut
        for row in members[start[num] : cut]:
          block[row] = num
        small = num if cut - start[num] <= stop[old] - cut else old
        fresh = num if waiting[old] else small
        waiting[fresh] = True
        queue[queued] = fresh
        queued += 1
        num += 1


def predecessors(delta: np.ndarray) -> Predecessors:
  """In-edges of every row, in order of label, then source."""
  delta = calls.table(delta)
  sources, labels = np.nonzero(delta >= 0)
  heads = delta[sources, labels]
  # By head, then label, then source: `lexsort` takes its main key last.
  order = np.lexsort((sources, labels, heads))
  indptr = np.zeros(len(delta) + 1, np.int32)
  np.cumsum(np.bincount(heads, minlength=len(delta)), out=indptr[1:])
  return Predecessors(
    indptr,
    sources[order].astype(np.int32),
    labels[order].astype(calls.label_type(delta)),
  )


def reverse_walk(
  predecessors: Predecessors,
  rows: np.ndarray,
  steps: np.ndarray,
  seeds: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Walks backwards from rows, uniform over in-edges at each step.

  Args:
    predecessors: in-edges.
    rows: [B] where the walks end.
    steps: [B] their lengths.
    seeds: [B] uint64; walk b depends on seeds[b] alone.

  Returns:
    labels: [B, K] int8 or int16 in forward order, DEAD padded; K: the longest.
    origins: [B] int32, where the walks start; DEAD where not ok.
    ok: [B] bool, False where a row without in-edges ended the walk early.
  """
  rows = calls.rows(rows, len(predecessors.indptr) - 1, 'rows', 0)
  steps = calls.rows(steps, 2**31, 'steps', 0)
  seeds = calls.seeds(seeds)
  calls.same_length(rows=rows, steps=steps, seeds=seeds)
  edges = (
    calls.frozen(predecessors.indptr, np.int32),
    calls.frozen(predecessors.sources, np.int32),
    calls.frozen(predecessors.labels, predecessors.labels.dtype),
  )
  return _reverse_walk(*edges, rows, steps, seeds)


@njit
def _reverse_walk(
  indptr, sources, labels, rows, steps, seeds
) -> tuple[np.ndarray, ...]:
  """Walks backwards, uniform over in-edges."""
  longest = 0  # Columns of the result.
  for length in steps:
    longest = max(longest, length)
  walked = np.full((len(rows), longest), -1, labels.dtype)
  origins = rows.copy()
  ok = np.ones(len(rows), np.bool_)
  for b in range(len(rows)):
    # Draw k of a walk's own stream chooses its k-th edge from the end.
    stream = splitmix(seeds[b])
    row = rows[b]
    for k in range(steps[b]):
      low, high = indptr[row], indptr[row + 1]
      if low == high:
        ok[b], row = False, -1
        walked[b] = -1  # Discards a walk that reached a dead end.
        break
      # The last label comes first: the walk goes backwards.
      edge = low + below(stream, k, high - low)
      walked[b, steps[b] - 1 - k] = labels[edge]
      row = sources[edge]
    origins[b] = row
  return walked, origins, ok


@njit
def _follow(delta, row, goal, labels, length):
  """Steps, row and over of one walk."""
  end = delta.shape[1]
  for k in range(length):
    label = labels[k]
    if row < 0 or label < 0 or label > end:
      return k, row, False
    # The end label leads nowhere: the walk is over in the goal's row.
    if label == end:
      if row != goal:
        return k, row, False
      return k + 1, row, True
    head = delta[row, label]
    if head < 0:
      return k, row, False
    row = head
  return length, row, False


# The searches for boundaries follow both states at once, in the product of the
# table with itself. Four flat arrays store the search tree of common prefixes,
# level by level, and double when full:
#
#   node      0 | 1 ........ | ....... | .......
#   level     0 |     1      |    2    |    3 (under construction)
#                            ^ low     ^ high   ^ tail, the next free node
#
# Node n is a prefix legal from both states: first[n] and second[n] are the
# rows after it, label[n] is its last label, parent[n] the node of the rest.

# Nodes per compiled call, which takes a fraction of a second.
NODES = 1 << 22


class Suffixes(NamedTuple):
  """Suffixes of many pairs; those of pair t are rows offsets[t]:offsets[t + 1].

  Attributes:
    offsets: [T + 1] int64.
    labels: [N, depth] int8 or int16, DEAD after the last; A is the end label.
    lengths: [N] int8.
  """

  offsets: np.ndarray
  labels: np.ndarray
  lengths: np.ndarray


class Published(NamedTuple):
  """Restricts `boundary` to the suffixes that the published program lists.

  That program enumerates continuations of exactly `depth` labels, has no end
  label, and skips the rest of a row after the first label, in the row's order,
  that leads to a row without an entry.

  Attributes:
    turns: [S, A] label order of each row, DEAD padded; None is ascending.
    has_entry: [S] bool; None is the rows with a legal label.
  """

  turns: np.ndarray | None = None
  has_entry: np.ndarray | None = None


def boundary(
  delta: np.ndarray,
  first: np.ndarray,
  second: np.ndarray,
  first_goal: np.ndarray,
  second_goal: np.ndarray,
  depth: int,
  *,
  published: Published | None = None,
) -> Suffixes:
  """Myhill-Nerode boundaries of T pairs of states, up to a length bound.

  The boundary contains the suffixes of at most `depth` labels that are legal
  from the first state but not from the second, while every proper prefix is
  legal from both (Vafa et al. 2024, Def. 2.4). Sorted by length, then by
  labels, the end label before all others.

  Args:
    delta: [S, A].
    first: [T] rows, DEAD for a state from which nothing is legal.
    second: [T] rows.
    first_goal: [T], NO_GOAL where there is none.
    second_goal: [T].
    depth: longest suffix, 1..127.
    published: how the published program enumerates; None is the exact boundary.

  Raises:
    InputError: rows outside the table, unequal lengths, or a depth outside
      its range.
  """
  columns = {'first': first, 'second': second}
  columns |= {'first_goal': first_goal, 'second_goal': second_goal}
  delta, *states = calls.states(delta, **columns)
  pairs = tuple(states)
  if not 1 <= depth <= 127:
    raise core.InputError(f'depth is {depth}; expected 1..127')
  # Without rules, all labels are followed, to any row.
  rules = (calls.frozen(np.ones((0, 0)), bool),) * 2
  if published is not None:
    rules = _published(delta, *published, depth)
    # That program has no end label: no row is a goal.
    nowhere = calls.frozen(np.full(len(pairs[0]), calls.NO_GOAL), np.int32)
    pairs = *pairs[:2], nowhere, nowhere
  return Suffixes(*_boundary(delta, rules, pairs, depth))


def _published(
  delta: np.ndarray,
  turns: np.ndarray | None,
  has_entry: np.ndarray | None,
  depth: int,
) -> tuple[np.ndarray, np.ndarray]:
  """Labels that the published program follows, and rows that it continues from.

  It skips all labels of a row after the first label, in the row's order, that
  leads to a row without an entry. The end label leads to no row and comes last,
  so it is always skipped.

  Returns:
    allowed: [S, A] bool, labels that are followed from each row.
    alive: [S, depth + 1] bool, True if a continuation of that length exists.
      The program lists suffixes whose labels are all allowed and that reach a
      row with a continuation of the remaining length.
  """
  if turns is None:
    every = np.broadcast_to(np.arange(delta.shape[1]), delta.shape)
    turns = np.where(delta >= 0, every, core.DEAD)
  entry = (
    (delta >= 0).any(1) if has_entry is None else np.asarray(has_entry, bool)
  )
  entry = np.append(entry, False)  # DEAD reads the last.
  allowed = np.zeros(delta.shape, bool)
  rows = np.arange(len(delta))
  running = np.ones(len(delta), bool)  # Rows not left yet.
  for label in np.asarray(turns).T:
    mask = label >= 0
    running &= ~mask | entry[delta[rows, label]]
    allowed[rows[mask & running], label[mask & running]] = True
  alive = np.ones((len(delta), depth + 1), bool)
  for left in range(1, depth + 1):
    # DEAD reads the last row here, which `allowed` masks.
    alive[:, left] = (allowed & alive[delta, left - 1]).any(1)
  return calls.frozen(allowed, bool), calls.frozen(alive, bool)


@njit
def _emit(out, lengths, num, parents, labels, node, label, length):
  """Writes suffix `num`, the path to a node and one label; may grow arrays."""
  if num == len(lengths):
    out, lengths = enlarged(out, 2 * num, -1), enlarged(lengths, 2 * num, 0)
  lengths[num] = length
  out[num, length - 1] = label
  # Up the tree: the labels come last one first.
  for k in range(length - 2, -1, -1):
    out[num, k] = labels[node]
    node = parents[node]
  return out, lengths


def _boundary(delta, rules, pairs, depth) -> tuple[np.ndarray, ...]:
  """offsets, labels and lengths of `Suffixes`.

  rules: (allowed [S, A], alive [S, depth + 1]) of the published program, see
  `_published`; empty arrays for the exact boundary. pairs: four columns [T].
  """
  num = len(pairs[0])
  offsets = np.zeros(num + 1, np.int64)
  kind = calls.label_type(delta)
  out = np.full((max(8 * num, 16), depth), -1, kind)
  lines = out, np.empty(len(out), np.int8)
  nodes = tuple(np.empty(1024, of) for of in ('i4', 'i4', 'i4', kind))
  #   pair | level | low | high | tail | suffixes    see `_search`
  place = np.array([0, -1, 0, 0, 0, 0])
  # `_search` returns often: Ctrl-C is handled between calls.
  while place[0] < num:
    # Twice the current bytes, since arrays double: depth + 1 per suffix, 13 per
    # node.
    held = 2 * (depth + 1) * len(lines[1]) + 26 * len(nodes[0])
    resources.require_memory(held, f'suffixes of up to {depth} labels')
    lines, nodes = _search(
      delta, rules, pairs, depth, place, NODES, offsets, lines, nodes
    )
  size = place[5]
  return offsets, lines[0][:size], lines[1][:size]


@njit
def _search(delta, rules, pairs, depth, place, budget, offsets, lines, nodes):
  """Visits `budget` nodes, continuing from the last call.

  place [6] is the state of the search: pair, level (-1 before a pair's first),
  low, high and tail of the tree as drawn above, number of lines.
  """
  end, (allowed, alive), cut = delta.shape[1], rules, len(rules[0]) > 0
  first, second, first_goal, second_goal = pairs
  out, sizes = lines
  a_of, b_of, parents, labels = nodes
  t, level, low, high, tail, num = place
  while t < len(first):
    goal_a, goal_b = first_goal[t], second_goal[t]
    if level < 0:  # The empty prefix; a dead first state has no tree.
      a_of[0], b_of[0] = first[t], second[t]
      level, low, high = 0, 0, np.int64(first[t] >= 0)
      tail = high
    for k in range(level, depth):
      stop = min(high, low + budget)
      budget -= stop - low
      for node in range(low, stop):
        a, b = a_of[node], b_of[node]
        # After equal rows, only different goals separate the states, and only
        # if the first state has a goal.
        if a == b and (goal_a == goal_b or goal_a < 0):
          continue
        ends = a == goal_a and b != goal_b
        if ends:
          out, sizes = _emit(out, sizes, num, parents, labels, node, end, k + 1)
          num += 1
        while tail + end > len(a_of):
          room = 2 * len(a_of)
          a_of, b_of = enlarged(a_of, room, 0), enlarged(b_of, room, 0)
          parents = enlarged(parents, room, 0)
          labels = enlarged(labels, room, 0)
        for label in range(end):
          head = delta[a, label]
          if head < 0 or (cut and not allowed[a, label]):
            continue
          other = delta[b, label] if b >= 0 else -1
          if other < 0:
            # Legal only from the first: on the boundary, a leaf.
            if not cut or alive[head, depth - k - 1]:
              out, sizes = _emit(
                out, sizes, num, parents, labels, node, label, k + 1
              )
              num += 1
          elif k + 1 < depth:
            # Legal from both: a node of the next level.
            a_of[tail], b_of[tail] = head, other
            parents[tail], labels[tail] = node, label
            tail += 1
      if stop < high:  # The budget ended within level k.
        place[0], place[1], place[2] = t, k, stop
        place[3], place[4], place[5] = high, tail, num
        return (out, sizes), (a_of, b_of, parents, labels)
      low, high = high, tail  # The new level is visited next.
    t, level = t + 1, -1
    offsets[t] = num
  place[0], place[5] = t, num
  return (out, sizes), (a_of, b_of, parents, labels)
