"""Bad inputs and kills, in processes forked from one that is warm."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.attack import cases, kills

SHARE = 12  # One case in so many is in the default suite.
CATEGORIES = list(dict.fromkeys(case.category for case in cases.all()))
ENV = {**os.environ, 'PYTHONHASHSEED': '0'}


def attack(root, *arguments: str) -> list[dict]:
  """What the warm process says, a line each."""
  done = subprocess.run(
    [sys.executable, '-m', 'tests.attack', '--json', *arguments],
    cwd=root,
    env=ENV,
    capture_output=True,
    text=True,
  )
  assert done.returncode in (0, 1), done.stderr[-4000:]
  return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope='module')
def share(root) -> list[dict]:
  """Results of a share of all cases."""
  return attack(root, f'--every={SHARE}')


def check(results: list[dict]) -> None:
  """Fails with the cases that failed."""
  failed = {r['case']: r['faults'] for r in results if r['faults']}
  assert not failed, json.dumps(failed, indent=1)


def test_there_are_enough_and_of_all_binaries(root):
  listed = cases.all()
  assert len(listed) >= 600
  used = {case.run[0] for case in listed if not callable(case.run)}
  here = {path.stem for path in (root / 'launch').glob('*.py')} - {'common'}
  assert used == here


@pytest.mark.parametrize('category', CATEGORIES)
def test_a_share_of_bad_inputs_is_one_line_each(share, category):
  taken = [r for r in share if r['case'].startswith(f'{category}/')]
  assert taken
  check(taken)


@pytest.mark.slow
@pytest.mark.parametrize('category', CATEGORIES)
def test_every_bad_input_is_one_line(root, category):
  check(attack(root, f'--only={category}/'))


def test_killed_once_and_run_again_all_is_the_same(root):
  results = attack(root, '--kills=1', *(f'--kill={n}' for n in kills.WORK))
  assert len(results) == len(kills.WORK)
  check(results)


@pytest.mark.slow
@pytest.mark.parametrize('name', kills.WORK)
def test_killed_fifteen_times_and_run_again_it_is_the_same(root, name):
  check(attack(root, f'--kill={name}', '--kills=15'))
