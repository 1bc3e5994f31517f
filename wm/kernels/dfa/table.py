"""Transition tables: steps, walks, counts, reachable rows, minimisation.

An automaton is a table `delta [S, A] int32` of next rows, DEAD where a label
is illegal. A state is (row, goal): the end label, numbered A, is legal exactly
where row == goal, and nothing is legal after it. With goal NONE the end label
is never legal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wm import core
from wm.kernels.base import checks
from wm.kernels.base.jit import njit
from wm.kernels.base.rng import below, splitmix

NONE = checks.NONE


class Predecessors(NamedTuple):
  """In-edges by row: those of row v are indptr[v]:indptr[v + 1].

  Attributes:
    indptr: [S + 1] int32.
    sources: [E] int32, rows the edges leave, by label, then source.
    labels: [E] int8.
  """

  indptr: np.ndarray
  sources: np.ndarray
  labels: np.ndarray


def advance(
  delta: np.ndarray, rows: np.ndarray, labels: np.ndarray
) -> np.ndarray:
  """Rows [B] int32 after one label each.

  rows: [B]; DEAD stays DEAD. labels: [B]; any that is no column of delta (the
  end label included) leads to DEAD.
  """
  delta = checks.table(delta)
  rows = checks.rows(rows, len(delta), 'rows')
  labels = checks.frozen(np.atleast_1d(labels), np.int32)
  checks.same_length(rows=rows, labels=labels)
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
  delta = checks.table(delta)
  rows = checks.rows(rows, len(delta), 'rows')
  goals = checks.goals(goals, len(delta))
  checks.same_length(rows=rows, goals=goals)
  return _legal(delta, rows, goals)


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
    goals: [B], NONE where there is none.
    labels: [B, K]; labels past lengths[b] are not read.
    lengths: [B].

  Returns:
    steps: [B] int32, labels followed.
    rows: [B] int32, row after them.
    over: [B] bool, the last label followed was the end label.
  """
  delta = checks.table(delta)
  rows = checks.rows(rows, len(delta), 'rows')
  goals = checks.goals(goals, len(delta))
  labels = np.asarray(labels)
  # Two dtypes, two compiled versions: a wider copy of int8 labels costs more.
  labels = checks.frozen(
    labels, np.int8 if labels.dtype == np.int8 else np.int32
  )
  lengths = checks.frozen(lengths, np.int32)
  checks.same_length(rows=rows, goals=goals, labels=labels, lengths=lengths)
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


def count(delta: np.ndarray, row: int, goal: int, depth: int) -> list[int]:
  """Numbers of legal label sequences of lengths 1..depth from (row, goal).

  Plain Python integers, so that any size is exact.
  """
  delta = checks.table(delta)
  row = int(checks.rows(row, len(delta), 'rows')[0])
  goal = int(checks.goals(goal, len(delta))[0])
  heads: dict[int, list[int]] = {}
  # Row -> number of sequences that lead to it, for one length at a time.
  level, numbers = {row: 1} if row >= 0 else {}, []
  for _ in range(depth):
    deeper: dict[int, int] = {}
    for at, ways in level.items():
      if at not in heads:
        heads[at] = [head for head in delta[at].tolist() if head >= 0]
      for head in heads[at]:
        deeper[head] = deeper.get(head, 0) + ways
    numbers.append(sum(deeper.values()) + level.get(goal, 0))
    level = deeper
  return numbers


def reachable(delta: np.ndarray, rows: np.ndarray) -> np.ndarray:
  """[S] bool: rows reached by zero or more labels from any of `rows` [B]."""
  from scipy import sparse  # Heavy; most tables need no search.
  from scipy.sparse import csgraph

  delta = checks.table(delta)
  rows = checks.rows(rows, len(delta), 'rows')
  sources, labels = np.nonzero(delta >= 0)
  # A search has one start: a row more, with an edge to each of `rows`.
  start = np.full(len(rows), len(delta))
  # SciPy before 1.15 searches by int32 alone, and makes no copy of its own.
  edges = tuple(
    ends.astype(np.int32)
    for ends in (np.r_[sources, start], np.r_[delta[sources, labels], rows])
  )
  shape = len(delta) + 1, len(delta) + 1
  graph = sparse.csr_array((np.ones(len(edges[0]), bool), edges), shape)
  order = csgraph.breadth_first_order(
    graph, len(delta), return_predecessors=False
  )
  reached = np.zeros(len(delta) + 1, bool)
  reached[order] = True
  return reached[:-1]


def minimize(delta: np.ndarray, classes: np.ndarray) -> np.ndarray:
  """[S] int32 block of each row in the coarsest partition that delta keeps.

  Rows share a block exactly when no label sequence leads them to different
  `classes` [S], DEAD being a class of its own (Hopcroft 1971). Blocks are
  numbered in order of first occurrence.
  """
  delta = checks.table(delta)
  classes = np.unique(np.asarray(classes), return_inverse=True)[1]
  classes = checks.frozen(classes, np.int32)
  checks.same_length(delta=delta, classes=classes)
  return _minimize(delta, classes)


