"""Said and true forces against time: a grid of models and systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from wm.language.forces.systems import System
from wm.reporting import figures

TRUE, SAID, TOLD = '#666666', '#c8553d', '#3b6ea5'


def grid(
  systems: Sequence[System], speakers: Mapping[str, Sequence[np.ndarray]]
) -> bytes:
  """PNG: a row for each speaker, a column for each system.

  speakers: name -> for each system forces [T]; NaN is left out. Axes hold
    the true forces and what is said, up to ten times the range of the former.
  """
  num = len(systems)
  figure, axes = figures.new_axes(
    len(speakers) * num, across=num, size=(2.6, 1.9)
  )
  panels = iter(axes)
  for name, said in speakers.items():
    for system, values in zip(systems, said, strict=True):
      axis = next(panels)
      at = np.arange(len(system.force))
      axis.plot(at, system.force, color=TRUE, lw=3, alpha=0.5, label='true')
      axis.plot(at, values, color=SAID, lw=1, label='said')
      axis.plot(
        system.told,
        system.force[system.told],
        'o',
        color=TOLD,
        ms=3,
        label='told',
      )
      low, high = _limits(system.force, values)
      axis.set_ylim(low, high)
      axis.tick_params(labelsize=6)
      axis.yaxis.get_offset_text().set_size(6)
      if system is systems[0]:
        axis.set_ylabel(name, size=7)
      if name == next(iter(speakers)):
        axis.set_title(f'system {system.name}', size=8)
  axes[0].legend(fontsize=6, frameon=False)
  return figures.to_png(figure)


def _limits(truth: np.ndarray, said: np.ndarray) -> tuple[float, float]:
  low, high = float(truth.min()), float(truth.max())
  wide = max(high - low, 0.02 * high)
  there = said[np.isfinite(said)]
  if there.size:
    low = max(min(low, float(there.min())), low - 5 * wide)
    high = min(max(high, float(there.max())), high + 5 * wide)
  edge = 0.08 * (high - low)
  return low - edge, high + edge
