"""Reads the result files of runs, joins their trials, pools their seeds."""

from __future__ import annotations

import dataclasses
import json
import operator
import pathlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from wm import core
from wm.core import inputs, schema
from wm.evaluation import results
from wm.runtime import files

Entry = dict[str, Any]

# What every entry of a scores.json holds.
_NUMBER = int | float | None
FIELDS = {
  'metric': str,
  'quantity': str,
  'world': str,
  'model': schema.String(4096),
  'n': schema.Number(int, 0),
  'value': _NUMBER,
  'low': _NUMBER,
  'high': _NUMBER,
  'unmeasured': schema.Dictionary(int),
  'seed': int,
}
_TEXT = str | None
OPTIONAL = {
  'spec': str,
  'where': schema.Dictionary(str | float),
  'counts': schema.Dictionary(int),
  'training_seed': int,
  'clusters': int | None,
  'cautions': schema.List(str),
  'checked': str,
  'drift': float,
  'world_notes': schema.Dictionary(str),
  'step': int | None,
  'outliers': int,
  **dict.fromkeys(('median', 'median_low', 'median_high'), _NUMBER),
  **dict.fromkeys(('least', 'most'), _NUMBER),  # Possible values.
  **dict.fromkeys(('interval', 'accept', 'checkpoint'), _TEXT),
  **dict.fromkeys(('commit', 'training', 'recipe', 'model_spec'), _TEXT),
  'rules': _TEXT,
  **dict.fromkeys(('metric_version', 'world_version', 'wm_version'), _TEXT),
  **dict.fromkeys(('status', 'trials_sha256'), _TEXT),
}
# What else a run's folder may hold.
_TRAINED = {
  **dict.fromkeys(('parameters', 'step', 'best_step', 'tokens'), int | None),
  **dict.fromkeys(('seconds', 'best_loss', 'heldout_loss'), _NUMBER),
  'best_loss_moves': _NUMBER,
  **dict.fromkeys(('model', 'world'), str),
}
_EXPOSURE = {
  **dict.fromkeys(('sequences', 'distinct', 'tokens', 'compared'), int),
  **dict.fromkeys(('epochs', 'training_loss', 'heldout_loss'), _NUMBER),
  **dict.fromkeys(('prefixes_shown', 'states_shown'), _NUMBER),
}
_SUMMARY = {'failed': int}
_RATES = {'illegal_directions', 'failed_routes'}
_RATE = {'n': int, **dict.fromkeys(('value', 'low', 'high'), _NUMBER)}
_ENTRIES = schema.List(schema.Object(FIELDS, OPTIONAL))
_MOST = 1e100  # Sums and differences of greater numbers may be infinite.
# What every row of trials holds; more columns may follow.
COLUMNS = ('metric', 'value')


@dataclasses.dataclass(frozen=True)
class Run:
  """Results of one model.

  Attributes:
    folder: where the files are.
    entries: entries of scores.json.
    breakdown: entries of subsets of trials, from breakdown.json.
    curve: training metrics by step, from metrics.jsonl.
    summary: the reconstruction's summary.json, or None.
    training: settings of training, from train.run.json; {} without training.
    seeds: training seeds, if several runs are pooled.
    trained: summary of training, from train.json; {} without training.
    exposure: counts of training data, from exposure.json; {} if unknown.
    each: the pooled runs, one for each seed; () for a single run.
  """

  folder: pathlib.Path
  entries: list[Entry]
  breakdown: list[Entry]
  curve: list[dict[str, float]]
  summary: dict[str, Any] | None
  training: dict[str, Any] = dataclasses.field(default_factory=dict)
  seeds: tuple[int | None, ...] = ()
  trained: dict[str, Any] = dataclasses.field(default_factory=dict)
  exposure: dict[str, Any] = dataclasses.field(default_factory=dict)
  each: tuple[Run, ...] = ()

  @property
  def parameters(self) -> int:
    """Number of parameters of the model; 0 if unknown."""
    return self.trained.get('parameters') or 0

  @property
  def name(self) -> str:
    """The model's name."""
    return self.entries[0]['model'] if self.entries else self.folder.name

  @property
  def world(self) -> str:
    """Spec of the world of the scores; '' without scores."""
    return self.entries[0]['world'] if self.entries else ''


