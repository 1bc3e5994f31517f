"""Exact comparisons of a model with its world, breadth first to a depth.

`compare_boundaries` compares the boundaries of model and world between two
states: it follows every continuation that the model accepts after both
prefixes, level by level.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import accept as rules
from wm.core import basics
from wm.evaluation import boundaries, context, membership


def model_boundary(
  trials: context.Trials, depth: int, most: int
) -> core.Boundary | None:
  """The exact boundary of a trial's two prefixes for the model.

  In a world without an end token, continuations end where the world is over.

  Args:
    trials: one trial.
    depth: longest suffix.
    most: maximum number of continuations of one length.

  Returns:
    The suffixes, shortest first; None if there are more continuations.
  """
  predictor, world = trials.predictor, trials.world
  session = predictor.session(trials.tokens[0], trials.lengths[0], most)
  # Continuations of one length that both prefixes accept [n, k], and states.
  paths, states = np.zeros((1, 0), np.int32), trials.first
  boundary: list[np.ndarray] = []
  for k in range(1, depth + 1):
    accepted, agreed = np.asarray(session.mask(trials.accept))[:, : len(paths)]
    # In the order of the parents, then of tokens, so boundaries are sorted.
    parents, tokens = np.nonzero(accepted & ~agreed)
    boundary.append(np.column_stack([paths[parents], tokens]))
    going = accepted & agreed
    if predictor.end != core.DEAD:
      going[:, predictor.end] = False  # Nothing follows the end.
    parents, tokens = np.nonzero(going)
    if world.end == core.DEAD:
      # The model's continuations may be illegal; a dead state is not over, so
      # these are followed too.
      after = world.advance(states[parents], tokens.astype(np.int32))
      on = ~world.over(after)
      parents, tokens, states = parents[on], tokens[on], after[on]
    if k == depth or not len(parents):
      break
    if len(parents) > most:
      return None
    paths = np.column_stack([paths[parents], tokens]).astype(np.int32)
    # Continuation m of the next level goes on from parents[m].
    appended = np.full((2, most), core.DEAD, np.int32)
    origin = np.broadcast_to(np.arange(most), (2, most)).copy()
    appended[:, : len(tokens)], origin[:, : len(tokens)] = tokens, parents
    session.advance(appended, origin)
  return core.boundary.stacked([boundary])


ACCEPT = 'epsilon(0.01)'
MOST = 4096  # Most continuations of one length.
_FEW = 64  # Size of the first session, which computes idle rows too.


class BoundaryComparison(NamedTuple):
  """The boundaries of a model and of its world between two prefixes.

  Attributes:
    world: the world.
    prefixes: both prefixes in words.
    sizes: (k, world's, model's) boundary sizes up to each length k.
    model: [S] words of the model's boundary, shortest first.
    right: [S] bool, whether a suffix separates the states in the world too.
    truth: [R] words of the world's boundary, shortest first.
    recalled: [R] bool, whether a suffix separates them for the model too.
  """

  world: core.World
  prefixes: tuple[str, str]
  sizes: list[tuple[int, int, int]]
  model: list[str]
  right: np.ndarray
  truth: list[str]
  recalled: np.ndarray

  @property
  def precision(self) -> float:
    """Share of the model's boundary that is right; NaN if it is empty."""
    return float(self.right.mean()) if len(self.right) else float('nan')

  @property
  def recall(self) -> float:
    """Share of the world's boundary that is recalled; NaN if it is empty."""
    return float(self.recalled.mean()) if len(self.recalled) else float('nan')

  def lines(self, show: bool = False) -> list[str]:
    """Lines of text; `show` lists the suffixes that differ."""
    wrong = [x for x, ok in zip(self.model, self.right, strict=True) if not ok]
    lost = [
      x for x, ok in zip(self.truth, self.recalled, strict=True) if not ok
    ]
    return [
      *(f'prefix {prefix}' for prefix in self.prefixes),
      *(f"model's, not the world's: {suffix}" for suffix in wrong * show),
      *(f"world's, not the model's: {suffix}" for suffix in lost * show),
      *(' '.join(map(str, row)) for row in self.sizes),
      f'precision {_share(self.right)}',
      f'recall {_share(self.recalled)}',
    ]


