"""Checkpoints: Orbax folders by step, of which the best and last are kept.

    checkpoints/<step>/params       path -> array
    checkpoints/<step>/opt          the optimizer's state, likewise
    checkpoints/<step>/progress     JSON: step, best, open sums
    checkpoints/<step>/sha256.json  file -> hash

All is written to a temporary folder, the hashes last, and appears by one
rename. Arrays do not remember how they were divided over devices.
"""

from __future__ import annotations

import copy
import errno
import gc
import logging
import math
import pathlib
import shutil
import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax
import orbax.checkpoint as ocp

from wm import core
from wm.core import inputs
from wm.runtime import files
from wm.training import state as state_lib

HASHES = 'sha256.json'
# Orbax goes on to change these while it renames; they hold dates.
_DATED = ('_CHECKPOINT_METADATA', 'commit_success.txt')


def _hashes(folder: pathlib.Path) -> dict[str, str]:
  """Hash of each file of a checkpoint, but for those that do not matter."""
  paths = sorted(path for path in folder.rglob('*') if path.is_file())
  names = [str(path.relative_to(folder)) for path in paths]
  return {
    name: files.sha256(folder / name)
    for name in names
    if name not in (HASHES, *_DATED)
  }


# What errors say when a disk, a quota or a file-size limit is reached.
_FULL = ('RESOURCE_EXHAUSTED', 'No space left', 'File too large', 'Disk quota')
# TensorStore calls this RESOURCE_EXHAUSTED, too.
_FEW = 'Too many open files'
FILES = 128  # That Orbax and JAX may open: about 40, and some for each array.
_BESIDES = 1 << 17  # Bytes of a checkpoint that are not its arrays.


def _unsaid(record: logging.LogRecord) -> bool:
  """Is a remark of Orbax's threads not on a full disk? That one we make."""
  raised = record.exc_info[1] if record.exc_info else ''
  text = f'{record.getMessage()} {raised}'
  return not any(sign in text for sign in (*_FULL, _FEW))


def _hush() -> None:
  """Leaves a full disk to our one line: Orbax's threads are many."""
  for name in ('absl', 'asyncio'):
    logging.getLogger(name).addFilter(_unsaid)
  show = sys.unraisablehook
  if getattr(show, '__name__', '') == '_show_others':
    return

  def _show_others(raised: Any) -> None:
    # A failed write closes the loop that TensorStore's threads report to.
    if str(raised.exc_value) != 'Event loop is closed':
      show(raised)

  sys.unraisablehook = _show_others


def _limit(name: str) -> float:
  """What the system lets this process have; infinity where it has no limit.

  name: of the module `resource`, as RLIMIT_FSIZE.
  """
  try:
    import resource
  except ImportError:  # Not a Unix.
    return math.inf
  most = resource.getrlimit(getattr(resource, name))[0]
  return math.inf if most == resource.RLIM_INFINITY else most


def _need_files(folder: pathlib.Path) -> None:
  """Raises OSError where Orbax could not open the files that it needs."""
  if (most := _limit('RLIMIT_NOFILE')) < FILES:
    raise OSError(
      errno.EMFILE,
      f'{_FEW}: checkpoints need {FILES}, this process may have {most}',
      str(folder),
    )


class _BestAndLast:
  """Orbax preservation policy: the newest checkpoint and the best one."""

  def __init__(self) -> None:
    self.best: int | None = None

  def should_preserve(
    self, checkpoints: Sequence[Any], *, context: Any
  ) -> Sequence[bool]:
    del context
    newest = max((info.step for info in checkpoints), default=None)
    return [info.step in (self.best, newest) for info in checkpoints]


