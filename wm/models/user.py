"""A user's own model: any Python callable from tokens to logits."""

from __future__ import annotations

import dataclasses
import importlib
import os
import pathlib
import types
from collections.abc import Callable, Iterator
from typing import ClassVar

import numpy as np

from wm import core
from wm.core import plugins, registry
from wm.models.serving import stateless, user_checks

EXPECTED = "expected function='package.module:name' or 'file.py:name'"
# Spacing of numbers next to 1, of floats narrower than float32.
_NARROW = {'bfloat16': 2**-7, 'float16': 2**-10}


def _label(function: str) -> str:
  return f'user model {plugins.shortened(function)!r}'


def load(function: str) -> Callable:
  """The callable behind 'package.module:name' or 'file.py:name'.

  Runs the user's module. Raises InputError where there is no such thing, or
  the module fails, with its file and line.
  """
  where, colon, attribute = function.rpartition(':')
  if not colon or not where or not attribute:
    raise core.InputError(f'user model: {function!r} was given; {EXPECTED}')
  label = _label(function)
  if where.endswith('.py'):
    found = plugins.load(where, label)
  else:
    found = _imported(where, label)
  for name in attribute.split('.'):
    if not hasattr(found, name):
      known = [key for key in vars(found) if not key.startswith('_')]
      raise core.InputError(
        f'user model: {where!r} has no {attribute!r}; '
        f'available: {", ".join(known) or "nothing"}'
      )
    found = getattr(found, name)
  if not callable(found):
    raise core.InputError(f'user model: {function!r} is not callable')
  return found


def _imported(where: str, label: str) -> types.ModuleType:
  with plugins.blamed(label), plugins.importable(pathlib.Path.cwd()):
    try:
      return importlib.import_module(where)
    except ModuleNotFoundError as error:
      if not f'{where}.'.startswith(f'{error.name}.'):
        raise  # By a line of the user's.
      raise core.InputError(
        f'{label}: no module {error.name!r} (from {where!r}); {EXPECTED}'
      ) from error


def log_softmax(logits: np.ndarray) -> np.ndarray:
  """Log-softmax over the last axis, float32."""
  logits = logits.astype(np.float32)
  shifted = logits - logits.max(-1, keepdims=True)
  return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


