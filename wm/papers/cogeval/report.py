"""CogEval's page: tables, and the paper's claims decided by intervals.

Tables are of any scored answers, recorded or from logs, beside the numbers that
the paper prints.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
import pandas as pd

from wm import core
from wm.language import pages
from wm.language.pages import AnswersPage, Report, filled
from wm.papers import declared, reports
from wm.papers.cogeval import prompts, statistics
from wm.papers.cogeval import score as scoring
from wm.papers.cogeval.statistics import LETTERS, Stepwise
from wm.reporting import charts
from wm.reporting.tables import Cell, Table
from wm.worlds.cognitive_graph import questions
from wm.worlds.cognitive_graph.graphs import Graph
from wm.worlds.cognitive_graph.questions import AnsweredQuestion, Question

if TYPE_CHECKING:
  from inspect_ai.log import EvalLog


# Condition -> what it asks for (the paper's table 1).
WHAT = declared('cogeval', 'report.toml')['conditions']


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
    'condition': {name: name for name in WHAT},
    'group': {name: name for name in questions.GROUPS},
    'setting': {},
  },
  measures={
    'beside': _beside,
    'kappa': kappa,
    'asks_for': lambda rows: WHAT[rows['condition'].iloc[0]],
    'group': lambda rows: statistics.GROUP[rows['condition'].iloc[0]],
    'graphs': lambda rows: ''.join(
      sorted(LETTERS[graph] for graph in {*rows['graph']} & LETTERS.keys())
    ),
    'sum': lambda rows, column: int(rows[column].sum()),
    'shares': lambda rows: (
      rows['outcome'].value_counts(normalize=True, sort=False).to_dict()
    ),
  },
)
WORDS = REPORT.declared['words']


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


def coefficients_table(fitted: statistics.Regression, title: str) -> Table:
  """Log odds of each level against its factor's reference."""
  label = statistics.label
  return REPORT.table(
    'coefficients',
    [
      {
        **row,
        'level': '' if row['level'] is None else label(row['level']),
        'ratio': np.exp(row['value']),
        'p': p_value(row['p']),
        'adjusted': p_value(row['adjusted']),
      }
      for row in fitted.coefficients
    ],
    title=title,
    against=', '.join(f'{k} {label(x)}' for k, x in fitted.references.items()),
    n=fitted.n,
    questions=fitted.questions,
    firth=" Outcomes are separated: coefficients are Firth's." * fitted.firth,
  )


def by_model(frame: pd.DataFrame, score: str, by: str, title: str) -> Table:
  """Mean scores with intervals: a row for each value of a column."""
  scored = frame[frame[score].notna()]
  values = {'column': by, 'score': score, 'title': title}
  return REPORT.table('by_model', scored, **values)


def outcomes_table(frame: pd.DataFrame) -> Table:
  """Figure 3: shares of answers by how they fail, of each model."""
  judged = frame[frame['outcome'].notna()]
  outcome = judged['outcome'].astype(str).str.replace('_', ' ')
  shares = pd.crosstab(judged['model'].astype(str), outcome, normalize='index')
  order = shares.sum().sort_values(ascending=False).index
  judged = judged.assign(outcome=pd.Categorical(outcome, order))
  return REPORT.table('outcomes', judged)


def pairs_table(frame: pd.DataFrame, score: str) -> Table:
  """All pairs of models, on the questions that both were asked."""
  pairs = statistics.pairs(frame, score, statistics.models_of(frame))
  for pair in pairs:
    names = {name: statistics.label(pair[name]) for name in ('first', 'second')}
    pair |= names | {name: p_value(pair[name]) for name in ('p', 'adjusted')}
  return REPORT.table('pairs', pairs)


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


CELL = 'graph', 'domain', 'condition', 'group', 'model', 'temperature'


def of_answers(frame: pd.DataFrame, score: str = 'solver') -> AnswersPage:
  """The page of any answers.

  Args:
    frame: as `answers` has them, with `start`, `goal`, `nodes` and `outcome`.
    score: the column that tables and figures are of.

  Raises:
    InputError: no answer has a score.
  """
  if frame.empty or not frame[score].notna().any():
    raise core.InputError(f'no answer has a score {score!r}')
  fits: dict[str, Stepwise] = {}
  try:
    fits[score] = statistics.stepwise(frame, score, terms_of(frame))
    step_by_step = stepwise_table(fits)
  except core.InputError as error:
    step_by_step = _none('Table 2: step-wise regression', error)
  return assembled(
    lead(frame, score),
    frame,
    score,
    [step_by_step, repeats_table(frame, [score])],
    {'deviances': deviances(fits)},
    decided(frame, score),
  )


