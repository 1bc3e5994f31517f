"""Parameters of which most are for long runs."""

from collections.abc import Iterable
from typing import Any

import pytest


def few(num: int, values: Iterable[Any]) -> list[Any]:
  """Parameters; those after the first `num` have the mark `slow`."""
  return [
    value if place < num else _slow(value) for place, value in enumerate(values)
  ]


def _slow(value: Any) -> Any:
  if hasattr(value, 'marks'):  # It is a parameter already.
    marks = *value.marks, pytest.mark.slow
    return pytest.param(*value.values, marks=marks, id=value.id)
  values = value if isinstance(value, tuple) else (value,)
  return pytest.param(*values, marks=pytest.mark.slow)
