"""Agreement of metrics over models: do two of them measure the same thing?

The data are a tidy table with the columns world, recipe, level, seed, metric
and value: a recipe is a family, size and amount of data, a level is how long it
was trained. In each world, metrics are correlated over recipes by ranks
(Spearman 1904, American Journal of Psychology 15), given a control such as the
excess loss. The estimand is the mean of these correlations over worlds, with
Student's interval over worlds; a bootstrap of recipes, which are drawn together
with all their levels and seeds, checks it.

Training seeds are replicates. Covariances are taken between different seeds
alone, so that neither the noise of a seed nor its common effect on both metrics
of one model counts. This is the correction for attenuation (Spearman 1904) with
the correlation between seeds as the reliability.

`added` measures how well a metric predicts a criterion beyond the control: the
R2 in a world that the regression has not used, minus that of the control alone.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import scipy.stats

from wm import core
from wm.evaluation import comparisons, statistics
from wm.evaluation.comparisons import Difference

COLUMNS = 'world', 'recipe', 'level', 'seed', 'metric', 'value'
RELATED, UNRELATED, UNDECIDED, UNTESTED = (
  *('related', 'unrelated', 'undecided'),
  'not tested',
)
# One-sided, as the two-sided interval of 95 %.
ALPHA = (1 - statistics.LEVEL) / 2
_NO_SPREAD = 1e-9


@dataclasses.dataclass(frozen=True)
class AgreementRules:
  """Rules that are fixed before the data.

  Attributes:
    margin: a mean correlation within -margin and margin counts as none.
    least_reliability: correlation between seeds below which a metric has no
      correlation in a world.
    fewest_recipes: fewest measured recipes of a world that counts.
    fewest_worlds: fewest worlds that count for testing a pair.
    draws: draws of the bootstrap; 0 leaves it out.
    seed: seed of these draws.
  """

  margin: float = 0.2
  least_reliability: float = 0.3
  fewest_recipes: int = 8
  fewest_worlds: int = 5
  draws: int = 1000
  seed: int = 0


RULES = AgreementRules()


class MetricAgreement(NamedTuple):
  """The correlation of two metrics over models.

  Attributes:
    metrics: the two metrics.
    mean: mean over worlds, with Student's interval and p.
    by_world: world -> the correlation there.
    missing: world -> reason why it has none.
    bootstrap: 95 % interval over recipes; None without bootstrap.
    p, absent: p values of a correlation other than 0, and of one within the
      margin; both are adjusted by Holm for the pairs asked for.
    verdict: RELATED, UNRELATED, UNDECIDED or UNTESTED.
  """

  metrics: tuple[str, str]
  mean: Difference
  by_world: Mapping[str, float]
  missing: Mapping[str, str]
  bootstrap: tuple[float, float] | None
  p: float
  absent: float
  verdict: str = UNTESTED


class Added(NamedTuple):
  """A metric's prediction of the criterion beyond the control.

  Attributes:
    metric: name of the metric.
    mean: mean added R2 over left-out worlds, with Student's interval.
    by_world: world -> added R2 there.
    missing: world -> reason why it has none.
    p: p value of an added R2 of 0, adjusted by Holm for the metrics.
  """

  metric: str
  mean: Difference
  by_world: Mapping[str, float]
  missing: Mapping[str, str]
  p: float


def scaled(value: float, untrained: float, ceiling: float) -> float:
  """A value on the scale from an untrained model (0) to the ceiling (1).

  NaN if the two are equal, because nothing can be learned then.
  """
  span = ceiling - untrained
  if abs(span) <= _NO_SPREAD * max(abs(ceiling), abs(untrained), 1.0):
    return float('nan')
  return (value - untrained) / span


def check(table: pd.DataFrame) -> None:
  """Raises InputError for a table without a column, or with a cell twice."""
  for name in COLUMNS:
    if name not in table:
      raise core.InputError(
        f'the table has no column {name!r}; expected {", ".join(COLUMNS)}'
      )
  cells = table[[*COLUMNS[:-1]]]
  if cells.duplicated().any():
    first = cells[cells.duplicated()].iloc[0]
    raise core.InputError(
      f'the table has two values of {", ".join(map(str, first))}; expected one'
    )


def array(table: pd.DataFrame, metrics: Sequence[str]) -> np.ndarray:
  """Values [M, R, V, K] of one world: metric, recipe, level and seed.

  NaN for a missing value. Levels are those at which each of the metrics has
  been measured at all.
  """
  rows = table[table.metric.isin(metrics) & table.value.notna()]
  levels = [set(rows.level[rows.metric == name]) for name in metrics]
  shared = set.intersection(*levels) if levels else set()
  # A level at which one metric was never asked compares nothing.
  rows = rows[rows.level.isin(shared)]
  names = [sorted(rows[c].unique()) for c in ('recipe', 'level', 'seed')]
  axes = [list(metrics), *names]
  values = np.full([len(axis) for axis in axes], np.nan)
  columns = rows.metric, rows.recipe, rows.level, rows.seed
  places = tuple(
    np.array([axis.index(x) for x in column], int)
    for axis, column in zip(axes, columns, strict=True)
  )
  values[places] = rows.value
  return values


def covariance(values: np.ndarray) -> np.ndarray:
  """Rank covariances [..., M, M] of values [..., M, P, K] of P points, K seeds.

  Ranks of each seed have mean 0 and variance 1. With several seeds these are
  covariances between different ones, so that the diagonal is the reliability of
  a seed. NaN where all points of a metric are equal.
  """
  points, seeds = values.shape[-2:]
  # Ranks, as metrics have different scales and saturate.
  ranks = scipy.stats.rankdata(values, axis=-2)
  ranks -= ranks.mean(-2, keepdims=True)
  spread = ranks.std(-2, keepdims=True)
  with np.errstate(invalid='ignore', divide='ignore'):
    ranks = np.where(spread > 0, ranks / spread, np.nan)
  # The sum over pairs of different seeds is that over all pairs less the same
  # ones: noise that one seed puts into two metrics cancels.
  total = ranks.sum(-1)
  every = np.einsum('...mp,...np->...mn', total, total)
  if seeds == 1:
    return every / points
  same = np.einsum('...mpk,...npk->...mn', ranks, ranks)
  return (every - same) / (points * seeds * (seeds - 1))


def correlation(covariances: np.ndarray, least: float = 0.0) -> np.ndarray:
  """Correlations [...] of the first two, given the third one if there is one.

  Args:
    covariances: [..., 2, 2] or [..., 3, 3], of `covariance`.
    least: reliability below which there is none.

  Returns:
    From -1 to 1; NaN where a reliability is too small, or where the third one
    determines the others.
  """
  diagonal = np.einsum('...mm->...m', covariances)
  with np.errstate(invalid='ignore', divide='ignore'):
    reliable = (diagonal > max(least, _NO_SPREAD)).all(-1)
    roots = np.sqrt(np.where(reliable[..., None], diagonal, np.nan))
    r = covariances / (roots[..., :, None] * roots[..., None, :])
    value = r[..., 0, 1]
    if covariances.shape[-1] == 3:
      # r_xy.z = (r_xy - r_xz r_yz) / sqrt((1 - r_xz^2) (1 - r_yz^2)).
      left = 1 - r[..., :2, 2] ** 2
      free = (left > _NO_SPREAD).all(-1)
      left = np.where(free[..., None], left, np.nan)
      value = value - r[..., 0, 2] * r[..., 1, 2]
      value = value / np.sqrt(left.prod(-1))
  return np.clip(value, -1, 1)


def _complete(values: np.ndarray) -> np.ndarray:
  """Values [M, R, V, K] of the recipes that lack none."""
  return values[:, ~np.isnan(values).any((0, 2, 3))]


def _why_not(values: np.ndarray, rules: AgreementRules) -> str:
  """Why complete values have no correlation; '' where they may have one."""
  num = values.shape[1]
  if not values.size or num < rules.fewest_recipes:
    return f'{num} of {rules.fewest_recipes} recipes'
  # Levels of a recipe are points of their own; the recipe is the cluster.
  flat = values.reshape(len(values), -1, values.shape[-1])
  reliability = np.diagonal(covariance(flat))
  if np.isnan(reliability).any():
    return 'all recipes have one value'
  if reliability.min() <= rules.least_reliability:
    return f'seeds correlate by {reliability.min():.2f}'
  return ''


def in_world(
  table: pd.DataFrame, metrics: Sequence[str], rules: AgreementRules = RULES
) -> tuple[float, str, np.ndarray]:
  """The correlation of two metrics in a world, given a third if there is one.

  Args:
    table: rows of one world.
    metrics: two, or two and the control.
    rules: which values count.

  Returns:
    The correlation, NaN where there is none; why there is none; and draws of
    the bootstrap [B] over recipes, NaN where a draw has none.
  """
  values = _complete(array(table, metrics))
  empty = np.full(rules.draws, np.nan)
  if why := _why_not(values, rules):
    return float('nan'), why, empty
  num = values.shape[1]
  flat = values.reshape(len(values), -1, values.shape[-1])
  value = float(correlation(covariance(flat), rules.least_reliability))
  if np.isnan(value):
    return value, 'the control determines a metric', empty
  # The same numbers in each world draw the same recipes, where none is missing.
  uniform = np.random.default_rng(rules.seed).random((rules.draws, num))
  # A recipe is drawn with all its levels and seeds.
  drawn = np.moveaxis(values[:, (uniform * num).astype(int)], 0, 1)
  drawn = drawn.reshape(rules.draws, *flat.shape)
  return value, '', correlation(covariance(drawn))


def over_worlds(by_world: Mapping[str, float], fewest: int) -> Difference:
  """The mean over worlds compared with 0; no interval for too few worlds."""
  values = list(by_world.values())
  if not values:
    return Difference(None, None, None, None, 0, 0)
  # Worlds are the sample: they bind, not seeds.
  mean = comparisons.mean(values)
  difference = comparisons.of_means(mean, comparisons.number(0.0))
  # Student's t of two or three worlds would be wide, and not normal.
  if len(values) < fewest:
    return Difference(mean.value, None, None, None, len(values), len(values))
  return difference


def agreements(
  table: pd.DataFrame,
  pairs: Sequence[tuple[str, str]],
  control: str | None = None,
  rules: AgreementRules = RULES,
) -> list[MetricAgreement]:
  """Correlations of the metrics of each pair, corrected for all pairs.

  Args:
    table: see the module.
    pairs: of metrics.
    control: metric that is held constant; None is none.
    rules: fixed before the data.

  Raises:
    InputError: a bad table.
  """
  check(table)
  worlds = dict(list(table.groupby('world')))
  results = []
  for pair in pairs:
    names = [*pair] if control is None else [*pair, control]
    each = {w: in_world(rows, names, rules) for w, rows in worlds.items()}
    by_world = {w: value for w, (value, why, _) in each.items() if not why}
    missing = {w: why for w, (_, why, _) in each.items() if why}
    mean = _bounded(over_worlds(by_world, rules.fewest_worlds))
    draws = np.array([each[w][2] for w in by_world])
    results.append(
      MetricAgreement(
        *(pair, mean, by_world, missing, _bootstrap(draws)),
        1.0 if mean.p is None else mean.p,
        comparisons.absent(mean, rules.margin),
      )
    )
  p, absent = (
    comparisons.holm([getattr(each, name) for each in results])
    for name in ('p', 'absent')
  )
  return [
    each._replace(p=a, absent=b, verdict=_verdict(each.mean, a, b))
    for each, a, b in zip(results, p, absent, strict=True)
  ]


def _bounded(mean: Difference) -> Difference:
  """Cuts an interval to [-1, 1], the range of correlations."""
  if mean.low is None or mean.high is None:
    return mean
  return mean._replace(low=max(mean.low, -1.0), high=min(mean.high, 1.0))


def _verdict(mean: Difference, p: float, absent: float) -> str:
  if mean.p is None:
    return UNTESTED
  # Of a correlation that is shown to be small, its being small is said.
  if absent <= ALPHA:
    return UNRELATED
  return RELATED if p <= 2 * ALPHA else UNDECIDED


def _bootstrap(draws: np.ndarray) -> tuple[float, float] | None:
  """Ends of the interval of draws [W, B]; None without draws."""
  draws = draws[:, ~np.isnan(draws).any(0)] if draws.size else draws
  if not draws.size:
    return None
  low, high = np.quantile(draws.mean(0), [ALPHA, 1 - ALPHA])
  return float(low), float(high)


def pairs_of(metrics: Sequence[str]) -> list[tuple[str, str]]:
  """All pairs of metrics."""
  return list(itertools.combinations(metrics, 2))


def by_cell(table: pd.DataFrame, cells: Sequence[str]) -> pd.DataFrame:
  """Correlates two metrics over the models of each cell.

  Args:
    table: a row for each model, with columns `cells`, `first` and `second`.
    cells: columns by which models are put together, such as world and level.

  Returns:
    A row for each cell: `cells`; models; mean, of `second`; correlation,
    Spearman's of the two, NaN where either is constant.
  """
  rows = []
  for of, models in table.dropna().groupby([*cells], sort=False):
    varied = models[['first', 'second']].nunique().min() > 1
    rho = models['first'].corr(models.second, 'spearman') if varied else np.nan
    rows.append((*of, len(models), models.second.mean(), rho))
  columns = [*cells, 'models', 'mean', 'correlation']
  return pd.DataFrame(rows, columns=columns)


def trend(cells: pd.DataFrame) -> tuple[float, float]:
  """Whether two metrics agree more in cells with a higher mean of the second.

  Args:
    cells: from `by_cell`; rows without a correlation do not count.

  Returns:
    Spearman's correlation, over cells, of mean and correlation; and its p, one-
    sided, by all permutations or PERMUTATIONS random ones. NaN of fewer than
    three cells.
  """
  cells = cells.dropna()
  if len(cells) < 3:
    return float('nan'), float('nan')

  # Spearman's correlation is that of standardised ranks.
  mean, rho = (
    scipy.stats.zscore(scipy.stats.rankdata(cells[name]))
    for name in ('mean', 'correlation')
  )
  tested = scipy.stats.permutation_test(
    (mean,),
    lambda x, axis: (x * rho).mean(axis),
    permutation_type='pairings',
    vectorized=True,
    n_resamples=comparisons.PERMUTATIONS,
    alternative='greater',
    rng=np.random.default_rng(0),
  )
  return float(tested.statistic), float(tested.pvalue)


def of_worlds(cells: pd.DataFrame) -> pd.DataFrame:
  """Averages the cells of each world, since they are not independent.

  cells: from `by_cell`, with a column world.
  """
  columns = ['mean', 'correlation']
  return cells.dropna().groupby('world', sort=False)[columns].mean()


def added(
  table: pd.DataFrame,
  metrics: Sequence[str],
  control: str,
  criterion: str,
  rules: AgreementRules = RULES,
) -> list[Added]:
  """How well each metric predicts the criterion in left-out worlds.

  Values are means over seeds, ranked and standardised within a world. The
  regression is fit on all other worlds; R2 is 1 - SSE / SST in the world that
  was left out.

  Args:
    table: see the module.
    metrics: names.
    control: metric that is in both regressions.
    criterion: the predicted quantity.
    rules: fixed before the data.

  Raises:
    InputError: a bad table.
  """
  check(table)
  worlds = dict(list(table.groupby('world')))
  results = []
  for name in metrics:
    scores, missing = {}, {}
    for world, rows in worlds.items():
      values = _complete(array(rows, [criterion, control, name]))
      why = _why_not(values, dataclasses.replace(rules, least_reliability=-1))
      if why:
        missing[world] = why
        continue
      means = values.mean(-1).reshape(3, -1)
      scores[world] = scipy.stats.zscore(scipy.stats.rankdata(means, axis=1), 1)
    by_world = {
      world: _r2(scores, world, 3) - _r2(scores, world, 2)
      for world in scores
      if len(scores) > 1
    }
    mean = over_worlds(by_world, rules.fewest_worlds)
    p = 1.0 if mean.p is None else mean.p
    results.append(Added(name, mean, by_world, missing, p))
  p_values = comparisons.holm([each.p for each in results])
  return [each._replace(p=p) for each, p in zip(results, p_values, strict=True)]


def _r2(scores: Mapping[str, np.ndarray], world: str, rows: int) -> float:
  """R2 in a world of the regression of row 0 on rows 1 up to `rows`."""
  others = np.concatenate([x for w, x in scores.items() if w != world], 1)
  slopes = np.linalg.lstsq(others[1:rows].T, others[0], rcond=None)[0]
  left_out = scores[world]
  error = left_out[0] - slopes @ left_out[1:rows]
  return 1 - float(error @ error) / float(left_out[0] @ left_out[0])
