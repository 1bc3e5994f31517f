"""Bad inputs, each in a process forked from one that is warm."""

from __future__ import annotations

import pytest

from tests.attack import cases
from tests.attack.warm import attack, check

SHARE = 20  # One case in so many is in the default suite.
CATEGORIES = list(dict.fromkeys(case.category for case in cases.all()))


@pytest.fixture(scope='module')
def share(root) -> list[dict]:
  """Results of a share of all cases."""
  return attack(root, f'--every={SHARE}')


def test_there_are_enough_and_of_all_binaries(root):
  listed = cases.all()
  assert len(listed) >= 600
  used = {case.run[0] for case in listed if not callable(case.run)}
  here = {path.stem for path in (root / 'launch').glob('*.py')} - {'common'}
  assert used == here


@pytest.mark.process
@pytest.mark.parametrize('category', CATEGORIES)
def test_a_share_of_bad_inputs_is_one_line_each(share, category):
  taken = [r for r in share if r['case'].startswith(f'{category}/')]
  if not taken:
    pytest.skip('a package that these cases need is not installed')
  check(taken)


@pytest.mark.slow
@pytest.mark.parametrize('category', CATEGORIES)
def test_every_bad_input_is_one_line(root, category):
  check(attack(root, f'--only={category}/'))
