"""Checkpoints: Orbax folders by step. The best and the last stay, and those of
`Training.keep`.

    checkpoints/<step>/params       path -> array
    checkpoints/<step>/opt          the optimizer's state, likewise; after the
                                    end of training only with the last step
    checkpoints/<step>/progress     JSON: step, best, open sums
    checkpoints/<step>/sha256.json  file -> hash

A checkpoint is written to a temporary folder, the hashes last, and renamed once
complete. Arrays are stored independently of their sharding over devices. `load`
returns the predictor of a training run.
"""

from __future__ import annotations

import contextlib
import copy
import errno
import gc
import logging
import math
import os
import pathlib
import re
import shutil
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
from jax.experimental import multihost_utils

from wm import core
from wm.core import inputs, registry, schema
from wm.models.nn import network
from wm.models.serving import networks
from wm.options.training import Training
from wm.runtime import compute, exit_codes, files
from wm.training import setup
from wm.training import state as state_lib

HASHES = 'sha256.json'
# Orbax changes these files, which hold dates, while it renames.
_DATED = ('_CHECKPOINT_METADATA', 'commit_success.txt')


def _hashes(folder: pathlib.Path) -> dict[str, str]:
  """File -> hash, for all files of a checkpoint except `_DATED`."""
  paths = sorted(path for path in folder.rglob('*') if path.is_file())
  names = [str(path.relative_to(folder)) for path in paths]
  return {
    name: files.sha256(folder / name)
    for name in names
    if name not in (HASHES, *_DATED)
  }


# Messages of errors when a disk, a quota or a file-size limit is reached.
_FULL = ('RESOURCE_EXHAUSTED', 'No space left', 'File too large', 'Disk quota')
# TensorStore reports this as RESOURCE_EXHAUSTED, too.
_FEW = 'Too many open files'
_TENSORSTORE = re.compile(r"os_error_code='(\d+)'")
FILES = 128  # Files that Orbax and JAX may open: about 40, and some per array.
# Timeout of Orbax's waits, which use the wall clock: somebody may set it.
_PATIENCE = int(threading.TIMEOUT_MAX)  # Seconds.
_BESIDES = 1 << 17  # Bytes of a checkpoint besides its arrays.
_GONE = '.opt.orbax-checkpoint-tmp'  # After a step: removed next.


def _refusal(error: object) -> int | None:
  """errno of a failed write; None for other errors.

  error: an exception, or the text of one.
  """
  text = str(error)
  if _FEW in text:
    return errno.EMFILE
  if any(sign in text for sign in _FULL):
    return errno.ENOSPC
  match = _TENSORSTORE.search(text)
  number = (
    error.errno if isinstance(error, OSError) else match and int(match[1])
  )
  return number if exit_codes.is_of_disk(number) else None


def _unsaid(record: logging.LogRecord) -> bool:
  """Is a log record of Orbax not about a failed write? We report those."""
  raised = record.exc_info[1] if record.exc_info else None
  return _refusal(raised) is None and _refusal(record.getMessage()) is None


def _hush() -> None:
  """Silences Orbax's threads about failed writes, which we report in a line."""
  for name in ('absl', 'asyncio'):
    logging.getLogger(name).addFilter(_unsaid)
  show = sys.unraisablehook
  if getattr(show, '__name__', '') == '_show_others':
    return

  def _show_others(raised: Any) -> None:
    # A failure closes the event loop to which TensorStore's threads report.
    if str(raised.exc_value) != 'Event loop is closed':
      show(raised)

  sys.unraisablehook = _show_others


def _limit(name: str) -> float:
  """A resource limit of this process; infinity without a limit.

  name: a name in the module `resource`, such as RLIMIT_FSIZE.
  """
  try:
    import resource
  except ImportError:  # Not a Unix.
    return math.inf
  most = resource.getrlimit(getattr(resource, name))[0]
  return math.inf if most == resource.RLIM_INFINITY else most


