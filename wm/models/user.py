"""A user's own model: a function from tokens to logits, or an object.

Methods of an object are listed in `wm.models.serving.user_objects`: logits,
activations, a cache, or yes-or-no answers.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
import pathlib
import types
from typing import Any, ClassVar

from wm import core
from wm.core import inputs, plugins, registry, resources
from wm.models.serving import checks, stateless, user_objects

EXPECTED = "expected function='package.module:name' or 'file.py:name'"


def _label(function: str) -> str:
  return f'user model {plugins.shortened(function)!r}'


def load(function: str) -> Any:
  """The object named by 'package.module:name' or 'file.py:name'.

  Runs the user's module. Raises InputError where there is no such thing, or
  the module fails, with its file and line.
  """
  where, colon, attribute = function.rpartition(':')
  if not colon or not where or not attribute:
    raise core.InputError(f'user model: {function!r} was given; {EXPECTED}')
  label = _label(function)
  # A file is run by its path, a module looked up as `import` does.
  if where.endswith('.py'):
    thing = plugins.load(where, label)
  else:
    thing = _imported(where, label)
  with plugins.user_code(label):
    for name in attribute.split('.'):
      if not hasattr(thing, name):
        public = [key for key in dir(thing) if not key.startswith('_')]
        raise core.InputError(
          f'user model: {where!r} has no {attribute!r}; '
          f'available: {", ".join(public) or "nothing"}'
        )
      thing = getattr(thing, name)
    if not user_objects.usable(thing):
      raise core.InputError(
        f'user model: {function!r} is of type {type(thing).__name__}; '
        f'{user_objects.EXPECTED}'
      )
  return thing


def _imported(where: str, label: str) -> types.ModuleType:
  with plugins.user_code(label), plugins.import_path(pathlib.Path.cwd()):
    try:
      return importlib.import_module(where)
    except ModuleNotFoundError as error:
      if not f'{where}.'.startswith(f'{error.name}.'):
        raise  # By a line of the user's.
      raise core.InputError(
        f'{label}: no module {error.name!r} (from {where!r}); {EXPECTED}'
      ) from error


@dataclasses.dataclass(frozen=True)
class Model(core.Model):
  """Tokens [rows, L] int32 -> logits [rows, L, V], causal; or an object.

  Attributes:
    function: 'package.module:name' or 'file.py:name'.
    max_len: longest input it takes, in tokens; 0 is the world's.
    rows: batch size of every call; the last one is filled up with pads.
    files: paths of all files that it reads, such as weights; () for none.
      Results are cached as long as these, and the function's module with its
      imports, stay the same. None: unknown, so no result is cached.
    tolerance: nats by which log-probabilities may differ where they should
      not, times the greatest logit where that is above 1. Of logits of 16
      bits, eight of their spacings if that is more. A model that computes in
      16 bits and gives 32 may need 0.1.
    copies: True if the model may legitimately predict the last input token, as
      an untrained one with tied embeddings does; otherwise this is reported as
      an off-by-one error in its logits.
  """

  version: ClassVar[str] = '1'
  gives: ClassVar[tuple[type, ...]] = (
    user_objects.FromCallable,
    user_objects.CachedWithHidden,
    user_objects.WithPatched,
    stateless.Accepting,
  )

  function: str = ''
  max_len: int = 0
  rows: int = 16
  files: tuple[str, ...] | None = dataclasses.field(default=None, compare=False)
  tolerance: float = checks.TOLERANCE
  copies: bool = False

  def cost(self, world: core.World | None = None) -> core.Cost:
    """See core.Bounded: tokens and logits of a call."""
    length, vocab = (world.max_len, len(world.vocab)) if world else (1, 2)
    return core.Cost(4 * self.rows * length * (1 + vocab), 0, ('rows',))

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.max_len < 0:
      raise core.InputError(
        f"user model: max_len={self.max_len} was given; expected 0, the world's"
        ', or more'
      )
    names = self.files
    if names is not None and not (
      isinstance(names, tuple) and all(isinstance(n, str) for n in names)
    ):
      raise core.InputError(
        f'user model: files={names!r} was given; expected a tuple of paths, '
        "such as files=('weights.pt',), or files=() for none"
      )

  def code(self) -> tuple[str, ...]:
    """See core.Model."""
    return (self.function.rpartition(':')[0],)

  def undeclared_inputs(self) -> str:
    """See core.Model."""
    if self.files is not None:
      return ''
    return (
      'a user model without files= does not say what files it reads '
      "(files=('weights.pt',); files=() for none)"
    )

  def predictor(self, world: core.World, seed: int) -> core.Predictor:
    """See core.Model.

    Raises:
      InputError: `function` or a file is not found, the function fails, or is
        refused by `checks.check`.
    """
    del seed
    resources.require(self, world)
    for name in self.files or ():
      if not os.path.exists(name):
        name = plugins.shortened(name)
        raise core.InputError(f'user model: no file {name!r}, of files=')
      if not os.path.isdir(name):
        with inputs.reading_file(name, 'a file, of files=') as path:
          path.open('rb').close()
    label = _label(self.function)
    with plugins.user_code(label):  # An object may fail where it is looked at.
      reader = user_objects.predictor(
        load(self.function),
        vocab_size=len(world.vocab),
        end=world.end,
        max_len=self.max_len or world.max_len,
        rows=self.rows,
        label=label,
      )
    # Answers alone give no probabilities to be checked.
    if not isinstance(reader, core.QueryModel):
      checks.check(
        reader, world, label, tolerance=self.tolerance, copies=self.copies
      )
    if isinstance(reader, user_objects.Cached):
      user_objects.check_cache(reader, world, self.tolerance)
    return reader


def predictor(
  model: core.Model, world: core.World, seed: int
) -> core.TokenReader:
  """The predictor of a model; that of a user's own file is checked.

  Raises InputError where `checks.check` refuses it. It may predict the last
  input token.
  """
  reader = model.predictor(world, seed)
  if registry.is_file(model.name) and isinstance(reader, core.Predictor):
    checks.check(reader, world, f'model {model.name!r}', copies=True)
  return reader
