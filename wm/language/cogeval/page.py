"""A page of CogEval: tables and figures of the paper, of any scored answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from wm import core
from wm.language import rescored
from wm.language.cogeval import (
  claims,
  coefficients,
  deviance,
  figures,
  tables,
)
from wm.language.cogeval.deviance import Stepwise
from wm.language.rescored import Rescored
from wm.reporting.tables import Table

TITLE = 'CogEval: planning on graphs told in words'
CELL = 'graph', 'domain', 'condition', 'group', 'model', 'temperature'
WORDS = {
  'solver': 'is the answer one of the best, by an exact solver? 0 or 1',
  'strict': 'the same, written as it was asked for',
  'graded': '1 for a best path, 2/3 for a way to the goal, 1/3 for any way',
  'recorded': "the authors' score of June 2023 and later, by a language model",
  'token': (
    "the paper's score, recovered: the share of leading words, 'Answer:' "
    'included, that an answer has in common with the key'
  ),
  'exact': 'is the matched text one of the keys? 0 or 1',
  'sd': 'standard deviation of answers, not a standard error',
  'questions': (
    'different questions; repeats of one are a cluster, and all intervals '
    '(95 %) are by clusters'
  ),
}


def of_answers(
  frame: pd.DataFrame, score: str = 'solver', *, title: str = TITLE
) -> Rescored:
  """The page of any answers.

  Args:
    frame: as `scores` has them, with `start`, `goal`, `nodes` and `outcome`.
    score: the column that tables and figures are of.
    title: of the page.

  Raises:
    InputError: no answer has a score.
  """
  if frame.empty or not frame[score].notna().any():
    raise core.InputError(f'no answer has a score {score!r}')
  fits: dict[str, Stepwise] = {}

  def added() -> Table:
    fits[score] = deviance.stepwise(frame, score, terms_of(frame))
    return tables.stepwise(fits)

  step_by_step = _or_why('Table 2: step-wise regression', added)
  return assembled(
    title,
    lead(frame, score),
    frame,
    score,
    [step_by_step, tables.repeats(frame, [score])],
    {'deviances': deviances(fits)},
    decided(frame, score),
  )


def assembled(
  title: str,
  said: str,
  frame: pd.DataFrame,
  score: str,
  more: Sequence[Table],
  rows: Mapping[str, Sequence[rescored.Row]],
  claimed: Sequence[claims.Claim],
) -> Rescored:
  """A page: what all have, and `more` tables and `rows` of their own."""
  made = [
    claims.table(claimed) if claimed else None,
    tables.by_model(frame, score, 'graph', f'Figure 2: {score} by graph'),
    tables.conditions(frame, score),
    *more,
    tables.outcomes(frame),
    tables.by_model(frame, score, 'condition', f'{score} by condition'),
    *regressions(frame, score),
    tables.pairs(frame, score) if frame['model'].nunique() > 1 else None,
  ]
  return Rescored(
    title,
    said,
    [one for one in made if one is not None and len(one.rows)],
    figures.pictures(frame, score),
    WORDS,
    {'cells': cells(frame), **rows},
  )


def lead(frame: pd.DataFrame, score: str) -> str:
  """'59,168 answers of 11 models to 1,350 questions'."""
  some = frame[frame[score].notna()]
  return (
    f'{len(some):,} answers of {some["model"].nunique()} models to '
    f'{some["question"].nunique():,} questions'
  )


def terms_of(frame: pd.DataFrame) -> list[deviance.Term]:
  """Table 2's terms, but for factors that do not vary."""
  varied = {
    factor
    for term in deviance.TERMS
    for factor in term
    if frame[factor].nunique() > 1
  }
  return [term for term in deviance.TERMS if varied.issuperset(term)]


def regressions(frame: pd.DataFrame, score: str) -> list[Table]:
  """Coefficients of all factors, and of single conditions for each model."""
  models = tables.models_of(frame)
  wanted = {'model': models[0], 'graph': 'n7line', 'group': 'Traversal'}
  names: Sequence[str] = coefficients.FACTORS
  title = f'Coefficients of table 2: main effects on {score}'
  made = [_regressed(frame, score, names, wanted, title)]
  for model in models[:3]:
    own = frame[frame['model'] == model]
    if own['condition'].nunique() > 1:
      title = f'Conditions of {tables.label(model)}: effects on {score}'
      names = 'graph', 'domain', 'temperature', 'condition'
      wanted = {'graph': 'n7line', 'condition': 'valuePath'}
      made.append(_regressed(own, score, names, wanted, title))
  return made


def _regressed(
  frame: pd.DataFrame,
  score: str,
  names: Sequence[str],
  wanted: dict[str, Any],
  title: str,
) -> Table:
  """Coefficients of factors, against the references that are there."""
  there = _there(frame, wanted)
  return _or_why(
    title,
    lambda: tables.coefficients(
      coefficients.regression(frame, score, names, there), title
    ),
  )


def _or_why(title: str, make: Callable[[], Table]) -> Table:
  """A table; what these answers have none of is a row that says why.

  A few logs often have factors that tell each other: each model was asked about
  a graph of its own. All other tables are still made.
  """
  try:
    return make()
  except core.InputError as error:
    return rescored.table(title, [{'there is none': str(error)}])


def _there(frame: pd.DataFrame, wanted: dict[str, Any]) -> dict[str, Any]:
  """References that a frame has."""
  return {k: level for k, level in wanted.items() if level in set(frame[k])}


def decided(frame: pd.DataFrame, score: str) -> list[claims.Claim]:
  """The paper's claims of the first model's answers."""
  model = tables.models_of(frame)[0]
  return [
    *claims.harder(frame, score, model),
    *claims.hallucinated(frame, model),
  ]


def deviances(fits: Mapping[str, Stepwise]) -> list[dict[str, Any]]:
  """Table 2 as rows."""
  return [
    {'score': name, 'term': step.name, **step._asdict() | {'term': step.name}}
    for name, fit in fits.items()
    for step in fit.steps
  ]


def cells(frame: pd.DataFrame) -> list[dict[str, Any]]:
  """Means of all scores in each cell of the design."""
  kinds = [name for name in WORDS if name in frame]
  groups = frame.groupby(list(CELL), observed=True)
  found = groups[kinds].mean().assign(n=groups.size()).reset_index()
  made: list[dict[str, Any]] = found.astype(object).to_dict('records')
  return made
