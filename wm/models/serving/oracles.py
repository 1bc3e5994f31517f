"""The world itself, with and without faults, and uniform, as predictors.

The oracles keep world states and never recompute a prefix.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from wm import core
from wm.models.serving.tables import Support, Tabulated
from wm.models.serving.world_states import SparsePredictor

TILT = 1e-3


def likely(world: core.World, states: np.ndarray) -> Support:
  """What is legal, uniform but for a tie-break.

  Tokens on the way to the soonest completion have `TILT` more mass, so that
  greedy decoding completes; a walk without aim may never end.
  """
  _, first, back = np.unique(
    world.state_id(states), return_index=True, return_inverse=True
  )
  unique = states[first]
  if isinstance(world, core.Completing):
    tokens, needed = world.remaining(unique)
    legal = tokens != core.DEAD
    least = needed.min(-1, keepdims=True, where=legal, initial=world.max_len)
    soon = legal & (needed <= least)
  else:
    tokens = _listed(world.legal(unique))
    soon = legal = tokens != core.DEAD
  count = legal.sum(-1, keepdims=True)
  if world.end == core.DEAD:
    share = -np.log(np.maximum(count, 1))
  else:
    total = np.maximum(count + TILT * soon.sum(-1, keepdims=True), 1)
    share = np.where(soon, np.log((1 + TILT) / total), np.log(1 / total))
  log_probs = np.where(legal, share, -np.inf).astype(np.float32)
  return Support(tokens, log_probs).take(back.reshape(-1))


def _listed(legal: np.ndarray) -> np.ndarray:
  """[B, K] int32: the tokens of masks [B, V], ascending; DEAD is none."""
  row, token = np.nonzero(legal)
  sizes = legal.sum(-1)
  place = np.arange(len(row)) - (np.cumsum(sizes) - sizes)[row]
  found = np.full((len(legal), sizes.max(initial=1)), core.DEAD, np.int32)
  found[row, place] = token
  return found


def world_log_probs(world: core.World, states: np.ndarray) -> np.ndarray:
  """[B, V] float32: `likely`, all tokens."""
  return likely(world, states).dense(len(world.vocab))


class Oracle(SparsePredictor, core.StateLosses):
  """The world itself: `likely`, and nothing when it is over."""

  recalls = False

  def support(self, states: np.ndarray, history: np.ndarray) -> Support:
    """See SparsePredictor."""
    del history
    return likely(self.world, states)

  def states(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The true labels."""
    return self.world.sequence_labels(tokens, lengths)

  def state_loss(
    self, tokens: np.ndarray, lengths: np.ndarray, labels: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray]:
    """The true labels, sure of them."""
    return self.states(tokens, lengths), np.zeros(tokens.shape, np.float32)


class NoisyOracle(SparsePredictor):
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
    if not isinstance(world, core.Prefixed):
      raise core.InputError(
        f'noisy oracle: {world.name} draws no states (core.Prefixed)'
      )
    self.illegal, self.wrong, self.by, self.seed = illegal, wrong, by, seed
    self.recalls = by == 'prefix'
    self._others = likely(world, world.sample_states(self.STATES, seed))

  def support(self, states: np.ndarray, history: np.ndarray) -> Support:
    """See SparsePredictor."""
    found = likely(self.world, states)
    alive = (found.tokens != core.DEAD).any(-1)
    key = self.world.state_id(states) if self.by == 'state' else history
    if self.wrong and len(self._others.tokens):
      swap = alive & (core.uniforms(self.seed, key, 1) < self.wrong)
      other = core.hash64(self.seed, key[swap], 2) % len(self._others.tokens)
      others = self._others.take(other.astype(np.int64))
      width = max(found.tokens.shape[1], others.tokens.shape[1])
      found, others = _widened(found, width), _widened(others, width)
      for into, array in zip(found, others, strict=True):
        into[swap] = array
    return self._leaked(found, key, alive) if self.illegal else found

  def _leaked(
    self, found: Support, key: np.ndarray, alive: np.ndarray
  ) -> Support:
    """With an illegal token of each row [B] that is alive and has one."""
    free = self.vocab_size - 1 - (found.tokens != core.DEAD).sum(-1)
    rows = np.flatnonzero(alive & (free > 0))
    nth = core.hash64(self.seed, key[rows], 3) % free[rows].astype(np.uint64)
    token = nth.astype(np.int64) + 1
    for option in found.tokens[rows].T:  # Ascending: each one moves it on.
      token += (option != core.DEAD) & (option <= token)
    tokens, log_probs = _widened(found, found.tokens.shape[1] + 1)
    with np.errstate(divide='ignore'):
      log_probs[rows] += np.float32(np.log1p(-self.illegal))
      log_probs[rows, -1] = np.float32(np.log(self.illegal))
    tokens[rows, -1] = token
    order = np.argsort(np.where(tokens < 0, self.vocab_size, tokens), axis=-1)
    return Support(
      np.take_along_axis(tokens, order, -1),
      np.take_along_axis(log_probs, order, -1),
    )


def _widened(found: Support, width: int) -> Support:
  """A copy with `width` columns."""
  more = ((0, 0), (0, width - found.tokens.shape[1]))
  return Support(
    np.pad(found.tokens, more, constant_values=core.DEAD),
    np.pad(found.log_probs, more, constant_values=-np.inf),
  )


class Uniform(Tabulated):
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

  def enter(self, prefixes: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """See Tabulated: there is but one state."""
    del lengths
    return np.zeros((len(prefixes), 1), np.int32)

  def follow(self, states: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """See Tabulated."""
    del tokens
    return states

  def options(self, states: np.ndarray) -> Support:
    """See Tabulated."""
    shape = len(states), self.vocab_size
    tokens = np.arange(self.vocab_size, dtype=np.int32)
    return Support(*(np.broadcast_to(x, shape) for x in (tokens, self.row)))


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


class Reader(Uniform, core.NamesStates):
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
