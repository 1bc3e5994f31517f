"""Sessions of predictors that remember a state of a prefix, not the prefix."""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

import numpy as np

from wm import core

# Most float32 numbers drawn from at once (16 MB).
BUDGET = 1 << 22


class Support(NamedTuple):
  """The tokens that have a probability after each of B prefixes.

  Attributes:
    tokens: [B, K] int32, ascending; DEAD is none, anywhere.
    log_probs: [B, K] float32 nats, -inf where there is none.
  """

  tokens: np.ndarray
  log_probs: np.ndarray

  def dense(self, vocab_size: int) -> np.ndarray:
    """[B, V] float32 log-probabilities."""
    out = np.full((len(self.tokens), vocab_size), -np.inf, np.float32)
    row, place = np.nonzero(self.tokens != core.DEAD)
    out[row, self.tokens[row, place]] = self.log_probs[row, place]
    return out

  def take(self, rows: np.ndarray) -> Support:
    """The given rows."""
    return Support(self.tokens[rows], self.log_probs[rows])


def whole(log_probs: np.ndarray) -> Support:
  """The support of log-probabilities [B, V]: every token."""
  tokens = np.arange(log_probs.shape[1], dtype=np.int32)
  return Support(np.broadcast_to(tokens, log_probs.shape), log_probs)


def distinct(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """One number [U] for each of the different rows [R, W], and [R] whose it is.

  By their bytes: of wide rows NumPy's own, by columns, takes far longer.
  """
  width = rows.dtype.itemsize * rows.shape[1]
  whole = np.ascontiguousarray(rows).view(np.dtype((np.void, width)))
  _, first, place = np.unique(
    whole.reshape(-1), return_index=True, return_inverse=True
  )
  return first, place.reshape(-1)


class Stateful(core.Predictor):
  """A predictor that remembers a state of a prefix.

  A state is a row of W integers; equal rows predict the same.
  """

  @abc.abstractmethod
  def enter(self, prefixes: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """[R, W] states after prefixes [R, L] of lengths [R]."""

  @abc.abstractmethod
  def follow(self, states: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """[R, W] states after one token [R] each."""

  @abc.abstractmethod
  def known(self, states: np.ndarray) -> tuple[Support, np.ndarray]:
    """What may come next in U of the states [R, W], and [R] which is whose.

    U is less than R where states that predict the same are looked up once.
    """

  def options(self, states: np.ndarray) -> Support:
    """What may come next in states [R, W]."""
    support, place = self.known(states)
    return support.take(place)

  def log_probs(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """See core.Predictor."""
    out = np.full((*tokens.shape, self.vocab_size), -np.inf, np.float32)
    states = self.enter(tokens, np.zeros(len(tokens), np.int32))
    for t in range(tokens.shape[1]):
      rows = np.flatnonzero(t < np.asarray(lengths))
      states[rows] = self.follow(states[rows], tokens[rows, t])
      out[rows, t] = self.options(states[rows]).dense(self.vocab_size)
    return out

  def session(
    self, prefixes: np.ndarray, lengths: np.ndarray, num: int
  ) -> StateSession:
    """See core.Predictor; prefixes may be empty."""
    return StateSession(self, prefixes, lengths, num)


class StateSession(core.Session):
  """States [B, M, W]; what is equal among them is looked up once."""

  def __init__(
    self,
    predictor: Stateful,
    prefixes: np.ndarray,
    lengths: np.ndarray,
    num: int,
  ) -> None:
    """See core.Predictor.session."""
    self._predictor = predictor
    states = predictor.enter(prefixes, np.asarray(lengths))
    # [B, W] -> [B, M, W]: continuations part as they advance.
    self._states = np.repeat(states[:, None], num, axis=1)
    self._forget()

  def _forget(self) -> None:
    """States have changed: what was looked up is of no use."""
    self._found: tuple[Support, np.ndarray] | None = None
    self._table: np.ndarray | None = None

  def restart(
    self, rows: np.ndarray, prefixes: np.ndarray, lengths: np.ndarray
  ) -> None:
    """See core.Session."""
    states = self._predictor.enter(prefixes, np.asarray(lengths))
    self._states[rows] = states[:, None]
    self._forget()

  def advance(
    self, tokens: np.ndarray, parents: np.ndarray | None = None
  ) -> None:
    """See core.Session."""
    tokens = np.asarray(tokens)
    if parents is not None:
      self._states = np.take_along_axis(self._states, parents[..., None], 1)
    at = np.nonzero(tokens != core.DEAD)
    if at[0].size:  # A world need not be asked about nothing.
      self._states[at] = self._predictor.follow(self._states[at], tokens[at])
    self._forget()

  def _known(self) -> tuple[Support, np.ndarray]:
    """Supports [U, K], and which of them is whose [B, M]."""
    if self._found is None:
      batch, num, words = self._states.shape
      states = self._states.reshape(batch * num, words)
      support, place = self._predictor.known(states)
      self._found = support, place.reshape(batch, num)
    return self._found

  def _dense(self) -> np.ndarray:
    """[U, V] log-probabilities of the supports."""
    if self._table is None:
      support, _ = self._known()
      self._table = support.dense(self._predictor.vocab_size)
    return self._table

  def log_probs(self) -> np.ndarray:
    """See core.Session."""
    _, place = self._known()
    return self._dense()[place]

  def mask(self, accept: Any) -> np.ndarray:
    """See core.Session; the rule is applied once to what is equal."""
    _, place = self._known()
    return np.asarray(accept.mask(self._dense()))[place]

  def draw(self, accept: Any, uniform: np.ndarray) -> np.ndarray:
    """See core.Session."""
    (tokens, log_probs), place = self._known()
    row, uniform = place.ravel(), np.asarray(uniform).ravel()
    if 1 < len(tokens) < row.size:
      # Tokens that no state accepts change no rule's mask, nor its draws.
      some = np.flatnonzero(np.asarray(accept.mask(log_probs)).any(0))
      tokens, log_probs = tokens[:, some], log_probs[:, some]
    out = np.full(row.size, core.DEAD, np.int32)
    # In parts: [B M, K] for all at once may be larger than memory.
    size = row.size if tokens.size else 0
    for part in core.chunks(size, tokens.shape[1], BUDGET):
      drawn = accept.draw(_of(log_probs, row[part]), uniform[part])
      taken = tokens[row[part], np.maximum(drawn, 0)]
      out[part] = np.where(drawn == core.DEAD, core.DEAD, taken)
    return out.reshape(place.shape)

  def accepted(self, accept: Any, tokens: np.ndarray) -> np.ndarray:
    """See core.Session."""
    (options, log_probs), place = self._known()
    mask, tokens = np.asarray(accept.mask(log_probs)), np.asarray(tokens)
    size = self._predictor.vocab_size
    if options.shape[1] == size and (options == np.arange(size)).all():
      # Every token in its place, as of n-grams: no search.
      found = mask[place, np.maximum(tokens, 0)]
    else:
      here = _of(options, place) == tokens[..., None]
      found = (here & _of(mask, place)).any(-1)
    return found & (tokens != core.DEAD)


def _of(array: np.ndarray, place: np.ndarray) -> np.ndarray:
  """array[place], [*, K]: a view where one row is meant, or each in turn."""
  shape = (*place.shape, array.shape[1])
  if len(array) == 1:
    return np.broadcast_to(array, shape)
  if np.array_equal(place.ravel(), np.arange(len(array))):
    return array.reshape(shape)
  return array[place]
