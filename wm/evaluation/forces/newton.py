"""Is what is said of planets Newton's law? Exponents, formulas, a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wm import core
from wm.evaluation.forces import engines, force_tasks, formulas, power_laws

NEWTON = {'r': -2.0, 'm1': 1.0, 'm2': 1.0, 'mass': 1.0}
WRONG = -1.0  # The exponent of r that has to be ruled out.
POSITIVE = 0.9  # Share of magnitudes that have a logarithm, at least.
READ = 0.5  # Share of rows of which something is said, at least.
MOST = 1000  # Rows of a search, as published.


class Verdict(NamedTuple):
  """What one speaker says in one data set.

  Attributes:
    reason: '' where exponents are known, else why not.
    exponents: quantity -> exponent; empty where there is a reason.
    newton: all are Newton's within the tolerance, and 1 / r is ruled out.
    positive: share of magnitudes above 0; NaN where none is said.
    r2: share of the variance of the target that is explained.
    angle: mean angle to the true vector, degrees; NaN of magnitudes.
    size: [T] magnitudes of all rows; NaN where none is said.
  """

  reason: str
  exponents: dict[str, float]
  newton: bool
  positive: float
  r2: float
  angle: float
  size: np.ndarray


class Sought(NamedTuple):
  """The formulas that one speaker's numbers follow in one data set.

  Attributes:
    reason: '' where some were found, else why not.
    front: of ascending size and falling error.
    law: the one that is taken, in words.
    right: is it Newton's?
  """

  reason: str
  front: Sequence[formulas.Formula] = ()
  law: str = ''
  right: bool = False


class Rows(NamedTuple):
  """The rows of one data set that count, T of them.

  Attributes:
    state: [T, C] true states.
    group: [T] systems.
    rests: too few suns are seen to move.
  """

  state: np.ndarray
  group: np.ndarray
  rests: bool

  def verdict(self, target: str, said: np.ndarray, tolerance: float) -> Verdict:
    """Of what a speaker says of these rows, [T, d]; NaN where nothing."""
    size = force_tasks.sizes(target, said)
    there = np.isfinite(size)
    good = there & (size > 0)
    columns = force_tasks.columns(target, self.state)
    logs = np.array([np.ones(len(size)), *map(np.log, columns.values())])
    exponents: dict[str, float] = {}
    positive = r2 = angle = np.nan
    newton, reason = False, ''
    if there.any():
      positive = float(good[there].mean())
      r2 = _explained(target, said[there], self.state[there])
    if target.endswith('_vector') and good.any():
      truth = force_tasks.labels(target, self.state)[good]
      angle = _angle(said[good], truth)
    if self.rests:
      reason = 'sun_rests'
    elif there.mean() < READ:
      reason = 'no_orbit'
    elif positive < POSITIVE:
      reason = 'not_positive'
    elif len(np.unique(self.group[good])) < force_tasks.FEWEST:
      reason = 'few_systems'
    elif np.linalg.matrix_rank(logs[:, good]) < len(logs):
      reason = 'undetermined'
    else:
      chosen = {name: values[good] for name, values in columns.items()}
      law = power_laws.fit(size[good], chosen, self.group[good])
      exponents = law.exponents
      low, high = law.interval('r')
      newton = not low <= WRONG <= high and all(
        abs(exponent - NEWTON[name]) <= tolerance
        for name, exponent in exponents.items()
      )
    return Verdict(reason, exponents, newton, positive, r2, angle, size)

  def searched(
    self,
    target: str,
    speakers: dict[str, Verdict],
    nodes: int,
    search: engines.Search = formulas.exhaustive,
  ) -> dict[str, Sought]:
    """What each speaker's numbers follow, of formulas up to `nodes`.

    All speakers' formulas are sought in one search, on rows of which each says
    something.
    """
    found = {name: Sought(one.reason) for name, one in speakers.items()}
    asked = {name: one.size for name, one in speakers.items() if not one.reason}
    if not asked:
      return found
    sizes = np.array([*asked.values()])
    rows = np.flatnonzero((sizes > 0).all(0))[:MOST]
    if len(rows) < force_tasks.FEWEST:
      return found | {name: Sought('not_positive') for name in asked}
    sizes = sizes[:, rows]
    state = self.state[rows]
    r = np.hypot(state[:, force_tasks.X], state[:, force_tasks.Y])
    m1, m2 = state[:, force_tasks.PLANET], state[:, force_tasks.SUN]
    given = {'r': r, 'm1': m1, 'm2': m2}
    truth = force_tasks.sizes(target, force_tasks.labels(target, state))
    flat = np.ptp(sizes, axis=1) <= 1e-12 * sizes.max(1)
    loss = 'log' if target.startswith('log_') else 'raw'
    fronts: list[list[formulas.Formula]] = []
    if not flat.all():
      fronts = search(given, sizes[~flat], nodes, loss)
    of_speaker = iter(fronts)
    for name, same in zip(asked, flat, strict=True):
      front = [] if same else next(of_speaker)
      if not front:
        found[name] = Sought('constant' if same else 'no_formula')
        continue
      law = formulas.best(front)
      right = formulas.follows(law, truth)
      found[name] = Sought('', front, law.text, right)
    return found


def _explained(target: str, said: np.ndarray, state: np.ndarray) -> float:
  """R2 of labels [T, d]: as they are said, logarithms or raw."""
  truth = force_tasks.labels(target, state)
  middle = 0 if target.endswith('_vector') else truth.mean(0)
  total = ((truth - middle) ** 2).sum()
  left = ((truth - said) ** 2).sum()
  return float(1 - left / total) if total > 0 else np.nan


def _angle(said: np.ndarray, truth: np.ndarray) -> float:
  """Mean angle between vectors [T, 2], degrees."""
  lengths = np.hypot(*said.T) * np.hypot(*truth.T)
  cosine = (said * truth).sum(1) / lengths
  return float(np.degrees(np.arccos(np.clip(cosine, -1, 1))).mean())


def rows(
  tested: force_tasks.Shown,
  asked: force_tasks.Points,
  d: int,
  target: str,
  moves: float,
) -> tuple[np.ndarray, Rows]:
  """Which rows [M, P] of data set d count for a target, and the rows."""
  there = asked.rows[d] != core.DEAD
  rests = False
  if force_tasks.quantity(target) == 'force':
    moving = tested.travel[d] >= moves
    there = there & moving[:, None]
    rests = int(moving.sum()) < force_tasks.FEWEST
  group = np.broadcast_to(np.arange(len(there))[:, None], there.shape)
  return there, Rows(asked.state[d][there], group[there], rests)
