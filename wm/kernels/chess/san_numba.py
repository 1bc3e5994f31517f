"""Moves of chess from and to standard algebraic notation, compiled."""

from __future__ import annotations

import numpy as np

from wm.kernels.base.bits_numba import lowest, shr
from wm.kernels.base.jit import njit
from wm.kernels.chess import position_words as w
from wm.kernels.chess import tables
from wm.kernels.chess.attacks_numba import attackers, reach
from wm.kernels.chess.board_numba import code_at, load, make
from wm.kernels.chess.layout import PACKED
from wm.kernels.chess.movegen_numba import (
  ep_sources,
  fill_targets,
  in_check,
  is_legal,
)
from wm.kernels.chess.san_tokens_numba import (
  ANY,
  LONG,
  SHORT,
  UNREADABLE,
  next_word,
  read_word,
)

# Negative indices into san.ERRORS, in place of a move.
NO_WORD, NO_MOVE, MANY = -1, -2, -3
LONGEST = 7  # 'Qa1xb2#', 'bxa8=Q+'
_FILE, _RANK = 0x0101010101010101, 0xFF
_LETTERS = np.frombuffer(b'.PNBRQK', np.uint8)
_A, _ONE, _TAKES, _EQUALS, _CHECK, _MATE, _CASTLE, _DASH = (
  ord(letter) for letter in 'a1x=+#O-'
)
_PAWN = tables.PAWN


@njit
def _pawns(p, target, file):
  """Own pawns that may step to a square from a file, -1 for its own."""
  side = p[w.SIDE]
  own = p[w.PAWNS] & p[w.PIECES + side]
  # To another file: it takes. A pawn of the other side on the target would
  # attack the squares that ours come from.
  occupied = p[w.PIECES] | p[w.PIECES + 1]
  if file >= 0 and file != target & 7:
    found = _PAWN[1 - side, target] & own & _FILE << file
    if shr(p[w.PIECES + 1 - side], target) & 1:
      return found
    # On an empty square: `ep_sources` alone knows whether the king is safe.
    passant = p[w.EP] and target == p[w.EP] - 1 + (16 if side else 40)
    return found & ep_sources(p) if passant else 0
  if shr(occupied, target) & 1:
    return 0
  # Straight ahead: one step, else two from home over an empty square.
  back = 8 if side else -8
  one = 1 << ((target + back) & 63)
  if one & own:
    return one
  if target >> 3 == (4 if side else 3) and not one & occupied:
    return 1 << (target + 2 * back) & own
  return 0


@njit
def _safe(p, source, target):
  """Is the own king safe after a move that is not en passant or castling?"""
  side = p[w.SIDE]
  piece, goal = 1 << source, 1 << target
  occupied = (p[w.PIECES] | p[w.PIECES + 1]) & ~piece | goal
  king = lowest(p[w.KINGS] & p[w.PIECES + side])
  if king == source:
    king = target
  # What stood on the target is taken and attacks nothing any more.
  return attackers(p, king, 1 - side, occupied) & ~goal == 0


@njit
def _sources(p, kind, target, file, rank):
  """Own pieces of a kind that may legally go to a square; hints -1: any."""
  occupied = p[w.PIECES] | p[w.PIECES + 1]
  if shr(p[w.PIECES + p[w.SIDE]], target) & 1:
    return 0
  if kind == 1:
    found = _pawns(p, target, file)
  else:
    # Who attacks a square is who it would attack, were it of their kind.
    found = (
      reach(kind, target, occupied) & p[kind - 1] & p[w.PIECES + p[w.SIDE]]
    )
    if file >= 0:
      found &= _FILE << file
  if rank >= 0:
    found &= _RANK << 8 * rank
  # What may take en passant is legal already, and _safe knows nothing of it.
  slant = kind == 1 and file >= 0 and file != target & 7
  rest = 0 if slant and not shr(occupied, target) & 1 else found
  while rest:
    piece = rest & -rest
    rest ^= piece
    if not _safe(p, lowest(piece), target):
      found ^= piece
  return found


@njit
def _listed(p, targets, move):
  """The move if the full list of legal moves holds it."""
  fill_targets(p, targets)
  return move if is_legal(p, targets, move) else NO_MOVE


@njit
def _promotes(kind, target):
  return kind == 1 and (target < 8 or target >= 56)


@njit
def find(p, targets, text, at, end) -> int:
  """Packed move that a word means in position p, or an error."""
  kind, file, rank, target, promotion = read_word(text, at, end)
  if kind == UNREADABLE:
    return NO_WORD
  # Castling, and two squares of any piece: rare, so the full list will do.
  if kind in (SHORT, LONG):
    king = 60 if p[w.SIDE] else 4
    if not 1 << king & p[w.KINGS] & p[w.PIECES + p[w.SIDE]]:
      return NO_MOVE
    goal = king + 2 if kind == SHORT else king - 2
    return _listed(p, targets, (king * 64 + goal) * 5)
  if kind == ANY:
    source = 8 * rank + file
    return _listed(p, targets, (source * 64 + target) * 5 + promotion)
  if (promotion > 0) != _promotes(kind, target):
    return NO_MOVE
  # Any other word is asked backwards, from its target: who can come here?
  found = _sources(p, kind, target, file, rank)
  if found == 0:
    return NO_MOVE
  if found & (found - 1):
    return MANY
  return (lowest(found) * 64 + target) * 5 + promotion


