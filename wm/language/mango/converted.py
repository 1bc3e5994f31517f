"""RWKV's recorded answers as logs of Inspect.

A log for each model and kind of question, as the tasks `wm/mango_destination`
and `wm/mango_route` make them: `inspect view` shows them, and `inspect score`
scores them. The prompts' walkthroughs were not recorded, so that an input is
the question alone.
"""

from __future__ import annotations

import pathlib
from collections.abc import Collection, Iterator, Sequence

from inspect_ai.log import EvalLog, EvalSample
from inspect_ai.model import (
  ChatMessageAssistant,
  ChatMessageUser,
  ModelOutput,
  ModelUsage,
)

from wm.language import replayed
from wm.language.mango import prompts, recorded, scorers, tasks
from wm.worlds.text_game import maze as mazes

CREATED = '2023-06-30T00:00:00+00:00'


def logs(
  folder: str | pathlib.Path, games: Collection[str] = ()
) -> Iterator[EvalLog]:
  """A scored log for each model and kind of question, in order of the file.

  games: only these; default all.

  Raises:
    InputError: a file is missing or damaged.
  """
  place = pathlib.Path(folder)
  records = recorded.rwkv(place, games)
  apart: dict[tuple[str, str], list[recorded.Recorded]] = {}
  for one in records.answers:
    apart.setdefault((one.model, one.asked.kind), []).append(one)
  for (model, kind), some in apart.items():
    yield log(model, kind, some, str(place / recorded.PAPER))


def log(
  model: str, kind: str, some: Sequence[recorded.Recorded], folder: str
) -> EvalLog:
  """A scored log of one model's answers; folder: of the maps."""
  return replayed.log(
    f'mango_{kind}-{model}',
    [converted(one, number) for number, one in enumerate(some)],
    scorers.mango_scorer(folder),
    task=f'mango_{kind}',
    version=tasks.VERSION,
    # The setting -S is of samples: see mango.logs.
    model=model.removesuffix('-S'),
    created=CREATED,
    source='github.com/Oaklight/mango',
    args={'folder': folder, 'generation': 'camera_ready'},
  )


def converted(one: recorded.Recorded, number: int) -> EvalSample:
  """One answer; number: tells the answers to one question apart."""
  style = prompts.Style(
    'camera_ready', 'simple' if one.model.endswith('-S') else 'full'
  )
  put = ChatMessageUser(content=prompts.question(one.asked.question, style))
  output = ModelOutput.from_content(one.model, one.text)
  output.usage = ModelUsage()
  return EvalSample(
    id=f'{number}/{one.asked.game}/{one.asked.key}',
    epoch=1,
    input=[put],
    target=one.asked.question.target,
    messages=[put, ChatMessageAssistant(content=one.text)],
    output=output,
    metadata=tasks.metadata(one.asked, mazes.LAST, style),
    scores={},
  )
