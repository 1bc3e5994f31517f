"""Street graphs from OpenStreetMap, through OSMnx (the extra `maps`).

GraphML files as OSMnx saves them, OSM XML files as the OpenStreetMap editors
and Overpass give them, and places by name for those who have internet.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml import sax
from xml.etree import ElementTree

import numpy as np

from wm import core
from wm.runtime import files
from wm.worlds.maps import streets

# Highways one may drive on, as OSMnx's network type 'drive' has them.
DRIVABLE = frozenset(
  kind + suffix
  for kind in ('motorway', 'trunk', 'primary', 'secondary', 'tertiary')
  for suffix in ('', '_link')
) | {'unclassified', 'residential', 'living_street', 'road'}


def _osmnx() -> Any:
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
  if not path.is_file():
    raise core.InputError(f'no such file: {path}')
  if path.suffix not in ('.graphml', '.osm', '.xml'):
    raise core.InputError(
      f'{path}: unknown suffix {path.suffix!r}; expected .graphml, .osm or .xml'
    )
  osmnx = _osmnx()
  import networkx as nx

  try:
    if path.suffix == '.graphml':
      return osmnx.io.load_graphml(path)
    return _from_xml(osmnx, path)
  except (
    core.InputError,
    sax.SAXException,
    ElementTree.ParseError,
    nx.NetworkXError,
    ValueError,  # OSMnx's own errors are among these.
    KeyError,
    AttributeError,
    TypeError,
  ) as error:
    raise core.InputError(
      f'{path} is not a street graph that OSMnx can read: '
      + ' '.join(str(error).split())
    ) from error


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
    raise core.InputError('no street to drive on')
  return osmnx.simplification.simplify_graph(graph)


def convert(graph: Any, where: str) -> streets.StreetGraph:
  """A street graph from a graph with x, y on nodes and length on edges.

  Nodes in ascending order of id; labels from the bearings between the ends
  of edges; an undirected edge runs both ways; self-loops, which have no
  bearing, are left out and counted.
  """
  nodes = sorted(graph.nodes)
  row = {node: n for n, node in enumerate(nodes)}
  try:
    ids = np.array([int(node) for node in nodes], np.int64)
    lat = np.array([float(graph.nodes[n]['y']) for n in nodes])
    lon = np.array([float(graph.nodes[n]['x']) for n in nodes])
    edges = [
      (row[u], row[v], float(data.get('length', 'nan')))
      for u, v, data in graph.edges(data=True)
    ]
  except (KeyError, ValueError, OverflowError) as error:
    raise core.InputError(
      f'{where}: expected integer node ids, x and y in degrees, and lengths in '
      f'metres: {error}'
    ) from error
  if not graph.is_directed():
    edges += [(v, u, length) for u, v, length in edges]
  straight = [edge for edge in edges if edge[0] != edge[1]]
  if not straight:
    raise core.InputError(f'{where}: no path between any pair of nodes')
  sources, targets = np.array([edge[:2] for edge in straight]).T
  labels = streets.sector(
    streets.bearing(lat[sources], lon[sources], lat[targets], lon[targets])
  )
  length_m = np.array([edge[2] for edge in straight])
  found = streets.build(
    ids, lat, lon, (sources, labels, targets), length_m, where
  )
  found.counts['self_loops'] = len(edges) - len(straight)
  return found


def fetch(out: str | Path, place: str = '', file: str = '') -> str:
  """Writes nodes.csv, edges.csv and map.graphml to `out`; returns a summary.

  Args:
    out: folder, made where absent.
    place: what to download, e.g. 'Manhattan, New York City, USA'.
    file: a local OSM XML or GraphML file instead.

  Raises:
    InputError: not exactly one source, no such place, or no internet.
  """
  if bool(place) == bool(file):
    raise core.InputError('expected either a place or a file to read')
  network = _download(place) if place else read(file)
  graph = convert(network, place or file)
  out = Path(out)
  with files.replacing(out / 'map.graphml') as temporary:
    _osmnx().io.save_graphml(network, temporary)
  save(graph, out)
  counts = ', '.join(f'{k} {n}' for k, n in graph.counts.items())
  return (
    f'{len(graph)} intersections and {graph.num_edges} streets in {out} '
    f'({counts})'
  )


def save(graph: streets.StreetGraph, out: Path) -> tuple[Path, Path]:
  """Writes nodes.csv and edges.csv to `out`; returns their paths."""
  paths = out / 'nodes.csv', out / 'edges.csv'
  for path, text in zip(paths, streets.to_csv(graph), strict=True):
    files.write_text(path, text)
  return paths


def _download(place: str) -> Any:
  osmnx = _osmnx()
  import requests  # OSMnx's own dependency.

  osmnx.settings.use_cache = False  # Else it fills ./cache wherever we are.
  try:
    return osmnx.graph.graph_from_place(place, network_type='drive')
  except (requests.RequestException, ValueError, TypeError) as error:
    raise core.InputError(
      f'cannot fetch {place!r}: {" ".join(str(error).split())}'
    ) from error
