"""Pictures of an automaton that a model implies, on the world's own.

Black arrows are legal and accepted, dashed grey ones are legal and never
accepted, red ones are accepted and illegal, as on the maps of implied streets
(Vafa et al. 2024, figure 3). States of one fill are one state for the model; a
state with a dashed ring is several. An automaton that is too large to be drawn
is a table of its differences.
"""

from __future__ import annotations

from collections.abc import Mapping

from wm import core
from wm.evaluation.implied import Differences, DifferingEdge, Truth
from wm.worlds.base import diagram, svg

RIGHT = diagram.Stroke(svg.INK)
MISSING = diagram.Stroke('#9aa1ab', ' stroke-dasharray="4 3"', svg.FAINT)
EXTRA = diagram.Stroke(svg.HERE, '', svg.HERE)
LOOKS = {'right': RIGHT, 'missing': MISSING, 'extra': EXTRA}
# Of states that are one for the model: yellow, blue, green, violet, orange.
FILLS = '#f6dc85', '#a9cdf0', '#b5dfb9', '#d9bfe8', '#f3c19d'
APART = 24  # Pixels between arrows of different kinds.
STUB = 46  # Pixels of an arrow that leads to none of the world's states.
LISTED = 20  # Lines of a table of differences.

# (tail, head, kind) -> token strings; head DEAD is none of the world's states.
Arrows = dict[tuple[int, int, str], list[str]]


def draw(truth: Truth, comparison: Differences, title: str) -> str:
  """SVG of the world's minimal automaton, and where the model's differs."""
  final = _final(truth)
  arrows = _arrows(truth, comparison, final)
  inside = tuple(
    dict.fromkeys((tail, head) for tail, head, _ in arrows if head >= 0)
  )
  states = [k for k in range(len(truth.names)) if k != final]
  place = {state: row for row, state in enumerate(states)}
  pairs = tuple((place[tail], place[head]) for tail, head in inside)
  at = diagram.places(len(states), pairs)
  if not at:
    return _table(truth, comparison, title)
  if any(t == h and kind != 'right' for t, h, kind in arrows):
    at = [(x, y + 2 * APART) for x, y in at]  # Room for higher loops.
  parts = [diagram.heads(diagram.PLAIN, *LOOKS.values()), diagram.start(at[0])]
  for (tail, head, kind), symbols in arrows.items():
    ends = place[tail], place.get(head, core.DEAD)
    parts += _arrow(at, ends, kind, symbols, pairs)
  fills = _fills(comparison, final)
  for state in states:
    parts += _circle(truth, comparison, at[place[state]], state, fills)
  width, height = (max(axis) + diagram.MARGIN for axis in zip(*at, strict=True))
  notes = _notes(truth, comparison, fills)
  parts.append(svg.text(10, height + 14, title, more=svg.BOLD))
  parts += [
    svg.text(10, height + 34 + 18 * k, note, size=12, fill=svg.FAINT)
    for k, note in enumerate(notes)
  ]
  wide = max([width, *(20 + 6.5 * len(note) for note in [*notes, title])])
  return svg.picture(wide, height + 26 + 18 * len(notes), parts, title)


def _final(truth: Truth) -> int:
  """The state that only the end token leads to; DEAD without one."""
  if truth.world.end != core.DEAD:
    for heads in truth.automaton.heads:
      if truth.world.end in heads:
        return heads[truth.world.end]
  return core.DEAD


def _arrows(truth: Truth, comparison: Differences, final: int) -> Arrows:
  """All arrows but those of the end token, which is a ring."""
  kinds = {(e.state, e.token): e for e in comparison.edges}
  arrows: Arrows = {}
  for state, heads in enumerate(truth.automaton.heads):
    for token, head in heads.items():
      edge = kinds.get((state, token))
      kind = 'missing' if edge and edge.always else 'right'
      if token != truth.world.end and head != final:
        key = state, head, kind
        arrows.setdefault(key, []).append(truth.world.vocab[token])
  for edge in comparison.edges:
    if edge.kind == 'extra' and edge.token != truth.world.end:
      inside = [head for head in edge.heads if head != final]
      # One of several that are one for the model: its own state, if it can be.
      inside = [edge.state] * (edge.state in inside) + inside
      key = edge.state, inside[0] if inside else core.DEAD, 'extra'
      arrows.setdefault(key, []).append(truth.world.vocab[edge.token])
  return arrows


