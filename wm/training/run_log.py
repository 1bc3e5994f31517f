"""The run log: reports, the record in checkpoints, and stops on a bad loss.

metrics.jsonl has no values that depend on the clock, so a run that was killed
and resumed writes the same bytes as an uninterrupted one.
"""

from __future__ import annotations

import json
import math
import os
import pathlib
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from wm.core import inputs
from wm.options.training import Training
from wm.runtime import exit_codes, files, progress
from wm.training import loss as loss_lib

# Steps before the best checkpoint over which the training loss is averaged.
WINDOW = 200


class LossError(exit_codes.Failed):
  """The loss is NaN or infinite; the message has step and checkpoint."""


def read(path: str | pathlib.Path) -> list[dict[str, Any]]:
  """The rows of a metrics.jsonl up to the first torn line."""
  if not os.path.exists(path):
    return []
  with inputs.reading_file(path, 'the log of a run') as file:
    lines = file.read_bytes().splitlines()
  rows: list[dict[str, Any]] = []
  for line in lines:
    try:
      row = json.loads(line)
    except (ValueError, RecursionError):  # The run was killed while it wrote.
      break
    if not isinstance(row, dict) or type(row.get('step')) is not int:
      break
    rows.append(row)
  return rows


def training_loss(out: pathlib.Path, step: int | None) -> float | None:
  """Training loss up to a step, in nats a token after the prompt.

  It is the mean over the WINDOW steps before, from metrics.jsonl, weighted by
  tokens; None without such lines.
  """
  rows = [
    row
    for row in read(out / 'metrics.jsonl')
    if 'tokens' in row
    and 'loss_moves' in row
    and step is not None
    and step - WINDOW < row['step'] <= step
  ]
  # Rows may hold different numbers of tokens, so they are weighted.
  tokens = sum(row['tokens'] for row in rows)
  if not tokens:
    return None
  return float(sum(row['loss_moves'] * row['tokens'] for row in rows) / tokens)


class Writer:
  """Appends rows to metrics.jsonl; one process writes.

  The file is first truncated to `step`, at which the run resumes.
  """

  def __init__(self, out: pathlib.Path, step: int) -> None:
    path = out / 'metrics.jsonl'
    rows = [row for row in read(path) if row['step'] <= step]
    # Steps after the checkpoint are run again, and write their rows again.
    files.write_text(path, ''.join(json.dumps(row) + '\n' for row in rows))
    self._file = open(path, 'a', encoding='utf-8')  # noqa: SIM115

  def write(self, step: int, **values: float) -> None:
    """Writes a row; values that are not finite are left out."""
    # JSON has no NaN and no infinity.
    values = {key: x for key, x in values.items() if math.isfinite(x)}
    self._file.write(json.dumps({'step': step, **values}) + '\n')
    self._file.flush()  # A killed run loses no row.

  def close(self) -> None:
    """Closes the file."""
    self._file.close()


def fresh() -> dict[str, Any]:
  """The record of a run at step 0, in JSON values, for checkpoints.

  best, heldout: the best and the latest held-out evaluation. open: loss.SUMS
  since the last logged row. tokens: tokens trained on, without padding.
  seconds: wall time. skipped: number of skipped updates. in_a_row: number of
  consecutive skipped updates up to this step.
  """
  return {
    'step': 0,
    'best': None,
    'heldout': None,
    'open': [0.0] * 4,
    'tokens': 0,
    'seconds': 0.0,
    'skipped': 0,
    'in_a_row': 0,
  }


def means(sums: Any) -> dict[str, float]:
  """Loss per real token and per token after the prompt, in nats."""
  loss, tokens, loss_moves, tokens_moves = sums
  return {
    'loss': loss / max(tokens, 1),
    'loss_moves': loss_moves / max(tokens_moves, 1),
  }


