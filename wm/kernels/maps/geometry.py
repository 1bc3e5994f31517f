"""Points and segments on a map."""

from __future__ import annotations

import math

import numpy as np

from wm.kernels.base.jit import njit


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
  return _within(lat, lon, reach, radius)


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
  counts = np.zeros(num, np.int64)
  _crossings(x, y, tails, heads, counts)
  return counts


@njit
def _crossings(x, y, tails, heads, counts) -> None:
  """Adds to counts [num] the segments that each of the first `num` crosses."""
  for i in range(len(counts)):
    a, b = tails[i], heads[i]
    west, east = min(x[a], x[b]), max(x[a], x[b])
    south, north = min(y[a], y[b]), max(y[a], y[b])
    for j in range(len(tails)):
      c, d = tails[j], heads[j]
      # Most pairs are ruled out by the boxes around them.
      if max(x[c], x[d]) < west or min(x[c], x[d]) > east:
        continue
      if max(y[c], y[d]) < south or min(y[c], y[d]) > north:
        continue
      if a == b or c == d or a in (c, d) or b in (c, d):
        continue
      # Each line has the other's ends on its two sides.
      if _side(x, y, a, b, c) * _side(x, y, a, b, d) < 0:
        counts[i] += _side(x, y, c, d, a) * _side(x, y, c, d, b) < 0


@njit
def _distance(lat_a, lon_a, lat_b, lon_b, radius):
  """Great-circle distance (haversine), degrees in, unit of `radius` out."""
  rad = math.pi / 180
  across = math.sin((lat_b - lat_a) * (rad / 2)) ** 2
  along = math.sin((lon_b - lon_a) * (rad / 2)) ** 2
  # Rounding may take it past 1 for opposite points, where asin is not defined.
  chord = across + math.cos(lat_a * rad) * math.cos(lat_b * rad) * along
  return 2 * radius * math.asin(math.sqrt(min(chord, 1.0)))


@njit
def _sweep(lat, lon, order, reach, radius, offsets, nodes):
  """Counts into offsets[1:], or fills `nodes` where it has room.

  `order` sorts the nodes by latitude: only a band of them can be in reach.
  """
  # In degrees, and a little wider than it need be for rounding.
  band = reach / radius * 180 / math.pi * (1 + 1e-9) + 1e-12
  fill = len(nodes) > 0
  low = 0
  for k in range(len(order)):
    node = order[k]
    # Nodes are met in order of latitude, so the band only moves up.
    while lat[order[low]] < lat[node] - band:
      low += 1
    count = 0
    j = low
    while j < len(order) and lat[order[j]] <= lat[node] + band:
      other = order[j]
      apart = _distance(lat[node], lon[node], lat[other], lon[other], radius)
      if apart <= reach:
        if fill:
          nodes[offsets[node] + count] = other
        count += 1
      j += 1
    if fill:
      nodes[offsets[node] : offsets[node + 1]].sort()
    else:
      offsets[node + 1] = count


def _within(
  lat: np.ndarray, lon: np.ndarray, reach: float, radius: float
) -> tuple[np.ndarray, np.ndarray]:
  """Offsets and nodes, in two sweeps: the first counts, the second fills."""
  order = np.argsort(lat, kind='stable')
  offsets = np.zeros(len(lat) + 1, np.int64)
  _sweep(lat, lon, order, reach, radius, offsets, np.empty(0, np.int32))
  offsets = np.cumsum(offsets)
  nodes = np.empty(offsets[-1], np.int32)
  if len(nodes):
    _sweep(lat, lon, order, reach, radius, offsets, nodes)
  return offsets, nodes


@njit
def _side(x, y, a, b, c) -> float:
  """Signed area: above 0 where c is to the left of the line from a to b."""
  return (x[b] - x[a]) * (y[c] - y[a]) - (y[b] - y[a]) * (x[c] - x[a])
