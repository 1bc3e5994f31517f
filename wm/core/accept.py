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
from wm.core import fields

_BLOCK = 64  # Tokens of a block in a draw on a device.
_SPARSE = 4  # Draw from a list if fewer than one token in 4 is accepted.
_FEW = 64  # Most likely tokens that usually hold the mass of top_p.


def _xp(array: Any) -> Any:
  if isinstance(array, np.ndarray):
    return np
  import jax.numpy as jnp  # Deferred: NumPy callers need no JAX.

  return jnp


def _top(log_probs: Any, num: int) -> Any:
  """Values [..., num] of the most likely tokens, most likely first."""
  import jax

  # A slice of the result, merged into it, would have XLA sort all tokens.
  return jax.lax.optimization_barrier(jax.lax.top_k(log_probs, num)[0])


def _first(log_probs: Any, num: int) -> Any:
  """[..., V] bool: the `num` most likely tokens, and ties with the last."""
  size = log_probs.shape[-1]
  num = min(num, size)
  if num == 1:  # A greedy step needs no sort.
    return log_probs >= log_probs.max(-1, keepdims=True)
  if _xp(log_probs) is np:
    last = np.partition(log_probs, size - num, axis=-1)[..., size - num, None]
  else:
    last = _top(log_probs, num)[..., -1:]
  return log_probs >= last


def _top_p_jax(log_probs: Any, mass: float, rule: Any) -> Any:
  """`top_p` by the few most likely tokens; `rule` only if they lack `mass`.

  rule: function that sorts all V tokens.
  """
  import jax
  import jax.numpy as jnp

  values = _top(log_probs, min(_FEW, log_probs.shape[-1]))
  probs = jnp.exp(values)
  total = jnp.cumsum(probs, axis=-1)
  num = (total - probs < mass).sum(-1, keepdims=True)
  quick = log_probs >= jnp.take_along_axis(values, num - 1, axis=-1)
  # Each row uses its own sum, so that other rows cannot change its bits.
  done = total[..., -1:] >= mass
  return jax.lax.cond(
    done.all(), lambda: quick, lambda: jnp.where(done, quick, rule(log_probs))
  )


