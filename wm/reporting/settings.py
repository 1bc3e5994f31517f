"""Metrics that were run in several settings, and all that they measure."""

from __future__ import annotations

from collections.abc import Sequence

from wm.core import registry
from wm.reporting import tables
from wm.reporting.collect import Entry, Run


def differing(texts: Sequence[str]) -> dict[str, str]:
  """Specs of one metric -> the fields in which they differ from each other.

  'default' where none of these fields is given.
  """
  given = {text: tables.arguments(text) for text in texts}
  usual = tables.arguments(registry.parse(texts[0])[0])
  varied = [
    key
    for key in usual
    if any(one[key] != given[texts[0]][key] for one in given.values())
  ]
  return {
    text: _fields(one, [key for key in varied if one[key] != usual[key]])
    or 'default'
    for text, one in given.items()
  }


def common(texts: Sequence[str]) -> str:
  """The spec of one metric with the fields that all these have."""
  given = [tables.arguments(text) for text in texts]
  name = registry.parse(texts[0])[0]
  usual = tables.arguments(name)
  shared = [
    key
    for key in usual
    if all(one[key] == given[0][key] != usual[key] for one in given)
  ]
  return f'{name}({_fields(given[0], shared)})' if shared else name


def _fields(given: dict, keys: Sequence[str]) -> str:
  return ', '.join(f'{key}={given[key]}' for key in keys)


def by_metric(entries: Sequence[Entry]) -> dict[str, list[str]]:
  """Metric -> its specs, in order of appearance."""
  found: dict[str, dict[str, None]] = {}
  for entry in entries:
    found.setdefault(entry['metric'], {})[tables.spec(entry)] = None
  return {name: list(texts) for name, texts in found.items()}


def compared(runs: Sequence[Run]) -> list[tables.Table]:
  """A table for each headline quantity of a metric with several settings:
  a row per model, a column per setting.
  """
  entries = [entry for run in runs for entry in run.entries]
  made = []
  for metric, texts in by_metric(entries).items():
    for quantity in registry.find('metric', metric).headline:
      having = {tables.spec(e) for e in entries if e['quantity'] == quantity}
      shown = [text for text in texts if text in having]
      if len(shown) > 1:
        made.append(_compared(runs, shown, quantity))
  return made


def _compared(
  runs: Sequence[Run], texts: Sequence[str], quantity: str
) -> tables.Table:
  rows, used = [], []
  for run, label in zip(runs, tables.labels(runs), strict=True):
    found = {
      tables.spec(entry): entry
      for entry in run.entries
      if entry['quantity'] == quantity and tables.spec(entry) in texts
    }
    used += found.values()
    cells = [
      tables.interval(found[text]) if text in found else '' for text in texts
    ]
    if any(cells):
      rows.append((label, *cells))
  return tables.Table(
    f'{common(texts)}: {quantity}',
    ('model', *differing(texts).values()),
    tuple(rows),
    _note(used),
  )


def _note(entries: Sequence[Entry]) -> str:
  if same := tables.same_seeds(entries):
    return f'Mean [least, greatest] of {same}.'
  several = any(tables.seeds(entry) for entry in entries)
  over = ', or mean [least, greatest] of several seeds' if several else ''
  return f'Value [95 % interval]{over}.'


def quantities(runs: Sequence[Run]) -> list[tables.Table]:
  """A folded table for each setting that several models were measured in:
  a row per model, a column per quantity.
  """
  entries = [entry for run in runs for entry in run.entries]
  made = []
  for texts in by_metric(entries).values():
    for text in texts:
      mine = [e for e in entries if tables.spec(e) == text]
      names = list(dict.fromkeys(entry['quantity'] for entry in mine))
      table = _quantities(runs, text, names)
      if len(names) > 1 and len(table.rows) > 1:
        made.append(table)
  return made


def _quantities(
  runs: Sequence[Run], text: str, names: Sequence[str]
) -> tables.Table:
  rows, used = [], []
  for run, label in zip(runs, tables.labels(runs), strict=True):
    found = {
      entry['quantity']: entry
      for entry in run.entries
      if tables.spec(entry) == text
    }
    if found:
      used += found.values()
      cells = [
        tables.interval(found[name]) if name in found else '' for name in names
      ]
      rows.append((label, *cells))
  heads = ('model', *names)
  return tables.Table(
    f'All of {text}', heads, tuple(rows), _note(used), folded=True
  )
