"""What makes a game hard: success of each game against its numbers (table 2).

Ordinary least squares over games, on standardised variables, as the magnitudes
of the paper's coefficients suggest: simple ones, one variable at a time, as the
paper has them; all variables at once, which are collinear; and principal
components of all, which are not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from wm.language.mango import rows as tables
from wm.language.mango.facts import Facts

# Variables of easy and of hard questions, as in table 2.
EASY = ('locations', 'explicit', 'confusion', 'length_easy', 'scene')
HARD = (
  'locations',
  'explicit',
  'imputed',
  'confusion',
  'length_hard',
  'imputed_hard',
  'scene',
)
SIMPLE, MULTIPLE, COMPONENTS = KINDS = 'simple', 'multiple', 'components'
# Components that are kept explain this share of the variance.
KEPT = 0.9
_FEWEST = 3  # Games beyond the number of coefficients.


class Coefficient(NamedTuple):
  """One coefficient: success by one standard deviation of a variable.

  Attributes:
    kind: 'simple', 'multiple' or 'components'.
    variable: its name; of a component its number and its largest loadings.
    beta: the coefficient.
    low, high: its 95 % interval.
    p: two-sided.
    n: games.
    r2: of the whole regression.
  """

  kind: str
  variable: str
  beta: float
  low: float
  high: float
  p: float
  n: int
  r2: float


def games(
  rows: pd.DataFrame, facts: Sequence[Facts], variables: Sequence[str]
) -> pd.DataFrame:
  """A row per game: mean success of its rows, and standardised variables.

  Games without rows are left out, and variables that do not vary.
  """
  success = rows.groupby('game').success.mean()
  known = pd.DataFrame(facts).set_index('game')[list(variables)]
  known = known.dropna(axis='columns', how='all')
  found = known.join(success, how='inner').dropna()
  numbers = found[known.columns].astype(float)
  spread = numbers.std(ddof=0)
  some = [name for name in known.columns if spread[name] > 1e-12]
  scaled = (numbers[some] - numbers[some].mean()) / spread[some]
  return scaled.assign(success=found.success.astype(float))


def regress(
  rows: pd.DataFrame, facts: Sequence[Facts], variables: Sequence[str]
) -> list[Coefficient]:
  """All coefficients of one model on one kind of question.

  Args:
    rows: scored answers; those that are ill-formed are left out, as the paper
      does.
    facts: of each game.
    variables: fields of Facts.

  Returns:
    Of each kind of regression those that have games enough; often none.
  """
  found = games(tables.well_formed(rows), facts, variables)
  success = found.pop('success')
  coefficients: list[Coefficient] = []
  for name in found.columns:
    coefficients += _fit(SIMPLE, success, found[[name]])
  coefficients += _fit(MULTIPLE, success, found)
  return coefficients + _fit(COMPONENTS, success, components(found))


def components(known: pd.DataFrame) -> pd.DataFrame:
  """Principal components of standardised variables, each of variance one.

  So many as explain KEPT of the variance; a component's name tells the
  variables with the largest loadings, and its sign makes the first positive.
  """
  if len(known) < 2 or not len(known.columns):
    return known
  values = known.to_numpy(float)
  left, sizes, loadings = np.linalg.svd(values, full_matrices=False)
  shares = np.cumsum(sizes**2) / (sizes**2).sum()
  num = int(np.searchsorted(shares, KEPT - 1e-12)) + 1
  columns = {}
  for k in range(num):
    order = np.argsort(-np.abs(loadings[k]), kind='stable')[:3]
    sign = np.sign(loadings[k, order[0]]) or 1.0
    parts = [
      f'{known.columns[at]} {sign * loadings[k, at]:+.2f}' for at in order
    ]
    share = sizes[k] ** 2 / (sizes**2).sum()
    name = f'{k + 1} ({share:.0%}): {", ".join(parts)}'
    columns[name] = sign * left[:, k] * np.sqrt(len(values))
  return pd.DataFrame(columns, index=known.index)


def _fit(
  kind: str, success: pd.Series, known: pd.DataFrame
) -> list[Coefficient]:
  """Coefficients but the constant; [] where games are too few or all alike."""
  from statsmodels.regression import linear_model

  num = len(known.columns)
  if not num or len(known) < num + 1 + _FEWEST or np.ptp(success) == 0:
    return []
  design = known.assign(constant=1.0)
  if np.linalg.matrix_rank(design.to_numpy()) < num + 1:
    return []
  fit = linear_model.OLS(success, design).fit()
  ends = fit.conf_int()
  return [
    Coefficient(
      kind,
      name,
      float(fit.params[name]),
      float(ends.loc[name, 0]),
      float(ends.loc[name, 1]),
      float(fit.pvalues[name]),
      len(known),
      float(fit.rsquared),
    )
    for name in known.columns
  ]


def table(
  rows: pd.DataFrame, facts: Sequence[Facts]
) -> Mapping[tuple[str, str, bool], list[Coefficient]]:
  """(model, kind of question, easy) -> coefficients."""
  found = {}
  for (model, kind, easy), some in rows.groupby(['model', 'kind', 'easy']):
    variables = EASY if easy else HARD
    found[model, kind, bool(easy)] = regress(some, facts, variables)
  return found
