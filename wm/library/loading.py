"""Predictors from whatever names one: a run folder, a model, a spec."""

from __future__ import annotations

import dataclasses
import importlib
import os
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from wm import core
from wm.core import contract, inputs, plugins, registry
from wm.evaluation import results, scoring
from wm.evaluation.scoring import Loaded
from wm.models import user
from wm.models.serving import adapters, user_objects
from wm.models.serving.layout import PLAIN, InputLayout
from wm.options import option, shown, takes
from wm.options.calls import Amount, Count, Loading, Path
from wm.options.training import Training
from wm.runtime import compute, files, provenance


@dataclasses.dataclass(frozen=True)
class Run:
  """A training run.

  Attributes:
    folder: where it is, see `wm.training.checkpoints`.
    summary: losses, steps and speed at its end; `loop.train` lists the keys.
  """

  folder: pathlib.Path
  summary: dict[str, Any]

  def __fspath__(self) -> str:
    """The folder: a run is a path wherever one is expected."""
    return os.fspath(self.folder)

  def log(self) -> list[dict[str, float]]:
    """Rows of the run log: step, losses, learning rate; for a data frame."""
    from wm.training import run_log

    return run_log.read(self.folder / 'metrics.jsonl')


# Values of `checkpoint` that a model without training accepts and ignores.
IGNORED_CHECKPOINTS = 'best', 'last', 'none'
Source = Any  # A spec, a run's folder, a `Run`, or an object, see `wrap`.


@takes(loading=Loading)
def load_predictor(
  source: Source, world: core.World | str | None = None, *, loading: Loading
) -> Loaded:
  """The predictor that a training run left, or that a model is untrained.

  Args:
    source: a `Run` or the folder of one; or a model or its spec, which is
      taken as it is before training ('uniform()', 'oracle()', 'user(...)'); or
      a predictor or an object of your own, see `wrap`. A text that is an
      existing folder names a run.
    world: to use it in; None is the one that a run was trained on.
    loading: checkpoint of a run, 'best' by held-out loss after the prompt, or
      'last'; model, the spec that a run must be of, None is any; seed of
      untrained weights; name in tables, None is the model's own.

  Returns:
    Loaded; a second call with it gives it back.

  Raises:
    InputError: no such run or model, a damaged checkpoint, another
      vocabulary, or no world given where it takes one.
  """
  loaded = _loaded(source, world, loading)
  if loading.name is None:
    return loaded
  return dataclasses.replace(loaded, name=loading.name)


def _loaded(
  source: Source, world: core.World | str | None, loading: Loading
) -> Loaded:
  used_in = None if world is None else registry.resolve('world', world)
  if isinstance(source, Loaded):
    if used_in not in (None, source.world):
      raise core.InputError(
        f'{source.name} was loaded for {registry.spec(source.world)}, not for '
        f'{registry.spec(used_in)}; expected no other world'
      )
    return source
  if isinstance(source, Run):
    source = source.folder
  if _is_missing(source):
    raise core.InputError(
      f'{os.fspath(source)}: there is no such run; expected a folder that '
      'launch/train.py or wm.train wrote, a model such as uniform(), '
      "huggingface(path='FOLDER') or user(function='FILE.py:NAME'), or in a "
      'call the module itself'
    )
  if isinstance(source, os.PathLike) or (
    isinstance(source, str) and os.path.isdir(source)
  ):
    return _trained(pathlib.Path(source), used_in, loading)
  if isinstance(source, str):
    source = registry.resolve('model', source)
  if used_in is None:
    name = shown(source)
    if isinstance(source, core.Model):
      name = registry.spec(source)
    raise core.InputError(
      f"world is needed to use {name} in, such as 'maps()'; available: "
      + ', '.join(registry.names('world'))
    )
  if loading.checkpoint not in IGNORED_CHECKPOINTS:
    raise core.InputError(
      f'checkpoint={loading.checkpoint!r} of an untrained model; expected none'
    )
  if loading.model and registry.resolve('model', loading.model) != source:
    raise core.InputError(
      f'model={loading.model!r}: {shown(source)} is no training run of it'
    )
  if isinstance(source, core.TokenReader):
    label = type(source).__name__
    reader = source
    if not registry.is_ours(type(source)):
      reader = user.checked_reader(source, used_in, label)
    unknown = provenance.UNKNOWN
    return Loaded(reader, used_in, label, {'model_spec': label}, unknown)
  if not isinstance(source, core.Model):
    return wrap(source, used_in)
  return _untrained(registry.resolve('model', source), used_in, loading.seed)


def _is_missing(source: Source) -> bool:
  """Is it a path without a folder? Specs of files name a class there."""
  if isinstance(source, os.PathLike):
    return not os.path.isdir(source)
  if not isinstance(source, str) or os.path.isdir(source):
    return False
  is_path = os.sep in source or pathlib.Path(source).suffix != ''
  return is_path and '.py' not in source and '(' not in source


