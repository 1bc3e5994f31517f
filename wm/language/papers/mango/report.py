"""The tables and figures of MANGO, which report.toml declares."""

from __future__ import annotations

import collections
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from wm import core
from wm.language.pages import AnswersPage, Report, cluster_mean
from wm.language.papers import reports
from wm.language.papers.mango import facts
from wm.language.papers.mango import score as scoring
from wm.language.papers.mango.questions import KINDS
from wm.language.papers.mango.score import Score
from wm.reporting import charts
from wm.reporting.tables import Table
from wm.worlds.text_game import maze as mazes
from wm.worlds.text_game import readers

if TYPE_CHECKING:
  from inspect_ai.log import EvalLog


DIFFICULTY = {True: 'easy', False: 'hard'}


def _causes(rows: pd.DataFrame) -> str:
  """How many answers are ill-formed by each cause."""
  failed = rows.failure[rows.failure != '']
  causes = failed.value_counts().sort_index(kind='stable')
  return ', '.join(f'{k} {v}' for k, v in causes.items())


def _won(rows: pd.DataFrame) -> str:
  """How many minigames are won; of several games also their mean."""
  mean = f', {REPORT.shown(REPORT.mean(rows, "success"))}'
  won = f'{int(rows.success.sum())} of {len(rows)}'
  return won + mean * (rows.game.nunique() > 1)


REPORT = Report(
  'mango',
  labels={'kind': {kind: kind for kind in KINDS}, 'easy': DIFFICULTY},
  measures={
    'corrected': facts.corrected,
    'causes': _causes,
    'won': _won,
    # Each move has two places.
    'share_of_ends': lambda rows, column: (
      float(rows[column].sum() / (2 * rows.moves.sum()))
      if rows.moves.sum()
      else None
    ),
    'per_game': lambda rows, column='': (
      (rows[column].sum() if column else len(rows)) / rows.game.nunique()
    ),
  },
)


def pairwise_table(rows: pd.DataFrame, column: str = 'success') -> Table:
  """Models in pairs, on the questions that both answered well-formed.

  column: 'success' makes table 1, 'reasoning' table 9.
  """
  lines = []
  models = rows.model.unique().tolist()
  for names, asked in REPORT.groups(facts.well_formed(rows), 'kind', 'easy'):
    # Of several answers of one model to a question the first counts.
    for model, other, both in reports.paired(
      asked, column, ['game', 'key'], models, 'first'
    ):
      games = both.index.get_level_values(0)
      gaps = (both[model] - both[other]).to_numpy(float)
      lines.append(
        {
          'kind': names['kind'],
          'easy': DIFFICULTY[names['easy']],
          'model': model,
          'other': other,
          'first': float(both[model].mean()),
          'second': float(both[other].mean()),
          'difference': cluster_mean(gaps, games, (-1.0, 1.0)),
        }
      )
  number = {'success': 1, 'reasoning': 9}.get(column, 0)
  return REPORT.table('pairs', lines, column=column.capitalize(), number=number)


def ill_formed_table(rows: pd.DataFrame) -> Table:
  """Answers that are ill-formed, per game, and by cause (table 4)."""
  failed = rows.failure != ''
  meanings = '; '.join(
    f'{name}: {meaning}'
    for name, meaning in scoring.FAILURES.items()
    if name in set(rows.failure[failed])
  )
  return REPORT.table(
    'ill_formed', rows.assign(failed=failed), meanings=meanings
  )


def games_table(numbers: pd.DataFrame) -> Table:
  """Numbers of games at their cut-offs (tables 3 and 5 to 8)."""
  games = numbers.assign(edges=numbers.explicit + numbers.imputed)
  return REPORT.table(
    'games',
    games.to_dict('records'),
    destinations=games[['df_easy', 'df_hard']].to_numpy().sum(),
    routes=games[['rf_easy', 'rf_hard']].to_numpy().sum(),
  )


