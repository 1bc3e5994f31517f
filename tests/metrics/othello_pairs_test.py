"""Pairs of Othello's published validation points, counted as the paper could.

The points are all legal orders of ten squares, after 6 to 10 moves; most of
the published pairs with the same next tokens are read from the wrong side.
"""

import numpy as np
import pytest

from wm.core import registry
from wm.evaluation import coin_tasks
from wm.kernels import othello

WORLD = registry.make('world', 'othello()')
CENTRE = 27, 28, 35, 36


def orders(squares):
  """[P, 10] int32: all legal orders of some squares, as tokens."""
  free = [square for square in range(64) if square not in CENTRE]
  tokens = np.array([free.index(square) + 1 for square in squares], np.int32)
  paths, states = np.zeros((1, 0), np.int32), WORLD.init(1)
  for _ in tokens:
    row, pick = np.nonzero(WORLD.legal(states)[:, tokens])
    fresh = (paths[row] != tokens[pick, None]).all(1)
    row, moved = row[fresh], tokens[pick[fresh]]
    paths = np.concatenate([paths[row], moved[:, None]], axis=1)
    states = WORLD.advance(states[row], moved)
  return paths


@pytest.mark.parametrize(
  ('squares', 'wanted'),
  [
    (
      (18, 21, 26, 29, 37, 43, 44, 45, 53, 54),
      (210, 61, 412, 3_889, 546_836, 199, 1_425),
    ),
    (
      (18, 19, 29, 37, 42, 43, 44, 45, 46, 50),
      (204, 64, 439, 3_757, 515_933, 215, 1_499),
    ),
  ],
  ids=['paper', 'tie'],
)
def test_pairs_by_the_right_side_and_by_black(squares, wanted):
  paths = orders(squares)
  num = len(paths)
  states = np.concatenate(
    [WORLD.after(paths, np.full(num, k)) for k in range(6, 11)]
  )
  ids, last = WORLD.state_id(states), WORLD.state_id(states[-num:])
  black, white, _ = WORLD._position(states)
  as_black = othello.legal((black, white, np.zeros(5 * num, np.int8)), 8)
  right = np.packbits(WORLD.legal(states), axis=-1)
  right = np.unique(right, axis=0, return_inverse=True)[1]
  answers = np.zeros((1, 5 * num), np.int8)
  (same, alike, unlike), (_, by_black, _) = (
    coin_tasks.count_pairs(answers, ids, legal).pairs
    for legal in (right, as_black.astype(np.int64))
  )
  result = num, len({*last}), len({*ids}), same, alike + unlike, alike, by_black
  assert result == wanted
