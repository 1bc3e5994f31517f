"""Counts tokens as a model does, for prefixes within a budget."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable

from inspect_ai.model import Model, ModelAPI, get_model

from wm import core
from wm.language.mango import prefix

TOKENIZERS = 'model', 'estimate'


def counter(tokenizer: str = 'model') -> prefix.Counter:
  """What counts tokens: the model's own way where it has one, else a guess.

  Raises:
    InputError: there is no such tokenizer.
  """
  if tokenizer not in TOKENIZERS:
    raise core.InputError(
      f'no tokenizer {tokenizer!r}; available: {", ".join(TOKENIZERS)}'
    )
  if tokenizer == 'estimate':
    return prefix.estimate
  model = get_model()
  kind = type(model.api)
  own = (
    kind.count_text_tokens is not ModelAPI.count_text_tokens
    or kind.count_tokens is not ModelAPI.count_tokens
  )
  return _waiting(model) if own else prefix.estimate


def _waiting(model: Model) -> Callable[[str], int]:
  """Counts by the model; a loop that runs already waits for another thread."""

  def count(text: str) -> int:
    """Tokens of a text; InputError where the provider is out of reach."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
      found = pool.submit(asyncio.run, model.count_tokens(text))
      try:
        return found.result()
      except OSError as error:
        raise core.InputError(
          f'{model.name} counts no tokens: {error}; -T tokenizer=estimate '
          'needs nobody'
        ) from error

  return count
