"""Constants, bad input, and randomness as a function of integers."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from typing import Any, Concatenate, TypeGuard, TypeVar, overload

import numpy as np

# A need of a metric or a model: a class, or an optional method of a class.
Need = type | Callable[..., Any]
_Class = TypeVar('_Class')
_Method = TypeVar('_Method', bound=Callable[..., Any])

DEAD = -1  # In every table: no such transition; as a token: none.
PAD = 0  # Token id of padding in every vocabulary; never legal.
OPTIMAL_TOLERANCE = 1e-6  # Relative; costs are sums of floats.

_LONGEST = 2000  # Characters of an InputError.

# How a sampled continuation ended; REFUSED: the second prefix rejected it.
ENDED, CAPPED, STUCK, REFUSED = 1, 2, 3, 4


def one_line(text: str, longest: int = 300) -> str:
  """A text as one printable line; a long text loses its middle.

  Control characters and lone surrogates are written as Python escapes.
  """
  text = ' '.join(text.split())
  if not text.isprintable():
    text = ''.join(
      char if char.isprintable() else ascii(char)[1:-1] for char in text
    )
  if len(text) <= longest:
    return text
  return f'{text[: longest - 25]} ... {text[-20:]}'


class InputError(ValueError):
  """Bad input; the one-line message names the input and what is expected."""

  def __init__(self, line: str = '') -> None:
    """Takes the message; it may quote input with any characters."""
    fits = line.isprintable() and len(line) <= _LONGEST
    super().__init__(line if fits else one_line(line, _LONGEST))


def plug_in_name(cls: type) -> str:
  """Name of a class in specs: its module, or FILE:CLASS for a user's file."""
  module = cls.__module__
  if module.endswith('.py'):  # The module's name is the file's path.
    return f'{module}:{cls.__name__}'
  # wm.worlds.chess, or a module in this package; plug-ins about language models
  # are in the package wm.language.models.
  parts = module.replace('wm.language.', 'wm.', 1).split('.')
  return parts[2] if parts[0] == 'wm' and len(parts) > 2 else parts[-1]


def section(doc: str | None, title: str) -> dict[str, str]:
  """Name -> text of the entries of a docstring's section, e.g. 'Attributes'."""
  _, _, text = inspect.cleandoc(doc or '').partition(f'{title}:\n')
  text = re.split(r'\n(?=\S)', text)[0]
  entries = re.finditer(r'^  (\w+): ((?:.+\n?)(?:   .*\n?)*)', text, re.M)
  return {entry[1]: ' '.join(entry[2].split()) for entry in entries}


def hash64(*words: np.ndarray | int) -> np.ndarray:
  """Mixes integers into uint64 hashes (splitmix64), broadcasting.

  The same on every machine, so splits, seeds and uniforms built on it do not
  depend on batch size, device count or library version.
  """
  mixed: np.ndarray | np.uint64 = np.uint64(0)
  with np.errstate(over='ignore'):
    for word in words:
      word = np.asarray(word)
      if word.dtype != np.uint64:
        word = word.astype(np.int64).astype(np.uint64)
      x = (mixed ^ word) + np.uint64(0x9E3779B97F4A7C15)
      x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
      x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
      mixed = x ^ (x >> np.uint64(31))
  return np.asarray(mixed)


def stream(seed: int, *words: int) -> int:
  """A non-negative integer seed for one use of randomness under `seed`."""
  return int(hash64(seed, *words) >> np.uint64(2))


def uniforms(*words: np.ndarray | int) -> np.ndarray:
  """Uniform float32 in [0, 1), a pure function of the integer `words`."""
  top = (hash64(*words) >> np.uint64(40)).astype(np.float32)
  return top * np.float32(2.0**-24)


def lowest(mask: np.ndarray, keys: np.ndarray, num: int) -> np.ndarray:
  """[..., n] bool: the `num` true places of each mask row with lowest keys.

  A row with fewer true places keeps all of them. Hashes as keys give a random
  subset.

  keys: [..., n] uint64, compared by their upper 63 bits.
  """
  # Places outside the mask, at 2**63, sort last.
  keys = np.where(mask, keys >> np.uint64(1), np.uint64(2**63))
  order = np.argsort(keys, axis=-1, kind='stable')[..., :num]
  chosen = np.zeros(mask.shape, bool)
  np.put_along_axis(chosen, order, True, -1)
  return chosen & mask


def listed(mask: np.ndarray, width: int = 0) -> np.ndarray:
  """[..., K] int32 true places of each row of a mask [..., n], ascending.

  Rows are padded with DEAD.

  width: K; 0 is the greatest number of places in a row, at least 1.
  """
  rows = mask.reshape(-1, mask.shape[-1])
  # np.nonzero goes row by row: a place's rank is within its row.
  #   mask  0 1 0 1      places  1 3
  #         0 0 1 0              2 DEAD
  row, place = np.nonzero(rows)
  sizes = rows.sum(-1)
  rank = np.arange(len(row)) - (np.cumsum(sizes) - sizes)[row]
  shape = len(rows), width or int(sizes.max(initial=1))
  places = np.full(shape, DEAD, np.int32)
  places[row, rank] = place
  return places.reshape(*mask.shape[:-1], shape[1])


def distinct(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Finds the U different rows of rows [R, W].

  Rows are compared by their bytes: np.unique(axis=0) goes column by column,
  which takes far longer for wide rows.

  Returns:
    first: [U] index of the first occurrence of each different row.
    index: [R] number, below U, of each row's value.
  """
  width = rows.dtype.itemsize * rows.shape[1]
  whole = np.ascontiguousarray(rows).view(np.dtype((np.void, width)))
  _, first, index = np.unique(
    whole.reshape(-1), return_index=True, return_inverse=True
  )
  return first, index.reshape(-1)


def optional(method: _Method) -> _Method:
  """Marks a method that subclasses may leave out; its body raises.

  `can(thing, Class.method)` tests whether a subclass defines it. An ability of
  one method therefore needs no class.
  """
  method.__isoptional__ = True  # type: ignore[attr-defined]
  return method


@overload
def can(thing: object, need: type[_Class]) -> TypeGuard[_Class]: ...


@overload
def can(
  thing: object, need: Callable[Concatenate[_Class, ...], Any]
) -> TypeGuard[_Class]: ...


@overload
def can(thing: object, need: Need) -> bool: ...


def can(thing: object, need: Need) -> bool:
  """Does an object, or a class, inherit a class or define a method?

  need: a class, or an `optional` method of a class.
  """
  cls = thing if isinstance(thing, type) else type(thing)
  if isinstance(need, type):
    return issubclass(cls, need)
  name = need.__name__
  return issubclass(cls, owner(need)) and getattr(cls, name) is not need


def owner(need: Need) -> type:
  """The class itself, or the class that declares the optional method."""
  if isinstance(need, type):
    return need
  cls: type = getattr(
    sys.modules[need.__module__], need.__qualname__.split('.')[0]
  )
  return cls
