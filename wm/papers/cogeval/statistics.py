"""Statistics of scored answers by questions: means, contrasts and regressions.

Answers are rows with the columns `graph`, `domain`, `condition`, `model`,
`temperature`, `repeat`, `group` (of conditions) and `question`, which names
what was asked. A model that is asked 30 times says much the same, most of all
at temperature 0: repeats of a question are a cluster, and intervals, standard
errors and tests go by questions.

Regressions are binomial. Answers are summed over cells of equal factors:
successes of trials. Nested models are compared by their deviances, and degrees
of freedom are differences of rank, so that combinations which were never asked
do not count. Sums over cells and single answers give the same differences, and
different residuals.

Where a combination of factors has no success, or no failure, in the right
pattern of cells, the data are separated: coefficients run away, and iterations
end wherever their tolerance says. Separation is found exactly, as in Konis
(2007), by a linear program; its cells are reproduced in the limit, so the
greatest likelihood is that of all other cells (Correia, Guimaraes and Zylkin
2019). It is always reported; coefficients of separated data are Firth's (1993,
Biometrika 80), which are finite.
"""

from __future__ import annotations

import types
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import patsy
import scipy
import statsmodels.api as sm

from wm import core
from wm.core import basics, inputs
from wm.evaluation import comparisons
from wm.evaluation.statistics import resample
from wm.language.pages import cluster_mean, ordered
from wm.papers import declared, reports
from wm.worlds.cognitive_graph import graphs, questions

# The paper's three domains; those that it left out are not in its tables.
DOMAINS = ('ordRooms', 'unordSpatial', 'socialTies')
MODELS = declared('cogeval', 'report.toml')['models']
# Table 2 is of eight.
EIGHT = tuple(name for name in MODELS if name != 'forefront-pythia-20b')
# Graph -> the paper's letter.
LETTERS = {name: letter for letter, name in graphs.LETTERS.items()}
COT = 'CoT'  # In the table of May 2023, for '...Shortest'.
GROUP = questions.GROUP | {
  f'{where}teleShortcutCoT': 'Shortcut' for where in ('', 'non')
}


def label(model: object) -> str:
  """A model as the paper has it."""
  return MODELS.get(str(model), str(model))


def models_of(frame: pd.DataFrame) -> list[str]:
  """Models of some answers: the paper's in its order, then others."""
  return ordered(frame['model'].astype(str), MODELS)


def of_paper(
  frame: pd.DataFrame,
  models: Sequence[str] = EIGHT,
  *,
  cot: bool = False,
) -> pd.DataFrame:
  """Rows of the paper's design: its models, domains, graphs and groups.

  cot: also the two conditions that the paper calls chain of thought, where the
    word 'shortest' is added.
  """
  left_out = ['', 'Clusters']
  design = (
    frame['model'].isin(models)
    & frame['domain'].isin(DOMAINS)
    & frame['graph'].isin(LETTERS)
    & ~frame['group'].isin(left_out)
  )
  if not cot:
    design &= ~frame['condition'].astype(str).str.endswith((COT, 'Shortest'))
  return frame[design]


# Whose repeats are alike: answers of one model at one temperature.
REPEATED = 'question', 'model', 'temperature'
_DRAWS = 1_999


