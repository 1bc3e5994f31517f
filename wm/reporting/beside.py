"""Puts the papers' values beside ours, and says where the two do not compare.

A printed value shares a cell with ours only if the run has the paper's
settings: the world, the metric's fields, the model's size and its training.
Otherwise it gets a column of its own, headed by the settings that the paper has
and the run has not.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from wm import core
from wm.core import registry
from wm.reporting import papers, tables
from wm.reporting.collect import Entry, Run
from wm.reporting.papers import Paper, Row, Trained


def paper_tables(runs: Sequence[Run]) -> list[tables.Table]:
  """Returns a table for each paper that prints values of a world and a
  model.
  """
  by_world: dict[str, list[tuple[Entry, Run]]] = {}
  for run in runs:
    for entry in run.entries:
      world = registry.parse(entry['world'])[0]
      by_world.setdefault(world, []).append((entry, run))
  made = []
  for world, entries in by_world.items():
    several = [world] if len(by_world) > 1 else []
    for source in papers.papers().get(world, ()):
      shown: set[tuple[str, str]] = set()  # On an earlier page.
      for page in dict.fromkeys(row.page for row in source.rows):
        rows = [row for row in source.rows if row.page == page]
        found = _nearest(source, rows, entries)
        here = {(tables.spec(e), e['quantity']) for e, _ in found.values()}
        if here - shown:
          title = ': '.join(filter(None, ['Beside the paper', *several, page]))
          made.append(_paper_table(title, source, rows, entries, found))
        shown |= here
  return made


_FEW = 5  # Quantities that are columns, as tables are printed.


def _paper_table(
  title: str,
  source: Paper,
  rows: Sequence[Row],
  entries: Sequence[tuple[Entry, Run]],
  found: Mapping[tuple[int, str], tuple[Entry, list[str]]],
) -> tables.Table:
  """Returns a row per printed quantity, in the order of entries; of a page
  with few of them a column, and all that is printed there.
  """
  seeds = [tables.seeds(entry) for entry, _ in found.values()]
  same = tables.same_seeds(seeds)
  page = rows[0].page
  whole = rows if page else ()
  cells: dict[str, dict[str, str]] = {_label(row): {} for row in whole}
  apart: dict[str, dict[str, None]] = {}  # Model -> what differs.
  for (place, model), (entry, differs) in found.items():
    row = rows[place]
    there = cells.setdefault(_label(row), {})
    theirs = _printed(row.values[papers.model_key(model)], row.form)
    there[model] = _ours(entry, row.form, '' if differs else theirs, not same)
    if differs:
      there[f'paper: {model}'] = theirs
      apart.setdefault(model, {}).update(dict.fromkeys(differs))
  heads = {}
  for model in dict.fromkeys(entry['model'] for entry, _ in entries):
    heads[model] = model
    more = ', '.join(apart.get(model, ())) or 'not measured here'
    heads[f'paper: {model}'] = f'paper: {model} ({more})'
  heads |= _unmeasured(source, whole, heads, cells)
  frame = pd.DataFrame(cells.values(), cells)
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
  here = {source.names.get(papers.model_key(head)): head for head in heads}
  more = {}
  for row in rows:
    there = cells[_label(row)]
    for key, value in row.values.items():
      name = source.names[key]
      if name not in here:
        more[f'paper: {name}'] = f'paper: {name} (not run here)'
      if here.get(name) not in there:
        shown = _printed(value, row.form)
        there[f'paper: {here.get(name, name)}'] = shown
  return more


def _nearest(
  source: Paper, rows: Sequence[Row], entries: Sequence[tuple[Entry, Run]]
) -> dict[tuple[int, str], tuple[Entry, list[str]]]:
  """Returns (place of a row, model) -> the entry most like it, and how they
  differ.
  """
  found: dict[tuple[int, str], tuple[Entry, list[str]]] = {}
  for place, entry, run in _pairs(rows, entries):
    differs = differences(source, rows[place], entry, run)
    before = found.setdefault((place, entry['model']), (entry, differs))
    if len(differs) < len(before[1]):
      found[place, entry['model']] = entry, differs
  return found


def _pairs(
  rows: Sequence[Row], entries: Sequence[tuple[Entry, Run]]
) -> list[tuple[int, Entry, Run]]:
  """Pairs places of printed rows with the entries that measure them in the
  plainest spec.
  """
  specs = dict.fromkeys((e['metric'], tables.spec(e)) for e, _ in entries)
  plain = []
  for row in rows:
    texts = [text for metric, text in specs if metric == row.metric]
    suited = [text for text in texts if _has(text, row.fields)]
    plain.append(min(suited, key=len, default=''))
  return [
    (place, entry, run)
    for entry, run in entries
    for place, (row, text) in enumerate(zip(rows, plain, strict=True))
    if papers.model_key(entry['model']) in row.values
    and (row.metric, row.quantity) == (entry['metric'], entry['quantity'])
    and text == tables.spec(entry)
  ]


def differences(source: Paper, row: Row, entry: Entry, run: Run) -> list[str]:
  """Returns the paper's settings that a run lacks, in words; [] if none."""
  trained = source.models.get(papers.model_key(entry['model']), Trained())
  usual = tables.arguments(row.metric)
  fields = registry.find('metric', row.metric).__dataclass_fields__
  metric = {
    key: value
    for key, value in {**usual, **row.fields, **row.settings}.items()
    if key not in row.free and fields[key].compare
  }
  return [
    *_place(source.facts, source.place, entry['world']),
    *_unlike({**row.world, **trained.world}, _fields('world', entry['world'])),
    *(
      f'{row.metric} {field}'
      for field in _unlike(metric, tables.arguments(tables.spec(entry)))
    ),
    *_size(trained.model, entry.get('model_spec') or run.training.get('model')),
    *_training(trained, run),
  ]


