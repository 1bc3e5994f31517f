"""Calls of a language model, many at a time, by Inspect's providers.

Providers, retries and limits of connections are inspect_ai's. What is here:
the calls run on a thread of their own, so that they work in notebooks and from
plain functions, and what goes wrong with one becomes a cause that is counted.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import math
import os
import re
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from wm import core
from wm.models.serving.answer_cache import Reply

if TYPE_CHECKING:
  from inspect_ai.model import GenerateConfig, ModelOutput

# Alternatives at each token that log-probabilities are asked of.
ALTERNATIVES = 20
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


@dataclasses.dataclass(frozen=True)
class Settings:
  """A model, as Inspect names it, and how it is asked.

  Attributes:
    model: 'provider/model'.
    base_url: of the provider; '' is its own.
    temperature: of the sampling of tokens.
    max_tokens: most tokens of an answer.
    logprobs: ask for log-probabilities too.
    args: of the provider, as pairs of name and value.
    connections: calls at a time.
    retries: of a call that fails.
    timeout: seconds of one try.
  """

  model: str
  base_url: str = ''
  temperature: float = 0.0
  max_tokens: int = 1024
  logprobs: bool = False
  args: tuple[tuple[str, Any], ...] = ()
  connections: int = 10
  retries: int = 5
  timeout: int = 120

  def about(self) -> dict[str, Any]:
    """What an answer depends on."""
    speed = ('connections', 'retries', 'timeout')
    return {
      name: value
      for name, value in dataclasses.asdict(self).items()
      if name not in speed
    }

  def config(self) -> GenerateConfig:
    """The same for Inspect."""
    from inspect_ai.model import GenerateConfig

    return GenerateConfig(
      max_connections=self.connections,
      max_retries=self.retries,
      attempt_timeout=self.timeout,
      temperature=self.temperature,
      max_tokens=self.max_tokens,
      logprobs=self.logprobs or None,
      top_logprobs=ALTERNATIVES if self.logprobs else None,
    )


def replies(
  settings: Settings,
  prompts: Sequence[str],
  each: Callable[[int, Reply], None],
  solutions: Sequence[dict[str, Any]] = (),
) -> None:
  """Makes calls, some at a time, and hands over each reply as it comes.

  Args:
    settings: of all of them.
    prompts: in the order in which they are begun.
    each: gets the number of a call and its reply; runs on another thread.
    solutions: metadata of each prompt's message, which the known answers of
      `wm/solver` and its like are taken from; no other model gets any.

  Raises:
    InputError: inspect_ai is not installed; there is no such provider or model;
      it wants a key, or another one.
  """
  place = core.one_line(settings.base_url or settings.model)
  messages = _messages(prompts, solutions) if solutions else prompts
  work = _Work(_model(settings), messages, each, place)
  _loop(os.getpid()).run(work.run(min(settings.connections, len(prompts))))


def _messages(
  prompts: Sequence[str], solutions: Sequence[dict[str, Any]]
) -> list[list[Any]]:
  """A conversation of one message for each prompt, its solution attached."""
  from inspect_ai.model import ChatMessageUser

  return [
    [ChatMessageUser(content=prompt, metadata=solution)]
    for prompt, solution in zip(prompts, solutions, strict=True)
  ]


def _model(settings: Settings) -> Any:
  try:
    import inspect_ai.model as models
    from inspect_ai._util.error import PrerequisiteError
  except ImportError as error:
    raise core.InputError(
      f"language models need inspect_ai: pip install -e '.[language]' ({error})"
    ) from error
  with core.reading(f'model={settings.model!r}', 'a model of a provider'):
    try:
      return models.get_model(
        settings.model,
        base_url=settings.base_url or None,
        config=settings.config(),
        memoize=False,
        **dict(settings.args),
      )
    except PrerequisiteError as error:  # Its text has markup of Rich.
      raise ValueError(_line(str(error))) from error


def _line(text: str) -> str:
  """A message of Inspect's as one line without markup."""
  text = re.sub(r'\[/?(?:bold|italic|blue|red|link)[^\]]*\]', '', text)
  return ' '.join(text.split()).removeprefix('ERROR: ')[:400]


class _Work:
  """Calls, of which some are under way; the first fatal error ends all.

  What a task raises is looked at, whatever it is, and counted or raised.
  """

  def __init__(
    self,
    model: Any,
    prompts: Sequence[Any],
    each: Callable[[int, Reply], None],
    place: str,
  ) -> None:
    self._model, self._each, self._place = model, each, place
    self._left = iter(enumerate(prompts))
    self._running: set[asyncio.Task[ModelOutput]] = set()
    self._reached = False

  async def run(self, workers: int) -> None:
    """Makes all calls, `workers` at a time."""
    self._over = asyncio.get_running_loop().create_future()
    try:
      for _ in range(workers):
        self._begin()
      await self._over
    finally:
      for task in self._running:
        task.cancel()

  def _begin(self) -> None:
    """Begins the next call, if there is one."""
    for number, prompt in self._left:
      task = asyncio.ensure_future(self._model.generate(prompt))
      self._running.add(task)
      task.add_done_callback(functools.partial(self._ended, number))
      return
    if not self._running and not self._over.done():
      self._over.set_result(None)

  def _ended(self, number: int, task: asyncio.Task[ModelOutput]) -> None:
    """Hands over what a call gave, and begins another."""
    self._running.discard(task)
    # Looked at even if all is over: asyncio prints errors that nobody saw.
    error = None if task.cancelled() else task.exception()
    if self._over.done():
      return
    with _Into(self._over):
      if error is not None and not self._reached:
        _check_reached(error, self._place)
      self._reached = True
      self._each(number, _reply(task))
      self._begin()


