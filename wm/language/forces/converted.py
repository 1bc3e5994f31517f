"""Recorded answers about forces as logs of Inspect, a log for each model."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator

import numpy as np
from inspect_ai.log import EvalLog, EvalSample
from inspect_ai.model import (
  ChatMessageAssistant,
  ChatMessageUser,
  ModelOutput,
  ModelUsage,
)

from wm.language import replayed
from wm.language.forces import prompts, reading, recorded, systems, tasks
from wm.language.forces.systems import System

# Of the last commit of the published repository. Its record has no replies:
# they are written anew from the numbers that were read of them.
CREATED = '2025-07-29T00:00:00+00:00'
SOURCE = 'github.com/keyonvafa/inductive-bias-probes, MIT'


def logs(folder: str | pathlib.Path) -> Iterator[EvalLog]:
  """A scored log for each model, in order of their names.

  Raises:
    InputError: a file is missing or damaged.
  """
  place = pathlib.Path(folder)
  shown = systems.load(place)
  for model, said in recorded.load(place, shown).items():
    samples = [
      _sample(model, one, answer)
      for one, answer in zip(shown, said, strict=True)
    ]
    yield replayed.log(
      f'forces-published-{model}',
      samples,
      tasks.forces_scorer(),
      task='forces',
      version=tasks.VERSION,
      model=model,
      created=CREATED,
      source=SOURCE,
      dataset='forces-published',
    )


def _sample(model: str, one: System, said: reading.Said) -> EvalSample:
  force = {
    step: value
    for step, value in enumerate(said.force.tolist())
    if not np.isnan(value)
  }
  reply = f'ANSWER: {json.dumps(force)}'
  output = ModelOutput.from_content(model, reply)
  output.usage = ModelUsage()
  prompt = prompts.published(one)
  return EvalSample(
    id=f'published-{one.name}',
    epoch=1,
    input=prompt,
    target=json.dumps(one.force.tolist()),
    messages=[
      ChatMessageUser(content=prompt),
      ChatMessageAssistant(content=reply),
    ],
    output=output,
    metadata={'variant': 'published', **tasks.stored(one)},
  )
