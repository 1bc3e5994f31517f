"""Compares the papers' values with ours: metrics and maps.

A row has our value, the paper's, and the settings in which the paper differs:
the world, the metric's fields, the model's size and its training. Two values
are comparable if no setting differs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from wm.core import registry
from wm.reporting import catalog, papers, tables
from wm.reporting.collect import Entry, Run
from wm.reporting.papers import Paper, Row, Trained

_DIFFERS = 'the paper has'


def value_tables(runs: Sequence[Run]) -> list[tables.Table]:
  """Returns the tables and figures of papers, with our values beside theirs."""
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
        nearest = _nearest(source, rows, entries)
        measures = {
          (tables.spec(e), e['quantity'], str(e.get('where')))
          for e, _ in nearest.values()
        }
        if measures - shown:
          by = ''.join(rows[0].where)
          axis = by and catalog.column(by, rows[0].metric, world)
          what = [*several, page, axis and f'{rows[0].quantity} by {axis}']
          title = ': '.join(filter(None, ['Beside the paper', *what]))
          lines = _beside(source, rows, nearest)
          note = tables.note('beside', source=source)
          result.append(tables.of_rows(title, lines, note, folded=bool(by)))
        shown |= measures
  return result


def _beside(
  source: Paper,
  rows: Sequence[Row],
  nearest: Mapping[tuple[int, str], tuple[Entry, list[str]]],
) -> Iterator[dict[str, str]]:
  """Yields rows: both values of our models, then printed ones of others."""
  names = {source.names[papers.model_key(model)] for _, model in nearest}
  others = {source.names[k]: '' for row in rows if row.page for k in row.values}
  for place, row in enumerate(rows):
    printed = {
      source.names[key]: f'{value:{row.form}}'
      + (f' ± {error:{row.form}}' if error is not None else '')
      for key, (value, error) in row.values.items()
      if not math.isnan(value)
    }
    ours = {model: x for (at, model), x in nearest.items() if at == place}
    lines = [
      (model, tables.joined(tables.interval(entry), tables.seeds(entry)), more)
      for model, (entry, more) in ours.items()
    ]
    if row.page:
      measured = {source.names[papers.model_key(model)] for model in ours}
      lines += [
        (name, tables.Cell('–'), ['not measured here'])
        for name in printed
        if name in names - measured
      ] or [('', tables.Cell(''), [])] * (not lines)
    for model, shown, differs in lines:
      name = source.names.get(papers.model_key(model), '')
      yield {
        'measure': _row_label(row),
        'model': model,
        'here [95 %]': shown,
        'paper': printed.get(name, ''),
        _DIFFERS: ', '.join(differs),
        **{
          f'paper: {other}': printed.get(other, '')
          for other in others
          if other not in names
        },
      }


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
        differs = papers.differences(source, row, entry, run)
        key = place, entry['model']
        if key not in nearest or _far(entry, differs) < _far(*nearest[key]):
          nearest[key] = entry, differs
  return nearest


def _far(entry: Entry, differs: Sequence[str]) -> tuple[int, int]:
  return len(differs), len(tables.spec(entry))


def _measures(entry: Entry, row: Row) -> bool:
  """Does an entry measure the quantity of a row, in any setting?"""
  return (
    (row.metric, row.quantity) == (entry['metric'], entry['quantity'])
    and papers.model_key(entry['model']) in row.values
    and row.where == entry.get('where', {})
    and papers.has_fields(tables.spec(entry), row.fields)
  )


def _row_label(row: Row) -> str:
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


# Columns of reconstructed maps, by the summary's key; limits where they differ.
_MAP_LIMITS = 'max_degree', 'max_miles'
_MAP_COUNTS = (
  *('sequences', 'directions', 'ill_formed', 'failed', 'true_edges'),
  *('new_edges', 'unused_edges'),
)
_MAP_RATES = {
  'illegal_directions': 'illegal directions [95 %]',
  'failed_routes': 'failed share [95 %]',
}


def map_table(runs: Sequence[Run]) -> tables.Table | None:
  """Tables the counts of reconstructed maps beside the paper's; None if no run
  has a map.
  """
  mapped = [(run, run.summary) for run in runs if run.summary]
  if not mapped:
    return None
  varied = [
    key for key in _MAP_LIMITS if len({s.get(key) for _, s in mapped}) > 1
  ]
  rows = []
  for run, summary in mapped:
    printed, differs = _printed_count(run, summary)
    rows.append(
      {
        'model': run.name,
        'seed': str(run.training.get('seed', '')),
        **{
          key.replace('_', ' '): str(summary.get(key, ''))
          for key in (*varied, *_MAP_COUNTS)
        },
        **{
          name: tables.interval(summary[key]) if summary.get(key) else ''
          for key, name in _MAP_RATES.items()
        },
        'failed over orders': _over(summary),
        'failed in the paper': printed,
        _DIFFERS: ', '.join(differs),
      }
    )
  table = pd.DataFrame(rows, dtype=object)
  table = table.loc[:, (table != '').any()]
  if not table.duplicated('model').any():
    table = table.drop(columns='seed', errors='ignore')
  rates, theirs = _MAP_RATES['illegal_directions'], 'failed in the paper'
  note = tables.note('maps', rates=rates in table, theirs=theirs in table)
  return tables.Table('Reconstructed maps', table, note)


def _over(summary: Mapping[str, Any]) -> str:
  """Returns the mean and range of failures over orders; '' for one order."""
  orders = summary.get('orders', {})
  if orders.get('n', 1) < 2:
    return ''
  over = orders['failed']
  return f'{over["mean"]:.0f} ({over["least"]} to {over["most"]})'


def _printed_count(
  run: Run, summary: Mapping[str, Any]
) -> tuple[str, list[str]]:
  """Returns the count of failures printed for a run's name ('' if none), and
  what differs.
  """
  for source in itertools.chain(*papers.papers().values()):
    about = source.reconstructions or {'models': {}}
    record = about['models'].get(papers.model_key(run.name))
    if record is None:
      continue
    failed = {tuple(limits): count for *limits, count in record['failed']}
    limits: tuple[Any, ...] = tuple(map(summary.get, about['limits']))
    nearest = limits if limits in failed else next(iter(failed))
    settings = about['settings'] | dict(
      zip(about['limits'], nearest, strict=True)
    )
    differs = [
      *papers.place_difference(source, str(summary.get('world', ''))),
      *papers.differing_fields(settings, {'pairs': 'uniform', **summary}),
      *(['shuffled'] if summary.get('order') == 'file' else []),
    ]
    if summary.get('samples_sha256') != record['samples_sha256']:
      trained = source.models[papers.model_key(run.name)]
      differs += _sampled(trained, about['accept'], run, summary)
    return str(failed[nearest]), differs
  return '', []


def _sampled(
  trained: Trained, accept: str, run: Run, summary: Mapping[str, Any]
) -> list[str]:
  """Returns the paper's sampling of routes, where ours differs."""
  world, rule = summary.get('world'), summary.get('accept')
  rule = registry.spec(registry.make('accept', rule)) if rule else None
  return [
    *papers.differing_fields(
      trained.world, papers.filled_fields('world', world) if world else {}
    ),
    *papers.differing_fields({'accept': accept}, {'accept': rule}),
    *papers.size_differences(
      trained.model, summary.get('model_spec') or run.training.get('model')
    ),
    *papers.training_differences(trained, run),
  ]
