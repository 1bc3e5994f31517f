"""Kernels on Manhattan, against their plain reference and against peers.

Everything runs on one core unless a line's name says otherwise. rustworkx
takes its number of threads from the environment when it starts, so it runs
in a process of its own.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterator

import numpy as np

from tests.bench import harness
from tests.kernels import dfa_ref
from tests.kernels.maps import ref as maps_ref
from wm.kernels import dfa
from wm.kernels.maps import pair_routes, paths
from wm.worlds import maps
from wm.worlds.maps import routes

DIRECTIONS = ('N', 'NE', 'E', 'SE', 'S', 'SW', 'W', 'NW')
# The process that times rustworkx: edges in, seconds out.
PEER = """
import json, sys, time
import rustworkx
size, edges = json.load(sys.stdin)
graph = rustworkx.PyDiGraph()
graph.add_nodes_from(range(size))
graph.add_edges_from([tuple(edge) for edge in edges])
calls = {
  'hops': lambda: rustworkx.distance_matrix(graph),
  'dijkstra': lambda: rustworkx.all_pairs_dijkstra_path_lengths(graph, float),
}
seconds = {}
for name, call in calls.items():
  runs = []
  for _ in range(3):
    start = time.perf_counter()
    result = call()
    runs.append(time.perf_counter() - start)
    del result
  seconds[name] = min(runs)
print(json.dumps([rustworkx.__version__, seconds]))
"""


@functools.cache
def graph() -> tuple[np.ndarray, np.ndarray]:
  """Table [S, 8] and lengths [S, 8] in metres of the shortest-path graph."""
  with open(harness.manhattan() / 'edges.csv', encoding='utf-8') as file:
    edges = list(csv.DictReader(file))
  ends = {int(edge[end]) for edge in edges for end in ('node', 'neighbor')}
  rows = {node: row for row, node in enumerate(sorted(ends))}
  delta = np.full((len(rows), 8), -1, np.int32)
  lengths = np.full((len(rows), 8), np.nan)
  for edge in edges:
    place = rows[int(edge['node'])], DIRECTIONS.index(edge['direction'])
    delta[place] = rows[int(edge['neighbor'])]
    lengths[place] = float(edge['length_m'])
  return delta, lengths


def triples() -> list[tuple[int, int, float]]:
  """Edges as tail, head, metres."""
  delta, lengths = graph()
  tails, labels = np.nonzero(delta >= 0)
  columns = tails, delta[tails, labels], lengths[tails, labels]
  return list(zip(*(column.tolist() for column in columns), strict=True))


@functools.cache
def rustworkx() -> tuple[str, dict[str, float]]:
  """Version, and wall seconds of its all-pairs searches."""
  result = subprocess.run(
    [sys.executable, '-c', PEER],
    input=json.dumps([len(graph()[0]), triples()]),
    capture_output=True,
    text=True,
    env={**os.environ, 'RAYON_NUM_THREADS': '1'},
    check=False,
  )
  if result.returncode:
    raise harness.Skip(f'rustworkx: {result.stderr.strip()[-200:]}')
  version, seconds = json.loads(result.stdout)
  return f'rustworkx {version}, 1 thread, same run', seconds


def scipy(unweighted: bool) -> tuple[str, float]:
  """Version, and wall seconds of SciPy's all-pairs search, one thread."""
  import scipy
  from scipy import sparse
  from scipy.sparse import csgraph

  tails, heads, lengths = zip(*triples(), strict=True)
  size = len(graph()[0])
  matrix = sparse.csr_matrix((lengths, (tails, heads)), shape=(size, size))
  timing = harness.measure(
    lambda: csgraph.dijkstra(matrix, unweighted=unweighted), runs=3
  )
  return f'scipy {scipy.__version__}, same run', timing.wall


def pairs(num: int) -> tuple[np.ndarray, ...]:
  """Random pairs of states."""
  rng = np.random.default_rng(0)
  return tuple(rng.integers(0, len(graph()[0]), (4, num)).astype(np.int32))


def bench_boundaries() -> Iterator[harness.Line]:
  """Exact boundaries, listed."""
  delta, _ = graph()
  for depth, num, few in ((5, 100_000, 100), (8, 10_000, 20)):
    states = pairs(num)
    several = [column[:few] for column in states]
    yield harness.rated(
      f'boundaries k={depth}',
      'pairs',
      num,
      functools.partial(dfa.boundary, delta, *states, depth),
      few,
      functools.partial(dfa_ref.boundary, delta, *several, depth),
      {5: '300000 pairs/s', 8: '5000 pairs/s'}[depth],
    )


