"""What the tests of scans share."""

import jax
import numpy as np


def close(found, wanted, tolerance: float) -> None:
  """Within a share of the largest number of each leaf."""
  for one, other in zip(
    jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True
  ):
    other = np.asarray(other)
    scale = max(float(np.abs(other).max()), 1e-6)
    np.testing.assert_allclose(one, other, atol=tolerance * scale, rtol=0)
