"""Calls a language model, many times at once; keeps answers; stays in budget.

Prompts and `CallSettings` come in; each `CallReply` is handed over as it comes
(`replies`). `AnswerCache` keeps replies on disk, so that nothing is asked
twice, and `CallLedger` keeps calls within a budget. `llm_predictor` calls all
three.

Providers, retries and limits of connections are inspect_ai's. Calls run on a
thread of their own, so that they work in notebooks and from plain functions; an
error of a call becomes a cause, which is counted.

Answers are cached in a file for each model and its settings,
FOLDER/<model>-<hash>.jsonl. Its first line says which; each other line is one
answer:

  {"prompt": hash, "repeat": 0, "text": "yes", "stop": "stop", ...}

of a question, or of several ([hash, hash, ...]) that were asked in one prompt.
A line is appended in one write under the file's lock, so several processes may
write, and what a killed one left of a line is skipped by readers.

A `CallLedger` keeps calls within a budget: each call first reserves the most
that it can cost.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import hashlib
import json
import math
import os
import pathlib
import re
import threading
import types
import typing
from collections.abc import (
  Callable,
  Iterable,
  Iterator,
  Mapping,
  Sequence,
)
from typing import TYPE_CHECKING, Any, NamedTuple

from wm import core
from wm.core import basics, inputs
from wm.runtime import compute, files

try:
  import fcntl
except ImportError:  # Not a Unix.
  fcntl = None  # type: ignore[assignment]  # It is asked for before use.


class CallReply(NamedTuple):
  """The reply to one call.

  Attributes:
    text: the model's text; the error of a call that failed.
    stop: why it stopped, in Inspect's words: 'stop', 'max_tokens', ...
    probability: of yes, against no, by its first word; None unknown.
    tokens_in, tokens_out: as the provider counts them, read from its cache or
      not; 0 unknown.
    reasoning: characters of reasoning that came apart from the text.
    thinking: tokens of reasoning, which are among tokens_out.
    failure: why nothing came, such as 'timeout'; such replies are not kept.
    items, item: questions that this answers, and the place of one of them from
      0; items is 0 where it answers a single one.
  """

  text: str
  stop: str = 'stop'
  probability: float | None = None
  tokens_in: int = 0
  tokens_out: int = 0
  reasoning: int = 0
  thinking: int = 0
  failure: str = ''
  items: int = 0
  item: int = 0


# Fields of a reply and their types: lines without them are no answers. Failures
# are not written, and lines that answer several questions list their prompts.
_TYPES = typing.get_type_hints(CallReply)
for _unwritten in ('failure', 'items', 'item'):
  del _TYPES[_unwritten]
Key = tuple[str, int]  # Hash of the prompt, number of the repeat.


def folder() -> pathlib.Path:
  """The default folder of answers, in the user's cache folder."""
  return compute.cache_folder().parent / 'answers'


def key(prompt: str, repeat: int) -> Key:
  """The key of an answer among those of a model and its settings."""
  # Prompts may hold lone surrogates, which UTF-8 has no bytes for.
  data = prompt.encode('utf-8', 'surrogatepass')
  return hashlib.sha256(data).hexdigest()[:32], repeat


