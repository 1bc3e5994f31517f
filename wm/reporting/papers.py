"""Reads the values that papers print, and their settings.

Each paper is a folder of flagfiles with a `published.json` beside them, in
`launch/flags`:

    worlds: name of a world ->
      table: where it is printed, and on how many trials.
      setting: on what, and what to know of it.
      place, facts: a name, and the counts by which it is recognised (see
        `World.facts`); optional.
      models: name -> specs of its `model` and of the `world` that it was
        trained on, fields of its `training` and its number of `parameters`.
      aliases: further name of a model -> name.
      tables: each with a `metric` and a `world` (specs), `settings`, `free`,
        `quantities`, `forms`, and `values`: name of a model -> a value for
        each quantity: a number, or [number, standard error]. `in` is the
        table or figure that prints it, which a report then shows whole. With
        `each`, a field of the metric -> values of it, there is one quantity,
        and a value of it for each of these. With `by`, a side column, and its
        `places`, a quantity has a value at each place.
      reconstructions: counts of routes that no map could be fitted to:
        `settings`, fields of a summary.json; `accept`, the rule that the routes
        were sampled under; `limits`, names of two limits; and `models`, name ->
        `failed`, lists of both limits and a count, the `directions` that are
        printed of its routes, and their `samples_sha256`.
    files: flagfile -> the numbers that its head says to expect.

In a spec, '...' stands for any value but an empty one.

`papers.json` beside these folders lists every table and figure, and which
flagfiles have it: `recomputed` from the paper's own data or exactly, in
`miniature`, or `prepared` at its size; `impossible` says why not, and a
`drawing` holds no results.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import re
import textwrap
import types
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from wm import core, options
from wm.core import registry
from wm.reporting import catalog, tables
from wm.reporting.collect import Entry, Run
from wm.runtime import files

GIVEN = '...'


class Row(NamedTuple):
  """One printed quantity.

  Attributes:
    page: the table or figure that is shown whole; '' where it is not.
    metric, quantity: names of ours.
    fields: of the metric, those that make it measure this quantity. Of several
      specs that have them the one with most of the paper's settings is
      compared, and then the shortest.
    settings: further fields of the metric that are not at their default.
    free: fields of the metric that do not bear on the quantity.
    world: fields of the world.
    form: of the printed value, as `format` takes it.
    values: model, as `model_key` gives it -> value and standard error.
    where: side column -> its value, where the row is of some trials only.
  """

  page: str
  metric: str
  quantity: str
  fields: Mapping[str, Any]
  settings: Mapping[str, Any]
  free: tuple[str, ...]
  world: Mapping[str, Any]
  form: str
  values: Mapping[str, tuple[float, float | None]]
  where: Mapping[str, Any] = {}


class Trained(NamedTuple):
  """A published model.

  Attributes:
    model: fields of its spec, and its `family`, the name in the spec.
    world: fields of the world that its sequences are from.
    training: fields of OUT/train.run.json.
    parameters: how many; 0 where that is not printed.
  """

  model: Mapping[str, Any] = {}
  world: Mapping[str, Any] = {}
  training: Mapping[str, Any] = {}
  parameters: int = 0


class Paper(types.SimpleNamespace):
  """What one paper prints about one world: its record in published.json.

  In place of `tables` there are `rows`. Names of models (`names`, as printed),
  `models`, and the keys of values are as `model_key` gives them.
  """


def folder() -> pathlib.Path:
  """Returns where the papers' folders are."""
  return options.launch_folder() / 'flags'


@functools.cache
def papers() -> dict[str, tuple[Paper, ...]]:
  """Returns world -> what each paper prints about it, papers in order of
  folder.

  Raises:
    InputError: a published.json is not JSON.
  """
  by_world: dict[str, tuple[Paper, ...]] = {}
  for path in sorted(folder().glob('*/published.json')):
    for world, record in files.read_json(path)['worlds'].items():
      by_world[world] = (*by_world.get(world, ()), _paper(record))
  return by_world


