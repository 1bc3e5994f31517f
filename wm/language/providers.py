"""Models whose answers are known, for Inspect: `--model=wm/solver` and others.

They test the way between a question and its score without a language model. A
prompt with the metadata of its sample comes in, or with that of a message, as
`wm.score` attaches it; a reply goes out. The task's module words it
(`known_answer`). A prompt without metadata is answered with UNKNOWN, which no
task takes for an answer.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import json
import math
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from inspect_ai.log import transcript
from inspect_ai.model import (
  ChatMessage,
  GenerateConfig,
  Logprob,
  Logprobs,
  ModelAPI,
  ModelOutput,
  ModelUsage,
  TopLogprob,
  modelapi,
)
from inspect_ai.tool import ToolChoice, ToolInfo
from inspect_ai.util import JSONSchema

from wm import core
from wm.core import queries
from wm.language import papers

UNKNOWN = 'No answer to this prompt is known.'
SURE = 0.999  # Probability that one who knows gives the first word.
CHARACTERS = 4  # A token, for usage; nothing is charged for it.
# Right; yes, everything and the first choice; a coin; right by what was so
# before a change.
ANSWERERS = 'oracle', 'always_yes', 'random', 'stale_map'
# Older names, which flagfiles and results have.
ALIASES = {'solver': 'oracle', 'yes': 'always_yes', 'old_map': 'stale_map'}


@dataclasses.dataclass
class Request:
  """A question put to a known answerer.

  Attributes:
    answerer: one of ANSWERERS.
    text: all messages but the model's own.
    turn: how many answers came before, from 0.
    metadata: of the sample.
    target: right answers of the sample, the first one or ''.
    draws: random numbers of 'random'.
  """

  answerer: str
  text: str
  turn: int
  metadata: Mapping[str, Any]
  target: str
  draws: random.Random

  @property
  def guesses(self) -> bool:
    """Is this 'always_yes' or 'random', which know nothing?"""
    return self.answerer in ('always_yes', 'random')

  def choice(self, choices: Sequence[Any]) -> Any:
    """The first choice of 'always_yes', or a random one."""
    if self.answerer == 'always_yes':
      return choices[0]
    return self.draws.choice(choices)

  def coin(self) -> bool:
    """True of 'always_yes', and half the time of 'random'."""
    return self.answerer == 'always_yes' or self.draws.random() < 0.5


def answer(request: Request) -> str:
  """A known answer to a question; UNKNOWN where there is none.

  The metadata of a sample names its `task`, and may leave out that of worlds.
  """
  if 'choices' in request.metadata:
    return about_world(request, request.metadata)
  default = 'world' if 'world' in request.metadata else ''
  task = str(request.metadata.get('task', default))
  if task == 'world':
    module = importlib.import_module('wm.language.world_task')
  elif paper := papers.paper_of(task):
    module = papers.load(paper, 'task')
  else:
    return UNKNOWN
  text: str | None = module.known_answer(request)
  return UNKNOWN if text is None else text


def about_world(request: Request, solution: Mapping[str, Any]) -> str:
  """An answer to a question about a world; see `llm_predictor.solutions`."""
  kind, choices = solution['kind'], solution['choices']
  if request.answerer in ('oracle', 'stale_map'):
    stale = request.answerer == 'stale_map'
    right: str = solution['stale' if stale else 'right']
    return right
  if kind == queries.YES_NO:
    return choices[0] if request.coin() else choices[1]
  if kind == queries.ALL_NEXT:
    listed = '; '.join(name for name in choices if request.coin())
    return f'Answer: {listed or core.verbal.NOTHING}'
  return f'Answer: {request.choice(choices)}'


def as_json(text: str, form: JSONSchema) -> Any:
  """An answer in words as its JSON schema has it."""
  words = text.removeprefix('Answer: ')
  if form.type == 'array':
    items = re.split(r'; |\n', words)
    assert isinstance(form.items, JSONSchema)
    items = [item for item in items if item != core.verbal.NOTHING]
    return [as_json(item, form.items) for item in items]
  return 'Yes' in words if form.type == 'boolean' else words


@modelapi(name='wm')
class KnownAnswers(ModelAPI):
  """`wm/oracle`, `wm/always_yes` and others; see ANSWERERS and ALIASES.

  A question that 'random' is asked again is answered anew; what it answers
  depends on the question, on how often it was asked, and on the seed.
  """

  def __init__(
    self,
    model_name: str,
    base_url: str | None = None,
    api_key: str | None = None,
    config: GenerateConfig = GenerateConfig(),  # noqa: B008 (Inspect's own)
    **others: Any,
  ) -> None:
    """See inspect_ai.model.ModelAPI; InputError: no such model."""
    super().__init__(model_name, base_url, api_key, [], config)
    self._answerer = ALIASES.get(model_name, model_name)
    if self._answerer not in ANSWERERS:
      raise core.InputError(
        f"unknown model 'wm/{model_name}'; available: "
        + ', '.join(f'wm/{name}' for name in (*ALIASES, *ANSWERERS))
      )
    if others:
      raise core.InputError(
        f'wm/{model_name} was given {", ".join(others)}; expected no arguments'
      )
    self._times: Counter[bytes] = Counter()

  def max_connections(self) -> int:
    """No limit: nothing is waited for."""
    return 1000

  async def generate(
    self,
    input: list[ChatMessage],
    tools: list[ToolInfo],
    tool_choice: ToolChoice,
    config: GenerateConfig,
  ) -> ModelOutput:
    """The known answer, with usage, and log-probabilities where asked for."""
    del tool_choice
    turns = [turn.text for turn in input if turn.role in ('system', 'user')]
    text = '\n\n'.join(turns)
    key = hashlib.sha256(text.encode('utf-8', 'replace')).digest()
    self._times[key] += 1
    words = (self.model_name, key.hex(), self._times[key], config.seed or 0)
    draws = random.Random(':'.join(map(str, words)))
    # The first event of a sample that is under way tells what it is.
    events = (x for x in transcript().events if x.event == 'sample_init')
    sample = next((event.sample for event in events), None)
    target = sample.target if sample else ''
    request = Request(
      self._answerer,
      text,
      sum(message.role == 'assistant' for message in input),
      input[-1].metadata or (sample and sample.metadata) or {},
      target if isinstance(target, str) else target[0],
      draws,
    )
    reply = answer(request)
    output = ModelOutput.from_content(self.model_name, reply)
    if schema := config.response_schema:
      form = (schema.json_schema.properties or {})['answer']
      structured = json.dumps({'answer': as_json(reply, form)})
      output = ModelOutput.from_content(self.model_name, structured)
    elif tools:
      arguments = {
        'answer': as_json(reply, tools[0].parameters.properties['answer'])
      }
      output = ModelOutput.for_tool_call(
        self.model_name, tools[0].name, arguments
      )
    output.choices[0].logprobs = (
      self._logprobs(reply) if config.logprobs else None
    )
    sizes = len(text) // CHARACTERS + 1, len(reply) // CHARACTERS + 1
    output.usage = ModelUsage(
      input_tokens=sizes[0], output_tokens=sizes[1], total_tokens=sum(sizes)
    )
    return output

  def _logprobs(self, reply: str) -> Logprobs | None:
    """Log-probabilities of the first word, if it is yes or no."""
    word = reply.rstrip('.')
    if word not in ('Yes', 'No'):
      return None
    sure = 0.5 if self.model_name == 'random' else SURE
    other = 'No' if word == 'Yes' else 'Yes'
    top = [
      TopLogprob(token=token, logprob=math.log(share))
      for token, share in ((word, sure), (other, 1 - sure))
    ]
    first = Logprob(token=word, logprob=math.log(sure), top_logprobs=top)
    return Logprobs(content=[first])
