"""Openings of the same squares, and pairs of their states, as published."""

import itertools

import numpy as np
import pytest

from wm import core
from wm.core import registry
from wm.evaluation.adapting import coin_tasks
from wm.kernels import pairs

# Orders, boards after 6 to 10 moves, pairs of one board, of two that are alike
# in what is legal, and of two that are not: counted by the published program's
# rules, with the side to move that is right.
GOLDEN = {
  'published': (210, 412, 3_889, 199, 546_637),
  'tied': (204, 439, 3_757, 215, 515_718),
  'rich': (233, 331, 4_471, 1_208, 672_351),
}


@pytest.mark.parametrize('name', GOLDEN)
def test_published_openings_have_as_many_orders_boards_and_pairs(name):
  world = registry.make('world', f'othello(openings={name!r})')
  points = coin_tasks.visited(world, 1000, 10**6, 5, 0)
  assert points.states.shape[2] == 5
  states, legal = points.states.reshape(-1), points.legal.reshape(-1)
  counted = pairs.count(np.zeros((1, len(states)), int), states, legal)[1]
  found = points.tokens.shape[1], len(np.unique(states)), *counted.tolist()
  assert found == GOLDEN[name]


def test_held_out_are_all_orders_and_training_games_are_games():
  squares = ('b2', 'c2', 'd2', 'b3', 'b4', 'e5')
  world = registry.make(
    'world', f'othello(size=6, openings={" ".join(squares)!r})'
  )
  found = world.sample(100, 0, 'heldout')
  wanted = {
    ''.join(moves)
    for moves in itertools.permutations(squares)
    if _legal(world, ''.join(moves))
  }
  assert len(wanted) == 10
  written = {
    ''.join(world.vocab[token] for token in row[:6]) for row in found.tokens
  }
  assert written == wanted
  assert (found.lengths == 6).all()
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
    ('a1 h8', 'that can be played from the start in some order'),
  ],
)
def test_bad_openings_are_one_line(openings, message):
  with pytest.raises(core.InputError, match=message):
    registry.make('world', f'othello(openings={openings!r})')
