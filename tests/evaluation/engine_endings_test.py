"""Nothing is asked of a model after a game is over."""

import dataclasses

import numpy as np

from tests import plain
from wm import core
from wm.core import accept as rules
from wm.core import basics, registry
from wm.evaluation import context, engine
from wm.models.serving import oracles, process

# Sixteen squares: games end after twelve moves, and often before.
WORLD = registry.make('world', 'othello(size=4)')
ORACLE = oracles.Oracle(WORLD)
ACCEPT = rules.epsilon(0.01)


class Babbler(oracles.WorldPredictor):
  """Perfect while a game goes on; then anything, by how it got there."""

  many_states = True

  def support(self, states, history):
    log_probs = plain.world_log_probs(self.world, states)
    mute = ~np.isfinite(log_probs).any(-1)
    share = basics.uniforms(history[:, None], np.arange(self.vocab_size)) < 0.4
    share[:, 0] = False
    mass = share / np.maximum(share.sum(-1, keepdims=True), 1)
    with np.errstate(divide='ignore'):
      log_probs[mute] = np.log(mass[mute])
    return process.all_tokens(log_probs)


BABBLER = Babbler(WORLD)


@dataclasses.dataclass(frozen=True)
class Unjudged(type(WORLD)):
  """The same game, which does not say where it is over."""

  def over(self, states):
    return np.zeros(len(states), bool)


def _trials(predictor, judged=True, num=40):
  states = WORLD.sample_states(num, 3)
  moves = WORLD.prefix_moves(states)[:, 0]
  drawn = [
    WORLD.sample_prefixes(states, moves, basics.hash64(side, np.arange(num)))
    for side in range(2)
  ]
  pairs = context.PrefixPairs(
    states,
    states,
    np.stack([d.tokens for d in drawn], axis=1),
    np.stack([d.lengths for d in drawn], axis=1),
    moves,
    np.full(num, ''),
    np.arange(num),
    {},
  )
  world = WORLD if judged else Unjudged(size=4)
  rules = ACCEPT, ACCEPT
  return context.Trials(predictor, world, pairs, *rules, seed=5)


def _rollouts(predictor, judged=True, **fields):
  trials = _trials(predictor, judged)
  return trials.first, engine.sample_and_check(trials, 6, **fields)


def test_games_are_over_where_their_records_end():
  games = WORLD.sample(30, 1)
  trials = _trials(ORACLE, num=30)
  trials.prefixes.first[:] = WORLD.init(30)
  result = engine._Endings(trials, (30, 1))
  result.start(np.ones((30, 1), bool), np.arange(30))
  over = np.zeros(games.tokens.shape, bool)
  for k in range(games.tokens.shape[1]):
    tokens = np.where(k < games.lengths, games.tokens[:, k], core.DEAD)
    over[:, k] = result.follow(tokens[:, None])[:, 0]
  expected = np.arange(games.tokens.shape[1]) == games.lengths[:, None] - 1
  np.testing.assert_array_equal(over, expected)
  assert (games.lengths < WORLD.max_len).any()


def test_an_illegal_continuation_is_never_over():
  trials = _trials(ORACLE, num=1)
  result = engine._Endings(trials, (1, 1))
  result.start(np.ones((1, 1), bool), np.zeros(1, int))
  illegal = np.flatnonzero(~WORLD.legal(trials.first)[0, 1:])[:1] + 1
  for _ in range(3):
    assert not result.follow(illegal[None]).any()


def test_what_follows_the_end_of_a_game_is_not_asked():
  states, result = _rollouts(BABBLER)
  _, oracle = _rollouts(ORACLE)
  np.testing.assert_array_equal(result.tokens, oracle.tokens)
  assert (result.status == core.ENDED).all()
  trial = np.repeat(np.arange(len(states)), 6)
  steps, after = WORLD.walk(
    states[trial],
    result.tokens.reshape(len(trial), -1),
    result.lengths.reshape(-1),
  )
  np.testing.assert_array_equal(steps, result.lengths.reshape(-1))
  assert WORLD.over(after).all()
  _, unjudged = _rollouts(BABBLER, judged=False)
  assert (unjudged.status == core.REFUSED).any()
