"""Automaton kernels in plain Python: the specification of `wm.kernels.dfa`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wm import core

_MASK = 2**64 - 1
_TOP = np.iinfo(np.int64).max


def splitmix(state: int) -> int:
  """One splitmix64 output for a counter, as `core.hash64` mixes its words."""
  x = (state + 0x9E3779B97F4A7C15) & _MASK
  x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
  x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
  return x ^ (x >> 31)


def below(seed: int, draw: int, bound: int) -> int:
  """Draw number `draw` of a stream: an integer in 0..bound - 1.

  The upper half of core.hash64(seed, draw), scaled.
  """
  return ((splitmix(splitmix(seed) ^ draw) >> 32) * bound) >> 32


def _step(delta: np.ndarray, row: int, label: int) -> int:
  """Next row; DEAD for labels that are no column."""
  if row < 0 or not 0 <= label < delta.shape[1]:
    return core.DEAD
  return int(delta[row, label])


def _legal(delta: np.ndarray, row: int, goal: int, label: int) -> bool:
  """Is the label (A is end) legal in the state?"""
  if row < 0:
    return False
  if label == delta.shape[1]:
    return row == goal
  return _step(delta, row, label) != core.DEAD


def advance(
  delta: np.ndarray, rows: np.ndarray, labels: np.ndarray
) -> np.ndarray:
  """Rows after one label each."""
  pairs = zip(rows, labels, strict=True)
  return np.array([_step(delta, *pair) for pair in pairs], np.int32)


def legal(delta: np.ndarray, rows: np.ndarray, goals: np.ndarray) -> np.ndarray:
  """Masks of legal labels, end last."""
  labels = range(delta.shape[1] + 1)
  masks = [
    [_legal(delta, row, goal, label) for label in labels]
    for row, goal in zip(rows, goals, strict=True)
  ]
  return np.array(masks, bool).reshape(len(rows), delta.shape[1] + 1)


def walk(
  delta: np.ndarray,
  rows: np.ndarray,
  goals: np.ndarray,
  labels: np.ndarray,
  lengths: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Follows labels up to the first illegal one."""
  steps = np.zeros(len(rows), np.int32)
  after = np.array(rows, np.int32)
  over = np.zeros(len(rows), bool)
  for b, goal in enumerate(goals):
    for label in labels[b, : lengths[b]]:
      if over[b] or not _legal(delta, after[b], goal, label):
        break
      over[b] = label == delta.shape[1]
      if not over[b]:
        after[b] = delta[after[b], label]
      steps[b] += 1
  return steps, after, over


def reachable(delta: np.ndarray, rows: np.ndarray) -> np.ndarray:
  """Depth-first search."""
  found = np.zeros(len(delta), bool)
  stack = [int(row) for row in rows if row >= 0]
  while stack:
    row = stack.pop()
    if not found[row]:
      found[row] = True
      stack.extend(int(head) for head in delta[row] if head >= 0)
  return found


def minimize(delta: np.ndarray, classes: np.ndarray) -> np.ndarray:
  """Moore's refinement: split by the blocks that labels lead to."""
  blocks = [int(block) for block in classes]
  while True:
    numbers: dict[tuple[int, ...], int] = {}
    refined = []
    for block, heads in zip(blocks, delta, strict=True):
      into = tuple(blocks[v] if v >= 0 else core.DEAD for v in heads)
      refined.append(numbers.setdefault((block, *into), len(numbers)))
    if len(numbers) == len(set(blocks)):
      return np.array(refined, np.int32)
    blocks = refined


def distinguish(
  delta: np.ndarray,
  first: int,
  second: int,
  first_goal: int,
  second_goal: int,
) -> tuple[int, ...] | None:
  """Breadth-first search over pairs of rows."""
  end = delta.shape[1]
  seen = {(int(first), int(second))}
  queue = [((int(first), int(second)), ())]
  for (a, b), path in queue:
    for label in range(end + 1):
      one = _legal(delta, a, first_goal, label)
      if one != _legal(delta, b, second_goal, label):
        return (*path, label)
      if one and label < end:
        pair = int(delta[a, label]), int(delta[b, label])
        if pair not in seen:
          seen.add(pair)
          queue.append((pair, (*path, label)))
  return None


def _product(
  delta: np.ndarray, a: int, b: int, goal_a: int, goal_b: int
) -> Iterator[tuple[int, bool, int, int]]:
  """Labels legal at a: (label, legal at b too, next a, next b)."""
  for label in range(delta.shape[1] + 1):
    if _legal(delta, a, goal_a, label):
      both = _legal(delta, b, goal_b, label)
      yield label, both, _step(delta, a, label), _step(delta, b, label)


