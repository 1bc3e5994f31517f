"""Checks and layouts that the kernels' front doors share."""

from __future__ import annotations

import importlib
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from wm import core

NONE = -2  # a goal that is no row
MAX_LABELS = 126  # labels are int8, and `end` is one more than the last
SECONDS = 0.3  # that one call of compiled code is to take


def frozen(array: Any, dtype: Any) -> np.ndarray:
  """A C-contiguous read-only view: one compiled version serves all callers."""
  view = np.ascontiguousarray(array, dtype).view()
  view.flags.writeable = False
  return view


def backend(package: str, name: str, **twins: str) -> types.ModuleType:
  """The module that twin `name` lives in, imported on first use.

  package: that the twins are in.
  twins: name of each twin, e.g. numba, and its module in the package.

  Raises:
    InputError: there is no such twin.
  """
  if name not in twins:
    raise core.InputError(
      f'unknown backend {name!r}; available: {", ".join(twins)}'
    )
  return importlib.import_module(f'{package}.{twins[name]}')


def table(delta: np.ndarray) -> np.ndarray:
  """`delta` as frozen [S, A] int32; raises InputError where it is no table."""
  delta = np.asarray(delta)
  if delta.ndim != 2 or not np.issubdtype(delta.dtype, np.integer):
    raise core.InputError(
      f'delta is {delta.dtype} {delta.shape}; expected integers [S, A]'
    )
  if delta.shape[1] > MAX_LABELS:
    raise core.InputError(
      f'delta has {delta.shape[1]} labels; at most {MAX_LABELS} are supported'
    )
  if delta.size and not (delta.min() >= core.DEAD and delta.max() < len(delta)):
    raise core.InputError(
      f'delta holds {delta.min()}..{delta.max()}; expected rows '
      f'{core.DEAD}..{len(delta) - 1}'
    )
  return frozen(delta, np.int32)


def rows(rows: Any, size: int, name: str, least: int = core.DEAD) -> np.ndarray:
  """`rows` as frozen [B] int32 within least..size - 1, else InputError."""
  rows = np.atleast_1d(np.asarray(rows))
  if rows.size and not (rows.min() >= least and rows.max() < size):
    raise core.InputError(
      f'{name} hold {rows.min()}..{rows.max()}; expected {least}..{size - 1}'
    )
  return frozen(rows, np.int32)


def same_length(**arrays: np.ndarray) -> None:
  """Raises InputError where batch sizes differ."""
  if len({len(array) for array in arrays.values()}) > 1:
    sizes = ', '.join(f'{name} {len(a)}' for name, a in arrays.items())
    raise core.InputError(f'batch sizes differ: {sizes}')


def goals(goals: Any, size: int, name: str = 'goals') -> np.ndarray:
  """`goals` as frozen [B] int32, every one that is no row made NONE."""
  found = rows(goals, size, name, NONE)
  return frozen(np.where(found < 0, NONE, found), np.int32)


def pieces(num: int, first: int = 64) -> Iterator[slice]:
  """Slices that cover `num` rows, each the work of one compiled call.

  Python hears no Ctrl-C while compiled code runs, so rows that do not depend
  on each other are given to it in pieces of about SECONDS; one at least.

  first: rows of the first piece.
  """
  start, size = 0, first
  while True:
    began = time.monotonic()
    yield slice(start, min(start + size, num))
    spent, start = time.monotonic() - began, start + size
    if start >= num:
      return
    share = SECONDS / max(
      spent, SECONDS / 4, 1e-9
    )  # At most four times as many.
    size = max(int(size * share), 1)


def in_pieces(call: Callable[[slice], Any], num: int, first: int = 64) -> Any:
  """The array or arrays that `call` gives of all `num` rows, by `pieces`."""
  parts = [call(rows) for rows in pieces(num, first)]
  if len(parts) == 1:
    return parts[0]
  if isinstance(parts[0], np.ndarray):
    return np.concatenate(parts)
  return tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))


def by_rows(
  call: Callable[..., Any], arrays: tuple[np.ndarray, ...], *rest: Any
) -> Any:
  """call(*arrays, *rest), whose rows are independent, by `pieces` of rows."""
  return in_pieces(
    lambda rows: call(*(array[rows] for array in arrays), *rest), len(arrays[0])
  )
