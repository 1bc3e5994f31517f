"""Acceptance rules: which next tokens a model counts as possible.

Each rule maps log-probabilities [..., V] to a boolean mask of the same shape,
for NumPy and JAX arrays alike, and is hashable, so that jitted functions may
take it as a static argument (Vafa et al. 2024, section 3 and tables 5 to 7).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from wm import core


def _xp(array: Any) -> Any:
  if isinstance(array, np.ndarray):
    return np
  import jax.numpy as jnp  # Deferred: NumPy callers need no JAX.

  return jnp


def _rank(log_probs: Any) -> Any:
  """[..., V] rank of each token, most likely first, ties by lowest id."""
  xp = _xp(log_probs)
  kind = {'kind': 'stable'} if xp is np else {'stable': True}
  order = xp.argsort(-log_probs, axis=-1, **kind)
  return xp.argsort(order, axis=-1, **kind)


class Accept:
  """A rule; subclasses define `mask`. Probability zero is never accepted."""

  def mask(self, log_probs: Any) -> Any:
    """[..., V] bool: accepted tokens, from log-probabilities in nats."""
    raise core.InputError(f'{type(self).__name__} defines no mask')

  def draw(self, log_probs: Any, uniform: Any) -> Any:
    """[...] int32 token drawn among the accepted, DEAD where there is none.

    uniform: [...] float32 in [0, 1). The token taken is the first, in order
    of id, whose cumulative renormalised mass exceeds it.
    """
    xp = _xp(log_probs)
    mask = self.mask(log_probs)
    ids = None
    if xp is np:  # Tokens accepted nowhere add nothing to any sum.
      ids = np.flatnonzero(mask.reshape(-1, mask.shape[-1]).any(0))
      if not ids.size:
        return np.full(mask.shape[:-1], core.DEAD, np.int32)
      mask, log_probs = mask[..., ids], log_probs[..., ids]
    mass = xp.where(mask, xp.exp(log_probs), 0).astype(np.float32)
    total = xp.cumsum(mass, axis=-1)
    over = mask & (total > (uniform * total[..., -1])[..., None])
    # Rounding can leave no token over the line: then the last accepted one.
    last = mask.shape[-1] - 1 - xp.argmax(mask[..., ::-1], axis=-1)
    token = xp.where(over.any(-1), xp.argmax(over, axis=-1), last)
    token = token if ids is None else ids[token]
    return xp.where(mask.any(-1), token, core.DEAD).astype(np.int32)


@dataclasses.dataclass(frozen=True)
class epsilon(Accept):
  """Tokens of probability greater than `threshold`."""

  threshold: float = 0.01

  def __post_init__(self) -> None:
    if not 0 <= self.threshold < 1:
      raise core.InputError(
        f'epsilon(threshold={self.threshold}): expected 0 <= threshold < 1'
      )

  def mask(self, log_probs: Any) -> Any:
    """[..., V] bool."""
    floor = math.log(self.threshold) if self.threshold else -math.inf
    return log_probs > np.float32(floor)


@dataclasses.dataclass(frozen=True)
class top_k(Accept):
  """The `k` most likely tokens, exactly k of those possible at all.

  Ties go to the lowest id.
  """

  k: int = 4

  def __post_init__(self) -> None:
    if self.k < 1:
      raise core.InputError(f'top_k(k={self.k}): expected k >= 1')

  def mask(self, log_probs: Any) -> Any:
    """[..., V] bool."""
    xp = _xp(log_probs)
    possible = log_probs > -math.inf
    if self.k == 1:  # A greedy step needs no sort.
      best = xp.argmax(log_probs, axis=-1)[..., None]
      ids = xp.arange(log_probs.shape[-1])
      ids = ids.reshape((1,) * (log_probs.ndim - 1) + ids.shape)
      return possible & (ids == best)
    return possible & (_rank(log_probs) < self.k)


@dataclasses.dataclass(frozen=True)
class top_p(Accept):
  """Most likely first, while the mass before a token is below `mass`.

  The token that crosses the mass is in; ties by lowest id.
  """

  mass: float = 0.9

  def __post_init__(self) -> None:
    if not 0 < self.mass <= 1:
      raise core.InputError(f'top_p(mass={self.mass}): expected 0 < mass <= 1')

  def mask(self, log_probs: Any) -> Any:
    """[..., V] bool."""
    xp = _xp(log_probs)
    possible = log_probs > -math.inf
    if self.mass == 1:  # Rounded sums may reach 1 early.
      return possible
    rank = _rank(log_probs)
    kind = {'kind': 'stable'} if xp is np else {'stable': True}
    order = xp.argsort(-log_probs, axis=-1, **kind)
    probs = xp.exp(xp.take_along_axis(log_probs, order, axis=-1))
    before = xp.cumsum(probs, axis=-1) - probs
    kept = before < np.float32(self.mass)
    return possible & xp.take_along_axis(kept, rank, axis=-1)


@dataclasses.dataclass(frozen=True)
class published(Accept):
  """What the published program of Vafa et al. 2024 draws its samples from.

  The 50 most likely tokens, renormalised, then those of at least `threshold`;
  the most likely one always. It checks by `epsilon` all the same.
  """

  threshold: float = 0.01

  def mask(self, log_probs: Any) -> Any:
    """[..., V] bool."""
    xp = _xp(log_probs)
    rank = _rank(log_probs)
    mass = xp.where(rank < 50, xp.exp(log_probs), 0)
    enough = mass >= np.float32(self.threshold) * mass.sum(-1, keepdims=True)
    possible = log_probs > -math.inf
    return possible & ((rank == 0) | ((rank < 50) & enough))


GREEDY = top_k(1)
