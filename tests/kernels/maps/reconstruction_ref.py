"""Map reconstruction in plain Python: the specification of `reconstruction`.

Vafa et al. 2024, section 4 and appendix E: `program_route` is what the
published program does, `paper_route` the algorithm as printed.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wm import core
from wm.kernels.maps.reconstruction import (
  NO_CANDIDATE,
  NO_ROOM,
  OFF_DESTINATION,
  OK,
  TOO_FAR,
  PlacementProblem,
  UsedEdges,
)

Edge = tuple[int, int]  # node, label


class _Used(NamedTuple):
  target: int
  false: bool
  route: int


class _Map:
  """Edges in use, label -> _Used of each node, in order of their adding.

  Attributes:
    true: label -> target of each node's true edges.
    near: candidates of each node's false edges.
    route: number of the route that is being placed.
  """

  def __init__(self, problem: PlacementProblem) -> None:
    self.true = [
      {label: to for label, to in enumerate(row) if to != core.DEAD}
      for row in problem.delta.tolist()
    ]
    self.near = [
      problem.near_nodes[a:b].tolist()
      for a, b in itertools.pairwise(problem.near_offsets)
    ]
    self.used: list[dict[int, _Used]] = [{} for _ in self.true]
    self.max_degree = problem.max_degree
    self.route = 0

  def add(self, node: int, label: int, target: int, false: bool) -> None:
    """Puts an edge in use."""
    self.used[node][label] = _Used(target, false, self.route)

  def take(self, node: int, labels: Sequence[int], path: Sequence[int]) -> int:
    """Puts the true edges of a walk in use; returns its last node."""
    for label, target in zip(labels, path, strict=False):
      if label not in self.used[node]:
        self.add(node, label, target, False)
      node = target
    return node

  def has_room(
    self, node: int, label: int, fresh: set[Edge], pending: Edge
  ) -> bool:
    """May an edge with this label be added, after fresh and pending ones?"""
    taken = {(node, used) for used in self.used[node]}
    taken |= {edge for edge in {*fresh, pending} if edge[0] == node}
    return len(taken) < self.max_degree and (node, label) not in taken

  def fits(self, node: int, target: int, fresh: set[Edge]) -> bool:
    """Does an edge to `target` keep the distinct neighbours in their limit?"""
    known = {edge.target for edge in self.used[node].values()}
    known |= {self.true[node][label] for n, label in fresh if n == node}
    return target in known or len(known) < self.max_degree


def _walk(
  graph: _Map,
  start: int,
  destination: int,
  labels: Sequence[int],
  pending: Edge,
) -> list[int]:
  """Nodes after each label followed.

  All of them where the walk ends at the destination, else the longest proper
  prefix whose last node has room for an edge with the next label.
  """
  path, node = [], start
  fresh: list[Edge | None] = []  # True edges first used by a step.
  for label in labels:
    edge = (node, label)
    new = None
    if label in graph.used[node]:
      target = graph.used[node][label].target
    elif label in graph.true[node] and edge != pending:
      held = {e for e in fresh if e}
      if edge not in held:
        if not graph.has_room(node, label, held, pending):
          break
        new = edge
      target = graph.true[node][label]
    else:
      break
    fresh.append(new)
    path.append(target)
    node = target
  if len(path) == len(labels) and node == destination:
    return path
  length = min(len(path), len(labels) - 1)
  while length and not graph.has_room(
    path[length - 1], labels[length], {e for e in fresh[:length] if e}, pending
  ):
    length -= 1
  return path[:length]


def program_route(
  graph: _Map, node: int, destination: int, labels: Sequence[int]
) -> int:
  """Places one route as the published program does; returns OK or why not.

  Where the walk stops, backed up to a node with room, a false edge is added
  there: to the candidate in reach from which most of the rest can be walked,
  the first among equals; for the last direction, to the destination.
  """
  path = _walk(graph, node, destination, labels, (-1, -1))
  done = len(path)
  if not done and not graph.has_room(node, labels[0], set(), (-1, -1)):
    return NO_ROOM
  node = graph.take(node, labels, path)
  while done < len(labels):
    label, rest = labels[done], labels[done + 1 :]
    if not rest:
      if destination not in graph.near[node]:
        return TOO_FAR
      graph.add(node, label, destination, True)
      return OK
    best: list[int] = []
    chosen = -1
    for candidate in graph.near[node]:
      path = _walk(graph, candidate, destination, rest, (node, label))
      if len(path) > len(best):
        best, chosen = path, candidate
    if not best:
      return NO_CANDIDATE
    graph.add(node, label, chosen, True)
    node = graph.take(chosen, rest, best)
    done += 1 + len(best)
  return OK


def _follow(
  graph: _Map, node: int, destination: int, labels: Sequence[int]
) -> int:
  """Steps that can be walked; being at the destination at the end is one."""
  fresh: set[Edge] = set()
  for steps, label in enumerate(labels):
    if label in graph.used[node]:
      node = graph.used[node][label].target
      continue
    target = graph.true[node].get(label, core.DEAD)
    if target == core.DEAD or not graph.fits(node, target, fresh):
      return steps
    fresh.add((node, label))
    node = target
  return len(labels) + (node == destination)


def paper_route(
  graph: _Map, node: int, destination: int, labels: Sequence[int]
) -> int:
  """Places one route by the algorithm as printed; returns OK or why not.

  It never backs up: a node whose distinct neighbours are at the limit, and a
  walk that ends off the destination, fail the route. A false edge leads to
  the candidate from which most steps can be walked, none required, the first
  among equals; never to the node itself or to a neighbour that it has.
  """
  for done, label in enumerate(labels):
    rest = labels[done + 1 :]
    if label in graph.used[node]:
      node = graph.used[node][label].target
      continue
    if label in graph.true[node]:
      target = graph.true[node][label]
      if not graph.fits(node, target, set()):
        return NO_ROOM
      graph.add(node, label, target, False)
      node = target
      continue
    if not graph.fits(node, -1, set()):
      return NO_ROOM
    best, chosen = -1 if rest else 0, -1  # The last one must end the route.
    known = {edge.target for edge in graph.used[node].values()} | {node}
    for candidate in graph.near[node]:
      if candidate in known:
        continue
      graph.used[node][label] = _Used(candidate, True, graph.route)
      steps = _follow(graph, candidate, destination, rest)
      del graph.used[node][label]
      if steps > best:
        best, chosen = steps, candidate
    if chosen < 0:
      return NO_CANDIDATE if rest else TOO_FAR
    graph.add(node, label, chosen, True)
    node = chosen
  return OK if node == destination else OFF_DESTINATION


def reconstruct(problem: PlacementProblem) -> UsedEdges:
  """Places routes one after the other."""
  graph = _Map(problem)
  place = paper_route if problem.paper else program_route
  ends = zip(
    problem.origins.tolist(), problem.destinations.tolist(), strict=True
  )
  reasons = np.zeros(len(problem.origins), np.int8)
  for n, (origin, destination) in enumerate(ends):
    graph.route = n
    start, stop = problem.offsets[n : n + 2]
    route = problem.labels[start:stop].tolist()
    reasons[n] = place(graph, origin, destination, route)
  rows = [
    (node, label, edge.target, edge.false, edge.route)
    for node, used in enumerate(graph.used)
    for label, edge in sorted(used.items())
  ]
  columns = np.array(rows, np.int32).reshape(-1, 5).T
  source, label, target, false, route = columns
  return UsedEdges(source, label, target, false.astype(bool), route, reasons)
