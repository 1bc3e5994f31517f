"""Result files: what metrics found, summed up, and what it was measured from.

    scores/NAME-MARK.npz    a result: the rows of one metric, an array a column
    scores/NAME-MARK.json   the origin of rows and of summaries, the summaries,
                            and hashes of both files
    scores.json             an entry for each quantity of all results
    rows.csv                all rows of all results, and rows.parquet where
                            there is pyarrow
    breakdown.json          entries of subsets of rows
    unfinished/             what the metric at work has so far

Of a result the rows are written first, and the JSON file says that they are
whole. A file that was cut or changed is found out by its hash.

A cached result is reused while all that its rows depend on is unchanged
(`wm.runtime.provenance`). Its summaries are recomputed where only the
statistics have changed. `ResultCache` decides, and reads and writes results.
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
from typing import Any, TextIO

import numpy as np

import wm
from wm import core
from wm.core import basics, inputs, registry
from wm.evaluation import context, statistics
from wm.runtime import files, provenance

FOLDER = 'scores'
UNFINISHED = 'unfinished'  # Folder of what a metric has so far.
FORMAT = 2

Entry = dict[str, Any]
Log = Callable[[str], None]

# What a trial depends on besides the things themselves; what sums them up.
_ENGINE = ('wm.evaluation.needs', 'wm.evaluation.engine', 'wm.core.accept')
_SUMMARIES = (__name__,)

# A side column is broken down only where it takes no more values than this.
MOST_VALUES = 128
_ARRAYS = ('value', 'reason', 'group', 'weight')  # Of each core.Scores.
# Fields of an entry that each of its rows repeats.
_FIXED = ('model', 'world', 'seed', 'metric', 'spec', 'quantity')
# Columns of trials that other quantities of the metric have too.
_SHARED = ('state', 'prefix', 'other_state', 'other_prefix')
# Columns of rows.csv that every metric has; side columns follow.
COLUMNS = (*_FIXED, 'trial_key', 'row', *_ARRAYS, 'state', 'prefix')
# What two results must share for their trials to be the same.
SAME = ('world', 'seed', 'spec', 'metric_version', 'world_version')
# Least and greatest value that a quantity may have; None is no bound.
BOUNDS = 'least', 'most'
JOINED = ('scores.json', 'rows.csv', 'rows.parquet', 'breakdown.json')


@dataclasses.dataclass(frozen=True)
class Result:
  """The result of one metric in a folder: its rows and their summaries.

  Attributes:
    spec: of the metric.
    origin: inputs that the rows depend on, see provenance.Origin.
    unknown: why that may not be all; such a result is not reused.
    summed_from: inputs that the summaries depend on besides the rows.
    about: of the run: what entries say besides.
    entries, breakdown: the summaries.
    scores: the rows.
  """

  spec: str
  origin: dict[str, str]
  unknown: str
  summed_from: dict[str, str]
  about: Entry
  entries: list[Entry]
  breakdown: list[Entry]
  scores: tuple[core.Scores, ...]


class Unusable(Exception):
  """A cached result that cannot be used; says why.

  Attributes:
    spec: of its metric, '' where that cannot be read.
  """

  def __init__(self, why: str, spec: str = '') -> None:
    super().__init__(why)
    self.spec = spec


def path(folder: pathlib.Path, name: str, spec: str) -> pathlib.Path:
  """The JSON file of a metric's result."""
  mark = hashlib.sha256(spec.encode()).hexdigest()[:12]
  name = re.sub(r'[^\w.-]+', '_', name)  # Of a user's file, its path.
  return folder / FOLDER / f'{name}-{mark}.json'


def paths(folder: pathlib.Path) -> list[pathlib.Path]:
  """JSON files of all results in a run's folder."""
  return sorted((folder / FOLDER).glob('*.json'))


def remove(path: pathlib.Path) -> None:
  """Removes a result; one of an earlier version has its rows as CSV."""
  for suffix in ('.json', '.npz', '.csv'):
    path.with_suffix(suffix).unlink(missing_ok=True)


