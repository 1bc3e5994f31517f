"""Street maps as files: of OpenStreetMap, or of a graph in memory.

A world reads files and nothing else, so that its spec says all that it is; what
downloads and writes them is here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wm import core
from wm.core import inputs, registry
from wm.runtime import files
from wm.worlds import maps
from wm.worlds.maps import streets


def fetch_map(out: str | Path, place: str = '', file: str = '') -> str:
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
  network = _download(place) if place else streets.read_osm(file)
  graph = streets.from_networkx(network, place or file)
  out = Path(out)
  with files.replacing(out / 'map.graphml') as temporary:
    streets.osmnx_library().io.save_graphml(network, temporary)
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


def from_graph(graph: Any, out: str | Path, **fields: Any) -> maps.World:
  """The world of a networkx or OSMnx graph, kept in files that name it.

  Writes nodes.csv and edges.csv to `out`: a world is what its spec says, so
  that runs on it can be repeated.

  Args:
    graph: networkx graph of any kind. Nodes have x (longitude) and y
      (latitude) in degrees; edges may have `length` in metres, and have the
      great-circle length without. Nodes whose names are not integers are
      numbered in the graph's order. An undirected edge runs both ways.
    out: folder of the two files.
    **fields: of the world, such as traversal='shortest'.

  Raises:
    InputError: not such a graph, or one without a path.
  """
  import networkx as nx

  if not isinstance(graph, nx.Graph):
    raise core.InputError(
      f'the graph is of type {type(graph).__name__}; expected one of networkx'
    )
  # What is wrong with a field shows before files are written.
  listed = ', '.join(f'{name}={value!r}' for name, value in fields.items())
  registry.resolve('world', f'maps({listed})')
  if not all(isinstance(node, int) for node in graph):
    graph = nx.convert_node_labels_to_integers(graph)
  nodes, edges = save(streets.from_networkx(graph, 'the graph'), Path(out))
  return maps.World(nodes=str(nodes), edges=str(edges), **fields)


def _download(place: str) -> Any:
  osmnx = streets.osmnx_library()
  osmnx.settings.use_cache = False  # Else it fills ./cache wherever we are.
  with inputs.reading(repr(place), 'a place that can be fetched'):
    return osmnx.graph.graph_from_place(place, network_type='drive')
