"""The rules of chess, on batches of positions and games.

layout       state rows and packed moves: how positions are written
positions    legal moves, making moves, labels, keys, perft, boundaries of pairs
games        replays, outcomes, random games and their policies
move_orders  other orders of a game's moves to the same position
san          standard algebraic notation, read and written
board        who attacks what, moves made on a board, in compiled code
"""

from wm.kernels.chess.games import (
  POLICIES,
  chances,
  outcomes,
  play,
  replay,
  replay_labels,
)
from wm.kernels.chess.layout import STOPS, start
from wm.kernels.chess.move_orders import transpositions
from wm.kernels.chess.positions import (
  advance,
  boundary,
  boundary_sizes,
  count,
  in_check,
  keys,
  labels,
  legal,
  legal_mask,
)
