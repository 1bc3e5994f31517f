"""Tasks on a Dask cluster of this machine against one worker and no cluster.

Rates are by processor time, so that other work on the machine does not matter:
a run on two cores takes half of what workers, scheduler and driver spend
together; with one worker it takes what that worker spends, the others being
beside it.
"""

from __future__ import annotations

import pathlib
import tempfile
import time
from collections.abc import Callable, Iterator

from tests.bench import harness, pgn_bench
from tests.cluster import Cluster

WALKS = 1 << 20
COPIES = 6  # Of each PGN file, so that there are blocks for two workers.
TASKS = 1000


def _spent(process: int) -> float:
  """Processor seconds of a process so far."""
  import psutil

  return sum(psutil.Process(process).cpu_times()[:2])


class _Costs:
  """Processor seconds by part of a cluster, between two moments."""

  def __init__(self, cluster: Cluster) -> None:
    self._cluster, self._before = cluster, self._now(cluster)

  def _now(self, cluster: Cluster) -> tuple[float, float]:
    workers = sum(_spent(worker.pid) for worker in cluster.workers)
    return workers, _spent(cluster.scheduler.pid) + time.process_time()

  def taken(self) -> tuple[float, float]:
    """Of workers; of scheduler and driver."""
    after = self._now(self._cluster)
    return after[0] - self._before[0], after[1] - self._before[1]


def _start() -> Cluster:
  try:
    import distributed  # noqa: F401
  except ImportError as error:
    raise harness.Skip(f'no extra cluster: {error}') from error
  return Cluster(pathlib.Path(tempfile.mkdtemp()))


def _beside(
  name: str, unit: str, num: int, run: Callable[..., None]
) -> Iterator[harness.Line]:
  """Lines of a call that takes `cluster`, on two workers, one and none."""
  run()  # Compiles.
  before = time.process_time()
  run()
  plain = time.process_time() - before
  with _start() as cluster:
    cluster.work(2)
    costs = []
    for _ in range(2):  # The first time, workers import and compile.
      meter = _Costs(cluster)
      run(cluster=cluster.address)
      costs.append(meter.taken())
  workers, others = costs[-1]
  two = (workers + others) / 2
  for baseline, seconds, target in (
    ('one worker alone', workers, '>= 1.6'),
    ('the plain command', plain, '>= .9'),
  ):
    yield harness.Line(
      name=f'{name} by tasks, two cores',
      value=num / two,
      unit=f'{unit}/s of two cores',
      baseline=f'{baseline}, same run',
      ratio=seconds / two,
      target=target,
    )
  yield harness.Line(
    name=f'{name} by tasks, share of scheduler and driver',
    value=others / (workers + others),
    unit='of processor time',
  )


def bench_tasks_sampling() -> Iterator[harness.Line]:
  """Random walks of Manhattan in chunks of 131,072."""
  from wm.library import calls

  world = harness.manhattan_world()

  def run(**where: str) -> None:
    with tempfile.TemporaryDirectory() as out:
      calls.sample(world, out, num=WALKS, num_heldout=1, **where)

  yield from _beside('random walks', 'sequences', WALKS, run)


def bench_tasks_ingestion() -> Iterator[harness.Line]:
  """PGN files, each several times over."""
  from wm.library import calls

  with tempfile.TemporaryDirectory() as place:
    paths = []
    for source in pgn_bench.paths():
      paths.append(pathlib.Path(place, source.name))
      paths[-1].write_bytes(source.read_bytes() * COPIES)
    games = []

    def run(**where: str) -> None:
      with tempfile.TemporaryDirectory() as out:
        made = calls.ingest(paths, out, **where)
        games.append(made['train'].manifest['ingest']['games'])

    run()
    yield from _beside('PGN files', 'games', games[0], run)


def bench_tasks_overhead() -> Iterator[harness.Line]:
  """What a task costs that does nothing."""
  from wm.runtime import tasks

  with _start() as cluster:
    cluster.work(1)
    todo = [tasks.Task(dict, {'number': k}) for k in range(TASKS)]
    for _ in tasks.run(todo[:1], cluster=cluster.address):
      pass
    meter = _Costs(cluster)
    for _ in tasks.run(todo, cluster=cluster.address):
      pass
    workers, others = meter.taken()
  for name, seconds in (('worker', workers), ('scheduler and driver', others)):
    yield harness.Line(
      name=f'a task that does nothing, {name}',
      value=1000 * seconds / TASKS,
      unit='CPU-ms',
    )
