"""Openings of the same squares, and pairs of their states, as published."""

import itertools

import numpy as np
import pytest

from wm import core
from wm.core import registry
from wm.evaluation import coin_tasks

# Orders, boards after 6 to 10 moves, pairs of one board, of two; of these those
# alike in what is legal for the side to move, and for black whoever is to move,
# as the published program has it.
GOLDEN = {
  'published': (210, 412, 3_889, 546_836, 199, 1_425),
  'tied': (204, 439, 3_757, 515_933, 215, 1_499),
  'rich': (233, 331, 4_471, 673_559, 1_208, 2_262),
}


@pytest.mark.parametrize('name', GOLDEN)
def test_published_openings_have_as_many_orders_boards_and_pairs(name):
  world = registry.make('world', f'othello(openings={name!r})')
  points = coin_tasks.visited(world, 1000, 10**6, 5, 0)
  assert points.states.shape[2] == 5
  right = coin_tasks.points(world, points.tokens, points.places)
  states = points.states.reshape(-1)
  np.testing.assert_array_equal(states, right.states.reshape(-1))
  (same, alike, unlike), (_, black, _) = (
    coin_tasks.count_pairs(
      np.zeros((1, len(states)), int), states, legal.reshape(-1)
    )[1]
    for legal in (right.legal, points.legal)
  )
  orders, boards = points.tokens.shape[1], len(np.unique(states))
  result = orders, boards, same, alike + unlike, alike, black
  assert result == GOLDEN[name]


def test_held_out_are_all_orders_and_training_games_are_games():
  squares = ('b2', 'c2', 'd2', 'b3', 'b4', 'e5')
  world = registry.make(
    'world', f'othello(size=6, openings={" ".join(squares)!r})'
  )
  result = world.sample(100, 0, 'heldout')
  expected = {
    ''.join(moves)
    for moves in itertools.permutations(squares)
    if _legal(world, ''.join(moves))
  }
  assert len(expected) == 10
  written = {
    ''.join(world.vocab[token] for token in row[:6]) for row in result.tokens
  }
  assert written == expected
  assert (result.lengths == 6).all()
  plain = registry.make('world', 'othello(size=6)')
  for split in ('train', 'all'):
    np.testing.assert_array_equal(
      world.sample(5, 1, split).tokens, plain.sample(5, 1, split).tokens
    )


def _legal(world, moves):
  try:
    world.parse(moves)
  except core.InputError:
    return False
  return True


@pytest.mark.parametrize(
  ('openings', 'message'),
  [
    ('d3 z9', "no square is called 'z9'; expected different squares"),
    ('d3 d3', 'expected different squares'),
    ('a1 h8', 'expected playable squares in some order'),
  ],
)
def test_bad_openings_are_one_line(openings, message):
  with pytest.raises(core.InputError, match=message):
    registry.make('world', f'othello(openings={openings!r})')
