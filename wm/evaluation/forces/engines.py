"""Engines that seek formulas, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from wm import core
from wm.evaluation.forces import formulas, operon
from wm.kernels import symbolic

# Of columns, targets, size and loss; see `formulas.exhaustive`.
Search = Callable[
  [Mapping[str, np.ndarray], np.ndarray, int, str],
  list[list[formulas.Formula]],
]
ENGINES: dict[str, Search] = {
  'exhaustive': formulas.exhaustive,
  'operon': operon.search,
}


def check(name: str, size: int) -> None:
  """Raises InputError where an engine is missing, or seeks none so large."""
  least, most = 1, symbolic.LARGEST
  if name == 'operon':
    operon.engine()
    least, most = operon.LEAST, operon.MOST
  if not least <= size <= most:
    raise core.InputError(
      f'engine={name!r} was given nodes={size}; expected {least} to {most}, or '
      '0 for no search'
    )
