"""The run log: what a run reports, what checkpoints keep, what stops it.

metrics.jsonl holds nothing that depends on the clock, so a run that was
killed and resumed writes the same bytes as an unbroken one.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import pathlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np

from wm.core import inputs
from wm.options.training import Training
from wm.runtime import exit_codes, files, progress
from wm.training import loss as loss_lib

FLUSH = 30  # Seconds between flushes of what TensorBoard reads.
# Steps up to the best checkpoint whose training loss is averaged.
WINDOW = 200
# What the time of a start goes into. Of a step, `host` is what Python does and
# `device` what it waits for the devices: they compute while it does other work.
PHASES = {
  'other': 'other',
  'compiling': 'compiling',
  'data': 'waiting for data',
  'host': 'steps, on the host',
  'device': 'steps, waiting for the device',
  'evaluation': 'evaluation',
  'checkpoints': 'checkpoints',
}
# FLOP/s of dense products in bfloat16 that the makers name, by the kind that
# JAX tells.
PEAKS = {
  'NVIDIA A100-SXM4-40GB': 312e12,
  'NVIDIA A100-SXM4-80GB': 312e12,
  'NVIDIA H100 80GB HBM3': 989e12,
  'TPU v4': 275e12,
  'TPU v5 lite': 197e12,
  'TPU v5': 459e12,
  'TPU v6 lite': 918e12,
}
SIDE = 512  # Of the matrices by which other devices are timed.
T = TypeVar('T')


class LossError(exit_codes.Failed):
  """The loss is NaN or infinite; names step, batch and last checkpoint."""


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
  """Training loss in nats a token after the prompt, up to a step.

  The mean of the lines of metrics.jsonl of the WINDOW steps before, weighed by
  their tokens; None where there are none.
  """
  rows = [
    row
    for row in read(out / 'metrics.jsonl')
    if 'tokens' in row
    and 'loss_moves' in row
    and step is not None
    and step - WINDOW < row['step'] <= step
  ]
  # Rows may hold different numbers of tokens: a mean of means would be off.
  tokens = sum(row['tokens'] for row in rows)
  if not tokens:
    return None
  return float(sum(row['loss_moves'] * row['tokens'] for row in rows) / tokens)


class Writer:
  """Appends rows to metrics.jsonl and TensorBoard; one process writes.

  Both are first cut back to `step`, at which the run resumes.
  """

  def __init__(self, out: pathlib.Path, step: int) -> None:
    self._board_folder = out / 'tensorboard'
    self._board: _Board | None = None
    self._step, path = step, out / 'metrics.jsonl'
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
    self.chart(step, **values)

  def chart(self, step: int, **values: float) -> None:
    """Writes values that depend on the clock, to TensorBoard only."""
    if self._board is None:
      # Its import takes a while, for which the first step need not wait.
      self._board = _Board(self._board_folder, self._step)
    self._board.write(step, values)

  def close(self) -> None:
    """Flushes and closes both."""
    self._file.close()
    if self._board is not None:
      self._board.close()


class _Board:
  """TensorBoard's file of events, written by this thread.

  The package's own SummaryWriter leaves writing to a second thread. Where that
  fails, as on a full disk or after a clock was set back by weeks, its queue
  fills up and training waits for ever.
  """

  def __init__(self, folder: pathlib.Path, step: int) -> None:
    """What was written beyond `step`, at which the run resumes, is void."""
    event_file_writer, self._proto = _tensorboard()
    folder.mkdir(parents=True, exist_ok=True)
    # A file's name has the second in it, in which a run may resume.
    self._events = event_file_writer.EventsWriter(
      str(folder / 'events'), f'.{os.getpid()}'
    )
    self._flushed = time.monotonic()
    # TensorBoard drops what older files of the folder hold from this step on.
    log = self._proto.SessionLog(status=self._proto.SessionLog.START)
    self._write(step=step + 1, session_log=log)

  def write(self, step: int, values: Mapping[str, float]) -> None:
    """Writes named values of a step."""
    summary = type(self._proto.Event().summary)()
    for name, value in values.items():
      summary.value.add(tag=name, simple_value=value)
    self._write(step=step, summary=summary)
    # Not at every step: the file may be on a slow network disk.
    if time.monotonic() > self._flushed + FLUSH:
      self._safely(self._events.flush)
      self._flushed = time.monotonic()

  def _write(self, **fields: Any) -> None:
    event = self._proto.Event(wall_time=time.time(), **fields)
    self._events.write_event(event)

  def close(self) -> None:
    """Flushes and closes the file."""
    self._safely(self._events.close)

  def _safely(self, act: Callable[[], Any]) -> None:
    """Makes what was written safe, as far as the file system can."""
    try:
      act()
    except OSError as error:
      if error.errno not in files.LACKS:
        raise


def _tensorboard() -> tuple[Any, Any]:
  """TensorBoard's file of events and its messages, without PyTorch.

  The package imports PyTorch where that is installed, for names of types alone,
  which takes longer than all that it needs.
  """
  unknown = 'torch' not in sys.modules
  if unknown:
    sys.modules['torch'] = cast(Any, None)  # Whoever imports it is told no.
  try:
    from tensorboardX import event_file_writer
    from tensorboardX.proto import event_pb2
  finally:
    if unknown:
      del sys.modules['torch']
  return event_file_writer, event_pb2


def fresh() -> dict[str, Any]:
  """The record of a run at step 0, which checkpoints keep; JSON values only.

  best, heldout: the best and the latest held-out evaluation. open: loss.SUMS
  since the last logged row. tokens: trained on, without padding. seconds: wall
  time. skipped: steps whose update was skipped. in_a_row: those of them that
  end at this step.
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


