"""Transpositions of chess: other orders of the moves to one position."""

from __future__ import annotations

import numpy as np

from wm import core
from wm.kernels.base import calls
from wm.kernels.base.bits import below, lowest, put, splitmix
from wm.kernels.base.jit import njit
from wm.kernels.chess import board, games, layout, positions

WIDEST = 10  # Plies in a window: 5! * 5! orders.
NONE = -1  # Padding after the moves of a row.


def transpositions(
  moves: np.ndarray,
  lengths: np.ndarray,
  seeds: np.ndarray,
  start: np.ndarray | None = None,
  sweeps: int = 4,
  window: int = 5,
  opening: int = 8,
) -> np.ndarray:
  """Random orders of each game's moves that reach the same position.

  A Gibbs chain. Each step picks a window of consecutive plies with a uniform
  start. It enumerates every order of the window's moves (each side keeps its
  moves) that is legal from the position before and leads to the position after
  (equal Zobrist keys; counters may differ), and takes one uniformly. The chain
  converges to the uniform distribution over all orders connected by such steps.
  The window at the start of the game is wider, as few orders are legal there. A
  game that fits in this window is drawn exactly, uniformly over all its orders.

  Args:
    moves: [T, L] legal packed moves; those past lengths[t] are not read.
    lengths: [T].
    seeds: [T] uint64; row t depends on its moves and seeds[t] alone.
    start: [>= 11] row that games begin in; the standard position if None.
    sweeps: windows drawn, as multiples of the number of starts in the row.
    window: plies in a window, 3..WIDEST.
    opening: plies in the window at the start, window..WIDEST.

  Returns:
    moves [T, L] int32, -1 past each length.

  Raises:
    InputError: an illegal move.
  """
  start = layout.start() if start is None else start
  moves = calls.frozen(np.atleast_2d(moves), np.int32)
  lengths = calls.frozen(np.atleast_1d(lengths), np.int32)
  seeds = calls.seeds(seeds)
  calls.same_length(moves=moves, lengths=lengths, seeds=seeds)
  # Compiled code does not check moves, so they are checked here once.
  steps = games.replay(moves, lengths, start)[0]
  if (steps < lengths).any():
    row = int(np.argmax(steps < lengths))
    raise core.InputError(
      f'row {row} has an illegal move {moves[row, steps[row]]} at ply '
      f'{steps[row] + 1}; expected legal moves from the start'
    )
  start = calls.frozen(np.asarray(start)[: layout.WORDS], np.int32)
  rows, rest = (moves, lengths, seeds), (start, sweeps, window, opening)
  return calls.run_rows(_transpositions, rows, *rest)


@njit
def _transpositions(
  moves, lengths, seeds, start, sweeps, window, opening
) -> np.ndarray:
  """A Gibbs chain over the orders of each row's moves."""
  out = np.full(moves.shape, NONE, np.int32)
  most = moves.shape[1]
  game = np.empty((most + 1, board.WIDTH), np.int64)
  played = np.empty(most, np.int64)
  # Scratch of `_redraw`: positions by level, the window's moves, by level the
  # move to try next and the one chosen, targets of castlings.
  room = (
    np.empty((opening + 1, board.WIDTH), np.int64),
    np.empty(opening, np.int64),
    np.empty(opening, np.int64),
    np.empty(opening, np.int64),
    np.empty(64, np.int64),
  )
  board.load(start, game[0])
  for n in range(len(moves)):
    length = np.int64(lengths[n])
    put(played, moves[n, :length])
    _fill(game, played, np.int64(0), length)
    # A game that the opening window covers is drawn exactly, at once.
    starts = max(length - window + 1, 1)
    steps = sweeps * starts if length > opening else min(sweeps, 1)
    stream = splitmix(seeds[n])
    for step in range(steps):
      # One stream places the windows; each window has its own stream.
      low = below(stream, step, starts) if length > opening else 0
      width = window if low else min(opening, length)
      mixed = splitmix(stream ^ splitmix(np.uint64(step)))
      _redraw(game, played, low, width, room, mixed)
      _fill(game, played, low, low + width)
    put(out[n], played[:length])
  return out


