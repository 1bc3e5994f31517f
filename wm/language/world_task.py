"""Inspect's task `wm/world`: asks a language model about any world in words.

    inspect eval wm/world -T world='maps(rows=4,columns=5)' --model=wm/solver

Options come in (`WorldOptions`); a task goes out, with a sample for each
question and a scorer of the answers. `world_questions` makes the questions and
turns answers into the values of metrics; `logs` makes results of the logs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import GenerateConfig, ResponseSchema
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
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import ToolDef, ToolFunction, ToolParams
from inspect_ai.util import JSONSchema

from wm import core
from wm.core import fields, queries, verbal
from wm.core.fields import field
from wm.core.queries import Query
from wm.language import llm_predictor, provider, providers, world_questions
from wm.language.answers import replies
from wm.language.inspect_tasks import listed, numbers, stderr, with_options
from wm.language.models import language

VERSION = 2  # 1 had several wordings.


@fields.documented
@dataclasses.dataclass(frozen=True)
class WorldOptions:
  """What a language model is asked about a world, and how.

  Attributes:
    max_calls: of each metric and variant: whole trials are left out where it
      would ask more; 0: more than 1,000 are refused.
    form: of answers: 'text'; 'schema', a JSON object of a schema that the
      provider holds the model to; 'tool', the arguments of a tool.
    before: spec of a world of the same tokens that is told first, as what held
      before the world asked about took its place.
  """

  world: str = field(
    'maps(rows=4, columns=5)', 'spec of a world that can be told in words'
  )
  metrics: str = field(
    '', "specs, divided by semicolons; '' is all that can be asked"
  )
  names: str = field(
    '0', 'seeds of names and order, divided by commas; 0 is as they are'
  )
  seed: int = field(0, 'of all other randomness')
  max_calls: int = 0
  max_tokens: int = field(8192, 'most tokens of an answer', least=1)
  logprobs: bool = field(False, 'ask for log-probabilities, which give P(yes)')
  read: str = field(
    'text',
    "'logprobs' is yes where it is the likelier as first token",
    choices=('text', 'logprobs'),
  )
  form: str = field('text', 'of answers', choices=('text', 'schema', 'tool'))
  most_told: int = field(
    verbal.MAX_TOKENS, 'tokens of the world in words, at most'
  )
  before: str = ''

  def __post_init__(self) -> None:
    fields.check(self)
    if self.form != 'text' and self.read != 'text':
      raise core.InputError(
        f"form={self.form!r} with log-probabilities; expected read='text'"
      )


@task
@with_options
def world(options: WorldOptions) -> Task:
  """Asks whether a language model has the model of a world."""
  asked = world_questions.settings(
    world_questions.Setting(
      options.world,
      tuple(listed(options.metrics, ';')),
      options.seed,
      names=0,
      most_told=options.most_told,
      before=options.before,
      form=options.form,
    ),
    numbers(options.names, 'names') or [0],
    options.max_calls,
  )
  logs = options.logprobs or options.read == 'logprobs'
  return Task(
    dataset=MemoryDataset(samples_of(asked), name=options.world),
    solver=asks(),
    scorer=answers(options.read),
    config=GenerateConfig(
      max_tokens=options.max_tokens,
      logprobs=logs or None,
      top_logprobs=language.ALTERNATIVES if logs else None,
    ),
    fail_on_error=False,
    score_on_error=True,
    version=VERSION,
  )


def answer_schema(question: Query, names: Sequence[str]) -> JSONSchema:
  """The JSON schema of an answer; names: of all tokens, by id."""
  if question.kind == queries.YES_NO:
    each = JSONSchema(type='boolean')
  else:
    each = JSONSchema(
      type='string', enum=llm_predictor.choices(question, names)
    )
  if question.kind == queries.ALL_NEXT:
    return JSONSchema(type='array', items=each)
  return each


@solver
def asks() -> Solver:
  """Asks for an answer in the form of a sample's setting."""

  async def solve(state: TaskState, generate: Generate) -> TaskState:
    """Asks one question."""
    setting, question, _ = world_questions.restored(state.metadata)
    if setting.form == 'text':
      return await generate(state)
    world = world_questions.made_world(setting.world)
    form = answer_schema(question, world.token_names(setting.style))
    if setting.form == 'schema':
      whole = JSONSchema(
        type='object',
        properties={'answer': form},
        required=['answer'],
        additionalProperties=False,
      )
      schema = ResponseSchema(name='answer', json_schema=whole, strict=True)
      return await generate(state, response_schema=schema)
    form.description = 'the answer'  # Inspect asks for one.
    parameters = ToolParams(properties={'answer': form}, required=['answer'])
    state.tools = [
      ToolDef(_submitted, 'submit', 'Submits the answer.', parameters)
    ]
    state.tool_choice = ToolFunction(name='submit')
    return await generate(state, tool_calls='none')

  return solve


async def _submitted(answer: Any) -> str:
  # Never called: the arguments are read.
  return str(answer)


def samples_of(
  asked: Iterable[tuple[world_questions.Setting, list[tuple[Query, str]]]],
) -> list[Sample]:
  """A sample for each question of settings; see `world_questions.settings`."""
  samples: list[Sample] = []
  for setting, questions in asked:
    world = world_questions.made_world(setting.world)
    truths = queries.truths(world, [question for question, _ in questions])
    for (question, trial), truth in zip(questions, truths, strict=True):
      truth = world_questions.to_json(truth)
      samples.append(
        Sample(
          id=len(samples) + 1,
          input=question.prompt,
          target=str(truth),
          metadata=world_questions.metadata(setting, question, truth, trial),
        )
      )
  return samples


@metric
def measured() -> Metric:
  """The values of the plan's metrics; of several epochs the first.

  Names end in _sd where it is the standard deviation over variants.
  """

  def compute(scores: list[SampleScore]) -> Value:
    """Measures all samples of a log."""
    record = world_questions.gathered(
      (
        each.sample_metadata or {},
        world_questions.answer_from_json(each.score.metadata or {}),
      )
      for each in scores
    )
    return {**world_questions.headline_values(record)}

  return compute


@scorer(
  metrics=[
    {
      'answered': [mean()],
      'right_all': [mean(), stderr(cluster='trial')],
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
  left out of means; `right_all` takes unread replies for wrong. Standard
  errors are clustered by trial. Characters of reasoning, which is not read, are
  in the metadata.
  """

  async def score(state: TaskState, target: Target) -> Score:
    """Scores one answer."""
    del target
    setting, question, truth = world_questions.restored(state.metadata)
    reply = provider.read(state.output)
    reader = world_questions.reader(setting)
    answer = llm_predictor.answer(
      question, reply, reader.read, read == 'logprobs'
    )
    thought = reply.reasoning + replies.visible(reply.text).reasoning
    stored = world_questions.answer_to_json(answer)
    return Score(
      value=world_questions.worth(answer, world_questions.from_json(truth)),
      answer=answer.failure or str(stored['value']),
      metadata={**stored, 'reasoning': thought},
    )

  return score


def known_answer(request: providers.Request) -> str | None:
  """See providers.answer."""
  setting, question, _ = world_questions.restored(request.metadata)
  before = (
    world_questions.made_world(setting.before) if setting.before else None
  )
  (solution,) = llm_predictor.solutions(
    world_questions.made_world(setting.world),
    setting.style,
    before,
    [question._replace(prompt=request.text)],
  )
  return providers.about_world(request, solution)
