"""Othello's rules: known numbers, laws, bad input."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels import othello_boards as boards
from tests.kernels import othello_ref as ref
from wm import core
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


def test_openings_to_depth_ten():
  assert othello.count(othello.start(), 10)[-1] == 24_571_192


def test_distinct_boards_by_depth():
  columns, result = othello.start(), []
  for _ in range(5):
    columns, _, _ = boards.expanded(columns)
    words = np.stack([c.astype(np.uint64) for c in columns])
    result.append(len(np.unique(words[:2], axis=1).T))
    # No board occurs with both colours to move.
    assert result[-1] == len(np.unique(words, axis=1).T)
  assert result == [4, 12, 54, 236, 1288]


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


def orderings(bits, size=8):
  """All legal orders [N, K] of K squares."""
  columns, paths = othello.start(), np.zeros((1, 0), int)
  for _ in bits:
    columns, rows, squares = boards.expanded(columns, size)
    paths = np.concatenate([paths[rows], squares[:, None]], axis=1)
    new = np.isin(squares, bits)
    new &= (paths[:, :-1] != squares[:, None]).all(1)
    columns, paths = [c[new] for c in columns], paths[new]
  return paths


@pytest.mark.parametrize(
  ('bits', 'orders', 'finals', 'distinct'),
  [
    ((18, 19, 29, 37, 42, 43, 44, 45, 46, 50), 204, 64, 439),
    ((18, 21, 26, 29, 37, 43, 44, 45, 53, 54), 210, 61, 412),
  ],
)
def test_orders_of_the_published_validation_boards(
  bits, orders, finals, distinct
):
  tokens = othello.tokens_of()[orderings(bits)]
  assert len(tokens) == orders
  seen, last = set(), set()
  for length in range(6, 11):
    full = np.full(orders, length)
    _, black, white, _ = othello.replay(tokens, full)
    last = set(zip(black.tolist(), white.tolist(), strict=True))
    seen |= last
  assert (len(last), len(seen)) == (finals, distinct)


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


def test_a_thousand_games_share_few_boards():
  tokens, lengths = othello_games.play(1000, 3)
  prefixes: dict[tuple, set] = {}
  for ply in range(1, 60):
    rows = lengths > ply
    _, black, white, _ = othello.replay(tokens[rows], lengths[rows] * 0 + ply)
    for k, board in enumerate(zip(black.tolist(), white.tolist(), strict=True)):
      results = prefixes.setdefault(board, set())
      results.add(tokens[rows][k, :ply].tobytes())
  shared = sum(len(results) > 1 for results in prefixes.values())
  assert 50 < shared < 120  # 82 in one thousand of the published games.
  assert abs(len(prefixes) - 54_769) < 300


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
@given(SEEDS, SIZES)
def test_moves_flip_and_the_turn_passes_only_where_it_must(seed, size):
  before = boards.midgame(50, seed, size)
  alive = before[2] != 2
  before = [column[alive] for column in before]
  rng = np.random.default_rng(seed)
  moves = othello.legal(before, size)
  bits = np.array(
    [rng.choice([s for s in range(64) if m >> s & 1]) for m in moves.tolist()]
  ).astype(int)
  *after, ok = othello.advance(before, bits, size)
  assert ok.all()
  assert (after[0] & after[1] == 0).all()
  filled = [
    boards.popcount(black | white) for black, white, _ in (before, after)
  ]
  assert (filled[1] == filled[0] + 1).all()
  mover = before[2].astype(int)
  own = [np.where(mover == 0, p[0], p[1]) for p in (before, after)]
  assert (boards.popcount(own[1]) >= boards.popcount(own[0]) + 2).all()
  other = othello.legal((*after[:2], 1 - mover), size)
  mine = othello.legal((*after[:2], mover), size)
  turn = np.where(other != 0, 1 - mover, np.where(mine != 0, mover, 2))
  assert (after[2] == turn).all()


def turned(words, how):
  """Boards [B] mapped by a symmetry of the 8x8 grid."""
  grid = (words[:, None] >> np.arange(64, dtype=np.uint64) & 1).astype(
    np.uint64
  )
  grid = how(grid.reshape(-1, 8, 8)).reshape(-1, 64)
  return (grid << np.arange(64, dtype=np.uint64)).sum(1, dtype=np.uint64)


@LAWS
@given(SEEDS, SIZES)
def test_rules_do_not_depend_on_orientation_or_colour(seed, size):
  black, white, side = boards.midgame(30, seed, size)
  moves = othello.legal((black, white, side), size)
  going = side != 2
  swapped = othello.legal((white, black, np.where(going, 1 - side, 2)), size)
  assert (swapped == moves).all()
  for how in (
    lambda grid: grid.transpose(0, 2, 1),
    lambda grid: grid[:, ::-1],
    lambda grid: grid[:, :, ::-1],
  ):
    mapped = othello.legal((turned(black, how), turned(white, how), side), size)
    assert (mapped == turned(moves, how)).all()


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


@LAWS
@given(SEEDS, SIZES)
def test_replay_stops_at_the_first_illegal_token(seed, size):
  rng = np.random.default_rng(seed)
  tokens, lengths = othello_games.play(10, seed, size=size)
  place = rng.integers(0, lengths)
  spoilt = tokens.copy()
  spoilt[np.arange(10), place] = rng.choice([-3, 0, 61, 2**20], 10)
  result = othello.replay(spoilt, lengths, size)
  assert boards.same(result, othello.replay(tokens, place, size))
  assert (result[0] == place).all()


@LAWS
@given(SEEDS, SIZES)
def test_labels_are_of_the_boards_that_a_replay_passes(seed, size):
  rng = np.random.default_rng(seed)
  tokens, lengths = othello_games.play(6, seed, size=size)
  place = rng.integers(0, lengths)
  tokens[np.arange(6), place] = rng.choice([-3, 0, 61, 2**20], 6)
  short = rng.integers(0, lengths + 1)
  labels = othello.replay_labels(tokens, short, size)
  assert (labels.shape, labels.dtype) == ((6, size**2 - 4, size**2 + 1), 'u1')
  for k in range(tokens.shape[1]):
    _, black, white, side = othello.replay(
      tokens, np.minimum(short, k + 1), size
    )
    alive = (k < short) & (k < place)
    assert (labels[alive, k, -1] == side[alive]).all()
    for disc, board in ((1, black), (2, white)):
      result = (labels[:, k, :-1] == disc).sum(1)
      assert (result[alive] == boards.popcount(board)[alive]).all()
    assert not labels[~alive, k].any()


# Bad input.


@pytest.mark.parametrize(
  ('call', 'message'),
  [
    (lambda: othello.squares(7), 'board size is 7; available: 4, 6, 8'),
    (lambda: othello_games.play(1, 0, policy='best'), "unknown policy 'best'"),
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
def test_bad_input(call, message):
  with pytest.raises(core.InputError, match=message) as caught:
    call()
  assert '\n' not in str(caught.value)