def _draw_jax(mask: Any, log_probs: Any, uniform: Any) -> Any:
  """`Accept.draw` in two levels: first the block, then the token in it."""
  import jax.numpy as jnp

  size = log_probs.shape[-1]
  num = -(-size // _BLOCK)
  mass = jnp.where(mask, jnp.exp(log_probs), 0).astype(jnp.float32)
  pad = [(0, 0)] * (mass.ndim - 1) + [(0, num * _BLOCK - size)]
  mass = jnp.pad(mass, pad).reshape(*mass.shape[:-1], num, _BLOCK)
  sums = mass.sum(-1)
  total = jnp.cumsum(sums, axis=-1)
  line = uniform * total[..., -1]
  # Rounding can leave nothing over the line: then the last block with mass.
  last = num - 1 - jnp.argmax(sums[..., ::-1] > 0, axis=-1)
  block = jnp.minimum((total <= line[..., None]).sum(-1), last)[..., None]
  before = jnp.take_along_axis(total - sums, block, axis=-1)
  inside = jnp.take_along_axis(mass, block[..., None], axis=-2)[..., 0, :]
  over = (inside > 0) & (before + jnp.cumsum(inside, -1) > line[..., None])
  final = _BLOCK - 1 - jnp.argmax(inside[..., ::-1] > 0, axis=-1)
  place = jnp.where(over.any(-1), jnp.argmax(over, axis=-1), final)
  token = block[..., 0] * _BLOCK + place
  return jnp.where(total[..., -1] > 0, token, core.DEAD).astype(jnp.int32)


def _draw_dense(
  mask: np.ndarray, log_probs: np.ndarray, uniform: np.ndarray
) -> np.ndarray:
  """`Accept.draw` in NumPy."""
  mass = np.where(mask, np.exp(log_probs), 0).astype(np.float32)
  total = np.cumsum(mass, axis=-1)
  over = mask & (total > (uniform * total[..., -1])[..., None])
  # Rounding can leave no token over the line: then the last accepted one.
  last = mask.shape[-1] - 1 - np.argmax(mask[..., ::-1], axis=-1)
  token = np.where(over.any(-1), np.argmax(over, axis=-1), last)
  return np.where(mask.any(-1), token, core.DEAD).astype(np.int32)


def _draw_sparse(
  mask: np.ndarray, log_probs: np.ndarray, uniform: np.ndarray
) -> np.ndarray:
  """`_draw_dense` to the bit, faster if few tokens are accepted.

  It moves the accepted tokens of each row to the front; others would add 0.
  """
  shape, size = mask.shape[:-1], mask.shape[-1]
  row, token = np.divmod(np.flatnonzero(mask), size)
  count = np.bincount(row, minlength=mask.size // size)
  if not row.size:
    return np.full(shape, core.DEAD, np.int32)
  start = np.cumsum(count) - count
  place = np.arange(len(row)) - start[row]
  mass = np.zeros((len(count), int(count.max())), np.float32)
  mass[row, place] = np.exp(log_probs.reshape(-1, size)[row, token])
  total = np.cumsum(mass, axis=-1)
  line = (uniform.reshape(-1) * total[:, -1])[:, None]
  over = (total > line) & (np.arange(mass.shape[1]) < count[:, None])
  nth = np.where(over.any(-1), np.argmax(over, axis=-1), count - 1)
  drawn = token[np.minimum(start + nth, len(token) - 1)]
  drawn = np.where(count > 0, drawn, core.DEAD)
  return drawn.astype(np.int32).reshape(shape)


class Accept:
  """An acceptance rule; subclasses define `mask`.

  A rule never accepts a token of probability zero. For NumPy arrays, such
  tokens do not change masks and draws by a bit: a predictor may leave them out
  and keep the others in order of id.
  """

  def __post_init__(self) -> None:
    fields.check(self)

  def mask(self, log_probs: Any) -> Any:
    """[..., V] bool: accepted tokens, from log-probabilities in nats."""
    raise core.InputError(f'{type(self).__name__} defines no mask')

  def draw(self, log_probs: Any, uniform: Any) -> Any:
    """[...] int32 token drawn from the accepted tokens; DEAD if there are none.

    uniform: [...] float32 in [0, 1). The drawn token is the first in order of
      id whose cumulative renormalised mass exceeds it.
    """
    mask = self.mask(log_probs)
    if _xp(log_probs) is not np:
      return _draw_jax(mask, log_probs, uniform)
    few = _SPARSE * np.count_nonzero(mask) < mask.size
    return (_draw_sparse if few else _draw_dense)(mask, log_probs, uniform)


@dataclasses.dataclass(frozen=True)
class epsilon(Accept):
  """Tokens of probability greater than `threshold`."""

  threshold: float = fields.field(0.01, least=0, below=1)

  def mask(self, log_probs: Any) -> Any:
    """[..., V] bool."""
    floor = math.log(self.threshold) if self.threshold else -math.inf
    return log_probs > np.float32(floor)


@dataclasses.dataclass(frozen=True)
class top_k(Accept):
  """The `k` most likely tokens of nonzero probability.

  Tokens as likely as the k-th are accepted too, so that the rule does not
  depend on the order of the vocabulary.
  """

  k: int = fields.field(4, least=1)

  def mask(self, log_probs: Any) -> Any:
    """[..., V] bool."""
    possible = log_probs > -math.inf
    return possible & _first(log_probs, self.k)


@dataclasses.dataclass(frozen=True)
class top_p(Accept):
  """The most likely tokens whose probabilities add up to `mass`.

  The token that reaches `mass` is accepted, and so are all ties with it.
  """

  mass: float = fields.field(0.9, above=0, most=1)

  def mask(self, log_probs: Any) -> Any:
    """[..., V] bool."""
    possible = log_probs > -math.inf
    if self.mass == 1:  # Rounded sums may reach 1 early.
      return possible
    if _xp(log_probs) is np:
      return possible & self._sorted(log_probs)
    return possible & _top_p_jax(log_probs, self.mass, self._sorted)

  def _sorted(self, log_probs: Any) -> Any:
    xp = _xp(log_probs)
    falling = -xp.sort(-log_probs, axis=-1)
    probs = xp.exp(falling)
    before = xp.cumsum(probs, axis=-1) - probs
    num = (before < np.float32(self.mass)).sum(-1, keepdims=True)
    return log_probs >= xp.take_along_axis(falling, num - 1, axis=-1)


@dataclasses.dataclass(frozen=True)
class published(Accept):
  """Tokens that the published program of Vafa et al. 2024 samples from.

  It renormalises the 50 most likely tokens, and keeps those of probability at
  least `threshold` and the most likely one. For checks it uses `epsilon`.
  """

  threshold: float = 0.01

  def mask(self, log_probs: Any) -> Any:
    """[..., V] bool."""
    xp = _xp(log_probs)
    likely = _first(log_probs, 50)
    mass = xp.where(likely, xp.exp(log_probs), 0)
    if xp is np:  # In order of id, so that impossible tokens do not matter.
      total = np.cumsum(mass, axis=-1)[..., -1:]
    else:
      total = mass.sum(-1, keepdims=True)
    enough = mass >= np.float32(self.threshold) * total
    possible = log_probs > -math.inf
    return possible & (_first(log_probs, 1) | (likely & enough))


@dataclasses.dataclass(frozen=True)
class calibrated(Accept):
  """`epsilon` with the threshold that suits a model best.

  The threshold has the greatest F1 of accepted against legal tokens, at the
  positions of `num` training sequences that no trial uses. Metrics take
  epsilon(...) in its place; entries name its threshold as `epsilon`.
  """

  num: int = fields.field(100, least=1)

  def mask(self, log_probs: Any) -> Any:
    """Raises InputError: without a model there is no threshold."""
    raise core.InputError(
      'calibrated(): no threshold is calibrated here; expected such as '
      'epsilon(0.01)'
    )
