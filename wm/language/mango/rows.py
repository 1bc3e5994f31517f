"""Scored answers as a table of rows, and what tables take from it.

Columns: model, game, kind, key (of the question), easy, length, imputed, then
the fields of scoring.Score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from wm.evaluation import statistics
from wm.language.mango import questions, scoring

COLUMNS = (
  'model',
  'game',
  'kind',
  'key',
  'easy',
  'length',
  'imputed',
  *scoring.Score._fields,
)
MICRO, MACRO = 'micro', 'macro'


class Mean(NamedTuple):
  """A mean and its 95 % interval, clustered by game; None where n is 0."""

  value: float | None
  low: float | None
  high: float | None
  n: int
  games: int


def row(
  model: str, asked: questions.Asked, score: scoring.Score
) -> tuple[Any, ...]:
  """A scored answer, in the order of COLUMNS."""
  return (
    model,
    asked.game,
    asked.kind,
    asked.key,
    asked.easy,
    asked.length,
    asked.imputed,
    *score,
  )


def frame(rows: Iterable[tuple[Any, ...]]) -> pd.DataFrame:
  """A table of rows."""
  return pd.DataFrame(list(rows), columns=list(COLUMNS))


def select(rows: pd.DataFrame, **columns: Any) -> pd.DataFrame:
  """The rows that have these values; None is any."""
  kept = np.ones(len(rows), bool)
  for name, value in columns.items():
    if value is not None:
      kept &= (rows[name] == value).to_numpy()
  return rows[kept]


def well_formed(rows: pd.DataFrame) -> pd.DataFrame:
  """The rows that the paper's scores are over."""
  return rows[rows.failure == '']


def mean(
  rows: pd.DataFrame,
  column: str = 'success',
  average: str = MICRO,
  value: Callable[[pd.DataFrame], np.ndarray] | None = None,
) -> Mean:
  """Mean of a column of 0 to 1, over questions or over games.

  Args:
    rows: any.
    column: its name.
    average: 'micro' weighs each question the same, as the paper's tables do;
      'macro' each game, as the caption of its figure 2 says.
    value: instead of the column, [rows] numbers.
  """
  if not len(rows):
    return Mean(None, None, None, 0, 0)
  values = rows[column].to_numpy(float) if value is None else value(rows)
  games, index = np.unique(rows.game.to_numpy(str), return_inverse=True)
  weights = np.bincount(index).astype(float)
  totals = np.bincount(index, values)
  if average == MACRO:
    totals, weights = totals / weights, np.ones(len(games))
  low, high, _ = statistics.interval(totals, weights, (0.0, 1.0))
  found = float(totals.sum() / weights.sum())
  return Mean(found, low, high, len(rows), len(games))


def corrected(rows: pd.DataFrame) -> float | None:
  """Success above chance, over what is above chance: 0 guesses, 1 is right."""
  if not len(rows):
    return None
  chance = rows.chance.mean()
  return float((rows.success.mean() - chance) / (1 - chance))


def both(
  rows: pd.DataFrame, models: Sequence[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
  """Rows of two models for the questions that both answered well-formed.

  As tables 1 and 9 have it; of several answers of one model to a question the
  first counts.
  """
  some = [
    well_formed(select(rows, model=name)).drop_duplicates(['game', 'key'])
    for name in models
  ]
  indexed = [part.set_index(['game', 'key']) for part in some]
  common = indexed[0].index.intersection(indexed[1].index)
  one, other = (part.loc[common].reset_index() for part in indexed)
  return one, other
