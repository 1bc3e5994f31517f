"""Reads a model's answer to a MANGO question: a list of moves.

An answer is a list of dicts with three strings each: where a move begins, its
action, and where it ends. Nothing of it is ever run. Source: Ding et al. 2024,
section 2.3 and appendix A.5.
"""

from __future__ import annotations

import ast
import collections
import itertools
import json
import operator
import re
import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

from wm import core
from wm.language import replies

# The names of the three values, as the prompts of the two generations have
# them: the camera-ready one, and that of July 2023.
KEYS = (
  ('location_before', 'action', 'location_after'),
  ('prev_node', 'action', 'node'),
)

# How a list is found in a text.
BALANCED, FIRST_BRACKET = RULES = 'balanced', 'first_bracket'

# What can be wrong with an answer, beside what `replies` finds.
FAILURES = {
  **replies.FAILURES,
  'empty_list': 'a list without moves',
  'not_a_dict': 'a list of something else than dicts',
  'missing_key': 'a move without one of the three values',
  'wrong_type': 'a move with a value that is no text',
}

# What the published programs would read: longer texts are no answers.
_LONGEST = 1 << 16


class Move(NamedTuple):
  """One move of an answer; texts are as the model wrote them."""

  before: str
  action: str
  after: str


class Answer(NamedTuple):
  """What was read of a reply.

  Attributes:
    moves: of a well-formed answer; of a 'truncated' one, the complete moves.
    failure: '' of a well-formed answer, else a key of FAILURES.
    reasoning: characters of reasoning before it, which were not read.
  """

  moves: tuple[Move, ...] = ()
  failure: str = ''
  reasoning: int = 0


def parse(text: str, rule: str = BALANCED) -> Answer:
  """Reads the moves of a reply.

  Args:
    text: any string.
    rule: 'balanced' reads the first list, JSON or Python literals, with
      brackets and quotes inside of names. 'first_bracket' is the published
      programs': all from the first '[' to the first ']', as a Python literal.

  Raises:
    InputError: there is no such rule.
  """
  if rule == BALANCED:
    quick = _quick(text)
    if quick is not None:
      return quick
    found = replies.first_value(text, '[')
    moves, failure = _moves(found.value, found.failure == 'truncated')
    failure = found.failure or failure
    return Answer(moves, failure, found.reasoning)
  if rule == FIRST_BRACKET:
    value, failure = _first_bracket(text)
    return Answer((), failure) if failure else Answer(*_moves(value))
  raise core.InputError(
    f'no rule {rule!r} for reading answers; available: {", ".join(RULES)}'
  )


_GET = [operator.itemgetter(*keys) for keys in KEYS]


def _moves(value: Any, cut: bool = False) -> tuple[tuple[Move, ...], str]:
  """(moves, failure) of a value; of one that was cut, those before the cut."""
  if not isinstance(value, list):
    return (), 'nothing'
  for get in _GET:
    try:
      found = [get(item) for item in value]
    except (KeyError, TypeError):
      continue
    if set(map(type, itertools.chain.from_iterable(found))) == {str}:
      return tuple(map(Move._make, found)), ''
  return _mixed(value, cut)


def _mixed(value: list[Any], cut: bool) -> tuple[tuple[Move, ...], str]:
  """The same of a list whose items differ, or that has a failure."""
  found: list[Move] = []
  failure = '' if value else 'empty_list'
  for item in value:
    if not isinstance(item, dict):
      failure = 'not_a_dict'
      break
    values = _values(item)
    if values is None:
      failure = 'missing_key'
      break
    if not all(type(one) is str for one in values):
      failure = 'wrong_type'
      break
    found.append(Move(*values))
  return (tuple(found) if cut or not failure else ()), failure


def _values(item: dict[Any, Any]) -> tuple[Any, Any, Any] | None:
  """The three values of a move, by either set of keys; None without one."""
  for keys in KEYS:
    if all(key in item for key in keys):
      return item[keys[0]], item[keys[1]], item[keys[2]]
  return None


# What follows the last whole move of an answer that was cut short.
_TAIL = re.compile(r'\s*+(?:,\s*+(?:\{[^\]]*+)?)?')


_JSON = json.JSONDecoder(strict=False)


def _quick(text: str) -> Answer | None:
  """The answer of a plain text, by Python's JSON decoder, much faster.

  Plain are lists of nothing but moves, whole or cut short behind a move. None
  of any other text, which is then read with more care.
  """
  start = text.find('[')
  if start < 0 or len(text) > _LONGEST or not text.isascii():
    return None
  if '<' in text or '\\' in text:
    return None
  body = text[start:]
  end = body.rfind('}') + 1
  cut = body.find(']', end) < 0
  if cut:
    if not _TAIL.fullmatch(body, end):
      return None
    body = f'{body[:end]}]'
  if '"' not in body:
    body = body.replace("'", '"')
  try:
    value, size = _JSON.raw_decode(body)
  except (ValueError, RecursionError):
    return None
  moves, failure = _moves(value)
  if failure or (cut and size < len(body)):
    return None
  return Answer(moves, 'truncated' if cut else '')


def _first_bracket(text: str) -> tuple[Any, str]:
  """(value, failure) of what the published programs read."""
  start, end = text.find('['), text.find(']')
  if start < 0:
    return None, 'nothing' if text.strip() else 'empty'
  if end < 0:
    return None, 'truncated'
  if end < start:
    return None, 'nothing'
  if end - start > _LONGEST:
    return None, 'too_long'
  try:
    return _literal(text[start : end + 1]), ''
  except (SyntaxError, ValueError, TypeError):
    return None, 'malformed'
  except (MemoryError, RecursionError):  # What nests too deep for the parser.
    return None, 'too_deep'


def _literal(text: str) -> Any:
  if '\\' not in text:
    return ast.literal_eval(text)
  with warnings.catch_warnings():
    warnings.simplefilter('ignore')  # Of backslashes that mean nothing.
    return ast.literal_eval(text)


def failures(answers: Iterable[Answer]) -> dict[str, int]:
  """How many answers failed, by cause: a key of FAILURES; sorted by name."""
  counted = collections.Counter(a.failure for a in answers if a.failure)
  return dict(sorted(counted.items()))
