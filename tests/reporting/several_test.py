"""Several seeds, settings and steps in one report: rows, columns and lines."""

import json

import pytest
import scipy.stats

from tests import page_text
from tests.reporting import chart_specs
from wm.core import registry
from wm.evaluation import scoring
from wm.metrics import exactness
from wm.reporting import (
  ceilings,
  charts,
  collect,
  curves,
  model_comparison,
  sentences,
  tables,
  write,
)

PROMOTIONS = 'exactness(world="chess(policy=\'promotions\')")'


def entry(model='m', quantity='exact', value=0.5, **more) -> dict:
  known = value is not None
  return {
    **{'metric': 'exactness', 'spec': 'exactness()', 'quantity': quantity},
    **{'world': 'chess()', 'model': model, 'n': 40 if known else 0},
    **{'value': value, 'low': value and value - 0.1},
    **{'high': value and value + 0.1, 'seed': 3, 'least': 0, 'most': 1},
    **{'unmeasured': {} if known else {'not_finite': 4}, **more},
  }


def trained(model: str, seed: int, recipe='r') -> dict:
  return {
    **{'model': model, 'recipe': model + recipe, 'training_seed': seed},
    'training': f'{model}{recipe}{seed}',
  }


def run_of(tmp_path, *entries, breakdown=(), curve=(), **more) -> collect.Run:
  parts = list(entries), list(breakdown), list(curve)
  return collect.Run(tmp_path, *parts, None, **more)


def seed_runs(tmp_path, values=(0.25, 0.75), **more) -> list[collect.Run]:
  return [
    run_of(tmp_path / str(n), entry(value=x, **trained('m', n), **more))
    for n, x in enumerate(values)
  ]


# Seeds.


def test_seeds_are_a_mean_from_the_least_to_the_greatest(tmp_path):
  other = run_of(tmp_path, entry('other', value=0.125))
  first, two = seed_runs(tmp_path)
  results = collect.pooled([first, other, two])
  assert [run.name for run in results] == ['m', 'other']
  assert results[0].seeds == (0, 1)
  assert results[0].folder == first.folder
  (mean,) = results[0].entries
  assert (mean['value'], mean['low'], mean['high']) == (0.5, 0.25, 0.75)
  assert (mean['n'], mean['clusters']) == (80, 80)
  assert mean['seeds'] == (2, 2)
  table = tables.main_table(results, tables.results(results))
  assert table.rows == (
    ('m', '0.500 [0.250, 0.750], 2 seeds'),
    ('other', '0.125 [0.025, 0.225], n=40'),
  )
  assert 'has their mean [least, greatest]; the table' in table.note
  assert 'seeds' not in tables.main_table([other], tables.results([other])).note


FEW, MANY = (0.75, 0.7, 0.8), (0.5, *[0.7] * 5)
TWO, TWO_OF_MANY = (0.98, 0.2, 0.98), (*[0.1] * 3, *[0.9] * 3)
IN_TWO = 'In two modes: the seeds fall into two groups'


@pytest.mark.parametrize(
  ('values', 'expected', 'brackets'),
  [
    (FEW, '0.750 [0.700, 0.750, 0.800], 3 seeds', '[each seed]'),
    (TWO, '0.720 [0.200, 0.980, 0.980] in two modes, 3 seeds', '[each seed]'),
    (MANY, '0.667 [0.500, 0.700], 6 seeds', '[least, greatest]'),
    (
      TWO_OF_MANY,
      '0.500 [0.100, 0.100, 0.100, 0.900, 0.900, 0.900] in two modes, 6 seeds',
      '[each seed]',
    ),
  ],
)
def test_few_seeds_and_two_modes_are_shown(
  tmp_path, values, expected, brackets
):
  other = run_of(tmp_path, entry('other', value=0.125))
  runs = collect.pooled([*seed_runs(tmp_path, values), other])
  table = tables.main_table(runs, tables.results(runs))
  assert table.rows[0] == ('m', expected)
  assert "of this model's trials, not of other seeds" in table.note
  assert f'mean {brackets}; the table' in table.note
  assert (IN_TWO in table.note) == ('in two modes' in expected)


def test_what_is_clear_of_seeds_is_clear_of_each_of_their_intervals(tmp_path):
  (run,) = collect.pooled(seed_runs(tmp_path, (0.25, 0.75)))
  (pooled,) = run.entries
  assert ceilings.ends(pooled) == (0.15, 0.85)
  assert sentences.value(pooled) == '0.50 [0.15, 0.85]'
  bare = pooled | {'seed_lows': [None, 0.65], 'seed_highs': [None, 0.85]}
  assert ceilings.ends(bare) == (0.25, 0.85)
  assert ceilings.ends(entry(value=0.5)) == (0.4, 0.6)