def intraclass(
  frame: pd.DataFrame, score: str, by: Sequence[str] = REPEATED
) -> dict[str, Any]:
  """Correlation and design effect of the repeats of one question.

  Args:
    frame: an answer a row; leave out questions that differ from repeat to
      repeat.
    score: name of the column of scores, cut to [0, 1].
    by: columns whose combinations are cells.

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
  keys = [scored[name] for name in by]
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


def bootstrap(
  frame: pd.DataFrame, score: str, seed: int = 0, draws: int = _DRAWS
) -> np.ndarray:
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
  counts = resample(len(totals), seed, np.arange(draws))
  return (counts @ totals) / (counts @ weights)


def contrast(
  first: pd.DataFrame, second: pd.DataFrame, score: str, seed: int = 0
) -> dict[str, float]:
  """Do answers to other questions score higher? Each is resampled by itself.

  Returns:
    Means `first` and `second`; difference, of second over first; low and high,
    95 %, percentiles of the bootstrap over questions; p, two-sided, twice the
    share of resamples on the other side of 0; and questions, of both.
  """
  parts = [frame[frame[score].notna()] for frame in (first, second)]
  old, new = (float(part[score].clip(0, 1).mean()) for part in parts)
  drawn = bootstrap(second, score, seed + 1) - bootstrap(first, score, seed)
  low, high = np.quantile(drawn, [0.025, 0.975])
  # One is added to either count, so that no p is 0 with few resamples.
  tail = min((drawn <= 0).sum(), (drawn >= 0).sum())
  return {
    'first': old,
    'second': new,
    'difference': new - old,
    'low': float(low),
    'high': float(high),
    'p': min(2 * (1 + int(tail)) / (1 + len(drawn)), 1.0),
    'questions': sum(part['question'].nunique() for part in parts),
  }


def pairs(
  frame: pd.DataFrame,
  score: str,
  models: Sequence[str] | None = None,
  seed: int = 0,
  draws: int = _DRAWS,
) -> list[dict[str, Any]]:
  """Compares all pairs of models on what both were asked.

  models: in order; None is all of the frame's. Pairs with no question in
    common are left out.

  Returns:
    Names `first` and `second`; mean, a ClusterMean by questions of the score of
    second less that of first, each question at each temperature counting once;
    p, two-sided, of signs of the questions' differences flipped at random; and
    adjusted, the same for all pairs together (Holm).
  """
  scored = frame[frame[score].notna()]
  scored = scored.assign(**{score: scored[score].clip(0, 1)})
  asked = np.unique(scored['question'])
  signs = _signs(len(asked), seed, draws)
  compared: list[dict[str, Any]] = []
  keys = 'question', 'temperature'
  for first, second, both in reports.paired(scored, score, keys, models):
    gap = (both[second] - both[first]).to_numpy(float)
    code = np.searchsorted(asked, both.index.get_level_values(0))
    # Models that are as good give signs at random, one for each question.
    totals = np.bincount(code, gap, len(asked))
    beyond = np.abs(signs @ totals) >= abs(totals.sum()) - 1e-9
    mean = cluster_mean(gap, code, (-1.0, 1.0))
    p = float((1 + beyond.sum()) / (1 + draws))
    compared.append({'first': first, 'second': second, 'mean': mean, 'p': p})
  for pair, p in zip(
    compared, comparisons.holm([pair['p'] for pair in compared]), strict=True
  ):
    pair['adjusted'] = p
  return compared


def _signs(num: int, seed: int, draws: int) -> np.ndarray:
  """[B, G] float64 of -1 and 1, a pure function of the integers."""
  bits = basics.hash64(seed, np.arange(draws)[:, None], np.arange(num))
  return np.where(bits >> np.uint64(63), 1.0, -1.0)


Term = tuple[str, ...]

# Momennejad et al. 2023, table 2, in its order.
TERMS: tuple[Term, ...] = (
  *(('model',), ('graph',), ('domain',), ('temperature',), ('group',)),
  *(('model', 'temperature'), ('graph', 'domain'), ('graph', 'group')),
  *(('domain', 'group'), ('graph', 'domain', 'group')),
)

_RANK = 1e-9  # Of a column's length: below it, columns depend on others.
_TOLERANCE = 1e-10
_STEPS = 100


class Cells(NamedTuple):
  """Answers summed over factors; C cells.

  Attributes:
    factors: [C] rows, a column for each factor; the first category of each is
      the reference.
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