class AnswerCache:
  """The answers of one model by one set of settings."""

  def __init__(
    self, where: str | os.PathLike, about: Mapping[str, Any]
  ) -> None:
    """Opens the file of a model and its settings.

    Args:
      where: folder of all answers; '' is the user's own.
      about: model and settings that an answer depends on, as JSON values.

    Raises:
      InputError: `where` can be no folder.
    """
    self._about = json.dumps(about, sort_keys=True)
    # Other settings, another file: their answers are never mixed.
    mark = hashlib.sha256(self._about.encode()).hexdigest()[:16]
    name = re.sub(r'[^\w.-]+', '-', str(about.get('model', '')))[:60]
    self.path = pathlib.Path(where or folder()) / f'{name}-{mark}.jsonl'
    if where:
      files.check_folder('answers', str(where))
    # A line a reply, after one line of settings:
    #   {"model": ..., "temperature": ...}
    #   {"prompt": hash, "repeat": 0, "text": ..., "stop": ...}
    self._known: dict[Key, CallReply] = {}
    self._read = 0
    self.refresh()

  def __len__(self) -> int:
    return len(self._known)

  def make_folder(self) -> None:
    """Makes the folder; InputError where none can be."""
    with inputs.reading(self.path.parent, 'a folder'):
      self.path.parent.mkdir(parents=True, exist_ok=True)

  def get(self, key: Key) -> CallReply | None:
    """The stored reply, or None."""
    return self._known.get(key)

  def refresh(self) -> None:
    """Reads answers that other processes have added."""
    with contextlib.suppress(FileNotFoundError), open(self.path, 'rb') as file:
      # From where the last reading ended: files grow, and are never rewritten.
      file.seek(self._read)
      for line in file:
        if not line.endswith(b'\n'):
          break  # It is being written, or was never finished.
        self._read += len(line)
        for entry in _parsed(line):
          self._known.setdefault(*entry)

  def put(self, key: Key, reply: CallReply, *more: Key) -> None:
    """Stores a reply, for other processes too; failed ones are not stored.

    more: other questions, of the same repeat, that it answers too.
    """
    if reply.failure or key in self._known:
      return
    self._known |= _items([key, *more], reply)
    prompts = [prompt for prompt, _ in (key, *more)]
    fields = {k: x for k, x in reply._asdict().items() if k in _TYPES}
    about = {'prompt': prompts if more else key[0], 'repeat': key[1]}
    line = json.dumps({**about, **fields})
    self.make_folder()
    # Closing writes what is buffered, and gives up the lock after that.
    with open(self.path, 'ab+') as file:
      if fcntl is not None:
        with contextlib.suppress(OSError):  # A file system without locks.
          fcntl.flock(file, fcntl.LOCK_EX)
      size = file.seek(0, os.SEEK_END)
      file.seek(max(size - 1, 0))
      # A killed process may have left a line without its end.
      head = '' if file.read(1) == b'\n' else '\n'
      file.write(f'{head if size else self._about + head}{line}\n'.encode())


def _items(keys: Sequence[Key], reply: CallReply) -> dict[Key, CallReply]:
  """The reply by question; of several each has its place in it."""
  if len(keys) == 1:
    return {keys[0]: reply}
  return {
    key: reply._replace(items=len(keys), item=item)
    for item, key in enumerate(keys)
  }


def _parsed(line: bytes) -> Iterable[tuple[Key, CallReply]]:
  """The answers of a line; () where it is none."""
  try:
    value = json.loads(line)
  except (ValueError, RecursionError):
    return ()
  if not isinstance(value, dict):
    return ()
  # A text, or a list of several that were asked in one prompt.
  prompts: Any = value.get('prompt')
  repeat: Any = value.get('repeat')
  value = {'thinking': 0, **value}  # Which older lines do not have.
  fields: dict[str, Any] = {name: value.get(name) for name in _TYPES}
  # A line of another version, or an edited one, is asked again.
  fits = all(isinstance(fields[k], kind) for k, kind in _TYPES.items())
  prompts = prompts if isinstance(prompts, list) else [prompts]
  keys = [(mark, repeat) for mark in prompts if isinstance(mark, str)]
  fits &= isinstance(repeat, int) and len(keys) == len(prompts) > 0
  return _items(keys, CallReply(**fields)).items() if fits else ()


