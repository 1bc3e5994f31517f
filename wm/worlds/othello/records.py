"""Recorded games of Othello: WTHOR databases, plain lists of moves, folders.

A `.wtb` file is a header and a record for each game, little-endian:

  header, 16 bytes | date 4 | games, int32 | int16 | year, int16 | board size,
                   | a byte, 0 is 8 | 3 more
  record, 68 bytes | tournament, black, white, int16 each | black's discs, a
                   | byte | best result, a byte | 60 moves, a byte each:
                   | 10 * row + column, both from 1; 0 after the last

Any other file is text, one game a line: moves as f5d6c3 or f5 d6 c3; what
follows '#' is no move. Passes are not written in either.
"""

from __future__ import annotations

import codecs
import functools
import pathlib
from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import inputs
from wm.kernels import othello as kernels

HEADER, RECORD, MOVES = 16, 68, 60  # Bytes.
WIDTH = 61  # Moves read of a game: one more than the longest has.
SHOWN = 3  # Rejected games that `facts` names.
# In place of a token: no square of the board, one filled from the start.
UNREADABLE, FILLED = -1, -2


class Rejected(NamedTuple):
  """A game that is left out.

  Attributes:
    game: its number, from 1; of a text file, its line.
    cause: 'illegal move', 'unreadable move', or 'no moves'.
    ply: number of the move that is wrong, from 1; 0 if none is.
    move: that move, as written.
    position: the moves before it, 'start' if there are none.
    file: name of the file in the folder that was read; '' for a file alone.
  """

  game: int
  cause: str
  ply: int
  move: str
  position: str
  file: str = ''

  def what(self) -> str:
    """What is wrong, without the game's number."""
    if not self.ply:
      return self.cause
    return f'ply {self.ply}: {self.cause} {self.move!r} after {self.position}'

  def where(self) -> str:
    """The file, if there are more, and 'game'."""
    return f'{self.file}, game' if self.file else 'game'

  def __str__(self) -> str:
    return f'{self.where()} {self.game}, {self.what()}'


class Records(NamedTuple):
  """The games of a file.

  Attributes:
    sequences: games in the file's order, without duplicates; side data 'game'
      is the number of each, `counts` what was left out by cause.
    rejected: the games left out but for duplicates.
    unfinished: [N] bool, games kept that stop before they are over.
  """

  sequences: core.Sequences
  rejected: tuple[Rejected, ...]
  unfinished: np.ndarray


@functools.cache
def vocab(size: int = 8) -> tuple[str, ...]:
  """'<pad>', then the squares 'a1', 'b1', ... without the four of the start."""
  edge = (8 - size) // 2
  lines = [divmod(int(bit), 8) for bit in kernels.squares(size)]
  names = [f'{"abcdefgh"[c - edge]}{r - edge + 1}' for r, c in lines]
  return ('<pad>', *names)


class _ReadGames(NamedTuple):
  """Games as read, N rows of WIDTH moves.

  Attributes:
    tokens: [N, WIDTH], UNREADABLE or FILLED where there is none.
    lengths: [N].
    numbers: [N] see `Rejected.game`.
    written: [N, WIDTH] bytes, what stands in place of each move.
    files: [N] str, see `Rejected.file`.
  """

  tokens: np.ndarray
  lengths: np.ndarray
  numbers: np.ndarray
  written: np.ndarray
  files: np.ndarray


def read(path: str, size: int = 8) -> Records:
  """Reads a file of games, or a folder of them; leaves out the illegal ones.

  Args:
    path: a WTHOR database if it ends in .wtb, else text; of a folder, all
      files that end in .wtb or .txt, in order of name.
    size: squares a side of the board they must be played on.

  Raises:
    InputError: no such file; a truncated database, or one of another board
      size; no legal game in it.
  """
  folder, names = pathlib.Path(path), ['']
  if folder.is_dir():
    kinds, names = ('.wtb', '.txt'), [child.name for child in folder.iterdir()]
    names = sorted(n for n in names if pathlib.Path(n).suffix.lower() in kinds)
  # An empty text stands for a folder without such files.
  parts = [_text(b'', size), *(_file(folder, name, size) for name in names)]
  records = _checked(
    _ReadGames(*map(np.concatenate, zip(*parts, strict=True))), size
  )
  if not len(records.sequences):
    first = f'; the first: {records.rejected[0]}' if records.rejected else ''
    raise core.InputError(
      f'{path} holds no legal game of othello(size={size}) among '
      f'{len(records.rejected)}{first}'
    )
  return records


def _file(path: pathlib.Path, name: str, size: int) -> _ReadGames:
  """The games of a file, `name` where it is one of a folder `path`."""
  path = path / name
  with inputs.reading_file(path, 'a file of games'):
    data = path.read_bytes()
    wthor = path.suffix.lower() == '.wtb'
    games = _wthor(data, path, size) if wthor else _text(data, size)
  return games._replace(files=np.full(len(games.files), name))


def _firsts(tokens: np.ndarray) -> np.ndarray:
  """Rows [N, L] that are no duplicate of an earlier one, ascending."""
  if not len(tokens):
    return np.zeros(0, np.int64)
  # Whole rows as one item each sort much faster than column by column.
  items = np.ascontiguousarray(tokens, np.uint8).view(f'V{tokens.shape[1]}')
  return np.sort(np.unique(items, return_index=True)[1])


