"""Reconstructs the maps that several models imply, under several limits.

Rows and limits come in; a map for each pair and one table of their counts go
out. The reconstruction itself is `wm.library.calls.reconstruct`.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
import shutil
from collections.abc import Sequence
from typing import Any

from wm import core
from wm.core import registry
from wm.core.accept import Accept
from wm.library import calls
from wm.library.calls import Log
from wm.options import takes
from wm.options.calls import Path, RouteSource
from wm.options.reconstruction import Reconstruction
from wm.reporting import collect, paper_comparison
from wm.runtime import files
from wm.studies.rows import Row

# Vafa et al. 2024, figures 13 to 24: most edges out of a node, and miles.
LIMITS = (4, 0.5), (8, 0.5), (4, 1.0), (8, 1.0)
_SAMPLES = 'samples.txt', 'samples.origin.json'


def parse_limits(text: str) -> tuple[int, float]:
  """(8, 0.5) of '8, 0.5': edges out of a node, miles; InputError."""
  match = re.fullmatch(r'\s*(\d{1,4})\s*,\s*(\d{1,4}(?:\.\d*)?|\.\d+)\s*', text)
  if not match:
    raise core.InputError(
      f"bad limits {text!r}: expected 'DEGREE, MILES', as '4, 0.5'"
    )
  return int(match[1]), float(match[2])


@takes(routes=(RouteSource, 'num', 'pairs'))
def atlas(
  rows: Sequence[Row | str],
  world: core.World | str,
  out: Path,
  options: Reconstruction | None = None,
  *,
  limits: Sequence[tuple[int, float]] = LIMITS,
  routes: RouteSource,
  accept: Accept | str = 'top_k(50)',
  log: Log = calls.no_log,
) -> pathlib.Path:
  """Reconstructs the maps of several models, each under several limits.

  Vafa et al. 2024, figures 12 to 24: a model's routes are sampled once, and
  fitted with each pair of limits.

  Args:
    rows: 'NAME: SOURCE' or 'NAME: SOURCE on WORLD'; a source is a run's folder,
      a file of sequences in the text format, or an untrained model.
    world: the true map, of rows that name none.
    out: folder; OUT/4_0.5mi/NAME is as `reconstruct` makes it.
    options: of the algorithm, but for the limits.
    limits: most edges out of a node, and miles of the longest added edge.
    routes, accept: num and pairs of routes that are sampled; see `reconstruct`.
    log: gets a title for each map, and its counts.

  Returns:
    Path of OUT/maps.md: the counts, the published ones beside them.

  Raises:
    InputError: bad rows or limits, or a folder that holds something else.
  """
  folder, options = pathlib.Path(out), options or Reconstruction()
  parsed = [Row.parse(row) if isinstance(row, str) else row for row in rows]
  if len({row.name for row in parsed}) < len(parsed):
    raise core.InputError('two rows have one name')
  settings = [
    dataclasses.replace(options, max_degree=degree, max_miles=miles)
    for degree, miles in limits
  ]
  for row in parsed:  # What is bad of a row shows before the first is done.
    registry.resolve('world', row.trained_on or world)
  if all(['samples' in _source(row) for row in parsed]):
    calls.refuse_sampling_options('rows of files alone', routes)
  sampled = {'routes': routes, 'accept': accept, 'log': log}
  with files.stage_lock(folder, 'atlas'):
    runs: list[collect.Run] = []
    for row in parsed:
      for setting in settings:
        degree, miles = setting.max_degree, setting.max_miles
        log(f'== {row.name}: degree {degree}, {miles:g} miles')
        cell = folder / f'{degree}_{miles:g}mi' / row.name
        runs.append(_map(row, world, cell, setting, runs, sampled))
    table = paper_comparison.map_table(runs)
    assert table is not None
    files.write_text(folder / 'maps.md', table.markdown())
    log(f'written: {folder}/maps.md')
  return folder / 'maps.md'


def _source(row: Row) -> dict[str, Any]:
  """Where a row's routes are from, as `reconstruct` takes it."""
  path = pathlib.Path(str(row.model))
  if path.is_file():
    return {'source': None, 'samples': path}
  if path.is_dir():
    return {'source': path}
  return {'source': registry.resolve('model', row.model)}


def _map(
  row: Row,
  world: core.World | str,
  cell: pathlib.Path,
  options: Reconstruction,
  done: Sequence[collect.Run],
  sampled: dict[str, Any],
) -> collect.Run:
  """One map; the routes of the row's first are those of all."""
  source = _source(row)
  first = next(
    (run.folder for run in done if run.folder.name == row.name), cell
  )
  for name in _SAMPLES:
    if (first / name).exists() and not (cell / name).exists():
      with files.replacing(cell / name) as copy:
        shutil.copyfile(first / name, copy)
  summary = calls.reconstruct(
    out=cell,
    world=row.trained_on or world,
    options=options,
    name=row.name,
    **source,
    **({'log': sampled['log']} if 'samples' in source else sampled),
  )
  about = {}
  if isinstance(source['source'], pathlib.Path):
    about = files.read_record(source['source'] / 'train.run.json', {})
  return collect.Run(cell, [], [], [], summary, about)
