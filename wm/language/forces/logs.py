"""Pages about forces from Inspect's logs of `wm/forces`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from inspect_ai.log import EvalLog

from wm import core
from wm.language import rescored
from wm.language.forces import recorded, tasks
from wm.language.forces.systems import System


def page(logs: Sequence[EvalLog], *, nodes: int = 0) -> rescored.Rescored:
  """Tables and pictures of each set of systems that models were asked about.

  Args:
    logs: of the task, whole ones. Of several replies to a prompt the mean of
      each step counts; a step without any has none. The second log of a model
      about the same systems is called 'MODEL (2)'.
    nodes: size of the largest formulas that are sought; 0 is no search.

  Raises:
    InputError: a sample is none of the task.
  """
  sets: dict[str, dict[str, list[np.ndarray]]] = {}
  shown: dict[str, tuple[str, list[System]]] = {}
  for log in logs:
    variant, systems, said = _read(log)
    # Systems are the same where all that is told of them is.
    told = (f'{one.force.tolist()} {one.told.tolist()}' for one in systems)
    key = variant + ' '.join(told)
    shown[key] = variant, systems
    speakers = sets.setdefault(key, {})
    speakers[rescored.unlike(log.eval.model, speakers)] = said
  made = [
    (shown[key][0], _page(*shown[key], said, nodes))
    for key, said in sets.items()
  ]
  if len(made) == 1:
    return made[0][1]
  return _joined(made)


def _page(
  variant: str,
  systems: list[System],
  said: dict[str, list[np.ndarray]],
  nodes: int,
) -> rescored.Rescored:
  remark = recorded.FALSE if variant == 'published' else ''
  return recorded.page(systems, said, nodes=nodes, remark=remark)


def _joined(made: Sequence[tuple[str, rescored.Rescored]]) -> rescored.Rescored:
  """One page of several; titles say of which prompts."""
  tables, pictures, rows = [], [], []
  for number, (variant, one) in enumerate(made, 1):
    name = f'{variant} prompts, {number}'
    tables += [
      dataclasses.replace(table, title=f'{table.title} ({name})')
      for table in one.tables
    ]
    pictures += [
      picture._replace(
        name=f'{number}_{picture.name}', caption=f'{picture.caption} ({name})'
      )
      for picture in one.pictures
    ]
    rows += [{'prompts': name, **row} for row in one.rows['forces']]
  first = made[0][1]
  lead = f'{len(made)} sets of systems.'
  return rescored.Rescored(
    first.title, lead, tables, pictures, first.words, {'forces': rows}
  )


def _read(log: EvalLog) -> tuple[str, list[System], list[np.ndarray]]:
  """Variant of prompts, systems, and what the model of a log says of each."""
  systems: dict[str, System] = {}
  said: dict[str, list[np.ndarray]] = {}
  variant = ''
  for sample in log.samples or ():
    name = f'{log.location}: sample {sample.id}'
    with core.reading(name, 'one of wm/forces'):
      system = tasks.restored(sample.metadata)
      score = (sample.scores or {})['forces_scorer']
      variant = sample.metadata['variant']
      force = np.array((score.metadata or {})['said'], np.float64)
    systems[str(sample.id)] = system
    said.setdefault(str(sample.id), []).append(force)
  found = [_mean(said[name]) for name in systems]
  return variant, [*systems.values()], found


def _mean(replies: list[np.ndarray]) -> np.ndarray:
  """[T] mean over replies of what is said; NaN where nothing is."""
  stacked = np.stack(replies)
  there = np.isfinite(stacked)
  total = np.where(there, stacked, 0).sum(0)
  num = there.sum(0)
  return np.where(num, total / np.maximum(num, 1), np.nan)
