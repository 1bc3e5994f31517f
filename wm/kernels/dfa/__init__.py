"""Front door to the automaton kernels: NumPy in, NumPy out.

An automaton is a table `delta [S, A] int32` of next rows, DEAD where a label
is illegal. A state is (row, goal): the end label, numbered A, is legal exactly
where row == goal, and after it nothing is (goal NONE: no end label). These
are the finite worlds of Vafa et al. 2024, section 2.

`backend` names the implementation: 'numba' compiled, 'ref' plain Python (the
specification). Both agree to the integer; ties go to the lowest label. `vmap`
holds the moves as JAX traces them.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from wm import core
from wm.kernels.base import checks
from wm.kernels.dfa import published

_backend = functools.partial(
  checks.backend, __package__, numba='table_numba', ref='ref'
)

NONE = checks.NONE  # a goal that is no row
VARIANTS = ('exact', 'published')


class Suffixes(NamedTuple):
  """Suffixes of many pairs, pair t's in rows offsets[t]:offsets[t + 1].

  Attributes:
    offsets: [T + 1] int64.
    labels: [N, depth] int8, DEAD after each suffix's end; A is the end label.
    lengths: [N] int8.
  """

  offsets: np.ndarray
  labels: np.ndarray
  lengths: np.ndarray


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
  delta: np.ndarray,
  rows: np.ndarray,
  labels: np.ndarray,
  *,
  backend: str = 'numba',
) -> np.ndarray:
  """Rows [B] int32 after one label each.

  rows: [B], DEAD stays DEAD. labels: [B]; any that is no column of delta
  (the end label included) leads to DEAD.
  """
  delta = checks.table(delta)
  rows = checks.rows(rows, len(delta), 'rows')
  labels = checks.frozen(np.atleast_1d(labels), np.int32)
  checks.same_length(rows=rows, labels=labels)
  return _backend(backend).advance(delta, rows, labels)


def legal(
  delta: np.ndarray,
  rows: np.ndarray,
  goals: np.ndarray,
  *,
  backend: str = 'numba',
) -> np.ndarray:
  """[B, A + 1] bool: labels legal in states (rows, goals) [B]; last is end."""
  delta = checks.table(delta)
  rows = checks.rows(rows, len(delta), 'rows')
  goals = checks.goals(goals, len(delta))
  checks.same_length(rows=rows, goals=goals)
  return _backend(backend).legal(delta, rows, goals)


def walk(
  delta: np.ndarray,
  rows: np.ndarray,
  goals: np.ndarray,
  labels: np.ndarray,
  lengths: np.ndarray,
  *,
  backend: str = 'numba',
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Follows labels up to the first illegal one.

  Args:
    delta: [S, A].
    rows: [B] starting rows; nothing is legal from DEAD.
    goals: [B], NONE where there is none.
    labels: [B, K]; labels past lengths[b] are not read.
    lengths: [B].
    backend: 'numba' or 'ref'.

  Returns:
    steps: [B] int32, labels followed.
    rows: [B] int32, row after them.
    over: [B] bool, the last label followed was the end label.
  """
  delta = checks.table(delta)
  rows = checks.rows(rows, len(delta), 'rows')
  goals = checks.goals(goals, len(delta))
  labels = np.asarray(labels)
  labels = checks.frozen(
    labels, np.int8 if labels.dtype == np.int8 else np.int32
  )
  lengths = checks.frozen(lengths, np.int32)
  checks.same_length(rows=rows, goals=goals, labels=labels, lengths=lengths)
  if lengths.size and lengths.max() > labels.shape[1]:
    raise core.InputError(
      f'a length is {lengths.max()}; labels have {labels.shape[1]} columns'
    )
  return _backend(backend).walk(delta, rows, goals, labels, lengths)


