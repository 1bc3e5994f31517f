"""AdamW with warm-up, clipping, a weight-decay mask and a NaN guard."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from wm import core
from wm.models.nn import layers
from wm.options.training import Training


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


def make(
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


def updates(state: Any) -> jax.Array:
  """[] int32: updates made so far, by an optimizer's state."""
  found = jax.tree.leaves(
    state, is_leaf=lambda x: isinstance(x, optax.ScaleByScheduleState)
  )
  return next(
    x.count for x in found if isinstance(x, optax.ScaleByScheduleState)
  )
