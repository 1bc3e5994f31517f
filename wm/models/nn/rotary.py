"""Rotary embeddings: pairs of numbers turned by angles.

`rotate` turns queries and keys by their positions (Su et al. 2021). The rest is
for Mamba-3, whose b and c turn by angles that come from the tokens. There an
angle is a number of whole turns, kept between -1/2 and 1/2: sums over thousands
of steps then lose no digits. Shape letters as in `layers`; R ranks, N columns
of a state, A = N / 4 angles.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from wm.models.nn import layers

# Kinds of positions that rotate queries and keys; see `rotate`.
KINDS = ('rotary', 'rotary_published')


def rotate(
  x_XHC: jax.Array, positions_X: jax.Array, *, published: bool = False
) -> jax.Array:
  """Turns channel pairs (c, c + C/2) by position * 10000^(-2c/C) radians.

  Su et al. 2021: norms are kept, and the product of a turned query and a
  turned key depends on how far apart they are alone. `published` is what
  Walker and Lyons 2026 ran: angles laid out as above, but neighbours (2c,
  2c + 1) mixed, each with an angle of its own. That is no rotation, and
  neither holds.
  """
  # angle of pair c at position p: p * 10000^(-2c/C); slow pairs tell far
  # positions apart, fast ones near ones.
  half = x_XHC.shape[-1] // 2
  rates = 10000.0 ** (-jnp.arange(half, dtype=jnp.float32) / half)
  angles = positions_X[..., None].astype(jnp.float32)
  angles = angles * layers.along(rates, angles)
  cos = jnp.cos(angles)[..., None, None, :].astype(x_XHC.dtype)
  sin = jnp.sin(angles)[..., None, None, :].astype(x_XHC.dtype)
  # Halves as a dimension of their own: no copy of what they are cut from.
  halves = x_XHC.reshape(*x_XHC.shape[:-1], 2, half)
  signed = jnp.concatenate([-sin, sin], -2)
  if published:
    pairs = x_XHC.reshape(*x_XHC.shape[:-1], half, 2)
    mixed = jnp.stack([-pairs[..., 1], pairs[..., 0]], -1)
    turned = halves * cos + mixed.reshape(halves.shape) * sin
  else:
    turned = halves * cos + halves[..., ::-1, :] * signed
  return turned.reshape(x_XHC.shape)


def within(turns: jax.Array) -> jax.Array:
  """The angle without its whole turns, -1/2 to 1/2."""
  return turns - jax.lax.stop_gradient(jnp.round(turns))


def add(first: jax.Array, second: jax.Array) -> jax.Array:
  """The sum, from -1/2 to 1/2."""
  return within(first + second)


@jax.custom_jvp
def circle(turns: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Cosine and sine of turns from -1/2 to 1/2.

  By the series of angles up to a quarter turn. On a CPU it is several times as
  fast as functions that have to reduce any angle first.
  """
  # cos(x) is the sine of a quarter turn less |x|, which is never beyond a
  # quarter; sin(x) of the far half is that of what is left to half a turn.
  side = 0.25 - jnp.abs(turns)
  upright = jnp.where(side < 0, jnp.copysign(0.5, turns) - turns, turns)
  return _series(side), _series(upright)


