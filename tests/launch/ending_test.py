"""How binaries end: bad --out, closed pipes, signals at any moment."""

import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time

import pytest

from tests import compiler
from tests.launch import binaries

CITY = '--world=maps(rows=4, columns=4)'
WOVEN = "--world=maps(rows=6, columns=6, traversal='random')"
ENV = {**os.environ, 'XLA_FLAGS': compiler.flags()}
SAID = {
  130: 'interrupted; run the same command again to go on\n',
  75: 'stopped; run the same command again to go on\n',
}


@pytest.mark.process
def test_a_closed_stdout_gets_nothing_and_no_file_does(root, tmp_path):
  command = [sys.executable, str(root / 'launch' / 'sample.py'), CITY]
  command += ['--num=5', '--num_heldout=5', f'--out={tmp_path}/run']
  done = subprocess.run(
    ['sh', '-c', '"$@" >&-', 'sh', *command],
    capture_output=True,
    text=True,
    env=ENV,
    check=False,
  )
  assert (done.returncode, done.stderr) == (0, '')
  assert {path.name for path in (tmp_path / 'run').iterdir()} == {
    *('data', 'sample.run.json')
  }


@pytest.mark.process
@pytest.mark.parametrize('number', [signal.SIGHUP, signal.SIGUSR1])
def test_a_warning_of_a_scheduler_leaves_a_checkpoint(tmp_path, number):
  world = '--world=lattice(size=3, length=12)'
  out = f'--out={tmp_path}/run'
  binaries.start('sample', world, '--num=50', '--num_heldout=5', out).wait(600)
  model = '--model=transformer(layers=1, width=8, heads=1)'
  steps = '--steps=1000000', '--save_every=1000000', '--eval_every=1000000'
  process = binaries.start('train', world, model, out, *steps)
  log = tmp_path / 'run' / 'metrics.jsonl'
  while process.poll() is None and not (log.exists() and log.stat().st_size):
    time.sleep(0.1)
  process.send_signal(number)
  try:
    assert process.communicate(timeout=600)[1].endswith(SAID[75])
  finally:
    process.kill()  # One that heard nothing would go on for days.
  assert process.returncode == 75
  (saved,) = (tmp_path / 'run' / 'checkpoints').glob('[0-9]*')
  assert int(saved.name) > 0


@pytest.mark.process
def test_a_limit_of_addresses_is_one_line(root, tmp_path):
  out = tmp_path / 'run'
  command = [sys.executable, str(root / 'launch' / 'report.py')]
  command += [f'--runs={out}', f'--out={tmp_path}/page']
  binaries.run(
    'score',
    *('--world=lattice(size=3, length=12)', '--model=uniform()'),
    *('--metric=next_token(num=5)', f'--out={out}'),
  )
  for limit in ('600000', '900000'):
    done = subprocess.run(
      ['bash', '-c', f'ulimit -v {limit}; exec "$@"', 'bash', *command],
      capture_output=True,
      text=True,
      env=ENV,
      check=False,
    )
    assert done.returncode in (1, 2)
    assert re.fullmatch('error: [^\n]*\n', done.stderr), done.stderr[-2000:]
    assert 'ulimit -v' in done.stderr


@pytest.mark.process
@pytest.mark.parametrize(
  ('binary', 'flags'),
  [
    ('score', ('--help',)),
    ('list', ()),
    ('count', ('--world=lattice(size=5)', '--depth=10')),
    ('sample', (CITY, '--num=50', '--num_heldout=5')),
  ],
)
def test_a_closed_pipe_is_no_fault_and_loses_nothing(tmp_path, binary, flags):
  reader, writer = os.pipe()
  os.close(reader)  # Before the process starts, which may be quick.
  process = binaries.start(
    binary, *flags, f'--out={tmp_path}/run', stdout=writer
  )
  os.close(writer)
  assert process.stderr.read() == ''
  assert process.wait(600) == -signal.SIGPIPE
  if binary == 'sample':
    for split, rows in (('train', 50), ('heldout', 5)):
      manifest = tmp_path / 'run' / 'data' / split / 'manifest.json'
      assert json.loads(manifest.read_text())['rows'] == rows
    assert len(list((tmp_path / 'run').iterdir())) == 2


# Signals, at any moment at which the process minds them.


def ready(process: subprocess.Popen) -> bool:
  """Waits until it has handlers; False if it ended before."""
  status = pathlib.Path(f'/proc/{process.pid}/status')
  while process.poll() is None:
    caught = re.search(r'SigCgt:\s*(\w+)', status.read_text())
    if caught and int(caught[1], 16) >> (signal.SIGTERM - 1) & 1:
      return True
    time.sleep(0.005)
  return False


def send(process: subprocess.Popen, number: int, after: float) -> int:
  """Its code; fails if it says anything but a line, or does not end."""
  if ready(process):
    try:
      process.wait(after)
    except subprocess.TimeoutExpired:
      process.send_signal(number)
  err = process.communicate(timeout=600)[1]
  output = ''.join(
    line for line in err.splitlines(True) if not line.startswith('train: ')
  )
  assert output == SAID.get(process.returncode, ''), err
  assert process.returncode in (0, 130 if number == signal.SIGINT else 75)
  return process.returncode


@pytest.mark.slow
@pytest.mark.parametrize(
  ('binary', 'flags'),
  [
    ('sample', (CITY, '--num=3000000')),
    ('sample', ('--world=othello()', '--num=300000')),
    (
      'score',
      (WOVEN, '--model=uniform()', '--metric=compression(trials=2000)'),
    ),
    (
      'reconstruct',
      (WOVEN, '--model=uniform()', '--num_samples=4000', '--shuffles=50'),
    ),
    (
      'count',
      (
        '--world=chess()',
        '--first_state=rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq -'
        ' 0 1',
        '--second_state=rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq -'
        ' 0 1',
        '--depth=7',
      ),
    ),
    ('count', ('--world=chess()', '--depth=7')),
  ],
)
def test_every_binary_is_stopped_at_any_moment(tmp_path, binary, flags):
  dice = random.Random(binary)
  for k in range(4):
    process = binaries.start(binary, *flags, f'--out={tmp_path}/{k}')
    number = dice.choice([signal.SIGINT, signal.SIGTERM])
    send(process, number, 6 * dice.random())
  assert not list(tmp_path.rglob('*.tmp'))
