"""A step of training: loss, gradient and update; and evaluation.

Both are jitted over the mesh. Shapes: B batch, L length, K labels of a state.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import optax

from wm.models.nn import network
from wm.training import loss as loss_lib
from wm.training import optimizer as optimizer_lib
from wm.training import state as state_lib

# What a step reports, in this order, as one small array.
SUMS = loss_lib.SUMS
STEP = (*SUMS, 'grad_norm', 'lr')


def make_train_step(
  shape: network.NetworkSpec,
  optimizer: optax.GradientTransformation,
  schedule: optax.Schedule,
  objective: loss_lib.Objective,
  seed: int,
  abstract: state_lib.State,
) -> Callable[..., tuple[state_lib.State, jax.Array]]:
  """step(state, step [], tokens [B, L], lengths [B]) -> (state, [6] float32).

  Labels [B, L, K] follow the lengths where the objective has them. The loss
  is the objective's mean over the global batch. The state passed in is given
  up. Dropout depends on (seed, step) alone. Gradient and update are programs
  of their own: only the first compiles again for each L, and not for another
  seed.
  """
  shardings = jax.tree.map(lambda leaf: leaf.sharding, abstract)
  everywhere = _everywhere(abstract)
  mesh = everywhere.mesh.abstract_mesh

  def _gradient(
    params: state_lib.Arrays,
    seed: jax.Array,
    step: jax.Array,
    tokens_BL: jax.Array,
    lengths_B: jax.Array,
    *labels_BLK: jax.Array,
  ) -> tuple[state_lib.Arrays, jax.Array]:
    key = jax.random.fold_in(jax.random.key(seed), step)

    def loss(params: state_lib.Arrays) -> tuple[jax.Array, jax.Array]:
      net = state_lib.merge(shape, params)
      judged = objective.judge(net, key, tokens_BL, *labels_BLK)
      mean = objective.mean(judged, lengths_B)
      return mean, objective.sums(judged, lengths_B)

    with jax.sharding.use_abstract_mesh(mesh):
      return jax.grad(loss, has_aux=True)(params)

  def _update(
    state: state_lib.State, grads: state_lib.Arrays, sums: jax.Array
  ) -> tuple[state_lib.State, jax.Array]:
    updates, opt = optimizer.update(
      grads, state.opt, state.params, loss=sums[0]
    )
    params = optax.apply_updates(state.params, updates)
    rate = schedule(optimizer_lib.num_updates(state.opt))
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
    params = optimizer_lib.latest(*state)
    grads, sums = gradient(params, np.uint32(seed), step, *batch)
    return update(state, grads, sums)

  return train_step


def make_eval_step(
  shape: network.NetworkSpec,
  objective: loss_lib.Objective,
  abstract: state_lib.State,
) -> Callable[..., jax.Array]:
  """step(params, tokens [B, L], lengths [B]) -> sums, float32.

  See `loss.Objective.evaluation`; labels as in a training step.
  """

  def eval_step(
    params: state_lib.Arrays,
    tokens_BL: jax.Array,
    lengths_B: jax.Array,
    *labels_BLK: jax.Array,
  ) -> jax.Array:
    """Sums over one batch."""
    with jax.sharding.use_abstract_mesh(everywhere.mesh.abstract_mesh):
      net = state_lib.merge(shape, params)
      judged = objective.judge(net, None, tokens_BL, *labels_BLK)
      return objective.evaluation(judged, lengths_B)

  everywhere = _everywhere(abstract)
  return jax.jit(eval_step, out_shardings=everywhere)


def _everywhere(abstract: state_lib.State) -> jax.sharding.NamedSharding:
  mesh = jax.tree.leaves(abstract)[0].sharding.mesh
  return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
