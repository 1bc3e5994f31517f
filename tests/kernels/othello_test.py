"""Othello's rules: known numbers, laws, bad input."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels import othello_boards as boards
from tests.kernels import othello_ref as ref
from wm.core import basics
from wm.kernels import othello, othello_games

LAWS = settings(max_examples=40, deadline=None)
SEEDS = st.integers(0, 2**32 - 1)
SIZES = st.sampled_from(othello.SIZES)


# Known answers.


@pytest.mark.parametrize('kernels', [othello, ref])
def test_black_opens_on_the_four_known_squares(kernels):
  moves = kernels.legal(othello.start())
  assert int(moves[0]) == sum(1 << s for s in (19, 26, 37, 44))
  after = kernels.advance(othello.start(), [19])
  # d3 turns d4: black d3 d4 e4 d5, white e5.
  assert [int(a[0]) for a in after[:2]] == [
    1 << 19 | 1 << 27 | 1 << 28 | 1 << 35,
    1 << 36,
  ]
  assert (after[2][0], after[3][0]) == (1, True)


def test_openings_as_published():
  counts = othello.count(othello.start(), 9)
  assert counts == [4, 12, 56, 244, 1396, 8200, 55092, 390216, 3005320]
  assert othello.count(othello.start(), 0) == []
  assert othello.count((0, 0, 2), 3) == [0, 0, 0]


@pytest.mark.slow
def test_boards_after_ten_moves():
  columns = othello.start()
  for _ in range(9):
    columns, _, _ = boards.expanded(columns)
  keys, filled = [], []
  for low in range(0, len(columns[0]), 100_000):
    chunk = [column[low : low + 100_000] for column in columns]
    (black, white, _), _, _ = boards.expanded(chunk)
    keys.append(basics.hash64(black, white))
    filled.append(np.unique(black | white))
  _, counts = np.unique(np.concatenate(keys), return_counts=True)
  # Sorting the boards themselves finds as many as their hashes.
  assert (counts.sum(), len(counts)) == (24_571_192, 11_922_438)
  assert len(np.unique(np.concatenate(filled))) == 2_601_771
  kinds, many = np.unique(counts, return_counts=True)
  assert kinds[:-7:-1].tolist() == [66, 62, 57, 55, 54, 53]
  assert many[:-7:-1].tolist() == [4, 8, 4, 4, 8, 12]


def test_random_games_as_published():
  tokens, lengths = othello_games.play(40_000, 0)
  short = (lengths < 60).mean()
  assert abs(short - 0.009) < 0.002  # .0086 of 20,000, .011 of 1,500.
  assert lengths.min() >= 9
  share = np.bincount(tokens[:, 0], minlength=61)[othello.tokens_of()]
  assert np.abs(share[[19, 26, 37, 44]] / 40_000 - 0.25).max() < 0.012
  passes = np.zeros(10_000)
  sides = np.zeros(10_000)
  for ply in range(1, 60):
    cut = np.minimum(lengths[:10_000], ply)
    after = othello.replay(tokens[:10_000], cut)[3]
    passes += (after == sides) & (after != 2)
    sides = after
  assert abs(passes.mean() - 0.445) < 0.03
  assert abs((passes > 0).mean() - 0.35) < 0.03


def test_a_game_may_be_over_after_nine_moves():
  names = ['c4', 'c5', 'e6', 'e3', 'e2', 'd6', 'c6', 'f4', 'g4']
  bits = [8 * (int(name[1]) - 1) + ord(name[0]) - ord('a') for name in names]
  tokens = othello.tokens_of()[bits][None]
  for kernels in (othello, ref):
    steps, black, white, side = kernels.replay(tokens, [9])
    assert (steps[0], white[0], side[0]) == (9, 0, 2)
    assert boards.popcount(black)[0] == 13
    assert kernels.legal((black, white, side))[0] == 0


def test_perfect_play_on_the_smallest_board():
  # Solved: the second player wins 11 to 3.
  tokens, lengths = othello_games.play(1, 0, size=4, policy='search', depth=12)
  _, black, white, side = othello.replay(tokens, lengths, 4)
  assert (boards.popcount(black)[0], boards.popcount(white)[0], side[0]) == (
    3,
    11,
    2,
  )


# Laws.


@LAWS
@given(SEEDS, SIZES, st.sampled_from(othello_games.POLICIES), st.floats(0, 1))
def test_games_are_whole_and_depend_on_their_number_alone(
  seed, size, policy, noise
):
  kinds = {'size': size, 'policy': policy, 'noise': noise, 'depth': 2}
  tokens, lengths = othello_games.play(12, seed, **kinds)
  sample, short = othello_games.play(5, seed, first=4, **kinds)
  assert (sample == tokens[4:9]).all()
  assert (short == lengths[4:9]).all()
  steps, *_, side = othello.replay(tokens, lengths, size)
  assert (steps == lengths).all()
  assert (side == 2).all()
  assert ((tokens > 0).sum(1) == lengths).all()


# Bad input.


@pytest.mark.parametrize(
  ('call', 'message'),
  [
    (lambda: othello.squares(7), 'board size is 7; available: 4, 6, 8'),
    (lambda: othello.replay([[20]], [2]), 'tokens have 1 columns'),
    (lambda: othello.legal(([1, 2], [3], [0])), 'batch sizes differ'),
    (lambda: othello.count(othello.start(), -1), 'depth is -1'),
    (
      lambda: othello.boundary(othello.start(), othello.start(), 0),
      'depth is 0',
    ),
    (
      lambda: othello_games.transpositions([[20, 20]], [2], [0]),
      'row 0 has an illegal token 20 at move 2',
    ),
  ],
)
def test_bad_input(call, message, one_line):
  with one_line(message):
    call()
