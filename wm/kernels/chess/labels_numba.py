"""The 75 state labels of a chess position, in compiled code."""

from __future__ import annotations

from wm.kernels.base.bits import shr
from wm.kernels.base.jit import njit
from wm.kernels.chess.attacks_numba import CODES, EP, FULL, HALF, RIGHTS, SIDE
from wm.kernels.chess.moves_numba import ep_sources

LABELS = 75


@njit
def encode(p, legal, out) -> None:
  """Fills out[75]; `legal` asks for en passant only where it can be played.

  Walker and Lyons 2026, section 2.1: squares a8..h1, side, four rights,
  en-passant file and rank, both bytes of both counters.
  """
  for k in range(4):
    codes = p[CODES + k]
    for rank in range(2):
      first = 8 * (7 - 2 * k - rank)
      for file in range(8):
        out[first + file] = shr(codes, 32 * rank + 4 * file) & 15
  out[64] = p[SIDE]
  for k in range(4):
    out[65 + k] = p[RIGHTS] >> k & 1
  shown = p[EP] and (not legal or ep_sources(p) != 0)
  out[69] = p[EP] if shown else 0
  # Black to move: a white pawn has just passed rank 3.
  out[70] = 2 - p[SIDE] if shown else 0
  out[71], out[72] = p[HALF] >> 8, p[HALF] & 255
  out[73], out[74] = p[FULL] >> 8, p[FULL] & 255
