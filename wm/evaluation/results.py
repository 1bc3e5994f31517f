"""Result files: rows and summaries of metrics, and their provenance.

    scores/NAME-MARK.npz    a result: the rows of one metric, an array a column,
                            and their summaries as JSON
    scores/NAME-MARK.json   the origin, and hashes of both files
    scores.json             an entry for each quantity of all results
    rows.parquet            all rows of all results
    breakdown.json          entries of subsets of rows, without the fields that
                            are equal in the entry of all rows in scores.json

The rows of a result are written first; the JSON file marks them as complete.
Hashes reveal files that were cut or changed.

A cached result is reused while all inputs of its rows are unchanged
(`wm.runtime.provenance`). If only the statistics have changed, its summaries
are recomputed. `ResultCache` decides this, and reads and writes results.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import hashlib
import importlib.util
import io
import json
import math
import pathlib
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import wm
from wm import core
from wm.core import inputs, registry
from wm.evaluation import context, statistics
from wm.runtime import files, provenance

FOLDER = 'scores'
FORMAT, EARLIER = 3, 2  # The earlier one has summaries in the JSON file.
PACKED = 'entries', 'breakdown', 'scores'  # In the array `summaries`.

Entry = dict[str, Any]
Log = Callable[[str], None]

# Status of an entry: the model's training is finished; it is not finished; no
# trial of the quantity could be measured.
FINISHED, PARTIAL, NOTHING = 'finished', 'partial', 'nothing measured'

# A side column with more values than this is not broken down.
MOST_VALUES = 128
_ARRAYS = ('value', 'reason', 'group', 'weight')  # Arrays of core.Scores.
# Fields of an entry that each of its rows repeats.
_FIXED = ('model', 'world', 'seed', 'metric', 'spec', 'quantity')
# Columns of trials that all quantities of a metric share.
SHARED = ('state', 'prefix', 'other_state', 'other_prefix')
# Columns of rows that every metric has; side columns follow.
COLUMNS = (*_FIXED, 'trial_key', 'row', *_ARRAYS, 'state', 'prefix')
# Two results have the same trials if these fields are equal.
SAME = ('world', 'seed', 'spec', 'metric_version', 'world_version')
# Fields for the least and greatest possible value; None is no bound.
BOUNDS = 'least', 'most'
JOINED = ('scores.json', 'rows.csv', 'rows.parquet', 'breakdown.json')


@dataclasses.dataclass(frozen=True)
class Result:
  """The result of one metric in a folder: its rows and their summaries.

  Attributes:
    spec: spec of the metric.
    origin: inputs that the rows depend on; see provenance.Origin.
    unknown: reason why there may be further inputs, or ''; a result with
      unknown inputs is not reused.
    about: fields of entries that describe the run.
    entries, breakdown: the summaries.
    scores: the rows.
    fingerprint: answers that identify the model; see `core.contract.Contract`.
  """

  spec: str
  origin: dict[str, str]
  unknown: str
  about: Entry
  entries: list[Entry]
  breakdown: list[Entry]
  scores: tuple[core.Scores, ...]
  fingerprint: tuple[float, ...] = ()


class Unusable(Exception):
  """A cached result cannot be used; the message is the reason.

  Attributes:
    spec: spec of its metric, '' if it cannot be read.
  """

  def __init__(self, why: str, spec: str = '') -> None:
    super().__init__(why)
    self.spec = spec


def path(folder: pathlib.Path, name: str, spec: str) -> pathlib.Path:
  """The JSON file of a metric's result."""
  mark = hashlib.sha256(spec.encode()).hexdigest()[:12]
  name = re.sub(r'[^\w.-]+', '_', name)  # May be the path of a user's file.
  return folder / FOLDER / f'{name}-{mark}.json'


def paths(folder: pathlib.Path) -> list[pathlib.Path]:
  """JSON files of all results in a run's folder."""
  return sorted((folder / FOLDER).glob('*.json'))


def remove(path: pathlib.Path) -> None:
  """Removes a result; earlier versions of wm stored rows as CSV."""
  for suffix in ('.json', '.npz', '.csv'):
    path.with_suffix(suffix).unlink(missing_ok=True)


