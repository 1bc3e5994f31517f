"""Products of two automaton states, compiled: see `wm.kernels.dfa.product`.

A search tree of common prefixes is kept in four flat arrays, level by level:

    node      0 | 1 ........ | ....... | .......
    level     0 |     1      |    2    |    3 (under construction)
                             ^ low     ^ high   ^ tail, the next free node

Node n is a prefix legal from both states: first[n] and second[n] are the rows
after it, label[n] is its last label, parent[n] the node of the rest. The
arrays double when they are full.
"""

from __future__ import annotations

import numpy as np

from wm.kernels.base.jit import njit
from wm.kernels.base.rng_numba import S32, splitmix

# Nodes that one compiled call visits, in a fraction of a second.
NODES = 1 << 22


@njit
def _doubled(array):
  """A copy with room for twice as many rows."""
  out = np.empty((2 * len(array), *array.shape[1:]), array.dtype)
  out[: len(array)] = array
  return out


@njit
def _slot(slots, keys, key):
  """Where `key` is, or may be put, in an open-addressing hash table.

  slots: indices into keys, -1 where free; a power of two of them.
  """
  mask = np.int64(len(slots) - 1)
  at = np.int64(splitmix(np.uint64(key)) >> S32) & mask
  while slots[at] >= 0 and keys[slots[at]] != key:
    at = (at + 1) & mask
  return at


@njit
def _rehashed(slots, keys, num):
  """A hash table of twice the size for the first `num` keys."""
  out = np.empty(2 * len(slots), np.int64)
  out[:] = -1
  for n in range(num):
    out[_slot(out, keys, keys[n])] = n
  return out


@njit
def _emit(out, lengths, num, parents, labels, node, label, length):
  """Writes suffix `num`: the path to a node and one label more; may grow."""
  if num == len(lengths):
    out, lengths = _doubled(out), _doubled(lengths)
    out[num:] = -1
  lengths[num] = length
  out[num, length - 1] = label
  for k in range(length - 2, -1, -1):
    out[num, k] = labels[node]
    node = parents[node]
  return out, lengths


def boundary(
  delta, first, second, first_goal, second_goal, depth, end_first
) -> tuple[np.ndarray, ...]:
  """offsets, labels and lengths of `Suffixes`."""
  every = np.ones((0, 0), np.bool_)  # No rules: all labels, to any row.
  pairs = first, second, first_goal, second_goal
  return _listed(delta, (every, every), pairs, depth, end_first)


def boundary_published(
  delta, allowed, alive, first, second, depth
) -> tuple[np.ndarray, ...]:
  """What the published program keeps of the boundary.

  It keeps a suffix exactly if it follows each of its labels (allowed [S, A])
  and the row after it has a continuation of the length that is left (alive
  [S, depth + 1]).
  """
  nowhere = np.full(len(first), -2, np.int32)
  pairs = first, second, nowhere, nowhere
  return _listed(delta, (allowed, alive), pairs, depth, False)


def _listed(delta, rules, pairs, depth, end_first):
  """Calls `_search` until it is done: Ctrl-C is heard between the calls."""
  num = len(pairs[0])
  offsets = np.zeros(num + 1, np.int64)
  out = np.full((max(8 * num, 16), depth), -1, np.int8)
  found = out, np.empty(len(out), np.int8)
  nodes = tuple(np.empty(1024, kind) for kind in ('i4', 'i4', 'i4', 'i1'))
  place = np.array([0, -1, 0, 0, 0, 0])
  while place[0] < num:
    found, nodes = _search(
      delta, rules, pairs, depth, end_first, place, NODES, offsets, found, nodes
    )
  size = place[5]
  return offsets, found[0][:size], found[1][:size]


