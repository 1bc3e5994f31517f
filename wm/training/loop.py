"""The training loop: from OUT/data to OUT/checkpoints.

Every random choice is a pure function of (seed, step), and a checkpoint holds
all that the rest of the run depends on. So a run that is killed at any moment
resumes to the same result.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import signal
import time
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from wm import core
from wm.core import registry
from wm.data import batches as batches_lib
from wm.data import store as stores
from wm.models.nn import network
from wm.runtime import (
  compile_cache,
  files,
  locks,
  progress,
  stopping,
  threads,
)
from wm.training import checkpoints as checkpoints_lib
from wm.training import config, curriculum, restore, run_log
from wm.training import loss as loss_lib
from wm.training import optimizer as optimizer_lib
from wm.training import prefetch as prefetch_lib
from wm.training import state as state_lib
from wm.training import step as step_lib

Training = config.Training
LossError = run_log.LossError
CHUNK = 256  # Held-out rows that a fitted model is asked about at a time.


def train(
  world: core.World | str,
  model: core.Model | str,
  out: str | pathlib.Path,
  training: Training,
) -> dict[str, Any]:
  """Trains a model on OUT/data, or goes on with a run that was stopped.

  Returns:
    Summary, also in OUT/train.json: model, world, threads, parameters, step,
    heldout_loss and best_loss (nats, mean over real tokens whatever
    training.loss is, of a state over its labels too; `_moves`: after the
    prompt, by which the best is chosen), best_step, tokens (real ones trained
    on), seconds, tokens_per_s; and first_step_s of this start, None if there
    was nothing left to do.

  Raises:
    InputError: unusable data, mesh or checkpoint, or OUT holds another run,
      or another process trains there.
    LossError: the loss is not finite.
    Stopped: a signal came (see `stopping`); what is done is saved.
  """
  start = time.perf_counter()
  _check_processes(training)
  world = registry.resolve('world', world)
  model = registry.resolve('model', model)
  with contextlib.ExitStack() as stack:
    if training.process_id == 0:  # It writes for all.
      stack.enter_context(locks.writer(out, config.STAGE))
    return _train(world, model, pathlib.Path(out), training, start)


def _train(
  world: core.World,
  model: core.Model,
  out: pathlib.Path,
  training: Training,
  start: float,
) -> dict[str, Any]:
  data = config.open_data(out, world, training.data)
  run = config.describe(training, world, model, data)
  run['threads'] = threads.fix(training.threads)
  if run['threads'] != training.threads:
    progress.say(
      f'{out}: JAX has started with {run["threads"]} threads, not '
      f'{training.threads}; the run is recorded with them'
    )
  if isinstance(model, core.Fittable):
    if training.start is not None:
      raise core.InputError(
        f'model {run["model"]!r} is counted and starts from nothing; '
        f'start={training.start!r} was given'
      )
    if training.objective != 'next':
      raise core.InputError(
        f'model {run["model"]!r} has objective=next only, not '
        f'{training.objective!r}'
      )
    with files.given_back(out, config.STAGE):
      files.claim(out, config.STAGE, run, Training.usual())
      summary = _fit(model, world, data, out)
  elif isinstance(model, core.Trainable):
    model.check_world(world)
    config.check_batch(training, world, data[0])
    if training.start is not None:
      run['start_sha256'] = restore.digest(
        training.start, run['model'], run['vocab_sha256']
      )
    _start_jax(training)
    trainer = Trainer(training, world, model, data)
    summary = _claimed(trainer, out, run, start)
  else:
    raise core.InputError(f'model {run["model"]!r} has nothing to train')
  about = {key: run[key] for key in ('model', 'world', 'threads')}
  summary = {**about, **summary}
  if training.process_id == 0:
    files.write_json(out / 'train.json', summary)
  return summary


def _claimed(
  trainer: Trainer, out: pathlib.Path, run: dict[str, Any], start: float
) -> dict[str, Any]:
  """Claims the folder and trains there; refuses a batch that has no memory.

  A first start that is refused before a checkpoint gives the folder back.
  """
  before = files.claimed(out, config.STAGE, run, Training.usual())
  files.claim(out, config.STAGE, run, Training.usual())
  try:
    return trainer.run(out, start)
  except (RuntimeError, MemoryError) as error:  # The former is XLA's.
    first = str(error).partition('\n')[0]
    if 'out of memory' not in first.lower():
      raise
    if not before and not list((out / 'checkpoints').glob('[0-9]*')):
      (out / f'{config.STAGE}.run.json').unlink(missing_ok=True)
    raise core.InputError(
      f'batch={trainer.training.batch} sequences of up to {trainer.max_len} '
      f'tokens have no room; expected fewer ({first})'
    ) from error


def _check_processes(training: Training) -> None:
  if training.process_id >= training.num_processes:
    raise core.InputError(
      f'--process_id={training.process_id} of '
      f'--num_processes={training.num_processes}: expected 0 to '
      f'{training.num_processes - 1}'
    )
  place = re.fullmatch(r'\S+:(\d{1,5})', training.coordinator or '')
  distributed = training.num_processes > 1 or training.coordinator is not None
  if distributed and not (place and 0 < int(place[1]) < 1 << 16):
    raise core.InputError(
      f'--coordinator={training.coordinator}: expected host:port of process 0 '
      f'of the {training.num_processes}'
    )


def _start_jax(training: Training) -> None:
  compile_cache.enable()
  if training.num_processes > 1:
    jax.distributed.initialize(
      training.coordinator, training.num_processes, training.process_id
    )


def _stops_between_steps() -> contextlib.AbstractContextManager[None]:
  """Holds a signal back until `_told_to_stop` is asked between two steps."""
  if jax.process_count() == 1:
    return stopping.deferred()
  # JAX's preemption service hears SIGTERM, and has all processes of the run
  # agree on the step at which they stop.
  return stopping.deferred(lambda: os.kill(os.getpid(), signal.SIGTERM))


def _told_to_stop(done: int) -> bool:
  """Whether to stop after so many steps; the same in all processes."""
  if jax.process_count() == 1:
    return stopping.requested() is not None
  return multihost_utils.reached_preemption_sync_point(done)


class Trainer:
  """The jitted functions of a run, and the loop over them.

  Attributes:
    mesh: devices of the run.
    objective: what the network is trained to give.
    shape: the network's structure.
    abstract: shapes and places of the whole state.
    train_step, eval_step: see `step`.
  """

  def __init__(
    self,
    training: Training,
    world: core.World,
    model: Any,
    data: tuple[stores.Store, stores.Store],
  ) -> None:
    self.training, self.max_len = training, world.max_len
    self.prompt_len = world.prompt_len
    self.heldout = data[1]
    self.mesh = state_lib.mesh(training.mesh_data, training.mesh_model)
    parts = self.mesh.shape['data']
    smallest = training.first_batch or training.batch
    if smallest % parts:
      raise core.InputError(
        f'a batch of {smallest} cannot be divided over {parts} devices'
      )
    self.batches = batches_lib.Batches(
      data[0],
      training.batch,
      training.seed,
      training.batching,
      prefetch_lib.MULTIPLE,
    )
    self.objective = loss_lib.make(training, world)
    self.shape = network.NetworkSpec(
      model, len(world.vocab), world.max_len, self.objective.outputs
    )
    shapes = state_lib.shapes(self.shape)
    matrices = optimizer_lib.matrix_axes(self.shape)
    self.optimizer = optimizer_lib.make(
      training, shapes, model.undecayed, matrices
    )
    self.abstract = state_lib.abstract_state(shapes, self.optimizer, self.mesh)
    self.train_step = step_lib.make_train_step(
      self.shape,
      self.optimizer,
      optimizer_lib.schedule(training),
      self.objective,
      training.seed,
      self.abstract,
    )
    self.eval_step = step_lib.make_eval_step(
      self.shape, self.objective, self.abstract
    )

  def run(self, out: pathlib.Path, start: float) -> dict[str, Any]:
    """Begins or restores, trains to the end and sums up.

    start: reading of the clock from which the first step is timed.
    """
    checkpoints = checkpoints_lib.Checkpoints(out, read_only=False)
    batches = prefetch_lib.Prefetch(
      curriculum.Curriculum(
        self.batches, self.training, self.max_len, self.prompt_len
      ),
      self.mesh,
      self.training.steps,
      self.objective.world,
    )

    def blame(step: int) -> str:
      checkpoints.wait()
      last = checkpoints.last()
      good = str(checkpoints.folder / str(last)) if last else 'none'
      return f'batch {batches.digest(step)}; last good checkpoint: {good}'

    try:
      state, record = self.begin(checkpoints)
      log = run_log.RunLog(
        self.training, out, record, blame, start, self.objective
      )
      with batches, log:
        self._steps(state, checkpoints, batches, log)
        return {'parameters': self.shape.num_params, **log.summary()}
    finally:
      checkpoints.close()

  def begin(
    self, checkpoints: checkpoints_lib.Checkpoints
  ) -> tuple[state_lib.State, dict[str, Any]]:
    """The state and the record of the last checkpoint, or new ones."""
    step = checkpoints.last()
    if step is not None:
      return checkpoints.state(step, self.abstract), checkpoints.progress(step)
    checkpoints.need(self.abstract)
    if self.training.start is not None:
      params = restore.params(self.training.start, self.abstract.params)
      state = state_lib.begun(params, self.optimizer, self.abstract)
      return state, run_log.fresh()
    state = state_lib.create(
      self.shape, self.training.seed, self.optimizer, self.abstract
    )
    return state, run_log.fresh()

  def _steps(
    self,
    state: state_lib.State,
    checkpoints: checkpoints_lib.Checkpoints,
    batches: prefetch_lib.Prefetch,
    log: run_log.RunLog,
  ) -> None:
    training, first = self.training, log.step
    with contextlib.ExitStack() as stack:
      for step, batch in batches.run(first):
        state, report = self.train_step(state, np.int32(step), *batch)
        if step == first:  # Compiled; from now on there is something to lose.
          stack.enter_context(_stops_between_steps())
        log.dispatched(report)
        done = step + 1
        last = done == training.steps
        evaluate = last or done % training.eval_every == 0
        stop = _told_to_stop(done) and not last
        save = last or stop or done % training.save_every == 0
        if evaluate or save:
          log.settle()
          better = evaluate and log.evaluated(self.evaluate(state.params))
          if save or better:
            checkpoints.save(done, state, log.record)
        if stop:
          checkpoints.wait()
          raise stopping.Stopped(stopping.requested() or stopping.Exit.STOPPED)

  def evaluate(self, params: state_lib.Arrays) -> np.ndarray:
    """Held-out sums, float64, see `loss.Objective.evaluation`."""
    aim = self.objective
    total = np.zeros(len(step_lib.SUMS) + len(aim.more) + len(aim.whole) + 1)
    for rows in prefetch_lib.heldout(
      self.heldout, self.training.batch, self.max_len, self.training.eval_num
    ):
      batch = prefetch_lib.place(self.mesh, *rows, self.objective.world)
      total += np.asarray(self.eval_step(params, *batch), np.float64)
    return total


def _fit(
  model: core.Fittable,
  world: core.World,
  data: tuple[stores.Store, stores.Store],
  out: pathlib.Path,
) -> dict[str, Any]:
  """Fits a model by counting the training sequences, and keeps it."""
  start, path = time.perf_counter(), config.fitted(out)
  if path.exists():
    predictor = model.load(path, world)
  else:
    predictor = model.fit(data[0].chunks(), world)
    model.save(predictor, path)
  tokens = int(data[0].manifest['tokens']) - len(data[0])
  seconds = time.perf_counter() - start
  heldout = run_log.means(_fitted_sums(predictor, world, data[1]))
  log = run_log.Writer(out, -1)
  log.write(0, **{f'heldout_{key}': x for key, x in heldout.items()})
  log.close()
  return {
    'parameters': model.size(predictor),
    'step': 0,
    'heldout_loss': _finite(heldout['loss']),
    'heldout_loss_moves': _finite(heldout['loss_moves']),
    'best_step': 0,
    'best_loss': _finite(heldout['loss']),
    'best_loss_moves': _finite(heldout['loss_moves']),
    'tokens': tokens,
    'seconds': seconds,
    'tokens_per_s': tokens / seconds,
    'first_step_s': seconds,
  }


def _finite(value: float) -> float | None:
  """JSON has no infinity, which a token never seen may cost."""
  return value if np.isfinite(value) else None


def _fitted_sums(
  predictor: core.Predictor, world: core.World, store: stores.Store
) -> np.ndarray:
  """[4] float64 held-out sums, see `loss.SUMS`."""
  total = np.zeros(4)
  for rows in store.chunks(CHUNK):
    log_probs = predictor.log_probs(rows.tokens[:, :-1], rows.lengths - 1)
    target = rows.tokens[:, 1:]
    loss = -np.take_along_axis(log_probs, target[..., None], -1)[..., 0]
    place = np.arange(1, rows.tokens.shape[1])
    real = place < rows.lengths[:, None]
    for k, mask in enumerate((real, real & (place >= world.prompt_len))):
      total[2 * k] += loss[mask].sum(dtype=np.float64)
      total[2 * k + 1] += mask.sum()
  return total
