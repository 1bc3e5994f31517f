"""Rows, comparisons and lists of runs as data frames."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

import wm
from tests import small
from tests.launch import binaries
from wm import core
from wm.evaluation import results

WORLD = 'maps(rows=4, columns=4, max_moves=8)'
METRICS = ['next_token(num=20)', 'compression(trials=12, samples=4)']
NOISY = "noisy_oracle(wrong=0.02, by='prefix')"


@pytest.fixture(scope='module')
def scored(tmp_path_factory):
  """Folders of an oracle and of a noisy one, scored on the same trials."""
  root = tmp_path_factory.mktemp('scored')
  for name, model in {'oracle': 'oracle()', 'noisy': NOISY}.items():
    wm.score(model, METRICS, WORLD, out=root / name)
  return root


def test_each_row_says_what_it_is_of(scored):
  rows = wm.rows(scored / 'noisy')
  assert set(rows.run) == {str(scored / 'noisy')}
  assert set(rows.model) == {'noisy_oracle'}
  assert set(rows.seed) == {0}
  assert rows.world.nunique() == 1
  assert rows.world[0].startswith('maps(')
  assert rows.trial_key.is_unique
  assert (rows.state != '').all()
  assert (rows.prefix != '').all()


def test_trials_pair_by_key(scored):
  pair = [wm.rows(scored / name) for name in ('oracle', 'noisy')]
  both = pair[0].merge(pair[1], on='trial_key', suffixes=('', '_b'))
  assert len(both) == len(pair[0]) == len(pair[1])
  drawn = both[both.metric == 'compression']
  for name in ('state', 'prefix', 'other_prefix', 'quantity', 'row'):
    assert (drawn[name] == drawn[f'{name}_b']).all()


def test_other_trials_have_other_keys(scored, tmp_path):
  base = set(wm.rows(scored / 'oracle').trial_key)
  for name, change in {
    'seed': {'seed': 1},
    'world': {'world': 'maps(rows=4, columns=5, max_moves=8)'},
    'fields': {'metric_overrides': "accept='top_k(2)'"},
  }.items():
    settings = {'world': WORLD} | change
    wm.score('oracle()', METRICS[:1], out=tmp_path / name, **settings)
    assert not base & set(wm.rows(tmp_path / name).trial_key), name


def test_keys_depend_on_prefixes_that_a_model_chose(tmp_path):
  metric = "compression(trials=12, samples=4, prefix_filter='model')"
  noisy = "noisy_oracle(wrong=0.2, illegal=0.1, by='prefix')"
  for name, model in {'oracle': 'oracle()', 'noisy': noisy}.items():
    wm.score(model, metric, WORLD, out=tmp_path / name)
  item, two = (
    wm.rows(tmp_path / name).query('quantity == "precision"')
    for name in ('oracle', 'noisy')
  )
  same = (item.prefix == two.prefix) & (item.other_prefix == two.other_prefix)
  assert 0 < same.sum() < len(same), 'the case has both'
  np.testing.assert_array_equal(item.trial_key == two.trial_key, same)


def test_rows_of_several_runs_have_their_run(scored):
  folders = [scored / 'oracle', scored / 'noisy']
  every = wm.rows(folders)
  assert set(every.run) == set(map(str, folders))
  names = ['run', 'model', 'world', 'seed', 'trial_key']
  assert not every[names].isna().any(axis=None)
  mine = pd.read_parquet(scored / 'oracle' / 'rows.parquet')
  assert list(mine.trial_key) == list(wm.rows(scored / 'oracle').trial_key)


def test_a_folder_of_runs_is_reported_as_its_runs(scored, tmp_path):
  wm.report(scored, tmp_path / 'all')
  one_by_one = [scored / 'noisy', scored / 'oracle']
  wm.report(one_by_one, tmp_path / 'each')
  for name in ('report.html', 'scores.json'):
    texts = [(tmp_path / out / name).read_text() for out in ('all', 'each')]
    assert texts[0] == texts[1]
  with pytest.raises(core.InputError, match=r'has no scores\.json'):
    wm.report(tmp_path / 'all' / 'trials', tmp_path / 'none')


def test_comparison_is_of_the_same_trials(scored):
  lines = []
  compared = wm.compare(scored / 'oracle', scored / 'noisy', log=lines.append)
  row = compared.set_index(['metric', 'quantity']).loc[
    'compression', 'precision'
  ]
  rows = [wm.rows(scored / name) for name in ('oracle', 'noisy')]
  rows = [
    r[(r.metric == 'compression') & (r.quantity == 'precision')] for r in rows
  ]
  both = (
    rows[0].merge(rows[1], on='trial_key').dropna(subset=['value_x', 'value_y'])
  )
  assert row.n == len(both)
  assert row.difference == pytest.approx((both.value_x - both.value_y).mean())
  assert row.low < row.difference < row.high
  assert row.p <= row.p_holm
  assert row.note == ''
  assert 'compression(' in lines[0]


def test_a_model_does_not_differ_from_itself(scored):
  compared = wm.compare(scored / 'oracle', scored / 'oracle')
  assert (compared.difference == 0).all()


def test_other_settings_are_named(scored, tmp_path):
  wm.score('oracle()', METRICS[:1], WORLD, out=tmp_path, seed=3)
  compared = wm.compare(scored / 'oracle', tmp_path)
  assert set(compared.note) == {'not the same trials'}
  assert set(compared.n) == {0}


@pytest.mark.parametrize('call', [wm.rows, lambda f: wm.compare(f, f)])
def test_no_run_and_no_results(call, tmp_path):
  with pytest.raises(core.InputError, match='there is no such run'):
    call(tmp_path / 'missing')
  with pytest.raises(core.InputError, match='has no results; run wm'):
    call(tmp_path)


def test_binaries_list_and_compare(scored, tmp_path):
  out = binaries.printed('list', f'--runs={scored}')
  assert 'noisy_oracle' in out
  assert 'next_token' in out
  pair = f'--compare={scored}/oracle,{scored}/noisy'
  assert 'compression(' in binaries.printed('report', pair)
  line = binaries.refused('report', '--compare=a', f'--out={tmp_path}')
  assert '--compare=a: expected two folders, as in A,B' in line


def test_a_run_is_its_folder(scored):
  run = wm.Run(scored / 'oracle', {})
  assert len(wm.rows(run)) == len(wm.rows(scored / 'oracle'))
  both = wm.rows([run, scored / 'noisy'])
  assert both.run.nunique() == 2


def test_a_run_that_stopped_is_partial_until_it_has_ended(tmp_path):
  world = 'lattice(size=2, length=6)'
  wm.sample(world, tmp_path, wm.Sampling(num=40, num_heldout=10))
  options = wm.Training(steps=4, batch=8, eval_every=2, save_every=2)
  model = 'transformer(layers=1, width=8, heads=1)'
  wm.train(world, model, tmp_path, options)
  summary = (tmp_path / 'train.json').read_bytes()
  (tmp_path / 'train.json').unlink()
  messages = tmp_path / 'train.run.json'
  whole = messages.read_text()
  messages.write_text(whole.replace('"steps": 4', '"steps": 400'))
  (entry, *_) = small.scored(tmp_path, METRICS[0], out=tmp_path / 'a')
  assert entry['status'] == 'partial'
  assert entry['cautions'] == ['is still in training, at step 4 of 400']
  # The same checkpoint, once the run has ended: nothing is measured again.
  messages.write_text(whole)
  out = tmp_path / 'b'
  (tmp_path / 'train.json').write_bytes(summary)
  (entry, *_) = small.scored(tmp_path, METRICS[0], out=out)
  assert (entry['status'], entry['cautions']) == ('finished', [])
  path = next((out / 'scores').glob('*.json'))
  held = results.read(path)
  extra = {**held.about['extra'], 'status': 'partial', 'cautions': ['old']}
  results.write(
    path, dataclasses.replace(held, about={**held.about, 'extra': extra})
  )
  lines = []
  (entry, *_) = small.scored(tmp_path, METRICS[0], out=out, log=lines.append)
  assert (entry['status'], entry['cautions']) == ('finished', [])
  assert any(line.endswith(': cached') for line in lines)
