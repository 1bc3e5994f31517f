"""Tables from result entries, as rows of text cells."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from wm.core import registry
from wm.reporting.collect import Entry, Run


@dataclasses.dataclass(frozen=True)
class Table:
  """A table of text: a title, column heads and rows of as many cells."""

  title: str
  heads: tuple[str, ...]
  rows: tuple[tuple[str, ...], ...]
  note: str = ''
  folded: bool = False  # Long: shown on demand where that is possible.

  def markdown(self) -> str:
    """GitHub-style Markdown."""
    lines = [f'## {self.title}', ''] if self.title else []
    lines.append('| ' + ' | '.join(self.heads) + ' |')
    lines.append('|' + ' --- |' * len(self.heads))
    lines += ['| ' + ' | '.join(row) + ' |' for row in self.rows]
    if self.note:
      lines += ['', self.note]
    return '\n'.join([*lines, ''])


def number(value: float | None, decimals: int = 3) -> str:
  """So many decimals, fewer for large numbers, a dash for none."""
  if value is None:
    return '–'
  if abs(value) < 100:
    return f'{value:.{decimals}f}'
  return f'{value:,.0f}' if abs(value) < 1e7 else f'{value:.3g}'


def interval(entry: Entry) -> str:
  """'0.970 [0.951, 0.982]', with more decimals where it is narrow or small."""
  if entry['value'] is None:
    return '–'
  low, high = entry['low'], entry['high']
  width = 0 if low is None else high - low
  decimals = 3
  if width > 0:
    most = 4 if abs(entry['value']) > 0.001 else 6
    decimals = min(max(1 + math.ceil(-math.log10(width)), 3), most)
  value, low, high = (number(x, decimals) for x in (entry['value'], low, high))
  return f'{value} [{low}, {high}]'


def trials(entry: Entry) -> str:
  """'1000 in 50 clusters', or '40' where each trial is its own."""
  num, clusters = entry['n'], entry.get('clusters')
  return (
    f'{num}' if clusters in (None, num) else f'{num} in {clusters} clusters'
  )


def seeds(entry: Entry) -> str:
  """'3 seeds', '2 of 3 seeds' have a value; '' where they are not several."""
  if 'seeds' not in entry:
    return ''
  some, all_ = entry['seeds']
  return f'{some} of {all_} seeds' if some < all_ else f'{all_} seeds'


def same_seeds(entries: Sequence[Entry]) -> str:
  """'2 seeds' where that is said of every entry, else ''."""
  said = {seeds(entry) for entry in entries}
  return said.pop() if len(said) == 1 else ''


def spec(entry: Entry) -> str:
  """The metric's canonical spec."""
  return entry.get('spec') or entry['metric']


def base_specs(entries: Sequence[Entry]) -> dict[str, str]:
  """Metric name -> its plainest spec; the others are ablations of it."""
  plain: dict[str, str] = {}
  for entry in entries:
    name, text = entry['metric'], spec(entry)
    if name not in plain or len(text) < len(plain[name]):
      plain[name] = text
  return plain


def headline(entries: Sequence[Entry]) -> list[tuple[str, str]]:
  """(metric, quantity) of the main table's columns, in order of appearance."""
  columns: dict[tuple[str, str], None] = {}
  for entry in entries:
    wanted = registry.find('metric', entry['metric']).headline
    if entry['quantity'] in wanted:
      columns[entry['metric'], entry['quantity']] = None
  return list(columns)


def labels(runs: Sequence[Run]) -> list[str]:
  """Names of runs in tables: with the world, and then with the folder, where a
  name is not enough.
  """
  found = [run.name for run in runs]
  for more in (
    lambda run: f' on {run.world}',
    lambda run: f' ({run.folder.name})',
  ):
    found = [
      name if found.count(name) == 1 else name + more(run)
      for name, run in zip(found, runs, strict=True)
    ]
  return found


