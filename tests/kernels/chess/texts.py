"""Texts of many games, as the kernels of notation take them."""

import numpy as np


def joined(texts):
  """One text of many, and where each starts, [N + 1] int64 bytes."""
  parts = [text.encode('utf-8', 'replace') for text in texts]
  return b''.join(parts), np.cumsum([0, *map(len, parts)])
