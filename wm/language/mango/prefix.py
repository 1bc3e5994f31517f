"""How much of a walkthrough a prompt shows: whole steps, within a budget.

Source: Ding et al. 2024, section 3.1. The authors keep 3,600 tokens of GPT's
4,096 for the walkthrough, and drop the step that is cut in two.
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from wm import core

# Tokens of a prompt, and those of them for all but the walkthrough.
BUDGET = 4096
RESERVED = 496

_RULE = '==========='
# What one token is at least, where no tokenizer counts: English has about 4.
_CHARACTERS = 3.5

Counter = Callable[[str], int]


class Shown(NamedTuple):
  """A step as a prompt shows it.

  Attributes:
    number: from 0.
    action: 'Init' of step 0.
    observation: what the game says; the place alone in the setting 'simple'.
  """

  number: int
  action: str
  observation: str


def estimate(text: str) -> int:
  """Tokens of a text, rather too many than too few; no tokenizer is asked."""
  return -int(-len(text.encode('utf-8', 'replace')) // _CHARACTERS)


def block(step: Shown) -> str:
  """One step as in the published walkthroughs, with its rule above."""
  return (
    f'{_RULE}\n==>STEP NUM: {step.number}\n==>ACT: {step.action}\n'
    f'==>OBSERVATION: {step.observation}\n\n'
  )


def render(steps: Sequence[Shown]) -> str:
  """Whole blocks, without blanks at the end."""
  return ''.join(map(block, steps)).rstrip()


def cut(
  steps: Sequence[Shown],
  counter: Counter = estimate,
  budget: int = BUDGET - RESERVED,
  last: int = 70,
) -> int:
  """The last step T of the longest prefix that fits, whole blocks only.

  Texts of growing length are counted, about ten of them.

  Args:
    steps: of a walkthrough, from step 0.
    counter: tokens of a text; must not fall as the text grows.
    budget: most tokens of the prefix.
    last: no later step than this.

  Raises:
    InputError: there is no step, or the first one does not fit.
  """
  some = [step for step in steps if step.number <= last]
  if not some:
    raise core.InputError(f'no step up to {last} to show; expected step 0')
  counted = functools.cache(lambda size: counter(render(some[:size])))
  # Sizes 1, 2, ... count ever more tokens: how many of them fit?
  fit = bisect.bisect_right(
    range(1, len(some) + 1), budget, key=lambda size: counted(size)
  )
  if not fit:
    raise core.InputError(
      f'a budget of {budget:,} tokens does not hold step 0, which takes '
      f'{counted(1):,}; give more'
    )
  return some[fit - 1].number


def room(
  rest: str, answer: int, counter: Counter = estimate, budget: int = BUDGET
) -> int:
  """Tokens left for the walkthrough.

  Args:
    rest: all else of the prompt, at its longest.
    answer: tokens that the model may write.
    counter: tokens of a text.
    budget: of prompt and answer together.

  Raises:
    InputError: nothing is left.
  """
  taken = counter(rest) + answer
  if taken >= budget:
    raise core.InputError(
      f'a budget of {budget:,} tokens leaves none for the walkthrough: lists '
      f'and question take {taken - answer:,}, the answer {answer:,}'
    )
  return budget - taken
