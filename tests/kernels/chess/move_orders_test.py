"""Transpositions of chess against every order there is."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import chess_ids
from tests.kernels.chess import ref
from wm import core
from wm.core import basics
from wm.kernels import chess
from wm.worlds.chess import notation as chess_notation

# Openings whose moves transpose in many and few ways; one with moves that
# come twice, one with an en-passant capture, one with castling.
LINES = {
  'quiet': 'd2d4 d7d5 c2c4 e7e6 b1c3 g8f6',
  'mixed': 'e2e4 e7e5 g1f3 b8c6 f1c4 g8f6 d2d3 f8c5',
  'sharp': 'f2f4 e7e5 f4e5 d8h4 g2g3 h4g3 h2g3',
  'twice': 'g1f3 g8f6 f3g1 f6g8 g1f3 b8c6',
  'passing': 'e2e4 a7a6 e4e5 h7h6 a2a3 d7d5 e5d6 c7d6',
  'castling': 'g1f3 g8f6 g2g3 g7g6 f1g2 f8g7 e1g1 e8g8',
}


def packed(text):
  return np.array([chess_ids.PACKED[word] for word in text.split()])


def reached(games, start=None):
  """Keys where games [N, L] lead; 0 where one is illegal."""
  full = np.full(len(games), games.shape[1], np.int32)
  steps, rows = chess.replay(games, full, start)
  return np.where(steps == full, chess.keys(rows), np.uint64(0))


def every_order(moves):
  """All legal orders of a line's moves that lead where it does."""
  sides = [set(itertools.permutations(moves[k::2].tolist())) for k in (0, 1)]
  games = []
  for mine, other in itertools.product(*sides):
    game = np.zeros(len(moves), np.int32)
    game[::2], game[1::2] = mine, other
    games.append(game)
  games = np.array(games)
  same = reached(games) == reached(moves[None])
  return sorted(map(tuple, games[same].tolist()))


def drawn(moves, num, **fields):
  rows = np.repeat(moves[None], num, axis=0)
  lengths = np.full(num, len(moves))
  result = chess.transpositions(rows, lengths, np.arange(num), **fields)
  return Counter(map(tuple, result.tolist()))


def assert_uniform(counts, support):
  """A chi-square statistic within five standard deviations of its mean."""
  num = sum(counts.values())
  expected = num / len(support)
  assert set(counts) <= set(support)
  squares = sum((counts[o] - expected) ** 2 / expected for o in support)
  free = len(support) - 1
  assert abs(squares - free) <= 5 * np.sqrt(2 * free) + 1e-9


@pytest.mark.parametrize('name', LINES)
def test_short_games_are_drawn_uniformly_from_all_their_orders(name):
  moves = packed(LINES[name])
  support = every_order(moves)
  assert tuple(moves.tolist()) in support
  assert len(support) > 1
  assert_uniform(drawn(moves, 40 * len(support) + 200), support)


@pytest.mark.parametrize(
  'fields',
  [
    {'window': 3, 'opening': 3, 'sweeps': 1},
    {'window': 4, 'opening': 6, 'sweeps': 1},
    {'window': 5, 'opening': 5, 'sweeps': 2},
  ],
)
def test_the_chain_keeps_the_uniform_distribution(fields):
  support = every_order(packed(LINES['mixed']))
  assert len(support) == 48
  rows = np.repeat(np.array(support), 40, axis=0)
  lengths = np.full(len(rows), rows.shape[1])
  result = chess.transpositions(rows, lengths, np.arange(len(rows)), **fields)
  counts = Counter(map(tuple, result.tolist()))
  assert_uniform(counts, support)
  assert (result != rows).any(1).mean() > 0.5


def played(num, seed, most=60):
  return chess.play(num, seed, most=most, stop='moves')[:2]


def test_games_keep_their_position_and_each_side_its_moves():
  moves, lengths = played(200, 3)
  result = chess.transpositions(moves, lengths, np.arange(200))
  for n, length in enumerate(lengths.tolist()):
    before, after = moves[n, :length], result[n, :length]
    assert reached(before[None]) == reached(after[None])
    for k in (0, 1):
      assert sorted(before[k::2]) == sorted(after[k::2])
    assert (result[n, length:] == core.DEAD).all()
  used = np.arange(60) < lengths[:, None]
  assert (result == moves)[used].mean() < 0.4


@settings(max_examples=20, deadline=None)
@given(
  st.integers(0, 2**32),
  st.integers(0, 14),
  st.integers(3, 5),
  st.integers(0, 2),
  st.integers(0, 2),
)
def test_numba_is_the_reference(seed, plies, window, wider, sweeps):
  moves, lengths = played(3, seed, most=max(plies, 1))
  lengths = np.minimum(lengths, plies)
  fields = {'window': window, 'opening': window + wider, 'sweeps': sweeps}
  seeds = basics.hash64(seed, np.arange(3))
  result = [
    kernels.transpositions(moves, lengths, seeds, **fields)
    for kernels in (chess, ref)
  ]
  np.testing.assert_array_equal(*result)


def test_from_another_position():
  start = chess_notation.parse_fen('4k3/8/8/8/8/8/PP6/4K3 w - - 0 1')
  moves = packed('a2a3 e8e7 b2b3 e7e6 e1e2')
  result = chess.transpositions(
    np.repeat(moves[None], 99, 0), np.full(99, 5), np.arange(99), start
  )
  assert len(np.unique(result, axis=0)) == 6  # White's three in any order.
  assert (reached(result, start) == reached(moves[None], start)).all()


def test_nothing_to_do():
  for plies in (0, 1, 2):
    moves = packed('e2e4 e7e5')[None, :plies]
    result = chess.transpositions(moves, [plies], [7])
    np.testing.assert_array_equal(result, moves)
  assert chess.transpositions(np.zeros((0, 4)), [], []).shape == (0, 4)


@pytest.mark.parametrize(
  ('fields', 'message'),
  [
    ({'seeds': [1, 2]}, 'batch sizes differ'),
    ({'moves': packed('e2e4 e2e4')[None]}, 'illegal move 3980 at ply 2'),
  ],
)
def test_bad_input(fields, message, one_line):
  given = {'moves': packed('e2e4 e7e5')[None], 'lengths': [2], 'seeds': [1]}
  with one_line(message):
    chess.transpositions(**(given | fields))
