"""Transfer: functions of states, what a clock knows, and who learns them."""

import dataclasses

import numpy as np
import pytest

from tests import every_world
from tests.metrics import table
from tests.metrics.inductive_bias_test import Few
from wm import core
from wm.core import registry
from wm.metrics import transfer
from wm.models import lookup

LATTICE = registry.make('world', 'lattice(size=5, length=20)')
GAMES = 3000


@pytest.fixture(autouse=True)
def short(monkeypatch):
  monkeypatch.setattr(transfer, 'MORE', 400)


def run(world=LATTICE, by='state', learned=True, **fields):
  learner = lookup.LookUp(world, by, learned, 0)
  inputs = {'num': 24, 'tested': 40, **fields}
  return table.by_name(transfer.Metric(**inputs)(learner, world, 1))


def test_a_learner_of_states_knows_a_function_of_the_state():
  result = run()
  for name in ('accuracy', 'accuracy_parity'):
    assert table.mean(result[name]) == 1
  assert table.mean(result['loss']) < 0.01
  # Where a walk has begun, a clock still knows something; soon it does not.
  assert 0.5 < table.mean(result['accuracy_clock']) < 0.65
  assert 0.6 < table.mean(result['entropy']) < 0.694


def test_constants_have_the_share_and_coins_a_half():
  result = run(by='nothing')
  share = table.mean(result['accuracy'])
  assert 0.4 < share < 0.65
  assert table.mean(
    run(by='prefix', learned=False, tested=300)['accuracy']
  ) == (pytest.approx(0.5, abs=0.05))


def test_a_look_up_is_as_sure_as_its_labels_let_it_be():
  """One answer for all points: by the shares of labels, or by a coin."""
  result = run(by='nothing', num=200)
  share = table.mean(result['accuracy'])
  entropy = -(share * np.log(share) + (1 - share) * np.log(1 - share))
  assert table.mean(result['loss']) == pytest.approx(entropy, abs=0.02)
  coin = run(by='prefix', learned=False, tested=300)['loss']
  expected = -(np.log(1 / 3) + np.log(2 / 3)) / 2
  assert table.mean(coin) == pytest.approx(expected, abs=0.06)


def test_what_is_legal_does_not_tell_places_of_a_line_apart():
  """Of both walls the parity is even; of the three between one is."""
  result = run(by='legal')
  assert 0.6 < table.mean(result['accuracy']) < 1


@pytest.fixture(scope='module')
def games():
  world = registry.make('world', 'othello()')
  return transfer._function_values(world, world.sample(GAMES, 3))


# Measured by the published program's rules: share of ones, and the entropy
# given the number of the move, in nats.
@pytest.mark.parametrize(
  ('name', 'share', 'entropy'),
  [
    ('majority', 0.506, 0.562),
    ('balance', 0.458, 0.689),
    ('edges', 0.366, 0.586),
    ('balance_published', 0.462, None),
    ('edges_published', 0.185, 0.118),
  ],
)
def test_functions_of_random_games_are_as_often_true_as_measured(
  games, name, share, entropy
):
  values = games.values[name]
  assert values[games.valid].mean() == pytest.approx(share, abs=0.012)
  if entropy is not None:
    half = GAMES // 2
    clock = transfer._clock(games.valid[:half], values[:half], 2)
    there = games.valid[half:]
    inputs = np.broadcast_to(clock, (*there.shape, 2))
    loss = -np.take_along_axis(inputs, values[half:, :, None], -1)[..., 0]
    assert loss[there].mean() == pytest.approx(entropy, abs=0.012)


def test_the_published_functions_are_other_ones(games):
  for name, agreement in (('edges', 0.579), ('balance', 0.343)):
    same = games.values[name] == games.values[f'{name}_published']
    assert same[games.valid].mean() == pytest.approx(agreement, abs=0.015)


def test_othellos_functions_of_a_board_by_hand():
  world = registry.make('world', 'othello()')
  # Black takes row 4 to the west: d3? no; c4: discs c4 d4 e4 d5 are black.
  result = world.functions(world.parse('c4'))
  discs = {'c4': 1, 'd4': 1, 'e4': 1, 'd5': 1, 'e5': 2}
  upper = sum(v == 1 and name[1] in '1234' for name, v in discs.items())
  assert upper == 3
  assert {name: int(value[0]) for name, value in result.items()} == {
    'parity': 0,
    'majority': 1,
    'balance': 1,
    'edges': 0,
    'parity_published': 1,
    'balance_published': 0,
    'edges_published': 0,
  }


