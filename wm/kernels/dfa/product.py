"""Pairs of states of an automaton: what is legal from one and not the other.

States are (row, goal) of a transition table, see `wm.kernels.dfa.table`. The
searches follow both states at once: the product of the table with itself.

A search tree of common prefixes is held in four flat arrays, level by level:

    node      0 | 1 ........ | ....... | .......
    level     0 |     1      |    2    |    3 (under construction)
                             ^ low     ^ high   ^ tail, the next free node

Node n is a prefix legal from both states: first[n] and second[n] are the rows
after it, label[n] is its last label, parent[n] the node of the rest. The
arrays double when they are full.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import resources
from wm.kernels.base import checks
from wm.kernels.base.jit import njit

VARIANTS = ('exact', 'published')
# Nodes that one compiled call visits, in a fraction of a second.
NODES = 1 << 22


class Suffixes(NamedTuple):
  """Suffixes of many pairs; those of pair t are rows offsets[t]:offsets[t + 1].

  Attributes:
    offsets: [T + 1] int64.
    labels: [N, depth] int8, DEAD after each suffix's last; A is the end label.
    lengths: [N] int8.
  """

  offsets: np.ndarray
  labels: np.ndarray
  lengths: np.ndarray


def boundary(
  delta: np.ndarray,
  first: np.ndarray,
  second: np.ndarray,
  first_goal: np.ndarray,
  second_goal: np.ndarray,
  depth: int,
  variant: str = 'exact',
  *,
  turns: np.ndarray | None = None,
  has_entry: np.ndarray | None = None,
  end_first: bool = False,
) -> Suffixes:
  """Myhill-Nerode boundaries of T pairs of states, up to a length bound.

  The boundary holds the suffixes of at most `depth` labels that are legal
  from the first state and not from the second while every proper prefix is
  legal from both (Vafa et al. 2024, Def. 2.4). Shorter ones come first, then
  the order is that of the labels.

  Args:
    delta: [S, A].
    first: [T] rows, DEAD for a state from which nothing is legal.
    second: [T] rows.
    first_goal: [T], NONE where there is none.
    second_goal: [T].
    depth: longest suffix, 1..127.
    variant: 'exact', or 'published': only what the published program lists.
      That program enumerates continuations of exactly `depth` labels, knows
      no end label, and leaves a row at the first label, in the row's own
      order, that leads to a row without an entry of its own.
    turns: [S, A] label order of each row, DEAD padded; ascending by default.
      Read by 'published' only.
    has_entry: [S] bool; by default the rows with a legal label. Read by
      'published' only.
    end_first: whether the end label is the lowest of all or the highest.

  Raises:
    InputError: rows outside the table, unequal lengths, or a depth or a
      variant that there is not.
  """
  delta = checks.table(delta)
  if variant not in VARIANTS:
    raise core.InputError(
      f'unknown boundary variant {variant!r}; available: {VARIANTS}'
    )
  if not 1 <= depth <= 127:
    raise core.InputError(f'depth is {depth}; expected 1..127')
  columns = {
    'first': checks.rows(first, len(delta), 'first'),
    'second': checks.rows(second, len(delta), 'second'),
    'first_goal': checks.goals(first_goal, len(delta), 'first_goal'),
    'second_goal': checks.goals(second_goal, len(delta), 'second_goal'),
  }
  checks.same_length(**columns)
  pairs = tuple(columns.values())
  # Without rules all labels are followed, to any row.
  rules = (checks.frozen(np.ones((0, 0)), bool),) * 2
  if variant == 'published':
    rules = _published(delta, turns, has_entry, depth)
    # That program knows no end label: no row is a goal.
    nowhere = checks.frozen(np.full(len(pairs[0]), checks.NONE), np.int32)
    pairs = *pairs[:2], nowhere, nowhere
  return Suffixes(*_boundary(delta, rules, pairs, depth, end_first))


def _published(
  delta: np.ndarray,
  turns: np.ndarray | None,
  has_entry: np.ndarray | None,
  depth: int,
) -> tuple[np.ndarray, np.ndarray]:
  """Labels that the published program follows, and rows that it goes on from.

  It leaves a row at the first label, in the row's order, that leads to a row
  without an entry: the labels after that one are lost. The end label leads to
  no row and comes last, so it is always lost.

  Returns:
    allowed: [S, A] bool, labels that it takes from each row.
    alive: [S, depth + 1] bool, whether a continuation of that length exists.
      Of a suffix the program keeps those whose labels are all allowed and
      that reach a row with a continuation of the length that is left.
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
    alive[:, left] = (allowed & alive[delta, left - 1]).any(1)
  return checks.frozen(allowed, bool), checks.frozen(alive, bool)


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


def _boundary(delta, rules, pairs, depth, end_first) -> tuple[np.ndarray, ...]:
  """offsets, labels and lengths of `Suffixes`.

  rules: (allowed [S, A], alive [S, depth + 1]) of the published program, see
  `product`; empty arrays for the exact boundary. pairs: four columns [T].
  """
  num = len(pairs[0])
  offsets = np.zeros(num + 1, np.int64)
  out = np.full((max(8 * num, 16), depth), -1, np.int8)
  lines = out, np.empty(len(out), np.int8)
  nodes = tuple(np.empty(1024, kind) for kind in ('i4', 'i4', 'i4', 'i1'))
  place = np.array([0, -1, 0, 0, 0, 0])
  # `_search` comes back often: Ctrl-C is heard between the calls.
  while place[0] < num:
    # What there is doubles where it is full.
    held = 2 * (depth + 1) * len(lines[1]) + 26 * len(nodes[0])
    resources.require_memory(held, f'suffixes of up to {depth} labels')
    lines, nodes = _search(
      delta, rules, pairs, depth, end_first, place, NODES, offsets, lines, nodes
    )
  size = place[5]
  return offsets, lines[0][:size], lines[1][:size]


@njit
def _search(
  delta, rules, pairs, depth, end_first, place, budget, offsets, lines, nodes
):
  """Visits `budget` nodes, from where the call before this one stopped.

  place [6] holds where that was: pair, level (-1 before a pair's first), low,
  high and tail of the tree as drawn above, lines found.
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
