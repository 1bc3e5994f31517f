"""What rows of two bodies say of the next ones, by an orbit through them."""

from __future__ import annotations

import numpy as np

from wm.kernels import orbits

# A fit also serves the rows that follow, up to one in so many of those it has.
SERVES = 50


def through(
  seen: np.ndarray, known: np.ndarray, step: np.ndarray, width: float
) -> orbits.Fits:
  """Orbits through the first rows of systems of two bodies.

  Args:
    seen: [N, R, 2] float64 centres of bins, AU: planet, sun, planet, ...
    known: [N] rows that are read, at least 2 * orbits.FEWEST.
    step: [N] years from frame to frame.
    width: of a bin, AU.
  """
  rows = int(known.max(initial=0))
  rows += rows % 2
  there = np.arange(rows)[:, None] < known[:, None, None]
  some = np.full((len(seen), rows, 2), np.nan)
  size = min(rows, seen.shape[1])
  some[:, :size] = seen[:, :size]
  some = np.where(there, some, np.nan)
  return orbits.fit(some[:, ::2], some[:, 1::2], step, width)


def ahead(
  seen: np.ndarray,
  step: np.ndarray,
  width: float,
  prefix: int | None = None,
) -> np.ndarray:
  """[N, R, 2] where bodies will be, by an orbit through the rows before each.

  seen, step, width: as of `through`. prefix: rows that are read, at most. NaN
  where fewer than orbits.FEWEST frames are, or no orbit goes through them.
  """
  num, rows = seen.shape[:2]
  found = np.full(seen.shape, np.nan)
  row = 2 * orbits.FEWEST
  most = rows if prefix is None else prefix
  while row < rows and most >= 2 * orbits.FEWEST:
    known = min(row, most)
    last = rows if known == most else min(row + 1 + row // SERVES, rows)
    fit = through(seen, np.full(num, known), step, width)
    place = fit.bodies((last + 1) // 2).reshape(num, -1, 2)[:, row:last]
    found[:, row:last] = np.where(fit.good[:, None, None], place, np.nan)
    row = last
  return found
