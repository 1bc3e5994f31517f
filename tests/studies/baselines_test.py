"""Baselines of a study: made without being asked for, and never twice."""

import json

import pytest

import wm
from tests import page_text
from wm import core
from wm.core import registry
from wm.options.calls import Stages
from wm.reporting import ceilings
from wm.studies import baselines
from wm.studies import rows as rows_lib

RULES = 'maps(rows=3, columns=3, max_moves=12%s)'
WALKS, PATHS = RULES % '', RULES % ", traversal='shortest'"
NET = 'transformer(layers=1, width=32)'
TRAINED = [f'walks: {NET} on {WALKS}', f'paths: {NET} on {PATHS}']
METRICS = 'next_token()', 'exactness()'
REPORT = 'report/report.html'
FEW = {'sampling': wm.Sampling(num=50, num_heldout=5), 'num_samples': 5}
SUFFIXED = {f'bayes_{name}' for name in ('walks', 'paths')}


def added(
  *rows: str, world=WALKS, metrics=METRICS, **training
) -> dict[str, tuple[str, str]]:
  """Name -> specs of model and world, but for replanning."""
  more, _ = baselines.added(
    rows_lib.rows_of(rows, world),
    Stages(training=wm.Training(**training)),
    [registry.make('metric', item) for item in metrics],
  )
  return {
    row.name: (registry.spec(row.model), registry.spec(row.scored_in))
    for row in more
    if not row.name.startswith('bayes_replanning')
  }


def spec(world: str) -> str:
  return registry.spec(registry.make('world', world))


def test_each_sampler_has_a_ceiling_and_each_architecture_an_untrained_one():
  result = added(*TRAINED)
  assert {*result} == {'untrained', 'uniform', 'oracle', *SUFFIXED}
  assert result['bayes_paths'] == ('bayes()', spec(PATHS))
  assert result['untrained'] == (NET, spec(WALKS))
  item = added(TRAINED[0])
  assert {*item} == {'untrained', 'uniform', 'oracle', 'bayes'}
  wide = NET.replace('32', '64')
  two = added(TRAINED[0], f'wide: {wide} on {WALKS}')
  assert {*two} == {
    *('untrained_walks', 'untrained_wide', 'uniform', 'oracle', 'bayes')
  }


def test_rows_that_are_named_are_not_doubled():
  named = [
    *(f'before: {NET}', 'guess: uniform()', 'rules: oracle()'),
    f'best: bayes() in {PATHS}',
  ]
  assert {*added(*TRAINED, *named)} == {'bayes'}
  assert added(*TRAINED, *named, f'best_too: bayes() in {WALKS}') == {}


def test_a_name_that_is_taken_gets_the_row_behind_it():
  assert 'bayes_walks' in added(TRAINED[0], f'bayes: {NET} on {WALKS}')


def test_other_rules_have_baselines_of_their_own():
  other = 'maps(rows=3, columns=3, max_moves=12, city_seed=5)'
  result = added(TRAINED[0], f'other: {NET} on {other}')
  assert {'oracle_walks', 'oracle_other', 'untrained_other'} <= {*result}
  first, second, third = (
    registry.make('world', item) for item in (WALKS, PATHS, other)
  )
  assert core.world.same_rules(first, second)
  assert not core.world.same_rules(first, third)
  assert not core.world.same_rules(first, registry.make('world', 'lattice()'))


def test_baselines_alone_ask_for_none_and_states_for_no_untrained_model():
  assert added('guess: uniform()', 'best: bayes()') == {}
  result = added(TRAINED[0], objective='state')
  assert {*result} == {'uniform', 'oracle', 'bayes'}


def test_what_no_metric_can_measure_is_left_out():
  inputs = {'metrics': ['exactness()'], 'world': 'chess()'}
  row = f'net: {NET} on chess()'
  assert {*added(row, **inputs, objective='state')} == {'oracle'}


def test_in_names_the_world_that_a_row_is_scored_in():
  row = rows_lib.Row.parse(f'a: bayes() in {PATHS} with seeds=1')
  assert (row.model, row.trained_on, row.scored_in) == ('bayes()', None, PATHS)
  assert row.settings == {'seeds': 1}


@pytest.fixture(scope='module')
def seating() -> str:
  """A world that does not say how its samples are distributed."""
  return 'tests/tiny.py:World()'


