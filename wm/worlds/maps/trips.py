"""Origin-destination pairs from taxi trips in the TLC schema, CSV or Parquet.

Every trip's ends go to the nearest intersection: in metres, or in degrees as
published (Vafa et al. 2024, appendix B), where a degree of longitude counts as
much as one of latitude. What cannot be used is dropped and counted by cause, in
this order: `unreadable` (missing, not a number, not a coordinate), `zero` (a
meter without a fix writes 0), `outside` (further than OUTSIDE_M from that
intersection), `same_node`. `other_nodes` are those used whose ends the other
rule takes elsewhere.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wm import core
from wm.core import inputs
from wm.worlds.maps import streets

# Farther from every intersection than this is not on the map. The longest
# Manhattan blocks put a kerb at most 150 m from one.
OUTSIDE_M = 300.0

# Wanted order, and how the years of the schema spell each column.
COLUMNS = (
  ('pickup_latitude', 'start_lat', 'pickup_lat'),
  ('pickup_longitude', 'start_lon', 'pickup_lon'),
  ('dropoff_latitude', 'end_lat', 'dropoff_lat'),
  ('dropoff_longitude', 'end_lon', 'dropoff_lon'),
)

RULES = 'metres', 'degrees'

CHUNK = 100_000  # Rows held in memory at a time.

Find = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


class Trips(NamedTuple):
  """Trips on a graph.

  Attributes:
    pairs: [N, 2] int64 rows of origin and destination, in file order.
    counts: 'trips' read, 'used', drops by cause, and 'other_nodes'.
  """

  pairs: np.ndarray
  counts: dict[str, int]


def load(
  path: str | Path, graph: streets.StreetGraph, nearest: str = 'metres'
) -> Trips:
  """Trips of a file on a graph, or of all .csv and .parquet files of a folder.

  nearest: of RULES.

  Raises:
    InputError: no such file, no coordinate columns, or not CSV or Parquet.
  """
  finds = [_nearest(graph, rule) for rule in RULES]
  if nearest == RULES[1]:
    finds.reverse()
  counts = dict.fromkeys(
    (
      *('trips', 'used', 'unreadable', 'zero', 'outside', 'same_node'),
      'other_nodes',
    ),
    0,
  )
  pairs = []
  for places in itertools.chain.from_iterable(map(_places, _files(path))):
    (causes, rows), (_, others) = (_classify(places, find) for find in finds)
    apart = (causes == 'used') & (rows != others).any(-1)
    counts['other_nodes'] += int(apart.sum())
    for cause in counts.keys() - {'trips', 'other_nodes'}:
      counts[cause] += int((causes == cause).sum())
    counts['trips'] += len(places)
    pairs.append(rows[causes == 'used'])
  return Trips(np.concatenate([np.zeros((0, 2), np.int64), *pairs]), counts)


def _classify(places: np.ndarray, find: Find) -> tuple[np.ndarray, np.ndarray]:
  """Cause [N] and node rows [N, 2] of places [N, 4] in degrees."""
  limits = np.array([90, 180, 90, 180])
  readable = (np.abs(places) <= limits).all(-1)  # False for NaN.
  points = np.where(readable[:, None], places, 0.0).reshape(-1, 2, 2)
  zero = (points == 0).any(-1).any(-1)
  metres, rows = find(points[..., 0], points[..., 1])
  causes = np.select(
    [
      ~readable,
      zero,
      (metres > OUTSIDE_M).any(-1),
      rows[:, 0] == rows[:, 1],
    ],
    ['unreadable', 'zero', 'outside', 'same_node'],
    'used',
  )
  return causes, rows


def _nearest(graph: streets.StreetGraph, rule: str) -> Find:
  """Function from degrees [...] to metres and row of the nearest node."""
  from scipy import spatial  # Only trips need it.

  nodes = streets.project(graph, graph.lat, graph.lon)
  degrees = rule == 'degrees'
  plane = np.stack([graph.lat, graph.lon], -1) if degrees else nodes
  tree = spatial.KDTree(plane)

  def find(lat: np.ndarray, lon: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    points = streets.project(graph, lat, lon)
    _, rows = tree.query(np.stack([lat, lon], -1) if degrees else points)
    return np.linalg.norm(points - nodes[rows], axis=-1), rows

  return find


def _files(path: str | Path) -> list[Path]:
  """A file, or those of a folder in order of name."""
  path = Path(path)
  if not path.is_dir():
    return [path]
  kinds = '.csv', '.parquet'
  files = sorted(child for child in path.iterdir() if child.suffix in kinds)
  if not files:
    raise core.InputError(f'{path} has no file that ends in .csv or .parquet')
  return files


def _places(path: str | Path) -> Iterator[np.ndarray]:
  """Chunks [N, 4] of degrees in the order of COLUMNS; NaN if unreadable."""
  if str(path).endswith('.parquet'):
    yield from _parquet(path)
  else:
    yield from _csv(path)


def _choose(path: str | Path, header: list[str]) -> list[int]:
  """Position of each of COLUMNS; the 2014 files pad names with spaces."""
  names = [name.strip().lower() for name in header]
  chosen = []
  for spellings in COLUMNS:
    matches = [name for name in spellings if name in names]
    if not matches:
      raise core.InputError(
        f'{path} has no column {spellings[0]!r}; expected the TLC schema with '
        f'coordinates (2009 to June 2016), found {", ".join(names) or "none"}'
      )
    chosen.append(names.index(matches[0]))
  return chosen


def _csv(path: str | Path) -> Iterator[np.ndarray]:
  with (
    inputs.reading_file(path, 'a CSV file') as table,
    table.open(encoding='utf-8-sig', newline='') as file,
  ):
    reader = csv.reader(file)
    header = next(reader, [])
    chosen = _choose(path, header)
    rows = []
    for row in reader:
      if row:  # The 2014 files have an empty second line.
        padded = [*row, *[None] * (len(header) - len(row))]
        rows.append([_number(padded[column]) for column in chosen])
      if len(rows) == CHUNK:
        yield np.array(rows)
        rows = []
    yield np.array(rows).reshape(-1, 4)


def _parquet(path: str | Path) -> Iterator[np.ndarray]:
  try:
    from pyarrow import parquet
  except ModuleNotFoundError as error:
    raise core.InputError(
      f"{path}: Parquet needs the extra 'maps' (pip install -e '.[maps]')"
    ) from error
  with (
    inputs.reading_file(path, 'a readable Parquet file'),
    parquet.ParquetFile(path) as file,
  ):
    header = file.schema_arrow.names
    names = [header[column] for column in _choose(path, header)]
    for batch in file.iter_batches(CHUNK, columns=names):
      columns = [batch.column(name).to_pylist() for name in names]
      yield np.array([[*map(_number, c)] for c in columns], np.float64).T


def _number(value: Any) -> float:
  """A number as float64; NaN for what is none."""
  try:
    return float(value)  # None raises TypeError.
  except (TypeError, ValueError):
    return float('nan')
