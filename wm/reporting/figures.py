"""Matplotlib, for maps, boards and fractals; other pictures are `charts`."""

from __future__ import annotations

import io
from typing import Any


def to_png(figure: Any) -> bytes:
  """Returns a figure as PNG, 120 dots an inch, without margins."""
  buffer = io.BytesIO()
  figure.savefig(buffer, format='png', dpi=120, bbox_inches='tight')
  return buffer.getvalue()


def new_axes(
  panels: int, across: int = 4, size: tuple[float, float] = (4.6, 3.4)
) -> tuple[Any, list[Any]]:
  """Makes a figure of panels, at most `across` in a row."""
  from matplotlib.figure import Figure  # No global state, no display.

  columns = min(panels, across)
  rows = -(-panels // columns)
  inches = size[0] * columns, size[1] * rows
  figure = Figure(figsize=inches, layout='constrained')
  axes = [figure.add_subplot(rows, columns, i + 1) for i in range(panels)]
  for axis in axes:
    axis.grid(alpha=0.3)
    axis.spines[['top', 'right']].set_visible(False)
  return figure, axes
