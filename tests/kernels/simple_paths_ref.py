"""All simple paths in plain Python: what `simple_paths` specifies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from wm.kernels.simple_paths import SimplePaths


def walks(
  source: Sequence[int], target: Sequence[int], nodes: int, longest: int = 0
) -> Iterator[list[int]]:
  """Edges of each simple path, by source, then depth first."""
  leaving: list[list[int]] = [[] for _ in range(nodes)]
  for edge, tail in enumerate(source):
    leaving[tail].append(edge)

  def onward(node: int, path: list[int], seen: set[int]) -> Iterator[list[int]]:
    """Paths that go on from one, which ends at a node."""
    if longest and len(path) == longest:
      return
    for edge in leaving[node]:
      head = target[edge]
      if head not in seen:
        longer = [*path, edge]
        yield longer
        yield from onward(head, longer, seen | {head})

  for root in range(nodes):
    yield from onward(root, [], {root})


def list_paths(
  source: Sequence[int],
  target: Sequence[int],
  nodes: int,
  labels: Sequence[Sequence[int]] = (),
  *,
  longest: int = 0,
  listed: bool = True,
) -> SimplePaths:
  """As `simple.simple`."""
  results = list(walks(source, target, nodes, longest))
  sizes = np.array([len(path) for path in results], np.int32)
  tops = [[max(row[e] for e in path) for path in results] for row in labels]
  flat = [edge for path in results for edge in path] if listed else []
  offsets = np.cumsum([0, *sizes] if listed else [], dtype=np.int64)
  return SimplePaths(
    np.array([source[path[0]] for path in results], np.int32),
    np.array([target[path[-1]] for path in results], np.int32),
    sizes,
    np.array(tops, np.int32).reshape(len(labels), len(results)),
    offsets,
    np.array(flat, np.int32),
  )
