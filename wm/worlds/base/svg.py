"""Drawing helpers for `Written.render`: self-contained SVG, no fonts needed.

An SVG library would replace only `text`, `rect`, `circle` and `line`, a tenth
of this module; boards, tables and pieces are layout and paths. Pictures have
their own background, so that they are legible on a dark page. Coordinates are
pixels, y grows downwards.
"""

from __future__ import annotations

import html
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from wm.core.capabilities import Box

PAPER, INK, FAINT, LINE = '#ffffff', '#20242a', '#6b7280', '#c9ced6'
MARK, HERE, GOAL = '#f2c230', '#d1495b', '#2f7d4f'  # Last move, place, goal.

SANS = 'Helvetica, Arial, sans-serif'
MONO = 'ui-monospace, Menlo, Consolas, monospace'

BOLD = ' font-weight="600"'
# A halo around the letters, for words on top of lines.
HALO = f' stroke="{PAPER}" stroke-width="3" paint-order="stroke"'

SQUARE = 40  # Side of a board's square; pieces are drawn in such a box.
MARGIN = 22  # Around a board, for coordinates.

FELT = ('#3f8f63', '#3f8f63')  # Both kinds of squares of an Othello board.
HEIGHT, UNDER_TITLE = 22, 30  # Height of a table's row, and top of a table.
CHECKS = ('#b58a63', '#efdcbd')  # Dark and light squares of a chess board.


def picture(
  width: float, height: float, parts: Sequence[str], title: str = ''
) -> str:
  """A complete SVG document of `parts` on a background, with a title."""
  size = f'{width:g}', f'{height:g}'
  head = (
    f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]}" '
    f'height="{size[1]}" viewBox="0 0 {size[0]} {size[1]}" role="img">'
  )
  named = f'<title>{html.escape(title)}</title>' if title else ''
  paper = f'<rect width="100%" height="100%" rx="4" fill="{PAPER}"/>'
  return head + named + paper + ''.join(parts) + '</svg>'


def text(
  x: float,
  y: float,
  words: str,
  *,
  size: float = 13,
  anchor: str = 'start',
  fill: str = INK,
  mono: bool = False,
  more: str = '',
) -> str:
  """Words on the baseline (x, y), escaped; anchor start, middle or end.

  more: further attributes, such as BOLD and HALO.
  """
  return (
    f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" text-anchor="{anchor}" '
    f'fill="{fill}" font-family="{MONO if mono else SANS}"{more} '
    f'xml:space="preserve">{html.escape(words)}</text>'
  )


def label(
  x: float, y: float, words: str, *, size: float = 12, **look: Any
) -> str:
  """Small words centred on x; `look`: arguments of `text`."""
  return text(x, y, words, size=size, anchor='middle', **look)


def rect(
  x: float, y: float, width: float, height: float, fill: str, more: str = ''
) -> str:
  """A filled rectangle; `more` are further attributes."""
  return (
    f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" '
    f'fill="{fill}" {more}/>'
  )


def circle(x: float, y: float, radius: float, fill: str, more: str = '') -> str:
  """A filled circle; `more` are further attributes."""
  return f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" fill="{fill}" {more}/>'


def line(
  x1: float, y1: float, x2: float, y2: float, color: str, width: float = 1
) -> str:
  """A straight stroke."""
  return (
    f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" '
    f'stroke="{color}" stroke-width="{width:g}"/>'
  )


def around(
  points: Mapping[int, Sequence[float]], most: float = 30
) -> dict[int, list[Box]]:
  """Token -> a box around its point, for `Written.token_boxes`.

  Boxes are squares of one size, at most `most` pixels, and overlap only where
  tokens share a point.
  """
  at = np.array([*points.values()], float).reshape(-1, 2)
  apart = np.abs(at[:, None] - at).max(-1, initial=0)
  side = float(apart[apart > 1e-6].min(initial=most))
  return {
    token: [(x - side / 2, y - side / 2, side, side)]
    for token, (x, y) in zip(points, at.tolist(), strict=True)
  }