@njit
def _minimize(delta, classes) -> np.ndarray:
  """Hopcroft's algorithm; each splitter block is used with every label.

  `waiting` and the stack `queue` hold the blocks that may still split others.
  """
  size = len(delta) + 1
  indptr, sources = _inverse(delta)
  block, start, stop, members, place, num = _first_partition(classes)
  marks = np.zeros(size, np.int64)
  touched = np.empty(size, np.int32)
  waiting, queue = np.zeros(size, np.bool_), np.empty(size, np.int32)
  queued = num
  for label in range(num):
    waiting[label], queue[label] = True, label
  while queued:
    queued -= 1
    splitter = queue[queued]
    waiting[splitter] = False
    # A copy: marking moves rows about, those of the splitter among them.
    rows = members[start[splitter] : stop[splitter]].copy()
    for label in range(delta.shape[1]):
      # Mark all rows that the label leads into the splitter: none twice, as a
      # row has one edge a label.
      hit = 0
      for head in rows:
        slot = label * size + head
        for row in sources[indptr[slot] : indptr[slot + 1]]:
          if not marks[block[row]]:
            touched[hit] = block[row]
            hit += 1
          _mark(row, block, start, members, place, marks)
      for old in touched[:hit]:
        cut = start[old] + marks[old]
        marks[old] = 0
        if cut == stop[old]:
          continue  # All rows are marked: the block stays whole.
        # The marked rows become block `num`. If the old block still waits,
        # both parts must; if not, the smaller will do (Hopcroft's point).
        start[num], stop[num], start[old] = start[old], cut, cut
        for row in members[start[num] : cut]:
          block[row] = num
        small = num if cut - start[num] <= stop[old] - cut else old
        fresh = num if waiting[old] else small
        waiting[fresh] = True
        queue[queued] = fresh
        queued += 1
        num += 1
  return _renumbered(block[:-1], num)


def predecessors(delta: np.ndarray) -> Predecessors:
  """In-edges of every row, in order of label, then source."""
  delta = checks.table(delta)
  sources, labels = np.nonzero(delta >= 0)
  heads = delta[sources, labels]
  order = np.lexsort((sources, labels, heads))
  indptr = np.zeros(len(delta) + 1, np.int32)
  np.cumsum(np.bincount(heads, minlength=len(delta)), out=indptr[1:])
  return Predecessors(
    indptr, sources[order].astype(np.int32), labels[order].astype(np.int8)
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
    labels: [B, K] int8 in forward order, DEAD padded; K is the longest.
    origins: [B] int32, where the walks start; DEAD where not ok.
    ok: [B] bool, False where a row without in-edges was met too early.
  """
  rows = checks.rows(rows, len(predecessors.indptr) - 1, 'rows', 0)
  steps = checks.rows(steps, 2**31, 'steps', 0)
  seeds = checks.seeds(seeds)
  checks.same_length(rows=rows, steps=steps, seeds=seeds)
  edges = (
    checks.frozen(predecessors.indptr, np.int32),
    checks.frozen(predecessors.sources, np.int32),
    checks.frozen(predecessors.labels, np.int8),
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
  walked = np.full((len(rows), longest), -1, np.int8)
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
        walked[b] = -1  # Nothing of a walk that came to a dead end.
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


@njit
def _inverse(delta):
  """In-edges by (label, head) of the table completed by a sink, row S.

  Those of (label, head) are sources[indptr[i]:indptr[i + 1]] with
  i = label * (S + 1) + head.
  """
  # A counting sort of all (label, head): count, add up, put in place.
  rows, labels = delta.shape
  size = rows + 1
  indptr = np.zeros(labels * size + 1, np.int64)
  for row in range(size):
    for label in range(labels):
      head = delta[row, label] if row < rows else -1
      indptr[label * size + (head if head >= 0 else rows) + 1] += 1
  for slot in range(labels * size):
    indptr[slot + 1] += indptr[slot]
  fill = indptr.copy()
  sources = np.empty(labels * size, np.int32)
  for row in range(size):
    for label in range(labels):
      head = delta[row, label] if row < rows else -1
      slot = label * size + (head if head >= 0 else rows)
      sources[fill[slot]] = row
      fill[slot] += 1
  return indptr, sources


@njit
def _first_partition(classes):
  """Blocks of equal class, the sink (last row) in a block of its own.

  Block i holds members[start[i]:stop[i]]; row r is members[place[r]]. While
  a block is being split, its marked rows are moved to its front:

      members  | marked rows | other rows |
               ^ start       ^ + marks    ^ stop
  """
  size, num = len(classes) + 1, np.int64(1)
  for label in classes:
    num = max(num, np.int64(label) + 2)
  # A counting sort of rows by class, the sink's class being the last.
  block, start = np.empty(size, np.int32), np.zeros(size + 1, np.int64)
  for row in range(size):
    block[row] = classes[row] if row + 1 < size else num - 1
    start[block[row] + 1] += 1
  for label in range(num):
    start[label + 1] += start[label]
  stop = start.copy()
  members, place = np.empty(size, np.int32), np.empty(size, np.int64)
  for row in range(size):
    place[row] = stop[block[row]]
    members[place[row]] = row
    stop[block[row]] += 1
  return block, start, stop, members, place, num


@njit
def _mark(row, block, start, members, place, marks):
  """Swaps a row into the marked front of its block."""
  into = start[block[row]] + marks[block[row]]
  other = members[into]
  members[place[row]], place[other] = other, place[row]
  members[into], place[row] = row, into
  marks[block[row]] += 1


@njit
def _renumbered(block, num):
  """Blocks numbered by first occurrence."""
  # The sink is left out: it is no row of the table.
  numbers = np.full(num, -1, np.int32)
  out = np.empty(len(block), np.int32)
  used = 0
  for row in range(len(block)):
    if numbers[block[row]] < 0:
      numbers[block[row]] = used
      used += 1
    out[row] = numbers[block[row]]
  return out
