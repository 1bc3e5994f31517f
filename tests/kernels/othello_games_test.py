"""Othello's boundaries, and move orders that reach one position."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels import othello_boards as boards
from wm.core import basics
from wm.kernels import othello, othello_games

LAWS = settings(max_examples=40, deadline=None)
SEEDS = st.integers(0, 2**32 - 1)
SIZES = st.sampled_from(othello.SIZES)


# Boundaries.


def test_a_state_has_no_boundary_with_itself():
  start = othello.start()
  assert not len(othello.boundary(start, start, 4).lengths)
  over = (np.uint64(1), np.uint64(0), 2)
  assert not len(othello.boundary(over, start, 3).lengths)
  assert len(othello.boundary(start, over, 3).lengths) == 4
  sizes = [0] * 4, othello.count(start, 4)
  assert othello.boundary_sizes(start, start, 4) == sizes
  assert othello.boundary_sizes(start, over, 2)[1] == [0, 0]


def test_searches_that_come_back_often_find_the_same(monkeypatch):
  black, white, side = boards.midgame(8, 5, 6)
  disc = white & (~white + np.uint64(1))  # Black's in the second position.
  columns = (black, white, side), (black | disc, white ^ disc, side)

  def everything():
    pairs = [[boards.position(c, n) for c in columns] for n in range(8)]
    return [
      (
        othello.boundary(*pair, 4, 6).listed(),
        *othello.boundary_sizes(*pair, 4, 6),
        othello.count(pair[0], 4, 6),
      )
      for pair in pairs
    ]

  whole = everything()
  assert sum(outer[-1] for _, outer, *_ in whole) > 50
  assert sum(inner[-1] for *_, inner, _ in whole) > 50
  for nodes in (1, 3, 100):
    monkeypatch.setattr(othello, 'NODES', nodes)
    assert everything() == whole


# Move orders.


def uniformity(rows, orders):
  """Chi-square of drawn rows over the known orders, and its freedom."""
  keys = {tuple(order): k for k, order in enumerate(orders.tolist())}
  counts = np.bincount(
    [keys[tuple(row)] for row in rows.tolist()], minlength=len(keys)
  )
  mean = len(rows) / len(keys)
  return ((counts - mean) ** 2 / mean).sum(), len(keys) - 1


def recurring(depth):
  """Every order [N, depth] of one opening that has many of them."""
  columns, paths = othello.start(), np.zeros((1, 0), np.int32)
  for _ in range(depth):
    columns, rows, squares = boards.expanded(columns)
    step = othello.tokens_of()[squares][:, None]
    paths = np.concatenate([paths[rows], step], axis=1)
  words = np.stack([c.astype(np.uint64) for c in columns])
  _, group, sizes = np.unique(
    words, axis=1, return_inverse=True, return_counts=True
  )
  return paths[group.ravel() == sizes.argmax()]


def test_short_rows_are_drawn_uniformly_over_all_orders():
  orders = recurring(7)
  assert len(orders) > 4
  seeds = basics.hash64(11, np.arange(4000))
  rows = np.repeat(orders[:1], len(seeds), axis=0)
  drawn = othello_games.transpositions(rows, [7] * len(rows), seeds)
  chi, freedom = uniformity(drawn, orders)
  assert chi < freedom + 5 * np.sqrt(2 * freedom)


@LAWS
@given(SEEDS, SIZES, st.integers(0, 2), st.integers(2, 6))
def test_orders_reach_the_same_position(seed, size, sweeps, window):
  tokens, lengths = othello_games.play(6, seed, size=size)
  cut = np.random.default_rng(seed).integers(0, lengths + 1)
  seeds = basics.hash64(seed, np.arange(6))
  kinds = {'size': size, 'sweeps': sweeps, 'window': window, 'opening': 8}
  drawn = othello_games.transpositions(tokens, cut, seeds, **kinds)
  used = np.arange(tokens.shape[1]) < cut[:, None]
  assert (drawn[~used] == 0).all()
  before = np.where(used, tokens, 0)
  assert (np.sort(drawn, axis=1) == np.sort(before, axis=1)).all()
  assert boards.same(
    othello.replay(drawn, cut, size), othello.replay(tokens, cut, size)
  )
  assert sweeps or (drawn == before).all()
  alone = othello_games.transpositions(
    tokens[3:4], cut[3:4], seeds[3:4], **kinds
  )
  assert (alone[0] == drawn[3]).all()


def test_most_positions_have_another_order_at_any_later_ply():
  tokens, lengths = othello_games.play(100, 2)
  seeds = basics.hash64(6, np.arange(100))
  shares = {}
  for ply in (4, 12, 20, 30, 59):
    cut = np.minimum(lengths, ply)
    drawn = othello_games.transpositions(tokens, cut, seeds)
    shares[ply] = (drawn != np.where(drawn > 0, tokens, 0)).any(1).mean()
  assert shares[4] < 0.3  # Few openings of four moves recur at all.
  assert shares[12] > 0.5
  assert shares[20] > 0.8
  assert min(shares[30], shares[59]) > 0.95