@functools.cache
def model_key(name: str) -> str:
  """Returns a model's name without case and signs: 'Llama-2-70B' ->
  'llama270b'.

  Settings that a sweep adds are left out: 'slice_d128,lr=1e-2' is 'sliced128'.
  """
  name = re.sub(r',\w+=[^,]*', '', name)
  return ''.join(c for c in name.lower() if c.isalnum())


_USUAL: dict[str, Any] = {**{'facts': {}, 'place': '', 'reconstructions': None}}


def _paper(record: Mapping[str, Any]) -> Paper:
  names: dict[str, str] = {}  # model_key -> name as in the file.
  for table in record['tables']:
    names |= {model_key(name): name for name in table['values']}
  names |= {model_key(a): name for a, name in record.get('aliases', {}).items()}
  models = record.get('models', {})
  paper = Paper(**{**_USUAL, **record})
  paper.rows = [row for t in record['tables'] for row in _rows(t, names)]
  paper.names = names
  paper.models = {
    k: _trained(models[name]) for k, name in names.items() if name in models
  }
  if each := paper.reconstructions:
    each['models'] = {model_key(k): x for k, x in each['models'].items()}
  return paper


def _rows(table: Mapping[str, Any], names: Mapping[str, str]) -> list[Row]:
  ((field, many),) = table.get('each', {'': table['quantities']}).items()
  forms = table.get('forms', ['.2f'] * len(many))
  return [
    Row(
      table.get('in', ''),
      registry.parse(table['metric'])[0],
      table['quantities'][0] if field else quantity,
      _fields(table['metric']) | ({field: quantity} if field else {}),
      table.get('settings', {}),
      tuple(table.get('free', ())),
      _fields(table.get('world')),
      forms[column],
      {
        key: tuple(x) if isinstance(x, list) else (x, None)
        for key, name in names.items()
        if name in table['values']
        for values in [table['values'][name][column]]
        for x in [values if place is None else values[place]]
      },
      {} if place is None else {table['by']: table['places'][place]},
    )
    for column, quantity in enumerate(many)
    for place in (range(len(table['places'])) if 'by' in table else [None])
  ]


def _fields(spec: str | None) -> dict[str, Any]:
  return registry.parse(spec)[2] if spec else {}


def _trained(record: Mapping[str, Any]) -> Trained:
  family = registry.parse(record['model'])[0]
  return Trained(
    {'family': family, **_fields(record['model'])},
    _fields(record.get('world')),
    record.get('training', {}),
    record.get('parameters', 0),
  )


HOURS = re.compile(r'needs ([\d.,]+) H100-hours')
STATUSES = 'recomputed', 'miniature', 'prepared', 'impossible', 'drawing'


def contents() -> Iterator[dict[str, Any]]:
  """Yields every table and figure of the papers, and what became of it here.

  Yields:
    `paper`, `item`, `what`, `status` (the first of STATUSES that it has),
    `where` (flagfiles or tests), `hours` of an H100 by the heads of the
    flagfiles that are prepared, and `note`.

  Raises:
    InputError: papers.json is not JSON.
  """
  for paper, items in files.read_json(folder() / 'papers.json').items():
    for item, record in items.items():
      status = next(each for each in STATUSES if record.get(each))
      sources = record[status]
      prepared = record.get('prepared', [])
      hours = [HOURS.search(_head(name)) for name in prepared]
      yield {
        'paper': paper,
        'item': item,
        'what': record['what'],
        'status': status,
        'where': sources if isinstance(sources, list) else [],
        'hours': sum(float(x[1].replace(',', '')) for x in hours if x),
        'note': '; '.join(
          record[name]
          for name in ('impossible', 'note')
          if isinstance(record.get(name), str)
        ),
      }


def _head(name: str) -> str:
  """The comment at the top of a flagfile, in one line."""
  text = (folder() / f'{name}.flags').read_text(encoding='utf-8')
  return text.partition('\n--')[0].replace('\n# ', ' ')


