"""Games, tags and moves of PGN text in plain Python: the specification.

`wm.kernels.pgn` documents.
"""

from __future__ import annotations

import io
import re

import numpy as np

from tests.kernels.chess import san_ref
from wm.kernels import pgn
from wm.kernels.pgn import GameMoves, Text

_TAG_START = re.compile(rb'\[[\0- ]*([A-Za-z0-9_+#=:-]+)[\0- ]*"')
_VALUE = re.compile(rb'((?:\\.|(?!"[\0- ]*\])[^\\])*)"[\0- ]*\][\0- ]*', re.S)
# Comments, remarks, brackets of variations; the middle of a result.
_PART = re.compile(
  rb'\{[^}]*\}?|;.*|[()]|\*|(?<=1)-(?=0)|(?<=0)-(?=1)|(?<=1)/(?=2)'
)


class _Game:
  """A game under way: its row, and what its lines have said so far."""

  def __init__(self, start: int) -> None:
    self.row = [0] * pgn.WIDTH
    self.row[pgn.START] = start
    self.moving = self.comment = self.over = self.event = False
    self.depth = 0

  def tags(self, line: bytes, start: int) -> None:
    """Notes a line of tags."""
    at = 0
    while at < len(line):
      tag = _TAG_START.match(line, at)
      value = _VALUE.match(line, tag.end()) if tag else None
      if not tag or not value:
        self.row[pgn.FLAGS] |= pgn.BROKEN
        return
      self.row[pgn.TAGS] += 1
      name = tag[1].lower().decode()
      if name in pgn.NAMES:
        column = pgn.SITE + 2 * pgn.NAMES.index(name)
        first, last = value.span(1)
        self.row[column : column + 2] = start + first, start + last
      at = value.end()

  def text(self, line: bytes, start: int) -> None:
    """Notes a line of move text."""
    if not self.moving:
      self.moving, self.row[pgn.MOVES] = True, start
    at = 0
    if self.comment:
      at = line.find(b'}') + 1
      if not at:
        return
      self.comment = False
    for part in _PART.finditer(line, at):
      if part[0][:1] == b'{':
        self.comment = not part[0].endswith(b'}')
      elif part[0] in (b'(', b')'):
        self.depth = max(self.depth + (1 if part[0] == b'(' else -1), 0)
      elif part[0] in (b'*', b'-', b'/') and not self.depth:
        self.over = True

  def closed(self, end: int) -> list[int]:
    """The row of the game, complete."""
    self.row[pgn.END] = end
    if not self.moving:
      self.row[pgn.MOVES] = end
    if self.comment or self.depth:
      self.row[pgn.FLAGS] |= pgn.OPEN
    if self.over:
      self.row[pgn.FLAGS] |= pgn.OVER
    return self.row


def _kind(line: bytes, game: _Game | None) -> tuple[bool, bool]:
  """Is a line of tags, and does it start a new game?"""
  event = line.startswith(b'[Event "')
  tag = line.startswith(b'[')
  if game is None:
    return tag, bool(line.strip(bytes(range(33))))
  if game.comment:
    return event, event
  if tag and game.moving and not game.over:
    tag = bool(_TAG_START.match(line))
  if tag:
    return True, game.moving or (event and game.event)
  first = line.strip(bytes(range(33)))[:1]
  return False, game.over and first not in b'{;()$'


def split(text: bytes, final: bool = True) -> Text:
  """Rows of the games, and where the rest starts."""
  rows, at = [], 0
  game = None
  for line in io.BytesIO(text):
    if not (final or line.endswith(b'\n')):
      break
    body = line.removesuffix(b'\n')
    tag, fresh = _kind(body, game)
    if fresh:
      if game:
        rows.append(game.closed(at))
      game = _Game(at)
    if game and tag:
      game.event = game.event or body.startswith(b'[Event "')
      game.tags(body, at)
    elif game and (game.comment or body.strip(bytes(range(33)))):
      game.text(body, at)
    at += len(line)
  if game and final:
    rows.append(game.closed(len(text)))
    game = None
  rest = game.row[pgn.START] if game else at
  return Text(np.array(rows, np.int64).reshape(-1, pgn.WIDTH), rest)


def read(text: bytes, firsts: np.ndarray, lasts: np.ndarray) -> GameMoves:
  """Moves of games end to end, their numbers, errors and refused tokens."""
  results = [
    san_ref.read(text[:last], np.array([first, last]))
    for first, last in zip(firsts, lasts, strict=True)
  ]
  moves = [item.moves[0, : item.lengths[0]] for item in results]
  return GameMoves(
    np.concatenate([np.zeros(0, int), *moves]).astype(np.uint16),
    np.array([len(item) for item in moves], np.int32),
    np.array([item.errors[0] for item in results], np.int8),
    np.array([item.words[0] for item in results], np.int64).reshape(-1, 2),
  )