def card(lines: Sequence[str], title: str = '', wide: int = 72) -> str:
  """Lines of text as a picture, folded after `wide` characters."""
  folded = [
    row[k : k + wide] for row in lines for k in range(0, len(row) or 1, wide)
  ]
  longest = max(map(len, [*folded, title]), default=1)
  parts = [text(10, 22, title, more=BOLD)] if title else []
  first = 42 if title else 22
  parts += [
    text(10, first + 18 * k, row, mono=True) for k, row in enumerate(folded)
  ]
  return picture(
    max(20 + 8 * longest, 80), first + 18 * len(folded) - 8, parts, title
  )


def table(
  heads: Sequence[str],
  rows: Sequence[Sequence[str]],
  title: str = '',
  notes: Sequence[str] = (),
) -> str:
  """A table of short words with a header row, and notes below."""
  columns = list(zip(heads, *rows, strict=True))
  widths = [16 + 8 * max(map(len, column)) for column in columns]
  left = [10 + sum(widths[:k]) for k in range(len(widths) + 1)]
  top = UNDER_TITLE if title else 8
  parts = [text(10, 20, title, more=BOLD)] if title else []
  for n, row in enumerate([heads, *rows]):
    y = top + HEIGHT * n
    for k, word in enumerate(row):
      fill = PAPER if n else '#eef0f3'
      parts.append(
        rect(left[k], y, widths[k], HEIGHT, fill, f'stroke="{LINE}"')
        + text(left[k] + widths[k] / 2, y + 16, word, anchor='middle')
      )
  height = top + HEIGHT * (len(rows) + 1) + 8
  parts += _notes(notes, height)
  longest = max((len(note) for note in [*notes, title]), default=0)
  width = max(left[-1] + 10, 20 + 7 * longest)
  under = 18 * len(notes) + 6 if notes else 0
  return picture(width, height + under, parts, title)


def row_box(number: int) -> Box:
  """Box of the first word of a row of a `table` that has a title."""
  return 10.0, UNDER_TITLE + HEIGHT * (number + 1.0), 60.0, HEIGHT


def _notes(notes: Sequence[str], top: float) -> list[str]:
  return [
    text(10, top + 14 + 18 * k, note, size=12, fill=FAINT)
    for k, note in enumerate(notes)
  ]


class Marks(NamedTuple):
  """Squares of a board that are marked.

  Attributes:
    legal: with a dot.
    last: squares of the last move, highlighted.
    danger: in red (a king in check).
  """

  legal: Collection[int] = ()
  last: Collection[int] = ()
  danger: Collection[int] = ()


UNMARKED = Marks()


def board(
  rows: int,
  columns: int,
  pieces: Mapping[int, str],
  marks: Marks = UNMARKED,
  *,
  tones: tuple[str, str] = CHECKS,
  upwards: bool = False,
  note: str = '',
) -> str:
  """A board of squares with coordinates ('a', 'b', .. and '1', '2', ..).

  Square s is in row s // columns and column s % columns.

  Args:
    rows, columns: its size.
    pieces: square -> SVG part in a box of SQUARE by SQUARE pixels, such as the
      results of `disc` and `chessman`.
    marks: squares to mark.
    tones: colours of squares of even and of odd row + column.
    upwards: row 0 is at the bottom (chess), else at the top (Othello).
    note: a line below the board.
  """
  corner = _corners(rows, columns, upwards)
  parts = [_squares(rows, columns, tones, corner)]
  for marked, fill in ((marks.last, MARK), (marks.danger, HERE)):
    parts += [
      rect(*corner[s], SQUARE, SQUARE, fill, 'opacity="0.6"')
      for s in sorted(marked)
    ]
  parts += _pieces(pieces, corner)
  for square in sorted(marks.legal):
    x, y = corner[square]
    parts.append(_dot(x + SQUARE / 2, y + SQUARE / 2, square in pieces))
  parts += _frame(rows, columns, tones[0] == tones[1], upwards)
  width, height = 2 * MARGIN + SQUARE * columns, 2 * MARGIN + SQUARE * rows
  if note:
    parts.append(text(MARGIN, height + 12, note, size=12))
  width = max(width, 2 * MARGIN + 6 * len(note))
  return picture(width, height + (24 if note else 0), parts, note)


