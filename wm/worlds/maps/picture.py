"""A picture of one place on a street graph: `Navigation.render`.

The streets around the current intersection; those that leave it are drawn
strongly and named by their direction. A triangle shows the way of a one-way
street. The destination is ringed; where it is outside, an arrow at the edge
points to it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from wm import core
from wm.worlds.base import svg
from wm.worlds.maps import streets

SIZE = 400  # Pixels of the map's side.
NEAREST = 80  # Intersections around the current one that are to be seen.
NAMED = 150  # Small maps have the intersections' names on them.
STREET, NODE, WAY = '#9aa3af', '#5b6470', '#2563a8'


class Window(NamedTuple):
  """What part of the graph is shown.

  Attributes:
    points: [S, 2] pixels of all intersections, inside or not.
    seen: [S] bool, inside the window.
    metres: metres a pixel is wide.
    height: pixels; the width is SIZE.
  """

  points: np.ndarray
  seen: np.ndarray
  metres: float
  height: float


def window(graph: streets.StreetGraph, row: int) -> Window:
  """A square around an intersection with NEAREST others; a small map whole.

  row: of the graph.
  """
  places = streets.project(graph, graph.lat, graph.lon)
  if len(graph) <= NAMED:
    low, high = places.min(0), places.max(0)
    middle = (low + high) / 2
    wide, tall = np.maximum(high - low, 50.0) * 1.12
    tall = min(max(tall, wide / 4), wide * 1.5)
  else:
    middle = places[row]
    near = np.partition(np.abs(places - middle).max(1), NEAREST)[NEAREST]
    wide = tall = 2.12 * max(float(near), 50.0)
  metres = float(wide) / SIZE
  half = np.array([SIZE, float(tall) / metres]) / 2
  points = (places - middle) * (1, -1) / metres + half
  seen = (np.abs(points - half) <= half).all(1)
  return Window(points, seen, metres, 2 * float(half[1]))


def picture(graph: streets.StreetGraph, row: int, goal: int, note: str) -> str:
  """Map around the intersection `row`; `goal` is a row or negative: none."""
  view = window(graph, row)
  x, y = view.points[row].tolist()
  parts = [
    *_edges(graph, view, row),
    *_nodes(graph, view),
    *_exits(graph, view, row),
    *_goal(view, goal),
    svg.circle(x, y, 6.5, svg.HERE, 'stroke="#fff"'),
    *_scale(view),
  ]
  tall = view.height
  inner = f'<svg x="8" y="8" width="{SIZE}" height="{tall:.0f}">'
  frame = svg.rect(8, 8, SIZE, tall, 'none', f'stroke="{svg.LINE}"')
  words = svg.text(10, tall + 26, note, size=12)
  shown = [frame, inner, *parts, '</svg>', words]
  return svg.picture(SIZE + 16, round(tall) + 36, shown, note)


def _edges(graph: streets.StreetGraph, view: Window, row: int) -> list[str]:
  """Streets as one path, and the triangles of one-way ones as another."""
  sources, _, targets = graph.edges()
  pairs = set(zip(sources.tolist(), targets.tolist(), strict=True))
  near = view.seen[sources] | view.seen[targets]
  lines, heads = [], []
  for a, b in sorted(set(zip(sources[near], targets[near], strict=True))):
    both = (b, a) in pairs
    if a == b or row == a or (both and (a > b or row == b)):
      continue
    lines.append('M{:.0f} {:.0f}L{:.0f} {:.0f}'.format(*_ends(view, a, b)))
    if not both:
      heads.append(_triangle(*_ends(view, a, b), 0.55, 4.0))
  return [
    f'<path d="{"".join(lines)}" stroke="{STREET}" stroke-width="1.6"/>',
    f'<path d="{"".join(heads)}" fill="{NODE}"/>',
  ]


def _ends(view: Window, a: int, b: int) -> tuple[float, float, float, float]:
  return (*view.points[a].tolist(), *view.points[b].tolist())


def _triangle(
  x1: float, y1: float, x2: float, y2: float, share: float, size: float
) -> str:
  """Path of a triangle that points along a line, at a share of it."""
  long = math.hypot(x2 - x1, y2 - y1) or 1.0
  dx, dy = (x2 - x1) / long * size, (y2 - y1) / long * size
  x, y = x1 + (x2 - x1) * share, y1 + (y2 - y1) * share
  return (
    f'M{x + dx:.1f} {y + dy:.1f}L{x - dx - dy:.1f} {y - dy + dx:.1f}'
    f'L{x - dx + dy:.1f} {y - dy - dx:.1f}z'
  )


def _nodes(graph: streets.StreetGraph, view: Window) -> list[str]:
  """Intersections in the window; named where the map is small."""
  seen = np.flatnonzero(view.seen)
  dots = ''.join(
    'M{:.0f} {:.0f}h0'.format(*point) for point in view.points[seen].tolist()
  )
  parts = [
    f'<path d="{dots}" stroke="{NODE}" stroke-width="5" '
    'stroke-linecap="round"/>'
  ]
  if len(graph) <= NAMED:
    for k in seen.tolist():
      x, y = view.points[k].tolist()
      name = str(graph.ids[k])
      parts.append(
        svg.text(x + 4, y - 4, name, size=9, fill=svg.INK, halo=True)
      )
  return parts


def _exits(graph: streets.StreetGraph, view: Window, row: int) -> list[str]:
  """Streets that leave the current intersection, with their directions."""
  parts = []
  for label in np.flatnonzero(graph.delta[row] != core.DEAD):
    target = int(graph.delta[row, label])
    x1, y1, x2, y2 = _ends(view, row, target)
    parts.append(svg.line(x1, y1, x2, y2, WAY, 3))
    tip = _triangle(x1, y1, x2, y2, 0.75, 5.5)
    parts.append(f'<path d="{tip}" fill="{WAY}"/>')
    long = math.hypot(x2 - x1, y2 - y1) or 1.0
    # Beyond the street's end, or on the way where that is far.
    out = long + 14 if long < 46 else 30.0
    x, y = x1 + (x2 - x1) / long * out, y1 + (y2 - y1) / long * out + 4
    name = streets.DIRECTIONS[label]
    parts.append(svg.label(x, y, name, fill=WAY, bold=True, halo=True))
  return parts


def _goal(view: Window, goal: int) -> list[str]:
  """A ring around the destination, or an arrow towards it at the edge."""
  if goal < 0:
    return []
  x, y = view.points[goal].tolist()
  if view.seen[goal]:
    ring = f'stroke="{svg.GOAL}" stroke-width="3.5"'
    return [svg.circle(x, y, 10, 'none', ring)]
  half = SIZE / 2, view.height / 2
  dx, dy = x - half[0], y - half[1]
  share = min(
    (h - 14) / max(abs(d), 1) for h, d in zip(half, (dx, dy), strict=True)
  )
  tip = half[0] + dx * share, half[1] + dy * share
  arrow = _triangle(*half, *tip, 1.0, 11.0)
  metres = math.hypot(dx, dy) * view.metres
  far = f'{metres / 1000:.1f} km' if metres >= 1000 else f'{metres:.0f} m'
  at = half[0] + dx * share * 0.84, half[1] + dy * share * 0.84 + 4
  return [
    f'<path d="{arrow}" fill="{svg.GOAL}"/>',
    svg.text(*at, far, anchor='middle', fill=svg.GOAL, bold=True, halo=True),
  ]


def _scale(view: Window) -> list[str]:
  """A bar of a round number of metres."""
  most = view.metres * SIZE / 4
  length = 10 ** math.floor(math.log10(most))
  length *= 5 if most >= 5 * length else 2 if most >= 2 * length else 1
  wide, y = length / view.metres, view.height - 8
  return [
    svg.rect(4, y - 16, wide + 8, 20, svg.PAPER, 'opacity="0.85"'),
    svg.line(8, y, 8 + wide, y, svg.INK, 2),
    svg.text(8, y - 4, f'{length:g} m', size=10),
  ]
