"""Equal rows of states, found by their bytes."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from wm.core.basics import distinct


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 12), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_rows_are_those_of_numpy_whatever_their_order(rows, width, seed):
  sample = np.random.default_rng(seed).integers(-1, 2, (rows, width), np.int32)
  first, place = distinct(sample[:, ::-1])
  np.testing.assert_array_equal(sample[:, ::-1][first][place], sample[:, ::-1])
  assert len(first) == len(np.unique(sample, axis=0))
