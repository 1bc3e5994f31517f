"""What random games of chess prefer: weights of the kinds of moves.

A move is drawn with a probability proportional to its weight, which is the
product of the factors of all kinds it is of; so a policy is a row of factors.
Each leads games away from those of people and from uniform ones in a way of
its own, so that an error can be laid to unfamiliar positions of that sort.

  capture    takes a piece, also in passing
  promotion  each of the four
  castling
  passing    takes a pawn in passing
  offer      a double push that ends beside a pawn of the other side
  pawn       a pawn's move of any sort
  shuffle    a knight's or a rook's that takes nothing
  clearing   a piece leaves the squares between the king and a rook with which
             it may still castle
  forfeit    gives up an own right to castle, other than by castling
"""

from __future__ import annotations

import functools

import numpy as np

from wm import core

KINDS = (
  'capture',
  'promotion',
  'castling',
  'passing',
  'offer',
  'pawn',
  'shuffle',
  'clearing',
  'forfeit',
)
CAPTURE, PROMOTION, CASTLING, PASSING, OFFER = (1 << k for k in range(5))
PAWN, SHUFFLE, CLEARING, FORFEIT = (1 << k for k in range(5, 9))

POLICIES: dict[str, dict[str, float]] = {
  'uniform': {},
  'few_captures': {'capture': 1 / 32},
  'promotions': {'promotion': 16, 'pawn': 16, 'capture': 1 / 2},
  'shuffling': {'shuffle': 32},
  'castling': {'castling': 64, 'clearing': 4, 'forfeit': 1 / 16},
  'en_passant': {'passing': 64, 'offer': 16, 'pawn': 2},
}

UNIT = 256  # Weight of a move of no kind.


@functools.cache
def weights(policy: str) -> np.ndarray:
  """[512] int64 weight of each set of kinds; empty for the uniform policy.

  Raises:
    InputError: an unknown policy.
  """
  if policy not in POLICIES:
    raise core.InputError(
      f'unknown policy {policy!r}; available: {", ".join(POLICIES)}'
    )
  factors = POLICIES[policy]
  if not factors:
    return np.zeros(0, np.int64)
  found = np.full(1 << len(KINDS), float(UNIT))
  for name, factor in factors.items():
    found[np.arange(len(found)) & 1 << KINDS.index(name) > 0] *= factor
  # All 218 moves of a position must sum to less than 2 ** 32.
  found = np.clip(np.round(found), 1, 2**24).astype(np.int64)
  found.flags.writeable = False
  return found
