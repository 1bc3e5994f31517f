"""What a reader makes of a text: `Reading`, what can follow what; and prompts.

Readers see text alone, and share nothing with the worlds that wrote it.
"""

from __future__ import annotations

import abc
import re
from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple

NOTHING = 'nothing'


class ContradictionError(ValueError):
  """A text says two things that cannot both be."""


class Reading(abc.ABC):
  """A world as a text tells it. States are hashable; None is illegal.

  Attributes:
    before: what was told first, where the text tells of a change.
  """

  before: Reading | None = None

  @abc.abstractmethod
  def start(self) -> Hashable:
    """The state before the first word."""

  @abc.abstractmethod
  def step(self, state: Any, word: str) -> Hashable | None:
    """The state after one more word; None where it cannot come."""

  @abc.abstractmethod
  def every(self) -> Iterable[str]:
    """All words there are, legal now or not."""

  def split(self, text: str) -> list[str]:
    """Words of a sequence, as prompts write them."""
    return text.split(', ') if text else []

  def follow(self, state: Any, words: Iterable[str]) -> Hashable | None:
    """The state after some words; None where one of them cannot come."""
    for word in words:
      if state is None:
        break
      state = self.step(state, word)
    return state

  def following(self, state: Any) -> list[str]:
    """The words that can come next."""
    return [word for word in self.every() if self.step(state, word) is not None]


class Question(NamedTuple):
  """A prompt about a world, in its parts.

  Attributes:
    told: the world in words.
    prefix: the sequence so far, '' where there is nothing.
    kind: 'yes_or_no', 'all_next' or 'one_next'.
    more: the suffix asked about, or the choices.
  """

  told: str
  prefix: str
  kind: str
  more: str = ''


# What stands before and after what is asked about.
_KINDS = {
  'yes_or_no': ('Can it go on with: ', '?\nAnswer yes or no.'),
  'one_next': (
    'Exactly one of these can come next: ',
    '.\nWhich one? Write it after "Answer:".',
  ),
  'all_next': ('What can come next? List every possible next element', ''),
}


def question(text: str) -> Question | None:
  """The parts of a prompt; None where it is no question about a world."""
  lines, result, rest = text.rpartition('So far: ')
  so_far, dot, asked = rest.partition('.\n')
  if not (result and dot):
    return None
  prefix = '' if so_far == NOTHING else so_far
  asked = asked.strip()
  for kind, (opening, closing) in _KINDS.items():
    if asked.startswith(opening) and closing in asked:
      more = asked.removeprefix(opening)
      more = more[: more.rindex(closing)] if closing else ''
      return Question(lines.strip(), prefix, kind, more)
  return None


def listed(text: str, pattern: str) -> list[tuple[str, ...]]:
  """Groups of each line of a text that a pattern is all of."""
  results = (re.fullmatch(pattern, line) for line in text.splitlines())
  return [match.groups() for match in results if match]
