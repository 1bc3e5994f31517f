"""States of one word that is their one label."""

from __future__ import annotations

import numpy as np

from wm import core


class OneLabel(core.Labelled):
  """A world whose states are rows of a table, which its one label names."""

  def edited(
    self, states: np.ndarray, label: np.ndarray, value: np.ndarray
  ) -> np.ndarray:
    """See core.Labelled.edited: any state becomes any other."""
    known = (label == 0) & (value >= 0) & (value < self.heads.sizes[0])
    known &= states[:, 0] >= 0
    return np.where(known, value, core.DEAD).astype(np.int32)[:, None]

  def from_labels(self, labels: np.ndarray) -> np.ndarray:
    """See core.Labelled.from_labels: a row of the table, or none."""
    known = labels < self.heads.sizes[0]
    return np.where(known, labels, core.DEAD).astype(np.int32)
