"""Whole games of chess: replays, outcomes, random games.

Outcomes are tested in the order and with the meaning of Walker and Lyons 2026,
who end random games by any draw that could be claimed, including claims that
rest on an announced move.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from wm import core
from wm.core import basics
from wm.kernels.base import calls
from wm.kernels.base.bits import below, lowest, popcount, put
from wm.kernels.base.jit import njit
from wm.kernels.chess import board, layout, positions
from wm.kernels.chess.layout import LABELS, STOPS, WORDS

# Indices into layout.OUTCOMES.
NONE, MATE, DEAD_MATERIAL, STALEMATE, SEVENTY_FIVE, FIVEFOLD = range(6)
FIFTY, THREEFOLD = 6, 7
# Endings of games: no legal move; automatic endings too; claims too.
MOVES, AUTOMATIC, CLAIMS = range(3)
# `memory` of the positions since the last capture or pawn move: the ply of the
# first, the numbers of keys of even and of odd plies that occurred twice, and
# the number of occurrences of the current position.
SINCE, TWICE, SEEN = 0, 1, 3
MEMORY = 4
_DARK = ~0x55AA55AA55AA55AA


def _replay(
  moves: Any,
  lengths: Any,
  starts: Any,
  *,
  labelled: bool = False,
  ep: str = 'raw',
  judged: bool = False,
  stop: str = 'claims',
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
  """Replays games: final states and, if requested, labels and outcomes.

  Returns:
    steps: [N] int32, legal moves followed.
    rows: [N, 11] int32, states after these moves.
    labels: [N, L + 1, 75] uint8 after each move, 0 after the last; or empty.
    codes: [N, L + 1] int8 outcomes after each, -1 after the last; or empty.
  """
  moves, lengths, starts = layout.games(moves, lengths, starts)
  num, plies = moves.shape
  results = (
    np.empty(num, np.int32),
    np.empty((num, WORDS), np.int32),
    np.zeros((num * labelled, plies + 1, LABELS), np.uint8),
    np.full((num * judged, plies + 1), -1, np.int8),
  )
  rules = ep == 'legal', STOPS.index(stop)
  for rows in calls.slices(num):
    first = starts[rows] if len(starts) > 1 else starts
    parts = (array[rows] for array in results)
    _replay_games(moves[rows], lengths[rows], first, *rules, *parts)
  return results


def replay(
  moves: np.ndarray, lengths: np.ndarray, starts: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
  """Follows games up to the first illegal move.

  Args:
    moves: [N, L] packed; those past lengths[n] are not read.
    lengths: [N].
    starts: [11], [1, >= 11] or [N, >= 11] rows; the standard position if None.

  Returns:
    steps: [N] int32, moves followed.
    rows: [N, 11] int32, after them.
  """
  return _replay(moves, lengths, starts)[:2]


def replay_labels(
  moves: np.ndarray,
  lengths: np.ndarray,
  ep: str = 'raw',
  starts: np.ndarray | None = None,
) -> np.ndarray:
  """[N, L + 1, 75] uint8 state labels after every move of games.

  Row 0 is before the first move; rows after the last or an illegal move are 0.
  Arguments as for `replay` and `labels`.
  """
  return _replay(moves, lengths, starts, labelled=True, ep=ep)[2]


def outcomes(
  moves: np.ndarray,
  lengths: np.ndarray,
  stop: str = 'claims',
  starts: np.ndarray | None = None,
) -> np.ndarray:
  """[N, L + 1] int8: index into OUTCOMES after every move of games.

  0 while the game continues, -1 after its last or an illegal move. The first
  applicable entry of OUTCOMES counts. Repetitions are counted within the given
  moves; the halfmove clock of a start row counts. Arguments as for `replay` and
  `play`.
  """
  return _replay(moves, lengths, starts, judged=True, stop=stop)[3]


def play(
  num: int,
  seed: int,
  first: int = 0,
  *,
  most: int = 1024,
  stop: str = 'claims',
  policy: str = 'uniform',
  start_row: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Random games, uniform as published (Walker and Lyons 2026) or by a policy.

  Game i depends only on seed, first + i and the start row. At ply t, the hash
  hash64(seed, first + i, t), scaled, selects a legal move, with probability in
  proportion to its weight.

  Args:
    num: games.
    seed: any integer.
    first: number of the first game.
    most: plies after which a game is cut.
    stop: endings of games: 'claims', all OUTCOMES; 'automatic', all but
      claims; 'moves', only mate and stalemate.
    policy: preference of moves, one of POLICIES.
    start_row: [>= 11]; the standard position if None.

  Returns:
    moves: [num, most] int32 packed, -1 after the last.
    lengths: [num] int32.
    codes: [num] int8 into OUTCOMES; 0 where the game was cut.
  """
  row = layout.start() if start_row is None else start_row
  row = layout.rows(np.atleast_2d(row), 'start row')[0]
  # One seed per game, by its number in the run: parts of a run equal the whole.
  seeds = basics.hash64(seed, first + np.arange(num))
  moves = np.full((num, most), -1, np.int32)
  lengths, codes = np.zeros(num, np.int32), np.zeros(num, np.int8)
  rules = STOPS.index(stop), weights(policy)
  results = moves, lengths, codes
  for rows in calls.slices(num):
    if not _play(row, seeds[rows], *rules, *(a[rows] for a in results)):
      raise core.InputError(
        f'start row {row[:WORDS].tolist()}; expected a board, one king a side'
      )
  return results


