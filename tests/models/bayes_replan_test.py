"""Replanning: what the rules and the goal imply where nothing is sampled."""

import numpy as np
import pytest

from tests.models.bayes_test import NOISY, SHORTEST, WALKS, law, predictor
from wm import core
from wm.core import registry
from wm.kernels.maps import paths
from wm.worlds.maps import DIRECTION0, END, NODE0

REPLAN = "bayes(off='replan')"
FEW = "maps(rows=3, columns=3, traversal='noisy', weightings=5, max_moves=6)"


def wandering(world: core.World, num: int, seed: int) -> core.Sequences:
  """Prefixes by uniform legal moves, on and off what the world samples."""
  rng, size = np.random.default_rng(seed), world.max_len
  tokens = np.zeros((num, size), np.int32)
  lengths = np.zeros(num, np.int32)
  states = world.init(num)
  for t in range(size):
    legal = world.legal(states)
    if t >= world.prompt_len:
      legal[:, END] = False  # What is over says nothing more.
    going = np.flatnonzero(legal.any(1))
    odds = np.where(legal, rng.random(legal.shape), -1)
    tokens[going, t] = odds[going].argmax(1)
    lengths[going] += 1
    states = world.advance(states, np.where(legal.any(1), tokens[:, t], END))
  return core.Sequences(tokens, lengths)


def first_moves(world: core.World) -> np.ndarray:
  """[K, S, S] token of the first move from each row to each goal."""
  size = len(world.graph)
  pairs = np.divmod(np.arange(size * size), size)
  plans = []
  for lengths in world._roads.lengths:
    labels, moves = paths.shortest_routes(
      world.graph.delta, lengths, *pairs, 50
    )
    there = np.where(moves > 0, labels[:, 0] + DIRECTION0, core.DEAD)
    there[pairs[0] == pairs[1]] = END
    plans.append(there.reshape(size, size))
  return np.stack(plans)


@pytest.mark.parametrize('spec', [SHORTEST, FEW])
def test_replanning_is_the_limit_of_rare_random_moves(spec):
  world = registry.make('world', spec)
  assert isinstance(world, core.Generative)
  inputs, plans, share = wandering(world, 150, 1), first_moves(world), 1e-7
  lines = predictor(world, REPLAN).log_probs(inputs.tokens, inputs.lengths)
  sampled = law(world)
  compared = 0
  for row, length in enumerate(inputs.lengths.tolist()):
    origin, goal, *moves = inputs.tokens[row, :length].tolist()
    # Weightings that the sampler uses for the pair; all, where it uses none.
    routes = [r for r in sampled if r[:2] == (origin, goal)]
    place = origin - NODE0
    weight = np.zeros(len(plans))
    for k in range(len(plans)):
      u, taken = place, []
      while u != goal - NODE0 and plans[k, u, goal - NODE0] != core.DEAD:
        taken.append(int(plans[k, u, goal - NODE0]))
        u = world.graph.delta[u, taken[-1] - DIRECTION0]
      weight[k] = (origin, goal, *taken, END) in routes
    weight += not weight.any()
    for t, token in enumerate([*moves, None], start=1):
      plan = plans[:, place, goal - NODE0]
      legal = DIRECTION0 + np.flatnonzero(world.graph.delta[place] >= 0)
      legal = np.append(legal, END) if place == goal - NODE0 else legal
      rest = share / len(legal)
      law_next = np.zeros(len(world.vocab))
      for k, odds in enumerate(weight / weight.sum()):
        law_next[legal] += odds * rest
        if plan[k] != core.DEAD:
          law_next[plan[k]] += odds * (1 - share)
      law_next /= law_next.sum()
      np.testing.assert_allclose(np.exp(lines[row, t]), law_next, atol=1e-4)
      compared += 1
      if token is None:
        break
      weight = weight * ((plan == token) * (1 - share) + rest)
      place = world.graph.delta[place, token - DIRECTION0]
  assert compared > 500


@pytest.mark.parametrize('spec', [WALKS, SHORTEST, NOISY])
def test_replanning_says_the_same_of_what_is_sampled(spec):
  world = registry.make('world', spec)
  inputs = world.sample(100, 3)
  usual, replans = (
    predictor(world, item).log_probs(inputs.tokens, inputs.lengths)
    for item in ('bayes()', REPLAN)
  )
  used = np.arange(inputs.tokens.shape[1]) < inputs.lengths[:, None] - 1
  np.testing.assert_array_equal(usual[used], replans[used])
