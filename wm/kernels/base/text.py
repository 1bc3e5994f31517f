"""Tables of bytes, for kernels that read text."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


def byte_table(values: Mapping[str, int]) -> np.ndarray:
  """[256] uint8: the value of each byte, by the letters it is among; else 0."""
  table = np.zeros(256, np.uint8)
  for letters, value in values.items():
    table[[ord(letter) for letter in letters]] = value
  return table
