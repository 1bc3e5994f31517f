"""Options of a training run."""

from __future__ import annotations

import dataclasses
import math
import pathlib
from typing import Any

from wm.options import check, documented, option, refuse

Path = str | pathlib.Path
# Options that say where and how to run.
_NO_EFFECT_ON_RESULT = (
  'data',
  'start',  # What it is counts, not where it lies: `setup.run_identity`.
  'save_every',
  'mesh_data',
  'mesh_model',
  'distributed',
  'coordinator',
  'num_processes',
  'process_id',
)


@documented
@dataclasses.dataclass(frozen=True)
class Training:
  """How a model is trained."""

  # Of the initial weights, the order of batches and dropout.
  seed: int = option(0, 'Seed of all randomness.', least=0, most=2**32 - 1)
  # 'state': after every token, one class for each label of `core.Labelled`.
  objective: str = option(
    'next',
    "What a step predicts: the next token, or the world's whole state.",
    choices=('next', 'state'),
  )
  # With 'sequence', long sequences weigh no more than short ones.
  loss: str = option(
    'token',
    'Trained on: the mean over the tokens of a batch, or over its sequences '
    'of their means. What is reported, and is best, goes by tokens.',
    choices=('token', 'sequence'),
  )
  steps: int = option(1000, 'Training steps.', least=1)
  # Over all devices and processes.
  batch: int = option(64, 'Sequences in a global batch.', least=1)
  first_batch: int = option(
    0,
    'Sequences in the first batches, which is --batch divided by a power of '
    'two; batches double until half of the run is done. 0 is --batch.',
    least=0,
  )
  curriculum: float = option(
    0.0,
    'Share of the run in which sequences are cut: to an eighth of the longest '
    'at first, then less and less.',
    least=0,
    most=1,
  )
  batching: str = option(
    'buckets',
    'Batches of like lengths, or random and padded.',
    choices=('buckets', 'random'),
  )
  # `tests/bench/recipe_bench.py` measures both, and the rates beside them.
  optimizer: str = option(
    'auto',
    'Optimizer of the kernels of dense layers; AdamW updates all else. '
    "'auto' is 'muon', or 'adamw' in a model without dense layers.",
    choices=('auto', 'muon', 'adamw'),
  )
  matrix_lr: float = option(0.02, "Peak learning rate of Muon's part.", least=0)
  lr: float = option(3e-3, "Peak learning rate of AdamW's part.", least=0)
  schedule: str = option(
    'cosine',
    'Learning rate after warm-up.',
    choices=('cosine', 'linear', 'constant'),
  )
  floor: float = option(
    0.0, 'Share of its peak that the learning rate falls to.', least=0, most=1
  )
  horizon: int = option(
    0, 'Step at which it is --floor; 0 is the last.', least=0
  )
  warmup: int = option(100, 'Warm-up steps.', least=0)
  beta2: float = option(
    0.999, "AdamW's decay of the mean of squared gradients.", least=0, most=1
  )
  # On matrices alone, unless `decay_all`.
  weight_decay: float = option(0.01, 'AdamW decay.', least=0)
  decay_all: bool = option(False, 'Decay biases, norms, embeddings too.')
  clip: float = option(1.0, 'Gradient norm clip; 0 is off.', least=0)
  # Of the steps before it: .05 is over the last seventh, roughly.
  average: float = option(
    0.0,
    'Width of the average of parameters that is evaluated and kept, as a '
    'share of the run so far; 0 is the latest parameters.',
    least=0,
    most=0.25,
  )
  # Parameters, moments and the schedule stay as they were in such a step.
  skips: int = option(
    0,
    'Steps in a row that may be skipped, as their loss or gradient is not '
    'finite; one more stops the run.',
    least=0,
  )
  eval_every: int = option(200, 'Steps between evaluations.', least=1)
  eval_num: int = option(
    0, 'Held-out sequences evaluated, from the first on; 0 is all.', least=0
  )
  data: Path | None = option(
    None,
    'Folder of train/ and heldout/ sequences, by default OUT/data; of '
    'launch/recorded.py that of recorded answers.',
  )
  start: Path | None = option(
    None,
    'Run of the same model whose best parameters training begins with; '
    'default: random ones.',
  )
  save_every: int = option(200, 'Steps between checkpoints.', least=1)
  mesh_data: int = option(0, 'Devices on the data axis; 0 is all.', least=0)
  mesh_model: int = option(1, 'Devices on the model axis.', least=1)
  distributed: str = option(
    '',
    'auto: SLURM, Open MPI, Kubernetes or the TPU pod that has started this '
    'process says which of how many it is; default: as --coordinator, '
    '--num_processes and --process_id say.',
    choices=('', 'auto'),
  )
  coordinator: str | None = option(None, 'host:port of process 0.')
  num_processes: int = option(1, 'Processes of the run.', least=1)
  process_id: int = option(0, 'This process.', least=0)
  # `wm.runtime.compute` says why they decide the last bits of a result.
  threads: int = option(
    2,
    'Threads that a CPU computes a step with, whatever cores there are: equal '
    'for two runs, their results are the same to the bit. More are faster for '
    'wide models on many cores.',
    least=1,
    most=1024,
  )
  log_every: int = 10  # Steps that one line of the run log averages over.

  def __post_init__(self) -> None:
    check(self)
    if self.log_every < 1:
      refuse(f'log_every={self.log_every}', ': expected at least 1')
    times, rest = divmod(self.batch, self.first_batch or self.batch)
    if rest or times & (times - 1) or not times:
      halves = [
        n for k in range(5) if (n := self.batch >> k) << k == self.batch
      ]
      refuse(
        f'first_batch={self.first_batch} does not double to batch={self.batch}',
        f'; available: 0, {", ".join(map(str, halves))}',
      )
    if self.average and self.average * self.steps < 1:
      refuse(
        f'average={self.average} of steps={self.steps}',
        f': expected at least {math.ceil(1 / self.average)} steps',
      )
    if self.beta2 == 1:  # It divides by 1 - beta2.
      refuse('beta2=1.0', ': expected at least 0 and less than 1')

  @classmethod
  def usual(cls) -> dict[str, Any]:
    """Result-deciding options as runs by earlier versions had them.

    Their descriptions lack options that came later: those at their defaults,
    and the optimizer, which was AdamW.
    """
    return {**cls().run(), 'optimizer': 'adamw'}

  def run(self) -> dict[str, Any]:
    """The options that decide the result, as JSON values."""
    fields = dataclasses.asdict(self)
    return {
      key: fields[key] for key in fields if key not in _NO_EFFECT_ON_RESULT
    }
