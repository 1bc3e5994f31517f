"""The functions of `wm.kernels.maps` in plain Python: their specification.

They take what those take, unchecked, and return the same to the last bit.
`reconstruction_ref` specifies `reconstruction`.
"""

from __future__ import annotations

import heapq

import numpy as np

from tests.kernels.base.rng_ref import below, splitmix
from wm import core
from wm.kernels.dfa import ATTEMPTS


def dijkstra(
  delta: np.ndarray,
  lengths: np.ndarray,
  sources: np.ndarray | None = None,
  *,
  reverse: bool = False,
) -> np.ndarray:
  """Dijkstra's algorithm with a heap, from each source; one weighting."""
  edges: list[list[tuple[int, float]]] = [[] for _ in delta]
  for tail, label in np.argwhere(delta >= 0).tolist():
    head, length = int(delta[tail, label]), float(lengths[tail, label])
    here, there = (head, tail) if reverse else (tail, head)
    edges[here].append((there, length))
  sources = np.arange(len(delta)) if sources is None else np.asarray(sources)
  dist = np.full((len(sources), len(delta)), np.inf)
  for source, far in zip(sources.tolist(), dist, strict=True):
    far[source] = 0.0
    heap = [(0.0, source)]
    while heap:
      passed, row = heapq.heappop(heap)
      if passed > far[row]:
        continue
      for other, length in edges[row]:
        if passed + length < far[other]:
          far[other] = passed + length
          heapq.heappush(heap, (passed + length, other))
  return dist


def to_goals(
  delta: np.ndarray, lengths: np.ndarray, goals: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Distances, and the lowest label of a shortest route's first edge.

  Edges so short that rounding loses them lead to rows that are equally far. A
  row that only such edges leave takes, in rounds, the lowest label that leads
  to a row settled in an earlier round, so that routes never run in circles.
  """
  dist = dijkstra(delta, lengths, goals, reverse=True)
  labels = np.full(dist.shape, core.DEAD, np.int8)
  edges = [
    [(k, v, float(lengths[u, k])) for k, v in enumerate(heads) if v >= 0]
    for u, heads in enumerate(delta.tolist())
  ]
  for far, goal, out in zip(dist, goals, labels, strict=True):
    # By row: label and head of the edges that start a shortest route.
    best = [
      [(k, v) for k, v, length in edges[u] if length + far[v] == far[u]]
      if far[u] < np.inf
      else []
      for u in range(len(delta))
    ]
    for row, ways in enumerate(best):
      nearer = [label for label, head in ways if far[head] < far[row]]
      if nearer and row != goal:
        out[row] = nearer[0]
    settled = out >= 0
    settled[goal] = True
    ready = {goal: core.DEAD}
    while ready:
      ready = {}
      for row, ways in enumerate(best):
        level = [label for label, head in ways if settled[head]]
        if level and not settled[row]:
          ready[row] = level[0]
      for row, label in ready.items():
        out[row], settled[row] = label, True
  return dist, labels


def follow(
  delta: np.ndarray,
  table: np.ndarray,
  origins: np.ndarray,
  index: np.ndarray,
  goals: np.ndarray,
  most: int,
) -> tuple[np.ndarray, np.ndarray]:
  """Follows tables to goals; one move beyond the columns marks the longer."""
  labels = np.full((len(origins), most), core.DEAD, np.int8)
  moves = np.empty(len(origins), np.int32)
  for b, row in enumerate(origins):
    route: list[int] = []
    while row != goals[index[b]] and len(route) <= most:
      label = table[index[b], row]
      if label == core.DEAD:
        break
      route.append(label)
      row = delta[row, label]
    moves[b] = len(route)
    if row != goals[index[b]] and len(route) <= most:
      moves[b], route = core.DEAD, []
    labels[b, : len(route)] = route[:most]
  return labels, moves


def shortest_routes(
  delta: np.ndarray,
  lengths: np.ndarray,
  origins: np.ndarray,
  destinations: np.ndarray,
  most: int,
) -> tuple[np.ndarray, np.ndarray]:
  """One table of routes for each destination asked for."""
  goals, index = np.unique(destinations, return_inverse=True)
  table = to_goals(delta, lengths, goals)[1]
  return follow(delta, table, origins, index, goals, most)


def random_walks(
  delta: np.ndarray, num: int, low: int, high: int, seed: int, *, first: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Two draws of a walk's stream give origin and length, the others edges."""
  labels = [np.flatnonzero(row >= 0) for row in delta]
  starts = [row for row in range(len(delta)) if len(labels[row])]
  origins = np.full(num, core.DEAD, np.int32)
  walked = np.full((num, high), core.DEAD, np.int8)
  lengths = np.zeros(num, np.int32)
  for n in range(num):
    key = splitmix(splitmix(seed) ^ (first + n))
    for attempt in range(ATTEMPTS):
      draw = attempt * (high + 2)
      row = starts[below(key, draw, len(starts))]
      expected = low + below(key, draw + 1, high - low + 1)
      origins[n], steps = row, 0
      while steps < expected and len(labels[row]):
        edge = below(key, draw + 2 + steps, len(labels[row]))
        walked[n, steps] = labels[row][edge]
        row = delta[row, walked[n, steps]]
        steps += 1
      if steps >= low:
        lengths[n] = steps
        break
      walked[n] = core.DEAD
  return origins, walked, lengths


# Geometry.


def within(
  lat: np.ndarray, lon: np.ndarray, reach: float, radius: float
) -> tuple[np.ndarray, np.ndarray]:
  """Distances from each node to all."""
  offsets, nodes = [0], []
  for here in range(len(lat)):
    apart = _distance(lat[here], lon[here], lat, lon, radius)
    nodes.append(np.flatnonzero(apart <= reach))
    offsets.append(offsets[-1] + len(nodes[-1]))
  return np.array(offsets, np.int64), np.concatenate(nodes).astype(np.int32)


def _distance(
  lat_a: float,
  lon_a: float,
  lat_b: np.ndarray,
  lon_b: np.ndarray,
  radius: float,
) -> np.ndarray:
  """Great-circle distance (haversine), degrees in, unit of `radius` out."""
  rad = np.pi / 180
  across = np.sin((lat_b - lat_a) * (rad / 2)) ** 2
  along = np.sin((lon_b - lon_a) * (rad / 2)) ** 2
  chord = across + np.cos(lat_a * rad) * np.cos(lat_b * rad) * along
  return 2 * radius * np.arcsin(np.sqrt(np.minimum(chord, 1)))


def crossings(
  x: np.ndarray, y: np.ndarray, tails: np.ndarray, heads: np.ndarray, num: int
) -> np.ndarray:
  """All pairs, by the sides that ends lie on."""

  def side(a: int, b: int, c: int) -> float:
    return (x[b] - x[a]) * (y[c] - y[a]) - (y[b] - y[a]) * (x[c] - x[a])

  counts = np.zeros(num, np.int64)
  for i in range(num):
    a, b = tails[i], heads[i]
    for c, d in zip(tails, heads, strict=True):
      if len({a, b, c, d}) == 4:
        counts[i] += (
          side(a, b, c) * side(a, b, d) < 0
          and side(c, d, a) * side(c, d, b) < 0
        )
  return counts