def answers_page(
  rows: pd.DataFrame,
  mazes_of: Mapping[str, mazes.Maze] | None = None,
  cuts: Mapping[str, int] | None = None,
  more: Sequence[Table] = (),
  drawings: Mapping[str, charts.Spec] | None = None,
) -> AnswersPage:
  """All tables and figures that scored answers allow.

  Args:
    rows: as facts.answer_frame makes them, of one model or several.
    mazes_of: game -> its map; without it there are no tables of games and no
      regressions.
    cuts: game -> the step up to which it was shown; default the map's last.
    more, drawings: further tables and figures, which come last.
  """
  asked_games = set(rows.game.unique())
  asked_mazes = [
    maze for game, maze in (mazes_of or {}).items() if game in asked_games
  ]
  numbers = facts.facts_of_all(asked_mazes, cuts)
  shown = [
    REPORT.table('success', rows, title='Success'),
    REPORT.table('reasoning', rows),
  ]
  shown += [pairwise_table(rows), pairwise_table(rows, 'reasoning')]
  shown.append(ill_formed_table(rows))
  if len(asked_mazes) > 5:  # Fewer games have no regression.
    fitted = facts.regressions(rows, numbers)
    named = fitted.assign(easy=fitted['easy'].map(DIFFICULTY))
    shown.append(REPORT.table('regression', named.to_dict('records')))
  if asked_mazes:
    shown.append(games_table(numbers))
  models = ', '.join(rows.model.unique())
  lead = (
    f'{len(rows):,} answers of {models} about {rows.game.nunique()} games. '
    "Where the paper's programs do what it does not say, both are shown."
  )
  return reports.assembled(
    REPORT,
    lead,
    [*shown, *more],
    {**reports.drawn(REPORT, rows), **(drawings or {})},
    {
      'answers': rows.to_dict('records'),
      'games': numbers.to_dict('records'),
    },
  )


# Kinds of minigames, without the map and with it.
MINIGAMES = 'minigame', 'minigame with map'


def scored(logs: Sequence[EvalLog]) -> Iterator[dict[str, Any]]:
  """Rows of all samples that were scored, as `facts.answer_frame` takes them.

  Of several scores of a sample, as `inspect score --action append` makes them,
  the last one counts.
  """
  for row in reports.sample_rows(logs, names(logs)):
    if row.get('task') == 'mango_minigames' and 'success' in row:
      yield {
        **Score(moves=1)._asdict(),
        **row,
        'kind': MINIGAMES[bool(row['map'])],
        'key': f'{row["game"]}/{row["step"]}',
        **{'easy': True, 'length': 1, 'imputed': 0},
      }
    elif row.keys() >= {*Score._fields}:
      yield {**row, 'easy': row['difficulty'] == 'easy'}


# Arguments of the tasks that change what is asked or how it is judged. The
# setting is in names already, and what else there is chooses questions.
ASKED = (
  *('generation', 'budget', 'forced', 'answer', 'graph'),
  *('easy', 'scope', 'aliases', 'reject', 'places'),
)


def names(logs: Sequence[EvalLog]) -> list[str]:
  """The name of each log's model, with its setting and how it was asked.

  The name is without its provider's, unless models of two providers have it;
  how it was asked has arguments in which the logs of one model differ, as in
  ', graph=strict'.
  """
  models = [log.eval.model for log in logs]
  args = pd.DataFrame(
    [
      {name: str(log.eval.task_args.get(name)) for name in ASKED}
      for log in logs
    ]
  )
  alike = np.array([log.eval.task for log in logs]), np.array(models)
  varied = args.groupby([*alike]).transform('nunique') > 1
  short = collections.Counter(model.rpartition('/')[2] for model in {*models})
  labels = []
  for log, model, (k, row) in zip(logs, models, args.iterrows(), strict=True):
    last = model.rpartition('/')[2]
    data = (log.samples[0].metadata or {}) if log.samples else {}
    setting = '-S' * (data.get('setting') == 'simple')  # As in the paper.
    how = [f', {name}={row[name]}' for name in ASKED if varied.at[k, name]]
    name = last if short[last] == 1 else model
    labels.append(''.join([name, setting, *how]))
  return labels


def maps(logs: Sequence[EvalLog]) -> dict[str, mazes.Maze]:
  """Game -> its map, of the folders that logs name and that are still there."""
  mazes_of: dict[str, mazes.Maze] = {}
  for log in logs:
    folder = str(log.eval.task_args.get('folder', ''))
    if not folder or not pathlib.Path(folder).exists():
      continue
    games = {str((s.metadata or {}).get('game')) for s in log.samples or []}
    for game in sorted(games - set(mazes_of)):
      walkthroughs = str(log.eval.task_args.get('walkthroughs', ''))
      mazes_of[game] = readers.read(folder, game, walkthroughs)
  return mazes_of


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
  every = facts.answer_frame(rows)
  is_asked = every.kind.isin(KINDS)
  games = every[~is_asked].sort_values('game', kind='stable')
  games = games.assign(asked=games.model + ', ' + games.kind)
  more = [REPORT.table('minigames', games)] if len(games) else []
  name = 'mango_minigames'
  drawings = {name: reports.chart(REPORT, name, games)}
  if is_asked.any():
    # The last step that was shown of each game in any of the logs.
    steps = pd.DataFrame(rows)[is_asked].groupby('game')['step'].max()
    cuts = steps.to_dict()
    return answers_page(every[is_asked], maps(logs), cuts, more, drawings)
  models = ', '.join(every.model.unique())
  lead = f'{len(every):,} answers of {models}.'
  answers = {'answers': every.to_dict('records')}
  return reports.assembled(REPORT, lead, more, drawings, answers)
