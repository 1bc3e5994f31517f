"""State recovery: who knows states, and who what is legal alone."""

import numpy as np
import pytest

from tests.metrics import table
from wm import core
from wm.core import registry
from wm.evaluation import fewshot
from wm.metrics import state_recovery
from wm.models import lookup

LATTICE = registry.make('world', 'lattice(size=5, length=20)')


def run(world=LATTICE, by='state', learned=True, **fields):
  learner = lookup.LookUp(world, by, learned, 0)
  inputs = {'num': 24, 'tested': 60, **fields}
  return table.by_name(state_recovery.Metric(**inputs)(learner, world, 1))


def test_a_learner_of_states_names_them_and_what_is_legal():
  result = run()
  for name in ('accuracy', 'exact', 'legal_equal', 'legal_contained'):
    assert table.mean(result[name]) == 1, name
  assert table.mean(result['legal_beyond']) == 0
  assert 0.1 < table.mean(result['majority']) < 0.5


def test_a_learner_of_next_tokens_has_all_legal_sets_and_few_states():
  result = run(by='legal')
  assert table.mean(result['legal_equal']) == 1
  exact = table.mean(result['exact'])
  assert 0.3 < exact < 0.8
  assert table.mean(result['legal_beyond']) == pytest.approx(1 - exact)


def test_a_constant_overlaps_everywhere_and_is_contained_in_the_middle():
  """Its state is the commonest: one of three moves, in which all are legal."""
  result = run(by='nothing', num=200)
  assert table.mean(result['legal_overlaps']) == 1
  assert table.mean(result['legal_contained']) == table.mean(
    result['legal_equal']
  )
  assert table.mean(result['exact']) == table.mean(result['majority'])


def test_legal_moves_of_wrong_boards_are_compared_by_the_rules():
  world = registry.make('world', 'othello(size=4)')
  states = world.sample_states(40, 0)
  labels = world.labels(states).astype(np.int64)
  asked = state_recovery.BoardPoints(
    np.zeros((1, 1), np.int32),
    np.zeros((1, 1), np.int32),
    labels[None, :1],
    np.zeros(1, int),
  )
  tokens, place = world.history(states), world.known(states) - 1
  asked = state_recovery.BoardPoints(
    tokens, place[:, None], labels[:, None], np.arange(40)
  )
  wrong = np.roll(labels, 1, axis=0)[:, None]
  result = table.by_name(tuple(state_recovery._scores(world, asked, wrong, '')))
  legal = world.legal(states)
  other = np.roll(legal, 1, axis=0)
  sample = legal.any(-1)
  for name, value in (
    ('legal_equal', (legal == other).all(-1)),
    ('legal_overlaps', (legal & other).any(-1)),
    ('legal_contained', ~(other & ~legal).any(-1)),
  ):
    np.testing.assert_array_equal(result[name].measured, sample)
    np.testing.assert_array_equal(result[name].value[sample], value[sample])
  share = (wrong == labels[:, None]).mean(-1)[:, 0]
  np.testing.assert_allclose(result['accuracy'].value, share)
  assert {'accuracy_board', 'accuracy_side'} <= {*result}


def test_places_are_random_and_of_what_a_model_reads():
  world = registry.make('world', 'maps()')
  result = world.sample(30, 0)
  every = fewshot.places(world, result, 0, 1)
  for row, length in zip(every, result.lengths, strict=True):
    # The end token is no place; a route of the longest length has none.
    np.testing.assert_array_equal(
      row[row != core.DEAD], np.arange(world.prompt_len, length - 1)
    )
  sample = fewshot.places(world, result, 3, 1)
  assert sample.shape == (30, 3)
  for row, all_ in zip(sample, every, strict=True):
    kept = row[row != core.DEAD]
    assert len({*kept}) == len(kept) == min(3, (all_ != core.DEAD).sum())
    assert {*kept} <= {*all_}
  other = fewshot.places(world, result, 3, 2)
  assert (other != sample).any()


def test_a_network_is_tuned_and_its_random_twin():
  result = table.tuned(state_recovery.Metric)
  assert {'exact_1', 'legal_beyond_1', 'legal_equal_untrained'} <= {*result}
  assert table.mean(result['exact']) > 0.9


def test_a_world_that_makes_no_states_of_labels_is_a_reason():
  world = registry.make('world', 'seating()')
  if core.can(world, core.Labelled.from_labels) or not isinstance(
    world, core.Labelled
  ):
    world = registry.make('world', 'chess(length=12)')
  result = run(world, num=2, tested=2)
  assert {*result['legal_equal'].reason} == {'labels_make_no_state'}
  assert result['exact'].measured.all()
