"""CogEval's page: tables, and the paper's claims decided by intervals.

Tables are of any scored answers, recorded or from logs, beside the numbers that
the paper prints.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from wm import core
from wm.language import pages
from wm.language.pages import AnswersPage, Report, filled, ordered
from wm.language.papers import reports
from wm.language.papers.cogeval import statistics
from wm.language.papers.cogeval.statistics import LETTERS
from wm.reporting.tables import Cell, Table
from wm.worlds.cognitive_graph import questions

if TYPE_CHECKING:
  from inspect_ai.log import EvalLog


def _beside(rows: pd.DataFrame) -> str | None:
  """A cell of table 3: mean and standard deviation, ours and the paper's."""
  (cell,) = rows.itertuples()
  if np.isnan(cell.n):
    return None
  printed = f'{cell.printed_mean:.2f}, sd {cell.printed_sd:.2f}'
  paper = '–' if np.isnan(cell.printed_mean) else printed
  return Cell(
    f'{cell.mean:.2f}, sd {cell.sd:.2f}', f' [{paper}]', f', n={cell.n:.0f}'
  )


def kappa(rows: pd.DataFrame) -> float:
  """Cohen's kappa of two judges, the bool columns `judge` and `solver`."""
  judge, solver = rows['judge'], rows['solver']
  shares = judge.mean(), solver.mean()
  chance = shares[0] * shares[1] + (1 - shares[0]) * (1 - shares[1])
  return 1.0 if chance == 1 else 1 - (judge != solver).mean() / (1 - chance)


def _shares(rows: pd.DataFrame) -> dict[str, float]:
  """Figure 3: shares of answers by how they fail, a column each."""
  shares = rows['outcome'].value_counts(normalize=True)
  return {name.replace('_', ' '): share for name, share in shares.items()}


def _deviance(rows: pd.DataFrame) -> str:
  """A cell of table 2: the deviance of a term."""
  (step,) = rows.itertuples()
  mark = ' *' * (step.separated > 0)
  return (
    f'{step.deviance:,.2f}{mark}, df {step.df} [p {p_value(step.p)}, '
    f'by questions {p_value(step.clustered_p)}]'
  )


def _printed_deviance(rows: pd.DataFrame) -> str | None:
  """The same as the paper has it."""
  pair = REPORT.published['table2']['terms'].get(rows['term'].iloc[0])
  return pair and f'{pair[0]:,.2f}, df {pair[1]}'


REPORT = Report(
  'cogeval',
  labels={
    'model': statistics.MODELS,
    'graph': {name: f'{letter} ({name})' for name, letter in LETTERS.items()},
    'condition': {name: name for name in questions.GROUP},
    'group': {name: name for name in questions.GROUPS},
  },
  measures={
    'beside': _beside,
    'deviance': _deviance,
    'printed_deviance': _printed_deviance,
    'kappa': kappa,
    'sum': lambda rows, column: int(rows[column].sum()),
    'last': lambda rows, column: rows[column].iloc[-1],
    'shares': _shares,
  },
)


def p_value(p: float) -> str:
  """'.016', or '2e-25' where it is small; a dash for NaN."""
  if pd.isna(p):
    return '–'
  if p < 1e-300:
    return '< 1e-300'
  return f'{p:.3f}' if p >= 1e-3 else f'{p:.0e}'


def stepwise_table(steps: Sequence[pages.Row]) -> Table:
  """Table 2: deviances of added terms, of several scores, and the paper's.

  steps: as `statistics.stepwise` has them, with the name of their `score`.
  """
  frame = pd.DataFrame(steps)
  score = frame['score'] + ', n=' + frame['n'].map('{:,}'.format)
  return REPORT.table('stepwise', frame.assign(score=score))


def repeats_table(frame: pd.DataFrame, names: Sequence[str]) -> Table:
  """Correlation of repeats of a question, by several scores."""
  fixed = frame[~frame['condition'].astype(str).str.endswith('stepPath')]
  cold = fixed[fixed['temperature'] == 0]
  parts = ('all temperatures', fixed), ('temperature 0', cold)
  rows = [
    {'score': score, 'answers': title, **alike}
    for score in names
    for title, part in parts
    if (alike := statistics.intraclass(part, score))
  ]
  return REPORT.table('repeats', rows)


