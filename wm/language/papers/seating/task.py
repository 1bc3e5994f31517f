"""Inspect's task `wm/seating`: the questions of `score`, asked and scored.

It is `wm/world` on the seating puzzle as the paper puts it: samples, scores and
known answers are those of `wm.language.world_task`.
"""

from __future__ import annotations

import math

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset
from inspect_ai.model import GenerateConfig
from inspect_ai.scorer import (
  Metric,
  SampleScore,
  Score,
  Scorer,
  Target,
  Value,
  mean,
  metric,
  scorer,
)
from inspect_ai.solver import TaskState, generate

from wm.core import queries
from wm.core.queries import Answer, Query
from wm.language import (
  llm_predictor,
  provider,
  providers,
  world_questions,
  world_task,
)
from wm.language.inspect_tasks import stderr, with_options
from wm.language.papers.seating import prompts
from wm.language.papers.seating import score as scoring
from wm.language.papers.seating.score import Protocol

VERSION = 2  # 1 had samples of its own form.
LONGEST = {'published': 1000, 'corrected': 8192}  # Tokens of a reply.


@task
@with_options
def seating(protocol: Protocol) -> Task:
  """Capability, compression and distinction on seating puzzles (figure 4)."""
  samples = world_task.samples_of(protocol.settings())
  for sample in samples:
    sample.metadata = {'task': 'seating', **(sample.metadata or {})}
  return Task(
    dataset=MemoryDataset(samples, name='seating'),
    solver=generate(),
    scorer=seating_scorer(protocol.strict),
    config=GenerateConfig(
      temperature=0.0, max_tokens=LONGEST[protocol.variant]
    ),
    version=VERSION,
  )


@metric(scores='unreduced')
def figure_4() -> Metric:
  """The bars of figure 4, their 95 % intervals, and shares of unread replies.

  Of several replies to a question, that counts which most agree on; a tie is
  no answer.
  """

  def compute(scores: list[SampleScore]) -> Value:
    """The bars and shares, NaN where nothing was measured."""
    pairs = world_task.answered(scores)
    bars = scoring.bars(world_questions.gathered(pairs))
    values = {f'unread_{k}': x for k, x in scoring.unread(pairs).items()}
    for name, bar in bars.items():
      for end, key in (('', 'value'), ('_low', 'low'), ('_high', 'high')):
        values[name + end] = math.nan if bar[key] is None else bar[key]
      values[f'{name}_n'] = bar['n']
    return values

  return compute


@scorer(
  metrics=[
    {
      'answered': [mean(), stderr(cluster='trial')],
      'right': [mean(), stderr(cluster='trial')],
      'right_all': [mean(), stderr(cluster='trial')],
    },
    figure_4(),
  ]
)
def seating_scorer(strict: bool = False) -> Scorer:
  """Is a reply right, and can it be read? See `wm.language.world_task.answers`.

  strict: see `score.seat`.
  """

  async def score(state: TaskState, target: Target) -> Score:
    """Scores one reply."""
    del target
    _, question, truth = world_questions.restored(state.metadata)
    reply = provider.read(state.output)

    def read(question: Query, text: str) -> Answer:
      return scoring.read(question, text, truth, strict)

    answer = llm_predictor.answer(question, reply, read)
    return world_task.score_of(question, reply, answer, truth)

  return score


def known_answer(request: providers.Request) -> str:
  """A verdict or a seat, as the published program reads it."""
  answer = str(world_task.known_answer(request))
  if request.metadata['kind'] == queries.YES_NO:
    return f'{prompts.KEYWORD}: {answer.lower()}'
  return f'{prompts.KEYWORD}: {answer.rpartition(" ")[2]}'
