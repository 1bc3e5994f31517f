"""Draws a reconstructed map: PNG and SVG by Matplotlib, and an HTML page.

True edges in use are thin black lines; new edges are curves that leave their
node in the direction of their label, as in the published maps (Vafa et al.
2024, figure 3; mapping/). Unused true edges are not drawn.

A new edge is solid if at least half of its errors recur after another route to
the same state (metric `coherence`), and dotted otherwise: then the model holds
no such street consistently. A true edge that the model accepts for no
destination is dashed (metric `audit`).

The page holds its data, style and program: it opens from a disk, with no
network. The program is ours, as mapping libraries fetch their tiles from a
server.
"""

from __future__ import annotations

import io
import math
import pathlib
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from PIL import Image  # Matplotlib's.

from wm.recon import reconstruct
from wm.recon.routes import CLASSES, Routes, follow
from wm.runtime import files
from wm.worlds.maps import streets

if TYPE_CHECKING:
  from matplotlib import axes as axes_lib
  from matplotlib import figure as figure_lib


# Degrees from a node to the control point of its curves, in each axis.
BEND = 0.002

INK = '#101418'
PALE, DARK = '#ffa07a', '#b22222'  # Light salmon to fire brick.
PAPER = '#ffffff'
LACKING = (0, (4, 3))  # Dashes and gaps, in line widths.


EXAMPLES = 8  # Routes of each class that the page shows.
DENSE = 1000  # Nodes from which a whole map is drawn in finer lines.


class View(NamedTuple):
  """A window in degrees, and how edges are drawn in it.

  Attributes:
    south, north, west, east: degrees.
    width: of true edges, points.
    alpha: of true edges.
    new_width, new_alpha: of new edges.
  """

  south: float
  north: float
  west: float
  east: float
  width: float
  alpha: float
  new_width: float
  new_alpha: float


# The published view of Manhattan, and the style of small maps.
FAR = View(40.702, 40.800, -74.022, -73.933, 0.5, 0.3, 0.75, 0.3)
SMALL = FAR._replace(width=1.0, new_width=1.5, new_alpha=0.7)


def view_of(graph: streets.StreetGraph) -> View:
  """The whole of a map; of Manhattan, the published view."""
  south, north = float(graph.lat.min()), float(graph.lat.max())
  west, east = float(graph.lon.min()), float(graph.lon.max())
  wide = east - west > 0.8 * (FAR.east - FAR.west)
  inside = (graph.lat > FAR.south) & (graph.lat < FAR.north)
  inside &= (graph.lon > FAR.west) & (graph.lon < FAR.east)
  if wide and inside.mean() > 0.5:
    return FAR
  tall = max(north - south, 1e-3) / 20
  broad = max(east - west, 1e-3) / 20
  style = FAR if len(graph) > DENSE else SMALL
  edges = south - tall, north + tall, west - broad, east + broad
  return style._replace(
    **dict(zip(('south', 'north', 'west', 'east'), edges, strict=True))
  )


