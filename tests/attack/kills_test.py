"""Work that is killed, and run again, ends as if it had not been."""

import pytest

from tests.attack.warm import attack, check

# Of what is killed, in the default suite; all of it takes over a minute.
QUICK = 'train', 'score'


@pytest.mark.process
def test_killed_once_and_run_again_it_is_the_same(root):
  results = attack(root, '--kills=1', *(f'--kill={n}' for n in QUICK))
  assert len(results) == len(QUICK)
  check(results)
