"""Sizes that are constants of metrics, made small for tests."""

import contextlib
import importlib
from collections.abc import Iterator

import pytest

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