def _unlike(wanted: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
  """Returns 'trials=1000' for each wanted value that differs from the given
  one.
  """
  return [
    key if value == papers.GIVEN else f'{key}={value!r}'
    for key, value in wanted.items()
    if not _suits(value, given.get(key))
  ]


def _training(trained: Trained, run: Run) -> list[str]:
  """As `_unlike`; an imported checkpoint counts as trained like the paper's."""
  imported = 'imported_sha256' in run.training
  return [] if imported else _unlike(trained.training, run.training)


def _place(facts: Mapping[str, int], place: str, world: str) -> list[str]:
  known = _facts(world) if facts else {}
  return [place] if any(known.get(k) != x for k, x in facts.items()) else []


@functools.lru_cache
def _facts(world: str) -> dict[str, int]:
  """Returns a world's counts; {} if its files are missing."""
  try:
    made = registry.make('world', world)
    return made.facts() if isinstance(made, core.Sourced) else {}
  except core.InputError:
    return {}


def _size(wanted: Mapping[str, Any], spec: str | None) -> list[str]:
  """Returns '48 x 1600' if depth or width differ, then further fields that
  do.
  """
  if not wanted:
    return []
  given = {**_fields('model', spec), 'family': _name(spec)} if spec else {}
  found = _unlike(wanted, given)
  size = [x for x in found if x.split('=')[0] in ('layers', 'width')]
  words = [f'{wanted["layers"]} x {wanted["width"]}'] if size else []
  return [*words, *(x for x in found if x not in size)]


def _name(spec: str) -> str:
  return registry.parse(spec)[0]


def _fields(kind: str, spec: str) -> dict[str, Any]:
  """Returns a spec's fields, with defaults if the plug-in can be found."""
  name, _, given = registry.parse(spec)
  try:
    fields = dataclasses.fields(registry.find(kind, name))
  except core.InputError:
    return given
  return {**{field.name: field.default for field in fields}, **given}


def _printed(value: tuple[float, papers.Error], form: str) -> str:
  """Formats a value as '0.41 ± 0.02', or '0.41 ± 0.03 to 0.05' for a range."""
  shown, error = value
  if error is None:
    return format(shown, form)
  many = error if isinstance(error, tuple) else (error,)
  errors = ' to '.join(format(one, form) for one in many)
  return f'{shown:{form}} ± {errors}'


def _ours(entry: Entry, form: str, theirs: str, said: bool) -> str:
  """Formats our value as '0.412 (0.41)', with the range over several seeds."""

  def ours(value: float | None) -> str:
    if value is None or form == '.2f':
      return tables.number(value)
    return format(value, '.4g' if form.endswith('g') else form)

  both = ours(entry['value']) + (f' ({theirs})' if theirs else '')
  if not (tables.seeds(entry) and entry['seeds'][0]):
    return both
  low, high = ours(entry['low']), ours(entry['high'])
  return f'{both} [{low}, {high}]' + (
    f', {tables.seeds(entry)}' if said else ''
  )


def _suits(wanted: Any, given: Any) -> bool:
  return bool(given) if wanted == papers.GIVEN else wanted == given


def _has(text: str, fields: Mapping[str, Any]) -> bool:
  given = tables.arguments(text)
  return all(_suits(value, given.get(key)) for key, value in fields.items())


def _label(row: Row) -> str:
  """Returns 'compression: precision', with fields that are not at their
  default.
  """
  defaults = tables.arguments(row.metric)
  changed = [
    f'{key}=...' if value == papers.GIVEN else f'{key}={value!r}'
    for key, value in row.fields.items()
    if defaults.get(key) != value
  ]
  metric = row.metric + (f'({", ".join(changed)})' if changed else '')
  return f'{metric}: {row.quantity}'


# Columns of reconstructed maps, by the summary's key.
_COUNTS = (
  'sequences',
  'ill_formed',
  'failed',
  'true_edges',
  'new_edges',
  'unused_edges',
)


def map_table(runs: Sequence[Run]) -> tables.Table | None:
  """Tables the counts of reconstructed maps beside the paper's; None if no run
  has a map.
  """
  mapped = [(run, run.summary) for run in runs if run.summary]
  if not mapped:
    return None
  known = [_mapped(run, summary) for run, summary in mapped]
  keys = (*_varied([summary for _, summary in mapped]), *_COUNTS)
  apart = [differs for _, differs in known if differs]
  shared = [x for x in (apart or [[]])[0] if all(x in one for one in apart)]
  head, frame = 'failed in the paper', []
  several = any(_over(summary) for _, summary in mapped)
  for (run, summary), (value, differs) in zip(mapped, known, strict=True):
    own = ', '.join(x for x in differs if x not in shared)
    shown = f'{value} ({own})' if own else value
    frame.append(
      {
        'model': run.name,
        **{key.replace('_', ' '): str(summary.get(key, '')) for key in keys},
        **({'failed over orders': _over(summary)} if several else {}),
        head: '' if differs else value,
        f'{head} ({", ".join(shared)})': shown if differs else '',
      }
    )
  table = pd.DataFrame(frame)
  empty = [column for column in table.columns[-2:] if not any(table[column])]
  note = (
    'True edges used, false edges added, and true edges never used, when the '
    "model's routes are fitted with as few false streets as the algorithm "
    'finds.'
  )
  if len(empty) < 2:
    note += (
      " The paper's counts are of one order whose seed is not known; those "
      'that do not compare have a column of their own, headed by what the '
      'paper has and the run has not.'
    )
  return tables.Table('Reconstructed maps', table.drop(columns=empty), note)


def _varied(summaries: Sequence[Mapping[str, Any]]) -> list[str]:
  """Returns the limits in which reconstructions differ."""
  limits = 'max_degree', 'max_miles'
  return [key for key in limits if len({s.get(key) for s in summaries}) > 1]


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
  key = papers.model_key(run.name)
  for source in itertools.chain(*papers.papers().values()):
    made = source.reconstructions
    if made is None or key not in made.failed:
      continue
    known = made.failed[key]
    limits: tuple[Any, ...] = tuple(map(summary.get, made.limits))
    nearest = limits if limits in known else next(iter(known))
    world = str(summary.get('world', ''))
    wanted = {
      **made.settings,
      **dict(zip(made.limits, nearest, strict=True)),
    }
    differs = [
      *_place(source.facts, source.place, world),
      *_unlike(wanted, {'pairs': 'uniform', **summary}),
      *(['shuffled'] if summary.get('order') == 'file' else []),
    ]
    if summary.get('samples_sha256') != made.samples_sha256[key]:
      differs += _sampled(source.models[key], made.accept, run, summary)
    return str(known[nearest]), differs
  return '', []


def _sampled(
  trained: Trained, accept: str, run: Run, summary: Mapping[str, Any]
) -> list[str]:
  """Returns how the paper's routes were sampled, as far as these were not."""
  world, rule = summary.get('world'), summary.get('accept')
  rule = registry.spec(registry.make('accept', rule)) if rule else None
  return [
    *_unlike(trained.world, _fields('world', world) if world else {}),
    *_unlike({'accept': accept}, {'accept': rule}),
    *_size(
      trained.model, summary.get('model_spec') or run.training.get('model')
    ),
    *_training(trained, run),
  ]
