"""Force laws fitted to answers about planets: exponents, formulas, verdicts.

    force = constant * r^-2 * m1^1 * m2^1

Exponents are those of a power law, by regression of logarithms. The intervals
of an exponent say how well few systems determine it: rows of one system are
dependent, and masses are constant in it. A speaker is the model that was tuned,
or an oracle with more knowledge; see the metric force_law.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import scipy

from wm import core
from wm.evaluation import force_tasks
from wm.kernels import symbolic


class PowerLaw(NamedTuple):
  """A law target = constant * product of powers.

  Attributes:
    exponents: quantity -> exponent.
    errors: quantity -> standard error, of rows that are dependent in clusters.
    constant: the factor.
    r2: share of the variance of the target's logarithm that is explained.
    rows, clusters: how many.
  """

  exponents: dict[str, float]
  errors: dict[str, float]
  constant: float
  r2: float
  rows: int
  clusters: int

  def interval(self, name: str) -> tuple[float, float]:
    """Low and high end of an exponent's 95 % interval, by Student's t."""
    half = scipy.stats.t.ppf(0.975, self.clusters - 1) * self.errors[name]
    return self.exponents[name] - half, self.exponents[name] + half

  def __str__(self) -> str:
    powers = (f'{name}^{x:.4g}' for name, x in self.exponents.items())
    return ' '.join([f'{self.constant:.4g}', *powers])


def fit_power_law(
  target: np.ndarray, columns: Mapping[str, np.ndarray], group: np.ndarray
) -> PowerLaw:
  """Least squares of logarithms, with errors that are clustered.

  Errors are those of Liang and Zeger (1986), with the usual factors for few
  clusters.

  Args:
    target: [T] > 0.
    columns: quantity -> [T] > 0.
    group: [T] cluster of each row, such as its system.

  Raises:
    InputError: too few clusters, or a quantity that others determine.
  """
  # float64 first: float32 of a logarithm is good for five digits only.
  arrays = target, *columns.values()
  logs = [np.log(np.asarray(array, np.float64)) for array in arrays]
  y, x = logs[0], np.stack([np.ones(len(logs[0])), *logs[1:]], axis=1)
  _, cluster = np.unique(group, return_inverse=True)
  rows, count = x.shape
  clusters = int(cluster.max(initial=-1)) + 1
  # log target = log constant + sum over k of exponent_k log x_k + rest. Centred
  # columns make the intercept independent of exponents, and inversion stable.
  centre = x[:, 1:].mean(0)
  scaled = x - np.append(0, centre)
  few = clusters < 2 or rows <= count
  if few or np.linalg.matrix_rank(scaled) < count:
    raise core.InputError(
      f'{rows} rows of {clusters} clusters do not determine exponents of '
      f'{", ".join(columns)}'
    )
  inverse = np.linalg.inv(scaled.T @ scaled)
  coefficients = inverse @ (scaled.T @ y)
  rest = y - scaled @ coefficients
  # The sandwich (X'X)^-1 (sum over g of s_g s_g') (X'X)^-1 with the scores s_g
  # = sum over rows of g of x * rest.
  sums = np.zeros((clusters, count))
  np.add.at(sums, cluster, scaled * rest[:, None])
  # G / (G - 1) * (n - 1) / (n - k): as residuals are smaller than errors.
  factor = clusters / (clusters - 1) * (rows - 1) / (rows - count)
  covariance = factor * inverse @ (sums.T @ sums) @ inverse
  return PowerLaw(
    dict(zip(columns, coefficients[1:].tolist(), strict=True)),
    dict(
      zip(columns, np.sqrt(covariance.diagonal()[1:]).tolist(), strict=True)
    ),
    float(np.exp(coefficients[0] - centre @ coefficients[1:])),
    _variance_share(rest, y),
    rows,
    clusters,
  )


def _variance_share(rest: np.ndarray, target: np.ndarray) -> float:
  # A target that is the same on all rows has no variance to explain.
  total = ((target - target.mean()) ** 2).sum()
  return float(1 - (rest**2).sum() / total) if total > 0 else np.nan


NEWTON = {'r': -2.0, 'm1': 1.0, 'm2': 1.0, 'mass': 1.0}
WRONG = -1.0  # The exponent of r that has to be ruled out.
POSITIVE = 0.9  # Share of magnitudes that have a logarithm, at least.
MOST = 1000  # Rows of a search, as published.


class Verdict(NamedTuple):
  """The law that one speaker's answers follow in one data set.

  Attributes:
    reason: '' where exponents are known, else why not.
    exponents: quantity -> exponent; empty where there is a reason.
    newton: all are Newton's within the tolerance, and 1 / r is ruled out.
    positive: share of magnitudes above 0; NaN without rows.
    r2: share of the variance of the target that is explained.
    angle: mean angle to the true vector, degrees; NaN of magnitudes.
    size: [T] magnitudes of all rows.
  """

  reason: str
  exponents: dict[str, float]
  newton: bool
  positive: float
  r2: float
  angle: float
  size: np.ndarray


# Errors up to this multiple of the least are good enough, as in PySR's 'best'.
ENOUGH = 1.5
SAME = 1e-6  # Relative difference of two laws that are the same.


def best(front: Sequence[symbolic.Law]) -> symbolic.Law:
  """The law of small error at which the error drops most.

  The rule is PySR's (Cranmer 2023, model_selection='best'): among laws with at
  most 1.5 times the least error, choose the one with the greatest drop of the
  log error per unit of size.
  """
  least = min(law.error for law in front)
  before = [front[0], *front]

  def fall(k: int) -> float:
    last, law = before[k], front[k]
    if law.size == last.size:
      return 0.0
    # PySR's score: the drop of log error per unit of size.
    return float(np.log(last.error / law.error)) / (law.size - last.size)

  good = [k for k, law in enumerate(front) if law.error <= ENOUGH * least]
  return front[max(good, key=fall)]


class Sought(NamedTuple):
  """The formulas that one speaker's numbers follow in one data set.

  Attributes:
    reason: '' where some were found, else why not.
    front: of ascending size and falling error.
    law: the one that is taken, in words.
    right: is it Newton's, and are the exponents of the numbers, too?
  """

  reason: str
  front: Sequence[symbolic.Law] = ()
  law: str = ''
  right: bool = False


class LawRows(NamedTuple):
  """The rows of one data set that count, T of them.

  Attributes:
    state: [T, C] true states.
    group: [T] systems.
    rests: too few suns are seen to move.
  """

  state: np.ndarray
  group: np.ndarray
  rests: bool

  def verdict(
    self, target: str, answers: np.ndarray, tolerance: float
  ) -> Verdict:
    """The verdict on a speaker's answers [T, d]."""
    size = force_tasks.sizes(target, answers)
    good = size > 0  # The others have no logarithm.
    columns = force_tasks.columns(target, self.state)
    logs = np.array([np.ones(len(size)), *map(np.log, columns.values())])
    exponents: dict[str, float] = {}
    positive = r2 = angle = np.nan
    newton, reason = False, ''
    if good.size:
      positive = float(good.mean())
      r2 = _explained(target, answers, self.state)
    if target.endswith('_vector') and good.any():
      truth = force_tasks.labels(target, self.state)[good]
      angle = _angle(answers[good], truth)
    # The first of these that holds is reported: what the data lack comes before
    # what the answers lack.
    if self.rests:
      reason = 'sun_rests'
    elif positive < POSITIVE:
      reason = 'not_positive'
    elif len(np.unique(self.group[good])) < force_tasks.FEWEST:
      reason = 'few_systems'
    elif np.linalg.matrix_rank(logs[:, good]) < len(logs):
      reason = 'undetermined'
    else:
      chosen = {name: values[good] for name, values in columns.items()}
      law = fit_power_law(size[good], chosen, self.group[good])
      exponents = law.exponents
      # A law between r^-1 and r^-2 must not pass: 1 / r has to be outside the
      # interval, however wide the tolerance is.
      low, high = law.interval('r')
      newton = not low <= WRONG <= high and all(
        abs(exponent - NEWTON[name]) <= tolerance
        for name, exponent in exponents.items()
      )
    return Verdict(reason, exponents, newton, positive, r2, angle, size)

  def searched(
    self, target: str, speakers: dict[str, Verdict], nodes: int
  ) -> dict[str, Sought]:
    """The formula that each speaker's numbers follow, of up to `nodes`.

    All speakers' formulas are sought in one search, on rows of which each says
    something. A law is Newton's if its shape and the speaker's exponents are.
    """
    results = {
      name: Sought(verdict.reason) for name, verdict in speakers.items()
    }
    asked = {
      name: verdict.size
      for name, verdict in speakers.items()
      if not verdict.reason
    }
    if not asked:
      return results
    sizes = np.array([*asked.values()])
    # One search for all speakers: formulas are evaluated once, on common rows.
    rows = np.flatnonzero((sizes > 0).all(0))
    # Spread over all systems, the rows of which follow each other.
    most = min(len(rows), MOST)
    rows = rows[np.linspace(0, len(rows) - 1, most).astype(int)]
    if len(rows) < force_tasks.FEWEST:
      return results | {name: Sought('not_positive') for name in asked}
    sizes = sizes[:, rows]
    state = self.state[rows]
    columns = _quantities(state)
    truth = force_tasks.sizes(target, force_tasks.labels(target, state))
    # A constant is fitted by every formula with a constant: no law.
    flat = np.ptp(sizes, axis=1) <= 1e-12 * sizes.max(1)
    loss = 'log' if target.startswith('log_') else 'raw'
    fronts: list[list[symbolic.Law]] = []
    if not flat.all():
      fronts = symbolic.search(columns, sizes[~flat], nodes, loss)
    of_speaker = iter(fronts)
    for name, same in zip(asked, flat, strict=True):
      # Fronts are those of the speakers that vary, in order.
      front = [] if same else next(of_speaker)
      if not front:
        results[name] = Sought('constant' if same else 'no_formula')
        continue
      law = best(front)
      # The shape is not enough: of few shapes, that of Newton's law may be the
      # nearest to numbers that follow another power of r.
      ratio = symbolic.values(law.code, np.array([*columns.values()])) / truth
      # Equal up to a factor where the ratio is constant.
      same_law = bool(np.ptp(ratio) <= SAME * np.abs(ratio).max())
      right = speakers[name].newton and same_law
      results[name] = Sought('', front, str(law), right)
    return results


