"""Pictures of the graphs: clusters in a ring, all others in layers."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping

from wm.worlds.base import svg
from wm.worlds.cognitive_graph import solver
from wm.worlds.cognitive_graph.graphs import Graph

SIZE, EDGE, DOT = 360, 30, 11  # Pixels: of the picture, its rim, a node.

Point = tuple[float, float]


@functools.lru_cache(maxsize=64)
def places(graph: Graph) -> Mapping[int, Point]:
  """Node -> (x, y) in a unit square, y downwards."""
  groups = [sorted(group) for group in solver.clusters(graph)]
  points: dict[int, Point] = {}
  for k, group in enumerate(groups):
    turn = math.tau * k / len(groups) - math.tau / 4
    x, y = 0.5 + 0.31 * math.cos(turn), 0.5 + 0.31 * math.sin(turn)
    for n, node in enumerate(group):
      angle = turn + math.tau * n / len(group)
      points[node] = x + 0.18 * math.cos(angle), y + 0.18 * math.sin(angle)
  rest = [node for node in graph.nodes if node not in points]
  steps = solver.distances(graph, graph.start)
  depth = max(steps.values(), default=0) + 1
  if groups:  # New nodes stand in the middle.
    for n, node in enumerate(rest):
      points[node] = 0.5, 0.5 + 0.08 * n
    return points
  layers: dict[int, list[int]] = {}
  for node in rest:
    layers.setdefault(steps.get(node, depth), []).append(node)
  deepest = max(layers, default=0) or 1
  for depth, layer in layers.items():
    for n, node in enumerate(layer):
      points[node] = (n + 0.5) / len(layer), depth / deepest
  return points


def picture(
  graph: Graph, current: int | None, goals: tuple[int, ...], note: str
) -> str:
  """SVG of a graph: a red node is where one is, green rings are goals."""
  spots = {
    node: (EDGE + x * (SIZE - 2 * EDGE), EDGE + y * (SIZE - 2 * EDGE))
    for node, (x, y) in places(graph).items()
  }
  rewards = dict(graph.rewards)
  parts = [
    svg.line(*spots[a], *spots[b], svg.LINE, 1.5) for a, b in graph.edges
  ]
  for node, (x, y) in spots.items():
    ring = svg.GOAL if node in goals else svg.FAINT
    fill, ink = (
      (svg.HERE, svg.PAPER) if node == current else (svg.PAPER, svg.INK)
    )
    width = 3 if node in goals else 1
    more = f'stroke="{ring}" stroke-width="{width}"'
    parts.append(svg.circle(x, y, DOT, fill, more))
    parts.append(svg.label(x, y + 4, str(node), fill=ink))
    if node in rewards:
      parts.append(svg.text(x + DOT, y - DOT, f'${rewards[node]}', size=10))
  parts.append(svg.text(EDGE / 2, SIZE + 16, note, size=12))
  return svg.picture(SIZE, SIZE + 24, parts, note)
