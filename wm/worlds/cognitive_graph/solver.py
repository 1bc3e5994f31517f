"""Exact answers to CogEval's questions, from the graph alone."""

from __future__ import annotations

import collections
import functools
from collections.abc import Iterable, Mapping

from wm.worlds.cognitive_graph.graphs import Graph

Path = tuple[int, ...]


@functools.lru_cache(maxsize=4096)
def distances(graph: Graph, start: int) -> Mapping[int, int]:
  """Node -> arcs on a shortest path from `start`, of the reachable nodes."""
  steps = {start: 0} if start in graph.after else {}
  queue = collections.deque(steps)
  while queue:
    node = queue.popleft()
    for head in graph.after[node]:
      if head not in steps:
        steps[head] = steps[node] + 1
        queue.append(head)
  return steps


@functools.lru_cache(maxsize=4096)
def shortest_paths(graph: Graph, start: int, goal: int) -> tuple[Path, ...]:
  """All shortest paths, both ends included, in ascending order; () of none."""
  steps = distances(graph, start)
  if goal not in steps:
    return ()
  paths: list[Path] = [(goal,)]
  for step in range(steps[goal] - 1, -1, -1):
    paths = [
      (node, *path)
      for path in paths
      for node in graph.nodes
      if steps.get(node) == step and (node, path[0]) in graph.known
    ]
  return tuple(sorted(paths))


def best_nodes(graph: Graph) -> tuple[int, ...]:
  """The nearest of the reachable nodes that hold the largest reward."""
  steps = distances(graph, graph.start)
  rewards = {node: value for node, value in graph.rewards if node in steps}
  if not rewards:
    return ()
  most = max(rewards.values())
  best = [node for node, value in rewards.items() if value == most]
  least = min(steps[node] for node in best)
  return tuple(sorted(node for node in best if steps[node] == least))


def best_paths(graph: Graph) -> tuple[Path, ...]:
  """All shortest paths from the start to the largest single reward."""
  goals = best_nodes(graph)
  by_goal = [shortest_paths(graph, graph.start, goal) for goal in goals]
  return tuple(sorted(path for paths in by_goal for path in paths))


def best_choices(graph: Graph) -> tuple[int, ...]:
  """First steps of the best paths, ascending.

  Where doors lead somewhere by chance, the steps with the largest probability
  of coming to the largest reward, under the best choices afterwards.
  """
  if not graph.chances:
    return tuple(sorted({path[1] for path in best_paths(graph) if path[1:]}))
  most = max(value for _, value in graph.rewards)
  goals = [node for node, value in graph.rewards if value == most]
  chance = _chances(graph, goals)
  steps = graph.after[graph.start]
  best = max(chance[node] for node in steps)
  return tuple(node for node in steps if chance[node] == best)


def _chances(graph: Graph, goals: Iterable[int]) -> Mapping[int, float]:
  """Node -> probability of coming to a goal, the best choice at every node."""
  by_chance: dict[int, list[tuple[int, float]]] = {}
  for tail, head, probability in graph.chances:
    by_chance.setdefault(tail, []).append((head, probability))
  chance = {node: float(node in goals) for node in graph.nodes}
  for _ in graph.nodes:
    for node in graph.nodes:
      if node in by_chance:
        chance[node] = sum(p * chance[head] for head, p in by_chance[node])
      elif graph.after[node] and node not in goals:
        chance[node] = max(chance[head] for head in graph.after[node])
  return chance


def clusters(graph: Graph) -> tuple[frozenset[int], ...]:
  """Groups of at least two nodes that triangles hold together.

  Two neighbours are in one group where they have a neighbour in common; the
  bridges of a community graph lie in no triangle.
  """
  near = {node: frozenset(graph.neighbours(node)) for node in graph.nodes}
  inside = {
    node: [n for n in near[node] if near[n] & near[node]] for node in near
  }
  groups: list[frozenset[int]] = []
  left = set(graph.nodes)
  while left:
    group, queue = set(), [min(left)]
    while queue:
      node = queue.pop()
      if node not in group:
        group.add(node)
        queue.extend(inside[node])
    left -= group
    if len(group) > 1:
      groups.append(frozenset(group))
  return tuple(groups)


def pairs(graph: Graph, distance: int) -> tuple[tuple[int, int], ...]:
  """Pairs of nodes that a shortest path of `distance` arcs joins, ascending."""
  return tuple(
    (start, goal)
    for start in graph.nodes
    for goal, steps in distances(graph, start).items()
    if steps == distance
  )


def diameter(graph: Graph) -> int:
  """Arcs on the longest of all shortest paths."""
  return max(max(distances(graph, node).values()) for node in graph.nodes)