if TYPE_CHECKING:
  from inspect_ai.model import (
    GenerateConfig,
    ModelCost,
    ModelInfo,
    ModelOutput,
    ModelUsage,
  )

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
class CallSettings:
  """A model, as Inspect names it, and how it is asked.

  Attributes:
    model: 'provider/model'.
    base_url: of the provider; '' is its own.
    temperature: of the sampling of tokens.
    max_tokens: most tokens of an answer.
    logprobs: ask for log-probabilities too.
    per_prompt: yes-or-no questions in a prompt, at most.
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
  per_prompt: int = 1
  args: tuple[tuple[str, Any], ...] = ()
  connections: int = 10
  retries: int = 5
  timeout: int = 120

  def about(self) -> dict[str, Any]:
    """Settings that answers depend on; speed and retries are left out."""
    # They change when an answer comes, not which: stored answers stay valid.
    left_out = {'connections', 'retries', 'timeout'}
    if self.per_prompt == 1:  # So that older answers stay valid too.
      left_out.add('per_prompt')
    return {
      name: value
      for name, value in dataclasses.asdict(self).items()
      if name not in left_out
    }

  def config(self, models: types.ModuleType) -> GenerateConfig:
    """The same for Inspect, whose module `inspect_ai.model` is."""
    return models.GenerateConfig(
      max_connections=self.connections,
      max_retries=self.retries,
      attempt_timeout=self.timeout,
      temperature=self.temperature,
      max_tokens=self.max_tokens,
      logprobs=self.logprobs or None,
      # None leaves the setting out of the request.
      top_logprobs=ALTERNATIVES if self.logprobs else None,
    )


def inspect_models() -> types.ModuleType:
  """The module `inspect_ai.model`; InputError where it is not installed."""
  with inputs.extra('language', 'a language model'):
    import inspect_ai.model as models
  return models


_BUDGET = re.compile(r'(\d[\d_]*(?:\.\d+)?)(usd|tok)')


def parse_budget(text: str) -> tuple[float, str]:
  """Amount and unit, 'usd' or 'tok', of a budget such as '5usd'; InputError."""
  match = _BUDGET.fullmatch(text.replace(' ', '').replace(',', '').lower())
  amount = float(match[1]) if match else 0.0
  if not match or not 0 < amount < math.inf:
    raise core.InputError(
      f'budget={basics.one_line(text)!r}; expected dollars or tokens, such as '
      "'5usd' or '200000tok'"
    )
  return amount, match[2]


def model_info(model: str) -> ModelInfo | None:
  """What Inspect's tables know of a model, such as whether it reasons."""
  info: ModelInfo | None = inspect_models().get_model_info(model)
  return info


def model_cost(model: str, file: str = '') -> ModelCost | None:
  """Prices of a model in dollars per million tokens; None if they are unknown.

  Args:
    model: as Inspect names it.
    file: JSON, as Inspect's --model-cost-config has it:
        {"openai/gpt-5": {"input": 1.25, "output": 10}}
      and perhaps `input_cache_read` and `input_cache_write`, which are as
      `input` by default. '' is Inspect's own table.

  Raises:
    InputError: the file has no prices, or none of this model.
  """
  if not file:
    info = model_info(model)
    return info.cost if info else None
  with inputs.reading_file(file, 'a JSON file of prices'):
    prices = json.loads(pathlib.Path(file).read_bytes())
    if not isinstance(prices, dict) or model not in prices:
      names = ', '.join(map(str, prices)) if isinstance(prices, dict) else ''
      raise ValueError(f'no prices of {model!r}; available: {names or "none"}')
    full = prices[model]
    if not isinstance(full, dict) or not {'input', 'output'} <= full.keys():
      raise ValueError(f'prices of {model!r} need "input" and "output"')
    amounts = [*full.values()]
    if not all(type(x) in (int, float) and 0 <= x < 1e6 for x in amounts):
      raise ValueError(f'prices of {model!r} are {amounts}; expected dollars')
    cached = dict.fromkeys(('input_cache_read', 'input_cache_write'))
    cost: ModelCost = inspect_models().ModelCost(
      **{**dict.fromkeys(cached, full['input']), **full}
    )
    return cost


# Tokens that a provider adds to a prompt, at most: its template of a chat.
TEMPLATE = 256
# Failures after which a call is made again, and those that nobody charges for.
_AGAIN = 'rate_limit', 'server_error', 'timeout', 'no_connection'
_FREE = 'rate_limit', 'server_error'
PAUSE = 2.0  # Seconds before the second try; then twice as many, and so on.
BUDGET = 'budget'  # The cause of an answer that was not asked for.


