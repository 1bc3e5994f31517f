"""Which law the said forces follow: exponents and formulas.

Masses are constant in a system, and so, nearly, is the force: over few systems
a law sees little more than which system it is. Whoever repeats the mean of the
told forces in each system follows Newton's law over systems of different masses
and distances. What a speaker knows of the distance shows within systems:
`within` compares steps of one system alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from wm import core
from wm.evaluation.fewshot import force_laws, formulas
from wm.kernels import symbolic
from wm.language.forces import scoring
from wm.language.forces.systems import System

# Share of numbers that are above 0, as `force_law` has it.
POSITIVE = force_laws.POSITIVE
ROWS = force_laws.MOST
TOLERANCE = 0.05
LOSSES = symbolic.LOSSES  # Squares of logarithms, or of forces as they are.


class Law(NamedTuple):
  """What one speaker's forces say.

  Attributes:
    reason: '' where there is a law over all systems, else why not, as of
      `force_law`: not_positive, constant, undetermined.
    exponents: of r, m1 and m2 over all systems; empty where there is a reason.
    intervals: 95 % ones, clustered by system.
    formulas: loss, of LOSSES -> the best formula of a search; none where none
      was sought or found.
    newton: losses whose formula is Newton's law, up to its factor.
    within: name of a system -> exponent of r in it alone, and the share of the
      logarithm's variance in it that a power of r explains; NaN where what is
      said is constant or not positive.
    judged: 'newton' or 'other' by the test of `force_law`, or why it does not
      judge.
  """

  reason: str
  exponents: dict[str, float]
  intervals: dict[str, tuple[float, float]]
  formulas: dict[str, str]
  newton: tuple[str, ...]
  within: dict[str, tuple[float, float]]
  judged: str


class _Rows(NamedTuple):
  """All steps of all systems, one behind the other."""

  columns: dict[str, np.ndarray]
  truth: np.ndarray
  group: np.ndarray


def _rows(systems: Sequence[System]) -> _Rows:
  sizes = [len(one.force) for one in systems]
  columns = {
    'r': np.concatenate([one.distance for one in systems]),
    'm1': np.repeat([one.planet for one in systems], sizes),
    'm2': np.repeat([one.star for one in systems], sizes),
  }
  truth = np.concatenate([one.force for one in systems])
  return _Rows(columns, truth, np.repeat(np.arange(len(sizes)), sizes))


def laws(
  systems: Sequence[System],
  speakers: Mapping[str, Sequence[np.ndarray]],
  nodes: int = 0,
  losses: Sequence[str] = LOSSES,
) -> dict[str, Law]:
  """Speaker -> the law of what it says.

  Args:
    systems: S of them.
    speakers: name -> S arrays [T]; NaN where nothing is said.
    nodes: size of the largest formulas; 0 is no search. Newton's law has 8.
    losses: of which formulas are sought, of LOSSES.
  """
  rows = _rows(systems)
  found = {
    name: _law(systems, rows, [np.asarray(one) for one in said])
    for name, said in speakers.items()
  }
  every = {name: np.concatenate(said) for name, said in speakers.items()}
  for loss in losses if nodes else ():
    for name, (formula, right) in _searched(rows, every, nodes, loss).items():
      law = found[name]
      law.formulas[loss] = formula
      found[name] = law._replace(newton=(*law.newton, *([loss] * right)))
  return found


def _law(systems: Sequence[System], rows: _Rows, said: list[np.ndarray]) -> Law:
  within = {
    one.name: _within(one, values)
    for one, values in zip(systems, said, strict=True)
  }
  every = np.concatenate(said)
  there = np.isfinite(every)
  good = there & (every > 0)
  judged = _judged(rows, every)
  none = Law('', {}, {}, {}, (), within, judged)
  if good.sum() < POSITIVE * max(there.sum(), 1):
    return none._replace(reason='not_positive')
  if good.sum() < 2 or np.ptp(every[good]) == 0:
    return none._replace(reason='constant')
  chosen = {name: values[good] for name, values in rows.columns.items()}
  try:
    law = force_laws.fit_power_law(every[good], chosen, rows.group[good])
  except core.InputError:
    return none._replace(reason='undetermined')
  intervals = {name: law.interval(name) for name in law.exponents}
  return none._replace(exponents=law.exponents, intervals=intervals)


def _within(system: System, said: np.ndarray) -> tuple[float, float]:
  """Exponent of r, and how far log force goes with log r (r squared)."""
  good = np.isfinite(said) & (said > 0)
  if good.sum() < 3 or good.sum() < POSITIVE * np.isfinite(said).sum():
    return np.nan, np.nan
  x, y = np.log(system.distance[good]), np.log(said[good])
  if np.ptp(x) == 0 or np.ptp(y) <= scoring.COPIED:
    return np.nan, np.nan
  x = x - x.mean()
  slope = float(x @ y / (x @ x))
  return slope, scoring.correlation(x, y) ** 2


def _judged(rows: _Rows, said: np.ndarray) -> str:
  """The verdict of `force_law`, which needs ten systems."""
  num = len(said)
  # x and y from the sun; only their distance counts for a magnitude.
  columns = rows.columns['r'], np.zeros(num), rows.columns['m1']
  state = np.stack([*columns, rows.columns['m2']], axis=1)
  verdict = force_laws.Rows(state, rows.group, False).verdict(
    'force', said[:, None], TOLERANCE
  )
  return verdict.reason or ('newton' if verdict.newton else 'other')


def _searched(
  rows: _Rows, speakers: Mapping[str, np.ndarray], nodes: int, loss: str
) -> dict[str, tuple[str, bool]]:
  """Speaker -> the formula of r, m1 and m2 that fits best; is it Newton's?

  At no more than ROWS steps spread over all systems. Speakers who speak at the
  same steps share a search. Who says nothing, or one number, has no formula.
  """
  alike: dict[bytes, list[str]] = {}
  for name, said in speakers.items():
    there = np.isfinite(said)
    if loss == 'log':
      there &= said > 0
    if there.any() and np.ptp(said[there]) > 0:
      alike.setdefault(there.tobytes(), []).append(name)
  found = {}
  for mask, names in alike.items():
    at = np.flatnonzero(np.frombuffer(mask, bool))
    at = at[np.unique(np.linspace(0, len(at) - 1, ROWS).astype(int))]
    given = {name: values[at] for name, values in rows.columns.items()}
    aims = np.array([speakers[name][at] for name in names])
    some = np.ptp(aims, axis=1) > 0
    if not some.any():
      continue
    fronts = formulas.exhaustive(given, aims[some], nodes, loss)
    kept = [name for name, one in zip(names, some, strict=True) if one]
    for name, front in zip(kept, fronts, strict=True):
      if front:
        law = formulas.best(front)
        found[name] = law.text, formulas.follows(law, _newton(given))
  return found


def _newton(given: Mapping[str, np.ndarray]) -> np.ndarray:
  return given['m1'] * given['m2'] / given['r'] ** 2
