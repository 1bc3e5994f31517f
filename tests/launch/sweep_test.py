"""launch/sweep.py as a user meets it: real trainings, killed and gone on."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests import compiler
from tests.launch import binaries
from wm.training import run_log

WORLD = '--world=maps(rows=3, columns=3)'
GRID = [
  '--grid=model=one: transformer(layers=1, width=8)',
  '--grid=lr=1e-2|1e30',
]
BRIEF = [
  *('--steps=200', '--batch=8', '--eval_every=10', '--save_every=10'),
  '--optimizer=adamw',
]
ENV = {**os.environ, 'XLA_FLAGS': compiler.flags()}


@pytest.fixture(scope='module')
def out(tmp_path_factory):
  """A folder with data of a small city."""
  out = tmp_path_factory.mktemp('sweep') / 'stage1'
  sizes = ['--num=200', '--num_heldout=20']
  binaries.printed('sample', WORLD, *sizes, f'--out={out}')
  return out


def test_a_dry_run_lists_and_writes_nothing(out):
  before = sorted(out.iterdir())
  grid = [WORLD, *GRID, '--grid=seed=0|1']
  printed = binaries.printed('sweep', *grid, '--dry_run', f'--out={out}')
  assert printed.splitlines() == [
    'one,lr=1e-2,seed=0',
    'one,lr=1e-2,seed=1',
    'one,lr=1e30,seed=0',
    'one,lr=1e30,seed=1',
    '4 runs',
  ]
  assert sorted(out.iterdir()) == before


@pytest.mark.parametrize(
  ('arguments', 'message'),
  [
    ([WORLD], '--grid is required'),
    ([WORLD, '--grid=lr=1e-2,3e-2'], "divided by '|'"),
    ([WORLD, '--grid=depth=1'], "no flag of a run is called 'depth'"),
    ([WORLD, '--grid=model=former(width=8)'], "named 'former'"),
    ([WORLD, '--grid=steps=0'], "steps='0'"),
    ([WORLD, '--grid=lr=1|2'], 'no --model'),
    (['--grid=model=uniform()'], 'no --world'),
    ([WORLD, '--grid=flagfile=none.flags'], 'none.flags'),
    ([WORLD, *GRID, '--per=width'], 'available: model, lr'),
    ([WORLD, *GRID, '--winners_of=none'], 'no such file'),
    ([WORLD, *GRID, '--metric=probing'], "did you mean 'probe'"),
    ([WORLD, *GRID, '--metric=probe', '--score_world=map()'], "named 'map'"),
  ],
)
def test_bad_sweeps_are_one_line_before_anything_is_done(
  tmp_path, arguments, message
):
  new = f'--out={tmp_path / "new"}'
  assert message in binaries.refused('sweep', *arguments, new)
  assert not (tmp_path / 'new').exists()


def table(folder) -> list[dict]:
  return json.loads((folder / 'sweep.json').read_text())['runs']


@pytest.mark.slow
def test_seeds_are_scored_in_another_world_and_reported_together(out, tmp_path):
  flags = [WORLD, '--grid=model=one: ngram(order=1)']
  flags += ['--grid=seed=0|1', f'--data={out / "data"}', f'--out={tmp_path}']
  flags += ["--score_world=maps(rows=3, columns=3, traversal='shortest')"]
  flags += ['--jobs=2', '--metric=next_token(num=20)']
  printed = binaries.printed('sweep', *flags)
  assert printed.count(': scored') == 2
  assert 'results of 2 runs' in printed
  places = sorted((tmp_path / 'runs').iterdir())
  results = [entry for place in places for entry in entries(place)]
  assert {entry['model'] for entry in results} == {'one'}
  world = "maps(rows=3, columns=3, traversal='shortest')"
  assert {entry['world'] for entry in results} == {world}
  assert {entry['seed'] for entry in results} == {0}
  assert [entries(p)[0]['training_seed'] for p in places] == [0, 1]
  assert len({entry['recipe'] for entry in results}) == 1
  assert len({entry['training'] for entry in results}) == 2
  assert (tmp_path / 'report' / 'report.html').exists()
  # Again: nothing is scored twice; another metric is added.
  parts = [path for p in places for path in (p / 'scores').iterdir()]
  times = [path.stat().st_mtime_ns for path in parts]
  assert ': scored' not in binaries.printed('sweep', *flags)
  assert times == [path.stat().st_mtime_ns for path in parts]
  path = places[0] / 'train.json'  # As if it were trained again.
  path.write_text(path.read_text().replace('{', '{"again": 1,', 1))
  assert binaries.printed('sweep', *flags).count(': scored') == 1
  line = binaries.refused('sweep', *flags, '--metric=exactnes()')
  assert "did you mean 'exactness'" in line


def entries(folder) -> list[dict]:
  return json.loads((folder / 'scores.json').read_text())


@pytest.mark.slow
def test_a_sweep_killed_while_it_trains_ends_as_if_it_had_not_been(
  root, out, tmp_path
):
  flags = [WORLD, *GRID, *BRIEF, f'--data={out / "data"}', f'--out={tmp_path}']
  binary = [sys.executable, str(root / 'launch' / 'sweep.py')]
  process = subprocess.Popen([*binary, *flags], env=ENV)
  checkpoint = tmp_path / 'runs' / 'one,lr=1e-2' / 'checkpoints' / '10'
  for _ in range(30000):
    if checkpoint.exists() or process.poll() is not None:
      break
    time.sleep(0.02)
  process.send_signal(signal.SIGTERM)
  assert process.wait(600) == 75
  assert not (tmp_path / 'runs' / 'one,lr=1e-2' / 'train.json').exists()
  # All in processes with the same settings: this one has its own threads.
  again = subprocess.run([*binary, *flags], env=ENV, check=False)
  assert again.returncode == 1
  best, failed = table(tmp_path)
  assert (best['status'], failed['status']) == ('done', 'failed')
  assert 'at step' in failed['error']
  # An unbroken run by hand.
  alone = tmp_path / 'alone'
  inputs = ['--model=transformer(layers=1, width=8)', '--lr=1e-2', *BRIEF]
  inputs += [WORLD, f'--data={out / "data"}', f'--out={alone}']
  train = [sys.executable, str(root / 'launch' / 'train.py'), *inputs]
  subprocess.run(train, env=ENV, check=True)
  rows = [
    run_log.read(folder / 'metrics.jsonl')
    for folder in (alone, tmp_path / 'runs' / 'one,lr=1e-2')
  ]
  assert rows[0] == rows[1]