def _entries(path: pathlib.Path, full: Sequence[Entry] = ()) -> list[Entry]:
  """Entries of a file; `full` has those of scores.json for breakdown.json."""
  parts = schema.read(path, schema.List(schema.Object({})))
  parts = schema.check(results.whole(parts, full), _ENTRIES, str(path))
  entries = _usable(parts, path)
  for number, entry in enumerate(entries):
    where = f'{path}: entry {number}'
    if (entry['low'] is None) != (entry['high'] is None):
      raise core.InputError(f'{where} has one end of an interval alone')
    _check_numbers(where, entry)
  return list(entries)


def _check_numbers(where: str, entry: Entry) -> None:
  """Raises InputError where a value or an interval is outside its bounds."""
  if entry['low'] is not None and entry['low'] > entry['high']:
    raise core.InputError(
      f'{where}: low={entry["low"]:g} is above high={entry["high"]:g}'
    )
  least, most = (entry.get(name) for name in results.BOUNDS)
  for name in ('value', 'low', 'high'):
    number, slack = entry[name], 1e-9
    if number is not None and not (
      (least is None or number >= least - slack)
      and (most is None or number <= most + slack)
    ):
      raise core.InputError(
        f'{where}: {name}={number:g} of {entry["quantity"]} is outside its '
        f'bounds, {least} to {most}'
      )


def _usable(value: Any, path: pathlib.Path) -> Any:
  """Reads a JSON file; InputError for numbers that tables lack."""
  parts = [value]
  while parts:
    part = parts.pop()
    if isinstance(part, dict):
      parts += part.values()
    elif isinstance(part, list):
      parts += part
    elif not (part is None or isinstance(part, str) or abs(part) <= _MOST):
      raise core.InputError(
        f'{path} holds {part!r:.60}; expected numbers up to {_MOST:g}'
      )
  return value


def _lines(path: pathlib.Path) -> list[dict[str, float]]:
  rows = []
  with (
    inputs.reading(path, 'a training log'),
    open(path, encoding='utf-8') as file,
  ):
    for number, line in enumerate(file, 1):
      where = f'{path}, line {number}'
      try:
        row = inputs.parse_json(line)
      except (ValueError, RecursionError) as error:
        raise core.InputError(f'{where}: not JSON') from error
      fields = dict.fromkeys(row, int | float) if isinstance(row, dict) else {}
      rows.append(files.record(row, where, {'step': int} | fields))
  _usable(rows, path)
  return rows


def curve(folder: pathlib.Path) -> list[dict[str, float]]:
  """Rows of a run's training log; [] without one."""
  path = folder / 'metrics.jsonl'
  return _lines(path) if path.is_file() else []


def _check_rows(path: pathlib.Path) -> None:
  """Raises InputError if a file of rows lacks a column that every one has."""
  names = results.arrow_names(path)
  missing = [name for name in COLUMNS if name not in names]
  if missing:
    raise core.InputError(f'{path} has no column {missing[0]!r}')


# The objects that a folder may hold: fields that each has, and may have.
_OBJECTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
  'train.run.json': ({}, {}),
  'train.json': ({}, _TRAINED),
  'exposure.json': ({}, _EXPOSURE),
  'summary.json': (_SUMMARY, dict.fromkeys(_RATES, dict)),
}


def _object(path: pathlib.Path) -> dict[str, Any]:
  needed, optional = _OBJECTS[path.name]
  value = _usable(files.read_record(path, needed, optional), path)
  for name in _RATES & optional.keys() & value.keys():
    files.record(value[name], f'{path}: {name}', _RATE)
  return value


def load(folder: str | pathlib.Path) -> Run:
  """Loads the results in a run's folder; raises InputError if there are
  none.
  """
  folder = pathlib.Path(folder)
  with inputs.reading(folder, 'a folder of results'):
    return _load(folder)


def _load(folder: pathlib.Path) -> Run:
  if not (folder / 'scores.json').is_file():
    raise core.InputError(
      f'{folder} has no scores.json; run launch/score.py --out={folder} first'
    )

  def optional(name: str, read: Callable[..., Any] = _object) -> Any:
    path = folder / name
    if path.exists() and not path.is_file():
      raise core.InputError(f'{path} is no file')
    return read(path) if path.exists() else None

  if (folder / 'report.html').is_file():
    raise core.InputError(f'{folder} is a report; expected the folder of a run')
  for name in ('rows.parquet', 'rows.csv'):
    optional(name, _check_rows)
  entries = _entries(folder / 'scores.json')
  results.check_joined(folder, entries)
  return Run(
    folder,
    entries,
    optional('breakdown.json', lambda path: _entries(path, entries)) or [],
    optional('metrics.jsonl', _lines) or [],
    optional('summary.json'),
    optional('train.run.json') or {},
    trained=optional('train.json') or {},
    exposure=optional('exposure.json') or {},
  )