def _array(column: np.ndarray) -> np.ndarray:
  """Converts a column to a type that can be read without running code."""
  column = np.asarray(column)
  # An array of objects would be pickled.
  return column.astype(str) if column.dtype == object else column


def write(path: pathlib.Path, result: Result) -> None:
  """Writes a result: its rows, then the JSON file that marks them complete."""
  # Arrays of Scores k are named k.value, k.reason, ...; its side columns are
  # k.side0, k.side1, ..., as a column's name may be invalid in a zip file.
  # Quantities share most groups and weights: an array is stored once.
  arrays: dict[str, Any] = {}
  stored: dict[Any, str] = {}
  heads = []
  for k, scores in enumerate(result.scores):
    named = {name: getattr(scores, name) for name in _ARRAYS}
    sides = enumerate(scores.columns.values())
    same = {}
    for name, column in (named | {f'side{n}': x for n, x in sides}).items():
      array = _array(column)
      key = array.dtype.str, array.shape, array.tobytes()
      first = stored.setdefault(key, f'{k}.{name}')
      if first == f'{k}.{name}':
        arrays[first] = array
      else:
        same[name] = first
    heads.append(
      {
        'quantity': scores.quantity,
        'columns': list(scores.columns),
        'same': same,
        'counts': {cause: int(num) for cause, num in scores.counts.items()},
        'bounds': _finite(scores.bounds),
        'outliers': scores.outliers,
      }
    )
  body = {**vars(result), 'scores': heads, 'wm_version': wm.__version__}
  # Compressed, as entries repeat most of their fields.
  summaries = json.dumps({name: body.pop(name) for name in PACKED})
  arrays['summaries'] = np.frombuffer(summaries.encode(), np.uint8)
  rows = path.with_suffix('.npz')
  # Rows first: the JSON file marks them as complete.
  with files.replacing(rows) as temporary, open(temporary, 'wb') as file:
    np.savez_compressed(file, **arrays)
  body['rows_sha256'] = files.sha256(rows)
  digest = files.json_hash(body)
  files.write_json(path, {'format': FORMAT, 'sha256': digest, **body})


def read(path: pathlib.Path) -> Result:
  """Reads a result; raises Unusable if it is damaged or of another version."""
  body, held = _opened(path)
  heads, _ = body.pop('scores'), body.pop('wm_version')
  body.pop('summed_from', None)  # Of an earlier version.
  body['fingerprint'] = tuple(body.get('fingerprint', ()))
  with np.load(io.BytesIO(held), allow_pickle=False) as arrays:
    return Result(scores=tuple(_scores(arrays, heads)), **body)


def _opened(path: pathlib.Path) -> tuple[Entry, bytes]:
  """A result's JSON with its summaries, and the content of its npz file."""
  name = f'{path.parent.name}/{path.name}'
  try:
    body = json.loads(path.read_bytes())
  except ValueError:
    body = None
  if not isinstance(body, dict):
    raise Unusable(f'{name} is damaged: it is not whole JSON')
  version = body.pop('format', None)
  if version not in (FORMAT, EARLIER):
    raise Unusable(*_of_another_version(name, body))
  if body.pop('sha256', None) != files.json_hash(body):
    raise Unusable(f'{name} is damaged: its hash is wrong', _spec(body))
  rows, spec = path.with_suffix('.npz'), body['spec']
  # Read once, so that the hashed bytes are the bytes in use.
  held = rows.read_bytes() if rows.is_file() else b''
  if hashlib.sha256(held).hexdigest() != body.pop('rows_sha256'):
    why = 'its hash is wrong' if held else 'it is missing or empty'
    raise Unusable(f'{FOLDER}/{rows.name} is damaged: {why}', spec)
  if version == FORMAT:
    try:
      with np.load(io.BytesIO(held), allow_pickle=False) as arrays:
        packed = json.loads(arrays['summaries'].tobytes())
      body |= {name: packed[name] for name in PACKED}
    except (KeyError, TypeError, ValueError) as error:
      why = f'{FOLDER}/{rows.name} is damaged: it has no summaries'
      raise Unusable(why, spec) from error
  return body, held


def _spec(body: Entry) -> str:
  spec = body.get('spec')
  return spec if isinstance(spec, str) else ''