def test_recipes_differ_by_means_over_seeds(tmp_path):
  values = {'m': (0.2, 0.3, 0.25), 'other': (0.7, 0.8, 0.75)}
  runs = [
    run_of(tmp_path, entry(value=x, **trained(model, n)))
    for model, several in values.items()
    for n, x in enumerate(several)
  ]
  together = collect.pooled(runs)
  *_, table = model_comparison.paired_tables(
    together, tables.results(together), several_seeds=True
  )
  assert table.title == 'Differences between recipes, over seeds'
  ((_, cell),) = table.rows
  # Each interval is .1 over 40 trials: no seed is surer than its trials, whose
  # variance is (.1 / t(39))^2, about the .0025 between seeds.
  t = scipy.stats.t
  mean = max(0.0025, (0.1 / t.ppf(0.975, 39)) ** 2) / 3
  half = t.ppf(0.975, 4) * (2 * mean) ** 0.5
  assert cell.startswith(f'-0.500 [{-0.5 - half:.3f}, {-0.5 + half:.3f}]')
  assert cell.endswith('n=6')
  single = collect.pooled(runs[:1] + runs[3:])
  frame = tables.results(single)
  pairs = model_comparison.paired_tables(single, frame, several_seeds=True)
  assert not pairs


def test_a_refused_interval_says_why_beside_the_median(tmp_path):
  none = dict.fromkeys(('low', 'high'))
  about = {'interval': 'too few clusters for an interval', **none}
  median = {'median': -2, 'median_low': -2.01, 'median_high': -1.99}
  run = run_of(tmp_path, entry(value=-1.95, outliers=1, **median, **about))
  ((_, cell),) = tables.main_table([run], tables.results([run])).rows
  assert cell == (
    '-1.950 (too few clusters for an interval); '
    'median -2.000 [-2.010, -1.990], outliers: 1, n=40'
  )


def test_a_seed_without_a_value_is_said(tmp_path):
  (run,) = collect.pooled(seed_runs(tmp_path, (0.25, None, 0.75)))
  ((_, cell),) = tables.main_table([run], tables.results([run])).rows
  assert cell == '0.500 [0.250, 0.750], 2 of 3 seeds, 5 % unmeasured'
  assert run.entries[0]['unmeasured'] == {'not_finite': 4}
  (run,) = collect.pooled(seed_runs(tmp_path, (None, None)))
  ((_, cell),) = tables.main_table([run], tables.results([run])).rows
  assert cell == '– (not_finite 8)'


@pytest.mark.parametrize(
  'more',
  [
    [trained('m', 0), trained('m', 0)],  # One training, scored twice.
    [trained('m', 0, 'lr=1'), trained('m', 1, 'lr=2')],
    [trained('m', 0), {**trained('m', 1), 'world': 'chess(length=9)'}],
    [trained('m', 0), {**trained('m', 1), 'model': 'n'}],
    [{}, {}],  # As older folders say it.
  ],
)
def test_what_differs_in_more_than_its_seed_stays_apart(tmp_path, more):
  runs = [
    run_of(tmp_path / str(n), entry(**about)) for n, about in enumerate(more)
  ]
  assert collect.pooled(runs) == runs
  assert len(set(tables.labels(runs))) == 2


def test_folders_of_one_name_are_told_apart_by_those_around_them(tmp_path):
  for name in ('a', 'b'):
    (tmp_path / name).mkdir()
  runs = [run_of(tmp_path / name / 'net', entry('m')) for name in 'ab']
  assert tables.labels(runs) == ['m on chess() (a/net)', 'm on chess() (b/net)']
  assert len({*tables.labels([runs[0], runs[0]])}) == 1


def test_breakdowns_are_pooled_place_by_place(tmp_path):
  runs = []
  for n in range(2):
    about = trained('m', n)
    parts = [
      entry(value=n / 4 + step / 100, where={'step': step}, **about)
      for step in (0, 20)
    ]
    runs.append(run_of(tmp_path, entry(**about), breakdown=parts))
  (run,) = collect.pooled(runs)
  assert [(e['where'], e['value']) for e in run.breakdown] == [
    ({'step': 0}, 0.125),
    ({'step': 20}, pytest.approx(0.325)),
  ]


# Settings.


def test_settings_are_columns_of_a_table_for_each_quantity(tmp_path):
  data = "exactness(num=9, data='games/human')"
  world = PROMOTIONS.replace('(', '(num=9, ', 1)
  runs = [
    run_of(
      tmp_path,
      entry(name, 'exact', 0.25, spec='exactness(num=9)'),
      entry(name, 'exact', 0.5, spec=data),
      entry(name, 'exact', 0.75, spec=world),
      entry(name, 'loss', 0.75, spec=world),
      entry(name, 'trajectory', 0.75, spec=world),
    )
    for name in ('one', 'two')
  ]
  (table,) = tables.settings_tables(tables.results(runs))
  assert table.title == 'exactness(num=9): exact'
  assert table.heads == (
    *('model', 'default', 'data=games/human'),
    "world=chess(policy='promotions')",
  )
  low = '0.250 [0.150, 0.350]'
  assert [row[:2] for row in table.rows] == [('one', low), ('two', low)]
  assert table.note == 'Value [95 % interval].'
  words = 'Of metrics with several settings it shows exactness(num=9).'
  assert words in tables.main_table(runs, tables.results(runs)).note


