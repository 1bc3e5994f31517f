"""Calls of the library, as a notebook makes them."""

import ast
import dataclasses
import inspect
import json
import pathlib
import subprocess
import sys

import pandas as pd
import pytest

import wm
from tests import small, tiny
from tests.training import mean_mlp
from wm import core
from wm.library import calls
from wm.models.serving import oracles
from wm.options import declared
from wm.options.calls import (
  Crossing,
  RouteSource,
  Scoring,
  Stages,
  Sweeping,
  Units,
)

WORLD = 'maps(rows=3, columns=3, max_moves=12)'
GRAMS = 'ngram(order=2)'
METRICS = ['next_token(num=20)', 'compression(trials=8, samples=2)']


@pytest.fixture(scope='module')
def run(tmp_path_factory) -> wm.Run:
  """A run of counted pairs."""
  out = tmp_path_factory.mktemp('library') / 'run'
  stores = wm.sample(WORLD, out, wm.Sampling(num=200, num_heldout=20))
  assert [len(stores[split]) for split in ('train', 'heldout')] == [200, 20]
  return wm.train(WORLD, GRAMS, out)


@pytest.mark.process
def test_importing_wm_imports_nothing_else(root):
  code = 'import sys, wm; print([n for n in sys.modules if n[:3] == "wm."])'
  done = subprocess.run(
    [sys.executable, '-c', f'{code}; print("numpy" in sys.modules)'],
    cwd=root,
    capture_output=True,
    text=True,
    check=True,
  )
  assert done.stdout == '[]\nFalse\n'


@pytest.mark.parametrize(
  ('call', 'options', 'differ'),
  [
    (wm.score, Scoring, {}),
    (wm.sweep, Sweeping, {}),
    (wm.reconstruct, RouteSource, {}),
    (wm.miniature, Units, {}),
    (wm.study, Crossing, {}),
    (wm.study, Stages, {}),
    (wm.study, Scoring, {'world', 'checkpoint', 'max_calls', 'model', 'name'}),
    (
      wm.load_predictor,
      Scoring,
      {'metrics', 'world', 'accept', 'metric_overrides', 'max_calls'},
    ),
  ],
)
def test_a_call_takes_the_options_that_flags_are_made_of(call, options, differ):
  taken = inspect.signature(call).parameters
  for name, (field, about) in declared(options).items():
    if name in differ:
      continue
    assert taken[name].annotation == field.type, name
    required = field.default is dataclasses.MISSING
    assert required == (taken[name].default is inspect.Parameter.empty)
    assert required or taken[name].default == field.default, name
    assert about.help in f'{call.__doc__} {inspect.getdoc(wm.Scoring)}'


def test_type_checkers_are_told_of_every_name(root):
  tree = ast.parse((root / 'wm' / '__init__.pyi').read_text())
  lines = {
    alias.name: node.module
    for node in tree.body
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
  }
  assert sorted(lines) == wm.__all__
  for name, module in lines.items():
    thing = inspect.unwrap(getattr(wm, name))  # Its arguments are checked.
    assert thing is inspect.unwrap(getattr(sys.modules[module], name))


@pytest.mark.parametrize('name', wm.__all__)
def test_every_call_is_typed_and_says_what_it_takes(name):
  call = getattr(wm, name)
  assert len(inspect.getdoc(call)) > 30
  if not inspect.isfunction(call):
    return
  signature, output = inspect.signature(call), inspect.getdoc(call)
  assert signature.return_annotation is not signature.empty
  for one in signature.parameters.values():
    assert one.annotation is not one.empty, one
    assert one.name in output, f'wm.{name} does not say what {one.name} is'


def test_a_name_that_is_not_there():
  with pytest.raises(AttributeError, match="no attribute 'tarin'"):
    wm.tarin  # noqa: B018


def test_options_know_their_limits_and_say_what_they_are():
  assert 'steps: int, default 1000. Training steps.' in wm.Training.__doc__
  for inputs, message in (
    ({'steps': 0}, 'steps=0: expected at least 1'),
    ({'floor': 2.0}, 'floor=2.0: expected at least 0, at most 1'),
    ({'lr': float('nan')}, 'lr=nan: expected a finite number'),
    ({'batching': 'any'}, "batching='any'; available: buckets, random"),
  ):
    with pytest.raises(core.InputError, match=message):
      wm.Training(**inputs)