def reachable(
  delta: np.ndarray, rows: np.ndarray, *, backend: str = 'numba'
) -> np.ndarray:
  """[S] bool: rows reached by zero or more labels from any of `rows` [B]."""
  delta = checks.table(delta)
  rows = checks.rows(rows, len(delta), 'rows')
  return _backend(backend).reachable(delta, rows)


def minimize(
  delta: np.ndarray, classes: np.ndarray, *, backend: str = 'numba'
) -> np.ndarray:
  """[S] int32 block of each row in the coarsest partition that delta keeps.

  Rows share a block exactly when no label sequence leads them to different
  `classes` [S], DEAD being a class of its own (Hopcroft 1971). Blocks are
  numbered in order of first occurrence.
  """
  delta = checks.table(delta)
  classes = np.unique(np.asarray(classes), return_inverse=True)[1]
  classes = checks.frozen(classes, np.int32)
  checks.same_length(delta=delta, classes=classes)
  return _backend(backend).minimize(delta, classes)


def distinguish(
  delta: np.ndarray,
  first: int,
  second: int,
  first_goal: int = NONE,
  second_goal: int = NONE,
  *,
  backend: str = 'numba',
) -> tuple[int, ...] | None:
  """Shortest suffix legal from exactly one of two states, None if none is.

  Among the shortest, the lowest in order of labels (end is the highest).
  """
  delta = checks.table(delta)
  rows = checks.rows([first, second], len(delta), 'rows', 0)
  goals = checks.goals([first_goal, second_goal], len(delta))
  found = _backend(backend).distinguish(delta, *rows, *goals)
  return None if found is None else tuple(int(label) for label in found)


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
  known: np.ndarray | None = None,
  end_first: bool = False,
  backend: str = 'numba',
) -> Suffixes:
  """Myhill-Nerode boundaries of T pairs of states, to a length bound.

  The suffixes of at most `depth` labels that are legal from first and not
  from second while every proper prefix is legal from both (Vafa et al. 2024,
  Def. 2.4); shorter ones first, then in order of labels.

  Args:
    delta: [S, A].
    first: [T] rows, DEAD for a state from which nothing is legal.
    second: [T] rows.
    first_goal: [T], NONE where there is none.
    second_goal: [T].
    depth: longest suffix, 1..127.
    variant: 'exact', or 'published' for what the published program lists:
      only prefixes of its length-`depth` continuations, whose enumeration
      has no end label and leaves a row at the first label, in its own
      order, that leads to a row without an entry of its own.
    turns: [S, A] label order of each row, DEAD padded ('published' only;
      default ascending).
    known: [S] bool, rows that have an entry ('published' only; default
      those with any legal label).
    end_first: whether the end label comes before all others in the order of
      labels, or after them.
    backend: 'numba' or 'ref'.
  """
  delta, pairs = _pairs(
    delta, first, second, first_goal, second_goal, depth, variant
  )
  module = _backend(backend)
  if variant == 'exact':
    return Suffixes(*module.boundary(delta, *pairs, depth, end_first))
  allowed, alive = published.enumeration(delta, turns, known, depth)
  return Suffixes(
    *module.boundary_published(delta, allowed, alive, *pairs, depth)
  )


def _pairs(
  delta: np.ndarray,
  first: np.ndarray,
  second: np.ndarray,
  first_goal: np.ndarray,
  second_goal: np.ndarray,
  depth: int,
  variant: str,
) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
  """Checked table and pairs."""
  delta = checks.table(delta)
  if variant not in VARIANTS:
    raise core.InputError(
      f'unknown boundary variant {variant!r}; available: {VARIANTS}'
    )
  if not 1 <= depth <= 127:
    raise core.InputError(f'depth is {depth}; expected 1..127')
  first = checks.rows(first, len(delta), 'first')
  second = checks.rows(second, len(delta), 'second')
  first_goal = checks.goals(first_goal, len(delta), 'first_goal')
  second_goal = checks.goals(second_goal, len(delta), 'second_goal')
  checks.same_length(
    first=first,
    second=second,
    first_goal=first_goal,
    second_goal=second_goal,
  )
  return delta, (first, second, first_goal, second_goal)