def _quantities(state: np.ndarray) -> dict[str, np.ndarray]:
  """The variables of formulas: distance and both masses, [T] each."""
  r = np.hypot(state[:, force_tasks.X], state[:, force_tasks.Y])
  m1, m2 = state[:, force_tasks.PLANET], state[:, force_tasks.SUN]
  return {'r': r, 'm1': m1, 'm2': m2}


def _explained(target: str, answers: np.ndarray, state: np.ndarray) -> float:
  """R2 of labels [T, d], in the form given: logarithms or raw values."""
  truth = force_tasks.labels(target, state)
  # Vectors are compared with no force at all, not with their mean.
  middle = 0 if target.endswith('_vector') else truth.mean(0)
  total = ((truth - middle) ** 2).sum()
  left = ((truth - answers) ** 2).sum()
  return float(1 - left / total) if total > 0 else np.nan


def _angle(answers: np.ndarray, truth: np.ndarray) -> float:
  """Mean angle between vectors [T, 2], degrees."""
  lengths = np.hypot(*answers.T) * np.hypot(*truth.T)
  cosine = (answers * truth).sum(1) / lengths
  return float(np.degrees(np.arccos(np.clip(cosine, -1, 1))).mean())


def rows(
  tested: force_tasks.Shown,
  asked: force_tasks.OrbitPoints,
  d: int,
  target: str,
  moves: float,
) -> tuple[np.ndarray, LawRows]:
  """Mask [M, P] of the rows of data set d that a target uses, and the rows."""
  mask = asked.rows[d] != core.DEAD
  rests = False
  # Tokens tell a planet's mass only by how far its sun moves.
  if force_tasks.quantity(target) == 'force':
    moving = tested.travel[d] >= moves
    mask = mask & moving[:, None]
    rests = int(moving.sum()) < force_tasks.FEWEST
  group = np.broadcast_to(np.arange(len(mask))[:, None], mask.shape)
  return mask, LawRows(asked.state[d][mask], group[mask], rests)


