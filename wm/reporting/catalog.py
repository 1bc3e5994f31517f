"""Describes plug-ins by their docstrings and declarations.

It makes the list of all plug-ins, the description of one, and the glossary of a
report. Entries of results are data, so a plug-in in an untrusted file is not
run and declares nothing: its numbers are shown, its figures are not.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import importlib.abc
import importlib.machinery
import inspect
import pathlib
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wm import core
from wm.core import basics, capabilities, fields, plugins, registry, verbal
from wm.core.measure import headline_quantities
from wm.runtime import compute, files

if TYPE_CHECKING:
  from wm.reporting.collect import Entry

TITLES = {
  'world': 'Worlds (--world)',
  'model': 'Models (--model)',
  'metric': 'Metrics (--metric)',
  'accept': 'Acceptance rules (--accept)',
}
# Tokens and longest sequence that networks are counted for without a world.
SIZES = 1000, 100
WIDTH = 79
# Sequences and states that are shown of a world, and tokens of each.
EXAMPLES = 3
MOST_TOKENS = 60
# Tokens of a vocabulary that are shown from its start, and from its end.
FIRST, LAST = 120, 12
# Most tokens of a world in words that are shown.
MOST_SHOWN = 800


class PlugIn(NamedTuple):
  """One plug-in.

  Attributes:
    kind: 'world', 'model', 'metric' or 'accept'.
    name: name in specs.
    line: description in one line.
    version: version of its behaviour, or ''.
    fields: pairs of a name and its default as a literal, '' if required.
    parameters: number of parameters at the defaults; None unless a network.
  """

  kind: str
  name: str
  line: str
  version: str
  fields: tuple[tuple[str, str], ...]
  parameters: int | None


def plug_ins(vocab_size: int, max_len: int) -> Iterator[PlugIn]:
  """Yields every plug-in; networks are counted for this vocabulary and
  length.
  """
  for kind in TITLES:
    for name in registry.names(kind):
      cls = registry.find(kind, name)
      constructible = all(default for _, default in defaults(cls))
      yield PlugIn(
        kind,
        name,
        summary(cls),
        '' if kind == 'accept' else cls.version,
        defaults(cls),
        parameters(cls(), vocab_size, max_len) if constructible else None,
      )


def defaults(cls: type) -> tuple[tuple[str, str], ...]:
  """Returns (field, default as a literal, or '' if it must be given)."""
  missing = dataclasses.MISSING
  return tuple(
    (field.name, '' if field.default is missing else repr(field.default))
    for field in dataclasses.fields(cls)
  )


def parameters(thing: Any, vocab_size: int, max_len: int) -> int | None:
  """Counts the parameters of a network; None for any other plug-in."""
  if not isinstance(thing, core.Trainable):
    return None
  from wm.models.nn import network

  return network.NetworkSpec(thing, vocab_size, max_len).num_params


def summary(thing: Any) -> str:
  """Returns the first paragraph of a docstring as one line."""
  return ' '.join((inspect.getdoc(thing) or '').partition('\n\n')[0].split())


def counted(count: int, vocab_size: int, max_len: int) -> str:
  """Returns the number of parameters of a network, in words."""
  return (
    f'{count:,} parameters for {vocab_size:,} tokens and sequences of '
    f'{max_len:,}'
  )


def text(vocab_size: int = SIZES[0], max_len: int = SIZES[1]) -> str:
  """Returns the list of all plug-ins: name, fields with defaults, one line
  each.
  """
  lines: list[str] = []
  kind = ''
  for plug_in in plug_ins(vocab_size, max_len):
    if plug_in.kind != kind:
      kind = plug_in.kind
      lines += ['', TITLES[kind]] if lines else [TITLES[kind]]
    fields = ', '.join(
      f'{name}={value}' if value else name for name, value in plug_in.fields
    )
    lines += _wrapped(f'{plug_in.name}({fields})', 2, 10)
    version = f' [version {plug_in.version}]' if plug_in.version else ''
    lines += _wrapped(f'{plug_in.line}{version}', 6, 6)
    if plug_in.parameters is not None:
      lines.append(f'      {counted(plug_in.parameters, vocab_size, max_len)}')
  lines += ['', 'Fields in full: --world=NAME, --model=NAME, --metric=NAME or']
  lines += [
    '--accept=NAME; --world shows tokens, sequences and states besides.'
  ]
  return '\n'.join(lines)


def everything() -> str:
  """Returns `text`, cached by version of the code in the user's folder."""
  sources = sorted(pathlib.Path(__file__).parents[1].rglob('*.py'))
  code = files.hash_of(f'{path} {files.sha256(path)}' for path in sources)
  cached = compute.cache_folder().parent / 'list.txt'
  with contextlib.suppress(OSError, UnicodeDecodeError):
    of, _, listed = cached.read_text(encoding='utf-8').partition('\n')
    if of == code:
      return listed
  listed = text()
  with contextlib.suppress(OSError):  # A home that cannot be written.
    files.write_text(cached, f'{code}\n{listed}')
  return listed


