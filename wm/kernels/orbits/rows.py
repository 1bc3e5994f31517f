"""What rows of two bodies say of the next ones: planet, sun, planet, ..."""

from __future__ import annotations

import itertools

import numpy as np

from wm.kernels.orbits import fits

FIRST = 2 * fits.FEWEST  # Rows that an orbit is fitted to, at least.
# A fit also serves the rows that follow, up to one in so many of those it has.
SERVES = 50


def through(
  seen: np.ndarray, known: np.ndarray, step: np.ndarray, width: float
) -> fits.Fits:
  """Orbits through the first rows of systems of two bodies.

  Args:
    seen: [N, R, 2] float64 centres of bins, AU.
    known: [N] rows that are read, at least FIRST.
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
  return fits.fit(some[:, ::2], some[:, 1::2], step, width)


def turns(rows: int) -> np.ndarray:
  """Numbers of rows after which an orbit is fitted anew, up to `rows`."""
  found = []
  row = FIRST
  while row <= rows:
    found.append(row)
    row += 1 + row // SERVES
  return np.array(found, np.int64)


def ahead(
  seen: np.ndarray,
  step: np.ndarray,
  width: float,
  prefix: int | None = None,
) -> np.ndarray:
  """[N, R, 2] where bodies will be, by an orbit through the rows before each.

  seen, step, width: as of `through`. prefix: rows that are read, at most. NaN
  where fewer than FIRST are, or no orbit goes through them.
  """
  num, rows = seen.shape[:2]
  found = np.full(seen.shape, np.nan)
  most = rows - 1 if prefix is None else min(prefix, rows - 1)
  starts = turns(most)
  if prefix == most and len(starts) and starts[-1] < most:
    starts = np.append(starts, most)
  for start, end in itertools.pairwise([*starts, rows]):
    fit = through(seen, np.full(num, start), step, width)
    next_ = np.broadcast_to(np.arange(start, end), (num, end - start))
    place, _ = fit.at(next_)
    found[:, start:end] = np.where(fit.good[:, None, None], place, np.nan)
  return found
