"""CogEval's recorded conversations as logs of Inspect.

A log for each model holds the conversations whose text there is, as the task
`wm/cogeval` makes them: `inspect view` shows them, and `inspect score` scores
them. The authors' score stands beside, as the scorer `recorded`.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog, EvalSample
from inspect_ai.model import (
  ChatMessage,
  ChatMessageAssistant,
  ChatMessageSystem,
  ChatMessageUser,
  ModelOutput,
  ModelUsage,
)
from inspect_ai.scorer import Score

from wm.language import replayed
from wm.language.cogeval import conversations, prompts, tasks
from wm.language.cogeval.conversations import Conversation

# Of the last commit of the published repository.
CREATED = '2023-12-29T00:00:00+00:00'
_ROLES: dict[str, type[Any]] = {
  's': ChatMessageSystem,
  'u': ChatMessageUser,
  'a': ChatMessageAssistant,
}


def logs(folder: str | pathlib.Path) -> Iterator[EvalLog]:
  """A scored log for each model, in order of their names.

  Raises:
    InputError: a file is missing or damaged.
  """
  place = pathlib.Path(folder)
  known = {asked.key: asked for asked in conversations.load(place)}
  found: dict[str, list[EvalSample]] = {}
  for row in conversations.rows(place / conversations.SAMPLE):
    key = conversations.key_of(row)
    if key in known and row['prompt_version'] == conversations.AUDITED:
      sample = converted(known[key], row)
      found.setdefault(known[key].model, []).append(sample)
  for model in sorted(found):
    yield log(model, found[model])


def log(model: str, samples: list[EvalSample]) -> EvalLog:
  """A scored log of one model's conversations."""
  return replayed.log(
    f'cogeval-{model}',
    samples,
    tasks.planned(),
    task='cogeval',
    version=tasks.VERSION,
    model=model,
    created=CREATED,
    source='github.com/cogeval/cogmaps, MIT',
  )


def converted(asked: Conversation, row: dict[str, Any]) -> EvalSample:
  """One conversation: all turns before the last answer are what was put."""
  put: list[ChatMessage] = [
    _ROLES[role](content=text) for role, text in row['messages']
  ]
  made: Sample = tasks.sample(
    asked.question, prompts.PLAIN, asked.temperature, asked.repeat
  )
  metadata = dict(made.metadata or {}) | {
    'second': '',  # It has been put.
    'recorded': asked.recorded,
    'expected': list(asked.expected),
    'key_status': asked.key_status,
  }
  output = ModelOutput.from_content(asked.model, asked.answer)
  output.usage = ModelUsage()
  scores = {}
  if asked.recorded is not None:
    scores['recorded'] = Score(value=asked.recorded)
  return EvalSample(
    id=str(made.id),
    epoch=1,
    input=put,
    target=made.target,
    messages=[*put, ChatMessageAssistant(content=asked.answer)],
    output=output,
    metadata=metadata,
    scores=scores,
  )