def _need_files(folder: pathlib.Path) -> None:
  """Raises OSError if Orbax could not open the files that it needs."""
  if (most := _limit('RLIMIT_NOFILE')) < FILES:
    raise OSError(
      errno.EMFILE,
      f'{_FEW}: checkpoints need {FILES}, this process may have {most}',
      str(folder),
    )


def _gathered(x: jax.Array) -> np.ndarray:
  """Gathers an array from all processes to each of them."""
  whole: np.ndarray = multihost_utils.process_allgather(x, tiled=True)
  return whole


class _BestAndLast:
  """Orbax preservation policy: the newest checkpoint and the best one.

  Attributes:
    best: step of the best checkpoint.
    every: those of each so many steps stay, too; 0: none.
  """

  def __init__(self, every: int) -> None:
    self.best: int | None = None
    self.every = every

  def stays(self, step: int, *others: int | None) -> bool:
    """Whether a checkpoint stays: one of `others`, or of each `every` steps."""
    return step in others or bool(self.every and step % self.every == 0)

  def should_preserve(
    self, checkpoints: Sequence[Any], *, context: Any
  ) -> Sequence[bool]:
    del context
    newest = max((info.step for info in checkpoints), default=None)
    return [self.stays(info.step, self.best, newest) for info in checkpoints]