class _Into:
  """A context whose errors, of any kind, are raised where a future is awaited.

  A callback has nobody to raise them to.
  """

  def __init__(self, future: asyncio.Future[None]) -> None:
    self._future = future

  def __enter__(self) -> None:
    """Begins."""

  def __exit__(
    self, kind: object, error: BaseException | None, trace: object
  ) -> bool:
    """Hands over what was raised."""
    if error is not None:
      self._future.set_exception(error)
    return True


def _check_reached(error: BaseException, place: str) -> None:
  """Raises InputError where nobody listens at `place`."""
  for cause in _causes(error):
    if type(cause).__name__ in _UNREACHABLE:
      line = f'no connection to {place}: {_line(str(cause))}'
      raise core.InputError(line) from cause


def _reply(task: asyncio.Task[ModelOutput]) -> Reply:
  if task.cancelled():
    return Reply('', failure=UNNAMED)
  error = task.exception()
  if error is None:
    return read(task.result())
  said = f'{type(error).__name__}: {_line(str(error))}'
  return Reply(said, failure=cause(error))


def read(output: ModelOutput) -> Reply:
  """What a call gave, without Inspect's types."""
  if not output.choices:
    return Reply('', failure='bad_reply')
  choice, usage = output.choices[0], output.usage
  content = choice.message.content
  thought = 0
  if not isinstance(content, str):
    thought = sum(
      len(part.reasoning) for part in content if part.type == 'reasoning'
    )
  return Reply(
    text=choice.message.text,
    stop=choice.stop_reason,
    probability=yes_probability(choice.logprobs),
    tokens_in=usage.input_tokens if usage else 0,
    tokens_out=usage.output_tokens if usage else 0,
    reasoning=thought,
  )


def yes_probability(logprobs: Any) -> float | None:
  """P(yes) / (P(yes) + P(no)) at the first token that has a letter.

  logprobs: Inspect's `Logprobs`, or None. Tokens count by their letters, in any
  case. None where neither word is among the alternatives of that token: later
  ones are of sentences, in which 'no' is no answer.
  """
  tokens = logprobs.content if logprobs else ()
  first = next((one for one in tokens if re.search(r'\w', one.token)), None)
  if first is None:
    return None
  mass = {'yes': 0.0, 'no': 0.0}
  for one in first.top_logprobs or [first]:
    word = re.sub(r'\W', '', one.token).lower()
    if word in mass:
      mass[word] += math.exp(min(one.logprob, 0.0))
  total = sum(mass.values())
  return mass['yes'] / total if total > 0 else None


def _causes(error: BaseException) -> list[BaseException]:
  """An error and all that led to it, the last one first."""
  seen: list[BaseException] = []
  left: list[BaseException | None] = [error]
  while left:
    one = left.pop(0)
    if one is None or one in seen:
      continue
    seen.append(one)
    if last := getattr(one, 'last_attempt', None):  # Of tenacity.
      left.append(last.exception())
    if isinstance(one, BaseExceptionGroup):
      left += one.exceptions
    left += [one.__cause__, one.__context__]
  return seen


def cause(error: BaseException) -> str:
  """Why a call gave nothing, in a word.

  Raises:
    InputError: no other call would fare better.
    MemoryError: as it was.
  """
  seen = _causes(error)
  for one in seen:
    if isinstance(one, MemoryError):
      raise one
    status = getattr(one, 'status_code', None)
    if status in _FATAL:
      # The provider's own words; Inspect puts the whole request before them.
      text = getattr(one, 'provider_message', None) or str(one)
      raise core.InputError(f'{_FATAL[status]}: {_line(text)}') from one
    if status in _STATUS:
      return _STATUS[status]
    if isinstance(status, int) and status >= 500:
      return 'server_error'
  names = [type(one).__name__ for one in seen]
  names += [str(one) for one in seen if 'Protocol' in type(one).__name__]
  return named_cause(' '.join(names))


def named_cause(text: str) -> str:
  """The cause that classes of errors, or what was said of them, name."""
  text = text.lower().replace('_', '')
  return next((x for word, x in _CAUSES.items() if word in text), UNNAMED)


class _Loop:
  """An event loop on a thread of its own, for the life of the process.

  Connections that providers keep belong to one loop.
  """

  def __init__(self) -> None:
    self._loop = asyncio.new_event_loop()
    thread = threading.Thread(target=self._loop.run_forever, daemon=True)
    thread.start()

  def run(self, work: Coroutine[Any, Any, None]) -> None:
    """Runs work to its end; stops it where this thread is interrupted."""
    future = asyncio.run_coroutine_threadsafe(work, self._loop)
    try:
      future.result()
    finally:
      future.cancel()


@functools.cache
def _loop(process: int) -> _Loop:
  """Of this process: threads do not come along into a forked one."""
  del process
  return _Loop()
