"""The functions of `wm.kernels.dfa` in plain Python: their specification.

They take what those take, unchecked, and return the same to the integer.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.kernels.base import product_ref
from tests.kernels.base.product_ref import Suffix
from tests.kernels.base.rng_ref import below
from wm import core
from wm.kernels.dfa import Predecessors, Published, Suffixes

State = tuple[int, int]  # row, goal


def _step(delta: np.ndarray, row: int, label: int) -> int:
  """Next row; DEAD for labels that are no column."""
  if row < 0 or not 0 <= label < delta.shape[1]:
    return core.DEAD
  return int(delta[row, label])


def _legal(delta: np.ndarray, state: State, label: int) -> bool:
  """Is the label (A is end) legal in the state?"""
  row, goal = state
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
    [_legal(delta, state, label) for label in labels]
    for state in zip(rows, goals, strict=True)
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
      if over[b] or not _legal(delta, (after[b], goal), label):
        break
      over[b] = label == delta.shape[1]
      if not over[b]:
        after[b] = delta[after[b], label]
      steps[b] += 1
  return steps, after, over


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


def product(
  delta: np.ndarray, first: State, second: State, depth: int
) -> tuple[list[Suffix], list[Suffix]]:
  """Boundary and interior of a pair of states."""
  labels = range(delta.shape[1] + 1)
  return product_ref.product(
    first,
    second,
    depth,
    lambda state: [x for x in labels if _legal(delta, state, x)],
    lambda state, label: (_step(delta, state[0], label), state[1]),
  )


def _packed(outcome: list[list[Suffix]], depth: int) -> Suffixes:
  """Lists of suffixes as arrays."""
  offsets = np.cumsum([0, *map(len, outcome)]).astype(np.int64)
  flat = [suffix for suffixes in outcome for suffix in suffixes]
  labels = np.full((len(flat), depth), core.DEAD, np.int8)
  for n, suffix in enumerate(flat):
    labels[n, : len(suffix)] = suffix
  return Suffixes(offsets, labels, np.array([len(s) for s in flat], np.int8))


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
  """Product construction, or the published program's enumeration."""
  result, end = [], delta.shape[1]
  for a, b, *goals in zip(first, second, first_goal, second_goal, strict=True):
    if published is not None:
      suffixes = _published(delta, int(a), int(b), depth, *published)
    else:
      suffixes, _ = product(delta, (a, goals[0]), (b, goals[1]), depth)
      # The end is the last label of any suffix that holds it.
      suffixes.sort(key=lambda s: (len(s), s[:-1], s[-1] != end, s[-1]))
    result.append(suffixes)
  return _packed(result, depth)


def _published(
  delta: np.ndarray,
  a: int,
  b: int,
  depth: int,
  turns: np.ndarray | None,
  has_entry: np.ndarray | None,
) -> list[Suffix]:
  """What the published program keeps of the boundary of a pair.

  It lists continuations of exactly `depth` labels from the first row and cuts
  each after the first label that the second refuses.
  """
  entry = np.asarray((delta >= 0).any(1) if has_entry is None else has_entry)

  def continuations(row: int, left: int) -> Iterator[Suffix]:
    """Those of `left` labels from a row."""
    if not left:
      yield ()
      return
    order = np.flatnonzero(delta[row] >= 0) if turns is None else turns[row]
    for label in order[order >= 0].tolist():
      head = _step(delta, row, label)
      if head == core.DEAD or not entry[head]:
        return
      for rest in continuations(head, left - 1):
        yield (label, *rest)

  kept = set()
  for suffix in continuations(a, depth) if a >= 0 else ():
    row = b
    for k, label in enumerate(suffix):
      row = _step(delta, row, label)
      if row == core.DEAD:
        kept.add(suffix[: k + 1])
        break
  return sorted(kept, key=lambda suffix: (len(suffix), suffix))


def reverse_walk(
  predecessors: Predecessors,
  rows: np.ndarray,
  steps: np.ndarray,
  seeds: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Walks backwards, uniform over in-edges."""
  indptr, sources, labels = predecessors
  walked = np.full((len(rows), steps.max(initial=0)), core.DEAD, np.int8)
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
