"""Games, tags and moves of PGN text, compiled: see `wm.kernels.pgn.games`."""

from __future__ import annotations

import numpy as np

from wm.kernels.base.jit import njit
from wm.kernels.base.text import byte_table
from wm.kernels.pgn import layout

_NEWLINE, _BLANK = 10, 32  # Bytes up to _BLANK are blanks.
_QUOTE, _ESCAPE, _LEFT, _RIGHT, _ZERO, _ONE, _TWO = (
  ord(letter) for letter in '"\\[]012'
)
_EVENT = np.frombuffer(b'[Event "', np.uint8)
_LETTERS = np.zeros((4, 8), np.uint8)
for _k, _name in enumerate(layout.NAMES):
  _LETTERS[_k, : len(_name)] = np.frombuffer(_name.encode(), np.uint8)

_COMMENT, _REMARK, _ASIDE, _BACK, _STAR, _DASH, _SLASH = range(1, 8)


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
  """Is this name, small or capital, spelled with these small letters?"""
  for k in range(last - first):
    # Bit 5 makes small letters of capitals.
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
      game[layout.FLAGS] |= layout.BROKEN
      return
    first, name, name_end = _value(text, at, stop)
    last = -1
    if first >= 0:
      last, at = _value_end(text, first, stop)
    if last < 0:
      game[layout.FLAGS] |= layout.BROKEN
      return
    game[layout.TAGS] += 1
    # Of the other tags only the number is kept.
    for k in range(len(_LETTERS)):
      if _named(text, name, name_end, _LETTERS[k]):
        game[layout.SITE + 2 * k] = first
        game[layout.SITE + 2 * k + 1] = last
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
      elif mark == _BACK:  # One too many closes nothing.
        depth = max(depth - 1, 0)
      elif depth == 0:  # A variation's result is not the game's.
        over = over or _is_result(text, at, stop, mark)
    at += 1
  return comment, depth, over


@njit
def _is_result(text, at, stop, mark):
  """Is this '*', or the middle of 1-0, 0-1 or 1/2?"""
  if mark == _STAR:
    return True
  # A dash or slash alone says nothing: its neighbours do.
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
    larger = np.zeros((2 * num, layout.WIDTH), np.int64)
    larger[:num] = table
    table = larger
  return table


@njit
def _closed(table, num, end, moving, comment, depth, over):
  """Completes the game under way; the number of games then."""
  game = table[num]
  game[layout.END] = end
  if not moving:
    game[layout.MOVES] = end
  if comment or depth:
    game[layout.FLAGS] |= layout.OPEN
  if over:
    game[layout.FLAGS] |= layout.OVER
  return num + 1


@njit
def split(text, final) -> tuple[np.ndarray, int]:
  """Rows of the games, and where the rest starts."""
  # State between lines: is a game under way (`begun`), has it move text
  # (`moving`), an open comment, its result (`over`), an Event tag (`event`);
  # how many variations are open (`depth`).
  table = np.zeros((64, layout.WIDTH), np.int64)
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
    # As `ref._kind`: is this a line of tags, and does a game start here?
    if comment:
      tag = eventful
    elif tag and moving and not over:
      tag = _value(text, at, stop)[0] >= 0
    passed = not comment and word == stop  # A blank line: nobody's.
    fresh = not begun and not passed
    if tag:
      fresh = fresh or moving or (eventful and event)
    elif begun and over and not comment and not passed:
      fresh = _AFTERWARDS[text[word]] == 0
    if fresh:
      # The row of the game under way is complete; a row for the new one.
      if begun:
        num = _closed(table, num, at, moving, comment, depth, over)
      table = _grown(table, num)
      table[num, layout.START] = at
      moving = comment = over = event = False
      begun, depth = True, 0
    if tag:
      event = event or eventful
      _read_tags(text, at, stop, table[num])
    elif not passed:
      if not moving:
        moving, table[num, layout.MOVES] = True, at
      comment, depth, over = _scan(text, at, stop, comment, depth, over)
    at = min(stop + 1, size)
  if begun and final:
    num = _closed(table, num, size, moving, comment, depth, over)
    begun = False
  rest = table[num, layout.START] if begun else at
  return table[:num].copy(), rest
