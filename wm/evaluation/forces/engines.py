"""Engines that seek formulas, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

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


def check(name: str) -> None:
  """Raises InputError where an engine is not installed."""
  if name == 'operon':
    operon.engine()