class RunLog:
  """Follows a run one step behind the devices; a context.

  Attributes:
    record: JSON values for checkpoints; see `fresh`.
    last_good: function to the folder of the last good checkpoint, for
      LossError.
  """

  def __init__(
    self,
    training: Training,
    out: pathlib.Path,
    record: dict[str, Any],
    last_good: Callable[[], str],
    start: float,
    objective: loss_lib.Objective,
  ) -> None:
    """Starts from a record.

    start: clock reading at which this start began.
    objective: names the evaluated measures besides `loss.SUMS`.
    """
    # Checkpoints of earlier versions lack later fields.
    self.record = {key: record.get(key, x) for key, x in fresh().items()}
    self.last_good = last_good
    self._log_every, self._skips = training.log_every, training.skips
    self._objective, self._start, self._clock = objective, start, start
    self._pending: jax.Array | None = None
    self._first_step_s: float | None = None
    self._writer = self._shown = None
    # One of several hosts writes: all have the same report.
    if training.process_id == 0:
      self._writer = Writer(out, self.step)
      self._shown = progress.Progress(
        'train', training.steps, 'steps', done=self.step
      )

  @property
  def step(self) -> int:
    """Number of updates that are known to be good."""
    return self.record['step']

  @property
  def rate(self) -> float:
    """Tokens a second without padding, over all starts."""
    return self.record['tokens'] / max(self.record['seconds'], 1e-9)

  def dispatched(self, report: jax.Array | None) -> None:
    """Records the previous step, and keeps this step's report [6].

    The devices compute this step while the host reads the previous one. Raises
    LossError if the previous step went wrong.
    """
    pending, self._pending = self._pending, report
    if pending is not None:
      self._note(np.asarray(pending).astype(float).tolist())

  def settle(self) -> None:
    """Waits for the running step; raises LossError if it went wrong."""
    self.dispatched(None)

  def _note(self, report: list[float]) -> None:
    named = dict(zip(loss_lib.STEP, report, strict=True))
    sums = report[: len(loss_lib.SUMS)]
    loss = means(sums)['loss']
    good = math.isfinite(loss) and math.isfinite(named['grad_norm'])
    self._check(good, loss, named['grad_norm'])
    # The first step includes compilation, and is reported separately.
    if self._first_step_s is None:
      self._first_step_s = time.perf_counter() - self._start
    record = self.record
    record['step'] += 1
    if good:
      both = zip(record['open'], sums, strict=True)
      record['open'] = [x + y for x, y in both]
      record['tokens'] += int(named['tokens'])
    else:
      # The device skipped the update: its sums are not counted.
      record['skipped'] += 1
    now = time.perf_counter()
    record['seconds'] += now - self._clock
    self._clock = now
    if self._shown:
      note = f'loss {loss:.4f}, {self.rate:,.0f} tokens/s'
      self._shown.update(note=note)
    if self.step % self._log_every == 0:
      self._log(named)

  def _check(self, good: bool, loss: float, grad_norm: float) -> None:
    """Raises LossError once more than `skips` steps in a row went wrong."""
    before = self.record['in_a_row']
    self.record['in_a_row'] = 0 if good else before + 1
    if self.record['in_a_row'] > self._skips:
      others = f' and {before} steps before it' if before else ''
      raise LossError(
        f'loss {loss}, gradient norm {grad_norm} at step {self.step + 1}'
        f'{others}; last good checkpoint: {self.last_good()}'
      )

  def _log(self, named: dict[str, float]) -> None:
    sums, self.record['open'] = self.record['open'], fresh()['open']
    if self._writer:
      self._writer.write(
        self.step,
        **(means(sums) if sums[1] else {}),
        tokens=int(sums[1]),
        grad_norm=named['grad_norm'],
        lr=named['lr'],
        **({'skipped': self.record['skipped']} if self._skips else {}),
      )

  def evaluated(self, sums: np.ndarray) -> bool:
    """Records held-out sums; see `loss.Objective.evaluation`.

    Returns whether they are the best so far, by the loss after the prompt.
    """
    heldout = means(sums[: len(loss_lib.SUMS)].tolist())
    heldout |= self._objective.means(sums)
    if not math.isfinite(heldout['loss']):
      if self._skips:
        return False
      raise LossError(
        f'held-out loss {heldout["loss"]} at step {self.step}; '
        f'last good checkpoint: {self.last_good()}'
      )
    if self._writer:
      named = {f'heldout_{key}': value for key, value in heldout.items()}
      self._writer.write(self.step, **named, heldout_tokens=int(sums[1]))
    if self._shown:
      self._shown.log(f'held-out loss {heldout["loss"]:.4f}')
    self.record['heldout'] = {'step': self.step, **heldout}
    # The prompt does not count: a model that learns the training prompts gives
    # held-out prompts no probability.
    best = self.record['best']
    if best is not None and heldout['loss_moves'] >= best['loss_moves']:
      return False
    self.record['best'] = self.record['heldout']
    return True

  def summary(self) -> dict[str, Any]:
    """Summary of progress, speed and start."""
    record = self.record
    best, heldout = record['best'] or {}, record['heldout'] or {}
    names = self._objective.names
    return {
      'step': self.step,
      'best_step': best.get('step'),
      **{
        f'{kind}_{name}': values.get(name)
        for kind, values in (('heldout', heldout), ('best', best))
        for name in ('loss', 'loss_moves', *names)
      },
      'tokens': record['tokens'],
      'skipped': record['skipped'],
      'seconds': round(record['seconds'], 2),
      'tokens_per_s': round(self.rate, 1),
      'first_step_s': self._first_step_s,
    }

  def __enter__(self) -> RunLog:
    return self

  def __exit__(self, *error: object) -> None:
    for open_ in (self._shown, self._writer):
      if open_:
        open_.close()
    if self._shown and self._first_step_s is not None and error[0] is None:
      progress.say(f'train: {self.rate:,.3g} tokens a second')
