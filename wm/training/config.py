"""What a training run is."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from wm import core

# Fields that say where and how to run, and leave the result as it is.
_PLACE = (
  'data',
  'save_every',
  'mesh_data',
  'mesh_model',
  'coordinator',
  'num_processes',
  'process_id',
)


_NEEDED = ('world', 'model')


@dataclasses.dataclass(frozen=True)
class Config:
  """A training run; the fields are the flags of launch/train.py.

  Attributes:
    world, model: specs.
    seed: of initial weights, batch order and dropout.
    objective: 'next' (token) or 'state': after every token, the world's
      state as one class of each of its `state_heads`.
    loss: what is trained on is averaged over every 'token' of a batch (as
      published), or over each 'sequence' first, so that long ones weigh no
      more than short ones. What is reported is the mean over tokens.
    steps: updates in all.
    batch: sequences in a global batch (over all devices and processes).
    batching: 'buckets' (like lengths together) or 'random' (as published).
    lr: peak learning rate.
    schedule: after `warmup` steps, 'cosine' or 'linear' down to `floor`
      times lr at step `horizon` (0: the last), or 'constant'.
    beta2: AdamW's decay of the mean squared gradient.
    weight_decay: of AdamW, on matrices; on all parameters if `decay_all`.
    clip: greatest global norm of the gradient; 0 is off.
    skips: steps in a row that are left out, parameters and moments as they
      were, where the loss or the gradient is not finite; one more stops the
      run. The learning rate's schedule waits for them.
    eval_every, save_every: in steps.
    eval_num: the first so many held-out sequences are evaluated; 0 is all.
    data: folder of train/ and heldout/; None is OUT/data.
    mesh_data, mesh_model: devices on each mesh axis; mesh_data=0 is all.
    coordinator: host:port of process 0, where num_processes > 1.
    log_every: steps that one training line averages over.
  """

  world: str
  model: str
  seed: int = 0
  objective: str = 'next'
  loss: str = 'token'
  steps: int = 1000
  batch: int = 64
  batching: str = 'buckets'
  lr: float = 1e-3
  schedule: str = 'cosine'
  floor: float = 0.0
  horizon: int = 0
  warmup: int = 100
  beta2: float = 0.999
  weight_decay: float = 0.01
  decay_all: bool = False
  clip: float = 1.0
  skips: int = 0
  eval_every: int = 200
  eval_num: int = 0
  data: str | None = None
  save_every: int = 200
  mesh_data: int = 0
  mesh_model: int = 1
  coordinator: str | None = None
  num_processes: int = 1
  process_id: int = 0
  log_every: int = 10

  def __post_init__(self) -> None:
    for name in ('lr', 'floor', 'beta2', 'weight_decay', 'clip'):
      if not math.isfinite(getattr(self, name)):
        raise core.InputError(
          f'{name}={getattr(self, name)}: expected a finite number'
        )
    if not 0 <= self.beta2 < 1:
      raise core.InputError(
        f'beta2={self.beta2}: expected at least 0 and less than 1'
      )
    if not 0 <= self.seed < 2**32:
      raise core.InputError(
        f'seed={self.seed}: expected a seed from 0 to 2**32 - 1'
      )

  @classmethod
  def usual(cls) -> dict[str, Any]:
    """The fields with a default, as a run that does not name them has them."""
    fields = dataclasses.fields(cls)
    return {f.name: f.default for f in fields if f.name not in _NEEDED + _PLACE}

  def run(self) -> dict[str, Any]:
    """The fields that decide the result, as JSON values."""
    fields = dataclasses.asdict(self)
    return {key: fields[key] for key in fields if key not in _PLACE}
