"""Agreement of metrics: planted correlations, coverage, power, bad tables."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import statsmodels.api as sm

from wm import core
from wm.lab import agreement
from wm.lab.agreement import AgreementRules

QUICK = AgreementRules(draws=0)
WORLDS, PAIRS = 7, 15


def planted(
  rho, worlds=8, recipes=20, seeds=2, *, reliability=0.85, spread=0.15, seed=0
):
  """Values [W, 3, R, K]: two metrics and the control that both depend on.

  Given the control the two correlate by rho in the mean over worlds, with
  standard deviation `spread`. What is no reliable part is a seed's, and is
  shared by the metrics of one model.
  """
  draw = np.random.default_rng(seed)
  inner = np.clip(rho + spread * draw.standard_normal(worlds), -0.99, 0.99)
  z, x, y = draw.standard_normal((3, worlds, recipes))
  y = inner[:, None] * x + np.sqrt(1 - inner[:, None] ** 2) * y
  x, y = (0.5 * z + np.sqrt(0.75) * u for u in (x, y))
  true = np.stack([x, y, z], 1)[..., None]
  shared = draw.standard_normal((worlds, 1, recipes, seeds))
  noise = draw.standard_normal((worlds, 3, recipes, seeds))
  noise = np.sqrt(0.5) * (shared + noise)
  return np.sqrt(reliability) * true + np.sqrt(1 - reliability) * noise


def tidy(values, names=('x', 'y', 'z')) -> pd.DataFrame:
  """The table of values [W, M, R, K] at one level."""
  rows = [
    (f'w{w}', f'r{r:02}', 1, k, names[m], value)
    for (w, m, r, k), value in np.ndenumerate(values)
  ]
  return pd.DataFrame(rows, columns=list(agreement.COLUMNS))


def means(values) -> np.ndarray:
  """Correlations [W] of x and y given z."""
  return agreement.correlation(agreement.covariance(values))


def test_without_seeds_it_is_the_spearman_of_scipy():
  values = planted(0.4, worlds=3, seeds=1)
  for world in values:
    expected = scipy.stats.spearmanr(world[0, :, 0], world[1, :, 0]).statistic
    cov = agreement.covariance(world[:2])
    assert agreement.correlation(cov) == pytest.approx(expected, abs=1e-12)


def test_the_partial_correlation_is_that_of_residuals_of_ranks():
  world = planted(0.4, worlds=1, seeds=1)[0]
  world[0, 3] = world[0, 4]  # A tie.
  x, y, z = scipy.stats.rankdata(world[..., 0], axis=1)
  left = [sm.OLS(side, sm.add_constant(z)).fit().resid for side in (x, y)]
  expected = scipy.stats.pearsonr(*left).statistic
  assert means(world) == pytest.approx(expected, abs=1e-12)


def test_disattenuation_by_seeds_undoes_noise_that_a_seed_shares():
  noisy = planted(0.0, 300, 30, reliability=0.6, spread=0.0)
  noisy = means(noisy)
  assert np.nanmean(noisy) == pytest.approx(0, abs=0.06)
  naive = means(planted(0.0, 300, 30, reliability=0.6, spread=0.0)[..., :1])
  assert naive.mean() > 0.12  # What a seed does to both looks like agreement.
  for rho in (-0.5, 0.3, 0.7):
    many = means(planted(rho, 60, 400, reliability=0.6, spread=0.0))
    expected = 6 / np.pi * np.arcsin(rho / 2)  # Of normal variables.
    assert many.mean() == pytest.approx(expected, abs=0.04)


def test_planted_pairs_are_told_apart():
  draw = np.random.default_rng(1)
  values = planted(0.9, spread=0.0, reliability=0.95, seed=3)
  loner = draw.standard_normal((8, 1, 20, 1)) + np.zeros((8, 1, 20, 2))
  loner = loner + 0.1 * draw.standard_normal((8, 1, 20, 2))
  table = tidy(np.concatenate([values, loner], 1), ('x', 'y', 'z', 'u'))
  pairs = agreement.pairs_of(['x', 'y', 'u'])
  assert pairs == [('x', 'y'), ('x', 'u'), ('y', 'u')]
  same, other, third = agreement.agreements(
    table, pairs, 'z', AgreementRules(draws=200)
  )
  assert same.verdict == agreement.RELATED
  assert same.mean.value > 0.75
  assert same.mean.high <= 1
  assert same.bootstrap[0] < same.mean.value < same.bootstrap[1] <= 1
  assert {other.verdict, third.verdict} <= {
    agreement.UNRELATED,
    agreement.UNDECIDED,
  }
  assert len(same.by_world) == 8
  assert not same.missing


def test_equivalence_needs_narrow_intervals():
  many = tidy(planted(0.0, worlds=12, recipes=150, spread=0.02))
  (wide,) = agreement.agreements(many, [('x', 'y')], 'z', QUICK)
  assert wide.verdict == agreement.UNRELATED
  assert wide.absent < 0.025 < wide.p
  none = AgreementRules(draws=0, margin=0.0)
  (strict,) = agreement.agreements(many, [('x', 'y')], 'z', none)
  assert strict.verdict == agreement.UNDECIDED


def test_holm_multiplies_the_smallest_p_by_the_number_of_pairs():
  table = tidy(planted(0.6))
  (alone,) = agreement.agreements(table, [('x', 'y')], 'z', QUICK)
  three = [('x', 'y'), ('y', 'x'), ('x', 'y')]
  several = agreement.agreements(table, three, 'z', QUICK)
  assert several[0].p == pytest.approx(min(3 * alone.p, 1))
  assert alone.p == pytest.approx(
    scipy.stats.ttest_1samp(list(alone.by_world.values()), 0).pvalue
  )


def test_levels_and_seeds_of_a_recipe_are_drawn_together():
  """Copies of all recipes at other levels leave the interval as it was."""
  once = tidy(planted(0.5))
  copies = [once.assign(level=level) for level in (1, 2, 3)]
  (item,) = agreement.agreements(once, [('x', 'y')], 'z')
  (three,) = agreement.agreements(pd.concat(copies), [('x', 'y')], 'z')
  assert three.mean.value == pytest.approx(item.mean.value)
  assert three.bootstrap == pytest.approx(item.bootstrap)


def test_a_metric_of_the_last_level_is_compared_at_that_level():
  first = tidy(planted(0.5, seed=1))
  last = tidy(planted(0.5, seed=2)).assign(level=2)
  both = pd.concat([first[first.metric != 'y'], last])
  mixed, alone = (
    agreement.agreements(table, [('x', 'y')], 'z', QUICK)[0].mean.value
    for table in (both, last)
  )
  assert mixed == alone


def test_worlds_that_do_not_count_say_why():
  values = planted(0.5)
  values[0, 0, 5:] = np.nan
  values[1, 1] = 2.0
  values[2, 0, :, 1] = -values[2, 0, :, 0]
  (each,) = agreement.agreements(tidy(values), [('x', 'y')], 'z', QUICK)
  assert each.missing['w0'] == '5 of 8 recipes'
  assert each.missing['w1'] == 'all recipes have one value'
  assert each.missing['w2'].startswith('seeds correlate by')
  assert len(each.by_world) == 5
  values[3:5, 1] = 2.0
  (each,) = agreement.agreements(tidy(values), [('x', 'y')], 'z', QUICK)
  assert each.verdict == agreement.UNTESTED
  assert (each.p, each.absent, each.mean.low) == (1, 1, None)


def test_a_control_that_is_the_metric_leaves_nothing():
  values = planted(0.5)
  values[:, 2] = values[:, 0]
  (each,) = agreement.agreements(tidy(values), [('x', 'y')], 'z', QUICK)
  assert set(each.missing.values()) == {'the control determines a metric'}


def test_bad_tables_are_refused():
  table = tidy(planted(0.5, worlds=2))
  with pytest.raises(core.InputError, match="no column 'seed'"):
    agreement.agreements(table.drop(columns='seed'), [('x', 'y')])
  with pytest.raises(core.InputError, match='two values of w0, r00, 1, 0, x'):
    agreement.agreements(pd.concat([table, table[:1]]), [('x', 'y')])


def test_a_value_is_scaled_from_untrained_to_the_ceiling():
  assert agreement.scaled(0.6, 0.2, 1.0) == pytest.approx(0.5)
  assert agreement.scaled(0.5, 2.0, 0.0) == pytest.approx(0.75)  # A loss.
  assert np.isnan(agreement.scaled(0.5, 1.0, 1.0))


def test_added_r2_is_that_of_a_regression_by_hand():
  draw = np.random.default_rng(0)
  z, x, u = draw.standard_normal((3, 8, 20, 2)).mean(-1)
  z, x, u = (v[..., None] + np.zeros(2) for v in (z, x, u))
  y = z + 2 * x + 0.1 * draw.standard_normal(x.shape)
  table = tidy(np.stack([y, z, x, u], 1), ('y', 'z', 'x', 'u'))
  tells, idle = agreement.added(table, ['x', 'u'], 'z', 'y', QUICK)
  assert tells.mean.low > 0.5
  assert tells.p < 0.001
  assert abs(idle.mean.value) < 0.1
  ranks = [scipy.stats.rankdata(v.mean(-1), axis=1) for v in (y, z, x)]
  ranks = [scipy.stats.zscore(v, 1) for v in ranks]
  fit = sm.OLS(
    ranks[0][1:].ravel(), np.stack([v[1:].ravel() for v in ranks[1:]], 1)
  ).fit()
  plain = sm.OLS(ranks[0][1:].ravel(), ranks[1][1:].ravel()).fit()
  both = [
    1 - ((ranks[0][0] - guess) ** 2).sum() / (ranks[0][0] ** 2).sum()
    for guess in (
      fit.predict(np.stack([v[0] for v in ranks[1:]], 1)),
      plain.predict(ranks[1][0]),
    )
  ]
  assert tells.by_world['w0'] == pytest.approx(both[0] - both[1])


def studies(rho: float, recipes: int = 20, number: int = 2000) -> np.ndarray:
  """Correlations [N, 7] of many studies of 7 worlds."""
  values = planted(rho, WORLDS * number, recipes, seed=7)
  values = means(values).reshape(number, WORLDS)
  return values[~np.isnan(values).any(1)]


def halves(values: np.ndarray) -> np.ndarray:
  """Half-widths [N] of Student's t over worlds [N, 7]."""
  error = values.std(1, ddof=1) / np.sqrt(WORLDS)
  return error * scipy.stats.t.ppf(0.975, WORLDS - 1)


