"""Othello on boards of 4, 6 and 8 squares a side, as 64-bit words.

rules        positions, legal moves, replays of token rows, counts
policies     whole games: uniform, greedy, by mobility, by search
product      what tells two positions apart
move_orders  other orders of a game's moves to the same position
vmap         the rules in JAX, for programs on a device
"""

from wm.kernels.othello.move_orders import transpositions
from wm.kernels.othello.policies import POLICIES, chances, play
from wm.kernels.othello.product import boundary, boundary_sizes
from wm.kernels.othello.rules import (
  OVER,
  SIZES,
  advance,
  count,
  legal,
  mask,
  replay,
  replay_labels,
  squares,
  start,
  tokens_of,
)
