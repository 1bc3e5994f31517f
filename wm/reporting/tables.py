"""Makes the tables of a report: a row per model, cells of text.

`results` puts the entries of all runs into one frame. Most tables select rows
of this frame and pivot them, so that each run is one row (`by_run`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Self

import pandas as pd

from wm.core import registry
from wm.evaluation import statistics
from wm.reporting import catalog, ceilings
from wm.reporting.collect import Entry, Run
from wm.runtime import pages


class Cell(str):
  """Text of a cell in pieces, which an HTML page shows below each other.

  Attributes:
    pieces: each but the first begins with its separator, as in
      '0.500', ' [0.400, 0.600]', ', n=40'.
  """

  pieces: tuple[str, ...]

  def __new__(cls, *pieces: str) -> Self:
    """The text is the pieces end to end."""
    cell = super().__new__(cls, ''.join(pieces))
    cell.pieces = pieces
    return cell

  @property
  def lines(self) -> tuple[str, ...]:
    """The pieces without separators."""
    return tuple(piece.lstrip(' ,;') for piece in self.pieces)


class Bold(Cell):
  """A cell that is shown in bold."""


def pieces(cell: str) -> tuple[str, ...]:
  """Returns the pieces of a cell; plain text is one piece."""
  return cell.pieces if isinstance(cell, Cell) else (cell,)


def joined(*cells: str) -> Cell:
  """Returns one cell of several, divided by commas; '' is left out."""
  parts: list[str] = []
  for cell in filter(None, cells):
    first, *rest = pieces(cell)
    parts += [f', {first}' if parts else first, *rest]
  return Cell(*parts)


def headed(head: str, cell: str) -> Cell:
  """Returns a cell with more text before its value."""
  first, *rest = pieces(cell)
  return Cell(head + first, *rest)


@dataclasses.dataclass(frozen=True)
class Table:
  """A table of text.

  Attributes:
    title: above it.
    frame: the cells; its index is not shown.
    note: below it.
    folded: whether a page shows it on demand only.
  """

  title: str
  frame: pd.DataFrame
  note: str = ''
  folded: bool = False

  @property
  def heads(self) -> tuple[str, ...]:
    """Head of each column."""
    return tuple(map(str, self.frame.columns))

  @property
  def rows(self) -> tuple[tuple[str, ...], ...]:
    """Cells, row by row."""
    return tuple(self.frame.itertuples(index=False, name=None))

  @staticmethod
  def is_bold(cell: str) -> bool:
    """Is a cell shown in bold?"""
    return isinstance(cell, Bold)

  def text(self) -> str:
    """The cells for a terminal or a README: a row a line, '|' between cells."""
    rows = self.heads, ['---'] * len(self.heads), *self.rows
    return ''.join(f'| {" | ".join(row)} |\n' for row in rows)


def of_rows(
  title: str,
  rows: Iterable[Mapping[str, str]],
  note: str = '',
  folded: bool = False,
) -> Table:
  """The table of rows, head -> cell; a cell that a row lacks is blank."""
  frame = pd.DataFrame([*rows], dtype=object).fillna('')
  return Table(title, frame, note, folded)


def note(name: str, **values: Any) -> str:
  """A note, a caption or a sentence, by a macro of templates/notes.txt."""
  return pages.sentences('wm.reporting', 'templates/notes.txt', name, **values)


def paragraph(*texts: str) -> str:
  """Puts sentences one after another; '' is left out."""
  return ' '.join(filter(None, texts))


# Cells.


def number(value: float | None, decimals: int = 3) -> str:
  """Formats a number; large ones have no decimals, None is a dash."""
  if value is None:
    return '–'
  if abs(value) < 100:
    return f'{value:.{decimals}f}'
  return f'{value:,.0f}' if abs(value) < 1e7 else f'{value:.3g}'


def interval(entry: Entry) -> Cell:
  """Formats '0.970 [0.951, 0.982]'; narrow or small ones get more decimals.

  Without an interval it gives the reason. For few seeds, or seeds with two
  modes, the brackets list all values. A median and outliers follow if the entry
  has them.
  """
  if entry['value'] is None:
    return Cell('–')
  ends = [entry['low'], entry['high']]
  if all_seeds(entry):
    ends = entry['seed_values']
  decimals = _decimals(entry['value'], *ends)
  value = number(entry['value'], decimals)
  if ends[0] is None and entry.get('interval') not in (None, 'none'):
    more = f' ({entry["interval"]})'
  else:
    more = _brackets(ends, decimals)
  if _bimodal(entry):
    more += ' in two modes'
  return Cell(value, more, *_median(entry))


def _brackets(ends: Sequence[float | None], decimals: int) -> str:
  return f' [{", ".join(number(x, decimals) for x in ends)}]'


def _decimals(value: float, low: float | None, *more: float | None) -> int:
  """Number of decimals of a value, by the width of its interval."""
  high = more[-1] if more else low
  if low is None or high is None or not high > low:
    return 3
  most = 4 if abs(value) > 0.001 else 6
  return min(max(1 + math.ceil(-math.log10(high - low)), 3), most)


def _median(entry: Entry) -> list[str]:
  """Formats '; median -2.000', ' [-2.010, -1.990]'; [] without a median."""
  if entry.get('median') is None or 'seeds' in entry:
    return []
  ends = entry['median_low'], entry['median_high']
  decimals = _decimals(entry['median'], *ends)
  shown = [f'; median {number(entry["median"], decimals)}']
  if ends[0] is not None:
    shown.append(_brackets(ends, decimals))
  return [*shown, f', outliers: {entry["outliers"]}']


def all_seeds(entry: Entry) -> bool:
  """Whether brackets hold each of three seeds or more."""
  values = entry.get('seed_values', ())
  return len(values) > 2 and (
    len(values) <= statistics.SHOWN or _bimodal(entry)
  )


def _bimodal(entry: Entry) -> bool:
  """Do the seeds of an entry fall in two groups? See `statistics.bimodal`."""
  names = 'seed_values', 'seed_lows', 'seed_highs'
  values, lows, highs = (entry.get(name, ()) for name in names)
  bounds = entry.get('least'), entry.get('most')
  return statistics.bimodal(values, lows, highs, bounds)


def rounded(mean: Sequence[float | None] | None) -> Cell:
  """Formats (value, low, high, ...) as '-0.12 [-0.18, -0.06]', or '–'."""
  shown = [f'{x:.2f}' for x in (mean or ())[:3] if x is not None]
  if len(shown) < 3:
    return Cell(*shown[:1] or '–')
  value, low, high = shown
  return Cell(value, f' [{low}, {high}]')


def trials(entry: Entry) -> str:
  """Formats '1000 in 50 clusters', or '40' if trials are independent."""
  return f'{entry["n"]}{_clusters(entry)}'


def _clusters(entry: Entry) -> str:
  """Formats ' in 50 clusters', or '' if trials are independent."""
  num, clusters = entry['n'], entry.get('clusters')
  return '' if clusters in (None, num) else f' in {clusters} clusters'


def seeds(entry: Entry) -> str:
  """Formats '3 seeds', or '2 of 3 seeds' if one has no value; '' for one
  run.
  """
  if 'seeds' not in entry:
    return ''
  measured, all_ = entry['seeds']
  return f'{measured} of {all_} seeds' if measured < all_ else f'{all_} seeds'


def cell(entry: Entry) -> Cell:
  """Formats value, interval and n or seeds; without a value, the reasons."""
  if entry['value'] is None:
    causes = ', '.join(f'{k} {v}' for k, v in entry['unmeasured'].items())
    return Cell(f'– ({causes})' if causes else '–')
  several, share = seeds(entry), ceilings.measured(entry)
  if share.endswith(' measured') and not several:  # It holds n.
    return joined(interval(entry), f'{share}{_clusters(entry)}')
  return joined(interval(entry), several or f'n={trials(entry)}', share)


# Specs of metrics.


spec = ceilings.spec


def arguments(text: str) -> dict[str, Any]:
  """Returns all fields of a metric's spec, defaults filled in."""
  name, _, values = registry.parse(text)
  usual = {field.name: field.default for field in catalog.metric_fields(name)}
  return {**usual, **values}


