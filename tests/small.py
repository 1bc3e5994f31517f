"""Small scores for tests: rows as dictionaries, constants of metrics."""

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

import pytest

import wm

CONSTANTS = {
  'audit': {'QUESTIONS': 12, 'SEQUENCES': 12},
  'automaton': {'MOST': 50, 'QUERIES': 200, 'WALKS': 12},
  'belief': {'HELDOUT': 12},
  'force_law': {'NODES': 3, 'SYSTEMS': 12},
  'inductive_bias': {'POINTS': 12},
  'relearn': {'HELDOUT': 12},
  'transfer': {'MORE': 12},
}


@contextlib.contextmanager
def constants() -> Iterator[None]:
  """All of CONSTANTS, in this process."""
  with pytest.MonkeyPatch.context() as patch:
    for name, values in CONSTANTS.items():
      module = importlib.import_module(f'wm.metrics.{name}')
      for constant, value in values.items():
        patch.setattr(module, constant, value)
    yield


def scored(*args: Any, **keywords: Any) -> list[dict[str, Any]]:
  """The rows of `wm.score`; NaN where nothing was measured."""
  return wm.score(*args, **keywords).to_dict('records')
