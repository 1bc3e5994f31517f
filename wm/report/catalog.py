"""What there is: every world, model, metric and acceptance rule, described."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator

from wm import registry

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
        fields=_fields(cls),
        parameters=_parameters(cls, vocab_size, max_len),
      )


def _fields(cls: type) -> tuple[tuple[str, str], ...]:
  missing = dataclasses.MISSING
  return tuple(
    (field.name, '' if field.default is missing else repr(field.default))
    for field in dataclasses.fields(cls)
  )


def _parameters(cls: type, vocab_size: int, max_len: int) -> int | None:
  """Parameters at the defaults; None where that has no meaning."""
  if not hasattr(cls, 'build') or any(not value for _, value in _fields(cls)):
    return None
  from wm.models import network  # Only networks are built of weights.

  return network.Shape(cls(), vocab_size, max_len).num_params


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
      lines.append(
        f'      {entry.parameters:,} parameters for {vocab_size:,} tokens '
        f'and sequences of {max_len:,}'
      )
  return '\n'.join(lines)
