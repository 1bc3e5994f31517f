"""The store at a tenth of the paper's 91 M random walks of Manhattan.

`python -m tests.bench.data_bench FOLDER` reads a store by itself, so that the
memory it takes is its own.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from tests.bench import harness

PAPER = 91_000_000  # Vafa et al. 2024: 90,646,864 random walks.
PART = 10
NUM = int(os.environ.get('WM_BENCH_WALKS', PAPER // PART))
BATCH = 64
READ = 4000  # Batches read, after as many that are not timed.
LIMIT_GB, LIMIT_TOKENS = 12.0, 2e6


def _megabytes() -> float:
  return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _forget(folder: str) -> None:
  """Drops a folder's files from the page cache."""
  for entry in os.scandir(folder):
    handle = os.open(entry.path, os.O_RDONLY)
    os.fsync(handle)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(handle)


def _read(folder: str) -> dict[str, float]:
  """Speed and memory of reading shuffled batches, cold and warm."""
  from wm.data import batches, store

  stream = batches.Batches(store.open(folder), BATCH, 0)
  for step in range(READ):
    stream.at(step)
  before = _megabytes()
  result = {}
  _forget(folder)
  for name, first in (('cold', READ), ('warm', READ)):
    start, tokens = time.perf_counter(), 0
    for step in range(first, first + READ):
      tokens += int(stream.at(step)[1].sum())
    result[name] = tokens / (time.perf_counter() - start)
  result['grown_mb'] = _megabytes() - before
  for mode, multiple in (('buckets', 4), ('buckets', 16), ('random', 1)):
    stream = batches.Batches(stream.store, BATCH, 0, mode, multiple)
    parts = [stream.at(step) for step in range(READ)]
    used = sum(int(lengths.sum()) for _, lengths in parts)
    result[f'{mode} {multiple}'] = used / sum(t.size for t, _ in parts)
  return result


def bench_data() -> Iterator[harness.Line]:
  """Size on disk, shuffled reading, memory, and tokens that are no pad."""
  from wm.data import sampling
  from wm.options.calls import Sampling

  world = harness.manhattan_world()
  world.sample(1000, 1)  # The graph is read and kernels are compiled.
  with tempfile.TemporaryDirectory() as out:
    start = time.perf_counter()
    made = sampling.make_dataset(
      world, out, Sampling(num=NUM, num_heldout=1, seed=0)
    )
    seconds = time.perf_counter() - start
    train = os.path.join(out, 'data', 'train')
    size = sum(entry.stat().st_size for entry in os.scandir(train))
    done = subprocess.run(
      [sys.executable, '-m', 'tests.bench.data_bench', train],
      stdout=subprocess.PIPE,
      text=True,
      check=True,
    )
  rows = made['train']['rows']
  yield from _lines(json.loads(done.stdout), rows, size, rows / seconds)


def _lines(
  outcome: dict[str, float], rows: int, size: int, speed: float
) -> Iterator[harness.Line]:
  line = harness.Line
  extrapolated = size / rows * PAPER / 1e9
  yield line(
    f'bytes of {PAPER:,} walks, from {rows:,}',
    extrapolated,
    'GB',
    'limit 12 GB',
    LIMIT_GB / extrapolated,
    target='< 12 GB',
  )
  yield line('walks sampled and stored', speed, 'sequences/s', 'none', 1.0)
  for name in ('warm', 'cold'):
    yield line(
      f'shuffled reading, page cache {name}',
      outcome[name],
      'tokens/s',
      'target 2 M tokens/s',
      outcome[name] / LIMIT_TOKENS,
      target='>= 2 M tokens/s',
    )
  yield line(
    f'peak memory grown while reading {2 * READ:,} batches',
    outcome['grown_mb'],
    'MB',
    'none',
    1.0,
    target='constant memory',
  )
  for name in ('buckets 4', 'buckets 16'):
    yield line(
      f'useful tokens, {name}',
      outcome[name],
      'share',
      f'random batches, {outcome["random 1"]:.3f}',
      outcome[name] / outcome['random 1'],
      target='>= 0.95' if name == 'buckets 4' else '',
    )


if __name__ == '__main__':
  print(json.dumps(_read(sys.argv[1])))
