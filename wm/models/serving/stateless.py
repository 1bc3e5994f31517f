"""Predictors that have `log_probs` only; their sessions recompute prefixes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from wm import core
from wm.models.serving import tiles


class Stateless(core.Predictor):
  """A predictor that has `log_probs` only; sessions recompute prefixes."""

  def last(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """[R, V] float32: log p(next | tokens[:, :length]) of each row.

    tokens: [R, L] int32, lengths: [R], at least 1. Override where this is
    cheaper than all positions.
    """
    out = np.empty((len(tokens), self.vocab_size), np.float32)
    for rows, log_probs in core.log_probs_by_rows(self, tokens, lengths):
      at = np.asarray(lengths[rows])[:, None, None] - 1
      out[rows] = np.take_along_axis(np.asarray(log_probs), at, 1)[:, 0]
    return out

  def session(
    self, prefixes: np.ndarray, lengths: np.ndarray, num: int
  ) -> core.Session:
    """See core.Predictor."""
    return HistorySession(self.last, prefixes, lengths, num)


class HistorySession(core.Session):
  """A session that keeps token histories [B, M, L] and recomputes.

  Equal histories are computed once, so the first step of M continuations
  costs as much as one.
  """

  least = 1  # Tokens of the shortest prefix that predicts anything: 0 or 1.

  def __init__(
    self,
    last: Callable[[np.ndarray, np.ndarray], np.ndarray],
    prefixes: np.ndarray,
    lengths: np.ndarray,
    num: int,
  ) -> None:
    """last: (tokens [R, L], lengths [R]) -> log-probabilities [R, V]."""
    batch = len(lengths)
    self._last = last
    self._tokens = np.zeros((batch, num, 0), np.int32)
    self._lengths = np.zeros((batch, num), np.int32)
    self._log_probs: np.ndarray | None = None
    self.restart(np.arange(batch), prefixes, lengths)

  def _grow(self, length: int) -> None:
    missing = length - self._tokens.shape[2]
    if missing > 0:
      room = ((0, 0), (0, 0), (0, missing + 16))
      self._tokens = np.pad(self._tokens, room)  # By 16: not at every token.

  def restart(
    self, rows: np.ndarray, prefixes: np.ndarray, lengths: np.ndarray
  ) -> None:
    """See core.Session; InputError where a prefix is shorter than `least`."""
    lengths = np.asarray(lengths)
    if self.least:
      tiles.check_prefixes(lengths)
    longest = int(lengths.max(initial=0))
    self._grow(longest)
    prefixes = tiles.padded(prefixes, lengths, len(lengths), longest)
    # What continuations of the old prefix added goes, too.
    self._tokens[rows] = core.PAD
    self._tokens[rows, :, :longest] = prefixes[:, None]
    self._lengths[rows] = lengths[:, None]
    self._log_probs = None

  def log_probs(self) -> np.ndarray:
    """See core.Session."""
    if self._log_probs is None:
      batch, num = self._lengths.shape
      longest = int(self._lengths.max(initial=self.least))
      # The length tells apart histories that end in a pad from shorter ones.
      used = self._tokens[..., :longest].reshape(batch * num, longest)
      table = np.concatenate([self._lengths.reshape(-1, 1), used], axis=1)
      unique, back = np.unique(table, axis=0, return_inverse=True)
      found = self._last(np.ascontiguousarray(unique[:, 1:]), unique[:, 0])
      self._log_probs = found[back.reshape(-1)].reshape(batch, num, -1)
    return self._log_probs

  def advance(
    self, tokens: np.ndarray, parents: np.ndarray | None = None
  ) -> None:
    """See core.Session."""
    if parents is not None:
      self._tokens = np.take_along_axis(self._tokens, parents[..., None], 1)
      self._lengths = np.take_along_axis(self._lengths, parents, 1)
    self._grow(int(self._lengths.max(initial=0)) + 1)
    row, branch = np.nonzero(np.asarray(tokens) != core.DEAD)
    at = self._lengths[row, branch]
    self._tokens[row, branch, at] = np.asarray(tokens)[row, branch]
    self._lengths[row, branch] += 1
    self._log_probs = None
