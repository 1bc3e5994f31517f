"""Predictors that know the few possible tokens, against all tokens."""

import numpy as np
import pytest

from tests import plain, tiny
from wm import core
from wm.core import accept, capabilities, registry
from wm.models.serving import oracles, process

WORLDS = [
  tiny.World(),
  tiny.World(ending=False),
  *(registry.make('world', f'{name}()') for name in registry.names('world')),
  registry.make('world', "maps(traversal='shortest', max_moves=12)"),
  registry.make('world', 'connect4(rows=2, columns=3)'),
]
RULES = [
  accept.epsilon(0.0),
  accept.epsilon(0.1),
  accept.epsilon(0.3),
  accept.top_k(1),
  accept.top_k(3),
  accept.top_k(40),
  accept.top_p(0.5),
  accept.top_p(0.9),
  accept.top_p(1.0),
  accept.published(0.01),
  accept.published(0.1),
]
MODELS = [
  'oracle()',
  'noisy_oracle(wrong=0.4)',
  "noisy_oracle(illegal=0.2, wrong=0.3, by='prefix')",
  'noisy_oracle(illegal=1.0, wrong=0.0)',
]
every_world = pytest.mark.parametrize('world', WORLDS, ids=repr)


def _states(world: core.World, num: int = 40) -> np.ndarray:
  """The start, states on the way, states of trials, over and dead ones."""
  result = world.sample(num, 3)
  dead = world.advance(world.init(1), np.zeros(1, np.int32))
  parts = [world.init(1), dead]
  if isinstance(world, core.Prefixed):
    parts.append(world.sample_states(num, 1))
  for share in (0.1, 0.5, 1.0):
    lengths = (result.lengths * share).astype(np.int32)
    parts.append(world.walk(world.init(num), result.tokens, lengths)[1])
  return np.concatenate(parts)


def _soonest(world, states):
  """[B, V] bool: legal tokens on the way to the soonest completion, by
  bisection of the budget."""
  low = np.ones(len(states), np.int32)
  high = np.full(len(states), world.max_len, np.int32)
  while (low < high).any():  # The least budget that leaves any token.
    middle = (low + high) // 2
    enough = capabilities.feasible_tokens(world, states, middle).any(-1)
    high = np.where(enough, middle, high)
    low = np.where(enough, low, np.minimum(middle + 1, high))
  return capabilities.feasible_tokens(world, states, low)


@every_world
def test_log_probabilities_are_those_of_all_tokens(world):
  states = _states(world)
  legal = world.legal(states)
  soon = np.zeros(legal.shape, bool)
  if world.end != core.DEAD:
    soon = _soonest(world, states)
  mass = legal * np.where(soon, 1 + oracles.TILT, 1.0)
  total = mass.sum(-1, keepdims=True)
  with np.errstate(divide='ignore'):
    expected = np.log(mass / np.where(total > 0, total, 1)).astype(np.float32)
  result = plain.world_log_probs(world, states)
  np.testing.assert_array_equal(result, expected)


class Dense(process.ProcessSession):
  """Draws and answers by all tokens, as any session may."""

  draw, accepted = core.Session.draw, core.Session.accepted


@pytest.mark.parametrize('spec', MODELS)
@every_world
def test_sessions_draw_and_answer_as_those_of_all_tokens(world, spec):
  if 'wrong' in spec and not isinstance(world, core.Prefixed):
    pytest.skip(f'{world!r:.20} draws no states to be wrong by')
  model = registry.make('model', spec).predictor(world, 5)
  games, num, branches = world.sample(12, 7), 12, 3
  lengths = np.minimum(games.lengths, np.arange(num) % 5 + world.prompt_len)
  start = games.tokens, lengths.astype(np.int32), branches
  sparse = model.session(*start)
  dense = Dense(model, *start)
  rng, drawn = np.random.default_rng(0), 0
  for step in range(4):
    uniform = rng.random((num, branches), np.float32)
    for rule in RULES:
      tokens = sparse.draw(rule, uniform)
      np.testing.assert_array_equal(tokens, dense.draw(rule, uniform))
      others = rng.integers(-1, len(world.vocab), tokens.shape)
      for asked in (tokens, others):
        answers = dense.accepted(rule, asked)
        np.testing.assert_array_equal(sparse.accepted(rule, asked), answers)
    mask = sparse.mask(RULES[0])
    np.testing.assert_array_equal(mask, dense.mask(RULES[0]))
    tokens = sparse.draw(RULES[0], uniform)
    drawn += (tokens != core.DEAD).sum()
    for session in (sparse, dense):
      session.advance(tokens)
      session.restart(np.array([step]), games.tokens[:1], lengths[:1] + step)
  assert drawn > 0


def test_nothing_of_the_width_of_the_vocabulary_is_made():
  """A map of 10,000 nodes: draws and answers on nine tokens."""
  world = registry.make('world', 'maps(rows=100, columns=100)')
  oracle = registry.make('model', 'oracle()').predictor(world, 0)
  result = world.sample(4, 0)
  session = oracle.session(result.tokens, np.full(4, 3), 2)
  assert oracle.support(
    world.walk(world.init(4), result.tokens, np.full(4, 3))[1], None
  ).tokens.shape == (4, 9)
  tokens = session.draw(accept.epsilon(0.01), np.zeros((4, 2), np.float32))
  assert session.accepted(accept.epsilon(0.01), tokens).all()
