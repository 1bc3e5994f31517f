"""Rates of a reconstruction with 95 % intervals, clustered by route."""

from __future__ import annotations

from typing import Any

import numpy as np

from wm.evaluation import statistics
from wm.kernels.maps import reconstruction as codes
from wm.kernels.maps.reconstruction import Edges
from wm.recon.routes import PATH, Fate, Routes
from wm.worlds.maps import streets


def rates(
  graph: streets.StreetGraph, routes: Routes, fate: Fate, edges: Edges
) -> dict[str, Any]:
  """Measures how often routes leave the true map, and how many cannot be
  placed.

  Args:
    graph: the true map.
    routes: as they were placed.
    fate: how they fare on the true map.
    edges: of the reconstruction.

  Returns:
    illegal_directions: of the directions that routes take from a known place,
      the share that no street there has. A route's place is known up to its
      first such direction, which is the last one counted.
    distinct_directions, distinct_illegal_directions: these directions, each
      place and direction counted once.
    failed_routes: share of routes that the reconstruction cannot place.
    Each share is {value, low, high, n}, n directions or routes; None without
    any.
  """
  wrong = fate.kind == PATH
  legal, illegal = _pairs(graph, routes, fate, wrong)
  return {
    'illegal_directions': _share(wrong, fate.steps + wrong),
    'distinct_directions': len(np.union1d(legal, illegal)),
    'distinct_illegal_directions': len(np.unique(illegal)),
    'failed_routes': _share(
      edges.reasons != codes.OK, np.ones(len(wrong), np.int64)
    ),
  }


def _share(hits: np.ndarray, trials: np.ndarray) -> dict[str, Any]:
  """The share of hits [G] in trials [G] of routes, with its interval."""
  n = int(trials.sum())
  if not n:
    return {'value': None, 'low': None, 'high': None, 'n': 0}
  totals, weights = hits.astype(np.float64), trials.astype(np.float64)
  low, high, _ = statistics.interval(totals, weights, (0.0, 1.0))
  return {'value': float(hits.sum() / n), 'low': low, 'high': high, 'n': n}


def _pairs(
  graph: streets.StreetGraph, routes: Routes, fate: Fate, wrong: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Legal directions taken, and illegal ones, as node * labels + label."""
  num = len(streets.DIRECTIONS) + len(routes.others)
  node, legal = routes.origins.astype(np.int64), [np.zeros(0, np.int64)]
  for step in range(int(fate.steps.max(initial=0))):
    rows = np.flatnonzero(step < fate.steps)
    labels = routes.labels[routes.offsets[rows] + step]
    legal.append(node[rows] * num + labels)
    node[rows] = graph.delta[node[rows], labels]
  last = routes.labels[routes.offsets[:-1][wrong] + fate.steps[wrong]]
  return np.concatenate(legal), fate.node[wrong] * np.int64(num) + last