class LawVerdicts(NamedTuple):
  """Verdicts of one data set and target, by speaker.

  Attributes:
    target: one of force_tasks.TARGETS.
    data_set: its number.
    verdicts: speaker -> what it says.
    sought: speaker -> formulas; None where none are sought.
  """

  target: str
  data_set: int
  verdicts: dict[str, Verdict]
  sought: Mapping[str, Sought] | None

  def rows(self, who: str) -> Iterator[tuple[str, float, str, str]]:
    """Quantity, value, reason and formula of each result of a speaker."""
    verdict = self.verdicts[who]
    yield 'newton', float(verdict.newton), verdict.reason, ''
    # Names of the columns alone are needed; any state has them.
    for name in force_tasks.columns(self.target, np.ones((1, 4))):
      exponent = verdict.exponents.get(name, np.nan)
      yield f'exponent_{name}', exponent, verdict.reason, ''
    silent = '' if verdict.size.size else verdict.reason
    yield 'r2', verdict.r2, silent, ''
    if self.target in ('acceleration', 'force'):
      yield 'positive', verdict.positive, silent, ''
    if self.target.endswith('_vector'):
      yield 'angle', verdict.angle, silent, ''
    if self.sought is not None:
      search = self.sought[who]
      yield 'formula', float(search.right), search.reason, search.law

  def laws(self, who: str) -> Iterator[tuple[float, str, str, int]]:
    """Error, reason, text and length of each law of a speaker's front."""
    search = self.sought[who] if self.sought is not None else None
    if search and search.reason:
      yield np.nan, search.reason, '', 0
    for law in search.front if search else ():
      yield law.error, '', str(law), law.size


