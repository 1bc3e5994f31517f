"""The training loop: from OUT/data to OUT/checkpoints.

Every random choice is a pure function of (seed, step), and a checkpoint holds
all that the rest of the run depends on; so a run killed at any moment goes on
to the same result.
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
from wm.runtime import compile_cache, files, locks, stopping
from wm.training import books as books_lib
from wm.training import checkpoints as checkpoints_lib
from wm.training import config, objectives
from wm.training import feed as feed_lib
from wm.training import fit as fit_lib
from wm.training import optimiser as optimiser_lib
from wm.training import state as state_lib
from wm.training import step as step_lib

Training = config.Training
LossError = books_lib.LossError


def train(
  world: core.World | str,
  model: core.Model | str,
  out: str | pathlib.Path,
  training: Training,
) -> dict[str, Any]:
  """Trains a model on OUT/data, or goes on with a run that was stopped.

  Returns:
    Summary, also in OUT/train.json: model, world, parameters, step,
    heldout_loss and best_loss (nats, mean over real tokens whatever
    training.loss is, of a state over its labels too; `_moves`: after the
    prompt), best_step, tokens (real ones trained on), seconds, tokens_per_s;
    and first_step_s of this start, None if there was nothing left to do.

  Raises:
    InputError: unusable data, mesh or checkpoint, or OUT holds another run,
      or another process trains there.
    LossError: the loss is not finite.
    Stopped: a signal came (see `stopping`); what is done is saved.
  """
  start = time.perf_counter()
  _check_processes(training)
  world, model = registry.made('world', world), registry.made('model', model)
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
  if isinstance(model, core.Fittable):
    if training.objective != 'next':
      raise core.InputError(
        f'model {run["model"]!r} has objective=next only, not '
        f'{training.objective!r}'
      )
    files.claim(out, config.STAGE, run, Training.usual())
    summary = fit_lib.run(model, world, data, out)
  elif isinstance(model, core.Trainable):
    _start_jax(training)
    trainer = Trainer(training, world, model, data)
    summary = _claimed(trainer, out, run, start)
  else:
    raise core.InputError(f'model {run["model"]!r} has nothing to train')
  summary = {'model': run['model'], 'world': run['world'], **summary}
  if training.process_id == 0:
    files.write_json(out / 'train.json', summary)
  return summary


def _claimed(
  trainer: Trainer, out: pathlib.Path, run: dict[str, Any], start: float
) -> dict[str, Any]:
  """Trains in a folder that is this run's; refuses a batch without memory.

  A first run that ends so, before a checkpoint, leaves the folder to others.
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
  wanted = training.num_processes > 1 or training.coordinator is not None
  if wanted and not (place and 0 < int(place[1]) < 1 << 16):
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
  """See `stopping.deferred`; of several processes, all stop if one is told."""
  if jax.process_count() == 1:
    return stopping.deferred()
  # JAX takes SIGTERM as the notice of all, and agrees on a step.
  return stopping.deferred(lambda: os.kill(os.getpid(), signal.SIGTERM))


def _told_to_stop(done: int) -> bool:
  """Is it the end, after so many steps? All processes say the same."""
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
    self.heldout = data[1]
    self.mesh = state_lib.mesh(training.mesh_data, training.mesh_model)
    parts = self.mesh.shape['data']
    if training.batch % parts:
      raise core.InputError(
        f'a batch of {training.batch} cannot be divided over {parts} devices'
      )
    self.batches = batches_lib.Batches(
      data[0],
      training.batch,
      training.seed,
      training.batching,
      feed_lib.MULTIPLE,
    )
    self.objective = objectives.make(training, world)
    self.shape = network.NetworkSpec(
      model, len(world.vocab), world.max_len, self.objective.outputs
    )
    shapes = state_lib.shapes(self.shape)
    self.optimiser = optimiser_lib.make(training, shapes, model.undecayed)
    self.abstract = state_lib.abstract_state(shapes, self.optimiser, self.mesh)
    self.train_step = step_lib.make_train_step(
      self.shape,
      self.optimiser,
      optimiser_lib.schedule(training),
      self.objective,
      training.seed,
      self.abstract,
    )
    self.eval_step = step_lib.make_eval_step(
      self.shape, self.objective, self.abstract
    )

  def run(self, out: pathlib.Path, start: float) -> dict[str, Any]:
    """Begins or restores, trains to the end and sums up.

    start: clock reading from which the first step is timed.
    """
    kept = checkpoints_lib.Checkpoints(out, read_only=False)
    feed = feed_lib.Feed(
      self.batches,
      self.mesh,
      self.max_len,
      self.training.steps,
      self.objective.world,
    )

    def blame(step: int) -> str:
      kept.wait()
      good = f'{kept.folder / str(kept.last())}' if kept.last() else 'none'
      return f'batch {feed.digest(step)}; last good checkpoint: {good}'

    try:
      state, book = self.begin(kept)
      books = books_lib.Books(
        self.training, out, book, blame, start, self.objective.more
      )
      with feed, books:
        self._steps(state, kept, feed, books)
        return {'parameters': self.shape.num_params, **books.summary()}
    finally:
      kept.close()

  def begin(
    self, kept: checkpoints_lib.Checkpoints
  ) -> tuple[state_lib.State, dict[str, Any]]:
    """The state and books of the last checkpoint, or new ones."""
    step = kept.last()
    if step is not None:
      return kept.state(step, self.abstract), kept.progress(step)
    kept.need(self.abstract)
    state = state_lib.create(
      self.shape, self.training.seed, self.optimiser, self.abstract
    )
    return state, books_lib.fresh()

  def _steps(
    self,
    state: state_lib.State,
    kept: checkpoints_lib.Checkpoints,
    feed: feed_lib.Feed,
    books: books_lib.Books,
  ) -> None:
    training, first = self.training, books.step
    with contextlib.ExitStack() as stack:
      for step, batch in feed.run(first):
        state, report = self.train_step(state, np.int32(step), *batch)
        if step == first:  # Compiled; from now on there is something to lose.
          stack.enter_context(_stops_between_steps())
        # The devices work on this step while the host reads the one before.
        books.dispatched(report)
        done = step + 1
        last = done == training.steps
        evaluate = last or done % training.eval_every == 0
        stop = _told_to_stop(done) and not last
        save = last or stop or done % training.save_every == 0
        if evaluate or save:
          books.settle()
          better = evaluate and books.evaluated(self.evaluate(state.params))
          if save or better:
            kept.save(done, state, books.book)
        if stop:
          kept.wait()
          raise stopping.Stopped(stopping.requested() or stopping.Exit.STOPPED)

  def evaluate(self, params: state_lib.Arrays) -> np.ndarray:
    """[4 + M] float64 held-out sums: step.SUMS and the objective's `more`."""
    total = np.zeros(len(step_lib.SUMS) + len(self.objective.more))
    for rows in feed_lib.heldout(
      self.heldout, self.training.batch, self.max_len, self.training.eval_num
    ):
      batch = feed_lib.place(self.mesh, *rows, self.objective.world)
      total += np.asarray(self.eval_step(params, *batch), np.float64)
    return total
