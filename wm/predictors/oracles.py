"""The world itself, with and without faults, and uniform, as predictors.

The oracles keep world states and never recompute a prefix.
"""

from __future__ import annotations

import abc
from collections.abc import Callable

import numpy as np

from wm import core

TILT = 1e-3


class StatePredictor(core.Predictor):
  """A predictor whose probabilities are a function of (state, history hash).

  Subclasses define `table`. The history hash is a uint64 per prefix, for
  predictors that tell apart prefixes that reach the same state.
  """

  def __init__(self, world: core.World) -> None:
    """world: whose vocabulary and states these are."""
    self.world = world
    self.vocab_size = len(world.vocab)
    self.end = world.end
    self.max_len = world.max_len

  @abc.abstractmethod
  def table(self, states: np.ndarray, history: np.ndarray) -> np.ndarray:
    """[B, V] float32 log-probabilities from states [B, W], history [B]."""

  def log_probs(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """See core.Predictor."""
    batch, longest = tokens.shape
    out = np.full((batch, longest, self.vocab_size), -np.inf, np.float32)
    states = self.world.init(batch)
    history = np.zeros(batch, np.uint64)
    for t in range(longest):
      rows = np.flatnonzero(t < np.asarray(lengths))
      states[rows] = self.world.advance(states[rows], tokens[rows, t])
      history[rows] = core.hash64(history[rows], tokens[rows, t])
      out[rows, t] = self.table(states[rows], history[rows])
    return out

  def session(
    self, prefixes: np.ndarray, lengths: np.ndarray, num: int
  ) -> core.Session:
    """See core.Predictor; prefixes may be empty."""
    return StateSession(self, prefixes, lengths, num)


class StateSession(core.Session):
  """A session on world states [B, M, W] of a `StatePredictor`."""

  def __init__(
    self,
    predictor: StatePredictor,
    prefixes: np.ndarray,
    lengths: np.ndarray,
    num: int,
  ) -> None:
    """See core.Predictor.session."""
    batch = len(lengths)
    words = predictor.world.init(1).shape[1]
    self._predictor = predictor
    self._states = np.zeros((batch, num, words), np.int32)
    self._history = np.zeros((batch, num), np.uint64)
    self._log_probs: np.ndarray | None = None
    self.restart(np.arange(batch), prefixes, lengths)

  def restart(
    self, rows: np.ndarray, prefixes: np.ndarray, lengths: np.ndarray
  ) -> None:
    """See core.Session."""
    lengths = np.asarray(lengths)
    world = self._predictor.world
    states = world.init(len(lengths))
    history = np.zeros(len(lengths), np.uint64)
    for t in range(int(lengths.max(initial=0))):
      on = np.flatnonzero(t < lengths)
      states[on] = world.advance(states[on], prefixes[on, t])
      history[on] = core.hash64(history[on], prefixes[on, t])
    self._states[rows] = states[:, None]
    self._history[rows] = history[:, None]
    self._log_probs = None

  def log_probs(self) -> np.ndarray:
    """See core.Session."""
    if self._log_probs is None:
      batch, num, words = self._states.shape
      flat = self._predictor.table(
        self._states.reshape(batch * num, words), self._history.reshape(-1)
      )
      self._log_probs = flat.reshape(batch, num, -1)
    return self._log_probs

  def advance(
    self, tokens: np.ndarray, parents: np.ndarray | None = None
  ) -> None:
    """See core.Session."""
    tokens = np.asarray(tokens)
    if parents is not None:
      self._states = np.take_along_axis(self._states, parents[..., None], 1)
      self._history = np.take_along_axis(self._history, parents, 1)
    at = np.nonzero(tokens != core.DEAD)
    if at[0].size:
      world = self._predictor.world
      self._states[at] = world.advance(self._states[at], tokens[at])
      self._history[at] = core.hash64(self._history[at], tokens[at])
    self._log_probs = None


def soonest(world: core.World, states: np.ndarray) -> np.ndarray:
  """[B, V] bool: tokens on the way to the soonest completion; see completable.

  All False where a sequence of the world's length cannot complete. Where the
  world does not say what can complete, all legal tokens.
  """
  low = np.ones(len(states), np.int32)
  high = np.full(len(states), world.max_len, np.int32)
  while (low < high).any():  # The least budget that leaves any token.
    middle = (low + high) // 2
    enough = world.completable(states, middle).any(-1)
    high = np.where(enough, middle, high)
    low = np.where(enough, low, np.minimum(middle + 1, high))
  return world.completable(states, low)


def world_log_probs(world: core.World, states: np.ndarray) -> np.ndarray:
  """[B, V] float32: uniform over legal tokens, but for a tie-break.

  Tokens on the way to the soonest completion have `TILT` more mass, so that
  greedy decoding completes; a walk without aim may never end.
  """
  _, first, back = np.unique(
    world.state_id(states), return_index=True, return_inverse=True
  )
  unique = states[first]
  legal = world.legal(unique)
  if world.end == core.DEAD:
    share = -np.log(np.maximum(legal.sum(-1, keepdims=True), 1))
    log_probs = np.where(legal, share.astype(np.float32), -np.inf)
    return log_probs.astype(np.float32, copy=False)[back.reshape(-1)]
  mass = legal * np.where(soonest(world, unique), 1 + TILT, 1.0)
  total = mass.sum(-1, keepdims=True)
  with np.errstate(divide='ignore'):
    log_probs = np.log(mass / np.where(total > 0, total, 1))
  return log_probs.astype(np.float32)[back.reshape(-1)]


class Oracle(StatePredictor):
  """The world itself: `world_log_probs`, and nothing when it is over."""

  def table(self, states: np.ndarray, history: np.ndarray) -> np.ndarray:
    """See StatePredictor."""
    del history
    return world_log_probs(self.world, states)

  def states(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The true labels."""
    return self.world.sequence_labels(tokens, lengths)

  def state_loss(
    self, tokens: np.ndarray, lengths: np.ndarray, labels: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray]:
    """The true labels, sure of them."""
    return self.states(tokens, lengths), np.zeros(tokens.shape, np.float32)


class NoisyOracle(StatePredictor):
  """The world with faults of known size, fixed by seed and state or prefix.

  A share `wrong` of all states (or prefixes) is taken for another state: the
  legal tokens are those of one of 64 states that `sample_states` gives. After
  that, mass `illegal` goes to one token that is illegal there. Which ones is
  a hash of (seed, state id), or of (seed, all tokens) for by='prefix'. By
  state, prefixes that reach one state agree, so compression stays perfect
  while distinction suffers; by prefix both do. Over and dead states are left
  alone.
  """

  STATES = 64

  def __init__(
    self,
    world: core.World,
    *,
    illegal: float,
    wrong: float,
    by: str,
    seed: int,
  ) -> None:
    """illegal: mass in [0, 1]; wrong: share in [0, 1]; by: state or prefix."""
    super().__init__(world)
    for name, value in (('illegal', illegal), ('wrong', wrong)):
      if not 0 <= value <= 1:
        raise core.InputError(
          f'noisy oracle: {name}={value} was given; expected 0 to 1'
        )
    if by not in ('state', 'prefix'):
      raise core.InputError(
        f"noisy oracle: by={by!r} was given; available: 'state', 'prefix'"
      )
    self.illegal, self.wrong, self.by, self.seed = illegal, wrong, by, seed
    others = world.sample_states(self.STATES, seed)
    self._others = world_log_probs(world, others)

  def table(self, states: np.ndarray, history: np.ndarray) -> np.ndarray:
    """See StatePredictor."""
    log_probs = world_log_probs(self.world, states)
    alive = np.isfinite(log_probs).any(-1)
    key = self.world.state_id(states) if self.by == 'state' else history
    if self.wrong and len(self._others):
      swap = alive & (core.uniforms(self.seed, key, 1) < self.wrong)
      other = core.hash64(self.seed, key[swap], 2) % len(self._others)
      log_probs[swap] = self._others[other.astype(np.int64)]
    if self.illegal:
      self._leak(log_probs, key, np.flatnonzero(alive))
    return log_probs

  def _leak(
    self, log_probs: np.ndarray, key: np.ndarray, rows: np.ndarray
  ) -> None:
    free = np.isneginf(log_probs[rows])
    free[:, core.PAD] = False
    rows, free = rows[free.any(-1)], free[free.any(-1)]
    nth = core.hash64(self.seed, key[rows], 3) % free.sum(-1).astype(np.uint64)
    hit = free.cumsum(-1) == nth.astype(np.int64)[:, None] + 1
    with np.errstate(divide='ignore'):
      log_probs[rows] += np.float32(np.log1p(-self.illegal))
      log_probs[rows, hit.argmax(-1)] = np.float32(np.log(self.illegal))


class Uniform(core.Predictor):
  """The same probability for every token but padding, always."""

  def __init__(self, vocab_size: int, end: int, max_len: int) -> None:
    """vocab_size: V, padding included."""
    self.vocab_size, self.end, self.max_len = vocab_size, end, max_len
    self.row = np.full(vocab_size, -np.log(vocab_size - 1), np.float32)
    self.row[core.PAD] = -np.inf

  def log_probs(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """See core.Predictor; a read-only view."""
    return np.broadcast_to(self.row, (*tokens.shape, self.vocab_size))

  def session(
    self, prefixes: np.ndarray, lengths: np.ndarray, num: int
  ) -> core.Session:
    """See core.Predictor."""
    return _UniformSession(self.row, (len(lengths), num))


class _UniformSession(core.Session):
  def __init__(self, row: np.ndarray, shape: tuple[int, int]) -> None:
    self._log_probs = np.broadcast_to(row, (*shape, len(row)))

  def log_probs(self) -> np.ndarray:
    return self._log_probs

  def advance(
    self, tokens: np.ndarray, parents: np.ndarray | None = None
  ) -> None:
    pass

  def restart(
    self, rows: np.ndarray, prefixes: np.ndarray, lengths: np.ndarray
  ) -> None:
    pass


class Reader(Uniform):
  """Names states by a function of the tokens; of next tokens it knows none."""

  def __init__(
    self,
    world: core.World,
    read: Callable[[np.ndarray, np.ndarray], np.ndarray],
  ) -> None:
    """read: (tokens [B, L], lengths [B]) -> labels [B, L, K]."""
    super().__init__(len(world.vocab), world.end, world.max_len)
    self._read = read

  def states(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """See core.Predictor."""
    return self._read(tokens, lengths)