def _of_another_version(name: str, body: Entry) -> tuple[str, str]:
  """The reason and the spec of a result in another format."""
  entries = body.get('entries')
  first = entries[0] if isinstance(entries, list) and entries else {}
  first = first if isinstance(first, dict) else {}
  version = body.get('wm_version', first.get('wm_version', '?'))
  why = (
    f'{name} was written by wm {version} in a format that does not say what it '
    'was measured from'
  )
  return why, _spec(body) or _spec(first)


def _scores(arrays: Any, heads: Sequence[Entry]) -> Iterator[core.Scores]:
  for k, head in enumerate(heads):
    sides = [f'side{n}' for n in range(len(head['columns']))]
    # Older results have every array under its own name.
    same = head.get('same', {})
    read = {n: arrays[same.get(n, f'{k}.{n}')] for n in (*_ARRAYS, *sides)}
    yield core.Scores(
      quantity=head['quantity'],
      **{name: read[name] for name in _ARRAYS},
      columns={c: read[s] for c, s in zip(head['columns'], sides, strict=True)},
      counts=head['counts'],
      bounds=_bounds(head['bounds']),
      outliers=head.get('outliers', False),
    )


def _finite(
  bounds: tuple[float, float | None] | None,
) -> list[float | None] | None:
  """Bounds for JSON, None for an infinite one; `_bounds` reads them."""
  if bounds is None:
    return None
  # JSON has no infinity.
  return [
    float(x) if x is not None and math.isfinite(x) else None for x in bounds
  ]


def _bounds(
  ends: list[float | None] | None,
) -> tuple[float, float | None] | None:
  if ends is None:
    return None
  least, most = ends
  return -math.inf if least is None else least, most


def entry(
  metric: core.Metric,
  scores: core.Scores,
  world: core.World,
  summary: statistics.Summary,
  *,
  seed: int,
  model_name: str,
  extra: Entry,
) -> Entry:
  """One object of scores.json.

  Args:
    metric, world: the metric, and the world that it ran in.
    scores: the rows of one quantity.
    summary: summary of these rows.
    seed: seed of the run.
    model_name: the model's name in tables.
    extra: further fields.
  """
  status = extra.get('status', FINISHED)
  return {
    'metric': metric.name,
    'quantity': scores.quantity,
    'world': registry.spec(world),
    'model': model_name,
    **summary,
    **dict(zip(BOUNDS, _finite(scores.limits) or (), strict=True)),
    'seed': seed,
    'spec': registry.spec(metric),
    'accept': vars(metric).get('accept'),
    'counts': {cause: int(num) for cause, num in scores.counts.items()},
    'trials_sha256': trials_hash(scores),
    'metric_version': metric.version,
    'world_version': world.version,
    'wm_version': wm.__version__,
    'cautions': [],
    **extra,
    'status': status if summary['n'] else NOTHING,
  }


def trials_hash(scores: core.Scores) -> str:
  """Hash of a quantity's trials, from which its summary is computed."""
  # The hash depends on values, reasons, groups and weights, not on dtypes.
  digest = hashlib.sha256(scores.quantity.encode())
  for name in _ARRAYS:
    column = _array(getattr(scores, name))
    # The padding of texts depends on the longest text, and is left out.
    texts = column.dtype.kind == 'U'
    digest.update('\n'.join(column).encode() if texts else column.tobytes())
  return digest.hexdigest()[:16]


def check_joined(folder: pathlib.Path, entries: Sequence[Entry]) -> None:
  """Raises InputError if a scores.json does not match its trials."""
  summaries: dict[tuple[str, str], Entry] = {}
  for file in paths(folder):
    # A damaged result cannot be compared: the entries are accepted.
    with contextlib.suppress(Unusable):
      stored = _opened(file)[0]['entries']
      summaries |= {(e['spec'], e['quantity']): e for e in stored}
  for entry in entries:
    first = summaries.get((entry.get('spec', ''), entry['quantity']))
    if first is None or 'trials_sha256' not in first:
      continue  # An entry of another folder, or of an earlier version.
    for name in ('trials_sha256', 'n', 'value', 'low', 'high'):
      if entry.get(name) != first[name]:
        raise core.InputError(
          f'{folder}/scores.json has {name} {entry.get(name)} of '
          f'{entry["metric"]}: {entry["quantity"]}, and its trials have '
          f'{first[name]}; expected the file that launch/score.py wrote'
        )


