"""Inductive bias: learners that know the state, the next tokens, nothing."""

import dataclasses

import numpy as np
import pytest

from tests.metrics import table
from wm import core
from wm.core import adapting, basics, registry
from wm.evaluation import coin_tasks, statistics
from wm.metrics import inductive_bias
from wm.models import lookup

LATTICE = registry.make('world', 'lattice(size=5, length=20)')
SMALL = {'num': 32, 'states': 12, 'pool': 40}


def run(world=LATTICE, by='state', learned=True, seed=1, **fields):
  learner = lookup.LookUp(world, by, learned, 0)
  metric = inductive_bias.Metric(**{**SMALL, **fields})
  return table.by_name(metric(learner, world, seed))


@pytest.mark.parametrize('variant', ['paper', 'published'])
def test_a_learner_of_states_is_perfect(variant):
  """100 labels show all of five states; half of all coins part two of them."""
  result = run(variant=variant)
  for name in ('r_ib', 'd_ib_normalised', 'accuracy'):
    assert table.mean(result[name]) == 1
  np.testing.assert_array_equal(
    result['d_ib'].value, result['d_ib_oracle'].value
  )
  if variant == 'paper':  # All 32 assignments: no chance is left but points'.
    for name in ('d_ib', 'd_ib_q_unequal', 'd_ib_q_equal'):
      assert table.mean(result[name]) == pytest.approx(1, abs=0.06), name
    assert statistics.summarize(result['d_ib'])['clusters'] == 16


def test_published_points_hold_what_black_may_do_whoever_is_to_move():
  world = registry.make('world', 'othello(size=6)')
  result = coin_tasks.visited(world, 20, 100, 0, 1)
  turns, white = set(), 0
  for row, places in enumerate(result.places[0]):
    states = world.init(1)
    for t, token in enumerate(result.tokens[0, row]):
      states = world.advance(states, np.array([token], np.int32))
      if t not in places:
        continue
      at = places.tolist().index(t)
      labels = world.labels(states)
      turns.add(turn := int(labels[0, world.heads.turn]))
      labels[:, world.heads.turn] = 0
      black = world.legal(world.from_labels(labels))
      assert result.legal[0, row, at] == basics.hash64(*np.packbits(black[0]))
      mover = basics.hash64(*np.packbits(world.legal(states)[0]))
      white += turn == 1 and mover != result.legal[0, row, at]
  assert turns == {0, 1}
  assert white > 20


def test_a_learner_of_next_tokens_lumps_what_the_paper_says():
  for learned in (True, False):
    result = run(by='legal', learned=learned)
    assert table.mean(result['r_ib']) == 1
    assert table.mean(result['d_ib_q_equal']) == 0
    assert table.mean(result['d_ib_q_unequal']) > 0.7
    assert table.mean(result['q_difference']) < -0.7


def test_constants_and_coins_have_their_values():
  result = run(by='nothing', learned=False)
  assert table.mean(result['r_ib']) == 1
  for name in ('d_ib', 'd_ib_q_equal', 'd_ib_q_unequal', 'd_ib_normalised'):
    assert table.mean(result[name]) == 0
  result = run(by='prefix', learned=False)
  for name, value in (('r_ib', 0), ('d_ib', 1), ('accuracy', 0.5)):
    low, high = (statistics.summarize(result[name])[x] for x in ('low', 'high'))
    assert low - 0.05 < value < high + 0.05, name


def test_a_coin_is_normalised_to_one():
  """Also where true labels of all states are the same, a coin tells apart."""
  result = run(by='prefix', learned=False, num=64)
  ratio = table.mean(result['d_ib']) / table.mean(result['d_ib_oracle'])
  assert table.mean(result['d_ib_normalised']) == pytest.approx(ratio)
  assert (
    result['d_ib_normalised'].measured.sum() == result['d_ib'].measured.sum()
  )
  summary = statistics.summarize(result['d_ib_normalised'])
  assert summary['low'] < 1 < summary['high']
  assert summary['high'] - summary['low'] < 0.5


