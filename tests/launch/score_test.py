"""launch/score.py as a user runs it."""

import json

import pandas as pd
import pytest

from tests.launch import binaries
from wm.evaluation import results

CITY = '--world=maps(rows=4, columns=4)'
QUICK = '--metric=compression(trials=12, samples=4)'


def test_oracle_scores_one_and_accept_overrides(tmp_path):
  out = binaries.printed(
    'score',
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


def test_again_gives_the_same_without_scoring(tmp_path):
  flags = (CITY, '--model=uniform', QUICK, f'--out={tmp_path}')
  (code, first, err), again = (
    binaries.run('score', *flags),
    binaries.run('score', *flags),
  )
  kept = 'compression(trials=12, samples=4): cached\n'
  assert again == (code, kept + first, err)
  (part,) = (tmp_path / 'scores').glob('*.json')
  assert results.read(part).entries[0]['model'] == 'uniform'


@pytest.mark.parametrize(
  ('flags', 'message'),
  [
    ((CITY, '--model=uniform'), '--metric is required'),
    ((CITY, QUICK), 'there is no such run'),
    ((CITY, QUICK, '--checkpoint=none'), '--model is required'),
    ((CITY, QUICK, '--checkpoint=bset'), 'bset: there is no such run'),
    ((CITY, QUICK, '--model=transformer'), 'there is no such run'),
    ((CITY, '--model=unifrom', QUICK), "did you mean 'uniform'"),
    ((CITY, '--model=uniform', QUICK, '--fast'), 'Unknown command line flag'),
    (
      (CITY, '--model=uniform', QUICK, '--fields=trials=2'),
      '--fields is now called --metric_overrides',
    ),
  ],
)
def test_bad_input_is_one_line_and_leaves_nothing(tmp_path, flags, message):
  code, out, err = binaries.run('score', *flags, f'--out={tmp_path}/r')
  assert code == 2, err
  assert out == ''
  assert len(err.strip().splitlines()) == 1, err
  assert message in err
  assert not (tmp_path / 'r').exists()


def test_another_runs_folder_is_refused(tmp_path):
  flags = (CITY, '--model=uniform', QUICK, f'--out={tmp_path}')
  assert binaries.run('score', *flags)[0] == 0
  code, _, err = binaries.run('score', *flags, '--seed=1')
  assert code == 2
  assert 'holds another score run: its seed is 0, not 1' in err
