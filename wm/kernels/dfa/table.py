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
  from wm.kernels.dfa import table_numba

  delta = checks.table(delta)
  rows = checks.rows(rows, len(delta), 'rows')
  labels = checks.frozen(np.atleast_1d(labels), np.int32)
  checks.same_length(rows=rows, labels=labels)
  return table_numba.advance(delta, rows, labels)


def legal(delta: np.ndarray, rows: np.ndarray, goals: np.ndarray) -> np.ndarray:
  """[B, A + 1] bool: labels legal in states (rows, goals) [B]; last is end."""
  from wm.kernels.dfa import table_numba

  delta = checks.table(delta)
  rows = checks.rows(rows, len(delta), 'rows')
  goals = checks.goals(goals, len(delta))
  checks.same_length(rows=rows, goals=goals)
  return table_numba.legal(delta, rows, goals)


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
  from wm.kernels.dfa import table_numba

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
  return table_numba.walk(delta, rows, goals, labels, lengths)


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
  found = np.zeros(len(delta) + 1, bool)
  found[order] = True
  return found[:-1]


def minimize(delta: np.ndarray, classes: np.ndarray) -> np.ndarray:
  """[S] int32 block of each row in the coarsest partition that delta keeps.

  Rows share a block exactly when no label sequence leads them to different
  `classes` [S], DEAD being a class of its own (Hopcroft 1971). Blocks are
  numbered in order of first occurrence.
  """
  from wm.kernels.dfa import table_numba

  delta = checks.table(delta)
  classes = np.unique(np.asarray(classes), return_inverse=True)[1]
  classes = checks.frozen(classes, np.int32)
  checks.same_length(delta=delta, classes=classes)
  return table_numba.minimize(delta, classes)


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
  from wm.kernels.dfa import table_numba

  rows = checks.rows(rows, len(predecessors.indptr) - 1, 'rows', 0)
  steps = checks.rows(steps, 2**31, 'steps', 0)
  seeds = checks.seeds(seeds)
  checks.same_length(rows=rows, steps=steps, seeds=seeds)
  edges = (
    checks.frozen(predecessors.indptr, np.int32),
    checks.frozen(predecessors.sources, np.int32),
    checks.frozen(predecessors.labels, np.int8),
  )
  return table_numba.reverse_walk(*edges, rows, steps, seeds)
