"""Small maps and routes that tests of reconstruction share."""

from __future__ import annotations

import numpy as np

from wm import core
from wm.recon import routes
from wm.worlds.maps import streets

N, NE, E, SE, S, SW, W, NW = range(8)

STEP = 0.001  # Degrees between neighbouring nodes of a row; 69 m at most.


def row(num: int) -> streets.StreetGraph:
  """`num` nodes from west to east at the equator, one-way streets east."""
  delta = np.full((num, 8), core.DEAD, np.int32)
  delta[:-1, E] = np.arange(1, num)
  lon = np.arange(num) * STEP
  length_m = np.where(delta >= 0, 111.0, np.nan)
  return streets.StreetGraph(
    np.arange(100, 100 + num), np.zeros(num), lon, delta, length_m
  )


def make_routes(*inputs: tuple[int, int, list[int]]) -> routes.Routes:
  """Routes of (origin, destination, labels)."""
  lengths = [len(labels) for _, _, labels in inputs]
  return routes.Routes(
    np.array([g[0] for g in inputs], np.int32),
    np.array([g[1] for g in inputs], np.int32),
    np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
    np.array([k for _, _, labels in inputs for k in labels], np.int32),
    np.arange(1, len(inputs) + 1),
    np.zeros(len(inputs), bool),
    ('odd',),
  )
