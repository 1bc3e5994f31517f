"""Calls of compiled code: checks of arguments, and division of long calls.

Arguments are checked and converted to the memory layout of the compiled code.
Python cannot handle Ctrl-C inside compiled code, so a long call is divided into
slices of its rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from wm import core

# A row of a table is >= 0; core.DEAD (-1) replaces the row after an illegal
# sequence. NO_GOAL replaces a goal if no row ends the sequence.
NO_GOAL = -2
# Labels are int8 if sufficient, else int16; `end` is one more than the last
# label. Kernels of maps support only int8.
FEW_LABELS, MAX_LABELS = 126, 32_766


def frozen(array: Any, dtype: Any) -> np.ndarray:
  """A C-contiguous read-only view: one compiled version serves all callers."""
  # A view, so that the caller's array stays writable.
  view = np.ascontiguousarray(array, dtype).view()
  view.flags.writeable = False
  return view


def table(delta: np.ndarray, most: int = MAX_LABELS) -> np.ndarray:
  """`delta` as frozen [S, A] int32; raises InputError if it is not a table."""
  delta = np.asarray(delta)
  if delta.ndim != 2 or not np.issubdtype(delta.dtype, np.integer):
    raise core.InputError(
      f'delta is {delta.dtype} {delta.shape}; expected integers [S, A]'
    )
  if delta.shape[1] > most:
    raise core.InputError(
      f'delta has {delta.shape[1]} labels; at most {most} are supported'
    )
  if delta.size and not (delta.min() >= core.DEAD and delta.max() < len(delta)):
    raise core.InputError(
      f'delta holds {delta.min()}..{delta.max()}; expected rows '
      f'{core.DEAD}..{len(delta) - 1}'
    )
  return frozen(delta, np.int32)


def label_type(delta: np.ndarray) -> type[np.signedinteger[Any]]:
  """Type of the labels of a table [S, A]."""
  return np.int8 if delta.shape[1] <= FEW_LABELS else np.int16


def rows(rows: Any, size: int, name: str, least: int = core.DEAD) -> np.ndarray:
  """`rows` as frozen [B] int32 within least..size - 1, else InputError."""
  rows = np.atleast_1d(np.asarray(rows))
  if rows.size and not (rows.min() >= least and rows.max() < size):
    raise core.InputError(
      f'{name} hold {rows.min()}..{rows.max()}; expected {least}..{size - 1}'
    )
  return frozen(rows, np.int32)


def states(delta: np.ndarray, **columns: Any) -> tuple[np.ndarray, ...]:
  """`delta` and columns of its states, frozen and of one length [B].

  columns: name in errors -> goals if the name contains 'goal', else rows.
  """
  delta = table(delta)
  checked = {
    name: (goals if 'goal' in name else rows)(column, len(delta), name)
    for name, column in columns.items()
  }
  same_length(**checked)
  return delta, *checked.values()


def seeds(seeds: Any) -> np.ndarray:
  """`seeds` as frozen [B] uint64; negative integers wrap around."""
  return frozen(np.atleast_1d(np.asarray(seeds).astype(np.uint64)), np.uint64)


def same_length(**arrays: np.ndarray) -> None:
  """Raises InputError where batch sizes differ."""
  # Compiled code checks no bounds: a shorter array would be read past its end.
  if len({len(array) for array in arrays.values()}) > 1:
    sizes = ', '.join(f'{name} {len(a)}' for name, a in arrays.items())
    raise core.InputError(f'batch sizes differ: {sizes}')


def games(moves: Any, lengths: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
  """Frozen int32 [N, L] and [N]; InputError where lengths do not fit."""
  moves = frozen(moves, np.int32)
  lengths = frozen(np.atleast_1d(lengths), np.int32)
  if moves.ndim != 2:
    raise core.InputError(f'{name} have shape {moves.shape}; expected [N, L]')
  same_length(**{name: moves, 'lengths': lengths})
  columns = moves.shape[1]
  if lengths.size and not 0 <= lengths.min() <= lengths.max() <= columns:
    raise core.InputError(
      f'lengths hold {lengths.min()}..{lengths.max()}; {name} have {columns} '
      'columns'
    )
  return moves, lengths


def goals(goals: Any, size: int, name: str = 'goals') -> np.ndarray:
  """`goals` as frozen [B] int32; values that are not rows become NO_GOAL."""
  checked = rows(goals, size, name, NO_GOAL)
  return frozen(np.where(checked < 0, NO_GOAL, checked), np.int32)


SECONDS = 0.3  # Target duration of one call of compiled code.


def slices(num: int, first: int = 64) -> Iterator[slice]:
  """Yields slices that cover `num` rows in order, one for each call.

  Rows must be independent. The size of a slice follows from the duration of the
  one before, so that a call takes about SECONDS. There is at least one slice.

  first: rows of the first slice.
  """
  start, size = 0, first
  while True:
    began = time.monotonic()
    yield slice(start, min(start + size, num))
    spent, start = time.monotonic() - began, start + size
    if start >= num:
      return
    # At most four times the rows of the last slice, since the first call may
    # have compiled and the clock may be coarse.
    share = SECONDS / max(spent, SECONDS / 4, 1e-9)
    size = max(int(size * share), 1)


def run(call: Callable[[slice], Any], num: int, first: int = 64) -> Any:
  """The concatenated results of `call` on slices of `num` rows."""
  parts = [call(rows) for rows in slices(num, first)]
  if len(parts) == 1:
    return parts[0]
  if isinstance(parts[0], np.ndarray):
    return np.concatenate(parts)
  return tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))


def run_rows(
  call: Callable[..., Any], arrays: tuple[np.ndarray, ...], *rest: Any
) -> Any:
  """call(*arrays, *rest) in slices; result row n belongs to input row n."""
  return run(
    lambda rows: call(*(array[rows] for array in arrays), *rest), len(arrays[0])
  )