def breakdown(
  metric: core.Metric, scores: core.Scores, world: core.World, **about: Any
) -> Iterator[Entry]:
  """Entries of subsets, by the world's tags and the metric's `breakdown`.

  Each entry has `where`, the column and its value. about: as in `entry`.
  """
  for name in (*context.tags(world, world.init(1)), *metric.breakdown):
    # A column with one value repeats the whole; one with very many, such as
    # ids, gives no useful subsets.
    column = scores.columns.get(name)
    if column is None or not 1 < len(np.unique(column)) <= MOST_VALUES:
      continue
    for value, summary in statistics.by_column(scores, name, about['seed']):
      subset = entry(metric, scores, world, summary, **about)
      # Counts are for all trials; they do not belong to one value.
      yield {**subset, 'counts': {}, 'where': {name: value}}


def brief(part: Entry, full: Entry) -> Entry:
  """An entry of a breakdown without what `full`, that of all rows, has, too."""
  names = 'spec', 'quantity'
  short = {k: x for k, x in part.items() if k in names or full.get(k) != x}
  return short if {**full, **short} == part else part


def whole(parts: Sequence[Entry], entries: Sequence[Entry]) -> list[Entry]:
  """Entries of breakdown.json with the fields that `brief` left out.

  entries: of scores.json.
  """
  full = {(e.get('spec'), e['quantity']): e for e in entries}
  return [
    part
    if 'metric' in part  # Of an earlier version, or nothing was left out.
    else full.get((str(part.get('spec')), str(part.get('quantity'))), {}) | part
    for part in parts
  ]


def summarize(
  metric: core.Metric,
  quantities: Sequence[core.Scores],
  world: core.World,
  **about: Any,
) -> tuple[list[Entry], list[Entry]]:
  """Entries of a metric's quantities, and of their breakdowns; see `entry`."""
  entries, parts = [], list[Entry]()
  for scores in quantities:
    summary = statistics.summarize(scores, about['seed'])
    entries.append(entry(metric, scores, world, summary, **about))
    parts += breakdown(metric, scores, world, **about)
  return entries, parts


def trial_keys(entry: Entry, scores: core.Scores, shared: Entry) -> np.ndarray:
  """[T] str keys; rows of two models have equal keys for the same trial.

  World, metric, their versions, seed and row determine the trial, unless it
  depends on the model (`prefix_filter='model'`): then the drawn prefixes are
  part of the key. Keys are unique within a run. A key is text whose parts
  repeat, as a hash for each row would not compress.

  Args:
    entry: entry of these rows.
    scores: the rows.
    shared: side columns of the trials; see `shared_columns`.
  """
  claim = [entry['quantity'], *(entry.get(name) for name in SAME)]
  parts = [np.arange(len(scores.value)), np.asarray(scores.group)]
  # Without a second prefix, the prefix may not be part of the drawn trial.
  if 'other_prefix' in shared:
    parts += [
      np.array([zlib.crc32(text.encode()) for text in shared[name].tolist()])
      for name in ('prefix', 'other_prefix')
    ]
  start = files.json_hash(claim)[:15]
  rows = zip(*(part.tolist() for part in parts), strict=True)
  return np.array(['-'.join(map(str, (start, *row))) for row in rows], str)


def shared_columns(
  result: Result, scores: core.Scores
) -> dict[str, np.ndarray]:
  """States and prefixes of the trials of one quantity.

  A metric writes them with one quantity only; other quantities of the same
  trials have equal groups.
  """
  shared: dict[str, np.ndarray] = {}
  for other in (scores, *result.scores):
    if np.array_equal(other.group, scores.group):
      columns = {k: x for k, x in other.columns.items() if k in SHARED}
      shared = {**columns, **shared}
  return shared


# Columns that are text even if all of their cells look like numbers.
TEXTS = (
  *('run', 'model', 'world', 'metric', 'spec', 'quantity', 'trial_key'),
  *('reason', *SHARED, 'suffix', 'outcome'),
  *('location', 'false_tokens', 'missing_tokens'),  # Names may be numbers.
)
CODED = tuple(name for name in TEXTS if name != 'trial_key')