def bench_boundaries_of_metrics() -> Iterator[harness.Line]:
  """The same pairs as metrics ask a world for them, and as people read them."""
  world = harness.manhattan_world()
  num = 100_000
  rows1, rows2, goals1, goals2 = pairs(num)
  first, second = np.stack([rows1, goals1], 1), np.stack([rows2, goals2], 1)
  states = rows1, rows2, goals1, goals2
  kernel = harness.measure(lambda: dfa.boundary(world.graph.delta, *states, 5))
  arrays = harness.measure(lambda: world.boundary(first, second, 5))
  tuples = harness.measure(lambda: world.boundary(first, second, 5).listed())
  for name, timing in (('arrays', arrays), ('tuples', tuples)):
    yield harness.compared(
      f'boundaries k=5 of the world, as {name}',
      num / timing.cpu,
      'pairs/CPU-s',
      *(timing, kernel, 'the kernel alone'),
    )


def bench_hops() -> Iterator[harness.Line]:
  """Hop distances of all pairs."""
  delta, _ = graph()
  timing = harness.measure(lambda: paths.hops(delta), runs=9)
  yield from _against('all-pairs hops', timing, 'hops', '10 times faster')


def bench_dijkstra() -> Iterator[harness.Line]:
  """Distances of all pairs, float lengths; SciPy has one thread only."""
  delta, lengths = graph()
  timing = harness.measure(lambda: paths.dijkstra(delta, lengths))
  yield from _against(
    'all-pairs Dijkstra', timing, 'dijkstra', '1.3 times faster'
  )


def _against(
  name: str, timing: harness.Timing, search: str, target: str
) -> Iterator[harness.Line]:
  """Lines against the peers."""
  peers = [scipy(search == 'hops')]
  try:
    version, seconds = rustworkx()
    peers.append((version, seconds[search]))
  except harness.Skip as why:
    print(why, file=sys.stderr)
  for baseline, wall in peers:
    yield harness.Line(
      name=name,
      value=timing.wall,
      unit='s',
      baseline=baseline,
      ratio=wall / timing.wall,
      compile_s=timing.compile_s,
      target=target,
    )


def bench_walks() -> Iterator[harness.Line]:
  """Random walks of 3 to 99 moves."""
  delta, _ = graph()
  num, few = 500_000, 2_000
  yield harness.rated(
    'random walks',
    'sequences',
    num,
    lambda: dfa.random_walks(delta, num, 3, 99, 0),
    few,
    lambda: maps_ref.random_walks(delta, few, 3, 99, 0),
    '1000000 sequences/s',
  )


def bench_routes() -> Iterator[harness.Line]:
  """Shortest routes of random pairs once the tables are there."""
  delta, lengths = graph()
  goals = np.arange(len(delta))
  _, table = paths.to_goals(delta, lengths, goals)
  num, few = 300_000, 2_000
  origins, index, *_ = pairs(num)
  yield harness.rated(
    'shortest routes',
    'sequences',
    num,
    lambda: dfa.follow(delta, table, origins, index, goals, 96),
    few,
    lambda: maps_ref.follow(
      delta, table, origins[:few], index[:few], goals, 96
    ),
    '200000 sequences/s',
  )
  timing = harness.measure(lambda: paths.to_goals(delta, lengths, goals), 3)
  alone = harness.measure(lambda: paths.dijkstra(delta, lengths), 3)
  yield harness.compared(
    'distances and tables to all goals',
    timing.wall,
    's',
    *(timing, alone, 'the distances alone', 'wall'),
  )
  noisy = routes.weighting(np.where(delta >= 0, lengths, np.nan), 0)
  roads = pair_routes.road_map(delta, noisy[None])
  each = origins[:few], index[:few], 96
  number = np.zeros(few, np.int32)
  single = harness.measure(
    lambda: pair_routes.single_routes(roads, number, *each), 3
  )
  tables = harness.measure(
    lambda: paths.shortest_routes(delta, noisy, *each), 3
  )
  yield harness.compared(
    'noisy routes of 2,000 pairs, a search for each',
    single.wall,
    's',
    *(single, tables, 'a search for each destination', 'wall'),
  )


def bench_noisy_routes() -> Iterator[harness.Line]:
  """Noisy shortest paths of 50 weightings beside plain ones, world and all."""
  plain = harness.manhattan_world('shortest')
  noisy = dataclasses.replace(plain, traversal='noisy')

  def sample(world: maps.World, num: int) -> None:
    """By a world that has its map and nothing else, as a new process."""
    fresh = dataclasses.replace(world)
    vars(fresh)['graph'] = plain.graph
    fresh.sample(num, 0)

  for num in (1_000, 10_000, 100_000, 400_000):
    timings = harness.in_turns(
      {
        'noisy': functools.partial(sample, noisy, num),
        'plain': functools.partial(sample, plain, num),
      },
      runs=3,
    )
    yield harness.compared(
      f'{num:,} noisy shortest paths of Manhattan, from none',
      num / timings['noisy'].cpu,
      'sequences/CPU-s',
      *(timings['noisy'], timings['plain'], 'plain shortest paths'),
      target='0.5',
    )
