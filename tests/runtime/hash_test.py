"""Hashes of arrays and of other things."""

import numpy as np

from wm.core import adapting
from wm.runtime import files


def test_hashes_tell_types_shapes_and_values_apart():
  zero = np.zeros((2, 3), np.int32)
  things = [
    [zero],
    [zero.T],
    [zero.astype(np.float32)],
    [zero + 1],
    [zero, zero],
    ['a', 'b'],
    ['ab'],
    [adapting.Classes(2)],
    [adapting.Real(2)],
  ]
  assert len({files.hash_of(sample) for sample in things}) == len(things)
