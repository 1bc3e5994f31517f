"""The training loop: from OUT/data to OUT/checkpoints.

Every random choice is a pure function of (seed, step), and a checkpoint holds
all that the rest of the run depends on; so a run killed at any moment goes on
to the same result.
"""

from __future__ import annotations

import hashlib
import math
import pathlib
import time
from typing import Any

import jax
import numpy as np

from wm import compile_cache, core, files, registry
from wm.data import batches as batches_lib
from wm.data import store as stores
from wm.train import checkpoints as checkpoints_lib
from wm.train import config as config_lib
from wm.train import feed as feed_lib
from wm.train import optimiser as optimiser_lib
from wm.train import state as state_lib
from wm.train import step as step_lib
from wm.train import writers

Config = config_lib.Config


class LossError(RuntimeError):
  """The loss is NaN or infinite; names step, batch and last checkpoint."""


def vocab_hash(world: core.World) -> str:
  """Short hash of a world's vocabulary, kept with what is trained on it."""
  return hashlib.sha256('\n'.join(world.vocab).encode()).hexdigest()[:16]


def describe(
  config: Config, world: core.World, model: core.Model, store: stores.Store
) -> dict[str, Any]:
  """What the run is: equal for two runs exactly when their results are."""
  shards = ''.join(s['tokens_sha256'] for s in store.manifest['shards'])
  return {
    **config.run(),
    'world': registry.spec(world),
    'world_version': world.version,
    'model': registry.spec(model),
    'model_version': model.version,
    'vocab': vocab_hash(world),
    'data': hashlib.sha256(shards.encode()).hexdigest()[:16],
  }


def open_data(
  out: pathlib.Path, world: core.World
) -> tuple[stores.Store, stores.Store]:
  """The run's (train, heldout) sequences, verified; raises InputError."""
  pair = []
  for split in ('train', 'heldout'):
    store = stores.open(out / 'data' / split)
    store.verify()
    made = store.manifest.get('world')
    if made not in (None, registry.spec(world)):
      raise core.InputError(
        f'{store.folder} was sampled from {made}, not {registry.spec(world)}'
      )
    pair.append(store)
  return tuple(pair)


def train(config: Config, out: str | pathlib.Path) -> dict[str, Any]:
  """Trains a model on OUT/data, or goes on with a run that was stopped.

  Returns:
    Summary: step, parameters, heldout_loss and best_loss in nats a token,
    best_step, tokens (real ones trained on here), seconds, tokens_per_s,
    first_step_s; also in OUT/train.json.

  Raises:
    InputError: unusable data, mesh or checkpoint, or OUT holds another run.
    LossError: the loss is not finite.
  """
  start = time.perf_counter()
  out = pathlib.Path(out)
  world = registry.make('world', config.world)
  model = registry.make('model', config.model)
  if not hasattr(model, 'fit') and not hasattr(model, 'build'):
    raise core.InputError(f'model {config.model!r} has nothing to train')
  stores_pair = open_data(out, world)
  run = describe(config, world, model, stores_pair[0])
  if hasattr(model, 'fit'):
    from wm.train import fit

    return fit.run(model, world, stores_pair, run, out)
  _start_jax(config)
  trainer = Trainer(config, world, model, stores_pair, out)
  files.claim(out, 'train', run)
  summary = trainer.run(start)
  if config.process_id == 0:
    files.write_json(out / 'train.json', summary)
  return summary


def _start_jax(config: Config) -> None:
  compile_cache.enable()
  if config.num_processes > 1:
    if not config.coordinator:
      raise core.InputError('--num_processes needs --coordinator=host:port')
    jax.distributed.initialize(
      config.coordinator, config.num_processes, config.process_id
    )


