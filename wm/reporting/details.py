"""One plug-in in full: its fields, and of a world what it looks like."""

from __future__ import annotations

import base64
import html
import inspect
import pathlib
import re
import textwrap
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import registry
from wm.reporting import catalog
from wm.reporting import page as pages
from wm.runtime import files

WIDTH = 79
# Sequences and states that are shown of a world, and tokens of each.
EXAMPLES = 3
MOST_TOKENS = 60
# Tokens of a vocabulary that are shown from its start, and from its end.
FIRST, LAST = 120, 12


class Example(NamedTuple):
  """A sequence, and a state on its way.

  Attributes:
    tokens: [L] int32.
    at: tokens of it that lead to the state.
    written: the state as the world writes it.
    drawing: the state as SVG.
  """

  tokens: np.ndarray
  at: int
  written: str
  drawing: str


def attributes(cls: type) -> dict[str, str]:
  """Field -> what the docstrings of a class and its bases say of it.

  The docstring nearest to the class wins.
  """
  found: dict[str, str] = {}
  for base in reversed(cls.__mro__):
    _, _, text = (inspect.cleandoc(base.__doc__ or '')).partition(
      'Attributes:\n'
    )
    text = re.split(r'\n(?=\S)', text)[0]
    for match in re.finditer(r'^  (\w+): ((?:.+\n?)(?:   .*\n?)*)', text, re.M):
      found[match[1]] = ' '.join(match[2].split())
  return found


def fields(kind: str, name: str) -> list[str]:
  """Lines that say every field, its default and what it means."""
  cls = registry.find(kind, name)
  known = attributes(cls)
  lines = []
  for field, default in catalog.defaults(cls):
    text = f'{field} = {default}' if default else f'{field} (must be given)'
    lines += _said(text, known.get(field, ''))
  return lines or ['    (no fields)']


def _said(name: str, text: str) -> list[str]:
  """Lines of a name and, further in, what is said of it."""
  room = ' ' * 8
  wrapped = textwrap.wrap(
    text, WIDTH, initial_indent=room, subsequent_indent=room
  )
  return [f'    {name}', *wrapped]


def plug_in(kind: str, spec: str, sizes: tuple[int, int] | None = None) -> str:
  """A plug-in in full: its docstring's first paragraphs, and its fields.

  sizes: tokens and longest sequence that a network's parameters are counted
    for.

  Raises:
    InputError: there is no such plug-in, or the spec is bad.
  """
  thing = registry.make(kind, spec)
  text = inspect.cleandoc(type(thing).__doc__ or '').partition('Attributes:')[0]
  lines = [registry.spec(thing), '', *text.strip().splitlines(), '', '  Fields']
  lines += fields(kind, registry.parse(spec)[0])
  if kind == 'metric':
    lines += ['', '  Quantities and columns']
    lines += [line for pair in thing.glossary.items() for line in _said(*pair)]
  if sizes and (count := catalog.parameters(thing, *sizes)) is not None:
    lines += ['', f'  {catalog.counted(count, *sizes)}']
  return '\n'.join(lines)


def examples(world: core.World, seed: int = 0) -> list[Example]:
  """Sampled sequences, and a state half-way through each."""
  drawn = world.sample(EXAMPLES, seed)
  least = world.prompt_len()
  at = np.maximum(drawn.lengths // 2, least).astype(np.int32)
  at = np.minimum(at, np.maximum(drawn.lengths - 1, least))
  _, states = world.walk(world.init(len(drawn)), drawn.tokens, at)
  return [
    Example(
      drawn.tokens[n, : drawn.lengths[n]],
      int(at[n]),
      world.format_state(state),
      world.render(state),
    )
    for n, state in enumerate(states)
  ]


def _words(world: core.World, tokens: Sequence[int]) -> str:
  words = [world.vocab[token] for token in tokens[:MOST_TOKENS]]
  more = len(tokens) - len(words)
  return ' '.join(words) + (f' ... ({more} more)' if more > 0 else '')


def vocabulary(world: core.World) -> list[str]:
  """Lines of `id word`, in columns; the middle of a long one is left out."""
  size = len(world.vocab)
  shown = list(range(size))
  if size > FIRST + LAST:
    shown = [*range(FIRST), *range(size - LAST, size)]
  cells = [f'{n} {world.vocab[n]}' for n in shown]
  room = max(map(len, cells)) + 2
  across = max(1, (WIDTH - 4) // room)

  def rows(some: Sequence[str]) -> list[str]:
    starts = range(0, len(some), across)
    return [
      '    ' + ''.join(c.ljust(room) for c in some[n : n + across]).rstrip()
      for n in starts
    ]

  if len(cells) == size:
    return rows(cells)
  gap = f'    ... {size - FIRST - LAST} more ...'
  return [*rows(cells[:FIRST]), gap, *rows(cells[FIRST:])]


def world(spec: str) -> str:
  """A world in full: fields, facts, vocabulary with ids, sequences, states.

  Raises:
    InputError: there is no such world, or it cannot be made.
  """
  made = registry.make('world', spec)
  size, end = len(made.vocab), made.end
  stop = 'none' if end == core.DEAD else f'{end} ({made.vocab[end]})'
  lines = [plug_in('world', spec), '']
  if facts := made.facts():
    lines += ['  Facts', *(f'    {k}: {n}' for k, n in facts.items()), '']
  lines += [
    f'  Vocabulary: {size} tokens; end token: {stop}; sequences of at most '
    f'{made.max_len}; prompt of {made.prompt_len()}',
    *vocabulary(made),
    '',
    '  Sequences, and a state on the way of each',
  ]
  for example in examples(made):
    text = _words(made, example.tokens)
    lines += textwrap.wrap(
      text, WIDTH, initial_indent='    ', subsequent_indent='      '
    )
    lines.append(f'      state after {example.at} tokens: {example.written}')
  return '\n'.join(lines)


def write_page(spec: str, out: str | pathlib.Path) -> pathlib.Path:
  """Writes OUT/world.html, what `world` says with states as pictures."""
  made = registry.make('world', spec)
  parts = [f'<pre>{html.escape(world(spec))}</pre>', '<h2>States</h2>']
  for example in examples(made):
    data = base64.b64encode(example.drawing.encode()).decode('ascii')
    caption = html.escape(
      f'after {example.at} tokens: {_words(made, example.tokens[: example.at])}'
    )
    parts.append(
      f'<figure class="scene"><img alt="{caption}" '
      f'src="data:image/svg+xml;base64,{data}">'
      f'<figcaption>{caption}</figcaption></figure>'
    )
  path = pathlib.Path(out) / 'world.html'
  title = registry.spec(made)
  files.write_text(path, pages.page(title, 'One world of wm', parts))
  return path