def listed() -> str:
  """Returns every table and figure of the papers, with its status here."""
  parts, paper, indent = [], '', ' ' * 4
  for row in contents():
    if row['paper'] != paper:
      paper = row['paper']
      parts += ['', paper]
    status = row['status']
    if row['hours']:
      hours = f'{row["hours"]:.{0 if row["hours"] >= 10 else 2}f}'
      status += f"; the paper's size takes {hours} H100-hours"
    lines = [f'{row["what"]}: {status}', ', '.join(row['where']), row['note']]
    parts.append(f'  {row["item"]}')
    parts += [
      textwrap.fill(
        line, catalog.WIDTH, initial_indent=indent, subsequent_indent=indent
      )
      for line in filter(None, lines)
    ]
  return '\n'.join(parts[1:])


def differences(source: Paper, row: Row, entry: Entry, run: Run) -> list[str]:
  """Returns the paper's settings that a run lacks, in words; [] if none."""
  trained = source.models.get(model_key(entry['model']), Trained())
  usual = tables.arguments(row.metric)
  fields = registry.find('metric', row.metric).__dataclass_fields__
  metric = {
    key: value
    for key, value in {**usual, **row.fields, **row.settings}.items()
    if key not in row.free and fields[key].compare
  }
  arguments, world = tables.arguments(tables.spec(entry)), entry['world']
  world = filled_fields('world', world)
  if arguments.get('world'):  # It draws what is asked about.
    world |= registry.parse(arguments['world'])[2]
  return [
    *place_difference(source, entry['world']),
    *differing_fields({**row.world, **trained.world}, world),
    *(f'{row.metric} {field}' for field in differing_fields(metric, arguments)),
    *size_differences(
      trained.model, entry.get('model_spec') or run.training.get('model')
    ),
    *training_differences(trained, run),
  ]


def differing_fields(
  expected: Mapping[str, Any], values: Mapping[str, Any]
) -> list[str]:
  """Returns 'trials=1000' for each wanted value that differs from the given
  one.
  """
  return [
    key if value == GIVEN else f'{key}={value!r}'
    for key, value in expected.items()
    if not suits(value, values.get(key))
  ]


def training_differences(trained: Trained, run: Run) -> list[str]:
  """As `lacking`; an imported checkpoint counts as trained like the paper's."""
  imported = 'imported_sha256' in run.training
  return [] if imported else differing_fields(trained.training, run.training)


def place_difference(source: Paper, world: str) -> list[str]:
  """Returns a paper's place if a world's counts are not its `facts`."""
  stats = _facts(world) if source.facts else {}
  same = all(stats.get(k) == x for k, x in source.facts.items())
  return [] if same else [source.place]


@functools.lru_cache
def _facts(world: str) -> dict[str, int]:
  """Returns a world's counts; {} if its files are missing."""
  try:
    instance = registry.make('world', world)
    return instance.stats() if core.can(instance, core.Described.stats) else {}
  except core.InputError:
    return {}


def size_differences(
  expected: Mapping[str, Any], spec: str | None
) -> list[str]:
  """Returns '48 x 1600' if depth or width differ, then further fields that
  do.
  """
  if not expected:
    return []
  fields = filled_fields('model', spec) if spec else {}
  fields |= {'family': registry.parse(spec)[0]} if spec else {}
  missing = differing_fields(expected, fields)
  size = [x for x in missing if x.split('=')[0] in ('layers', 'width')]
  words = [f'{expected["layers"]} x {expected["width"]}'] if size else []
  return [*words, *(x for x in missing if x not in size)]


def filled_fields(kind: str, spec: str) -> dict[str, Any]:
  """Returns a spec's fields, with defaults if the plug-in can be found."""
  name, _, arguments = registry.parse(spec)
  try:
    fields = dataclasses.fields(registry.find(kind, name))
  except core.InputError:
    return arguments
  return {**{field.name: field.default for field in fields}, **arguments}


def suits(expected: Any, value: Any) -> bool:
  """Is a value as wanted?"""
  return bool(value) if expected == GIVEN else expected == value


def has_fields(text: str, fields: Mapping[str, Any]) -> bool:
  """Has the metric of a spec these fields?"""
  arguments = tables.arguments(text)
  return all(suits(value, arguments.get(key)) for key, value in fields.items())
