"""The world itself, with and without faults, and uniform, as predictors.

The oracles keep world states and never recompute a prefix.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

import numpy as np

from wm import core
from wm.models.serving import lookups
from wm.models.serving.state_session import Support, whole
from wm.models.serving.tables import Tabulated

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
  if core.can(world, core.Enumerable.distance_to_end):
    tokens, needed = world.distance_to_end(unique)
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


class WorldPredictor(Tabulated):
  """Follows the world's state and, where it `recalls`, a hash of the prefix.

  Its states are the world's W words, and then the hash in two. A subclass that
  remembers less than the whole prefix overrides `recall`.
  """

  recalls = False

  def __init__(self, world: core.World) -> None:
    """world: whose vocabulary and states these are."""
    self.world = world
    self.vocab_size, self.end = len(world.vocab), world.end
    self.max_len = world.max_len

  @abc.abstractmethod
  def support(self, states: np.ndarray, history: np.ndarray) -> Support:
    """What is possible in states [R, W] of the world, after histories [R].

    history: `recall` folded over the tokens, uint64; 0 where it does not
    recall.
    """

  def recall(self, history: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """[R] uint64 memory of prefixes after one token [R] more; it begins at 0.

    history: [R] uint64 before that token.
    """
    return core.hash64(history, tokens)

  def enter(self, prefixes: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """See Tabulated; a dead state where a token is illegal."""
    world, history = self.world, np.zeros(len(lengths), np.uint64)
    steps, states = world.walk(world.init(len(lengths)), prefixes, lengths)
    wrong = np.flatnonzero(steps < lengths)
    refused = prefixes[wrong, steps[wrong]]
    states[wrong] = world.advance(states[wrong], refused)
    if not self.recalls:
      return states
    for t in range(int(lengths.max(initial=0))):
      on = np.flatnonzero(t < lengths)
      history[on] = self.recall(history[on], prefixes[on, t])
    return _with(states, history)

  def follow(self, states: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """See Tabulated."""
    if not self.recalls:
      return self.world.advance(states, tokens)
    states, history = split_history(states)
    after = self.world.advance(states, tokens)
    return _with(after, self.recall(history, tokens))

  def known(self, states: np.ndarray) -> tuple[Support, np.ndarray]:
    """See Tabulated."""
    history = np.zeros(len(states), np.uint64)
    if self.recalls:
      states, history = split_history(states)
    return self.support(states, history), np.arange(len(states))

  def machine(
    self, prefixes: np.ndarray, lengths: np.ndarray, **given: Any
  ) -> tuple[core.Machine, int]:
    """See core.Predictor.machine."""
    if self.recalls:
      raise core.Untraceable(
        'this predictor tells prefixes of one state apart: no table holds them'
      )
    return super().machine(prefixes, lengths, **given)


def _with(states: np.ndarray, history: np.ndarray) -> np.ndarray:
  """[R, W + 2] states [R, W] with hashes [R] behind them."""
  return np.concatenate([states, history[:, None].view(np.int32)], axis=1)


def split_history(states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """World states [R, W] and memories [R] uint64 of states that recall."""
  history = np.ascontiguousarray(states[:, -2:]).view(np.uint64)
  return states[:, :-2], history[:, 0]


class Oracle(WorldPredictor, core.StatePredictor, lookups.LooksUp):
  """The world itself: `likely`, and nothing when it is over.

  It adapts to labels by a look-up of the state; unseen ones get a coin each.
  """

  def support(self, states: np.ndarray, history: np.ndarray) -> Support:
    """See WorldPredictor."""
    del history
    return likely(self.world, states)

  def states(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The true labels; InputError where the world gives none."""
    if not isinstance(self.world, core.Labelled):
      raise core.InputError(f'{self.world.name} gives its states no labels')
    return self.world.sequence_labels(tokens, lengths)

  def state_loss(
    self, tokens: np.ndarray, lengths: np.ndarray, labels: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray]:
    """The true labels, sure of them."""
    return self.states(tokens, lengths), np.zeros(tokens.shape, np.float32)


class NoisyOracle(WorldPredictor):
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
    self, world: core.World, *, illegal: float, wrong: float, by: str, seed: int
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
    """See WorldPredictor."""
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

  def enter(self, prefixes: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """See Tabulated: there is but one state."""
    del lengths
    return np.zeros((len(prefixes), 1), np.int32)

  def follow(self, states: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """See Tabulated."""
    del tokens
    return states

  def known(self, states: np.ndarray) -> tuple[Support, np.ndarray]:
    """See Tabulated."""
    return whole(self.row[None]), np.zeros(len(states), np.int64)


class Reader(Uniform, core.StatePredictor):
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
