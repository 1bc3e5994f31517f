"""Known answers as providers of Inspect: `--model wm/solver` and the like.

They read nothing but the prompt, so they test what is asked, how replies are
read, and the way between, and run wherever a language model does. Prompts that
no reader knows are answered with UNREAD, which no task takes for an answer.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from inspect_ai.model import (
  ChatCompletionChoice,
  ChatMessage,
  ChatMessageAssistant,
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

from wm import core
from wm.language.readers import asked as askeds
from wm.language.readers import (
  forces,
  labels,
  mango,
  minigames,
  planners,
  seatings,
  worlds,
)

UNREAD = 'This prompt is of no kind that is read here.'
SURE = 0.999  # Probability that one who knows gives the first word.
CHARACTERS = 4  # A token, for usage; nothing is charged for it.

# Answers to prompts, tried in this order; None where a prompt is another's.
ANSWERERS: tuple[Callable[[askeds.Asked], str | None], ...] = (
  worlds.answer,
  mango.answer,
  minigames.answer,
  planners.answer,
  seatings.answer,
  forces.answer,
  labels.answer,
)


def answer(asked: askeds.Asked) -> str:
  """What is known of a prompt; UNREAD where nobody knows what it asks."""
  found = (got for one in ANSWERERS if (got := one(asked)) is not None)
  return next(found, UNREAD)


@modelapi(name='wm')
class Known(ModelAPI):
  """`wm/solver`, `wm/yes`, `wm/random` and others; see asked.KNOWS.

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
    if model_name not in askeds.KNOWS:
      raise core.InputError(
        f"unknown model 'wm/{model_name}'; available: "
        + ', '.join(f'wm/{name}' for name in askeds.KNOWS)
      )
    if others:
      raise core.InputError(
        f'wm/{model_name} was given {", ".join(others)}; expected no arguments'
      )
    self._times: Counter[bytes] = Counter()

  def max_connections(self) -> int:
    """As many as are asked: nothing is waited for."""
    return 1000

  async def generate(
    self,
    input: list[ChatMessage],
    tools: list[ToolInfo],
    tool_choice: ToolChoice,
    config: GenerateConfig,
  ) -> ModelOutput:
    """The known answer, with usage, and log-probabilities where asked for."""
    del tools, tool_choice
    turns = [turn.text for turn in input if turn.role in ('system', 'user')]
    text = '\n\n'.join(turns)
    key = hashlib.sha256(text.encode('utf-8', 'replace')).digest()
    self._times[key] += 1
    words = (self.model_name, key.hex(), self._times[key], config.seed or 0)
    draws = random.Random(':'.join(map(str, words)))
    found = answer(askeds.Asked(turns, self.model_name, draws))
    choice = ChatCompletionChoice(
      message=ChatMessageAssistant(content=found, model=self.model_name),
      stop_reason='stop',
      logprobs=self._logprobs(found) if config.logprobs else None,
    )
    sizes = len(text) // CHARACTERS + 1, len(found) // CHARACTERS + 1
    usage = ModelUsage(
      input_tokens=sizes[0], output_tokens=sizes[1], total_tokens=sum(sizes)
    )
    return ModelOutput(model=self.model_name, choices=[choice], usage=usage)

  def _logprobs(self, found: str) -> Logprobs | None:
    """Of the first word, where that is yes or no."""
    word = found.rstrip('.')
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