@njit
def _play(start, seeds, stop, weights, moves, lengths, codes) -> bool:
  """Random games; game n is a function of seeds[n].

  weights: [8] of the kinds of moves, empty: uniform.
  Fills moves[N, L] (only while the game lasts), lengths[N] and codes[N].
  Returns False if start has no board.
  """
  most = moves.shape[1]
  p, targets, spare, more, past, twice, memory = _room(most)
  choices, sums = np.empty(256, np.int64), np.empty(256, np.int64)
  first = np.empty(board.WIDTH, np.int64)
  # Loaded once; each game begins with a copy.
  if not board.load(start, first):
    return False
  for n in range(len(moves)):
    put(p, first)
    ply = np.int64(0)  # Of a plain 0 Numba compiles what is called twice.
    forget(ply, memory)
    while True:
      count = positions.fill_targets(p, targets)
      if stop > MOVES:  # Otherwise history is not needed.
        remember(p, ply, past, twice, memory)
      codes[n] = outcome(
        p, targets, count, ply, stop, twice, memory, spare, more
      )
      if codes[n] or ply == most:
        break
      # Uniform games need no list of moves: only the drawn move is looked up.
      if len(weights):
        move = draw(p, targets, weights, choices, sums, seeds[n], ply)
      else:
        move = positions.nth_move(p, targets, below(seeds[n], ply, count))
      moves[n, ply] = move
      zeroing = board.make(p, move)
      ply += 1
      if zeroing:
        forget(ply, memory)
    lengths[n] = ply
  return True


@njit
def _cannot_win(p, side):
  """True if the pieces on the board make a mate by `side` impossible."""
  pieces = p[board.PIECES + side]
  # A pawn, rook or queen can always mate if the other side helps.
  if pieces & (p[board.PAWNS] | p[board.ROOKS] | p[board.QUEENS]):
    return False
  if pieces & p[board.KNIGHTS]:
    # A lone knight needs an enemy piece other than a queen, besides the king.
    blockers = p[board.PIECES + 1 - side] & ~(p[board.KINGS] | p[board.QUEENS])
    return popcount(pieces) <= 2 and blockers == 0
  bishops = p[board.BISHOPS]
  if pieces & bishops:
    # Bishops of one colour of squares never attack the other colour.
    dark = bishops & _DARK
    return (dark == 0 or dark == bishops) and not p[board.PAWNS] | p[
      board.KNIGHTS
    ]
  # A bare king.
  return True


@njit
def remember(p, ply, past, twice, memory) -> None:
  """Enters the position after `ply` moves into past [plies] and twice [2, n].

  `memory[SINCE]` is the first ply of the window of comparable positions.
  """
  key = positions.full_key(p)
  past[ply] = key
  # Equal positions have the same side to move, and two plies cannot restore a
  # position: the latest that may be equal is four plies ago.
  seen = 1
  for earlier in range(ply - 4, memory[SINCE] - 1, -2):
    seen += past[earlier] == key
  memory[SEEN] = seen
  # Only the second time: `twice` then holds each key once.
  if seen == 2:
    parity = ply & 1
    twice[parity, memory[TWICE + parity]] = key
    memory[TWICE + parity] += 1


@njit
def forget(ply, memory) -> None:
  """Clears the window: captures and pawn moves rule out earlier positions."""
  memory[SINCE] = ply
  memory[TWICE] = memory[TWICE + 1] = 0


