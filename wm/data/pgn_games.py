"""Games of PGN files as moves, block by block, with the reason of each reject.

    file    plain, or compressed by gzip, Zstandard, bzip2 or xz, of any number
            of members or frames; told by its first bytes, not by its name
    part    PART bytes of its text, unpacked in constant memory
    block   the games that a part completes: as many as the file alone decides;
            blocks are read independently of each other

The split that a game goes to is a public function of its identity, as published
(Walker and Lyons 2026, section 3), but for the key of the identifiers, which
there is private and here is SALT, so that everybody gets the same split.
Validation is where the bucket is below 50 of 10,000.
"""

from __future__ import annotations

import bz2
import functools
import hashlib
import hmac
import lzma
import pathlib
import re
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from wm import core
from wm.core import inputs
from wm.kernels import pgn
from wm.kernels.chess import san as chess_san
from wm.worlds.chess import notation as chess_notation

SALT = b'wm.chess.1'
BUCKETS, HELDOUT = 10_000, 50
_GAME_URL = re.compile(rb'https?://[^/\s]+/[^/\s]\S*')


def game_id(identity: bytes, key: bytes = SALT) -> str:
  """'cwm_' and 24 hex digits of an HMAC-SHA256."""
  return 'cwm_' + hmac.digest(key, identity, 'sha256').hex()[:24]


def bucket(text: str) -> int:
  """0..9999: the first 8 bytes of an MD5, little-endian, mod BUCKETS."""
  digest = hashlib.md5(text.encode(), usedforsecurity=False).digest()
  return int.from_bytes(digest[:8], 'little') % BUCKETS


def is_heldout(identity: bytes, key: bytes = SALT) -> bool:
  """Does the game of this identity go to the held-out split?"""
  return bucket(game_id(identity, key)) < HELDOUT


def identity(site: bytes, headers: bytes, tokens: bytes) -> bytes:
  """Stable id of a game: its URL, else all its tags and moves.

  Args:
    site: value of the Site tag. It counts if it is a URL with a path; a city
      or a server names no game.
    headers: tag lines.
    tokens: published ids, start included, as little-endian uint16.
  """
  if _GAME_URL.fullmatch(site):
    return site
  lines = (line.strip() for line in headers.splitlines())
  return b'\n'.join([*filter(None, lines), b'', tokens])


PART = 1 << 23  # Bytes of text that are given at a time.
_PIECE = 1 << 14  # Compressed bytes that are unpacked at a time.
_WINDOW_LOG = 31  # Largest window that a Zstandard frame may ask for.
_MARK = b'\xef\xbb\xbf'  # Byte order mark of UTF-8.
_MAGIC = (
  (b'\x1f\x8b', 'gzip'),
  (b'\x28\xb5\x2f\xfd', 'Zstandard'),
  (b'BZh', 'bzip2'),
  (b'\xfd7zXZ\x00', 'xz'),
)
_SKIPPABLE = re.compile(rb'[\x50-\x5f]\x2a\x4d\x18')  # A frame of pzstd.
_ESCAPED = re.compile(rb'^%[^\n]*\n', re.M)


def _compression(head: bytes) -> str:
  """Name of a file's compression by its first bytes; '' if none."""
  if _SKIPPABLE.match(head):
    return 'Zstandard'
  return next((name for magic, name in _MAGIC if head.startswith(magic)), '')


def _unpacker(
  kind: str,
) -> tuple[Callable[[], Any], tuple[type[Exception], ...]]:
  """Maker of decompressors with `decompress`, `eof`, `unused_data`; errors."""
  if kind == 'Zstandard':
    with inputs.extra('games', 'reading Zstandard files'):
      import zstandard
    frames = zstandard.ZstdDecompressor(max_window_size=1 << _WINDOW_LOG)
    return frames.decompressobj, (zstandard.ZstdError,)
  makers = {
    'gzip': lambda: zlib.decompressobj(wbits=31),
    'bzip2': bz2.BZ2Decompressor,
    'xz': lzma.LZMADecompressor,
  }
  # bz2 says OSError of bad data; no disk is touched where it is caught.
  return makers[kind], (zlib.error, lzma.LZMAError, OSError)