# What bounds quantities; others have no bounds.
BOUNDS: dict[str, tuple[float, float | None]] = {
  'newton': (0.0, 1.0),
  'positive': (0.0, 1.0),
  'formula': (0.0, 1.0),
  'angle': (0.0, 180.0),
  'r2': (-math.inf, 1.0),
}


def scores(
  judged: list[LawVerdicts], who: str, end: str
) -> Iterator[core.Scores]:
  """All quantities of a speaker; end: of their names."""
  yield from _fronts(judged, who, end)
  # Quantity -> its value in each data set and target.
  table: dict[str, list[tuple[float, str, str, LawVerdicts]]] = {}
  for judgment in judged:
    for name, value, reason, law in judgment.rows(who):
      # A target that is the same on all rows has no variance.
      reason = reason or ('constant' if np.isnan(value) else '')
      table.setdefault(name, []).append((value, reason, law, judgment))
  for name, rows in table.items():
    values, reasons, laws, whose = zip(*rows, strict=True)
    columns = _columns(whose)
    if name == 'formula':
      columns['law'] = np.array(laws)
    scores = core.scores(
      f'{name}{who}{end}',
      np.where(np.array(reasons) == '', values, np.nan),
      reason=reasons,
      group=columns['data_set'],
      columns=columns,
      bounds=BOUNDS.get(name),
    )
    outliers = name.startswith('exponent') or name == 'r2'
    yield dataclasses.replace(scores, outliers=outliers)


def _columns(judged: Sequence[LawVerdicts]) -> dict[str, np.ndarray]:
  return {
    name: np.array([getattr(judgment, name) for judgment in judged])
    for name in ('data_set', 'target')
  }


def _fronts(
  judged: list[LawVerdicts], who: str, end: str
) -> Iterator[core.Scores]:
  """Errors of all laws that were found, a row for each."""
  laws = [(*law, judgment) for judgment in judged for law in judgment.laws(who)]
  if not laws:
    return
  errors, reasons, texts, lengths, whose = zip(*laws, strict=True)
  columns = _columns(whose)
  yield core.scores(
    f'law_error{who}{end}',
    errors,
    reason=reasons,
    group=columns['data_set'],
    columns=columns | {'law': np.array(texts), 'length': np.array(lengths)},
    bounds=(0.0, None),
  )
