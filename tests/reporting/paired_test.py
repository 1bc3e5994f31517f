"""Differences of a report are those of paired trials, or none is shown."""

import dataclasses

import numpy as np
import pytest

from wm import core
from wm.core import registry
from wm.evaluation import comparisons, results
from wm.reporting import collect, model_comparison, tables

WORLD, SPEC = 'maps(rows=3, columns=3)', 'compression(trials=40)'
QUANTITY = 'precision'


@pytest.fixture
def made(tmp_path):
  """Makes a run of trials."""

  def run(name: str, value, group=None, **about) -> collect.Run:
    about = {
      'training': name,
      'model_spec': f'ngram(order={len(name)})',
    } | about
    bounds = about.pop('bounds', (0, 1))
    metric = registry.make('metric', SPEC)
    world = registry.make('world', about.pop('world', WORLD))
    scores = core.scores(
      QUANTITY,
      np.asarray(value, float),
      group=group,
      bounds=bounds,
      columns=about.pop('columns', None),
    )
    seed = about.pop('seed', 0)
    entries, parts = results.summarize(
      metric, [scores], world, seed=seed, model_name=name, extra=about
    )
    part = results.Result(SPEC, {}, '', {}, entries, parts, (scores,))
    folder = tmp_path / name
    (folder / results.FOLDER).mkdir(parents=True)
    results.write(results.path(folder, 'compression', SPEC), part)
    return collect.Run(folder, entries, parts, [], None)

  return run


def values(share: float) -> np.ndarray:
  return (np.arange(40) % 10 < 10 * share).astype(float)


def test_each_pair_is_compared_trial_by_trial(made):
  shares = {'a': 0.9, 'b': 0.1, 'c': 0.1}
  runs = [made(name, values(share)) for name, share in shares.items()]
  *_, table = model_comparison.paired_tables(runs, tables.results(runs))
  assert table.heads == ('quantity', 'a − b', 'a − c', 'b − c')
  ((head, *cells),) = table.rows
  assert head == f'{SPEC}: {QUANTITY}'
  several = [core.scores(QUANTITY, values(x)) for x in shares.values()]
  pairs = [(0, 1), (0, 2), (1, 2)]
  expected = [comparisons.paired(several[a], several[b]) for a, b in pairs]
  adjusted = comparisons.holm([item.p for item in expected])
  for cell, item, p in zip(cells, expected, adjusted, strict=True):
    assert cell.startswith(tables.interval(item._asdict()))
    assert f'p={p:.3f}' in cell if p >= 0.001 else 'p<0.001' in cell
    assert table.is_bold(cell) == (item.low > 0 or item.high < 0)
  assert [table.is_bold(cell) for cell in cells] == [True, True, False]
  assert '3 tests' in table.note


def test_a_grid_counts_the_measures_in_which_a_model_is_better(made):
  shares = {'a': 0.9, 'b': 0.1, 'c': 0.1}
  runs = [made(name, values(share)) for name, share in shares.items()]
  grid, _ = model_comparison.paired_tables(runs, tables.results(runs))
  assert grid.heads == ('better than', 'a', 'b', 'c')
  assert [*map(list, grid.rows)] == [
    ['a', '', '1 of 1', '1 of 1'],
    ['b', '0 of 1', '', '0 of 1'],
    ['c', '0 of 1', '0 of 1', ''],
  ]


def test_of_losses_the_lower_is_better(made, monkeypatch):
  runs = [made(name, values(0.1 * n)) for n, name in enumerate('abc')]
  measure = core.Measure(0.0, 'has no loss')
  monkeypatch.setattr(model_comparison.catalog, 'measure', lambda *_: measure)
  grid, _ = model_comparison.paired_tables(runs, tables.results(runs))
  assert grid.rows[0][2:] == ('0 of 1', '1 of 1')
  assert grid.rows[2][1:3] == ('0 of 1', '0 of 1')


def test_models_of_other_trials_are_not_in_the_grid(made):
  runs = [made(name, values(0.5), seed=n) for n, name in enumerate('abc')]
  grid, _ = model_comparison.paired_tables(runs, tables.results(runs))
  assert {cell for row in grid.rows for cell in row[1:]} == {'', '–'}


