"""Results by a property of trials: few values in a table, many as a line."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from wm.reporting import tables, terms
from wm.reporting.collect import Entry, Run

FEW = 5  # Values of a number that are still told apart by rows of a table.
_COLUMNS = 10  # Of a table over many values, at most.


@dataclasses.dataclass(frozen=True)
class Curves:
  """A quantity by a number, in every setting of its metric.

  Attributes:
    metric, quantity: what.
    column: name of the number.
    lines: spec -> label of a model -> its entries, `where` ascending.
  """

  metric: str
  quantity: str
  column: str
  lines: dict[str, dict[str, list[Entry]]]

  def place(self, entry: Entry) -> float:
    """Where an entry is on the line."""
    return entry['where'][self.column]

  @property
  def axis(self) -> str:
    """The column in words."""
    first = next(iter(self.lines.values()))
    world = next(iter(first.values()))[0]['world']
    return terms.column(self.column, self.metric, world)

  @property
  def places(self) -> list[float]:
    """All of them, ascending."""
    return sorted(
      {
        self.place(entry)
        for models in self.lines.values()
        for entries in models.values()
        for entry in entries
      }
    )


def curves(runs: Sequence[Run]) -> list[Curves]:
  """Headline quantities by columns of more than a few numbers."""
  found: dict[tuple[str, str, str], Curves] = {}
  for run, label in zip(runs, tables.labels(runs), strict=True):
    for entry in _headline(run):
      ((column, value),) = entry['where'].items()
      if not isinstance(value, int | float):
        continue
      key = entry['metric'], entry['quantity'], column
      lines = found.setdefault(key, Curves(*key, {})).lines
      models = lines.setdefault(tables.spec(entry), {})
      models.setdefault(label, []).append(entry)
  return [_ordered(one) for one in found.values() if len(one.places) > FEW]


def _headline(run: Run) -> list[Entry]:
  shown = set(tables.headline(run.breakdown))
  return [
    entry
    for entry in run.breakdown
    if (entry['metric'], entry['quantity']) in shown
    and len(entry['where']) == 1
  ]


def _ordered(given: Curves) -> Curves:
  lines = {
    text: {
      label: sorted(entries, key=given.place)
      for label, entries in models.items()
    }
    for text, models in given.lines.items()
  }
  return dataclasses.replace(given, lines=lines)


def along(found: Sequence[Curves]) -> list[tables.Table]:
  """Folded tables of curves: a row per model, a column for some places."""
  return [_along(one, text) for one in found for text in one.lines]


def _along(given: Curves, text: str) -> tables.Table:
  models, places = given.lines[text], given.places
  step = -(-len(places) // _COLUMNS)
  some = places[::step]
  rows = []
  for label, entries in models.items():
    at = {given.place(entry): entry for entry in entries}
    cells = [tables.interval(at[x]) if x in at else '' for x in some]
    rows.append((label, *cells))
  return tables.Table(
    f'{text}: {given.quantity} by {given.axis}',
    ('model', *(f'{x:g}' for x in some)),
    tuple(rows),
    folded=True,
  )


def table(runs: Sequence[Run], found: Sequence[Curves]) -> tables.Table | None:
  """Headline values by a property of the state (two-way streets: figure 7),
  but for those that are curves.
  """
  drawn = {(one.metric, one.quantity, one.column) for one in found}
  rows = [
    (
      label,
      tables.spec(entry),
      entry['quantity'],
      ', '.join(f'{k}={v}' for k, v in entry['where'].items()),
      tables.interval(entry),
      tables.trials(entry),
    )
    for run, label in zip(runs, tables.labels(runs), strict=True)
    for entry in _headline(run)
    if (entry['metric'], entry['quantity'], *entry['where']) not in drawn
  ]
  if not rows:
    return None
  heads = ('model', 'metric', 'quantity', 'where', 'value', 'n')
  words = {
    name: terms.column(name, entry['metric'], entry['world'])
    for run in runs
    for entry in _headline(run)
    for name in entry['where']
  }
  note = '; '.join(f'{k}: {x}' for k, x in words.items() if k != x)
  return tables.Table('Broken down', heads, tuple(rows), note, folded=True)
