"""Calls a language model, many times at once.

Prompts and a model's spec come in; each `CallReply` is handed over as it comes
(`replies`). `answer_cache` keeps replies on disk, and a `call_ledger` keeps
calls within a budget. `llm_predictor` uses all three.

Providers, retries and limits of connections are inspect_ai's. Calls run on a
thread of their own, so that they work in notebooks and from plain functions; an
error of a call becomes a cause, which is counted.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import itertools
import json
import math
import os
import re
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from wm import core
from wm.core import basics, inputs
from wm.language import call_ledger
from wm.language.answer_cache import CallReply
from wm.language.call_ledger import CallLedger, inspect_models

if TYPE_CHECKING:
  from inspect_ai.model import ModelOutput, ModelUsage

  from wm.language.models.language import Model

T = TypeVar('T')

# Words of errors' classes, or of what they say of a protocol -> cause. The
# first that fits counts.
_CAUSES = {
  'complete message body': 'bad_reply',
  'timeout': 'timeout',
  'ratelimit': 'rate_limit',
  'connect': 'no_connection',
  'decode': 'bad_reply',
  'valid': 'bad_reply',
  'keyerror': 'bad_reply',
  'typeerror': 'bad_reply',
}
UNNAMED = 'provider_error'
_STATUS = {408: 'timeout', 429: 'rate_limit', 529: 'rate_limit'}
# No other question would fare better.
_FATAL = {401: 'the key is refused', 403: 'the key is refused'}
_FATAL |= {404: 'no such model or address'}
# Classes of errors where nobody listens at an address, or it is none.
_UNREACHABLE = frozenset(
  {
    *('ConnectError', 'ConnectTimeout', 'ConnectionRefusedError'),
    *('UnsupportedProtocol', 'InvalidURL', 'OverflowError'),
  }
)


# Failures after which a call is made again, and those that nobody charges for.
_AGAIN = 'rate_limit', 'server_error', 'timeout', 'no_connection'
_FREE = 'rate_limit', 'server_error'
PAUSE = 2.0  # Seconds before the second try; then twice as many, and so on.
BUDGET = 'budget'  # The cause of an answer that was not asked for.


def replies(
  settings: Model,
  prompts: Sequence[str],
  each: Callable[[int, CallReply], None],
  solutions: Sequence[dict[str, Any]] = (),
  ledger: CallLedger | None = None,
) -> None:
  """Makes calls, some at a time, and hands over each reply as it comes.

  Args:
    settings: the spec of the model.
    prompts: in the order in which they are begun.
    each: gets the number of a call and its reply; runs on another thread.
    solutions: metadata of each prompt's message, which the known answers of
      `wm/solver` and its like are taken from; no other model gets any.
    ledger: keeps calls within a budget; what it refuses fails for BUDGET.

  Raises:
    InputError: inspect_ai is not installed; there is no such provider or model;
      it wants a key, or another one.
  """
  message = inspect_models().ChatMessageUser
  messages = [
    [message(content=text, metadata=solution)]
    for text, solution in itertools.zip_longest(prompts, solutions)
  ]
  wait(_Calls(settings, each, ledger).run(messages))


def wait(work: Coroutine[Any, Any, T]) -> T:
  """The result of a coroutine, which runs on a thread of its own.

  So it can be waited for in a notebook, whose event loop runs already.
  """
  # Ctrl-C reaches this thread, which waits; the loop's thread hears nothing.
  future = asyncio.run_coroutine_threadsafe(work, _loop(os.getpid()))
  try:
    return future.result()
  finally:
    future.cancel()


# Providers whose clients are made by Stainless, and make calls again by
# themselves unless max_retries is 0. Of others, grok and sagemaker make none
# again, google and mistral do so where they are told to, azureai and bedrock
# always do, which no ledger sees: what they fail in is rarely charged for.
_CLIENTS = frozenset(
  {
    *('anthropic', 'groq', 'openai', 'openai-api', 'openai-api-completions'),
    *('cloudflare', 'deepseek', 'fireworks', 'hf-inference-providers'),
    *('litellm-proxy', 'llama-cpp-python', 'meta', 'moonshot', 'ollama'),
    *('openrouter', 'perplexity', 'sambanova', 'together'),
  }
)


def _once(settings: Model) -> Any:
  """The model, whose client makes no call a second time by itself."""
  model = _model(dataclasses.replace(settings, retries=0))
  if settings.model.partition('/')[0] in _CLIENTS:
    model.api.client.max_retries = 0
  return model


def _model(settings: Model) -> Any:
  models = inspect_models()
  place = f'model={settings.model!r}'
  with inputs.reading(place, 'a model of a provider'), _Refusal():
    return models.get_model(
      settings.model,
      base_url=settings.base_url or None,
      config=settings.config(),
      memoize=False,
      **dict(settings.args),
    )


class _Refusal:
  """Makes a ValueError of what Inspect refuses, whose class is not public."""

  def __enter__(self) -> None:
    """Changes nothing."""

  def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
    """Raises ValueError; the text of Inspect's error has markup of Rich."""
    if kind is not None and kind.__name__ == 'PrerequisiteError':
      raise ValueError(_line(str(error))) from error