@pytest.mark.parametrize(
  'changed',
  [
    {'seed': 1},
    {'world': "maps(rows=3, columns=3, traversal='shortest')"},
    {'group': np.arange(40) // 2},
  ],
)
def test_other_trials_are_not_compared(made, changed):
  runs = [made('a', values(0.9)), made('b', values(0.1), **changed)]
  *_, table = model_comparison.paired_tables(runs, tables.results(runs))
  assert table.rows[0][1] == 'not the same trials'
  assert 'Not the same trials' in table.note


@pytest.mark.parametrize(
  ('rules', 'states', 'compared'),
  [
    (('r', 'r'), ('s', 's'), True),
    (('r', 'q'), ('s', 's'), False),  # A state of the same name elsewhere.
    ((None, None), ('s', 's'), False),  # Of an earlier version.
    (('r', 'r'), ('s', 't'), False),
  ],
)
def test_samplers_of_one_city_have_the_same_trials(
  made, rules, states, compared
):
  worlds = 'maps(rows=3, columns=3)', "maps(rows=3, traversal='shortest')"
  runs = [
    made(
      *(name, values(share)),
      world=world,
      columns={'state': np.array([state] * 40)},
      **({'rules': rule} if rule else {}),
    )
    for name, share, world, rule, state in zip(
      'ab', (0.9, 0.1), worlds, rules, states, strict=True
    )
  ]
  *_, table = model_comparison.paired_tables(runs, tables.results(runs))
  assert (table.rows[0][1] != 'not the same trials') == compared


def test_results_without_trials_say_so(made):
  runs = [made('a', values(0.9)), made('b', values(0.1))]
  path = results.path(runs[1].folder, 'compression', SPEC)
  path.with_suffix('.npz').write_bytes(b'')
  *_, table = model_comparison.paired_tables(runs, tables.results(runs))
  assert table.rows[0][1] == 'no trials kept'


def test_many_models_are_compared_with_the_first(made):
  runs = [made(name, values(0.1 * k)) for k, name in enumerate('abcde')]
  *_, table = model_comparison.paired_tables(runs, tables.results(runs))
  assert table.heads[1:] == tuple(f'a − {name}' for name in 'bcde')


def test_one_trained_model_has_no_table(made):
  runs = [made('a', values(0.9)), made('b', values(0.1), training=None)]
  assert not model_comparison.paired_tables(runs, tables.results(runs))
  assert not model_comparison.paired_tables([], tables.results([]))


@pytest.mark.parametrize(
  ('clusters', 'bounds', 'why', 'more'),
  [
    (
      40,
      None,
      'the same in each of 40 clusters',
      'is the same in each cluster',
    ),
    (4, None, 'too few clusters', 'takes 5 or more'),
    (4, (0, 1), 'too few clusters', 'takes 5 or more'),
    (40, (0, 1), '', ''),
  ],
)
def test_without_an_interval_it_says_why(made, clusters, bounds, why, more):
  about = {'group': np.arange(40) % clusters, 'bounds': bounds}
  shares = (np.full(40, 0.75), np.full(40, 0.25))
  runs = [made(name, x, **about) for name, x in zip('ab', shares, strict=True)]
  *_, table = model_comparison.paired_tables(runs, tables.results(runs))
  cell = table.rows[0][1]
  assert cell.startswith(f'0.500 ({why}), n=40' if why else '0.500 [')
  assert more in table.note
  assert ('too few clusters' in cell) == (clusters < comparisons.FEWEST_PAIRED)


def test_null_models_of_several_seeds_are_a_range_of_numbers(made):
  """-2 and 10 are in the order of numbers, not of their texts."""
  spread = {'bounds': (-20, 20)}
  runs = [made(f's{n}', values(0.5), **spread) for n in range(2)]
  pooled = dataclasses.replace(runs[0], each=tuple(runs))
  nulls = [
    made(f's{n}_null_prefix', np.full(40, x), training=None, **spread)
    for n, x in enumerate((10.0, -2.0))
  ]
  every = [pooled, *nulls]
  frame = tables.results(every)
  frame['role'] = ['trained', 'null', 'null']
  table = model_comparison.null_table(every, frame)
  assert table is not None
  cells = dict(zip(table.heads, table.rows[0], strict=True))
  assert cells['errors of the prefix'] == '-2.000 to 10.000'
  assert cells['beside these'] == 'as random errors'
