"""A step of training: schedule, optimizer, loss and update, and evaluation.

The optimizer is AdamW with warm-up, clipping, a weight-decay mask and a guard
against losses that are not finite. Training and evaluation are jitted over the
mesh. Shapes: B batch, L length, K labels of a state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from wm import core
from wm.models.nn import layers, network
from wm.options.training import Training
from wm.training import loss as loss_lib
from wm.training import state as state_lib

# What a step reports, in this order, as one small array.
SUMS = loss_lib.SUMS
STEP = (*SUMS, 'grad_norm', 'lr')


def schedule(training: Training) -> optax.Schedule:
  """Learning rate by update: linear warm-up, then as `schedule` says.

  From the warm-up's end to the horizon, and constant from there: the published
  chess runs' schedules (Walker and Lyons 2026, appendix). Raises InputError
  where the horizon is within the warm-up.
  """
  warmup = min(training.warmup, training.steps)
  if 0 < training.horizon <= warmup:
    raise core.InputError(
      f'--horizon={training.horizon} is not after the warm-up of {warmup} steps'
    )
  rest = max((training.horizon or training.steps) - warmup, 1)
  low = training.lr * training.floor
  after = {
    'cosine': optax.cosine_decay_schedule(training.lr, rest, training.floor),
    'linear': optax.linear_schedule(training.lr, low, rest),
    'constant': optax.constant_schedule(training.lr),
  }[training.schedule]
  if not warmup:
    return after
  # Step 0 already moves: the ramp starts at one part in `warmup`.
  ramp = optax.linear_schedule(
    training.lr / warmup, training.lr, max(warmup - 1, 1)
  )
  return optax.join_schedules([ramp, after], [warmup])


def decay_mask(
  paths: Iterable[str], decay_all: bool, never: Collection[str] = ()
) -> dict[str, bool]:
  """Which parameters decay: matrices; not biases, norms or embeddings.

  decay_all: all of them, as the published runs have it, but for those whose
  last name is in `never`.
  """
  return {
    path: path.rpartition('.')[2] not in never
    and (decay_all or layers.decays(tuple(path.split('.'))))
    for path in paths
  }


def make_optimizer(
  training: Training, paths: Iterable[str], never: Collection[str] = ()
) -> optax.GradientTransformation:
  """The optimizer of a run over parameters named by `paths`.

  never: last names of parameters that do not decay in any run.
  """
  parts = []
  if training.clip:
    parts.append(optax.clip_by_global_norm(training.clip))
  parts.append(
    optax.adamw(
      schedule(training),
      b2=training.beta2,
      weight_decay=training.weight_decay,
      mask=decay_mask(paths, training.decay_all, never),
    )
  )
  chain = optax.chain(*parts)
  return guarded(chain) if training.skips else chain


def guarded(
  inner: optax.GradientTransformationExtraArgs,
) -> optax.GradientTransformationExtraArgs:
  """No update, and `inner` as it was, where loss or gradient is not finite."""

  def update(
    grads: Any, state: Any, params: Any = None, *, loss: Any = 0.0, **extra: Any
  ) -> tuple[Any, Any]:
    good = jnp.isfinite(loss) & jnp.isfinite(optax.tree.norm(grads))
    changes, after = inner.update(grads, state, params, loss=loss, **extra)
    changes = jax.tree.map(lambda x: jnp.where(good, x, 0), changes)
    kept = jax.tree.map(lambda x, y: jnp.where(good, x, y), after, state)
    return changes, kept

  return optax.GradientTransformationExtraArgs(inner.init, update)


def num_updates(state: Any) -> jax.Array:
  """[] int32: updates made so far, by an optimizer's state."""
  found = jax.tree.leaves(
    state, is_leaf=lambda x: isinstance(x, optax.ScaleByScheduleState)
  )
  return next(
    x.count for x in found if isinstance(x, optax.ScaleByScheduleState)
  )


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
    rate = schedule(num_updates(state.opt))
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
  shape: network.NetworkSpec,
  objective: loss_lib.Objective,
  abstract: state_lib.State,
) -> Callable[..., jax.Array]:
  """step(params, tokens [B, L], lengths [B]) -> [4 + M] float32.

  They are SUMS and `objective.more`; labels as in a training step.
  """

  def eval_step(
    params: state_lib.Arrays,
    tokens_BL: jax.Array,
    lengths_B: jax.Array,
    *labels_BLK: jax.Array,
  ) -> jax.Array:
    """[4 + M] float32 of one batch."""
    with jax.sharding.use_abstract_mesh(everywhere.mesh.abstract_mesh):
      net = state_lib.merge(shape, params)
      judged = objective.judge(net, None, tokens_BL, *labels_BLK)
      return objective.evaluation(judged, lengths_B)

  everywhere = _everywhere(abstract)
  return jax.jit(eval_step, out_shardings=everywhere)


def _everywhere(abstract: state_lib.State) -> jax.sharding.NamedSharding:
  mesh = jax.tree.leaves(abstract)[0].sharding.mesh
  return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
