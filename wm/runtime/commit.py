"""The commit of this checkout, which every result says."""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Iterable

import wm

_DIRTY = '-dirty'
# Where a file that was never committed is code or a setting all the same, and
# how the name of one ends that is code anywhere, such as a plug-in.
_SOURCES = 'wm/', 'launch/'
_CODE = '.py'


def _root() -> pathlib.Path:
  return pathlib.Path(wm.__file__).resolve().parent.parent


def _git(*words: str) -> str | None:
  """What git prints of this checkout, or None where there is no checkout."""
  root = _root()
  if not (root / '.git').exists():
    return None
  try:
    done = subprocess.run(
      ['git', '-C', str(root), *words],
      capture_output=True,
      text=True,
      check=True,
    )
  except (FileNotFoundError, subprocess.CalledProcessError):
    return None
  return done.stdout


def describe() -> str | None:
  """Commit of the checkout this package is imported from, or None."""
  text = _git('describe', '--always', f'--dirty={_DIRTY}', '--abbrev=40')
  return text and text.strip()


def changed(
  outside: str | pathlib.Path, code: Iterable[str | pathlib.Path] = ()
) -> list[str] | None:
  """Files of this checkout with changes that are not committed, sorted.

  Files that were never committed count where code and settings are, and Python
  files everywhere. None where git does not know, as without a checkout.

  Args:
    outside: folder whose files do not count, as a run writes its results there.
    code: files that a run takes its plug-ins from. They count where this
      checkout does not hold them: ignored by git, or elsewhere.
  """
  root, folder = _root(), pathlib.Path(outside).resolve()
  where = ['.']
  if folder.is_relative_to(root) and folder != root:
    where.append(f':(exclude){folder.relative_to(root)}')
  words = '--porcelain', '--no-renames', '--untracked-files=all', '-z'
  text = _git('status', *words, '--', *where)
  if text is None:
    return None
  lines = [line for line in text.split('\0') if line]
  listed = {
    path
    for status, path in ((line[:2], line[3:]) for line in lines)
    if status != '??' or path.startswith(_SOURCES) or path.endswith(_CODE)
  }
  return sorted(listed | {name for name in map(_untracked, code) if name})


def _untracked(path: str | pathlib.Path) -> str:
  """How to name a file that this checkout does not hold; '' if it does."""
  root, place = _root(), pathlib.Path(path).resolve()
  if not place.is_relative_to(root):
    return str(place)
  name = str(place.relative_to(root))
  return '' if _git('ls-files', '-z', '--', f':(literal){name}') else name


def describe_outside(
  outside: str | pathlib.Path, code: Iterable[str | pathlib.Path] = ()
) -> str | None:
  """As `describe`, but dirty by what `changed` lists alone."""
  text, files = _git('rev-parse', 'HEAD'), changed(outside, code)
  if text is None or files is None:
    return None
  return text.strip() + (_DIRTY if files else '')


def is_clean(commit: str | None) -> bool:
  """Is it known, and of a checkout without changes?"""
  return bool(commit) and not str(commit).endswith(_DIRTY)