class FromCallable(stateless.Stateless):
  """Any callable, tokens [R, L] int32 -> logits [R, L, V], as a predictor.

  The callable must be causal: position t may depend on tokens[:, :t + 1]
  only, as rows are padded at the end. It is always called with exactly
  `rows` rows, each padded to a multiple of 16 tokens that depends on its own
  length only, so that results do not depend on how trials were batched.
  """

  MULTIPLE = 16

  def __init__(
    self,
    function: Callable[[np.ndarray], np.ndarray],
    *,
    vocab_size: int,
    end: int,
    max_len: int,
    rows: int = 16,
    label: str = 'the callable',
  ) -> None:
    """label: what errors call it; rows: batch size of every call."""
    if rows < 1:
      raise core.InputError(f'{label}: rows={rows} was given; expected >= 1')
    self._function, self.rows, self.label = function, rows, label
    self.vocab_size, self.end, self.max_len = vocab_size, end, max_len
    self.spacing = 2**-23
    self._place = plugins.placed(function)

  def logits(self, tokens: np.ndarray) -> np.ndarray:
    """[rows, L, V] what the callable gives for tokens [rows, L].

    Floats, or integers; of 16 bits they come as float32. Raises InputError
    where it fails or gives something else.
    """
    with (
      plugins.blamed(self.label, self._function),
      np.errstate(all='ignore'),  # NaN is refused, -inf is allowed.
    ):
      logits = self._function(tokens.copy())
      width = str(getattr(logits, 'dtype', '')).rpartition('.')[2]
      self.spacing = _NARROW.get(width, 2**-23)
      if hasattr(logits, 'detach'):  # A PyTorch tensor, on any device.
        logits = logits.detach().cpu()
        logits = (logits.float() if width in _NARROW else logits).numpy()
      logits = np.asarray(logits)
      if width in _NARROW:
        logits = logits.astype(np.float32)
    expected = (*tokens.shape, self.vocab_size)
    if logits.shape != expected or logits.dtype.kind not in 'fiu':
      raise core.InputError(
        f'{self._place}{self.label} gave {logits.dtype} of shape '
        f'{logits.shape} for tokens {tokens.shape}; expected floats of shape '
        f'[rows, length, vocabulary] = {expected}'
      )
    return logits

  def padded(self, longest: int) -> int:
    """Length of the input that a row of `longest` tokens is padded to."""
    up = -(-longest // self.MULTIPLE) * self.MULTIPLE
    return max(longest, min(up, self.max_len))

  def _blocks(
    self, tokens: np.ndarray, lengths: np.ndarray
  ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields rows [R] of one padded length and their logits [R, L', V]."""
    padded = np.array([self.padded(int(n)) for n in lengths], int)
    for size in np.unique(padded):
      of_size = np.flatnonzero(padded == size)
      width = min(int(size), tokens.shape[1])
      for start in range(0, len(of_size), self.rows):
        rows = of_size[start : start + self.rows]
        used = np.arange(width) < lengths[rows, None]
        given = np.zeros((self.rows, int(size)), np.int32)
        given[: len(rows), :width] = np.where(
          used, tokens[rows, :width], core.PAD
        )
        yield rows, self.logits(given)[: len(rows), :width]

  def normal(self, logits: np.ndarray) -> np.ndarray:
    """Log-probabilities [P, V] from logits of P positions."""
    if not np.isfinite(logits.max(-1)).all():
      raise core.InputError(
        f'{self._place}{self.label} gave NaN, or no finite logit, at some '
        'position; expected finite logits (-inf only for impossible tokens)'
      )
    return log_softmax(logits)

  def log_probs(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """See core.Predictor; InputError if the callable's output is no logits."""
    lengths = np.maximum(np.asarray(lengths), 1)
    out = np.full((*tokens.shape, self.vocab_size), -np.inf, np.float32)
    for rows, logits in self._blocks(tokens, lengths):
      row, at = np.nonzero(np.arange(logits.shape[1]) < lengths[rows, None])
      out[rows[row], at] = self.normal(logits[row, at])
    return out

  def last(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """See stateless.Stateless."""
    out = np.empty((len(tokens), self.vocab_size), np.float32)
    for rows, logits in self._blocks(tokens, np.asarray(lengths)):
      out[rows] = self.normal(logits[np.arange(len(rows)), lengths[rows] - 1])
    return out


def check(
  predictor: core.Predictor,
  world: core.World,
  label: str,
  *,
  tolerance: float = user_checks.TOLERANCE,
  copies: bool = False,
) -> None:
  """Raises InputError where a predictor is none, see `user_checks`.

  Args:
    predictor: that a user wrote.
    world: whose sequences it is asked about.
    label: what errors call it.
    tolerance: greatest difference of log-probabilities, in nats, times the
      size of the greatest logit where that is above 1.
    copies: it means to say the last token again.
  """
  if predictor.vocab_size != len(world.vocab):
    return  # For the metrics to say.
  if not tolerance > 0:
    raise core.InputError(
      f'{label}: tolerance={tolerance} was given; expected nats, above 0'
    )
  longest = min(predictor.max_len, world.max_len)
  if isinstance(predictor, FromCallable):
    ask, rows = _logits(predictor, tolerance), predictor.rows
    sizes = {predictor.padded(1), predictor.padded(longest)}
  else:
    ask, rows = _log_probs(predictor, tolerance), user_checks.ROWS
    sizes = {min(FromCallable.MULTIPLE, longest), longest}
  user_checks.Checks(
    ask, rows, tuple(sorted(sizes)), predictor.vocab_size, label, copies
  ).run(world)


def _logits(predictor: FromCallable, tolerance: float) -> user_checks.Ask:
  def ask(given: user_checks.Input) -> user_checks.Found:
    logits = predictor.logits(given.tokens)
    logits = np.take_along_axis(logits, given.at[..., None], 1)
    found = predictor.normal(logits)
    least = max(tolerance, 8 * predictor.spacing)
    return user_checks.Found(
      found, least * np.maximum(np.abs(logits.max(-1)), 1)
    )

  return ask


def _log_probs(predictor: core.Predictor, tolerance: float) -> user_checks.Ask:
  def ask(given: user_checks.Input) -> user_checks.Found:
    found = np.asarray(predictor.log_probs(given.tokens, given.lengths))
    found = np.take_along_axis(found, given.at[..., None], 1)
    return user_checks.Found(found, np.full(given.at.shape, tolerance))

  return ask


@dataclasses.dataclass(frozen=True)
class Model(core.Model):
  """Tokens [rows, L] int32 -> logits [rows, L, V]; causal.

  Attributes:
    function: 'package.module:name' or 'file.py:name'.
    max_len: longest input it takes, in tokens; 0 is the world's.
    rows: batch size of every call; the last one is filled up with pads.
    files: paths of all files that it reads, such as weights; () where it reads
      none. Results are kept as long as these, and the function's module with
      what it imports, stay the same. None: not said, so nothing is kept.
    tolerance: nats by which log-probabilities may differ where they should
      not, times the greatest logit where that is above 1. Of logits of 16
      bits, eight of their spacings if that is more. A model that computes in
      16 bits and gives 32 may need 0.1.
    copies: it means to say the last token again, or is untrained with tied
      embeddings; being sure of that token is else taken for logits that are
      shifted by one.
  """

  version: ClassVar[str] = '1'

  function: str = ''
  max_len: int = 0
  rows: int = 16
  files: tuple[str, ...] | None = dataclasses.field(default=None, compare=False)
  tolerance: float = user_checks.TOLERANCE
  copies: bool = False

  def __post_init__(self) -> None:
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

  def undeclared(self) -> str:
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
        refused by `check`.
    """
    del seed
    for name in self.files or ():
      if not os.path.exists(name):
        name = plugins.shortened(name)
        raise core.InputError(f'user model: no file {name!r}, of files=')
    label = _label(self.function)
    found = FromCallable(
      load(self.function),
      vocab_size=len(world.vocab),
      end=world.end,
      max_len=self.max_len or world.max_len,
      rows=self.rows,
      label=label,
    )
    given = {'tolerance': self.tolerance, 'copies': self.copies}
    check(found, world, label, **given)
    return found


def predictor(
  model: core.Model, world: core.World, seed: int
) -> core.Predictor:
  """What `model.predictor` gives; of a model in a user's own file, checked.

  Raises InputError where `check` refuses it. That it says the last token again
  is taken for what it means.
  """
  found = model.predictor(world, seed)
  if registry.is_file(model.name):
    check(found, world, f'model {model.name!r}', copies=True)
  return found