# Trials.


def trials(
  run: Run,
  columns: Sequence[str] = (),
  numbers: Sequence[str] = (),
  at: np.ndarray | None = None,
) -> pd.DataFrame:
  """Columns of a run's rows.csv: as they are, and those that are numbers.

  Without names all columns are read as text; `at` [T] selects rows.

  Returns:
    A row for each trial, none without the file. Numbers are float64, NaN where
    blank; a text that is blank is '', another cell NA.

  Raises:
    InputError: the file is damaged.
  """
  source, names = results.rows_file(run.folder), [*columns, *numbers]
  if source is None:
    return pd.DataFrame(columns=names or [*results.TEXTS])
  table = results.arrow_rows(source, names or None)
  table = table if at is None else _plain(table.take(at))
  frame = table.to_pandas(types_mapper=_nullable)
  if names:
    frame = frame.reindex(columns=names)
  for name in frame.columns.intersection([*results.TEXTS]):
    if frame[name].isna().all():
      frame[name] = ''
  with inputs.reading(source, 'a table of trials'):
    return frame.astype(dict.fromkeys(numbers, 'float64'))


def _nullable(kind: Any) -> Any:
  """A pandas type that keeps integers where cells are blank."""
  return pd.Int64Dtype() if str(kind) == 'int64' else None


def _plain(table: Any) -> Any:
  """A table with plain texts: few rows may use few of the codes."""
  text, fields = results.arrow().string(), [*table.schema]
  kinds = [
    (f.name, text if f.name in results.TEXTS else f.type) for f in fields
  ]
  return table.cast(results.arrow().schema(kinds))


# Training seeds.


def pooled(runs: Sequence[Run]) -> list[Run]:
  """Pools the seeds of a model, in the place of the first.

  Runs are pooled if they share name, world and training settings except the
  seed. An entry of the result holds the mean, the least and the greatest of the
  seeds' values as `value`, `low` and `high`. Its `seeds` are two numbers: seeds
  with a value, and all seeds.
  """
  together: dict[tuple, list[Run]] = {}
  for number, run in enumerate(runs):
    recipe = run.entries[0].get('recipe') if run.entries else None
    key = (run.name, run.world, recipe) if recipe else (number,)
    together.setdefault(key, []).append(run)
  result = []
  for members in together.values():
    several = len(members) > 1 and _apart(members)
    result += [_pool(members)] if several else members
  return result


def _apart(members: Sequence[Run]) -> bool:
  """Does each run have a training of its own?"""
  marks = {run.entries[0].get('training') for run in members}
  return len(marks) == len(members) and None not in marks


def _pool(members: Sequence[Run]) -> Run:
  first = members[0]
  return dataclasses.replace(
    first,
    entries=_merge(run.entries for run in members),
    breakdown=_merge(run.breakdown for run in members),
    seeds=tuple(run.entries[0].get('training_seed') for run in members),
    each=tuple(members),
  )


def _merge(lists: Iterable[Sequence[Entry]]) -> list[Entry]:
  alike: dict[tuple[str, ...], list[Entry]] = {}
  for entries in lists:
    for entry in entries:
      where = json.dumps(entry.get('where'))
      spec = entry.get('spec') or entry['metric']
      key = spec, entry['quantity'], where
      alike.setdefault(key, []).append(entry)
  return [_mean(entries) for entries in alike.values()]


def _mean(entries: Sequence[Entry]) -> Entry:
  measured = [e for e in entries if e['value'] is not None]
  measured.sort(key=operator.itemgetter('value'))
  values, lows, highs = (
    [e[key] for e in measured] for key in ('value', 'low', 'high')
  )
  unmeasured: dict[str, int] = {}
  for entry in entries:
    for cause, num in entry['unmeasured'].items():
      unmeasured[cause] = unmeasured.get(cause, 0) + num
  return {
    **entries[0],
    'n': sum(entry['n'] for entry in entries),
    'clusters': sum(
      entry['n'] if entry.get('clusters') is None else entry['clusters']
      for entry in entries
    ),
    'value': sum(values) / len(values) if values else None,
    'low': min(values, default=None),
    'high': max(values, default=None),
    'unmeasured': unmeasured,
    'seeds': (len(values), len(entries)),
    'seed_values': values,
    'seed_lows': lows,
    'seed_highs': highs,
  }
