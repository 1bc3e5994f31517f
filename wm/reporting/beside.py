"""Puts the papers' values beside ours, and says where the two do not compare.

A printed value shares a cell with ours only if the run has the paper's
settings: the world, the metric's fields, the model's size and its training.
Otherwise it gets a column of its own, headed by the settings that the paper has
and the run has not.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import pandas as pd

from wm.core import registry
from wm.reporting import catalog, papers, tables, unlike
from wm.reporting.collect import Entry, Run
from wm.reporting.papers import Paper, Row


def paper_tables(runs: Sequence[Run]) -> list[tables.Table]:
  """Returns a table for each paper that prints values of a world and a
  model.
  """
  by_world: dict[str, list[tuple[Entry, Run]]] = {}
  for run in runs:
    for entry in (*run.entries, *run.breakdown):
      world = registry.parse(entry['world'])[0]
      by_world.setdefault(world, []).append((entry, run))
  result = []
  for world, entries in by_world.items():
    several = [world] if len(by_world) > 1 else []
    for source in papers.papers().get(world, ()):
      shown: set[tuple[str, str, str]] = set()  # On an earlier page.
      for page in dict.fromkeys(row.page for row in source.rows):
        rows = [row for row in source.rows if row.page == page]
        by = ''.join(rows[0].where)
        if by:
          rows = _with_ours(rows, by, entries)
        nearest = _nearest(source, rows, entries)
        measures = {
          (tables.spec(e), e['quantity'], str(e.get('where')))
          for e, _ in nearest.values()
        }
        if measures - shown:
          axis = by and catalog.column(by, rows[0].metric, world)
          what = [*several, page, axis and f'{rows[0].quantity} by {axis}']
          title = ': '.join(filter(None, ['Beside the paper', *what]))
          table = _paper_table(title, source, rows, entries, nearest)
          result.append(dataclasses.replace(table, folded=bool(by)))
        shown |= measures
  return result


def _with_ours(
  rows: Sequence[Row], by: str, entries: Sequence[tuple[Entry, Run]]
) -> list[Row]:
  """Returns rows of a quantity by place, with our places that are not printed
  between those that are; nothing is known of them.
  """
  first = rows[0]
  nothing = dict.fromkeys(first.values, (math.nan, None))
  measured = {
    entry['where'][by]
    for entry, _ in entries
    if by in entry.get('where', {})
    and (entry['metric'], entry['quantity']) == (first.metric, first.quantity)
    and papers.model_key(entry['model']) in first.values
  }
  printed = {row.where[by]: row for row in rows}
  return [
    printed.get(place) or first._replace(where={by: place}, values=nothing)
    for place in sorted(measured | set(printed))
  ]


_FEW = 5  # Quantities that are columns, as tables are printed.


def _paper_table(
  title: str,
  source: Paper,
  rows: Sequence[Row],
  entries: Sequence[tuple[Entry, Run]],
  nearest: Mapping[tuple[int, str], tuple[Entry, list[str]]],
) -> tables.Table:
  """Returns a row per printed quantity, in the order of entries; of a page
  with few of them a column, and all that is printed there.
  """
  seeds = [tables.seeds(entry) for entry, _ in nearest.values()]
  same = tables.same_seeds(seeds)
  page = rows[0].page
  whole = rows if page else ()
  cells: dict[str, dict[str, str]] = {_label(row): {} for row in whole}
  apart: dict[str, dict[str, None]] = {}  # Model -> what differs.
  for (place, model), (entry, differs) in nearest.items():
    row = rows[place]
    line = cells.setdefault(_label(row), {})
    theirs = _printed(row.values[papers.model_key(model)], row.form)
    line[model] = _ours(entry, row.form, '' if differs else theirs, not same)
    if differs:
      line[f'paper: {model}'] = theirs
      apart.setdefault(model, {}).update(dict.fromkeys(differs))
  heads = {}
  for model in dict.fromkeys(entry['model'] for entry, _ in entries):
    heads[model] = model
    more = ', '.join(apart.get(model, ())) or 'not measured here'
    heads[f'paper: {model}'] = f'paper: {model} ({more})'
  heads |= _unmeasured(source, whole, heads, cells)
  frame = pd.DataFrame(cells.values(), cells, dtype=object)
  frame = frame[[column for column in heads if column in frame]].fillna('')
  frame = frame.rename(columns=heads)
  if page and len(frame) <= _FEW:
    frame = frame.T
  frame.insert(0, '', list(frame.index))
  more = f' [least, greatest of {same or "the seeds"}]' if any(seeds) else ''
  return tables.Table(
    title,
    frame,
    f'Here{more}, and (paper ± standard error) where the run has its settings; '
    'else the paper has a column or row of its own, headed by what it has and '
    f'the run has not. Paper: {source.table}, {source.setting}.',
  )


def _unmeasured(
  source: Paper,
  rows: Sequence[Row],
  heads: Mapping[str, str],
  cells: dict[str, dict[str, str]],
) -> dict[str, str]:
  """Adds what is printed and not measured to `cells`; returns further heads."""
  our_heads = {source.names.get(papers.model_key(head)): head for head in heads}
  more = {}
  for row in rows:
    line = cells[_label(row)]
    for key, value in row.values.items():
      name = source.names[key]
      if name not in our_heads:
        more[f'paper: {name}'] = f'paper: {name} (not run here)'
      shown = _printed(value, row.form)
      if shown and our_heads.get(name) not in line:
        line[f'paper: {our_heads.get(name, name)}'] = shown
  return more


def _nearest(
  source: Paper, rows: Sequence[Row], entries: Sequence[tuple[Entry, Run]]
) -> dict[tuple[int, str], tuple[Entry, list[str]]]:
  """Returns (place of a row, model) -> the entry that differs least from it,
  of the plainest spec, and how it differs.
  """
  nearest: dict[tuple[int, str], tuple[Entry, list[str]]] = {}
  for entry, run in entries:
    for place, row in enumerate(rows):
      if _measures(entry, row):
        differs = unlike.differences(source, row, entry, run)
        key = place, entry['model']
        if key not in nearest or _far(entry, differs) < _far(*nearest[key]):
          nearest[key] = entry, differs
  return nearest


def _far(entry: Entry, differs: Sequence[str]) -> tuple[int, int]:
  return len(differs), len(tables.spec(entry))


def _measures(entry: Entry, row: Row) -> bool:
  """Is it what a row prints, in whatever setting?"""
  return (
    papers.model_key(entry['model']) in row.values
    and (row.metric, row.quantity) == (entry['metric'], entry['quantity'])
    and row.where == entry.get('where', {})
    and unlike.has(tables.spec(entry), row.fields)
  )


def _printed(value: tuple[float, papers.Error], form: str) -> str:
  """Formats a value as '0.41 ± 0.02', or '0.41 ± 0.03 to 0.05' for a range."""
  shown, error = value
  if error is None:
    return '' if math.isnan(shown) else format(shown, form)
  many = error if isinstance(error, tuple) else (error,)
  errors = ' to '.join(format(bound, form) for bound in many)
  return f'{shown:{form}} ± {errors}'


def _ours(entry: Entry, form: str, theirs: str, several: bool) -> str:
  """Formats our value as '0.412 (0.41)', with the range over several seeds."""

  def ours(value: float | None) -> str:
    if value is None or form == '.2f':
      return tables.number(value)
    return format(value, '.4g' if form.endswith('g') else form)

  both = ours(entry['value']) + (f' ({theirs})' if theirs else '')
  if not (tables.seeds(entry) and entry['seeds'][0]):
    return both
  low, high = ours(entry['low']), ours(entry['high'])
  more = tables.seeds(entry) if several else ''
  return tables.between(both, low, high, more)


def _label(row: Row) -> str:
  """Returns 'compression: precision', with fields that are not at their
  default; at a place, that.
  """
  if row.where:
    return ', '.join(f'{place:g}' for place in row.where.values())
  defaults = tables.arguments(row.metric)
  changed = [
    f'{key}=...' if value == papers.GIVEN else f'{key}={value!r}'
    for key, value in row.fields.items()
    if defaults.get(key) != value
  ]
  metric = row.metric + (f'({", ".join(changed)})' if changed else '')
  return f'{metric}: {row.quantity}'