@njit
def _leads_to(p, targets, keys, num):
  """True if a legal move leads to a position with one of keys[:num].

  Only moves that are not captures, not of pawns and do not change rights count.
  """
  side = p[board.SIDE]
  rest = p[board.PIECES + side] & ~p[board.PAWNS]
  while rest:
    source = lowest(rest)
    rest &= rest - 1
    if p[board.RIGHTS] & ~board.KEEP[source]:
      continue  # The move gives up a right, so the position is new.
    # The key after a quiet move, without making it.
    code = board.code_at(p, source)
    base = p[board.KEY] ^ board.SIDE_KEY ^ board.PIECE_KEYS[code, source]
    goals = targets[source] & ~p[board.PIECES + 1 - side]
    while goals:
      key = base ^ board.PIECE_KEYS[code, lowest(goals)]
      goals &= goals - 1
      for k in range(num):
        if keys[k] == key:
          return True
  return False


@njit
def _claims_fifty(p, targets, after, after_targets):
  """True if the side to move may claim the fifty-move rule, or by a move."""
  # At 99 a quiet move makes 100, and may be announced together with the claim.
  if p[board.HALF] != 99:
    return p[board.HALF] >= 100
  side = p[board.SIDE]
  rest = p[board.PIECES + side] & ~p[board.PAWNS]
  while rest:
    source = lowest(rest)
    rest &= rest - 1
    goals = targets[source] & ~p[board.PIECES + 1 - side]
    while goals:
      put(after, p)
      board.make(after, (source << 6 | lowest(goals)) * 5)
      goals &= goals - 1
      # No claim where the move mates or stalemates: the game is over then.
      if positions.fill_targets(after, after_targets):
        return True
  return False


@njit
def outcome(p, targets, count, ply, stop, twice, memory, spare, room) -> int:
  """Code of the outcome at a position that `remember` has entered.

  targets and count come from fill_targets; spare [WIDTH] and room [64] are
  overwritten.
  """
  # In the order of layout.OUTCOMES: the first that applies is the outcome.
  if count == 0 and positions.is_check(p):
    return MATE
  side = p[board.SIDE]  # A number, not 0 and 1: compiled once for both sides.
  if stop >= AUTOMATIC and _cannot_win(p, side) and _cannot_win(p, 1 - side):
    return DEAD_MATERIAL
  if count == 0:
    return STALEMATE
  if stop >= AUTOMATIC:
    # The clock counts plies: 75 moves of each side.
    if p[board.HALF] >= 150:
      return SEVENTY_FIVE
    if memory[SEEN] >= 5:
      return FIVEFOLD
  if stop >= CLAIMS:
    if p[board.HALF] >= 99 and _claims_fifty(p, targets, spare, room):
      return FIFTY
    if memory[SEEN] >= 3:
      return THREEFOLD
    # A move that restores a key which occurred twice may be announced.
    other = 1 - (ply & 1)
    num = memory[TWICE + other]
    if num and _leads_to(p, targets, twice[other], num):
      return THREEFOLD
  return NONE