def test_parts_of_a_ratio_have_its_error():
  rng = np.random.default_rng(0)
  ratios, errors = [], []
  for _ in range(2000):
    ideal = rng.choice([0, 0.4, 0.6], 40)
    share = 0.5 * ideal + 0.1 * rng.random(40)
    parts = coin_tasks.ratio_parts(share, ideal, np.ones(40))
    ratios.append(parts.mean())
    errors.append(parts.std(ddof=1) / 40**0.5)
  assert np.mean(ratios) == pytest.approx(0.5 + 0.05 / (1 / 3), abs=0.01)
  assert np.mean(errors) == pytest.approx(np.std(ratios), rel=0.1)


def test_the_majority_answers_all_points_alike():
  result = run(by='nothing', learned=True)
  assert table.mean(result['r_ib']) == 1
  assert table.mean(result['d_ib']) == 0
  assert 0.55 < table.mean(result['accuracy']) < 0.9


def test_points_meet_in_states_of_a_large_world():
  """No two of some random places of these games would be of one state."""
  world = registry.make('world', 'connect4()')
  result = run(world, num=4, states=8, pool=8, examples=10)
  assert table.mean(result['r_ib']) == 1
  assert result['r_ib'].measured.all()
  assert 0.5 < table.mean(result['d_ib']) < 1.5
  assert {*result['d_ib_q_equal'].reason} <= {'', 'no_pair_q_equal'}


def test_a_kind_of_pair_that_a_world_lacks_is_a_reason():
  world = registry.make('world', "groups(group='z3', length=12)")
  result = run(world, num=8, states=6, pool=6)
  for name in ('d_ib_q_unequal', 'q_difference', 'd_ib_q_unequal_normalised'):
    assert {*result[name].reason} == {'no_pair_q_unequal'}
  several = result['d_ib_q_equal'].measured & result['d_ib'].measured
  assert several.any()
  world = registry.make('world', 'lattice(size=2, length=12)')
  result = run(world, num=4, states=6, pool=6)
  for name in ('d_ib_q_equal', 'q_difference', 'd_ib_q_equal_normalised'):
    assert {*result[name].reason} == {'no_pair_q_equal'}


def test_steps_are_a_series_and_without_random_weights_a_reason():
  result = run(steps=(10, 100), untrained=True)
  assert table.mean(result['r_ib_10']) == 1
  assert result['r_ib_10'].value.shape == result['r_ib'].value.shape
  assert {*result['d_ib_untrained'].reason} == {'no_untrained_model'}


def test_a_network_is_adapted_and_its_random_twin():
  world = registry.make('world', 'lattice(size=2, length=8)')
  model = registry.make('model', 'rnn(layers=1, width=8)')
  metric = inductive_bias.Metric(
    num=4, examples=8, states=4, pool=4, steps=(1, 40), untrained=True
  )
  result = table.by_name(metric(model.predictor(world, 0), world, 0))
  assert result['r_ib'].measured.all()
  assert {'r_ib_1', 'r_ib_untrained', 'd_ib_untrained'} <= {*result}
  again = table.by_name(metric(model.predictor(world, 0), world, 0))
  np.testing.assert_array_equal(result['d_ib'].value, again['d_ib'].value)


def test_coins_come_as_complements():
  ids = np.arange(100)[None] * 7
  for known in (ids, ids[:, :3]):
    labels = coin_tasks.coins(20, 3, [known], True).labels(known)
    np.testing.assert_array_equal(labels[::2] + labels[1::2], 1)
  free = coin_tasks.coins(20, 3, [ids], False).labels(ids)
  assert abs(free.mean() - 0.5) < 0.05
  assert len(np.unique(free, axis=0)) == 20


def test_assignments_that_come_more_often_weigh_less():
  ids = np.array([[4, 9]])
  coins = coin_tasks.coins(6, 0, [ids], True)
  labels = coins.labels(ids)
  mass = {}
  for row, weight in zip(labels.tolist(), coins.weight, strict=True):
    mass[tuple(row)] = mass.get(tuple(row), 0) + weight
  assert len(mass) == 4
  assert {*mass.values()} == {1.0}


def test_pairs_with_the_same_next_tokens_are_drawn_from_the_pool():
  pool = LATTICE.sample_states(60, 5).reshape(2, 30, 1)
  result = coin_tasks.alike(LATTICE, pool, 9, 1)
  assert result.shape == (2, 9, 2)
  for g in range(2):
    first, second = pool[g, result[g].T, 0]
    assert (first != second).all()
    assert {*first, *second} <= {1, 2, 3}
  none = coin_tasks.alike(LATTICE, pool[:, :1], 9, 1)
  assert (none == core.DEAD).all()