class Source:
  """One file.

  Attributes:
    path: where it is.
    size: its bytes on disk.
    read: bytes of it read so far.
    damage: what is wrong with it, '' if nothing so far; its text ends there.
  """

  def __init__(self, path: str | pathlib.Path) -> None:
    """Raises InputError if the file is missing."""
    with inputs.reading_file(path, 'a PGN file') as self.path:
      self.size = self.path.stat().st_size
    self.read, self.damage = 0, ''

  def parts(self) -> Iterator[bytes]:
    """Text from the start, PART bytes at a time, the last one shorter.

    Line ends are made '\\n', a byte order mark is left out.
    """
    self.read, self.damage = 0, ''
    held, first = bytearray(), True
    for piece in self._pieces():
      held += piece
      while len(held) > PART + len(_MARK):
        # A carriage return waits for what follows it.
        size = PART - held.startswith(b'\r', PART - 1)
        yield _lines(bytes(held[:size]), first)
        del held[:size]
        first = False
    yield _lines(bytes(held), first)

  def _pieces(self) -> Iterator[bytes]:
    with (
      inputs.reading_file(self.path, 'a PGN file'),
      self.path.open('rb') as file,
    ):
      head = file.peek(8)[:8]
      kind = _compression(head)
      yield from self._unpacked(file, kind) if kind else self._raw(file)

  def _raw(self, file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(8 * _PIECE):
      self.read += len(piece)
      yield piece

  def _unpacked(self, file: BinaryIO, kind: str) -> Iterator[bytes]:
    make, errors = _unpacker(kind)
    member, num_bytes = make(), 0
    while piece := file.read(_PIECE):
      self.read += len(piece)
      while piece:
        if member.eof:  # Another member, or the zeros that pad some files.
          piece = piece.lstrip(b'\0')
          if not piece:
            break
          member = make()
        try:
          text = member.decompress(piece)
        except errors:
          self.damage = f'corrupt {kind} data after {num_bytes:,} bytes of text'
          return
        num_bytes += len(text)
        piece = member.unused_data if member.eof else b''
        yield text
    if not member.eof and self.read:
      self.damage = f'truncated {kind} data after {num_bytes:,} bytes of text'


def _lines(part: bytes, first: bool) -> bytes:
  if first:
    part = part.removeprefix(_MARK)
  if b'\r' in part:
    part = part.replace(b'\r\n', b'\n').replace(b'\r', b'\n')
  return part


def without_escapes(text: bytes, final: bool) -> bytes:
  """The text, which starts a line, less its whole lines that start with '%'.

  The PGN standard reserves them for other programs.
  """
  if b'%' not in text or (text[:1] != b'%' and b'\n%' not in text):
    return text
  if final and not text.endswith(b'\n'):
    text += b'\n'
  return _ESCAPED.sub(b'', text)


# Why a game is left out; its number is its cause, the first that applies.
CAUSES = (
  '',
  'too long',
  'cut off',
  'broken tag',
  'variant',
  'from position',
  'unclosed comment',
  'unreadable move',
  'illegal move',
  'ambiguous move',
  'null move',
  'too short',
)
_CODE = {cause: code for code, cause in enumerate(CAUSES)}
# What to do where too many games of a file are left out for a cause.
HINTS = {
  'too long': 'a game has too much text for one: is the file of games alone?',
  'broken tag': 'mend the tags, which are [Name "value"]',
  'variant': 'take these games out, as they are of other rules',
  'from position': 'chess(start=FEN) reads games from one position',
  'unclosed comment': 'close the comments',
  'unreadable move': 'expected moves as SAN or UCI write them, in English',
  'illegal move': 'mend or remove these games',
  'ambiguous move': 'mend or remove these games',
  'null move': 'take these games out, as nobody passes in chess',
}
SHOWN = 3  # Games of each cause that are named, and
WORD = 40  # most bytes of their word.
LONGEST = 1 << 22  # Bytes of text that a game may have.
_STANDARD = (b'', b'?', b'-', b'standard', b'chess', b'classical', b'normal')
_NULL = (b'--', b'Z0', b'0000', b'@@@@', b'null', b'pass')


class GameBlock(NamedTuple):
  """Part of a file.

  Attributes:
    file: its number.
    first: number of its first game in the file, from 1.
    text: bytes.
    games: [N, pgn.WIDTH] where they lie in `text`.
    cut: is the last game cut off by damage or by the end of the file?
    long: is the first game what is left of one that was too long?
    damage: what is wrong with the file, if its text ends here for that.
  """

  file: int
  first: int
  text: bytes
  games: np.ndarray
  cut: bool
  long: bool
  damage: str


class Read(NamedTuple):
  """Games of a block.

  Attributes:
    moves: [sum of lengths] uint16 packed, of the games kept, end to end.
    lengths: [K] int32.
    heldout: [K] bool, the split of each.
    hashes: [K] uint64 of the moves.
    causes: [N] int8 into CAUSES, of all games.
    cut: games kept that were cut to the most plies.
    examples: JSON values of the first rejected games of each cause: cause,
      game (its number in the file, from 1), ply (of the word, from 1, or
      plies read), word.
    file: number of the file.
    damage: what is wrong with the file, if its text ends here for that.
  """

  moves: np.ndarray
  lengths: np.ndarray
  heldout: np.ndarray
  hashes: np.ndarray
  causes: np.ndarray
  cut: int
  examples: list[dict[str, Any]]
  file: int
  damage: str


def blocks(source: Source, file: int = 0) -> Iterator[GameBlock]:
  """Blocks of a file, in order; memory does not depend on its size."""
  rest, first, long = b'', 1, False
  parts = source.parts()
  part = next(parts, None)
  while part is not None:
    after = next(parts, None)
    final = after is None
    text = without_escapes(rest + part, final)
    games, start = pgn.split(text, final)
    whole = not final or text.endswith(b'\n') or _is_over(games)
    cut = final and bool(len(games)) and (bool(source.damage) or not whole)
    yield GameBlock(
      file,
      first,
      text,
      games,
      cut,
      long=long and len(games) > 0,
      damage=source.damage if final else '',
    )
    first += len(games)
    long, rest = long and not len(games), text[start:]
    if len(rest) > LONGEST:  # Of what it was, only that it was is kept.
      long, rest = True, b'x\n' if rest.endswith(b'\n') else b'x '
    part = after


def _is_over(games: np.ndarray) -> bool:
  return len(games) > 0 and bool(games[-1, pgn.FLAGS] & pgn.OVER)


def check(source: Source) -> None:
  """Raises InputError where a file does not start as PGN.

  That is: nothing in its first block is a tag, or a legal first move.
  """
  block = next(blocks(source))
  games, damage = block.games, source.damage
  if games[:, pgn.TAGS].any():
    return
  parsed = pgn.read(block.text, games[:, pgn.MOVES], games[:, pgn.END])
  if parsed.lengths.any():
    return
  start = bytes(block.text[:200]).split(b'\n')[0][:60]
  says = f'; it starts {start.decode("latin-1")!r}' if start.strip() else ''
  if not block.text.strip():
    says = f': {damage}' if damage else ': it is empty'
  elif damage:
    says = f': {damage}'
  raise core.InputError(
    f'{source.path} is no PGN{says}; expected chess games, plain or packed '
    'by gzip, Zstandard, bzip2 or xz'
  )


def read(block: GameBlock, least: int, most: int, start: str = '') -> Read:
  """Reads a block's games, without those that are not standard chess.

  Args:
    block: where they are.
    least: games of fewer plies are too short.
    most: games of more plies are cut to it.
    start: FEN of the position that they start from; '' is the standard one.
  """
  start = start or chess_notation.START_FEN
  causes, words = _by_tags(block, start), {}
  asked = np.flatnonzero(causes == 0)
  spans = block.games[asked].T
  origin = chess_notation.parse_fen(start)
  parsed = pgn.read(block.text, spans[pgn.MOVES], spans[pgn.END], origin)
  plies = np.zeros(len(causes), np.int32)
  plies[asked] = parsed.lengths
  for k in np.flatnonzero(parsed.errors).tolist():
    first, last = parsed.words[k].tolist()
    words[int(asked[k])] = word = block.text[first:last]
    cause = f'{chess_san.ERRORS[parsed.errors[k]]} move'
    if word.rstrip(b'+#!?') in _NULL:
      cause = 'null move'
    causes[asked[k]] = _CODE[cause]
  causes[(causes == 0) & (plies < least)] = _CODE['too short']
  valid = causes[asked] == 0
  moves = parsed.moves[np.repeat(valid, parsed.lengths)]
  return _kept(block, asked[valid], moves, plies, most)._replace(
    causes=causes, examples=_examples(block, causes, plies, words)
  )


def _by_tags(block: GameBlock, start: str) -> np.ndarray:
  """[N] int8 causes that show before the moves are read."""
  games, text = block.games, block.text
  flags = games[:, pgn.FLAGS]
  causes = np.zeros(len(games), np.int8)
  causes[flags & pgn.OPEN > 0] = _CODE['unclosed comment']
  tagged = games[:, [pgn.VARIANT + 1, pgn.FEN + 1, pgn.SETUP + 1]].any(1)
  position = _placed(start)
  tagged |= position != _placed(chess_notation.START_FEN)
  for row in np.flatnonzero(tagged).tolist():
    cause = _position(games[row].tolist(), text, position)
    causes[row] = cause or causes[row]
  causes[flags & pgn.BROKEN > 0] = _CODE['broken tag']
  if block.cut:
    causes[-1] = _CODE['cut off']
  if block.long:
    causes[0] = _CODE['too long']
  return causes


@functools.lru_cache(1024)
def _placed(fen: str) -> str:
  """Placement, side, rights and en passant of a FEN; '' where it is none."""
  try:
    row = chess_notation.parse_fen(' '.join(fen.split()[:4]))
  except core.InputError:
    return ''
  return ' '.join(chess_notation.format_fen(row).split()[:4])


def _position(game: list[int], text: bytes, start: str) -> int:
  """Cause of a game that is not of standard chess from `start`, or 0."""
  variant, fen, setup = (
    text[game[tag] : game[tag + 1]].strip()
    for tag in (pgn.VARIANT, pgn.FEN, pgn.SETUP)
  )
  if variant.lower() not in (*_STANDARD, b'from position'):
    return _CODE['variant']
  placed = _placed(fen.decode('latin-1'))
  if fen in (b'', b'?', b'-'):
    unknown = setup == b'1' or variant.lower() == b'from position'
    placed = '' if unknown else _placed(chess_notation.START_FEN)
  return 0 if placed == start else _CODE['from position']


def _kept(
  block: GameBlock,
  rows: np.ndarray,
  moves: np.ndarray,
  plies: np.ndarray,
  most: int,
) -> Read:
  """The games `rows`, whose moves are end to end, cut and identified."""
  lengths = plies[rows]
  ends = np.cumsum(lengths, dtype=np.int64)
  firsts, shorter = ends - lengths, np.minimum(lengths, most)
  heldout = np.zeros(len(rows), bool)
  hashes = np.zeros(len(rows), np.uint64)
  raw = moves.astype('<u2').tobytes()
  start = np.array([chess_notation.PUBLISHED_START], '<u2').tobytes()
  spans = np.stack([firsts, ends, firsts + shorter], 1) * 2
  for k, (game, (first, end, cut)) in enumerate(
    zip(block.games[rows].tolist(), spans.tolist(), strict=True)
  ):
    site = block.text[game[pgn.SITE] : game[pgn.SITE + 1]]
    headers = block.text[game[pgn.START] : game[pgn.MOVES]]
    tokens = start + raw[first:end]
    key = identity(site, headers, tokens)
    heldout[k] = is_heldout(key)
    digest = hashlib.blake2b(raw[first:cut], digest_size=8).digest()
    hashes[k] = int.from_bytes(digest, 'little')
  place = np.arange(len(moves)) - np.repeat(firsts, lengths)
  return Read(
    moves[place < np.repeat(shorter, lengths)],
    shorter,
    heldout,
    hashes,
    np.zeros(0, np.int8),
    int((shorter < lengths).sum()),
    [],
    block.file,
    block.damage,
  )


def _examples(
  block: GameBlock,
  causes: np.ndarray,
  plies: np.ndarray,
  words: dict[int, bytes],
) -> list[dict[str, Any]]:
  """The first SHOWN rejected games of each cause."""
  shown = []
  for code, cause in enumerate(CAUSES[1:], 1):
    for row in np.flatnonzero(causes == code)[:SHOWN].tolist():
      word = words.get(row, b'')
      if cause == 'variant':
        game = block.games[row]
        word = block.text[game[pgn.VARIANT] : game[pgn.VARIANT + 1]]
      shown.append(
        {
          'cause': cause,
          'game': block.first + row,
          'ply': int(plies[row]) + (row in words),
          'word': word[:WORD].decode('utf-8', 'replace'),
        }
      )
  return shown