@dataclasses.dataclass(frozen=True)
class Checks:
  """How a user's model is checked: keywords of `wm.wrap`."""

  tolerance: float = option(
    contract.TOLERANCE,
    'nats by which log-probabilities may differ where they should not; a model '
    'that computes in 16 bits may need 0.1.',
  )
  copies: bool = option(
    False,
    'it may predict the token just read; otherwise that is reported as logits '
    'that are one position off.',
  )


@takes(checks=Checks)
def wrap(
  model: Any,
  world: core.World | str,
  *,
  max_len: Amount = 0,
  rows: Count = user.ROWS,
  tokens: Mapping[str, Any] | Sequence[str] | Path | None = None,
  layer: str | Sequence[str] = (),
  layout: InputLayout = PLAIN,
  checks: Checks,
) -> Loaded:
  """A model in memory as a predictor, checked to predict the next token.

  `wm.score(model, ...)` does this by itself; here are the settings. A model is
  a PyTorch module, a Flax module (nnx; linen as (module, params), or bound), a
  model of Hugging Face whose ids are the world's, or any function or object
  with some of these methods, R rows of L tokens, V of the world's vocabulary:

    __call__(tokens)                logits or log-probabilities [R, L, V] of the
                                    token after each of tokens [R, L] int32
    hidden(tokens, layer)           activations [R, L, D], which probes read
    patched(tokens, layer, hidden)  logits [R, L, V] from other activations on
    start(tokens, lengths)          R states and logits [R, V] after prefixes,
    step(states, tokens)            and after one more token each: a cache
    answers(prefixes, suffixes)     1, 0 or -1 (unknown) for each suffix: a
                                    model that only says yes and no

  Layer 0 is after the embedding, -1 the last. Rows are padded by 0 at the end;
  what is there must not matter. Modules learn small tasks by
  fine-tuning with a new head (AdamW; the metric has steps and rates), on
  `hidden` of the last layer if they have that, else on their logits. The
  weights of other functions and objects are unknown: they do not learn.

  Args:
    model: as above.
    world: whose token ids it reads; `wm.make('world', ...).vocab` lists them.
    max_len: longest input, in tokens; 0 is the world's.
    rows: rows of every call; by default a PyTorch module gets more at once.
    tokens: the model's id of each token of the world, where they are numbered
      differently, or a file of them (`wm.describe('model', 'user')`); or the
      names of the model's tokens in its order. Logits of other ids are left
      out. The id of <bos> is put before every sequence.
    layer: name of a submodule of a PyTorch module, such as 'blocks.2', or of
      several, which are layers 0, 1, ...: its output [R, L, D] is what probes
      read and interventions change, without a method `hidden` or `patched`.
    layout: what the model reads before a sequence, and its window:
      `wm.InputLayout(before=(50256,), window=1024)`. Scores have a caution
      where the loss says that it was trained in another.

  Raises:
    InputError: it is no such object, fails, or looks ahead.
  """
  thing, label = model, 'the model'
  head = thing[0] if isinstance(thing, tuple) and thing else thing
  if not isinstance(head, type):
    name = getattr(head, '__name__', type(head).__name__)
    label = name if name != '<lambda>' else 'function'
  if isinstance(head, type) or not (
    user_objects.usable(thing)
    or (isinstance(thing, tuple) and len(thing) == 2 and callable(head))
  ):
    what = (
      'a class'
      if isinstance(head, type)
      else (f'of type {type(thing).__name__}')
    )
    raise core.InputError(
      f'{shown(thing)} is {what}; expected '
      "a run's folder, a spec such as 'uniform()', a PyTorch or Flax module, a "
      'function from tokens [B, L] to logits [B, L, V], or an object with '
      'methods of wm.wrap'
    )
  if layer:
    names = (layer,) if isinstance(layer, str) else tuple(layer)
    thing = adapters.hooked(thing, names, label)
  used_in = registry.resolve('world', world)
  compute.prepare_jax()
  compute.fix_threads(Training.threads)
  settings: dict[str, Any] = {'max_len': max_len, 'rows': rows}
  settings |= {'tokens': tokens, 'layout': layout, **vars(checks)}
  reader = user.checked_predictor(thing, used_in, label, **settings)
  about = {'model_spec': label, 'checkpoint': 'none'}
  return Loaded(reader, used_in, label, about, provenance.UNKNOWN)


class Checked(NamedTuple):
  """What `check` came to.

  Attributes:
    name: of what was checked.
    passed: what was checked, and is as it should be.
    cautions: what stands beside scores of it.
  """

  name: str
  passed: tuple[str, ...]
  cautions: tuple[str, ...] = ()