class Trainer:
  """One network run: everything compiled once, then `run`."""

  def __init__(
    self,
    config: Config,
    world: core.World,
    model: Any,
    pair: tuple[stores.Store, stores.Store],
    out: pathlib.Path,
  ) -> None:
    self.config, self.world, self.model, self.out = config, world, model, out
    self.mesh = state_lib.mesh(config.mesh_data, config.mesh_model)
    parts = self.mesh.shape['data']
    if config.batch % parts:
      raise core.InputError(
        f'a batch of {config.batch} cannot be divided over {parts} devices'
      )
    self.batches = batches_lib.Batches(
      pair[0], config.batch, config.seed, config.batching, feed_lib.MULTIPLE
    )
    self.heldout = pair[1]
    skeleton = state_lib.skeleton(model, world)
    shapes = skeleton.shapes
    self.parameters = state_lib.parameter_count(shapes)
    schedule = optimiser_lib.schedule(config)
    self.optimiser = optimiser_lib.make(config, shapes)
    self.abstract = state_lib.abstract_state(shapes, self.optimiser, self.mesh)
    prompt = world.prompt_len()
    self.train_step = step_lib.make_train_step(
      skeleton, self.optimiser, schedule, prompt, config.seed, self.abstract
    )
    self.eval_step = step_lib.make_eval_step(skeleton, prompt, self.abstract)

  def run(self, start: float) -> dict[str, Any]:
    """Restores or begins, trains to the end, and sums up."""
    checkpoints = checkpoints_lib.Checkpoints(self.out, read_only=False)
    try:
      state, book = self._begin(checkpoints)
      with _Books(self, book) as books:
        self._steps(state, checkpoints, books, start)
        return books.summary(self.parameters)
    finally:
      checkpoints.close()

  def _begin(self, checkpoints: checkpoints_lib.Checkpoints) -> tuple:
    step = checkpoints.last()
    if step is None:
      state = state_lib.create(
        self.model,
        self.world,
        self.config.seed,
        self.optimiser,
        self.abstract,
      )
      return state, fresh_book()
    book = checkpoints.progress(step)
    return checkpoints.state(step, self.abstract), book

  def _steps(
    self,
    state: state_lib.State,
    checkpoints: checkpoints_lib.Checkpoints,
    books: _Books,
    start: float,
  ) -> None:
    config = self.config
    with feed_lib.Feed(
      self.batches, self.mesh, self.world.max_len, config.steps
    ) as feed:
      books.watch(feed, checkpoints, start)
      for step, batch in feed.run(books.step):
        state, report = self.train_step(state, np.int32(step), *batch)
        # The devices work on this step while the host reads the one before.
        books.dispatched(report)
        done, last = step + 1, step + 1 == config.steps
        evaluate = done % config.eval_every == 0 or last
        if evaluate or done % config.save_every == 0:
          books.settle()
          better = evaluate and books.evaluated(self.evaluate(state.params))
          if better or done % config.save_every == 0 or last:
            checkpoints.save(done, state, books.book)

  def evaluate(self, params: state_lib.Arrays) -> np.ndarray:
    """[4] float64 held-out sums, see step.SUMS."""
    total = np.zeros(len(step_lib.SUMS))
    for tokens, lengths in feed_lib.heldout(
      self.heldout, self.config.batch, self.world.max_len
    ):
      batch = feed_lib.place(self.mesh, tokens, lengths)
      total += np.asarray(self.eval_step(params, *batch), np.float64)
    return total


def fresh_book() -> dict[str, Any]:
  """The record of a run at step 0; JSON values only."""
  return {'step': 0, 'best': None, 'heldout': None, 'open': [0.0] * 4}


def _means(sums: Any) -> dict[str, float]:
  """Loss per real token and per token after the prompt, in nats."""
  loss, tokens, loss_moves, tokens_moves = sums
  return {
    'loss': loss / max(tokens, 1),
    'loss_moves': loss_moves / max(tokens_moves, 1),
  }


