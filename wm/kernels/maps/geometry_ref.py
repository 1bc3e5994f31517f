"""Points and segments on a map, in plain NumPy: the specification."""

from __future__ import annotations

import numpy as np


def within(
  lat: np.ndarray, lon: np.ndarray, reach: float, radius: float
) -> tuple[np.ndarray, np.ndarray]:
  """Nodes within reach of each node by great circle, itself included.

  Args:
    lat: [S] float64 degrees.
    lon: [S] float64 degrees.
    reach: in the unit of `radius`.
    radius: of the sphere.

  Returns:
    offsets: [S + 1] int64.
    nodes: int32, ascending for each node.
  """
  offsets, nodes = [0], []
  for here in range(len(lat)):
    near = np.flatnonzero(
      distance(lat[here], lon[here], lat, lon, radius) <= reach
    )
    nodes.append(near)
    offsets.append(offsets[-1] + len(near))
  return np.array(offsets, np.int64), np.concatenate(nodes).astype(np.int32)


def distance(
  lat_a: np.ndarray,
  lon_a: np.ndarray,
  lat_b: np.ndarray,
  lon_b: np.ndarray,
  radius: float,
) -> np.ndarray:
  """Great-circle distance (haversine), degrees in, unit of `radius` out."""
  rad = np.pi / 180
  across = np.sin((lat_b - lat_a) * (rad / 2)) ** 2
  along = np.sin((lon_b - lon_a) * (rad / 2)) ** 2
  chord = across + np.cos(lat_a * rad) * np.cos(lat_b * rad) * along
  return 2 * radius * np.arcsin(np.sqrt(np.minimum(chord, 1)))


def crossings(
  x: np.ndarray, y: np.ndarray, tails: np.ndarray, heads: np.ndarray, num: int
) -> np.ndarray:
  """How many other segments each of the first `num` properly crosses.

  Args:
    x, y: [S] float64, planar coordinates of the nodes.
    tails, heads: [E] int32, ends of the segments.
    num: how many segments to count for.

  Returns:
    [num] int64; touching and sharing an end is no crossing.
  """

  def side(a: int, b: int, c: int) -> float:
    return (x[b] - x[a]) * (y[c] - y[a]) - (y[b] - y[a]) * (x[c] - x[a])

  counts = np.zeros(num, np.int64)
  for i in range(num):
    a, b = tails[i], heads[i]
    for c, d in zip(tails, heads, strict=True):
      if len({a, b, c, d}) == 4:
        counts[i] += (
          side(a, b, c) * side(a, b, d) < 0
          and side(c, d, a) * side(c, d, b) < 0
        )
  return counts