def plainest(entries: Sequence[Entry]) -> dict[str, str]:
  """Returns metric -> its shortest spec; others are ablations of it."""
  shortest: dict[str, str] = {}
  for entry in entries:
    name, text = entry['metric'], spec(entry)
    if name not in shortest or len(text) < len(shortest[name]):
      shortest[name] = text
  return shortest


def headline(metric: str, quantity: str) -> tuple[str, float | None]:
  """Returns the headline quantity that a quantity is, and its place in a
  series.

  'valid_0.5' is ('valid', 0.5) where the metric's headline has 'valid'; a
  quantity that belongs to no headline is ('', None).
  """
  names = catalog.headline(metric, [quantity])
  if quantity in names:
    return quantity, None
  name, _, tail = quantity.rpartition('_')
  if name in names and tail.replace('.', '', 1).isdigit():
    return name, float(tail)
  return '', None


def differing(texts: Sequence[str]) -> dict[str, str]:
  """Returns specs of one metric -> the fields in which they differ.

  The text is 'default' if all of these fields have their defaults.
  """
  fields_of = {text: arguments(text) for text in texts}
  usual = arguments(registry.parse(texts[0])[0])
  every = [*fields_of.values()]
  varied = [
    key
    for key in {key: None for fields in every for key in fields}
    if any(fields.get(key) != every[0].get(key) for fields in every)
  ]
  return {
    text: _fields(fields, [k for k in varied if fields.get(k) != usual.get(k)])
    or 'default'
    for text, fields in fields_of.items()
  }


