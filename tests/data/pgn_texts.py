"""PGN made of random games, for the tests of ingestion."""

import pathlib

from tests import chess_ids
from wm.data import store as stores
from wm.kernels import chess
from wm.kernels.chess import san as chess_san


def random_games(num: int, seed: int = 0, most: int = 60) -> list[str]:
  """Move text of uniformly random games of 20 to `most` plies."""
  moves, lengths, _ = chess.play(num + num // 20 + 5, seed=seed, most=most)
  words, _ = chess_san.write(moves, lengths)
  games = [
    b' '.join(row[:length].tolist()).decode() + ' *'
    for row, length in zip(words, lengths, strict=True)
    if length >= 20
  ]
  assert len(games) >= num
  return games[:num]


def tree(folder: pathlib.Path) -> dict[str, bytes]:
  """Path in a folder -> content of the file."""
  return {
    str(path.relative_to(folder)): path.read_bytes()
    for path in sorted(folder.rglob('*'))
    if path.is_file()
  }


def url(number: int) -> str:
  """Of a game."""
  return f'https://lichess.org/{number:08d}'


def pgn(games: list[str], sites: list[str] | None = None) -> str:
  """A file of games, game n at url(n)."""
  sites = sites or [url(n) for n in range(len(games))]
  return ''.join(
    f'[Event "Rated"]\n[Site "{site}"]\n\n{moves}\n\n'
    for moves, site in zip(games, sites, strict=True)
  )


def rows(folder: pathlib.Path) -> list[bytes]:
  """Every row of a store, as bytes of the published ids."""
  result = []
  for chunk in stores.open(folder).chunks():
    for row, length in zip(chunk.tokens, chunk.lengths, strict=True):
      ids = chess_ids.published(row[:length], 'compact')
      result.append(ids.astype('<u2').tobytes())
  return result
