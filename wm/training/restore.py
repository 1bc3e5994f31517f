"""Trained models as predictors."""

from __future__ import annotations

import pathlib
from typing import Any

from wm import core
from wm.core import registry
from wm.data import sampling
from wm.options.training import Training
from wm.runtime import files, threads
from wm.training import config

WHICH = ('best', 'last')


def load(
  run: str | pathlib.Path,
  which: str = 'best',
  world: core.World | None = None,
  model: str | None = None,
) -> tuple[core.TokenReader, dict[str, Any]]:
  """The predictor that a training run left, on however many devices there are.

  Args:
    run: the folder that was train's --out.
    which: 'best' (by held-out loss after the prompt) or 'last' checkpoint.
    world: to use it in; None is the world of the run. Another world with the
      same vocabulary (say, other traversals of one map) fits too. Where its
      sequences are longer than the run's, so is the predictor's max_len if
      the network has no parameters for places, else it stays the run's.
    model: spec that the run must be of; None is any.

  Returns:
    predictor: of the checkpoint.
    info: `step`, `heldout` (evaluation at that step or None), `checkpoint`
      (its folder), `sha256` (of its files) and `run` (OUT/train.run.json).

  Raises:
    InputError: no run there, an unknown `which`, a damaged checkpoint, or
      one that does not fit the model or the world.
  """
  run = pathlib.Path(run)
  if which not in WHICH:
    raise core.InputError(
      f'no checkpoint is called {which!r}; available: {", ".join(WHICH)}'
    )
  about = _about(run)
  chosen = None if model is None else registry.resolve('model', model)
  threads.fix(about.get('threads', Training.threads))
  trained = registry.make('model', about['model'])
  if chosen not in (None, trained):
    raise core.InputError(
      f'the model {model!r} does not fit the checkpoint in {run}, which is of '
      f'{about["model"]}'
    )
  world = world or registry.make('world', about['world'])
  if sampling.vocab_sha256(world) != about['vocab_sha256']:
    raise core.InputError(
      f'{run} was trained on the vocabulary of {about["world"]}; '
      f'{registry.spec(world)} has another'
    )
  while True:
    steps = _checkpoints(run)
    try:
      predictor, info = _predictor(run, which, world, trained, about)
    except core.InputError:
      if _checkpoints(run) == steps:
        raise
      continue  # A training that goes on took away what was being read.
    return predictor, {**info, 'run': about}


def _checkpoints(run: pathlib.Path) -> set[str]:
  """Names of those that are whole."""
  names = {path.name for path in (run / 'checkpoints').glob('*')}
  return {name for name in names if name.isdigit()}


def _about(run: pathlib.Path) -> dict[str, Any]:
  path = run / f'{config.STAGE}.run.json'
  if not path.exists():
    raise core.InputError(
      f'{run} holds no training run (no {path.name}); train one with '
      'launch/train.py'
    )
  return files.read_record(
    path,
    {'max_len': int, 'model': str, 'vocab_sha256': str, 'world': str},
    {'objective': str, 'seed': int, 'threads': int},
  )


def world_of(run: str | pathlib.Path) -> core.World:
  """The world of a training run; raises InputError where there is no run."""
  return registry.make('world', _about(pathlib.Path(run))['world'])


def digest(run: str | pathlib.Path, model: str, vocab_sha256: str) -> str:
  """SHA-256 of the best checkpoint of a run, which another one starts from.

  Raises:
    InputError: no run or checkpoint there, or it is of another model or
      vocabulary.
  """
  about = _about(pathlib.Path(run))
  for name, ours in (('model', model), ('vocab_sha256', vocab_sha256)):
    if about[name] != ours:
      raise core.InputError(
        f'start={str(run)!r} has {name} {about[name]!r}; expected {ours!r}'
      )
  store, step = _opened(run)
  try:
    return store.digest(step)
  finally:
    store.close()


def params(run: str | pathlib.Path, abstract: Any) -> Any:
  """Parameters of the best checkpoint of a run, on the devices of `abstract`.

  Raises:
    InputError: no checkpoint there, or it does not fit; see `digest`.
  """
  store, step = _opened(run)
  try:
    return store.params(step, abstract)
  finally:
    store.close()


def _opened(run: str | pathlib.Path) -> tuple[Any, int]:
  from wm.training import checkpoints

  store = checkpoints.Checkpoints(run, read_only=True)
  return store, _step(store, 'best')


def _predictor(
  run: pathlib.Path,
  which: str,
  world: core.World,
  model: Any,
  about: dict[str, Any],
) -> tuple[core.TokenReader, dict[str, Any]]:
  if isinstance(model, core.Fittable):
    path = config.fitted(run)
    # Hashed before it is read: what changes in between is then noticed.
    digest = files.sha256(path) if path.is_file() else ''
    info = {'step': 0, 'heldout': None, 'sha256': digest}
    return model.load(path, world), {**info, 'checkpoint': str(path)}
  if not isinstance(model, core.Trainable):
    raise core.InputError(
      f'{run} says that it trained {about["model"]}, which takes no training'
    )
  model.check_world(world)
  import jax

  from wm.models.nn import network
  from wm.models.serving import networks
  from wm.training import checkpoints
  from wm.training import state as state_lib

  store = checkpoints.Checkpoints(run, read_only=True)
  try:
    step = _step(store, which)
    by_state, max_len = about.get('objective') == 'state', about['max_len']
    outputs = 0
    if by_state:
      if not isinstance(world, core.Labelled):
        raise core.InputError(f'{world.name} gives its states no labels')
      outputs = sum(world.heads.sizes)
    shape = network.NetworkSpec(model, len(world.vocab), max_len, outputs)
    device = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    abstract = {
      path: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=device)
      for path, leaf in state_lib.shapes(shape).items()
    }
    params = state_lib.tree(shape, store.params(step, abstract))
    max_len = network.max_supported_length(shape, world.max_len)
    heldout = store.progress(step).get('heldout')
    digest = store.digest(step)
  finally:
    store.close()
  if heldout is not None and heldout['step'] != step:
    heldout = None
  predictor: core.TokenReader
  if by_state:
    predictor = networks.StateNamer(model, params, world, max_len)
  else:
    predictor = networks.NetworkPredictor(
      model, params, len(world.vocab), world.end, max_len
    )
  info = {'step': step, 'heldout': heldout, 'sha256': digest}
  return predictor, {**info, 'checkpoint': str(store.folder / str(step))}


def _step(store: Any, which: str) -> int:
  """Step of the best or last checkpoint."""
  step = store.last()
  if step is None:
    raise core.InputError(f'no checkpoint in {store.folder}')
  if which == 'best':
    best = store.progress(step)['best']
    step = best['step'] if best else step
  if step not in store.steps():
    raise core.InputError(
      f'checkpoint {store.folder / str(step)} is gone; available: '
      + ', '.join(str(other) for other in store.steps())
    )
  return step
