"""All simple paths of a directed multigraph, with labels along them.

A depth-first search holds, by depth d of the path so far:

    at[d]        next edge to try out of the node at depth d
    node[d]      the node; depth 0 is the source
    taken[d]     the edge that led there, for d > 0
    top[:, d]    greatest labels along the path up to there

and one bit for each node on the path, in 64-bit words, as mazes have hundreds
of nodes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from wm import core
from wm.core import resources
from wm.kernels.base import calls
from wm.kernels.base.jit import njit

MOST = 50_000_000  # Limit of paths, whose labels take 1 GB.


class SimplePaths(NamedTuple):
  """P simple paths of one edge or more, by source, then depth first.

  Paths that share their first k edges are adjacent, and a path precedes its
  continuations; edges out of a node are taken in order of their index.

  Attributes:
    source: [P] int32 node.
    target: [P] int32 node.
    length: [P] int32 edges.
    labels: [K, P] int32, the greatest of each of K labels along the path.
    offsets: [P + 1] int64, start of each path in `edges`; empty if not listed.
    edges: int32 edges of all paths, one path after the other.
  """

  source: np.ndarray
  target: np.ndarray
  length: np.ndarray
  labels: np.ndarray
  offsets: np.ndarray
  edges: np.ndarray

  @property
  def size(self) -> int:
    """Number of paths."""
    return len(self.source)

  def of(self, path: int) -> np.ndarray:
    """Edges of one path, in order; of listed paths."""
    return self.edges[self.offsets[path] : self.offsets[path + 1]]


def _count(
  graph: tuple[np.ndarray, ...], longest: int, most: int
) -> tuple[np.ndarray, np.ndarray]:
  indptr, heads, _ = graph
  totals = np.zeros((2, len(indptr) - 1), np.int64)
  for rows in calls.slices(totals.shape[1], first=1):
    _count_from(indptr, heads, rows.start, rows.stop, longest, most, totals)
    if totals[0].sum() > most:
      break
  return totals[0], totals[1]


def list_paths(
  source: Any,
  target: Any,
  nodes: int,
  labels: Any = (),
  *,
  longest: int = 0,
  listed: bool = True,
  most: int = MOST,
) -> SimplePaths:
  """Lists all simple paths: nodes do not repeat; parallel edges are distinct.

  Paths are counted before memory is allocated. Time is linear in the paths and
  the edges out of their nodes.

  Args:
    source: [E] nodes that edges leave.
    target: [E] nodes that they enter.
    nodes: number of nodes.
    labels: [K, E] integers of the edges, such as the step that reveals an edge.
    longest: limit of edges per path; 0 is no limit.
    listed: True returns the edges of each path.
    most: limit of paths.

  Raises:
    InputError: shapes do not match, an edge has an unknown node, or there are
      more than `most` paths.
  """
  graph = _graph(source, target, nodes)
  size = len(graph[1])
  # Without labels: [0, E].
  labels = np.asarray(labels, np.int32).reshape(len(labels), size)
  labels = calls.frozen(labels, np.int32)
  paths, edges = _count(graph, longest or nodes, most)
  # Counted before memory is allocated; a stopped count is above `most`.
  if paths.sum() > most:
    raise core.InputError(
      f'{nodes} nodes and {size} edges have more than {most:,} simple paths; '
      'expected no more: a limit on their length would help'
    )
  # int32: source, target, length and labels of a path, and each of its edges;
  # int64: its offset.
  needed = 4 * (3 + len(labels)) * paths.sum()
  needed += listed * (4 * edges.sum() + 8 * paths.sum())
  resources.require_memory(int(needed), f'{paths.sum():,} simple paths')
  #   places | first path of each source, of all paths
  #   starts | first edge of each source's paths, of all their edges
  places = np.zeros(nodes + 1, np.int64)
  starts = np.zeros(nodes + 1, np.int64)
  np.cumsum(paths, out=places[1:])
  np.cumsum(edges, out=starts[1:])
  total = int(places[-1])
  ends = np.empty((3, total), np.int32)
  most_of = np.empty((len(labels), total), np.int32)
  offsets = np.zeros(total + 1 if listed else 0, np.int64)
  flat = np.empty(int(starts[-1]) if listed else 0, np.int32)
  # One source at first, as one source may have millions of paths.
  for rows in calls.slices(nodes, first=1):
    _fill(
      *graph,
      labels,
      rows.start,
      rows.stop,
      longest or nodes,
      places,
      starts,
      ends,
      most_of,
      offsets,
      flat,
    )
  return SimplePaths(ends[0], ends[1], ends[2], most_of, offsets, flat)


@njit
def _fill(
  indptr,
  heads,
  numbers,
  labels,
  first,
  last,
  longest,
  places,
  starts,
  ends,
  most_of,
  offsets,
  flat,
) -> None:
  """Writes paths of sources first..last - 1 from places[source] on.

  ends [3, P]: source, target, length. most_of [K, P]. Where offsets [P + 1] is
  not empty, the edges of a source's paths go to flat from starts[source] on.
  """
  #   ends    | source, target, length of path p: columns of [3, P]
  #   most_of | greatest label of path p: columns of [K, P]
  #   flat    | edges of path p: offsets[p]:offsets[p + 1]
  nodes, columns = len(indptr) - 1, len(labels)
  mask = np.zeros((nodes >> 6) + 1, np.uint64)
  at = np.empty(nodes + 1, np.int32)
  node = np.empty(nodes + 1, np.int32)
  taken = np.empty(nodes + 1, np.int32)
  top = np.zeros((columns, nodes + 1), np.int32)
  # The empty path: less than any label.
  top[:, 0] = np.iinfo(np.int32).min
  for root in range(first, min(last, nodes)):
    _begin(indptr, root, at, node, mask)
    p, f, depth = places[root], starts[root], 0
    while True:
      depth, e = _next(indptr, heads, longest, at, node, mask, depth)
      if depth < 0:
        break
      taken[depth] = numbers[e]
      ends[0, p], ends[1, p], ends[2, p] = root, node[depth], depth
      for k in range(columns):
        top[k, depth] = max(top[k, depth - 1], labels[k, numbers[e]])
        most_of[k, p] = top[k, depth]
      # Paths share prefixes but are written completely, so that each can be
      # read alone.
      if len(offsets):
        for d in range(1, depth + 1):
          flat[f] = taken[d]
          f += 1
        offsets[p + 1] = f
      p += 1


def _graph(source: Any, target: Any, nodes: int) -> tuple[np.ndarray, ...]:
  """Edges by source: indptr [nodes + 1], heads [E] and numbers [E], int32."""
  source = calls.rows(source, nodes, 'source', 0)
  target = calls.rows(target, nodes, 'target', 0)
  calls.same_length(source=source, target=target)
  # Stable: edges of a node stay in order of number, which orders the paths.
  order = np.argsort(source, kind='stable')
  indptr = np.zeros(nodes + 1, np.int32)
  np.cumsum(np.bincount(source, minlength=nodes), out=indptr[1:])
  return (
    calls.frozen(indptr, np.int32),
    calls.frozen(target[order], np.int32),
    calls.frozen(order, np.int32),
  )


# Node n is bit n % 64 of word n // 64.
@njit
def _has(mask, node):
  return (mask[node >> 6] >> np.uint64(node & 63)) & np.uint64(1)


@njit
def _flip(mask, node):
  mask[node >> 6] ^= np.uint64(1) << np.uint64(node & 63)


@njit
def _begin(indptr, root, at, node, mask):
  """Starts the search from a root, at depth 0."""
  mask[:] = 0
  node[0], at[0] = root, indptr[root]
  _flip(mask, root)


@njit(inline='always')
def _next(indptr, heads, longest, at, node, mask, depth):
  """Depth and last edge of the next path; depth -1 at the end."""
  while depth >= 0:
    tail = node[depth]
    # All edges tried, or at the depth limit: the node leaves the path.
    e = at[depth]
    if e == indptr[tail + 1] or depth == longest:
      _flip(mask, tail)
      depth -= 1
      continue
    at[depth] = e + 1
    head = heads[e]
    # Nodes on the path are skipped. A path is reported before its
    # continuations.
    if not _has(mask, head):
      depth += 1
      node[depth], at[depth] = head, indptr[head]
      _flip(mask, head)
      return depth, e
  return depth, 0


@njit
def _count_from(indptr, heads, first, last, longest, most, totals) -> None:
  """Adds paths, and their edges, of sources first..last - 1 to totals [2, S].

  Stops where a piece has more than `most` paths.
  """
  nodes = len(indptr) - 1
  mask = np.zeros((nodes >> 6) + 1, np.uint64)
  at = np.empty(nodes + 1, np.int32)
  node = np.empty(nodes + 1, np.int32)
  total = 0
  for root in range(first, min(last, nodes)):
    _begin(indptr, root, at, node, mask)
    depth, paths, edges = 0, 0, 0
    # Checked within a source too, as one source may have more than `most`.
    while total <= most:
      depth, _ = _next(indptr, heads, longest, at, node, mask, depth)
      if depth < 0:
        break
      paths += 1
      edges += depth
      total += 1
    totals[0, root], totals[1, root] = paths, edges
