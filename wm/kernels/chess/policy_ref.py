"""Kinds of moves in plain Python: the specification of `chess_policies`."""

from __future__ import annotations

import bisect
import itertools

from wm.kernels.chess import policies, ref


def kinds(position: ref.Position, move: int) -> int:
  """Set of kinds of a legal packed move."""
  promo, pair = move % 5, move // 5
  source, target = divmod(pair, 64)
  kind, side = ref.man(position.board[source])
  taken = position.board[target] != ref.EMPTY
  if kind == ref.KING and abs(target - source) == 2:
    return policies.CASTLING
  found = policies.CAPTURE if taken else 0
  if kind == ref.PAWN:
    found |= policies.PAWN
    if promo:
      found |= policies.PROMOTION
    if not taken and source % 8 != target % 8:
      found |= policies.CAPTURE | policies.PASSING
    if abs(target - source) == 16 and _beside(position, target):
      found |= policies.OFFER
    return found
  if not taken and kind in (ref.KNIGHT, ref.ROOK):
    found |= policies.SHUFFLE
  own = {right for right in position.rights if right // 2 == side}
  if any(source in ref.CASTLINGS[right][::2] for right in own):
    found |= policies.FORFEIT
  squares = {square for right in own for square in _between(right)}
  if source in squares and target not in squares:
    found |= policies.CLEARING
  return found


def _beside(position: ref.Position, square: int) -> bool:
  """Does a pawn of the other side stand next to a square on its rank?"""
  pawn = ref.PAWN if position.side else ref.PAWN + 6
  return any(
    other // 8 == square // 8 and position.board[other] == pawn
    for other in (square - 1, square + 1)
  )


def _between(right: int) -> range:
  """Squares between king and rook of a castling right."""
  king, _, rook, _ = ref.CASTLINGS[right]
  return range(min(king, rook) + 1, max(king, rook))


def draw(
  position: ref.Position, moves: list[int], weights: list[int], word: int
) -> int:
  """The move that a random word of 32 bits draws."""
  sums = [*itertools.accumulate(weights[kinds(position, m)] for m in moves)]
  return moves[bisect.bisect_right(sums, word * sums[-1] >> 32)]
