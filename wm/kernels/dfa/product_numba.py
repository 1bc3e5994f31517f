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

from wm import core
from wm.kernels.base.jit import njit

# Nodes that one compiled call visits, in a fraction of a second.
NODES = 1 << 22


@njit
def _doubled(array):
  """A copy with room for twice as many rows."""
  out = np.empty((2 * len(array), *array.shape[1:]), array.dtype)
  out[: len(array)] = array
  return out


@njit
def _emit(out, lengths, num, parents, labels, node, label, length):
  """Writes suffix `num`: the path to a node and one label more; may grow."""
  if num == len(lengths):
    out, lengths = _doubled(out), _doubled(lengths)
    out[num:] = -1
  lengths[num] = length
  out[num, length - 1] = label
  # Up the tree: the labels come last one first.
  for k in range(length - 2, -1, -1):
    out[num, k] = labels[node]
    node = parents[node]
  return out, lengths


def boundary(delta, rules, pairs, depth, end_first) -> tuple[np.ndarray, ...]:
  """offsets, labels and lengths of `Suffixes`.

  rules: (allowed [S, A], alive [S, depth + 1]) of the published program, see
  `product`; empty arrays for the exact boundary. pairs: four columns [T].
  """
  num = len(pairs[0])
  offsets = np.zeros(num + 1, np.int64)
  out = np.full((max(8 * num, 16), depth), -1, np.int8)
  found = out, np.empty(len(out), np.int8)
  nodes = tuple(np.empty(1024, kind) for kind in ('i4', 'i4', 'i4', 'i1'))
  place = np.array([0, -1, 0, 0, 0, 0])
  # `_search` comes back often: Ctrl-C is heard between the calls.
  while place[0] < num:
    # What there is doubles where it is full.
    held = 2 * (depth + 1) * len(found[1]) + 26 * len(nodes[0])
    core.require_memory(held, f'suffixes of up to {depth} labels')
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
    if level < 0:  # The empty prefix; a dead first state has no tree.
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
      low, high = high, tail  # The level just made is the next to visit.
    t, level = t + 1, -1
    offsets[t] = num
  place[0], place[5] = t, num
  return (out, sizes), (a_of, b_of, parents, labels)
