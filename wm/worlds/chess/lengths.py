"""How many plies games of people have, to cut random games by."""

from __future__ import annotations

import numpy as np

from wm import core

# Twentieths of the lengths of 13,050 games of at least 20 plies: 9,951 by
# masters (GNU Chess book 1.02), 3,099 rated ones of Lichess; mean 77.
HUMAN = (
  *(20, 32, 39, 45, 49, 54, 59, 62, 66, 70, 74),
  *(78, 81, 84, 89, 95, 102, 110, 120, 134, 327),
)

_SALT = 0x1E47  # Apart from what the games themselves are drawn by.


def human_lengths(seed: int, numbers: np.ndarray) -> np.ndarray:
  """[N] int32 plies, drawn for games by number: the same for each number."""
  share = core.uniforms(seed, numbers, _SALT)
  steps = np.arange(len(HUMAN)) / (len(HUMAN) - 1)
  return np.interp(share, steps, HUMAN).astype(np.int32)