def common(texts: Sequence[str]) -> str:
  """Returns the spec of one metric with the fields that all these share."""
  first, *rest = (arguments(text) for text in texts)
  name = registry.parse(texts[0])[0]
  shared = [
    key
    for key, usual in arguments(name).items()
    if first[key] != usual and all(fields[key] == first[key] for fields in rest)
  ]
  return f'{name}({_fields(first, shared)})' if shared else name


def _fields(values: dict[str, Any], keys: Sequence[str]) -> str:
  return ', '.join(f'{key}={values.get(key)}' for key in keys)


# The frame of all results.


def told_apart(specs: Collection[str]) -> dict[str, str]:
  """Returns specs of worlds -> the same with the fields in which they differ.

  Specs of several families stay as they are, and so does one alone.
  """
  parsed = {text: registry.parse(text) for text in specs}
  if len(specs) < 2 or len({name for name, *_ in parsed.values()}) > 1:
    return {text: text for text in specs}
  every = [values for *_, values in parsed.values()]
  names = dict.fromkeys(name for values in every for name in values)
  apart = [n for n in names if len({repr(x.get(n)) for x in every}) > 1]
  result = {}
  for text, (family, _, values) in parsed.items():
    fields = ', '.join(f'{n}={values[n]!r}' for n in apart if n in values)
    result[text] = f'{family}({fields})'
  return (
    result
    if len({*result.values()}) == len(specs)
    else dict(zip(specs, specs, strict=True))
  )


def labels(runs: Sequence[Run]) -> list[str]:
  """Returns the names of runs; where they are not unique, the world is added,
  then as much of the end of the folder as tells them apart.
  """
  names = [run.name for run in runs]
  worlds: dict[str, dict[str, str]] = {}
  for name in {name for name in names if names.count(name) > 1}:
    worlds[name] = told_apart({r.world for r in runs if r.name == name})
  names = [
    f'{name} on {worlds[name][run.world]}' if name in worlds else name
    for name, run in zip(names, runs, strict=True)
  ]
  labels, depth = names, 0
  most = max((len(run.folder.parts) for run in runs), default=0)
  while len({*labels}) < len(labels) and depth < most:
    depth += 1
    labels = [
      name
      if names.count(name) == 1
      else f'{name} ({"/".join(run.folder.parts[-depth:])})'
      for name, run in zip(names, runs, strict=True)
    ]
  return labels


_COLUMNS = (
  *('run', 'model', 'world', 'metric', 'spec', 'quantity', 'value'),
  *('headline', 'at', 'plain', 'role', 'interval', 'cell', 'seeds'),
  *('column', 'place', 'entry'),
)


