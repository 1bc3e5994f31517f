import numpy as np
import pytest

from wm import core
from wm.worlds import lattice


@pytest.mark.parametrize('size', [2, 3, 5, 9])
def test_walls_have_two_moves_and_the_middle_three(size):
  world = lattice.World(size=size)
  legal = world.legal(np.arange(size, dtype=np.int32)[:, None])
  expected = np.full(size, 3)
  expected[[0, -1]] = 2
  np.testing.assert_array_equal(legal.sum(-1), expected)
  assert not legal[0, world.vocab.index('left')]
  assert not legal[-1, world.vocab.index('right')]


def test_occupancy_of_three_states_is_that_of_the_markov_chain():
  world = lattice.World(size=3)
  result = world.sample(4000, 0)
  state = world.init(4000)
  visits = np.zeros(3)
  # The probe's positions: after each of the first 99 moves.
  for k in range(99):
    state = world.advance(state, result.tokens[:, k])
    visits += np.bincount(state[:, 0], minlength=3)
  share = visits / visits.sum()
  np.testing.assert_allclose(share, [0.290456, 0.429190, 0.280355], atol=0.002)


@pytest.mark.parametrize(
  ('size', 'nats'), [(2, 0.693147), (3, 0.867169), (4, None), (5, None)]
)
def test_the_bayes_loss_is_that_of_the_markov_chain(size, nats):
  """Of tokens 1..99, by the exact distribution of the states before them."""
  world = lattice.World(size=size)
  legal = world.delta >= 0
  count = legal.sum(1)
  chain = np.zeros((size, size))
  source, label = np.nonzero(legal)
  np.add.at(chain, (source, world.delta[source, label]), 1 / count[source])
  now, total = np.eye(size)[0], 0.0
  for _ in range(99):
    now = now @ chain
    total += now @ np.log(count)
  process, result = world.data_distribution(), world.sample(2000, 0)
  memory, entropy = process.init(2000), 0.0
  for t in range(99):
    memory = process.advance(memory, result.tokens[:, t])
    log_probs = process.next(memory)[1]
    known = np.where(np.isfinite(log_probs), log_probs, 0)
    entropy -= (np.exp(log_probs) * known).sum(-1).mean()
  assert entropy / 99 == pytest.approx(total / 99, abs=2e-3)
  if nats is not None:
    assert total / 99 == pytest.approx(nats, abs=1e-6)


def test_counts_are_exact_beyond_64_bits():
  world = lattice.World(size=5)
  moves = (world.delta[:, None, :] == np.arange(5)[:, None]).sum(-1)
  power = np.eye(5, dtype=int).astype(object)
  expected = []
  for _ in range(60):
    power = power @ moves.astype(object)
    expected.append(int(power[2].sum()))
  assert world.count(np.array([2]), np.array([2]), 60)[1] == expected
  assert expected[-1] > 2**63


def test_boundary_of_the_middle_against_the_wall():
  world = lattice.World(size=3)
  left, stay, right = 1, 2, 3
  result = world.boundary(np.array([[1]]), np.array([[0]]), 2).listed()[0]
  assert result == [(left,), (stay, left)]
  assert world.count(np.array([1]), np.array([0]), 3)[0][:2] == [1, 1]
  back = world.boundary(np.array([[0]]), np.array([[1]]), 2).listed()[0]
  assert back == [(right, right)]


def test_interior_and_boundary_are_what_is_legal():
  """Every legal suffix is in the interior or begins with one boundary one."""
  world, depth = lattice.World(size=4), 7
  first, second = np.array([1]), np.array([3])
  inner = world.count(first, second, depth)[1]
  for k, count in enumerate(world.count(first, first, depth)[1]):
    results = world.boundary(first[None], second[None], k + 1).listed()[0]
    beyond = 0
    for suffix in results:
      _, after = world.walk(
        first[None], np.array([suffix]), np.array([len(suffix)])
      )
      left = k + 1 - len(suffix)
      beyond += world.count(after[0], after[0], left)[1][-1] if left else 1
    assert inner[k] + beyond == count


def test_prefixes_are_uniform_over_all_that_reach_the_state():
  world = lattice.World(size=3)
  num, moves = 4000, 4
  states = np.full((num, 1), 1, np.int32)
  result = world.sample_prefixes(states, np.full(num, moves), np.arange(num))
  paths, counts = np.unique(result.tokens, axis=0, return_counts=True)
  steps = (world.delta[:, None, :] == np.arange(3)[:, None]).sum(-1)
  assert len(paths) == np.linalg.matrix_power(steps, moves)[0, 1]
  assert abs(counts / num - 1 / len(paths)).max() < 0.015


def test_a_state_too_far_for_the_moves_has_no_prefix():
  world = lattice.World(size=5, length=10)
  states = np.array([[4], [4], [0]], np.int32)
  assert world.prefix_moves(states).tolist() == [[4, 9], [4, 9], [1, 9]]
  result = world.sample_prefixes(states, np.array([3, 4, 10]), np.arange(3))
  assert result.ok.tolist() == [False, True, False]


def test_bad_sizes_and_states_are_refused():
  with pytest.raises(core.InputError, match='size=1; expected at least 2'):
    lattice.World(size=1)
  for text in ('5', '-1', '1.0', 'left'):
    with pytest.raises(core.InputError, match=r'expected 0\.\.4'):
      lattice.World().parse(text)
