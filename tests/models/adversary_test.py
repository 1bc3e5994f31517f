"""Adversaries: next tokens, routes and losses against a peer by hand."""

import numpy as np
import pytest

from tests import every_world
from tests.models import adversaries
from tests.models.adversaries import NUM, PAIRS, TRAINED, WORLDS, model, value
from wm import core
from wm.core import registry
from wm.models import adversary


@pytest.mark.parametrize(('name', 'kind'), PAIRS)
def test_next_token_is_the_peer_s(name, kind):
  for quantity, expected in adversaries.next_token(name, kind).items():
    result = value(name, kind, f'next_token(num={NUM})', quantity)
    assert result == pytest.approx(expected, rel=1e-5, abs=2e-6), quantity


def test_the_memoriser_is_exact_on_its_training_set():
  for name, world in WORLDS.items():
    sample = world.sample(TRAINED, 0, split='train')
    result = model(name, 'memoriser').log_probs(sample.tokens, sample.lengths)
    truth = model(name, 'oracle').log_probs(sample.tokens, sample.lengths)
    np.testing.assert_allclose(result, truth, atol=1e-6)


@pytest.mark.parametrize(
  'spec', ['othello(size=6)', 'mazes()', 'chess()', 'orbits()', 'lattice()']
)
def test_other_worlds_state_no_goal(spec, one_line):
  world = registry.make('world', spec)
  with one_line('states no goal'):
    adversary.Model(kind='permuted').predictor(world, 0)


@pytest.mark.parametrize(
  ('fields', 'match'),
  [
    ({'kind': 'leeky'}, 'leaky'),
    ({'share': 1.0}, 'share'),
    ({'moves': -1}, 'moves'),
    ({'num': 0}, 'num'),
  ],
)
def test_bad_fields(fields, match):
  with pytest.raises(core.InputError, match=match):
    adversary.Model(**fields)


@pytest.mark.parametrize('world', every_world.SPECS)
def test_every_world_has_them(world):
  """Probabilities sum to 1, by kind, where the world goes on."""
  truth = every_world.WORLDS[world]
  sample = truth.sample(3, 0, split='heldout')
  lengths = np.minimum(sample.lengths - 1, 12)
  tokens = sample.tokens[:, : lengths.max()]
  used = np.arange(tokens.shape[1]) < lengths[:, None]
  states = truth.init(len(tokens))
  legal = np.zeros((*tokens.shape, len(truth.vocab)), bool)
  for t in range(tokens.shape[1]):
    states = truth.advance(states, tokens[:, t])
    legal[:, t] = truth.legal(states)
  illegal = len(truth.vocab) - 1 - legal.sum(-1)
  for kind in adversary.KINDS:
    if kind == 'permuted' and not world.startswith('maps'):
      continue
    made = adversary.Model(kind=kind, num=5, moves=3).predictor(truth, 0)
    probs = np.exp(made.log_probs(tokens, lengths))
    np.testing.assert_allclose(probs.sum(-1)[used], 1, atol=1e-4)
    mass = (probs * legal).sum(-1)[used]
    if kind == 'leaky':
      expected = np.where(illegal[used] > 0, 1 - 0.38, 1)
      np.testing.assert_allclose(mass, expected, atol=1e-4)
    if kind in ('peaked', 'deterministic'):
      np.testing.assert_allclose(mass, 1, atol=1e-4)