class Checkpoints:
  """The checkpoints of one run.

  Attributes:
    folder: where they are.
  """

  def __init__(self, out: str | pathlib.Path, *, read_only: bool) -> None:
    self.folder = (pathlib.Path(out) / 'checkpoints').absolute()
    _need_files(self.folder)
    if not read_only:
      _hush()
    self._policy = _BestAndLast()
    # Orbax has a `read_only` of its own, which warns of itself each time; what
    # neither makes its folder nor cleans it, and is not told to save, reads.
    options = ocp.CheckpointManagerOptions(
      preservation_policy=self._policy,
      create=not read_only,
      cleanup_tmp_directories=not read_only,
      async_options=ocp.AsyncOptions(
        post_finalization_callback=self._write_hashes
      ),
    )
    self._saving = 0
    self._verified: set[int] = set()
    handlers = {
      'params': ocp.StandardCheckpointHandler(),
      'opt': ocp.StandardCheckpointHandler(),
      'progress': ocp.JsonCheckpointHandler(),
    }
    self._manager = ocp.CheckpointManager(
      self.folder, options=options, item_handlers=handlers
    )

  def last(self) -> int | None:
    """Step of the newest checkpoint, or None."""
    return self._manager.latest_step()

  def steps(self) -> list[int]:
    """Steps of all checkpoints there are."""
    return sorted(self._manager.all_steps())

  def save(
    self, step: int, state: state_lib.State, progress: dict[str, Any]
  ) -> None:
    """Begins to write a checkpoint; the state may be given up at once.

    progress: JSON values, those of this moment; its `best` names the step of
      the best checkpoint.
    """
    # Orbax turns it into text in a thread of its own, while training goes on.
    progress = copy.deepcopy(progress)
    opt = state_lib.flatten(state.opt)
    self._policy.best = (progress['best'] or {}).get('step')
    args = ocp.args.Composite(
      params=ocp.args.StandardSave(state.params),
      opt=ocp.args.StandardSave(opt),
      progress=ocp.args.JsonSave(progress),
    )
    self.wait()
    self.need(state)
    self._saving = step
    self._write(lambda: self._manager.save(step, args=args))

  def _write_hashes(self) -> None:
    """Called by Orbax once all is written, before the rename."""
    if jax.process_index() == 0:
      (folder,) = self.folder.glob(f'{self._saving}.*tmp*')
      files.write_json(folder / HASHES, _hashes(folder))

  def verify(self, step: int) -> None:
    """Compares the files with their hashes; raises InputError."""
    folder = self.folder / str(step)
    if step in self._verified:
      return
    with self._whole(step):
      if not (folder / HASHES).exists():
        raise ValueError(f'it has no {HASHES}')
      hashes, actual = files.read_json(folder / HASHES), _hashes(folder)
      if not isinstance(hashes, dict):
        raise ValueError(f'{HASHES} is no record of hashes')
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
    return restored['progress']

  def params(self, step: int, abstract: state_lib.Shapes) -> state_lib.Arrays:
    """Parameters, placed as `abstract` says; raises InputError."""
    return self._arrays(step, 'params', abstract)

  def state(self, step: int, abstract: state_lib.State) -> state_lib.State:
    """The whole state, placed as `abstract` says; raises InputError."""
    params = self._arrays(step, 'params', abstract.params)
    flat = state_lib.flatten(abstract.opt)
    opt = self._arrays(step, 'opt', flat)
    treedef = jax.tree.structure(abstract.opt)
    return state_lib.State(
      params, jax.tree.unflatten(treedef, [opt[p] for p in flat])
    )

  def _arrays(
    self, step: int, item: str, abstract: state_lib.Shapes
  ) -> state_lib.Arrays:
    self.verify(step)
    self._fits(step, item, abstract)
    args = {item: ocp.args.StandardRestore(abstract)}
    return self._restore(step, ocp.args.Composite(**args))[item]

  def _fits(self, step: int, item: str, abstract: state_lib.Shapes) -> None:
    """Raises InputError where names or shapes are not the model's."""
    with self._whole(step):
      saved = self._manager.item_metadata(step)[item].tree
    for path in sorted(saved.keys() | abstract.keys()):
      have = tuple(saved[path].shape) if path in saved else 'nothing'
      want = tuple(abstract[path].shape) if path in abstract else 'nothing'
      if have != want:
        raise core.InputError(
          f'the model does not fit checkpoint {self.folder / str(step)}: '
          f'{path} is {have} there, the model has {want}'
        )

  def _restore(self, step: int, args: Any) -> Any:
    with self._whole(step):
      try:
        return self._manager.restore(step, args=args)
      except (ValueError, OSError) as error:
        if _FEW in str(error):
          raise OSError(errno.EMFILE, _FEW, str(self.folder)) from error
        raise

  def _whole(self, step: int) -> inputs.reading:
    """A context where an error says that files are cut, changed or gone."""
    others = [str(other) for other in self.steps() if other != step]
    hint = f'remove it to use another: {", ".join(others) or "there is none"}'
    return inputs.reading(
      f'checkpoint {self.folder / str(step)}', 'whole', hint
    )

  def need(self, state: state_lib.State) -> None:
    """Raises OSError where no checkpoint of this state (or shapes) fits."""
    size = _BESIDES + sum(
      leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state)
    )
    free = min(shutil.disk_usage(self.folder).free, _limit('RLIMIT_FSIZE'))
    if free < size:
      raise OSError(
        errno.ENOSPC,
        f'No space left on device: a checkpoint takes {size / 1e6:.3g} MB, '
        f'{free / 1e6:.3g} MB are free',
        str(self.folder),
      )

  def _write(self, act: Callable[[], Any]) -> None:
    """Does what may fail on a full disk; OSError, nothing left behind."""
    full = errno.ENOSPC, 'No space left on device'
    try:
      act()
      return
    except (ValueError, OSError) as error:
      if _FEW in str(error):
        full = errno.EMFILE, _FEW
      elif not any(sign in str(error) for sign in _FULL):
        raise
    # Out here the error has let go of Orbax's unfinished writes; they end
    # now, and not noisily as the interpreter does.
    gc.collect()
    for folder in self.folder.glob('*tmp*'):
      shutil.rmtree(folder, ignore_errors=True)
    raise OSError(*full, str(self.folder))

  def wait(self) -> None:
    """Until all is on disk; raises OSError if it is full."""
    self._write(self._manager.wait_until_finished)

  def close(self) -> None:
    """Waits, then frees threads."""
    self._write(self._manager.close)