def _line(text: str) -> str:
  """A message of Inspect's as one line without markup."""
  text = re.sub(r'\[/?(?:bold|italic|blue|red|link)[^\]]*\]', '', text)
  return ' '.join(text.split()).removeprefix('ERROR: ')[:400]


class _Calls:
  """Calls to a model, of which some are under way.

  An error of a call is counted by its cause. If no other call would fare
  better, it is raised, and ends all calls.
  """

  def __init__(
    self,
    settings: Model,
    each: Callable[[int, CallReply], None],
    ledger: CallLedger | None,
  ) -> None:
    # The ledger reserves for each try, so Inspect must make none by itself.
    self._model = _once(settings) if ledger else _model(settings)
    self._settings, self._each = settings, each
    self._ledger, self._reached = ledger, False

  async def run(self, prompts: Sequence[Any]) -> None:
    """Makes a call for each prompt, `connections` at a time."""
    # One iterator for all workers; asyncio switches at `await` alone, so no two
    # workers get the same prompt.
    left = iter(enumerate(prompts))  # Whoever is free takes the next one.
    running = [
      asyncio.ensure_future(self._work(left))
      for _ in range(min(self._settings.connections, len(prompts)))
    ]
    try:
      await asyncio.gather(*running)
    finally:
      for task in running:
        task.cancel()

  async def _work(self, left: Iterator[tuple[int, Any]]) -> None:
    """Makes one call after the other, and hands over what each gave."""
    for number, prompt in left:
      if self._ledger is None:
        self._each(number, _reply(await self._outcome(prompt)))
      else:
        await self._pay(number, prompt, self._ledger)

  async def _pay(self, number: int, prompt: Any, ledger: CallLedger) -> None:
    """Makes a call within the budget, and hands over its reply.

    A call that fails is made again, up to `retries` times.
    """
    reply = CallReply('', failure=BUDGET)
    for tries_left in range(self._settings.retries, -1, -1):
      place = await ledger.reserve(prompt[0].text, self._settings.max_tokens)
      if place is None:
        break
      try:
        outcome = await self._outcome(prompt)
        reply = _reply(outcome)
      except core.InputError:  # Refused: nobody charges for it.
        ledger.settle(place, ledger.nothing)
        raise
      again = tries_left and reply.failure in _AGAIN
      if not again:
        # The reply is stored before its usage is counted: a process that is
        # killed in between counts too much, and pays for no answer twice.
        self._each(number, reply)
      free = reply.failure in _FREE
      ledger.settle(place, ledger.nothing if free else _usage(outcome))
      if not again:
        return
      await asyncio.sleep(PAUSE * 2 ** (self._settings.retries - tries_left))
    self._each(number, reply)

  async def _outcome(self, prompt: Any) -> ModelOutput | BaseException:
    """Makes a call; returns its output, or the error that it raised."""
    # `gather` retrieves the error: asyncio prints errors that nobody retrieves.
    call = asyncio.gather(self._model.generate(prompt), return_exceptions=True)
    outcome: ModelOutput | BaseException = (await call)[0]
    # Only the first call tells a wrong address from a server that is busy.
    if isinstance(outcome, BaseException) and not self._reached:
      place = self._settings.base_url or self._settings.model
      _check_reached(outcome, basics.one_line(place))
    self._reached = True
    return outcome


def _check_reached(error: BaseException, place: str) -> None:
  """Raises InputError where nobody listens at `place`."""
  for cause in _causes(error):
    if type(cause).__name__ in _UNREACHABLE:
      line = f'no connection to {place}: {_line(str(cause))}'
      raise core.InputError(line) from cause