def _share(good: np.ndarray) -> str:
  if not len(good):
    return 'undefined: the boundary is empty (1 by definition)'
  return f'{good.mean():.3f} ({good.sum()} of {len(good)})'


def compare_boundaries(
  world: core.Written,
  predictor: core.Predictor,
  texts: tuple[str, str],
  states: np.ndarray,
  depth: int,
  accept: rules.Accept,
  *,
  seed: int,
  most: int,
) -> BoundaryComparison:
  """See `wm.model_boundary`; states: [2, W], which the texts name."""
  trials = _pair(world, predictor, texts, states, accept, seed)
  if trials.room[0] < depth:
    raise core.InputError(
      f'depth={depth}: {trials.room[0]} tokens fit behind the longer prefix'
    )
  # A session computes all of its rows, used or not: begin with few rows, and
  # search again with more if they do not suffice.
  cap = min(_FEW, most)
  boundary = model_boundary(trials, depth, cap)
  while boundary is None and cap < most:
    cap = min(8 * cap, most)
    boundary = model_boundary(trials, depth, cap)
  if boundary is None:
    raise core.InputError(
      f'depth={depth}: the model accepts more than {most} continuations of one '
      'length after both prefixes; take a smaller depth'
    )
  pair = trials.first, trials.second
  assert isinstance(world, core.Enumerable)  # By the caller.
  truth = world.boundary(*pair, depth)
  # Suffixes of the model's boundary that separate the states in the world, and
  # suffixes of the world's that separate them for the model.
  right = boundaries.model_divergence(world, *pair, boundary) == 0
  truth, wrong_at = membership.divergence(trials, truth)
  # Cumulative over lengths.
  sizes = [
    (k, int((truth.lengths <= k).sum()), int((boundary.lengths <= k).sum()))
    for k in range(1, depth + 1)
  ]
  first, second = context.token_texts(
    world, trials.tokens[0], trials.lengths[0]
  ).tolist()
  return BoundaryComparison(
    world,
    (first, second),
    sizes,
    context.token_texts(world, boundary.listed()[0]).tolist(),
    right,
    context.token_texts(world, truth.listed()[0]).tolist(),
    wrong_at == 0,
  )


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
  # One trial, whose states and prefixes are given rather than drawn.
  zeros = np.zeros(1, np.int32)
  pairs = context.PrefixPairs(
    *(states[:1], states[1:], tokens, lengths, zeros, np.array([''])),
    *(zeros, {}),
  )
  accept = membership.rule_for(predictor, accept)
  return context.Trials(predictor, world, pairs, accept, accept, seed)


def _prefix(
  world: core.Written, text: str, state: np.ndarray, seed: int
) -> np.ndarray:
  """[L] tokens that lead to a state, from its text or drawn."""
  index = {token: k for k, token in enumerate(world.vocab) if k}
  tokens = np.array([index.get(word, 0) for word in text.split()], np.int32)
  # A text may be a sequence itself, which is used if it leads to the state.
  if tokens.size and tokens.all():
    size = np.array([tokens.size])
    steps, ends = world.walk(world.init(1), tokens[None], size)
    if steps[0] == tokens.size and (ends[0] == state).all():
      return tokens
  if isinstance(world, core.Prefixed):
    least, most = world.prefix_moves(state[None])[0].tolist()
    # Else the shortest prefix that the world can draw.
    for moves in range(least, most + 1):
      seeds = basics.hash64(np.array([seed]), moves)
      prefixes = world.sample_prefixes(state[None], np.array([moves]), seeds)
      if prefixes.ok[0]:
        return prefixes.tokens[0, : prefixes.lengths[0]]
  raise core.InputError(
    f'no sequence is known that leads to {text!r}; give a sequence of tokens'
  )
