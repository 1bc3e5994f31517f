"""Adversaries: next tokens, routes and losses against a peer by hand."""

import functools

import numpy as np
import pytest

from tests import every_world
from tests.models.adversaries import (
  MAP,
  MOVES,
  NUM,
  PAIRS,
  SHARE,
  TRAINED,
  WORLDS,
  best,
  model,
  peer,
  run,
  state_of,
  value,
)
from wm import core
from wm.core import registry
from wm.metrics import acceptance
from wm.models import adversary
from wm.worlds.maps.navigation import END, NODE0

each = pytest.mark.parametrize(('name', 'kind'), PAIRS)
on_map = pytest.mark.parametrize('kind', adversary.KINDS)


@functools.cache
def judged(name: str, kind: str) -> tuple[np.ndarray, np.ndarray]:
  """The peer's probabilities and what is legal [P, V], at all positions."""
  world, probs, legal = WORLDS[name], [], []
  sample = world.sample(NUM, 0, split='heldout')
  for row, size in zip(sample.tokens.tolist(), sample.lengths, strict=True):
    for k in range(max(world.prompt_len, 1), size + 1):
      mask = world.legal(state_of(world, tuple(row[:k])))[0]
      if mask.any():
        probs.append(peer(name, kind, tuple(row[:k])))
        legal.append(mask)
  return np.array(probs), np.array(legal)


# Teacher forcing.


@each
def test_next_token_is_the_peer_s(name, kind):
  probs, legal = judged(name, kind)
  accepted, rows = probs > 0.01, np.arange(len(probs))
  both, count = (accepted & legal).sum(1), accepted.sum(1)
  expected = {
    'validity': legal[rows, probs.argmax(1)].mean(),
    'valid_mass': (probs * legal).sum(1).mean(),
    'set_precision': (both[count > 0] / count[count > 0]).mean(),
    'set_recall': (both / legal.sum(1)).mean(),
    'exact_set': (accepted == legal).all(1).mean(),
  }
  if kind == 'permuted':  # Of equal tokens, the oracle's tilt decides.
    end = (probs[:, END] > 0) & ~legal[:, END]
    assert 0 < end.mean() < 0.2
    expected['validity'] = 1 - end.mean()
  for quantity, wanted in expected.items():
    result = value(name, kind, f'next_token(num={NUM})', quantity)
    assert result == pytest.approx(wanted, abs=2e-4), quantity


@each
def test_acceptance_is_the_peer_s(name, kind):
  probs, legal = judged(name, kind)
  epsilons = np.array(acceptance.Metric().epsilons)
  exact = [((probs > e) == legal).all(1).mean() for e in epsilons]
  near = [x for x, e in zip(exact, epsilons, strict=True) if 1e-3 <= e <= 0.01]
  expected = {
    'exact_best': max(exact),
    'exact_least': min(near),
    'exact_greatest': max(near),
    'exact_range': max(near) - min(near),
    'exact_by_epsilon': np.mean(exact),
  }
  for quantity, wanted in expected.items():
    result = value(name, kind, f'acceptance(num={NUM})', quantity)
    assert result == pytest.approx(wanted, abs=1e-6), quantity


def test_the_memoriser_is_exact_on_its_training_set():
  for name, world in WORLDS.items():
    sample = world.sample(TRAINED, 0, split='train')
    result = model(name, 'memoriser').log_probs(sample.tokens, sample.lengths)
    truth = model(name, 'oracle').log_probs(sample.tokens, sample.lengths)
    np.testing.assert_allclose(result, truth, atol=1e-6)


# Decoding.


def held_out() -> tuple[np.ndarray, np.ndarray]:
  """Origins and goals of held-out routes, rows of the graph."""
  sample = MAP.sample(NUM, 0, split='heldout')
  return sample.tokens[:, 0] - NODE0, sample.tokens[:, 1] - NODE0


def greedy_valid(kind: str) -> np.ndarray:
  """[N] bool: are held-out routes completed?

  forgets: moves are right after at most MOVES of them, so as many and one are
  made; `end`, the first of equal tokens, then follows wherever it is.
  memoriser: held-out pairs are unknown, so `end` comes at once.
  """
  hops = MAP.hops[held_out()].astype(int)
  return {
    'permuted': hops < 0,
    'memoriser': hops == 0,
    'forgets': hops <= MOVES + 1,
  }.get(kind, hops >= 0)


@on_map
def test_greedy_routes(kind):
  result = run('map', kind, f'traversal(num={NUM})')['valid']
  np.testing.assert_array_equal(result.value, greedy_valid(kind))
  detours = run('map', kind, f'detour(num={NUM}, probabilities=(0.0, 0.3))')
  np.testing.assert_array_equal(detours['valid_0'].value, result.value)
  if kind in ('leaky', 'peaked', 'deterministic', 'permuted'):
    # Wherever a detour leads, the way goes on to the same end.
    np.testing.assert_array_equal(detours['valid_0.3'].value, result.value)