def _reply(outcome: ModelOutput | BaseException) -> CallReply:
  if not isinstance(outcome, BaseException):
    return read(outcome)
  text = f'{type(outcome).__name__}: {_line(str(outcome))}'
  return CallReply(text, failure=cause(outcome))


def _usage(outcome: ModelOutput | BaseException) -> ModelUsage | None:
  """What a call has used; None if nobody says."""
  usage = None if isinstance(outcome, BaseException) else outcome.usage
  return usage if usage and call_ledger.tokens(usage) else None


def read(output: ModelOutput) -> CallReply:
  """The reply of a call, without Inspect's types."""
  if not output.choices:
    return CallReply('', failure='bad_reply')
  choice, usage = output.choices[0], output.usage
  content = choice.message.content
  # Content is a text, or parts of which some are reasoning.
  thought = 0
  if not isinstance(content, str):
    thought = sum(
      len(part.reasoning) for part in content if part.type == 'reasoning'
    )
  # A call of a tool is read as the JSON of its arguments.
  called = [call.arguments for call in choice.message.tool_calls or ()]
  return CallReply(
    text='\n'.join(map(json.dumps, called)) or choice.message.text,
    stop=choice.stop_reason,
    probability=yes_probability(choice.logprobs),
    tokens_in=call_ledger.prompt_tokens(usage) if usage else 0,
    tokens_out=usage.output_tokens if usage else 0,
    reasoning=thought,
    thinking=(usage.reasoning_tokens or 0) if usage else 0,
  )


def yes_probability(logprobs: Any) -> float | None:
  """P(yes) / (P(yes) + P(no)) at the first token that has a letter.

  logprobs: Inspect's `Logprobs`, or None. Tokens count by their letters, in any
  case. None where neither word is among the alternatives of that token: later
  ones are of sentences, in which 'no' is no answer.
  """
  tokens = logprobs.content if logprobs else ()
  first = next(
    (token for token in tokens if re.search(r'\w', token.token)), None
  )
  if first is None:
    return None
  # ' Yes', 'yes' and 'YES.' are alternatives of one word: they add up.
  mass = {'yes': 0.0, 'no': 0.0}
  for token in first.top_logprobs or [first]:
    word = re.sub(r'\W', '', token.token).lower()
    if word in mass:
      mass[word] += math.exp(min(token.logprob, 0.0))
  total = sum(mass.values())
  return mass['yes'] / total if total > 0 else None


def _causes(error: BaseException) -> list[BaseException]:
  """An error and all that led to it, the last one first."""
  seen: list[BaseException] = []
  left: list[BaseException | None] = [error]
  while left:
    cause = left.pop(0)
    if cause is None or cause in seen:
      continue
    seen.append(cause)
    if last := getattr(cause, 'last_attempt', None):  # Of tenacity.
      left.append(last.exception())
    if isinstance(cause, BaseExceptionGroup):
      left += cause.exceptions
    left += [cause.__cause__, cause.__context__]
  return seen


def cause(error: BaseException) -> str:
  """The cause of a call's failure, in a word.

  Raises:
    InputError: no other call would fare better.
    MemoryError: as it was.
  """
  seen = _causes(error)
  for linked in seen:
    if isinstance(linked, MemoryError):
      raise linked
    status = getattr(linked, 'status_code', None)
    if status in _FATAL:
      # The provider's own words; Inspect puts the whole request before them.
      text = getattr(linked, 'provider_message', None) or str(linked)
      raise core.InputError(f'{_FATAL[status]}: {_line(text)}') from linked
    if status in _STATUS:
      return _STATUS[status]
    if isinstance(status, int) and status >= 500:
      return 'server_error'
  # No status: the names of the errors' classes say what happened.
  names = [type(linked).__name__ for linked in seen]
  names += [
    str(linked) for linked in seen if 'Protocol' in type(linked).__name__
  ]
  return named_cause(' '.join(names))


def named_cause(text: str) -> str:
  """The cause that classes of errors, or what was said of them, name."""
  text = text.lower().replace('_', '')
  return next((x for word, x in _CAUSES.items() if word in text), UNNAMED)


@functools.cache
def _loop(process: int) -> asyncio.AbstractEventLoop:
  """An event loop on a thread of its own, for the life of the process.

  Connections that providers keep belong to one loop. Threads are not copied
  into a forked process, which gets another one.
  """
  del process
  loop = asyncio.new_event_loop()
  # A daemon: a process that ends does not wait for calls under way.
  threading.Thread(target=loop.run_forever, daemon=True).start()
  return loop
