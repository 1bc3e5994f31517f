"""CogEval's page: tables, and the paper's claims decided by intervals.

Tables are of any scored answers, recorded or from logs, beside the numbers that
the paper prints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from wm import core
from wm.evaluation import statistics
from wm.language import pages
from wm.language.pages import AnswersPage
from wm.papers import declared
from wm.papers.cogeval import answers, figures, prompts, regression
from wm.papers.cogeval.regression import Regression, Stepwise
from wm.reporting import papers, tables
from wm.reporting.tables import Table
from wm.runtime import files

if TYPE_CHECKING:
  from inspect_ai.log import EvalLog, EvalSample


DECLARED = declared('cogeval', 'report.toml')
# Condition -> what it asks for (the paper's table 1).
WHAT = DECLARED['conditions']
WORDS = DECLARED['words']


def printed() -> dict[str, Any]:
  """The paper's numbers: launch/flags/cogeval2023/published.json."""
  numbers: dict[str, Any] = files.read_json(
    papers.folder() / 'cogeval2023' / 'published.json'
  )
  return numbers


def conditions_table(frame: pd.DataFrame, score: str) -> tables.Table:
  """Table 1: what is asked, and how often it is answered right."""
  rows = []
  for condition, what in WHAT.items():
    asked = frame[(frame['condition'] == condition) & frame[score].notna()]
    if asked.empty:
      continue
    graphs_asked = set(asked['graph'])
    mean = answers.mean(asked, score)
    rows.append(
      {
        'group': answers.GROUP[condition],
        'condition': condition,
        'asks for': what,
        'graphs': ''.join(
          sorted(
            answers.LETTERS[g] for g in graphs_asked if g in answers.LETTERS
          )
        ),
        'all answers': interval(mean),
      }
    )
  return pages.table('Table 1: conditions', rows)


def interval(mean: answers.ScoreMean) -> str:
  """'0.610 [0.414, 0.783], n=1620 in 18 questions'."""
  ends = (f'{end:.3f}' for end in (mean.value, mean.low, mean.high))
  return tables.between(*ends, f'n={mean.n} in {mean.questions} questions')


def p_value(p: float | None) -> str:
  """'.016', or '2e-25' where it is small."""
  if p is None:
    return '–'
  if p < 1e-300:
    return '< 1e-300'
  return f'{p:.3f}' if p >= 1e-3 else f'{p:.0e}'


def stepwise_table(fits: Mapping[str, Stepwise]) -> tables.Table:
  """Table 2: deviances of added terms, of several scores, and the paper's."""
  paper_terms = printed()['table2']['terms']
  steps = {name: {s.name: s for s in fit.steps} for name, fit in fits.items()}
  terms = list(dict.fromkeys(t for by_term in steps.values() for t in by_term))
  rows = []
  for term in terms:
    row: dict[str, Any] = {'term': term}
    if paper_terms.get(term):
      value, df = paper_terms[term]
      row['the paper'] = f'{value:,.2f}, df {df}'
    for name, by_term in steps.items():
      if (step := by_term.get(term)) is not None:
        mark = ' *' if step.separated else ''
        row[f'{name}, n={fits[name].n:,}'] = (
          f'{step.deviance:,.2f}{mark}, df {step.df} '
          f'[p {p_value(step.p)}, by questions {p_value(step.clustered_p)}]'
        )
    rows.append(row)
  note = (
    'Likelihood-ratio chi-squares of terms added in this order to a binomial '
    'regression; degrees of freedom are differences of rank (the three-way '
    'interaction of this design has at most 40, not 44). "By questions" takes '
    'repeats of a question as one cluster: the F test of Rao and Scott.'
  )
  if any(fit.separated for fit in fits.values()):
    note += (
      ' * Outcomes are separated: some coefficients are infinite, and the '
      'deviance is the limit.'
    )
  return pages.table('Table 2: step-wise regression', rows, note)


def coefficients_table(fitted: Regression, title: str) -> tables.Table:
  """Log odds of each level against its factor's reference."""
  rows = [
    {
      'factor': coefficient.factor,
      'level': ''
      if coefficient.level is None
      else answers.label(coefficient.level),
      'log odds': coefficient.value,
      'odds ratio': f'{np.exp(coefficient.value):.3g}',
      'se by questions': coefficient.error,
      'se by answers': coefficient.naive,
      'p': p_value(coefficient.p),
      'p (Holm)': p_value(coefficient.adjusted),
      'n': coefficient.n,
    }
    for coefficient in fitted.coefficients
  ]
  against = ', '.join(
    f'{name} {answers.label(level)}'
    for name, level in fitted.references.items()
  )
  note = (
    f'Against {against}. n={fitted.n:,} answers to {fitted.questions:,} '
    'questions; p are by questions. Standard errors by answers take repeats '
    'for new questions.'
  )
  if fitted.firth:
    note += " Outcomes are separated: coefficients are Firth's."
  return pages.table(title, rows, note, folded=True)


