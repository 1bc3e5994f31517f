"""The source of wm is part of what a score is made from."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from tests import copies

pytestmark = pytest.mark.process

ASKED = ('compression(trials=3, samples=2)', 'next_token(num=4)')


def score(copy: pathlib.Path) -> tuple[list[str], dict, str]:
  """What is said, (spec, quantity) -> interval, and rows.parquet."""
  done = subprocess.run(
    [
      *(sys.executable, 'launch/score.py', '--world=lattice()', '--out=out'),
      *('--model=noisy_oracle(wrong=0.4)', *(f'--metric={m}' for m in ASKED)),
    ],
    cwd=copy,
    capture_output=True,
    text=True,
    env={**os.environ, 'PYTHONPATH': str(copy)},
  )
  assert done.returncode == 0, done.stderr[-2000:]
  output = [s for s in done.stdout.splitlines() if s.startswith(ASKED)]
  entries = json.loads((copy / 'out/scores.json').read_text())
  result = {(e['spec'], e['quantity']): (e['low'], e['high']) for e in entries}
  return output, result, (copy / 'out/rows.parquet').read_bytes()


def edit(path: pathlib.Path, old: str = '', new: str = '# Edited.\n') -> None:
  text = path.read_text()
  assert old in text
  path.write_text(text.replace(old, new) if old else text + new)


def test_edits_reach_what_they_can_change(tmp_path):
  copy = copies.make(tmp_path / 'copy', 'wm', 'launch')
  output, first, rows = score(copy)
  assert output == []

  edit(copy / 'wm' / 'reporting' / 'tables.py')  # Makes no number.
  edit(copy / 'launch' / 'common.py')
  output, again, same_rows = score(copy)
  assert output == [f'{spec}: cached' for spec in ASKED]
  assert (again, same_rows) == (first, rows)

  statistics = copy / 'wm' / 'evaluation' / 'statistics.py'
  edit(statistics, 'LEVEL = 0.95', 'LEVEL = 0.5')
  output, third, same_rows = score(copy)
  assert output == [f'{spec}: recomputed: wm changed' for spec in ASKED]
  assert same_rows == rows
  assert third.keys() == first.keys()
  assert third != first
