"""Known-answer models that are right by one measure and wrong by another.

Each has the rules of the world and one error of known size. They show which
metrics miss an error, and which one reveals it.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from wm import core
from wm.core import basics, registry
from wm.core.fields import field
from wm.models.serving import oracles, process

SHARES = {'leaky': 0.38, 'peaked': 0.009}
KINDS = (*SHARES, 'deterministic', 'permuted', 'memoriser', 'forgets')
# Number of sampled sequences in which the goal token is searched.
PROBES = 64
UNKNOWN = np.uint64(2**64 - 1)


class Adversary(oracles.WorldPredictor):
  """The oracle whose probabilities [R, V] a subclass changes."""

  def __init__(self, world: core.World, share: float = 0.0) -> None:
    """share: of the probability that is changed, see the subclass."""
    super().__init__(world)
    self._share = share

  def support(
    self, states: np.ndarray, history: np.ndarray
  ) -> process.NextTokens:
    """See WorldPredictor."""
    likely = oracles.likely(self.world, states).dense(self.vocab_size)
    # In float64: shares of the mass must add up to the size of the error.
    probs = self.changed(np.exp(likely.astype(np.float64)), history)
    with np.errstate(divide='ignore'):
      return process.all_tokens(np.log(probs).astype(np.float32))

  def changed(self, probs: np.ndarray, history: np.ndarray) -> np.ndarray:
    """[R, V] probabilities in place of the oracle's.

    probs: [R, V] float64, 0 for what is illegal.
    history: [R] uint64, see WorldPredictor.
    """
    del history
    return probs


class Leaky(Adversary):
  """Puts a share of its probability evenly on all illegal tokens."""

  def changed(self, probs: np.ndarray, history: np.ndarray) -> np.ndarray:
    """See Adversary; states with no legal or no illegal token are unchanged."""
    # Padding is not a token of the world: its probability stays 0.
    illegal = probs == 0
    illegal[:, core.PAD] = False
    count = illegal.sum(-1, keepdims=True)
    # A finished state has no legal token; a free state has no illegal token.
    leak = np.where(probs.any(-1, keepdims=True) & (count > 0), self._share, 0)
    return probs * (1 - leak) + illegal * leak / np.maximum(count, 1)


class Peaked(Adversary):
  """Puts probability 1 - share on the oracle's most likely token.

  The other legal tokens split the share evenly.
  """

  def changed(self, probs: np.ndarray, history: np.ndarray) -> np.ndarray:
    """See Adversary."""
    # On ties, argmax takes the lowest token id.
    best = np.arange(probs.shape[1]) == probs.argmax(-1)[:, None]
    others = (probs > 0) & ~best
    count = others.sum(-1, keepdims=True)
    rest = np.where(count > 0, self._share, 0)
    sharp = best * (1 - rest) + others * rest / np.maximum(count, 1)
    return np.where(probs.any(-1, keepdims=True), sharp, 0)


class Permuted(Adversary):
  """Replaces the goal by another fixed goal, and is exact for the new goal."""

  many_states = True  # States also count the tokens up to the goal.

  def __init__(self, world: core.World, seed: int) -> None:
    """seed: of the permutation. Raises InputError where no token is a goal."""
    super().__init__(world)
    self._goal, self._other = _goals(world, seed)

  def recall(self, history: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """See WorldPredictor: the number of tokens, capped after the goal."""
    return np.minimum(history + np.uint64(1), np.uint64(self._goal + 1))

  def read(self, prefixes: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """See ProcessPredictor."""
    # A copy: the caller's prefixes must not change.
    tokens = np.array(prefixes)
    at = slice(self._goal, self._goal + 1)  # Empty where prefixes are shorter.
    tokens[:, at] = self._other[tokens[:, at]]
    return super().read(tokens, lengths)

  def advance(self, states: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """See core.SequenceProcess."""
    # `recall` counts tokens, so the goal is the token after `goal` others.
    count = oracles.split_history(states)[1]
    other = self._other[tokens]
    return super().advance(states, np.where(count == self._goal, other, tokens))


def _goals(world: core.World, seed: int) -> tuple[int, np.ndarray]:
  """The position of the goal token, and the replacement [V] of each token.

  A goal is a token of the prompt that decides only where the end token is
  legal: with another goal, a sample stays legal up to its end token, which
  becomes illegal.
  """
  sample = world.sample(PROBES, seed)
  for place in reversed(range(world.prompt_len if len(sample) else 0)):
    # States of all samples just before this token of the prompt.
    before = np.full(len(sample), place)
    states = world.walk(world.init(len(sample)), sample.tokens, before)[1]
    # Tokens that are legal at this position in every sample.
    goals = np.flatnonzero(world.legal(states).all(0))
    goals = np.random.default_rng(seed).permutation(goals)
    other = np.arange(len(world.vocab))
    other[goals] = np.roll(goals, 1)  # A cycle: no goal maps to itself.
    tokens = sample.tokens.copy()
    tokens[:, place] = other[tokens[:, place]]
    steps, _ = world.walk(world.init(len(sample)), tokens, sample.lengths)
    last = sample.tokens[np.arange(len(sample)), sample.lengths - 1]
    if ((steps == sample.lengths - 1) & (last == world.end)).all():
      return place, other
  raise core.InputError(
    f"adversary(kind='permuted'): {registry.spec(world)} states no goal "
    'that its end token alone depends on; available: '
    + ', '.join(kind for kind in KINDS if kind != 'permuted')
  )


class Forgetful(Adversary):
  """Uniform over the vocabulary after prefixes marked UNKNOWN."""

  many_states = True  # States also hold the history, or UNKNOWN.

  def changed(self, probs: np.ndarray, history: np.ndarray) -> np.ndarray:
    """See Adversary."""
    uniform = np.full(probs.shape[1], 1 / (probs.shape[1] - 1))
    uniform[core.PAD] = 0
    return np.where((history == UNKNOWN)[:, None], uniform, probs)


class Memoriser(Forgetful):
  """Exact after every prefix of the training set, and after no other."""

  def __init__(self, world: core.World, num: int, seed: int) -> None:
    """num, seed: of the memorised sequences, drawn from the training split."""
    super().__init__(world)
    sample = world.sample(num, seed, split='train')
    # One 8-byte hash for each prefix of each sequence.
    history, seen = np.zeros(len(sample), np.uint64), [np.zeros(0, np.uint64)]
    for t in range(sample.tokens.shape[1]):
      history = basics.hash64(history, sample.tokens[:, t])
      seen.append(history[t < sample.lengths])
    self._seen = np.unique(np.concatenate(seen))

  def recall(self, history: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """See WorldPredictor."""
    after = basics.hash64(history, tokens)
    # Once unknown, always unknown: its continuations were not seen either.
    remembered = (history != UNKNOWN) & np.isin(after, self._seen)
    return np.where(remembered, after, UNKNOWN)


class Limited(Forgetful):
  """Exact for the prompt and the first `moves` moves, uniform afterwards."""

  def __init__(self, world: core.World, moves: int) -> None:
    """moves: the next token is exact after up to this many moves."""
    super().__init__(world)
    self._most = np.uint64(world.prompt_len + moves)

  def recall(self, history: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """See WorldPredictor: the number of tokens."""
    return np.where(history < self._most, history + np.uint64(1), UNKNOWN)


@dataclasses.dataclass(frozen=True)
class Model(core.Model):
  """The rules of the world with one error that single metrics do not show.

  leaky: illegal tokens split the share evenly. With more than share / epsilon
    illegal tokens, each has less than epsilon: no epsilon rule accepts any.
  peaked: the first legal token has probability 1 - share. Each other legal
    token has less than epsilon; illegal tokens have probability 0.
  deterministic: one legal token has probability 1, as for a planner.
  permuted: the goal in the prompt is replaced by a fixed permutation of all
    goals; moves are exact. The world must be like `maps`: its prompt states a
    goal that decides only where the end token is legal.
  memoriser: exact after prefixes of a training set, uniform over the vocabulary
    after all others.
  forgets: exact after at most `moves` moves, uniform afterwards.

  Of the legal tokens on a shortest completion, the first is the one with the
  lowest id.

  Attributes:
    kind: the error, a name of the list above.
    share: probability, for leaky and peaked; 0 means 0.38 and 0.009.
    moves: for forgets, counted after the prompt.
    num: for memoriser, sequences in its training set.
  """

  gives: ClassVar[tuple[type, ...]] = (Adversary,)

  kind: str = field('leaky', choices=KINDS)
  share: float = field(0.0, least=0, below=1)
  moves: int = field(5, least=0)
  num: int = field(1000, least=1)

  def cost(self, world: core.World | None = None) -> core.Cost:
    """See core.Bounded; a memoriser holds its sequences and their hashes."""
    if self.kind != 'memoriser':
      return core.Cost()
    return core.Cost(
      12 * self.num * (world.max_len if world else 1), 0, ('num',)
    )

  def predictor(self, world: core.World, seed: int) -> core.Predictor:
    """See core.Model; seed: of the permutation and of the training set.

    Raises InputError for a permuted goal where the world states none.
    """
    share = self.share or SHARES.get(self.kind, 0.0)
    match self.kind:
      case 'leaky':
        return Leaky(world, share)
      case 'permuted':
        return Permuted(world, seed)
      case 'memoriser':
        return Memoriser(world, self.num, seed)
      case 'forgets':
        return Limited(world, self.moves)
    return Peaked(world, 0.0 if self.kind == 'deterministic' else share)
