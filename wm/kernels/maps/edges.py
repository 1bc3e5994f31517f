"""What map reconstruction gives: edges in use, and why routes failed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# Why a route could not be placed.
OK, NO_ROOM, TOO_FAR, NO_CANDIDATE, OFF_DESTINATION = range(5)


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


class Given(NamedTuple):
  """Candidates and routes, as the compiled `reconstruct` is given them."""

  near_offsets: np.ndarray
  near_nodes: np.ndarray
  origins: np.ndarray
  destinations: np.ndarray
  offsets: np.ndarray
  labels: np.ndarray