def test_intervals_over_worlds_hold_the_truth_in_19_of_20_studies():
  for rho in (0.0, 0.5):
    values = studies(rho)
    truth = means(planted(rho, 40, 2000, seed=9)).mean()
    covered = (np.abs(values.mean(1) - truth) <= halves(values)).mean()
    assert 0.93 < covered < 0.965, (rho, covered)


def test_a_trend_over_cells_is_spearmans_with_an_exact_p():
  cells = pd.DataFrame(
    {'mean': [0.1, 0.2, 0.3, 0.4, 0.9], 'correlation': [-1, -0.5, 0.1, 0.0, 1]}
  )
  rho, p = agreement.trend(cells)
  assert rho == pytest.approx(0.9)
  # Of 120 orders, one has 1 and four have .9.
  assert p == pytest.approx(5 / 120)
  none = cells.assign(correlation=[np.nan, np.nan, np.nan, 0, 1])
  assert np.isnan(agreement.trend(none)).all()


def test_a_cell_in_which_a_metric_is_constant_has_no_correlation():
  table = pd.DataFrame(
    {
      'world': list('aaabbb'),
      'level': 1,
      'first': [1.0, 2, 3, 1, 1, 1],
      'second': [0.3, 0.2, 0.1, 0.1, 0.2, 0.6],
    }
  )
  cells = agreement.by_cell(table, ['world', 'level']).set_index('world')
  assert cells.correlation['a'] == -1
  assert np.isnan(cells.correlation['b'])
  assert cells['mean']['b'] == pytest.approx(0.3)
  assert (cells.models == 3).all()