def _wthor(data: bytes, path: pathlib.Path, size: int) -> _ReadGames:
  if len(data) < HEADER:
    raise core.InputError(
      f'{path} is truncated: {len(data)} bytes, expected a header of {HEADER}'
    )
  num = int(np.frombuffer(data, '<i4', 1, 4)[0])
  board = data[12] or 8
  if board != size:
    raise core.InputError(
      f'{path} is of board size {board}; expected {size}, or a world with '
      'that size'
    )
  expected = HEADER + RECORD * num
  if len(data) != expected:
    state = 'truncated' if len(data) < expected else 'too long'
    raise core.InputError(
      f'{path} is {state}: its header says {num} games, {expected} bytes; it '
      f'has {len(data)}'
    )
  body = np.frombuffer(data, np.uint8, offset=HEADER).reshape(num, RECORD)
  moves = np.pad(body[:, RECORD - MOVES :], ((0, 0), (0, WIDTH - MOVES)))
  tokens = _tokens(moves // 10 - 1, moves % 10 - 1, size)
  # Up to the last move, so that a gap before it shows as a move 0.
  lengths = WIDTH - (moves[:, ::-1] != 0).argmax(1)
  lengths[~moves.any(1)] = 0
  written = np.array([str(k) for k in range(256)], 'S3')[moves]
  return _ReadGames(
    tokens, lengths, np.arange(num) + 1, written, np.full(num, '')
  )


def _text(data: bytes, size: int) -> _ReadGames:
  data = data.removeprefix(codecs.BOM_UTF8).lower()
  lines = [line.split(b'#')[0] for line in data.splitlines()]
  numbers = np.array([k for k, line in enumerate(lines) if line.split()], int)
  games = [b''.join(lines[k].split()) for k in numbers]
  lengths = np.array([-(-len(line) // 2) for line in games], np.int64)
  # One move more than a game has is read, so that a longer one shows.
  longest = size * size - 3
  block = b''.join(line[: 2 * longest].ljust(2 * WIDTH) for line in games)
  letters = np.frombuffer(block, np.uint8).reshape(-1, WIDTH, 2)
  tokens = _tokens(letters[..., 1] - ord('1'), letters[..., 0] - ord('a'), size)
  written = np.ascontiguousarray(letters).view('S2')[..., 0]
  lengths = np.minimum(lengths, longest)
  return _ReadGames(
    tokens, lengths, numbers + 1, written, np.full(len(games), '')
  )


def _tokens(row: np.ndarray, column: np.ndarray, size: int) -> np.ndarray:
  """Tokens of squares; row and column are uint8, below 0 wraps to above."""
  inside = (row < size) & (column < size)
  edge = (8 - size) // 2
  bit = np.where(inside, 8 * (row + edge) + column + edge, 0)
  tokens = kernels.tokens_of(size)[bit]
  tokens[inside & (tokens == 0)] = FILLED
  tokens[~inside] = UNREADABLE
  return tokens


def _checked(games: _ReadGames, size: int) -> Records:
  """Splits games into legal ones and rejected ones."""
  length = size * size - 4
  lengths = games.lengths.astype(np.int32)
  steps, *position = kernels.replay(games.tokens, lengths, size)
  good = (steps == lengths) & (lengths > 0)
  rejected = tuple(
    _rejected(games, row, int(steps[row]), size)
    for row in np.flatnonzero(~good).tolist()
  )
  rows = np.flatnonzero(good)
  used = np.arange(games.tokens.shape[1]) < lengths[:, None]
  tokens = np.where(used, games.tokens, core.PAD)[rows, :length]
  first = _firsts(tokens)
  tokens, rows = tokens[first], rows[first]
  counts = {'duplicate': int(good.sum()) - len(rows)}
  for game in rejected:
    counts[game.cause] = counts.get(game.cause, 0) + 1
  sequences = core.Sequences(
    tokens.astype(np.int32),
    lengths[rows],
    {'game': games.numbers[rows]},
    {cause: number for cause, number in counts.items() if number},
  )
  return Records(sequences, rejected, position[2][rows] != kernels.OVER)


def _rejected(games: _ReadGames, row: int, ply: int, size: int) -> Rejected:
  number, file = int(games.numbers[row]), str(games.files[row])
  if not games.lengths[row]:
    return Rejected(number, 'no moves', 0, '', 'start', file)
  names = vocab(size)
  before = ''.join(names[token] for token in games.tokens[row, :ply])
  token = games.tokens[row, ply]
  cause = 'unreadable move' if token == UNREADABLE else 'illegal move'
  written = games.written[row, ply].decode('ascii', 'replace').strip()
  move = names[token] if token > 0 else written
  return Rejected(number, cause, ply + 1, move, before or 'start', file)


def facts(records: Records) -> dict[str, int]:
  """Counts for `core.Described.stats`: games kept, left out, unfinished.

  The first few rejected games are named by what is wrong; the count is the
  game's number in its file.
  """
  named = {
    f'{game.what()}, in {game.where()}': game.game
    for game in records.rejected[:SHOWN]
  }
  return {
    'games': len(records.sequences),
    'unfinished games': int(records.unfinished.sum()),
    **records.sequences.counts,
    **named,
  }
