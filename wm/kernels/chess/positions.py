"""Positions of chess: legal moves, labels, keys, perft, boundaries of pairs.

Positions are state rows, moves are packed, see `wm.kernels.chess.layout`.

Legal moves are sets of target squares by source square. Pins and checks are
computed first, so that every set is exact without trying moves. Only en passant
is tried on the board, as three squares change.
"""

from __future__ import annotations

import numpy as np

from wm import core
from wm.core import resources
from wm.kernels.base import calls
from wm.kernels.base.bits import enlarged, lowest, popcount, put, shr
from wm.kernels.base.jit import njit
from wm.kernels.chess import board, layout

LAST_RANKS = ~0x00FFFFFFFFFFFF00
_THIRD, _SIXTH = 0xFF << 16, 0xFF << 40
# Positions per compiled call, which takes a fraction of a second.
NODES = 1 << 21


def legal(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Legal moves of rows [B, >= 11].

  Returns:
    moves: [B, 256] int32 ascending, -1 after the last.
    counts: [B] int32.
  """
  rows = layout.rows(rows)
  moves = np.full((len(rows), layout.MOST_MOVES), -1, np.int32)
  counts = np.empty(len(rows), np.int32)
  _legal(rows, moves, counts)
  return moves, counts


@njit
def _legal(rows, moves, counts) -> None:
  """Fills moves[B, 256], ascending, and counts[B]."""
  p, targets = np.empty(board.WIDTH, np.int64), np.empty(64, np.int64)
  for b in range(len(rows)):
    counts[b] = 0
    if board.load(rows[b], p):
      counts[b] = list_moves(p, targets, moves[b])


def legal_mask(rows: np.ndarray, index: np.ndarray, columns: int) -> np.ndarray:
  """[B, columns] bool: legal moves of rows [B, >= 11] by column.

  index: [20480] column of each packed id; moves whose column is not in
  0..columns - 1, such as -1, are left out.
  """
  rows, index = layout.rows(rows), calls.frozen(index, np.int32)
  mask = np.zeros((len(rows), columns), bool)
  _legal_mask(rows, index, mask)
  return mask


@njit
def _legal_mask(rows, index, mask) -> None:
  """Sets mask[b, index[move]] for each legal move with a valid index."""
  p, targets = np.empty(board.WIDTH, np.int64), np.empty(64, np.int64)
  moves = np.empty(256, np.int32)
  for b in range(len(rows)):
    if board.load(rows[b], p):
      for k in range(list_moves(p, targets, moves)):
        column = index[moves[k]]
        if 0 <= column < mask.shape[1]:  # Otherwise the move has no token.
          mask[b, column] = True


def advance(
  rows: np.ndarray, moves: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Rows [B, 11] int32 after one packed move [B] each, and ok [B] bool.

  An illegal move gives a dead row; moves may be any integers.
  """
  rows = layout.rows(rows)
  moves = calls.frozen(np.atleast_1d(moves), np.int32)
  calls.same_length(rows=rows, moves=moves)
  after = np.empty((len(rows), layout.WORDS), np.int32)
  ok = np.empty(len(rows), bool)
  _advance(rows, moves, after, ok)
  return after, ok


@njit
def _advance(rows, moves, after, ok) -> None:
  """Fills after[B, 11] (all -1 where illegal) and ok[B]."""
  p, targets = np.empty(board.WIDTH, np.int64), np.empty(64, np.int64)
  for b in range(len(rows)):
    ok[b] = False
    if board.load(rows[b], p):
      fill_targets(p, targets)
      ok[b] = is_legal(p, targets, np.int64(moves[b]))
    if ok[b]:
      board.make(p, np.int64(moves[b]))
      board.store(p, after[b])
    else:
      after[b] = -1


def keys(rows: np.ndarray) -> np.ndarray:
  """[B] uint64 Zobrist keys of rows [B, >= 11]; 0 for a row without board.

  Keys are equal for positions that count as repetitions: equal placement, side,
  rights, and en-passant file if a pawn may legally capture there.
  """
  return _keys(layout.rows(rows)).view(np.uint64)


@njit
def _keys(rows) -> np.ndarray:
  """[B] int64 Zobrist keys, 0 without board."""
  out = np.zeros(len(rows), np.int64)
  p = np.empty(board.WIDTH, np.int64)
  for b in range(len(rows)):
    if board.load(rows[b], p):
      out[b] = full_key(p)
  return out


def in_check(rows: np.ndarray) -> np.ndarray:
  """[B] bool: True where the side to move of rows [B, >= 11] is in check."""
  return _in_check(layout.rows(rows))


@njit
def _in_check(rows) -> np.ndarray:
  """[B] bool: is the side to move in check?"""
  out = np.zeros(len(rows), np.bool_)
  p = np.empty(board.WIDTH, np.int64)
  for b in range(len(rows)):
    if board.load(rows[b], p):
      out[b] = is_check(p)
  return out


def labels(rows: np.ndarray, ep: str = 'raw') -> np.ndarray:
  """[B, 75] uint8 state labels of rows [B, >= 11]; 0 for a row without board.

  Walker and Lyons 2026, section 2.1. ep: 'raw', as published, sets the
  en-passant labels after every double push; 'legal' only where a pawn may
  legally capture.
  """
  return _labels(layout.rows(rows), ep == 'legal')


@njit
def _labels(rows, legal_ep) -> np.ndarray:
  """[B, 75] uint8 state labels, 0 without board."""
  out = np.zeros((len(rows), layout.LABELS), np.uint8)
  p = np.empty(board.WIDTH, np.int64)
  for b in range(len(rows)):
    if board.load(rows[b], p):
      encode(p, legal_ep, out[b])
  return out


def count(row: np.ndarray, depth: int) -> list[int]:
  """Numbers of legal lines of 1..depth moves (perft) from a row [>= 11]."""
  if not 0 <= depth <= 64:
    raise core.InputError(f'depth is {depth}; expected 0..64')
  row = layout.rows(np.atleast_2d(row))[0]
  # By level: the position, its moves, and the number of remaining moves.
  stack = np.empty((depth + 1, board.WIDTH), np.int64)
  moves = np.empty((depth + 1, layout.MOST_MOVES), np.int32)
  left = np.zeros(depth + 1, np.int64)
  counts, level = np.zeros(depth, np.int64), -2
  while depth and level != -1:  # Ctrl-C is handled between calls.
    level = _count_on(row, level, stack, moves, left, counts, NODES)
  return counts.tolist()


@njit
def ep_sources(p) -> int:
  """Pawns that may legally capture en passant."""
  if not p[board.EP]:
    return 0
  side = p[board.SIDE]
  # The square that the pawn has passed: on rank 3 if black is to move, else 6.
  # The pawn is on the next square, whose number differs in bit 3.
  target = p[board.EP] - 1 + (16 if side else 40)
  us, them = p[board.PIECES + side], p[board.PIECES + 1 - side]
  taken = 1 << (target ^ 8)
  sources = board.PAWN_ATTACKS[1 - side, target] & p[board.PAWNS] & us
  if (
    not sources
    or not taken & p[board.PAWNS] & them
    or shr(us | them, target) & 1
  ):
    return 0
  # Two pawns leave the capturer's rank at once, so pins do not suffice: each
  # capture is made on the board, and the king is tested.
  king = lowest(p[board.KINGS] & us)
  takers, rest = 0, sources
  while rest:
    source = rest & -rest
    rest ^= source
    occupied = (us | them) ^ source ^ taken | 1 << target
    if not board.attackers(p, king, 1 - side, occupied) & ~taken:
      takers |= source
  return takers


@njit
def full_key(p) -> int:
  """Zobrist key; includes en passant only if a legal capture exists."""
  return (
    p[board.KEY] ^ board.EP_KEYS[p[board.EP]] if ep_sources(p) else p[board.KEY]
  )


@njit
def is_check(p) -> bool:
  """Is the side to move in check?"""
  side = p[board.SIDE]
  king = lowest(p[board.KINGS] & p[board.PIECES + side])
  return (
    board.attackers(p, king, 1 - side, p[board.PIECES] | p[board.PIECES + 1])
    != 0
  )


@njit
def _pinned(p, king, us, them):
  """Own pieces that are alone between the king and an enemy slider."""
  # Sliders that would attack the king if its own pieces were absent.
  slants = board.bishop(king, them) & (p[board.BISHOPS] | p[board.QUEENS])
  rest = (
    board.rook(king, them) & (p[board.ROOKS] | p[board.QUEENS]) | slants
  ) & them
  pinned = 0
  while rest:
    shield = board.between(king, lowest(rest)) & us
    rest &= rest - 1
    if shield & (shield - 1) == 0:  # One piece at most, or none.
      pinned |= shield
  return pinned


@njit
def _castlings(p, side, occupied, danger):
  """Targets of castling moves of the king."""
  rights = p[board.RIGHTS] >> 2 * side
  if not rights & 3:
    return 0
  shift = 56 * side
  # Both sides' home rank as rank 1: e f g h are 0x10 0x20 0x40 0x80.
  occupied, danger = shr(occupied, shift), shr(danger, shift)
  targets = 0
  #   king's side    f g empty     0x60     e f g not attacked   0x70
  #   queen's side   b c d empty   0x0E     c d e not attacked   0x1C
  if rights & 1 and not occupied & 0x60 and not danger & 0x70:
    targets = 0x40
  if rights & 2 and not occupied & 0x0E and not danger & 0x1C:
    targets |= 0x04
  return targets << shift


@njit
def _pawn_pushes(pawn, side, free):
  """Targets of a pawn (one bit) straight ahead."""
  # Pawns that reach the third rank (sixth for black) in one step were at home.
  if side == 0:
    single = pawn << 8 & free
    return single | (single & _THIRD) << 8 & free
  single = shr(pawn, 8) & free
  return single | shr(single & _SIXTH, 8) & free


@njit
def fill_targets(p, targets) -> int:
  """Sets targets[s] for each own piece's square s; returns the number of moves.

  Entries of other squares do not change. A pawn move to the last rank counts as
  four moves.
  """
  side = p[board.SIDE]
  us, them = p[board.PIECES + side], p[board.PIECES + 1 - side]
  occupied = us | them
  own_king = p[board.KINGS] & us
  king = lowest(own_king)
  # The king is removed first, as it may not retreat along a slider's line.
  danger = board.attacked(p, 1 - side, occupied ^ own_king)
  # Targets of other pieces: in check, the checker or squares in between; in
  # double check, none.
  allowed = ~us
  if danger & own_king:
    checkers = board.attackers(p, king, 1 - side, occupied)
    allowed = board.between(king, lowest(checkers)) | checkers
    if checkers & (checkers - 1):
      allowed = 0
  pinned = _pinned(p, king, us, them)
  targets[king] = board.KING_ATTACKS[king] & ~us & ~danger
  targets[king] |= _castlings(p, side, occupied, danger)
  count = popcount(targets[king])
  takers = ep_sources(p)
  rest = us ^ own_king
  while rest:
    source = lowest(rest)
    piece = rest & -rest
    rest ^= piece
    if piece & p[board.PAWNS]:
      goals = board.PAWN_ATTACKS[side, source] & them | _pawn_pushes(
        piece, side, ~occupied
      )
    elif piece & p[board.KNIGHTS]:
      goals = board.KNIGHT_ATTACKS[source]
    else:
      goals = 0
      if piece & (p[board.BISHOPS] | p[board.QUEENS]):
        goals = board.bishop(source, occupied)
      if piece & (p[board.ROOKS] | p[board.QUEENS]):
        goals |= board.rook(source, occupied)
    goals &= allowed
    if piece & pinned:  # A pinned piece may move only along the pin.
      goals &= board.line(king, source)
    if piece & p[board.PAWNS]:
      # After both masks, since `ep_sources` has tried the capture on the board,
      # and the captured pawn may be the one that gives check.
      if piece & takers:
        goals |= 1 << (p[board.EP] - 1 + (16 if side else 40))
      # Four promotions each, one of which is counted below.
      count += 3 * popcount(goals & LAST_RANKS)
    count += popcount(goals)
    targets[source] = goals
  return count


@njit
def list_moves(p, targets, moves) -> int:
  """Writes legal packed moves in ascending order; gives their number."""
  fill_targets(p, targets)
  count = 0
  rest = p[board.PIECES + p[board.SIDE]]
  while rest:
    source = lowest(rest)
    last = LAST_RANKS if rest & -rest & p[board.PAWNS] else 0
    rest &= rest - 1
    goals = targets[source]
    # From the lowest source, target and promotion up: packed ids ascend.
    while goals:
      packed = (source << 6 | lowest(goals)) * 5
      promotes = goals & -goals & last
      goals &= goals - 1
      if promotes:
        for promo in range(1, 5):
          moves[count + promo - 1] = packed + promo
        count += 4
      else:
        moves[count] = packed
        count += 1
  return count


@njit
def is_legal(p, targets, move) -> bool:
  """True if a packed move (any integer) is among the filled targets."""
  if move < 0 or move >= 64 * 64 * 5:
    return False
  # Below the bound, the three parts are a promotion and two squares.
  promo, pair = move % 5, move // 5
  source, target = pair >> 6, pair & 63
  piece = 1 << source
  if (
    not piece & p[board.PIECES + p[board.SIDE]]
    or not shr(targets[source], target) & 1
  ):
    return False
  # A pawn on the last rank must promote, and nothing else may.
  promotes = piece & p[board.PAWNS] and 1 << target & LAST_RANKS
  return (promo > 0) == (promotes != 0)


@njit
def nth_move(p, targets, index) -> int:
  """Packed move number `index` in ascending order, of filled targets."""
  rest = p[board.PIECES + p[board.SIDE]]
  while rest:
    source = lowest(rest)
    last = LAST_RANKS if rest & -rest & p[board.PAWNS] else 0
    rest &= rest - 1
    goals = targets[source]
    count = popcount(goals) + 3 * popcount(goals & last)
    # The order of `list_moves`: by source, target, promotion.
    if index >= count:  # A move of a later piece.
      index -= count
      continue
    while goals:
      # Either all moves of a pawn promote or none.
      packed = (source << 6 | lowest(goals)) * 5
      goals &= goals - 1
      if last and last & 1 << (packed // 5 & 63):
        if index < 4:
          return packed + 1 + index
        index -= 4
      else:
        if index == 0:
          return packed
        index -= 1
  return -1


@njit
def encode(p, _legal, out) -> None:
  """Fills out[75]; `legal` includes en passant only if it can be played.

  Walker and Lyons 2026, section 2.1: squares a8..h1, side, four rights,
  en-passant file and rank, both bytes of both counters.
  """
  # Word k of the codes holds ranks 2 k + 1 and 2 k + 2; labels begin at a8.
  for k in range(4):
    codes = p[board.CODES + k]
    for rank in range(2):
      first = 8 * (7 - 2 * k - rank)
      for file in range(8):
        out[first + file] = shr(codes, 32 * rank + 4 * file) & 15
  out[64] = p[board.SIDE]
  for k in range(4):
    out[65 + k] = p[board.RIGHTS] >> k & 1
  shown = p[board.EP] and (not _legal or ep_sources(p) != 0)
  out[69] = p[board.EP] if shown else 0
  # Black to move: a white pawn has just passed rank 3.
  out[70] = 2 - p[board.SIDE] if shown else 0
  out[71], out[72] = p[board.HALF] >> 8, p[board.HALF] & 255
  out[73], out[74] = p[board.FULL] >> 8, p[board.FULL] & 255


@njit
def _count_on(row, level, stack, moves, left, counts, budget) -> int:
  """Continues for `budget` moves; returns the level, -1 when done.

  level: -2 before the first call.
  """
  targets, depth = np.empty(64, np.int64), len(counts)
  if level == -2:
    level = -1
    if board.load(row, stack[0]):
      counts[0] = left[0] = list_moves(stack[0], targets, moves[0])
      level = 0 if depth > 1 else -1
  while level >= 0 and budget > 0:
    if left[level] == 0:
      level -= 1
      continue
    budget -= 1
    left[level] -= 1  # Moves are made from the last one back.
    put(stack[level + 1], stack[level])
    board.make(stack[level + 1], moves[level, left[level]])
    if level + 2 == depth:  # The last ply is counted, not made.
      counts[-1] += fill_targets(stack[level + 1], targets)
      continue
    level += 1
    left[level] = list_moves(stack[level], targets, moves[level])
    counts[level] += left[level]
  return level


# Myhill-Nerode boundaries of two positions, by a search through the product of
# both games.


def boundary(
  first: np.ndarray, second: np.ndarray, depth: int
) -> tuple[np.ndarray, np.ndarray]:
  """Boundary of a pair of rows [>= 11] (Vafa et al. 2024, Def. 2.4).

  The lines of at most `depth` packed moves that are legal from first but not
  from second, while every proper prefix is legal from both. Sorted by length,
  then by moves. Empty for rows with equal keys.

  Returns:
    moves: [n, K] int32, DEAD after the last; K is the length of the longest.
    lengths: [n] int32.
  """
  rows = _pair(first, second, depth)
  moves, lengths, _ = _boundary(rows, depth, listing=True)
  # The search is depth first: sort by length, then by moves. `lexsort` takes
  # the most significant key, the length, last, and the first move before it.
  order = np.lexsort((*moves.T[::-1], lengths))
  moves = moves[order, : lengths.max(initial=0)]
  return moves, lengths[order].astype(np.int32)


def boundary_sizes(
  first: np.ndarray, second: np.ndarray, depth: int
) -> tuple[list[int], list[int]]:
  """Sizes of `boundary` by length, 1..depth, and of the interior, unlisted.

  The interior has the lines that are legal from both rows.
  """
  rows = _pair(first, second, depth)
  outer, inner = _boundary(rows, depth, listing=False)[2].tolist()
  return outer, inner


def _pair(first: np.ndarray, second: np.ndarray, depth: int) -> np.ndarray:
  """Checked rows [2, >= 11] of the two."""
  if not 1 <= depth <= 64:
    raise core.InputError(f'depth is {depth}; expected 1..64')
  return layout.rows(np.stack([np.asarray(first), np.asarray(second)]))


@njit
def _parted(first, second, counts, only, common):
  """Splits the first of two ascending lists; returns the sizes of the parts."""
  # A merge: b is the first entry of `second` that is not below first[a].
  a = b = num_only = num_common = 0
  while a < counts[0]:
    while b < counts[1] and second[b] < first[a]:
      b += 1
    if b < counts[1] and second[b] == first[a]:
      common[num_common] = first[a]
      num_common += 1
    else:
      only[num_only] = first[a]
      num_only += 1
    a += 1
  return num_only, num_common


@njit
def _emitted(out, lengths, num, path, level, only, num_only):
  """Appends path[:level] followed by each of `only`; grows the arrays."""
  if num + num_only > len(lengths):
    # Doubling keeps the total cost of growth small.
    size = 2 * (num + num_only)
    out, lengths = enlarged(out, size, -1), enlarged(lengths, size, 0)
  for k in range(num_only):
    put(out[num], path[:level])
    out[num, level] = only[k]
    lengths[num] = level + 1
    num += 1
  return out, lengths, num


def _boundary(
  rows, depth, listing
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Product search, depth first, from rows [2, >= 11].

  Returns moves [n, depth] int32, -1 after the end, lengths [n], and counts
  [2, depth] by length of boundary and interior, which only a search without
  `listing` counts completely.
  """
  # The stack, by level l:
  #   boards [2, l]    both positions after l common moves
  #   common [l, n]    moves legal in both, ascending
  #   path   [l]       the move that is being followed
  #   left, size [l]   numbers of tried moves and of all moves in `common`
  counts = np.zeros((2, depth), np.int64)
  lines = np.full((64, depth), -1, np.int32), np.zeros(64, np.int64)
  stack = (
    np.empty((2, depth + 1, board.WIDTH), np.int64),
    np.empty((depth, layout.MOST_MOVES), np.int32),
    np.empty(depth, np.int32),
    np.zeros(depth, np.int64),
    np.zeros(depth, np.int64),
  )
  place = np.array([0, 0, -1])
  while place[0] >= 0:
    held = 2 * (lines[0].nbytes + lines[1].nbytes)  # They double.
    resources.require_memory(held, f'suffixes of up to {depth} moves')
    lines = _search(rows, listing, place, stack, lines, counts, NODES)
  return lines[0][: place[1]], lines[1][: place[1]], counts


@njit
def _search(rows, listing, place, stack, lines, counts, budget) -> tuple:
  """Continues from place [3]: level, lines so far, -1 if to enter the level.

  After `budget` moves the search returns, and a later call continues. The stack
  is drawn in `_boundary`.
  """
  out, lengths = lines
  boards, common, path, left, size = stack
  lists = np.empty((2, layout.MOST_MOVES), np.int32)
  only, targets = np.empty(layout.MOST_MOVES, np.int32), np.empty(64, np.int64)
  sizes, playable = np.zeros(2, np.int64), np.ones(2, np.bool_)
  level, num, entering = place[0], place[1], place[2] < 0
  if entering:
    for i in range(2):
      playable[i] = board.load(rows[i], boards[i, 0])
  while level >= 0:
    if entering:
      # Equal positions have an empty boundary: a listing skips the subtree.
      sizes[:] = 0
      same = playable.all() and listing
      same = same and full_key(boards[0, level]) == full_key(boards[1, level])
      for i in range(2):
        if playable[i] and not same:
          sizes[i] = list_moves(boards[i, level], targets, lists[i])
      num_only, size[level] = _parted(
        lists[0], lists[1], sizes, only, common[level]
      )
      left[level] = 0
      counts[0, level] += num_only
      counts[1, level] += size[level]
      if listing:
        out, lengths, num = _emitted(
          out, lengths, num, path, level, only, num_only
        )
    # At the maximum depth, or without remaining moves: back up.
    if level + 1 == len(path) or left[level] == size[level]:
      level, entering = level - 1, False
      continue
    if budget == 0:  # `place` records that this level was entered.
      break
    budget -= 1
    path[level] = common[level, left[level]]
    left[level] += 1
    for i in range(2):
      put(boards[i, level + 1], boards[i, level])
      board.make(boards[i, level + 1], np.int64(path[level]))
    level, entering = level + 1, True
  place[0], place[1], place[2] = level, num, 1
  return out, lengths
