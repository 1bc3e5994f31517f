"""The law that numbers follow, or none: decided by systems held out.

A search of formulas always ends with a formula, of noise too. It is called a
law here if systems that took no part in the search agree:

    search     half of the systems: all formulas up to a size, each with a
               factor, and with an offset or a constant inside where that helps
    selection  a quarter: of the formulas with errors like the least one's, the
               smallest
    decision   a quarter: the formula has to predict them better than chance and
               to three quarters of the variance; and what it leaves, of all
               systems, must not depend on the quantities

The test of chance permutes targets between systems. That of what is left
regresses residuals on the quantities, their products and bins, and flips the
signs of whole systems: rows of one system may depend on each other.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import scipy

from wm import core
from wm.core import basics
from wm.kernels import symbolic

NONE = 'none'
FEWEST = 32  # Systems, of which 8 decide: they are permuted in many ways.
ALPHA = 0.01
# Share of the variance that a law may leave on systems held out.
LOOSE = 0.25
DRAWS = 999
# A part of the residuals this small does not refuse a law: r.m.s., relative to
# the target.
TOLERANCE = 0.01
# Constants inside a formula, in units of what they are added to.
SHIFTS = np.concatenate([-np.logspace(1, -2, 13), np.logspace(-2, 1, 13)])
BINS = 8  # Of a quantity, at most, in which residuals are compared.
EXTRA = 2  # Size of a constant and its plus sign.
_NO_FIT = 1e300  # Error of a formula without values: the search needs numbers.
EXACT = 1e-18  # A share of the variance that is rounding.


class LawSample(NamedTuple):
  """Rows of some systems.

  Attributes:
    x: [Q, n] float64 quantities.
    y: [n] float64 target.
    weight: [n] float64 of squares.
    system: [n] int, ascending.
  """

  x: np.ndarray
  y: np.ndarray
  weight: np.ndarray
  system: np.ndarray

  def take(self, rows: np.ndarray) -> LawSample:
    return LawSample(
      self.x[:, rows], self.y[rows], self.weight[rows], self.system[rows]
    )


class LawForm(NamedTuple):
  """A formula with room for constants.

  Attributes:
    code: postfix, see `symbolic`; the quantity behind the last one is `shift`.
    shift: a constant inside; NaN where there is none.
    offset: is a constant added at the end?
  """

  code: tuple[int, ...]
  shift: float
  offset: bool

  @property
  def size(self) -> int:
    """Leaves and operators; of an offset, too."""
    return len(self.code) + EXTRA * self.offset

  def values(self, x: np.ndarray) -> np.ndarray:
    """[n] without factor and offset; NaN where it has none."""
    constant = np.full((1, x.shape[1]), self.shift)
    return symbolic.values(self.code, np.concatenate([x, constant]))

  def fit(self, sample: LawSample) -> tuple[float, float, float]:
    """Error, factor and offset; the error is over the spread of the target."""
    values = self.values(sample.x)
    if self.offset:
      return symbolic.fitted_line(values, sample.y, sample.weight)
    square = (sample.weight * values * values).sum()
    if not (np.isfinite(square) and square > 0):
      return np.inf, np.nan, 0.0
    factor = (sample.weight * values * sample.y).sum() / square
    left = sample.weight * (sample.y - factor * values) ** 2
    return float(left.sum() / _spread(sample)), float(factor), 0.0

  def text(self, names: Sequence[str], factor: float, offset: float) -> str:
    """The formula in words, e.g. '3 * m1 * inv(r * r + 0.1) + 0.5'."""
    inside = symbolic.written(self.code, (*names, f'{self.shift:.4g}'))
    law = symbolic.Law(self.code, self.size, 0.0, factor, inside, offset)
    return str(law)


class NamedLaw(NamedTuple):
  """What a search has found, and what the systems held out say of it.

  Attributes:
    name: the law; 'none' where there is a reason.
    reason: '', or why the formula is no law: few_systems, no_formula, chance
      (permuted targets are predicted as well), loose (over a quarter of the
      variance is left), misfit (what it leaves depends on the quantities).
    formula: the best formula with its constants; '' where there is none.
    size: its leaves and operators; 0 where there is none.
    error: share of the variance of systems held out that it leaves.
    p: of as small an error by chance.
    misfit: r.m.s. of what it leaves and quantities tell, relative to the
      target.
    misfit_p: of as much by chance.
    values: [n] of the formula on all rows; empty where there is none.
  """

  name: str
  reason: str
  formula: str = ''
  size: int = 0
  error: float = np.nan
  p: float = np.nan
  misfit: float = np.nan
  misfit_p: float = np.nan
  values: np.ndarray = np.empty(0)


def find_law(
  columns: Mapping[str, np.ndarray],
  target: np.ndarray,
  systems: np.ndarray,
  *,
  size: int = 8,
  relative: bool = True,
  seed: int = 0,
) -> NamedLaw:
  """Names the law that a target follows, or says that there is none.

  Args:
    columns: quantity -> [n] finite numbers.
    target: [n] finite numbers; other than 0 where errors are relative.
    systems: [n] system of each row. Rows of one may depend on each other.
    size: leaves and operators of the largest formulas. Constants come on top.
    relative: errors are relative to the target, so that all magnitudes count
      alike; else they are differences, which the largest rule.
    seed: of the systems' parts, and of permutations.

  Raises:
    InputError: see `symbolic.search`.
  """
  names, (_, code) = tuple(columns), np.unique(systems, return_inverse=True)
  y = np.asarray(target, np.float64)
  weight = y**-2.0 if relative and (y != 0).all() else np.ones(len(y))
  x = np.array([*columns.values()], np.float64)
  order = np.argsort(code, kind='stable')
  sample = LawSample(x, y, weight, code).take(order)
  num = int(code.max(initial=-1)) + 1
  if num < FEWEST:
    return NamedLaw(NONE, 'few_systems')
  searched, chosen, tested = _parts(sample, num, seed)
  candidates = [*_candidates(searched, names, size, relative)]
  formula = _smallest(candidates, searched, chosen)
  if formula is None:
    return NamedLaw(NONE, 'no_formula')
  _, factor, offset = formula.fit(sample)
  # Selection is done: the constants are fitted to both parts.
  before = _joined(searched, chosen)
  fit = formula.fit(before)[1:]
  error, p = _permuted(formula, fit, before, tested, seed)
  # All systems: residuals of a quarter are too few to show that a formula is
  # only near. Those that it was fitted to make the test milder, not stricter.
  misfit, misfit_p = _misfit(formula, sample, seed)
  reason = ''
  if not p <= ALPHA:
    reason = 'chance'
  elif error > LOOSE:
    reason = 'loose'
  elif misfit > TOLERANCE and misfit_p <= ALPHA:
    reason = 'misfit'
  text = formula.text(names, factor, offset)
  # Fitted to all systems, in the order of the caller's rows.
  values = factor * formula.values(x) + offset
  return NamedLaw(
    NONE if reason else text,
    reason,
    text,
    formula.size,
    error,
    p,
    misfit,
    misfit_p,
    values,
  )


def _spread(sample: LawSample) -> float:
  level = np.average(sample.y, weights=sample.weight)
  return float((sample.weight * (sample.y - level) ** 2).sum())


def _joined(first: LawSample, second: LawSample) -> LawSample:
  return LawSample(
    *(np.concatenate(pair, axis=-1) for pair in zip(first, second, strict=True))
  )


def _parts(sample: LawSample, num: int, seed: int) -> Iterator[LawSample]:
  """Rows of half of the systems, of a quarter, and of the last quarter."""
  # Whole systems: rows of one share their masses, and would tell of each other.
  rank = np.argsort(basics.hash64(seed, np.arange(num)), kind='stable')
  part = np.empty(num, int)
  part[rank] = np.arange(num) * 4 // num
  for members in ((0, 1), (2,), (3,)):
    yield sample.take(np.isin(part[sample.system], members))


def _candidates(
  sample: LawSample, names: Sequence[str], size: int, relative: bool
) -> Iterator[LawForm]:
  """Best formulas of each size, with constants and without."""
  columns = dict(zip(names, sample.x, strict=True))
  loss = 'log' if relative else 'raw'
  for offset in (False, True):
    if not offset and relative and not (sample.y > 0).all():
      continue  # The logarithm has no factor alone of both signs.
    targets = sample.y[None]
    (front,) = symbolic.search(columns, targets, size, loss, offset=offset)
    for law in front:
      plain = LawForm(law.code, np.nan, offset)
      yield plain
      # A constant behind the whole formula is the offset, so the last place is
      # left out.
      shifted = [
        _shifted(plain, place, sample) for place in range(len(law.code) - 1)
      ]
      if shifted:
        yield min(shifted, key=lambda candidate: candidate.fit(sample)[0])


def _shifted(formula: LawForm, place: int, sample: LawSample) -> LawForm:
  """A formula with the best constant added to the part that ends at a place."""
  code = formula.code
  inner = symbolic.values(_part(code, place), sample.x)
  unit = float(np.median(np.abs(inner)))
  new = (*code[: place + 1], len(sample.x), symbolic.ADD, *code[place + 1 :])

  # The error is not convex in the constant: a grid first, then its best cell.
  def error(shift: float) -> float:
    least = LawForm(new, shift * unit, formula.offset).fit(sample)[0]
    return least if np.isfinite(least) else _NO_FIT

  errors = [error(shift) for shift in SHIFTS]
  best = int(np.argmin(errors))
  low, high = SHIFTS[max(best - 1, 0)], SHIFTS[min(best + 1, len(SHIFTS) - 1)]
  shift = SHIFTS[best]
  if errors[best] < _NO_FIT:
    shift = scipy.optimize.minimize_scalar(
      error, bounds=(low, high), method='bounded', options={'xatol': 1e-10}
    ).x
  return LawForm(new, float(shift) * unit, formula.offset)


def _part(code: tuple[int, ...], end: int) -> tuple[int, ...]:
  """The part of a postfix formula whose last operator is at a place."""
  start, missing = end, 1
  while True:
    op = code[start]
    missing += 1 if op in symbolic.BINARY else -1 if op >= 0 else 0
    if not missing:
      return code[start : end + 1]
    start -= 1


def _errors(
  formula: LawForm, fit: tuple[float, float], sample: LawSample
) -> np.ndarray:
  """[S] mean square that a fitted formula leaves of each system."""
  factor, offset = fit
  # By system, and not by row: rows of one system are no independent errors.
  rest = sample.y - factor * formula.values(sample.x) - offset
  _, system = np.unique(sample.system, return_inverse=True)
  return np.bincount(system, sample.weight * rest**2) / np.bincount(system)


def _smallest(
  candidates: Sequence[LawForm], searched: LawSample, chosen: LawSample
) -> LawForm | None:
  """The smallest formula that is no worse than the best one, up to chance.

  No worse: the mean difference of the systems' errors is within its standard
  error.
  """
  errors = {
    formula: _errors(formula, formula.fit(searched)[1:], chosen)
    for formula in candidates
  }
  errors = {k: e for k, e in errors.items() if np.isfinite(e).all()}
  if not errors:
    return None
  # The best formula is seldom the right one: a longer one that fits the noise
  # of these systems a little better is always in the list.
  best = min(errors.values(), key=lambda error: error.mean())
  # Two formulas that both fit exactly differ by rounding alone.
  exact = EXACT * _spread(chosen) / len(chosen.y)

  def no_worse(error: np.ndarray) -> bool:
    more = error - best
    chance = more.std(ddof=1) / np.sqrt(len(more))
    return bool(more.mean() <= chance or error.mean() <= exact)

  return min(
    (formula for formula, error in errors.items() if no_worse(error)),
    key=lambda formula: (formula.size, errors[formula].mean()),
  )


def _permuted(
  formula: LawForm,
  fit: tuple[float, float],
  before: LawSample,
  tested: LawSample,
  seed: int,
) -> tuple[float, float]:
  """Error of a law on systems held out, and p of targets of other systems."""
  factor, offset = fit
  law = factor * formula.values(tested.x) + offset
  if not np.isfinite(law).all():
    return np.inf, 1.0
  level = np.average(before.y, weights=before.weight)
  _, system, sizes = np.unique(
    tested.system, return_inverse=True, return_counts=True
  )
  starts = np.cumsum(sizes) - sizes
  place = np.arange(len(system)) - starts[system]
  left = np.empty(DRAWS + 1)
  rng = np.random.default_rng(basics.stream(seed, 1))
  for draw in range(DRAWS + 1):
    # Targets of a system go together; a longer system begins again.
    other = rng.permutation(len(sizes)) if draw else np.arange(len(sizes))
    # Draw 0 is the data. It counts as one of the permutations, so that no p is
    # 0.
    rows = starts[other][system] + place % sizes[other][system]
    left[draw] = (tested.weight[rows] * (tested.y[rows] - law) ** 2).sum()
  total = (tested.weight * (tested.y - level) ** 2).sum()
  return float(left[0] / total), float((left <= left[0]).mean())


def _misfit(
  formula: LawForm, sample: LawSample, seed: int
) -> tuple[float, float]:
  """R.m.s. of what quantities tell of the residuals, and its p."""
  values, root = formula.values(sample.x), np.sqrt(sample.weight)
  if not np.isfinite(values).all():
    return np.inf, 0.0
  fitted = np.array([values, np.ones(len(values))])[: 1 + formula.offset]
  # The constants are fitted to these systems, so that only the shape counts.
  nuisance = np.linalg.qr((root * fitted).T)[0]
  residual = root * sample.y
  residual = residual - nuisance @ (nuisance.T @ residual)
  wave = (root * _shapes(sample.x)).T
  wave = wave - nuisance @ (nuisance.T @ wave)
  # Orthonormal directions: the sum of squared projections is what a regression
  # on all shapes explains.
  left, singular, _ = np.linalg.svd(wave, full_matrices=False)
  left = left[:, singular > 1e-9 * singular.max()]
  _, system = np.unique(sample.system, return_inverse=True)
  parts = np.zeros((int(system.max()) + 1, left.shape[1]))
  np.add.at(parts, system, left * residual[:, None])
  # If residuals are noise, those of a system are as likely with the other sign.
  signs = np.random.default_rng(basics.stream(seed, 2)).choice(
    [-1.0, 1.0], (DRAWS, len(parts))
  )
  explained = (parts.sum(0) ** 2).sum()
  by_chance = ((signs @ parts) ** 2).sum(1)
  p = (1 + (by_chance >= explained * (1 - 1e-12)).sum()) / (1 + DRAWS)
  # Noise alone explains as much as its flipped signs do on average.
  unit = (sample.weight * sample.y**2).sum()
  return float(np.sqrt(max(explained - by_chance.mean(), 0) / unit)), float(p)


def _shapes(x: np.ndarray) -> np.ndarray:
  """[P, n] what residuals may depend on: two quantities, and bins of each.

  Products are of logarithms where these exist. A quantity with few values, such
  as a mass in few systems, has few bins.
  """
  logs = np.array([np.log(q) if (q > 0).all() else q for q in x])
  spread = logs.std(1, keepdims=True)
  scaled = (logs - logs.mean(1, keepdims=True)) / np.where(spread, spread, 1)
  waves = [
    np.prod(part, axis=0)
    for degree in (1, 2)
    for part in itertools.combinations_with_replacement(scaled, degree)
  ]
  for quantity in x:
    bins = min(BINS, len(np.unique(quantity)) // 4)
    # Ripples that no product of quantities follows show up in bins.
    edges = np.quantile(quantity, np.arange(1, bins) / max(bins, 1))
    place = np.searchsorted(edges, quantity)
    waves += [(place == k).astype(float) for k in range(1, bins)]
  return np.array(waves)


def follows(
  law: NamedLaw, truth: np.ndarray, *, tolerance: float = TOLERANCE
) -> bool:
  """Does a named law equal the truth [n] on all rows, up to a factor?

  tolerance: of the ratio, relative.
  """
  if law.name == NONE:
    return False
  if np.shape(truth) != law.values.shape:
    raise core.InputError(
      f'the truth has shape {np.shape(truth)}; expected {law.values.shape}'
    )
  ratio = law.values / truth
  return bool(np.ptp(ratio) <= tolerance * np.abs(ratio).max())
