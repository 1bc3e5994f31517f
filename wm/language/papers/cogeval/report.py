"""CogEval's page: tables, and the paper's claims decided by intervals.

Tables are of any scored answers, recorded or from logs, beside the numbers that
the paper prints.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from wm import core
from wm.language import pages
from wm.language.pages import AnswersPage, Report, filled
from wm.language.papers import reports
from wm.language.papers.cogeval import prompts, statistics
from wm.language.papers.cogeval import score as scoring
from wm.language.papers.cogeval.statistics import LETTERS, Stepwise
from wm.reporting.tables import Cell, Table
from wm.worlds.cognitive_graph import questions
from wm.worlds.cognitive_graph.questions import Question

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


REPORT = Report(
  'cogeval',
  labels={
    'model': statistics.MODELS,
    'graph': {name: f'{letter} ({name})' for name, letter in LETTERS.items()},
    'condition': {name: name for name in questions.GROUP},
    'group': {name: name for name in questions.GROUPS},
    'setting': {},
  },
  measures={
    'beside': _beside,
    'kappa': kappa,
    'sum': lambda rows, column: int(rows[column].sum()),
    'shares': lambda rows: (
      rows['outcome'].value_counts(normalize=True, sort=False).to_dict()
    ),
  },
)


def p_value(p: float | None) -> str:
  """'.016', or '2e-25' where it is small."""
  if p is None:
    return '–'
  if p < 1e-300:
    return '< 1e-300'
  return f'{p:.3f}' if p >= 1e-3 else f'{p:.0e}'


def stepwise_table(fits: Mapping[str, Stepwise]) -> Table:
  """Table 2: deviances of added terms, of several scores, and the paper's."""
  printed = REPORT.published['table2']['terms']
  rows: dict[str, dict[str, Any]] = {}
  for name, fit in fits.items():
    for step in fit.steps:
      row = rows.setdefault(step['term'], {'term': step['term'], 'scores': {}})
      if pair := printed.get(step['term']):
        row['paper'] = f'{pair[0]:,.2f}, df {pair[1]}'
      mark = ' *' * (step['separated'] > 0)
      row['scores'][f'{name}, n={fit.n:,}'] = (
        f'{step["deviance"]:,.2f}{mark}, df {step["df"]} '
        f'[p {p_value(step["p"])}, '
        f'by questions {p_value(step["clustered_p"])}]'
      )
  every = itertools.chain.from_iterable(fit.steps for fit in fits.values())
  return REPORT.table(
    'stepwise',
    list(rows.values()),
    separated=' * Outcomes are separated: some coefficients are infinite, and '
    'the deviance is the limit.' * any(step['separated'] for step in every),
  )


def by_model(scored: pd.DataFrame, by: str, title: str) -> Table:
  """Mean scores with intervals: a row for each value of a column."""
  return REPORT.table('by_model', scored, column=by, title=title)


def outcomes_table(frame: pd.DataFrame) -> Table:
  """Figure 3: shares of answers by how they fail, of each model."""
  judged = frame[frame['outcome'].notna()]
  outcome = judged['outcome'].astype(str).str.replace('_', ' ')
  shares = pd.crosstab(judged['model'].astype(str), outcome, normalize='index')
  order = shares.sum().sort_values(ascending=False).index
  judged = judged.assign(outcome=pd.Categorical(outcome, order))
  return REPORT.table('outcomes', judged)


def repeats_table(frame: pd.DataFrame, names: Sequence[str]) -> Table:
  """Correlation of repeats of a question, by several scores."""
  fixed = frame[~frame['condition'].astype(str).str.endswith('stepPath')]
  by, rows = list(statistics.REPEATED), []
  for score in names:
    repeated = fixed[fixed[score].notna()]
    for title, part in (
      ('all temperatures', repeated),
      ('temperature 0', repeated[repeated['temperature'] == 0]),
    ):
      size = part.groupby(by, observed=True)[score].transform('size')
      part = part[size > 1]
      if len(part[by].drop_duplicates()) > 1:
        alike = statistics.intraclass(part, score)
        rows.append({'score': score, 'answers': title, **alike})
  return REPORT.table('repeats', rows)


FOUR_STEPS = 'nstepPath'  # Of the large graphs, whose diameter is 4.


# A claim, what the paper prints, our number with its interval, and whether it
# holds: 'yes', 'no', or 'not sure' where the interval has both; 'not against
# it' where it has a printed number.
Claim = dict[str, Any]


def harder(frame: pd.DataFrame, score: str, model: str) -> list[Claim]:
  """The tree is harder than the long chains, and graph D than graph E."""
  answered = frame[(frame['model'] == model) & frame[score].notna()]
  claims = []
  for pair in REPORT.published['claims']['harder']:
    parts = [answered[answered['graph'] == graph] for graph in pair]
    if any(part.empty for part in parts):
      continue
    contrast = statistics.contrast(parts[0], parts[1], score)
    hard, easy = (LETTERS[graph] for graph in pair)
    claims.append(
      {
        'claim': f'{statistics.label(model)} does worse on {hard} than on '
        f'{easy} ({score} score)',
        'paper': f'{hard} < {easy}',
        'ours': filled(
          '{first:.3f} and {second:.3f}, difference {difference:+.3f}'
          '| [{low:+.3f}, {high:+.3f}]|, n={questions} questions',
          contrast,
        ),
        'holds': _decided(contrast['low'], contrast['high'], 0),
      }
    )
  return claims


