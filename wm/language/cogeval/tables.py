"""CogEval's tables, of any scored answers, beside what the paper prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from wm.language import rescored
from wm.language.cogeval import clusters, scores
from wm.language.cogeval.coefficients import Regression
from wm.language.cogeval.deviance import Stepwise
from wm.reporting import papers, tables
from wm.runtime import files

# The paper's table 1, in our words.
WHAT = {
  'valuePath': 'the way to the largest reward',
  '1stepPath': 'the shortest way between two neighbours',
  '2stepPath': 'the shortest way, two steps long',
  '3stepPath': 'the shortest way, three steps long',
  'nstepPath': 'the shortest way, as long as they come: four steps, five on C',
  'rewardReval': 'after rewards have changed',
  'policyReval': 'after a third place has got the largest reward',
  'transReval': 'after passages have changed',
  'transRevalStochastic': 'after passages lead elsewhere one time in ten',
  'nonteleShortcut': 'after a new passage',
  'teleShortcut': 'after a new portal',
  'nonteleShortcutShortest': 'the same, asking for the shortest way',
  'teleShortcutShortest': 'the same, asking for the shortest way',
  'nonteleDetour': 'after one passage was closed and another opened',
  'teleDetour': 'after a passage was closed and a portal opened',
  'nClusters': 'how many dense clusters there are (not in the paper)',
}


def printed() -> dict[str, Any]:
  """What the paper prints: launch/flags/cogeval2023/published.json."""
  found: dict[str, Any] = files.read_json(
    papers.folder() / 'cogeval2023' / 'published.json'
  )
  return found


def label(model: object) -> str:
  """A model as the paper has it."""
  return scores.MODELS.get(str(model), str(model))


def models_of(frame: pd.DataFrame) -> list[str]:
  """Models of some answers: the paper's in its order, then others."""
  there = [str(name) for name in frame['model'].unique()]
  known = [name for name in scores.MODELS if name in there]
  return known + sorted(set(there) - set(known))


def conditions(frame: pd.DataFrame, score: str) -> tables.Table:
  """Table 1: what is asked, and how often it is answered right."""
  rows = []
  for condition, what in WHAT.items():
    some = frame[(frame['condition'] == condition) & frame[score].notna()]
    if some.empty:
      continue
    there = set(some['graph'])
    mean = clusters.mean(some, score)
    rows.append(
      {
        'group': scores.GROUP[condition],
        'condition': condition,
        'asks for': what,
        'graphs': ''.join(
          sorted(scores.LETTERS[g] for g in there if g in scores.LETTERS)
        ),
        'all answers': interval(mean),
      }
    )
  return rescored.table('Table 1: conditions', rows)


def interval(mean: clusters.Mean) -> str:
  """'0.610 [0.414, 0.783], n=1620 in 18 questions'."""
  return (
    f'{mean.value:.3f} [{mean.low:.3f}, {mean.high:.3f}], '
    f'n={mean.n} in {mean.questions} questions'
  )


def p_value(p: float | None) -> str:
  """'.016', or '2e-25' where it is small."""
  if p is None:
    return '–'
  if p < 1e-300:
    return '< 1e-300'
  return f'{p:.3f}' if p >= 1e-3 else f'{p:.0e}'


def stepwise(fits: Mapping[str, Stepwise]) -> tables.Table:
  """Table 2: deviances of added terms, of several scores, and the paper's."""
  said = printed()['table2']['terms']
  steps = {name: {s.name: s for s in fit.steps} for name, fit in fits.items()}
  terms = list(dict.fromkeys(t for found in steps.values() for t in found))
  rows = []
  for term in terms:
    row: dict[str, Any] = {'term': term}
    if said.get(term):
      value, df = said[term]
      row['the paper'] = f'{value:,.2f}, df {df}'
    for name, found in steps.items():
      if (step := found.get(term)) is not None:
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
  return rescored.table('Table 2: step-wise regression', rows, note)


def coefficients(found: Regression, title: str) -> tables.Table:
  """Log odds of each level against its factor's reference."""
  rows = [
    {
      'factor': one.factor,
      'level': '' if one.level is None else label(one.level),
      'log odds': one.value,
      'odds ratio': f'{np.exp(one.value):.3g}',
      'se by questions': one.error,
      'se by answers': one.naive,
      'p': p_value(one.p),
      'p (Holm)': p_value(one.adjusted),
      'n': one.n,
    }
    for one in found.coefficients
  ]
  against = ', '.join(
    f'{name} {label(level)}' for name, level in found.references.items()
  )
  note = (
    f'Against {against}. n={found.n:,} answers to {found.questions:,} '
    'questions; p are by questions. Standard errors by answers take repeats '
    'for new questions.'
  )
  if found.firth:
    note += " Outcomes are separated: coefficients are Firth's."
  return rescored.table(title, rows, note, folded=True)


class Cell(NamedTuple):
  """A cell of table 3: mean, standard deviation (ddof 1) and answers."""

  mean: float
  sd: float
  n: int


def means(frame: pd.DataFrame, score: str) -> dict[str, dict[str, Cell]]:
  """Table 3: condition -> model -> its answers."""
  some = frame[frame[score].notna()]
  keys = [some['condition'].astype(str), some['model'].astype(str)]
  found = some[score].clip(0, 1).groupby(keys).agg(['mean', 'std', 'size'])
  made: dict[str, dict[str, Cell]] = {}
  for (condition, model), mean, sd, n in found.itertuples(name=None):
    made.setdefault(condition, {})[model] = Cell(mean, sd, int(n))
  return made


