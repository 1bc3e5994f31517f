"""Searches over street graphs in plain Python: the specification of
`wm.kernels.paths`."""

from __future__ import annotations

import heapq

import numpy as np

from wm import core
from wm.kernels import dfa_ref

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
  sources: np.ndarray,
  threads: int,
  dist: np.ndarray,
) -> None:
  """Dijkstra's algorithm with a heap, from each source."""
  del in_edges, threads
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


def _best(
  delta: np.ndarray, lengths: np.ndarray, far: np.ndarray, row: int
) -> list[int]:
  """Labels by which a shortest route leaves a row, ascending."""
  ways = {
    label: lengths[row, label] + far[head]
    for label, head in enumerate(delta[row])
    if head >= 0
  }
  least = min(ways.values())
  return [label for label, way in ways.items() if way == least]


def _label(
  delta: np.ndarray,
  lengths: np.ndarray,
  far: np.ndarray,
  row: int,
  goal: int,
) -> int:
  """The lowest label that leads nearer to the goal.

  Edges too short to tell lead to rows equally far: then the first label, in
  order, of the fewest such edges to the goal or to a row where one is nearer.
  """
  seen, queue = {row}, [(row, core.DEAD)]
  for at, first in queue:
    if at == goal:
      return first
    best = _best(delta, lengths, far, at)
    for label in best:
      if far[delta[at, label]] < far[at]:
        return label if first == core.DEAD else first
    for label in best:
      if int(delta[at, label]) not in seen:
        seen.add(int(delta[at, label]))
        taken = label if first == core.DEAD else first
        queue.append((int(delta[at, label]), taken))
  raise AssertionError('distances do not belong to these lengths')


def routes(
  delta: np.ndarray,
  lengths: np.ndarray,
  dist: np.ndarray,
  index: np.ndarray,
  origins: np.ndarray,
  destinations: np.ndarray,
  labels: np.ndarray,
  moves: np.ndarray,
) -> None:
  """Follows the best label from each origin to its destination."""
  limit = labels.shape[1]
  for b, (row, goal) in enumerate(zip(origins, destinations, strict=True)):
    far, step = dist[index[b]], 0
    if far[row] == np.inf:
      moves[b] = core.DEAD
      continue
    while row != goal:
      label = _label(delta, lengths, far, int(row), int(goal))
      if step < limit:
        labels[b, step] = label
      row = delta[row, label]
      step += 1
    moves[b] = step


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
