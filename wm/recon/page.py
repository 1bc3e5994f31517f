"""Makes one self-contained interactive HTML page of a reconstructed map.

Data, style and program are in the file: it opens from a disk, with no network.
The program is ours: mapping libraries fetch their tiles from a server.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from wm.recon import draw, measures
from wm.recon.routes import Routes
from wm.runtime import pages
from wm.worlds.maps import streets


def render(
  graph: streets.StreetGraph,
  routes: Routes,
  edges: measures.Table,
  *,
  title: str,
  subtitle: str,
  facts: Iterable[tuple[str, str]],
) -> str:
  """Returns the page's text.

  Args:
    graph: the true map.
    routes: what the map was made from.
    edges: of `measures.table`.
    title: what the map is of.
    subtitle: how it was made.
    facts: names and values of a small table.
  """
  return pages.render(
    *('wm.recon', 'map.html'),
    title=title,
    subtitle=subtitle,
    facts=list(facts),
    data=_data(graph, routes, edges),
  )


def _data(
  graph: streets.StreetGraph, routes: Routes, edges: measures.Table
) -> dict[str, Any]:
  """Returns what the page draws, in metres east and south of the map's
  middle.
  """
  east, north = streets.project(graph, graph.lat, graph.lon).T
  across = streets.EARTH_M * math.radians(draw.BEND)
  error = [None if math.isnan(e) else round(e, 1) for e in edges.error.tolist()]
  return {
    'nodes': {
      'x': np.round(east, 1).tolist(),
      'y': np.round(-north, 1).tolist(),
      'ids': [str(name) for name in graph.ids.tolist()],
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
    'bend': [across * math.cos(math.radians(graph.lat.mean())), across],
  }
