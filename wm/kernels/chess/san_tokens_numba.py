"""Words of PGN move text, and what each says, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np

from wm.kernels.base.jit import njit
from wm.kernels.base.text import byte_table

# What a word is: 1..6 a move of P N B R Q K, or
UNREADABLE, ANY, SHORT, LONG = -1, 0, 7, 8
_FILE, _RANK, _DASH, _CHECK, _CASTLE = 16, 32, 48, 49, 50


# Pieces 1..6, files from 16, ranks from 32, other marks.
_CLASS = byte_table(
  {
    **{letter: kind for kind, letter in enumerate('PNBRQK', 1)},
    **{letter: file for file, letter in enumerate('abcdefgh', _FILE)},
    **{digit: rank for rank, digit in enumerate('12345678', _RANK)},
    'x-:': _DASH,
    '+#!?': _CHECK,
    'O0': _CASTLE,
  }
)
_CAPITAL = 0xDF  # Makes capitals of small letters.
_EQUALS, _MINUS, _SLASH, _ZERO, _ONE, _DOT, _NEWLINE = (
  ord(letter) for letter in '=-/01.\n'
)
_COMMENT, _UNCOMMENT, _REMARK, _ASIDE, _BACK = (
  ord(letter) for letter in '{};()'
)
_E, _P = ord('e'), ord('p')


@njit
def _is_file(text, at, end):
  return at < end and _FILE <= _CLASS[text[at]] < _FILE + 8


@njit
def _is_rank(text, at, end):
  return at < end and _RANK <= _CLASS[text[at]] < _RANK + 8


@njit
def _squares(text, at, end):
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
    if _FILE <= code < _FILE + 8:
      if file >= 0:
        if dashed or from_file >= 0 or from_rank >= 0:
          break
        if rank >= 0 and not _is_rank(text, at + 1, end):
          break  # 'e8b' promotes.
        from_file, from_rank, rank = file, rank, -1
      file = code - _FILE
    elif _RANK <= code < _RANK + 8:
      if file >= 0 and rank < 0:
        rank = code - _RANK
      elif file < 0 and from_rank < 0:
        from_rank = code - _RANK
      else:
        break
    elif code == _DASH and not dashed and _is_file(text, at + 1, end):
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
def _promotion(text, at, end):
  """Promotion 0..4 of 'Q', 'q', '=Q' or '=q', where reading stopped."""
  letter = at
  if at < end and text[at] == _EQUALS:
    letter += 1
  if letter < end:
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
  while at < end and _CLASS[text[at]] == _CHECK:
    at += 1
  return at


@njit
def _castling(text, at, end):
  """Kind of 'O-O' or 'O-O-O', where reading stopped."""
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
  if kind == _CASTLE:
    kind, at = _castling(text, at, end)
    if _past_tail(text, at, end) < end:
      kind = UNREADABLE
    return kind, -1, -1, -1, 0
  # Without a capital letter: a pawn, or two squares of any piece.
  if 1 <= kind <= 6:
    at += 1
  else:
    kind = ANY
  from_file, from_rank, file, rank, at = _squares(text, at, end)
  promotion, at = _promotion(text, at, end)
  if file < 0 or rank < 0 or _past_tail(text, at, end) < end:
    return UNREADABLE, -1, -1, -1, 0
  if kind == ANY and (from_file < 0 or from_rank < 0):
    kind = 1  # A whole move such as 'g1f3' may be of any piece.
  return kind, from_file, from_rank, 8 * rank + file, promotion


_BLANK, _DIGIT, _NOISE, _OPEN, _LINE, _LEFT, _STAR = range(1, 8)


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
_IN_WORD = np.array([c > 32 and chr(c) not in '{;()$' for c in range(256)])


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
    if text[at + 1] == (_ONE if zero else _ZERO):
      return -1  # 0-1 or 1-0
  elif mark == _SLASH:
    return -1  # 1/2-1/2
  elif not zero and (mark == _DOT or _MARK[mark] == _BLANK):
    return at  # '12.' or '12'; castling with zeros starts with one.
  return first


@njit
def next_word(text, at, end) -> tuple[int, int]:
  """First and last + 1 byte of the next move in move text; first = end: none.

  Passes over numbers, comments, glyphs, variations and an 'e.p.' that stands
  alone; ends at a result.
  """
  while at < end:
    mark = _MARK[text[at]]
    if mark == 0:  # A move begins, unless it is an 'e.p.' on its own.
      after = _past_tail(text, at, end) if text[at] == _E else at
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