@functools.cache
def peak_flops() -> float:
  """FLOP/s of all devices of the run, in products of matrices.

  As the makers name it, see PEAKS; else measured on one in float32, as on a
  CPU, whose cores several devices of a process share.
  """
  device = jax.local_devices()[0]
  if device.device_kind in PEAKS:
    return PEAKS[device.device_kind] * jax.device_count()
  matrix = jax.device_put(np.ones((SIDE, SIDE), np.float32), device)
  times = []
  for _ in range(8):  # The first one compiles.
    start = time.perf_counter()
    jnp.dot(matrix, matrix).block_until_ready()
    times.append(time.perf_counter() - start)
  cpu = device.platform == 'cpu'
  num = jax.process_count() if cpu else jax.device_count()
  return 2 * SIDE**3 / min(times) * num


def memory() -> float:
  """Most bytes that a device held so far; of a CPU, that this process did.

  NaN where the system does not say.
  """
  if stats := jax.local_devices()[0].memory_stats():
    return float(stats['peak_bytes_in_use'])
  try:
    import resource
  except ImportError:  # Not a Unix.
    return math.nan
  unit = 1 if sys.platform == 'darwin' else 1024
  return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)


class PhaseTimer:
  """Seconds of a start by what they go into.

  Attributes:
    seconds: of each of PHASES, up to the last change from one to another.
  """

  def __init__(self, start: float) -> None:
    """start: reading of `time.perf_counter` from which it counts."""
    self.seconds = dict.fromkeys(PHASES, 0.0)
    self._phase, self._since = 'other', start

  def turn(self, phase: str) -> str:
    """From now on the time goes into a phase; returns the one before."""
    now = time.perf_counter()
    self.seconds[self._phase] += now - self._since
    before, self._phase, self._since = self._phase, phase, now
    return before

  @contextlib.contextmanager
  def at(self, phase: str) -> Iterator[None]:
    """A context whose time goes into a phase, and not into that around it."""
    before = self.turn(phase)
    try:
      yield
    finally:
      self.turn(before)

  def waiting(self, batches: Iterable[T]) -> Iterator[T]:
    """Yields what comes; the time until it does goes into `data`."""
    following, ended = iter(batches), object()
    while True:
      with self.at('data'):
        batch: Any = next(following, ended)
      if batch is ended:
        return
      yield batch

  def steps(self) -> float:
    """Seconds of steps so far, without what compiles."""
    return sum(self.seconds[phase] for phase in ('data', 'host', 'device'))


