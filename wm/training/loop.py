"""The training loop: from OUT/data to OUT/checkpoints.

    data -> Batches -> Prefetch (a thread: labels, devices) -> batch
    state, batch -> gradient (compiled for each length) -> update (once)

Every random choice is a pure function of (seed, step), and a checkpoint holds
the complete state of a run. A run that is killed at any moment therefore
resumes to the same result. Gradient, update and evaluation are jitted over the
mesh. Shapes: B batch, L length, K labels of a state.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import dataclasses
import itertools
import os
import pathlib
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from wm import core
from wm.core import registry
from wm.data import batches as batches_lib
from wm.data import store as stores
from wm.models.nn import network
from wm.options.training import Training
from wm.runtime import compute, files, progress, stopping
from wm.training import checkpoints as checkpoints_lib
from wm.training import loss as loss_lib
from wm.training import run_log, setup
from wm.training import state as state_lib

AHEAD = 2  # Batches prepared in advance.
MULTIPLE = 16  # Lengths are rounded up to a multiple, so few shapes compile.


def _updating(
  optimizer: optax.GradientTransformation, schedule: optax.Schedule
) -> Callable[..., tuple[state_lib.State, jax.Array]]:
  """update(state, grads, sums [4]) -> (next state, report), as `TrainStep`."""

  def update(
    state: state_lib.State, grads: state_lib.Arrays, sums: jax.Array
  ) -> tuple[state_lib.State, jax.Array]:
    """The next state, and a step's report."""
    # `guarded` uses the loss to skip a step that is not finite.
    updates, opt = optimizer.update(
      grads, state.opt, state.params, loss=sums[0]
    )
    params = optax.apply_updates(state.params, updates)
    rate = schedule(state_lib.num_updates(state.opt))
    # One small array: reading it is one transfer from the device a step.
    extra = jnp.stack([optax.tree.norm(grads), rate])
    report = jnp.concatenate([sums, extra.astype(jnp.float32)])
    return state_lib.State(params, opt), report

  return update


@dataclasses.dataclass(frozen=True, eq=False)
class TrainStep:
  """step(state, step [], tokens [B, L], lengths [B]) -> (state, report).

  The report [6] float32 is loss.STEP: 4 sums, gradient norm, learning rate.

  Labels [B, L, K] follow the lengths if the objective needs them. The loss is
  the objective's mean over the global batch. The input state is donated.
  Dropout depends on (seed, step) alone.

  Attributes:
    gradient: (params, seed, step, *batch) -> (gradients, sums); compiled once
      for each L, for all seeds.
    update: (state, gradients, sums) -> (state, report), a separate program.
    seed: seed of dropout.
  """

  gradient: Any
  update: Any
  seed: int

  def __call__(
    self, state: state_lib.State, step: Any, *batch: jax.Array
  ) -> tuple[state_lib.State, jax.Array]:
    """The state after the step, and its report."""
    # With averaging, gradients are taken at the latest parameters, not at the
    # average.
    params = state_lib.latest_params(*state)
    # The seed is traced, not static: another one runs the same program.
    grads, sums = self.gradient(params, np.uint32(self.seed), step, *batch)
    return self.update(state, grads, sums)


# A TPU's compiler splits a product across chips into a loop of messages and
# small products, which rereads its accumulator each time: planned for 32 chips,
# 1.5 B parameters then take a quarter longer.
_WHOLE_PRODUCTS = {'xla_jf_spmd_threshold_for_windowed_einsum_mib': 1 << 20}


