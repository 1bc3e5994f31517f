"""Power laws: exponents of a product of powers, by regression of logarithms.

    force = constant * r^-2 * m1^1 * m2^1

What a law fitted over few systems can know is told by its intervals: rows of
one system are dependent, and masses are constant in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy import stats

from wm import core


class PowerLaw(NamedTuple):
  """A law target = constant * product of powers.

  Attributes:
    exponents: quantity -> exponent.
    errors: quantity -> standard error, of rows that are dependent in clusters.
    constant: the factor.
    r2: share of the variance of the target's logarithm that is explained.
    r2_raw: share of the variance of the target itself.
    rows, clusters: how many.
  """

  exponents: dict[str, float]
  errors: dict[str, float]
  constant: float
  r2: float
  r2_raw: float
  rows: int
  clusters: int

  def interval(self, name: str, level: float = 0.95) -> tuple[float, float]:
    """Low and high end of an exponent's interval, by Student's t."""
    half = stats.t.ppf(0.5 + level / 2, self.clusters - 1) * self.errors[name]
    return self.exponents[name] - half, self.exponents[name] + half

  def __str__(self) -> str:
    powers = (f'{name}^{x:.4g}' for name, x in self.exponents.items())
    return ' '.join([f'{self.constant:.4g}', *powers])


def fit(
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
    InputError: a value that is not finite and > 0, too few clusters, or a
      quantity that others determine.
  """
  values = {'target': target, **columns}
  for name, array in values.items():
    bad = ~(np.isfinite(array) & (np.asarray(array) > 0))
    if bad.any():
      raise core.InputError(
        f'{int(bad.sum())} of {len(bad)} values of {name} are not finite and '
        f'> 0, such as {np.asarray(array)[bad][0]}: they have no logarithm'
      )
  # float64 first: float32 of a logarithm is good for five digits only.
  logs = [np.log(np.asarray(array, np.float64)) for array in values.values()]
  y, x = logs[0], np.stack([np.ones(len(logs[0])), *logs[1:]], axis=1)
  _, cluster = np.unique(group, return_inverse=True)
  rows, count = x.shape
  clusters = int(cluster.max(initial=-1)) + 1
  if clusters < 2 or rows <= count:
    raise core.InputError(
      f'{rows} rows of {clusters} clusters; expected at least {count + 1} rows '
      'of 2 clusters'
    )
  centre = x[:, 1:].mean(0)
  scaled = x - np.append(0, centre)
  if np.linalg.matrix_rank(scaled) < count:
    raise core.InputError(
      f'{", ".join(columns)}: one of them is constant or follows from the '
      'others, so that exponents are not determined'
    )
  inverse = np.linalg.inv(scaled.T @ scaled)
  found = inverse @ (scaled.T @ y)
  rest = y - scaled @ found
  sums = np.zeros((clusters, count))
  np.add.at(sums, cluster, scaled * rest[:, None])
  few = clusters / (clusters - 1) * (rows - 1) / (rows - count)
  covariance = few * inverse @ (sums.T @ sums) @ inverse
  raw = np.exp(y)
  off = raw - np.exp(y - rest)
  return PowerLaw(
    dict(zip(columns, found[1:].tolist(), strict=True)),
    dict(
      zip(columns, np.sqrt(covariance.diagonal()[1:]).tolist(), strict=True)
    ),
    float(np.exp(found[0] - centre @ found[1:])),
    _explained(rest, y),
    _explained(off, raw),
    rows,
    clusters,
  )


def _explained(rest: np.ndarray, target: np.ndarray) -> float:
  total = ((target - target.mean()) ** 2).sum()
  return float(1 - (rest**2).sum() / total) if total > 0 else np.nan
