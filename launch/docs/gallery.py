"""Writes three pages of the documentation, when `mkdocs build` asks.

The gallery has all worlds, models and metrics, and the files that they read;
the others have all calls, and the tasks for language models.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import typing
from collections.abc import Callable, Iterator
from typing import Any

import wm
from wm.core import fields, registry
from wm.language import harness
from wm.reporting import catalog

KINDS = {'world': 'Worlds', 'model': 'Models', 'metric': 'Metrics'}
# Task -> options that an example needs.
EXAMPLES: dict[str, dict[str, Any]] = {
  'world': {'metrics': 'next_token(num=3)'},
  'forces': {'num': 1},
}
MOST = 1500  # Characters of a prompt that are shown.
# Modules that read files for a command.
READERS = {
  'wm.data.text': 'launch/ingest.py --text_file=train.txt',
  'wm.data.pgn_games': 'launch/ingest.py --pgn=games.pgn.zst',
}


def on_files(files: Any, config: Any) -> Any:
  """Adds the pages to those of the folder; MkDocs calls it."""
  from mkdocs.structure.files import File

  pages = {'gallery.md': gallery, 'calls.md': calls, 'tasks.md': tasks}
  for name, page in pages.items():
    files.append(File.generated(config, name, content=page()))
  return files


def gallery() -> str:
  """The page of worlds, models, metrics and files, as Markdown."""
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


def tasks() -> str:
  """The page of tasks for language models, as Markdown."""
  lines = [
    '# Tasks for language models',
    '',
    'Inspect asks a model; `launch/report.py --runs=logs --out=runs/report`',
    "makes the tables. It needs `pip install -e '.[language]'`. An option is",
    'given as `-T NAME=VALUE`. Calls and tokens are printed before any call,',
    'and `launch/ask.py --budget=5usd` never passes a price.',
    '',
  ]
  for name, make in harness.tasks().items():
    lines += [*_task(name, make), '']
  return '\n'.join(lines)


def _task(name: str, make: Callable[..., Any]) -> Iterator[str]:
  """Lines on a task: what it asks, its options, a prompt and its answer."""
  inner = inspect.unwrap(make)
  hints = typing.get_type_hints(inner)
  (options,) = (kind for key, kind in hints.items() if key != 'return')
  yield from (f'## wm/{name}', '', *_block(inspect.getdoc(inner) or ''), '')
  yield from (f'    inspect eval wm/{name} --model=wm/solver', '')
  yield from ('| option | default | |', '| --- | --- | --- |')
  texts = catalog.attributes(options)
  for field in dataclasses.fields(options):
    default = field.default
    shown = '' if default is dataclasses.MISSING else f'`{default!r}`'
    text = texts.get(field.name, '').replace('|', '\\|')
    yield f'| `{field.name}` | {shown} | {text} |'
  if name.startswith('mango'):
    return  # Its mazes are in the authors' files.
  sample = next(iter(make(**EXAMPLES.get(name, {})).dataset))
  prompt = sample.input
  if not isinstance(prompt, str):
    prompt = '\n\n'.join(str(message.content) for message in prompt)
  if len(prompt) > MOST:
    prompt = f'{prompt[: MOST // 2]}\n[...]\n{prompt[-MOST // 2 :]}'
  yield from ('', 'A prompt:', '', '```text', *prompt.splitlines(), '```')
  answer = str(sample.target)
  answer = answer if len(answer) < 200 else f'{answer[:200]} ...'
  yield from ('', f'Its right answer: `{answer}`')


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
