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
    said: [F, K, 2] AU, each after the true ones before it.
    alone: [F, K, 2] AU, from `start` on after what the model said itself.
  """

  name: str
  years: float
  start: int
  width: float
  true: np.ndarray
  seen: np.ndarray
  said: np.ndarray
  alone: np.ndarray


def error(path: np.ndarray, true: np.ndarray, first: int) -> float:
  """Root mean square of what a path is off from a frame on, AU a coordinate."""
  return float(np.sqrt(np.mean((path - true)[first:] ** 2)))


def render(takes: Sequence[Take], *, title: str, lead: str) -> str:
  """The page's text.

  Args:
    takes: the systems, at least one.
    title: what the film is of.
    lead: how it was made.
  """
  return pages.render(
    *('wm.reporting', 'film.html'),
    title=title,
    lead=lead,
    takes=[
      (
        take.name,
        f'{error(take.said, take.true, 2) / take.width:.2f}',
        f'{error(take.alone, take.true, take.start) / take.width:.2f}',
      )
      for take in takes
    ],
    data=[_data(take) for take in takes],
  )


def _data(take: Take) -> dict[str, Any]:
  """What the program of the page draws; null is nothing there."""
  paths = {
    name: _numbers(getattr(take, name))
    for name in ('true', 'seen', 'said', 'alone')
  }
  return {
    'name': take.name,
    'years': take.years,
    'start': take.start,
    **paths,
  }


def _numbers(path: np.ndarray) -> list[Any]:
  """Rounded to a millionth of an AU, which no screen shows."""
  flat = np.round(path, 6).astype(object)
  flat[np.isnan(path)] = None
  return flat.tolist()