def arrow(part: str = '') -> Any:
  """pyarrow or its module `part`, e.g. '.parquet', imported on first use."""
  return importlib.import_module(f'pyarrow{part}')


def coded_text() -> Any:
  """The Arrow type (dictionary-encoded) of texts that repeat."""
  return arrow().dictionary(arrow().int32(), arrow().string())


def _arrow_array(name: str, column: np.ndarray) -> Any:
  """A column of rows for Arrow; NaN is null."""
  if name in CODED:
    return arrow().array(column.astype(str)).cast(coded_text())
  if column.dtype.kind in 'OSU':  # Python's own objects are of one kind.
    return arrow().array(column.tolist(), from_pandas=True)
  # Metrics have integers of several sizes; files have one.
  sizes = {'i': np.int64, 'u': np.int64, 'f': np.float64}
  wide = column.astype(sizes.get(column.dtype.kind, column.dtype))
  return arrow().array(wide, from_pandas=True)


def rows_table(results: Sequence[Result]) -> Any:
  """All rows of results as an Arrow table, with the union of their columns.

  A blank text is ''; other blanks are null, as is the value of a trial that
  could not be measured.
  """
  tables = []
  for result in results:
    for scores, entry in zip(result.scores, result.entries, strict=True):
      num = len(scores.value)
      shared = shared_columns(result, scores)
      measured = np.where(scores.reason == '', scores.value, np.nan)
      # No side column can replace the metric's name.
      columns = {
        **shared,
        **scores.columns,
        'row': np.arange(num),
        **{name: getattr(scores, name) for name in _ARRAYS},
        'value': measured.astype(np.float64),
        'trial_key': trial_keys(entry, scores, shared),
        **{name: np.full(num, entry[name]) for name in _FIXED},
      }
      arrays = {k: _arrow_array(k, np.asarray(x)) for k, x in columns.items()}
      tables.append(arrow().table(arrays))
  names = dict.fromkeys(
    [*COLUMNS, *(n for t in tables for n in t.column_names)]
  )
  return concatenated(tables, [*names])


def concatenated(tables: Sequence[Any], names: Sequence[str]) -> Any:
  """Tables of rows one below the other, with these columns.

  A column that is text in one of them is text; '' is a text that one lacks.
  """
  lib = arrow()
  kinds = {
    name: _kind(name, {t[name].type for t in tables if name in t.column_names})
    for name in names
  }
  schema = lib.schema(kinds.items())

  def column(table: Any, name: str) -> Any:
    if name in table.column_names:
      cells = table[name]
      return cells if cells.type == kinds[name] else cells.cast(kinds[name])
    blank = lib.scalar('' if name in TEXTS else None, lib.string())
    return lib.repeat(blank, len(table)).cast(kinds[name])

  whole = [
    lib.table([column(table, name) for name in names], schema)
    for table in tables
  ]
  return lib.concat_tables(whole) if whole else schema.empty_table()


def _kind(name: str, kinds: set[Any]) -> Any:
  """The type of a column that tables have as these."""
  lib = arrow()
  several = kinds - {lib.null()}
  if name in CODED:
    return coded_text()
  if len(several) == 1:
    return several.pop()
  if several and several <= {lib.int64(), lib.float64()}:
    return lib.float64()
  return lib.string()


def write_parquet(table: Any, target: pathlib.Path | str) -> None:
  """Writes a table of rows; texts are read as plain strings."""
  # Texts with the same beginning, a count, and numbers that repeat in runs.
  ways = {
    'trial_key': 'DELTA_BYTE_ARRAY',
    'row': 'DELTA_BINARY_PACKED',
    'group': 'BYTE_STREAM_SPLIT',
  }
  names = table.column_names
  arrow('.parquet').write_table(
    table,
    target,
    compression='zstd',
    compression_level=9,
    use_dictionary=[name for name in names if name not in ways],
    column_encoding={name: ways[name] for name in names if name in ways},
    write_page_checksum=True,
    store_schema=False,
  )


def rows_file(folder: pathlib.Path) -> pathlib.Path | None:
  """The rows of a run's folder: rows.parquet, or an older run's rows.csv."""
  paths = folder / 'rows.parquet', folder / 'rows.csv'
  return next((path for path in paths if path.is_file()), None)


