"""The boundary that a model implies between two states."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import accept as rules
from wm.evaluation.prefixes import boundaries, membership, search
from wm.evaluation.trials import context

ACCEPT = 'epsilon(0.01)'
MOST = 4096  # Continuations of one length that are followed side by side.
_FEW = 64  # As many at first: a session computes for those that idle too.


class Compared(NamedTuple):
  """The boundaries of a model and of its world between two prefixes.

  Attributes:
    world: whose rules.
    prefixes: both, in words.
    sizes: (k, world's, model's) boundary sizes up to each length k.
    model: [S] words of the model's boundary, shortest first.
    right: [S] bool, does a suffix tell the two states apart in the world too?
    truth: [R] words of the world's boundary, shortest first.
    found: [R] bool, does a suffix tell them apart for the model too?
  """

  world: core.World
  prefixes: tuple[str, str]
  sizes: list[tuple[int, int, int]]
  model: list[str]
  right: np.ndarray
  truth: list[str]
  found: np.ndarray

  @property
  def precision(self) -> float:
    """Share of the model's boundary that is right; NaN where it is empty."""
    return float(self.right.mean()) if len(self.right) else float('nan')

  @property
  def recall(self) -> float:
    """Share of the world's boundary that is found; NaN where it is empty."""
    return float(self.found.mean()) if len(self.found) else float('nan')

  def lines(self, show: bool = False) -> list[str]:
    """For people to read; `show` lists the suffixes that they differ in."""
    wrong = [x for x, ok in zip(self.model, self.right, strict=True) if not ok]
    lost = [x for x, ok in zip(self.truth, self.found, strict=True) if not ok]
    return [
      *(f'prefix {prefix}' for prefix in self.prefixes),
      *(f"model's, not the world's: {suffix}" for suffix in wrong * show),
      *(f"world's, not the model's: {suffix}" for suffix in lost * show),
      *(' '.join(map(str, row)) for row in self.sizes),
      f'precision {_share(self.right)}',
      f'recall {_share(self.found)}',
    ]


def _share(good: np.ndarray) -> str:
  if not len(good):
    return 'undefined: the boundary is empty (1 by definition)'
  return f'{good.mean():.3f} ({good.sum()} of {len(good)})'


def compare(
  world: core.Written,
  predictor: core.Predictor,
  texts: tuple[str, str],
  states: np.ndarray,
  depth: int,
  accept: rules.Accept,
  *,
  seed: int,
  most: int,
) -> Compared:
  """See `wm.model_boundary`; states: [2, W], which the texts name."""
  trials = _pair(world, predictor, texts, states, accept, seed)
  if trials.room[0] < depth:
    raise core.InputError(
      f'depth={depth}: {trials.room[0]} tokens fit behind the longer prefix'
    )
  cap = min(_FEW, most)
  found = search.search(trials, depth=depth, cap=cap)
  while found.capped[0] and cap < most:
    cap = min(8 * cap, most)
    found = search.search(trials, depth=depth, cap=cap)
  if found.capped[0]:
    raise core.InputError(
      f'depth={depth}: the model accepts more than {most} continuations of one '
      'length after both prefixes; take a smaller depth'
    )
  own, pair = found.boundary, (trials.first, trials.second)
  assert isinstance(world, core.Enumerable)  # By the caller.
  truth = world.boundary(*pair, depth)
  right = boundaries.model_divergence(world, *pair, own) == 0
  truth, wrong_at = membership.divergence(trials, truth)
  sizes = [
    (k, int((truth.lengths <= k).sum()), int((own.lengths <= k).sum()))
    for k in range(1, depth + 1)
  ]
  first, second = (
    _words(world, row[:size].tolist())
    for row, size in zip(trials.tokens[0], trials.lengths[0], strict=True)
  )
  return Compared(
    world,
    (first, second),
    sizes,
    [_words(world, suffix) for suffix in own.listed()[0]],
    right,
    [_words(world, suffix) for suffix in truth.listed()[0]],
    wrong_at == 0,
  )


def _words(world: core.World, tokens: list[int] | tuple[int, ...]) -> str:
  return ' '.join(world.vocab[token] for token in tokens)


def _pair(
  world: core.Written,
  predictor: core.Predictor,
  texts: tuple[str, str],
  states: np.ndarray,
  accept: rules.Accept,
  seed: int,
) -> context.Trials:
  """One trial: the prefixes that two texts name."""
  prefixes = [
    _prefix(world, text, state, seed)
    for text, state in zip(texts, states, strict=True)
  ]
  tokens = np.zeros((1, 2, world.max_len), np.int32)
  for side, prefix in enumerate(prefixes):
    tokens[0, side, : len(prefix)] = prefix
  lengths = np.array([[len(prefix) for prefix in prefixes]], np.int32)
  zeros = np.zeros(1, np.int32)
  pairs = context.PrefixPairs(
    *(states[:1], states[1:], tokens, lengths, zeros, np.array([''])),
    *(zeros, zeros, {}),
  )
  accept = membership.rule(predictor, accept)
  return context.Trials(predictor, world, pairs, accept, accept, seed)


def _prefix(
  world: core.Written, text: str, state: np.ndarray, seed: int
) -> np.ndarray:
  """[L] tokens that lead to a state: those of its text, or drawn."""
  index = {token: k for k, token in enumerate(world.vocab) if k}
  tokens = np.array([index.get(word, 0) for word in text.split()], np.int32)
  if tokens.size and tokens.all():
    size = np.array([tokens.size])
    steps, ends = world.walk(world.init(1), tokens[None], size)
    if steps[0] == tokens.size and (ends[0] == state).all():
      return tokens
  if isinstance(world, core.Prefixed):
    least, most = world.prefix_moves(state[None])[0].tolist()
    for moves in range(least, most + 1):
      seeds = core.hash64(np.array([seed]), moves)
      found = world.sample_prefixes(state[None], np.array([moves]), seeds)
      if found.ok[0]:
        return found.tokens[0, : found.lengths[0]]
  raise core.InputError(
    f'no sequence is known that leads to {text!r}; give a sequence of tokens'
  )