def test_a_run_is_scored_in_its_own_folder(run):
  lines = []
  table = wm.score(run, METRICS, accept='top_k(2)', log=lines.append)
  assert set(table.metric) == {'next_token', 'compression'}
  assert 'top_k(k=2)' in set(table.accept)
  entries = json.loads((run.folder / 'scores.json').read_text())
  assert table.value.tolist() == [entry['value'] for entry in entries]
  assert lines[-1].startswith('written: ')
  page = wm.report(run.folder)
  assert page == run.folder / 'report' / 'report.html'
  assert page.is_file()
  assert run.log()[-1]['heldout_loss'] == run.summary['heldout_loss']
  # From its folder alone, and by objects.
  metrics = [wm.make('metric', spec) for spec in METRICS]
  rule = wm.make('accept', 'top_k(2)')
  names = 'model', 'spec', 'quantity', 'value', 'low', 'high', 'n'
  assert tuple(str(table).splitlines()[0].split()) == names
  assert type(table[table.value > 0]) is pd.DataFrame
  assert len(str(table).splitlines()) == len(entries) + 1
  assert table._repr_html_().count('<tr') == len(entries) + 1
  again = wm.score(str(run.folder), metrics, accept=rule, out=run.folder)
  pd.testing.assert_frame_equal(again, table)


def test_fields_are_for_all_metrics_that_have_them(run):
  fields = "prefix_filter='model', attempts=2, sampler='published(0.01)'"
  next_token, item = calls.metrics_of(METRICS, overrides=fields)
  assert next_token == wm.make('metric', METRICS[0])
  assert item == wm.make('metric', METRICS[1].replace(')', f', {fields})'))
  for fields, message in (
    ('pears=2', 'no metric here has a field pears; available: .*attempts'),
    ('2', 'no metric here has a field 2'),
    ('attempts=', 'bad spec'),
    ("prefix_filter='all'", 'available: none, model'),
  ):
    with pytest.raises(core.InputError, match=message):
      wm.score(run, METRICS, metric_overrides=fields)


def test_predictors_are_named_in_many_ways(run):
  world = wm.make('world', WORLD)
  by_run = wm.load_predictor(run)
  assert by_run.world == world
  assert by_run.name == 'ngram'
  assert wm.load_predictor(by_run) is by_run
  untrained = wm.load_predictor('uniform()', world)
  assert untrained.about == {'model_spec': 'uniform()', 'checkpoint': 'none'}
  mine = wm.load_predictor(oracles.Oracle(world), world)
  (validity,) = (
    entry['value']
    for entry in small.scored(mine, 'next_token(num=20)')
    if entry['quantity'] == 'validity'
  )
  assert validity == 1
  for arguments, message in (
    (('uniform()',), 'world is needed'),
    (('runs/none', world), 'there is no such run'),
    ((pathlib.Path('runs/none'), world), 'there is no such run'),
    ((run.folder, 'lattice()'), 'vocabulary'),
    ((by_run, 'lattice(size=3)'), r'ngram was loaded for .*, not for lattice'),
  ):
    with pytest.raises(core.InputError, match=message):
      wm.load_predictor(*arguments)


def test_the_model_of_a_run_without_its_training(run):
  metric = 'next_token(num=20)'
  entries = small.scored(run.folder, metric, checkpoint='none', seed=2)
  assert entries == small.scored(GRAMS, metric, WORLD, seed=2)


