"""launch/train.py as a user meets it: help, summary, exit codes."""

import json
import os
import subprocess
import sys

import pytest

SPECS = [
  '--world=maps(rows=3, columns=3)',
  '--model=transformer(layers=1, width=8)',
]


@pytest.fixture(scope='module')
def out(tmp_path_factory, root):
  """A folder with data of a small city."""
  out = tmp_path_factory.mktemp('launch') / 'run'
  sizes = ['--num=200', '--num_heldout=20']
  done = call(root, 'sample.py', *SPECS, *sizes, f'--out={out}')
  assert done.returncode == 0, done.stderr
  return out


def call(root, binary, *arguments) -> subprocess.CompletedProcess:
  return subprocess.run(
    [sys.executable, str(root / 'launch' / binary), *arguments],
    capture_output=True,
    text=True,
    timeout=120,
    env={**os.environ, 'XLA_FLAGS': '--xla_backend_optimization_level=0'},
  )


def test_help_imports_nothing_heavy(root):
  done = subprocess.run(
    [sys.executable, '-X', 'importtime', 'launch/train.py', '--help'],
    capture_output=True,
    text=True,
    cwd=root,
  )
  assert done.returncode == 0
  assert '--eval_every' in done.stdout
  for heavy in ('jax', 'flax', 'numba', 'numpy', 'orbax'):
    assert f' {heavy}\n' not in done.stderr


def test_a_run_prints_its_summary_and_nothing_else(root, out):
  brief = ['--steps=3', '--batch=8', f'--out={out}']
  done = call(root, 'train.py', *SPECS, *brief)
  assert done.returncode == 0, done.stderr
  summary = json.loads(done.stdout)
  assert summary['step'] == 3
  assert summary == json.loads((out / 'train.json').read_text())
  again = call(root, 'train.py', *SPECS, '--steps=4', f'--out={out}')
  assert again.returncode == 2
  assert again.stderr.startswith('error: ')
  assert len(again.stderr.splitlines()) == 1


def test_a_loss_that_is_not_finite_is_one_line_and_exit_code_1(
  root, out, tmp_path
):
  (tmp_path / 'data').symlink_to(out / 'data')
  wild = ['--lr=1e30', '--warmup=0', '--clip=0', '--batch=8']
  done = call(root, 'train.py', *SPECS, *wild, f'--out={tmp_path}')
  assert done.returncode == 1
  assert len(done.stderr.splitlines()) == 1, done.stderr
  assert 'at step' in done.stderr
  assert 'last good checkpoint' in done.stderr


@pytest.mark.parametrize(
  'arguments',
  [
    ['--model=transformer(width=8)'],
    ['--world=maps()', '--model=transformer(depth=8)'],
    ['--world=maps()', '--model=transformer()', '--batching=sorted'],
  ],
)
def test_bad_flags_exit_with_2(root, tmp_path, arguments):
  done = call(root, 'train.py', *arguments, f'--out={tmp_path / "run"}')
  assert done.returncode == 2
  assert len(done.stderr.splitlines()) == 1
  assert not (tmp_path / 'run').exists()
