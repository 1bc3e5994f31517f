"""Recorded games of Othello: WTHOR databases, plain lists of moves, folders.

A `.wtb` file is a header and a record for each game, little-endian:

  header, 16 bytes | date 4 | games, int32 | int16 | year, int16 | board size,
                   | a byte, 0 is 8 | 3 more
  record, 68 bytes | tournament, black, white, int16 each | black's discs, a
                   | byte | best result, a byte | 60 moves, a byte each:
                   | 10 * row + column, both from 1; 0 after the last

Any other file is text, a game per line: moves as f5d6c3, f5 d6 c3 or numbered;
text after '#' is ignored, and so are passes (PASS); a database has none.
"""

from __future__ import annotations

import codecs
import functools
import pathlib
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import inputs
from wm.kernels import othello as kernels
from wm.worlds.base import games

KINDS = '.wtb', '.txt'
HEADER, RECORD, MOVES = 16, 68, 60  # Bytes.
LONGEST = 4096  # Limit of bytes read per line; a game has some 300.
WIDTH = 61  # Moves read per game: one more than the longest game has.
SHOWN = 3  # Number of rejected games named by `facts`.
PASS = re.compile(rb'pass|pas|pa|ps|--|-1|@@@@|@@|z0|0000')
_NUMBER = rb'(?<![a-h])[0-9]+ *[.):]+'  # A move number.
_PART = re.compile(
  rb'(?P<move>[a-h][0-9])|%b|%b|[\s,;|.]+|-(?![-1])|(?P<bad>[^\s]{1,2})'
  % (PASS.pattern, _NUMBER)
)
_PLAIN = re.compile(rb'(?:[a-h][0-9])*')
# In place of a token: not a square, or a square filled at the start.
UNREADABLE, FILLED = -1, -2


class Rejected(NamedTuple):
  """A game that is left out.

  Attributes:
    game: its number, from 1; of a text file, its line.
    cause: 'illegal move', 'unreadable move', or 'no moves'.
    ply: number of the wrong move, from 1; 0 if there is none.
    move: that move, as written.
    position: the moves before it, or 'start'.
    file: name of the file within a folder; '' for a single file.
  """

  game: int
  cause: str
  ply: int
  move: str
  position: str
  file: str = ''

  def what(self) -> str:
    """Description of the fault, without the game's number."""
    if not self.ply:
      return self.cause
    return f'ply {self.ply}: {self.cause} {self.move!r} after {self.position}'

  def where(self) -> str:
    """'game', after the name of the file if there are several."""
    return f'{self.file}, game' if self.file else 'game'

  def __str__(self) -> str:
    return f'{self.where()} {self.game}, {self.what()}'