def assembled(
  lead_text: str,
  frame: pd.DataFrame,
  score: str,
  more: Sequence[Table],
  rows: Mapping[str, Sequence[pages.Row]],
  claimed: Sequence[Claim],
) -> AnswersPage:
  """A page: what all have, and `more` tables and `rows` of their own."""
  scored = frame[frame[score].notna()]
  tables = [
    REPORT.table('claims', claimed),
    by_model(frame, score, 'graph', f'Figure 2: {score} by graph'),
    REPORT.table(
      'conditions',
      scored[scored['condition'].isin([*WHAT])].assign(score=scored[score]),
    ),
    *more,
    outcomes_table(frame),
    by_model(frame, score, 'condition', f'{score} by condition'),
    *regressions(frame, score),
    pairs_table(frame, score),
  ]
  return reports.assembled(
    REPORT,
    lead_text,
    tables,
    pictures(frame, score),
    {'cells': cells(frame), **rows},
    model=statistics.label(statistics.models_of(frame)[0]),
  )


def lead(frame: pd.DataFrame, score: str) -> str:
  """'59,168 answers of 11 models to 1,350 questions'."""
  scored = frame[frame[score].notna()]
  return (
    f'{len(scored):,} answers of {scored["model"].nunique()} models to '
    f'{scored["question"].nunique():,} questions'
  )


def terms_of(frame: pd.DataFrame) -> list[statistics.Term]:
  """Table 2's terms, but for factors that do not vary."""
  varied = {name for name in statistics.FACTORS if frame[name].nunique() > 1}
  return [term for term in statistics.TERMS if varied.issuperset(term)]


def regressions(frame: pd.DataFrame, score: str) -> list[Table]:
  """Coefficients of all factors, and of single conditions for each model."""
  models = statistics.models_of(frame)
  usual = {'model': models[0], 'graph': 'n7line', 'group': 'Traversal'}
  usual['condition'] = 'valuePath'
  title = f'Coefficients of table 2: main effects on {score}'
  names: Sequence[str] = statistics.FACTORS
  parts = [(frame, names, title)]
  for model in models[:3]:
    of_model = frame[frame['model'] == model]
    if of_model['condition'].nunique() > 1:
      title = f'Conditions of {statistics.label(model)}: effects on {score}'
      names = 'graph', 'domain', 'temperature', 'condition'
      parts.append((of_model, names, title))
  tables = []
  for part, names, title in parts:
    references = {k: x for k, x in usual.items() if x in set(part[k])}
    try:
      fitted = statistics.regression(part, score, names, references)
      tables.append(coefficients_table(fitted, title))
    except core.InputError as error:
      tables.append(_none(title, error))
  return tables


def _none(title: str, error: core.InputError) -> Table:
  """A table that says why these answers have none of its rows.

  A few logs often have factors that tell each other: each model was asked about
  a graph of its own. All other tables are still made.
  """
  return pages.table(title, [{'there is none': str(error)}])


def decided(frame: pd.DataFrame, score: str) -> list[Claim]:
  """The paper's claims of the first model's answers."""
  model = statistics.models_of(frame)[0]
  return [
    *harder(frame, score, model),
    *hallucinated(frame, model),
  ]


def deviances(fits: Mapping[str, Stepwise]) -> list[dict[str, Any]]:
  """Table 2 as rows."""
  return [
    {'score': name, **step} for name, fit in fits.items() for step in fit.steps
  ]


def cells(frame: pd.DataFrame) -> list[dict[str, Any]]:
  """Means of all scores in each cell of the design."""
  kinds = [name for name in WORDS if name in frame]
  groups = frame.groupby(list(CELL), observed=True)
  means = groups[kinds].mean().assign(n=groups.size()).reset_index()
  rows: list[dict[str, Any]] = means.astype(object).to_dict('records')
  return rows


ASKED = ('graph', 'domain', 'condition', 'start', 'goal')
SETTINGS = [name for name in prompts.SETTINGS if name != 'seed']