def control_points(
  graph: streets.StreetGraph, source: np.ndarray, label: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Returns [E] latitude and longitude of the control points of quadratic
  curves.

  A label that is no direction bends nothing: the point is the curve's start.
  """
  names = [*streets.DIRECTIONS, *[''] * (1 + int(label.max(initial=0)))]
  north = np.array([('N' in name) - ('S' in name) for name in names], float)
  east = np.array([('E' in name) - ('W' in name) for name in names], float)
  return (
    graph.lat[source] + BEND * north[label],
    graph.lon[source] + BEND * east[label],
  )


def figure(
  graph: streets.StreetGraph, edges: pd.DataFrame, view: View, title: str
) -> figure_lib.Figure:
  """Draws one view as a Matplotlib figure."""
  import matplotlib.figure  # Plotting on first use.

  stretch = 1 / math.cos(math.radians((view.south + view.north) / 2))
  shape = (view.north - view.south) * stretch / (view.east - view.west)
  width = 8.0 if shape > 0.7 else 12.0
  drawing = matplotlib.figure.Figure(
    figsize=(width, width * shape + 0.9), facecolor=PAPER, layout='constrained'
  )
  axes = drawing.add_subplot()
  axes.set(
    xlim=(view.west, view.east), ylim=(view.south, view.north), aspect=stretch
  )
  axes.set(xticks=[], yticks=[])
  axes.spines[:].set_color('#c8ccd0')
  _edges(axes, graph, edges, view)
  _frame(axes, edges, view, title)
  return drawing


def _seen(points: np.ndarray, view: View) -> np.ndarray:
  """Returns [E] bool: may a curve with points [E, P, 2] touch the window?"""
  low, high = points.min(1), points.max(1)
  return (
    (high[:, 0] >= view.west)
    & (low[:, 0] <= view.east)
    & (high[:, 1] >= view.south)
    & (low[:, 1] <= view.north)
  )


def _edges(
  axes: axes_lib.Axes,
  graph: streets.StreetGraph,
  edges: pd.DataFrame,
  view: View,
) -> None:
  from matplotlib import collections, colors, path

  place = np.stack([graph.lon, graph.lat], -1)
  true, lacking = edges.kind == reconstruct.TRUE, _lacking(edges)
  for rows, style in ((true & ~lacking, 'solid'), (lacking, LACKING)):
    ends = place[edges.loc[rows, ['source', 'target']]]
    lines = collections.LineCollection(
      ends[_seen(ends, view)],
      **{'colors': INK, 'linewidths': view.width, 'alpha': view.alpha},
      linestyles=style,
    )
    axes.add_collection(lines, autolim=False)
  codes = [path.Path.MOVETO, path.Path.CURVE3, path.Path.CURVE3]
  shades = colors.LinearSegmentedColormap.from_list('new', [PALE, DARK])
  false, unsure = edges.kind == reconstruct.FALSE, _unsure(edges)
  for rows, style in ((false & ~unsure, 'solid'), (unsure, 'dotted')):
    new = edges[rows]
    source, target = new.source.to_numpy(), new.target.to_numpy()
    bends = control_points(graph, source, new.label.to_numpy())[::-1]
    points = np.stack([place[source], np.stack(bends, -1), place[target]], 1)
    seen = _seen(points, view)
    curves = collections.PathCollection(
      [path.Path(curve, codes) for curve in points[seen]],
      **{'facecolors': 'none', 'linewidths': view.new_width},
      # Where an edge has no bearing, nothing about it is off.
      edgecolors=shades(np.nan_to_num(new.error[seen]) / 180),
      linestyles=style,
      alpha=view.new_alpha,
    )
    axes.add_collection(curves, autolim=False)


def _unsure(edges: pd.DataFrame) -> np.ndarray:
  """[E] bool: new edges that are not accepted consistently, if this is known.

  An edge without an error in any state that was asked about is one of them.
  """
  new = edges.kind == reconstruct.FALSE
  if 'recurs' not in edges or edges.recurs.isna().all():
    return np.zeros(len(edges), bool)
  return (new & ~(edges.recurs >= 0.5)).to_numpy()


def _lacking(edges: pd.DataFrame) -> np.ndarray:
  """[E] bool: true edges that are accepted for no destination."""
  if 'accepted' not in edges:
    return np.zeros(len(edges), bool)
  true = edges.kind != reconstruct.FALSE
  return (true & (edges.accepted == 0)).to_numpy()


def _frame(
  axes: axes_lib.Axes, edges: pd.DataFrame, view: View, title: str
) -> None:
  from matplotlib import lines

  count = np.bincount(edges.kind, minlength=3)
  axes.set_title(title, loc='left', fontsize=11, color=INK)
  looks: tuple[tuple[dict[str, Any], str], ...] = (
    ({'color': INK, 'lw': 1, 'alpha': 0.6}, f'true edge ({count[0]:,})'),
    ({'color': PALE, 'lw': 2}, f'new edge ({count[1]:,})'),
    ({'color': DARK, 'lw': 2}, 'new edge that leads away from its label'),
  )
  looks += tuple(
    ({'color': colour, 'lw': 2, 'ls': style}, f'{text} ({mask.sum():,})')
    for mask, colour, style, text in (
      (_unsure(edges), PALE, 'dotted', 'new edge, accepted inconsistently'),
      (_lacking(edges), INK, LACKING, 'true edge, never accepted'),
    )
    if mask.any()
  )
  axes.legend(
    handles=[lines.Line2D([], [], label=text, **look) for look, text in looks],
    loc='upper center',
    bbox_to_anchor=(0.5, -0.01),
    ncols=3,
    frameon=False,
    fontsize=8,
  )
  metres = (view.north - view.south) * 111_195
  length = 10 ** math.floor(math.log10(metres / 4))
  across = length / 111_195 / math.cos(math.radians(view.south))
  left = view.west + (view.east - view.west) * 0.03
  low = view.south + (view.north - view.south) * 0.03
  axes.plot([left, left + across], [low, low], color=INK, lw=2)
  text = f'{length / 1000:g} km' if length >= 1000 else f'{length} m'
  axes.text(left, low, f'{text}\n', color=INK, fontsize=8, va='bottom')


def write(
  graph: streets.StreetGraph,
  edges: pd.DataFrame,
  folder: str | pathlib.Path,
  title: str,
) -> list[pathlib.Path]:
  """Writes map_far as .png and .svg; returns their paths."""
  import matplotlib

  base, pixels = pathlib.Path(folder) / 'map_far', io.BytesIO()
  png, svg = base.with_suffix('.png'), base.with_suffix('.svg')
  # Equal runs give equal bytes.
  with matplotlib.rc_context({'svg.hashsalt': 'wm', 'svg.fonttype': 'none'}):
    picture = figure(graph, edges, view_of(graph), title)
    picture.savefig(pixels, format='png', dpi=150)
    with files.replacing(svg) as name:
      picture.savefig(name, format='svg', metadata={'Date': None})
  # A map has few colours: 256 take a quarter of the bytes.
  fast = Image.Quantize.FASTOCTREE
  few = Image.open(pixels).convert('RGB').quantize(256, fast)
  with files.replacing(png) as name:
    few.save(name, 'png')
  return [png, svg]


def page_data(
  graph: streets.StreetGraph, routes: Routes, edges: pd.DataFrame
) -> dict[str, Any]:
  """Returns what map.html draws, in metres east and south of the map's middle.

  Args:
    graph: the true map.
    routes: what the map was made from.
    edges: of `reconstruct.edge_table`.
  """
  east, north = streets.project(graph, graph.lat, graph.lon).T
  across = streets.EARTH_M * math.radians(BEND)
  error = [None if math.isnan(e) else round(e, 1) for e in edges.error.tolist()]
  return {
    'nodes': {
      'x': np.round(east, 1).tolist(),
      'y': np.round(-north, 1).tolist(),
      'ids': [*graph.names],
    },
    'edges': {
      'u': edges.source.tolist(),
      'v': edges.target.tolist(),
      'label': edges.label.tolist(),
      'kind': edges.kind.tolist(),
      'line': edges.line.tolist(),
      'metres': np.round(edges.metres).astype(int).tolist(),
      'error': error,
      'crossings': edges.crossings.tolist(),
    },
    'labels': [*streets.DIRECTIONS, *routes.others],
    'routes': _examples(graph, routes),
    'bend': [across * math.cos(math.radians(graph.lat.mean())), across],
  }


def _examples(
  graph: streets.StreetGraph, routes: Routes
) -> list[dict[str, Any]]:
  """Returns the first routes of each class, as Vafa et al. 2024, figure 5."""
  groups = follow(routes, graph).groups(routes)
  rows = [np.flatnonzero(groups == k)[:EXAMPLES] for k in range(len(CLASSES))]
  return [
    {
      'class': int(groups[row]),
      'line': int(routes.lines[row]),
      'ends': [int(routes.origins[row]), int(routes.destinations[row])],
      'moves': routes.labels[slice(*routes.offsets[row : row + 2])].tolist(),
    }
    for row in np.concatenate(rows)
  ]
