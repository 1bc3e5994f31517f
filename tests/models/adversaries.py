"""The adversaries by hand, from the rules of their worlds alone."""

import functools

import numpy as np

from tests.metrics import table
from wm import core
from wm.core import registry
from wm.models import adversary
from wm.worlds.maps.navigation import DIRECTION0, END

# 51 tokens: illegal ones of 'leaky' have less than 0.01, uniform ones more.
MAP = registry.make('world', 'maps(rows=6, columns=7, max_moves=20)')
GAME = registry.make('world', 'othello(size=6)')
WORLDS = {'map': MAP, 'game': GAME}
SHARE = {'leaky': {'map': 0.38, 'game': 0.15}, 'peaked': dict(map=0.009)}
SHARE['peaked']['game'] = 0.009
MOVES, TRAINED, NUM = 5, 300, 40
PAIRS = [
  (name, kind)
  for name in WORLDS
  for kind in adversary.KINDS
  if (name, kind) != ('game', 'permuted')
]


@functools.cache
def model(name: str, kind: str) -> core.Predictor:
  if kind in ('oracle', 'uniform'):
    return registry.make('model', kind).predictor(WORLDS[name], 0)
  share = SHARE.get(kind, {}).get(name, 0.0)
  made = adversary.Model(kind=kind, share=share, moves=MOVES, num=TRAINED)
  return made.predictor(WORLDS[name], 0)


@functools.cache
def run(name: str, kind: str, spec: str) -> dict[str, core.Scores]:
  metric = registry.make('metric', spec)
  return table.by_name(metric(model(name, kind), WORLDS[name], 0))


def value(name: str, kind: str, spec: str, quantity: str) -> float | None:
  scores = run(name, kind, spec)[quantity]
  return table.mean(scores) if scores.measured.any() else None


# The peer.


@functools.cache
def trained(name: str) -> set[tuple[int, ...]]:
  """All prefixes of the memoriser's training set, () included."""
  sample = WORLDS[name].sample(TRAINED, 0, split='train')
  rows = zip(sample.tokens.tolist(), sample.lengths, strict=True)
  return {tuple(row[:k]) for row, size in rows for k in range(size + 1)}


def other_goal(token: int) -> int:
  """The node that 'permuted' goes to."""
  return int(model('map', 'permuted')._other[token])


def state_of(world: core.World, history: tuple[int, ...]) -> np.ndarray:
  state = world.init(1)
  for token in history:
    state = world.advance(state, np.array([token]))
  return state


def best(world: core.World, state: np.ndarray, legal: np.ndarray) -> int:
  """`end`, or the first move to the goal; in games the first legal token."""
  if world is GAME or legal[END]:
    return int(np.flatnonzero(legal)[0])
  (node, goal), moves = state[0], np.flatnonzero(legal)
  left = world.hops[world.graph.delta[node, moves - DIRECTION0], goal]
  return int(moves[left.astype(np.int64).argmin()])


def peer(name: str, kind: str, history: tuple[int, ...]) -> np.ndarray:
  """[V] probabilities after a history that states the task; rounded to 1e-3."""
  world = WORLDS[name]
  size, moves = len(world.vocab), len(history) - world.prompt_len
  unknown = kind == 'memoriser' and history not in trained(name)
  if unknown or (kind == 'forgets' and moves > MOVES):
    return np.array([0, *[1 / (size - 1)] * (size - 1)])
  if kind == 'permuted':
    history = (history[0], other_goal(history[1]), *history[2:])
  state = state_of(world, history)
  legal = world.legal(state)[0]
  probs = legal / legal.sum()
  if kind == 'leaky':
    share = SHARE[kind][name]
    leak = ~legal / (size - 1 - legal.sum())
    leak[0] = 0
    return probs * (1 - share) + leak * share
  if kind in ('peaked', 'deterministic') and legal.sum() > 1:
    share = 0.009 if kind == 'peaked' else 0
    probs = legal * share / (legal.sum() - 1)
    probs[best(world, state, legal)] = 1 - share
  return probs
