"""A film of moving bodies: where they are, and where a model says they are.

One HTML page that opens from a disk, with no network: paths on the sky, a
slider over time, and arrows of the accelerations that positions imply.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from wm.runtime import pages


class Take(NamedTuple):
  """One system, in F frames of K bodies, the sun last; NaN is nothing there.

  Attributes:
    name: what the page calls it.
    years: from frame to frame.
    start: first frame that the model goes on from its own positions.
    width: of a bin, AU.
    true: [F, K, 2] AU, not rounded to bins.
    seen: [F, K, 2] AU, centres of the bins that the model reads.
    one_step: [F, K, 2] AU, each after the true ones before it.
    alone: [F, K, 2] AU, from `start` on after what the model said itself.
    force: [F, K, 2] true vectors of the force on each planet, or of its
      acceleration; None where they are not shown.
    told_force: [F, K, 2] those that the model says after it was tuned to.
  """

  name: str
  years: float
  start: int
  width: float
  true: np.ndarray
  seen: np.ndarray
  one_step: np.ndarray
  alone: np.ndarray
  force: np.ndarray | None = None
  told_force: np.ndarray | None = None

  def with_forces(self, true: np.ndarray, predicted: np.ndarray) -> Take:
    """With vectors [R, 2] of all rows, which may be more than are shown."""
    shape = self.true.shape
    rows = shape[0] * shape[1]
    true, predicted = (
      vectors[:rows].reshape(shape) for vectors in (true, predicted)
    )
    return self._replace(force=true, told_force=predicted)

  @property
  def off(self) -> tuple[float, float]:
    """Median angle between told and true vectors, degrees, and of the ratio of
    their sizes; NaN where there are none.
    """
    if self.force is None or self.told_force is None:
      return np.nan, np.nan
    finite = np.isfinite(self.told_force).all(-1)
    true, predicted = self.force[finite], self.told_force[finite]
    turn = np.arctan2(predicted[:, 1], predicted[:, 0]) - np.arctan2(
      true[:, 1], true[:, 0]
    )
    angle = np.degrees(np.abs(np.remainder(turn + np.pi, 2 * np.pi) - np.pi))
    ratio = np.hypot(*predicted.T) / np.hypot(*true.T)
    return float(np.median(angle)), float(np.median(ratio))


def error(path: np.ndarray, true: np.ndarray, first: int) -> float:
  """Root mean square of what a path is off from a frame on, AU a coordinate."""
  return float(np.sqrt(np.mean((path - true)[first:] ** 2)))


def render(
  takes: Sequence[Take], *, title: str, lead: str, forces: str = ''
) -> str:
  """The page's text.

  Args:
    takes: the systems, at least one.
    title: what the film is of.
    lead: how it was made.
    forces: what the model was tuned to tell, and how; '' where nothing.
  """
  return pages.render(
    *('wm.reporting', 'film.html'),
    title=title,
    lead=lead,
    forces=forces,
    takes=[
      (
        take.name,
        f'{error(take.one_step, take.true, 2) / take.width:.2f}',
        f'{error(take.alone, take.true, take.start) / take.width:.2f}',
        f'{take.off[0]:.0f}',
        f'{take.off[1]:.2f}',
      )
      for take in takes
    ],
    data=[_data(take) for take in takes],
  )


def _data(take: Take) -> dict[str, Any]:
  """What the program of the page draws; null is nothing there.

  Forces are in parts of the largest true one.
  """
  fields = take._asdict()
  forces = {k: fields.pop(k) for k in ('force', 'told_force')}
  for name in ('true', 'seen', 'one_step', 'alone'):
    fields[name] = _numbers(fields[name])
  if take.force is not None and take.told_force is not None:
    largest = np.nanmax(np.hypot(*np.moveaxis(take.force, -1, 0)))
    fields |= {name: _numbers(x / largest) for name, x in forces.items()}
  return fields


def _numbers(path: np.ndarray) -> list[Any]:
  """Rounded to a millionth, which no screen shows."""
  flat = np.round(path, 6).astype(object)
  flat[np.isnan(path)] = None
  return flat.tolist()
