"""Recorded answers about forces as logs of Inspect, a log for each model."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator, Sequence

import numpy as np
from inspect_ai.log import EvalSample
from inspect_ai.model import ChatMessageUser

from wm import core
from wm.language import pages, recorded_logs
from wm.language.papers.forces import questions
from wm.language.papers.forces import report as reports
from wm.language.papers.forces import score as scoring
from wm.language.papers.forces import task as tasks
from wm.language.papers.forces.questions import System
from wm.language.recorded_logs import RecordedLog

# Of the last commit of the published repository. Its record has no replies:
# they are written anew from the numbers that were read of them.
RECORD = recorded_logs.Record(
  'forces',
  tasks.VERSION,
  '2025-07-29T00:00:00+00:00',
  'github.com/keyonvafa/inductive-bias-probes, MIT',
)
ANSWERS = 'llm-predictions'


def rescore(folder: str | pathlib.Path) -> pages.AnswersPage:
  """The page of the record, with a search for the laws that answers follow."""
  scored = [log.scored() for log in logs(folder)]
  return reports.page(scored, nodes=reports.NODES)


def logs(folder: str | pathlib.Path) -> Iterator[RecordedLog]:
  """A log for each model, in order of their names.

  folder: with 'llm-prompts' and 'llm-predictions', as published.

  Raises:
    InputError: there is no model, or a file is missing or damaged.
  """
  systems = questions.load(pathlib.Path(folder))
  place = str(pathlib.Path(folder) / questions.PROMPTS)
  names = [system.name for system in systems]
  prompts = [
    questions.prompt('origin', system, place, names) for system in systems
  ]
  for model, answers in load(pathlib.Path(folder), systems).items():
    yield RecordedLog(
      RECORD,
      model,
      [
        _sample(model, *asked)
        for asked in zip(systems, prompts, answers, strict=True)
      ],
      tasks.forces_scorer(),
      f'forces-published-{model}',
    )


def load(
  folder: pathlib.Path, systems: Sequence[System]
) -> dict[str, list[scoring.ForceReply]]:
  """Model -> its recorded answer about each system.

  Raises:
    InputError: there is no model, or an answer is missing or no JSON object.
  """
  models = sorted(
    path.name for path in (folder / ANSWERS).glob('*') if path.is_dir()
  )
  if not models:
    raise core.InputError(
      f'{folder}: no folder of a model in {ANSWERS}; expected '
      f'{ANSWERS}/MODEL/0.json and so on'
    )
  return {
    model: [
      scoring.load_answer(
        folder / ANSWERS / model / f'{system.name}.json', len(system.force)
      )
      for system in systems
    ]
    for model in models
  }


def _sample(
  model: str, system: System, prompt: str, answer: scoring.ForceReply
) -> EvalSample:
  force = {
    step: value
    for step, value in enumerate(answer.force.tolist())
    if not np.isnan(value)
  }
  return recorded_logs.sample(
    f'{questions.PUBLISHED}-{system.name}',
    [ChatMessageUser(content=prompt)],
    f'ANSWER: {json.dumps(force)}',
    model=model,
    target=json.dumps(system.force.tolist()),
    metadata={'variant': questions.PUBLISHED, **tasks.stored(system)},
  )
