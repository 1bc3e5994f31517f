"""What map reconstruction is given, what it gives, and why routes failed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# Why a route could not be placed.
OK, NO_ROOM, TOO_FAR, NO_CANDIDATE, OFF_DESTINATION = range(5)


class Problem(NamedTuple):
  """A map, the routes to place on it, and how.

  Attributes:
    delta: [S, 8] int32, the true map; DEAD where there is no edge.
    near_offsets: [S + 1] int64, start of each node's candidates.
    near_nodes: candidates of added edges, in the order that breaks ties.
    origins: [N] int32.
    destinations: [N] int32.
    offsets: [N + 1] int64, start of each route's labels.
    labels: int32; one or more a route.
    max_degree: most edges (paper: distinct neighbours) out of a node.
    paper: the algorithm as printed, not what the published program does.
    rollback: a route that fails leaves the map as it was.
  """

  delta: np.ndarray
  near_offsets: np.ndarray
  near_nodes: np.ndarray
  origins: np.ndarray
  destinations: np.ndarray
  offsets: np.ndarray
  labels: np.ndarray
  max_degree: int
  paper: bool
  rollback: bool


class Edges(NamedTuple):
  """Edges in use after all routes, ordered by source and label.

  Attributes:
    source, label, target: [E] int32.
    false: [E] bool, added where the true map has none.
    route: [E] int32, the route that first used it.
    reasons: [N] int8, OK or why a route failed.
  """

  source: np.ndarray
  label: np.ndarray
  target: np.ndarray
  false: np.ndarray
  route: np.ndarray
  reasons: np.ndarray
