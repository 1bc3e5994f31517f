"""Pages about forces from Inspect's logs of `wm/forces`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from inspect_ai.log import EvalLog

from wm import core
from wm.language import rescored
from wm.language.forces import recorded, tasks
from wm.language.forces.systems import System


def pages(
  logs: Sequence[EvalLog], *, nodes: int = 0
) -> list[rescored.Rescored]:
  """A page for each set of systems that models were asked about.

  Args:
    logs: of the task, whole ones. Of several replies to a prompt the mean of
      each step counts; a step without any has none.
    nodes: size of the largest formulas that are sought; 0 is no search.

  Raises:
    InputError: a sample is none of the task.
  """
  sets: dict[tuple[str, ...], dict[str, list[np.ndarray]]] = {}
  shown: dict[tuple[str, ...], list[System]] = {}
  for log in logs:
    systems, said = _read(log)
    # Systems are the same where all that is told of them is.
    key = tuple(
      f'{one.name} {one.force.tolist()} {one.told.tolist()}' for one in systems
    )
    shown[key] = systems
    sets.setdefault(key, {})[log.eval.model] = said
  return [
    recorded.page(shown[key], said, nodes=nodes) for key, said in sets.items()
  ]


def _read(log: EvalLog) -> tuple[list[System], list[np.ndarray]]:
  """Systems, and what the model of a log says of each."""
  systems: dict[str, System] = {}
  said: dict[str, list[np.ndarray]] = {}
  for sample in log.samples or ():
    try:
      system = tasks.restored(sample.metadata)
      score = (sample.scores or {})['forces_scorer']
      force = np.array((score.metadata or {})['said'], np.float64)
    except (KeyError, TypeError, ValueError) as error:
      raise core.InputError(
        f'{log.location}: sample {sample.id} has no forces ({error!r}); '
        'expected a log of wm/forces'
      ) from error
    systems[str(sample.id)] = system
    said.setdefault(str(sample.id), []).append(force)
  return [*systems.values()], [_mean(said[name]) for name in systems]


def _mean(replies: list[np.ndarray]) -> np.ndarray:
  """[T] mean over replies of what is said; NaN where nothing is."""
  stacked = np.stack(replies)
  there = np.isfinite(stacked)
  total = np.where(there, stacked, 0).sum(0)
  num = there.sum(0)
  return np.where(num, total / np.maximum(num, 1), np.nan)
