"""Ids of chess moves by their names, and the published numbering of tokens."""

import numpy as np

from wm.worlds.chess import notation as chess_notation

PACKED = {
  chess_notation.uci(move): move
  for move in chess_notation.possible_moves().tolist()
}


def published(tokens: np.ndarray, kind: str) -> np.ndarray:
  """Packed ids of moves; start is 20480, padding 20481 (section 2.2)."""
  table = np.array(chess_notation.packed_ids(kind))
  table[0], table[-1] = 20481, chess_notation.PUBLISHED_START
  return table[tokens]
