"""State diagrams in SVG: circles for states, and bent arrows between them."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from wm.worlds.base import svg

# Limits of states and arrows of a legible diagram.
MOST_STATES, MOST_ARROWS = 16, 48
RADIUS, PITCH, MARGIN = 17, 130, 62  # Pixels; PITCH is between two states.
BEND = 34  # Pixels by which an arrow bends if there is an arrow back.
SYMBOLS_SHOWN = 3  # Limit of symbols on an arrow.

Places = Sequence[tuple[float, float]]


HEAD = (  # Definition of the arrow heads.
  '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="4" '
  f'orient="auto"><path d="M0 0L8 4L0 8z" fill="{svg.FAINT}"/></marker></defs>'
)


@functools.lru_cache(8)
def places(
  states: int, arrows: tuple[tuple[int, int], ...]
) -> list[tuple[float, float]]:
  """Pixels of each state, the start on the left; [] if there are too many.

  arrows: (state, next state), each pair once.
  """
  if states > MOST_STATES or len(arrows) > MOST_ARROWS:
    return []
  import networkx as nx

  graph = nx.Graph()
  graph.add_nodes_from(range(states))
  graph.add_edges_from(arrows)
  layout = nx.kamada_kawai_layout(graph, pos=nx.circular_layout(graph))
  at = np.array([layout[k] for k in range(states)])
  turn = math.atan2(*(at[0] - at.mean(0))[::-1]) - math.pi
  cos, sin = math.cos(turn), math.sin(turn)
  at = at @ np.array([[cos, -sin], [sin, cos]])
  apart = np.linalg.norm(at[:, None] - at, axis=-1)
  nearest = apart[~np.eye(states, dtype=bool)].min(initial=1.0)
  at = at * (PITCH / max(nearest, 0.1))
  at = at - at.min(0) + MARGIN
  return [(round(float(x), 1), round(float(y), 1)) for x, y in at]


def start(place: tuple[float, float]) -> str:
  """The arrow into the first state."""
  x, y = place
  return path(f'M{x - 45:g} {y:g}L{x - RADIUS - 3:g} {y:g}')


def path(steps: str) -> str:
  """An arrow along the steps of an SVG path."""
  return (
    f'<path d="{steps}" fill="none" stroke="{svg.FAINT}" '
    'stroke-width="1.3" marker-end="url(#tip)"/>'
  )


def _middle(at: Places, tail: int, head: int, bend: float) -> np.ndarray:
  """Control point of an arrow, `bend` pixels beside the line."""
  first, second = np.array(at[tail]), np.array(at[head])
  along = (second - first) / max(float(np.linalg.norm(second - first)), 1.0)
  return (first + second) / 2 + np.array([along[1], -along[0]]) * bend


def arrow(at: Places, tail: int, head: int, bend: float) -> str:
  """An arrow between two states, or a loop."""
  if tail == head:
    x, y = at[tail]
    top = y - 58
    return path(
      f'M{x - 9:g} {y - RADIUS:g}C{x - 30:g} {top:g} {x + 30:g} '
      f'{top:g} {x + 10:g} {y - RADIUS - 2:g}'
    )
  middle = _middle(at, tail, head, bend)
  ends = []
  for place, gap in ((at[tail], RADIUS), (at[head], RADIUS + 3)):
    out = middle - place
    ends.append(np.array(place) + out * gap / np.linalg.norm(out))
  (x1, y1), (x2, y2) = ends
  return path(
    f'M{x1:.1f} {y1:.1f}Q{middle[0]:.1f} {middle[1]:.1f} {x2:.1f} {y2:.1f}'
  )


def label(place: tuple[float, float], symbols: Sequence[str]) -> str:
  """The first few symbols on an arrow whose middle is at `place`."""
  words = ', '.join(symbols[:SYMBOLS_SHOWN])
  if len(symbols) > SYMBOLS_SHOWN:
    words += f' +{len(symbols) - SYMBOLS_SHOWN}'
  x, y = place
  return svg.label(x, y + 4, words, more=svg.HALO, fill=svg.INK)


def label_place(
  at: Places, tail: int, head: int, bend: float = 0
) -> tuple[float, float]:
  """Middle of an arrow."""
  x, y = at[tail]
  if tail == head:
    return x, y - 54
  # A curve passes half-way between its control point and the line.
  line = (np.array(at[tail]) + at[head]) / 2
  x, y = (line + _middle(at, tail, head, bend)) / 2
  return float(x), float(y)


def circle(
  place: tuple[float, float],
  name: str,
  fill: str = svg.PAPER,
  ink: str = svg.INK,
  ring: str = '',
) -> list[str]:
  """A state and its name in or below it; `ring`: attributes of a 2nd circle."""
  x, y = place
  parts = [svg.circle(x, y, RADIUS, fill, f'stroke="{svg.INK}"')]
  if ring:
    parts.append(svg.circle(x, y, RADIUS - 3.5, 'none', ring))
  if len(name) <= 3:
    return [*parts, svg.label(x, y + 4, name, fill=ink)]
  return [*parts, svg.label(x, y + RADIUS + 14, name, size=11, more=svg.HALO)]