def squares(
  rows: int, columns: int, *, upwards: bool = False
) -> dict[int, Box]:
  """Square of a `board` -> its box."""
  corners = _corners(rows, columns, upwards)
  return {square: (*at, SQUARE, SQUARE) for square, at in corners.items()}


def _corners(
  rows: int, columns: int, upwards: bool
) -> dict[int, tuple[int, int]]:
  """Square -> pixels of its upper left corner."""
  return {
    square: (
      MARGIN + SQUARE * (square % columns),
      MARGIN + SQUARE * (rows - 1 - row if upwards else row),
    )
    for row in range(rows)
    for square in range(row * columns, (row + 1) * columns)
  }


def _squares(
  rows: int,
  columns: int,
  tones: tuple[str, str],
  corner: Mapping[int, tuple[int, int]],
) -> str:
  """All squares: one rectangle, and one path with the squares of tone 1."""
  width, height = SQUARE * columns, SQUARE * rows
  base = rect(MARGIN, MARGIN, width, height, tones[0])
  if tones[0] == tones[1]:
    return base
  odd = [s for s in corner if sum(divmod(s, columns)) % 2]
  path = ''.join(
    'M{:g} {:g}h{}v{}h-{}z'.format(*corner[s], *[SQUARE] * 3) for s in odd
  )
  return f'{base}<path d="{path}" fill="{tones[1]}"/>'


def _pieces(
  pieces: Mapping[int, str], corner: Mapping[int, tuple[int, int]]
) -> list[str]:
  """Pieces on their squares."""
  return [
    '<g transform="translate({},{})">{}</g>'.format(*corner[square], shape)
    for square, shape in sorted(pieces.items())
  ]


def _dot(x: float, y: float, occupied: bool) -> str:
  if occupied:
    ring = f'stroke="{INK}" stroke-width="2" opacity="0.55"'
    return circle(x, y, 17.5, 'none', ring)
  return circle(x, y, 5, INK, 'opacity="0.5"')


def _frame(rows: int, columns: int, ruled: bool, upwards: bool) -> list[str]:
  """Border, lines between squares of equal tone, and coordinates."""
  width, height = SQUARE * columns, SQUARE * rows
  border = f'stroke="{INK}" stroke-width="1.5"'
  parts = [rect(MARGIN, MARGIN, width, height, 'none', border)]
  if ruled:
    for k in range(1, columns):
      x = MARGIN + SQUARE * k
      parts.append(line(x, MARGIN, x, MARGIN + height, INK, 0.8))
    for k in range(1, rows):
      y = MARGIN + SQUARE * k
      parts.append(line(MARGIN, y, MARGIN + width, y, INK, 0.8))
  below = MARGIN + height + 15 if upwards else MARGIN - 7
  for k in range(columns):
    middle = MARGIN + SQUARE * (k + 0.5)
    parts.append(label(middle, below, chr(ord('a') + k), fill=FAINT))
  for k in range(rows):
    foot = MARGIN + SQUARE * ((rows - 1 - k if upwards else k) + 0.5) + 4
    parts.append(label(MARGIN / 2, foot, str(k + 1), fill=FAINT))
  return parts


def disc(color: str) -> str:
  """A round piece in a box of SQUARE pixels."""
  return circle(20, 20, 16, color, f'stroke="{INK}"')


BLACK, WHITE = '#16191d', '#fbfbf8'

_GLYPH = '\ufe0e'  # Asks for a letter, where a font has a picture too.
_MEN = dict(zip('KQRBNP', '♚♛♜♝♞♟', strict=True))


def chessman(letter: str) -> str:
  """A chess piece in a box of SQUARE pixels; capitals are white."""
  fill, rim = (WHITE, BLACK) if letter.isupper() else (BLACK, WHITE)
  more = f' stroke="{rim}" stroke-width="0.8"'
  man = _MEN[letter.upper()] + _GLYPH
  return label(20, 32, man, size=34, fill=fill, more=more)