class Records(NamedTuple):
  """The games of a file.

  Attributes:
    sequences: games in the file's order, without duplicates; side data 'game'
      is their number, `counts` the number of dropped games by cause.
    rejected: the dropped games, except duplicates.
    unfinished: [N] bool, True for games that stop before their end.
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


class _RecordedMoves(NamedTuple):
  """Games as read, N rows of WIDTH moves.

  Attributes:
    tokens: [N, WIDTH] tokens, or UNREADABLE or FILLED.
    lengths: [N] numbers of moves.
    numbers: [N] see `Rejected.game`.
    written: [N, WIDTH] bytes, the written form of each move.
    files: [N] str, see `Rejected.file`.
  """

  tokens: np.ndarray
  lengths: np.ndarray
  numbers: np.ndarray
  written: np.ndarray
  files: np.ndarray


def read(path: str, size: int = 8, lost: float = 1.0) -> Records:
  """Reads a file or folder of games; drops illegal games.

  Args:
    path: a WTHOR database if it ends in .wtb, else text. In a folder, all files
      with a suffix of KINDS, in order of name.
    size: squares per side of the board.
    lost: permitted share of games dropped for one reason.

  Raises:
    InputError: a missing file; a truncated database, or another board size; no
      legal game, or too many illegal games.
  """
  folder, names = pathlib.Path(path), ['']
  if folder.is_dir():
    names = [child.name for child in folder.iterdir()]
    names = sorted(n for n in names if pathlib.Path(n).suffix.lower() in KINDS)
  # An empty text replaces a folder without such files.
  parts = [_text([], size), *(_file(folder, name, size) for name in names)]
  records = _checked(
    _RecordedMoves(*map(np.concatenate, zip(*parts, strict=True))), size
  )
  if not len(records.sequences):
    first = f'; the first: {records.rejected[0]}' if records.rejected else ''
    raise core.InputError(
      f'{path} holds no legal game of othello(size={size}) among '
      f'{len(records.rejected)}{first}'
    )
  sizes = dict(zip(names, [len(part.files) for part in parts[1:]], strict=True))
  firsts: dict[tuple[str, str], list[Rejected]] = {}
  for game in records.rejected:
    firsts.setdefault((game.file, game.cause), []).append(game)
  for (name, cause), rejected in firsts.items():
    share = len(rejected), sizes[name], rejected[0]
    inputs.Lost(name or path, cause, *share).check(lost)
  return records


def _file(path: pathlib.Path, name: str, size: int) -> _RecordedMoves:
  """The games of a file, called `name` in a folder `path`."""
  path = path / name
  with inputs.reading_file(path, 'a file of games'):
    data = path.read_bytes()
    if path.suffix.lower() == '.wtb':
      read = _wthor(data, path, size)
    else:
      read = _text(data.removeprefix(codecs.BOM_UTF8).splitlines(), size)
  return read._replace(files=np.full(len(read.files), name))


def _firsts(tokens: np.ndarray) -> np.ndarray:
  """Indices of rows [N, L] that do not repeat an earlier row, ascending."""
  if not len(tokens):
    return np.zeros(0, np.int64)
  # Whole rows as one item each sort much faster than column by column.
  items = np.ascontiguousarray(tokens, np.uint8).view(f'V{tokens.shape[1]}')
  return np.sort(np.unique(items, return_index=True)[1])


def _wthor(data: bytes, path: pathlib.Path, size: int) -> _RecordedMoves:
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
  numbers, files = np.arange(num) + 1, np.full(num, '')
  return _RecordedMoves(tokens, lengths, numbers, written, files)


def _text(lines: Sequence[bytes], size: int) -> _RecordedMoves:
  """Games of lines, without lines that have no moves."""
  lines = [line[:LONGEST].split(b'#')[0].lower() for line in lines]
  numbers = np.array([k for k, line in enumerate(lines) if line.split()], int)
  read = _named_games([lines[k] for k in numbers], size)
  return read._replace(numbers=numbers + 1)


def _named_games(lines: Sequence[bytes], size: int) -> _RecordedMoves:
  """Games of lines in which squares have names."""
  rows = []
  for line in lines:
    row = b''.join(line.split())
    if not _PLAIN.fullmatch(row):
      moves = [x['move'] or x['bad'] for x in _PART.finditer(line)]
      row = b''.join(move.ljust(2) for move in moves if move)
    rows.append(row)
  lengths = np.array([len(row) // 2 for row in rows], np.int64)
  # One move more than a game can have is read, to detect longer ones.
  longest = size * size - 3
  block = b''.join(row[: 2 * longest].ljust(2 * WIDTH) for row in rows)
  letters = np.frombuffer(block, np.uint8).reshape(-1, WIDTH, 2)
  tokens = _tokens(letters[..., 1] - ord('1'), letters[..., 0] - ord('a'), size)
  written = np.ascontiguousarray(letters).view('S2')[..., 0]
  lengths = np.minimum(lengths, longest)
  numbers, files = np.arange(len(rows)) + 1, np.full(len(rows), '')
  return _RecordedMoves(tokens, lengths, numbers, written, files)


def transcribe(
  texts: Sequence[str], size: int
) -> tuple[list[games.Transcript], dict[str, int]]:
  """See games.Transcribed."""
  read = _text([text.encode() for text in texts], size)
  transcripts = [games.Transcript([], text, True) for text in texts]
  steps, wrong = _followed(read, size)
  for row, number in enumerate(read.numbers.tolist()):
    fault, unreadable = '', False
    if wrong[row]:
      rejected = _rejected(read, row, int(steps[row]), size)
      fault = rejected.move or rejected.cause
      unreadable = rejected.cause == 'unreadable move'
    tokens = read.tokens[row, : steps[row]].tolist()
    transcripts[number - 1] = games.Transcript(tokens, fault, unreadable)
  return transcripts, {}


def _followed(read: _RecordedMoves, size: int) -> tuple[np.ndarray, np.ndarray]:
  """[N] moves before the first fault, and [N] bool, True if there is one."""
  lengths = read.lengths.astype(np.int32)
  steps = kernels.replay(read.tokens, lengths, size)[0]
  return steps.astype(np.int32), (steps < lengths) | (lengths == 0)


def _tokens(row: np.ndarray, column: np.ndarray, size: int) -> np.ndarray:
  """Tokens of squares; row and column are uint8, below 0 wraps to above."""
  inside = (row < size) & (column < size)
  edge = (8 - size) // 2
  bit = np.where(inside, 8 * (row + edge) + column + edge, 0)
  tokens = kernels.tokens_of(size)[bit]
  tokens[inside & (tokens == 0)] = FILLED
  tokens[~inside] = UNREADABLE
  return tokens


def _checked(read: _RecordedMoves, size: int) -> Records:
  """Splits games into legal ones and rejected ones."""
  length = size * size - 4
  lengths = read.lengths.astype(np.int32)
  sides = kernels.replay(read.tokens, lengths, size)[3]
  steps, wrong = _followed(read, size)
  rejected = tuple(
    _rejected(read, row, int(steps[row]), size)
    for row in np.flatnonzero(wrong).tolist()
  )
  rows = np.flatnonzero(~wrong)
  used = np.arange(read.tokens.shape[1]) < lengths[:, None]
  tokens = np.where(used, read.tokens, core.PAD)[rows, :length]
  first = _firsts(tokens)
  tokens, rows = tokens[first], rows[first]
  counts = {'duplicate': int((~wrong).sum()) - len(rows)}
  for game in rejected:
    counts[game.cause] = counts.get(game.cause, 0) + 1
  sequences = core.Sequences(
    tokens.astype(np.int32),
    lengths[rows],
    {'game': read.numbers[rows]},
    {cause: number for cause, number in counts.items() if number},
  )
  return Records(sequences, rejected, sides[rows] != kernels.OVER)


def _rejected(read: _RecordedMoves, row: int, ply: int, size: int) -> Rejected:
  number, file = int(read.numbers[row]), str(read.files[row])
  if not read.lengths[row]:
    return Rejected(number, 'no moves', 0, '', 'start', file)
  names = vocab(size)
  before = ''.join(names[token] for token in read.tokens[row, :ply])
  token = read.tokens[row, ply]
  cause = 'unreadable move' if token == UNREADABLE else 'illegal move'
  written = read.written[row, ply].decode('ascii', 'replace').strip()
  move = names[token] if token > 0 else written
  return Rejected(number, cause, ply + 1, move, before or 'start', file)


def facts(records: Records) -> dict[str, int]:
  """Counts for `core.Described.stats`: games kept, dropped, unfinished.

  The first few rejected games have an entry of their own: the key describes the
  fault, the count is the game's number in its file.
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