def test_balance_compares_the_halves_of_the_board():
  """A third of eight rows is two: discs of the fourth row are above, too."""
  world = registry.make('world', 'othello()')
  states = world.parse('c4 c3 c2')
  board = world.labels(states)[0, :-1].reshape(8, 8)
  result = world.functions(states)
  for side, name in ((1, 'balance'), (2, 'balance_published')):
    above, below = (board[:4] == side).sum(), (board[4:] == side).sum()
    assert int(result[name][0]) == int(above > below)
  assert (board[:2] == 1).sum() <= (board[2:] == 1).sum()
  assert int(result['balance'][0]) == 1


@pytest.mark.parametrize('group', ['z6', 's4', 'a5'])
def test_orders_of_elements_are_those_of_their_powers(group):
  world = registry.make('world', f'groups(group={group!r})')
  rows = np.arange(len(world.elements), dtype=np.int32)
  result = world.functions(rows[:, None])['order']
  orders = []
  for row in rows:
    power, order = row, 1
    while power:
      power, order = int(world.delta[power, row]), order + 1
    orders.append(order)
  names = sorted(set(orders))
  np.testing.assert_array_equal(np.array(names)[result], orders)


def test_material_and_check_in_chess():
  world = registry.make('world', 'chess()')
  for text, material, check in (
    ('4k3/8/8/8/8/8/8/4K3 w - - 0 1', 1, 0),
    ('4k3/8/8/8/8/8/4R3/4K3 b - - 0 1', 2, 1),
    ('4k3/8/8/8/8/1q6/3R4/4K3 w - - 0 1', 0, 0),
  ):
    result = world.functions(world.parse(text))
    assert result['material'][0] == material
    assert result['check'][0] == check


@every_world.having(core.Labelled.functions)
def test_hops_and_all_functions_are_small_classes_of_the_state(world):
  states = every_world.states_of(world)
  states = states[world.state_id(states) != core.DEAD]
  result = world.functions(states)
  assert result
  _, first, back = np.unique(
    world.state_id(states), return_index=True, return_inverse=True
  )
  for values in result.values():
    assert values.shape == (len(states),)
    assert values.dtype == np.int64
    assert values.min() >= 0
    np.testing.assert_array_equal(values, values[first][back])
  if core.can(world, core.Enumerable.distance_to_end):
    tokens, needed = world.distance_to_end(states)
    least = np.where(tokens == core.DEAD, 10**6, needed).min(1)
    # `end` comes behind the last hop; prompts and what is over have none.
    inputs = world.sample(500, 0).tokens
    prompts = [
      world.state_id(world.walk(world.init(500), inputs, np.full(500, k))[1])
      for k in range(world.prompt_len)
    ]
    asks = np.isin(world.state_id(states), prompts)
    asks |= (tokens == core.DEAD).all(1)
    assert not asks.all()
    np.testing.assert_array_equal(result['hops'][~asks], least[~asks] - 1)


def test_a_network_is_tuned_and_its_random_twin():
  result = table.tuned(transfer.Metric)
  assert {'accuracy_1', 'loss_1_parity', 'loss_untrained'} <= {*result}
  assert table.mean(result['accuracy']) > 0.9
  assert table.mean(result['loss']) < table.mean(result['entropy'])


@dataclasses.dataclass(frozen=True)
class Still(type(LATTICE)):
  """Has a function of one value besides."""

  def functions(self, states):
    return {**super().functions(states), 'one': 0 * states[:, 0].astype(int)}


def test_a_function_of_one_value_is_a_reason():
  result = run(Still(size=5, length=20))
  assert {*result['accuracy_one'].reason} == {'one_label'}
  assert table.mean(result['accuracy']) == 1


def test_fewer_sequences_than_are_needed_are_one_line():
  with pytest.raises(core.InputError, match=r'gave 10 seq.*expected 24'):
    run(Few(size=5, length=20))


@pytest.mark.parametrize(
  ('fields', 'message'),
  [
    ({'num': 0}, 'num=0; expected'),
    ({'steps': (0,)}, 'transfer: steps=.*, each at least 1'),
  ],
)
def test_bad_fields_are_one_line(fields, message):
  with pytest.raises(core.InputError, match=message):
    run(**fields)
