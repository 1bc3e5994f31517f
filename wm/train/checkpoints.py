"""Checkpoints: Orbax folders by step, of which the best and last are kept.

    checkpoints/<step>/params     path -> array
    checkpoints/<step>/opt        the optimiser's state, likewise
    checkpoints/<step>/progress   JSON: step, best, open sums, checksums

A checkpoint appears by one rename once all of it is written. Arrays carry a
checksum that does not depend on how they were divided over devices, so damage
is found on restoring to any number of them.
"""

from __future__ import annotations

import functools
import json
import logging
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import orbax.checkpoint as ocp

from wm import core
from wm.train import state as state_lib

# What Orbax and TensorStore raise on files that are cut, changed or gone.
_DAMAGE = (
  ValueError,
  OSError,
  KeyError,
  TypeError,
  AttributeError,
  IndexError,
  AssertionError,
  RuntimeError,
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


@functools.partial(jax.jit, static_argnames='sharding')
def _checksum(x: jax.Array, sharding: Any) -> jax.Array:
  """uint32 [] sum of an array's words, each times an odd number of its own.

  Whole-number arithmetic modulo 2**32 gives the same in any order; an odd
  factor lets no change of a single word pass.
  """
  unsigned = {1: jnp.uint8, 2: jnp.uint16, 4: jnp.uint32}[x.dtype.itemsize]
  words = jax.lax.bitcast_convert_type(x, unsigned).astype(jnp.uint32)
  place, stride = jnp.zeros(x.shape, jnp.uint32), 1
  for axis in reversed(range(x.ndim)):
    index = jax.lax.broadcasted_iota(jnp.uint32, x.shape, axis)
    place += index * jnp.uint32(stride % 2**32)
    stride *= x.shape[axis]
  total = jnp.sum(words * (2 * place + 1), dtype=jnp.uint32)
  if sharding is not None:
    total = jax.lax.with_sharding_constraint(total, sharding)
  return total


def checksums(arrays: state_lib.Arrays) -> dict[str, int]:
  """Path -> checksum of an array's bits and shape order."""
  sums = {}
  for path, array in arrays.items():
    sharding = array.sharding
    if isinstance(sharding, jax.sharding.NamedSharding):
      everywhere = jax.sharding.PartitionSpec()
      sharding = jax.sharding.NamedSharding(sharding.mesh, everywhere)
    else:
      sharding = None
    sums[path] = _checksum(array, sharding)
  return {path: int(value) for path, value in jax.device_get(sums).items()}


class Checkpoints:
  """The checkpoints of one run.

  Attributes:
    folder: where they are.
  """

  def __init__(self, out: str | pathlib.Path, *, read_only: bool) -> None:
    # Orbax logs each save at length, and warns of what is meant here.
    logging.getLogger('absl').setLevel(logging.ERROR)
    self.folder = (pathlib.Path(out) / 'checkpoints').absolute()
    self._policy = _BestAndLast()
    options = ocp.CheckpointManagerOptions(
      preservation_policy=self._policy,
      create=not read_only,
      read_only=read_only,
      cleanup_tmp_directories=not read_only,
    )
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

    progress: JSON values; its `best` names the step of the best checkpoint.
    """
    opt = state_lib.flatten(state.opt)
    sums = {'params': checksums(state.params), 'opt': checksums(opt)}
    self._policy.best = (progress['best'] or {}).get('step')
    self._manager.save(
      step,
      args=ocp.args.Composite(
        params=ocp.args.StandardSave(state.params),
        opt=ocp.args.StandardSave(opt),
        progress=ocp.args.JsonSave({**progress, 'checksums': sums}),
      ),
    )

  def progress(self, step: int) -> dict[str, Any]:
    """The JSON record of a checkpoint; raises InputError if damaged."""
    restored = self._restore(
      step, ocp.args.Composite(progress=ocp.args.JsonRestore())
    )
    progress = restored['progress']
    known = {'step', 'best', 'checksums'}
    if not isinstance(progress, dict) or not known <= progress.keys():
      raise self._broken(step, 'its progress record is incomplete')
    return progress

  def params(self, step: int, abstract: state_lib.Shapes) -> state_lib.Arrays:
    """Parameters, placed as `abstract` says; raises InputError."""
    return self._arrays(step, 'params', abstract)

  def state(self, step: int, abstract: state_lib.State) -> state_lib.State:
    """The whole state, placed as `abstract` says; raises InputError."""
    params = self._arrays(step, 'params', abstract.params)
    flat = state_lib.flatten(abstract.opt)
    opt = self._arrays(step, 'opt', flat)
    treedef = jax.tree.structure(abstract.opt)
    return state_lib.State(params, treedef.unflatten(opt[p] for p in flat))

  def _arrays(
    self, step: int, item: str, abstract: state_lib.Shapes
  ) -> state_lib.Arrays:
    self._fits(step, item, abstract)
    restored = self._restore(
      step, ocp.args.Composite(**{item: ocp.args.StandardRestore(abstract)})
    )[item]
    expected = self.progress(step)['checksums'][item]
    for path, value in checksums(restored).items():
      if expected.get(path) != value:
        raise self._broken(step, f'the checksum of {item} {path} is wrong')
    return restored

  def _fits(self, step: int, item: str, abstract: state_lib.Shapes) -> None:
    """Raises InputError where names or shapes are not the model's."""
    found = self._guard(
      step, lambda: self._manager.item_metadata(step)[item].tree
    )
    for path in sorted(found.keys() | abstract.keys()):
      have = tuple(found[path].shape) if path in found else 'nothing'
      want = tuple(abstract[path].shape) if path in abstract else 'nothing'
      if have != want:
        raise core.InputError(
          f'the model does not fit checkpoint {self.folder / str(step)}: '
          f'{path} is {have} there, the model has {want}'
        )

  def _restore(self, step: int, args: Any) -> Any:
    return self._guard(step, lambda: self._manager.restore(step, args=args))

  def _guard(self, step: int, read: Callable[[], Any]) -> Any:
    try:
      return read()
    except (*_DAMAGE, json.JSONDecodeError) as error:
      raise self._broken(step, str(error) or repr(error)) from error

  def _broken(self, step: int, why: str) -> core.InputError:
    others = [str(other) for other in self.steps() if other != step]
    why = ' '.join(why.split())[:200]
    return core.InputError(
      f'checkpoint {self.folder / str(step)} is truncated or corrupt ({why}); '
      f'remove it to use another: {", ".join(others) or "there is none"}'
    )

  def wait(self) -> None:
    """Until all is on disk."""
    self._manager.wait_until_finished()

  def close(self) -> None:
    """Waits, then frees threads."""
    self._manager.close()