def arrow_names(source: pathlib.Path) -> list[str]:
  """Columns of a file of rows; InputError if it is damaged."""
  with inputs.reading(source, 'a table of trials'):
    if source.suffix == '.csv':
      with open(source, encoding='utf-8', newline='') as file:
        return next(csv.reader(file), [])
    names: list[str] = arrow('.parquet').read_schema(source).names
    return names


def arrow_rows(
  source: pathlib.Path, columns: Sequence[str] | None = None
) -> Any:
  """Reads a file of rows as an Arrow table.

  Args:
    source: as `rows_file` gives it.
    columns: columns to read if the file has them; default: all.

  Returns:
    A table. Texts, except keys of trials, are of type `coded_text`. A blank
    text is ''; other blanks are null.

  Raises:
    InputError: the file is damaged.
  """
  with inputs.reading(source, 'a table of trials'):
    if source.suffix == '.csv':
      table = _parsed(source)
      names = table.column_names
      return table.select([n for n in names if columns is None or n in columns])
    names = arrow_names(source)
    with arrow('.parquet').ParquetFile(
      source,
      read_dictionary=[name for name in names if name in CODED],
      page_checksum_verification=True,
    ) as file:
      return file.read([n for n in names if columns is None or n in columns])


def _parsed(source: pathlib.Path) -> Any:
  """Reads a CSV of rows as an Arrow table; types are inferred from all rows."""
  csvs = arrow('.csv')
  size = min(max(source.stat().st_size, 1), 2**31 - 1)  # One block.
  types = {
    **dict.fromkeys(CODED, coded_text()),
    **{'trial_key': arrow().string(), 'value': arrow().float64()},
  }
  return csvs.read_csv(
    source,
    read_options=csvs.ReadOptions(block_size=size),
    parse_options=csvs.ParseOptions(newlines_in_values=True),
    convert_options=csvs.ConvertOptions(column_types=types, null_values=['']),
  )


def join(folder: pathlib.Path, results: Sequence[Result]) -> list[Entry]:
  """Writes scores.json, rows and breakdown of all results."""
  with files.replacing(folder / 'rows.parquet') as temporary:
    write_parquet(rows_table(results), temporary)
  # scores.json is last: if it exists, the others do.
  entries = [e for result in results for e in result.entries]
  full = {(e['spec'], e['quantity']): e for e in entries}
  parts = [e for result in results for e in result.breakdown]
  short = [brief(e, full[e['spec'], e['quantity']]) for e in parts]
  files.write_json(folder / 'breakdown.json', short)
  files.write_json(folder / 'scores.json', entries)
  (folder / 'rows.csv').unlink(missing_ok=True)  # Of an earlier version.
  return entries


