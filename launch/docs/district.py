"""Draws which streets models of a district accept that do not exist.

  python launch/docs/district.py OUT.svg 'shortest paths=RUN' 'random walks=RUN'

A RUN is scored by audit(). From each intersection a red stub points into every
direction without a street that the model accepts in some of the states asked
about; the darker, the more of them. Streets are grey.
"""

from __future__ import annotations

import math
import pathlib
import sys
from typing import Any

import pandas as pd

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import wm  # noqa: E402
from wm.core import registry  # noqa: E402

WIDTH, MARGIN, STUB = 420, 14, 45  # Pixels; metres of a stub.
DIRECTIONS = ['N', 'NE', 'E', 'SE', 'S', 'SW', 'W', 'NW']
METRES = 111_320  # Of a degree of latitude.
STYLE = """<style>
.street { stroke: #8a8f98; stroke-width: 1.6; }
.false { stroke: #d4002a; stroke-width: 2.2; stroke-linecap: round; }
circle { fill: #5a5f68; }
text { font: 15px system-ui, sans-serif; fill: #333; }
.small { font-size: 10px; fill: #666; }
</style>"""


def false_directions(rows: pd.DataFrame) -> dict[tuple[str, str], float]:
  """(intersection, direction) -> share of its states that accept it falsely.

  rows: trials of audit's `exact`; a state is 'intersection,destination'.
  """
  place = rows.state.str.partition(',')[0]
  asked = place.value_counts()
  shares: dict[tuple[str, str], float] = {}
  for where, tokens in zip(place, rows.false_tokens.fillna(''), strict=True):
    for token in tokens.split():
      if token in DIRECTIONS:
        key = where, token
        shares[key] = shares.get(key, 0) + 1 / asked[where]
  return shares


def panel(title: str, run: pathlib.Path, left: float) -> tuple[list[str], int]:
  """Lines of SVG of one model, and the height in pixels."""
  rows = wm.rows(run)
  rows = rows[(rows.metric == 'audit') & (rows.quantity == 'exact')]
  world: Any = registry.resolve('world', rows.world.iloc[0])
  graph = world.graph
  scale = METRES * math.cos(math.radians(float(graph.lat.mean())))
  x = (graph.lon - graph.lon.min()) * scale
  y = (graph.lat.max() - graph.lat) * METRES
  zoom = (WIDTH - 2 * MARGIN) / float(x.max())
  x, y = x * zoom + left + MARGIN, y * zoom + 2 * MARGIN + 14
  lines = [f'<text x="{left + MARGIN}" y="18">{title}</text>']
  lines += [
    f'<line class="street" x1="{x[a]:.1f}" y1="{y[a]:.1f}" x2="{x[b]:.1f}" '
    f'y2="{y[b]:.1f}"/>'
    for a, b in sorted({(min(e), max(e)) for e in _ends(graph)})
  ]
  places = {name: k for k, name in enumerate(graph.names)}
  shares = false_directions(rows)
  for (where, direction), share in sorted(shares.items(), key=lambda x: x[1]):
    k, angle = places[where], math.radians(45 * DIRECTIONS.index(direction))
    dx, dy = STUB * zoom * math.sin(angle), -STUB * zoom * math.cos(angle)
    lines.append(
      f'<line class="false" x1="{x[k]:.1f}" y1="{y[k]:.1f}" '
      f'x2="{x[k] + dx:.1f}" y2="{y[k] + dy:.1f}" '
      f'opacity="{min(1, 0.15 + share):.2f}"/>'
    )
  lines += [
    f'<circle cx="{a:.1f}" cy="{b:.1f}" r="1.6"/>'
    for a, b in zip(x, y, strict=True)
  ]
  wrong = (rows.false_tokens.fillna('') != '').mean()
  below = math.ceil(float(y.max())) + 20
  lines.append(
    f'<text class="small" x="{left + MARGIN}" y="{below}">accepts a false '
    f'street, or an early end, in {100 * wrong:.0f} % of {len(rows):,} '
    'states</text>'
  )
  return lines, below


def _ends(graph: Any) -> list[tuple[int, int]]:
  """Both ends of every street."""
  sources, _, targets = graph.edges()
  return list(zip(sources.tolist(), targets.tolist(), strict=True))


def main(target: str, panels: list[str]) -> None:
  """Writes the picture."""
  lines: list[str] = []
  height = 0
  for number, text in enumerate(panels):
    title, _, run = text.partition('=')
    more, below = panel(title, pathlib.Path(run), number * WIDTH)
    lines, height = lines + more, max(height, below)
  height += 22
  lines.append(
    f'<text class="small" x="{MARGIN}" y="{height - 6}">Streets: '
    '© OpenStreetMap contributors, ODbL</text>'
  )
  head = (
    f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH * len(panels)}" '
    f'height="{height}" role="img"><title>Streets that models accept and that '
    f'do not exist</title>{STYLE}<rect width="100%" height="100%" fill="#fff"/>'
  )
  pathlib.Path(target).write_text('\n'.join([head, *lines, '</svg>\n']))
  print(f'written: {target}')


if __name__ == '__main__':
  if len(sys.argv) < 3:
    sys.exit("error: expected OUT.svg and 'TITLE=RUN', one or more")
  main(sys.argv[1], sys.argv[2:])
