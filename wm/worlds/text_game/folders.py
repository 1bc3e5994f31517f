"""Files of games: a folder of folders, or a packed archive of them as it is.

    FOLDER/zork1/zork1.edges.json       or       NAME.tar.gz with members
    FOLDER/zork1/zork1.walkthrough               NAME/zork1/zork1.edges.json

Nothing is unpacked: members are read by name.
"""

from __future__ import annotations

import functools
import os
import pathlib
import tarfile
from collections.abc import Mapping

from wm import core

LARGEST = 50_000_000  # Bytes of one file; the longest walkthrough has 350,000.
MOST = 500_000_000  # Bytes of an archive's files; the published ones have 5 M.
SHOWN = 5  # Names that an error lists.


def games(folder: str | os.PathLike[str]) -> tuple[str, ...]:
  """Names of the games in a folder or an archive, sorted.

  Raises:
    InputError: there is no such folder, or no game in it.
  """
  return tuple(sorted({game for game, _ in _files(folder)}))


def texts(folder: str | os.PathLike[str], game: str) -> Mapping[str, str]:
  """Kind -> text of the files of one game, e.g. 'edges.json'.

  Raises:
    InputError: no such game, or a file that is damaged or no UTF-8 text.
  """
  found = {
    kind: data for (g, kind), data in _files(folder).items() if g == game
  }
  if not found:
    known = games(folder)
    more = ', ...' if len(known) > SHOWN else ''
    raise core.InputError(
      f'{folder} has no game {game!r}; available: '
      + ', '.join(known[:SHOWN])
      + more
    )
  return {
    kind: _text(data, f'{folder}: {game}.{kind}')
    for kind, data in found.items()
  }


def _text(data: bytes | pathlib.Path, where: str) -> str:
  with core.reading(where, 'UTF-8 text'):
    if isinstance(data, pathlib.Path):
      with core.reading_file(data, 'UTF-8 text') as path:
        if path.stat().st_size > LARGEST:
          raise core.InputError(f'{where} has more than {LARGEST:,} bytes')
        data = path.read_bytes()
    return data.decode('utf-8-sig')


def _files(
  folder: str | os.PathLike[str],
) -> Mapping[tuple[str, str], bytes | pathlib.Path]:
  """(game, kind) -> the file, or its bytes."""
  path = pathlib.Path(folder)
  with core.reading(path, 'a folder of games'):
    if path.is_file():
      status = path.stat()
      return _packed(str(path), status.st_mtime_ns, status.st_size)
    if not path.is_dir():
      raise core.InputError(
        f'no such folder of games: {folder}; expected one, or a .tar.gz of it'
      )
    found = {
      (child.name, file.name.removeprefix(f'{child.name}.')): file
      for child in sorted(path.iterdir())
      if child.is_dir()
      for file in sorted(child.iterdir())
      if file.name.startswith(f'{child.name}.')
    }
  return _some(found, folder)


@functools.lru_cache(maxsize=4)
def _packed(
  path: str, modified: int, size: int
) -> Mapping[tuple[str, str], bytes | pathlib.Path]:
  """As `_files`, of an archive; modified, size: tell its versions apart."""
  found: dict[tuple[str, str], bytes | pathlib.Path] = {}
  total = 0
  with core.reading(path, 'a readable archive'), tarfile.open(path) as archive:
    for member in archive:
      *_, game, name = ['', '', *member.name.split('/')]
      if not member.isfile() or not name.startswith(f'{game}.'):
        continue
      total += member.size
      if member.size > LARGEST or total > MOST:
        raise core.InputError(
          f'{path}: {member.name} has {member.size:,} bytes, all files to it '
          f'{total:,}; expected at most {LARGEST:,} and {MOST:,}'
        )
      file = archive.extractfile(member)
      if file is not None:
        found[game, name.removeprefix(f'{game}.')] = file.read()
  return _some(found, path)


def _some(
  found: Mapping[tuple[str, str], bytes | pathlib.Path],
  folder: str | os.PathLike[str],
) -> Mapping[tuple[str, str], bytes | pathlib.Path]:
  if not found:
    raise core.InputError(
      f'{folder} has no game; expected files GAME/GAME.edges.json, or '
      'GAME/GAME.map.human'
    )
  return found
