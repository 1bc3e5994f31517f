"""Import of published data: sequences in text files, and street maps.

Lines of sequence files are read in order, a chunk at a time, so that files of
any length fit in memory, and a killed run resumes after its last complete
shard. A world reads only files, so that its spec defines it completely; this
module downloads street maps and writes them to files.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from wm import core
from wm.core import inputs, registry
from wm.data import sampling, text
from wm.data import store as stores
from wm.runtime import files, progress
from wm.worlds import maps
from wm.worlds.base.sampling import in_split
from wm.worlds.maps import streets

Path = pathlib.Path

STAGE = 'ingest'
VERSION = '1'  # Changes when the same files give other data.
CHUNK = 1 << 16  # Lines at a time.
OTHER = 'of the other split'
# Cause of dropped lines -> remedy if many are dropped.
HINTS = {
  'illegal': 'are they of this world?',
  'too long': 'a world with a larger length takes them',
  'without end': "each ends with the world's end token",
}


@files.locked_stage(STAGE)
def ingest_text(
  world: core.World,
  train: Sequence[str | Path],
  heldout: Sequence[str | Path],
  out: str | Path,
  tokens: Mapping[str, str] | None = None,
  lost: float = inputs.LOST,
) -> dict[str, Any]:
  """Makes both stores from files in the text format (see `wm.data.text`).

  Lines are dropped, and counted by cause in a store's `counts`, if they are
  blank, illegal in the world, longer than its sequences or without an end. A
  line of `train` is also dropped if it shares its split key with a line of
  `heldout` (on a map: its origin and destination).

  Args:
    world: world whose vocabulary and rules the lines follow.
    train: files of training sequences.
    heldout: files of held-out sequences; if there are none, the world divides
      the lines of `train` like its own samples.
    out: output folder; gets data/train, data/heldout, ingest.run.json.
    tokens: word in the files -> token of the world; None if the files have
      tokens.
    lost: share of the lines that may be dropped for one reason.

  Returns:
    split -> manifest of its store.

  Raises:
    InputError: an unusable file, an unknown token with its line, no sequence
      left of a split or too few, or `out` holds other data.
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
    **({'tokens': dict(tokens)} if tokens else {}),
  }
  if not files.claimed(out, STAGE, run):
    sampling.check_free(out)
  with sampling.removed_on_failure(out, STAGE):
    files.claim(out, STAGE, run)
    heldout_manifest, train_manifest = (
      _make(world, out, split, paths, run, lost)
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
  lost: float,
) -> dict[str, Any]:
  """Makes the store of a split unless it exists; returns its manifest."""
  folder = out / 'data' / split
  if folder.exists():
    return stores.open(folder).manifest
  divided, taken = 'all' if run['heldout'] else split, None
  if split == 'train' and run['heldout']:
    taken = out / 'data' / 'heldout'
  keep = _Keep.of(world, divided, run.get('tokens', {}), taken)
  names = [*map(str, paths)]
  about = {**sampling.describe(world, 0, split, 0), 'ingest': run}
  tokens = stores.SHARD_TOKENS
  size = sum(Path(path).stat().st_size for path in paths)
  with (
    stores.Writer(folder, about, shard_tokens=tokens) as writer,
    progress.Progress(f'ingest {split}', size, 'B') as shown,
  ):
    read, done = 0, writer.chunks
    batches = (
      (path, *batch) for path in names for batch in text.batches(path, CHUNK)
    )
    for number, (path, first, lines) in enumerate(batches):
      read += sum(map(len, lines))
      if number >= done:
        writer.add(keep.read(lines, first, path))
        shown.reach(read, size, f'{writer.rows:,} sequences')
    if not writer.rows:
      raise core.InputError(
        f'no {split} sequence is left of {", ".join(names)}: '
        + (
          ', '.join(f'{n:,} {cause}' for cause, n in writer.counts.items())
          or f'{size} bytes'
        )
      )
    _check_lost(keep, names, writer.rows, writer.counts, lost)
    return writer.finish()


def _check_lost(
  keep: _Keep,
  paths: Sequence[str],
  rows: int,
  counts: Mapping[str, int],
  lost: float,
) -> None:
  """Raises InputError if too many lines are dropped for one reason.

  rows: number of kept lines. counts: cause -> number of dropped lines.
  """
  total = rows + sum(counts.get(cause, 0) for cause in (*HINTS, OTHER))
  name = ', '.join(Path(path).name for path in paths)
  for cause, hint in HINTS.items():
    if counts.get(cause, 0) > lost * total:
      first = keep.first(cause, paths)
      share = inputs.Lost(name, cause, counts[cause], total, first)
      share.check(lost, hint)


