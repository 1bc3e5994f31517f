"""Othello's kernels are their plain reference, the JAX twin, and a peer."""

import numpy as np
import pytest

from tests.kernels import othello_boards as boards
from tests.kernels import othello_ref as ref
from wm import core
from wm.core import basics
from wm.kernels import othello, othello_games
from wm.kernels.base import bits
from wm.kernels.base.jit import njit

BOTH = othello, ref


@pytest.mark.parametrize('size', othello.SIZES)
def test_compiled_is_the_plain_reference(size):
  columns = boards.midgame(100, 1, size)
  bits = np.random.default_rng(1).integers(-2, 66, 100)
  tokens, lengths = othello_games.play(12, 2, size=size)
  spoilt = tokens.copy()
  spoilt[::2, 3] = 7
  for name, args in (
    ('legal', (columns,)),
    ('advance', (columns, bits)),
    ('replay', (spoilt, lengths)),
    ('replay_labels', (spoilt, lengths)),
  ):
    result, plain = (getattr(kernels, name)(*args, size) for kernels in BOTH)
    assert np.array_equal(result, plain) or boards.same(result, plain)
  for n in range(4):
    pair = boards.position(columns, n), boards.position(columns, n + 1)
    result, plain = (
      (
        kernels.count(pair[0], 3, size),
        kernels.boundary_sizes(*pair, 2, size),
        kernels.boundary(*pair, 2, size).listed(),
      )
      for kernels in BOTH
    )
    assert result == plain
  cut = np.minimum(lengths[:6], [0, 1, 5, 8, 9, 11])
  seeds = basics.hash64(3, np.arange(6))
  args = tokens[:6], cut, seeds, size, 2, 3, 6
  assert (
    othello_games.transpositions(*args) == ref.transpositions(*args)
  ).all()


@pytest.mark.parametrize(
  ('policy', 'depth', 'num'),
  [('uniform', 0, 9), ('search', 1, 3), ('search', 2, 1)],
)
@pytest.mark.parametrize('size', othello.SIZES)
def test_policies_are_the_plain_reference(size, policy, depth, num):
  kinds = {'first': 5, 'size': size, 'policy': policy, 'depth': depth}
  kinds['noise'] = 0.3
  plain = ref.play(num, 4, **kinds)
  assert boards.same(othello_games.play(num, 4, **kinds), plain)


@pytest.mark.parametrize('size', othello.SIZES)
def test_rules_in_jax_are_the_compiled_ones(size):
  """A random move, legal or not, from positions of all stages of a game."""
  import jax

  from wm.kernels import device_rules
  from wm.kernels.base import words

  black, white, side = boards.midgame(200, 4, size)
  squares = othello.squares(size).astype(np.int32)
  rules = device_rules.othello_rules(squares, int(othello.mask(size)))
  games = device_rules.othello_games(black, white, side, rules.board)
  moves = np.random.default_rng(4).integers(-1, len(squares), 200)
  legal = np.asarray(jax.vmap(rules.legal)(games))
  bits = othello.legal((black, white, side), size)[:, None] >> squares.astype(
    np.uint64
  ) & np.uint64(1)
  np.testing.assert_array_equal(legal, bits.astype(bool))
  after = jax.vmap(rules.advance)(games, moves)
  places = np.where(moves < 0, core.DEAD, squares[moves])
  *expected, ok = othello.advance((black, white, side), places, size)
  np.testing.assert_array_equal(jax.vmap(rules.alive)(after), ok)
  want = device_rules.othello_games(*expected, rules.board)
  for result, plain in zip(
    jax.tree.leaves(after), jax.tree.leaves(want), strict=True
  ):
    np.testing.assert_array_equal(np.asarray(result)[ok], np.asarray(plain)[ok])
  assert ok.any()
  assert not ok.all()
  assert isinstance(after.me, words.Word)


def test_legal_moves_are_those_of_pgx():
  pgx = pytest.importorskip('pgx')
  import jax

  env = pgx.make('othello')
  step = jax.jit(jax.vmap(env.step))
  tokens, lengths = othello_games.play(64, 8)
  squares, num = othello.squares().astype(int), len(tokens)
  state = jax.jit(jax.vmap(env.init))(jax.random.split(jax.random.key(0), num))
  places = np.arange(64, dtype=np.uint64)
  turn = np.zeros(num, int)
  for _ in range(60 + 12):
    columns = othello.replay(tokens, turn)[1:]
    ours = (othello.legal(columns)[:, None] >> places & 1).astype(bool)
    theirs = np.asarray(state.legal_action_mask)
    passing = theirs[:, 64] & (turn < lengths)
    playing = ~passing & (turn < lengths)
    assert (theirs[playing, :64] == ours[playing]).all()
    last = np.minimum(turn, lengths - 1)
    moves = squares[tokens[np.arange(num), last] - 1]
    state = step(state, np.where(playing, moves, 64))
    turn = turn + playing
  assert (turn == lengths).all()
  assert np.asarray(state.terminated).all()


def test_bits():
  @njit
  def read(word):
    cleared = bits.without_lowest(word)
    return bits.popcount(word), bits.lowest(word), bits.nth(word, 2), cleared

  rng = np.random.default_rng(0)
  for word in (0, 2**64 - 1, 1 << 63, *rng.integers(0, 2**63, 20).tolist()):
    places = [k for k in range(64) if word >> k & 1]
    third = places[2] if len(places) > 2 else 64
    lowest = places[0] if places else 64
    expected = len(places), lowest, third, word & (word - 1) if word else 0
    assert read(np.uint64(word)) == expected
