"""Replies about forces as numbers, their scores, and baselines.

A model that repeats one number has a small error where forces hardly change:
each score stands beside those of baselines, which know the places and the told
forces of the published prompt (`newton_true` also the sun's place), and the
number of different answers is given.
"""

from __future__ import annotations

import math
import pathlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy

from wm.core import schema
from wm.language.answers import values
from wm.language.answers.replies import lex
from wm.language.papers.forces.questions import System

# A force beyond this is a slip of the pen; squares of it still have values.
LARGEST = 1e100
DIGITS = 9  # Of a step that is written as text.


class ForceReply(NamedTuple):
  """The forces of a reply at T steps.

  Attributes:
    force: [T] float64; NaN where the reply has none.
    failure: '', or why something or all is missing: a key of
      `replies.FAILURES`, or 'incomplete', steps without a number.
    reasoning: characters of reasoning, which were not read.
    strange: keys that are no step, and values that are no number.
  """

  force: np.ndarray
  failure: str = ''
  reasoning: int = 0
  strange: int = 0


def read(reply: str, steps: int) -> ForceReply:
  """Reads the last numbers by step, see `values.numbers`."""
  reading = values.numbers(reply, steps)
  reply_forces = of_dict(reading.value or {}, steps)
  failure = reading.failure or reply_forces.failure
  return reply_forces._replace(failure=failure, reasoning=reading.reasoning)


def of_dict(values: Mapping[Any, Any], steps: int) -> ForceReply:
  """Step -> force, with steps as integers or as text; later ones count."""
  force, strange = np.full(steps, np.nan), 0
  for key, value in values.items():
    step, number = _step(key), _number(value)
    if step is None or not 0 <= step < steps or number is None:
      strange += 1
    else:
      force[step] = number
  failure = 'incomplete' if np.isnan(force).any() else ''
  return ForceReply(force, failure, 0, strange)


def _step(key: Any) -> int | None:
  if isinstance(key, str):
    key = key.strip()
    plain = key.isascii() and key.isdecimal() and len(key) <= DIGITS
    return int(key) if plain else None
  return key if isinstance(key, int) and not isinstance(key, bool) else None


def _number(value: Any) -> float | None:
  if isinstance(value, str) and lex.number.fullmatch(value.strip()):
    value = float(value)
  if isinstance(value, bool) or not isinstance(value, int | float):
    return None
  # Whole numbers may be larger than any float.
  good = abs(value) <= LARGEST and math.isfinite(value)
  return float(value) if good else None


def load_answer(path: pathlib.Path, steps: int) -> ForceReply:
  """A recorded answer: a JSON object, step -> force.

  Raises:
    InputError: the file is missing, or holds something else.
  """
  return of_dict(schema.read(path, dict), steps)


COPIED = 1e-6  # Relative difference of a number that was copied.


def scores(force: np.ndarray, system: System) -> dict[str, float]:
  """Scores of forces [T], whose words are in report.toml.

  NaN where nothing is said, or nothing to score: a constant has no correlation.
  """
  finite, is_told = np.isfinite(force), system.known
  truth = system.force
  off = np.abs(force - truth) / truth

  def mean(values: np.ndarray, rows: np.ndarray) -> float:
    return float(values[rows].mean()) if rows.any() else np.nan

  return {
    'error': mean(off, finite),
    'error_unknown': mean(off, finite & ~is_told),
    'r': correlation(force[finite], truth[finite]),
    'r_unknown': correlation(
      force[finite & ~is_told], truth[finite & ~is_told]
    ),
    'r_time': correlation(force[finite], np.flatnonzero(finite).astype(float)),
    'distinct': float(len(np.unique(force[finite]))),
    'answered': float(finite.mean()),
    'copied': mean(off <= COPIED, is_told),
    'positive': mean(force > 0, finite),
  }


def correlation(first: np.ndarray, second: np.ndarray) -> float:
  """Pearson's; NaN where either is constant."""
  if len(first) < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
    return np.nan
  # Forces of 1e-300 would have no squares.
  first, second = first / np.abs(first).max(), second / np.abs(second).max()
  first, second = first - first.mean(), second - second.mean()
  total = np.sqrt((first @ first) * (second @ second))
  return float(first @ second / total) if total > 0 else np.nan


SOLVED = 1e-14  # Relative tolerance of the fit.


def constant(system: System) -> np.ndarray:
  """[T] the median of the told forces."""
  force_told = system.force[system.told_steps]
  return np.full(len(system.force), np.median(force_told))


def mean_force(system: System) -> np.ndarray:
  """[T] the mean of the told forces."""
  return np.full(len(system.force), system.force[system.told_steps].mean())


def interpolation(system: System) -> np.ndarray:
  """[T] straight between told steps, level before the first and after the last.

  Steps are the numbers of the rows that are shown.
  """
  at = np.arange(len(system.force))
  return np.interp(at, system.told_steps, system.force[system.told_steps])


def line_in_time(system: System) -> np.ndarray:
  """[T] a straight line in time, fitted to the told forces."""
  at, steps_told = np.arange(len(system.force)), system.told_steps
  away = steps_told - steps_told.mean()
  total = float(away @ away)
  force = system.force[steps_told]
  slope = away @ force / total if total else 0.0
  return force.mean() + slope * (at - steps_told.mean())


def newton_at(system: System, sun: np.ndarray) -> np.ndarray:
  """[T] c / r^2 with the mean c of the told forces, for a sun [2]."""
  square = ((system.places - sun) ** 2).sum(1)
  factor = (system.force * square)[system.told_steps].mean()
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
  if len(system.told_steps) < 3:
    return newton_origin(system)
  places = system.places[system.told_steps]
  aim = np.log(system.force[system.told_steps])
  size = np.sqrt((places**2).sum(1).mean())

  def square(sun: np.ndarray) -> np.ndarray:
    return np.log(((places - sun) ** 2).sum(1))

  def rest(sun: np.ndarray) -> np.ndarray:
    solution = aim + square(sun * size)
    return solution - solution.mean()

  solution = scipy.optimize.least_squares(
    rest, np.zeros(2), xtol=SOLVED, ftol=SOLVED, gtol=SOLVED
  )
  sun = solution.x * size
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
  if not len(system.told_steps):
    return np.full(len(system.force), np.nan)
  return BASELINES[name](system)
