"""OUT/exposure.json: what a trained model has seen, and how well it fits that.

It is written once a run has ended, and holds nothing that depends on the clock.
"""

from __future__ import annotations

import pathlib
from typing import Any

from wm import core
from wm.core import registry
from wm.data import exposure
from wm.data import store as stores
from wm.runtime import files
from wm.training import run_log

FILE = 'exposure.json'
# Steps up to the best checkpoint whose training loss is averaged.
WINDOW = 200


def record(
  world: core.World,
  out: pathlib.Path,
  data: str | pathlib.Path | None,
  summary: dict[str, Any],
) -> dict[str, Any]:
  """Writes exposure.json of a run that has ended, unless it is there.

  Args:
    world: that the run was trained on.
    out: folder of the run.
    data: folder of train/ and heldout/ sequences; None is OUT/data.
    summary: what `loop.train` returns.

  Returns:
    `exposure.measure`'s counts and shares of the data; best_step, the step of
    the checkpoint that is scored; heldout_loss, its loss in nats a token after
    the prompt; training_loss, the same over the batches of the WINDOW steps up
    to it (None of a model that is counted); epochs, tokens trained on over
    those that the data predict.
  """
  folder = pathlib.Path(data or out / 'data')
  splits = [folder / split for split in ('train', 'heldout')]
  totals = {key: summary[key] for key in ('step', 'best_step', 'tokens')}
  made_from = {
    'world': registry.spec(world),
    'world_version': world.version,
    'most_tokens': exposure.MOST,
    'data': [files.sha256(split / 'manifest.json') for split in splits],
    **totals,
  }
  path = out / FILE
  if path.exists():
    before = files.read_record(path, {})
    if before.get('made_from') == made_from:
      return before
  train, heldout = (stores.open(split) for split in splits)
  seen = exposure.measure(world, train, heldout)
  predicted = seen['tokens'] - seen['sequences']
  result = {
    'made_from': made_from,
    **seen,
    'epochs': summary['tokens'] / predicted if predicted else None,
    'best_step': summary['best_step'],
    'heldout_loss': summary['best_loss_moves'],
    'training_loss': training_loss(out, summary['best_step']),
  }
  files.write_json(path, result)
  return result


def training_loss(out: pathlib.Path, step: int | None) -> float | None:
  """Training loss in nats a token after the prompt, up to a step.

  The mean of the lines of metrics.jsonl of the WINDOW steps before, weighed by
  their tokens; None where there are none.
  """
  rows = [
    row
    for row in run_log.read(out / 'metrics.jsonl')
    if 'tokens' in row
    and 'loss_moves' in row
    and step is not None
    and step - WINDOW < row['step'] <= step
  ]
  tokens = sum(row['tokens'] for row in rows)
  if not tokens:
    return None
  return float(sum(row['loss_moves'] * row['tokens'] for row in rows) / tokens)
