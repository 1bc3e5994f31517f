"""Compiled products of two automaton states; `wm.kernels.dfa` documents them.

Search trees lie in flat arrays that double when full; a node's path is read
back through its parents.
"""

from __future__ import annotations

import numpy as np

from wm.kernels.base.jit import njit
from wm.kernels.base.rng import S32, splitmix

# Nodes of search trees that one call visits, in a fraction of a second.
NODES = 1 << 22


@njit
def _doubled(array):
  """A copy with room for twice as many."""
  out = np.empty(2 * len(array), array.dtype)
  for n in range(len(array)):
    out[n] = array[n]
  return out


@njit
def _slot(slots, keys, key):
  """Where `key` is, or may be put, in an open-addressing table of indices."""
  mask = np.int64(len(slots) - 1)
  at = np.int64(splitmix(np.uint64(key)) >> S32) & mask
  while slots[at] >= 0 and keys[slots[at]] != key:
    at = (at + 1) & mask
  return at


@njit
def _rehashed(slots, keys, num):
  """A table of twice the size for the first `num` keys."""
  out = np.empty(2 * len(slots), np.int64)
  out[:] = -1
  for n in range(num):
    out[_slot(out, keys, keys[n])] = n
  return out


@njit
def _path(parents, labels, node, last):
  """Labels from the root to a node, and one more."""
  depth = 0
  at = node
  while at > 0:
    at = parents[at]
    depth += 1
  out = np.empty(depth + 1, np.int64)
  out[depth] = last
  while node > 0:
    depth -= 1
    out[depth] = labels[node]
    node = parents[node]
  return out


@njit
def distinguish(
  delta, first, second, first_goal, second_goal
) -> np.ndarray | None:
  """Breadth-first search over pairs of rows."""
  size, end = np.int64(delta.shape[0]), delta.shape[1]
  keys, parents = np.empty(64, np.int64), np.empty(64, np.int64)
  labels = np.empty(64, np.int64)
  slots = np.full(256, -1, np.int64)
  keys[0], num, at = first * size + second, 1, 0
  slots[_slot(slots, keys, keys[0])] = 0
  while at < num:
    a, b = keys[at] // size, keys[at] % size
    for label in range(end + 1):
      if label == end:
        one, other = a == first_goal, b == second_goal
      else:
        one, other = delta[a, label] >= 0, delta[b, label] >= 0
      if one != other:
        return _path(parents, labels, at, label)
      if not one or label == end:
        continue
      key = delta[a, label] * size + delta[b, label]
      slot = _slot(slots, keys, key)
      if slots[slot] >= 0:
        continue
      if num == len(keys):
        keys, parents, labels = (
          _doubled(keys),
          _doubled(parents),
          _doubled(labels),
        )
        slots = _rehashed(slots, keys, num)
        slot = _slot(slots, keys, key)
      slots[slot] = num
      keys[num], parents[num], labels[num] = key, at, label
      num += 1
    at += 1
  return None


@njit
def _emit(out, lengths, num, parents, labels, node, label, length):
  """Writes suffix `num`: the path to a node and one label; may grow."""
  if num == len(out):
    grown = np.empty((2 * num, out.shape[1]), np.int8)
    grown[num:] = -1
    for n in range(num):
      for k in range(out.shape[1]):
        grown[n, k] = out[n, k]
    out, lengths = grown, _doubled(lengths)
  lengths[num] = length
  out[num, length - 1] = label
  for k in range(length - 2, -1, -1):
    out[num, k] = labels[node]
    node = parents[node]
  return out, lengths


def boundary(
  delta, first, second, first_goal, second_goal, depth, end_first
) -> tuple[np.ndarray, ...]:
  """Product construction, level by level."""
  none = np.ones((0, 0), np.bool_)
  pairs = first, second, first_goal, second_goal
  return _listed(delta, (none, none), pairs, depth, end_first)


