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
import itertools
import re
from typing import ClassVar

import numpy as np

from wm import core
from wm.worlds.base import svg, table

TOKENS = ('all', 'generators')
LARGEST = 720  # Elements of S6; tables hold the square of it.
LENGTH = 2  # Mixed into seeds, with the length.


@dataclasses.dataclass(frozen=True)
class World(table.TableWorld):
  """A word of `length` tokens, each uniform.

  Attributes:
    group: 'parity' or 'z2', 'z3', .. cyclic; 's2' .. 's6', all permutations;
      'a3' .. 'a6', the even ones.
    tokens: 'all' elements, or the identity and two 'generators': 1 of a cyclic
      group (alone), (12) and (12..n) of Sn, (123) and the longest cycle of
      neighbours with n that is even of An.
    length: tokens of every word.
  """

  version: ClassVar[str] = '1'

  group: str = 's3'
  tokens: str = 'all'
  length: int = 64

  def __post_init__(self) -> None:
    if self._family is None:
      raise core.InputError(
        f'groups: group={self.group!r}; available: parity, z2 to z{LARGEST}, '
        's2 to s6, a3 to a6'
      )
    if self.tokens not in TOKENS:
      raise core.InputError(
        f'groups: tokens={self.tokens!r}; available: {", ".join(TOKENS)}'
      )
    if self.length < 2:
      raise core.InputError(
        f'groups: length={self.length}; expected at least 2 tokens'
      )

  @functools.cached_property
  def _family(self) -> tuple[str, int] | None:
    """'z', 's' or 'a' and its number; None where there is no such group."""
    text = 'z2' if self.group == 'parity' else self.group
    match = re.fullmatch('([zsa])([1-9][0-9]{0,2})', text)
    if match is None:
      return None
    kind, size = match[1], int(match[2])
    low, high = {'z': (2, LARGEST), 's': (2, 6), 'a': (3, 6)}[kind]
    return (kind, size) if low <= size <= high else None

  @functools.cached_property
  def elements(self) -> np.ndarray:
    """[S, n] int32 images of 0..n - 1, in order; row 0 is the identity.

    Of a cyclic group n is 1 and the entry the number itself.
    """
    kind, size = self._family
    if kind == 'z':
      return np.arange(size, dtype=np.int32)[:, None]
    found = np.array([*itertools.permutations(range(size))], np.int32)
    return found if kind == 's' else found[~odd(found)]

  @functools.cached_property
  def chosen(self) -> np.ndarray:
    """[A] int32 rows of the elements that are tokens, ascending."""
    size = len(self.elements)
    if self.tokens == 'all':
      return np.arange(size, dtype=np.int32)
    kind, n = self._family
    if kind == 'z':
      return np.arange(2, dtype=np.int32)
    first = (0, 1) if kind == 's' else (0, 1, 2)
    start = 1 if kind == 'a' and n % 2 == 0 else 0
    wanted = {'e', cycle(first), cycle(range(start, n))}
    return np.flatnonzero([name in wanted for name in self.names]).astype(
      np.int32
    )

  @functools.cached_property
  def delta(self) -> np.ndarray:
    """[S, A] int32: row of the state's element times the token's."""
    elements, chosen = self.elements, self.elements[self.chosen]
    if self._family[0] == 'z':
      return (elements + chosen.T) % len(elements)
    products = chosen.T[elements]  # [S, n, A]: token after state.
    places = elements.shape[1] ** np.arange(elements.shape[1])[::-1]
    codes = elements @ places  # Ascending, as rows are in order.
    found = np.searchsorted(codes, np.tensordot(products, places, (1, 0)))
    return found.astype(np.int32)

  @functools.cached_property
  def names(self) -> tuple[str, ...]:
    """Of every element: a number, or cycles of 1..n; 'e' is the identity."""
    if self._family[0] == 'z':
      return tuple(str(k) for k in range(len(self.elements)))
    return tuple(cycles(images) for images in self.elements.tolist())

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
    labels = np.zeros((*tokens.shape, 1), self.state_dtype)
    rows, columns = np.zeros(len(tokens), np.int32), np.where(used, tokens, 1)
    for k in range(tokens.shape[1]):
      rows = self.delta[rows, columns[:, k] - 1]
      labels[:, k, 0] = rows
    return labels * used[..., None]

  def sample(self, num: int, seed: int, split: str = 'all') -> core.Sequences:
    """Uniform words; one length's do not begin as another's do."""
    mixed = int(core.hash64(seed, LENGTH, self.length) >> np.uint64(2))
    return table.stream(self, num, mixed, split, self.length)

  def legal(self, states: np.ndarray) -> np.ndarray:
    """[B, V] bool: every token, unless dead."""
    legal = np.repeat(states[:, :1] >= 0, len(self.chosen) + 1, axis=1)
    legal[:, core.PAD] = False
    return legal

  # Text and pictures.

  def parse_state(self, text: str) -> np.ndarray:
    """The name of an element, or 'dead'."""
    word = text.strip()
    if word == 'dead':
      return np.array([[core.DEAD]], np.int32)
    if word not in self.names:
      raise core.InputError(
        f'{text!r} is no element of {self.group}; expected one like '
        f'{self.names[0]}, {self.names[1]} or {self.names[-1]}'
      )
    return np.array([[self.names.index(word)]], np.int32)

  def format_state(self, state: np.ndarray) -> str:
    """As `parse_state` reads it."""
    return 'dead' if state[0] < 0 else self.names[int(state[0])]

  def render(self, state: np.ndarray) -> str:
    """What goes where, or the number."""
    name = self.format_state(state)
    if state[0] < 0 or self._family[0] == 'z':
      return svg.card([name])
    images = [str(k + 1) for k in self.elements[int(state[0])]]
    heads = [str(k + 1) for k in range(len(images))]
    return svg.table(heads, [images], title=name)


def odd(permutations: np.ndarray) -> np.ndarray:
  """[N] bool: has a permutation [N, n] an odd number of inversions?"""
  first, second = np.triu_indices(permutations.shape[1], 1)
  wrong = permutations[:, first] > permutations[:, second]
  return wrong.sum(1) % 2 == 1


def cycle(places: range | tuple[int, ...]) -> str:
  """Written form of one cycle of places 0.. ."""
  return '(' + ''.join(str(k + 1) for k in places) + ')'


def cycles(images: list[int]) -> str:
  """Written form of a permutation, each cycle from its least place."""
  found, seen = '', set()
  for start in range(len(images)):
    here, path = start, []
    while here not in seen:
      seen.add(here)
      path.append(here)
      here = images[here]
    found += cycle(tuple(path)) if len(path) > 1 else ''
  return found or 'e'
