"""What the tests of scans share."""

import jax
import numpy as np
import pytest


def around(chunk: int, *longer: int) -> pytest.MarkDecorator:
  """Parametrizes (length, dtype): one, chunks short and long by one, `longer`.

  Every length is tried in float64, which shows the smallest slip, and one in
  float32. A long one is in float32, and in both where there is time.
  """
  lengths = 1, chunk - 1, chunk, chunk + 1
  given = [(length, 'float64') for length in lengths]
  given += [(length, 'float32') for length in (chunk + 1, *longer)]
  slow = [
    pytest.param(length, 'float64', marks=pytest.mark.slow) for length in longer
  ]
  return pytest.mark.parametrize(('length', 'dtype'), [*given, *slow])


def close(found, wanted, tolerance: float) -> None:
  """Within a share of the largest number of each leaf."""
  for one, other in zip(
    jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True
  ):
    other = np.asarray(other)
    scale = max(float(np.abs(other).max()), 1e-6)
    np.testing.assert_allclose(one, other, atol=tolerance * scale, rtol=0)
