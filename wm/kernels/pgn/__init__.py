"""PGN: where games, tags and moves lie in a text.

games        splits a text into games, reads their moves (`chess.san_numba`)
games_numba  what splits, compiled; `ref` is both in plain Python
"""

from wm.kernels.pgn.games import read, split
from wm.kernels.pgn.layout import (
  BROKEN,
  END,
  FEN,
  FLAGS,
  MOVES,
  OPEN,
  OVER,
  SETUP,
  SITE,
  START,
  TAGS,
  VARIANT,
  WIDTH,
)
