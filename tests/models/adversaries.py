"""The adversaries by hand, from the rules of their worlds alone."""

import functools
from typing import NamedTuple

import numpy as np

from tests.metrics import table
from wm import core
from wm.core import registry
from wm.models import adversary
from wm.models.serving.oracles import TILT
from wm.worlds.maps.navigation import DIRECTION0, END, NODE0

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


def soonest(state: np.ndarray, legal: np.ndarray) -> np.ndarray:
  """[V] bool: `end`, or the moves on the way of fewest moves to the goal."""
  if legal[END]:
    return np.arange(len(legal)) == END
  (node, goal), moves = state[0], np.flatnonzero(legal)
  left = MAP.hops[MAP.graph.delta[node, moves - DIRECTION0], goal].astype(int)
  soon = np.zeros_like(legal)
  soon[moves[left == left.min()]] = True
  return soon


def oracle(name: str, state: np.ndarray, legal: np.ndarray) -> np.ndarray:
  """[V] uniform over legal tokens; on the map the soonest have more."""
  weight = legal * 1.0
  if name == 'map':
    weight *= 1 + TILT * soonest(state, legal)
  return weight / weight.sum()


def peer(name: str, kind: str, history: tuple[int, ...]) -> np.ndarray:
  """[V] probabilities after a history that states the task."""
  return after(name, kind, history, None)


def after(
  name: str, kind: str, history: tuple[int, ...], state: np.ndarray | None
) -> np.ndarray:
  """As `peer`; state: the world's after the history, where it is at hand."""
  world = WORLDS[name]
  size, moves = len(world.vocab), len(history) - world.prompt_len
  unknown = kind == 'memoriser' and history not in trained(name)
  if unknown or (kind == 'forgets' and moves > MOVES):
    return np.array([0, *[1 / (size - 1)] * (size - 1)])
  if state is None:
    state = state_of(world, history)
  if kind == 'permuted':
    state = np.array([[state[0, 0], other_goal(history[1]) - NODE0]])
  legal = world.legal(state)[0]
  probs = oracle(name, state, legal)
  if kind == 'leaky':
    share = SHARE[kind][name]
    leak = ~legal / (size - 1 - legal.sum())
    leak[0] = 0
    return probs * (1 - share) + leak * share
  if kind in ('peaked', 'deterministic') and legal.sum() > 1:
    share = 0.009 if kind == 'peaked' else 0
    first = probs.argmax()
    probs = legal * share / (legal.sum() - 1)
    probs[first] = 1 - share
  return probs


class Judged(NamedTuple):
  """The peer at all P positions that held-out sequences are judged at.

  Attributes:
    row: [P] of the sequence.
    probs: [P, V] the peer's probabilities.
    legal: [P, V] bool, what is legal.
  """

  row: np.ndarray
  probs: np.ndarray
  legal: np.ndarray


@functools.cache
def judged(name: str, kind: str) -> Judged:
  world = WORLDS[name]
  rows, probs, legal = [], [], []
  sample = world.sample(NUM, 0, split='heldout')
  for n, (tokens, size) in enumerate(
    zip(sample.tokens.tolist(), sample.lengths, strict=True)
  ):
    state = world.init(1)
    for k in range(1, size + 1):
      state = world.advance(state, np.array([tokens[k - 1]]))
      mask = world.legal(state)[0]
      if k >= world.prompt_len and mask.any():
        rows.append(n)
        probs.append(after(name, kind, tuple(tokens[:k]), state))
        legal.append(mask)
  return Judged(np.array(rows), np.array(probs), np.array(legal))


def next_token(name: str, kind: str) -> dict[str, float]:
  """Quantity -> mean over positions."""
  _, probs, legal = judged(name, kind)
  precision, recall, exact = compared(probs > 0.01, legal)
  best = probs == probs.max(1, keepdims=True)
  return {
    'validity': ((legal & best).sum(1) / best.sum(1)).mean(),
    'valid_mass': (probs * legal).sum(1).mean(),
    'set_precision': np.nanmean(precision),
    'set_recall': recall.mean(),
    'exact_set': exact.mean(),
  }


def compared(mask: np.ndarray, legal: np.ndarray) -> np.ndarray:
  """[3, P] precision (NaN for no token), recall and exactness of sets."""
  both, size = (mask & legal).sum(1), mask.sum(1)
  precision = np.where(size > 0, both / np.maximum(size, 1), np.nan)
  exact = (mask == legal).all(1)
  return np.stack([precision, both / legal.sum(1), exact])
