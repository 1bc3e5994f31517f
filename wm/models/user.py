"""A user's own model: any Python callable from tokens to logits."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import importlib.util
import os
import pathlib
import sys
import types
from collections.abc import Callable, Iterator
from typing import ClassVar

import numpy as np

from wm import core, predictors

EXPECTED = "expected function='package.module:name' or 'file.py:name'"


@contextlib.contextmanager
def _importable(folder: pathlib.Path) -> Iterator[None]:
  """Lets modules of a folder be imported, as `python file.py` does."""
  sys.path.insert(0, str(folder))
  try:
    yield
  finally:
    sys.path.remove(str(folder))


def _module(where: str) -> types.ModuleType:
  path = pathlib.Path(where)
  if path.suffix != '.py':
    try:
      with _importable(pathlib.Path.cwd()):
        return importlib.import_module(where)
    except ModuleNotFoundError as error:
      raise core.InputError(
        f'user model: no module {error.name!r} (from {where!r}); {EXPECTED}'
      ) from error
  if not path.is_file():
    raise core.InputError(f'user model: no file {where!r}; {EXPECTED}')
  spec = importlib.util.spec_from_file_location(path.stem, path)
  module = importlib.util.module_from_spec(spec)
  with _importable(path.resolve().parent):
    spec.loader.exec_module(module)
  return module


def load(function: str) -> Callable:
  """The callable behind 'package.module:name' or 'file.py:name'.

  Runs the user's module. Raises InputError where there is no such thing.
  """
  where, colon, attribute = function.rpartition(':')
  if not colon or not where or not attribute:
    raise core.InputError(f'user model: {function!r} was given; {EXPECTED}')
  found = _module(where)
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


def log_softmax(logits: np.ndarray) -> np.ndarray:
  """Log-softmax over the last axis, float32."""
  logits = logits.astype(np.float32)
  shifted = logits - logits.max(-1, keepdims=True)
  return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


class FromCallable(predictors.Stateless):
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
    self._function, self._rows, self._label = function, rows, label
    self.vocab_size, self.end, self.max_len = vocab_size, end, max_len

  def _call(self, tokens: np.ndarray) -> np.ndarray:
    expected = (*tokens.shape, self.vocab_size)
    logits = self._function(tokens)
    if hasattr(logits, 'detach'):  # A PyTorch tensor, on any device.
      logits = logits.detach().cpu().numpy()
    logits = np.asarray(logits)
    if logits.shape != expected or logits.dtype.kind not in 'fiu':
      raise core.InputError(
        f'{self._label} gave {logits.dtype} of shape {logits.shape} for tokens '
        f'{tokens.shape}; expected floats of shape [rows, length, vocabulary] '
        f'= {expected}'
      )
    return logits

  def _padded(self, longest: int) -> int:
    up = -(-longest // self.MULTIPLE) * self.MULTIPLE
    return max(longest, min(up, self.max_len))

  def _blocks(
    self, tokens: np.ndarray, lengths: np.ndarray
  ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields rows [R] of one padded length and their logits [R, L', V]."""
    padded = np.array([self._padded(int(n)) for n in lengths], int)
    for size in np.unique(padded):
      of_size = np.flatnonzero(padded == size)
      width = min(int(size), tokens.shape[1])
      for start in range(0, len(of_size), self._rows):
        rows = of_size[start : start + self._rows]
        used = np.arange(width) < lengths[rows, None]
        given = np.zeros((self._rows, int(size)), np.int32)
        given[: len(rows), :width] = np.where(
          used, tokens[rows, :width], core.PAD
        )
        yield rows, self._call(given)[: len(rows), :width]

  def _normal(self, logits: np.ndarray) -> np.ndarray:
    """Log-probabilities [P, V] from logits of P positions."""
    if not np.isfinite(logits.max(-1)).all():
      raise core.InputError(
        f'{self._label} gave NaN, or no finite logit, at some position; '
        'expected finite logits (-inf only for impossible tokens)'
      )
    return log_softmax(logits)

  def log_probs(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """See core.Predictor; InputError if the callable's output is no logits."""
    lengths = np.maximum(np.asarray(lengths), 1)
    out = np.full((*tokens.shape, self.vocab_size), -np.inf, np.float32)
    for rows, logits in self._blocks(tokens, lengths):
      row, at = np.nonzero(np.arange(logits.shape[1]) < lengths[rows, None])
      out[rows[row], at] = self._normal(logits[row, at])
    return out

  def last(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """See predictors.Stateless."""
    out = np.empty((len(tokens), self.vocab_size), np.float32)
    for rows, logits in self._blocks(tokens, np.asarray(lengths)):
      out[rows] = self._normal(logits[np.arange(len(rows)), lengths[rows] - 1])
    return out


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
  """

  version: ClassVar[str] = '1'

  function: str = ''
  max_len: int = 0
  rows: int = 16
  files: tuple[str, ...] | None = dataclasses.field(default=None, compare=False)

  def __post_init__(self) -> None:
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
    """See core.Model; InputError where function or a file is not found."""
    del seed
    for name in self.files or ():
      if not os.path.exists(name):
        raise core.InputError(f'user model: no file {name!r}, of files=')
    return FromCallable(
      load(self.function),
      vocab_size=len(world.vocab),
      end=world.end,
      max_len=self.max_len or world.max_len,
      rows=self.rows,
      label=f'user model {self.function!r}',
    )
