"""Predictors from the world's rules, exact or with errors of known size.

They are processes (`process`) whose state is that of the world, so no prefix is
read twice. `Oracle` is exact, `NoisyOracle` has errors, `Uniform` ignores the
rules. `keys` computes the keys of look-up tables in `few_shot`.
"""

from __future__ import annotations

import abc
from collections.abc import Callable

import numpy as np

from wm import core
from wm.core import adapting, basics, inputs
from wm.models.serving.process import NextTokens, TablePredictor, all_tokens

# Extra mass, relative to other legal tokens, of a token on a shortest
# completion.
TILT = 1e-3
# Keys of look-up tables: points with equal keys share an answer.
KEYS = ('state', 'legal', 'last_token', 'prefix', 'nothing')


def keys(
  world: core.World, by: str, tokens: np.ndarray, places: np.ndarray
) -> np.ndarray:
  """[R, P] uint64 keys of places [R, P] of sequences [R, L]."""
  inputs.check_known(by, KEYS, f'by={by!r} was given')
  if by == 'nothing':
    return np.zeros(places.shape, np.uint64)
  # DEAD places read token 0; their answers are not used.
  if by == 'last_token':
    last = np.take_along_axis(tokens, np.maximum(places, 0), 1)
    return last.astype(np.uint64)
  if by == 'prefix':
    # A running hash of the tokens, stored at the queried places.
    hashed = np.zeros(places.shape, np.uint64)
    mixed = np.zeros(len(tokens), np.uint64)
    for t in range(int(places.max(initial=core.DEAD)) + 1):
      mixed = basics.hash64(mixed, tokens[:, t])
      hashed = np.where(places == t, mixed[:, None], hashed)
    return hashed
  states, legal = adapting.at_places(world, tokens, places)
  return states.astype(np.uint64) if by == 'state' else legal


def likely(world: core.World, states: np.ndarray) -> NextTokens:
  """The legal tokens, uniform but for a tie-break.

  Tokens on a shortest completion have a factor 1 + `TILT` more mass, so that
  greedy decoding ends; an aimless walk may never end.
  """
  # Many rows share a state: legal tokens are computed once per state.
  _, first, back = np.unique(
    world.state_id(states), return_index=True, return_inverse=True
  )
  unique = states[first]
  if core.can(world, core.Enumerable.distance_to_end):
    tokens, needed = world.distance_to_end(unique)
    legal = tokens != core.DEAD
    # needed [U, K]: moves to the end of the sequence if each token comes next.
    least = needed.min(-1, keepdims=True, where=legal, initial=world.max_len)
    soon = legal & (needed <= least)
  else:
    tokens = basics.listed(world.legal(unique))
    soon = legal = tokens != core.DEAD
  count = legal.sum(-1, keepdims=True)
  # A world without an end token has no shortest completion: uniform.
  if world.end == core.DEAD:
    share = -np.log(np.maximum(count, 1))
  else:
    total = np.maximum(count + TILT * soon.sum(-1, keepdims=True), 1)
    # n legal tokens, m of them on a shortest completion: these have
    # (1 + TILT) / total, the others 1 / total, with total = n + TILT m.
    share = np.where(soon, np.log((1 + TILT) / total), np.log(1 / total))
  log_probs = np.where(legal, share, -np.inf).astype(np.float32)
  return NextTokens(tokens, log_probs).take(back.reshape(-1))


