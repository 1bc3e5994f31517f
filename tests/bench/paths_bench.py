"""Simple paths of 53 text games, and labels of questions at every cut-off."""

from __future__ import annotations

from collections.abc import Iterator

import networkx as nx
import numpy as np

from tests.bench import harness
from tests.kernels import simple_paths_ref as ref
from tests.worlds.text_game import games
from wm.language.papers.mango import maze_questions
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
    return sum(maze_questions.destinations(maze).size for maze in mazes)

  counts = {run(), sum(map(_networkx, mazes)), sum(map(_plain, mazes))}
  if counts != {PATHS}:
    raise AssertionError(f'{counts} paths, not {PATHS}')
  fast = harness.measure(run)
  for name, other in (('networkx', _networkx), ('plain Python', _plain)):
    slow = harness.measure(lambda other=other: sum(map(other, mazes)), runs=1)
    yield harness.compared(
      'simple paths of 53 games (21,160), edges and labels',
      fast.wall,
      's',
      *(fast, slow, f'{name}, paths alone', 'wall', '.05 s'),
    )


def bench_full_annotation() -> Iterator[harness.Line]:
  """3.42 million paths: questions of both tasks, easy and hard at each step."""
  mazes = _mazes('annotation-full-2024-03.tar.gz')

  def run() -> tuple[int, np.ndarray]:
    total, labels = 0, np.zeros((2, 2), np.int64)
    for maze in mazes:
      result = maze_questions.destinations(maze, listed=False)
      routes = maze_questions.routes(result, len(maze.places))
      total += result.size
      labels += [
        maze_questions.counts(sample)[-1] for sample in (result, routes)
      ]
    return total, labels

  total, labels = run()
  if total != EVERY or labels[0].sum() != EVERY:
    raise AssertionError(f'{total} paths, not {EVERY}')
  fast = harness.measure(run)
  yield harness.Line(
    name='full annotation, 3.42 M paths, labels at every step',
    value=fast.wall,
    unit='s',
    compile_s=fast.compile_s,
    target='1.5 s',
  )