# One plug-in in full.


def attributes(cls: type) -> dict[str, str]:
  """Returns field -> its entry in the docstrings of a class and its bases.

  The class's own docstring wins over its bases'.
  """
  texts: dict[str, str] = {}
  for base in reversed(cls.__mro__):
    texts |= basics.section(base.__doc__, 'Attributes')
  return texts


def _wrapped(text: str, first: int, rest: int) -> list[str]:
  """Wraps a text, indented by `first` and then `rest` blanks."""
  return textwrap.wrap(
    text, WIDTH, initial_indent=' ' * first, subsequent_indent=' ' * rest
  )


def _explained(name: str, text: str) -> list[str]:
  return [f'    {name}', *_wrapped(text, 8, 8)]


def resolved(kind: str, spec: str) -> tuple[str, type[Any], Any]:
  """Returns the canonical spec of a plug-in, its class, and an instance; its
  name, and no instance, where it cannot be made from its name alone.

  Raises:
    InputError: there is no such plug-in, or the spec is bad.
  """
  if spec in registry.names(kind):
    cls = registry.find(kind, spec)
    if not all(default for _, default in defaults(cls)):
      return spec, cls, None
  thing: Any = registry.resolve(kind, spec)
  return registry.spec(thing), type(thing), thing


def plug_in(kind: str, spec: str, sizes: tuple[int, int] = SIZES) -> str:
  """Describes a plug-in in full: its docstring's first part, and its fields.

  sizes: tokens and longest sequence that a network's parameters are counted
    for.

  Raises:
    InputError: there is no such plug-in, or the spec is bad.
  """
  title, cls, thing = resolved(kind, spec)
  texts = attributes(cls)
  text = inspect.cleandoc(cls.__doc__ or '').partition('Attributes:')[0]
  lines = [title, '', *text.strip().splitlines(), '', '  Fields']
  for field, default in defaults(cls):
    name = f'{field} = {default}' if default else f'{field} (must be given)'
    lines += _explained(name, texts.get(field, ''))
  if not defaults(cls):
    lines += ['    (no fields)']
  if kind == 'metric':
    needs = ', '.join(need.__qualname__ for need in cls.needs)
    lines += ['', f'  Needs: {needs or "next tokens alone"}']
    lines += ['', '  Quantities and columns']
    lines += [
      line for pair in cls.glossary.items() for line in _explained(*pair)
    ]
  for format, names in fields.formats(cls).items():
    lines += ['', f'  What {" and ".join(names)} may name', '']
    lines += textwrap.indent(format_text(format), '    ').splitlines()
  if (count := parameters(thing, *sizes)) is not None:
    lines += ['', f'  {counted(count, *sizes)}']
  return '\n'.join(lines)


def format_text(name: str) -> str:
  """The part of a reader's docstring that describes the format.

  name: a module, or a function in one.
  """
  try:
    reader = importlib.import_module(name)
  except ModuleNotFoundError:
    module, _, function = name.rpartition('.')
    reader = getattr(importlib.import_module(module), function)
  text = inspect.getdoc(reader) or ''
  return re.split(r'\n(?:Args|Returns|Raises):', text)[0].strip()


