"""Endings: nothing is asked of a model after a game is over."""

import numpy as np
import pytest

from wm import core
from wm.core import accept as rules
from wm.core import registry
from wm.evaluation import endings, engine, search, statistics
from wm.models.serving import oracles, world_states

# Sixteen squares: games end after twelve moves, and often before.
WORLD = registry.make('world', 'othello(size=4)')
ORACLE = oracles.Oracle(WORLD)
ACCEPT = rules.epsilon(0.01)


class Babbler(world_states.WorldStatePredictor):
  """Perfect while a game goes on; then anything, by how it got there."""

  def table(self, states: np.ndarray, history: np.ndarray) -> np.ndarray:
    log_probs = oracles.world_log_probs(self.world, states)
    mute = ~np.isfinite(log_probs).any(-1)
    share = core.uniforms(history[:, None], np.arange(self.vocab_size)) < 0.4
    share[:, 0] = False
    mass = share / np.maximum(share.sum(-1, keepdims=True), 1)
    with np.errstate(divide='ignore'):
      log_probs[mute] = np.log(mass[mute])
    return log_probs


BABBLER = Babbler(WORLD)


def _states(num=40, seed=3):
  return WORLD.sample_states(num, seed)


def _pairs(num=40, seed=3):
  states = _states(num, seed)
  moves = WORLD.prefix_moves(states)[:, 0]
  drawn = [
    WORLD.sample_prefixes(states, moves, core.hash64(side, np.arange(num)))
    for side in range(2)
  ]
  tokens = np.stack([d.tokens for d in drawn], axis=1)
  return states, tokens, np.stack([d.lengths for d in drawn], axis=1)


def _rollouts(predictor, judged=True, **fields):
  states, tokens, lengths = _pairs()
  found = engine.pairs(
    predictor,
    tokens,
    lengths,
    num=6,
    max_len=WORLD.max_len,
    seeds=core.hash64(5, np.arange(len(states))),
    accept=ACCEPT,
    endings=endings.of(WORLD, states) if judged else None,
    **fields,
  )
  return states, found


def test_a_world_with_an_end_token_needs_none():
  tokens = registry.make('world', 'maps(rows=3, columns=3)')
  assert endings.of(tokens, tokens.sample_states(2, 0)) is None


def test_follow_says_where_games_are_over():
  games = WORLD.sample(30, 1)
  start = WORLD.init(30)
  found = endings.of(WORLD, start)
  over = np.zeros(games.tokens.shape, bool)
  for k in range(games.tokens.shape[1]):
    rows = np.flatnonzero(k < games.lengths)
    over[rows, k] = found.follow(rows, games.tokens[rows, k, None])[:, 0]
  expected = np.arange(games.tokens.shape[1]) == games.lengths[:, None] - 1
  np.testing.assert_array_equal(over, expected)
  assert (games.lengths < WORLD.max_len).any()


def test_an_illegal_continuation_is_never_over():
  state = WORLD.sample_states(1, 0)
  found = endings.of(WORLD, state)
  illegal = np.flatnonzero(~WORLD.legal(state)[0, 1:])[:1] + 1
  for _ in range(3):
    assert not found.follow(np.array([0]), illegal[None]).any()


def test_what_follows_the_end_of_a_game_is_not_asked():
  states, found = _rollouts(BABBLER)
  _, oracle = _rollouts(ORACLE)
  np.testing.assert_array_equal(found.tokens, oracle.tokens)
  assert (found.status == core.ENDED).all()
  trial = np.repeat(np.arange(len(states)), 6)
  steps, after = WORLD.walk(
    states[trial],
    found.tokens.reshape(len(trial), -1),
    found.lengths.reshape(-1),
  )
  np.testing.assert_array_equal(steps, found.lengths.reshape(-1))
  assert WORLD.over(after).all()
  _, unjudged = _rollouts(BABBLER, judged=False)
  assert (unjudged.status == engine.REFUSED).any()


@pytest.mark.parametrize('decide', [False, True])
def test_batch_does_not_matter(decide):
  noisy = oracles.NoisyOracle(
    WORLD, illegal=0.2, wrong=0.1, by='prefix', seed=2
  )
  for predictor in (BABBLER, noisy):
    one = _rollouts(predictor, batch=1, decide=decide)[1]
    for batch in (3, 7, 100):
      other = _rollouts(predictor, batch=batch, decide=decide)[1]
      for name in engine.Pairs._fields:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.parametrize('judged', [False, True])
def test_search_stops_there_too(judged):
  states, tokens, lengths = _pairs()
  found = search.search(
    BABBLER,
    tokens,
    lengths,
    depth=8,
    max_len=WORLD.max_len,
    cap=3000,
    accept=ACCEPT,
    endings=endings.of(WORLD, states) if judged else None,
  )
  assert found.refused.any() == (not judged)
  assert found.mass.any() == (not judged)


@pytest.mark.parametrize('fields', ['', ', exact=True, k=3, cap=200'])
def test_compression_is_perfect_for_who_knows_the_game(fields):
  metric = registry.make('metric', f'compression(trials=60{fields})')
  found = statistics.summarize(metric(BABBLER, WORLD, 0)[0])
  assert found['value'] == 1
  assert found['n'] > 20
