"""Simple paths, compiled: see `wm.kernels.paths.simple`.

A depth-first search keeps, by depth d of the path so far:

    at[d]        next edge to try out of the node at depth d
    node[d]      the node; depth 0 is the source
    taken[d]     the edge that led there, for d > 0
    top[:, d]    greatest labels along the path up to there

and one bit a node that is on the path, in words of 64: mazes have hundreds.
"""

from __future__ import annotations

import numpy as np

from wm.kernels.base.jit import njit


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
  """Depth and last edge of the next path; depth -1 where there is no more."""
  while depth >= 0:
    here = node[depth]
    e = at[depth]
    if e == indptr[here + 1] or depth == longest:
      _flip(mask, here)
      depth -= 1
      continue
    at[depth] = e + 1
    head = heads[e]
    if not _has(mask, head):
      depth += 1
      node[depth], at[depth] = head, indptr[head]
      _flip(mask, head)
      return depth, e
  return depth, 0


@njit
def count(indptr, heads, first, last, longest, most, found) -> None:
  """Adds paths, and their edges, of sources first..last - 1 to found [2, S].

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
    while total <= most:
      depth, _ = _next(indptr, heads, longest, at, node, mask, depth)
      if depth < 0:
        break
      paths += 1
      edges += depth
      total += 1
    found[0, root], found[1, root] = paths, edges


@njit
def fill(
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
  nodes, columns = len(indptr) - 1, len(labels)
  mask = np.zeros((nodes >> 6) + 1, np.uint64)
  at = np.empty(nodes + 1, np.int32)
  node = np.empty(nodes + 1, np.int32)
  taken = np.empty(nodes + 1, np.int32)
  top = np.zeros((columns, nodes + 1), np.int32)
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
      if len(offsets):
        for d in range(1, depth + 1):
          flat[f] = taken[d]
          f += 1
        offsets[p + 1] = f
      p += 1
