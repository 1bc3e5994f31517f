"""AdamW with warm-up, clipping and a weight-decay mask."""

from __future__ import annotations

from collections.abc import Iterable

import optax

from wm.models import layers
from wm.train import config as config_lib


def schedule(config: config_lib.Config) -> optax.Schedule:
  """Learning rate by step: linear warm-up, then cosine to zero or constant."""
  warmup = min(config.warmup, config.steps)
  rest = max(config.steps - warmup, 1)
  after = (
    optax.cosine_decay_schedule(config.lr, rest)
    if config.schedule == 'cosine'
    else optax.constant_schedule(config.lr)
  )
  if not warmup:
    return after
  # Step 0 already moves: the ramp starts at one part in `warmup`.
  ramp = optax.linear_schedule(
    config.lr / warmup, config.lr, max(warmup - 1, 1)
  )
  return optax.join_schedules([ramp, after], [warmup])


def decay_mask(paths: Iterable[str], decay_all: bool) -> dict[str, bool]:
  """Which parameters decay: matrices; not biases, norms or embeddings."""
  return {
    path: decay_all or layers.decays(tuple(path.split('.'))) for path in paths
  }


def make(
  config: config_lib.Config, paths: Iterable[str]
) -> optax.GradientTransformation:
  """The optimiser of a run over parameters named by `paths`."""
  parts = []
  if config.clip:
    parts.append(optax.clip_by_global_norm(config.clip))
  parts.append(
    optax.adamw(
      schedule(config),
      b2=config.beta2,
      weight_decay=config.weight_decay,
      mask=decay_mask(paths, config.decay_all),
    )
  )
  return optax.chain(*parts)