class MeanCell(NamedTuple):
  """A cell of table 3: mean, standard deviation (ddof 1) and answers."""

  mean: float
  sd: float
  n: int


def means_of_cells(
  frame: pd.DataFrame, score: str
) -> dict[str, dict[str, MeanCell]]:
  """Table 3: condition -> model -> its answers."""
  scored = frame[frame[score].notna()]
  keys = [scored['condition'].astype(str), scored['model'].astype(str)]
  cells = scored[score].clip(0, 1).groupby(keys).agg(['mean', 'std', 'size'])
  table: dict[str, dict[str, MeanCell]] = {}
  for (condition, model), mean, sd, n in cells.itertuples(name=None):
    table.setdefault(condition, {})[model] = MeanCell(mean, sd, int(n))
  return table


class Agreement(NamedTuple):
  """Agreement of means and standard deviations with the printed ones.

  Attributes:
    cells: compared.
    means: within rounding, .005.
    both: of these, standard deviations too.
    error: mean absolute difference of means.
    correlation: of means.
  """

  cells: int
  means: int
  both: int
  error: float
  correlation: float


_ROUNDING = 0.005 + 1e-9


def agreement(means: Mapping[str, Mapping[str, MeanCell]]) -> Agreement:
  """Compares with the paper's table 3."""
  paper_table = printed()['table3']
  pairs = [
    (means[condition][model], values)
    for condition, row in paper_table['conditions'].items()
    for model, values in zip(paper_table['models'], row, strict=True)
    if values is not None and model in means.get(condition, {})
  ]
  ours = np.array([(cell.mean, cell.sd) for cell, _ in pairs])
  theirs = np.array([values for _, values in pairs])
  off = np.abs(ours - theirs) <= _ROUNDING
  return Agreement(
    len(pairs),
    int(off[:, 0].sum()),
    int(off.all(1).sum()),
    float(np.abs(ours - theirs)[:, 0].mean()),
    float(np.corrcoef(ours[:, 0], theirs[:, 0])[0, 1]),
  )


def table_3(
  means: Mapping[str, Mapping[str, MeanCell]], source: str
) -> tables.Table:
  """Table 3 of answers, with the paper's means and standard deviations."""
  paper_table = printed()['table3']
  rows = []
  for condition, values in paper_table['conditions'].items():
    row: dict[str, Any] = {'condition': condition}
    for model, pair in zip(paper_table['models'], values, strict=True):
      cell = means.get(condition, {}).get(model)
      row[answers.label(model)] = _beside(cell, pair)
    rows.append(row)
  near = agreement(means)
  note = (
    f'{source}: mean and standard deviation of answers, in brackets the '
    "paper's, which calls its second number a standard error. "
    f'{near.means} of {near.cells} means are the same to the digit, '
    f'{near.both} with the standard deviation; mean difference '
    f'{near.error:.3f}, correlation {near.correlation:.2f}.'
  )
  return pages.table('Table 3, as the paper scored it', rows, note)


def _beside(cell: MeanCell | None, pair: Sequence[float] | None) -> str:
  if cell is None:
    return '–'
  paper = '–' if pair is None else f'{pair[0]:.2f}, sd {pair[1]:.2f}'
  shown = f'{cell.mean:.2f}, sd {cell.sd:.2f}'
  return tables.Cell(shown, f' [{paper}]', f', n={cell.n}')


def by_model(
  frame: pd.DataFrame, score: str, by: str, title: str, note: str = ''
) -> tables.Table:
  """Mean scores with intervals: a row for each value of a column."""
  scored = frame[frame[score].notna()]
  models = answers.models_of(scored)
  order = {'graph': answers.LETTERS, 'condition': WHAT}.get(by, ())
  present = [str(value) for value in scored[by].unique()]
  values = [value for value in order if value in present]
  values += sorted(set(present) - set(values))
  groups = dict(tuple(scored.groupby([by, 'model'], observed=True)))
  rows = []
  for value in [*values, 'all']:
    row: dict[str, Any] = {by: _named(by, value)}
    for model in models:
      cell = groups.get((value, model))
      if value == 'all':
        cell = scored[scored['model'] == model]
      row[answers.label(model)] = (
        '–' if cell is None else interval(answers.mean(cell, score))
      )
    rows.append(row)
  return pages.table(title, rows, note)