@circle.defjvp
def _circle_jvp(
  primals: tuple[jax.Array], tangents: tuple[jax.Array]
) -> tuple[tuple[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]:
  # By the results themselves: no other series is differentiated.
  cos, sin = circle(*primals)
  angles = 2 * math.pi * tangents[0]
  return (cos, sin), (-sin * angles, cos * angles)


def _series(turns: jax.Array) -> jax.Array:
  """Sine of up to a quarter turn, to the last digit but one."""
  powers = range(25 if turns.dtype == jnp.float64 else 13, 0, -2)
  # Horner's rule from the highest power down: odd powers, signs in turn.
  square, total = turns * turns, jnp.zeros_like(turns)
  for power in powers:
    sign = 1 if power % 4 == 1 else -1
    total = total * square + sign * (2 * math.pi) ** power / math.factorial(
      power
    )
  return total * turns


def pairs(b_XN: jax.Array, rank: int) -> jax.Array:
  """A vector in the order in which numbers that turn together are N / 2 apart.

  Half of the N numbers turn. For several ranks the pairs are (i, i + N / 2),
  i < N / 4, and the vector is as it was; for one rank they are (2 i, 2 i + 1):

    given    0 1 2 3 ... | rest, rest'
    ordered  0 2 ... | rest | 1 3 ... | rest'
  """
  if rank > 1:
    return b_XN
  quarter = b_XN.shape[-1] // 4
  both = b_XN[..., : 2 * quarter].reshape(*b_XN.shape[:-1], quarter, 2)
  middle, rest = jnp.split(b_XN[..., 2 * quarter :], 2, -1)
  return jnp.concatenate([both[..., 0], middle, both[..., 1], rest], -1)


def turned(
  b_XRN: jax.Array, bias_RHN: jax.Array, turns_XHA: jax.Array
) -> jax.Array:
  """[..., R, H, N]: each head's bias added, and then pairs turned.

    quarter  0      1      2      3          of N, as `pairs` orders them
    along    cos    1      cos    1          times b + bias
    across  -sin    0      sin    0          times the same, rolled by N / 2

  The factors and the rolled vectors are small; the large result is one
  elementwise expression of them.
  """
  cos, sin = circle(turns_XHA)
  ones, zeros = jnp.ones_like(cos), jnp.zeros_like(cos)
  along = jnp.concatenate([cos, ones, cos, ones], -1)[..., None, :, :]
  across = jnp.concatenate([sin, zeros, sin, zeros], -1)[..., None, :, :]
  half = b_XRN.shape[-1] // 2
  sign = jnp.where(jnp.arange(2 * half) < half, -1.0, 1.0).astype(cos.dtype)
  across *= layers.along(sign, across)
  other = jnp.roll(b_XRN, half, -1), jnp.roll(bias_RHN, half, -1)
  return _mixed((b_XRN, bias_RHN), other, along, across)


@jax.custom_vjp
def _mixed(
  plain: tuple[jax.Array, jax.Array],
  rolled: tuple[jax.Array, jax.Array],
  along_X1HN: jax.Array,
  across_X1HN: jax.Array,
) -> jax.Array:
  """along (b + bias) + across (other b + other bias): [..., R, H, N].

  The backward pass writes out its sums over the few ranks or heads: as
  reductions they are several times as slow on a CPU.
  """
  return _biased(*plain) * along_X1HN + _biased(*rolled) * across_X1HN


def _biased(b_XRN: jax.Array, bias_RHN: jax.Array) -> jax.Array:
  b_XR1N = b_XRN[..., None, :]
  return b_XR1N + layers.along(bias_RHN, b_XR1N)


def _mixed_forward(*operands: Any) -> tuple[jax.Array, Any]:
  return _mixed(*operands), operands


def _mixed_backward(operands: Any, slope_XRHN: jax.Array) -> Any:
  # of y = along * (b + bias) + across * (b' + bias'), slope d:
  #   to b      sum over heads of d * along       [..., R, N]
  #   to bias   sum over tokens of the same       [R, H, N]
  #   to along  sum over ranks of d * (b + bias)  [..., 1, H, N]
  # and likewise across, for the rolled b' and bias'.
  plain, rolled, along, across = operands

  def to_vectors(factor_X1HN: jax.Array) -> tuple[Any, jax.Array]:
    slope = slope_XRHN * factor_X1HN
    heads = range(slope.shape[-2])
    to_b = sum(slope[..., head, :] for head in heads)
    return to_b, slope.sum(range(slope.ndim - 3))

  def to_factor(vectors: tuple[jax.Array, jax.Array]) -> Any:
    product, ranks = slope_XRHN * _biased(*vectors), slope_XRHN.shape[-3]
    return sum(product[..., rank : rank + 1, :, :] for rank in range(ranks))

  return (
    to_vectors(along),
    to_vectors(across),
    to_factor(plain),
    to_factor(rolled),
  )


_mixed.defvjp(_mixed_forward, _mixed_backward)
