"""Map reconstruction: edges in use after routes are placed one by one.

Each node has at most one edge in use per label; labels 0..7 are the eight
directions, higher ones other tokens that stand where a direction should, which
no true edge has. True edges are unused until a route takes them; false edges
are added where no true one fits (Vafa et al. 2024, section 4 and appendix E).
"""

from __future__ import annotations

import numpy as np

from wm.kernels.maps.edges import Edges


def reconstruct(
  delta: np.ndarray,
  near_offsets: np.ndarray,
  near_nodes: np.ndarray,
  origins: np.ndarray,
  destinations: np.ndarray,
  offsets: np.ndarray,
  labels: np.ndarray,
  max_degree: int,
  paper: bool,
  rollback: bool,
) -> Edges:
  """Places routes one after the other.

  Args:
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
  from wm.kernels.maps import reconstruction_numba

  near, routes = (near_offsets, near_nodes), (origins, destinations)
  given = *near, *routes, offsets, labels
  return reconstruction_numba.reconstruct(
    delta, given, max_degree, paper, rollback
  )