def cells(
  frame: pd.DataFrame,
  score: str,
  factors: Sequence[str],
  references: Mapping[str, Any] = types.MappingProxyType({}),
) -> Cells:
  """Sums scores over cells of equal factors.

  Args:
    frame: an answer a row, with a column for each factor, `question` and the
      score; rows without a score are left out, scores are cut to [0, 1].
    score: name of the column.
    factors: names of columns.
    references: factor -> its reference; by default the first when sorted.

  Raises:
    InputError: no factor is named, no row has a score, or no row a reference.
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
    pd.DataFrame(
      {name: _levels(rows[name], references.get(name)) for name in factors}
    ),
    np.bincount(cell, parts['sum']),
    np.bincount(cell, parts['size']),
    parts.assign(cell=cell, question=question),
    len(names),
  )


def _levels(values: pd.Series, reference: Any) -> pd.Categorical:
  """A factor whose first category is the reference, by default the least."""
  levels = sorted(set(values))
  if reference is not None:
    text = f'{values.name} is never {reference!r}'
    inputs.check_known(reference, levels, text)
    levels.sort(key=lambda level: bool(level != reference))
  return pd.Categorical(values.tolist(), levels)


def design_of(data: Cells, terms: Sequence[Term]) -> np.ndarray:
  """[C, K] columns of a constant and terms, as patsy codes them."""
  formula = ' + '.join(['1', *(':'.join(term) for term in terms)])
  return np.asarray(patsy.dmatrix(formula, data.factors))


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


def separated(
  design: np.ndarray, successes: np.ndarray, totals: np.ndarray
) -> np.ndarray:
  """[C] bool, the cells that a binomial model reproduces in the limit alone.

  design: [C, R] of full rank.
  """
  every = successes >= totals
  mixed = ~every & (successes > 0)
  mask = np.zeros(len(totals), bool)
  # A direction that runs away moves no cell that has both outcomes: it is in
  # the null space of their rows.
  # The program has fewer variables so.
  sizes, vectors = scipy.linalg.eigh(design[mixed].T @ design[mixed])
  free = vectors[:, sizes < _RANK]
  rest = np.flatnonzero(~mixed)
  if not (free.size and rest.size):
    return mask
  moved = design[rest] @ free * np.where(every[rest], 1, -1)[:, None]
  moved[np.abs(moved) < _RANK] = 0
  num, size = moved.shape
  # Most cells that some direction moves towards what they have, and none away:
  # maximise sum(t) for 0 <= t <= 1 and t <= moved @ z.
  done = scipy.optimize.linprog(
    np.r_[np.zeros(size), -np.ones(num)],
    A_ub=scipy.sparse.hstack(
      [scipy.sparse.csr_array(-moved), scipy.sparse.eye_array(num)]
    ),
    b_ub=np.zeros(num),
    bounds=[(None, None)] * size + [(0, 1)] * num,
  )
  # A direction can be as long as one likes: each t is 0 or 1 at the optimum.
  mask[rest] = done.x[size:] > 0.5
  return mask


class Fit(NamedTuple):
  """A fitted binomial model.

  Attributes:
    deviance: residual, separated cells having none.
    mean: [C] fitted shares.
    separated: [C] bool.
  """

  deviance: float
  mean: np.ndarray
  separated: np.ndarray


def fit(design: np.ndarray, data: Cells) -> Fit:
  """Fits by reweighted least squares, separated cells aside.

  Args:
    design: [C, R] orthonormal columns.
    data: successes and totals.

  Raises:
    InputError: no maximum was found.
  """
  apart = separated(design, data.successes, data.totals)
  basis, wins, total = design, data.successes, data.totals
  if apart.all():
    return Fit(0.0, (wins >= total).astype(float), apart)
  if apart.any():
    # Their likelihood is 1 in the limit, at no cost to the other cells, which
    # may not determine all coefficients any more.
    basis = independent(np.zeros((int((~apart).sum()), 0)), design[~apart])
    wins, total = wins[~apart], total[~apart]
  done = _glm(basis, wins, total, tol=_TOLERANCE, maxiter=_STEPS)
  if not done.converged:
    raise core.InputError(
      f'the regression of {len(total)} cells on {basis.shape[1]} columns has '
      f'no maximum after {_STEPS} steps'
    )
  mean = (data.successes >= data.totals).astype(float)
  mean[~apart] = done.mu
  return Fit(float(done.deviance), mean, apart)


def _glm(
  design: np.ndarray, wins: np.ndarray, totals: np.ndarray, **settings: Any
) -> Any:
  """A binomial model of statsmodels, fitted."""
  ends = np.c_[wins, totals - wins]
  with warnings.catch_warnings():
    warnings.simplefilter('ignore')  # What does not converge is seen there.
    return sm.GLM(ends, design, sm.families.Binomial()).fit(
      wls_method='qr', **settings
    )


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
  data: Cells, design: np.ndarray, df: int, old: Fit, new: Fit
) -> dict[str, Any]:
  """The comparison of two nested fits.

  Returns:
    deviance, by which the term lowers the residual one; df, by which it raises
    the rank; p of the deviance, by chi-square, as if answers were independent;
    residual deviance; separated, cells that are reproduced in the limit alone:
    above 0 the term or one before it has infinite coefficients; effect, the
    design effect, see `design_effect`; f, the deviance over df and effect, its
    second degrees of freedom f_df (questions less rank), and clustered_p, by
    the F distribution. These are None where questions are too few.
  """
  gain = old.deviance - new.deviance
  effect = design_effect(data, design, df, new)
  f_df = data.questions - design.shape[1]
  # Rao and Scott: repeats of a question inflate the deviance by the design
  # effect, which is estimated from few questions: F, not chi-square.
  f = gain / df / effect if effect and f_df > 0 else None
  return {
    'deviance': gain,
    'df': df,
    'p': float(scipy.stats.chi2.sf(gain, df)) if df else 1.0,
    'residual': new.deviance,
    'separated': int(new.separated.sum()),
    'effect': effect,
    'f': f,
    'f_df': f_df,
    'clustered_p': None if f is None else float(scipy.stats.f.sf(f, df, f_df)),
  }


def design_effect(
  data: Cells, design: np.ndarray, df: int, done: Fit
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
  weight = data.totals * done.mean * (1 - done.mean)
  bread = np.linalg.pinv(design.T @ (design * weight[:, None]))
  spread = _by_questions(data, design, bread, done.mean)
  last = slice(design.shape[1] - df, None)
  inner = np.linalg.pinv(bread[last, last]) @ spread[last, last]
  few = (groups - 1) / (groups - design.shape[1])
  return float(np.trace(inner) / df) * few


FACTORS = 'model', 'graph', 'domain', 'temperature', 'group'
_FIRTH_STEPS, _ENOUGH = 200, 1e-8


class Regression(NamedTuple):
  """A regression on main effects.

  Attributes:
    references: factor -> the level that the others are compared with.
    coefficients: the constant, then each factor's levels in order. `factor`
      and `level`; `value`, the log odds; `naive`, the standard error as if
      answers were independent, and `error`, that by questions; where
      coefficients are Firth's, the larger of both, as questions that agree with
      a fit vary too little; `p`, two-sided, by `error` and the normal
      distribution; `adjusted`, the same for all levels of all factors together
      (Holm); and `n` answers of the level.
    firth: are they Firth's, as outcomes are separated?
    n, questions: answers and clusters.
  """

  references: dict[str, Any]
  coefficients: list[dict[str, Any]]
  firth: bool
  n: int
  questions: int


def regression(
  frame: pd.DataFrame,
  score: str,
  factors: Sequence[str] = FACTORS,
  references: dict[str, Any] | None = None,
) -> Regression:
  """Regresses scores on levels of factors, by maximum likelihood.

  Where outcomes are separated that has no maximum: coefficients are then
  Firth's (1993), which are finite.

  Args:
    frame: an answer a row, see `cells`.
    score: name of the column of scores.
    factors: names of columns; one with a single level is left out.
    references: see `cells`.

  Raises:
    InputError: no scores, an unknown level, or factors that tell each other.
  """
  varied = [name for name in factors if frame[name].nunique() > 1]
  data = cells(frame, score, varied, references or {})
  design = design_of(data, [(name,) for name in varied])
  basis = independent(np.zeros((len(design), 0)), design)
  if basis.shape[1] < design.shape[1]:
    raise core.InputError(
      f'{", ".join(varied)}: {design.shape[1]} coefficients, of which '
      f'{basis.shape[1]} can be told apart; leave out a factor'
    )
  # With separated cells the greatest likelihood has infinite coefficients, and
  # what a program prints for them is where it stopped.
  firth = bool(separated(basis, data.successes, data.totals).any())
  values, naive, mean = (_firth if firth else _greatest)(design, data)
  alone = np.sqrt(np.diag(naive))
  spread = np.diag(_by_questions(data, design, naive, mean))
  errors = np.sqrt(np.maximum(spread, 0))  # Rounding may be below 0.
  errors = np.maximum(errors, alone) if firth else errors
  with np.errstate(divide='ignore', invalid='ignore'):
    p = 2 * scipy.stats.norm.sf(np.abs(values) / errors)
  levels = {name: data.factors[name].cat.categories for name in varied}
  counts = [
    np.bincount(data.factors[name].cat.codes, data.totals)[1:]
    for name in varied
  ]
  n = int(data.totals.sum())
  table = pd.DataFrame(
    {
      'factor': ['constant', *(f for f in varied for _ in levels[f][1:])],
      'level': pd.Series(
        [None, *(level for f in varied for level in levels[f][1:])],
        dtype=object,
      ),
      'value': values,
      'naive': alone,
      'error': errors,
      'p': p,
      # The paper does not ask whether the constant is 0: its p is not
      # corrected.
      'adjusted': [*p[:1], *comparisons.holm(p[1:])],
      'n': np.r_[n, *counts].astype(int),
    }
  )
  return Regression(
    {name: several[0] for name, several in levels.items()},
    table.to_dict('records'),
    firth,
    n,
    data.questions,
  )


def _greatest(
  design: np.ndarray, data: Cells
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Coefficients [R], their variance [R, R] by answers, and shares [C]."""
  done = _glm(design, data.successes, data.totals)
  return done.params, done.cov_params(), done.mu