def check(
  thing: Source | core.World, world: core.World | str | None = None
) -> Checked:
  """Checks a world or a model that is not wm's own, as scoring does by itself.

    wm.check('my_world.py:World()')
    wm.check(torch_module, 'maps()')

  A world is walked through at random: what it samples is legal, a token is
  legal exactly where `advance` lives on, equal states have equal ids, and the
  oracle scores 1. A model's logits, activations and continuations depend on
  the tokens before them only, whatever else is in the batch and however often
  it is asked, and are logits.

  Args:
    thing: a world or its spec; or, with `world`, whatever `score` takes.
    world: in which a model is used.

  Raises:
    InputError: what is wrong, in one line.
  """
  if world is None and not isinstance(thing, core.World):
    text = os.fspath(thing) if isinstance(thing, os.PathLike) else thing
    if not isinstance(text, str):
      raise core.InputError(
        f'world is needed to check {shown(thing)} in, such as maps()'
      )
    if not os.path.isdir(text):
      thing = registry.resolve('world', text)
  if world is None and isinstance(thing, core.World):
    spec = registry.spec(thing)
    # What a user's world raises comes as a line, too.
    with plugins.user_code(f'world {spec}'):
      contract.check_world(thing, f'world {spec}')
      scoring.check_oracle(thing)
    return Checked(spec, contract.OF_WORLDS)
  loaded = load_predictor(thing, world)
  terms = loaded.predictor.contract
  if terms is None:
    return Checked(loaded.name, ())
  return Checked(loaded.name, terms.checked, tuple(terms.cautions()))


def loaded_predictor(
  source: Source, world: core.World | str | None, loading: Loading
) -> tuple[Loaded, core.Predictor]:
  """As `load_predictor`; InputError for a model that gives no next tokens."""
  loaded = load_predictor(source, world, loading=loading)
  if not isinstance(loaded.predictor, core.Predictor):
    raise core.InputError(f'{loaded.name} names states, and no next tokens')
  return loaded, loaded.predictor


def is_trained(model: core.Model | str) -> bool:
  """Does it need training before it can be used?"""
  resolved = registry.resolve('model', model)
  return isinstance(resolved, core.Trainable | core.Fittable)


def _untrained(model: core.Model, world: core.World, seed: int) -> Loaded:
  compute.prepare_jax()
  compute.fix_threads(Training.threads)
  reader = provenance.Reader()
  if core.can(model.gives[0], core.QueryModel.ask):
    _know_providers()
  about = {'model_spec': registry.spec(model), 'checkpoint': 'none'}
  origin, before = reader.of(world, model), {*sys.modules}
  predictor = user.predictor(model, world, seed)
  origin = reader.with_loaded(origin, before)
  return Loaded(predictor, world, model.name, about, origin)


def _know_providers() -> None:
  """Loads providers of known answers, for clones that are not installed.

  Raises InputError where there is no inspect_ai.
  """
  with inputs.extra('language', 'a language model'):
    importlib.import_module('wm.language.registry')


def _trained(
  folder: pathlib.Path, world: core.World | None, loading: Loading
) -> Loaded:
  # Deferred: Orbax and Flax, which only a trained model needs.
  from wm.training import checkpoints

  compute.prepare_jax()
  reader = provenance.Reader()
  world = world or checkpoints.world_of(folder)
  if loading.checkpoint == 'none':
    return _untrained(checkpoints.model_of(folder), world, loading.seed)
  code = reader.of(world)  # Hashed before it is read.
  predictor, info = checkpoints.load(
    folder, loading.checkpoint, world, loading.model
  )
  run = info['run']
  recipe = {k: x for k, x in run.items() if k != 'seed'}
  about = {
    'model_spec': run['model'],
    'checkpoint': loading.checkpoint,
    'step': info['step'],
    'training': files.json_hash(run)[:16],
    'recipe': files.json_hash(recipe)[:16],
    'training_seed': run.get('seed'),
    **_status(folder, run),
  }
  resolved = registry.make('model', run['model'])
  origin = reader.of(resolved, code.inputs, {'checkpoint': info['sha256']})
  return Loaded(predictor, world, resolved.name, about, origin)


def _status(folder: pathlib.Path, run: Mapping[str, Any]) -> dict[str, Any]:
  """Fields of scores of a run that did not come to its last step; else none."""
  steps = run.get('steps', 0)
  if not steps or (folder / 'train.json').exists():
    return {}
  saved = [path.name for path in (folder / 'checkpoints').glob('*')]
  last = max((int(name) for name in saved if name.isdigit()), default=0)
  if last >= steps or not saved:
    return {}
  line = f'is still in training, at step {last:,} of {steps:,}'
  return {'status': results.PARTIAL, 'cautions': [line]}


def make(kind: str, text: str) -> Any:
  """The object of a spec; a file that it names is run, and trusted from now on.

  Args:
    kind: 'world', 'model', 'metric' or 'accept'.
    text: the spec.

  Raises:
    InputError: an unknown name or field, a value that does not fit, or a file
      that fails.

  >>> make('accept', 'epsilon(0.01)')
  epsilon(threshold=0.01)
  """
  return registry.resolve(kind, text)