class Agreement(NamedTuple):
  """How near means and standard deviations are to printed ones.

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


def agreement(found: Mapping[str, Mapping[str, Cell]]) -> Agreement:
  """Compares with the paper's table 3."""
  said = printed()['table3']
  pairs = [
    (found[condition][model], values)
    for condition, row in said['conditions'].items()
    for model, values in zip(said['models'], row, strict=True)
    if values is not None and model in found.get(condition, {})
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


def beside(
  found: Mapping[str, Mapping[str, Cell]], source: str
) -> tables.Table:
  """Table 3 of answers, with the paper's means and standard deviations."""
  said = printed()['table3']
  rows = []
  for condition, values in said['conditions'].items():
    row: dict[str, Any] = {'condition': condition}
    for model, pair in zip(said['models'], values, strict=True):
      cell = found.get(condition, {}).get(model)
      row[label(model)] = _beside(cell, pair)
    rows.append(row)
  near = agreement(found)
  note = (
    f'{source}: mean and standard deviation of answers, in brackets the '
    "paper's, which calls its second number a standard error. "
    f'{near.means} of {near.cells} means are the same to the digit, '
    f'{near.both} with the standard deviation; mean difference '
    f'{near.error:.3f}, correlation {near.correlation:.2f}.'
  )
  return rescored.table('Table 3, as the paper scored it', rows, note)


def _beside(cell: Cell | None, pair: Sequence[float] | None) -> str:
  if cell is None:
    return '–'
  paper = '–' if pair is None else f'{pair[0]:.2f}, sd {pair[1]:.2f}'
  return f'{cell.mean:.2f}, sd {cell.sd:.2f} [{paper}], n={cell.n}'


def by_model(
  frame: pd.DataFrame, score: str, by: str, title: str, note: str = ''
) -> tables.Table:
  """Mean scores with intervals: a row for each value of a column."""
  some = frame[frame[score].notna()]
  models = models_of(some)
  order = {'graph': scores.LETTERS, 'condition': WHAT}.get(by, ())
  there = [str(value) for value in some[by].unique()]
  values = [value for value in order if value in there]
  values += sorted(set(there) - set(values))
  groups = dict(tuple(some.groupby([by, 'model'], observed=True)))
  rows = []
  for value in [*values, 'all']:
    row: dict[str, Any] = {by: _named(by, value)}
    for model in models:
      own = groups.get((value, model))
      if value == 'all':
        own = some[some['model'] == model]
      row[label(model)] = (
        '–' if own is None else interval(clusters.mean(own, score))
      )
    rows.append(row)
  return rescored.table(title, rows, note)


def _named(by: str, value: str) -> str:
  if by == 'graph' and value in scores.LETTERS:
    return f'{scores.LETTERS[value]} ({value})'
  return value


def outcomes(frame: pd.DataFrame) -> tables.Table:
  """Figure 3: shares of answers by how they fail, of each model."""
  some = frame[frame['outcome'].notna()]
  shares = pd.crosstab(
    some['model'].astype(str), some['outcome'].astype(str), normalize='index'
  )
  order = shares.sum().sort_values(ascending=False).index
  counts = some['model'].astype(str).value_counts()
  rows = [
    {
      'model': label(model),
      'n': int(counts[model]),
      **{
        str(kind).replace('_', ' '): float(shares.loc[model, kind])
        for kind in order
      },
    }
    for model in models_of(some)
  ]
  note = (
    'The first class that applies: a loop is a path that makes no step which '
    'is not there and comes to one place twice.'
  )
  return rescored.table('How answers fail', rows, note)


def pairs(frame: pd.DataFrame, score: str) -> tables.Table:
  """All pairs of models, on what both were asked."""
  rows = [
    {
      'models': f'{label(one.second)} – {label(one.first)}',
      'difference': (
        f'{one.difference:+.3f} [{one.low:+.3f}, {one.high:+.3f}], '
        f'n={one.cells} in {one.questions} questions'
      ),
      'p': p_value(one.p),
      'p (Holm)': p_value(one.adjusted),
    }
    for one in clusters.pairs(frame, score, models_of(frame))
  ]
  note = (
    'Each question at each temperature counts once; p by signs flipped at '
    'random, question by question.'
  )
  return rescored.table('Models on the same questions', rows, note, folded=True)


def repeats(frame: pd.DataFrame, names: Sequence[str]) -> tables.Table:
  """How alike repeats of a question are, by several scores."""
  fixed = ~frame['condition'].astype(str).str.endswith('stepPath')
  rows = []
  for score in names:
    some = frame[fixed & frame[score].notna()]
    for title, part in (
      ('all temperatures', some),
      ('temperature 0', some[some['temperature'] == 0]),
    ):
      size = part.groupby(list(clusters.REPEATED), observed=True)[score]
      part = part[size.transform('size') > 1]
      if part[list(clusters.REPEATED)].drop_duplicates().shape[0] < 2:
        continue
      one = clusters.intraclass(part, score)
      rows.append(
        {
          'score': score,
          'answers': title,
          'intraclass correlation': one.correlation,
          'design effect': one.effect,
          'all right or all wrong': one.same,
          'repeats': one.size,
          'n': one.n,
        }
      )
  note = (
    'Of questions that are asked several times. n answers tell as much as n '
    'over the design effect independent ones.'
  )
  return rescored.table('Repeats are no new questions', rows, note)