def _firth(
  design: np.ndarray, data: Cells
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Maximises the likelihood times the root of the information (Firth).

  Raises:
    InputError: no maximum was found.
  """

  def at(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Shares [C], information [R, R] and penalised log-likelihood."""
    mean = scipy.special.expit(design @ values)
    weight = data.totals * mean * (1 - mean)
    information = design.T @ (design * weight[:, None])
    misses = data.totals - data.successes
    likelihood = scipy.special.xlogy(data.successes, mean)
    likelihood += scipy.special.xlogy(misses, 1 - mean)
    half = np.linalg.slogdet(information)[1] / 2
    return mean, information, float(likelihood.sum() + half)

  values = np.zeros(design.shape[1])
  mean, information, height = at(values)
  for _ in range(_FIRTH_STEPS):
    variance = np.linalg.inv(information)
    weight = data.totals * mean * (1 - mean)
    # The derivative of log |I| / 2, Jeffreys' prior, adds h (1/2 - p) to the
    # score of each cell: as if h / 2 more answers were right, and h / 2 wrong.
    leverage = weight * np.einsum('cr,rs,cs->c', design, variance, design)
    off = data.successes - data.totals * mean + leverage * (0.5 - mean)
    # The slope of `off`, leverages held: without them in it, steps on cells of
    # one answer each go to and fro for ever.
    slope = (data.totals + leverage) * mean * (1 - mean)
    step = np.linalg.solve(design.T @ (design * slope[:, None]), design.T @ off)
    # Halved until the penalised likelihood falls no more.
    for _ in range(30):
      new = at(values + step)
      if new[2] >= height - _ENOUGH:
        break
      step = step / 2
    values, (mean, information, height) = values + step, new
    if np.abs(step).max() < _ENOUGH:
      return values, np.linalg.inv(information), mean
  raise core.InputError(
    f"Firth's regression of {len(mean)} cells has no maximum after "
    f'{_FIRTH_STEPS} steps'
  )


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
