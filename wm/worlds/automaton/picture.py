"""Pictures of automata: states as circles, doubled where they accept."""

from __future__ import annotations

import functools
import math

import numpy as np

from wm.worlds.base import svg
from wm.worlds.base.table import NamedTableWorld

MOST_STATES, MOST_ARROWS = 16, 48  # Of an automaton that is drawn whole.
LISTED = 16  # Moves listed for a state of an automaton too large to draw.
RADIUS, PITCH, MARGIN = 17, 130, 62  # Pixels; PITCH is between two states.
SYMBOLS = 3  # At most so many are written on an arrow.

HEAD = (
  '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="4" '
  f'orient="auto"><path d="M0 0L8 4L0 8z" fill="{svg.FAINT}"/></marker></defs>'
)


def draw(automaton: NamedTableWorld, row: int) -> str:
  """SVG of the automaton with one row marked; DEAD marks none."""
  name = 'dead' if row < 0 else automaton.names[row]
  arrows = _arrows(automaton)
  states = len(automaton.delta) - (automaton.end > 0)
  if states > MOST_STATES or len(arrows) > MOST_ARROWS:
    return _moves(automaton, row, name)
  places = _places(states, tuple(arrows))
  parts = [HEAD, _start(places[0])]
  for (tail, head), symbols in arrows.items():
    parts.append(_arrow(places, tail, head, (head, tail) in arrows))
    parts.append(_label(places, tail, head, (head, tail) in arrows, symbols))
  for state, (x, y) in enumerate(places):
    accepts = automaton.end > 0 and automaton.delta[state, 0] >= 0
    parts += _state(x, y, automaton.names[state], state == row, accepts)
  width, height = (max(axis) + MARGIN for axis in zip(*places, strict=True))
  parts.append(svg.text(10, height + 14, f'at {name}', bold=True))
  return svg.picture(max(width, 20 + 9 * len(name)), height + 26, parts, name)


def _arrows(automaton: NamedTableWorld) -> dict[tuple[int, int], list[str]]:
  """Symbols by (state, next state); `end` is a double circle instead."""
  arrows: dict[tuple[int, int], list[str]] = {}
  for tail, label in np.argwhere(automaton.delta >= 0).tolist():
    if label + 1 != automaton.end:
      pair = tail, int(automaton.delta[tail, label])
      arrows.setdefault(pair, []).append(automaton.vocab[label + 1])
  return arrows


@functools.lru_cache(8)
def _places(
  states: int, arrows: tuple[tuple[int, int], ...]
) -> list[tuple[float, float]]:
  """Pixels of each state, the start on the left."""
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


def _start(place: tuple[float, float]) -> str:
  x, y = place
  return _path(f'M{x - 45:g} {y:g}L{x - RADIUS - 3:g} {y:g}')


def _path(steps: str) -> str:
  return (
    f'<path d="{steps}" fill="none" stroke="{svg.FAINT}" '
    'stroke-width="1.3" marker-end="url(#tip)"/>'
  )


def _middle(
  places: list[tuple[float, float]], tail: int, head: int, both: bool
) -> np.ndarray:
  """Control point of an arrow: beside the line where one comes back."""
  first, second = np.array(places[tail]), np.array(places[head])
  along = (second - first) / max(float(np.linalg.norm(second - first)), 1.0)
  aside = np.array([along[1], -along[0]])
  return (first + second) / 2 + aside * (34 if both else 0)


def _arrow(
  places: list[tuple[float, float]], tail: int, head: int, both: bool
) -> str:
  if tail == head:
    x, y = places[tail]
    return _path(
      f'M{x - 9:g} {y - RADIUS:g}C{x - 30:g} {y - 58:g} {x + 30:g} '
      f'{y - 58:g} {x + 10:g} {y - RADIUS - 2:g}'
    )
  middle = _middle(places, tail, head, both)
  ends = []
  for place, gap in ((places[tail], RADIUS), (places[head], RADIUS + 3)):
    out = middle - place
    ends.append(np.array(place) + out * gap / np.linalg.norm(out))
  (x1, y1), (x2, y2) = ends
  return _path(
    f'M{x1:.1f} {y1:.1f}Q{middle[0]:.1f} {middle[1]:.1f} {x2:.1f} {y2:.1f}'
  )


def _label(
  places: list[tuple[float, float]],
  tail: int,
  head: int,
  both: bool,
  symbols: list[str],
) -> str:
  words = ', '.join(symbols[:SYMBOLS])
  if len(symbols) > SYMBOLS:
    words += f' +{len(symbols) - SYMBOLS}'
  x, y = places[tail]
  if tail == head:
    y -= 50
  else:  # A curve passes half-way between its control point and the line.
    line = (np.array(places[tail]) + places[head]) / 2
    x, y = (line + _middle(places, tail, head, both)) / 2 + (0, 4)
  return svg.label(x, y, words, halo=True)


def _state(
  x: float, y: float, name: str, current: bool, accepts: bool
) -> list[str]:
  fill, ink = (svg.HERE, svg.PAPER) if current else (svg.PAPER, svg.INK)
  ring = f'stroke="{svg.INK}"'
  parts = [svg.circle(x, y, RADIUS, fill, ring)]
  if accepts:
    parts.append(svg.circle(x, y, RADIUS - 3.5, 'none', ring))
  if len(name) <= 3:
    return [*parts, svg.label(x, y + 4, name, fill=ink)]
  return [*parts, svg.label(x, y + RADIUS + 14, name, size=11, halo=True)]


def _moves(automaton: NamedTableWorld, row: int, name: str) -> str:
  """A table of what is legal in a state and where it leads."""
  labels = np.flatnonzero((automaton.delta[row] >= 0) & (row >= 0))
  if not labels.size:
    return svg.card([name])
  rows = [
    (automaton.vocab[k + 1], automaton.names[automaton.delta[row, k]])
    for k in labels[:LISTED]
  ]
  more = len(labels) - LISTED
  notes = [f'and {more} more'] if more > 0 else []
  return svg.table(('token', 'leads to'), rows, f'at {name}', notes=notes)
