"""miniatures.sh goes on where one miniature fails, and says so at the end."""

import os
import subprocess

import pytest

# Stands in for Python: says what it was asked for; `maps` fails, of `lattice` a
# result is refused, and `chess` is told to stop.
STUB = """#!/usr/bin/env bash
echo "$@"
case "$*" in
  *maps.flags*--dry_run*) echo 'maps/walks-0: failed: loss nan' ;;
  *lattice.flags*--dry_run*) echo 'lattice/rnn-0: refused: made by code' ;;
  *maps.flags*) exit 1 ;;
  *lattice.flags*) exit 1 ;;
  *chess.flags*) exit 75 ;;
esac
"""


@pytest.fixture
def shell(root, tmp_path):
  """Runs the script on a stub: (exit code, lines of stdout, stderr)."""
  stub = tmp_path / 'python'
  stub.write_text(STUB)
  stub.chmod(0o755)

  def run(*words: str) -> tuple[int, list[str], str]:
    done = subprocess.run(
      ['bash', str(root / 'launch' / 'miniatures.sh'), *words],
      cwd=tmp_path,
      env={**os.environ, 'WM_PYTHON': str(stub)},
      capture_output=True,
      text=True,
    )
    return done.returncode, done.stdout.splitlines(), done.stderr

  return run


def called(name: str, *more: str) -> str:
  file = f'launch/flags/miniatures/{name}.flags'
  return ' '.join(
    ['launch/miniature.py', f'--flagfile={file}', '--jobs=2', *more]
  )


def test_named_ones_are_made_and_reported(shell):
  code, out, err = shell('groups', 'othello', '--jobs=1')
  assert (code, err) == (0, '')
  assert out[:2] == ['== groups', called('groups', '--jobs=1')]
  assert out[2:4] == ['== othello', called('othello', '--jobs=1')]
  assert out[4] == '== report'
  assert out[5].startswith('launch/report.py --miniatures=launch/flags/min')


def test_without_names_it_is_all_until_one_is_told_to_stop(shell, root):
  flagfiles = sorted(
    path.stem for path in (root / 'launch/flags/miniatures').glob('*.flags')
  )
  code, out, _ = shell('--dry_run')
  titles = [line[3:] for line in out if line.startswith('== ')]
  assert (code, titles) == (75, flagfiles[: flagfiles.index('chess') + 1])


def test_a_failure_stops_no_other_and_is_named_at_the_end(shell):
  code, out, err = shell('maps', 'groups')
  assert code == 1
  assert [line for line in out if line.startswith('== ')] == [
    *('== maps', '== groups', '== report')
  ]
  assert err == 'maps/walks-0: failed: loss nan\n'


def test_a_refused_result_is_named_at_the_end(shell):
  code, _, err = shell('lattice')
  assert (code, err) == (1, 'lattice/rnn-0: refused: made by code\n')


def test_an_unknown_name_is_one_line(shell):
  code, out, err = shell('maps', 'mapps')
  assert (code, out) == (2, [])
  assert err.startswith("error: no miniature is called 'mapps'; available: ")
  assert 'maps othello' in err
  assert err.count('\n') == 1