def describe(kind: str, spec: str) -> str:
  """Describes a plug-in; print the result, as `launch/list.py` does.

  It lists fields and file formats; for a world, also tokens, sequences and
  states.

  Args:
    kind: 'world', 'model', 'metric' or 'accept'.
    spec: its name, or a spec.

  Raises:
    InputError: there is no such plug-in, or the spec is bad.

  >>> print(wm.describe('world', 'automaton'))
  """
  if kind not in TITLES:
    raise core.InputError(
      f'no kind {kind!r} of plug-ins; {registry.suggest(kind, [*TITLES])}'
    )
  return world(spec) if kind == 'world' else plug_in(kind, spec)


def examples(world: core.World) -> list[tuple[np.ndarray, int, str]]:
  """Samples sequences: tokens [L], a number of them, and the state after it."""
  drawn = world.sample(EXAMPLES, 0)
  least = world.prompt_len
  at = np.maximum(drawn.lengths // 2, least).astype(np.int32)
  at = np.minimum(at, np.maximum(drawn.lengths - 1, least))
  _, states = world.walk(world.init(len(drawn)), drawn.tokens, at)
  return [
    (drawn.tokens[n, : drawn.lengths[n]], int(at[n]), text)
    for n, text in enumerate(capabilities.written(world, states).tolist())
  ]


def words(world: core.World, tokens: np.ndarray) -> str:
  """Returns tokens in words, without the end of a long sequence."""
  names = [world.vocab[token] for token in tokens[:MOST_TOKENS]]
  more = len(tokens) - len(names)
  return ' '.join(names) + (f' ... ({more} more)' if more > 0 else '')


def vocabulary(world: core.World) -> list[str]:
  """Lists a vocabulary as `id word` in columns, without the middle of a long
  one.
  """
  cells = [f'{n} {word}' for n, word in enumerate(world.vocab)]
  parts, more = [cells], len(cells) - FIRST - LAST
  if more > 0:
    parts = [cells[:FIRST], cells[-LAST:]]
  room = max(len(c) for part in parts for c in part) + 2
  across = max(1, (WIDTH - 4) // room)
  lines = []
  for number, part in enumerate(parts):
    lines += [f'    ... {more} more ...'] if number else []
    for n in range(0, len(part), across):
      row = ''.join(c.ljust(room) for c in part[n : n + across])
      lines.append(f'    {row.rstrip()}')
  return lines


def world(spec: str) -> str:
  """Describes a world in full: fields, facts, vocabulary, sequences and states.

  Raises:
    InputError: there is no such world, or it cannot be made.
  """
  instance: core.World = registry.resolve('world', spec)
  size, end = len(instance.vocab), instance.end
  stop = 'none' if end == core.DEAD else f'{end} ({instance.vocab[end]})'
  lines = [plug_in('world', spec), '']
  facts: dict[str, Any] = {}
  if core.can(instance, core.Described.stats):
    facts |= instance.stats()
  if facts := facts | capabilities.notes(instance):
    lines += ['  Facts', *(f'    {k}: {x}' for k, x in facts.items()), '']
  lines += [
    f'  Vocabulary: {size} tokens; end token: {stop}; sequences of at most '
    f'{instance.max_len}; prompt of {instance.prompt_len}',
    *vocabulary(instance),
    '',
    '  Sequences, and a state on the way of each',
    *sequences(instance),
  ]
  if isinstance(instance, core.Verbal):
    lines += ['', *in_words(instance)]
  return '\n'.join(lines)


def sequences(world: core.World) -> list[str]:
  """Lines that show sequences, and a state of each."""
  lines = []
  for tokens, at, written in examples(world):
    lines += _wrapped(words(world, tokens), 4, 6)
    lines.append(f'      state after {at} tokens: {written}')
  return lines


def in_words(world: core.Verbal) -> list[str]:
  """Lines on the description of a world in prompts."""
  lines = ['  In words, for language models']
  telling = core.PromptStyle()
  size = world.extent(telling).tokens
  lines.append(f'    about {size:,} tokens')
  if size <= MOST_SHOWN:
    for line in verbal.render_description(world, telling).splitlines():
      lines += _wrapped(line, 6, 8)
  return lines


# The words of a report.


def _term(glossary: Mapping[str, str], name: str) -> str:
  """Returns the longest prefix of a name that is in a glossary, or ''.

  NAME_0.5 and NAME_of_it mean what NAME does, unless they have an entry.
  """
  parts = name.split('_')
  names = ['_'.join(parts[:n]) for n in range(len(parts), 0, -1)]
  return next((prefix for prefix in names if prefix in glossary), '')


def _glossary(metric: str) -> Mapping[str, str]:
  """The glossary of a metric, and of the answers scored with it."""
  from wm.evaluation import query_plans  # Not all that reads results needs it.

  return {**query_plans.GLOSSARY, **metric_class(metric).glossary}


def quantity(metric: str, name: str) -> str:
  """Returns what a quantity of a metric means; '' if the metric does not
  say.
  """
  glossary = _glossary(metric)
  return glossary.get(_term(glossary, name), '')


def column(name: str, metric: str, world: str) -> str:
  """Returns a side column in words, by the metric or the world that declares
  it; else its name.
  """
  words = {name: name}
  with contextlib.suppress(core.InputError):  # Of a file that is not there.
    words |= capabilities.tag_words(
      registry.find('world', registry.parse(world)[0])
    )
  return {**words, **metric_class(metric).glossary}[name]


def glossary(entries: Sequence[Entry]) -> dict[str, str]:
  """Returns 'metric' and 'metric: quantity' -> text, for all that was
  measured.
  """
  texts: dict[str, str] = {}
  for metric in dict.fromkeys(entry['metric'] for entry in entries):
    if is_known(metric):
      texts[metric] = summary(metric_class(metric))
    words = _glossary(metric)
    for entry in entries:
      term = _term(words, entry['quantity'])
      if entry['metric'] == metric and term:
        texts[f'{metric}: {term}'] = words[term]
  return texts


def is_known(name: str) -> bool:
  """Is this a plug-in of wm, or in a trusted file?"""
  return name.isidentifier() or all(map(plugins.allowed, registry.files(name)))


def metric_class(name: str) -> type[core.Metric]:
  """Returns the class of a metric; core.Metric, which declares nothing, for one
  that is not known.
  """
  if name.isidentifier():
    return _metric_of_wm(name)
  return registry.find('metric', name) if is_known(name) else core.Metric


_metric_of_wm = functools.cache(functools.partial(registry.find, 'metric'))


def metric_fields(name: str) -> tuple[dataclasses.Field, ...]:
  """Returns the fields of a metric; () for one that is not known."""
  cls: Any = metric_class(name)
  return dataclasses.fields(cls) if is_known(name) else ()


def measure(metric: str, quantity: str) -> core.Measure | None:
  """Returns what a metric declares of a quantity, or of its series; else
  None.
  """
  measures = metric_class(metric).measures
  return measures.get(quantity) or measures.get(quantity.rpartition('_')[0])


def headline(name: str, quantities: Iterable[str]) -> Sequence[str]:
  """Returns the headline quantities of a metric; all of these for one that is
  not known.
  """
  names = headline_quantities(metric_class(name))
  return names if is_known(name) else tuple(dict.fromkeys(quantities))


def left_out(entries: Sequence[Entry]) -> list[str]:
  """Returns a line for each file that entries name and that may not run."""
  names = {
    name: what
    for entry in entries
    for name, what in (
      (entry['metric'], 'its words and pictures'),
      (entry['world'].partition('(')[0].strip(), 'pictures of its states'),
    )
    if not is_known(name)
  }
  return [
    f'{name}: {what} are left out, as code that results name is not run; add '
    f'--trust={next(registry.files(name))} to run it'
    for name, what in names.items()
  ]
