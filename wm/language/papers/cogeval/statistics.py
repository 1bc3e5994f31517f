"""Statistics of scored answers by questions: means, contrasts, and table 2.

Answers are rows with the columns `graph`, `domain`, `condition`, `model`,
`temperature`, `repeat`, `group` (of conditions) and `question`, which names
what was asked. A model that is asked 30 times says much the same, most of all
at temperature 0: repeats of a question are a cluster, and intervals and tests
go by questions.

Regressions are binomial, by statsmodels. Answers are summed over cells of equal
factors: successes of trials. Nested models are compared by their deviances, and
degrees of freedom are differences of rank, so that combinations which were
never asked do not count. Sums over cells and single answers give the same
differences, and different residuals. Where the outcomes of cells are separated,
some coefficients are infinite and the deviance is a limit: the number of these
cells is reported. A fit whose deviance does not settle is refused.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy

from wm import core
from wm.core import inputs
from wm.evaluation.statistics import resample
from wm.language.pages import ordered
from wm.language.papers import declared
from wm.worlds.cognitive_graph import graphs

# The paper's three domains; those that it left out are not in its tables.
DOMAINS = ('ordRooms', 'unordSpatial', 'socialTies')
MODELS = declared('cogeval', 'report.toml')['models']
# Table 2 is of eight.
EIGHT = tuple(name for name in MODELS if name != 'forefront-pythia-20b')
# Graph -> the paper's letter.
LETTERS = {name: letter for letter, name in graphs.LETTERS.items()}


def label(model: object) -> str:
  """A model as the paper has it."""
  return MODELS.get(str(model), str(model))


def models_of(frame: pd.DataFrame) -> list[str]:
  """Models of some answers: the paper's in its order, then others."""
  return ordered(frame['model'].astype(str), MODELS)


def of_paper(
  frame: pd.DataFrame, models: Sequence[str] = EIGHT
) -> pd.DataFrame:
  """Rows of the paper's design: its models, domains, graphs and groups.

  Without the two conditions that the paper calls chain of thought, where the
  word 'shortest' is added.
  """
  left_out = ['', 'Clusters']
  design = (
    frame['model'].isin(models)
    & frame['domain'].isin(DOMAINS)
    & frame['graph'].isin(LETTERS)
    & ~frame['group'].isin(left_out)
    & ~frame['condition'].astype(str).str.endswith(('CoT', 'Shortest'))
  )
  return frame[design]


# Whose repeats are alike: answers of one model at one temperature.
REPEATED = 'question', 'model', 'temperature'
_DRAWS = 1_999


def intraclass(frame: pd.DataFrame, score: str) -> dict[str, Any]:
  """Correlation and design effect of the repeats of one question.

  Args:
    frame: an answer a row; leave out questions that differ from repeat to
      repeat.
    score: name of the column of scores, cut to [0, 1].

  Returns:
    correlation, the intraclass one by the analysis of variance; effect, 1 +
    (size - 1) * correlation: answers count as n / effect independent ones;
    size, mean of the cells, weighted as that analysis asks; n, answers; and
    same, the share of cells whose answers are all right or all wrong.

  Raises:
    InputError: there are no two cells, or no cell of two answers.
  """
  scored = frame[frame[score].notna()]
  values = scored[score].clip(0, 1)
  keys = [scored[name] for name in REPEATED]
  cells = values.groupby(keys, observed=True).agg(['mean', 'size', 'var'])
  size, num, n = cells['size'], len(cells), len(scored)
  if num < 2 or n == num:
    raise core.InputError(
      f'{n} answers in {num} cells; expected several of each of two questions'
    )
  # Analysis of variance with cells of unequal sizes.
  mean_size = float((n - (size**2).sum() / n) / (num - 1))
  between = (size * (cells['mean'] - values.mean()) ** 2).sum() / (num - 1)
  within = (cells['var'].fillna(0) * (size - 1)).sum() / (n - num)
  total = between + (mean_size - 1) * within
  correlation = float((between - within) / total) if total else 0.0
  return {
    'correlation': correlation,
    'effect': 1 + (mean_size - 1) * correlation,
    'size': mean_size,
    'n': n,
    'same': float(cells['mean'].isin([0, 1]).mean()),
  }


def bootstrap(frame: pd.DataFrame, score: str, seed: int = 0) -> np.ndarray:
  """[B] means of samples of as many questions, drawn with replacement.

  Raises:
    InputError: no answer has a score.
  """
  scored = frame[frame[score].notna()]
  if scored.empty:
    raise core.InputError(f'no answer has a score {score!r}')
  values = scored[score].clip(0, 1)
  sums = values.groupby(scored['question'].to_numpy(), sort=False)
  totals, weights = sums.sum().to_numpy(float), sums.size().to_numpy(float)
  counts = resample(len(totals), seed, np.arange(_DRAWS))
  return (counts @ totals) / (counts @ weights)