class ResultCache:
  """Cached and newly computed metric results of a run folder."""

  def __init__(
    self,
    folder: pathlib.Path,
    claim: Mapping[str, Any],
    world: core.World,
    origin: provenance.Origin,
    about: Entry,
    log: Log,
    fingerprint: tuple[float, ...] = (),
  ) -> None:
    """Checks that the folder is free.

    Args:
      folder: folder of the run.
      claim: run that the first result claims the folder for.
      world: the world that is scored.
      origin: inputs of the predictor.
      about: fields of entries that describe the run.
      log: gets a line on each cached result: reused, or why not.
      fingerprint: answers that identify a model with unknown inputs.

    Raises:
      InputError: the folder is claimed for another run.
    """
    self.fingerprint = fingerprint
    files.claimed(folder, 'score', claim)
    self.folder, self.claim, self.world = folder, claim, world
    self.about, self.log, self.made_of = about, log, origin
    self.reader = provenance.Reader()
    self.origins: dict[str, provenance.Origin] = {}

  def origin(self, metric: core.Metric) -> provenance.Origin:
    """All inputs of the metric's rows, as of the first call."""
    # Taken before measuring: a source file may change during the run.
    spec = registry.spec(metric)
    if spec not in self.origins:
      origin = self.reader.of(metric, self.world, self.made_of.inputs)
      unknown = origin.unknown or self.made_of.unknown
      self.origins[spec] = origin._replace(unknown=unknown)
    return self.origins[spec]

  def load_unchanged(
    self, asked: Mapping[str, core.Metric]
  ) -> dict[str, Result]:
    """Spec -> cached result whose inputs are unchanged."""
    for metric in asked.values():
      self.origin(metric)  # Before anything is measured.
    if self.made_of.unknown:
      self.log(f'{self.made_of.unknown}: all is recomputed each time')
    unchanged, stale = {}, False
    for file in paths(self.folder):
      try:
        result = self._load_if_unchanged(file, asked)
        unchanged[result.spec] = result
      # Damaged, of another version, or from other inputs: recomputed silently.
      except Unusable as error:
        stale = True
        self._discard(file, asked, error)
    # Files joined from stale results must not be read.
    if stale:
      for name in JOINED:
        (self.folder / name).unlink(missing_ok=True)
    return unchanged

  def _load_if_unchanged(
    self, file: pathlib.Path, asked: Mapping[str, core.Metric]
  ) -> Result:
    """A cached result; raises Unusable."""
    result = read(file)
    # Its metric may be in a user's file that was removed.
    try:
      metric = asked.get(result.spec) or registry.make('metric', result.spec)
    except core.InputError as error:
      raise Unusable(str(error), result.spec) from error
    origin = self.origin(metric)
    why = result.unknown or origin.unknown
    # Other results of the same model stay in the folder.
    if result.spec not in asked and self._is_same(result):
      why = ''
    why = why or provenance.difference(result.origin, origin.inputs)
    if why:
      raise Unusable(why, result.spec)
    self.log(f'{result.spec}: cached')
    about = self._renewed(result.about)
    if about == result.about:
      return result
    return self._written(metric, file, dataclasses.replace(result, about=about))

  def _renewed(self, about: Entry) -> Entry:
    """Updates fields of the run: its training may have ended since."""
    before, now = about['extra'], self.about['extra']
    if 'checked' in before:  # Fields from the checks of a user's model.
      return about
    of_run = 'status', 'cautions'
    others = {k: x for k, x in before.items() if k not in of_run}
    of_now = {k: now[k] for k in of_run if k in now}
    return {**about, 'extra': {**others, 'cautions': [], **of_now}}

  def _is_same(self, result: Result) -> bool:
    """Is a result of the same model, judged by the fingerprint?"""
    # Answers of one model differ by rounding only.
    before, now = result.fingerprint, self.fingerprint
    return len(before) == len(now) > 0 and np.allclose(before, now, atol=1e-3)

  def _discard(
    self, file: pathlib.Path, asked: Mapping[str, core.Metric], error: Unusable
  ) -> None:
    """Logs why a result is not used; removes it if it will be recomputed."""
    # An unreadable result is identified by its file name.
    specs = {path(self.folder, m.name, s): s for s, m in asked.items()}
    spec = error.spec or specs.get(file, file.stem)
    if spec not in asked:
      self.log(f'{spec}: left out, name the metric to recompute it: {error}')
      return
    remove(file)
    if not self.made_of.unknown:
      self.log(f'{spec}: recomputed: {error}')

  def _written(
    self, metric: core.Metric, file: pathlib.Path, result: Result
  ) -> Result:
    """Summarizes the rows of a result and writes it."""
    entries, breakdown = summarize(
      metric, result.scores, self.world, **result.about
    )
    # Written at once, so that a killed run keeps its results.
    result = dataclasses.replace(result, entries=entries, breakdown=breakdown)
    write(file, result)
    return result

  def add(
    self,
    metric: core.Metric,
    rows: tuple[core.Scores, ...],
    settled: Mapping[str, Any],
  ) -> Result:
    """Claims the folder and writes the result of a metric.

    settled: fields of entries from the model's checks; see `Contract.settle`.
    """
    # Claimed with the first result, so that a run that fails leaves no mark.
    files.claim(self.folder, 'score', self.claim)
    spec, origin = registry.spec(metric), self.origin(metric)
    file = path(self.folder, metric.name, spec)
    # Cautions of the run, e.g. on its training, then of this metric.
    cautions = [*self.about['extra'].get('cautions', ())]
    cautions += settled.get('cautions', ())
    extra = {**self.about['extra'], **settled, 'cautions': cautions}
    about = {**self.about, 'extra': extra}
    parts: Any = (spec, *origin, about, [], [], rows, self.fingerprint)
    result = Result(*parts)
    return self._written(metric, file, result)