class _Keep(NamedTuple):
  """A filter for lines.

  Attributes:
    reader: reader of the lines, for a world.
    split: split by the world's keys; 'all' if files define the split.
    taken: sorted split keys of the other split's file.
  """

  reader: text.LineReader
  split: str
  taken: np.ndarray

  @classmethod
  def of(
    cls,
    world: core.World,
    split: str,
    aliases: Mapping[str, str],
    heldout: Path | None,
  ) -> _Keep:
    """A filter that drops split keys of the store `heldout`, if any."""
    keys = [np.zeros(0, np.uint64)]
    if heldout:
      keys += map(world.split_key, stores.open(heldout).chunks(CHUNK))
    reader = text.LineReader(world, aliases, written=True)
    return cls(reader, split, np.unique(np.concatenate(keys)))

  def _causes(
    self, batch: Sequence[str], first: int, path: str
  ) -> tuple[core.Sequences, np.ndarray, dict[str, np.ndarray]]:
    """Sequences, their numbers of legal tokens, and cause -> dropped lines."""
    world = self.reader.world
    sequences = self.reader.parse(batch, first, path)
    lengths = sequences.lengths
    start = world.init(len(lengths))
    steps, _ = world.walk(start, sequences.tokens, lengths)
    last = sequences.tokens[np.arange(len(lengths)), lengths - 1]
    key = world.split_key(sequences)
    causes = {
      'illegal': steps < lengths,
      'too long': lengths > world.max_len,
      'without end': (world.end != core.DEAD) & (last != world.end),
      OTHER: np.isin(key, self.taken) | ~in_split(key, self.split),
    }
    left = np.ones(len(lengths), bool)
    for cause, mask in causes.items():
      causes[cause] = left & mask
      left &= ~mask
    return sequences, steps, causes

  def read(self, batch: Sequence[str], first: int, path: str) -> core.Sequences:
    """The kept lines of a batch; `counts` has causes of the dropped ones.

    first: number of the batch's first line in the file at `path`.
    """
    sequences, _, causes = self._causes(batch, first, path)
    counts = {**sequences.counts, 'blank': len(batch) - len(sequences)}
    counts |= {cause: int(mask.sum()) for cause, mask in causes.items()}
    del counts['ill_formed']
    counts = {cause: count for cause, count in counts.items() if count}
    left = ~np.any([*causes.values()], 0)
    return dataclasses.replace(sequences.take(left), counts=counts)

  def first(self, cause: str, paths: Sequence[str]) -> str:
    """Description of the first line that is dropped for a cause."""
    for path in paths:
      for number, lines in text.batches(path, CHUNK):
        sequences, steps, causes = self._causes(lines, number, path)
        for row in np.flatnonzero(causes[cause])[:1]:
          line = sequences.side['line'][row]
          tokens, length = sequences.tokens[row], sequences.lengths[row]
          word = self.reader.world.vocab[tokens[min(steps[row], length - 1)]]
          return (
            f'{Path(path).name}, line {line}, token {steps[row] + 1}: {word}'
          )
    return ''


def fetch_map(out: str | Path, place: str) -> str:
  """Writes nodes.csv, edges.csv and map.graphml of a place of OpenStreetMap.

  Args:
    out: folder, created if absent.
    place: e.g. 'Manhattan, New York City, USA'; its map is today's.

  Returns:
    A summary.

  Raises:
    InputError: no such place, or no internet.
  """
  osmnx = streets.osmnx_library()
  osmnx.settings.use_cache = False  # Else it fills ./cache.
  with inputs.reading(repr(place), 'a place that can be fetched'):
    network = osmnx.graph.graph_from_place(place, network_type='drive')
  graph = streets.from_networkx(network, place)
  out = Path(out)
  with files.replacing(out / 'map.graphml') as temporary:
    osmnx.io.save_graphml(network, temporary)
  save_streets(graph, out)
  counts = ', '.join(f'{k} {n}' for k, n in graph.counts.items())
  read_as = '; '.join(f'{k}: {text}' for k, text in graph.read_as.items())
  return (
    f'{len(graph)} intersections and {graph.num_edges} streets in {out} '
    f'({counts}; {read_as})'
  )


def save_streets(graph: streets.StreetGraph, out: Path) -> tuple[Path, Path]:
  """Writes nodes.csv and edges.csv to `out`; returns their paths."""
  paths = out / 'nodes.csv', out / 'edges.csv'
  for path, content in zip(paths, streets.to_csv(graph), strict=True):
    files.write_text(path, content)
  return paths


def from_graph(graph: Any, out: str | Path, **fields: Any) -> maps.World:
  """The world of a networkx or OSMnx graph.

  It writes nodes.csv and edges.csv to `out`, and the world's spec names these
  files, so that runs can be repeated.

  Args:
    graph: networkx graph of any kind. Node names stay. Nodes may have places,
      and edges lengths; see `worlds.maps.streets.load_file`.
    out: folder of the two files.
    **fields: fields of the world, such as traversal='shortest'.

  Raises:
    InputError: not a networkx graph, or one without a path.
  """
  import networkx as nx

  if not isinstance(graph, nx.Graph):
    raise core.InputError(
      f'the graph is of type {type(graph).__name__}; expected one of networkx'
    )
  # Bad fields are refused before files are written.
  listed = ', '.join(f'{name}={value!r}' for name, value in fields.items())
  registry.resolve('world', f'maps({listed})')
  street_graph = streets.from_networkx(graph, 'the graph')
  streets.check_lost(street_graph, 'the graph')
  nodes, edges = save_streets(street_graph, Path(out))
  return maps.World(nodes=str(nodes), edges=str(edges), **fields)