def _array(column: np.ndarray) -> np.ndarray:
  """A column in a form that is read without running code."""
  column = np.asarray(column)
  # An array of objects would be pickled.
  return column.astype(str) if column.dtype == object else column


def write(path: pathlib.Path, result: Result) -> None:
  """Writes a result: rows, then what says that they are there."""
  # Arrays of Scores k are called k.value, k.reason, ...; its side columns
  # k.side0, k.side1, ..., as a column's name may be no name of a file in a zip.
  arrays: dict[str, Any] = {}
  heads = []
  for k, scores in enumerate(result.scores):
    for name in _ARRAYS:
      arrays[f'{k}.{name}'] = _array(getattr(scores, name))
    for n, column in enumerate(scores.columns.values()):
      arrays[f'{k}.side{n}'] = _array(column)
    heads.append(
      {
        'quantity': scores.quantity,
        'columns': list(scores.columns),
        'counts': {cause: int(num) for cause, num in scores.counts.items()},
        'bounds': _finite(scores.bounds),
        'outliers': scores.outliers,
        'sequential': scores.sequential,
      }
    )
  rows = path.with_suffix('.npz')
  # Rows first: a JSON file beside them says that they are whole.
  with files.replacing(rows) as temporary, open(temporary, 'wb') as file:
    np.savez_compressed(file, **arrays)
  body = {name: x for name, x in vars(result).items() if name != 'scores'} | {
    'wm_version': wm.__version__,
    'scores': heads,
    'rows_sha256': files.sha256(rows),
  }
  digest = files.json_hash(body)
  files.write_json(path, {'format': FORMAT, 'sha256': digest, **body})


def read(path: pathlib.Path) -> Result:
  """The result that was written; raises Unusable."""
  name = f'{path.parent.name}/{path.name}'
  try:
    body = json.loads(path.read_bytes())
  except ValueError:
    body = None
  if not isinstance(body, dict):
    raise Unusable(f'{name} is damaged: it is not whole JSON')
  if body.pop('format', None) != FORMAT:
    raise Unusable(*_of_another_version(name, body))
  if body.pop('sha256', None) != files.json_hash(body):
    raise Unusable(f'{name} is damaged: its hash is wrong', _spec(body))
  rows, spec = path.with_suffix('.npz'), body['spec']
  # Read once: what is hashed is what is used.
  held = rows.read_bytes() if rows.is_file() else b''
  if hashlib.sha256(held).hexdigest() != body.pop('rows_sha256'):
    why = 'its hash is wrong' if held else 'it is missing or empty'
    raise Unusable(f'{FOLDER}/{rows.name} is damaged: {why}', spec)
  heads, _ = body.pop('scores'), body.pop('wm_version')
  with np.load(io.BytesIO(held), allow_pickle=False) as arrays:
    return Result(scores=tuple(_scores(arrays, heads)), **body)


def _spec(body: Entry) -> str:
  spec = body.get('spec')
  return spec if isinstance(spec, str) else ''


def _of_another_version(name: str, body: Entry) -> tuple[str, str]:
  """Why, and the spec: before format 2 results were known by specs alone."""
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
    yield core.Scores(
      quantity=head['quantity'],
      **{name: arrays[f'{k}.{name}'] for name in _ARRAYS},
      columns={
        name: arrays[f'{k}.side{n}'] for n, name in enumerate(head['columns'])
      },
      counts=head['counts'],
      bounds=_bounds(head['bounds']),
      outliers=head.get('outliers', False),
      sequential=head.get('sequential', False),
    )


