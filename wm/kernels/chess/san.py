"""Chess notation: games as text, games as packed moves.

Tokens are standard algebraic notation (SAN): 'e4', 'exd6', 'Nbd7', 'R1a3',
'e8=Q+', 'O-O'. Packed moves and state rows are those of `wm.kernels.chess`.

Reading is lenient in form. Check and mate signs, 'x' and '=' may be missing;
more of the source square may be given than needed; glyphs ('!?', '+/=', '∞')
may follow, and 'e.p.', with dots or without, at once or after a blank. Castling
may be written with zeros, promotions in small letters, and any move as two
squares ('g1f3', 'e7e8q'), castling also as the king who takes his rook
('e1h1'). Reading is strict in meaning: a token means exactly one
legal move, or the game stops there. In PGN move text, numbers, comments,
glyphs and variations are passed over, and a result ends the game.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from wm import core
from wm.kernels.base import calls
from wm.kernels.base.bits import lowest, shr
from wm.kernels.base.jit import njit
from wm.kernels.chess import board, layout, positions

# Why a token is no move; a game's error is an index into these.
ERRORS = ('', 'unreadable', 'illegal', 'ambiguous')
# What a word is: 1..6 a move of P N B R Q K, or
UNREADABLE, ANY, SHORT, LONG = -1, 0, 7, 8
# Classes of letters. Files and ranks are eight in a row each.
_CLASS_FILE, _CLASS_RANK, _CLASS_DASH, _CLASS_CASTLE = 16, 32, 48, 50
_CAPITAL = 0xDF  # Makes capitals of small letters.
_EQUALS, _MINUS, _SLASH, _ZERO, _ONE, _DOT, _NEWLINE = (
  ord(letter) for letter in '=-/01.\n'
)
_COMMENT, _UNCOMMENT, _REMARK, _ASIDE, _BACK = (
  ord(letter) for letter in '{};()'
)
_E, _P = ord('e'), ord('p')
_BLANK, _DIGIT, _NOISE, _OPEN, _LINE, _LEFT, _STAR = range(1, 8)
_IN_WORD = np.array([c > 32 and chr(c) not in '{;()$' for c in range(256)])
# Negative indices into san.ERRORS, in place of a move.
NO_WORD, NO_MOVE, MANY = -1, -2, -3
LONGEST = 7  # 'Qa1xb2#', 'bxa8=Q+'
_FILE, _RANK = 0x0101010101010101, 0xFF
_LETTERS = np.frombuffer(b'.PNBRQK', np.uint8)
_A, _ONE, _TAKES, _EQUALS, _CHECK, _MATE, _CASTLE, _DASH = (
  ord(letter) for letter in 'a1x=+#O-'
)


class ReadGames(NamedTuple):
  """Games read.

  Attributes:
    moves: [N, L] int32 packed, DEAD after each game's last.
    lengths: [N] int32, moves read.
    errors: [N] int8 into ERRORS; where it is not 0, reading stopped.
    words: [N, 2] int64, first and last + 1 byte of the token refused.
  """

  moves: np.ndarray
  lengths: np.ndarray
  errors: np.ndarray
  words: np.ndarray


def read(
  text: bytes | np.ndarray,
  starts: np.ndarray | None = None,
  rows: np.ndarray | None = None,
) -> ReadGames:
  """Reads games from SAN or PGN move text, each up to its first error.

  The result holds as many columns as the longest game has moves, so a large
  file is better read by `wm.kernels.pgn`.

  Args:
    text: bytes, or [M] uint8.
    starts: [N + 1] first byte of each game, ascending, and the end of the
      last; one game if None.
    rows: [11], [1, >= 11] or [N, >= 11] positions they start from; the
      standard one if None.
  """
  if isinstance(text, bytes | bytearray | memoryview):
    text = np.frombuffer(text, np.uint8)
  text = calls.frozen(text, np.uint8)
  starts = np.array([0, len(text)]) if starts is None else np.asarray(starts)
  rows = layout.start_rows(rows, len(starts) - 1)
  starts = calls.frozen(starts, np.int64)
  flat, lengths, *refused = read_spans(text, starts[:-1], starts[1:], rows)
  # Games lie end to end in `flat`: a mask of their lengths parts them into
  # rows.
  moves = np.full((len(lengths), lengths.max(initial=0)), core.DEAD, np.int32)
  moves[np.arange(moves.shape[1]) < lengths[:, None]] = flat
  return ReadGames(moves, lengths, *refused)


def write(
  moves: np.ndarray, lengths: np.ndarray, rows: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
  """Writes games in SAN, each up to its first illegal move.

  Args:
    moves: [N, L] packed; those past lengths[n] are not read.
    lengths: [N].
    rows: as for `read`.

  Returns:
    words: [N, L] bytes 'S7', the shortest that tell, with checks and mates;
      empty after the last.
    steps: [N] int32, moves written.
  """
  moves, lengths, rows = layout.games(moves, lengths, rows)
  words, steps = _write(moves, lengths, rows)
  return words.view('S7').reshape(moves.shape), steps


@njit
def _write(moves, lengths, rows) -> tuple[np.ndarray, np.ndarray]:
  """Words of games, and how many moves of each are legal."""
  num, most = moves.shape
  words = np.zeros((num, most, LONGEST), np.uint8)
  steps = np.zeros(num, np.int32)
  p, targets = np.zeros(board.WIDTH, np.int64), np.zeros(64, np.int64)
  for n in range(num):
    able = board.load(rows[min(n, len(rows) - 1)], p)
    while able and steps[n] < lengths[n]:
      if not spell(p, targets, moves[n, steps[n]], words[n, steps[n]]):
        break
      steps[n] += 1
  return words, steps


def byte_table(values: Mapping[str, int]) -> np.ndarray:
  """[256] uint8: the value of each byte, by the letters it is among; else 0."""
  table = np.zeros(256, np.uint8)
  for letters, value in values.items():
    table[[ord(letter) for letter in letters]] = value
  return table


# Pieces 1..6, files from 16, ranks from 32, other marks.
_CLASS = byte_table(
  {
    **{letter: kind for kind, letter in enumerate('PNBRQK', 1)},
    **{letter: file for file, letter in enumerate('abcdefgh', _CLASS_FILE)},
    **{digit: rank for rank, digit in enumerate('12345678', _CLASS_RANK)},
    'x-:': _CLASS_DASH,
    'O0': _CLASS_CASTLE,
  }
)

# Check, mate and glyphs, and the bytes of '±∓⩲⩱∞□⟳→↑' but of no chessman.
GLYPHS = '+#!?-=/~', bytes.fromhex('c2b1e28893a9b29e96a19fb3869291')
_GLYPH = byte_table({GLYPHS[0] + GLYPHS[1].decode('latin-1'): 1})


@njit
def _is_file(text, at, end):
  return at < end and _CLASS_FILE <= _CLASS[text[at]] < _CLASS_FILE + 8


@njit
def _is_rank(text, at, end):
  return at < end and _CLASS_RANK <= _CLASS[text[at]] < _CLASS_RANK + 8


@njit
def _read_squares(text, at, end):
  """Reads '', file, rank or both, '' or a dash, then the target.

  Returns file and rank left, file and rank reached, where reading stopped;
  -1 for what is not there.
  """
  # A file or rank that is followed by another square was the source's.
  from_file = from_rank = file = rank = -1
  #   e4      file, rank           -> target
  #   Ngf3    file, file, rank     -> the first file was the source's
  #   R1a3    rank, file, rank     -> so was the first rank
  #   g1-f3   file, rank, -, file, rank
  dashed = False
  while at < end:
    code = _CLASS[text[at]]
    if _CLASS_FILE <= code < _CLASS_FILE + 8:
      if file >= 0:
        if dashed or from_file >= 0 or from_rank >= 0:
          break
        if rank >= 0 and not _is_rank(text, at + 1, end):
          break  # 'e8b' promotes.
        from_file, from_rank, rank = file, rank, -1
      file = code - _CLASS_FILE
    elif _CLASS_RANK <= code < _CLASS_RANK + 8:
      if file >= 0 and rank < 0:
        rank = code - _CLASS_RANK
      elif file < 0 and from_rank < 0:
        from_rank = code - _CLASS_RANK
      else:
        break
    elif code == _CLASS_DASH and not dashed and _is_file(text, at + 1, end):
      if file >= 0:
        if from_file >= 0 or from_rank >= 0:
          break
        from_file, from_rank, file, rank = file, rank, -1, -1
      dashed = True
    else:
      break
    at += 1
  return from_file, from_rank, file, rank, at


@njit
def _read_promotion(text, at, end):
  """Promotion 0..4 of 'Q', 'q', '=Q' or '=q', where reading stopped."""
  letter = at
  if at < end and text[at] == _EQUALS:
    letter += 1
  if letter < end:
    # Classes are N 2, B 3, R 4, Q 5; promotions Q 1, R 2, B 3, N 4.
    code = _CLASS[text[letter] & _CAPITAL]
    if 2 <= code <= 5:
      return 6 - code, letter + 1
  return 0, at


@njit
def _past_tail(text, at, end):
  """Place after 'e.p.', with dots or without, and checks and glyphs."""
  # 'ep', 'e.p', 'ep.' or 'e.p.': both dots may be missing.
  if at < end and text[at] == _E:
    last = at + 1
    last += last < end and text[last] == _DOT
    if last < end and text[last] == _P:
      last += 1
      at = last + (last < end and text[last] == _DOT)
  return _past_glyphs(text, at, end)


@njit
def _past_glyphs(text, at, end):
  while at < end and _GLYPH[text[at]]:
    at += 1
  return at


@njit
def _read_castling(text, at, end):
  """Kind of 'O-O' or 'O-O-O', where reading stopped."""
  # One letter throughout: 'O-0' is no castling.
  letter, parts = text[at], 1
  at += 1
  while at + 1 < end and text[at] == _MINUS and text[at + 1] == letter:
    parts += 1
    at += 2
  if parts == 2:
    return SHORT, at
  if parts == 3:
    return LONG, at
  return UNREADABLE, at


@njit
def read_word(text, at, end) -> tuple[int, int, int, int, int]:
  """Kind, file and rank left, square reached and promotion of a word."""
  kind: Any = np.int64(_CLASS[text[at]])
  if kind == _CLASS_CASTLE:
    kind, at = _read_castling(text, at, end)
    if _past_tail(text, at, end) < end:
      kind = UNREADABLE
    return kind, -1, -1, -1, 0
  # Without a capital letter: a pawn, or two squares of any piece.
  if 1 <= kind <= 6:
    at += 1
  else:
    kind = ANY
  from_file, from_rank, file, rank, at = _read_squares(text, at, end)
  promotion, at = _read_promotion(text, at, end)
  if file < 0 or rank < 0 or _past_tail(text, at, end) < end:
    return UNREADABLE, -1, -1, -1, 0
  if kind == ANY and (from_file < 0 or from_rank < 0):
    kind = 1  # A whole move such as 'g1f3' may be of any piece.
  return kind, from_file, from_rank, 8 * rank + file, promotion


# What a byte starts in move text; 0 a move.
_MARK = byte_table(
  {
    ''.join(map(chr, range(33))): _BLANK,
    '0123456789': _DIGIT,
    '.!?)}$': _NOISE,
    '{': _OPEN,
    ';': _LINE,
    '(': _LEFT,
    '*': _STAR,
  }
)


@njit
def _past(text, at, end, mark):
  """Place after the next `mark`, or the end."""
  while at < end and text[at] != mark:
    at += 1
  return min(at + 1, end)


@njit
def _past_variation(text, at, end):
  """Place after the parenthesis that closes the one at `at`."""
  depth = 0
  while at < end:
    letter = text[at]
    at += 1
    # Brackets inside comments and remarks do not count.
    if letter == _COMMENT:
      at = _past(text, at, end, _UNCOMMENT)
    elif letter == _REMARK:
      at = _past(text, at, end, _NEWLINE)
    elif letter == _ASIDE:
      depth += 1
    elif letter == _BACK:
      depth -= 1
      if depth == 0:
        break
  return at


@njit
def _number(text, at, end):
  """Place after a move number; -1 for a result, `at` for a move ('0-0')."""
  first, zero = at, text[at] == _ZERO
  while at < end and _MARK[text[at]] == _DIGIT:
    at += 1
  mark = text[at] if at < end else _NEWLINE
  if mark == _MINUS and at + 1 < end and at == first + 1:
    after = text[at + 1]
    if (zero and after == _ONE) or (text[first] == _ONE and after == _ZERO):
      return -1  # 0-1 or 1-0
  elif mark == _SLASH:
    return -1  # 1/2-1/2
  elif not zero and (mark == _DOT or _MARK[mark] == _BLANK):
    return at  # '12.' or '12'; castling with zeros starts with one.
  return first


@njit
def next_word(text, at, end) -> tuple[int, int]:
  """First and last + 1 byte of the next move in move text; first = end: none.

  Passes over numbers, comments, variations and glyphs and an 'e.p.' that stand
  alone, but no null move '--'; ends at a result.
  """
  while at < end:
    mark = _MARK[text[at]]
    if mark == 0:  # A move begins, unless it is an 'e.p.' or glyph.
      after = at
      null = at + 1 < end and text[at] == text[at + 1] == _MINUS
      if text[at] == _E or not null:
        after = _past_tail(text, at, end)
      if after == at or (after < end and _IN_WORD[text[after]]):
        break
      at = after
    elif mark == _DIGIT:
      after = _number(text, at, end)
      if after < 0:
        return end, end
      if after == at:
        break
      at = after
    elif mark == _OPEN:
      at = _past(text, at, end, _UNCOMMENT)
    elif mark == _LINE:
      at = _past(text, at, end, _NEWLINE)
    elif mark == _LEFT:
      at = _past_variation(text, at, end)
    elif mark == _STAR:
      return end, end
    else:
      at += 1
  last = at
  while last < end and _IN_WORD[text[last]]:
    last += 1
  return at, last


@njit
def _pawns(p, target, file):
  """Own pawns that may step to a square from a file, -1 for its own."""
  side = p[board.SIDE]
  pawns = p[board.PAWNS] & p[board.PIECES + side]
  # To another file: it takes. A pawn of the other side on the target would
  # attack the squares that ours come from.
  occupied = p[board.PIECES] | p[board.PIECES + 1]
  if file >= 0 and file != target & 7:
    takers = board.PAWN_ATTACKS[1 - side, target] & pawns & _FILE << file
    if shr(p[board.PIECES + 1 - side], target) & 1:
      return takers
    # On an empty square: `ep_sources` alone knows whether the king is safe.
    passant = p[board.EP] and target == p[board.EP] - 1 + (16 if side else 40)
    return takers & positions.ep_sources(p) if passant else 0
  if shr(occupied, target) & 1:
    return 0
  # Straight ahead: one step, else two from home over an empty square.
  back = 8 if side else -8
  behind = 1 << ((target + back) & 63)
  if behind & pawns:
    return behind
  if target >> 3 == (4 if side else 3) and not behind & occupied:
    return 1 << (target + 2 * back) & pawns
  return 0


@njit
def _safe(p, source, target):
  """Is the own king safe after a move that is not en passant or castling?"""
  side = p[board.SIDE]
  piece, goal = 1 << source, 1 << target
  occupied = (p[board.PIECES] | p[board.PIECES + 1]) & ~piece | goal
  king = lowest(p[board.KINGS] & p[board.PIECES + side])
  if king == source:
    king = target
  # What stood on the target is taken and attacks nothing any more.
  return board.attackers(p, king, 1 - side, occupied) & ~goal == 0


@njit
def _sources(p, kind, target, file, rank):
  """Own pieces of a kind that may legally go to a square; hints -1: any."""
  occupied = p[board.PIECES] | p[board.PIECES + 1]
  if shr(p[board.PIECES + p[board.SIDE]], target) & 1:
    return 0
  if kind == 1:
    sources = _pawns(p, target, file)
  else:
    # Who attacks a square is who it would attack, were it of their kind.
    sources = (
      board.reach(kind, target, occupied)
      & p[kind - 1]
      & p[board.PIECES + p[board.SIDE]]
    )
    if file >= 0:
      sources &= _FILE << file
  if rank >= 0:
    sources &= _RANK << 8 * rank
  # What may take en passant is legal already, and _safe knows nothing of it.
  slant = kind == 1 and file >= 0 and file != target & 7
  rest = 0 if slant and not shr(occupied, target) & 1 else sources
  while rest:
    piece = rest & -rest
    rest ^= piece
    if not _safe(p, lowest(piece), target):
      sources ^= piece
  return sources


@njit
def _listed(p, targets, move):
  """The move if the full list of legal moves holds it."""
  positions.fill_targets(p, targets)
  return move if positions.is_legal(p, targets, move) else NO_MOVE


@njit
def _castled(p, source, target):
  """Where the king castles to who takes his rook in a corner; else target."""
  side = p[board.SIDE]
  home, pieces = 60 if side else 4, p[board.PIECES + side]
  corner = target in (home - 4, home + 3)
  if source != home or not corner or not 1 << home & p[board.KINGS] & pieces:
    return target
  if not shr(p[board.ROOKS] & pieces, target) & 1:
    return target
  return home + 2 if target > home else home - 2


@njit
def _promotes(kind, target):
  return kind == 1 and (target < 8 or target >= 56)


@njit
def find(p, targets, text, at, end) -> int:
  """Packed move that a word means in position p, or an error."""
  kind, file, rank, target, promotion = read_word(text, at, end)
  # The word reads as a move. Which legal moves of this position fit it?
  if kind == UNREADABLE:
    return NO_WORD
  # Castling, and two squares of any piece: rare, so the full list will do.
  if kind in (SHORT, LONG):
    king = 60 if p[board.SIDE] else 4
    if not 1 << king & p[board.KINGS] & p[board.PIECES + p[board.SIDE]]:
      return NO_MOVE
    goal = king + 2 if kind == SHORT else king - 2
    return _listed(p, targets, (king * 64 + goal) * 5)
  if kind == ANY:
    source = 8 * rank + file
    target = _castled(p, source, target)
    return _listed(p, targets, (source * 64 + target) * 5 + promotion)
  if (promotion > 0) != _promotes(kind, target):
    return NO_MOVE
  # Any other word is asked backwards, from its target: who can come here?
  sources = _sources(p, kind, target, file, rank)
  if sources == 0:
    return NO_MOVE
  if sources & (sources - 1):
    return MANY
  return (lowest(sources) * 64 + target) * 5 + promotion


@njit
def read_spans(text, firsts, lasts, rows) -> tuple[np.ndarray, ...]:
  """Moves of games end to end, their numbers, errors and refused words.

  Game n is in bytes firsts[n]..lasts[n] - 1; rows: [1 or N, >= 11].
  """
  num, room = len(firsts), 0
  for n in range(num):
    room += (lasts[n] - firsts[n]) // 2  # A move is two letters at least.
  # Packed moves are below 20,480: they fit into uint16.
  moves = np.empty(room, np.uint16)
  lengths = np.zeros(num, np.int32)
  errors = np.zeros(num, np.int8)
  words = np.zeros((num, 2), np.int64)
  p, targets = np.zeros(board.WIDTH, np.int64), np.zeros(64, np.int64)
  total = 0
  for n in range(num):
    able = board.load(rows[min(n, len(rows) - 1)], p)
    at = firsts[n]
    while True:
      first, at = next_word(text, at, lasts[n])
      if first == at:
        break
      move = find(p, targets, text, first, at) if able else NO_MOVE
      if move < 0:
        # The words after an error have no known position: the game stops.
        errors[n] = -move
        words[n] = first, at
        break
      board.make(p, move)
      moves[total] = move
      total += 1
      lengths[n] += 1
  return moves[:total].copy(), lengths, errors, words


@njit
def _write_square(out, at, square):
  """Writes a square; where it ends."""
  out[at] = _A + (square & 7)
  out[at + 1] = _ONE + (square >> 3)
  return at + 2


@njit
def _write_castling(p, targets, out, source, target):
  """Writes a castling; where it ends, -1 if illegal."""
  if _listed(p, targets, (source * 64 + target) * 5) < 0:
    return -1
  size = 3 if target > source else 5  # O-O or O-O-O.
  for k in range(size):
    out[k] = _DASH if k & 1 else _CASTLE
  return size


@njit
def _write_piece(p, out, kind, source, target):
  """Writes the move of a piece: no more of its source than tells it from
  others; where it ends, -1 if illegal."""
  # File, else rank, else both, so far as other pieces may go there too.
  sources = _sources(p, kind, target, -1, -1)
  others = sources & ~(1 << source)
  if sources == others:
    return -1
  out[0], at = _LETTERS[kind], 1
  column = others & _FILE << (source & 7)  # Those that the file does not tell.
  if others and (not column or others & _RANK << (source & 56)):
    out[at] = _A + (source & 7)
    at += 1
  if column:
    out[at] = _ONE + (source >> 3)
    at += 1
  if board.code_at(p, target):
    out[at] = _TAKES
    at += 1
  return _write_square(out, at, target)


@njit
def _write_pawn(p, out, source, target, promotion):
  """Writes the move of a pawn; where it ends, -1 if illegal."""
  file, at = source & 7, 0
  # With the whole source square as hint: is this very pawn among the answers?
  if not _sources(p, 1, target, file, source >> 3) & 1 << source:
    return -1
  if file != target & 7:
    out[0], out[1], at = _A + file, _TAKES, 2
  at = _write_square(out, at, target)
  if promotion:
    out[at], out[at + 1] = _EQUALS, _LETTERS[6 - promotion]
    at += 2
  return at


@njit
def spell(p, targets, move, out) -> bool:
  """Writes a move and makes it; False, and nothing done, if it is illegal."""
  if move < 0 or move >= layout.PACKED:
    return False
  promotion, pair = move % 5, move // 5
  source, target = pair >> 6, pair & 63
  kind = board.code_at(p, source) - 6 * p[board.SIDE]
  if not 1 <= kind <= 6 or (promotion > 0) != _promotes(kind, target):
    return False
  if kind == 1:
    at = _write_pawn(p, out, source, target, promotion)
  elif kind == 6 and abs(source - target) == 2:
    at = _write_castling(p, targets, out, source, target)
  else:
    at = _write_piece(p, out, kind, source, target)
  if at < 0:
    return False
  board.make(p, move)
  # The signs + and # describe the position after the move.
  if positions.is_check(p):  # No move left: mate.
    out[at] = _CHECK if positions.fill_targets(p, targets) else _MATE
  return True
