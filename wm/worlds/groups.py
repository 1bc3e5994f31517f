"""Words over a finite group: the state is the product of the tokens so far.

    tokens   (12)  (123)   (12)         read from left to right: what the
    state    (12)   (13)  (132)         state does, then what the token does

Every token is always legal, so the next one says nothing about the state:
train and measure the state itself (`--objective=state`). Which groups a model
can follow at any length is what its state update can express: parity needs a
sign, S3 more than what commutes, A5 and S5 what no bounded depth of simpler
updates gives (Merrill et al. 2024; Grazzi et al. 2025; Walker et al. 2025).
Train at one `length`, score at longer ones.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import ClassVar

import numpy as np

from wm import core
from wm.core import basics, resources
from wm.core.fields import field
from wm.worlds.base import finite_groups, sampling, svg, table

LENGTH = 2  # Mixed into seeds, with the length.


@dataclasses.dataclass(frozen=True)
class World(table.NamedTableWorld, core.Labelled):
  """A word of `length` tokens, each uniform.

  Attributes:
    group: 'parity' or 'z2', 'z3', .. cyclic; 's2' .. 's6', all permutations;
      'a3' .. 'a6', the even permutations.
    tokens: which elements are tokens: 'all', every element; 'generators', the
      identity and two that generate the group: 1 of a cyclic group (alone),
      (12) and (12..n) of Sn, (123) and the longest cycle of neighbours with n
      that is even of An.
  """

  version: ClassVar[str] = '1'

  group: str = 's3'
  tokens: str = field('all', choices=('all', 'generators'))
  length: int = field(64, 'tokens of every word', least=2, unit='tokens')

  def cost(self, world: core.World | None = None) -> core.Cost:
    """See core.Bounded."""
    del world
    return resources.sequences_cost(self.length, 'length')

  def __post_init__(self) -> None:
    super().__post_init__()
    finite_groups.make(self.group)  # Raises where there is no such group.

  @functools.cached_property
  def _group(self) -> finite_groups.Group:
    return finite_groups.make(self.group)

  @property
  def elements(self) -> np.ndarray:
    """[S, n] int32, see `finite_groups.Group`."""
    return self._group.elements

  @property
  def names(self) -> tuple[str, ...]:
    """Of every element: a number, or cycles of 1..n; 'e' is the identity."""
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

  @property
  def max_len(self) -> int:
    """The length of every word."""
    return self.length

  # States.

  def sequence_labels(
    self, tokens: np.ndarray, lengths: np.ndarray
  ) -> np.ndarray:
    """[N, L, 1] row of the product after each token; see core.World."""
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
    """Uniform words; one length's do not begin as another's do."""
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
    """[S] int64: how often each element times itself is the identity."""
    every = np.arange(len(self.elements))
    products, power = self._group.products(every), every
    orders = np.ones(len(every), np.int64)
    while power.any():  # Row 0 is the identity.
      orders += power != 0
      # Once at the identity a power stays there.
      power = np.where(power != 0, products[power, every], 0)
    return orders

  def functions(self, states: np.ndarray) -> dict[str, np.ndarray]:
    """'order' of the product, as a class of its own each."""
    classes = np.unique(self._orders, return_inverse=True)[1]
    return {'order': classes[states[:, 0]].astype(np.int64)}

  def render(self, state: np.ndarray) -> str:
    """What goes where, or the number."""
    name = self.format(state)
    if state[0] < 0 or self._group.kind == 'z':
      return svg.card([name])
    images = [str(k + 1) for k in self.elements[int(state[0])]]
    heads = [str(k + 1) for k in range(len(images))]
    return svg.table(heads, [images], title=name)