def _finite(
  bounds: tuple[float, float | None] | None,
) -> list[float | None] | None:
  """Bounds as JSON has them, None for what is infinite; `_bounds` reads it."""
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
    metric, world: what was measured, and where.
    scores: the rows of one quantity.
    summary: of these rows.
    seed: of the run.
    model_name: name in tables.
    extra: further fields.
  """
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
    'metric_version': metric.version,
    'world_version': world.version,
    'wm_version': wm.__version__,
    **extra,
  }


def breakdown(
  metric: core.Metric, scores: core.Scores, world: core.World, **about: Any
) -> Iterator[Entry]:
  """Entries of subsets: by each of the world's tags, and as the metric says.

  Each entry has `where`, the column and its value; about: as in `entry`.
  """
  for name in (*context.tags(world, world.init(1)), *metric.breakdown):
    # A column of one value repeats the whole; one of very many, such as ids, is
    # no breakdown.
    column = scores.columns.get(name)
    if column is None or not 1 < len(np.unique(column)) <= MOST_VALUES:
      continue
    for value, summary in statistics.by_column(scores, name, about['seed']):
      subset = entry(metric, scores, world, summary, **about)
      # Counts are of all trials: nothing says which value they belong to.
      yield {**subset, 'counts': {}, 'where': {name: value}}


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
  """[T] str: equal for two models exactly where they have the same trial.

  World, metric, their versions, seed and row say what was drawn, except where
  it depends on the model (`prefix_filter='model'`): there the drawn prefixes
  are part of the key. No key comes twice in a run.

  Args:
    entry: of these rows.
    scores: the rows.
    shared: side columns of the trials, see `shared_columns`.
  """
  claim = [entry['quantity'], *(entry.get(name) for name in SAME)]
  start = int(files.json_hash(claim)[:15], 16)
  drawn: list[Any] = []
  # A prefix alone may be what the model was read up to, not what was drawn.
  if 'other_prefix' in shared:
    drawn = [
      np.array([zlib.crc32(text.encode()) for text in shared[name].tolist()])
      for name in ('prefix', 'other_prefix')
    ]
  rows = np.arange(len(scores.value))
  keys = basics.hash64(start, rows, np.asarray(scores.group), *drawn)
  return np.array([f'{key:016x}' for key in keys.tolist()], dtype=str)


def shared_columns(
  result: Result, scores: core.Scores
) -> dict[str, np.ndarray]:
  """States and prefixes of the trials of one quantity.

  A metric writes them once, with one quantity; others of the same trials have
  equal groups.
  """
  shared: dict[str, np.ndarray] = {}
  for other in (scores, *result.scores):
    if np.array_equal(other.group, scores.group):
      columns = {k: x for k, x in other.columns.items() if k in _SHARED}
      shared = {**columns, **shared}
  return shared


def _rows(result: Result) -> Iterator[Entry]:
  for scores, entry in zip(result.scores, result.entries, strict=True):
    fixed = {key: entry[key] for key in _FIXED}
    shared = shared_columns(result, scores)
    columns = {
      **shared,
      **scores.columns,
      'row': np.arange(len(scores.value)),
      **{name: getattr(scores, name) for name in _ARRAYS},
      'trial_key': trial_keys(entry, scores, shared),
    }
    values = [np.asarray(column).tolist() for column in columns.values()]
    for row in zip(*values, strict=True):
      # Fixed columns come last: no side column can replace the metric's name.
      cells = {**dict(zip(columns, row, strict=True)), **fixed}
      yield {**cells, 'value': ''} if cells['reason'] else cells


def write_rows(results: Sequence[Result], file: TextIO) -> None:
  """Writes all rows of the results as CSV, with the union of their columns."""
  # Metrics have different side columns; a row is blank in those of others.
  every = (scores for result in results for scores in result.scores)
  # In the order in which they come up.
  side = (name for scores in every for name in scores.columns)
  names = list(dict.fromkeys([*COLUMNS, *side]))
  writer = csv.DictWriter(file, names, lineterminator='\n')
  writer.writeheader()
  for result in results:
    writer.writerows(_rows(result))


# Columns that are text even where all of their cells look like numbers.
TEXTS = (
  *('run', 'model', 'world', 'metric', 'spec', 'quantity', 'trial_key'),
  *('reason', *_SHARED, 'suffix', 'outcome'),
)
CODED = tuple(name for name in TEXTS if name != 'trial_key')
_CSV_BYTES = b'csv_bytes'  # In a Parquet file: the size of its CSV.


def arrow(part: str = '') -> Any:
  """pyarrow, or a part of it as in '.parquet'; None where it is missing."""
  if importlib.util.find_spec('pyarrow') is None:
    return None
  return importlib.import_module(f'pyarrow{part}')


def coded_text() -> Any:
  """The Arrow type of texts that repeat."""
  return arrow().dictionary(arrow().int32(), arrow().string())


def _parsed(source: pathlib.Path) -> Any:
  """A CSV of rows as an Arrow table; types are taken from all rows."""
  csvs = arrow('.csv')
  return csvs.read_csv(
    source,
    # One block, from which types are inferred; 2 GiB is the most.
    read_options=csvs.ReadOptions(
      block_size=min(max(source.stat().st_size, 1), 2**31 - 1)
    ),
    parse_options=csvs.ParseOptions(newlines_in_values=True),
    convert_options=csvs.ConvertOptions(
      column_types={
        **dict.fromkeys(CODED, coded_text()),
        **{'trial_key': arrow().string(), 'value': arrow().float64()},
      },
      null_values=[''],
    ),
  )


def parquet_writer(target: pathlib.Path | str, schema: Any) -> Any:
  """A writer of tables of rows; those who read get plain texts."""
  return arrow('.parquet').ParquetWriter(
    target,
    schema,
    use_dictionary=[name for name in schema.names if name != 'trial_key'],
    write_page_checksum=True,
    store_schema=False,
  )


def write_parquet(source: pathlib.Path, target: pathlib.Path) -> bool:
  """Writes a CSV of rows as Parquet; False, and no file, without pyarrow.

  Text that is blank in the CSV is ''; other blanks are null.
  """
  if arrow() is None:
    target.unlink(missing_ok=True)  # Of a run with it.
    return False
  table = _parsed(source)
  with (
    files.replacing(target) as temporary,
    parquet_writer(temporary, table.schema) as writer,
  ):
    writer.write_table(table)
    size = b'%d' % source.stat().st_size
    writer.add_key_value_metadata({_CSV_BYTES: size})
  return True


def _packed(source: pathlib.Path) -> Any:
  """The Parquet file beside a rows.csv, open; None where it is not of this
  CSV.
  """
  packed, facts = source.with_suffix('.parquet'), source.stat()
  if not packed.is_file() or packed.stat().st_mtime_ns < facts.st_mtime_ns:
    return None
  metadata = arrow('.parquet').read_metadata(packed)
  if (metadata.metadata or {}).get(_CSV_BYTES) != b'%d' % facts.st_size:
    return None
  return arrow('.parquet').ParquetFile(
    packed,
    metadata=metadata,
    read_dictionary=[name for name in metadata.schema.names if name in CODED],
    page_checksum_verification=True,
  )


def arrow_schema(source: pathlib.Path) -> Any:
  """The columns of `arrow_rows`, whose texts may be coded or not."""
  with inputs.reading(source.with_suffix('.parquet'), 'a table of trials'):
    if file := _packed(source):
      with file:
        return file.schema_arrow
  with inputs.reading(source, 'a table of trials'):
    return _parsed(source).schema


def arrow_rows(
  source: pathlib.Path, columns: Sequence[str] | None = None
) -> Any:
  """Reads a rows.csv as an Arrow table, from the Parquet file beside it where
  that was written from this CSV; needs pyarrow.

  Args:
    source: path of the CSV.
    columns: to read, where the file has them; all by default.

  Returns:
    Texts, but for keys of trials, are of type `coded_text`; a blank text is '',
    another blank is null.

  Raises:
    InputError: one of both files is damaged.
  """
  packed = source.with_suffix('.parquet')
  with inputs.reading(packed, 'a table of trials'):
    if file := _packed(source):
      with file:
        names = file.schema_arrow.names
        return file.read(columns and [n for n in names if n in columns])
  with inputs.reading(source, 'a table of trials'):
    table = _parsed(source)
    names = [n for n in table.column_names if columns is None or n in columns]
    return table.select(names)


def join(folder: pathlib.Path, results: Sequence[Result]) -> list[Entry]:
  """Writes the joined files from results."""
  with (
    files.replacing(folder / 'rows.csv') as temporary,
    open(temporary, 'w', encoding='utf-8', newline='') as file,
  ):
    write_rows(results, file)
  write_parquet(folder / 'rows.csv', folder / 'rows.parquet')
  # scores.json is last: where it is, the others are.
  entries = [e for result in results for e in result.entries]
  files.write_json(
    folder / 'breakdown.json',
    [e for result in results for e in result.breakdown],
  )
  files.write_json(folder / 'scores.json', entries)
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
  ) -> None:
    """Looks whether the folder is free.

    Args:
      folder: of the run.
      claim: what the folder is claimed for once something is found.
      world: the truth.
      origin: what the predictor is made from.
      about: what entries say of the run.
      log: gets a line on each cached result: reused, or why not.

    Raises:
      InputError: the folder is claimed for another run.
    """
    files.claimed(folder, 'score', claim)
    self.folder, self.claim, self.world = folder, claim, world
    self.about, self.log, self.made_of = about, log, origin
    self.reader = provenance.Reader()
    self.summed_from = self.reader.of(*_SUMMARIES).inputs
    self.origins: dict[str, provenance.Origin] = {}

  def origin(self, metric: core.Metric) -> provenance.Origin:
    """All that the metric's rows depend on, as it was when first asked."""
    # Taken before measuring: a source file that changes meanwhile must not
    # count as what was run.
    spec = registry.spec(metric)
    if spec not in self.origins:
      origin = self.reader.of(metric, self.world, *_ENGINE, self.made_of.inputs)
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
      # Damaged, of another version, or made from other inputs: never an error.
      except Unusable as error:
        stale = True
        self._discard(file, asked, error)
    # What was joined from results that are now stale must not be read.
    if stale:
      for name in JOINED:
        (self.folder / name).unlink(missing_ok=True)
    return unchanged

  def _load_if_unchanged(
    self, file: pathlib.Path, asked: Mapping[str, core.Metric]
  ) -> Result:
    """A cached result, its summaries up to date; raises Unusable."""
    result = read(file)
    # Its metric may be a user's file that is gone.
    try:
      metric = asked.get(result.spec) or registry.make('metric', result.spec)
    except core.InputError as error:
      raise Unusable(str(error), result.spec) from error
    origin = self.origin(metric)
    why = result.unknown or origin.unknown
    why = why or provenance.difference(result.origin, origin.inputs)
    if why:
      raise Unusable(why, result.spec)
    # The rows are reused; only the statistics over them are recomputed.
    changed = provenance.difference(result.summed_from, self.summed_from)
    self.log(
      f'{result.spec}: cached'
      + (f', summaries recomputed: {changed}' if changed else '')
    )
    return self._written(metric, file, result) if changed else result

  def _discard(
    self,
    file: pathlib.Path,
    asked: Mapping[str, core.Metric],
    error: Unusable,
  ) -> None:
    """Says why a result is not used; removes it where it is recomputed."""
    # A result that cannot be read is known by its file name.
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
    """Sums up the rows of a result and writes it."""
    entries, breakdown = summarize(
      metric, result.scores, self.world, **result.about
    )
    # Written at once: results of a killed run are kept up to here.
    result = dataclasses.replace(
      result, entries=entries, breakdown=breakdown, summed_from=self.summed_from
    )
    write(file, result)
    return result

  def unfinished(
    self, metric: core.Metric
  ) -> contextlib.AbstractContextManager[None]:
    """Keeps what a metric has so far, for a run that goes on after a kill."""
    origin = self.origin(metric)
    if origin.unknown:  # It may be another model's the next time.
      return contextlib.nullcontext()
    # Partial results count only for the same spec and the same inputs.
    mark = files.hash_of([registry.spec(metric), sorted(origin.inputs.items())])
    return files.partial_results(self.folder / UNFINISHED, mark)

  def add(self, metric: core.Metric, rows: tuple[core.Scores, ...]) -> Result:
    """Claims the folder and writes what a metric found."""
    # Claimed with the first result, so that a run that fails leaves no mark.
    files.claim(self.folder, 'score', self.claim)
    spec, origin = registry.spec(metric), self.origin(metric)
    file = path(self.folder, metric.name, spec)
    result = Result(spec, *origin, {}, self.about, [], [], rows)
    return self._written(metric, file, result)
