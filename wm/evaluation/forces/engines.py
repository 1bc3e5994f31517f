"""Engines that seek formulas, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from wm import core
from wm.evaluation.forces import formulas, operon

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
  """Raises InputError where an engine is missing, or seeks none so small."""
  if name != 'operon':
    return
  operon.engine()
  if size < operon.LEAST:
    raise core.InputError(
      f"engine='operon' was given nodes={size}; expected at least "
      f'{operon.LEAST}, or 0 for no search'
    )
