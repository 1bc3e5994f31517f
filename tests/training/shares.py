"""How much of a model each device of a mesh holds."""

from collections.abc import Mapping

import numpy as np

from wm.models.nn import network
from wm.training.state import Shapes


def memory(
  abstract: Shapes, mesh: Mapping[str, int], copies: int = 1
) -> tuple[int, float]:
  """Bytes of parameters on a device of a mesh, and bytes of an equal share.

  copies: arrays for each parameter, such as moments.
  """
  axes, local, total = network.storage_axes(mesh), 0, 0
  for path, leaf in abstract.items():
    size = leaf.dtype.itemsize * copies
    local += size * network.division(path, leaf.shape, axes)[1]
    total += size * int(np.prod(leaf.shape))
  return local, total / int(np.prod([*axes.values()]))