class Checkpoints:
  """The checkpoints of one run.

  Attributes:
    folder: where they are.
  """

  def __init__(
    self,
    out: str | pathlib.Path,
    *,
    read_only: bool,
    separate: bool = False,
    every: int = 0,
  ) -> None:
    """Opens them.

    Args:
      out: folder of the run.
      read_only: save no checkpoint.
      separate: each of several processes has its own `out`, with the same
        checkpoints at first; the first process saves for all.
      every: steps between checkpoints that stay; 0: the best and the last.
    """
    self.folder = (pathlib.Path(out) / 'checkpoints').absolute()
    _need_files(self.folder)
    _hush()
    self._policy, self._separate = _BestAndLast(every), separate
    ours = ocp.options.MultiprocessingOptions()
    if separate:
      # With one process, Orbax neither waits for others nor makes a folder.
      process = jax.process_index()
      ours = ocp.options.MultiprocessingOptions(
        process, {process}, f'process{process}'
      )
      self.folder.mkdir(parents=True, exist_ok=True)
      # Removes leftovers of a killed process; for a shared folder Orbax does.
      for folder in self.folder.glob('*tmp*'):
        shutil.rmtree(folder, ignore_errors=True)
    # Orbax's own `read_only` logs a warning each time. A manager that neither
    # creates nor cleans its folder, and is never told to save, only reads.
    options = ocp.CheckpointManagerOptions(
      preservation_policy=self._policy,
      create=not (read_only or separate),
      cleanup_tmp_directories=not (read_only or separate),
      multiprocessing_options=ours,
      async_options=ocp.AsyncOptions(
        post_finalization_callback=self._write_hashes,
        timeout_secs=_PATIENCE,
        create_directories_asynchronously=False,
      ),
    )
    self._saving = 0
    self._verified: set[int] = set()
    handlers = {
      'params': ocp.StandardCheckpointHandler(multiprocessing_options=ours),
      'opt': ocp.StandardCheckpointHandler(multiprocessing_options=ours),
      'progress': ocp.JsonCheckpointHandler(multiprocessing_options=ours),
    }
    with inputs.reading(self.folder, 'a folder of checkpoints'):
      self._manager = ocp.CheckpointManager(
        self.folder, options=options, item_handlers=handlers
      )

  def last(self) -> int | None:
    """Step of the newest checkpoint, or None."""
    return self._manager.latest_step()

  def steps(self) -> list[int]:
    """Steps of all checkpoints there are."""
    return sorted(self._manager.all_steps())

  def chosen(self, which: str) -> int:
    """Step of a checkpoint; raises InputError if there is none.

    which: 'best', 'last' or a number of steps.
    """
    step = self.last()
    if step is None:
      raise core.InputError(f'no checkpoint in {self.folder}')
    # Refused below if it was not kept.
    if which.isdecimal():
      step = int(which)
    # A run that was never evaluated has no best checkpoint: use its last.
    if which == 'best':
      best = self.progress(step)['best']
      step = best['step'] if best else step
    if step not in self.steps():
      raise core.InputError(
        f'checkpoint {self.folder / str(step)} is gone; available: '
        + ', '.join(str(other) for other in self.steps())
      )
    return step

  def save(
    self, step: int, state: state_lib.State, progress: dict[str, Any]
  ) -> None:
    """Starts to write a checkpoint; the state may be donated at once.

    progress: present JSON values; its `best` has the step of the best
      checkpoint.
    """
    # Orbax serializes it in another thread while training goes on.
    progress = copy.deepcopy(progress)
    if self._separate:
      # An array at a time: no device holds more than its share and one array.
      state = jax.tree.map(_gathered, state)
      if jax.process_index():
        return
    # Flat, by path, so that a restore does not depend on optax's classes.
    opt = network.flatten(state.opt)
    # Orbax deletes while it saves, so the best step must be known before.
    self._policy.best = (progress['best'] or {}).get('step')
    args = ocp.args.Composite(
      params=ocp.args.StandardSave(state.params),
      opt=ocp.args.StandardSave(opt),
      progress=ocp.args.JsonSave(progress),
    )
    # One write at a time: free space is checked after the last write.
    self.wait()
    self.need(state)
    self._saving = step
    self._write(lambda: self._manager.save(step, args=args))

  def remove_old(self, last: int, progress: dict[str, Any]) -> None:
    """Removes those that do not stay; a killed process may leave more.

    progress: progress of the last checkpoint.
    """
    best = (progress['best'] or {}).get('step')
    for folder in self.folder.glob(f'*{_GONE}'):
      shutil.rmtree(folder, ignore_errors=True)
    for step in self.steps():
      if not self._policy.stays(step, last, best):
        self._manager.delete(step)

  def finish(self) -> None:
    """Training has ended: only the last keeps the optimizer's state, from which
    more steps may go on. It is two thirds of a checkpoint.
    """
    self.wait()
    if jax.process_index():
      return
    for step in self.steps()[:-1]:
      with contextlib.suppress(FileNotFoundError):
        # One rename, so that a killed process leaves all or nothing of it.
        gone = self.folder / f'{step}{_GONE}'
        os.replace(self.folder / str(step) / 'opt', gone)
        shutil.rmtree(gone)

  def _write_hashes(self) -> None:
    """Called by Orbax after writing, before the rename."""
    # One of several hosts writes, in the folder that Orbax is about to rename,
    # so that a checkpoint under its final name always has its hashes.
    if jax.process_index() == 0:
      (folder,) = self.folder.glob(f'{self._saving}.*tmp*')
      files.write_json(folder / HASHES, _hashes(folder))

  def verify(self, step: int) -> None:
    """Compares the files with their hashes; raises InputError."""
    folder = self.folder / str(step)
    # Hashing reads all files: once per step is enough for a process.
    if step in self._verified:
      return
    with self._reading(step):
      if not (folder / HASHES).exists():
        raise ValueError(f'it has no {HASHES}')
      hashes, actual = files.read_record(folder / HASHES, {}), _hashes(folder)
      if not (folder / 'opt').exists():  # See `finish`.
        hashes = {k: x for k, x in hashes.items() if not k.startswith('opt/')}
      # Both ways: a file that was added or lost is damage, too.
      for name in sorted(hashes.keys() | actual.keys()):
        if hashes.get(name) != actual.get(name):
          raise ValueError(f'the hash of {name} is wrong')
    self._verified.add(step)

  def digest(self, step: int) -> str:
    """Hex digest of all files' hashes; raises InputError if damaged."""
    self.verify(step)
    return files.sha256(self.folder / str(step) / HASHES)

  def progress(self, step: int) -> dict[str, Any]:
    """The JSON record of a checkpoint; raises InputError if damaged."""
    self.verify(step)
    restored = self._restore(
      step, ocp.args.Composite(progress=ocp.args.JsonRestore())
    )
    where = f'checkpoint {self.folder / str(step)}: progress'
    progress = dict(schema.check(restored['progress'], _PROGRESS, where))
    if progress['best']:
      schema.check(progress['best'], _BEST, where, 'best')
    return progress

  def params(self, step: int, abstract: state_lib.Shapes) -> state_lib.Arrays:
    """Parameters, placed as `abstract` says; raises InputError."""
    return self._arrays(step, 'params', abstract)

  def state(self, step: int, abstract: state_lib.State) -> state_lib.State:
    """The whole state, placed as `abstract` says; raises InputError."""
    params = self._arrays(step, 'params', abstract.params)
    if not (self.folder / str(step) / 'opt').is_dir():
      raise core.InputError(
        f'checkpoint {self.folder / str(step)} has no state of the optimizer, '
        'as training ended later; expected the last one, or --start=RUN'
      )
    flat = network.flatten(abstract.opt)
    opt = self._arrays(step, 'opt', flat)
    # opt is saved flat, by path: rebuilt in the optimizer's own tree.
    treedef = jax.tree.structure(abstract.opt)
    return state_lib.State(
      params, jax.tree.unflatten(treedef, [opt[p] for p in flat])
    )

  def _arrays(
    self, step: int, item: str, abstract: state_lib.Shapes
  ) -> state_lib.Arrays:
    self.verify(step)
    # Checked before reading: the error names a weight and both shapes.
    self._fits(step, item, abstract)
    args = {item: ocp.args.StandardRestore(abstract)}
    return self._restore(step, ocp.args.Composite(**args))[item]

  def _fits(self, step: int, item: str, abstract: state_lib.Shapes) -> None:
    """Raises InputError if names or shapes are not the model's."""
    with self._reading(step):
      tree = self._manager.item_metadata(step)[item].tree
      saved = {path: tuple(leaf.shape) for path, leaf in tree.items()}
    for path in sorted(saved.keys() | abstract.keys()):
      have = saved.get(path, 'nothing')
      want = tuple(abstract[path].shape) if path in abstract else 'nothing'
      if have != want:
        raise core.InputError(
          f'the model does not fit checkpoint {self.folder / str(step)}: '
          f'{path} is {have} there, the model has {want}'
        )

  def _restore(self, step: int, args: Any) -> Any:
    with self._reading(step):
      try:
        return self._manager.restore(step, args=args)
      except (ValueError, OSError) as error:
        # The files are complete: this is not damage.
        if _FEW in str(error):
          raise OSError(errno.EMFILE, _FEW, str(self.folder)) from error
        raise

  def _reading(self, step: int) -> inputs.reading:
    """Context in which an error means truncated, changed or missing files."""
    others = [str(other) for other in self.steps() if other != step]
    hint = f'remove it to use another: {", ".join(others) or "there is none"}'
    return inputs.reading(
      f'checkpoint {self.folder / str(step)}', 'whole', hint
    )

  def need(self, state: state_lib.State) -> None:
    """Raises OSError if a checkpoint of this state (or shapes) does not fit."""
    size = _BESIDES + sum(
      leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state)
    )
    # Checked beforehand: Orbax reports a full disk late, from a thread.
    free = min(shutil.disk_usage(self.folder).free, _limit('RLIMIT_FSIZE'))
    if free < size:
      raise OSError(
        errno.ENOSPC,
        f'No space left on device: a checkpoint takes {size / 1e6:.3g} MB, '
        f'{free / 1e6:.3g} MB are free',
        str(self.folder),
      )

  def _write(self, act: Callable[[], Any]) -> None:
    """Runs a write; raises OSError, without leftovers, if the disk refuses."""
    try:
      act()
      return
    except (ValueError, OSError) as error:
      number = _refusal(error)
      if number is None:
        raise
    # The error no longer references Orbax's unfinished writes: collecting them
    # here avoids noise when the interpreter ends.
    gc.collect()
    for folder in self.folder.glob('*tmp*'):
      shutil.rmtree(folder, ignore_errors=True)
    raise OSError(
      number,
      f'{os.strerror(number)}: a checkpoint was not written; the same command '
      'goes on from the last one',
      str(self.folder),
    )

  def wait(self) -> None:
    """Waits until all is on disk; raises OSError if the disk refuses."""
    self._write(self._manager.wait_until_finished)

  def close(self) -> None:
    """Waits for writes, then stops threads."""
    self._write(self._manager.close)


