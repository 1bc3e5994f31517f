"""Models trained elsewhere, kept as training runs that can be scored."""

from __future__ import annotations

import pathlib
from typing import Any

import jax.numpy as jnp
import numpy as np

from wm import core
from wm.core import inputs, registry
from wm.data import sampling
from wm.models.importers import gpt2 as gpt2_import
from wm.models.nn import network
from wm.runtime import files, locks
from wm.training import checkpoints, config, run_log, state


@locks.alone(config.STAGE)
def import_gpt2(
  path: str | pathlib.Path,
  world: str,
  out: str | pathlib.Path,
  *,
  model: str | None = None,
  vocab: str | pathlib.Path | None = None,
) -> dict[str, Any]:
  """Makes a PyTorch state dict in GPT-2 style the training run OUT.

  Args:
    path: file of the state dict, in the layout of GPT-2 or of minGPT (as
      Othello-GPT is); only weights are loaded.
    world: spec of the world whose words it knows.
    out: the run's folder, for launch/score.py.
    model: spec, where the heads are not one for every 64 of width.
    vocab: file of the checkpoint's words, one a line in order of id, first
      padding; None is the published order (of GPT-2's layout reverse
      lexicographic, of minGPT's the world's own: squares ascending).

  Returns:
    Summary: model, world, parameters, checkpoint.

  Raises:
    InputError: the file is unusable or does not fit model or world, or OUT
      holds another run.
  """
  place: core.World = registry.resolve('world', world)
  with inputs.reading(path, 'a state dict in GPT-2 style'):
    weights = gpt2_import.load(path)
    by_mingpt = gpt2_import.is_mingpt(weights)
    if by_mingpt:
      weights = gpt2_import.from_mingpt(weights, place.max_len)
      network_model = gpt2_import.infer(weights, mlp=gpt2_import.MINGPT_MLP)
    else:
      weights = gpt2_import.bare(weights, path)
      network_model = gpt2_import.infer(weights)
  if model is not None:
    chosen: core.Model = registry.resolve('model', model)
    if not isinstance(chosen, type(network_model)):
      raise core.InputError(f'{model!r} is no transformer(...)')
    chosen.check_world(place)
    network_model = chosen
  shape = network.NetworkSpec(network_model, len(place.vocab), place.max_len)
  ids = np.arange(len(place.vocab))
  if vocab is not None or not by_mingpt:
    ids = _ids(place, vocab)
  with inputs.reading(path, f'weights of {registry.spec(network_model)}'):
    params = gpt2_import.params(weights, shape, ids)
  files.claim(out, config.STAGE, _describe(path, place, network_model))
  store = checkpoints.Checkpoints(out, read_only=False)
  try:
    if store.last() is None:
      start = state.State(state.flatten(params), {'count': jnp.zeros(())})
      store.save(0, start, run_log.fresh())
      store.wait()
    folder = str(store.folder / str(store.last()))
  finally:
    store.close()
  return {
    'model': registry.spec(network_model),
    'world': registry.spec(place),
    'parameters': shape.num_params,
    'checkpoint': folder,
  }


def _ids(world: core.World, vocab: str | pathlib.Path | None) -> Any:
  """[V] the checkpoint's id of each token of the world."""
  if vocab is None:
    return gpt2_import.published_order(world.vocab)
  words = inputs.read_text(vocab, 'a file of words').split('\n')
  return gpt2_import.order(world.vocab, words)


def _describe(
  path: str | pathlib.Path, world: core.World, model: core.Model
) -> dict[str, Any]:
  return {
    'imported_sha256': files.sha256(path),
    'world': registry.spec(world),
    'world_version': world.version,
    'model': registry.spec(model),
    'model_version': model.version,
    'max_len': world.max_len,
    'vocab_sha256': sampling.vocab_sha256(world),
  }