@njit
def _pawn_reaches(p, source, target, taken) -> bool:
  """True if a pawn move is pseudo-legal, ignoring the safety of the king."""
  side = p[board.SIDE]
  if board.PAWN_ATTACKS[side, source] & 1 << target:
    # En-passant captures end on rank 3 (black) or 6 (white); from 0: 2, 5.
    rank = 2 if side else 5
    passing = target >> 3 == rank and (target & 7) + 1 == p[board.EP]
    return taken != 0 or passing
  ahead = source - 8 if side else source + 8
  if taken or target == ahead:
    return taken == 0 and target == ahead
  # Two steps, from home, over an empty square.
  home = 6 if side else 1
  return (
    source >> 3 == home
    and target == 2 * ahead - source
    and board.code_at(p, ahead) == 0
  )


@njit
def _made(p, move, q, targets) -> bool:
  """Fills q with p after a packed move; returns False for an illegal move.

  Tests only this move, which is cheaper than listing all legal moves.
  """
  promo, pair = move % 5, move // 5
  source, target, side = pair >> 6, pair & 63, p[board.SIDE]
  kind, taken = board.code_at(p, source) - 6 * side, board.code_at(p, target)
  # In another order the piece may be elsewhere or captured, and an own piece
  # may occupy the target: every part of the move is checked.
  if not 1 <= kind <= 6 or (taken and (taken > 6) == (side == 1)):
    return False
  if kind == 6 and abs(target - source) == 2:  # Castling, or no king's move.
    positions.fill_targets(p, targets)
    if not positions.is_legal(p, targets, move):
      return False
  elif kind == 1:
    if not _pawn_reaches(p, source, target, taken):
      return False
  elif (
    not board.reach(kind, source, p[board.PIECES] | p[board.PIECES + 1])
    & 1 << target
  ):
    return False
  promotes = kind == 1 and 1 << target & positions.LAST_RANKS != 0
  if (promo > 0) != promotes:
    return False
  put(q, p)
  board.make(q, move)
  # The mover's king must not stand attacked afterwards.
  king = lowest(q[board.KINGS] & q[board.PIECES + side])
  return (
    board.attackers(q, king, 1 - side, q[board.PIECES] | q[board.PIECES + 1])
    == 0
  )


@njit
def _sorted_sides(played, low, width, moves) -> None:
  """Sorts the window's moves of each side, at alternate places of `moves`."""
  # An insertion sort in steps of two: the sides take turns.
  for k in range(width):
    move, at = played[low + k], k
    while at >= 2 and moves[at - 2] > move:
      moves[at] = moves[at - 2]
      at -= 2
    moves[at] = move


@njit
def _redraw(game, played, low, width, room, stream) -> None:
  """Draws a random order of the window that leads to the position after it.

  Depth first, moves ascending: level l plays one of the moves of the side to
  move there.

      sides     | a b c d e ...    a c e: of the first side, b d: of the other
      level 0   | k = 0, 2, 4      each ascending
      level 1   |  k = 1, 3        `used` has a bit for each k played at the
      level 2   | k = 0, 2, 4      levels above

  Reservoir sampling: the n-th order replaces the current one with probability
  1 / n, so that all orders are equally likely without a list. room: positions
  by level, `sides`, the next k to try at each level, the k played there,
  targets.
  """
  stack, sides, following, chosen, targets = room
  _sorted_sides(played, low, width, sides)
  goal = positions.full_key(game[low + width])
  used, num, level = 0, 0, 0
  put(stack[0], game[low])
  following[0], chosen[0] = 0, NONE
  while level >= 0:
    # Back from the level below: undo its move.
    if chosen[level] != NONE:
      used ^= 1 << chosen[level]
      chosen[level] = NONE
    k = following[level]
    if k >= width:
      level -= 1
      continue
    following[level] = k + 2
    # Of equal moves only the first unused one is tried, so that no order is
    # counted twice.
    twin = k >= 2 and sides[k - 2] == sides[k] and not used >> (k - 2) & 1
    if used >> k & 1 or twin:
      continue
    if not _made(stack[level], sides[k], stack[level + 1], targets):
      continue
    if level + 1 < width:
      used |= 1 << k
      chosen[level] = k
      level += 1
      following[level], chosen[level] = level & 1, NONE
    elif positions.full_key(stack[width]) == goal:
      num += 1
      if below(stream, num, num) == 0:
        # The last move has no level of its own: it was tried at this one.
        for j in range(width - 1):
          played[low + j] = sides[chosen[j]]
        played[low + width - 1] = sides[k]


@njit
def _fill(game, played, low, high) -> None:
  """Positions after plies low..high - 1 of a legal line."""
  for k in range(low, high):
    put(game[k + 1], game[k])
    board.make(game[k + 1], played[k])