WHICH = ('best', 'last')
_BEST = schema.Object({'step': int})
_PROGRESS = schema.Object({'best': dict | None})


def load(
  run: str | pathlib.Path,
  which: str = 'best',
  world: core.World | None = None,
  model: str | None = None,
) -> tuple[core.TokenReader, dict[str, Any]]:
  """Loads the predictor of a training run, on any number of devices.

  Args:
    run: the --out folder of training.
    which: 'best' (by held-out loss after the prompt), 'last', or the number of
      steps of a checkpoint that was kept.
    world: world to use it in; None is the world of the run. Another world with
      the same vocabulary (say, other traversals of one map) fits too. If its
      sequences are longer than the run's, the predictor's max_len is longer
      too, unless the network has position parameters.
    model: spec that the run must have; None is any.

  Returns:
    predictor: predictor of the checkpoint.
    info: `step`, `heldout` (evaluation at that step or None), `checkpoint`
      (its folder), `sha256` (of its files) and `run` (OUT/train.run.json).

  Raises:
    InputError: no run in the folder, an unknown `which`, a damaged checkpoint,
      or one that does not fit the model or the world.
  """
  run = pathlib.Path(run)
  if which not in WHICH and not which.isdecimal():
    raise core.InputError(
      f'no checkpoint is called {which!r}; available: {", ".join(WHICH)}, or a '
      'number of steps'
    )
  about = _about(run)
  chosen = None if model is None else registry.resolve('model', model)
  # With the run's number of threads, scores agree to the bit with the run's
  # evaluation.
  compute.fix_threads(about.get('threads', Training.threads))
  trained = registry.make('model', about['model'])
  if chosen not in (None, trained):
    raise core.InputError(
      f'the model {model!r} does not fit the checkpoint in {run}, which is of '
      f'{about["model"]}'
    )
  world = world or registry.make('world', about['world'])
  if core.world.vocab_sha256(world) != about['vocab_sha256']:
    raise core.InputError(
      f'{run} was trained on the vocabulary of {about["world"]}; '
      f'{registry.spec(world)} has another'
    )
  # A run that is still training may delete checkpoints while they are read: an
  # error counts only if the list of checkpoints has not changed.
  while True:
    steps = _checkpoints(run)
    try:
      predictor, info = _predictor(run, which, world, trained, about)
    except core.InputError:
      if _checkpoints(run) == steps:
        raise
      continue  # Running training has deleted the checkpoint being read.
    return predictor, {**info, 'run': about}


