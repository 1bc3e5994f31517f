"""Linear softmax classifiers on activations, and trained subspaces."""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from wm.runtime import progress


class Epoch(NamedTuple):
  """One epoch: x [N, B, D], target y [N, B, K], w [N, B] weights, 0 = pad."""

  x: jax.Array
  y: jax.Array
  w: jax.Array


Params = tuple[jax.Array, jax.Array]  # [D, K, C] weights, [K, C] biases.
RATE, BATCH = 0.01, 2048  # Adam's rate, and positions of a step.
# Bias of a class that a classifier does not have, in place of -inf.
NEVER = -1e30


def _loss(params: Params, batch: Epoch, valid: jax.Array) -> jax.Array:
  """Sum over classifiers, which share no parameters and so fit separately."""
  logits_BKC = jnp.tensordot(batch.x, params[0], 1) + params[1][None]
  logits_BKC = jnp.where(valid, logits_BKC, NEVER)
  each_BK = optax.softmax_cross_entropy_with_integer_labels(logits_BKC, batch.y)
  return jnp.sum(each_BK.sum(-1) * batch.w) / jnp.sum(batch.w)


@functools.partial(jax.jit, static_argnames='lr', donate_argnums=(0, 1))
def _epoch(
  params: Params,
  state: optax.OptState,
  batches: Epoch,
  valid: jax.Array,
  lr: float,
) -> tuple[Params, optax.OptState]:
  optimizer = optax.adam(lr)

  def step(
    carry: tuple[Params, optax.OptState], batch: Epoch
  ) -> tuple[tuple[Params, optax.OptState], None]:
    params, state = carry
    grads = jax.grad(_loss)(params, batch, valid)
    updates, state = optimizer.update(grads, state, params)
    return (optax.apply_updates(params, updates), state), None

  return jax.lax.scan(step, (params, state), batches)[0]


def fit(
  features: np.ndarray,
  target: np.ndarray,
  classes: np.ndarray,
  *,
  lr: float = RATE,
  batch: int = BATCH,
  epochs: int,
  seed: int,
) -> tuple[np.ndarray, np.ndarray]:
  """Weights [D, K, C] and biases [K, C] of K softmax classifiers.

  Adam on the cross-entropy, no regularisation. As published (Vafa et al.
  2024, appendix), points are shuffled once and then come in the same order
  in every epoch. A class that a classifier does not have has bias NEVER.

  Args:
    features: [P, D] float32.
    target: [P, K] integers, column k below classes[k].
    classes: [K] numbers of classes; C is the largest.
    lr: learning rate.
    batch: points of a step; the last step of an epoch may have fewer.
    epochs: passes over the points.
    seed: seed of the initial weights and the order.
  """
  num, width = features.shape
  batch = min(batch, num)
  steps = -(-num // batch)
  # One order for all epochs, so that batches are laid out once:
  #   [steps * batch] -> x [steps, batch, D], y [steps, batch, K]
  order = np.random.default_rng([seed, 7]).permutation(num)
  order = np.resize(order, steps * batch)  # Padding has weight 0 below.
  used = np.arange(steps * batch) < num
  batches = Epoch(
    x=jnp.asarray(features[order].reshape(steps, batch, width)),
    y=jnp.asarray(target[order].reshape(steps, batch, -1), jnp.int32),
    w=jnp.asarray(used.reshape(steps, batch), jnp.float32),
  )
  shape = len(classes), int(classes.max())
  # Classifiers have different numbers of classes: [K, C], padded.
  valid = np.arange(shape[1]) < np.asarray(classes)[:, None]
  bound = width**-0.5
  start = np.random.default_rng([seed, 8]).uniform(
    -bound, bound, (width, *shape)
  )
  params = jnp.asarray(start, jnp.float32), jnp.zeros(shape, jnp.float32)
  state = optax.adam(lr).init(params)
  # One call per epoch, so that Ctrl-C works between them.
  for epoch in range(epochs):
    params, state = _epoch(params, state, batches, jnp.asarray(valid), lr)
    jax.block_until_ready(params)
    progress.report(epoch + 1, epochs, 'epochs')
  return np.asarray(params[0]), np.where(valid, params[1], NEVER)


def named(
  features: np.ndarray, weights: np.ndarray, biases: np.ndarray
) -> np.ndarray:
  """[P, K] class that each classifier predicts, with `fit`'s parameters."""
  width = len(weights)
  logits = features @ weights.reshape(width, -1) + biases.reshape(-1)
  return logits.reshape(-1, *biases.shape).argmax(-1)
