"""Coefficients of binomial regressions of scored answers, with standard
errors by answers and by questions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from wm import core
from wm.language.cogeval import clusters, deviance
from wm.language.cogeval.deviance import Cells

FACTORS = 'model', 'graph', 'domain', 'temperature', 'group'
_STEPS, _ENOUGH = 200, 1e-8


class Coefficient(NamedTuple):
  """Log odds of a level against its factor's reference.

  Attributes:
    factor, level: what it is of; the constant has the factor 'constant'.
    value: log odds.
    naive: standard error as if answers were independent.
    error: standard error by questions; where coefficients are Firth's, the
      larger of both, as questions that agree with a fit vary too little.
    p: two-sided, by `error` and the normal distribution.
    adjusted: the same for all levels of all factors together (Holm).
    n: answers of the level.
  """

  factor: str
  level: Any
  value: float
  naive: float
  error: float
  p: float
  adjusted: float
  n: int


class Regression(NamedTuple):
  """A regression on main effects.

  Attributes:
    references: factor -> the level that the others are compared with.
    coefficients: the constant, then each factor's levels in order.
    firth: are they Firth's, as outcomes are separated?
    n, questions: answers and clusters.
  """

  references: dict[str, Any]
  coefficients: tuple[Coefficient, ...]
  firth: bool
  n: int
  questions: int


def regression(
  frame: pd.DataFrame,
  score: str,
  factors: Sequence[str] = FACTORS,
  references: dict[str, Any] | None = None,
) -> Regression:
  """Regresses scores on levels of factors, by maximum likelihood.

  Where outcomes are separated that has no maximum: coefficients are then
  Firth's (1993), which are finite.

  Args:
    frame: an answer a row, see `deviance.cells`.
    score: name of the column of scores.
    factors: names of columns; one with a single level is left out.
    references: factor -> level to compare with; the first in order of sorting
      else.

  Raises:
    InputError: no scores, an unknown level, or factors that tell each other.
  """
  from scipy import stats

  varied = [name for name in factors if frame[name].nunique() > 1]
  given = deviance.cells(frame, score, varied)
  places = _places(given, references or {})
  design = np.hstack(
    [np.ones((len(given.totals), 1))]
    + [
      given.codes[name][:, None] == np.delete(np.arange(len(levels)), place)
      for (name, levels), place in zip(
        given.levels.items(), places, strict=True
      )
    ]
  ).astype(float)
  basis = deviance.independent(np.zeros((len(design), 0)), design)
  if basis.shape[1] < design.shape[1]:
    raise core.InputError(
      f'{", ".join(varied)}: {design.shape[1]} coefficients, of which '
      f'{basis.shape[1]} can be told apart; leave out a factor'
    )
  firth = bool(deviance.separated(basis, given.successes, given.totals).any())
  values, naive, mean = (_firth if firth else _greatest)(design, given)
  alone = np.sqrt(np.diag(naive))
  spread = np.diag(_by_questions(given, design, naive, mean))
  errors = np.sqrt(np.maximum(spread, 0))  # Rounding may be below 0.
  errors = np.maximum(errors, alone) if firth else errors
  chosen = list(zip(given.levels.items(), places, strict=True))
  named: list[tuple[str, Any]] = [('constant', None)]
  counts = [int(given.totals.sum())]
  for (name, levels), place in chosen:
    totals = np.bincount(given.codes[name], given.totals, len(levels))
    others = [k for k in range(len(levels)) if k != place]
    named += [(name, levels[k]) for k in others]
    counts += [int(totals[k]) for k in others]
  with np.errstate(divide='ignore', invalid='ignore'):
    p = 2 * stats.norm.sf(np.abs(values) / errors)
  holm = [*p[:1], *clusters.holm(p[1:])]
  return Regression(
    {name: levels[place] for (name, levels), place in chosen},
    tuple(
      Coefficient(
        what[0], what[1], float(b), float(a), float(e), float(q), float(h), n
      )
      for what, n, b, a, e, q, h in zip(
        named, counts, values, alone, errors, p, holm, strict=True
      )
    ),
    firth,
    counts[0],
    int(given.questions.max()) + 1,
  )


def _places(given: Cells, references: dict[str, Any]) -> list[int]:
  """Which level of each factor the others are compared with."""
  places = []
  for name, levels in given.levels.items():
    wanted = references.get(name, levels[0])
    if wanted not in levels:
      raise core.InputError(
        f'{name} is never {wanted!r}; available: {", ".join(map(str, levels))}'
      )
    places.append(levels.index(wanted))
  return places


def _greatest(
  design: np.ndarray, given: Cells
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Coefficients [R], their variance [R, R] by answers, and shares [C]."""
  import statsmodels.api as sm

  ends = np.c_[given.successes, given.totals - given.successes]
  done = sm.GLM(ends, design, sm.families.Binomial()).fit()
  return done.params, done.cov_params(), done.mu


def _firth(
  design: np.ndarray, given: Cells
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """As `_greatest`, of the likelihood times the root of the information.

  Raises:
    InputError: no maximum was found.
  """
  from scipy import special

  def at(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Shares [C], information [R, R] and penalised log-likelihood."""
    mean = special.expit(design @ values)
    weight = given.totals * mean * (1 - mean)
    information = design.T @ (design * weight[:, None])
    likelihood = special.xlogy(given.successes, mean) + special.xlogy(
      given.totals - given.successes, 1 - mean
    )
    half = np.linalg.slogdet(information)[1] / 2
    return mean, information, float(likelihood.sum() + half)

  values = np.zeros(design.shape[1])
  mean, information, height = at(values)
  for _ in range(_STEPS):
    variance = np.linalg.inv(information)
    weight = given.totals * mean * (1 - mean)
    leverage = weight * np.einsum('cr,rs,cs->c', design, variance, design)
    off = given.successes - given.totals * mean + leverage * (0.5 - mean)
    # The slope of `off`, leverages held: without them in it, steps on cells of
    # one answer each go to and fro for ever.
    slope = (given.totals + leverage) * mean * (1 - mean)
    step = np.linalg.solve(design.T @ (design * slope[:, None]), design.T @ off)
    for _ in range(30):
      new = at(values + step)
      if new[2] >= height - _ENOUGH:
        break
      step = step / 2
    values, (mean, information, height) = values + step, new
    if np.abs(step).max() < _ENOUGH:
      return values, np.linalg.inv(information), mean
  raise core.InputError(
    f"Firth's regression of {len(mean)} cells has no maximum after {_STEPS} "
    'steps'
  )


def _by_questions(
  given: Cells, design: np.ndarray, bread: np.ndarray, mean: np.ndarray
) -> np.ndarray:
  """[R, R] variance by questions, with G / (G - 1) for their number."""
  groups = int(given.questions.max()) + 1
  off = given.residues - given.counts * mean[given.cell]
  sums = np.zeros((groups, design.shape[1]))
  np.add.at(sums, given.questions, design[given.cell] * off[:, None])
  return bread @ (sums.T @ sums) @ bread * groups / max(groups - 1, 1)