def page(logs: Sequence[EvalLog]) -> AnswersPage:
  """Tables and figures of logs; what is uncertain goes by questions.

  Raises:
    InputError: no sample of them is a question of this task with a score.
  """
  frame = answers_of_logs(logs)
  listed = frame[frame['precision'].notna()]
  answered = frame[frame['solver'].notna()]
  if answered.empty and listed.empty:
    raise core.InputError(
      'the logs hold no scored answer to a question of wm/cogeval'
    )
  checked = [REPORT.table('edges', listed)] if len(listed) else []
  if answered.empty:
    lead_text = f'{len(listed):,} lists of edges'
    return reports.assembled(REPORT, lead_text, checked, {}, {})
  content = of_answers(answered)
  more = reports.unread(logs)
  if answered['setting'].nunique() > 1:
    more += [by_model(answered, 'solver', 'setting', 'By the way of asking')]
  return content._replace(tables=[*content.tables, *more, *checked])


def answers_of_logs(logs: Sequence[EvalLog]) -> pd.DataFrame:
  """An answer a row, see `statistics`; models are those of the logs.

  Columns besides: `solver`, `strict`, `graded`, `token`, `outcome`, `nodes`,
  and `precision` and `recall` of lists of edges; NaN where there is none.
  """
  asked = {*ASKED, 'question'}
  rows = [row for row in reports.sample_rows(logs) if asked <= row.keys()]
  frame = pd.DataFrame(rows, columns=_COLUMNS)
  settings = frame[SETTINGS].astype(object).fillna('')
  return frame.rename(columns={'correct': 'solver'}).assign(
    model=frame['model'].str.removeprefix('recorded/'),
    temperature=frame['temperature'].fillna(0).astype(float),
    nodes=[
      scoring.format_nodes(nodes) if isinstance(nodes, list | tuple) else None
      for nodes in frame['nodes']
    ],
    setting=['/'.join(filter(None, row)) for row in settings.to_numpy(str)],
    group=frame['condition'].map(statistics.GROUP).fillna(''),
  )


_COLUMNS = [
  *('model', 'temperature', 'question', 'outcome', 'nodes', *ASKED, *SETTINGS),
  *('correct', 'strict', 'graded', 'token', 'precision', 'recall'),
]


# Figures.

_GREY, _GOOD, _BAD, _NEW, _GOAL = (
  *('#b8bec6', '#2a7f3f', '#c8102e', '#2f6fb3', '#f2b705'),
)
# Classes that figure 3 shows, and how many answers of each.
SHOWN = ('hallucinated_edge', 'too_long', 'loop')
_EACH = 2


@functools.lru_cache(maxsize=64)
def layout(graph: Graph) -> Mapping[int, tuple[float, float]]:
  """Node -> place: chains and trees from the start down, others by springs."""
  drawn: Any = nx.Graph(graph.edges)
  if not nx.is_tree(drawn):
    apart = nx.spring_layout(drawn, seed=1, iterations=300)
    placed = nx.kamada_kawai_layout(drawn, pos=apart)
    return {node: (float(x), float(y)) for node, (x, y) in placed.items()}
  layers = nx.bfs_layout(drawn, graph.start, align='horizontal', scale=-1)
  return {node: (float(-x), float(y)) for node, (x, y) in layers.items()}


def places(problem: AnsweredQuestion) -> dict[int, tuple[float, float]]:
  """Positions of nodes; new ones stand beside those that lead to them."""
  at = dict(layout(problem.before))
  middle = np.mean(list(at.values()), 0)
  for node in problem.graph.nodes:
    if node not in at:
      near = [at[n] for n in problem.graph.neighbours(node) if n in at]
      spot = np.mean(near, 0) if near else middle
      away = spot - middle + np.array([0.31, 0.17])
      at[node] = tuple(spot + 0.35 * away / max(np.hypot(*away), 1e-9))
  return at


