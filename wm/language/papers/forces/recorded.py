"""Recorded answers about forces, of the published repository."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from wm import core
from wm.language import pages
from wm.language.papers import reports as papers
from wm.language.papers.forces import questions
from wm.language.papers.forces import report as reports
from wm.language.papers.forces import score as scoring
from wm.language.papers.forces.questions import System

ANSWERS = 'llm-predictions'


def rescore(folder: str | pathlib.Path) -> pages.AnswersPage:
  """The page of the record.

  folder: with 'llm-prompts' and 'llm-predictions', as published.

  Raises:
    InputError: there is no model, or a file is missing or damaged.
  """
  place = pathlib.Path(folder)
  systems = questions.load(place)
  answers = load(place, systems)
  forces = {
    model: [reply.force for reply in replies]
    for model, replies in answers.items()
  }
  content = reports.of_systems(questions.PUBLISHED, systems, forces)
  unread = papers.unread(
    {'model': model, 'failure': reply.failure}
    for model, replies in answers.items()
    for reply in replies
  )
  return content._replace(tables=[*content.tables, *unread])


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
