"""Plans: what a language model will be asked, listed before it is asked.

Each of its answers is a call that costs. So a metric is first run on a twin of
the predictor that lists questions and answers none (`Questioned.listing`); the
list is counted, cut or refused; what is left is asked all at once; and the
metric is run again on answers that are known by then.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wm.core.basics import DEAD, PAD
from wm.core.predictor import AnswersOnly, TokenReader, Tokens

if TYPE_CHECKING:
  from wm.core.world import World

# Kinds of questions: can it go on so, with what, with which one of these, and
# which labels do sequences have?
YES_NO, ALL_NEXT, ONE_NEXT = 'yes_no', 'all_next', 'one_next'
LABELS = 'labels'


class Planned(NamedTuple):
  """A question.

  Attributes:
    prompt: all of its text.
    kind: YES_NO, ALL_NEXT or ONE_NEXT; others have no truth by the world.
    prefix: the tokens that it is about; of LABELS a hash of the prompt.
    suffixes: what may follow: of YES_NO one, of ONE_NEXT the choices; of LABELS
      one that says how many are wanted, of how many numbers, and of how many
      classes, 0 for real ones.
    trial: that it belongs to; questions of one trial depend on each other.
  """

  prompt: str
  kind: str
  prefix: Tokens = ()
  suffixes: tuple[Tokens, ...] = ()
  trial: int = 0


class Answer(NamedTuple):
  """What a question was answered.

  Attributes:
    value: bool of YES_NO; tuple of tokens of ALL_NEXT, PAD among them where it
      names what is none; place of the choice of ONE_NEXT; tuple of numbers of
      LABELS; None where there is none.
    failure: why there is none, or ''.
    probability: of yes, where the provider gives log-probabilities; else NaN.
    text: all that was written.
  """

  value: Any
  failure: str = ''
  probability: float = math.nan
  text: str = ''


class Questioned(AnswersOnly):
  """A predictor each of whose answers is a call that costs."""

  @abc.abstractmethod
  def answers(
    self,
    prefixes: Sequence[Tokens],
    suffixes: Sequence[Tokens],
    trials: Sequence[int] | None = None,
  ) -> np.ndarray:
    """See AnswersOnly; trials: [N] that questions are of, by default none's."""

  @abc.abstractmethod
  def listing(self) -> tuple[Questioned, list[Planned]]:
    """Its twin that answers nothing, and the list of what that is asked."""

  @abc.abstractmethod
  def ask(self, questions: Sequence[Planned]) -> list[Answer]:
    """Puts questions, many at a time; what was answered before is not asked.

    Raises InputError where there is no such provider or model, or it wants a
    key.
    """

  @abc.abstractmethod
  def calls(self, questions: Sequence[Planned]) -> int:
    """How many calls `ask` would take where no answer is known."""


class Chooses(TokenReader):
  """A reader that says which one of some tokens comes next."""

  @abc.abstractmethod
  def choose(
    self, prefixes: Sequence[Tokens], choices: Sequence[Tokens]
  ) -> np.ndarray:
    """[N] int64: place of the one chosen of choices[n], or NO_ANSWER."""


def truths(world: World, questions: Sequence[Planned]) -> list[Any]:
  """What the world answers; None to kinds that it cannot.

  As of `Answer.value`; of ALL_NEXT in order of id.
  """
  found: list[Any] = [None] * len(questions)
  rows = [k for k, q in enumerate(questions) if q.kind in _TRUTHS]
  states = _reached(world, [questions[k].prefix for k in rows])
  legal = world.legal(states)
  legal[:, PAD] = False
  for kind, truth in _TRUTHS.items():
    some = [n for n, k in enumerate(rows) if questions[k].kind == kind]
    asked = [questions[rows[n]].suffixes for n in some]
    values: list[Any] = truth(world, states[some], legal[some], asked)
    for n, value in zip(some, values, strict=True):
      found[rows[n]] = value
  return found


def table(rows: Sequence[Tokens]) -> tuple[np.ndarray, np.ndarray]:
  """Tuples as tokens [N, L] int32, padded with PAD, and lengths [N] int32."""
  lengths = np.array([len(row) for row in rows], np.int32)
  tokens = np.full((len(rows), int(lengths.max(initial=0))), PAD, np.int32)
  for n, row in enumerate(rows):
    tokens[n, : len(row)] = row
  return tokens, lengths


def _reached(world: World, prefixes: Sequence[Tokens]) -> np.ndarray:
  """[N, W] states; dead where a prefix is illegal."""
  return world.walk(world.init(len(prefixes)), *table(prefixes))[1]


def _legal(
  world: World, states: np.ndarray, legal: np.ndarray, asked: list
) -> list[bool]:
  tokens, lengths = table([suffix for (suffix,) in asked])
  steps, _ = world.walk(states, tokens, lengths)
  return (steps == lengths).tolist()


def _next(
  world: World, states: np.ndarray, legal: np.ndarray, asked: list
) -> list[Tokens]:
  return [tuple(np.flatnonzero(row).tolist()) for row in legal]


def _one(
  world: World, states: np.ndarray, legal: np.ndarray, asked: list
) -> list[int]:
  """Place of the only legal choice; DEAD where it is not the only one."""
  found = []
  for row, choices in zip(legal, asked, strict=True):
    right = [k for k, (token,) in enumerate(choices) if row[token]]
    found.append(right[0] if len(right) == 1 else DEAD)
  return found


_TRUTHS: dict[str, Any] = {YES_NO: _legal, ALL_NEXT: _next, ONE_NEXT: _one}
