"""Other orders of the moves to one chess position, in plain Python.

Slow and short: the specification of `chess_orders_numba`. Which moves are
legal, and which positions are one, it asks `wm.kernels.chess`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wm.kernels import chess
from wm.kernels.dfa.ref import below, splitmix

Order = tuple[int, ...]


def orders(
  moves: np.ndarray,
  lengths: np.ndarray,
  seeds: np.ndarray,
  start: np.ndarray,
  sweeps: int,
  window: int,
  opening: int,
) -> np.ndarray:
  """A Gibbs chain over the orders of each row's moves."""
  out = np.full(moves.shape, -1, np.int32)
  for n, length in enumerate(lengths.tolist()):
    played = tuple(moves[n, :length].tolist())
    starts = max(length - window + 1, 1)
    steps = sweeps * starts if length > opening else min(sweeps, 1)
    seed = int(seeds[n])
    for step in range(steps):
      low = below(seed, step, starts) if length > opening else 0
      high = low + (window if low else min(opening, length))
      mixed = splitmix(seed) ^ splitmix(step)
      before = _after(start, played[:low])
      drawn = _drawn(before, played[low:high], mixed)
      played = played[:low] + drawn + played[high:]
    out[n, :length] = played
  return out


def _after(row: np.ndarray, moves: Order) -> np.ndarray:
  for move in moves:
    row = chess.advance(row[None], np.array([move]))[0][0]
  return row


def _key(row: np.ndarray) -> int:
  return int(chess.keys(row[None])[0])


def _drawn(before: np.ndarray, moves: Order, seed: int) -> Order:
  """One of the orders that lead where `moves` does, uniformly."""
  goal = _key(_after(before, moves))
  kept, num = moves, 0
  for order, row in _orders(before, sorted(moves[::2]), sorted(moves[1::2])):
    if _key(row) == goal:
      num += 1
      if below(seed, num, num) == 0:
        kept = order
  return kept


def _orders(
  row: np.ndarray, own: list[int], other: list[int]
) -> Iterator[tuple[Order, np.ndarray]]:
  """Legal orders of both sides' moves, ascending, and where they lead."""
  if not own:
    yield (), row
    return
  for move in sorted(set(own)):
    after, ok = chess.advance(row[None], np.array([move]))
    if not ok[0]:
      continue
    left = list(own)
    left.remove(move)
    for rest, reached in _orders(after[0], other, left):
      yield (move, *rest), reached