def main_table(runs: Sequence[Run]) -> Table:
  """A row per model, a column per headline quantity, the paper's below."""
  columns = headline([entry for run in runs for entry in run.entries])
  rows = []
  for run, label in zip(runs, labels(runs), strict=True):
    alike = [r for r in runs if r.world == run.world]
    plain = base_specs([entry for r in alike for entry in r.entries])
    found = {
      (entry['metric'], entry['quantity']): entry
      for entry in run.entries
      if spec(entry) == plain[entry['metric']]
    }
    cells = [
      cell(found[column]) if column in found else '' for column in columns
    ]
    rows.append((label, *cells))
  heads = ('model', *(f'{metric}: {quantity}' for metric, quantity in columns))
  return Table(
    'The table',
    heads,
    tuple(rows),
    'Value [95 % interval], n trials (independent where no clusters are '
    'named). A dash: nothing could be measured; the '
    'table of all results says why.' + _note(runs),
  )


def _note(runs: Sequence[Run]) -> str:
  """What is not the usual in the main table's cells."""
  specs = dict.fromkeys((e['metric'], spec(e)) for r in runs for e in r.entries)
  names = [name for name, _ in specs]
  plain = base_specs([entry for run in runs for entry in run.entries])
  several = [text for name, text in plain.items() if names.count(name) > 1]
  found = ''
  if several:
    found += f' Of several settings: {", ".join(several)}.'
  if any(run.seeds for run in runs):
    found += (
      ' Where a model was trained with several seeds: mean [least, greatest] '
      'of them; the table of all results has each by itself.'
    )
  return found


def cell(entry: Entry) -> str:
  """Value, interval, and number of trials or seeds; why there is none."""
  if entry['value'] is None:
    causes = ', '.join(f'{k} {v}' for k, v in entry['unmeasured'].items())
    return f'– ({causes})' if causes else '–'
  number_of = seeds(entry) or f'n={trials(entry)}'
  return f'{interval(entry)}, {number_of}'


def arguments(text: str) -> dict[str, Any]:
  """All fields of a metric's spec, defaults filled in."""
  name, _, given = registry.parse(text)
  cls = registry.find('metric', name)
  defaults = {key: f.default for key, f in cls.__dataclass_fields__.items()}
  return {**defaults, **given}


def series_tables(runs: Sequence[Run]) -> list[Table]:
  """Quantities named NAME_NUMBER, a column per number (detours: table 2)."""
  names = labels(runs)
  found: dict[tuple[str, str], dict[float, dict[str, Entry]]] = {}
  for run, label in zip(runs, names, strict=True):
    for entry in run.entries:
      name, _, tail = entry['quantity'].rpartition('_')
      wanted = registry.find('metric', entry['metric']).headline
      if name in wanted and is_number(tail):
        columns = found.setdefault((spec(entry), name), {})
        columns.setdefault(float(tail), {})[label] = entry
  made = []
  for (text, name), columns in found.items():
    numbers = sorted(columns)
    rows = [
      (label, *(cell(columns[n][label]) for n in numbers))
      for label in names
      if all(label in columns[n] for n in numbers)
    ]
    heads = ('model', *(f'{name} at {n:g}' for n in numbers))
    made.append(Table(text, heads, tuple(rows)))
  return made


def is_number(text: str) -> bool:
  """Is it a plain decimal, as the tail of NAME_0.5 is?"""
  return text.replace('.', '', 1).isdigit()


def full_table(runs: Sequence[Run]) -> Table:
  """Every number with n, interval, what was not measured, seed, versions."""
  rows = []
  for run in runs:
    for entry in run.entries:
      causes = ', '.join(f'{k}: {v}' for k, v in entry['unmeasured'].items())
      rows.append(
        (
          entry['model'],
          spec(entry),
          entry['quantity'],
          interval(entry),
          trials(entry),
          causes,
          entry['world'],
          str(entry['seed']),
          _versions(entry),
        )
      )
  heads = (
    'model',
    'metric',
    'quantity',
    'value [95 %]',
    'n',
    'unmeasured',
    'world',
    'seed',
    'versions',
  )
  return Table('All results', heads, tuple(rows), folded=True)


def _versions(entry: Entry) -> str:
  keys = ('metric', 'world', 'wm')
  found = [(key, entry.get(f'{key}_version')) for key in keys]
  return ', '.join(f'{key} {value}' for key, value in found if value)
