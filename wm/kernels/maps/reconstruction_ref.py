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
  Edges,
  Problem,
)


class _Used(NamedTuple):
  target: int
  false: bool
  route: int


class _Map:
  """Edges in use, label -> _Used of each node, in order of their adding."""

  def __init__(self, delta: np.ndarray, max_degree: int) -> None:
    self.true = [
      {label: to for label, to in enumerate(row) if to != core.DEAD}
      for row in delta.tolist()
    ]
    self.used: list[dict[int, _Used]] = [{} for _ in self.true]
    self.max_degree = max_degree
    self.log: list[tuple[int, int]] = []

  def add(
    self, node: int, label: int, target: int, false: bool, route: int
  ) -> None:
    self.used[node][label] = _Used(target, false, route)
    self.log.append((node, label))

  def take(
    self, node: int, labels: Sequence[int], path: Sequence[int], route: int
  ) -> int:
    """Puts the true edges of a walk in use; returns its last node."""
    for label, target in zip(labels, path, strict=False):
      if label not in self.used[node]:
        self.add(node, label, target, False, route)
      node = target
    return node

  def undo(self) -> None:
    """Takes back everything logged."""
    for node, label in reversed(self.log):
      del self.used[node][label]


def _has_room(
  graph: _Map,
  node: int,
  label: int,
  fresh: set[tuple[int, int]],
  pending: tuple[int, int],
) -> bool:
  """May an edge with this label be added, after the fresh and pending ones?"""
  taken = {(node, used) for used in graph.used[node]}
  taken |= {edge for edge in {*fresh, pending} if edge[0] == node}
  return len(taken) < graph.max_degree and (node, label) not in taken


def _walk(
  graph: _Map,
  start: int,
  destination: int,
  labels: Sequence[int],
  pending: tuple[int, int],
) -> list[int]:
  """Nodes after each label followed.

  All of them where the walk ends at the destination, else the longest proper
  prefix whose last node has room for an edge with the next label.
  """
  path, node = [], start
  fresh: list[tuple[int, int] | None] = []  # True edges first used by a step.
  for label in labels:
    edge = (node, label)
    new = None
    if label in graph.used[node]:
      target = graph.used[node][label].target
    elif label in graph.true[node] and edge != pending:
      held = {e for e in fresh if e}
      if edge not in held:
        if not _has_room(graph, node, label, held, pending):
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
  while length and not _has_room(
    graph,
    path[length - 1],
    labels[length],
    {e for e in fresh[:length] if e},
    pending,
  ):
    length -= 1
  return path[:length]


def program_route(
  graph: _Map,
  near: Sequence[Sequence[int]],
  node: int,
  destination: int,
  labels: Sequence[int],
  route: int,
) -> int:
  """Places one route as the published program does; returns OK or why not.

  Where the walk stops, backed up to a node with room, a false edge is added
  there: to the candidate in reach from which most of the rest can be walked,
  the first among equals; for the last direction, to the destination.
  """
  path = _walk(graph, node, destination, labels, (-1, -1))
  done = len(path)
  if not done and not _has_room(graph, node, labels[0], set(), (-1, -1)):
    return NO_ROOM
  node = graph.take(node, labels, path, route)
  while done < len(labels):
    label, rest = labels[done], labels[done + 1 :]
    if not rest:
      if destination not in near[node]:
        return TOO_FAR
      graph.add(node, label, destination, True, route)
      return OK
    best: list[int] = []
    chosen = -1
    for candidate in near[node]:
      path = _walk(graph, candidate, destination, rest, (node, label))
      if len(path) > len(best):
        best, chosen = path, candidate
    if not best:
      return NO_CANDIDATE
    graph.add(node, label, chosen, True, route)
    node = graph.take(chosen, rest, best, route)
    done += 1 + len(best)
  return OK


def _fits(
  graph: _Map, node: int, target: int, fresh: set[tuple[int, int]]
) -> bool:
  """Does an edge to `target` keep the distinct neighbours in their limit?"""
  known = {edge.target for edge in graph.used[node].values()}
  known |= {graph.true[node][label] for n, label in fresh if n == node}
  return target in known or len(known) < graph.max_degree


def _follow(
  graph: _Map, node: int, destination: int, labels: Sequence[int]
) -> int:
  """Steps that can be walked; being at the destination at the end is one."""
  fresh: set[tuple[int, int]] = set()
  for steps, label in enumerate(labels):
    if label in graph.used[node]:
      node = graph.used[node][label].target
      continue
    target = graph.true[node].get(label, core.DEAD)
    if target == core.DEAD or not _fits(graph, node, target, fresh):
      return steps
    fresh.add((node, label))
    node = target
  return len(labels) + (node == destination)


def paper_route(
  graph: _Map,
  near: Sequence[Sequence[int]],
  node: int,
  destination: int,
  labels: Sequence[int],
  route: int,
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
      if not _fits(graph, node, target, set()):
        return NO_ROOM
      graph.add(node, label, target, False, route)
      node = target
      continue
    if not _fits(graph, node, -1, set()):
      return NO_ROOM
    best, chosen = -1 if rest else 0, -1  # The last one must end the route.
    known = {edge.target for edge in graph.used[node].values()} | {node}
    for candidate in near[node]:
      if candidate in known:
        continue
      graph.used[node][label] = _Used(candidate, True, route)
      steps = _follow(graph, candidate, destination, rest)
      del graph.used[node][label]
      if steps > best:
        best, chosen = steps, candidate
    if chosen < 0:
      return NO_CANDIDATE if rest else TOO_FAR
    graph.add(node, label, chosen, True, route)
    node = chosen
  return OK if node == destination else OFF_DESTINATION


def reconstruct(problem: Problem) -> Edges:
  """Places routes one after the other."""
  delta, near_offsets, near_nodes, origins, destinations, *_ = problem
  graph = _Map(delta, problem.max_degree)
  near = [near_nodes[a:b].tolist() for a, b in itertools.pairwise(near_offsets)]
  place = paper_route if problem.paper else program_route
  reasons = np.zeros(len(origins), np.int8)
  for n, (origin, destination) in enumerate(
    zip(origins.tolist(), destinations.tolist(), strict=True)
  ):
    graph.log = []
    start, stop = problem.offsets[n : n + 2]
    route = problem.labels[start:stop].tolist()
    reasons[n] = place(graph, near, origin, destination, route, n)
    if problem.rollback and reasons[n] != OK:
      graph.undo()
  rows = [
    (node, label, edge.target, edge.false, edge.route)
    for node, used in enumerate(graph.used)
    for label, edge in sorted(used.items())
  ]
  columns = np.array(rows, np.int32).reshape(-1, 5).T
  source, label, target, false, route = columns
  return Edges(source, label, target, false.astype(bool), route, reasons)
