"""Measures how unlike streets the added edges are: bearing, length,
crossings.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from wm import core
from wm.evaluation import statistics
from wm.kernels.maps import geometry
from wm.kernels.maps.reconstruction import Edges
from wm.recon.routes import Routes
from wm.worlds.maps import streets

USED, FALSE, UNUSED = range(3)
KINDS = ('true', 'new', 'unused')

ERRORS_DEG = (45, 90)
QUANTILES = (0, 5, 25, 50, 75, 95, 100)  # Per cent.


class Table(NamedTuple):
  """All edges of a reconstructed map, unused true ones included.

  Attributes:
    source, target: [E] int32, rows of the graph.
    label: [E] int32; 8 and above are no directions.
    kind: [E] int8 index into KINDS.
    line: [E] int64, where the route that first used it stood; 0 if unused.
    metres: [E] float64, great-circle length.
    error: [E] float64, degrees in [0, 180] between the geometric bearing and
      the middle of the label's sector; NaN for a self-loop or no direction.
    crossings: [E] int64, other edges, true or new, that a new edge crosses
      (a flyover); those joining the same two nodes count once; -1 elsewhere.
  """

  source: np.ndarray
  target: np.ndarray
  label: np.ndarray
  kind: np.ndarray
  line: np.ndarray
  metres: np.ndarray
  error: np.ndarray
  crossings: np.ndarray


def table(graph: streets.StreetGraph, routes: Routes, edges: Edges) -> Table:
  """Measures every edge; used ones come first, by source and label."""
  real = graph.edges()
  key = edges.source.astype(np.int64) * 8 + edges.label
  taken = np.isin(real[0] * 8 + real[1], key[~edges.false])
  used = edges.source, edges.label, edges.target
  source, label, target = (
    np.concatenate([column, unused[~taken]]).astype(np.int32)
    for column, unused in zip(used, real, strict=True)
  )
  kind = np.full(len(source), UNUSED, np.int8)
  kind[: len(edges.false)] = np.where(edges.false, FALSE, USED)
  line = np.zeros(len(source), np.int64)
  line[: len(edges.route)] = routes.lines[edges.route]
  ends = (
    graph.lat[source],
    graph.lon[source],
    graph.lat[target],
    graph.lon[target],
  )
  off = np.abs(streets.bearing(*ends) - 45.0 * label) % 360
  error = np.minimum(off, 360 - off)
  error[(source == target) | (label >= len(streets.DIRECTIONS))] = np.nan
  return Table(
    source,
    target,
    label,
    kind,
    line,
    streets.great_circle(*ends),
    error,
    crossings(graph, source, target, kind),
  )


def crossings(
  graph: streets.StreetGraph,
  source: np.ndarray,
  target: np.ndarray,
  kind: np.ndarray,
) -> np.ndarray:
  """Returns [E] int64: how many edges each false edge crosses, -1 for others.

  Edges are straight, and both directions of a street are one segment. Unused
  edges do not count.
  """
  count = np.full(len(source), -1, np.int64)
  low, high = np.minimum(source, target), np.maximum(source, target)
  pair = low.astype(np.int64) * len(graph) + high
  used = kind != UNUSED
  segments, first, place = np.unique(
    pair[used], return_index=True, return_inverse=True
  )
  added = np.zeros(len(segments), bool)
  added[place[kind[used] == FALSE]] = True
  order = np.argsort(~added, kind='stable')  # Those to count for come first.
  tails, heads = low[used][first][order], high[used][first][order]
  x, y = streets.project(graph, graph.lat, graph.lon).T.copy()
  crossed = np.zeros(len(segments), np.int64)
  crossed[order[: added.sum()]] = geometry.crossings(
    x, y, tails, heads, int(added.sum())
  )
  count[used] = np.where(kind[used] == FALSE, crossed[place], -1)
  return count


def _share(hits: np.ndarray) -> dict[str, Any]:
  """Returns a proportion with its 95 % interval; None without trials."""
  if not len(hits):
    return {'n': 0, 'value': None, 'low': None, 'high': None}
  value = float(hits.mean())
  low, high = statistics.proportion(value, len(hits))
  return {'n': len(hits), 'value': value, 'low': low, 'high': high}


def _lengths(metres: np.ndarray) -> dict[str, Any]:
  if not len(metres):
    return {'n': 0, 'mean': None, 'percentiles': {}}
  return {
    'n': len(metres),
    'mean': float(metres.mean()),
    'percentiles': {str(q): float(np.percentile(metres, q)) for q in QUANTILES},
  }


def summary(edges: Table) -> dict[str, dict[str, Any]]:
  """Summarises the new edges, and the true ones in use for comparison."""
  result: dict[str, dict[str, Any]] = {}
  for kind in (FALSE, USED):
    chosen = edges.kind == kind
    error = edges.error[chosen]
    error = error[~np.isnan(error)]
    result[KINDS[kind]] = {
      **{
        f'direction_off_by_over_{limit}': _share(error > limit)
        for limit in ERRORS_DEG
      },
      'length_m': _lengths(edges.metres[chosen]),
    }
  crossed = edges.crossings[edges.kind == FALSE]
  result[KINDS[FALSE]]['crosses_another'] = _share(crossed > 0)
  result[KINDS[FALSE]]['crossings_per_edge'] = (
    float(crossed.mean()) if len(crossed) else None
  )
  return result


def frame(
  graph: streets.StreetGraph, routes: Routes, edges: Table
) -> pd.DataFrame:
  """Returns a row per edge, for edges.csv; '' where a value is not defined."""
  names = np.array([*streets.DIRECTIONS, *routes.others], dtype=object)

  def known(texts: np.ndarray, where: np.ndarray) -> np.ndarray:
    return np.where(where, texts, '')

  return pd.DataFrame(
    {
      'node': graph.ids[edges.source],
      'direction': names[edges.label],
      'neighbor': graph.ids[edges.target],
      'class': np.array(KINDS)[edges.kind],
      'first_line': known(edges.line.astype(str), edges.line > 0),
      'length_m': np.char.mod('%.1f', edges.metres),
      'direction_error_deg': known(
        np.char.mod('%.1f', edges.error), ~np.isnan(edges.error)
      ),
      'crossings': known(
        edges.crossings.astype(str), edges.crossings != core.DEAD
      ),
    }
  )
