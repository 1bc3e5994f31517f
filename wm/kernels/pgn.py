"""Finds and reads the games in PGN text.

A game is a run of tag lines, `[Name "value"]`, and the move text after them.
Two kinds of lines start a new game:

  - a tag line, if the current game has move text; an Event tag also if the
    current game already has one;
  - move text after a result, since tags are optional.

Lines inside a comment start nothing, except `[Event "`, which shows that the
comment was never closed. Until a game has its result, a line that starts with
'[' but does not look like a tag is move text.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wm.kernels.base import calls
from wm.kernels.base.bits import enlarged
from wm.kernels.base.jit import njit
from wm.kernels.chess import layout
from wm.kernels.chess.san import byte_table, read_spans

# Columns of a row: first byte of the game, first byte of its move text, and its
# end; number of readable tags; FLAGS; first and last + 1 byte of the values of
# some tags, both 0 for a missing tag.
START, MOVES, END, TAGS, FLAGS = range(5)
NAMES = ('site', 'variant', 'fen', 'setup')
SITE, VARIANT, FEN, SETUP = range(5, 13, 2)
WIDTH = 13
# Bits of FLAGS: a tag could not be read; a comment or variation is not closed;
# the game has its result.
BROKEN, OPEN, OVER = 1, 2, 4
_NEWLINE, _BLANK = 10, 32  # Bytes up to _BLANK are blanks.
_QUOTE, _ESCAPE, _LEFT, _RIGHT, _ZERO, _ONE, _TWO = (
  ord(letter) for letter in '"\\[]012'
)
_EVENT = np.frombuffer(b'[Event "', np.uint8)
_LETTERS = np.zeros((4, 8), np.uint8)
for _k, _name in enumerate(NAMES):
  _LETTERS[_k, : len(_name)] = np.frombuffer(_name.encode(), np.uint8)
_COMMENT, _REMARK, _ASIDE, _BACK, _STAR, _DASH, _SLASH = range(1, 8)
# Bytes that mean something in a line of move text; all others are 0.
_MARK = byte_table(
  {
    '{': _COMMENT,
    ';': _REMARK,
    '(': _ASIDE,
    ')': _BACK,
    '*': _STAR,
    '-': _DASH,
    '/': _SLASH,
  }
)
_UNCOMMENT = ord('}')
_AFTERWARDS = byte_table({'{;()$': 1})  # What may follow a result.
_IN_NAME = np.array(
  [chr(c).encode().isalnum() or chr(c) in '_+#=:-' for c in range(256)]
)


class Text(NamedTuple):
  """Games in a text.

  Attributes:
    games: [N, WIDTH] int64, in order.
    rest: first byte of the text after the last complete game.
  """

  games: np.ndarray
  rest: int


class GameMoves(NamedTuple):
  """Moves of games, end to end.

  Attributes:
    moves: [sum of lengths] uint16 packed.
    lengths: [N] int32, moves read.
    errors: [N] int8 into chess.san.ERRORS; where it is not 0, reading stopped.
    words: [N, 2] int64, first and last + 1 byte of the word refused.
  """

  moves: np.ndarray
  lengths: np.ndarray
  errors: np.ndarray
  words: np.ndarray


def _bytes(text: bytes | np.ndarray) -> np.ndarray:
  if isinstance(text, bytes | bytearray | memoryview):
    text = np.frombuffer(text, np.uint8)
  return calls.frozen(text, np.uint8)


def split(text: bytes | np.ndarray, final: bool = True) -> Text:
  """Finds the games of a text, line ends '\\n'.

  Args:
    text: bytes, or [M] uint8.
    final: True at the end of the file. Otherwise the last game and line, which
      may continue, are left as `rest`.
  """
  games, rest = _split(_bytes(text), bool(final))
  return Text(games, int(rest))


@njit
def _split(text, final) -> tuple[np.ndarray, int]:
  """Rows of the games, and where the rest starts."""
  # State between lines: a game has started (`begun`), has move text (`moving`),
  # an open comment, its result (`over`), an Event tag (`event`), and `depth`
  # open variations.
  table = np.zeros((64, WIDTH), np.int64)
  num, at, size = 0, 0, len(text)
  begun = moving = comment = over = event = False
  depth = 0
  while at < size:
    stop = _line(text, at)
    if stop == size and not final:
      break  # The line may go on in the next block.
    word = _past_blanks(text, at, stop)
    eventful = _starts_event(text, at, stop)
    tag = text[at] == _LEFT if stop > at else False
    # As `ref._kind`: a line of tags, and the start of a game?
    if comment:
      tag = eventful
    elif tag and moving and not over:
      tag = _value(text, at, stop)[0] >= 0
    passed = not comment and word == stop  # A blank line, of no game.
    fresh = not begun and not passed
    if tag:
      fresh = fresh or moving or (eventful and event)
    elif begun and over and not comment and not passed:
      fresh = _AFTERWARDS[text[word]] == 0
    if fresh:
      # The row of the current game is complete; adds one for the new game.
      if begun:
        num = _closed(table, num, at, moving, comment, depth, over)
      table = _grown(table, num)
      table[num, START] = at
      moving = comment = over = event = False
      begun, depth = True, 0
    if tag:
      event = event or eventful
      _read_tags(text, at, stop, table[num])
    elif not passed:
      if not moving:
        moving, table[num, MOVES] = True, at
      comment, depth, over = _scan(text, at, stop, comment, depth, over)
    at = min(stop + 1, size)
  if begun and final:
    num = _closed(table, num, size, moving, comment, depth, over)
    begun = False
  rest = table[num, START] if begun else at
  return table[:num].copy(), rest


def read(
  text: bytes | np.ndarray,
  firsts: np.ndarray,
  lasts: np.ndarray,
  start: np.ndarray | None = None,
) -> GameMoves:
  """Reads move text, each game up to its first error.

  `chess.san` explains the tokens. Memory is bounded by the size of the text.

  Args:
    text: bytes, or [M] uint8.
    firsts: [N] first byte of each game's move text, as `split` finds it.
    lasts: [N] last + 1 byte of it.
    start: [11] position of all games; None is the standard one.
  """
  text = _bytes(text)
  firsts = calls.frozen(firsts, np.int64)
  lasts = calls.frozen(lasts, np.int64)
  opening = layout.start_rows(start, len(firsts))

  def call(rows: slice) -> tuple[np.ndarray, ...]:
    return read_spans(text, firsts[rows], lasts[rows], opening)

  return GameMoves(*calls.run(call, len(firsts)))


@njit
def _line(text, at):
  """Place of the end of the line."""
  size = len(text)
  while at < size and text[at] != _NEWLINE:
    at += 1
  return at


@njit
def _past_blanks(text, at, stop):
  while at < stop and text[at] <= _BLANK:
    at += 1
  return at


@njit
def _past_name(text, at, stop):
  while at < stop and _IN_NAME[text[at]]:
    at += 1
  return at


@njit
def _value(text, at, stop):
  """First byte of a tag's value, -1 if what is at '[' does not look like a
  tag; and first and last + 1 byte of its name."""
  # [Name "value"], with blanks or without between the parts.
  name = _past_blanks(text, at + 1, stop)
  last = _past_name(text, name, stop)
  quote = _past_blanks(text, last, stop)
  if last == name or quote >= stop or text[quote] != _QUOTE:
    return -1, name, last
  return quote + 1, name, last


@njit
def _value_end(text, at, stop):
  """Place of the quote that ends a value, and after the ']' behind it; -1."""
  # A quote ends the value only if a bracket follows: values hold bare quotes.
  while at < stop:
    if text[at] == _ESCAPE:  # Whatever follows is part of the value.
      at += 1
    elif text[at] == _QUOTE:
      after = _past_blanks(text, at + 1, stop)
      if after < stop and text[after] == _RIGHT:
        return at, after + 1
    at += 1
  return -1, -1


@njit
def _named(text, first, last, letters):
  """True if the name, ignoring case, has these lower-case letters."""
  for k in range(last - first):
    # Bit 5 makes letters lower case.
    if k >= len(letters) or text[first + k] | 32 != letters[k]:
      return False
  return last - first == len(letters) or letters[last - first] == 0


@njit
def _starts_event(text, at, stop):
  """Does a line start with `[Event "`?"""
  if stop - at < len(_EVENT):
    return False
  same = True
  for k in range(len(_EVENT)):
    same = same and text[at + k] == _EVENT[k]
  return same


@njit
def _read_tags(text, at, stop, game):
  """Notes the tags of a line in a game's row."""
  while at < stop:
    if text[at] != _LEFT:
      game[FLAGS] |= BROKEN
      return
    first, name, name_end = _value(text, at, stop)
    last = -1
    if first >= 0:
      last, at = _value_end(text, first, stop)
    if last < 0:
      game[FLAGS] |= BROKEN
      return
    game[TAGS] += 1
    # Of the other tags only the number is kept.
    for k in range(len(_LETTERS)):
      if _named(text, name, name_end, _LETTERS[k]):
        game[SITE + 2 * k] = first
        game[SITE + 2 * k + 1] = last
    at = _past_blanks(text, at, stop)


@njit
def _scan(text, at, stop, comment, depth, over):
  """Follows comments, variations and results through a line of move text."""
  while at < stop:
    letter = text[at]
    if comment:
      comment = letter != _UNCOMMENT
    elif _MARK[letter]:
      mark = _MARK[letter]
      if mark == _COMMENT:
        comment = True
      elif mark == _REMARK:
        break
      elif mark == _ASIDE:
        depth += 1
      elif mark == _BACK:  # An unmatched one is ignored.
        depth = max(depth - 1, 0)
      elif depth == 0:  # Results inside variations are ignored.
        over = over or _is_result(text, at, stop, mark)
    at += 1
  return comment, depth, over


@njit
def _is_result(text, at, stop, mark):
  """True for '*', or for the middle of 1-0, 0-1 or 1/2."""
  if mark == _STAR:
    return True
  # The neighbours of a dash or slash decide.
  before = text[at - 1] if at > 0 else _NEWLINE
  after = text[at + 1] if at + 1 < stop else _NEWLINE
  if mark == _SLASH:
    return before == _ONE and after == _TWO
  return (before == _ONE and after == _ZERO) or (
    before == _ZERO and after == _ONE
  )


@njit
def _grown(table, num):
  """The table with an empty row `num`."""
  if num == len(table):
    table = enlarged(table, 2 * num, 0)
  return table


@njit
def _closed(table, num, end, moving, comment, depth, over):
  """Completes the current game; returns the number of games."""
  game = table[num]
  game[END] = end
  if not moving:
    game[MOVES] = end
  if comment or depth:
    game[FLAGS] |= OPEN
  if over:
    game[FLAGS] |= OVER
  return num + 1
