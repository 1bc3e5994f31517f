"""Predictor and Session: next-token probabilities, prefix by prefix."""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

import numpy as np

from wm.core.basics import CAPPED, DEAD, ENDED, PAD, STUCK, uniforms


class Session(abc.ABC):
  """B prefixes, each with M continuations under way, advanced in step.

  Rows are independent: what a row gives does not depend on the others, on B,
  or on the number of devices. `restart` puts a new prefix in a row so that
  batches stay full as trials are decided.
  """

  @abc.abstractmethod
  def log_probs(self) -> np.ndarray:
    """[B, M, V] float32: log-probability of each next token, in nats."""

  @abc.abstractmethod
  def advance(
    self, tokens: np.ndarray, parents: np.ndarray | None = None
  ) -> None:
    """Appends tokens [B, M]; DEAD leaves a continuation as it was.

    parents: [B, M] index of the continuation each one goes on from (default:
    itself), for searches that branch.
    """

  @abc.abstractmethod
  def restart(
    self, rows: np.ndarray, prefixes: np.ndarray, lengths: np.ndarray
  ) -> None:
    """Gives rows [R] the prefixes [R, L] of lengths [R], nothing appended."""

  def draw(self, accept: Any, uniform: np.ndarray) -> np.ndarray:
    """[B, M] int32 tokens drawn from the accepted ones, renormalised.

    uniform: [B, M] float32 in [0, 1); the token whose cumulative mass first
    exceeds it, in order of id, is taken. DEAD where nothing is accepted.
    """
    log_probs = np.asarray(self.log_probs())
    return accept.draw(log_probs, uniform)

  def mask(self, accept: Any) -> np.ndarray:
    """[B, M, V] bool: the tokens accepted next."""
    return np.asarray(accept.mask(np.asarray(self.log_probs())))

  def accepted(self, accept: Any, tokens: np.ndarray) -> np.ndarray:
    """[B, M] bool: is each token [B, M] accepted next? DEAD never is."""
    mask = self.mask(accept)
    taken = np.take_along_axis(mask, np.maximum(tokens, 0)[..., None], -1)
    return taken[..., 0] & (tokens != DEAD)


class Predictor(abc.ABC):
  """Anything that gives next-token probabilities.

  Attributes:
    vocab_size: V.
    end: id of the end token, or DEAD.
    max_len: longest sequence, in tokens, that it was made for.
  """

  vocab_size: int
  end: int
  max_len: int

  @abc.abstractmethod
  def log_probs(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """[B, L, V] float32: log p(next | tokens[:, :t + 1]) at each t.

    tokens: [B, L] int32; lengths: [B]. Positions t >= lengths are undefined.
    """

  @abc.abstractmethod
  def session(
    self, prefixes: np.ndarray, lengths: np.ndarray, num: int
  ) -> Session:
    """A session with `num` continuations of each prefix [B, L]."""

  def hidden(
    self, tokens: np.ndarray, lengths: np.ndarray, layer: int
  ) -> np.ndarray | None:
    """[B, L, D] float32 activations after `layer` (-1 the last, final norm
    included); None where the predictor has none."""
    del tokens, lengths, layer
    return None

  def states(
    self, tokens: np.ndarray, lengths: np.ndarray
  ) -> np.ndarray | None:
    """[B, L, K] integers: `World.state_heads` classes named after each token.

    None where the predictor names no states.
    """
    del tokens, lengths
    return None

  def state_loss(
    self, tokens: np.ndarray, lengths: np.ndarray, labels: np.ndarray
  ) -> tuple[np.ndarray | None, np.ndarray | None]:
    """`states`, and [B, L] float32 mean of -log p(labels [B, L, K]), nats.

    The second is None where nothing has a probability.
    """
    del labels
    return self.states(tokens, lengths), None

  def untrained(self, seed: int) -> Predictor | None:
    """The same model with random weights, a control; None if it has none."""
    del seed
    return None


class Samples(NamedTuple):
  """Sampled continuations.

  Attributes:
    tokens: [B, M, K] int32, padded with PAD; the end token is included.
    lengths: [B, M] int32.
    status: [B, M] int8: ENDED, CAPPED (no token budget left) or STUCK
      (nothing was accepted).
  """

  tokens: np.ndarray
  lengths: np.ndarray
  status: np.ndarray


def sample(
  predictor: Predictor,
  prefixes: np.ndarray,
  lengths: np.ndarray,
  *,
  num: int,
  max_len: int,
  seeds: np.ndarray,
  accept: Any,
) -> Samples:
  """Samples `num` continuations of each prefix, temperature 1.

  Args:
    predictor: what to sample from.
    prefixes: [B, L] int32.
    lengths: [B] int32.
    num: continuations a prefix, M.
    max_len: total tokens, prefix included, at which sampling is capped.
    seeds: [B] integers; row b depends on seeds[b] alone.
    accept: rule from `wm.core.accept`; only accepted tokens are drawn, with
      probabilities renormalised over them.
  """
  batch, budget = len(lengths), max_len - np.asarray(lengths)
  steps = max(int(budget.max(initial=0)), 0)
  tokens = np.zeros((batch, num, steps), np.int32)
  count = np.zeros((batch, num), np.int32)
  status = np.zeros((batch, num), np.int8)
  status[budget <= 0] = CAPPED
  session = predictor.session(prefixes, lengths, num)
  branch = np.arange(num)[None]
  for k in range(steps):
    drawn = session.draw(accept, uniforms(seeds[:, None], branch, k))
    drawn = np.where(status == 0, drawn, DEAD)
    status[(status == 0) & (drawn == DEAD)] = STUCK
    moved = drawn != DEAD
    tokens[..., k] = np.where(moved, drawn, PAD)
    count += moved
    status[moved & (drawn == predictor.end)] = ENDED
    status[moved & (status == 0) & (k + 1 >= budget)[:, None]] = CAPPED
    if status.all():
      break
    session.advance(np.where(status == 0, drawn, DEAD))
  return Samples(tokens, count, status)


def accepted_steps(
  predictor: Predictor,
  prefixes: np.ndarray,
  lengths: np.ndarray,
  suffixes: np.ndarray,
  suffix_lengths: np.ndarray,
  accept: Any,
) -> np.ndarray:
  """[B, M] int32: tokens of each suffix accepted before the first refusal.

  prefixes: [B, L], lengths: [B], suffixes: [B, M, K], suffix_lengths: [B, M].
  A suffix is in the model's language exactly when this equals its length.
  """
  batch, num, longest = suffixes.shape
  steps = np.zeros((batch, num), np.int32)
  alive = suffix_lengths > 0
  session = predictor.session(prefixes, lengths, num)
  for k in range(longest):
    tokens = np.where(alive, suffixes[..., k], DEAD)
    alive &= session.accepted(accept, tokens)
    steps += alive
    alive &= k + 1 < suffix_lengths
    if not alive.any():
      break
    session.advance(np.where(alive, tokens, DEAD))
  return steps