@njit
def _search(
  delta, rules, pairs, depth, end_first, place, budget, offsets, found, nodes
):
  """Visits `budget` nodes, from where the call before this one stopped.

  place [6] holds where that was: pair, level (-1 before a pair's first), low,
  high and tail of the tree as drawn above, suffixes found.
  """
  end, (allowed, alive), cut = delta.shape[1], rules, len(rules[0]) > 0
  first, second, first_goal, second_goal = pairs
  out, sizes = found
  a_of, b_of, parents, labels = nodes
  t, level, low, high, tail, num = place
  while t < len(first):
    goal_a, goal_b = first_goal[t], second_goal[t]
    if level < 0:
      # The root is the empty prefix; a dead first state has no tree.
      a_of[0], b_of[0] = first[t], second[t]
      level, low, high = 0, 0, np.int64(first[t] >= 0)
      tail = high
    for k in range(level, depth):
      stop = min(high, low + budget)
      budget -= stop - low
      for node in range(low, stop):
        a, b = a_of[node], b_of[node]
        # From equal rows on, only the goals can tell the states apart: equal
        # ones never do, and without a goal the first has no end label to add.
        if a == b and (goal_a == goal_b or goal_a < 0):
          continue
        ends = a == goal_a and b != goal_b
        if ends and end_first:
          out, sizes = _emit(out, sizes, num, parents, labels, node, end, k + 1)
          num += 1
        if tail + end > len(a_of):
          a_of, b_of = _doubled(a_of), _doubled(b_of)
          parents, labels = _doubled(parents), _doubled(labels)
        for label in range(end):
          head = delta[a, label]
          if head < 0 or (cut and not allowed[a, label]):
            continue
          other = delta[b, label] if b >= 0 else -1
          if other < 0:
            # Legal from the first alone: on the boundary, nothing beyond.
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
        if ends and not end_first:
          out, sizes = _emit(out, sizes, num, parents, labels, node, end, k + 1)
          num += 1
      if stop < high:  # The budget is spent within level k.
        place[:] = t, k, stop, high, tail, num
        return (out, sizes), (a_of, b_of, parents, labels)
      low, high = high, tail
    t, level = t + 1, -1
    offsets[t] = num
  place[0], place[5] = t, num
  return (out, sizes), (a_of, b_of, parents, labels)


@njit
def sizes(
  delta, first, second, first_goal, second_goal, depth
) -> tuple[np.ndarray, ...]:
  """Cumulative sizes of boundary and interior, [T, depth] each.

  Works on the distinct pairs of rows (a, b) of a level, as keys a * S + b
  with the number of common prefixes that lead to each: there are at most
  S * S, however many suffixes there are. -1 marks what overflows int64.
  """
  boundaries = np.full((len(first), depth), -1, np.int64)
  interiors = np.full((len(first), depth), -1, np.int64)
  keys, ways = np.empty(64, np.int64), np.empty(64, np.int64)
  new_keys, new_ways = np.empty(64, np.int64), np.empty(64, np.int64)
  slots = np.full(256, -1, np.int64)  # Finds a key's place in new_keys.
  for t in range(len(first)):
    num = np.int64(first[t] >= 0 and second[t] >= 0)
    keys[0], ways[0] = first[t] * np.int64(len(delta)) + second[t], 1
    goals = first_goal[t], second_goal[t]
    if not num:
      boundaries[t] = _alone(delta, first[t], goals[0])
      interiors[t] = 0
      continue
    outer = inner = np.int64(0)
    for k in range(depth):
      new_keys, new_ways, slots, new_num, emitted, kept = _deeper(
        delta, keys[:num], ways[:num], new_keys, new_ways, slots, goals
      )
      outer = outer + emitted if emitted >= 0 else -1
      inner = inner + kept if kept >= 0 else -1
      boundaries[t, k], interiors[t, k] = outer, inner
      if outer < 0 or inner < 0:  # Wrapped around.
        break
      keys, new_keys, ways, new_ways = new_keys, keys, new_ways, ways
      num = new_num
  return boundaries, interiors


@njit
def _alone(delta, row, goal):
  """Boundary size against a state without legal labels: all that is legal."""
  if row < 0:
    return np.int64(0)
  total = np.int64(row == goal)
  for head in delta[row]:
    total += head >= 0
  return total


@njit
def _deeper(delta, keys, ways, new_keys, new_ways, slots, goals):
  """One level of `sizes`.

  Returns the next level's keys, ways, hash table (emptied) and number; then
  the labels on the boundary and in the interior, -1 where these overflow.
  """
  size, end = np.int64(delta.shape[0]), delta.shape[1]
  num, emitted, kept = 0, np.int64(0), np.int64(0)
  for n in range(len(keys)):
    a, b = keys[n] // size, keys[n] % size
    if a == goals[0]:
      if b == goals[1]:
        kept += ways[n]
      else:
        emitted += ways[n]
    for label in range(end):
      if delta[a, label] < 0:
        continue
      if delta[b, label] < 0:
        emitted += ways[n]
        continue
      kept += ways[n]
      if emitted < 0 or kept < 0:
        break
      key = delta[a, label] * size + delta[b, label]
      slot = _slot(slots, new_keys, key)
      if slots[slot] < 0:
        # A new key; the table is kept at most a quarter full.
        if num == len(new_keys):
          new_keys, new_ways = _doubled(new_keys), _doubled(new_ways)
          slots = _rehashed(slots, new_keys, num)
          slot = _slot(slots, new_keys, key)
        slots[slot] = num
        new_keys[num], new_ways[num] = key, 0
        num += 1
      new_ways[slots[slot]] += ways[n]
    if emitted < 0 or kept < 0:
      break
  # Emptied from the latest key back: taking out an early one first would
  # break the chains of slots of those that were put in after it.
  for n in range(num - 1, -1, -1):
    slots[_slot(slots, new_keys, new_keys[n])] = -1
  return new_keys, new_ways, slots, num, emitted, kept