def _decided(low: float, high: float, bound: float) -> str:
  """Whether an interval lies above a bound: yes, no or not sure."""
  if low > bound:
    return 'yes'
  return 'no' if high < bound else 'not sure'


def hallucinated(frame: pd.DataFrame, model: str) -> list[Claim]:
  """Plans of four steps on D, E and F name edges that are not there."""
  plans = frame[
    (frame['model'] == model)
    & (frame['condition'] == FOUR_STEPS)
    & frame['graph'].isin(questions.LARGE)
    & frame['outcome'].notna()
  ]
  plans = plans.assign(wrong=(plans['outcome'] == 'hallucinated_edge') * 1.0)
  bound = REPORT.published['claims']['hallucinated_edges_of_four_steps']
  claims = []
  for graph in questions.LARGE:
    mean = REPORT.mean(plans[plans['graph'] == graph], 'wrong')
    if mean.low is not None and mean.high is not None:
      claims.append(
        {
          'claim': f'{statistics.label(model)} invents an edge in plans of '
          f'four steps on {LETTERS[graph]}',
          'paper': f'over {bound:.0%}',
          'ours': REPORT.shown(mean),
          'holds': _decided(mean.low, mean.high, bound),
        }
      )
  return claims


def of_answers(frame: pd.DataFrame) -> AnswersPage:
  """The page of any answers, by the solver's score.

  frame: as `answers_of_logs` has them.

  Raises:
    InputError: no answer has a score.
  """
  if not frame['solver'].notna().any():
    raise core.InputError('no scored answer to a question of wm/cogeval')
  return assembled(lead(frame), frame, [], {}, decided(frame))


def assembled(
  lead_text: str,
  frame: pd.DataFrame,
  more: Sequence[Table],
  rows: Mapping[str, Sequence[pages.Row]],
  claimed: Sequence[Claim],
) -> AnswersPage:
  """A page: what all have, and `more` tables and `rows` of their own."""
  scored = frame[frame['solver'].notna()]
  tables = [
    REPORT.table('claims', claimed),
    by_model(scored, 'graph', 'Figure 2: solver by graph'),
    *more,
    outcomes_table(frame),
    by_model(scored, 'condition', 'solver by condition'),
  ]
  return reports.assembled(
    REPORT,
    lead_text,
    tables,
    reports.drawn(REPORT, scored),
    rows,
  )


def lead(frame: pd.DataFrame) -> str:
  """'59,168 answers of 11 models to 1,350 questions'."""
  scored = frame[frame['solver'].notna()]
  return (
    f'{len(scored):,} answers of {scored["model"].nunique()} models to '
    f'{scored["question"].nunique():,} questions'
  )


def decided(frame: pd.DataFrame) -> list[Claim]:
  """The paper's claims of the first model's answers."""
  model = statistics.models_of(frame)[0]
  return [*harder(frame, 'solver', model), *hallucinated(frame, model)]


def deviances(fits: Mapping[str, Stepwise]) -> list[dict[str, Any]]:
  """Table 2 as rows."""
  return [
    {'score': name, **step} for name, fit in fits.items() for step in fit.steps
  ]


ASKED = ('graph', 'domain', 'condition', 'start', 'goal')
SETTINGS = [name for name in prompts.SETTINGS if name != 'seed']


def page(logs: Sequence[EvalLog]) -> AnswersPage:
  """Tables and figures of logs; what is uncertain goes by questions.

  Raises:
    InputError: no sample of them is a question of this task with a score.
  """
  frame = answers_of_logs(logs)
  answered = frame[frame['solver'].notna()]
  content = of_answers(answered)
  more = reports.unread(reports.sample_rows(logs))
  if answered['setting'].nunique() > 1:
    more += [by_model(answered, 'setting', 'By the way of asking')]
  return content._replace(tables=[*content.tables, *more])


def answers_of_logs(logs: Sequence[EvalLog]) -> pd.DataFrame:
  """An answer a row, see `statistics`; models are those of the logs.

  Columns besides: `solver`, `outcome` and `nodes`.
  """
  asked = {*ASKED, 'question'}
  rows = [row for row in reports.sample_rows(logs) if asked <= row.keys()]
  frame = pd.DataFrame(rows, columns=_COLUMNS)
  settings = frame[SETTINGS].astype(object).fillna('')
  return frame.rename(columns={'correct': 'solver'}).assign(
    temperature=frame['temperature'].fillna(0).astype(float),
    nodes=[
      scoring.format_nodes(nodes) if isinstance(nodes, list | tuple) else None
      for nodes in frame['nodes']
    ],
    setting=['/'.join(filter(None, row)) for row in settings.to_numpy(str)],
    group=frame['condition'].map(questions.GROUP).fillna(''),
  )


_COLUMNS = [
  *('model', 'temperature', 'question', 'outcome', 'nodes', *ASKED, *SETTINGS),
  'correct',
]


def question_of(row: Mapping[str, Any]) -> Question:
  """The question that an answer, a row of a table, is about."""
  graph, condition, domain = (
    str(row[name]) for name in ('graph', 'condition', 'domain')
  )
  ends = (row[name] for name in ('start', 'goal'))
  start, goal = (None if pd.isna(end) else int(end) for end in ends)
  return Question(graph, condition, domain, start, goal)
