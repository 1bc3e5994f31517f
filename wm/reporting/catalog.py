"""What there is: every world, model, metric and acceptance rule, described."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from typing import Any

from wm import core
from wm.core import registry

TITLES = {
  'world': 'Worlds (--world)',
  'model': 'Models (--model)',
  'metric': 'Metrics (--metric)',
  'accept': 'Acceptance rules (--accept)',
}


@dataclasses.dataclass(frozen=True)
class Entry:
  """One plug-in.

  Attributes:
    kind: 'world', 'model', 'metric' or 'accept'.
    name: as specs write it.
    line: what it is, in one line.
    version: of its behaviour, '' where it has none.
    fields: (name, default as a literal, or '' where it must be given).
    parameters: of a network at its defaults, else None.
  """

  kind: str
  name: str
  line: str
  version: str
  fields: tuple[tuple[str, str], ...]
  parameters: int | None


def entries(vocab_size: int, max_len: int) -> Iterator[Entry]:
  """All plug-ins; networks are counted for this vocabulary and length."""
  for kind in TITLES:
    for name in registry.names(kind):
      cls = registry.find(kind, name)
      yield Entry(
        kind=kind,
        name=name,
        line=(inspect.getdoc(cls) or '')
        .partition('\n\n')[0]
        .replace('\n', ' '),
        version=getattr(cls, 'version', ''),
        fields=defaults(cls),
        parameters=_at_defaults(cls, vocab_size, max_len),
      )


def defaults(cls: type) -> tuple[tuple[str, str], ...]:
  """(field, its default as a literal, or '' where it must be given)."""
  missing = dataclasses.MISSING
  return tuple(
    (field.name, '' if field.default is missing else repr(field.default))
    for field in dataclasses.fields(cls)
  )


def _at_defaults(cls: type, vocab_size: int, max_len: int) -> int | None:
  if any(not value for _, value in defaults(cls)):
    return None
  return parameters(cls(), vocab_size, max_len)


def parameters(thing: Any, vocab_size: int, max_len: int) -> int | None:
  """Parameters of a plug-in that is a network; None of any other."""
  if not isinstance(thing, core.Trainable):
    return None
  from wm.models.nn import network  # Only networks are built of weights.

  return network.Shape(thing, vocab_size, max_len).num_params


def counted(count: int, vocab_size: int, max_len: int) -> str:
  """A network's parameters and what they are counted for, in words."""
  return (
    f'{count:,} parameters for {vocab_size:,} tokens and sequences of '
    f'{max_len:,}'
  )


def text(vocab_size: int, max_len: int) -> str:
  """The list that launch/list.py prints: name, line, fields with defaults."""
  lines, kind = [], ''
  for entry in entries(vocab_size, max_len):
    if entry.kind != kind:
      kind = entry.kind
      lines += ['', TITLES[kind]] if lines else [TITLES[kind]]
    given = ', '.join(
      f'{name}={value}' if value else name for name, value in entry.fields
    )
    lines.append(f'  {entry.name}({given})')
    version = f' [version {entry.version}]' if entry.version else ''
    lines.append(f'      {entry.line}{version}')
    if entry.parameters is not None:
      count = counted(entry.parameters, vocab_size, max_len)
      lines.append(f'      {count}')
  lines += ['', 'Fields in full: --world=NAME, --model=NAME, --metric=NAME or']
  lines += [
    '--accept=NAME; --world shows tokens, sequences and states besides.'
  ]
  return '\n'.join(lines)