def contrast(
  first: pd.DataFrame, second: pd.DataFrame, score: str
) -> dict[str, float]:
  """Do answers to other questions score higher? Each is resampled by itself.

  Returns:
    Means `first` and `second`; difference, of second over first; low and high,
    95 %, percentiles of the bootstrap over questions; and questions, of both.
  """
  parts = [frame[frame[score].notna()] for frame in (first, second)]
  old, new = (float(part[score].clip(0, 1).mean()) for part in parts)
  drawn = bootstrap(second, score, 1) - bootstrap(first, score, 0)
  low, high = np.quantile(drawn, [0.025, 0.975])
  return {
    'first': old,
    'second': new,
    'difference': new - old,
    'low': float(low),
    'high': float(high),
    'questions': sum(part['question'].nunique() for part in parts),
  }


Term = tuple[str, ...]

# Momennejad et al. 2023, table 2, in its order.
TERMS: tuple[Term, ...] = (
  *(('model',), ('graph',), ('domain',), ('temperature',), ('group',)),
  *(('model', 'temperature'), ('graph', 'domain'), ('graph', 'group')),
  *(('domain', 'group'), ('graph', 'domain', 'group')),
)

_RANK = 1e-9  # Of a column's length: below it, columns depend on others.
_STEPS = 100
_SEPARATED = 1e-6  # Fitted shares nearer to 0 or 1 are limits.


class Cells(NamedTuple):
  """Answers summed over factors; C cells.

  Attributes:
    factors: [C] rows, a column for each factor.
    successes, totals: [C] float64; scores between 0 and 1 count as parts of a
      success.
    parts: a row for each cell and question, with the columns `cell` and
      `question` (from 0), `sum` of scores, and `size`, how many answers.
    questions: how many there are.
  """

  factors: pd.DataFrame
  successes: np.ndarray
  totals: np.ndarray
  parts: pd.DataFrame
  questions: int


class Stepwise(NamedTuple):
  """Nested models, term by term.

  Attributes:
    n, successes: answers, and the sum of their scores.
    null_deviance: of the model with a constant alone.
    steps: in order of the terms, see `_step`.
  """

  n: int
  successes: float
  null_deviance: float
  steps: list[dict[str, Any]]


def cells(frame: pd.DataFrame, score: str, factors: Sequence[str]) -> Cells:
  """Sums scores over cells of equal factors.

  Args:
    frame: an answer a row, with a column for each factor, `question` and the
      score; rows without a score are left out, scores are cut to [0, 1].
    score: name of the column.
    factors: names of columns.

  Raises:
    InputError: no factor is named, or no row has a score.
  """
  if not factors:
    raise core.InputError('no factor varies; expected two levels of one')
  scored = frame.loc[frame[score].notna(), [*factors, 'question', score]]
  if scored.empty:
    raise core.InputError(f'no answer has a score {score!r}')
  scored = scored.assign(**{score: scored[score].clip(0, 1)})
  # The likelihood needs sums over cells alone, which are some hundred times
  # fewer than answers; variances by questions need the sum of each question.
  keys = list(dict.fromkeys([*factors, 'question']))
  parts = scored.groupby(keys, observed=True)[score].agg(['sum', 'size'])
  parts = parts.astype(float).reset_index()
  cell = parts.groupby(list(factors), sort=False, observed=True).ngroup()
  rows = parts[~cell.duplicated()]
  question, names = pd.factorize(parts['question'])
  return Cells(
    rows[[*factors]].astype(object),
    np.bincount(cell, parts['sum']),
    np.bincount(cell, parts['size']),
    parts.assign(cell=cell, question=question),
    len(names),
  )


def design_of(data: Cells, terms: Sequence[Term]) -> np.ndarray:
  """[C, K] columns of a constant and terms, as patsy codes them."""
  with inputs.extra('language', 'a step-wise regression'):
    import patsy
  formula = ' + '.join(['1', *(':'.join(term) for term in terms)])
  # Every factor is one of words or levels, temperatures too.
  return np.asarray(patsy.dmatrix(formula, data.factors.astype(str)))


def independent(basis_before: np.ndarray, new: np.ndarray) -> np.ndarray:
  """[C, R] orthonormal columns: what `new` adds to the basis."""
  if not new.shape[1]:
    return new
  left = new
  for _ in range(2):  # Once more, as the first projection leaves rounding.
    left = left - basis_before @ (basis_before.T @ left)
  # Pivots fall in size: the number above the threshold is the rank. Columns of
  # combinations that were never asked are 0, or depend on others.
  basis, upper, _ = scipy.linalg.qr(left, mode='economic', pivoting=True)
  size = np.abs(np.diag(upper))
  most = np.sqrt((new * new).sum(0).max(initial=0))
  return basis[:, : int((size > _RANK * most).sum())]


