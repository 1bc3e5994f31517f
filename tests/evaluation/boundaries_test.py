"""Boundaries drawn by play, and the places where models part from them."""

import numpy as np
import pytest

from tests import tiny
from wm import core
from wm.core import basics, registry
from wm.evaluation import boundaries, statistics
from wm.metrics import distinction
from wm.models.serving import oracles

GAME = registry.make('world', 'othello(size=4)')
LONG = tiny.World(ending=False)


def _pairs(world, num, seed=0):
  states = world.sample_states(2 * num, seed)
  first, second = states[:num], states[num:]
  apart = world.state_id(first) != world.state_id(second)
  return first[apart], second[apart]


def _sampled(world, first, second, num, room=12, seed=1):
  total = len(first)
  return boundaries.sampled(
    world,
    first,
    second,
    num=num,
    room=np.full(total, room),
    seeds=basics.hash64(seed, np.arange(total)),
  ).listed()


@pytest.mark.parametrize('world', [GAME, LONG, tiny.World()], ids=repr)
def test_sampled_elements_are_of_the_boundary(world):
  first, second = _pairs(world, 20)
  exact = world.boundary(first, second, 4).listed()
  listed = _sampled(world, first, second, 400, room=4)
  for whole, sample in zip(exact, listed, strict=True):
    assert set(sample) <= set(whole)
    assert sample == sorted(set(sample), key=lambda s: (len(s), s))
    # A walk of four steps among three choices: 400 miss one seldom.
    assert len(sample) >= 0.9 * len(whole)
  assert any(exact)


def test_it_goes_to_the_end_of_the_game():
  discs = registry.make('world', 'connect4(rows=4, columns=3)')
  state = discs.parse('1,0,0')
  first, second = np.repeat(state, 2, axis=0), discs.parse('0,1,0')
  listed = _sampled(discs, first, np.repeat(second, 2, axis=0), 500)[0]
  # The last disc of the second column, after up to seven others.
  assert {len(s) for s in listed} == set(range(4, 12))
  assert set(listed) <= set(discs.boundary(state, second, 11).listed()[0])
  short = _sampled(discs, first, np.repeat(second, 2, axis=0), 500, room=6)[0]
  assert [s for s in listed if len(s) <= 6] == short


def test_a_pair_depends_on_its_own_seed():
  first, second = _pairs(GAME, 20)
  whole = _sampled(GAME, first, second, 10)
  assert whole[:7] == _sampled(GAME, first[:7], second[:7], 10)
  assert whole != _sampled(GAME, first, second, 10, seed=2)


def test_one_state_has_no_boundary_with_itself():
  first, _ = _pairs(GAME, 5)
  assert _sampled(GAME, first, first, 20) == [[]] * len(first)


def test_choices_are_uniform():
  options = np.tile([False, True, True, False, True], (30_000, 1))
  options[0] = False
  chosen = boundaries.choice(options, basics.uniforms(1, np.arange(30_000)))
  assert chosen[0] == core.DEAD
  share = np.bincount(chosen[1:], minlength=5) / 30_000
  np.testing.assert_allclose(share, [0, 1 / 3, 1 / 3, 0, 1 / 3], atol=0.01)
  last = np.array([1 - 2**-24], np.float32)
  assert boundaries.choice(options[1:2], last).tolist() == [4]


def test_recall_by_samples_is_recall(monkeypatch):
  monkeypatch.setattr(distinction, 'PLAYED', 300)
  noisy = oracles.NoisyOracle(GAME, illegal=0.1, wrong=0.3, by='prefix', seed=3)
  fields = {'trials': 80, 'samples': 0, 'accept': 'epsilon(0.02)'}
  values = []
  for more in ({'k': 3}, {'boundary': 'sampled'}):
    metric = distinction.Metric(**fields, **more)
    assert (
      statistics.summarize(metric(oracles.Oracle(GAME), GAME, 0)[0])['value']
      == 1
    )
    values.append(metric(noisy, GAME, 0)[0])
  monkeypatch.setattr(distinction, 'PLAYED', 3000)
  capped = distinction.Metric(**fields, k=3, boundary='sampled')(
    noisy, GAME, 0
  )[0]
  # With so many samples, and as short, all of it is found.
  np.testing.assert_allclose(capped.value, values[0].value, atol=0.02)
  assert 0 < statistics.summarize(values[1])['value'] < 1


def test_where_a_model_is_wrong_about_its_boundary():
  """Node 0 -x-> 1 -x-> 3, -y-> 2; y is illegal at 1 and 3."""
  x, y = tiny.X, tiny.Y
  nodes = np.arange(4, dtype=np.int32)[:, None]
  cases = [
    (0, 1, (y,), 0),  # Legal at 0, illegal at 1.
    (0, 2, (y,), 1),  # Legal at both: the second should accept it.
    (1, 0, (y,), 1),  # Illegal at 1: the first should not accept it.
    (0, 2, (x, y), 2),  # x y: illegal from 0 at its second token.
    (2, 0, (x, x, y), 3),  # 2 0 1, then y is illegal; and so it is from 0.
    (0, 1, (y, y, x), 0),  # 0 2 3 0; from 1 illegal, though at once.
    (2, 1, (y, y), 1),  # Illegal from both, and from 1 at once.
  ]
  for item, two, suffix, place in cases:
    listed = core.boundary.stacked([[np.array([suffix])]])
    result = boundaries.model_divergence(
      tiny.World(), nodes[item : item + 1], nodes[two : two + 1], listed
    )
    assert result.tolist() == [place], (item, two, suffix)


def test_places_of_the_first_wrong_elements_are_kept():
  noisy = oracles.NoisyOracle(GAME, illegal=0.1, wrong=0.3, by='prefix', seed=3)
  metric = distinction.Metric(trials=60, accept='epsilon(0.02)')
  result = {s.quantity: s for s in metric(noisy, GAME, 0)}
  for name in ('precision', 'recall'):
    scores = result[name]
    suffix, place = scores.columns['suffix'], scores.columns['wrong_at']
    bad = scores.measured & (scores.value < 1)
    assert bad.sum() > 5
    np.testing.assert_array_equal(place > 0, bad)
    np.testing.assert_array_equal(suffix != '', bad)
    words = np.array([len(s.split()) for s in suffix])
    assert (place <= words).all()
    for part in ('prefix', 'other_prefix'):
      lengths = [len(s.split()) for s in scores.columns[part]]
      np.testing.assert_array_equal(lengths, scores.columns['moves'])
  assert 'suffix' not in result['recall_by_length'].columns
