"""Replies about forces as numbers, their scores, and baselines."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize

from wm import core
from wm.models.serving import replies
from wm.papers.forces.questions import System

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


def load_answer(path: pathlib.Path, steps: int) -> Said:
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


# Name -> what it is, for heads of tables.
SCORES = {
  'error': 'mean absolute error, over the true force',
  'error_unknown': 'the same at steps that were not told',
  'r': "Pearson's correlation with the true force",
  'r_unknown': 'the same at steps that were not told',
  'r_time': 'correlation of what is said with time: 1 or -1 is a straight line',
  'distinct': 'different numbers',
  'answered': 'share of steps with a number',
  'copied': 'share of told forces that are given back as they are',
  'positive': 'share of numbers above 0',
}
COPIED = 1e-6  # Relative difference of a number that was copied.


def scores(said: np.ndarray, system: System) -> dict[str, float]:
  """SCORES of forces [T]; NaN where nothing is said, or nothing to score.

  A constant has no correlation: NaN.
  """
  there, known = np.isfinite(said), system.known
  truth = system.force
  off = np.abs(said - truth) / truth

  def mean(values: np.ndarray, rows: np.ndarray) -> float:
    return float(values[rows].mean()) if rows.any() else np.nan

  return {
    'error': mean(off, there),
    'error_unknown': mean(off, there & ~known),
    'r': correlation(said[there], truth[there]),
    'r_unknown': correlation(said[there & ~known], truth[there & ~known]),
    'r_time': correlation(said[there], np.flatnonzero(there).astype(float)),
    'distinct': float(len(np.unique(said[there]))),
    'answered': float(there.mean()),
    'copied': mean(off <= COPIED, known),
    'positive': mean(said > 0, there),
  }


def correlation(one: np.ndarray, two: np.ndarray) -> float:
  """Pearson's; NaN where either is constant."""
  if len(one) < 2 or np.ptp(one) == 0 or np.ptp(two) == 0:
    return np.nan
  # Forces of 1e-300 would have no squares.
  one, two = one / np.abs(one).max(), two / np.abs(two).max()
  one, two = one - one.mean(), two - two.mean()
  total = np.sqrt((one @ one) * (two @ two))
  return float(one @ two / total) if total > 0 else np.nan


def beside(
  system: System, speakers: Mapping[str, np.ndarray]
) -> dict[str, dict[str, float]]:
  """Speaker -> `scores` of a system."""
  return {name: scores(said, system) for name, said in speakers.items()}


SOLVED = 1e-14  # Relative tolerance of the fit.


def constant(system: System) -> np.ndarray:
  """[T] the median of the told forces."""
  told = system.force[system.told]
  return np.full(len(system.force), np.median(told))


def mean_force(system: System) -> np.ndarray:
  """[T] the mean of the told forces."""
  return np.full(len(system.force), system.force[system.told].mean())


def interpolation(system: System) -> np.ndarray:
  """[T] straight between told steps, level before the first and after the last.

  Steps are the numbers of the rows that are shown.
  """
  at = np.arange(len(system.force))
  return np.interp(at, system.told, system.force[system.told])


def line_in_time(system: System) -> np.ndarray:
  """[T] a straight line in time, fitted to the told forces."""
  at, told = np.arange(len(system.force)), system.told
  away = told - told.mean()
  total = float(away @ away)
  force = system.force[told]
  slope = away @ force / total if total else 0.0
  return force.mean() + slope * (at - told.mean())


def newton_at(system: System, sun: np.ndarray) -> np.ndarray:
  """[T] c / r^2 with the mean c of the told forces, for a sun [2]."""
  square = ((system.places - sun) ** 2).sum(1)
  factor = (system.force * square)[system.told].mean()
  return factor / square


def newton_origin(system: System) -> np.ndarray:
  """[T] Newton's law with the sun at the origin, as the prompt has it."""
  return newton_at(system, np.zeros(2))


def newton_true(system: System) -> np.ndarray:
  """[T] Newton's law with the sun where it is."""
  return newton_at(system, system.sun)


def newton_fitted(system: System) -> np.ndarray:
  """[T] Newton's law; the sun and the factor are fitted to the told forces.

  Least squares of logarithms; steps begin at the origin. With fewer than three
  told forces the sun is left there.
  """
  if len(system.told) < 3:
    return newton_origin(system)
  places = system.places[system.told]
  aim = np.log(system.force[system.told])
  size = np.sqrt((places**2).sum(1).mean())

  def square(sun: np.ndarray) -> np.ndarray:
    return np.log(((places - sun) ** 2).sum(1))

  def rest(sun: np.ndarray) -> np.ndarray:
    found = aim + square(sun * size)
    return found - found.mean()

  found = optimize.least_squares(
    rest, np.zeros(2), xtol=SOLVED, ftol=SOLVED, gtol=SOLVED
  )
  sun = found.x * size
  factor = np.exp((aim + square(sun)).mean())
  return factor / ((system.places - sun) ** 2).sum(1)


BASELINES: dict[str, Callable[[System], np.ndarray]] = {
  'constant': constant,
  'mean': mean_force,
  'interpolation': interpolation,
  'line': line_in_time,
  'newton_origin': newton_origin,
  'newton_fitted': newton_fitted,
  'newton_true': newton_true,
}


def baseline(name: str, system: System) -> np.ndarray:
  """[T] what a baseline says; NaN of a system of which no force is told."""
  if not len(system.told):
    return np.full(len(system.force), np.nan)
  return BASELINES[name](system)