def test_a_study_of_two_rows(tmp_path):
  rows = ['flat: uniform()', f'grams: {GRAMS} on {WORLD} with num=70']
  lines = []
  scores = wm.study(
    rows,
    WORLD,
    'next_token(num=20)',
    tmp_path,
    seed=3,
    sampling=wm.Sampling(num=100, num_heldout=10),
    num_samples=30,
    log=lines.append,
  )
  assert set(scores['run']) >= {str(tmp_path / x) for x in ('flat', 'grams')}
  assert (tmp_path / 'report' / 'report.html').is_file()
  titles = [line[3:] for line in lines if line.startswith('== ')]
  assert titles[:6] + titles[-1:] == [
    *('flat: score', 'flat: reconstruct'),
    *(f'grams: {one}' for one in ('sample', 'train', 'score', 'reconstruct')),
    'report',
  ]
  assert {'oracle: score', 'bayes: score'} <= {*titles[6:-1]}
  assert 'uniform: score' not in titles, 'a row is one already'
  assert (tmp_path / 'grams' / 'map.html').is_file()
  run = json.loads((tmp_path / 'grams' / 'sample.run.json').read_text())
  assert (run['num'], run['num_heldout'], run['seed']) == (70, 10, 3)
  for name in ('flat', 'grams'):
    entries = json.loads((tmp_path / name / 'scores.json').read_text())
    assert {entry['seed'] for entry in entries} == {3}
  with pytest.raises(core.InputError, match="two rows are named 'flat'"):
    wm.study([rows[0], rows[0]], WORLD, METRICS, tmp_path)
  with pytest.raises(core.InputError, match="bad row 'flat'"):
    wm.study(['flat'], WORLD, METRICS, tmp_path)


def test_a_row_of_a_study_may_be_a_run(run, tmp_path):
  wm.study([f'kept: {run.folder}'], WORLD, 'next_token(num=20)', tmp_path)
  result = json.loads((tmp_path / 'kept' / 'scores.json').read_text())
  (mine,) = small.scored(
    run.folder, 'next_token(num=20)', out=tmp_path / 'own'
  )[:1]
  assert (result[0]['value'], result[0]['step']) == (
    mine['value'],
    mine['step'],
  )
  assert not (tmp_path / 'kept' / 'train.json').exists()
  for row, output in (
    (f'kept: {run.folder} on {WORLD}', 'is a folder; expected a model'),
    ('kept: runs/none', 'there is no run in runs/none; train it first'),
  ):
    with pytest.raises(core.InputError, match=output):
      wm.study([row], WORLD, METRICS, tmp_path / 'none')
  with pytest.raises(core.InputError, match='is a folder; expected a model'):
    wm.miniature([f'kept: {run.folder}'], WORLD, METRICS, tmp_path)
  assert not (tmp_path / 'none').exists()


@pytest.mark.process
def test_a_sweep_is_trained_scored_and_reported(run, tmp_path):
  grid = {'model': {'two': GRAMS}}
  inputs = {'world': WORLD, 'data': run.folder / 'data'}
  assert not list(tmp_path.iterdir())
  best = wm.sweep(
    grid, tmp_path, inputs, jobs=2, scoring=wm.Scoring('next_token(num=10)')
  )
  assert [item.run.name for item in best] == ['two']
  assert best[0].loss == run.summary['best_loss_moves']
  assert (tmp_path / 'report' / 'report.html').is_file()
  with pytest.raises(
    core.InputError, match="no setting of a run is called 'widht'"
  ):
    wm.sweep({'widht': [1]}, tmp_path / 'other', inputs)


def test_boundaries_and_counts():
  assert wm.boundary('lattice(size=3)', '1', '0', 2).sizes[0][0] == 1
  assert [*wm.count('lattice(size=3)', None, 2)] == [2, 5]
  world = tiny.World()
  result = wm.boundary(world, '0', '3', 1)
  assert result.suffixes() == ['y']
  assert result.sizes == [(1, 1, 1)]


def test_maps_are_reconstructed_from_a_run(run, tmp_path):
  options = wm.Reconstruction(max_miles=0.2, shuffles=1)
  summary = wm.reconstruct(run, tmp_path, options=options, num=20)
  assert summary['num_samples'] == 20
  assert summary['orders']['n'] == 2
  with pytest.raises(core.InputError, match='source or samples'):
    wm.reconstruct(None, tmp_path / 'other', WORLD)


mean_mlp.install()


@pytest.mark.process
def test_a_report_loads_neither_models_nor_training():
  lines = (
    'import sys, wm',
    'wm.report',
    'heavy = ["jax", "flax", "numba", "scipy.stats", "matplotlib"]',
    # The package itself loads its parts when they are first used.
    'heavy += ["scipy.special", "scipy.sparse", "scipy.linalg"]',
    'heavy += ["wm.training", "wm.models", "wm.evaluation.scoring"]',
    'print([name for name in heavy if name in sys.modules])',
  )
  done = subprocess.run(
    [sys.executable, '-c', '\n'.join(lines)],
    **{'capture_output': True, 'text': True, 'check': True},
  )
  assert done.stdout.strip() == '[]'