@njit
def _room(plies):
  """Scratch for games of up to `plies` moves.

      p, targets    the position, squares that its pieces may go to
      spare, more   the same for a move that is only announced
      past          [plies + 1] the key after each ply
      twice         [2, n] by parity of the ply, keys that came a second time
      memory        [MEMORY], see `remember`

  A key that occurred twice takes two plies of one side: at most plies // 4.
  """
  p, targets = np.empty(board.WIDTH, np.int64), np.empty(64, np.int64)
  spare, more = np.empty(board.WIDTH, np.int64), np.empty(64, np.int64)
  past = np.empty(plies + 1, np.int64)
  twice = np.empty((2, plies // 4 + 2), np.int64)
  return p, targets, spare, more, past, twice, np.zeros(MEMORY, np.int64)


@njit
def _replay_games(
  moves, lengths, starts, legal_ep, stop, steps, rows, labels, codes
) -> None:
  """Follows games to the first illegal move.

  starts: [1 or N, >= 11]. Fills steps[N], rows[N, 11], and, unless empty,
  labels[N, L + 1, 75] and codes[N, L + 1] of outcomes.
  """
  p, targets, spare, more, past, twice, memory = _room(moves.shape[1])
  for n in range(len(moves)):
    start = starts[n if len(starts) > 1 else 0]
    steps[n] = 0
    put(rows[n], start[:11])
    if not board.load(start, p):
      continue
    ply = np.int64(0)  # As in `_play`.
    forget(ply, memory)  # Of the game before this one.
    while True:
      count = positions.fill_targets(p, targets)
      if len(labels):
        positions.encode(p, legal_ep, labels[n, ply])
      if len(codes):
        remember(p, ply, past, twice, memory)
        codes[n, ply] = outcome(
          p, targets, count, ply, stop, twice, memory, spare, more
        )
      # A position is evaluated before its move is read: there is one more
      # position than moves.
      if ply == lengths[n]:
        break
      move = np.int64(moves[n, ply])
      if not positions.is_legal(p, targets, move):
        break
      zeroing = board.make(p, move)
      ply += 1
      if zeroing:
        forget(ply, memory)
    steps[n] = ply
    board.store(p, rows[n])


# Policies of random games. A move is drawn with probability proportional to its
# weight, the product of the factors of all its kinds; a policy is a row of
# factors. 'promotions' leads away from human and uniform games, to positions
# with several queens.

# Any capture, including en passant; each of the four promotions; any pawn move.
KINDS = 'capture', 'promotion', 'pawn'
CAPTURE, PROMOTION, PAWN = (1 << k for k in range(3))
POLICIES: dict[str, dict[str, float]] = {
  'uniform': {},
  'promotions': {'promotion': 16, 'pawn': 16, 'capture': 1 / 2},
}
UNIT = 256  # Weight of a move without any kind.


@functools.cache
def weights(policy: str) -> np.ndarray:
  """[8] int64 weight of each set of kinds; empty for the uniform policy."""
  factors = POLICIES[policy]
  if not factors:
    return np.zeros(0, np.int64)
  # Bit k of a row's number is KINDS[k]. A row holds the product of its kinds'
  # factors times UNIT, a whole number.
  table = np.full(1 << len(KINDS), float(UNIT))
  for name, factor in factors.items():
    table[np.arange(len(table)) & 1 << KINDS.index(name) > 0] *= factor
  # All 218 moves of a position must sum to less than 2 ** 32.
  return calls.frozen(table, np.int64)


@njit
def _weigh(p, targets, weights, moves, sums):
  """Fills moves[n], ascending, and running sums[n] of weights; returns n."""
  side, count, total = p[board.SIDE], 0, 0
  them = p[board.PIECES + 1 - side]
  rest = p[board.PIECES + side]
  #   moves | m0  m1       m2            ...   a number below the last sum
  #   sums  | w0  w0 + w1  w0 + w1 + w2  ...   is in move k with w_k / sum
  while rest:
    source = lowest(rest)
    pawn = rest & -rest & p[board.PAWNS]
    rest &= rest - 1
    goals = targets[source]
    while goals:
      target = lowest(goals)
      promotes = pawn and goals & -goals & positions.LAST_RANKS
      goals &= goals - 1
      kinds = PAWN if pawn else 0
      # Pawns also capture en passant, on an empty square of another file.
      if 1 << target & them or (pawn and (source ^ target) & 7):
        kinds |= CAPTURE
      packed = (source << 6 | target) * 5
      first, last = 0, 1  # Promotions that the move may have: none.
      if promotes:
        kinds |= PROMOTION
        first, last = 1, 5
      for promo in range(first, last):
        total += weights[kinds]
        moves[count], sums[count] = packed + promo, total
        count += 1
  return count


@njit
def draw(p, targets, weights, moves, sums, stream, ply) -> int:
  """A legal packed move of filled targets, drawn by weight.

  moves [>= 218] and sums [>= 218] are overwritten; stream and ply are those
  of `below`.
  """
  # The sums are below 2 ** 32 (see `weights`), the limit of `below`.
  count = _weigh(p, targets, weights, moves, sums)
  # The first move whose running sum exceeds a number below the total.
  place = below(stream, ply, sums[count - 1])
  k = 0
  while sums[k] <= place:
    k += 1
  return moves[k]


def chances(rows: np.ndarray, policy: str) -> tuple[np.ndarray, np.ndarray]:
  """Probabilities with which `play` draws the next move from rows [B, >= 11].

  policy: one of POLICIES, not the uniform one.

  Returns:
    moves: [B, 256] int32 ascending, -1 after the last.
    shares: [B, 256] float64 probability of each, 0 after the last.
  """
  rows, factors = layout.rows(rows), weights(policy)
  moves = np.full((len(rows), layout.MOST_MOVES), -1, np.int32)
  shares = np.zeros((len(rows), layout.MOST_MOVES))
  _chances(rows, factors, moves, shares)
  return moves, shares


@njit
def _chances(rows, weights, moves, shares) -> None:
  """Fills moves[B, 256], ascending, and their probabilities shares[B, 256]."""
  p, targets = np.empty(board.WIDTH, np.int64), np.empty(64, np.int64)
  choices, sums = np.empty(256, np.int64), np.empty(256, np.int64)
  for b in range(len(rows)):
    if not board.load(rows[b], p) or not positions.fill_targets(p, targets):
      continue
    count = _weigh(p, targets, weights, choices, sums)
    last = 0
    for k in range(count):
      moves[b, k] = choices[k]
      shares[b, k] = (sums[k] - last) / sums[count - 1]
      last = sums[k]