def make_train_step(
  spec: network.NetworkSpec,
  optimizer: optax.GradientTransformation,
  schedule: optax.Schedule,
  objective: loss_lib.Objective,
  seed: int,
  abstract: state_lib.State,
  accumulate: int = 1,
) -> TrainStep:
  """The train step of a network over the mesh of `abstract`.

  accumulate: parts of a batch whose gradients are added, one after the other.
  """
  # Outputs have the state's shardings: no step moves parameters between
  # devices. Sums are small and every process reads them: they are replicated.
  shardings = jax.tree.map(lambda leaf: leaf.sharding, abstract)
  everywhere = _everywhere(abstract)
  mesh = everywhere.mesh.abstract_mesh

  def _gradient(
    params: state_lib.Arrays,
    seed: jax.Array,
    step: jax.Array,
    tokens_BL: jax.Array,
    lengths_B: jax.Array,
    *labels_BLK: jax.Array,
  ) -> tuple[state_lib.Arrays, jax.Array]:
    # The key depends on (seed, step): a resumed run drops the same activations.
    key = jax.random.fold_in(jax.random.key(seed), step)

    def loss(params: state_lib.Arrays) -> tuple[jax.Array, jax.Array]:
      net = state_lib.merge(spec, params)
      losses = objective.per_token_loss(net, key, tokens_BL, *labels_BLK)
      mean = objective.mean(losses, lengths_B)
      return mean, objective.sums(losses, lengths_B)

    with jax.sharding.use_abstract_mesh(mesh):
      if accumulate == 1:
        return jax.grad(loss, has_aux=True)(params)
      batch = tokens_BL, lengths_B, *labels_BLK
      return _accumulated(spec, objective, key, params, batch, accumulate)

  device = everywhere.mesh.devices.flat[0]
  gradient = jax.jit(
    _gradient,
    out_shardings=(shardings.params, everywhere),
    compiler_options=_WHOLE_PRODUCTS if device.platform == 'tpu' else None,
  )
  # Parameters and moments are donated and overwritten in place, so that memory
  # never holds two copies of the state.
  update = jax.jit(
    _updating(optimizer, schedule),
    donate_argnums=0,
    out_shardings=(shardings, everywhere),
  )

  return TrainStep(gradient, update, seed)


def _accumulated(
  spec: network.NetworkSpec,
  objective: loss_lib.Objective,
  key: jax.Array,
  params: state_lib.Arrays,
  batch: tuple[jax.Array, ...],
  num: int,
) -> tuple[state_lib.Arrays, jax.Array]:
  """Gradient and sums of a batch, from `num` parts of it in turn."""
  # Part i has rows i, i + num, ...: each device has its share of every part.
  parts = [x.reshape(-1, num, *x.shape[1:]).swapaxes(0, 1) for x in batch]

  def one(carried: Any, part: Any) -> tuple[Any, None]:
    """Adds a part's gradient of summed losses, their number and its sums."""
    number, tokens_BL, lengths_B, *labels_BLK = part
    # Each part drops other activations.
    part_key = jax.random.fold_in(key, number)

    def loss(params: state_lib.Arrays) -> tuple[jax.Array, Any]:
      net = state_lib.merge(spec, params)
      losses = objective.per_token_loss(net, part_key, tokens_BL, *labels_BLK)
      total, count = objective.total(losses, lengths_B)
      return total, (count, objective.sums(losses, lengths_B))

    new = jax.grad(loss, has_aux=True)(params)
    return jax.tree.map(jnp.add, carried, new), None

  zeros = jax.tree.map(jnp.zeros_like, params)
  first = zeros, (jnp.zeros((), jnp.int32), jnp.zeros(4, jnp.float32))
  (grads, (count, sums)), _ = jax.lax.scan(
    one, first, (jnp.arange(num), *parts)
  )
  # Divided once, by the number over the whole batch, as its mean is.
  return jax.tree.map(lambda x: x / jnp.maximum(count, 1), grads), sums


def make_eval_step(
  spec: network.NetworkSpec,
  objective: loss_lib.Objective,
  abstract: state_lib.State,
) -> Callable[..., jax.Array]:
  """step(params, tokens [B, L], lengths [B]) -> sums, float32.

  See `loss.Objective.evaluation`; labels as in a training step.
  """

  def eval_step(
    params: state_lib.Arrays,
    tokens_BL: jax.Array,
    lengths_B: jax.Array,
    *labels_BLK: jax.Array,
  ) -> jax.Array:
    """Sums over one batch."""
    with jax.sharding.use_abstract_mesh(everywhere.mesh.abstract_mesh):
      net = state_lib.merge(spec, params)
      # No key: no dropout.
      losses = objective.per_token_loss(net, None, tokens_BL, *labels_BLK)
      return objective.evaluation(losses, lengths_B)

  everywhere = _everywhere(abstract)
  return jax.jit(eval_step, out_shardings=everywhere)


def _everywhere(abstract: state_lib.State) -> jax.sharding.NamedSharding:
  mesh = network.batch_mesh(jax.tree.leaves(abstract)[0].sharding.mesh)
  return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())