def _checkpoints(run: pathlib.Path) -> set[str]:
  """Names of complete checkpoints."""
  names = {path.name for path in (run / 'checkpoints').glob('*')}
  return {name for name in names if name.isdigit()}


def _about(run: pathlib.Path) -> dict[str, Any]:
  path = run / f'{setup.STAGE}.run.json'
  if not path.exists():
    raise core.InputError(
      f'{run} holds no training run (no {path.name}); train one with '
      'launch/train.py'
    )
  return files.read_record(
    path,
    {'max_len': int, 'model': str, 'vocab_sha256': str, 'world': str},
    {'objective': str, 'seed': int, 'threads': schema.Number(int, 1, 1024)},
  )


def world_of(run: str | pathlib.Path) -> core.World:
  """The world of a training run; raises InputError if there is no run."""
  return registry.make('world', _about(pathlib.Path(run))['world'])


def model_of(run: str | pathlib.Path) -> core.Model:
  """The model of a training run; raises InputError if there is no run."""
  return registry.make('model', _about(pathlib.Path(run))['model'])


def steps(run: str | pathlib.Path) -> list[int]:
  """Steps of all checkpoints of a run, ascending."""
  return sorted(map(int, _checkpoints(pathlib.Path(run))))


def _start(path: str | pathlib.Path) -> tuple[pathlib.Path, str]:
  """The run and the checkpoint that RUN or RUN/checkpoints/STEP names."""
  # A run may be called by a number, too: its folder is not `checkpoints`.
  path = pathlib.Path(path)
  if path.name.isdecimal() and path.parent.name == 'checkpoints':
    return path.parent.parent, path.name
  return path, 'best'