def _named(by: str, value: str) -> str:
  if by == 'graph' and value in answers.LETTERS:
    return f'{answers.LETTERS[value]} ({value})'
  return value


def outcomes_table(frame: pd.DataFrame) -> tables.Table:
  """Figure 3: shares of answers by how they fail, of each model."""
  judged = frame[frame['outcome'].notna()]
  shares = pd.crosstab(
    judged['model'].astype(str),
    judged['outcome'].astype(str),
    normalize='index',
  )
  order = shares.sum().sort_values(ascending=False).index
  counts = judged['model'].astype(str).value_counts()
  rows = [
    {
      'model': answers.label(model),
      'n': int(counts[model]),
      **{
        str(kind).replace('_', ' '): float(shares.loc[model, kind])
        for kind in order
      },
    }
    for model in answers.models_of(judged)
  ]
  note = (
    'The first class that applies: a loop is a path that makes no step which '
    'is not there and comes to one place twice.'
  )
  return pages.table('How answers fail', rows, note)


def pairs_table(frame: pd.DataFrame, score: str) -> tables.Table:
  """All pairs of models, on the questions that both were asked."""
  rows = [
    {
      'models': f'{answers.label(pair.second)} – {answers.label(pair.first)}',
      'difference': tables.between(
        *(f'{end:+.3f}' for end in (pair.difference, pair.low, pair.high)),
        f'n={pair.cells} in {pair.questions} questions',
      ),
      'p': p_value(pair.p),
      'p (Holm)': p_value(pair.adjusted),
    }
    for pair in answers.pairs(frame, score, answers.models_of(frame))
  ]
  note = (
    'Each question at each temperature counts once; p by signs flipped at '
    'random, question by question.'
  )
  return pages.table('Models on the same questions', rows, note, folded=True)


def repeats_table(frame: pd.DataFrame, names: Sequence[str]) -> tables.Table:
  """Correlation of repeats of a question, by several scores."""
  fixed = ~frame['condition'].astype(str).str.endswith('stepPath')
  rows = []
  for score in names:
    repeated = frame[fixed & frame[score].notna()]
    for title, part in (
      ('all temperatures', repeated),
      ('temperature 0', repeated[repeated['temperature'] == 0]),
    ):
      size = part.groupby(list(answers.REPEATED), observed=True)[score]
      part = part[size.transform('size') > 1]
      if part[list(answers.REPEATED)].drop_duplicates().shape[0] < 2:
        continue
      alike = answers.intraclass(part, score)
      rows.append(
        {
          'score': score,
          'answers': title,
          'intraclass correlation': alike.correlation,
          'design effect': alike.effect,
          'all right or all wrong': alike.same,
          'repeats': alike.size,
          'n': alike.n,
        }
      )
  note = (
    'Of questions that are asked several times. n answers tell as much as n '
    'over the design effect independent ones.'
  )
  return pages.table('Repeats are no new questions', rows, note)


LARGE = ('n15star', 'n16cluster', 'n21star')
FOUR_STEPS = 'nstepPath'  # Of the large graphs, whose diameter is 4.


class JudgedClaim(NamedTuple):
  """A claim and what answers say of it.

  Attributes:
    claim: in a sentence.
    paper: what it prints.
    found: our number, with its interval.
    holds: 'yes', 'no', or 'not sure' where the interval has both; 'not against
      it' where it has a printed number.
  """

  claim: str
  paper: str
  found: str
  holds: str


def harder(frame: pd.DataFrame, score: str, model: str) -> list[JudgedClaim]:
  """The tree is harder than the long chains, and graph D than graph E."""
  answered = frame[frame['model'] == model]
  claims = []
  for first, second in printed()['claims']['harder']:
    harder_graph, easier_graph = (
      answered[answered['graph'] == first],
      answered[answered['graph'] == second],
    )
    if harder_graph[score].notna().any() and easier_graph[score].notna().any():
      contrast = answers.contrast(harder_graph, easier_graph, score)
      letters = answers.LETTERS[first], answers.LETTERS[second]
      claims.append(
        JudgedClaim(
          f'{answers.label(model)} does worse on {letters[0]} than on '
          f'{letters[1]} ({score} score)',
          f'{letters[0]} < {letters[1]}',
          tables.Cell(
            f'{contrast.first:.3f} and {contrast.second:.3f}, difference '
            f'{contrast.difference:+.3f}',
            f' [{contrast.low:+.3f}, {contrast.high:+.3f}]',
            f', n={contrast.questions} questions',
          ),
          _decided(contrast.low, contrast.high, 0),
        )
      )
  return claims


