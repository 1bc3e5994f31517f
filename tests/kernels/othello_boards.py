"""What the tests of Othello's kernels share."""

import numpy as np

from wm.kernels import othello, othello_games


def same(first, other):
  """Are two tuples of arrays equal, types included?"""
  return all(
    a.dtype == b.dtype and np.array_equal(a, b)
    for a, b in zip(first, other, strict=True)
  )


def midgame(num, seed, size=8):
  """Positions of random games at random plies."""
  tokens, lengths = othello_games.play(num, seed, size=size)
  cut = np.random.default_rng(seed).integers(0, lengths + 1)
  return othello.replay(tokens, cut, size)[1:]


def position(columns, n):
  """Position n of columns."""
  return tuple(column[n : n + 1] for column in columns)


def popcount(words):
  """Bits set, as integers that may be subtracted."""
  return np.bitwise_count(np.asarray(words)).astype(int)


def expanded(columns, size=8):
  """Every position one move on, with the row it came from and the square."""
  moves = othello.legal(columns, size)
  rows, squares = np.nonzero(
    moves[:, None] >> np.arange(64, dtype=np.uint64) & 1
  )
  *after, ok = othello.advance((c[rows] for c in columns), squares, size)
  assert ok.all()
  return after, rows, squares