class CallLedger:
  """Calls within a budget: each reserves the most that it can cost.

  A prompt has at most as many tokens as bytes, and TEMPLATE more; an answer has
  at most `max_tokens`. A call waits while others under way may use up what is
  left, and is refused if it may pass the limit by itself. A failed call counts
  in full, unless nobody charges for it.

  The first call goes alone. So a provider that counts more than was reserved is
  known before there are many, and more is reserved from then on; and one that
  caches the head of prompts has it.

  Each reservation is written to a file before the call, and its usage after it.
  Where a killed process left a reservation without a usage, it counts in full.
  """

  def __init__(
    self,
    limit: float,
    unit: str,
    cost: ModelCost | None,
    path: str | os.PathLike | None = None,
  ) -> None:
    """Opens the ledger.

    Args:
      limit: of all calls, those of earlier runs in the file too.
      unit: 'usd' or 'tok'.
      cost: prices; None if they are unknown, and the unit is 'tok'.
      path: the file; None keeps none.

    Raises:
      InputError: dollars without prices, or the file is no ledger.
    """
    if unit == 'usd' and cost is None:
      raise core.InputError(
        'the price of this model is unknown; expected prices=FILE (--prices), '
        'JSON such as {"openai/gpt-5": {"input": 1.25, "output": 10}}, in '
        'dollars per million tokens'
      )
    self.limit, self.unit, self._cost = limit, unit, cost
    self._path = pathlib.Path(path) if path else None
    self._models = inspect_models()
    self._open: dict[int, ModelUsage] = {}
    self.nothing = self.usage = self._models.ModelUsage()
    self.closed = False
    # The largest ratio of a charge to what was reserved for it.
    self._excess = 1.0
    self._settled, self._next, self._held = 0, 0, 0.0
    self._changed = asyncio.Event()
    self._load()

  def _load(self) -> None:
    """Reads what earlier runs have spent."""
    if self._path is None or not self._path.exists():
      return
    with inputs.reading_file(self._path, 'a ledger of calls'):
      for line in self._path.read_bytes().split(b'\n'):
        with contextlib.suppress(ValueError):  # The end of a killed process.
          entry = json.loads(line)
          number, usage = entry['call'], entry['usage']
          self._open[number] = self._models.ModelUsage(**usage)
          self._next = max(self._next, number + 1)
    # The usage of a call replaces what was reserved for it.
    for usage in self._open.values():
      self.usage += usage
    self._open.clear()

  def expected(self, tokens_in: float, tokens_out: float) -> ModelUsage:
    """A usage of so many tokens, none of them cached."""
    usage: ModelUsage = self._models.ModelUsage(
      input_tokens=round(tokens_in), output_tokens=round(tokens_out)
    )
    return usage

  def price(self, usage: ModelUsage) -> float:
    """Tokens or dollars of a usage."""
    return self.dollars(usage) if self.unit == 'usd' else float(tokens(usage))

  def dollars(self, usage: ModelUsage) -> float:
    """Dollars of a usage; NaN where prices are unknown."""
    if self._cost is None:
      return math.nan
    return float(self._models.compute_model_cost(self._cost, usage))

  @property
  def spent(self) -> float:
    """What all calls have cost, in the ledger's unit."""
    return self.price(self.usage)

  def most(self, prompt: str, max_tokens: int) -> ModelUsage:
    """The largest usage of a call."""
    num = len(prompt.encode('utf-8', 'surrogatepass')) + TEMPLATE
    field = 'input_tokens'
    # Prompts that are written to a cache may be charged more.
    if self._cost and self._cost.input_cache_write > self._cost.input:
      field = 'input_tokens_cache_write'
    sizes = {field: num, 'output_tokens': max_tokens}
    usage: ModelUsage = self._models.ModelUsage(
      **sizes, total_tokens=num + max_tokens
    )
    return usage

  def text(self, amount: float) -> str:
    """An amount of the ledger's unit in words."""
    return f'${amount:,.4g}' if self.unit == 'usd' else f'{amount:,.0f} tokens'

  async def reserve(self, prompt: str, max_tokens: int) -> int | None:
    """The number of a call, once it fits; None where the budget is used up."""
    usage = self.most(prompt, max_tokens)
    # The first call goes alone.
    while self._open and (not self._settled or not self._fits(usage)):
      await self._changed.wait()
    if self.closed or not self._fits(usage):
      self.closed = True
      return None
    number, self._next = self._next, self._next + 1
    self._open[number] = usage
    self._held += self.price(usage)
    self._write(number, usage)
    return number

  def _fits(self, usage: ModelUsage) -> bool:
    held = (self._held + self.price(usage)) * self._excess
    return self.spent + held <= self.limit

  def settle(self, number: int, usage: ModelUsage | None) -> None:
    """Counts what a call has used; None: all that was reserved for it."""
    reserved = self._open.pop(number)
    amount = self.price(reserved)
    self._held = self._held - amount if self._open else 0.0
    usage = reserved if usage is None else usage
    self._excess = max(self._excess, self.price(usage) / max(amount, 1e-12))
    self.usage += usage
    self._settled += 1
    self._write(number, usage)
    # Whoever waits for what was given back looks again.
    self._changed.set()
    self._changed = asyncio.Event()

  def _write(self, number: int, usage: ModelUsage) -> None:
    if self._path is None:
      return
    fields = usage.model_dump(exclude_none=True)
    line = json.dumps({'call': number, 'usage': fields})
    # The line before may be half of one that a killed process wrote.
    with open(self._path, 'ab') as file:
      file.write(f'\n{line}\n'.encode())