def _decided(low: float, high: float, bound: float) -> str:
  """Whether an interval lies above a bound: yes, no or not sure."""
  if low > bound:
    return 'yes'
  return 'no' if high < bound else 'not sure'


def hallucinated(frame: pd.DataFrame, model: str) -> list[JudgedClaim]:
  """Plans of four steps on D, E and F name edges that are not there."""
  plans = frame[
    (frame['model'] == model)
    & (frame['condition'] == FOUR_STEPS)
    & frame['graph'].isin(LARGE)
    & frame['outcome'].notna()
  ]
  plans = plans.assign(wrong=(plans['outcome'] == 'hallucinated_edge') * 1.0)
  bound = printed()['claims']['hallucinated_edges_of_four_steps']
  claims = []
  for graph in LARGE:
    on_graph = plans[plans['graph'] == graph]
    if on_graph.empty:
      continue
    mean = answers.mean(on_graph, 'wrong')
    claims.append(
      JudgedClaim(
        f'{answers.label(model)} invents an edge in plans of four steps on '
        f'{answers.LETTERS[graph]}',
        f'over {bound:.0%}',
        interval(mean),
        _decided(mean.low, mean.high, bound),
      )
    )
  return claims


def one_cluster_away(
  right: Sequence[tuple[float, bool]],
) -> list[JudgedClaim]:
  """The way from 1 to 12 in graph D is never found at low temperatures.

  right: (temperature, is the answer one of the authors' keys?).
  """
  shares = printed()['claims']['one_cluster_away']
  claims = []
  for temperature, share_printed in zip((0.0, 0.5, 1.0), shares, strict=True):
    outcomes = [float(ok) for t, ok in right if t == temperature]
    if outcomes:
      share = sum(outcomes) / len(outcomes)
      low, high = (
        float(x) for x in statistics.proportion(share, len(outcomes))
      )
      claims.append(
        JudgedClaim(
          'GPT-4-32k finds the way to a room one cluster away at '
          f'temperature {temperature:g}',
          f'{share_printed:.2f}, n=30',
          tables.between(
            *(f'{end:.3f}' for end in (share, low, high)),
            f'n={len(outcomes)} with text',
          ),
          'not against it' if low <= share_printed <= high else 'no',
        )
      )
  return claims


def claims_table(claims: Sequence[JudgedClaim]) -> Table:
  """A row for each claim."""
  return pages.table(
    'Claims',
    [claim._asdict() for claim in claims],
    'An interval decides: 95 %, by questions. The prompt of graph D that the '
    'paper used tells of more edges than its answer keys know.',
  )


class Judges(NamedTuple):
  """Two judges of the same answers.

  Attributes:
    n, agreement, kappa: answers, share of the same verdicts, and Cohen's kappa.
    counts: (first, second) -> answers.
  """

  n: int
  agreement: float
  kappa: float
  counts: dict[tuple[int, int], int]


def judges(
  frame: pd.DataFrame, first: str = 'recorded', second: str = 'solver'
) -> Judges:
  """How often two scores, each 0 or 1, are the same."""
  both_scored = frame[frame[first].notna() & frame[second].notna()]
  both = [
    (both_scored[name].clip(0, 1) > 0.5).astype(int) for name in (first, second)
  ]
  counted = both_scored.groupby(both).size()
  counts = {(a, b): int(counted.get((a, b), 0)) for a in (0, 1) for b in (0, 1)}
  n = sum(counts.values())
  same = (counts[0, 0] + counts[1, 1]) / n
  ones = [
    (counts[1, 1] + counts[1, 0]) / n,
    (counts[1, 1] + counts[0, 1]) / n,
  ]
  chance = ones[0] * ones[1] + (1 - ones[0]) * (1 - ones[1])
  kappa = (same - chance) / (1 - chance) if chance < 1 else 1.0
  return Judges(n, same, kappa, counts)