def fit(design: np.ndarray, data: Cells) -> Any:
  """A binomial model of statsmodels, fitted.

  Args:
    design: [C, R] columns.
    data: successes and totals.

  Raises:
    InputError: the deviance does not settle, as of separated outcomes.
  """
  # It takes ten seconds to load: only when something is fitted.
  with inputs.extra('language', 'a step-wise regression'):
    from statsmodels.genmod import generalized_linear_model as models
  ends = np.c_[data.successes, data.totals - data.successes]
  binomial = models.families.Binomial()
  with warnings.catch_warnings():
    warnings.simplefilter('ignore')  # Whether it converges is asked below.
    done = models.GLM(ends, design, binomial).fit(maxiter=_STEPS)
  if not (done.converged and np.isfinite(done.deviance)):
    raise core.InputError(
      f'the regression of {len(ends)} cells on {design.shape[1]} columns has '
      f'no maximum after {_STEPS} steps; expected outcomes not separated'
    )
  return done


def stepwise(
  frame: pd.DataFrame, score: str, terms: Sequence[Term] = TERMS
) -> Stepwise:
  """Adds terms one by one (Momennejad et al. 2023, table 2).

  Args:
    frame: an answer a row, see `cells`.
    score: name of the column of scores.
    terms: each a tuple of factors; one of several is their interaction.

  Raises:
    InputError: no scores.
  """
  factors = list(dict.fromkeys(f for term in terms for f in term))
  data = cells(frame, score, factors)
  design = np.full((len(data.totals), 1), len(data.totals) ** -0.5)
  last = fit(design, data)
  null, steps = last.deviance, []
  for number, term in enumerate(terms, 1):
    added = independent(design, design_of(data, terms[:number]))
    design = np.hstack([design, added])
    new = fit(design, data) if added.size else last
    step = _step(data, design, added.shape[1], last, new)
    steps.append({'term': ':'.join(term), **step})
    last = new
  totals = int(data.totals.sum()), float(data.successes.sum())
  return Stepwise(*totals, null, steps)


def _step(
  data: Cells, design: np.ndarray, df: int, old: Any, new: Any
) -> dict[str, Any]:
  """The comparison of two nested fits.

  Returns:
    deviance, by which the term lowers the residual one; df, by which it raises
    the rank; p of the deviance, by chi-square, as if answers were independent;
    residual deviance; separated, cells whose fitted share is 0 or 1, a limit:
    above 0 the term or one before it has infinite coefficients; effect, the
    design effect, see `design_effect`; f, the deviance over df and effect, its
    second degrees of freedom f_df (questions less rank), and clustered_p, by
    the F distribution. These are None where questions are too few.
  """
  gain = old.deviance - new.deviance
  if gain < -_RANK * max(old.deviance, 1):
    raise core.InputError(
      f'the deviance rises by {-gain:,.2f} where a term is added; expected '
      'outcomes that are not separated'
    )
  effect = design_effect(data, design, df, new.mu)
  f_df = data.questions - design.shape[1]
  # Rao and Scott: repeats of a question inflate the deviance by the design
  # effect, which is estimated from few questions: F, not chi-square.
  f = gain / df / effect if effect and f_df > 0 else None
  return {
    'deviance': gain,
    'df': df,
    'p': float(scipy.stats.chi2.sf(gain, df)) if df else 1.0,
    'residual': new.deviance,
    'separated': int((np.minimum(new.mu, 1 - new.mu) < _SEPARATED).sum()),
    'effect': effect,
    'f': f,
    'f_df': f_df,
    'clustered_p': None if f is None else float(scipy.stats.f.sf(f, df, f_df)),
  }


def design_effect(
  data: Cells, design: np.ndarray, df: int, mean: np.ndarray
) -> float | None:
  """Mean generalised design effect of the last `df` columns, by questions.

  The mean over directions of the variance by questions over that by answers
  (Rao and Scott 1984): the trace of (variance by answers)^-1 (variance by
  questions), over df, with G / (G - R) for the few questions; None where there
  are not more questions G than columns R, or no column was added.
  """
  groups = data.questions
  if not df or groups <= design.shape[1]:
    return None
  weight = data.totals * mean * (1 - mean)
  bread = np.linalg.pinv(design.T @ (design * weight[:, None]))
  spread = _by_questions(data, design, bread, mean)
  last = slice(design.shape[1] - df, None)
  inner = np.linalg.pinv(bread[last, last]) @ spread[last, last]
  few = (groups - 1) / (groups - design.shape[1])
  return float(np.trace(inner) / df) * few


def _by_questions(
  data: Cells, design: np.ndarray, bread: np.ndarray, mean: np.ndarray
) -> np.ndarray:
  """[R, R] variance by questions, with G / (G - 1) for their number.

  A sandwich A^-1 B A^-1: A is the information if answers were independent, B
  the variance of the score summed question by question.
  """
  groups = data.questions
  names = 'cell', 'question', 'sum', 'size'
  cell, question, wins, counts = (data.parts[n].to_numpy() for n in names)
  off = wins - counts * mean[cell]
  sums = np.zeros((groups, design.shape[1]))
  np.add.at(sums, question, design[cell] * off[:, None])
  return bread @ (sums.T @ sums) @ bread * groups / max(groups - 1, 1)
