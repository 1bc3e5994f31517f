"""Published data made ours: sequences in text files, and street maps.

Lines of sequence files are read a chunk at a time, in their order, so that
files of any length fit, and a run that was killed goes on after its last
complete shard. A world reads files and nothing else, so that its spec says all
that it is: what downloads street maps and writes them to files is here.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import pathlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from wm import core
from wm.core import inputs, registry
from wm.data import sampling, text
from wm.data import store as stores
from wm.options.calls import HERE, Workers
from wm.runtime import files, progress, tasks
from wm.worlds import maps
from wm.worlds.base.sampling import in_split
from wm.worlds.maps import streets

Path = pathlib.Path

STAGE = 'ingest'
VERSION = '1'  # Moves when the same files give other data.
CHUNK = 1 << 16  # Lines at a time.
FIRST_DAY = '2012-09-13'  # Overpass has no complete map of an earlier one.


@files.locked_stage(STAGE)
def ingest_text(
  world: core.World,
  train: Sequence[str | Path],
  heldout: Sequence[str | Path],
  out: str | Path,
  workers: Workers = HERE,
) -> dict[str, Any]:
  """Makes both stores of files in the text format (see `wm.data.text`).

  Left out, and counted by cause in a store's `counts`, are lines that are
  blank, illegal in the world, longer than its sequences or without their end,
  and lines of `train` whose split key a kept line of `heldout` has (on a map:
  whose origin and destination it has).

  Args:
    world: whose vocabulary and rules the lines follow.
    train: files of training sequences.
    heldout: files of held-out sequences; where there are none, the world
      divides the lines of `train` as it divides what it samples.
    out: output folder; gets data/train, data/heldout, ingest.run.json.
    workers: where lines are read; this process joins them.

  Returns:
    split -> manifest of its store.

  Raises:
    InputError: an unusable file, an unknown token with its line, no sequence
      left of a split, or `out` holds other data.
  """
  out = Path(out)
  named = {
    split: [_name_and_size(path) for path in paths]
    for split, paths in zip(sampling.SPLITS, (train, heldout), strict=True)
  }
  run = {
    'ingest': f'text {VERSION}',
    'world': registry.spec(world),
    'world_version': world.version,
    **named,
  }
  num = tasks.num_workers(workers.jobs, workers.cluster)
  if not files.claimed(out, STAGE, run):
    for split in sampling.SPLITS:
      if (out / 'data' / split).exists():
        raise core.InputError(
          f'{out} holds other data, in data/{split}; choose another --out'
        )
  with sampling.removed_on_failure(out, STAGE):
    files.claim(out, STAGE, run)
    heldout_manifest, train_manifest = (
      _make(world, out, split, paths, run, (num, workers))
      for split, paths in (('heldout', heldout or train), ('train', train))
    )
  return {'train': train_manifest, 'heldout': heldout_manifest}


def _name_and_size(path: str | Path) -> list[Any]:
  path = Path(path)
  with inputs.reading_file(path, 'a text file'):
    return [path.name, path.stat().st_size]


def _make(
  world: core.World,
  out: Path,
  split: str,
  paths: Sequence[str | Path],
  run: dict[str, Any],
  team: tuple[int, Workers],
) -> dict[str, Any]:
  """The store of a split, unless it is complete; its manifest.

  team: workers at a time, and which.
  """
  folder = out / 'data' / split
  if folder.exists():
    return stores.open(folder).manifest
  parts = folder.with_name(f'.{split}.chunks')
  order: dict[str, Any] = {
    'split': split if not run['heldout'] else 'all',
    'paths': [*map(str, paths)],
    'heldout': '',
    'parts': str(parts),
    'size': CHUNK,
  }
  if split == 'train' and run['heldout']:
    order['heldout'] = str(out / 'data' / 'heldout')
  about = {**sampling.describe(world, 0, split, 0), 'ingest': run}
  tokens = stores.SHARD_TOKENS
  size = sum(Path(path).stat().st_size for path in paths)
  with (
    stores.Writer(folder, about, shard_tokens=tokens) as writer,
    progress.Progress(f'ingest {split}', size, 'B') as shown,
  ):
    order['done'] = writer.chunks
    if not tasks.alone(team[1]):
      parts.mkdir(exist_ok=True)
      more = order | {'world': run['world']}
      tasks.run_shards(STAGE, read_shard, more, *team)
    for read, path, rows in _chunks(world, **order):
      writer.add(stores.Ragged.read(path) if path.exists() else rows())
      shown.reach(read, size, f'{writer.rows:,} sequences')
    shutil.rmtree(parts, ignore_errors=True)
    if not writer.rows:
      raise core.InputError(
        f'no {split} sequence is left of {", ".join(map(str, paths))}: '
        + (
          ', '.join(f'{n:,} {cause}' for cause, n in writer.counts.items())
          or f'{size} bytes'
        )
      )
    return writer.finish()


def _chunks(
  world: core.World,
  split: str,
  paths: Sequence[str],
  heldout: str,
  parts: str,
  size: int,
  done: int,
) -> Iterator[tuple[int, Path, Callable[[], core.Sequences]]]:
  """Yields chunks of lines of all files, in order, after the first `done`.

  Args:
    world: whose rules the lines follow.
    split: see _Keep.
    paths: the files.
    heldout: store whose split keys are left out; '' is none.
    parts: folder of chunks that workers have read.
    size: lines of a chunk.
    done: chunks that are not needed.

  Yields:
    (characters read by the chunk's end, its file in `parts`, what reads it);
    the last gives the lines that are kept, or raises InputError.
  """
  keep = _Keep(world, split, np.zeros(0, np.uint64))
  if heldout:
    keys = map(world.split_key, stores.open(heldout).chunks(size))
    keep = keep._replace(taken=np.unique(np.concatenate([*keys])))
  read = 0
  batches = (
    (path, *batch) for path in paths for batch in text.batches(path, size)
  )
  for number, (path, first, lines) in enumerate(batches):
    read += sum(map(len, lines))
    if number >= done:
      place = Path(parts, f'{number:08d}-{size}.npy')
      yield read, place, functools.partial(keep.read, lines, first, path)


def read_shard(world: str, shard: tuple[int, int], **order: Any) -> None:
  """Reads every n-th chunk into a file; a task of `ingest_text`.

  It ends at a bad line, which the process that joins the chunks comes to, too.

  shard: (i, n). order: arguments of _chunks.
  """
  resolved = registry.make('world', world)
  dtype = stores.token_dtype(len(resolved.vocab))
  for number, (_, path, rows) in enumerate(_chunks(resolved, **order)):
    if number % shard[1] == shard[0] and not path.exists():
      try:
        chunk = stores.Ragged.of(rows(), dtype)
      except core.InputError:
        return
      if path.parent.exists():  # Or this ran twice, and all is joined.
        chunk.write(path)


class _Keep(NamedTuple):
  """Which lines are kept.

  Attributes:
    world: whose rules.
    split: that the world divides lines into; 'all' where a file says it.
    taken: sorted split keys of the other split's file.
  """

  world: core.World
  split: str
  taken: np.ndarray

  def read(self, batch: Sequence[str], first: int, path: str) -> core.Sequences:
    """The lines that are kept of a batch; `counts` has causes of the others.

    first: number of the batch's first line in the file at `path`.
    """
    world = self.world
    sequences = text.parse(batch, first, path, world)
    lengths = sequences.lengths
    start = world.init(len(lengths))
    steps, _ = world.walk(start, sequences.tokens, lengths)
    last = sequences.tokens[np.arange(len(lengths)), lengths - 1]
    key = world.split_key(sequences)
    causes = {
      'illegal': steps < lengths,
      'too long': lengths > world.max_len,
      'without end': (world.end != core.DEAD) & (last != world.end),
      'of the other split': np.isin(key, self.taken)
      | ~in_split(key, self.split),
    }
    counts = {'blank': len(batch) - len(sequences)}
    left = np.ones(len(lengths), bool)
    for cause, mask in causes.items():
      counts[cause] = int((left & mask).sum())
      left &= ~mask
    counts = {cause: count for cause, count in counts.items() if count}
    return dataclasses.replace(sequences.take(left), counts=counts)


def fetch_map(
  out: str | Path, place: str = '', file: str = '', date: str = ''
) -> str:
  """Writes nodes.csv, edges.csv and map.graphml to `out`; returns a summary.

  Args:
    out: folder, made where absent.
    place: what to download, e.g. 'Manhattan, New York City, USA'.
    file: a local OSM XML or GraphML file instead.
    date: the map of a place as it was when this day began (UTC), such as
      '2024-05-05'; '' is today's. The place's outline is today's.

  Raises:
    InputError: not exactly one source, no such place or day, or no internet.
  """
  if bool(place) == bool(file):
    raise core.InputError('expected either a place or a file to read')
  if date and file:
    raise core.InputError(
      f'date={date!r} was given with a file; it is as it is'
    )
  network = _download(place, date) if place else streets.read_file(file)
  graph = streets.from_networkx(network, place or file)
  out = Path(out)
  with files.replacing(out / 'map.graphml') as temporary:
    streets.osmnx_library().io.save_graphml(network, temporary)
  save_streets(graph, out)
  counts = ', '.join(f'{k} {n}' for k, n in graph.counts.items())
  return (
    f'{len(graph)} intersections and {graph.num_edges} streets in {out} '
    f'({counts})'
  )


def save_streets(graph: streets.StreetGraph, out: Path) -> tuple[Path, Path]:
  """Writes nodes.csv and edges.csv to `out`; returns their paths."""
  paths = out / 'nodes.csv', out / 'edges.csv'
  for path, content in zip(paths, streets.to_csv(graph), strict=True):
    files.write_text(path, content)
  return paths


def from_graph(graph: Any, out: str | Path, **fields: Any) -> maps.World:
  """The world of a networkx or OSMnx graph, kept in files that name it.

  Writes nodes.csv and edges.csv to `out`: a world is what its spec says, so
  that runs on it can be repeated.

  Args:
    graph: networkx graph of any kind. Nodes are named as in it, and may have
      x and y, its edges `length`, as `worlds.maps.streets.load_file` says.
    out: folder of the two files.
    **fields: of the world, such as traversal='shortest'.

  Raises:
    InputError: not such a graph, or one without a path.
  """
  import networkx as nx

  if not isinstance(graph, nx.Graph):
    raise core.InputError(
      f'the graph is of type {type(graph).__name__}; expected one of networkx'
    )
  # What is wrong with a field shows before files are written.
  listed = ', '.join(f'{name}={value!r}' for name, value in fields.items())
  registry.resolve('world', f'maps({listed})')
  street_graph = streets.from_networkx(graph, 'the graph')
  nodes, edges = save_streets(street_graph, Path(out))
  return maps.World(nodes=str(nodes), edges=str(edges), **fields)


def _download(place: str, date: str) -> Any:
  """The street network of a place, by Overpass."""
  setting = f'[date:"{_day(date)}T00:00:00Z"]' if date else ''
  osmnx = streets.osmnx_library()
  osmnx.settings.use_cache = False  # Else it fills ./cache wherever we are.
  before = osmnx.settings.overpass_settings
  osmnx.settings.overpass_settings = before + setting
  try:
    with inputs.reading(repr(place), 'a place that can be fetched'):
      return osmnx.graph.graph_from_place(place, network_type='drive')
  finally:
    osmnx.settings.overpass_settings = before


def _day(date: str) -> str:
  """A date as YYYY-MM-DD; InputError where Overpass has no map of it."""
  try:
    day = datetime.date.fromisoformat(date).isoformat()
  except ValueError:
    day = ''
  if day < FIRST_DAY:
    raise core.InputError(
      f'date={date!r}: expected a day from {FIRST_DAY} on, such as 2024-05-05'
    )
  return day
