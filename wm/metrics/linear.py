"""Linear softmax classifiers on activations, for probes."""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax


class Batches(NamedTuple):
  """One epoch: x [N, B, D], target y [N, B] int32, w [N, B], 0 for filling."""

  x: jax.Array
  y: jax.Array
  w: jax.Array


Params = tuple[jax.Array, jax.Array]  # [D, C] weights, [C] biases.


def _loss(params: Params, batch: Batches) -> jax.Array:
  logits_BC = jnp.dot(batch.x, params[0]) + params[1][None]
  each_B = optax.softmax_cross_entropy_with_integer_labels(logits_BC, batch.y)
  return jnp.sum(each_B * batch.w) / jnp.sum(batch.w)


@functools.partial(jax.jit, static_argnames='lr', donate_argnums=(0, 1))
def _epoch(
  params: Params, state: optax.OptState, batches: Batches, lr: float
) -> tuple[Params, optax.OptState]:
  optimiser = optax.adam(lr)

  def step(
    carry: tuple[Params, optax.OptState], batch: Batches
  ) -> tuple[tuple[Params, optax.OptState], None]:
    params, state = carry
    grads = jax.grad(_loss)(params, batch)
    updates, state = optimiser.update(grads, state, params)
    return (optax.apply_updates(params, updates), state), None

  return jax.lax.scan(step, (params, state), batches)[0]


def fit(
  features: np.ndarray,
  target: np.ndarray,
  classes: int,
  *,
  lr: float,
  batch: int,
  epochs: int,
  seed: int,
) -> tuple[np.ndarray, np.ndarray]:
  """Weights [D, C] and biases [C] of a softmax classifier.

  Adam on the cross-entropy, no regularisation. As published (Vafa et al.
  2024, appendix), points are shuffled once and then come in the same order
  in every epoch.

  Args:
    features: [P, D] float32.
    target: [P] integers below `classes`.
    classes: C.
    lr: learning rate.
    batch: points of a step; the last step of an epoch may have fewer.
    epochs: passes over the points.
    seed: of the initial weights and the order.
  """
  num, width = features.shape
  batch = min(batch, num)
  steps = -(-num // batch)
  order = np.random.default_rng([seed, 7]).permutation(num)
  order = np.resize(order, steps * batch)  # Filled up; weighted 0 below.
  used = np.arange(steps * batch) < num
  batches = Batches(
    x=jnp.asarray(features[order].reshape(steps, batch, width)),
    y=jnp.asarray(target[order].reshape(steps, batch), jnp.int32),
    w=jnp.asarray(used.reshape(steps, batch), jnp.float32),
  )
  bound = width**-0.5
  start = np.random.default_rng([seed, 8]).uniform(
    -bound, bound, (width, classes)
  )
  params = jnp.asarray(start, jnp.float32), jnp.zeros(classes, jnp.float32)
  state = optax.adam(lr).init(params)
  for _ in range(epochs):
    params, state = _epoch(params, state, batches, lr)
  return np.asarray(params[0]), np.asarray(params[1])