def results(runs: Sequence[Run], *, breakdown: bool = False) -> pd.DataFrame:
  """Returns a row per result, or per entry of the breakdowns.

  Columns:
    run, model: place of the run, and its label.
    world, metric, spec, quantity, value: as measured.
    headline, at: see `headline`; '' and NaN where the quantity has none.
    plain: whether the spec is the metric's plainest on this world.
    role: of the run, one of `ceilings.ROLES`.
    interval, cell, seeds: the texts of the functions of these names.
    column, place: of a breakdown by one column, its name and value; else ''
      and None.
    entry: the whole entry.
  """
  plain = {}
  for world in {run.world for run in runs}:
    alike = [run for run in runs if run.world == world]
    plain[world] = plainest([e for run in alike for e in run.entries])
  rows, roles = [], ceilings.roles(runs)
  for place, (run, label) in enumerate(zip(runs, labels(runs), strict=True)):
    for entry in run.breakdown if breakdown else run.entries:
      metric, where = entry['metric'], entry.get('where', {})
      name, at = headline(metric, entry['quantity'])
      column = next(iter(where.items())) if len(where) == 1 else ('', None)
      rows.append(
        {
          **{'run': place, 'model': label, 'world': entry['world']},
          **{'metric': metric, 'spec': spec(entry)},
          **{'quantity': entry['quantity'], 'value': entry['value']},
          **{'headline': name, 'at': at},
          'plain': plain[run.world].get(metric) == spec(entry),
          'role': roles[place],
          'interval': joined(interval(entry), ceilings.measured(entry)),
          'cell': cell(entry),
          'seeds': seeds(entry),
          **{'column': column[0], 'place': column[1]},
          'entry': entry,
        }
      )
  return pd.DataFrame(rows, columns=_COLUMNS, dtype=object)


def by_run(frame: pd.DataFrame, column: str, text: str) -> pd.DataFrame:
  """Pivots to a row per run and a column per value of `column`, in order of
  appearance.

  Cells are texts of the column `text`, '' without a result. The first column is
  'model'.
  """
  unique = frame.drop_duplicates(['run', column], keep='last')
  # Not `pivot`, of which cells come back as plain text.
  wide = unique.set_index(['run', column])[text].unstack(column)
  wide = wide[list(dict.fromkeys(frame[column]))].astype(object).fillna('')
  names = unique.drop_duplicates('run').set_index('run')['model']
  wide.insert(0, 'model', names.loc[wide.index])
  return wide


# Tables.


def in_brackets(entries: Sequence[Entry]) -> str:
  """Explains the brackets of models with several seeds."""
  if not any(map(all_seeds, entries)):
    return 'least, greatest'
  ranges = [
    entry
    for entry in entries
    if len(entry.get('seed_values', ())) > statistics.SHOWN
    and not all_seeds(entry)
  ]
  more = ', or of more than five the least and greatest' if ranges else ''
  return f'each seed{more}'


def modes(entries: Sequence[Entry]) -> str:
  """Returns sentences on seeds in two modes, or ''."""
  return note('modes') if any(map(_bimodal, entries)) else ''


def _note(frame: pd.DataFrame) -> str:
  """Explains values and brackets in a table of intervals."""
  entries = list(frame['entry'])
  text = note(
    'values',
    brackets=in_brackets(entries),
    same=frame.seeds.iloc[0] if frame.seeds.nunique() == 1 else '',
    several=any(frame.seeds),
  )
  return paragraph(text, modes(entries))


def settings_tables(frame: pd.DataFrame) -> list[Table]:
  """Tables headline quantities of several settings, a column per setting."""
  result = []
  for metric, of_metric in frame.groupby('metric', sort=False):
    for quantity in catalog.headline(metric, of_metric.quantity):
      part = of_metric[of_metric.quantity == quantity]
      texts = list(dict.fromkeys(part.spec))
      if len(texts) > 1:
        wide = by_run(part, 'spec', 'interval').rename(columns=differing(texts))
        title = f'{common(texts)}: {quantity}'
        result.append(Table(title, wide, _note(part)))
  return result


def series_tables(frame: pd.DataFrame) -> list[Table]:
  """Tables quantities named NAME_NUMBER, a column per number (detours)."""
  result = []
  series = frame[frame['at'].notna()].groupby(['spec', 'headline'], sort=False)
  for (text, name), part in series:
    wide = by_run(part, 'at', 'cell')[['model', *sorted(set(part['at']))]]
    heads = ['model', *(f'{name} at {n:g}' for n in wide.columns[1:])]
    whole = wide[(wide != '').all(axis=1)]
    result.append(Table(text, whole.set_axis(heads, axis=1)))
  return result


