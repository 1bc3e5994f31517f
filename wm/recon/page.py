"""One self-contained interactive HTML page of a reconstructed map.

Data, style and program are in the file: it opens from a disk, with no network.
"""

from __future__ import annotations

import html
import importlib.resources
import json
import math
import pathlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from wm.recon import draw, measures
from wm.recon.routes import Routes
from wm.runtime import files
from wm.worlds.maps import streets


def _data(
  graph: streets.StreetGraph, routes: Routes, edges: measures.Table
) -> dict[str, Any]:
  """What the page draws, in metres east and south of the map's middle."""
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


def render(
  graph: streets.StreetGraph,
  routes: Routes,
  edges: measures.Table,
  *,
  title: str,
  subtitle: str,
  facts: Iterable[tuple[str, Any]],
) -> str:
  """The page's text.

  Args:
    graph: the true map.
    routes: what the map was made from.
    edges: of `measures.table`.
    title: what the map is of.
    subtitle: how it was made.
    facts: names and values of a small table.
  """
  data = {
    **_data(graph, routes, edges),
    'title': title,
    'subtitle': subtitle,
    'facts': [[name, str(value)] for name, value in facts],
  }
  text = json.dumps(data, separators=(',', ':'), allow_nan=False)
  # A script element ends at the first '</', wherever that stands.
  text = text.replace('<', '\\u003c')
  template = importlib.resources.files('wm.recon').joinpath('page.html')
  before, between, after = _parts(template.read_text(encoding='utf-8'))
  return before + html.escape(title) + between + text + after


def _parts(template: str) -> tuple[str, str, str]:
  before, rest = template.split('@TITLE@')
  between, after = rest.split('@DATA@')
  return before, between, after


def write(
  graph: streets.StreetGraph,
  routes: Routes,
  edges: measures.Table,
  path: str | pathlib.Path,
  *,
  title: str,
  subtitle: str,
  facts: Iterable[tuple[str, Any]],
) -> None:
  """Writes `render`'s page, whole or not at all."""
  files.write_text(
    path,
    render(graph, routes, edges, title=title, subtitle=subtitle, facts=facts),
  )