def tokens(usage: ModelUsage) -> int:
  """All tokens of a call: of the prompt, cached or not, and of the answer."""
  return max(usage.total_tokens, prompt_tokens(usage) + usage.output_tokens)


def prompt_tokens(usage: ModelUsage) -> int:
  """Tokens of the prompt, read from a cache or not."""
  read, written = usage.input_tokens_cache_read, usage.input_tokens_cache_write
  return usage.input_tokens + (read or 0) + (written or 0)


def replies(
  settings: CallSettings,
  prompts: Sequence[str],
  each: Callable[[int, CallReply], None],
  solutions: Sequence[dict[str, Any]] = (),
  ledger: CallLedger | None = None,
) -> None:
  """Makes calls, some at a time, and hands over each reply as it comes.

  Args:
    settings: of all of them.
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
  messages: Sequence[Any] = prompts
  if solutions:
    pairs = zip(prompts, solutions, strict=True)
    messages = [[message(content=text, metadata=x)] for text, x in pairs]
  # Each try is reserved for, so none is made where it is not seen.
  model = _once(settings) if ledger else _model(settings)
  calls = _Calls(model, settings, each, ledger)
  work = calls.run(messages, min(settings.connections, len(prompts)))
  # Ctrl-C reaches this thread, which waits; the loop's thread hears nothing.
  future = asyncio.run_coroutine_threadsafe(work, _loop(os.getpid()))
  try:
    future.result()
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


def _once(settings: CallSettings) -> Any:
  """The model, which makes no second try of any call."""
  model = _model(dataclasses.replace(settings, retries=0))
  if settings.model.partition('/')[0] in _CLIENTS:
    model.api.client.max_retries = 0
  return model


def _model(settings: CallSettings) -> Any:
  models = inspect_models()
  with inputs.extra('language', 'a language model'):
    from inspect_ai._util.error import PrerequisiteError
  with inputs.reading(f'model={settings.model!r}', 'a model of a provider'):
    try:
      return models.get_model(
        settings.model,
        base_url=settings.base_url or None,
        config=settings.config(models),
        memoize=False,
        **dict(settings.args),
      )
    except PrerequisiteError as error:  # Its text has markup of Rich.
      raise ValueError(_line(str(error))) from error


def _line(text: str) -> str:
  """A message of Inspect's as one line without markup."""
  text = re.sub(r'\[/?(?:bold|italic|blue|red|link)[^\]]*\]', '', text)
  return ' '.join(text.split()).removeprefix('ERROR: ')[:400]


