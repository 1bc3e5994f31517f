"""Points and segments on a map."""

from __future__ import annotations

import numpy as np


def within(
  lat: np.ndarray, lon: np.ndarray, reach: float, radius: float
) -> tuple[np.ndarray, np.ndarray]:
  """Nodes within reach of each node by great circle, itself included.

  Args:
    lat: [S] float64 degrees.
    lon: [S] float64 degrees.
    reach: greatest distance, in the unit of `radius`.
    radius: of the sphere.

  Returns:
    offsets: [S + 1] int64; node s has nodes[offsets[s]:offsets[s + 1]].
    nodes: int32, ascending for each node.
  """
  from wm.kernels.maps import geometry_numba

  return geometry_numba.within(lat, lon, reach, radius)


def crossings(
  x: np.ndarray, y: np.ndarray, tails: np.ndarray, heads: np.ndarray, num: int
) -> np.ndarray:
  """[num] int64: other segments that each of the first `num` properly crosses.

  Touching and sharing an end is no crossing.

  Args:
    x: [S] float64, planar coordinates of the nodes.
    y: [S] float64.
    tails: [E] int32, ends of the segments.
    heads: [E] int32.
    num: how many segments to count for.
  """
  from wm.kernels.maps import geometry_numba

  counts = np.zeros(num, np.int64)
  geometry_numba.crossings(x, y, tails, heads, counts)
  return counts
