"""Simple paths of 53 text games, and labels of questions at every cut-off."""

from __future__ import annotations

from collections.abc import Iterator

import networkx as nx

from tests.bench import harness
from tests.kernels import simple_paths_ref as ref
from tests.worlds.text_game import games
from wm.worlds.text_game import questions as game_questions
from wm.worlds.text_game.maze import Maze

MANGO = harness.MANHATTAN.parent / 'mango'
PATHS, EVERY = 21_160, 3_417_544


def _mazes(name: str) -> list[Maze]:
  path = MANGO / name
  if not path.is_file():
    raise harness.Skip(f'no MANGO data at {path}')
  result = games.read_all(path)
  result.pop('theatre', None)  # Annotated, but none of the 53.
  return list(result.values())


def _networkx(maze: Maze) -> int:
  """All simple paths between all pairs, parallel edges apart."""
  graph = nx.MultiDiGraph()
  graph.add_nodes_from(range(len(maze.places)))
  edges = maze.edges
  for u, a, v in zip(*(c.tolist() for c in edges[:3]), strict=True):
    graph.add_edge(u, v, key=a)
  return sum(
    1
    for source in graph
    for target in graph
    if source != target
    for _ in nx.all_simple_edge_paths(graph, source, target)
  )


def _plain(maze: Maze) -> int:
  """The specification of the kernel, without labels."""
  edges = maze.edges
  sides = edges.source.tolist(), edges.target.tolist()
  return sum(1 for _ in ref.walks(*sides, len(maze.places)))


def bench_simple_paths() -> Iterator[harness.Line]:
  """Paths with their edges and labels, against networkx and plain Python."""
  mazes = _mazes('camera-ready-70.tar.gz')

  def run() -> int:
    return sum(game_questions.destinations(maze).size for maze in mazes)

  counts = {run(), sum(map(_networkx, mazes)), sum(map(_plain, mazes))}
  if counts != {PATHS}:
    raise AssertionError(f'{counts} paths, not {PATHS}')
  fast = harness.measure(run)
  for name, other in (('networkx', _networkx), ('plain Python', _plain)):
    slow = harness.measure(lambda other=other: sum(map(other, mazes)), runs=1)
    yield harness.Line(
      name='simple paths of 53 games (21,160), edges and labels',
      value=fast.wall,
      unit='s',
      baseline=f'{name}, paths alone, same run',
      ratio=slow.wall / fast.wall,
      compile_s=fast.compile_s,
      target='.05 s',
    )