class WorldPredictor(TablePredictor):
  """Follows the world's state and, with `many_states`, a hash of the prefix.

  state  world's state | hash of the prefix, with `many_states`
  words  W             | 2, as uint64

  A subclass whose history is less than the whole prefix overrides `recall`.
  """

  def __init__(self, world: core.World) -> None:
    """world: the world, of this vocabulary and these states."""
    self.world = world
    self.vocab_size, self.end = len(world.vocab), world.end
    self.max_len = world.max_len

  @abc.abstractmethod
  def support(self, states: np.ndarray, history: np.ndarray) -> NextTokens:
    """The tokens possible in world states [R, W], after histories [R].

    history: `recall` folded over the tokens, uint64; 0 without `many_states`.
    """

  def recall(self, history: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """[R] uint64 histories after one more token [R]; they begin at 0.

    history: [R] uint64 before that token.
    """
    return basics.hash64(history, tokens)

  def init(self, batch: int) -> np.ndarray:
    """See core.SequenceProcess."""
    return self._with(self.world.init(batch), np.zeros(batch, np.uint64))

  def read(self, prefixes: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """See ProcessPredictor; an illegal token leads to a dead state."""
    world, history = self.world, np.zeros(len(lengths), np.uint64)
    steps, states = world.walk(world.init(len(lengths)), prefixes, lengths)
    wrong = np.flatnonzero(steps < lengths)
    # `walk` stops before an illegal token, which leads to a dead state.
    refused = prefixes[wrong, steps[wrong]]
    states[wrong] = world.advance(states[wrong], refused)
    if self.many_states:
      for t in range(int(lengths.max(initial=0))):
        on = np.flatnonzero(t < lengths)
        history[on] = self.recall(history[on], prefixes[on, t])
    return self._with(states, history)

  def advance(self, states: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """See core.SequenceProcess."""
    if not self.many_states:
      return self.world.advance(states, tokens)
    states, history = split_history(states)
    after = self.world.advance(states, tokens)
    return self._with(after, self.recall(history, tokens))

  def next(self, states: np.ndarray) -> NextTokens:
    """See core.SequenceProcess."""
    # Without `many_states` the history is 0: `support` has one signature.
    history = np.zeros(len(states), np.uint64)
    if self.many_states:
      states, history = split_history(states)
    return self.support(states, history)

  def lookup(self, states: np.ndarray) -> tuple[NextTokens, np.ndarray]:
    """See ProcessPredictor; `likely` computes equal states once."""
    return self.next(states), np.arange(len(states))

  def _with(self, states: np.ndarray, history: np.ndarray) -> np.ndarray:
    """World states [R, W] with hashes [R] appended, if any."""
    if not self.many_states:
      return states
    return np.concatenate([states, history[:, None].view(np.int32)], axis=1)


def split_history(states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Splits states into world states [R, W] and histories [R] uint64."""
  # The last two int32 words are one uint64.
  history = np.ascontiguousarray(states[:, -2:]).view(np.uint64)
  return states[:, :-2], history[:, 0]


class Oracle(WorldPredictor, core.StatePredictor):
  """The world itself: legal tokens by `likely`, none after the end.

  It adapts to labels by a look-up of the state; each state without a label gets
  a random label.
  """

  def keys(self, tokens: np.ndarray, places: np.ndarray) -> np.ndarray:
    """See few_shot.KeyTable: the state."""
    return keys(self.world, 'state', tokens, places)

  def support(self, states: np.ndarray, history: np.ndarray) -> NextTokens:
    """See WorldPredictor."""
    del history
    return likely(self.world, states)

  def states(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The true labels; raises InputError if the world has no labels."""
    if not isinstance(self.world, core.Labelled):
      raise core.InputError(f'{self.world.name} gives its states no labels')
    return self.world.sequence_labels(tokens, lengths)

  def state_loss(
    self, tokens: np.ndarray, lengths: np.ndarray, labels: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray]:
    """The true labels, with probability 1."""
    return self.states(tokens, lengths), np.zeros(tokens.shape, np.float32)


class NoisyOracle(WorldPredictor):
  """The world with faults of known size, fixed by seed and state or prefix.

  A share `wrong` of all states (or prefixes) is mistaken for another state: the
  legal tokens are those of one of 64 states from `sample_states`. Then one
  token that is illegal there gets mass `illegal`. A hash of (seed, state id)
  decides all faults, or of (seed, all tokens) for by='prefix'. With by='state',
  prefixes of one state agree, so compression stays perfect and distinction
  drops; with by='prefix' both drop. Finished and dead states have no faults.
  """

  STATES = 64

  def __init__(
    self, world: core.World, *, illegal: float, wrong: float, by: str, seed: int
  ) -> None:
    """illegal: mass in [0, 1]; wrong: share in [0, 1]; by: state or prefix."""
    super().__init__(world)
    if not isinstance(world, core.Prefixed):
      raise core.InputError(
        f'noisy oracle: {world.name} draws no states (core.Prefixed)'
      )
    self.illegal, self.wrong, self.by, self.seed = illegal, wrong, by, seed
    self.many_states = by == 'prefix'
    # Legal tokens of 64 other states, computed once.
    others = world.sample_states(self.STATES, seed)
    self._others, self._ids = likely(world, others), world.state_id(others)

  def keys(self, tokens: np.ndarray, places: np.ndarray) -> np.ndarray:
    """See few_shot.KeyTable: the (possibly mistaken) state of each prefix."""
    states = keys(self.world, 'state', tokens, places)
    history = keys(self.world, self.by, tokens, places)
    swap = basics.uniforms(self.seed, history, 1) < self.wrong
    other = basics.hash64(self.seed, history[swap], 2) % len(self._ids)
    states[swap] = self._ids[other.astype(np.int64)].astype(np.uint64)
    return states

  def support(self, states: np.ndarray, history: np.ndarray) -> NextTokens:
    """See WorldPredictor."""
    options = likely(self.world, states)
    alive = (options.tokens != core.DEAD).any(-1)
    # Words 1, 2 and 3 of the hash decide whether a state is replaced, the
    # replacement, and the illegal token.
    # The key decides all faults: equal keys have equal faults in any batch.
    key = self.world.state_id(states) if self.by == 'state' else history
    if self.wrong and len(self._others.tokens):
      swap = alive & (basics.uniforms(self.seed, key, 1) < self.wrong)
      other = basics.hash64(self.seed, key[swap], 2) % len(self._others.tokens)
      others = self._others.take(other.astype(np.int64))
      # Both lists are padded with DEAD to one width before rows are replaced.
      width = max(options.tokens.shape[1], others.tokens.shape[1])
      options, others = _widened(options, width), _widened(others, width)
      for into, array in zip(options, others, strict=True):
        into[swap] = array
    return self._leaked(options, key, alive) if self.illegal else options

  def _leaked(
    self, options: NextTokens, key: np.ndarray, alive: np.ndarray
  ) -> NextTokens:
    """Adds an illegal token to each alive row [B] that has illegal tokens."""
    # Draws the nth illegal token, padding excluded, without listing them.
    free = self.vocab_size - 1 - (options.tokens != core.DEAD).sum(-1)
    rows = np.flatnonzero(alive & (free > 0))
    nth = basics.hash64(self.seed, key[rows], 3) % free[rows].astype(np.uint64)
    token = nth.astype(np.int64) + 1
    for option in options.tokens[rows].T:  # Ascending legal tokens are skipped.
      token += (option != core.DEAD) & (option <= token)
    tokens, log_probs = _widened(options, options.tokens.shape[1] + 1)
    with np.errstate(divide='ignore'):
      log_probs[rows] += np.float32(np.log1p(-self.illegal))
      log_probs[rows, -1] = np.float32(np.log(self.illegal))
    # The new column stays DEAD in rows without an illegal token.
    tokens[rows, -1] = token
    # Tokens must ascend; DEAD goes last.
    order = np.argsort(np.where(tokens < 0, self.vocab_size, tokens), axis=-1)
    return NextTokens(
      np.take_along_axis(tokens, order, -1),
      np.take_along_axis(log_probs, order, -1),
    )


def _widened(options: NextTokens, width: int) -> NextTokens:
  """A copy with `width` columns."""
  more = ((0, 0), (0, width - options.tokens.shape[1]))
  return NextTokens(
    np.pad(options.tokens, more, constant_values=core.DEAD),
    np.pad(options.log_probs, more, constant_values=-np.inf),
  )


class Uniform(TablePredictor):
  """Always the same probability for every token but padding."""

  def __init__(self, vocab_size: int, end: int, max_len: int) -> None:
    """vocab_size: V, padding included."""
    self.vocab_size, self.end, self.max_len = vocab_size, end, max_len
    self.row = np.full(vocab_size, -np.log(vocab_size - 1), np.float32)
    self.row[core.PAD] = -np.inf

  def log_probs(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """See core.Predictor; a read-only view."""
    return np.broadcast_to(self.row, (*tokens.shape, self.vocab_size))

  def init(self, batch: int) -> np.ndarray:
    """See core.SequenceProcess: there is one state."""
    return np.zeros((batch, 1), np.int32)

  def advance(self, states: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """See core.SequenceProcess."""
    del tokens
    return states

  def next(self, states: np.ndarray) -> NextTokens:
    """See core.SequenceProcess."""
    options, index = self.lookup(states)
    return options.take(index)

  def lookup(self, states: np.ndarray) -> tuple[NextTokens, np.ndarray]:
    """See ProcessPredictor."""
    return all_tokens(self.row[None]), np.zeros(len(states), np.int64)


class StateReader(Uniform, core.StatePredictor):
  """Predicts states by a function of the tokens; next tokens are uniform."""

  def __init__(
    self,
    world: core.World,
    read: Callable[[np.ndarray, np.ndarray], np.ndarray],
  ) -> None:
    """read: (tokens [B, L], lengths [B]) -> labels [B, L, K]."""
    super().__init__(len(world.vocab), world.end, world.max_len)
    self._read = read

  def states(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """See core.StatePredictor."""
    return self._read(tokens, lengths)

  def keys(self, tokens: np.ndarray, places: np.ndarray) -> np.ndarray:
    """See few_shot.KeyTable: the labels that `read` returns."""
    lengths = np.maximum(places.max(1, initial=core.DEAD) + 1, 1)
    labels = self.states(tokens, lengths)
    rows = np.arange(len(tokens))[:, None]
    return basics.hash64(
      *np.moveaxis(labels[rows, np.maximum(places, 0)], -1, 0)
    )