def judges_table(frame: pd.DataFrame) -> Table:
  """The authors' judge beside the solver, over all and by graph and domain."""
  rows = []
  for (graph, domain), part in [
    (('all', 'all'), frame),
    *sorted(
      frame.groupby(['graph', 'domain'], observed=True),
      key=lambda compared: [*answers.LETTERS].index(compared[0][0]),
    ),
  ]:
    if not (part['recorded'].notna() & part['solver'].notna()).any():
      continue
    compared = judges(part)
    rows.append(
      {
        'graph': answers.LETTERS.get(str(graph), str(graph)),
        'domain': str(domain),
        'n': compared.n,
        'agreement': compared.agreement,
        'kappa': compared.kappa,
        'right by the judge alone': compared.counts[1, 0],
        'right by the solver alone': compared.counts[0, 1],
      }
    )
  return pages.table(
    "The authors' judge (a language model) and the solver", rows, folded=True
  )


TITLE = 'CogEval: planning on graphs told in words'
CELL = 'graph', 'domain', 'condition', 'group', 'model', 'temperature'


def of_answers(
  frame: pd.DataFrame, score: str = 'solver', *, title: str = TITLE
) -> AnswersPage:
  """The page of any answers.

  Args:
    frame: as `answers` has them, with `start`, `goal`, `nodes` and `outcome`.
    score: the column that tables and figures are of.
    title: of the page.

  Raises:
    InputError: no answer has a score.
  """
  if frame.empty or not frame[score].notna().any():
    raise core.InputError(f'no answer has a score {score!r}')
  fits: dict[str, Stepwise] = {}

  def added() -> Table:
    fits[score] = regression.stepwise(frame, score, terms_of(frame))
    return stepwise_table(fits)

  step_by_step = _or_why('Table 2: step-wise regression', added)
  return assembled(
    title,
    lead(frame, score),
    frame,
    score,
    [step_by_step, repeats_table(frame, [score])],
    {'deviances': deviances(fits)},
    decided(frame, score),
  )


def assembled(
  title: str,
  lead_text: str,
  frame: pd.DataFrame,
  score: str,
  more: Sequence[Table],
  rows: Mapping[str, Sequence[pages.Row]],
  claimed: Sequence[JudgedClaim],
) -> AnswersPage:
  """A page: what all have, and `more` tables and `rows` of their own."""
  parts = [
    claims_table(claimed) if claimed else None,
    by_model(frame, score, 'graph', f'Figure 2: {score} by graph'),
    conditions_table(frame, score),
    *more,
    outcomes_table(frame),
    by_model(frame, score, 'condition', f'{score} by condition'),
    *regressions(frame, score),
    pairs_table(frame, score) if frame['model'].nunique() > 1 else None,
  ]
  return AnswersPage(
    title,
    lead_text,
    [part for part in parts if part is not None and len(part.rows)],
    figures.pictures(frame, score),
    WORDS,
    {'cells': cells(frame), **rows},
  )


def lead(frame: pd.DataFrame, score: str) -> str:
  """'59,168 answers of 11 models to 1,350 questions'."""
  scored = frame[frame[score].notna()]
  return (
    f'{len(scored):,} answers of {scored["model"].nunique()} models to '
    f'{scored["question"].nunique():,} questions'
  )


def terms_of(frame: pd.DataFrame) -> list[regression.Term]:
  """Table 2's terms, but for factors that do not vary."""
  varied = {
    factor
    for term in regression.TERMS
    for factor in term
    if frame[factor].nunique() > 1
  }
  return [term for term in regression.TERMS if varied.issuperset(term)]


def regressions(frame: pd.DataFrame, score: str) -> list[Table]:
  """Coefficients of all factors, and of single conditions for each model."""
  models = answers.models_of(frame)
  references = {'model': models[0], 'graph': 'n7line', 'group': 'Traversal'}
  names: Sequence[str] = regression.FACTORS
  title = f'Coefficients of table 2: main effects on {score}'
  fitted = [_regressed(frame, score, names, references, title)]
  for model in models[:3]:
    of_model = frame[frame['model'] == model]
    if of_model['condition'].nunique() > 1:
      title = f'Conditions of {answers.label(model)}: effects on {score}'
      names = 'graph', 'domain', 'temperature', 'condition'
      references = {'graph': 'n7line', 'condition': 'valuePath'}
      fitted.append(_regressed(of_model, score, names, references, title))
  return fitted


