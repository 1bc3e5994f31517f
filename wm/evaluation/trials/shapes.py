"""Trees of arrays in few shapes, so that few programs are compiled for them."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np


def power(size: int) -> int:
  """The least power of two that is not below a size."""
  return 1 << max(size - 1, 0).bit_length()


def taken(tree: Any, rows: np.ndarray | slice) -> Any:
  """Rows of the arrays of a tree."""
  return jax.tree.map(lambda leaf: np.asarray(leaf)[rows], tree)


def padded(tree: Any, rows: int) -> Any:
  """Arrays of a tree [N, ...] with copies of their first row, [rows, ...].

  Copies, as zeros may be no state, prefix or budget that a program takes.
  """
  num = len(jax.tree.leaves(tree)[0])
  return taken(tree, np.where(np.arange(rows) < num, np.arange(rows), 0))