class RunLog:
  """Follows a run one step behind the devices; a context.

  Attributes:
    record: JSON values that a checkpoint keeps, see `fresh`.
    describe_batch: (step, from 0) -> what a LossError says of it: its batch,
      and the last good checkpoint.
  """

  def __init__(
    self,
    training: Training,
    out: pathlib.Path,
    record: dict[str, Any],
    describe_batch: Callable[[int], str],
    start: float,
    objective: loss_lib.Objective,
    size: int = 0,
  ) -> None:
    """Begins at a record.

    start: reading of the clock at which this start began.
    objective: names the measures that are evaluated besides `loss.SUMS`.
    size: parameters, of which each takes 6 FLOPs a token.
    """
    # Checkpoints of earlier versions lack the fields that came later.
    self.record = {key: record.get(key, x) for key, x in fresh().items()}
    self.describe_batch = describe_batch
    self._log_every, self._skips = training.log_every, training.skips
    self._objective, self._start, self._clock = objective, start, start
    self._pending: jax.Array | None = None
    self._first_step_s: float | None = None
    self._writer = self._shown = None
    self.clock, self._flops = PhaseTimer(start), 6 * size
    self._peak = peak_flops()  # Timed before the devices have work to do.
    # Steps, tokens and seconds by phase at the last line, and at the start.
    self._last = self._first = self._counts()
    # Of several hosts one writes: all have the same report.
    if training.process_id == 0:
      self._writer = Writer(out, self.step)
      self._shown = progress.Progress(
        'train', training.steps, 'steps', done=self.step
      )

  @property
  def step(self) -> int:
    """Updates that are known to be good."""
    return self.record['step']

  @property
  def rate(self) -> float:
    """Real tokens a second, over all starts."""
    return self.record['tokens'] / max(self.record['seconds'], 1e-9)

  def dispatched(self, report: jax.Array | None) -> None:
    """Notes the step before this one, and keeps this one's report [6].

    The devices work on this step while the host reads the one before. Raises
    LossError if that one went wrong.
    """
    pending, self._pending = self._pending, report
    if pending is not None:
      with self.clock.at('device'):
        values = np.asarray(pending)
      self._note(values.astype(float).tolist())

  def settle(self) -> None:
    """Waits for the step under way; raises LossError if it went wrong."""
    self.dispatched(None)

  def _note(self, report: list[float]) -> None:
    named = dict(zip(loss_lib.STEP, report, strict=True))
    sums = report[: len(loss_lib.SUMS)]
    loss = means(sums)['loss']
    good = math.isfinite(loss) and math.isfinite(named['grad_norm'])
    self._check(good, loss, named['grad_norm'])
    # The first step includes compilation, and so is reported by itself.
    if self._first_step_s is None:
      self._first_step_s = time.perf_counter() - self._start
    record = self.record
    record['step'] += 1
    if good:
      both = zip(record['open'], sums, strict=True)
      record['open'] = [x + y for x, y in both]
      record['tokens'] += int(named['tokens'])
    else:
      # The update was left out on the device: its sums count nowhere.
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
        f'{others}; {self.describe_batch(self.step)}'
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
      # Depends on the clock, so it is not for metrics.jsonl.
      before, self._last = self._last, self._counts()
      self._writer.chart(self.step, **self._speed(before))

  def _counts(self) -> dict[str, float]:
    counts = {'step': self.step, 'tokens': self.record['tokens']}
    return {**counts, **self.clock.seconds, 'steps': self.clock.steps()}

  def _speed(self, before: dict[str, float]) -> dict[str, float]:
    """Rates since `before`, of what this process does; times a step in ms.

    mfu: model FLOPs utilisation, 6 FLOPs a parameter and real token against
      `peak_flops`; without attention, and not of what is computed again.
    """
    counts = self._counts()
    new = {key: value - before[key] for key, value in counts.items()}
    steps, seconds = max(new['step'], 1), max(new['steps'], 1e-9)
    rate = new['tokens'] / seconds
    return {
      'tokens_per_s': rate,
      'host_ms': 1e3 * (new['host'] + new['data']) / steps,
      'device_ms': 1e3 * new['device'] / steps,
      'memory_mb': memory() / 1e6,
      'mfu': self._flops * rate / self._peak,
    }

  def time_summary(self) -> str:
    """Where the time of this start went, and how fast its steps were."""
    self.clock.turn('other')
    seconds = self.clock.seconds
    total = sum(seconds.values())
    shares = ', '.join(
      f'{100 * seconds[phase] / total:.0f} % {words}'
      for phase, words in PHASES.items()
      if seconds[phase] >= 0.005 * total
    )
    speed = self._speed(self._first)
    return (
      f'{total:.1f} s: {shares}; a step took {speed["host_ms"]:.1f} ms of the '
      f'host and {speed["device_ms"]:.1f} ms of waiting for the device; '
      f'{speed["tokens_per_s"]:,.0f} tokens/s, {100 * speed["mfu"]:.0f} % of '
      f'{self._peak / 1e9:,.0f} GFLOP/s; {speed["memory_mb"]:,.0f} MB at most'
    )

  def evaluated(self, sums: np.ndarray) -> bool:
    """Notes held-out sums, see `loss.Objective.evaluation`.

    Returns whether they are the best so far, by the loss after the prompt.
    """
    heldout = means(sums[: len(loss_lib.SUMS)].tolist())
    heldout |= self._objective.means(sums)
    if not math.isfinite(heldout['loss']):
      if self._skips:
        return False
      raise LossError(
        f'held-out loss {heldout["loss"]} at step {self.step}; '
        f'{self.describe_batch(self.step - 1)}'
      )
    if self._writer:
      named = {f'heldout_{key}': value for key, value in heldout.items()}
      self._writer.write(self.step, **named, heldout_tokens=int(sums[1]))
    if self._shown:
      self._shown.log(f'held-out loss {heldout["loss"]:.4f}')
    self.record['heldout'] = {'step': self.step, **heldout}
    # A prompt is given, not predicted; and a model that learns which prompts
    # there are gives none that is held out.
    best = self.record['best']
    if best is not None and heldout['loss_moves'] >= best['loss_moves']:
      return False
    self.record['best'] = self.record['heldout']
    return True

  def summary(self) -> dict[str, Any]:
    """Where the run stands, how fast it went, when it began."""
    record = self.record
    best, heldout = record['best'] or {}, record['heldout'] or {}
    names = self._objective.names
    return {
      'step': self.step,
      **{
        f'heldout_{name}': heldout.get(name)
        for name in ('loss', 'loss_moves', *names)
      },
      'best_step': best.get('step'),
      **{
        f'best_{name}': best.get(name)
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
      progress.say(f'train: {self.time_summary()}')
