"""launch/score.py as a user runs it."""

import json
import signal
import subprocess
import sys

import pandas as pd
import pytest

from tests.launch import binaries

CITY = '--world=maps(rows=4, columns=4)'
QUICK = '--metric=compression(trials=12, samples=4)'


def start(root, *flags: str) -> subprocess.Popen:
  return subprocess.Popen(
    [sys.executable, str(root / 'launch' / 'score.py'), *flags],
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
  )


def run(root, *flags: str) -> tuple[int, str, str]:
  if '--help' not in flags:
    return binaries.run('score', *flags)
  process = start(root, *flags)
  out, err = process.communicate(timeout=600)
  return process.returncode, out, err


@pytest.mark.process
def test_help_loads_no_package(root):
  code, out, err = run(root, '--help')
  assert code == 0, err
  assert '--checkpoint' in out
  assert '--steps' not in out


@pytest.mark.process
def test_help_into_a_closed_pipe_is_no_error(root):
  process = start(root, '--help')
  process.stdout.close()
  assert not process.stderr.read()
  assert process.wait() == -signal.SIGPIPE


def test_oracle_scores_one_and_accept_overrides(root, tmp_path):
  code, out, err = run(
    root,
    CITY,
    '--model=oracle',
    QUICK,
    '--metric=distinction(trials=12, samples=4)',
    '--metric=probe',
    '--accept=top_p(0.99)',
    '--seed=5',
    '--name=truth',
    f'--out={tmp_path}',
  )
  assert code == 0, err
  entries = json.loads((tmp_path / 'scores.json').read_text())
  headline = [
    e
    for e in entries
    if e['quantity'] in ('precision', 'recall') and e['metric'] != 'probe'
  ]
  assert [e['value'] for e in headline] == [1, 1, 1]
  for entry in entries:
    assert entry['model'] == 'truth'
    assert entry['seed'] == 5
    assert entry['model_spec'] == 'oracle()'
  assert {e['accept'] for e in headline} == {'top_p(mass=0.99)'}
  assert "accept='top_p(mass=0.99)'" in headline[0]['spec']
  # A model without activations has no probe: a null with its reason.
  (probe,) = (e for e in entries if e['metric'] == 'probe')
  assert probe['value'] is None
  assert probe['unmeasured'] == {'needs_hidden_states': 1}
  rows = pd.read_parquet(tmp_path / 'rows.parquet')
  assert len(rows) == 12 * 10 + 1
  where = json.loads((tmp_path / 'breakdown.json').read_text())
  assert {'two_way'} == {name for e in where for name in e['where']}
  assert 'compression: precision' in out
  assert '1.000' in out


def test_again_gives_the_same_without_scoring(root, tmp_path):
  flags = (CITY, '--model=uniform', QUICK, f'--out={tmp_path}')
  (code, first, err), again = run(root, *flags), run(root, *flags)
  kept = 'compression(trials=12, samples=4): cached\n'
  assert again == (code, kept + first, err)
  (part,) = (tmp_path / 'scores').glob('*.json')
  assert json.loads(part.read_text())['entries'][0]['model'] == 'uniform'


@pytest.mark.parametrize(
  ('flags', 'message'),
  [
    ((CITY, '--model=uniform'), '--metric is required'),
    ((CITY, QUICK), 'there is no such run'),
    ((CITY, QUICK, '--checkpoint=none'), '--model is required'),
    ((CITY, QUICK, '--checkpoint=bset'), 'bset: there is no such run'),
    ((CITY, QUICK, '--model=transformer'), 'there is no such run'),
    ((CITY, '--model=uniform', '--metric=compresion'), "'compression'"),
    (
      (CITY, '--model=uniform', '--metric=compression(trails=1)'),
      "did you mean 'trials'",
    ),
    ((CITY, '--model=uniform', QUICK, '--accept=top(1)'), 'no accept is named'),
    ((CITY, '--model=unifrom', QUICK), "did you mean 'uniform'"),
    (('--world=mapps', '--model=uniform', QUICK), "did you mean 'maps'"),
    ((CITY, '--model=uniform', QUICK, '--fast'), 'Unknown command line flag'),
    (
      (CITY, '--model=uniform', QUICK, '--fields=trials=2'),
      '--fields is now called --metric_overrides',
    ),
  ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
  root, tmp_path, flags, message
):
  code, out, err = run(root, *flags, f'--out={tmp_path}/r')
  assert code == 2, err
  assert out == ''
  assert len(err.strip().splitlines()) == 1, err
  assert message in err
  assert not (tmp_path / 'r').exists()


def test_another_runs_folder_is_refused(root, tmp_path):
  flags = (CITY, '--model=uniform', QUICK, f'--out={tmp_path}')
  assert run(root, *flags)[0] == 0
  code, _, err = run(root, *flags, '--seed=1')
  assert code == 2
  assert 'holds another score run: its seed is 0, not 1' in err