def digest(path: str | pathlib.Path, model: str, vocab_sha256: str) -> str:
  """SHA-256 of the checkpoint from which another run starts.

  path: of a run, whose best checkpoint counts, or RUN/checkpoints/STEP.

  Raises:
    InputError: no run or checkpoint in the folder, or one of another model or
      vocabulary.
  """
  run, which = _start(path)
  about = _about(run)
  for name, ours in (('model', model), ('vocab_sha256', vocab_sha256)):
    if about[name] != ours:
      raise core.InputError(
        f'start={str(path)!r} has {name} {about[name]!r}; expected {ours!r}'
      )
  with contextlib.closing(Checkpoints(run, read_only=True)) as store:
    return store.digest(store.chosen(which))


def load_params(path: str | pathlib.Path, abstract: Any) -> Any:
  """Parameters of a checkpoint, see `digest`, on the devices of `abstract`.

  Raises:
    InputError: no checkpoint, or one that does not fit; see `digest`.
  """
  run, which = _start(path)
  with contextlib.closing(Checkpoints(run, read_only=True)) as store:
    return store.params(store.chosen(which), abstract)


def _predictor(
  run: pathlib.Path,
  which: str,
  world: core.World,
  model: Any,
  about: dict[str, Any],
) -> tuple[core.TokenReader, dict[str, Any]]:
  if isinstance(model, core.Fittable):
    path = setup.fitted_model_path(run)
    # Hashed before reading, so that a later change is noticed.
    digest = files.sha256(path) if path.is_file() else ''
    info = {'step': 0, 'heldout': None, 'sha256': digest}
    return model.load(path, world), {**info, 'checkpoint': str(path)}
  if not isinstance(model, core.Trainable):
    raise core.InputError(
      f'{run} says that it trained {about["model"]}, which takes no training'
    )
  model.check_world(world)
  with contextlib.closing(Checkpoints(run, read_only=True)) as store:
    step = store.chosen(which)
    by_state, max_len = about.get('objective') == 'state', about['max_len']
    outputs = 0
    if by_state:
      if not isinstance(world, core.Labelled):
        raise core.InputError(f'{world.name} gives its states no labels')
      outputs = sum(world.heads.sizes)
    spec = network.NetworkSpec(model, len(world.vocab), max_len, outputs)
    # On one placement, for any training mesh: tiles copy it to others.
    where = network.placements(spec.num_bytes, jax.local_devices())[0]
    shardings = network.weight_shardings(spec.shapes, where)
    abstract = {
      path: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=of)
      for (path, leaf), of in zip(
        spec.shapes.items(), shardings.values(), strict=True
      )
    }
    params = spec.tree(store.params(step, abstract))
    max_len = network.max_supported_length(spec, world.max_len)
    heldout = store.progress(step).get('heldout')
    digest = store.digest(step)
  # The record has the latest evaluation, which may be of an earlier step.
  if heldout is not None and heldout['step'] != step:
    heldout = None
  predictor: core.TokenReader
  if by_state:
    predictor = networks.NetworkStatePredictor(model, params, world, max_len)
  else:
    predictor = networks.NetworkPredictor(
      model, params, len(world.vocab), world.end, max_len
    )
  info = {'step': step, 'heldout': heldout, 'sha256': digest}
  return predictor, {**info, 'checkpoint': str(store.folder / str(step))}
