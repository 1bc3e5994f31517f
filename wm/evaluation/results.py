"""Result files: what metrics found, summed up, and what it was measured from.

    scores/NAME-MARK.npz    a part: the rows of one metric, an array a column
    scores/NAME-MARK.json   the origin of rows and of summaries, the summaries,
                            and hashes of both files
    scores.json             an entry for each quantity of all parts
    rows.csv                all rows of all parts
    breakdown.json          entries of subsets of rows

Of a part the rows are written first, and the JSON file says that they are
whole. A file that was cut or changed is found out by its hash.
"""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import io
import json
import math
import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import wm
from wm import core
from wm.core import registry
from wm.evaluation import context, statistics
from wm.runtime import files

FOLDER = 'scores'
FORMAT = 2

Entry = dict[str, Any]

# A side column is broken down only where it takes no more values than this.
MOST_VALUES = 128
# Columns of rows.csv that every metric has; side columns follow.
_ARRAYS = ('value', 'reason', 'group', 'weight')  # Of each core.Scores.
COLUMNS = ('metric', 'spec', 'quantity', 'row', *_ARRAYS)
# Least and greatest value that a quantity may have; None is no bound.
BOUNDS = 'least', 'most'
JOINED = ('scores.json', 'rows.csv', 'breakdown.json')


@dataclasses.dataclass(frozen=True)
class Part:
  """The results of one metric.

  Attributes:
    spec: of the metric.
    origin: inputs that the rows depend on, see provenance.Origin.
    unknown: why that may not be all; such a part is not used again.
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
  """A part that cannot be used; says why.

  Attributes:
    spec: of its metric, '' where that cannot be read.
  """

  def __init__(self, why: str, spec: str = '') -> None:
    super().__init__(why)
    self.spec = spec


def path(folder: pathlib.Path, name: str, spec: str) -> pathlib.Path:
  """The JSON file of a metric's part."""
  mark = hashlib.sha256(spec.encode()).hexdigest()[:12]
  name = re.sub(r'[^\w.-]+', '_', name)  # Of a user's file, its path.
  return folder / FOLDER / f'{name}-{mark}.json'


def paths(folder: pathlib.Path) -> list[pathlib.Path]:
  """JSON files of all parts in a run's folder."""
  return sorted((folder / FOLDER).glob('*.json'))


def remove(path: pathlib.Path) -> None:
  """Removes a part; one of an earlier version has its rows as CSV."""
  for suffix in ('.json', '.npz', '.csv'):
    path.with_suffix(suffix).unlink(missing_ok=True)


def _hash(value: Any) -> str:
  # Keys are sorted, so that equal values have equal hashes.
  text = json.dumps(value, sort_keys=True)
  return hashlib.sha256(text.encode()).hexdigest()


def _array(column: np.ndarray) -> np.ndarray:
  """A column in a form that is read without running code."""
  column = np.asarray(column)
  # An array of objects would be pickled.
  return column.astype(str) if column.dtype == object else column


def write(path: pathlib.Path, part: Part) -> None:
  """Writes a part: rows, then what says that they are there."""
  # Arrays of Scores k are called k.value, k.reason, ...; its side columns
  # k.side0, k.side1, ..., as a column's name may be no name of a file in a zip.
  arrays: dict[str, Any] = {}
  heads = []
  for k, scores in enumerate(part.scores):
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
      }
    )
  rows = path.with_suffix('.npz')
  # Rows first: a JSON file beside them says that they are whole.
  with files.replacing(rows) as temporary, open(temporary, 'wb') as file:
    np.savez_compressed(file, **arrays)
  body = {name: x for name, x in vars(part).items() if name != 'scores'} | {
    'wm_version': wm.__version__,
    'scores': heads,
    'rows_sha256': files.sha256(rows),
  }
  files.write_json(path, {'format': FORMAT, 'sha256': _hash(body), **body})


def read(path: pathlib.Path) -> Part:
  """The part that was written; raises Unusable."""
  name = f'{path.parent.name}/{path.name}'
  try:
    body = json.loads(path.read_bytes())
  except ValueError:
    body = None
  if not isinstance(body, dict):
    raise Unusable(f'{name} is damaged: it is not whole JSON')
  if body.pop('format', None) != FORMAT:
    raise Unusable(*_of_another_version(name, body))
  if body.pop('sha256', None) != _hash(body):
    raise Unusable(f'{name} is damaged: its hash is wrong', _spec(body))
  rows, spec = path.with_suffix('.npz'), body['spec']
  # Read once: what is hashed is what is used.
  held = rows.read_bytes() if rows.is_file() else b''
  if hashlib.sha256(held).hexdigest() != body.pop('rows_sha256'):
    why = 'its hash is wrong' if held else 'it is missing or empty'
    raise Unusable(f'{FOLDER}/{rows.name} is damaged: {why}', spec)
  heads, _ = body.pop('scores'), body.pop('wm_version')
  with np.load(io.BytesIO(held), allow_pickle=False) as arrays:
    return Part(scores=tuple(_scores(arrays, heads)), **body)


def _spec(body: Entry) -> str:
  spec = body.get('spec')
  return spec if isinstance(spec, str) else ''


def _of_another_version(name: str, body: Entry) -> tuple[str, str]:
  """Why, and the spec: parts before format 2 were known by specs alone."""
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


def summed_up(
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


def _rows(part: Part) -> Iterator[Entry]:
  for scores, entry in zip(part.scores, part.entries, strict=True):
    fixed = {key: entry[key] for key in ('metric', 'spec', 'quantity')}
    arrays = {name: getattr(scores, name) for name in _ARRAYS}
    columns = {**scores.columns, 'row': np.arange(len(scores.value)), **arrays}
    values = [np.asarray(column).tolist() for column in columns.values()]
    for row in zip(*values, strict=True):
      # Fixed columns come last: no side column can replace the metric's name.
      cells = {**dict(zip(columns, row, strict=True)), **fixed}
      yield {**cells, 'value': ''} if cells['reason'] else cells


def join(folder: pathlib.Path, parts: Sequence[Part]) -> list[Entry]:
  """Writes the three files from parts."""
  # Metrics have different side columns; a row is blank in those of others.
  side = (n for part in parts for scores in part.scores for n in scores.columns)
  with (
    files.replacing(folder / 'rows.csv') as temporary,
    open(temporary, 'w', encoding='utf-8', newline='') as file,
  ):
    # The union of all columns, in the order in which they come up.
    names = list(dict.fromkeys([*COLUMNS, *side]))
    writer = csv.DictWriter(file, names, lineterminator='\n')
    writer.writeheader()
    for part in parts:
      writer.writerows(_rows(part))
  # scores.json is last: where it is, the others are.
  entries = [e for part in parts for e in part.entries]
  files.write_json(
    folder / 'breakdown.json', [e for part in parts for e in part.breakdown]
  )
  files.write_json(folder / 'scores.json', entries)
  return entries