def place_batch(
  mesh: Mesh,
  tokens: np.ndarray,
  lengths: np.ndarray,
  world: core.Labelled | None = None,
) -> tuple[jax.Array, ...]:
  """Puts a global batch on the devices, divided over the data axis.

  Args:
    mesh: mesh with axes 'data' and 'model'.
    tokens: [R, L] int32, the rows of this process; see `state.data_parts`. With
      one process they are the whole batch.
    lengths: [R] int32.
    world: world that gives state labels; None: no labels.

  Returns:
    Tokens [B, L], lengths [B], and with a world labels [B, L, K]. Each process
    computes the labels of its own rows only.
  """
  # [B, ...] is divided by rows over 'data', and replicated over 'model'.
  sharding = NamedSharding(mesh, PartitionSpec('data'))
  part_ids, num_parts = state_lib.data_parts(mesh)
  size = len(tokens) // len(part_ids)  # Rows of a part.
  cache: dict[int, np.ndarray] = {}

  def rows(index: tuple[slice, ...]) -> slice:
    """The rows of `tokens` in a device's part of the batch."""
    part = part_ids.index((index[0].start or 0) // size)
    return slice(part * size, (part + 1) * size)

  def labels(index: tuple[slice, ...]) -> np.ndarray:
    """[rows, L, K] labels of the rows of a device."""
    # Devices along 'model' ask for the same rows, whose labels are cached.
    part = rows(index)
    if part.start not in cache:
      assert world is not None  # Only then does a batch have labels.
      cache[part.start] = world.sequence_labels(tokens[part], lengths[part])
    return cache[part.start]

  def put(shape: tuple[int, ...], part: Callable[..., np.ndarray]) -> jax.Array:
    shape = (size * num_parts, *shape)
    return jax.make_array_from_callback(shape, sharding, part)

  length = tokens.shape[1]
  batch = (
    put((length,), lambda x: tokens[rows(x)]),
    put((), lambda x: lengths[rows(x)]),
  )
  if world is None:
    return batch
  return *batch, put((length, len(world.heads.sizes)), labels)


class Prefetch:
  """Training batches by step; a context that owns its thread.

  Attributes:
    source: pure function from step to batch.
    max_len: later columns hold padding only, and are cut.
    world: world that gives state labels; None: no labels.
  """

  def __init__(
    self,
    source: batches_lib.Batches,
    mesh: Mesh,
    steps: int,
    max_len: int,
    world: core.Labelled | None = None,
  ) -> None:
    self.source, self.max_len, self.world = source, max_len, world
    self._mesh, self._num_steps = mesh, steps
    # One thread makes batches in order, and calls a world's labels one at a
    # time.
    self._pool = concurrent.futures.ThreadPoolExecutor(1, 'batches')

  def _make(self, step: int) -> tuple[jax.Array, ...]:
    tokens, lengths = self.source.at(step)
    tokens = tokens[:, : self.max_len]
    return place_batch(self._mesh, tokens, lengths, self.world)

  def run(self, first: int) -> Iterator[tuple[int, tuple[jax.Array, ...]]]:
    """Yields (step, batch on the devices) for each step from `first`."""
    # ready   step | step + 1 | .. | step + AHEAD   made by the thread, in order
    ready: collections.deque = collections.deque()
    following = iter(range(first, self._num_steps))
    for step in range(first, self._num_steps):
      # A step takes longer than a batch: more in advance would waste memory.
      for ahead in itertools.islice(following, AHEAD + 1 - len(ready)):
        ready.append(self._pool.submit(self._make, ahead))
      yield step, ready.popleft().result()

  def __enter__(self) -> Prefetch:
    return self

  def __exit__(self, *error: object) -> None:
    self._pool.shutdown(wait=True, cancel_futures=True)


def heldout_batches(
  store: stores.Store,
  batch: int,
  max_len: int,
  num: int = 0,
  part_ids: Sequence[int] = (0,),
  num_parts: int = 1,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
  """Yields every row once, in order of length: tokens [R, L], lengths [R].

  The last batch is padded with rows of length 0, which add 0 to sums.

  num: number of rows, from the first; 0 is all.
  part_ids, num_parts: as in `Batches`; only their rows are read.
  """
  positions = batches_lib.batch_rows(batch, part_ids, num_parts)
  # Rows of a batch then have similar lengths, and little padding.
  order = np.argsort(store.lengths[: num or None], kind='stable')
  for first in range(0, len(order), batch):
    rows = order[first : first + batch]
    # Rounded up to a multiple, so that few widths are compiled.
    width = -(-int(store.lengths[rows[-1]]) // MULTIPLE) * MULTIPLE
    real = positions[positions < len(rows)]
    tokens, lengths = store.take(rows[real])
    full = np.full((len(positions), min(width, max_len)), core.PAD, np.int32)
    full[: len(real), : tokens.shape[1]] = tokens
    padded = np.zeros(len(positions), np.int32)
    padded[: len(real)] = lengths
    yield full, padded


def train(
  world: core.World | str,
  model: core.Model | str,
  out: str | pathlib.Path,
  training: Training,
) -> dict[str, Any]:
  """Trains a model on OUT/data, or resumes a stopped run.

  Returns:
    Summary, also in OUT/train.json: model, world, threads, parameters, step,
    heldout_loss and best_loss (nats; mean over tokens without padding for any
    training.loss, and over labels for states; the best is chosen by the
    quantities `_moves`, after the prompt), best_step, tokens (trained on,
    without padding), seconds, tokens_per_s; and first_step_s of this start,
    None if no step was left.

  Raises:
    InputError: unusable data, mesh or checkpoint, or OUT holds another run,
      or another process trains there.
    LossError: the loss is not finite.
    Stopped: a signal came (see `stopping`); progress is saved.
  """
  start = time.perf_counter()
  training = setup.resolve_cluster(training)
  setup.check_processes(training)
  world = registry.resolve('world', world)
  model = registry.resolve('model', model)
  with contextlib.ExitStack() as stack:
    if training.process_id == 0:  # Process 0 writes for all.
      stack.enter_context(files.stage_lock(out, setup.STAGE))
    # The lease comes first: only its holder's mirror counts.
    if setup.has_own_mirrors(out, training):
      setup.share_mirrors(pathlib.Path(out), training)
    return _train(world, model, pathlib.Path(out), training, start)


def _train(
  world: core.World,
  model: core.Model,
  out: pathlib.Path,
  training: Training,
  start: float,
) -> dict[str, Any]:
  data = setup.open_data_together(out, world, training)
  run = setup.run_identity(training, world, model, data)
  # Before JAX starts: the size of XLA's thread pool changes the order of sums,
  # and so the bits of a run.
  run['threads'] = compute.fix_threads(training.threads)
  if run['threads'] != training.threads:
    progress.say(
      f'{out}: JAX has started with {run["threads"]} threads, not '
      f'{training.threads}; the run is recorded with them'
    )
  if isinstance(model, core.Fittable):
    if training.start is not None:
      raise core.InputError(
        f'model {run["model"]!r} is fitted by counting, without a start; '
        f'start={training.start!r} was given'
      )
    if training.objective != 'next':
      raise core.InputError(
        f'model {run["model"]!r} has objective=next only, not '
        f'{training.objective!r}'
      )
    # Counting has no checkpoints: a refused run leaves no files.
    with files.unclaim_on_bad_input(out, setup.STAGE):
      files.claim(out, setup.STAGE, run, Training.usual())
      summary = _fit(model, world, data, out)
  elif isinstance(model, core.Trainable):
    model.check_world(world)
    setup.check_batch(training, world, data[0])
    if training.start is not None:
      # By content: if the start has been trained further, this is another run.
      run['start_sha256'] = checkpoints_lib.digest(
        training.start, run['model'], run['vocab_sha256']
      )
    # Checks that do not need JAX come first: its start takes seconds.
    setup.start_jax(training)
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
  """Claims the folder and trains there; refuses a batch too large for memory.

  A first start that is refused before a checkpoint removes its claim.
  """
  _continue(out, run)
  # Tested before claiming: an earlier claim is never removed.
  before = files.claimed(out, setup.STAGE, run, Training.usual())
  files.claim(out, setup.STAGE, run, Training.usual())
  try:
    return trainer.run(out, start)
  except (RuntimeError, MemoryError) as error:  # XLA raises RuntimeError.
    first = str(error).partition('\n')[0]
    if 'out of memory' not in first.lower():
      raise
    if not before and not list((out / 'checkpoints').glob('[0-9]*')):
      (out / f'{setup.STAGE}.run.json').unlink(missing_ok=True)
    raise core.InputError(
      f'batch={trainer.training.batch} sequences of up to {trainer.max_len} '
      f'tokens have no room; expected fewer ({first})'
    ) from error


def _continue(out: pathlib.Path, run: dict[str, Any]) -> None:
  """Makes the claim of an earlier run one of more steps, if that is asked for.

  The claim and `run` get `continued`: each earlier number of steps, and the
  step from which the schedule is another.
  """
  path = out / f'{setup.STAGE}.run.json'
  earlier = files.read_json(path) if path.exists() else None
  if not isinstance(earlier, dict):  # None, or refused when it is claimed.
    return
  if 'continued' in earlier:
    run['continued'] = earlier['continued']
  before = earlier.get('steps')
  if not isinstance(before, int) or before >= run['steps']:
    return
  # All but the number of steps must be as it was.
  usual = Training.usual()
  files.same(out, setup.STAGE, run | {'steps': before}, {**usual, **earlier})
  # A run that was stopped before a checkpoint starts anew, by the new schedule.
  if done := max(checkpoints_lib.steps(out), default=0):
    run['continued'] = [*run.get('continued', ()), [before, done]]
    progress.say(
      f'{out}: continues a run of {before:,} steps at step {done:,}; from now '
      f'on the learning rate has the schedule of {run["steps"]:,} steps'
    )
  files.write_json(path, run)


def _stops_between_steps() -> contextlib.AbstractContextManager[None]:
  """Defers a signal until `_told_to_stop` is called between two steps."""
  if jax.process_count() == 1:
    return stopping.deferred()
  # JAX's preemption service receives SIGTERM, and makes all processes of the
  # run agree on the step at which they stop.
  return stopping.deferred(lambda: os.kill(os.getpid(), signal.SIGTERM))


def _told_to_stop(done: int) -> bool:
  """Whether to stop after `done` steps; the same in all processes."""
  if jax.process_count() == 1:
    return stopping.requested() is not None
  return multihost_utils.reached_preemption_sync_point(done)


class CompiledSteps:
  """The jitted functions of a run on a mesh.

  Attributes:
    mesh: devices of the run.
    part_ids, num_parts: parts of a batch that this process reads; see
      `Batches`.
    objective: the training objective.
    spec: the network's structure.
    abstract: shapes and shardings of the whole state.
    train_step, eval_step: see `make_train_step`, `make_eval_step`.
  """

  def __init__(
    self, training: Training, world: core.World, model: Any, mesh: Mesh
  ) -> None:
    self.training, self.max_len, self.mesh = training, world.max_len, mesh
    self.part_ids, self.num_parts = state_lib.data_parts(mesh)
    if training.batch % (self.num_parts * training.accumulate):
      raise core.InputError(
        f'a batch of {training.batch} in {training.accumulate} parts cannot be '
        f'divided over {self.num_parts} devices'
      )
    self.objective = loss_lib.make(training, world)
    self.spec = network.NetworkSpec(
      model, len(world.vocab), world.max_len, self.objective.outputs
    )
    shapes = self.spec.shapes
    copies = 4 if training.average else 3  # Parameters, moments, their average.
    state_lib.check_memory(shapes, mesh.shape, copies)
    matrices = state_lib.matrix_axes(self.spec)
    self.optimizer = state_lib.make_optimizer(
      training, shapes, model.undecayed, matrices, divided=mesh.size > 1
    )
    self.abstract = state_lib.abstract_state(shapes, self.optimizer, mesh)
    self.train_step = make_train_step(
      self.spec,
      self.optimizer,
      state_lib.schedule(training),
      self.objective,
      training.seed,
      self.abstract,
      training.accumulate,
    )
    self.eval_step = make_eval_step(self.spec, self.objective, self.abstract)


class Trainer(CompiledSteps):
  """The loop over the steps of a run, on the devices of this process."""

  def __init__(
    self,
    training: Training,
    world: core.World,
    model: Any,
    data: tuple[stores.Store, stores.Store],
  ) -> None:
    mesh = state_lib.mesh(training.mesh_data, training.mesh_model)
    super().__init__(training, world, model, mesh)
    self.heldout = data[1]
    self.batches = batches_lib.Batches(
      data[0],
      training.batch,
      training.seed,
      training.batching,
      MULTIPLE,
      self.part_ids,
      self.num_parts,
    )

  def run(self, out: pathlib.Path, start: float) -> dict[str, Any]:
    """Creates or restores the state, trains to the end, returns a summary.

    start: clock reading from which the first step is timed.
    """
    checkpoints = checkpoints_lib.Checkpoints(
      out,
      read_only=False,
      separate=setup.has_own_mirrors(out, self.training),
      every=self.training.keep_every,
    )
    batches = Prefetch(
      *(self.batches, self.mesh, self.training.steps, self.max_len),
      self.objective.world,
    )

    def last_good() -> str:
      # Orbax's thread may still be writing the newest checkpoint.
      checkpoints.wait()
      last = checkpoints.last()
      return str(checkpoints.folder / str(last)) if last else 'none'

    try:
      state, record = self.begin(checkpoints)
      log = run_log.RunLog(
        self.training, out, record, last_good, start, self.objective
      )
      with batches, log:
        self._run_steps(state, checkpoints, batches, log)
        return {'parameters': self.spec.num_params, **log.summary()}
    finally:
      checkpoints.close()

  def begin(
    self, checkpoints: checkpoints_lib.Checkpoints
  ) -> tuple[state_lib.State, dict[str, Any]]:
    """The state and the record of the last checkpoint, or new ones."""
    step = checkpoints.last()
    if step is not None:
      record = checkpoints.progress(step)
      checkpoints.remove_old(step, record)
      return checkpoints.state(step, self.abstract), record
    # Refuses a disk that cannot hold a checkpoint, before the first step.
    checkpoints.need(self.abstract)
    if self.training.start is not None:
      params = checkpoints_lib.load_params(
        self.training.start, self.abstract.params
      )
      state = state_lib.from_params(params, self.optimizer, self.abstract)
      return state, run_log.fresh()
    state = state_lib.create(
      self.spec, self.training.seed, self.optimizer, self.abstract
    )
    return state, run_log.fresh()

  def _run_steps(
    self,
    state: state_lib.State,
    checkpoints: checkpoints_lib.Checkpoints,
    batches: Prefetch,
    log: run_log.RunLog,
  ) -> None:
    training, first = self.training, log.step
    every = training.keep_every
    with contextlib.ExitStack() as stack:
      for step, batch in batches.run(first):
        state, report = self.train_step(state, np.int32(step), *batch)
        if step == first:  # Compiled: from now on there is progress to save.
          stack.enter_context(_stops_between_steps())
        # Not read yet, so that the device computes while the next batch is
        # placed.
        log.dispatched(report)
        done = step + 1
        last = done == training.steps
        evaluate = last or done % training.eval_every == 0
        # All processes ask at every step, and get the same answer.
        stop = _told_to_stop(done) and not last
        save = last or stop or done % training.save_every == 0
        # A checkpoint that stays need not be one of the regular saves.
        save |= bool(every) and done % every == 0
        if evaluate or save:
          # This step's loss is checked before its state is evaluated or saved.
          log.settle()
          # A best step is saved at once, also between two regular saves,
          # because the next step overwrites its parameters.
          better = evaluate and log.evaluated(self.evaluate(state.params))
          if save or better:
            checkpoints.save(done, state, log.record)
        if stop:
          checkpoints.wait()
          raise stopping.Stopped(stopping.requested() or stopping.Exit.STOPPED)
        if last:
          checkpoints.finish()

  def evaluate(self, params: state_lib.Arrays) -> np.ndarray:
    """Held-out sums, float64, see `loss.Objective.evaluation`."""
    # float64 on the host: float32 sums over many batches would lose digits.
    total = np.zeros(len(loss_lib.SUMS) + len(self.objective.names) + 1)
    for rows in heldout_batches(
      *(self.heldout, self.training.batch, self.max_len),
      *(self.training.eval_num, self.part_ids, self.num_parts),
    ):
      batch = place_batch(self.mesh, *rows, self.objective.world)
      total += np.asarray(self.eval_step(params, *batch), np.float64)
    return total


def _fit(
  model: core.Fittable,
  world: core.World,
  data: tuple[stores.Store, stores.Store],
  out: pathlib.Path,
) -> dict[str, Any]:
  """Fits a model by counting the training sequences, and keeps it."""
  start, path = time.perf_counter(), setup.fitted_model_path(out)
  # A run that was killed after counting goes on here.
  if path.exists():
    predictor = model.load(path, world)
  else:
    predictor = model.fit(data[0].chunks(), world)
    model.save(predictor, path)
  # Of each sequence all tokens but the first are predicted.
  tokens = int(data[0].manifest['tokens']) - len(data[0])
  seconds = time.perf_counter() - start
  heldout = run_log.means(loss_lib.fitted_sums(predictor, world, data[1]))
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
