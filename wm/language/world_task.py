"""Inspect's task `wm/world`: what launch/score.py asks a language model."""

from __future__ import annotations

from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import GenerateConfig
from inspect_ai.scorer import (
  Metric,
  SampleScore,
  Score,
  Scorer,
  Target,
  Value,
  grouped,
  mean,
  metric,
  scorer,
)
from inspect_ai.solver import TaskState, generate

from wm import core
from wm.core import queries, verbal
from wm.language import arguments, providers
from wm.language.arguments import Text
from wm.language.metrics import stderr
from wm.models.serving import llm_predictor, provider, replies

VERSION = 1


@task
@arguments.in_one_line
def world(
  world: Text = 'maps(rows=4, columns=5)',
  metrics: Text = '',
  told: Text = verbal.RULES,
  wording: Text = '',
  names: Any = 0,
  seed: int = 0,
  max_calls: int = 0,
  max_tokens: int = 1024,
  logprobs: bool = False,
  read: str = 'text',
  most_told: int = verbal.MAX_TOKENS,
  before: Text = '',
) -> Task:
  """Asks whether a language model has the model of a world.

  Args:
    world: spec of a world that can be told in words.
    metrics: specs, divided by semicolons; '' is all that can be asked.
    told: 'rules', or 'walks(n)'.
    wording: of the world's, divided by commas; '' is its first, 'all' is all.
    names: seeds of names and order, divided by commas; 0 is as they are.
    seed: of all other randomness.
    max_calls: of each metric and variant: whole trials are left out where it
      would ask more; 0: more than 1,000 are refused.
    max_tokens: most tokens of an answer.
    logprobs: ask for log-probabilities, which give P(yes).
    read: 'text', or 'logprobs': yes where it is the likelier as first token.
    most_told: tokens of the world in words, at most.
    before: spec of a world of the same tokens that is told first, as what held
      before the world asked about took its place.
  """
  from wm.language import world_questions

  if read not in ('text', 'logprobs'):
    raise core.InputError(f"read={read!r}; available: 'text', 'logprobs'")
  samples: list[Sample] = []
  for setting, listed in world_questions.settings(
    arguments.joined(world),
    arguments.listed(metrics),
    told=arguments.joined(told),
    wordings=arguments.joined(wording).split(','),
    names=arguments.integers(names, 'names'),
    seed=seed,
    max_calls=max_calls,
    most_told=most_told,
    before=arguments.joined(before),
  ):
    told_world = world_questions.made_world(setting.world)
    truths = queries.truths(told_world, [question for question, _ in listed])
    for (question, trial), truth in zip(listed, truths, strict=True):
      truth = world_questions.to_json(truth)
      samples.append(
        Sample(
          id=len(samples) + 1,
          input=question.prompt,
          target=str(truth),
          metadata=world_questions.metadata(setting, question, truth, trial),
        )
      )
  logs = logprobs or read == 'logprobs'
  return Task(
    dataset=MemoryDataset(samples, name=arguments.joined(world)),
    solver=generate(),
    scorer=answers(read),
    config=GenerateConfig(
      max_tokens=max_tokens,
      logprobs=logs or None,
      top_logprobs=provider.ALTERNATIVES if logs else None,
    ),
    fail_on_error=False,
    score_on_error=True,
    version=VERSION,
  )


@metric
def measured() -> Metric:
  """The values of the plan's metrics; of several epochs the first.

  Names end in _sd where it is the standard deviation over variants.
  """

  def compute(scores: list[SampleScore]) -> Value:
    """Measures all samples of a log."""
    from wm.language import world_questions

    answered = world_questions.gathered(
      (
        each.sample_metadata or {},
        world_questions.answer_from_json(each.score.metadata or {}),
      )
      for each in scores
    )
    return {**world_questions.headline_values(answered)}

  return compute


@scorer(
  metrics=[
    {
      'answered': [mean()],
      'right': [
        mean(),
        stderr(cluster='trial'),
        grouped(mean(), 'kind', all=False),
      ],
      'probability': [mean(), stderr(cluster='trial')],
    },
    measured(),
  ]
)
def answers(read: str = 'text') -> Scorer:
  """Reads answers and holds them against the world.

  `right` and `probability` are NaN where there is no answer, or no P(yes), and
  left out of means; standard errors are clustered by trial. Characters of
  reasoning, which is not read, are in the metadata.
  """

  async def score(state: TaskState, target: Target) -> Score:
    """Scores one answer."""
    from wm.language import world_questions

    del target
    setting, question, truth = world_questions.restored(state.metadata)
    reply = provider.read(state.output)
    answer = llm_predictor.answer(
      question,
      reply,
      world_questions.reader(setting).read,
      read == 'logprobs',
    )
    thought = reply.reasoning + replies.visible(reply.text).reasoning
    return Score(
      value=world_questions.worth(
        question, answer, world_questions.from_json(truth)
      ),
      answer=answer.failure or str(world_questions.to_json(answer.value)),
      metadata={**world_questions.answer_to_json(answer), 'reasoning': thought},
    )

  return score


def known_answer(request: providers.Request) -> str | None:
  """See providers.answer."""
  from wm.language import world_questions
  from wm.models.serving import llm_predictor

  setting, question, _ = world_questions.restored(request.metadata)
  before = (
    world_questions.made_world(setting.before) if setting.before else None
  )
  (solution,) = llm_predictor.solutions(
    world_questions.made_world(setting.world),
    setting.telling,
    before,
    [question._replace(prompt=request.text)],
  )
  return providers.about_world(request, solution)