def full_table(frame: pd.DataFrame) -> Table:
  """Tables every number with n, interval, unmeasured trials, seed, versions."""
  rows = [
    {
      'model': entry['model'],
      'metric': spec(entry),
      'quantity': entry['quantity'],
      'value [95 %]': interval(entry),
      'n': joined(trials(entry), seeds(entry)),
      'unmeasured': ', '.join(
        f'{k}: {v}' for k, v in entry['unmeasured'].items()
      ),
      'world': entry['world'],
      'seed': str(entry['seed']),
      'versions': _versions(entry),
    }
    for entry in frame.entry
  ]
  return of_rows('All results', rows, folded=True)


def _versions(entry: Entry) -> str:
  keys = ('metric', 'world', 'wm')
  versions = [(key, entry.get(f'{key}_version')) for key in keys]
  return ', '.join(f'{key} {value}' for key, value in versions if value)


_WIDE = 8  # More quantities than this are rows, unless there are more runs.


def main_table(runs: Sequence[Run], frame: pd.DataFrame) -> Table:
  """Tables headline quantities in their plainest setting.

  It has a row per run and a column per quantity; transposed if quantities are
  many, as pages are longer than wide.

  Args:
    runs: all of a report.
    frame: their `results`.
  """
  frame = frame.assign(head=frame.metric + ': ' + frame.quantity)
  shown = frame[(frame.headline != '') & frame['at'].isna()]
  plain = shown[shown.plain.astype(bool)]
  wide = by_run(plain, 'head', 'cell')
  wide = wide.reindex(range(len(runs)), fill_value='')
  heads = ['model', *dict.fromkeys(shown['head'])]
  wide = wide.reindex(columns=heads, fill_value='')
  wide['model'] = labels(runs)
  if len(heads) - 1 > max(_WIDE, len(runs)):
    wide = wide.set_index('model').T.rename_axis(columns=None)
    wide.insert(0, 'quantity', list(wide.index))
  plain_specs = plainest(list(frame.entry))
  specs = frame.groupby('metric', sort=False).spec.nunique()
  entries, several_seeds = list(plain.entry), any(run.seeds for run in runs)
  text = note(
    'main',
    several=[plain_specs[name] for name, n in specs.items() if n > 1],
    seeds=several_seeds,
    brackets=in_brackets(entries),
  )
  text = paragraph(text, modes(entries) if several_seeds else '')
  return Table('The table', wide, text)


TRAINING_TITLE = 'Training data and training'


def training_table(runs: Sequence[Run]) -> Table | None:
  """Tables a row for each run that was trained; None if none was.

  Cells are blank where a run, of an earlier version, does not say.
  """
  pairs = zip(runs, labels(runs), strict=True)
  rows = [
    {'model': label, **_training_cells(run)}
    for run, label in pairs
    if run.trained
  ]
  cut = any(_is_cut(run) for run in runs if run.trained)
  text = note('training', cut=cut)
  return of_rows(TRAINING_TITLE, rows, text) if rows else None


def _is_cut(run: Run) -> bool:
  seen = run.exposure
  return bool(seen) and seen.get('compared') != seen.get('sequences')


def _training_cells(run: Run) -> dict[str, str]:
  seen, trained = run.exposure, run.trained
  of = f', of the first {_count(seen.get("compared"))}' if _is_cut(run) else ''

  def share(key: str) -> str:
    value = _number(seen.get(key))
    return value and f'{value}{of}'

  return {
    'training sequences': _count(seen.get('sequences')),
    'distinct': _count(seen.get('distinct')),
    'tokens in the data': _count(seen.get('tokens')),
    'tokens seen': _count(trained.get('tokens')),
    'epochs': _number(seen.get('epochs'), 1),
    'steps': _count(trained.get('step')),
    'parameters': _count(trained.get('parameters')),
    'step scored': _count(trained.get('best_step')),
    'training loss': _number(seen.get('training_loss')),
    'held-out loss': _number(trained.get('best_loss_moves')),
    'prefixes shown': share('prefixes_shown'),
    'states shown': share('states_shown'),
  }


def _count(value: Any) -> str:
  return '' if value is None else f'{value:,}'


def _number(value: float | None, decimals: int = 3) -> str:
  return '' if value is None else number(value, decimals)
