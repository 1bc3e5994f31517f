"""Boundary: the suffixes that separate two states, for many pairs at once."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wm.core.basics import distinct
from wm.core.resources import require_memory

if TYPE_CHECKING:
  from wm.core.world import World


class Boundary(NamedTuple):
  """Suffixes of T pairs; rows offsets[t]:offsets[t + 1] belong to pair t.

  The suffixes of a pair are sorted by length, then by tokens.

  Attributes:
    offsets: [T + 1] int64.
    tokens: [S, K] int32, padded with PAD; K is at least the greatest length.
    lengths: [S] int32.
  """

  offsets: np.ndarray
  tokens: np.ndarray
  lengths: np.ndarray

  @property
  def sizes(self) -> np.ndarray:
    """[T] int64 number of suffixes of each pair."""
    return np.diff(self.offsets)

  @property
  def pair_ids(self) -> np.ndarray:
    """[S] int64: the pair that each suffix belongs to."""
    return np.repeat(np.arange(len(self.offsets) - 1), self.sizes)

  def take(self, rows: np.ndarray) -> Boundary:
    """Selects suffixes by rows [S] bool; the T pairs stay."""
    before = np.concatenate([[0], np.cumsum(rows, dtype=np.int64)])
    return Boundary(before[self.offsets], self.tokens[rows], self.lengths[rows])

  def firsts(self) -> tuple[np.ndarray, np.ndarray]:
    """Tokens [T, K] and lengths [T] of each pair's first suffix.

    Both are 0 for a pair without suffixes.
    """
    nonempty = self.sizes > 0
    at = self.offsets[:-1][nonempty]
    tokens = np.zeros((len(nonempty), self.tokens.shape[1]), np.int32)
    lengths = np.zeros(len(nonempty), np.int32)
    tokens[nonempty], lengths[nonempty] = self.tokens[at], self.lengths[at]
    return tokens, lengths

  def listed(self) -> list[list[tuple[int, ...]]]:
    """The suffixes of each pair as lists of tuples."""
    rows, lengths = self.tokens.tolist(), self.lengths.tolist()
    flat = [tuple(row[:n]) for row, n in zip(rows, lengths, strict=True)]
    cuts = itertools.pairwise(self.offsets.tolist())
    return [flat[start:stop] for start, stop in cuts]


def stacked(blocks: Sequence[Sequence[np.ndarray]]) -> Boundary:
  """Builds the boundary of T pairs from blocks of suffixes.

  blocks: for each pair, arrays [n, k] of suffixes of one length k, in order.
  """
  flat = [np.asarray(block) for group in blocks for block in group]
  sizes = [len(block) for block in flat]
  widths = [block.shape[1] for block in flat]
  tokens = np.zeros((sum(sizes), max(widths, default=0)), np.int32)
  for stop, block in zip(itertools.accumulate(sizes), flat, strict=True):
    tokens[stop - len(block) : stop, : block.shape[1]] = block
  each = [sum(len(block) for block in group) for group in blocks]
  return Boundary(
    np.cumsum([0, *each], dtype=np.int64),
    tokens,
    np.repeat(np.array(widths, np.int32), sizes),
  )


def joined(parts: Sequence[Boundary]) -> Boundary:
  """Concatenates the pairs of several boundaries, in order."""
  width = max((part.tokens.shape[1] for part in parts), default=0)
  tokens = [
    np.pad(part.tokens, ((0, 0), (0, width - part.tokens.shape[1])))
    for part in parts
  ]
  sizes = [np.zeros(1, np.int64), *(part.sizes for part in parts)]
  return Boundary(
    np.cumsum(np.concatenate(sizes)),
    np.concatenate([np.zeros((0, width), np.int32), *tokens]),
    np.concatenate([np.zeros(0, np.int32), *(p.lengths for p in parts)]),
  )


def product(
  world: World, first: np.ndarray, second: np.ndarray, depth: int
) -> Boundary:
  """Boundary of one pair of states [W] of any world (Vafa et al., Def. 2.4).

  Pairs of states are followed while a token is legal from both. Suffixes are
  sorted by length, then by tokens. Work grows with the interior to `depth`.
  """
  suffixes: list[np.ndarray] = []
  if world.state_id(first[None])[0] == world.state_id(second[None])[0]:
    depth = 0
  firsts, seconds = first[None], second[None]
  paths = np.zeros((1, 0), np.int32)
  for _ in range(depth):
    legal, legal_2 = world.legal(firsts), world.legal(seconds)
    rows, tokens = np.nonzero(legal & ~legal_2)
    suffixes.append(np.column_stack([paths[rows], tokens]))
    rows, tokens = np.nonzero(legal & legal_2)
    if not rows.size:
      break
    # Both states, before and after, and the tokens so far.
    held = 4 * rows.size * (4 * firsts.shape[1] + paths.shape[1] + 1)
    require_memory(
      held, f'{rows.size:,} suffixes of {paths.shape[1] + 1} tokens'
    )
    firsts = world.advance(firsts[rows], tokens)
    seconds = world.advance(seconds[rows], tokens)
    paths = np.column_stack([paths[rows], tokens])
    apart = world.state_id(firsts) != world.state_id(seconds)
    firsts, seconds, paths = firsts[apart], seconds[apart], paths[apart]
  return stacked([suffixes])


def products(
  world: World, first: np.ndarray, second: np.ndarray, depth: int
) -> Boundary:
  """Boundaries of T pairs of states [T, W]; see `product`."""
  pairs = zip(first, second, strict=True)
  return joined([product(world, a, b, depth) for a, b in pairs])


def pair_sizes(
  world: World, first: np.ndarray, second: np.ndarray, depth: int
) -> tuple[list[int], list[int]]:
  """Sizes of boundary and interior of one pair of any world, by length.

  A pair of states that several suffixes reach is followed once, with the number
  of these suffixes as a Python integer.
  """
  states = np.stack([first, second])[:, None]  # [2, pairs, W].
  ways = np.ones(1, object)
  outer, inner = [], []
  for _ in range(depth):
    legal, legal_2 = map(world.legal, states)
    outer.append(int(sum(ways * (legal & ~legal_2).sum(1).astype(object))))
    rows, tokens = np.nonzero(legal & legal_2)
    inner.append(int(sum(ways[rows])))
    after = np.stack([world.advance(side[rows], tokens) for side in states])
    ids = np.stack([world.state_id(side) for side in after], axis=-1)
    place, back = distinct(ids)
    deeper = np.zeros(len(place), object)
    np.add.at(deeper, back, ways[rows])
    states, ways = after[:, place], deeper
  return outer, inner
