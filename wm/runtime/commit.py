"""The commit of this checkout, which every result says."""

from __future__ import annotations

import pathlib
import subprocess

import wm


def describe() -> str | None:
  """Commit of the checkout this package is imported from, or None."""
  root = pathlib.Path(wm.__file__).resolve().parent.parent
  if not (root / '.git').exists():
    return None
  try:
    found = subprocess.run(
      [
        'git',
        '-C',
        str(root),
        'describe',
        '--always',
        '--dirty',
        '--abbrev=40',
      ],
      capture_output=True,
      text=True,
      check=True,
    )
  except (FileNotFoundError, subprocess.CalledProcessError):
    return None
  return found.stdout.strip()
