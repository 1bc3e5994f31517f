"""Words over a finite group: the state is the product of the tokens so far.

    tokens   (12)  (123)   (12)         products from left to right: first
    state    (12)   (13)  (132)         the state acts, then the token

Every token is always legal, so legal next tokens do not depend on the state:
train and measure the state itself (`--objective=state`). The state update of a
model decides which groups it can follow at any length: parity needs negative
eigenvalues, S3 noncommuting updates, and A5 and S5 cannot be built from a
bounded depth of simpler updates (Merrill et al. 2024; Grazzi et al. 2025;
Walker et al. 2025). Train at one `length`, and score at longer ones.

A group is named 'z2', 'z3', .. (cyclic; 'parity' is 'z2'), 's2' .. 's6' (all
permutations of 1..n) or 'a3' .. 'a6' (the even ones). In a product the first
factor acts first.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from typing import ClassVar, NamedTuple

import numpy as np

from wm import core
from wm.core import basics
from wm.core.fields import field
from wm.worlds.base import sampling, table

LENGTH = 2  # Mixed into seeds, with the length.


@dataclasses.dataclass(frozen=True)
class World(table.NamedTableWorld):
  """Words of `length` tokens, each uniform over the group's tokens.

  Attributes:
    group: 'parity' or 'z2', 'z3', .. cyclic; 's2' .. 's6', all permutations;
      'a3' .. 'a6', the even permutations.
    tokens: elements that are tokens: 'all': every element; 'generators': the
      identity and generators of the group: 1 for a cyclic group; (12) and
      (12..n) for Sn; (123) and the longest even cycle of neighbours with n for
      An.
  """

  noun: ClassVar[str] = 'this group'

  group: str = 's3'
  tokens: str = field('all', choices=('all', 'generators'))
  length: int = field(64, 'tokens of every word', least=2, unit='tokens')

  def __post_init__(self) -> None:
    super().__post_init__()
    make_group(self.group)  # Raises where there is no such group.

  @functools.cached_property
  def _group(self) -> FiniteGroup:
    return make_group(self.group)

  @property
  def elements(self) -> np.ndarray:
    """[S, n] int32, see `FiniteGroup`."""
    return self._group.elements

  @property
  def names(self) -> tuple[str, ...]:
    """Names of all elements: a number, or cycles of 1..n; 'e': identity."""
    return self._group.names

  @functools.cached_property
  def chosen(self) -> np.ndarray:
    """[A] int32 rows of the elements that are tokens, ascending."""
    if self.tokens == 'all':
      return np.arange(len(self.elements), dtype=np.int32)
    return self._group.generators()

  @functools.cached_property
  def delta(self) -> np.ndarray:
    """[S, A] int32: row of the state's element times the token's."""
    return self._group.products(self.chosen)

  @functools.cached_property
  def vocab(self) -> tuple[str, ...]:
    """'<pad>' and the names of the tokens."""
    return ('<pad>', *(self.names[row] for row in self.chosen))

  # States.

  def sequence_labels(
    self, tokens: np.ndarray, lengths: np.ndarray
  ) -> np.ndarray:
    """[N, L, 1] row of the product after each token; see core.Labelled."""
    used = np.arange(tokens.shape[1]) < np.asarray(lengths)[:, None]
    if not ((tokens > 0) & (tokens <= len(self.chosen)) | ~used).all():
      return super().sequence_labels(tokens, lengths)
    labels = np.zeros((*tokens.shape, 1), self.heads.dtype)
    rows, columns = np.zeros(len(tokens), np.int32), np.where(used, tokens, 1)
    for k in range(tokens.shape[1]):
      rows = self.delta[rows, columns[:, k] - 1]
      labels[:, k, 0] = rows
    return labels * used[..., None]

  def sample(self, num: int, seed: int, split: str = 'all') -> core.Sequences:
    """Uniform words; words of different lengths are drawn independently."""
    mixed = int(basics.hash64(seed, LENGTH, self.length) >> np.uint64(2))
    return sampling.stream(self, num, mixed, split)

  def legal(self, states: np.ndarray) -> np.ndarray:
    """[B, V] bool: every token, unless dead."""
    legal = np.repeat(states[:, :1] >= 0, len(self.chosen) + 1, axis=1)
    legal[:, core.PAD] = False
    return legal

  def boundary(
    self,
    first: np.ndarray,
    second: np.ndarray,
    depth: int,
    published: bool = False,
  ) -> core.Boundary:
    """Empty for two live states: every token is legal in both."""
    live = (first >= 0) & (second >= 0)
    # From a dead state nothing is legal, so such a pair needs no search.
    first = np.where(live, core.DEAD, first)
    return super().boundary(first, second, depth, published)

  @functools.cached_property
  def _orders(self) -> np.ndarray:
    """[S] int64 order of each element."""
    every = np.arange(len(self.elements))
    products, power = self._group.products(every), every
    orders = np.ones(len(every), np.int64)
    while power.any():  # Row 0 is the identity.
      orders += power != 0
      # Once at the identity a power stays there.
      power = np.where(power != 0, products[power, every], 0)
    return orders

  def functions(self, states: np.ndarray) -> dict[str, np.ndarray]:
    """'order' of the product; each order is a class."""
    classes = np.unique(self._orders, return_inverse=True)[1]
    return {'order': classes[states[:, 0]].astype(np.int64)}


LARGEST = 720  # Elements of S6; tables have 720^2 entries.
AVAILABLE = f'parity, z2 to z{LARGEST}, s2 to s6, a3 to a6'
_SIZES = {'z': (2, LARGEST), 's': (2, 6), 'a': (3, 6)}


class FiniteGroup(NamedTuple):
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


def make_group(name: str) -> FiniteGroup:
  """The group of a name; raises InputError where there is no such group."""
  parsed = kind_and_degree(name)
  if parsed is None:
    raise core.InputError(f'group={name!r}; available: {AVAILABLE}')
  kind, size = parsed
  if kind == 'z':
    elements = np.arange(size, dtype=np.int32)[:, None]
    return FiniteGroup(kind, size, elements, tuple(map(str, range(size))))
  elements = np.array([*itertools.permutations(range(size))], np.int32)
  if kind == 'a':
    elements = elements[~_odd(elements)]
  names = tuple(_cycles(images) for images in elements.tolist())
  return FiniteGroup(kind, size, elements, names)


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
