"""Errors and correlations of what is said of forces, on T steps of a system.

A model that repeats one number has a small error where forces hardly change;
so each score has those of `baselines` beside it, and says how many different
numbers there are.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from wm.language.forces.systems import System

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
