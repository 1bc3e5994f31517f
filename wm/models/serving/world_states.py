"""Predictors that are a function of the world's state, and their sessions."""

from __future__ import annotations

import abc

import numpy as np

from wm import core
from wm.core import accept as rules
from wm.models.serving import tables
from wm.models.serving.tables import Support


class WorldStatePredictor(core.TablePredictor):
  """A table predictor that follows the world; subclasses define `table`."""

  recalls = True

  def __init__(self, world: core.World) -> None:
    """world: whose vocabulary and states these are."""
    self.world = world
    self.vocab_size = len(world.vocab)
    self.end = world.end
    self.max_len = world.max_len

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
    return WorldStateSession(self, prefixes, lengths, num)


def walked(
  world: core.World, prefixes: np.ndarray, lengths: np.ndarray
) -> np.ndarray:
  """[R, W] states after prefixes [R, L] of lengths [R]; dead where illegal."""
  steps, states = world.walk(world.init(len(lengths)), prefixes, lengths)
  wrong = np.flatnonzero(steps < lengths)
  refused = prefixes[wrong, steps[wrong]]
  states[wrong] = world.advance(states[wrong], refused)
  return states


class WorldStateSession(core.Session):
  """A session on world states [B, M, W] of a `WorldStatePredictor`."""

  def __init__(
    self,
    predictor: WorldStatePredictor,
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
    self.restart(np.arange(batch), prefixes, lengths)

  def restart(
    self, rows: np.ndarray, prefixes: np.ndarray, lengths: np.ndarray
  ) -> None:
    """See core.Session."""
    lengths = np.asarray(lengths)
    states = walked(self._predictor.world, prefixes, lengths)
    history = np.zeros(len(lengths), np.uint64)
    if self._predictor.recalls:
      for t in range(int(lengths.max(initial=0))):
        on = np.flatnonzero(t < lengths)
        history[on] = core.hash64(history[on], prefixes[on, t])
    self._states[rows] = states[:, None]
    self._history[rows] = history[:, None]
    self._changed()

  def _changed(self) -> None:
    """Forgets what was known of the states before."""
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
      if self._predictor.recalls:
        self._history[at] = core.hash64(self._history[at], tokens[at])
    self._changed()


class SparsePredictor(WorldStatePredictor, tables.Tabulated):
  """A predictor of states that knows the few tokens that are possible.

  Subclasses define `support`; draws and answers need nothing of width V.
  """

  @abc.abstractmethod
  def support(self, states: np.ndarray, history: np.ndarray) -> Support:
    """What is possible in states [B, W] after histories [B]."""

  def table(self, states: np.ndarray, history: np.ndarray) -> np.ndarray:
    """See WorldStatePredictor."""
    return self.support(states, history).dense(self.vocab_size)

  def session(
    self, prefixes: np.ndarray, lengths: np.ndarray, num: int
  ) -> core.Session:
    """See core.Predictor; prefixes may be empty."""
    return SparseSession(self, prefixes, lengths, num)

  def enter(self, prefixes: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """See Tabulated."""
    if self.recalls:
      raise core.Untraceable(
        'this predictor tells prefixes of one state apart: no table holds them'
      )
    return walked(self.world, prefixes, lengths)

  def follow(self, states: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """See Tabulated."""
    return self.world.advance(states, tokens)

  def options(self, states: np.ndarray) -> Support:
    """See Tabulated."""
    return self.support(states, np.zeros(len(states), np.uint64))


class SparseSession(WorldStateSession):
  """A session that draws and answers from supports; see SparsePredictor."""

  _found: Support | None = None

  def _changed(self) -> None:
    super()._changed()
    self._found = None

  def _support(self) -> Support:
    """[B, M, K]."""
    if self._found is None:
      batch, num, words = self._states.shape
      flat = self._predictor.support(
        self._states.reshape(batch * num, words), self._history.reshape(-1)
      )
      self._found = Support(*(a.reshape(batch, num, -1) for a in flat))
    return self._found

  def draw(self, accept: rules.Accept, uniform: np.ndarray) -> np.ndarray:
    """See core.Session."""
    tokens, log_probs = self._support()
    place = accept.draw(log_probs, uniform)
    drawn = np.take_along_axis(tokens, np.maximum(place, 0)[..., None], -1)
    return np.where(place == core.DEAD, core.DEAD, drawn[..., 0])

  def accepted(self, accept: rules.Accept, tokens: np.ndarray) -> np.ndarray:
    """See core.Session."""
    tokens = np.asarray(tokens)
    options, log_probs = self._support()
    here = (options == tokens[..., None]) & accept.mask(log_probs)
    return here.any(-1) & (tokens != core.DEAD)