def test_prefixes_of_a_state_differ():
  states = LATTICE.sample_states(20, 5).reshape(2, 10, 1)
  result = coin_tasks.reached(LATTICE, states, 3, 7)
  expected = np.repeat(states[..., 0], 3, axis=1)
  there = result.states[..., 0] != core.DEAD
  assert there.mean() > 0.9
  np.testing.assert_array_equal(result.states[..., 0][there], expected[there])
  rows = [
    (
      int(expected[g, m]),
      m // 3,
      *result.tokens[g, m, : result.places[g, m, 0] + 1],
    )
    for g, m in np.argwhere(there)
  ]
  assert len(rows) == there.sum()
  for g in range(2):
    mine = [
      (m // 3, *result.tokens[g, m, : result.places[g, m, 0] + 1])
      for m in np.flatnonzero(there[g])
    ]
    assert len(set(mine)) == len(mine)


def test_real_labels_are_averaged_by_key():
  stay, right = 2, 3
  # States 1, 2 and 1 have labels; 1, 2 and 0 are asked about.
  tokens = np.array([[[stay, right], [right, right], [right, stay]]], np.int32)
  sets = adapting.FewShotTasks(
    tokens,
    np.array([[[1], [1], [0]]]),
    np.array([1, 3, 8], np.float32).reshape(1, 3, 1, 1),
  )
  tokens = np.array([[[stay, right], [right, right], [stay, stay]]], np.int32)
  asked = adapting.QueryPoints(tokens, np.ones((1, 3, 1), int))
  learner = lookup.LookUp(LATTICE, 'state', True, 0)
  results = learner.adapt(sets, asked, adapting.Real(), (1, 9), 0)
  for outputs in results:
    np.testing.assert_allclose(outputs.reshape(-1), [4.5, 3, 4])


@pytest.mark.parametrize('kind', [adapting.Classes(3, 2), adapting.Real(2)])
def test_of_a_stream_all_sequences_so_far_are_looked_up(kind):
  steps = 1, 4

  def sets(step, num=5):
    tokens = LATTICE.sample(2 * num, step).tokens.reshape(2, num, -1)
    draws = np.random.default_rng(step)
    places = draws.integers(-1, 9, (2, num, 3))
    return adapting.FewShotTasks(
      tokens, places, draws.integers(0, 3, (2, num, 3, 2))
    )

  asked = sets(99, 30)
  asked = adapting.QueryPoints(asked.tokens, np.maximum(asked.places, 0))
  learner = lookup.LookUp(LATTICE, 'prefix', True, 0)
  results = learner.adapt(adapting.TaskStream(sets), asked, kind, steps, 0)
  for step, outputs in zip(steps, results, strict=True):
    parts = zip(*map(sets, range(step)), strict=True)
    whole = adapting.FewShotTasks(
      *(np.concatenate(part, axis=1) for part in parts)
    )
    expected = learner.adapt(whole, asked, kind, (1,), 0)[0]
    np.testing.assert_allclose(outputs, expected, rtol=1e-6)
  assert not np.array_equal(*results)


@dataclasses.dataclass(frozen=True)
class Few(type(LATTICE)):
  """Has but ten sequences."""

  def sample(self, num, seed, split='all'):
    return super().sample(min(num, 10), seed, split)


@pytest.mark.parametrize(
  ('fields', 'message'),
  [
    ({'num': 5}, 'num=5; expected an even number'),
    ({'examples': 0}, 'examples=0'),
    ({'variant': 'mine'}, 'available: paper, published, published_games'),
    ({'steps': (0,)}, 'ascending values, each at least 1'),
    ({'pool': 3}, 'pool=3; expected at least states=12'),
  ],
)
def test_bad_fields_are_one_line(fields, message):
  with pytest.raises(core.InputError, match=message):
    inductive_bias.Metric(**{**SMALL, **fields})


def test_bad_input_is_one_line():
  with pytest.raises(core.InputError, match=r'gave 10 seq.*expected 1600'):
    run(Few(size=5, length=20))
  with pytest.raises(core.InputError, match="lookup: by='soul'; available"):
    lookup.Model(by='soul')
