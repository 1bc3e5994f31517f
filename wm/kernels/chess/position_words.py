"""Words of a position in compiled code: an int64 array of WIDTH of them.

  0..5    squares of the pieces of each kind, both colours
  6, 7    squares of the pieces of white and of black
  8..11   codes of all squares: 64 nibbles in the order of squares
  12..18  what is not on the board

A set of squares is a word with their bits, a1 = bit 0 to h8 = bit 63.
"""

from __future__ import annotations

PAWNS, KNIGHTS, BISHOPS, ROOKS, QUEENS, KINGS = range(6)
PIECES = 6  # + side
CODES = 8  # .. 11
SIDE, RIGHTS, EP, HALF, FULL = range(12, 17)  # EP: raw file + 1, 0 none
KEY = 17  # Zobrist key but for en passant
KNOWN = 18  # moves known before the position
WIDTH = 19
