"""What the published program enumerates when it looks for a boundary."""

from __future__ import annotations

import numpy as np

from wm import core
from wm.kernels.base import checks


def enumeration(
  delta: np.ndarray,
  turns: np.ndarray | None,
  known: np.ndarray | None,
  depth: int,
) -> tuple[np.ndarray, np.ndarray]:
  """Labels followed and rows that go on (Vafa et al. 2024, public code).

  A row is left at the first label, in its own order, that leads to a row
  without an entry, so the labels after it are lost; the end label, which
  leads to no row, comes last and is always lost.

  Args:
    delta: [S, A] int32.
    turns: [S, A] label order of each row, DEAD padded; default ascending.
    known: [S] bool, rows with an entry; default those with a legal label.
    depth: labels of a continuation.

  Returns:
    allowed: [S, A] bool, labels it takes from each row.
    alive: [S, depth + 1] bool, it finds a continuation of that length.
  """
  rows, labels = delta.shape
  if turns is None:
    order = np.broadcast_to(np.arange(labels), delta.shape)
    turns = np.where(delta >= 0, order, core.DEAD)
  turns = np.asarray(turns)
  if known is None:
    known = (delta >= 0).any(1)
  known = np.append(np.asarray(known, bool), False)
  allowed = np.zeros(delta.shape, bool)
  running = np.ones(rows, bool)
  every = np.arange(rows)
  for column in turns.T:
    here = column >= 0
    running &= ~here | known[delta[every, column]]
    allowed[every[here & running], column[here & running]] = True
  alive = np.ones((rows, depth + 1), bool)
  for left in range(1, depth + 1):
    alive[:, left] = (allowed & alive[delta, left - 1]).any(1)
  return checks.frozen(allowed, bool), checks.frozen(alive, bool)
