"""The rows that a study adds for comparison: baselines and ceilings.

The input is rows and metrics; the output is further rows, and reasons why other
baselines are unavailable. The untrained network and the uniform guesser know
nothing. The oracle knows the rules. Two ceilings know the rules and the sampler
of the training data: the Bayes predictor gives probability 0 to tokens that the
sampler never draws; the replanning Bayes predictor plans again after them.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

from wm import core
from wm.core import registry
from wm.core.measure import lacks
from wm.options.calls import Stages
from wm.reporting import ceilings
from wm.runtime import files
from wm.studies.rows import Row

REPLANNING = "bayes(off='replan')"
CEILINGS = {'bayes': 'bayes()', 'bayes_replanning': REPLANNING}
_BOUNDS = {'uniform': 'uniform()', 'oracle': 'oracle()'}


def added(
  rows: Sequence[Row], stages: Stages, metrics: Sequence[core.Metric]
) -> tuple[list[Row], list[str]]:
  """Baselines that the rows lack, and reasons why others are unavailable.

  Adds an untrained model for each architecture and rule set, a uniform guesser
  and an oracle for each rule set, and both ceilings for each world. A baseline
  is named after its kind ('bayes'). Several of one kind are named after their
  row, too ('bayes_walks').

  Args:
    rows: all rows of a study, as `rows_of` makes them.
    stages: options; rows with objective='state' get no untrained model.
    metrics: of the study; a baseline that no metric can measure is left out.

  Returns:
    The baselines, in the order of the rows, and a line for each world without
    ceilings.
  """
  rows = [*map(_as_trained, rows)]
  asked: list[tuple[Row, str]] = []  # (baseline, name of its row).
  taken = [row for row in rows if row.trained_on is None]
  reasons: dict[str, None] = {}
  for row in _subjects(rows):
    world, models = row.scored_in, dict[str, Any](_BOUNDS)
    assert isinstance(world, core.World)  # By `rows_of`.
    names_states = row.stages(stages).training.objective == 'state'
    is_network = isinstance(row.model, core.Trainable)
    if row.trained_on is not None and is_network and not names_states:
      models = {'untrained': row.model, **models}
    if isinstance(world, core.Generative):
      models |= CEILINGS
    else:
      lacking = core.capabilities.lacks_law(type(world))
      reasons[f'No ceiling: {lacking}.'] = None
    for name, model in models.items():
      resolved: core.Model = registry.resolve('model', model)
      baseline, gives = Row(name, resolved, None, world), resolved.gives[0]
      measured = not all(lacks(x, gives, type(world)) for x in metrics)
      if measured and not any(_is_copy(baseline, other) for other in taken):
        asked.append((baseline, row.name))
        taken.append(baseline)
  return _named(asked, rows), [*reasons]


def nulls(row: Row, folder: str | pathlib.Path) -> list[Row]:
  """Models without learning that err as much as a trained row.

  Args:
    row: trained here or before, and scored.
    folder: its run folder.

  Returns:
    Rows 'NAME_null_prefix' and 'NAME_null_state'; none of a row that was not
    trained.

  Raises:
    InputError: the scores do not say how much it errs.
  """
  if row.trained_on is None and not isinstance(row.model, str):
    return []
  assert isinstance(row.scored_in, core.World)  # By `rows_of`.
  several = []
  for kind in ceilings.NULLS:
    model: Any = registry.make('model', f'null(kind={kind!r})')
    like = dataclasses.replace(model, like=str(folder)).fixed(row.scored_in)
    name = ceilings.null_name(row.name, kind)
    several.append(Row(name, like, None, row.scored_in))
  return several


def _as_trained(row: Row) -> Row:
  """Replaces a run folder by a row that trains the folder's model."""
  if not isinstance(row.model, str):
    return row
  run = files.read_record(pathlib.Path(row.model, 'train.run.json'), {})
  model: core.Model = registry.make('model', run['model'])
  return dataclasses.replace(row, model=model, trained_on=row.scored_in)


def _subjects(rows: Sequence[Row]) -> list[Row]:
  """Rows that are not baselines themselves."""
  trained = [registry.spec(r.model) for r in rows if r.trained_on is not None]
  return [
    row
    for row in rows
    if row.trained_on is not None
    or (
      (spec := registry.spec(row.model)) not in trained
      and spec.partition('(')[0] not in (*_BOUNDS, *CEILINGS)
    )
  ]


def _is_copy(baseline: Row, row: Row) -> bool:
  """Does an untrained row equal a baseline?"""
  if registry.spec(row.model) != registry.spec(baseline.model):
    return False
  if registry.spec(row.scored_in) == registry.spec(baseline.scored_in):
    return True
  exact = baseline.name in CEILINGS
  return not exact and core.world.same_rules(row.scored_in, baseline.scored_in)


def _named(asked: Sequence[tuple[Row, str]], rows: Sequence[Row]) -> list[Row]:
  """Renames baselines so that no two rows share a name."""
  names = [baseline.name for baseline, _ in asked]
  taken = {row.name for row in rows}
  renamed = []
  for baseline, row_name in asked:
    name = baseline.name
    if names.count(name) > 1 or name in taken:
      name = f'{name}_{row_name}'
    while name in taken:
      name += '_'
    taken.add(name)
    renamed.append(dataclasses.replace(baseline, name=name))
  return renamed


def is_possible(baseline: Row) -> bool:
  """Can the baseline's model be built for its world?"""
  model: Any = baseline.model
  try:
    model.predictor(baseline.scored_in, 0)
  except core.InputError:
    return False
  return True
