"""Options of a training run."""

from __future__ import annotations

import dataclasses
import math
import pathlib
import re
from typing import Any

from wm.options import check, documented, option, refuse

Path = str | pathlib.Path
# Options of earlier versions, with the only value that there is now. A run's
# record holds them, so that earlier runs go on.
_CONSTANT = {'first_batch': 0, 'curriculum': 0.0, 'horizon': 0}
# Options that do not change the result.
_NO_EFFECT_ON_RESULT = (
  'data',
  'start',  # Its content counts, not its path: `setup.run_identity`.
  'save_every',
  'keep',
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

  # Seeds the initial weights, the order of batches and dropout.
  seed: int = option(0, 'Seed of all randomness.', least=0, most=2**32 - 1)
  # 'state' predicts a class for each label of `core.Labelled` after each token.
  objective: str = option(
    'next',
    "Prediction after each token: the next token, or the world's whole state.",
    choices=('next', 'state'),
  )
  # With 'sequence', long sequences weigh as much as short ones.
  loss: str = option(
    'token',
    'Training loss: the mean over the tokens of a batch, or the mean over '
    'sequences of their means. Reports and the best checkpoint use tokens.',
    choices=('token', 'sequence'),
  )
  smoothing: float = option(
    0.0,
    'Label smoothing: share of the target that is spread over all tokens. '
    'Reported losses are without it.',
    least=0,
    most=0.9,
  )
  steps: int = option(
    1000,
    'Training steps. More of them continue a finished run: from its last step '
    'on, the schedule is that of the new number.',
    least=1,
  )
  # The sum over all devices and processes.
  batch: int = option(64, 'Sequences in a global batch.', least=1)
  # The gradient is that of the whole batch, but for the order of its sums.
  accumulate: int = option(
    1,
    'Parts of a batch that are computed one after the other, in less memory.',
    least=1,
  )
  batching: str = option(
    'buckets',
    'Batches of similar lengths, or random and padded batches.',
    choices=('buckets', 'random'),
  )
  # `tests/bench/recipe_bench.py` measures both, and the rates beside them.
  optimizer: str = option(
    'auto',
    'Optimizer for the kernels of dense layers; AdamW updates the others. '
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
    0.0, 'Final learning rate as a share of the peak.', least=0, most=1
  )
  warmup: int = option(100, 'Warm-up steps.', least=0)
  beta2: float = option(
    0.999, "AdamW's decay of the mean of squared gradients.", least=0, most=1
  )
  # Applies to matrices alone, unless `decay_all`.
  weight_decay: float = option(0.01, 'AdamW decay.', least=0)
  decay_all: bool = option(False, 'Decay biases, norms, embeddings too.')
  clip: float = option(1.0, 'Gradient norm clip; 0 is off.', least=0)
  # .05 averages roughly over the last seventh of the steps so far.
  average: float = option(
    0.0,
    'Width of the parameter average that is evaluated and saved, as a share of '
    'the run so far; 0: the latest parameters instead.',
    least=0,
    most=0.25,
  )
  # A skipped step leaves parameters, moments and schedule unchanged.
  skips: int = option(
    0,
    'Most consecutive steps that are skipped because their loss or gradient is '
    'not finite; one more stops the run.',
    least=0,
  )
  eval_every: int = option(200, 'Steps between evaluations.', least=1)
  eval_num: int = option(
    0, 'Number of held-out sequences to evaluate; 0 is all.', least=0
  )
  data: Path | None = option(
    None,
    'Folder of train/ and heldout/ sequences; default: OUT/data. For '
    'launch/report.py --paper: folder of recorded answers.',
  )
  start: Path | None = option(
    None,
    'Run of the same model whose best parameters training starts from, or one '
    'of its checkpoints, RUN/checkpoints/500; default: random parameters.',
  )
  save_every: int = option(200, 'Steps between checkpoints.', least=1)
  keep: str = option(
    '',
    "Checkpoints that stay beside the best and the last: 'every:500' is those "
    'of steps 500, 1000, and so on. --checkpoint=500 loads one, and '
    '--checkpoint=all of launch/score.py scores each.',
  )
  mesh_data: int = option(0, 'Devices on the data axis; 0 is all.', least=0)
  mesh_model: int = option(1, 'Devices on the model axis.', least=1)
  distributed: str = option(
    '',
    'auto: take the process id and number of processes from SLURM, Open MPI, '
    'Kubernetes or the TPU pod that started this process; default: from '
    '--coordinator, --num_processes and --process_id.',
    choices=('', 'auto'),
  )
  coordinator: str | None = option(None, 'host:port of process 0.')
  num_processes: int = option(1, 'Number of processes of the run.', least=1)
  process_id: int = option(0, 'Number of this process, from 0.', least=0)
  # `wm.runtime.compute` says why threads decide the last bits of a result.
  threads: int = option(
    2,
    'CPU threads of a step, regardless of the number of cores. Two runs with '
    'equal threads agree to the bit. More threads are faster for wide models '
    'on many cores.',
    least=1,
    most=1024,
  )
  log_every: int = 10  # Steps that each line of the run log averages over.

  def __post_init__(self) -> None:
    check(self)
    if self.keep and not re.fullmatch(r'every:[1-9]\d{0,9}', self.keep):
      refuse(f'keep={self.keep!r}', ": expected 'every:' and a number of steps")
    if self.smoothing and self.objective != 'next':
      refuse(f'smoothing={self.smoothing}', ': expected 0 with objective=state')
    if self.batch % self.accumulate:
      refuse(
        f'accumulate={self.accumulate}',
        f': expected a divisor of batch={self.batch}',
      )
    if self.log_every < 1:
      refuse(f'log_every={self.log_every}', ': expected at least 1')
    if self.average and self.average * self.steps < 1:
      refuse(
        f'average={self.average} of steps={self.steps}',
        f': expected at least {math.ceil(1 / self.average)} steps',
      )
    if self.beta2 == 1:  # It divides by 1 - beta2.
      refuse('beta2=1.0', ': expected at least 0 and less than 1')

  @property
  def keep_every(self) -> int:
    """Steps between checkpoints that stay; 0: no others stay."""
    return int(self.keep.partition(':')[2] or 0)

  @classmethod
  def usual(cls) -> dict[str, Any]:
    """Options that decide the result, with the values of earlier versions.

    Descriptions of earlier runs lack later options: these had their defaults,
    except the optimizer, which was AdamW.
    """
    return {**cls().run(), 'optimizer': 'adamw'}

  def run(self) -> dict[str, Any]:
    """The options that decide the result, as JSON values."""
    fields = dataclasses.asdict(self)
    chosen = {
      key: fields[key] for key in fields if key not in _NO_EFFECT_ON_RESULT
    }
    return chosen | _CONSTANT
