"""Writes two pages of the documentation, when `mkdocs build` asks.

The gallery has all worlds, models and metrics, and the files that they read;
the other page has all calls.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import wm
from wm.core import fields, registry
from wm.reporting import catalog

KINDS = {'world': 'Worlds', 'model': 'Models', 'metric': 'Metrics'}
# Modules that read files for a command.
READERS = {
  'wm.data.text': 'launch/ingest.py --text_file=train.txt',
  'wm.data.pgn_games': 'launch/ingest.py --pgn=games.pgn.zst',
}


def on_files(files: Any, config: Any) -> Any:
  """Adds the pages to those of the folder; MkDocs calls it."""
  from mkdocs.structure.files import File

  for name, text in (('gallery.md', gallery()), ('calls.md', calls())):
    files.append(File.generated(config, name, content=text))
  return files


def gallery() -> str:
  """The page of all worlds, models and metrics, and of files, as Markdown."""
  lines = ['# Worlds, models and metrics', '']
  for kind, title in KINDS.items():
    lines += [f'## {title}', '']
    for name in registry.names(kind):
      lines += [*_plug_in(kind, name), '']
  lines += ['## Files that become data', '']
  for module, command in READERS.items():
    text = inspect.getdoc(importlib.import_module(module)) or ''
    lines += [f'### {command}', '', *_block(text), '']
  return '\n'.join(lines)


def _plug_in(kind: str, name: str) -> Iterator[str]:
  """Lines on a plug-in: its spec, its first sentence, and files it reads."""
  cls = registry.find(kind, name)
  spec = ', '.join(f'{n}={v}' if v else n for n, v in catalog.defaults(cls))
  yield from (f'### {name}', '', f'`{name}({spec})`', '')
  text = catalog.summary(cls).partition('. ')[0].rstrip('.')
  yield from (*_block(f'{text}.'), '')
  if fields.formats(cls):
    text = wm.describe(kind, name)
    yield from ('Its fields, and the files that they name:', '', *_block(text))


def _block(text: str) -> Iterator[str]:
  """Text as it is, in a block of code: its signs are no Markdown."""
  yield from ('```text', text, '```')


def calls() -> str:
  """The page of all calls and classes of the library, as Markdown."""
  names = [f'::: wm.{name}' for name in vars(wm)['__all__']]
  return '\n\n'.join(['# Calls', *names]) + '\n'
