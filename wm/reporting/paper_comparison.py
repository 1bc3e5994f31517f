"""Puts the papers' values beside ours: metrics, searches, data and maps.

A printed value shares a cell with ours only if the run has the paper's
settings: the world, the metric's fields, the model's size and its training.
Otherwise it gets a column of its own, headed by the settings that the paper has
and the run has not.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from wm.core import registry
from wm.reporting import catalog, papers, tables
from wm.reporting.collect import Entry, Run
from wm.reporting.papers import Paper, Row, Trained


def value_tables(runs: Sequence[Run]) -> list[tables.Table]:
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
  cells: dict[str, dict[str, str]] = {_row_label(row): {} for row in whole}
  apart: dict[str, dict[str, None]] = {}  # Model -> what differs.
  for (place, model), (entry, differs) in nearest.items():
    row = rows[place]
    line = cells.setdefault(_row_label(row), {})
    theirs = _printed_value(row.values[papers.model_key(model)], row.form)
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
  seeds_of = any(seeds) and (same or 'the seeds')
  note = tables.note('beside', seeds=seeds_of, source=source)
  return tables.Table(title, frame, note)


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
    line = cells[_row_label(row)]
    for key, value in row.values.items():
      name = source.names[key]
      if name not in our_heads:
        more[f'paper: {name}'] = f'paper: {name} (not run here)'
      shown = _printed_value(value, row.form)
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
        differs = papers.differences(source, row, entry, run)
        key = place, entry['model']
        if key not in nearest or _far(entry, differs) < _far(*nearest[key]):
          nearest[key] = entry, differs
  return nearest


def _far(entry: Entry, differs: Sequence[str]) -> tuple[int, int]:
  return len(differs), len(tables.spec(entry))


def _measures(entry: Entry, row: Row) -> bool:
  """Is it what a row prints, in whatever setting?"""
  return (
    (row.metric, row.quantity) == (entry['metric'], entry['quantity'])
    and papers.model_key(entry['model']) in row.values
    and row.where == entry.get('where', {})
    and papers.has_fields(tables.spec(entry), row.fields)
  )


def _printed_value(value: tuple[float, float | None], form: str) -> str:
  """Formats a value as '0.41 ± 0.02'."""
  shown, error = value
  if error is None:
    return '' if math.isnan(shown) else format(shown, form)
  return f'{shown:{form}} ± {error:{form}}'


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


def search_tables(runs: Sequence[Run]) -> list[tables.Table]:
  """Returns a table per printed search that has a model of these runs: a row
  per run, ours and the paper's values.
  """
  result = []
  for world, sources in papers.papers().items():
    mine = [r for r in runs if _world_name(r.trained.get('world')) == world]
    for source in sources:
      result += [
        _search_table(search, source, mine) for search in source.searches
      ]
  return [table for table in result if table.rows]


def _world_name(spec: str | None) -> str:
  return registry.parse(spec)[0] if spec else ''


def _search_table(
  search: Mapping[str, Any], source: Paper, runs: Sequence[Run]
) -> tables.Table:
  forms = dict(zip(search['quantities'], search['forms'], strict=True))
  by_model = search['values']
  shown = [run for run in runs if papers.model_key(run.name) in by_model]
  keys = [
    key.removeprefix('best_')
    for run in shown
    for key in run.trained
    if key.startswith('best_') and key != 'best_step'
  ]
  # Losses of parts of the labels are not printed anywhere.
  names = [key for key in dict.fromkeys(keys) if not key.startswith('loss_')]
  several = len({run.name for run in shown}) < len(shown)
  frame = []
  for run in shown:
    key = papers.model_key(run.name)
    printed = dict(zip(forms, by_model[key], strict=True))
    trained = source.models.get(key, papers.Trained())
    spec = run.trained.get('model')
    differs = [
      *papers.size_differences(trained.model, spec),
      *papers.differing_fields(search['training'], run.training),
    ]
    seed = f', seed {run.training.get("seed", "?")}' if several else ''
    ours = {name: run.trained.get(f'best_{name}') for name in names}
    frame.append(
      {
        'model': run.name + seed,
        **{k: _formatted(x, forms.get(k)) for k, x in ours.items()},
        **{f'paper: {k}': _formatted(x, forms[k]) for k, x in printed.items()},
        'the paper has': ', '.join(differs),
      }
    )
  title = f'Beside the paper: {search["table"]}'
  return tables.of_rows(title, frame, tables.note('searches'), folded=True)


def _formatted(value: float | None, form: str | None) -> str:
  return '–' if value is None else format(value, form or '.4f')


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
_PRINTED_DIRECTIONS = 'directions in the paper'


def map_table(runs: Sequence[Run]) -> tables.Table | None:
  """Tables the counts of reconstructed maps beside the paper's; None if no run
  has a map.
  """
  mapped = [(run, run.summary) for run in runs if run.summary]
  if not mapped:
    return None
  printed = [_mapped(run, summary) for run, summary in mapped]
  varied = [
    key for key in _MAP_LIMITS if len({s.get(key) for _, s in mapped}) > 1
  ]
  keys = (*varied, *_MAP_COUNTS)
  apart = [differs for _, differs in printed if differs] or [[]]
  shared = [x for x in apart[0] if all(x in differs for differs in apart)]
  head, frame = 'failed in the paper', []
  several = any(_over(summary) for _, summary in mapped)
  seeds: dict[tuple[str, str], set[Any]] = {}
  for run, _ in mapped:
    training_seed = run.training.get('seed')
    seeds.setdefault((run.name, run.world), set()).add(training_seed)
  for (run, summary), (value, differs) in zip(mapped, printed, strict=True):
    particular = ', '.join(x for x in differs if x not in shared)
    shown = f'{value} ({particular})' if particular else value
    seed = f', seed {run.training.get("seed")}'
    frame.append(
      {
        'model': run.name + seed * (len(seeds[run.name, run.world]) > 1),
        **{key.replace('_', ' '): str(summary.get(key, '')) for key in keys},
        **{
          name: tables.interval(summary[key]) if summary.get(key) else ''
          for key, name in _MAP_RATES.items()
        },
        **({'failed over orders': _over(summary)} if several else {}),
        **_directions(run.name, summary),
        head: '' if differs else value,
        f'{head} ({", ".join(shared)})': shown if differs else '',
      }
    )
  table = pd.DataFrame(frame, dtype=object)
  # Summaries or papers may lack these.
  optional = 'directions', *_MAP_RATES.values(), *table.columns[-4:]
  empty = [column for column in optional if not any(table[column])]
  note = tables.note(
    'maps',
    rates=not {*_MAP_RATES.values()} & {*empty},
    printed=_PRINTED_DIRECTIONS not in empty,
    theirs=not {*table.columns[-2:]} <= {*empty},
  )
  return tables.Table('Reconstructed maps', table.drop(columns=empty), note)


def _reconstructed(name: str) -> Iterator[tuple[Paper, dict[str, Any]]]:
  """Yields papers that print counts of routes of a model, and its record."""
  for source in itertools.chain(*papers.papers().values()):
    models = (source.reconstructions or {}).get('models', {})
    if record := models.get(papers.model_key(name)):
      yield source, record


def _directions(name: str, summary: Mapping[str, Any]) -> dict[str, str]:
  """Returns what is printed as the directions of the same routes, if any, and
  what that is.
  """
  counts = ['', '']
  for _, record in _reconstructed(name):
    if record['samples_sha256'] == summary.get('samples_sha256'):
      counts = [f'{record["directions"]}', f'{summary.get("characters", "")}']
  return dict(zip((_PRINTED_DIRECTIONS, 'characters'), counts, strict=True))


def _over(summary: Mapping[str, Any]) -> str:
  """Returns the mean and range of failures over orders; '' of one order."""
  orders = summary.get('orders', {})
  if orders.get('n', 1) < 2:
    return ''
  over = orders['failed']
  return f'{over["mean"]:.0f} ({over["least"]} to {over["most"]})'


def _mapped(run: Run, summary: Mapping[str, Any]) -> tuple[str, list[str]]:
  """Returns the count printed for a run's name ('' if none), and what
  differs.
  """
  for source, record in _reconstructed(run.name):
    about = source.reconstructions
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
  """Returns how the paper's routes were sampled, as far as these were not."""
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
