"""A generated city in the manner of Manhattan, for work without downloads.

      o===o===o===o===o     rim and every fourth street: two-way
      |   v   ^ / v   |     other streets and avenues: one-way, alternating
      o-<-o-<-o-<-o-<-o     one diagonal avenue, two-way
      |   v / ^   v   |     culs-de-sac, and streets that leave or enter the
      o===o===o===o===o     map and never come back

The whole is turned by 29 degrees and gently bent, so that labels vary.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from wm import core
from wm.worlds.maps import streets

TURN = math.radians(29)  # Manhattan's avenues, clockwise from north.
BLOCK_M = (110.0, 190.0)  # Metres between streets, and between avenues.
CENTRE = (40.75, -73.98)  # Degrees.
MOST = 1_000_000  # Crossings; a street graph of this size fits in memory.


def generate(rows: int, columns: int, seed: int) -> streets.StreetGraph:
  """A city of rows x columns crossings, and a few dead ends besides.

  Nodes are numbered from 1, crossings first, by row. Nearly all of them are
  strongly connected. Lengths are great-circle distances in metres.

  Raises:
    InputError: fewer than 2 rows or columns, or more than MOST crossings.
  """
  if rows < 2 or columns < 2 or rows * columns > MOST:
    raise core.InputError(
      f'a city of {rows} x {columns} crossings; expected at least 2 x 2 and at '
      f'most {MOST:,} in all'
    )
  rng = np.random.default_rng([seed, rows, columns])
  pairs = _grid(rows, columns, rng) + _diagonal(rows, columns, rng)
  north_east = _places(rows, columns, rng)
  spurs, places = _spurs(rows, columns, north_east, rng)
  lat, lon = _degrees(np.concatenate([north_east.reshape(-1, 2), places]))
  sources, targets = np.array(pairs + spurs).T
  edges, lengths = (sources, None, targets), np.full(len(sources), np.nan)
  ids, where = np.arange(1, len(lat) + 1), f'city of {rows} x {columns}'
  return streets.build(ids, lat, lon, edges, lengths, where)


def _grid(
  rows: int, columns: int, rng: np.random.Generator
) -> list[tuple[int, int]]:
  """Edges of streets and avenues; alternate ones run the same way."""
  flip_street, flip_avenue = rng.integers(2, size=2)
  pairs = []
  for r in range(rows):
    line = [r * columns + c for c in range(columns)]
    pairs += _line(line, r, rows, r % 2 == flip_street)
  for c in range(columns):
    line = [r * columns + c for r in range(rows)]
    pairs += _line(line, c, columns, c % 2 == flip_avenue)
  return pairs


def _line(
  line: list[int], index: int, count: int, forward: bool
) -> list[tuple[int, int]]:
  steps = list(itertools.pairwise(line))
  back = [(v, u) for u, v in steps]
  if index in (0, count - 1) or index % 4 == 0:
    return steps + back
  return steps if forward else back


def _diagonal(
  rows: int, columns: int, rng: np.random.Generator
) -> list[tuple[int, int]]:
  """A two-way avenue across the blocks, from one rim to another."""
  start = int(rng.integers(0, max(columns - rows, 0) + 1))
  line = [r * columns + start + r for r in range(rows) if start + r < columns]
  steps = list(itertools.pairwise(line))
  return steps + [(v, u) for u, v in steps]


def _places(rows: int, columns: int, rng: np.random.Generator) -> np.ndarray:
  """[rows, columns, 2] metres along the avenues and across them, bent."""
  along, across = np.meshgrid(
    np.arange(rows) * BLOCK_M[0], np.arange(columns) * BLOCK_M[1], indexing='ij'
  )
  places = np.stack([along, across], axis=-1)
  # Slopes below one keep the bent grid from folding over itself.
  for axis, wave_m in ((0, 1900.0), (1, 1300.0)):
    phase = rng.uniform(0, 2 * math.pi)
    bend = np.sin(2 * math.pi * places[..., 1 - axis] / wave_m + phase)
    places[..., axis] += 0.35 * wave_m / (2 * math.pi) * bend
  return places + rng.normal(0, 6.0, places.shape)


def _spurs(
  rows: int, columns: int, places: np.ndarray, rng: np.random.Generator
) -> tuple[list[tuple[int, int]], np.ndarray]:
  """Culs-de-sac (two-way), exits and entries (one-way) at the rim."""
  # Few exits: a long random walk that can end in one will.
  kinds = ('cul', 'cul', 'cul', 'exit', 'cul', 'cul', 'cul', 'entry')
  count = max(rows * columns // 24, 2)
  rim = [(r, c) for r in (0, rows - 1) for c in range(columns)]
  rim += [(r, c) for r in range(1, rows - 1) for c in (0, columns - 1)]
  chosen = rng.permutation(len(rim))[:count]
  middle = places.reshape(-1, 2).mean(0)
  pairs, spots = [], []
  for number, index in enumerate(chosen):
    r, c = rim[index]
    away = places[r, c] - middle
    spots.append(places[r, c] + 90.0 * away / np.linalg.norm(away))
    node, crossing = rows * columns + number, r * columns + c
    if kinds[number % len(kinds)] != 'entry':
      pairs.append((crossing, node))
    if kinds[number % len(kinds)] != 'exit':
      pairs.append((node, crossing))
  return pairs, np.array(spots)


def _degrees(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Latitudes and longitudes of places in metres along and across."""
  along, across = (places - places.mean(0)).T
  north = along * math.cos(TURN) - across * math.sin(TURN)
  east = along * math.sin(TURN) + across * math.cos(TURN)
  lat = CENTRE[0] + np.degrees(north / streets.EARTH_M)
  scale = streets.EARTH_M * math.cos(math.radians(CENTRE[0]))
  return lat, CENTRE[1] + np.degrees(east / scale)
