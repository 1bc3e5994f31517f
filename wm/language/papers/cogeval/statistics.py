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

import itertools
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy

from wm import core
from wm.core import inputs
from wm.evaluation.statistics import resample
from wm.language.papers import declared
from wm.worlds.cognitive_graph import graphs

# The paper's three domains; those that it left out are not in its tables.
DOMAINS = ('ordRooms', 'unordSpatial', 'socialTies')
MODELS = declared('cogeval', 'report.toml')['models']
# Table 2 is of eight.
EIGHT = tuple(name for name in MODELS if name != 'forefront-pythia-20b')
# Graph -> the paper's letter.
LETTERS = {name: letter for letter, name in graphs.LETTERS.items()}


def of_paper(
  frame: pd.DataFrame, models: Sequence[str] = EIGHT
) -> pd.DataFrame:
  """Rows of the paper's design: its models, domains, graphs and groups.

  Without the two conditions that the paper calls chain of thought, where the
  word 'shortest' is added.
  """
  return frame[
    frame['model'].isin(models)
    & frame['domain'].isin(DOMAINS)
    & frame['graph'].isin(LETTERS)
    & ~frame['group'].isin(['', 'Clusters'])
    & ~frame['condition'].astype(str).str.endswith(('CoT', 'Shortest'))
  ]


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
    same, the share of cells whose answers are all right or all wrong. {} where
    no two questions have several answers.
  """
  scored = frame[frame[score].notna()]
  # Answers of one model at one temperature are alike.
  keys = [scored[name] for name in ('question', 'model', 'temperature')]
  values = scored[score].clip(0, 1).groupby(keys, observed=True)
  cells = values.agg(['mean', 'size', 'var']).query('size > 1')
  mean, size, num = cells['mean'], cells['size'], len(cells)
  if num < 2:
    return {}
  # Analysis of variance with cells of unequal sizes.
  n = int(size.sum())
  mean_size = float((n - (size**2).sum() / n) / (num - 1))
  whole = (size * mean).sum() / n
  between = (size * (mean - whole) ** 2).sum() / (num - 1)
  within = (cells['var'] * (size - 1)).sum() / (n - num)
  total = between + (mean_size - 1) * within
  correlation = float((between - within) / total) if total else 0.0
  return {
    'correlation': correlation,
    'effect': 1 + (mean_size - 1) * correlation,
    'size': mean_size,
    'n': n,
    'same': float(mean.isin([0, 1]).mean()),
  }


def bootstrap(frame: pd.DataFrame, score: str, seed: int = 0) -> np.ndarray:
  """[B] means of samples of as many questions, drawn with replacement."""
  scored = frame[frame[score].notna()]
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


def stepwise(
  frame: pd.DataFrame, score: str, terms: Sequence[Term] = TERMS
) -> list[dict[str, Any]]:
  """Adds terms one by one (Momennejad et al. 2023, table 2).

  Args:
    frame: an answer a row, with a column for each factor, `question` and the
      score; rows without a score are left out, scores are cut to [0, 1].
    score: name of the column of scores.
    terms: each a tuple of factors; one of several is their interaction.

  Returns:
    For each term: deviance, by which it lowers the residual one; df, by which
    it raises the rank; p of the deviance, by chi-square, as if answers were
    independent; residual deviance; separated, cells whose fitted share is 0 or
    1, a limit: above 0 the term or one before it has infinite coefficients;
    effect, the design effect, see `design_effect`; f, the deviance over df and
    effect, its second degrees of freedom f_df (questions less rank), and
    clustered_p, by the F distribution, which are None where questions are too
    few; and n, answers.

  Raises:
    InputError: no scores, or a fit does not settle.
  """
  parts = sums(frame, score, list(dict.fromkeys(itertools.chain(*terms))))
  cells = parts.groupby('cell')[['sum', 'size']].sum().to_numpy()
  levels = parts.drop_duplicates('cell')
  design = np.full((len(cells), 1), len(cells) ** -0.5)
  last, steps = fit(design, cells), []
  for term in terms:
    code = levels.groupby(list(term), sort=False, observed=True).ngroup()
    added = independent(design, np.eye(code.max() + 1)[code])
    design, df = np.hstack([design, added]), added.shape[1]
    new = fit(design, cells)
    gain = last.deviance - new.deviance
    effect = design_effect(parts, design, df, new)
    f_df = int(parts['question'].max()) + 1 - design.shape[1]
    # Rao and Scott: repeats of a question inflate the deviance by the design
    # effect, which is estimated from few questions: F, not chi-square.
    f = gain / df / effect if effect else None
    steps.append(
      {
        'term': ':'.join(term),
        'deviance': gain,
        'df': df,
        'p': float(scipy.stats.chi2.sf(gain, df)) if df else 1.0,
        'residual': new.deviance,
        'separated': int((np.minimum(new.mu, 1 - new.mu) < _SEPARATED).sum()),
        'effect': effect,
        'f': f,
        'f_df': f_df,
        'clustered_p': f if f is None else float(scipy.stats.f.sf(f, df, f_df)),
        'n': int(cells[:, 1].sum()),
      }
    )
    last = new
  return steps


def sums(
  frame: pd.DataFrame, score: str, factors: Sequence[str]
) -> pd.DataFrame:
  """A row for each question within each cell of equal factors.

  Columns besides the factors: `cell` and `question`, from 0; `sum` of the
  scores, cut to [0, 1]; and `size`, how many. Raises InputError without scores.
  """
  # The likelihood needs sums over cells alone, which are some hundred times
  # fewer than answers; variances by questions need the sum of each question.
  scored = frame[frame[score].notna()]
  if scored.empty:
    raise core.InputError(f'no answer has a score {score!r}')
  keys = [scored[name] for name in (*factors, 'question')]
  values = scored[score].clip(0, 1).groupby(keys, observed=True)
  parts = values.agg(['sum', 'size']).astype(float).reset_index()
  cell = parts.groupby(factors, sort=False, observed=True).ngroup()
  question, _ = pd.factorize(parts['question'])
  return parts.assign(cell=cell, question=question)


def independent(basis: np.ndarray, new: np.ndarray) -> np.ndarray:
  """[C, R] orthonormal columns: what `new` adds to an orthonormal basis."""
  # Columns of combinations that were never asked depend on others.
  new = new / np.linalg.norm(new, axis=0)
  left, size, _ = np.linalg.svd(new - basis @ (basis.T @ new), False)
  return left[:, size > _RANK]


def fit(design: np.ndarray, cells: np.ndarray) -> Any:
  """A binomial model of statsmodels, fitted.

  Args:
    design: [C, R] columns.
    cells: [C, 2] successes and trials; parts of a success count.

  Raises:
    InputError: the deviance does not settle, as of separated outcomes.
  """
  # It takes ten seconds to load: only when something is fitted.
  with inputs.extra('language', 'a step-wise regression'):
    from statsmodels.genmod import generalized_linear_model as models
  ends = np.c_[cells[:, 0], cells[:, 1] - cells[:, 0]]
  with warnings.catch_warnings():
    warnings.simplefilter('ignore')  # Whether it converges is asked below.
    model = models.GLM(ends, design, models.families.Binomial())
    done = model.fit(maxiter=_STEPS)
  if not (done.converged and np.isfinite(done.deviance)):
    raise core.InputError(
      f'the regression of {len(ends)} cells on {design.shape[1]} columns has '
      f'no maximum after {_STEPS} steps; expected outcomes not separated'
    )
  return done


def design_effect(
  parts: pd.DataFrame, design: np.ndarray, df: int, done: Any
) -> float | None:
  """Mean generalised design effect of the last `df` columns, by questions.

  The mean over directions of the variance by questions over that by answers
  (Rao and Scott 1984): the trace of (variance by answers)^-1 (variance by
  questions), over df, with G / (G - R) for the few questions; None where there
  are not more questions G than columns R, or no column was added. The variance
  by questions is a sandwich A^-1 B A^-1: A is the information if answers were
  independent, B the variance of the score summed question by question.

  parts: a row for each `cell` and `question` (from 0), with the `sum` of scores
    and `size`, how many; done: the fit of the design.
  """
  from statsmodels.stats.sandwich_covariance import S_crosssection

  groups, rank = int(parts['question'].max()) + 1, design.shape[1]
  if not df or groups <= rank:
    return None
  cell = parts['cell'].to_numpy()
  off = (parts['sum'] - parts['size'] * done.mu[cell]).to_numpy()
  scores = design[cell] * off[:, None]
  bread = done.cov_params()
  spread = bread @ S_crosssection(scores, parts['question']) @ bread
  inner = np.linalg.pinv(bread[-df:, -df:]) @ spread[-df:, -df:]
  return float(np.trace(inner) / df) * groups / (groups - rank)
