"""Losses and classes of a state's labels, for networks that name states.

A state has K labels, each with a head: a softmax over its own classes (Walker
and Lyons 2026, section 3). Heads are computed by runs of equal ones, and runs
by matrix products. Chess, by classes of each head:

  heads     13 13 ... 13   2 2 2 2 2   9   3   256 256 256 256
  runs      64 heads       5 heads     1   1   4 heads
  products  64 x 13        5 x 2 + 9 + 3       4 x 256
  layout    [*X, 13, 64]   [*X, 22]            [*X, 1024]

A run is one array operation. Wide runs are a product of their own; narrow ones
that are neighbours share one. Where a wide run has more heads than classes, its
heads come last: sums over few classes then go abreast for many heads.
Shape letters as in `layers`.
"""

from __future__ import annotations

import functools
import itertools

import jax
import jax.numpy as jnp

from wm.models.nn import layers

Heads = tuple[int, ...]
Logits = jax.Array | list[jax.Array]

# Runs of fewer logits share a matrix product.
_NARROW = 64


def runs(heads: Heads) -> list[tuple[int, int, int]]:
  """(first logit, number of heads, classes of each) of runs of equal heads."""
  equal, first = [], 0
  for classes, run in itertools.groupby(heads):
    num = len(list(run))
    equal.append((first, num, classes))
    first += num * classes
  return equal


def _groups(heads: Heads) -> list[list[tuple[int, int, int]]]:
  """The runs of each product."""
  groups: list[list[tuple[int, int, int]]] = []
  before = False
  for run in runs(heads):
    # Neighbours that are both narrow share a product.
    narrow = run[1] * run[2] < _NARROW
    if narrow and before:
      groups[-1].append(run)
    else:
      groups.append([run])
    before = narrow
  return groups


def _heads_last(num: int, classes: int) -> bool:
  """Whether a run is laid out [classes, heads] where products are apart."""
  return num > classes and num * classes >= _NARROW


def widths(heads: Heads) -> layers.Sizes:
  """Logits of each product, (heads, classes) where heads come last.

  As `Network.parts` and `layers.cut` take them.
  """
  sizes = []
  for group in _groups(heads):
    _, num, classes = group[0]
    total = sum(num * classes for _, num, classes in group)
    sizes.append((num, classes) if _heads_last(num, classes) else total)
  return tuple(sizes)


def _cut(logits_XC: Logits, heads: Heads) -> list[tuple[jax.Array, int]]:
  """Logits of each run, and the axis of the classes.

  [*X, heads, classes] and -1, or [*X, classes, heads] and -2.
  """
  pieces, apart = [], isinstance(logits_XC, list)
  groups = _groups(heads) if apart else [runs(heads)]
  parts = logits_XC if isinstance(logits_XC, list) else [logits_XC]
  for part, group in zip(parts, groups, strict=True):
    for first, num, classes in group:
      start = first - group[0][0]
      piece, shape = part[..., start : start + num * classes], (num, classes)
      last = apart and _heads_last(num, classes)
      shape = shape[::-1] if last else shape
      piece = piece.reshape(*piece.shape[:-1], *shape)
      pieces.append((piece, -2 if last else -1))
  return pieces


def likeliest(logits_XC: Logits, heads: Heads) -> jax.Array:
  """[*X, K] int32 class of each head; the lowest of equals."""
  parts = [jnp.argmax(part, axis) for part, axis in _cut(logits_XC, heads)]
  return jnp.concatenate(parts, axis=-1).astype(jnp.int32)


def losses(logits_XC: Logits, labels_XK: jax.Array, heads: Heads) -> jax.Array:
  """[*X, K] float32: -log p(label) by each head, nats.

  logits_XC: one array, or an array for each product of `widths`, so that
  their gradients need not be put together.
  """
  losses, first = [], 0
  for part, axis in _cut(logits_XC, heads):
    num = part.shape[-3 - axis]
    label_XK = labels_XK[..., first : first + num]
    losses.append(_loss(axis, part.astype(jnp.float32), label_XK))
    first += num
  return jnp.concatenate(losses, axis=-1)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _loss(axis: int, logits_XC: jax.Array, label_X: jax.Array) -> jax.Array:
  """[*X] cross-entropies, to full precision however small they are.

  axis: of the classes, in logits.

  p(label) = e / (e + s), where s is the mass of the other classes. Where the
  label is on top the loss is log1p(s / e): a difference of logarithms would be
  lost in rounding below 1e-7, where the best published losses are.
  """
  return _forward(axis, logits_XC, label_X)[0]


def _forward(
  axis: int, logits_XC: jax.Array, label_X: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, ...]]:
  """Losses, and what the gradient needs, so that no exp is computed twice."""
  # Less the greatest: exp of all is at most 1, and of one is 1.
  hit_XC = _hit(axis, logits_XC, label_X)
  logits_XC = logits_XC - logits_XC.max(axis, keepdims=True)
  place_X1 = jnp.expand_dims(label_X.astype(jnp.int32), axis)
  picked = jnp.take_along_axis(logits_XC, place_X1, axis).squeeze(axis)
  # The label's own place is 0, so that the sum is s, without a subtraction.
  rest_XC = jnp.exp(jnp.where(hit_XC, -jnp.inf, logits_XC))
  others = rest_XC.sum(axis)
  best = picked >= 0
  safe = jnp.where(best, picked, 0)  # No overflow where it is not used.
  # On top: log1p(s / e). Below: log(s + e) - log(e), which is not small.
  loss_X = jnp.where(
    best,
    jnp.log1p(others * jnp.exp(-safe)),
    jnp.log(others + jnp.exp(picked)) - picked,
  )
  return loss_X, (rest_XC, label_X, picked, others)


def _backward(
  axis: int, residuals: tuple[jax.Array, ...], slope_X: jax.Array
) -> tuple[jax.Array, None]:
  """The slope times p, and at the label times -s / (e + s)."""
  # d loss / d logit = p - [is the label]. There p - 1 = -s / (e + s) is
  # written so, since 1 less a p near 1 would be rounded to 0.
  rest_XC, label_X, picked, others = residuals
  scale_X = slope_X / (others + jnp.exp(picked))
  at_label_X1 = jnp.expand_dims(-others * scale_X, axis)
  slope_XC = rest_XC * jnp.expand_dims(scale_X, axis)
  hit_XC = _hit(axis, rest_XC, label_X)
  return jnp.where(hit_XC, at_label_X1, slope_XC), None


_loss.defvjp(_forward, _backward)


def _hit(axis: int, logits_XC: jax.Array, label_X: jax.Array) -> jax.Array:
  """[*X, C] bool."""
  shape = [1] * logits_XC.ndim
  shape[axis] = -1
  classes = jnp.arange(logits_XC.shape[axis]).reshape(shape)
  return jnp.expand_dims(label_X.astype(jnp.int32), axis) == classes