def completed(kind: str, origin: int, goal: int) -> float:
  """Probability that sampled tokens complete a route within the cap."""
  delta = MAP.graph.delta
  after = np.zeros(len(delta))  # At a node, one move later.
  for moves in reversed(range(MAP.max_moves + 1)):
    now = np.zeros(len(delta))
    for node in range(len(delta)):
      # The state is what counts, so any history that reaches it will do.
      legal = np.append(False, delta[node] >= 0)
      legal[0] = node == goal
      uniform = kind == 'memoriser' or (kind == 'forgets' and moves > MOVES)
      mass = legal / (len(MAP.vocab) - 1 if uniform else legal.sum())
      if kind == 'leaky':
        mass *= 1 - SHARE['leaky']['map']
      if kind in ('peaked', 'deterministic') and legal.sum() > 1:
        share = 0.009 if kind == 'peaked' else 0
        mask = np.zeros(len(MAP.vocab), bool)
        mask[END:NODE0] = legal
        first = best(MAP, np.array([[node, goal]]), mask) - END
        mass = legal * share / (legal.sum() - 1)
        mass[first] = 1 - share
      ahead = np.where(delta[node] >= 0, after[delta[node]], 0)
      now[node] = mass[0] * (node == goal) + (mass[1:] * ahead).sum()
    after = now
  return float(after[origin])


@pytest.mark.parametrize('kind', ['oracle', *adversary.KINDS])
def test_sampled_routes(kind):
  """Within four standard errors of what the chain of states says."""
  spec = f"traversal(num={NUM}, decoding='sampled')"
  result = run('map', kind, spec)['valid'].value
  # The same draws, beside greedy routes.
  for decoding in ("decoding='sampled'", "decoding='greedy'"):
    scores = run('map', kind, f'traversal(num={NUM}, {decoding})')
    drawn = run('map', kind, spec)
    legal = drawn['valid'].value + drawn['cap'].value + drawn['stuck'].value
    np.testing.assert_array_equal(scores['sampled_legal'].value, legal)
  if kind == 'permuted':  # `end` has no probability at the true goal.
    assert not result.any()
    return
  pairs = zip(*held_out(), strict=True)
  chance = np.array([completed(kind, *pair) for pair in pairs])
  error = np.sqrt((chance * (1 - chance)).sum()) / NUM
  # The oracle's tilt of 1e-3 changes each of 23 tokens by no more.
  assert abs(result.mean() - chance.mean()) <= 4 * error + 0.025
  again = run.__wrapped__('map', kind, spec)['valid'].value
  np.testing.assert_array_equal(result, again)


def test_sampled_games_end_at_the_first_leak():
  """Each token is illegal with 0.15: few are left of 20 tokens or more."""
  spec = f"traversal(num={NUM}, decoding='sampled')"
  lengths = run('game', 'leaky', spec)['valid'].columns['tokens']
  assert value('game', 'oracle', spec, 'valid') == 1
  assert value('game', 'leaky', f'traversal(num={NUM})', 'valid') == 1
  # 0.85 ** 20 is 0.039; eight of 40 such games have a probability of 2e-4.
  assert value('game', 'leaky', spec, 'valid') * NUM < 8
  # Tokens up to a first leak are geometric: mean 6.7, deviation 6.1.
  assert (lengths - 1).mean() == pytest.approx(6.7, abs=4 * 6.1 / NUM**0.5)


# Losses.


@on_map
def test_losses(kind):
  """In nats a token, of one bin of tokens."""
  spec = f'excess_loss(num={NUM}, bins=100)'
  loss = run('map', kind, spec)['loss']
  if kind in ('deterministic', 'permuted'):
    # The world draws tokens that have no probability: at each end at least.
    assert set(loss.reason) == {'impossible'}
    return
  oracle = run('map', 'oracle', spec)['loss'].value
  size = len(MAP.vocab) - 1
  if kind == 'leaky':  # All legal tokens have 0.62 of what they had.
    np.testing.assert_allclose(loss.value - oracle, -np.log(0.62), atol=1e-5)
  elif kind == 'memoriser':  # Held-out pairs are unknown.
    np.testing.assert_allclose(loss.value, np.log(size), atol=1e-5)
  elif kind == 'forgets':  # Six of `weight` positions are the oracle's.
    rest = np.maximum(loss.weight - (MOVES + 1), 0)
    assert (loss.value * loss.weight >= rest * np.log(size) - 1e-3).all()
    assert (
      loss.value * loss.weight <= rest * np.log(size) + 6 * np.log(9)
    ).all()
  else:  # Of n legal tokens no more is expected than the least likely has.
    assert (loss.value > oracle).all()
    assert (loss.value <= -np.log(0.009 / 8) + 1e-6).all()


# What it is made of.


@pytest.mark.parametrize(
  'spec', ['othello(size=6)', 'mazes()', 'chess()', 'orbits()', 'lattice()']
)
def test_other_worlds_state_no_goal(spec):
  world = registry.make('world', spec)
  with pytest.raises(core.InputError, match='states no goal') as error:
    adversary.Model(kind='permuted').predictor(world, 0)
  assert '\n' not in str(error.value)


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