class _Calls:
  """Calls to a model, of which some are under way.

  Whatever a call raises is looked at, and counted or raised: the first fatal
  error ends all of them.
  """

  def __init__(
    self,
    model: Any,
    settings: CallSettings,
    each: Callable[[int, CallReply], None],
    ledger: CallLedger | None,
  ) -> None:
    self._model, self._settings, self._each = model, settings, each
    self._place = basics.one_line(settings.base_url or settings.model)
    self._ledger, self._reached = ledger, False

  async def run(self, prompts: Sequence[Any], workers: int) -> None:
    """Makes a call for each prompt, `workers` at a time."""
    # One iterator for all workers; asyncio switches at `await` alone, so no two
    # workers get the same prompt.
    left = iter(enumerate(prompts))  # Whoever is free takes the next one.
    running = [asyncio.ensure_future(self._work(left)) for _ in range(workers)]
    try:
      await asyncio.gather(*running)
    finally:
      for task in running:
        task.cancel()

  async def _work(self, left: Iterator[tuple[int, Any]]) -> None:
    """Makes one call after the other, and hands over what each gave."""
    for number, prompt in left:
      await self._answer(number, prompt)

  async def _answer(self, number: int, prompt: Any) -> None:
    """Hands over the reply to a prompt, by as many tries as it takes."""
    ledger = self._ledger
    if ledger is None:
      self._each(number, _reply(await self._call(prompt)))
      return
    text = prompt if isinstance(prompt, str) else prompt[0].text
    reply = CallReply('', failure=BUDGET)
    for tries_left in range(self._settings.retries, -1, -1):
      place = await ledger.reserve(text, self._settings.max_tokens)
      if place is None:
        break
      try:
        call = await self._call(prompt)
        reply = _reply(call)
      except core.InputError:  # Refused: nobody charges for it.
        ledger.settle(place, ledger.nothing)
        raise
      again = tries_left and reply.failure in _AGAIN
      if not again:
        # Before it is counted: a process that is killed in between has counted
        # too much, and does not pay for the same answer again.
        self._each(number, reply)
      free = reply.failure in _FREE
      ledger.settle(place, ledger.nothing if free else _usage(call))
      if not again:
        return
      await asyncio.sleep(PAUSE * 2 ** (self._settings.retries - tries_left))
    self._each(number, reply)

  async def _call(self, prompt: Any) -> asyncio.Task[ModelOutput]:
    """A call that is over, whatever came of it."""
    call = asyncio.ensure_future(self._model.generate(prompt))
    # Looked at even if all is over: asyncio prints errors that nobody saw.
    call.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
      # It does not raise what the call has raised.
      await asyncio.wait([call])
    finally:
      call.cancel()
    error = None if call.cancelled() else call.exception()
    # Only the first call tells a wrong address from a server that is busy.
    if error is not None and not self._reached:
      _check_reached(error, self._place)
    self._reached = True
    return call


def _check_reached(error: BaseException, place: str) -> None:
  """Raises InputError where nobody listens at `place`."""
  for cause in _causes(error):
    if type(cause).__name__ in _UNREACHABLE:
      line = f'no connection to {place}: {_line(str(cause))}'
      raise core.InputError(line) from cause


def _reply(task: asyncio.Task[ModelOutput]) -> CallReply:
  if task.cancelled():
    return CallReply('', failure=UNNAMED)
  error = task.exception()
  if error is None:
    return read(task.result())
  text = f'{type(error).__name__}: {_line(str(error))}'
  return CallReply(text, failure=cause(error))


def _usage(task: asyncio.Task[ModelOutput]) -> ModelUsage | None:
  """What a call has used; None if nobody says."""
  if task.cancelled() or task.exception() is not None:
    return None
  usage = task.result().usage
  return usage if usage and tokens(usage) else None


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
  return CallReply(
    text=choice.message.text,
    stop=choice.stop_reason,
    probability=yes_probability(choice.logprobs),
    tokens_in=prompt_tokens(usage) if usage else 0,
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