class _Books:
  """The host's record of a run; a context that owns its writers.

  Attributes:
    book: JSON values that a checkpoint keeps: `step`, `best`, `heldout` (last
      evaluation) and `open` (sums since the last training line).
  """

  def __init__(self, trainer: Trainer, book: dict[str, Any]) -> None:
    self._config = trainer.config
    self._chief = trainer.config.process_id == 0
    self.book = {key: book[key] for key in fresh_book()}
    self._pending: jax.Array | None = None
    self._first_step_s = math.nan
    self._writer = (
      writers.Metrics(trainer.out, self.step) if self._chief else None
    )
    self._bar = writers.Progress(
      self.step, self._config.steps, show=self._chief
    )

  @property
  def step(self) -> int:
    """Updates that are known to be good."""
    return self.book['step']

  def watch(
    self,
    feed: feed_lib.Feed,
    checkpoints: checkpoints_lib.Checkpoints,
    start: float,
  ) -> None:
    """What an error names, and since when the first step is timed."""
    self._feed, self._checkpoints, self._start = feed, checkpoints, start

  def dispatched(self, report: jax.Array) -> None:
    """Takes note of the step before; keeps this one's report."""
    self.settle()
    self._pending = report

  def settle(self) -> None:
    """Waits for the kept report; raises LossError unless it is finite."""
    if self._pending is None:
      return
    report = np.asarray(self._pending).astype(float).tolist()
    self._pending = None
    named = dict(zip(step_lib.STEP, report, strict=True))
    step = self.book['step']
    if not (math.isfinite(named['loss']) and math.isfinite(named['grad_norm'])):
      self._stop(step, named)
    if math.isnan(self._first_step_s):
      self._first_step_s = time.perf_counter() - self._start
    self.book['step'] = step + 1
    self.book['open'] = [
      x + y for x, y in zip(self.book['open'], report[:4], strict=True)
    ]
    self._bar.update(int(named['tokens']), _means(report[:4])['loss'])
    if (step + 1) % self._config.log_every == 0:
      self._log(named)

  def _stop(self, step: int, named: dict[str, float]) -> None:
    self._checkpoints.wait()
    last = self._checkpoints.last()
    kept = (
      'no checkpoint yet'
      if last is None
      else f'last good checkpoint: {self._checkpoints.folder / str(last)}'
    )
    raise LossError(
      f'loss {named["loss"] / max(named["tokens"], 1)}, gradient norm '
      f'{named["grad_norm"]} at step {step + 1} (batch '
      f'{self._feed.digest(step)}); {kept}'
    )

  def _log(self, named: dict[str, float]) -> None:
    means = _means(self.book['open'])
    tokens = int(self.book['open'][1])
    self.book['open'] = [0.0] * 4
    if not self._writer:
      return
    self._writer.write(
      'train',
      self.step,
      **means,
      tokens=tokens,
      grad_norm=named['grad_norm'],
      lr=named['lr'],
    )
    rate = self._bar.tokens / max(self._bar.seconds, 1e-9)
    self._writer.chart('clock', self.step, tokens_per_s=rate)

  def evaluated(self, sums: np.ndarray) -> bool:
    """Notes a held-out evaluation; True if it is the best so far."""
    means = _means(sums.tolist())
    if not math.isfinite(means['loss']):
      raise LossError(f'held-out loss {means["loss"]} at step {self.step}')
    if self._writer:
      self._writer.write('heldout', self.step, **means, tokens=int(sums[1]))
    self.book['heldout'] = {'step': self.step, **means}
    best = self.book['best']
    if best is not None and means['loss'] >= best['loss']:
      return False
    self.book['best'] = self.book['heldout']
    return True

  def summary(self, parameters: int) -> dict[str, Any]:
    """What `train` returns."""
    best, heldout = self.book['best'] or {}, self.book['heldout'] or {}
    seconds = self._bar.seconds
    first = self._first_step_s
    return {
      'step': self.step,
      'parameters': parameters,
      'heldout_loss': heldout.get('loss'),
      'heldout_loss_moves': heldout.get('loss_moves'),
      'best_step': best.get('step'),
      'best_loss': best.get('loss'),
      'tokens': self._bar.tokens,
      'seconds': round(seconds, 3),
      'tokens_per_s': round(self._bar.tokens / max(seconds, 1e-9), 1),
      'first_step_s': None if math.isnan(first) else round(first, 3),
    }

  def __enter__(self) -> _Books:
    return self

  def __exit__(self, *error: object) -> None:
    self._bar.close()
    if self._writer:
      self._writer.close()
