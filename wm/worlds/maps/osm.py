"""Street graphs from OpenStreetMap, through OSMnx (the extra `maps`).

GraphML files as OSMnx saves them, and OSM XML files as the OpenStreetMap
editors and Overpass give them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from wm import core
from wm.core import inputs
from wm.worlds.maps import streets

# Highways one may drive on, as OSMnx's network type 'drive' has them.
DRIVABLE = frozenset(
  kind + suffix
  for kind in ('motorway', 'trunk', 'primary', 'secondary', 'tertiary')
  for suffix in ('', '_link')
) | {'unclassified', 'residential', 'living_street', 'road'}


def library() -> Any:
  """The module osmnx; raises InputError where it is not installed."""
  try:
    import osmnx
  except ModuleNotFoundError as error:
    raise core.InputError(
      "maps from OpenStreetMap need the extra 'maps': pip install -e '.[maps]'"
    ) from error
  return osmnx


def load(path: str | Path) -> streets.StreetGraph:
  """A graph from a GraphML, OSM or XML file, told apart by its suffix.

  Raises:
    InputError: no such file, another suffix, not a street graph, or what
      `streets.build` refuses.
  """
  return convert(read(path), str(path))


def read(path: str | Path) -> Any:
  """The file as OSMnx's simplified networkx.MultiDiGraph of drivable ways."""
  path = Path(path)
  if path.suffix not in ('.graphml', '.osm', '.xml'):
    raise core.InputError(
      f'{path}: unknown suffix {path.suffix!r}; expected .graphml, .osm or .xml'
    )
  with inputs.reading_file(path, 'a street graph that OSMnx can read'):
    if path.suffix == '.graphml':
      return library().io.load_graphml(path)
    return _from_xml(library(), path)


def _from_xml(osmnx: Any, path: Path) -> Any:
  graph = osmnx.graph.graph_from_xml(path, simplify=False, retain_all=True)
  closed = [
    edge
    for *edge, data in graph.edges(keys=True, data=True)
    if data.get('highway') not in DRIVABLE
    or data.get('access') in ('no', 'private')
  ]
  graph.remove_edges_from(closed)
  graph.remove_nodes_from([n for n, d in dict(graph.degree()).items() if not d])
  if not graph.number_of_edges():
    raise core.InputError(f'{path}: no street to drive on')
  return osmnx.simplification.simplify_graph(graph)


def convert(graph: Any, where: str) -> streets.StreetGraph:
  """A street graph from a graph with x, y on nodes and length on edges.

  Nodes in ascending order of id; labels from the bearings between the ends
  of edges; an undirected edge runs both ways; self-loops, which have no
  bearing, are left out and counted.
  """
  expected = 'integer node ids, x and y in degrees, and lengths in metres'
  with inputs.reading(where, f'a street graph with {expected}'):
    nodes = sorted(graph.nodes)
    row = {node: n for n, node in enumerate(nodes)}
    ids = np.array([int(node) for node in nodes], np.int64)
    lat = np.array([float(graph.nodes[n]['y']) for n in nodes])
    lon = np.array([float(graph.nodes[n]['x']) for n in nodes])
    edges = [
      (row[u], row[v], float(data.get('length', 'nan')))
      for u, v, data in graph.edges(data=True)
    ]
  if not graph.is_directed():
    edges += [(v, u, length) for u, v, length in edges]
  straight = [edge for edge in edges if edge[0] != edge[1]]
  if not straight:
    raise core.InputError(f'{where}: no path between any pair of nodes')
  sources, targets, length_m = map(np.array, zip(*straight, strict=True))
  labelled = sources, None, targets
  converted = streets.build(ids, lat, lon, labelled, length_m, where)
  converted.counts['self_loops'] = len(edges) - len(straight)
  return converted
