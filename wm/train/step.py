"""Loss, update and evaluation, each one jitted call over the mesh.

Shapes: B batch, L length, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from wm.models import network
from wm.train import optimiser as optimiser_lib
from wm.train import state as state_lib

# What a step reports, in this order, as one small array.
SUMS = ('loss', 'tokens', 'loss_moves', 'tokens_moves')
STEP = (*SUMS, 'grad_norm', 'lr')


def token_losses(
  net: network.Network, tokens_BL: jax.Array, key: jax.Array | None = None
) -> jax.Array:
  """[B, L - 1] float32: -log p(tokens[:, t + 1] | tokens[:, :t + 1]), nats."""
  logits_BLV = net(tokens_BL[:, :-1], key)
  return optax.softmax_cross_entropy_with_integer_labels(
    logits_BLV, tokens_BL[:, 1:]
  )


def loss_sums(
  net: network.Network,
  tokens_BL: jax.Array,
  lengths_B: jax.Array,
  prompt_len: int,
  key: jax.Array | None = None,
) -> jax.Array:
  """[4] float32, see SUMS: pads count nothing.

  'moves' are the tokens after the first `prompt_len`.
  """
  loss_BL = token_losses(net, tokens_BL, key)
  target_L = jnp.arange(1, tokens_BL.shape[1])
  real_BL = target_L[None, :] < lengths_B[:, None]
  move_BL = real_BL & (target_L >= prompt_len)[None, :]
  sums = []
  for mask_BL in (real_BL, move_BL):
    sums += [jnp.where(mask_BL, loss_BL, 0).sum(), mask_BL.sum()]
  return jnp.stack([value.astype(jnp.float32) for value in sums])


def make_train_step(
  shape: network.Shape,
  optimiser: optax.GradientTransformation,
  schedule: optax.Schedule,
  prompt_len: int,
  seed: int,
  abstract: state_lib.State,
) -> Callable[..., tuple[state_lib.State, jax.Array]]:
  """step(state, step [], tokens [B, L], lengths [B]) -> (state, [6] float32).

  The loss is the mean over the real tokens of the global batch. The state
  passed in is given up. Dropout depends on (seed, step) alone. Gradient and
  update are programs of their own: only the first compiles again for each L,
  and not for another seed.
  """
  shardings = jax.tree.map(lambda leaf: leaf.sharding, abstract)
  everywhere = _everywhere(shardings)

  def _gradient(
    params: state_lib.Arrays,
    seed: jax.Array,
    step: jax.Array,
    tokens_BL: jax.Array,
    lengths_B: jax.Array,
  ) -> tuple[state_lib.Arrays, jax.Array]:
    key = jax.random.fold_in(jax.random.key(seed), step)

    def loss(params: state_lib.Arrays) -> tuple[jax.Array, jax.Array]:
      net = state_lib.merge(shape, params)
      sums = loss_sums(net, tokens_BL, lengths_B, prompt_len, key)
      return sums[0] / jnp.maximum(sums[1], 1), sums

    return jax.grad(loss, has_aux=True)(params)

  def _update(
    state: state_lib.State, grads: state_lib.Arrays, sums: jax.Array
  ) -> tuple[state_lib.State, jax.Array]:
    updates, opt = optimiser.update(
      grads, state.opt, state.params, loss=sums[0]
    )
    params = optax.apply_updates(state.params, updates)
    rate = schedule(optimiser_lib.updates(state.opt))
    extra = jnp.stack([optax.tree.norm(grads), rate])
    report = jnp.concatenate([sums, extra.astype(jnp.float32)])
    return state_lib.State(params, opt), report

  gradient = jax.jit(_gradient, out_shardings=(shardings.params, everywhere))
  update = jax.jit(
    _update, donate_argnums=0, out_shardings=(shardings, everywhere)
  )

  def train_step(
    state: state_lib.State, step: jax.Array, *batch: jax.Array
  ) -> tuple[state_lib.State, jax.Array]:
    grads, sums = gradient(state.params, np.uint32(seed), step, *batch)
    return update(state, grads, sums)

  return train_step


def make_eval_step(
  shape: network.Shape, prompt_len: int, abstract: state_lib.State
) -> Callable[..., jax.Array]:
  """step(params, tokens [B, L], lengths [B]) -> [4] float32, see SUMS."""

  def eval_step(
    params: state_lib.Arrays, tokens_BL: jax.Array, lengths_B: jax.Array
  ) -> jax.Array:
    return loss_sums(
      state_lib.merge(shape, params), tokens_BL, lengths_B, prompt_len
    )

  shardings = jax.tree.map(lambda leaf: leaf.sharding, abstract)
  return jax.jit(eval_step, out_shardings=_everywhere(shardings))


def _everywhere(shardings: Any) -> jax.sharding.NamedSharding:
  mesh = jax.tree.leaves(shardings)[0].mesh
  return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