def boundary_published(
  delta, allowed, alive, first, second, first_goal, second_goal, depth
) -> tuple[np.ndarray, ...]:
  """What the published program keeps of the boundary.

  An element stays exactly if each of its labels is enumerated and the row
  after it has a continuation of the length that is left.
  """
  del first_goal, second_goal
  nowhere = np.full(len(first), -2, np.int32)
  pairs = first, second, nowhere, nowhere
  return _listed(delta, (allowed, alive), pairs, depth, False)


def _listed(delta, rules, pairs, depth, end_first):
  """The whole search, in calls of NODES each: Ctrl-C is heard between them."""
  num = len(pairs[0])
  offsets = np.zeros(num + 1, np.int64)
  out = np.full((max(8 * num, 16), depth), -1, np.int8)
  found = out, np.empty(len(out), np.int8)
  nodes = tuple(np.empty(1024, kind) for kind in ('i4', 'i4', 'i4', 'i1'))
  place = np.array([0, -1, 0, 0, 0, 0])
  while place[0] < num:
    found, nodes = _boundary(
      delta, rules, pairs, depth, end_first, place, NODES, offsets, found, nodes
    )
  return offsets, found[0][: place[5]], found[1][: place[5]]


@njit
def _boundary(
  delta, rules, pairs, depth, end_first, place, budget, offsets, found, nodes
):
  """Both variants; an empty `allowed` means all labels, to any end.

  Goes on from place: pair, level (-1: not begun), node, end of its level,
  nodes, suffixes; and leaves there where it stops, `budget` nodes on.
  """
  end, (allowed, alive) = delta.shape[1], rules
  cut = len(allowed) > 0
  first, second, first_goal, second_goal = pairs
  out, sizes = found
  a_of, b_of, parents, labels = nodes
  t, level, low, high, tail, num = place
  while t < len(first):
    goal_a, goal_b = first_goal[t], second_goal[t]
    if level < 0:
      a_of[0], b_of[0] = first[t], second[t]
      level, low, high = 0, 0, np.int64(first[t] >= 0)
      tail = high
    for k in range(level, depth):
      stop = min(high, low + budget)
      budget -= stop - low
      for node in range(low, stop):
        a, b = a_of[node], b_of[node]
        # Equal rows differ at most in their goals from here on.
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
            if not cut or alive[head, depth - k - 1]:
              out, sizes = _emit(
                out, sizes, num, parents, labels, node, label, k + 1
              )
              num += 1
          elif k + 1 < depth:
            a_of[tail], b_of[tail] = head, other
            parents[tail], labels[tail] = node, label
            tail += 1
        if ends and not end_first:
          out, sizes = _emit(out, sizes, num, parents, labels, node, end, k + 1)
          num += 1
      if stop < high:
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
  """Cumulative sizes, over distinct pairs of rows with multiplicities."""
  boundaries = np.full((len(first), depth), -1, np.int64)
  interiors = np.full((len(first), depth), -1, np.int64)
  keys, ways = np.empty(64, np.int64), np.empty(64, np.int64)
  new_keys, new_ways = np.empty(64, np.int64), np.empty(64, np.int64)
  slots = np.full(256, -1, np.int64)
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
      if outer < 0 or inner < 0:
        break
      keys, new_keys, ways, new_ways = new_keys, keys, new_ways, ways
      num = new_num
  return boundaries, interiors


@njit
def _alone(delta, row, goal):
  """Boundary size against a state without legal labels."""
  if row < 0:
    return np.int64(0)
  total = np.int64(row == goal)
  for head in delta[row]:
    total += head >= 0
  return total


@njit
def _deeper(delta, keys, ways, new_keys, new_ways, slots, goals):
  """One level of `sizes`.

  Returns the next level's keys, ways, table (emptied) and number; the labels
  on the boundary and in the interior, -1 where these overflow.
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
  # Latest first, so that no earlier key's chain of slots is broken.
  for n in range(num - 1, -1, -1):
    slots[_slot(slots, new_keys, new_keys[n])] = -1
  return new_keys, new_ways, slots, num, emitted, kept
