"""Transition tables, compiled: see `wm.kernels.dfa.table`."""

from __future__ import annotations

import numpy as np

from wm.kernels.base.jit import njit
from wm.kernels.base.rng_numba import below, splitmix


@njit
def advance(delta, rows, labels) -> np.ndarray:
  """Rows after one label each."""
  after = np.full(len(rows), -1, np.int32)
  for b in range(len(rows)):
    if rows[b] >= 0 and 0 <= labels[b] < delta.shape[1]:
      after[b] = delta[rows[b], labels[b]]
  return after


@njit
def legal(delta, rows, goals) -> np.ndarray:
  """Masks of legal labels, end last."""
  end = delta.shape[1]
  masks = np.zeros((len(rows), end + 1), np.bool_)
  for b in range(len(rows)):
    if rows[b] >= 0:
      for label in range(end):
        masks[b, label] = delta[rows[b], label] >= 0
      masks[b, end] = rows[b] == goals[b]
  return masks


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
def walk(delta, rows, goals, labels, lengths) -> tuple[np.ndarray, ...]:
  """Follows labels up to the first illegal one."""
  steps = np.empty(len(rows), np.int32)
  after = np.empty(len(rows), np.int32)
  over = np.empty(len(rows), np.bool_)
  for b in range(len(rows)):
    steps[b], after[b], over[b] = _follow(
      delta, rows[b], goals[b], labels[b], lengths[b]
    )
  return steps, after, over


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
def minimize(delta, classes) -> np.ndarray:
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


@njit
def reverse_walk(
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
