"""Edited states: by hand, and chess by the reader of positions."""

import numpy as np
import pytest

from wm import core
from wm.core import registry
from wm.evaluation import probing, state_edits
from wm.worlds.chess import notation as chess_notation


def legal(world, state):
  """The tokens that are legal, in words."""
  return {world.vocab[t] for t in np.flatnonzero(world.legal(state)[0])}


def edit(world, state, label, value):
  return world.edited(state, np.array([label]), np.array([value]))


def at(square):
  """The label of a square of chess."""
  return 8 * (8 - int(square[1])) + 'abcdefgh'.index(square[0])


def is_dead(world, state):
  return (state == core.DEAD).all() and world.state_id(state)[0] == core.DEAD


def test_a_disc_turns_and_squares_stay_taken():
  world = registry.make('world', 'othello()')
  start = world.init(1)
  d4, c3, side = 27, 18, 64
  assert legal(world, edit(world, start, d4, 1)) == {'f5', 'e6', 'f6'}
  assert legal(world, edit(world, start, side, 1)) == {'e3', 'f4', 'd6', 'c5'}
  same = edit(world, start, d4, 2)
  np.testing.assert_array_equal(same, start)
  for label, value in ((c3, 1), (d4, 0), (d4, 3), (side, 2)):
    assert is_dead(world, edit(world, start, label, value))
  item = edit(world, start, d4, 1)
  assert is_dead(world, edit(world, item, 36, 1))  # Nothing is left to turn.


def test_an_intersection_becomes_another_on_the_way_there():
  world = registry.make('world', 'maps(rows=3, columns=3)')
  state = np.array([[2, 5]], np.int32)
  assert edit(world, state, 0, 8).tolist() == [[7, 5]]
  assert edit(world, state, 1, 3).tolist() == [[2, 2]]
  assert 'end' in legal(world, edit(world, state, 0, 6))
  for label, value in ((0, 0), (1, 0), (0, len(world.graph) + 1)):
    assert is_dead(world, edit(world, state, label, value))
  assert is_dead(world, edit(world, world.init(1), 0, 3))


def test_a_line_has_all_its_states():
  world = registry.make('world', 'lattice(size=3)')
  assert edit(world, world.init(1), 0, 2).tolist() == [[2]]
  assert legal(world, np.array([[2]])) == {'left', 'stay'}
  for value in (3, -1):
    assert is_dead(world, edit(world, world.init(1), 0, value))


@pytest.fixture(scope='module')
def chess():
  return registry.make('world', 'chess(length=60)')


def test_edited_positions_of_chess_are_possible(chess):
  """Every one drawn is read as FEN by a reader that knows all the rules."""
  games = chess.sample(40, 0)
  points = probing.label(chess, games)
  values = [np.unique(column) for column in points.label.T]
  inputs = chess, games, points, ~points.prompt, values, 1
  result = state_edits.draw(*inputs)
  assert result.done.all()
  start = chess.init(len(result.row))
  states = chess.walk(start, result.tokens, result.place + 1)[1]
  edited = chess.edited(states, result.label, result.new)
  for row, expected in zip(edited, result.legal_after, strict=True):
    read = chess.rows(
      chess_notation.parse_fen(chess_notation.format_fen(row))[None]
    )
    np.testing.assert_array_equal(chess.legal(read)[0], expected)


@pytest.mark.parametrize(
  ('square', 'piece', 'why'),
  [
    ('e1', '.', 'no king'),
    ('e5', 'k', 'two kings'),
    ('d1', 'P', 'a pawn on the first rank'),
    ('e4', 'P', 'nine pawns'),
    ('e4', 'Q', 'two queens, eight pawns'),
    ('a1', '.', 'a right without its rook'),
  ],
)
def test_impossible_positions_are_dead(chess, square, piece, why):
  result = edit(
    chess, chess.opening(), at(square), chess_notation.PIECES.index(piece)
  )
  assert is_dead(chess, result), why


def test_the_king_that_is_not_to_move_is_not_in_check(chess):
  fewer = edit(chess, chess.opening(), at('a2'), 0)
  knight, bishop = (chess_notation.PIECES.index(piece) for piece in 'NB')
  assert not is_dead(chess, edit(chess, fewer, at('d7'), knight))
  assert is_dead(chess, edit(chess, fewer, at('d7'), bishop))


def test_a_pushed_pawn_stays_where_it_may_be_taken_in_passing(chess):
  tokens = np.array([[chess.header[0], chess.vocab.index('e2e4')]])
  state = chess.walk(chess.init(1), tokens, np.array([2]))[1]
  fewer = edit(chess, state, at('a2'), 0)  # So that a knight may be put.
  for square, piece in (('e2', 2), ('e3', 2), ('e4', 0)):
    assert is_dead(chess, edit(chess, fewer, at(square), piece))
  assert not is_dead(chess, edit(chess, state, at('d2'), 0))


def test_a_piece_is_taken_from_the_board_and_put_back(chess):
  start = chess.opening()
  without = edit(chess, start, at('b1'), 0)  # The knight of b1.
  assert legal(chess, start) - legal(chess, without) == {'b1a3', 'b1c3'}
  back = edit(chess, without, at('b1'), 2)
  np.testing.assert_array_equal(chess.legal(back), chess.legal(start))
  assert is_dead(chess, edit(chess, start, 64, 1))  # The side stays.
  assert is_dead(chess, edit(chess, chess.init(1), at('b1'), 0))
