"""The host's record of a run: what is logged, kept and refused."""

from __future__ import annotations

import math
import pathlib
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from wm.runtime import ending, progress
from wm.training import step as step_lib
from wm.training import writers
from wm.training.config import Training


class LossError(ending.Failed):
  """The loss is NaN or infinite; names step, batch and last checkpoint."""


def fresh() -> dict[str, Any]:
  """The record of a run at step 0; JSON values only.

  best, heldout: the best and last held-out evaluation; open: sums since the
  last training line (step.SUMS); tokens: real ones so far; seconds: spent;
  skipped, in_a_row: steps left out, and how many of them just now.
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


class Books:
  """Follows a run one step behind the devices; a context.

  Attributes:
    book: JSON values that a checkpoint keeps, see `fresh`.
    blame: what a LossError says of a step (from 0): its batch, the last good
      checkpoint.
  """

  def __init__(
    self,
    training: Training,
    out: pathlib.Path,
    book: dict[str, Any],
    blame: Callable[[int], str],
    start: float,
    more: tuple[str, ...] = (),
  ) -> None:
    """more: names of what is evaluated besides step.SUMS, per token."""
    self.book = {key: book.get(key, x) for key, x in fresh().items()}
    self.blame = blame
    self._log_every, self._start = training.log_every, start
    self._skips, self._more = training.skips, more
    self._clock = start
    self._pending: jax.Array | None = None
    self._first_step_s: float | None = None
    chief = training.process_id == 0
    self._writer = writers.Metrics(out, self.step) if chief else None
    self._shown = (
      progress.Progress('train', training.steps, 'steps', done=self.step)
      if chief
      else None
    )

  @property
  def step(self) -> int:
    """Updates that are known to be good."""
    return self.book['step']

  @property
  def rate(self) -> float:
    """Real tokens a second, over all starts."""
    return self.book['tokens'] / max(self.book['seconds'], 1e-9)

  def dispatched(self, report: jax.Array) -> None:
    """Settles the step before this one, whose report [6] is kept."""
    pending, self._pending = self._pending, report
    self._note(pending)

  def settle(self) -> None:
    """Waits for the step under way; raises LossError if it went wrong."""
    pending, self._pending = self._pending, None
    self._note(pending)

  def _note(self, pending: jax.Array | None) -> None:
    if pending is None:
      return
    report = np.asarray(pending).astype(float).tolist()
    named = dict(zip(step_lib.STEP, report, strict=True))
    sums = report[: len(step_lib.SUMS)]
    loss = means(sums)['loss']
    good = math.isfinite(loss) and math.isfinite(named['grad_norm'])
    self.book['in_a_row'] = 0 if good else self.book['in_a_row'] + 1
    if self.book['in_a_row'] > self._skips:
      raise LossError(
        f'loss {loss}, gradient norm {named["grad_norm"]} at step '
        f'{self.step + 1}{self._before()}; {self.blame(self.step)}'
      )
    if self._first_step_s is None:
      self._first_step_s = time.perf_counter() - self._start
    self.book['step'] += 1
    if good:
      self.book['open'] = [
        x + y for x, y in zip(self.book['open'], sums, strict=True)
      ]
      self.book['tokens'] += int(named['tokens'])
    else:
      self.book['skipped'] += 1
    now = time.perf_counter()
    self.book['seconds'] += now - self._clock
    self._clock = now
    if self._shown:
      note = f'loss {loss:.4f}, {self.rate:,.0f} tokens/s'
      self._shown.update(note=note)
    if self.step % self._log_every == 0:
      self._log(named)

  def _before(self) -> str:
    before = self.book['in_a_row'] - 1
    return f' and {before} steps before it' if before else ''

  def _log(self, named: dict[str, float]) -> None:
    sums, self.book['open'] = self.book['open'], fresh()['open']
    if self._writer:
      self._writer.write(
        self.step,
        **(means(sums) if sums[1] else {}),
        tokens=int(sums[1]),
        grad_norm=named['grad_norm'],
        lr=named['lr'],
        **({'skipped': self.book['skipped']} if self._skips else {}),
      )
      self._writer.chart(self.step, tokens_per_s=self.rate)

  def evaluated(self, sums: np.ndarray) -> bool:
    """Notes held-out sums, see step.SUMS and `more`; is it the best so far?"""
    first, rest = np.split(sums, [len(step_lib.SUMS)])
    found = means(first.tolist())
    rest = (rest / max(first[1], 1)).tolist()
    found |= zip(self._more, rest, strict=True)
    if not math.isfinite(found['loss']):
      if self._skips:
        return False
      raise LossError(
        f'held-out loss {found["loss"]} at step {self.step}; '
        f'{self.blame(self.step - 1)}'
      )
    if self._writer:
      named = {f'heldout_{key}': value for key, value in found.items()}
      self._writer.write(self.step, **named, heldout_tokens=int(sums[1]))
    if self._shown:
      self._shown.tell(f'held-out loss {found["loss"]:.4f}')
    self.book['heldout'] = {'step': self.step, **found}
    best = self.book['best']
    if best is not None and found['loss'] >= best['loss']:
      return False
    self.book['best'] = self.book['heldout']
    return True

  def summary(self) -> dict[str, Any]:
    """Where the run stands, how fast it went, when it began."""
    book = self.book
    best, heldout = book['best'] or {}, book['heldout'] or {}
    return {
      'step': self.step,
      **{
        f'heldout_{name}': heldout.get(name)
        for name in ('loss', 'loss_moves', *self._more)
      },
      'best_step': best.get('step'),
      **{f'best_{name}': best.get(name) for name in ('loss', *self._more)},
      'tokens': book['tokens'],
      'skipped': book['skipped'],
      'seconds': round(book['seconds'], 2),
      'tokens_per_s': round(self.rate, 1),
      'first_step_s': self._first_step_s,
    }

  def __enter__(self) -> Books:
    return self

  def __exit__(self, *error: object) -> None:
    if self._shown:
      self._shown.close()
    if self._writer:
      self._writer.close()
