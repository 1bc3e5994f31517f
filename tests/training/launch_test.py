"""launch/train.py as a user meets it: help, summary, exit codes."""

import json
import subprocess
import sys

import pytest

from tests.launch import binaries

SPECS = [
  '--world=maps(rows=3, columns=3)',
  '--model=transformer(layers=1, width=8)',
]


@pytest.fixture(scope='module')
def out(tmp_path_factory):
  """A folder with data of a small city."""
  out = tmp_path_factory.mktemp('launch') / 'run'
  sizes = ['--num=200', '--num_heldout=20']
  binaries.printed('sample', *SPECS, *sizes, f'--out={out}')
  return out


@pytest.mark.process
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


@pytest.mark.process
def test_a_run_prints_its_summary_and_nothing_else(root, out):
  """In a process of its own: other libraries print where Python cannot see."""
  brief = ['--steps=3', '--batch=8', f'--out={out}']
  done = subprocess.run(
    [sys.executable, str(root / 'launch/train.py'), *SPECS, *brief],
    capture_output=True,
    text=True,
  )
  assert done.returncode == 0, done.stderr
  summary = json.loads(done.stdout)
  assert summary['step'] == 3
  assert summary == json.loads((out / 'train.json').read_text())
  assert not [
    line for line in done.stderr.splitlines() if 'train: ' not in line
  ]
  err = binaries.refused('train', *SPECS, '--steps=4', f'--out={out}')
  assert err.startswith('error: ')


def test_a_loss_that_is_not_finite_is_one_line_and_exit_code_1(out, tmp_path):
  (tmp_path / 'data').symlink_to(out / 'data')
  wild = ['--lr=1e30', '--warmup=0', '--clip=0', '--batch=8']
  code, _, err = binaries.run('train', *SPECS, *wild, f'--out={tmp_path}')
  assert code == 1
  assert len(err.splitlines()) == 1, err
  assert 'at step' in err
  assert 'last good checkpoint' in err


@pytest.mark.parametrize(
  'arguments',
  [
    ['--model=transformer(width=8)'],
    ['--world=maps()', '--model=transformer(depth=8)'],
    ['--world=maps()', '--model=transformer()', '--batching=sorted'],
  ],
)
def test_bad_flags_exit_with_2(tmp_path, arguments):
  binaries.refused('train', *arguments, f'--out={tmp_path / "run"}')
  assert not (tmp_path / 'run').exists()
