"""Pictures of automata: circles for states, and bent arrows between them.

An automaton that is too large is a table of the moves of one state.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from wm.core.capabilities import Box
from wm.worlds.base import svg
from wm.worlds.base.table import NamedTableWorld

# Limits of states and arrows of a legible diagram.
MOST_STATES, MOST_ARROWS = 16, 48
RADIUS, PITCH, MARGIN = 17, 130, 62  # Pixels; PITCH is between two states.
BEND = 34  # Pixels by which an arrow bends if there is an arrow back.
SYMBOLS_SHOWN = 3  # Limit of symbols on an arrow.

Places = Sequence[tuple[float, float]]


class Stroke(NamedTuple):
  """The style of an arrow and its symbols: a colour, and other attributes."""

  color: str = svg.FAINT
  more: str = ''
  ink: str = svg.INK

  @property
  def head(self) -> str:
    """Id of the arrow head in this colour."""
    return f'tip{self.color[1:]}'


PLAIN = Stroke()


def heads(*looks: Stroke) -> str:
  """The definitions of the arrow heads of some looks."""
  markers = ''.join(
    f'<marker id="{look.head}" markerWidth="8" markerHeight="8" refX="7" '
    'refY="4" orient="auto"><path d="M0 0L8 4L0 8z" '
    f'fill="{look.color}"/></marker>'
    for look in looks
  )
  return f'<defs>{markers}</defs>'


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


def path(steps: str, look: Stroke = PLAIN) -> str:
  """An arrow along the steps of an SVG path."""
  return (
    f'<path d="{steps}" fill="none" stroke="{look.color}" '
    f'stroke-width="1.3" marker-end="url(#{look.head})"{look.more}/>'
  )


def _middle(at: Places, tail: int, head: int, bend: float) -> np.ndarray:
  """Control point of an arrow, `bend` pixels beside the line."""
  first, second = np.array(at[tail]), np.array(at[head])
  along = (second - first) / max(float(np.linalg.norm(second - first)), 1.0)
  return (first + second) / 2 + np.array([along[1], -along[0]]) * bend


def arrow(
  at: Places, tail: int, head: int, bend: float = 0, look: Stroke = PLAIN
) -> str:
  """An arrow between two states, or a loop, which is higher by `bend`."""
  if tail == head:
    x, y = at[tail]
    top = y - 58 - bend
    return path(
      f'M{x - 9:g} {y - RADIUS:g}C{x - 30:g} {top:g} {x + 30:g} '
      f'{top:g} {x + 10:g} {y - RADIUS - 2:g}',
      look,
    )
  middle = _middle(at, tail, head, bend)
  ends = []
  for place, gap in ((at[tail], RADIUS), (at[head], RADIUS + 3)):
    out = middle - place
    ends.append(np.array(place) + out * gap / np.linalg.norm(out))
  (x1, y1), (x2, y2) = ends
  return path(
    f'M{x1:.1f} {y1:.1f}Q{middle[0]:.1f} {middle[1]:.1f} {x2:.1f} {y2:.1f}',
    look,
  )


def label(
  place: tuple[float, float], symbols: Sequence[str], look: Stroke = PLAIN
) -> str:
  """The first few symbols on an arrow whose middle is at `place`."""
  words = ', '.join(symbols[:SYMBOLS_SHOWN])
  if len(symbols) > SYMBOLS_SHOWN:
    words += f' +{len(symbols) - SYMBOLS_SHOWN}'
  x, y = place
  return svg.label(x, y + 4, words, more=svg.HALO, fill=look.ink)


def label_place(
  at: Places, tail: int, head: int, bend: float = 0
) -> tuple[float, float]:
  """Middle of an arrow."""
  x, y = at[tail]
  if tail == head:
    return x, y - 54 - 0.75 * bend
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


LISTED_MOVES = 16  # Moves listed for a state of an automaton too large to draw.


def draw(automaton: NamedTableWorld, row: int) -> str:
  """SVG of the automaton with one row marked; DEAD marks none."""
  name = 'dead' if row < 0 else automaton.names[row]
  arrows = _arrows(automaton)
  places = _places(automaton, arrows)
  if not places:
    return _move_table(automaton, row, name)
  parts = [heads(PLAIN), start(places[0])]
  for (tail, head), symbols in arrows.items():
    bend = _bend(arrows, tail, head)
    parts.append(arrow(places, tail, head, bend))
    place = label_place(places, tail, head, bend)
    parts.append(label(place, symbols))
  for state, place in enumerate(places):
    accepts = automaton.end > 0 and automaton.delta[state, 0] >= 0
    look = (svg.HERE, svg.PAPER) if state == row else (svg.PAPER, svg.INK)
    ring = f'stroke="{svg.INK}"' if accepts else ''
    parts += circle(place, automaton.names[state], *look, ring)
  width, height = (max(axis) + MARGIN for axis in zip(*places, strict=True))
  where = f'at {name}' if automaton.legal(np.array([[row]])).any() else name
  parts.append(svg.text(10, height + 14, where, more=svg.BOLD))
  return svg.picture(max(width, 20 + 9 * len(name)), height + 26, parts, name)


def move_boxes(
  automaton: NamedTableWorld, row: int, tokens: Iterable[int]
) -> dict[int, list[Box]]:
  """Token -> box of its arrow in the picture that `draw` makes of a row.

  The end token is the state itself. In the table of a large automaton it is the
  token's line.
  """
  if not 0 <= row < len(automaton.delta):
    return {}
  heads = {token: int(automaton.delta[row, token - 1]) for token in tokens}
  moves = {token: head for token, head in heads.items() if head >= 0}
  arrows = _arrows(automaton)
  if places := _places(automaton, arrows):
    return svg.around(
      {
        token: places[row]
        if token == automaton.end
        else label_place(places, row, head, _bend(arrows, row, head))
        for token, head in moves.items()
      }
    )
  listed, _ = _listed(automaton, row)
  lines = {
    token: svg.row_box(listed.index(token))
    for token in moves
    if token in listed
  }
  return {token: [box] for token, box in lines.items()}


def _places(
  automaton: NamedTableWorld, arrows: Mapping[tuple[int, int], list[str]]
) -> list[tuple[float, float]]:
  """Pixels of each state; empty if there are too many to draw."""
  states = len(automaton.delta) - (automaton.end > 0)
  return places(states, tuple(arrows))


def _bend(
  arrows: Mapping[tuple[int, int], list[str]], tail: int, head: int
) -> float:
  """Bend of an arrow in pixels; 0 unless there is an arrow back."""
  return BEND if tail != head and (head, tail) in arrows else 0


def _arrows(automaton: NamedTableWorld) -> dict[tuple[int, int], list[str]]:
  """Symbols by (state, next state); `end` is a double circle instead."""
  arrows: dict[tuple[int, int], list[str]] = {}
  for tail, label in np.argwhere(automaton.delta >= 0).tolist():
    if label + 1 != automaton.end:
      pair = tail, int(automaton.delta[tail, label])
      arrows.setdefault(pair, []).append(automaton.vocab[label + 1])
  return arrows


def _move_table(automaton: NamedTableWorld, row: int, name: str) -> str:
  """A table of the legal tokens of a state and their next states."""
  listed, more = _listed(automaton, row)
  if not listed:
    return svg.card([name])
  rows = [
    (automaton.vocab[k], automaton.names[automaton.delta[row, k - 1]])
    for k in listed
  ]
  notes = [f'and {more} more'] if more else []
  return svg.table(('token', 'leads to'), rows, f'at {name}', notes=notes)


def _listed(automaton: NamedTableWorld, row: int) -> tuple[list[int], int]:
  """Tokens in the table of a row, and the number of further legal tokens."""
  legal = np.flatnonzero((automaton.delta[row] >= 0) & (row >= 0)) + 1
  return legal[:LISTED_MOVES].tolist(), max(len(legal) - LISTED_MOVES, 0)
