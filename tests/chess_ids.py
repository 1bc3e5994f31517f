"""Ids of chess moves by their names, and the published numbering of tokens."""

import numpy as np

from wm.worlds.chess import moves

PACKED = {moves.uci(move): move for move in moves.possible().tolist()}


def published(tokens: np.ndarray, kind: str) -> np.ndarray:
  """Packed ids of moves; start is 20480, padding 20481 (section 2.2)."""
  table = np.array(moves.packed(kind))
  table[0], table[-1] = 20481, moves.PUBLISHED_START
  return table[tokens]
