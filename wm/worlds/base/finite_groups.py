"""Cyclic and permutation groups: elements, names, products, generators.

A group is named 'z2', 'z3', .. (cyclic; 'parity' is 'z2'), 's2' .. 's6' (all
permutations of 1..n) or 'a3' .. 'a6' (the even ones). Products are read from
left to right: what the first does, then what the second does.
"""

from __future__ import annotations

import itertools
import re
from typing import NamedTuple

import numpy as np

from wm import core

LARGEST = 720  # Elements of S6; tables hold the square of it.
AVAILABLE = f'parity, z2 to z{LARGEST}, s2 to s6, a3 to a6'
_SIZES = {'z': (2, LARGEST), 's': (2, 6), 'a': (3, 6)}


class Group(NamedTuple):
  """A finite group; row 0 of its elements is the identity.

  Attributes:
    kind: 'z', 's' or 'a'.
    degree: n.
    elements: [S, n] int32 images of 0..n - 1, in order; of a cyclic group
      [S, 1], the number itself.
    names: of every element: a number, or cycles of 1..n, 'e' the identity.
  """

  kind: str
  degree: int
  elements: np.ndarray
  names: tuple[str, ...]

  def products(self, rows: np.ndarray) -> np.ndarray:
    """[S, A] int32: row of each element times the elements in rows [A]."""
    elements, chosen = self.elements, self.elements[rows]
    if self.kind == 'z':
      return (elements + chosen.T) % len(elements)
    images = chosen.T[elements]  # [S, n, A]: second after first.
    places = elements.shape[1] ** np.arange(elements.shape[1])[::-1]
    codes = elements @ places  # Ascending, as rows are in order.
    rows_of_products = np.searchsorted(
      codes, np.tensordot(images, places, (1, 0))
    )
    return rows_of_products.astype(np.int32)

  def generators(self) -> np.ndarray:
    """[A] int32 rows, ascending: the identity and a few that generate all.

    1 of a cyclic group, (12) and (12..n) of Sn, (123) and the longest cycle
    of neighbours with n that is even of An.
    """
    if self.kind == 'z':
      return np.arange(2, dtype=np.int32)
    first = (0, 1) if self.kind == 's' else (0, 1, 2)
    start = 1 if self.kind == 'a' and self.degree % 2 == 0 else 0
    names = {'e', _cycle(first), _cycle(range(start, self.degree))}
    rows = [row for row, name in enumerate(self.names) if name in names]
    return np.array(rows, np.int32)


def kind_and_degree(name: str) -> tuple[str, int] | None:
  """'z', 's' or 'a' and n of a name; None where there is no such group."""
  text = 'z2' if name == 'parity' else name
  match = re.fullmatch('([zsa])([1-9][0-9]{0,2})', text)
  if match is None:
    return None
  kind, degree = match[1], int(match[2])
  least, most = _SIZES[kind]
  return (kind, degree) if least <= degree <= most else None


def make(name: str) -> Group:
  """The group of a name; raises InputError where there is no such group."""
  parsed = kind_and_degree(name)
  if parsed is None:
    raise core.InputError(f'group={name!r}; available: {AVAILABLE}')
  kind, size = parsed
  if kind == 'z':
    elements = np.arange(size, dtype=np.int32)[:, None]
    return Group(kind, size, elements, tuple(map(str, range(size))))
  elements = np.array([*itertools.permutations(range(size))], np.int32)
  if kind == 'a':
    elements = elements[~_odd(elements)]
  names = tuple(_cycles(images) for images in elements.tolist())
  return Group(kind, size, elements, names)


def _odd(permutations: np.ndarray) -> np.ndarray:
  """[N] bool: has a permutation [N, n] an odd number of inversions?"""
  first, second = np.triu_indices(permutations.shape[1], 1)
  wrong = permutations[:, first] > permutations[:, second]
  return wrong.sum(1) % 2 == 1


def _cycle(places: range | tuple[int, ...]) -> str:
  """Written form of one cycle of places 0.. ."""
  return '(' + ''.join(str(k + 1) for k in places) + ')'


def _cycles(images: list[int]) -> str:
  """Written form of a permutation, each cycle from its least place."""
  cycles, seen = '', set()
  for start in range(len(images)):
    place, path = start, []
    while place not in seen:
      seen.add(place)
      path.append(place)
      place = images[place]
    cycles += _cycle(tuple(path)) if len(path) > 1 else ''
  return cycles or 'e'
