"""The search: arguments, the front of size against error, and the factor."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from wm import core
from wm.kernels.base import checks
from wm.kernels.symbolic.grammar import EXACT, PROBES, count, values, written

LOSSES = ('log', 'raw')
MOST = 30_000_000  # formulas of one search
LARGEST = 11  # Size of formulas, of which there are no more for any quantity.


class Law(NamedTuple):
  """A formula with its factor.

  Attributes:
    code: postfix; see `grammar`.
    size: leaves and operators.
    error: mean square of what is left, over the variance of the target; of
      logarithms where the loss is 'log'.
    factor: what the formula is multiplied with.
    text: the formula, e.g. 'm2 * (m1 * inv(r * r))'.
  """

  code: tuple[int, ...]
  size: int
  error: float
  factor: float
  text: str

  def __str__(self) -> str:
    return f'{self.factor:.4g} * {self.text}'


def search(
  columns: Mapping[str, np.ndarray],
  targets: np.ndarray,
  size: int,
  loss: str = 'log',
) -> list[list[Law]]:
  """Fits all formulas up to a size to each of K targets.

  Deterministic, and exact: no formula of a size has a smaller error than the
  one that is found, up to a share of 1e-9.

  Args:
    columns: quantity -> [n] finite numbers.
    targets: [K, n]; of loss 'log' all > 0.
    size: of the largest formulas.
    loss: 'log', squares of the difference of logarithms, for formulas that have
      one sign; or 'raw', of the difference itself.

  Returns:
    The front of each target: laws of ascending size, each with a smaller error
    than all before. Empty where no formula has values on all rows.

  Raises:
    InputError: shapes that do not fit, values that are not finite or have no
      logarithm, a target that is constant, or too many formulas.
  """
  from wm.kernels.symbolic import search_numba

  x, y = _checked(columns, targets, size, loss)
  names = tuple(columns)
  rows = _order(y)
  x, logs = x[:, rows], loss == 'log'
  aim = np.log(y[:, rows]) if logs else y[:, rows]
  found = search_numba.Search(
    checks.frozen(x, np.float64),
    checks.frozen(aim, np.float64),
    logs,
    count(len(names), size),
  ).run()
  fronts = []
  for k, laws in enumerate(found):
    front = []
    for code, error in laws:
      factor = fitted(values(code, x), aim[k], logs)[1]
      text = written(code, names)
      front.append(Law(code, len(code), error, factor, text))
    fronts.append(front)
  return fronts


def fitted(
  found: np.ndarray, aim: np.ndarray, logs: bool
) -> tuple[float, float]:
  """Error and factor of a formula's values [n]; see Law.

  aim: [n], the target, or its logarithm where `logs`.
  """
  spread = ((aim - aim.mean()) ** 2).sum()
  if np.isnan(found).any():
    return math.inf, math.nan
  if not logs:
    square = (found * found).sum()
    factor = (found * aim).sum() / square if square > 0 else 0.0
    rest = aim - factor * found
    return max(float((rest * rest).sum() / spread), EXACT), float(factor)
  sign = 1.0 if found[0] > 0 else -1.0
  if not (sign * found > 0).all():
    return math.inf, math.nan
  rest = aim - np.log(np.abs(found))
  level = rest.mean()
  rest = rest - level
  error = max(float((rest * rest).sum() / spread), EXACT)
  return error, float(sign * np.exp(level))


def _order(targets: np.ndarray) -> np.ndarray:
  """Rows in the order in which formulas are looked at, PROBES of them first.

  Half of the probes are the largest of the first target, which rule its
  squares; the other rows are spread evenly over its order, coarse to fine.
  """
  order = np.argsort(np.abs(targets[0]), kind='stable')[::-1]
  top, rest = order[: PROBES // 2], order[PROBES // 2 :]
  # Bits of the place, reversed: any first part is spread over all.
  bits = max(len(rest) - 1, 1).bit_length()
  place = np.arange(len(rest))
  turned = sum(((place >> k) & 1) << (bits - 1 - k) for k in range(bits))
  return np.concatenate([top, rest[np.argsort(turned)]])


def _checked(
  columns: Mapping[str, np.ndarray], targets: np.ndarray, size: int, loss: str
) -> tuple[np.ndarray, np.ndarray]:
  if loss not in LOSSES:
    raise core.InputError(
      f'loss={loss!r} was given; available: {", ".join(LOSSES)}'
    )
  x = np.array([*columns.values()], np.float64)
  y = np.asarray(targets, np.float64)
  if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[1] or y.size == 0:
    raise core.InputError(
      f'quantities have shape {x.shape}, targets {y.shape}; expected [Q, n] '
      'and [K, n]'
    )
  for name, array in (*zip(columns, x, strict=True), ('the target', y)):
    bad = ~np.isfinite(array)
    if name == 'the target' and loss == 'log':
      bad |= ~(array > 0)
    if bad.any():
      what = 'are not finite'
      if name == 'the target' and loss == 'log':
        what += ' and > 0'
      raise core.InputError(
        f'{int(bad.sum())} of {bad.size} values of {name} {what}, such as '
        f'{array[bad][0]}'
      )
  flat = np.ptp(y, axis=1) == 0
  if flat.any():
    raise core.InputError(
      f'target {int(flat.argmax())} is the same on all {y.shape[1]} rows; '
      'every constant fits'
    )
  if not 1 <= size <= LARGEST:
    raise core.InputError(f'size={size} was given; expected 1 to {LARGEST}')
  if sum(count(len(x), size)) > MOST:
    raise core.InputError(
      f'size={size} was given, which is {sum(count(len(x), size))} formulas of '
      f'{len(x)} quantities; expected 1 to {MOST} formulas'
    )
  return x, y