def _arrow(
  at: diagram.Places,
  ends: tuple[int, int],
  kind: str,
  symbols: list[str],
  pairs: tuple[tuple[int, int], ...],
) -> list[str]:
  (tail, head), look = ends, LOOKS[kind]
  if head == core.DEAD:
    x, y = at[tail]
    low, below = y + diagram.RADIUS, y + diagram.RADIUS + STUB
    return [
      diagram.path(f'M{x + 8:g} {low:g}L{x + 22:g} {below:g}', look),
      diagram.label((x + 30, below + 4), symbols, look),
    ]
  back = tail != head and (head, tail) in pairs
  bend = [*LOOKS].index(kind) * APART + diagram.BEND * back
  middle = diagram.label_place(at, tail, head, bend)
  return [
    diagram.arrow(at, tail, head, bend, look),
    diagram.label(middle, symbols, look),
  ]


def _circle(
  truth: Truth,
  comparison: Differences,
  place: tuple[float, float],
  state: int,
  fills: Mapping[int, str],
) -> list[str]:
  """A state: its ring is that of the end token, by what the model accepts."""
  edges = {(e.state, e.token): e for e in comparison.edges}
  edge = edges.get((state, truth.world.end))
  ring = ''
  if edge is not None and (edge.always or edge.kind == 'extra'):
    look = LOOKS[edge.kind]
    ring = f'stroke="{look.color}" stroke-width="1.8"{look.more}'
  elif truth.world.end in truth.automaton.heads[state]:
    ring = f'stroke="{svg.INK}"'
  fill = fills.get(state, svg.PAPER)
  parts = diagram.circle(place, truth.names[state], fill, svg.INK, ring)
  if state in comparison.split:
    dashes = f'stroke="{svg.HERE}" stroke-dasharray="3 3"'
    parts.append(svg.circle(*place, diagram.RADIUS + 4, 'none', dashes))
  return parts


def _fills(comparison: Differences, final: int) -> dict[int, str]:
  """Fill of each state that is merged with another, or never met."""
  fills: dict[int, str] = {}
  for number, group in enumerate(comparison.merged):
    inside = [state for state in group if state != final]
    for state in inside if len(inside) > 1 else ():
      fills.setdefault(state, FILLS[number % len(FILLS)])
  return fills


def _notes(
  truth: Truth,
  comparison: Differences,
  fills: Mapping[int, str],
) -> list[str]:
  """What the picture does not say by itself, a line each."""
  names = truth.names
  ends = {e.kind for e in comparison.edges if e.token == truth.world.end}
  rings = {'extra': 'red', 'missing': 'dashed'}
  end = truth.world.vocab[truth.world.end]
  notes = [f'a {rings[k]} inner ring: {end!r} is {k}' for k in sorted(ends)]
  for edge in comparison.edges:
    if edge.kind == 'missing' and not edge.always:
      notes.append(f'from {names[edge.state]} a token is missing in some words')
  notes += [
    f'{names[state]} is {number} states for the model'
    for state, number in comparison.split.items()
  ]
  if fills:
    notes.append('states of one colour are one state for the model')
  lost = len(names) - len(comparison.pairs)
  if lost:
    notes.append(f'{lost} states are never reached by accepted tokens')
  return [*dict.fromkeys(notes)][:LISTED]


def _table(truth: Truth, comparison: Differences, title: str) -> str:
  """The differences of an automaton that is too large to be drawn."""
  names = truth.names

  def row(edge: DifferingEdge) -> tuple[str, str, str, str]:
    heads = ' | '.join(names[head] for head in edge.heads[:2])
    return edge.kind, names[edge.state], truth.world.vocab[edge.token], heads

  rows = [row(edge) for edge in comparison.edges]
  rows += [
    ('merged', ' | '.join(names[k] for k in group[:3]), '', '')
    for group in comparison.merged
  ]
  rows += [
    ('split', names[k], '', f'{number} states')
    for k, number in comparison.split.items()
  ]
  if not rows:
    return svg.card(['no difference'], title)
  more = [f'and {len(rows) - LISTED} more'] * (len(rows) > LISTED)
  heads = ('difference', 'state', 'token', 'leads to')
  return svg.table(heads, rows[:LISTED], title, notes=more)