def _regressed(
  frame: pd.DataFrame,
  score: str,
  names: Sequence[str],
  references: dict[str, Any],
  title: str,
) -> Table:
  """Coefficients of factors, against the references that are there."""
  present = _there(frame, references)
  return _or_why(
    title,
    lambda: coefficients_table(
      regression.regression(frame, score, names, present), title
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
    return pages.table(title, [{'there is none': str(error)}])


def _there(frame: pd.DataFrame, references: dict[str, Any]) -> dict[str, Any]:
  """References that a frame has."""
  return {k: level for k, level in references.items() if level in set(frame[k])}


def decided(frame: pd.DataFrame, score: str) -> list[JudgedClaim]:
  """The paper's claims of the first model's answers."""
  model = answers.models_of(frame)[0]
  return [
    *harder(frame, score, model),
    *hallucinated(frame, model),
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
  means = groups[kinds].mean().assign(n=groups.size()).reset_index()
  rows: list[dict[str, Any]] = means.astype(object).to_dict('records')
  return rows


# Numbers of the task's scorers -> columns of ours.
VALUES = {
  'correct': 'solver',
  'strict': 'strict',
  'graded': 'graded',
  'token': 'token',
  'precision': 'precision',
  'recall': 'recall',
}
ASKED = ('graph', 'domain', 'condition', 'start', 'goal')
SETTINGS = [name for name in prompts.DialogSettings._fields if name != 'seed']


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
  checked = [edges_table(listed)] if len(listed) else []
  if answered.empty:
    lead_text = f'{len(listed):,} lists of edges'
    return AnswersPage(TITLE, lead_text, checked, (), WORDS, {})
  content = of_answers(answered)
  more = [settings_table(answered)] if answered['setting'].nunique() > 1 else []
  return content._replace(tables=[*content.tables, *more, *checked])


def answers_of_logs(logs: Sequence[EvalLog]) -> pd.DataFrame:
  """An answer a row, see `answers`; models are those of the logs.

  Columns besides: `solver`, `strict`, `graded`, `token`, `outcome`, `nodes`,
  and `precision` and `recall` of lists of edges; NaN where there is none.
  """
  rows = [row for log in logs for row in _sample_rows(log)]
  frame = pd.DataFrame(rows, columns=_COLUMNS)
  columns = [frame[name].astype(object) for name in SETTINGS]
  names = [
    '/'.join(str(x) for x in values if x)
    for values in zip(*columns, strict=True)
  ]
  return frame.assign(
    setting=names, group=frame['condition'].map(answers.GROUP).fillna('')
  )


_COLUMNS = [
  *('model', 'repeat', 'temperature', 'question', 'outcome', 'nodes'),
  *(*ASKED, *SETTINGS, *VALUES.values()),
]


def _sample_rows(log: EvalLog) -> Iterator[dict[str, Any]]:
  """Samples of a log; those without this task's metadata are left out."""
  for sample in log.samples or []:
    metadata = sample.metadata or {}
    if all(name in metadata for name in (*ASKED, 'question')):
      yield {
        'model': log.eval.model.removeprefix('recorded/'),
        'repeat': metadata.get('repeat', 0) * 1000 + sample.epoch,
        'temperature': float(metadata.get('temperature', 0)),
        'question': metadata['question'],
        **{name: metadata[name] for name in ASKED},
        **{name: metadata.get(name, '') for name in SETTINGS},
        **_values(sample),
      }


def _values(sample: EvalSample) -> dict[str, Any]:
  """Numbers and classes of the scorers of a sample."""
  values: dict[str, Any] = {}
  for score in (sample.scores or {}).values():
    if not isinstance(score.value, dict):
      continue
    for name, value in score.value.items():
      if name in VALUES and isinstance(value, int | float):
        values[VALUES[name]] = float(value)
    metadata = score.metadata or {}
    if 'outcome' in metadata:
      values['outcome'] = metadata['outcome']
      values['nodes'] = '-'.join(
        '?' if n < 0 else str(n) for n in metadata['nodes']
      )
  return values


def settings_table(frame: pd.DataFrame) -> Table:
  """Scores of each way of asking: wording, turns and hints."""
  return by_model(frame, 'solver', 'setting', 'By the way of asking')


def edges_table(frame: pd.DataFrame) -> Table:
  """The manipulation check: precision and recall of listed edges."""
  rows = [
    {
      'model': answers.label(model),
      'graph': answers.LETTERS.get(str(graph), str(graph)),
      'check': check,
      'precision': interval(answers.mean(part, 'precision')),
      'recall': interval(answers.mean(part, 'recall')),
    }
    for (model, graph, check), part in frame.groupby(
      ['model', 'graph', 'check']
    )
  ]
  return pages.table('Edges that models list', rows)