def test_a_study_has_baselines_and_says_why_not(tmp_path, seating):
  world = registry.resolve('world', seating)
  lines: list[str] = []
  wm.study(
    [f'net: ngram(order=2) on {seating}'],
    seating,
    'next_token(num=20)',
    tmp_path,
    sampling=wm.Sampling(num=20, num_heldout=5),
    log=lines.append,
  )
  text = page_text.read(tmp_path / REPORT)
  assert text.count('does not say how its samples are distributed') == 1
  assert not (tmp_path / 'bayes').exists()
  for name in ('uniform', 'oracle'):
    entries = json.loads((tmp_path / name / 'scores.json').read_text())
    assert entries[0]['world'] == registry.spec(world)
  rows = [line.split(' | ')[0] for line in text.splitlines() if '| ' in line]
  places = [rows.index(f'| {name}') for name in ('uniform', 'net', 'oracle')]
  assert places == sorted(places)


def test_units_of_a_miniature_have_baselines_where_worlds_have_them(tmp_path):
  messages: dict[bool, list[str]] = {}
  for target in (True, False):
    lines = messages[target] = []
    wm.miniature(
      [TRAINED[0]],
      WALKS,
      'next_token(num=20)',
      tmp_path,
      seeds=1,
      dry_run=True,
      baselines=target,
      log=lines.append,
    )
  names = [line.split(':')[0].split('/')[-1] for line in messages[True][1:]]
  expected = {'walks-0', 'untrained-0', 'uniform-0', 'oracle-0', 'bayes-0'}
  assert expected <= {*names}
  assert {*names} <= {*expected, 'bayes_replanning-0'}
  assert len(messages[False]) == 2


def test_a_ceiling_that_is_refused_is_a_line_and_stops_nothing(
  tmp_path, monkeypatch
):
  def refuse(self, world, seed):
    raise core.InputError('too large')

  monkeypatch.setattr('wm.models.bayes.Model.predictor', refuse)
  wm.study(
    [f'walks: ngram(order=2) on {WALKS}'],
    WALKS,
    'next_token(num=20)',
    tmp_path,
    **FEW,
  )
  text = page_text.read(tmp_path / REPORT)
  assert 'No bayes: too large' in text
  assert '| oracle |' in text


def test_null_models_stand_beside_the_rows_that_they_err_as_much_as(tmp_path):
  wm.study(
    [f'walks: ngram(order=2) on {WALKS}', f'best: bayes() in {WALKS}'],
    WALKS,
    ['next_token(num=50)', 'compression(trials=40, samples=5)'],
    tmp_path,
    sampling=wm.Sampling(num=100, num_heldout=20),
    num_samples=5,
    nulls=True,
  )
  folders = {path.parent.name for path in tmp_path.glob('*/scores.json')}
  assert {x for x in folders if '_null_' in x} == {
    *('walks_null_prefix', 'walks_null_state')
  }
  values = {}
  for name in ('walks', 'walks_null_prefix', 'walks_null_state'):
    entries = json.loads((tmp_path / name / 'scores.json').read_text())
    values[name] = {entry['quantity']: entry for entry in entries}
  mass = values['walks']['valid_mass']['value']
  for kind in ceilings.NULLS:
    entry = values[f'walks_null_{kind}']['valid_mass']
    assert entry['value'] == pytest.approx(mass, abs=0.05)
    # The error is in the spec, so that the results are reused.
    assert f'illegal_mass={1 - mass:.6f}'.rstrip('0') in entry['model_spec']
  assert values['walks_null_state']['precision']['value'] == 1
  text = page_text.read(tmp_path / REPORT)
  heads, *rows = page_text.table(text, 'Beside null models')
  cells = {row[0]: dict(zip(heads, row, strict=True)) for row in rows}
  assert {name.split(': ')[1] for name in cells} == {'validity', 'precision'}
  (of_pairs,) = (x for name, x in cells.items() if 'precision' in name)
  assert of_pairs['errors of the state'] == '1.000'
  assert of_pairs['beside these'] == 'as random errors'


def test_a_row_whose_error_is_not_known_has_no_null_models(tmp_path):
  wm.study(
    [f'walks: ngram(order=2) on {WALKS}'],
    WALKS,
    'compression(trials=10, samples=2)',
    tmp_path,
    **FEW,
    nulls=True,
  )
  text = page_text.read(tmp_path / REPORT)
  assert 'No null models of walks' in text
  assert 'has no excess_loss and no valid_mass' in text
  assert 'Beside null models' not in text
