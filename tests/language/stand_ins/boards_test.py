"""Boards and puzzles are read to the same states, by rules of their own."""

import chess
import numpy as np
import pytest

from tests.language.stand_ins import worlds
from wm import core
from wm.core import registry, verbal

SEEDS = 0, 4


def played(spec, seed):
  """Yields (world, state [W], what the reader has) along one sequence each."""
  world = registry.make('world', spec)
  tell = core.PromptStyle(seed)
  read = worlds.told(verbal.render_description(world, tell))
  spoken = world.token_names(tell)
  result = world.sample(1, seed)
  at, state = world.init(1), read.start()
  for token in result.tokens[0, : result.lengths[0]]:
    at = world.advance(at, np.array([token]))
    state = read.step(state, spoken[token])
    yield world, at[0], state


@pytest.mark.parametrize('seed', SEEDS)
@pytest.mark.parametrize('size', [4, 8])
def test_discs_of_othello_turn_as_in_the_world(size, seed):
  for world, at, (discs, side) in played(f'othello(size={size})', seed):
    *squares, turn = world.labels(at[None])[0].tolist()
    names = [f'{"abcdefgh"[k % size]}{k // size + 1}' for k in range(size**2)]
    assert dict(discs) == {
      name: disc - 1 for name, disc in zip(names, squares, strict=True) if disc
    }
    assert turn in (side, 2)


@pytest.mark.parametrize('seed', SEEDS)
@pytest.mark.parametrize('start', ['', '8/2P1k3/8/8/3Pp3/8/4K3/7R b - d3 0 1'])
def test_moves_of_chess_are_those_of_a_trusted_peer(start, seed):
  spec = f"chess(length=60, least=0, start='{start}')"
  board = None
  for world, at, state in played(spec, seed):
    read = worlds.told(verbal.render_description(world, core.PromptStyle()))
    board = chess.Board(world.format(at))
    assert set(read.following(state)) == {
      move.uci() for move in board.legal_moves
    }
  assert board.fullmove_number > 2


def test_seats_that_are_left_are_those_of_the_world():
  for world, at, state in played('seating(people=4)', 0):
    assert state == {tuple(row) for row in world.arrangements(at).tolist()}


def test_columns_hold_what_they_hold():
  for _, at, state in played('connect4(rows=3, columns=4)', 2):
    assert state == tuple(at.tolist())


def test_a_walk_on_a_line_is_where_it_is():
  spec = 'lattice(size=4, length=20)'
  places = [(int(at[0]), state) for _, at, state in played(spec, 1)]
  assert all(place == state for place, state in places)