@njit
def read(text, firsts, lasts, rows) -> tuple[np.ndarray, ...]:
  """Moves of games end to end, their numbers, errors and refused words.

  Game n is in bytes firsts[n]..lasts[n] - 1; rows: [1 or N, >= 11].
  """
  num, room = len(firsts), 0
  for n in range(num):
    room += (lasts[n] - firsts[n]) // 2  # A move is two letters at least.
  moves = np.empty(room, np.uint16)
  lengths = np.zeros(num, np.int32)
  errors = np.zeros(num, np.int8)
  words = np.zeros((num, 2), np.int64)
  p, targets = np.zeros(w.WIDTH, np.int64), np.zeros(64, np.int64)
  total = 0
  for n in range(num):
    able = load(rows[min(n, len(rows) - 1)], p)
    at = firsts[n]
    while True:
      first, at = next_word(text, at, lasts[n])
      if first == at:
        break
      move = find(p, targets, text, first, at) if able else NO_MOVE
      if move < 0:
        errors[n] = -move
        words[n] = first, at
        break
      make(p, move)
      moves[total] = move
      total += 1
      lengths[n] += 1
  return moves[:total].copy(), lengths, errors, words


@njit
def _square(out, at, square):
  """Writes a square; where it ends."""
  out[at] = _A + (square & 7)
  out[at + 1] = _ONE + (square >> 3)
  return at + 2


@njit
def _castling(p, targets, out, source, target):
  """Writes a castling; where it ends, -1 if illegal."""
  if _listed(p, targets, (source * 64 + target) * 5) < 0:
    return -1
  size = 3 if target > source else 5  # O-O or O-O-O.
  for k in range(size):
    out[k] = _DASH if k & 1 else _CASTLE
  return size


@njit
def _piece(p, out, kind, source, target):
  """Writes the move of a piece: no more of its source than tells it from
  others; where it ends, -1 if illegal."""
  # File, else rank, else both, so far as other pieces may go there too.
  found = _sources(p, kind, target, -1, -1)
  others = found & ~(1 << source)
  if found == others:
    return -1
  out[0], at = _LETTERS[kind], 1
  column = others & _FILE << (source & 7)  # Those that the file does not tell.
  if others and (not column or others & _RANK << (source & 56)):
    out[at] = _A + (source & 7)
    at += 1
  if column:
    out[at] = _ONE + (source >> 3)
    at += 1
  if code_at(p, target):
    out[at] = _TAKES
    at += 1
  return _square(out, at, target)


@njit
def _pawn(p, out, source, target, promotion):
  """Writes the move of a pawn; where it ends, -1 if illegal."""
  file, at = source & 7, 0
  # With the whole source square as hint: is this very pawn among the answers?
  if not _sources(p, 1, target, file, source >> 3) & 1 << source:
    return -1
  if file != target & 7:
    out[0], out[1], at = _A + file, _TAKES, 2
  at = _square(out, at, target)
  if promotion:
    out[at], out[at + 1] = _EQUALS, _LETTERS[6 - promotion]
    at += 2
  return at


@njit
def spell(p, targets, move, out) -> bool:
  """Writes a move and makes it; False, and nothing done, if it is illegal."""
  if move < 0 or move >= PACKED:
    return False
  promotion, pair = move % 5, move // 5
  source, target = pair >> 6, pair & 63
  kind = code_at(p, source) - 6 * p[w.SIDE]
  if not 1 <= kind <= 6 or (promotion > 0) != _promotes(kind, target):
    return False
  if kind == 1:
    at = _pawn(p, out, source, target, promotion)
  elif kind == 6 and abs(source - target) == 2:
    at = _castling(p, targets, out, source, target)
  else:
    at = _piece(p, out, kind, source, target)
  if at < 0:
    return False
  make(p, move)
  if in_check(p):  # No move left: mate.
    out[at] = _CHECK if fill_targets(p, targets) else _MATE
  return True


@njit
def write(moves, lengths, rows) -> tuple[np.ndarray, np.ndarray]:
  """Words of games, and how many moves of each are legal."""
  num, most = moves.shape
  words = np.zeros((num, most, LONGEST), np.uint8)
  steps = np.zeros(num, np.int32)
  p, targets = np.zeros(w.WIDTH, np.int64), np.zeros(64, np.int64)
  for n in range(num):
    able = load(rows[min(n, len(rows) - 1)], p)
    while able and steps[n] < lengths[n]:
      if not spell(p, targets, moves[n, steps[n]], words[n, steps[n]]):
        break
      steps[n] += 1
  return words, steps
