"""Searches over street graphs in plain Python: the specification of
`wm.kernels.maps`."""

from __future__ import annotations

import heapq

import numpy as np

from wm import core
from wm.kernels.dfa import ref as dfa_ref

ATTEMPTS = 1000  # draws of one random walk before it is given up


def hops(
  delta: np.ndarray,
  leaving: tuple[np.ndarray, ...],
  entering: tuple[np.ndarray, ...],
  out: np.ndarray,
) -> bool:
  """Breadth-first search from every row; False where out is too narrow."""
  del leaving, entering
  unreachable = np.iinfo(out.dtype).max
  out[:] = unreachable
  heads = [[int(v) for v in row if v >= 0] for row in delta]
  for root in range(len(delta)):
    dist, queue = {root: 0}, [root]
    for row in queue:
      for head in heads[row]:
        if head not in dist:
          dist[head] = dist[row] + 1
          queue.append(head)
    if dist[queue[-1]] > unreachable - 3:
      return False
    out[root, list(dist)] = list(dist.values())
  return True


def distances(
  out_edges: tuple[np.ndarray, ...],
  in_edges: tuple[np.ndarray, ...],
  names: np.ndarray,
  sources: np.ndarray,
  threads: int,
  dist: np.ndarray,
  labels: np.ndarray,
) -> None:
  """Dijkstra's algorithm with a heap, from each source.

  With labels [B, S] given, the sources are goals, the searches go against
  the edges, and `names` are the labels of in_edges.
  """
  del threads
  indptr, heads, lengths = (column.tolist() for column in out_edges)
  dist[:] = np.inf
  for source, far in zip(sources.tolist(), dist, strict=True):
    far[source] = 0.0
    heap = [(0.0, source)]
    while heap:
      here, row = heapq.heappop(heap)
      if here > far[row]:
        continue
      for e in range(indptr[row], indptr[row + 1]):
        if here + lengths[e] < far[heads[e]]:
          far[heads[e]] = here + lengths[e]
          heapq.heappush(heap, (here + lengths[e], heads[e]))
  if len(labels):
    _first_labels((*in_edges, names), dist, sources, labels)


def _first_labels(
  edges: tuple[np.ndarray, ...],
  dist: np.ndarray,
  goals: np.ndarray,
  labels: np.ndarray,
) -> None:
  """Fills labels [G, S] with the lowest label of a shortest route's first edge.

  Edges too short to tell lead to rows equally far: a row that only these
  leave takes the lowest label of the fewest of them to a row with a nearer
  one, so that routes never run in circles.
  """
  indptr, heads, lengths, names = (column.tolist() for column in edges)
  labels[:] = core.DEAD
  for far, goal, out in zip(dist.tolist(), goals.tolist(), labels, strict=True):
    best = []
    for row in range(len(far)):
      leaving = range(indptr[row], indptr[row + 1])
      ways = [(lengths[e] + far[heads[e]], e) for e in leaving]
      least = min(ways, default=(np.inf, 0))[0]
      best.append([e for way, e in ways if way == least < np.inf])
      nearer = [e for e in best[row] if far[heads[e]] < far[row]]
      if nearer and row != goal:
        out[row] = names[nearer[0]]
    settled = (out >= 0).tolist()
    settled[goal] = ready = True
    while ready:
      ready = {}
      for row in range(len(far)):
        level = [e for e in best[row] if settled[heads[e]]]
        if level and not settled[row]:
          ready[row] = names[level[0]]
      for row, label in ready.items():
        out[row], settled[row] = label, True


def follow(
  delta: np.ndarray,
  table: np.ndarray,
  origins: np.ndarray,
  index: np.ndarray,
  goals: np.ndarray,
  labels: np.ndarray,
  moves: np.ndarray,
) -> None:
  """Follows tables to goals; one move beyond the columns marks the longer."""
  most = labels.shape[1]
  for b, row in enumerate(origins):
    route = []
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


def random_walks(
  heads: np.ndarray,
  labels: np.ndarray,
  edges: np.ndarray,
  starts: np.ndarray,
  num: int,
  low: int,
  high: int,
  seed: np.uint64,
  first: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Draws 2 of a walk's stream give origin and length, the others edges.

  heads, labels: [S, A], those of a row's edges first; edges: [S] how many.
  """
  origins = np.full(num, core.DEAD, np.int32)
  walked = np.full((num, high), core.DEAD, np.int8)
  lengths = np.zeros(num, np.int32)
  for n in range(num):
    key = dfa_ref.splitmix(dfa_ref.splitmix(int(seed)) ^ (first + n))
    for attempt in range(ATTEMPTS):
      draw = attempt * (high + 2)
      row = starts[dfa_ref.below(key, draw, len(starts))]
      wanted = low + dfa_ref.below(key, draw + 1, high - low + 1)
      origins[n], steps = row, 0
      while steps < wanted and edges[row]:
        edge = dfa_ref.below(key, draw + 2 + steps, int(edges[row]))
        walked[n, steps] = labels[row, edge]
        row = heads[row, edge]
        steps += 1
      if steps >= low:
        lengths[n] = steps
        break
      walked[n] = core.DEAD
  return origins, walked, lengths
