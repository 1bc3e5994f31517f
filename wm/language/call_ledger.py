"""Keeps calls to a language model within a budget of dollars or tokens.

Prices of a model (`model_cost`) and a limit (`parse_budget`) come in. A
`CallLedger` then reserves the most that each call can cost before it is made,
and counts what it has used after it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import pathlib
import re
import types
from typing import TYPE_CHECKING, Any

from wm import core
from wm.core import basics, inputs, schema

if TYPE_CHECKING:
  from inspect_ai.model import ModelCost, ModelInfo, ModelUsage


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


_DOLLARS = schema.Number(float, 0, 1e6)
_CACHED = 'input_cache_read', 'input_cache_write'
_PRICES = schema.Object(
  {'input': _DOLLARS, 'output': _DOLLARS},
  dict.fromkeys(_CACHED, _DOLLARS),
  closed=True,
)


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
  prices = schema.read(file, schema.Dictionary(_PRICES))
  inputs.check_known(model, prices, f'{file} has no prices of {model!r}', 8)
  full = prices[model]
  cost: ModelCost = inspect_models().ModelCost(
    **{**dict.fromkeys(_CACHED, full['input']), **full}
  )
  return cost


# Tokens that a provider adds to a prompt, at most: its template of a chat.
TEMPLATE = 256


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
    self._settled, self._next = 0, 0
    self._changed = asyncio.Event()
    self._load()

  def _load(self) -> None:
    """Reads what earlier runs have spent."""
    if self._path is None or not self._path.exists():
      return
    lines: list[Any] = []
    calls: dict[int, ModelUsage] = {}
    with inputs.reading_file(self._path, 'a ledger of calls'):
      for line in self._path.read_bytes().split(b'\n'):
        # A line that a killed process did not finish is no JSON.
        with contextlib.suppress(ValueError):
          lines.append(json.loads(line))
      # The usage of a call replaces what was reserved for it.
      for entry in lines:
        calls[entry['call']] = self._models.ModelUsage(**entry['usage'])
      self._next = max(calls, default=-1) + 1
    self.usage = sum(calls.values(), self.nothing)

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
    # Prompts that are written to a cache may be charged more.
    dear = self._cost and self._cost.input_cache_write > self._cost.input
    usage: ModelUsage = self._models.ModelUsage(
      input_tokens=0 if dear else num,
      input_tokens_cache_write=num if dear else None,
      output_tokens=max_tokens,
      total_tokens=num + max_tokens,
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
    self._write(number, usage)
    return number

  def _fits(self, usage: ModelUsage) -> bool:
    held = sum(map(self.price, [*self._open.values(), usage]))
    return self.spent + held * self._excess <= self.limit

  def settle(self, number: int, usage: ModelUsage | None) -> None:
    """Counts what a call has used; None: all that was reserved for it."""
    reserved = self._open.pop(number)
    usage = reserved if usage is None else usage
    ratio = self.price(usage) / max(self.price(reserved), 1e-12)
    self._excess = max(self._excess, ratio)
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
