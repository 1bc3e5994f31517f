"""Inspect's task `wm/forces`."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer
from inspect_ai.solver import TaskState, generate

from wm.language import providers
from wm.language.answers import replies
from wm.language.inspect_tasks import stderr, with_options
from wm.language.papers.forces import questions
from wm.language.papers.forces import score as scoring
from wm.language.papers.forces.questions import System

VERSION = 2  # 1 had the authors' words.


@task
@with_options
def forces(options: questions.ForceOptions) -> Task:
  """Forces on a planet at every step, from those that are told at some."""
  variant = questions.PUBLISHED if options.prompts else options.variant
  samples = [
    Sample(
      id=f'{variant}-{system.name}',
      input=prompt,
      target=json.dumps(system.force.tolist()),
      metadata={'variant': variant, **stored(system)},
    )
    for prompt, system in questions.questions(options)
  ]
  return Task(
    dataset=MemoryDataset(samples, name=f'forces-{variant}'),
    solver=generate(),
    scorer=forces_scorer(),
    version=VERSION,
  )


def stored(system: System) -> dict[str, Any]:
  """A system as JSON values; `restored` reads them."""
  values = {
    name: value.tolist() if isinstance(value, np.ndarray) else value
    for name, value in system._asdict().items()
  }
  names = {'system': values.pop('name'), 'told': values.pop('told_steps')}
  return {'task': 'forces', **names, **values}


def restored(metadata: dict[str, Any]) -> System:
  """The system of a sample's metadata; KeyError where it has none."""
  names = 'places', 'distance', 'force', 'sun'
  arrays = {name: np.array(metadata[name], np.float64) for name in names}
  return System(
    name=metadata['system'],
    told_steps=np.array(metadata['told'], np.int64),
    planet=float(metadata['planet']),
    star=float(metadata['star']),
    **{**arrays, 'places': arrays['places'].reshape(-1, 2)},
  )


@scorer(metrics={'*': [mean(), stderr(cluster='system')]})
def forces_scorer() -> Scorer:
  """`scoring.scores`, and whether there was nothing to read.

  NaN where there is nothing to score, which Inspect leaves out of its means;
  standard errors are clustered by system, so that epochs are not independent.
  """

  async def score(state: TaskState, target: Target) -> Score:
    """Scores one reply."""
    del target
    system = restored(state.metadata)
    reply = scoring.read(state.output.completion, len(system.force))
    failure = replies.cause(reply.failure, state.output.stop_reason)
    values = scoring.scores(reply.force, system)
    unread = not np.isfinite(reply.force).any()
    return Score(
      value={**values, 'unread': float(unread)},
      answer=failure or 'read',
      metadata={
        'said': [None if np.isnan(x) else x for x in reply.force.tolist()],
        'failure': failure,
        'strange': reply.strange,
        'reasoning': reply.reasoning,
      },
    )

  return score


def known_answer(request: providers.Request) -> str:
  """Forces at all steps by Newton's law, or forces that were told.

  A prompt is taken at its word where it has the sun at the origin. Where no
  force of a system is told, its law is known from the others.
  """
  system = restored(dict(request.metadata))
  shown = system._replace(
    places=system.places.round(2), sun=system.sun.round(2)
  )
  force = system.force
  if request.guesses:
    choices = force[
      system.told_steps if len(system.told_steps) else slice(None)
    ].tolist()
    force = np.array([request.choice(choices) for _ in force])
  elif request.metadata['variant'] in questions.AT_ORIGIN:
    force = scoring.newton_origin(shown)
  elif len(system.told_steps):
    force = scoring.newton_true(shown)
  listed = ',\n'.join(
    f'{n}: {value!r}' for n, value in enumerate(force.tolist())
  )
  return f'ANSWER: {{{listed}}}'
