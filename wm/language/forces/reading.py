"""Replies about forces as numbers: text is data, and nothing runs it."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from wm import core
from wm.language import replies

# A force beyond this is a slip of the pen; squares of it still have values.
LARGEST = 1e100
DIGITS = 9  # Of a step that is written as text.


class Said(NamedTuple):
  """What a reply says of T steps.

  Attributes:
    force: [T] float64; NaN where nothing is said.
    failure: '', or why something or all is missing: a key of
      `replies.FAILURES`, or 'incomplete', steps without a number.
    reasoning: characters of reasoning, which were not read.
    strange: keys that are no step, and values that are no number.
  """

  force: np.ndarray
  failure: str = ''
  reasoning: int = 0
  strange: int = 0


def read(reply: str, steps: int) -> Said:
  """Reads the dict behind the last `ANSWER:`, or else the first dict."""
  none = np.full(steps, np.nan)
  seen = replies.visible(reply)
  if seen.failure:
    return Said(none, seen.failure, seen.reasoning)
  answer = replies.after_answer(seen.value)
  text = seen.value if answer.failure else answer.value
  found = replies.first_value(text, opening='{')
  if not isinstance(found.value, dict):
    return Said(none, found.failure or 'nothing', seen.reasoning)
  said = of_dict(found.value, steps)
  return said._replace(
    failure=found.failure or said.failure, reasoning=seen.reasoning
  )


def of_dict(values: Mapping[Any, Any], steps: int) -> Said:
  """Step -> force, with steps as integers or as text; later ones count."""
  force, strange = np.full(steps, np.nan), 0
  for key, value in values.items():
    step, number = _step(key), _number(value)
    if step is None or not 0 <= step < steps or number is None:
      strange += 1
    else:
      force[step] = number
  failure = 'incomplete' if np.isnan(force).any() else ''
  return Said(force, failure, 0, strange)


def _step(key: Any) -> int | None:
  if isinstance(key, str):
    key = key.strip()
    plain = key.isascii() and key.isdecimal() and len(key) <= DIGITS
    return int(key) if plain else None
  return key if isinstance(key, int) and not isinstance(key, bool) else None


def _number(value: Any) -> float | None:
  if isinstance(value, bool) or not isinstance(value, int | float):
    return None
  # Whole numbers may be larger than any float.
  good = abs(value) <= LARGEST and math.isfinite(value)
  return float(value) if good else None


def load(path: pathlib.Path, steps: int) -> Said:
  """A recorded answer: a JSON object, step -> force.

  Raises:
    InputError: the file is missing, or holds something else.
  """
  found = core.read_json(path)
  if not isinstance(found, dict):
    raise core.InputError(
      f'{path}: {type(found).__name__}; expected an object, step to force'
    )
  return of_dict(found, steps)
