"""Baselines and ceilings that a study scores beside its models.

Beside what is trained stand who knows nothing (untrained weights, a uniform
guesser), who knows the rules (the oracle), and two ceilings, who know the rules
and the sampler that trained the model: the Bayes predictor, which takes nothing
for possible that the sampler never draws, and the Bayes predictor that plans
again from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import registry
from wm.core.measure import lacks

REPLANNING = "bayes(off='replan')"
CEILINGS = {'bayes': 'bayes()', 'bayes_replanning': REPLANNING}
_BOUNDS = {'uniform': 'uniform()', 'oracle': 'oracle()'}
_WALKS, _STEPS = 32, 64  # By which rules are compared.


class Scored(NamedTuple):
  """A row of a study, as far as baselines go by it.

  Attributes:
    name: of the row.
    model: that is scored.
    world: in which it is scored.
    trained: whether it is trained, here or before.
    names: whether it is trained to name states; untrained it names none.
  """

  name: str
  model: core.Model
  world: core.World
  trained: bool = False
  names: bool = False


class _Asked(NamedTuple):
  """A baseline that a row asks for: its name, and the row's after it."""

  name: str
  row: str
  model: core.Model
  world: core.World


def same_rules(first: core.World, second: core.World, seed: int = 0) -> bool:
  """Whether two worlds have one vocabulary, one length and the same rules.

  The rules are compared on random walks, whoever samples the sequences.
  """
  sizes = [(w.vocab, w.end, w.max_len, w.prompt_len) for w in (first, second)]
  if type(first) is not type(second) or sizes[0] != sizes[1]:
    return False
  if registry.spec(first) == registry.spec(second):
    return True
  draw = np.random.default_rng(seed)
  states, others = first.init(_WALKS), second.init(_WALKS)
  for _ in range(min(_STEPS, first.max_len)):
    legal = first.legal(states)
    if not np.array_equal(legal, second.legal(others)):
      return False
    alive = legal.any(-1)
    if not alive.any():
      break
    states, others, legal = states[alive], others[alive], legal[alive]
    tokens = (draw.random(legal.shape) * legal).argmax(-1).astype(np.int32)
    states, others = (
      first.advance(states, tokens),
      second.advance(others, tokens),
    )
  return True


def added(
  rows: Sequence[Scored], metrics: Sequence[core.Metric]
) -> tuple[list[Scored], list[str]]:
  """Baselines that rows lack, and why others cannot be had.

  An untrained model for each architecture and rules, a uniform guesser and an
  oracle for each rules, both ceilings for each world. A baseline is called as
  what it is, 'bayes'; where there are several, the row that it is for follows,
  'bayes_walks'.

  Args:
    rows: all rows of a study.
    metrics: that they are scored by; what none can measure is left out.

  Returns:
    The baselines, in the order of the rows, and a line for each that a world
    does not have.
  """
  asked: list[_Asked] = []
  reasons: dict[str, None] = {}
  for row in _subjects(rows):
    can_be_untrained = isinstance(row.model, core.Trainable) and not row.names
    if row.trained and can_be_untrained:
      asked.append(_Asked('untrained', row.name, row.model, row.world))
    for name, spec in _BOUNDS.items():
      model: core.Model = registry.make('model', spec)
      asked.append(_Asked(name, row.name, model, row.world))
    for name, spec in CEILINGS.items():
      ceiling = _ceiling(spec, row.world)
      if isinstance(ceiling, str):
        reasons[ceiling] = None
      else:
        asked.append(_Asked(name, row.name, ceiling, row.world))
  asked = [
    baseline
    for baseline in asked
    if not all(
      lacks(metric, baseline.model.gives[0], type(baseline.world))
      for metric in metrics
    )
  ]
  return _named(_without_copies(asked, rows), rows), [*reasons]


def _subjects(rows: Sequence[Scored]) -> list[Scored]:
  """Rows that are no baselines themselves."""
  trained = [registry.spec(row.model) for row in rows if row.trained]
  return [
    row
    for row in rows
    if row.trained
    or (
      registry.spec(row.model) not in trained
      and registry.spec(row.model).partition('(')[0]
      not in (*_BOUNDS, *CEILINGS)
    )
  ]


def _ceiling(spec: str, world: core.World) -> core.Model | str:
  """A ceiling of a world, or why it has none."""
  if not isinstance(world, core.Generative):
    return f'No ceiling: {core.capabilities.lacks_law(type(world))}.'
  try:
    model: core.Model = registry.make('model', spec)
  except core.InputError as error:
    return f'No {spec}: {error}'
  return model


def _without_copies(
  asked: Sequence[_Asked], rows: Sequence[Scored]
) -> list[_Asked]:
  """Those that neither a row nor an earlier one is already."""
  taken = [(row.model, row.world) for row in rows if not row.trained]
  left = []
  for baseline in asked:
    exact = baseline.name in CEILINGS
    spec, world = registry.spec(baseline.model), registry.spec(baseline.world)
    if not any(
      registry.spec(model) == spec
      and (
        registry.spec(other) == world
        or (not exact and same_rules(other, baseline.world))
      )
      for model, other in taken
    ):
      left.append(baseline)
      taken.append((baseline.model, baseline.world))
  return left


def _named(asked: Sequence[_Asked], rows: Sequence[Scored]) -> list[Scored]:
  """Baselines under names that no row has."""
  names = [baseline.name for baseline in asked]
  taken = {row.name for row in rows}
  renamed = []
  for baseline in asked:
    name = baseline.name
    if names.count(name) > 1 or name in taken:
      name = f'{name}_{baseline.row}'
    while name in taken:
      name += '_'
    taken.add(name)
    renamed.append(Scored(name, baseline.model, baseline.world))
  return renamed


def refused(model: core.Model, world: core.World) -> str:
  """Why a world does not have a baseline; '' where it does."""
  try:
    model.predictor(world, 0)
  except core.InputError as error:
    return str(error)
  return ''