def _packed(
  found: list[list[tuple[int, ...]]], depth: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Lists of suffixes as offsets, labels, lengths."""
  offsets = np.cumsum([0, *map(len, found)]).astype(np.int64)
  flat = [suffix for suffixes in found for suffix in suffixes]
  labels = np.full((len(flat), depth), core.DEAD, np.int8)
  for n, suffix in enumerate(flat):
    labels[n, : len(suffix)] = suffix
  return offsets, labels, np.array([len(s) for s in flat], np.int8)


def boundary(
  delta: np.ndarray,
  first: np.ndarray,
  second: np.ndarray,
  first_goal: np.ndarray,
  second_goal: np.ndarray,
  depth: int,
  end_first: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Product construction, level by level."""
  end = delta.shape[1]
  found = []
  for pair in zip(first, second, first_goal, second_goal, strict=True):
    a, b, goal_a, goal_b = map(int, pair)
    level, suffixes = [(a, b, ())], []
    for _ in range(depth):
      below_it = []
      for a, b, path in level:
        for label, both, *after in _product(delta, a, b, goal_a, goal_b):
          if not both:
            suffixes.append((*path, label))
          elif label < delta.shape[1]:
            below_it.append((*after, (*path, label)))
      level = below_it
    if end_first:  # It is the last label of what it is in.
      suffixes.sort(key=lambda s: (len(s), s[:-1], s[-1] != end, s[-1]))
    found.append(suffixes)
  return _packed(found, depth)


def boundary_published(
  delta: np.ndarray,
  allowed: np.ndarray,
  alive: np.ndarray,
  first: np.ndarray,
  second: np.ndarray,
  first_goal: np.ndarray,
  second_goal: np.ndarray,
  depth: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """What the published program keeps of the boundary.

  It lists continuations of exactly `depth` labels from first and cuts each
  after the first label that second refuses.
  """
  del alive, first_goal, second_goal

  def continuations(row: int, left: int) -> Iterator[tuple[int, ...]]:
    if not left:
      yield ()
      return
    for label in np.flatnonzero(allowed[row]):
      for rest in continuations(delta[row, label], left - 1):
        yield (int(label), *rest)

  found = []
  for a, b in zip(first, second, strict=True):
    kept = set()
    for suffix in continuations(a, depth) if a >= 0 else ():
      row = b
      for k, label in enumerate(suffix):
        row = _step(delta, row, label)
        if row == core.DEAD:
          kept.add(suffix[: k + 1])
          break
    found.append(sorted(kept, key=lambda suffix: (len(suffix), suffix)))
  return _packed(found, depth)


def sizes(
  delta: np.ndarray,
  first: np.ndarray,
  second: np.ndarray,
  first_goal: np.ndarray,
  second_goal: np.ndarray,
  depth: int,
) -> tuple[np.ndarray, np.ndarray]:
  """Cumulative sizes of boundary and interior.

  DEAD where a size, or the interior one level up, is beyond int64.
  """
  boundaries = np.zeros((len(first), depth), np.int64)
  interiors = np.zeros((len(first), depth), np.int64)
  pairs = zip(first, second, first_goal, second_goal, strict=True)
  for t, (a, b, goal_a, goal_b) in enumerate(pairs):
    level = {(int(a), int(b)): 1}
    outer = inner = 0
    for k in range(depth):
      deeper: dict[tuple[int, int], int] = {}
      fits = inner <= _TOP
      for (a, b), ways in level.items():
        for label, both, *after in _product(delta, a, b, goal_a, goal_b):
          inner += ways * both
          outer += ways * (not both)
          if both and label < delta.shape[1]:
            pair = after[0], after[1]
            deeper[pair] = deeper.get(pair, 0) + ways
      boundaries[t, k] = outer if fits and outer <= _TOP else core.DEAD
      interiors[t, k] = inner if inner <= _TOP else core.DEAD
      level = deeper
  return boundaries, interiors


def count(delta: np.ndarray, row: int, goal: int, depth: int) -> list[int]:
  """Sums over the rows that each length leads to."""
  heads: dict[int, list[int]] = {}
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


def reverse_walk(
  indptr: np.ndarray,
  sources: np.ndarray,
  labels: np.ndarray,
  rows: np.ndarray,
  steps: np.ndarray,
  seeds: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Walks backwards, uniform over in-edges."""
  longest = int(steps.max(initial=0))
  walked = np.full((len(rows), longest), core.DEAD, np.int8)
  origins = np.array(rows, np.int32)
  for b, seed in enumerate(seeds):
    for k in range(steps[b]):
      low, high = indptr[origins[b]], indptr[origins[b] + 1]
      if low == high:
        origins[b] = core.DEAD
        walked[b] = core.DEAD
        break
      edge = low + below(int(seed), k, int(high - low))
      walked[b, steps[b] - 1 - k] = labels[edge]
      origins[b] = sources[edge]
  return walked, origins, origins != core.DEAD