def boundary_sizes(
  delta: np.ndarray,
  first: np.ndarray,
  second: np.ndarray,
  first_goal: np.ndarray,
  second_goal: np.ndarray,
  depth: int,
  variant: str = 'exact',
  *,
  turns: np.ndarray | None = None,
  known: np.ndarray | None = None,
  backend: str = 'numba',
) -> np.ndarray:
  """[T, depth] int64: boundary sizes to each length bound 1..depth.

  Cumulative; counted over distinct pairs of rows, so that the time does not
  grow with the number of suffixes ('published' does list them). Arguments as
  for `boundary`. Raises InputError where a size does not fit 64 bits.
  """
  delta, pairs = _pairs(
    delta, first, second, first_goal, second_goal, depth, variant
  )
  if variant == 'exact':
    return _counted(_backend(backend).sizes(delta, *pairs, depth)[0])
  columns = []
  for bound in range(1, depth + 1):
    found = boundary(
      delta,
      *pairs,
      bound,
      variant,
      turns=turns,
      known=known,
      backend=backend,
    )
    columns.append(np.diff(found.offsets))
  return np.stack(columns, -1)


def interior_sizes(
  delta: np.ndarray,
  first: np.ndarray,
  second: np.ndarray,
  first_goal: np.ndarray,
  second_goal: np.ndarray,
  depth: int,
  *,
  backend: str = 'numba',
) -> np.ndarray:
  """[T, depth] int64: suffixes of lengths 1..k legal from both, each k.

  Cumulative, as `boundary_sizes` (Vafa et al. 2024, Def. 2.3).
  """
  delta, pairs = _pairs(
    delta, first, second, first_goal, second_goal, depth, 'exact'
  )
  return _counted(_backend(backend).sizes(delta, *pairs, depth)[1])


def _counted(sizes: np.ndarray) -> np.ndarray:
  """Passes sizes on; a negative one marks what did not fit."""
  if (sizes < 0).any():
    bound = int(np.argmax((sizes < 0).any(0)))
    raise core.InputError(
      f'sizes at depth {bound + 1} do not fit 64 bits; ask for at most {bound}'
    )
  return sizes


def count(
  delta: np.ndarray, row: int, goal: int, depth: int, *, backend: str = 'ref'
) -> list[int]:
  """Numbers of legal label sequences of lengths 1..depth from (row, goal).

  Exact at any size, which only plain Python integers give.
  """
  delta = checks.table(delta)
  row = int(checks.rows(row, len(delta), 'rows')[0])
  goal = int(checks.goals(goal, len(delta))[0])
  return checks.backend(__package__, backend, ref='ref').count(
    delta, row, goal, depth
  )


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
  *,
  backend: str = 'numba',
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Walks backwards from rows, uniform over in-edges at each step.

  Args:
    predecessors: in-edges.
    rows: [B] where the walks end.
    steps: [B] their lengths.
    seeds: [B] uint64; walk b depends on seeds[b] alone.
    backend: 'numba' or 'ref'.

  Returns:
    labels: [B, K] int8 in forward order, DEAD padded; K is the longest.
    origins: [B] int32, where the walks start; DEAD where not ok.
    ok: [B] bool, False where a row without in-edges was met too early.
  """
  rows = checks.rows(rows, len(predecessors.indptr) - 1, 'rows', 0)
  steps = checks.rows(steps, 2**31, 'steps', 0)
  seeds = checks.frozen(
    np.atleast_1d(np.asarray(seeds).astype(np.uint64)), np.uint64
  )
  checks.same_length(rows=rows, steps=steps, seeds=seeds)
  edges = (
    checks.frozen(predecessors.indptr, np.int32),
    checks.frozen(predecessors.sources, np.int32),
    checks.frozen(predecessors.labels, np.int8),
  )
  return _backend(backend).reverse_walk(*edges, rows, steps, seeds)