# Steps.


def test_a_setting_of_a_model_is_no_variant_unless_names_differ_in_it():
  names = ['a,lr=1,human', 'a,lr=1,uniform', 'b,lr=2,human', 'b,lr=2,uniform']
  looks = charts.palette(names)
  dashes = [looks[name].dash for name in names]
  assert dashes == [dashes[0], dashes[1]] * 2
  rates = charts.palette(['a,lr=1', 'a,lr=2', 'b,lr=1', 'b,lr=2'])
  assert rates['a,lr=1'].colour == rates['a,lr=2'].colour
  assert rates['a,lr=1'].dash != rates['a,lr=2'].dash


def test_a_loss_of_0_is_drawn(tmp_path):
  curve = [
    {'step': n, 'heldout_loss': loss} for n, loss in enumerate((3.0, 0.1, 0.0))
  ]
  spec = curves.draw_training([run_of(tmp_path, entry(), curve=curve)])
  assert chart_specs.encoding(spec, 'y')['scale']['type'] == 'symlog'
  assert chart_specs.rows(spec)[2]['value'] == 0.0


# All of it.


def test_a_report_over_models_data_and_seeds(tmp_path):
  world = registry.make('world', 'chess(length=120)')
  metrics = [
    exactness.Metric(num=4),
    exactness.Metric(num=4, world="chess(policy='promotions', length=120)"),
  ]
  folders = []
  for name in ('naive', 'copy_start'):
    model = registry.make('model', name).predictor(world, 0)
    for data in ('human', 'uniform'):
      for seed in (0, 1):
        label = f'{name},{data}'
        about = {k: x for k, x in trained(label, seed).items() if k != 'model'}
        folders.append(tmp_path / f'{label},{seed}')
        scoring.run(
          *(scoring.Loaded(model, world, label, about), metrics),
          **{'seed': 0, 'out': folders[-1]},
        )
        lines = [{'step': 1, 'heldout_loss': 1.0, 'heldout_exact': 0.1}]
        text = '\n'.join(map(json.dumps, lines))
        (folders[-1] / 'metrics.jsonl').write_text(text)
  out = tmp_path / 'report'
  summary = write.report(folders, out)
  text = page_text.read(out)
  assert 'training seeds 0, 1' in text
  assert text.count('| naive,human |') == text.count('| copy_start,uniform |')
  assert '## exactness(num=4): exact' in text
  assert 'Picture: exactness: exact by tokens of the sequence so far; ' in text
  assert (out / 'exactness_exact_by_step.svg').stat().st_size > 9999
  num = sum(len(json.loads((f / 'scores.json').read_text())) for f in folders)
  assert summary['results'] == num
  page = (out / 'report.html').read_text()
  assert page.count('class="chart wide"') == 3


# Thresholds of acceptance.


def curve_of(model, low, high) -> dict:
  """Breakdown of a model with two values, at .01 and at .1."""
  known = {'metric': 'compression', 'spec': 'compression(curve=True)'}
  known |= {'quantity': 'precision_by_epsilon', 'world': 'maps()'}
  return {
    'breakdown': [
      entry(model, value=value, where={'epsilon': x}, **known)
      for x, value in ((0.01, low), (0.1, high))
    ]
  }


@pytest.mark.parametrize(
  ('values', 'expected'),
  [
    ((0.3, 0.6, 0.6, 0.3), ['depends on the threshold of acceptance: a at']),
    ((0.3, 0.3, 0.6, 0.6), ['(epsilon 0.01 to 0.1): b above a']),
    ((0.3, 0.6, 0.6, 0.65), []),  # Intervals overlap at 0.1.
  ],
)
def test_an_order_of_models_holds_over_thresholds_or_not(
  tmp_path, values, expected
):
  runs = [
    run_of(tmp_path / name, entry(name), **curve_of(name, *values[k : k + 2]))
    for name, k in (('a', 0), ('b', 2))
  ]
  parts = tables.results(runs, breakdown=True)
  lines = [*sentences.threshold_notes(parts.assign(role=ceilings.TRAINED))]
  assert len(lines) == len(expected)
  for line, text in zip(lines, expected, strict=True):
    assert text in line
  # Baselines are not ranked.
  assert not [*sentences.threshold_notes(parts.assign(role=ceilings.ORACLE))]


def test_worlds_of_one_name_are_told_apart_by_what_differs():
  files = "maps(nodes='n.csv', edges='e.csv', traversal="
  specs = [f"{files}'random')", f"{files}'shortest', max_moves=9)"]
  assert tables.told_apart(specs) == {
    specs[0]: "maps(traversal='random')",
    specs[1]: "maps(traversal='shortest', max_moves=9)",
  }
  other = [specs[0], 'chess()']
  assert tables.told_apart(other) == {text: text for text in other}
  assert tables.told_apart(specs[:1]) == {specs[0]: specs[0]}
  # What has a field at its default stays apart from what has it not.
  pair = ['lattice()', 'lattice(size=3)']
  assert tables.told_apart(pair) == {pair[0]: 'lattice()', pair[1]: pair[1]}