def harder(frame: pd.DataFrame, score: str, model: str) -> Iterator[pages.Row]:
  """The tree is harder than the long chains, and graph D than graph E."""
  answered = frame[(frame['model'] == model) & frame[score].notna()]
  parts = dict(tuple(answered.groupby('graph', observed=True)))
  for pair in REPORT.published['claims']['harder']:
    if parts.keys() >= {*pair}:
      first, second = (parts[graph] for graph in pair)
      contrast = statistics.contrast(first, second, score)
      hard, easy = (LETTERS[graph] for graph in pair)
      yield _claim(
        f'{REPORT.label("model", model)} does worse on {hard} than on {easy} '
        f'({score} score)',
        f'{hard} < {easy}',
        filled(
          '{first:.3f} and {second:.3f}, difference {difference:+.3f}'
          '| [{low:+.3f}, {high:+.3f}]|, n={questions} questions',
          contrast,
        ),
        (contrast['low'], contrast['high']),
      )


def _claim(
  claim: str, paper: str, ours: str, interval: tuple[Any, Any], bound: float = 0
) -> pages.Row:
  """A claim that a number is above a bound, decided by its interval.

  It holds: 'yes', 'no', or 'not sure' where the bound is in the interval.
  """
  low, high = interval
  holds = 'yes' if low > bound else 'no' if high < bound else 'not sure'
  return {'claim': claim, 'paper': paper, 'ours': ours, 'holds': holds}


def hallucinated(frame: pd.DataFrame, model: str) -> Iterator[pages.Row]:
  """Plans of four steps on D, E and F name edges that are not there."""
  plans = frame[
    (frame['model'] == model)
    & (frame['condition'] == 'nstepPath')  # Their diameter is 4.
    & frame['graph'].isin(questions.LARGE)
    & frame['outcome'].notna()
  ]
  plans = plans.assign(wrong=(plans['outcome'] == 'hallucinated_edge') * 1.0)
  bound = REPORT.published['claims']['hallucinated_edges_of_four_steps']
  for keys, part in REPORT.groups(plans, 'graph'):
    mean = REPORT.mean(part, 'wrong')
    yield _claim(
      f'{REPORT.label("model", model)} invents an edge in plans of four steps '
      f'on {LETTERS[keys["graph"]]}',
      f'over {bound:.0%}',
      REPORT.shown(mean),
      (mean.low, mean.high),
      bound,
    )


def decided(frame: pd.DataFrame) -> list[pages.Row]:
  """The paper's claims of the first model's answers."""
  model, *_ = ordered(frame['model'].astype(str), statistics.MODELS)
  claims = [*harder(frame, 'solver', model), *hallucinated(frame, model)]
  by_judge = harder(frame, 'recorded', model) if 'recorded' in frame else ()
  return [*claims, *by_judge]


def lead(frame: pd.DataFrame) -> str:
  """'59,168 answers of 11 models to 1,350 questions'."""
  scored = frame[frame['solver'].notna()]
  return (
    f'{len(scored):,} answers of {scored["model"].nunique()} models to '
    f'{scored["question"].nunique():,} questions'
  )


def answers_page(
  lead_text: str,
  frame: pd.DataFrame,
  more: Sequence[Table] = (),
  rows: Mapping[str, Sequence[pages.Row]] | None = None,
) -> AnswersPage:
  """The page of any answers, by the solver's score.

  Args:
    lead_text: below the title.
    frame: an answer a row, see `statistics`, with `solver` and `outcome`.
    more: tables of its own.
    rows: name of a CSV file -> its rows.
  """
  # As categories, those that a model has none of are 0.
  frame = frame.assign(outcome=frame['outcome'].astype('category'))
  scored = frame[frame['solver'].notna()]
  names = 'by_graph', 'outcomes', 'by_condition'
  return reports.assembled(
    REPORT,
    lead_text,
    [
      REPORT.table('claims', decided(frame)),
      *(REPORT.table(name, scored) for name in names),
      *more,
    ],
    reports.drawn(REPORT, scored),
    rows or {},
  )


def page(logs: Sequence[EvalLog]) -> AnswersPage:
  """Tables and figures of logs; what is uncertain goes by questions.

  Raises:
    InputError: no sample of them is a question of this task with a score.
  """
  frame = answers_of_logs(logs)
  more = reports.unread(reports.sample_rows(logs))
  if frame['setting'].nunique() > 1:
    more += [REPORT.table('by_setting', frame)]
  return answers_page(lead(frame), frame, more)


def answers_of_logs(logs: Sequence[EvalLog]) -> pd.DataFrame:
  """An answer a row, see `statistics`; models are those of the logs.

  Raises:
    InputError: no sample of them is a question of this task with a score.
  """
  asked = {*questions.Question._fields, 'question', 'correct'}
  rows = [
    {**row, 'setting': f'{row["wording"]}/{row["turns"]}'}
    for row in reports.sample_rows(logs)
    if asked <= row.keys()
  ]
  if not rows:
    raise core.InputError('no scored answer to a question of wm/cogeval')
  return pd.DataFrame(rows).rename(columns={'correct': 'solver'})
