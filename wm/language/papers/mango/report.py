"""The tables and figures of MANGO, which report.toml declares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from wm import core
from wm.language.pages import AnswersPage, Report
from wm.language.papers import reports
from wm.language.papers.mango import score as scoring
from wm.language.papers.mango.questions import KINDS
from wm.language.papers.mango.score import Score
from wm.reporting.tables import Table

if TYPE_CHECKING:
  from inspect_ai.log import EvalLog


def _won(rows: pd.DataFrame) -> str:
  """How many minigames are won; of several games also their mean."""
  mean = f', {REPORT.shown(REPORT.mean(rows, "success"))}'
  won = f'{int(rows.success.sum())} of {len(rows)}'
  return won + mean * (rows.game.nunique() > 1)


REPORT = Report(
  'mango',
  labels={
    'kind': {kind: kind for kind in KINDS},
    'easy': {True: 'easy', False: 'hard'},
  },
  measures={
    'corrected': scoring.corrected,
    'causes': lambda rows: reports.causes(rows.failure),
    'won': _won,
    'per_game': lambda rows, column='': (
      (rows[column].sum() if column else len(rows)) / rows.game.nunique()
    ),
  },
)


def ill_formed_table(rows: pd.DataFrame, remark: str = '') -> Table:
  """Answers that are ill-formed, per game, and by cause (table 4)."""
  meanings = reports.meanings(rows.failure, scoring.FAILURES)
  return REPORT.table('ill_formed', rows, meanings=meanings, remark=remark)


def answers_page(rows: pd.DataFrame, more: Sequence[Table] = ()) -> AnswersPage:
  """All tables and figures that scored answers allow.

  Args:
    rows: as scoring.answer_frame makes them, of one model or several.
    more: further tables, which come last.
  """
  models = ', '.join(rows.model.unique())
  rows = rows.assign(asked=rows.model + ', ' + rows.kind)
  return reports.assembled(
    REPORT,
    f'{len(rows):,} answers of {models} about {rows.game.nunique()} games.',
    [
      REPORT.table('success', rows, title='Success'),
      REPORT.table('reasoning', rows),
      ill_formed_table(rows),
      REPORT.table('minigames', rows),
      *more,
    ],
    reports.drawn(REPORT, rows),
    {'answers': rows[scoring.COLUMNS].to_dict('records')},
  )


def scored(logs: Sequence[EvalLog]) -> Iterator[dict[str, Any]]:
  """Rows of all samples that were scored, as `scoring.answer_frame` takes them.

  Of several scores of a sample, as `inspect score --action append` makes them,
  the last one counts. Models of the simple setting are called '-S', as in the
  paper.
  """
  for row in reports.sample_rows(logs):
    if row.get('task') == 'mango_minigames' and 'success' in row:
      yield {
        **Score(moves=1)._asdict(),
        **row,
        'kind': 'minigame' + ' with map' * bool(row['map']),
        'key': f'{row["game"]}/{row["step"]}',
        **{'easy': True, 'length': 1, 'imputed': 0},
      }
    elif row.keys() >= {*Score._fields}:
      model = row['model'] + '-S' * (row.get('setting') == 'simple')
      easy = row['difficulty'] == 'easy'
      yield {**row, 'model': model, 'easy': easy}


def page(logs: Sequence[EvalLog]) -> AnswersPage:
  """All tables and figures that these logs allow.

  Raises:
    InputError: no sample has the scores of MANGO's scorers.
  """
  rows = list(scored(logs))
  if not rows:
    raise core.InputError(
      'no sample of these logs was scored by mango_scorer or minigame_scorer; '
      'score them with inspect score'
    )
  return answers_page(scoring.answer_frame(rows))