def draw(
  axis: Any, problem: AnsweredQuestion, nodes: Sequence[int], title: str
) -> None:
  """Draws a path on a graph: steps that are there, and those that are not.

  Closed edges are dashed and opened ones blue; the start has a green ring,
  goals are yellow, and what an answer invents is red.
  """
  at, graph, before = places(problem), problem.graph, problem.before
  unknown = [node for node in nodes if node not in at]
  low = min(y for _, y in at.values())
  for k, node in enumerate(dict.fromkeys(unknown)):
    at[node] = (min(x for x, _ in at.values()) + 0.4 * k, low - 0.5)
  now, then = nx.Graph(graph.arcs), nx.Graph(before.arcs)
  edges = list(nx.compose(then, now).edges)
  nx.draw_networkx_edges(
    now,
    at,
    edges,
    ax=axis,
    width=1.1,
    edge_color=[_GREY if then.has_edge(*edge) else _NEW for edge in edges],
    style=['-' if now.has_edge(*edge) else '--' for edge in edges],
  )
  steps = list(itertools.pairwise(nodes))
  nx.draw_networkx_edges(
    nx.DiGraph(steps),
    at,
    steps,
    ax=axis,
    width=1.8,
    arrowsize=12,
    node_size=190,
    edge_color=[_GOOD if step in graph.known else _BAD for step in steps],
    # Steps that are there and back do not cover each other.
    connectionstyle='arc3,rad=0.12',
  )
  for k, (tail, head) in enumerate(steps, 1):
    colour = _GOOD if (tail, head) in graph.known else _BAD
    spot = 0.6 * np.array(at[tail]) + 0.4 * np.array(at[head])
    axis.text(*spot, str(k), color=colour, fontsize=7, zorder=5)
  rings = {problem.start: _GOOD} | dict.fromkeys(unknown, _BAD)
  nx.draw_networkx_nodes(
    now,
    at,
    list(at),
    ax=axis,
    node_size=190,
    linewidths=1.6,
    node_color=[_GOAL if n in problem.goals else 'white' for n in at],
    edgecolors=[rings.get(node, '#444444') for node in at],
  )
  names = {node: '?' if node in unknown else str(node) for node in at}
  nx.draw_networkx_labels(now, at, names, ax=axis, font_size=7)
  axis.set_title(title, fontsize=9)
  axis.set_axis_off()
  axis.margins(0.1)


def question_of(row: Mapping[str, Any]) -> Question:
  """The question that an answer, a row of a table, is about."""
  graph, condition, domain = (
    str(row[name]) for name in ('graph', 'condition', 'domain')
  )
  ends = (row[name] for name in ('start', 'goal'))
  start, goal = (None if pd.isna(end) else int(end) for end in ends)
  return Question(graph, condition, domain, start, goal)


def six(scored: pd.DataFrame, score: str, model: str) -> bytes:
  """Figure 1: the graphs, and how often a model is right on each."""
  figure, axes = charts.new_axes(6, across=3, size=(3.6, 3.0))
  for axis, name in zip(axes, LETTERS, strict=True):
    cell = scored[(scored['model'] == model) & (scored['graph'] == name)]
    title = f'{LETTERS[name]} ({name})'
    if len(cell):
      mean = REPORT.mean(cell, score)
      title += f': {mean.value:.2f} [{mean.low:.2f}, {mean.high:.2f}]'
    draw(axis, questions.problem(Question(name, 'valuePath')), (), title)
  return charts.to_png(figure)


def wrong_answers(frame: pd.DataFrame, model: str) -> bytes:
  """Figure 3: the most frequent wrong answers of a model, on their graphs."""
  failed = frame[
    (frame['model'] == model)
    & frame['graph'].isin(questions.LARGE)
    & frame['nodes'].notna()
  ]
  keys = ['graph', 'condition', 'domain', 'start', 'goal', 'nodes', 'outcome']
  alike = failed.groupby(keys, observed=True, dropna=False)
  answers = alike.size().reset_index(name='number')
  answers = answers.sort_values('number', ascending=False, kind='stable')
  answers = answers.drop_duplicates(['graph', 'outcome'])
  first = [answers[answers['outcome'] == kind][:_EACH] for kind in SHOWN]
  chosen = pd.concat(first).to_dict('records')
  if not chosen:
    return b''
  figure, axes = charts.new_axes(len(chosen), across=3, size=(4.2, 3.6))
  for axis, row in zip(axes, chosen, strict=True):
    problem = questions.problem(question_of(row))
    nodes = scoring.whole(problem, scoring.parse_nodes(row['nodes']))
    title = (
      f'{row["outcome"].replace("_", " ")}, n={row["number"]}: '
      f'{LETTERS[row["graph"]]}, {row["condition"]}'
    )
    draw(axis, problem, nodes, title)
  return charts.to_png(figure)


def pictures(frame: pd.DataFrame, score: str) -> dict[str, bytes | charts.Spec]:
  """The three figures; graphs and answers are those of the first model."""
  model = statistics.models_of(frame)[0]
  scored = frame[frame[score].notna()]
  return {
    'figure1': six(scored, score, model),
    'figure2': reports.chart(REPORT, 'figure2', scored, score=score),
    'figure3': wrong_answers(frame, model),
  }
