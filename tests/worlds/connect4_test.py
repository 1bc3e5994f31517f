import math

import numpy as np
import pytest

from tests import suffixes
from wm import core
from wm.metrics import distinction
from wm.models.serving import oracles
from wm.worlds import connect4

FIGURE_1 = ('1,1,1,2,2,2,2', '3,1,1,2,2,2,2')


def differences(sizes):
  return np.diff(np.array([0, *sizes], object)).tolist()


def pair(world, *texts):
  return [world.parse(text)[0] for text in texts]


def test_three_columns_by_length():
  world = connect4.World(rows=2, columns=3)
  first, second = pair(world, '0,1,0', '1,0,0')  # Room (2,1,2) and (1,2,2).
  assert world.count(first, second, 4)[1] == [3, 7, 12, 12]
  assert world.count(first, second, 5)[0] == [0, 1, 4, 9, 12]
  assert suffixes.sizes(world, first, second, 9)[0][-1] == 26


def test_figure_1_exactly():
  world = connect4.World(rows=6)
  sizes = suffixes.sizes(world, *pair(world, *FIGURE_1), 42)[0]
  by_length = differences(sizes)
  lengths = [k + 1 for k, size in enumerate(by_length) if size]
  assert lengths == list(range(4, 31))
  assert by_length[3] == 1  # Three discs fill the first column, one more.
  # All 29 discs both can take, the first column's three in any order.
  interior = world.count(*pair(world, *FIGURE_1), 30)[1]
  discs = math.factorial(29)
  for room in (3, 5, 5, 4, 4, 4, 4):
    discs //= math.factorial(room)
  assert interior[28:] == [discs, 0]
  assert discs == 308_446_687_707_598_440_000
  # The printed 8.8e27 exceeds the number of sequences of 29 columns.
  assert discs < 7**29 < 8.8e27


def test_the_uniform_model_is_right_on_nearly_every_tall_board():
  world = connect4.World(rows=1000)
  states = world.sample_states(4000, 0)
  full = (states == 1000).any(-1).mean()
  assert abs(1 - full - (1000 / 1001) ** 7) < 0.005
  legal = world.legal(states)[:, 1:].mean()
  assert abs(legal - 1000 / 1001) < 0.001
  ids = world.state_id(states)
  assert len(np.unique(ids)) == len(np.unique(states, axis=0))


def test_prefixes_are_uniform_over_orders():
  world = connect4.World(rows=2, columns=2)
  num = 3000
  states = np.tile(np.array([[2, 1]], np.int32), (num, 1))
  result = world.sample_prefixes(states, np.full(num, 3), np.arange(num))
  orders, counts = np.unique(result.tokens, axis=0, return_counts=True)
  assert orders.tolist() == [[1, 1, 2], [1, 2, 1], [2, 1, 1]]
  assert (abs(counts - num / 3) < 120).all()
  assert not world.sample_prefixes(
    states, np.full(num, 2), np.arange(num)
  ).ok.any()


@pytest.mark.parametrize(
  'text', ['1,2', '1,2,7,0,0,0,0', '1,2,-1,0,0,0,0', '1 2', 'a,b,c,d,e,f,g']
)
def test_bad_states_are_refused(text):
  with pytest.raises(core.InputError, match=r'7 numbers of discs, each 0\.\.6'):
    connect4.World().parse(text)


def test_bad_sizes_are_refused():
  for fields in ({'rows': 0}, {'columns': 1}):
    with pytest.raises(core.InputError, match='at least'):
      connect4.World(**fields)


def test_the_uniform_model_tells_no_two_tall_boards_apart():
  """Section 2.2's example: valid nearly everywhere, and recall 0."""
  world = connect4.World(rows=300)
  uniform = oracles.Uniform(len(world.vocab), world.end, world.max_len)
  fields = {'trials': 6, 'samples': 0}
  few, all_ = (
    distinction.Metric(boundary='sampled', attempts=attempts, **fields)
    for attempts in (2, 10_000)
  )
  recall = few(uniform, world, 0)[0]
  assert 'no_common_moves' in recall.reason.tolist()
  recall = all_(uniform, world, 0)[0]
  assert recall.quantity == 'recall'
  assert recall.value.tolist() == [0] * 6  # None is unmeasured.
