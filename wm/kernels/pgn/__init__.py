"""PGN: where games, tags and moves lie in a text.

games        splits a text into games, reads their moves
games_numba  its compiled form; `ref` is the same in plain Python
"""

from wm.kernels.pgn.games import Moves, Text, read, split
from wm.kernels.pgn.layout import (
  BROKEN,
  END,
  FEN,
  FLAGS,
  MOVES,
  NAMES,
  OPEN,
  OVER,
  SETUP,
  SITE,
  START,
  TAGS,
  VARIANT,
  WIDTH,
)
