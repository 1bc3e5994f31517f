"""Plans: what a language model will be asked, listed before it is asked.

Each of its answers is a call that costs. So a metric is first run on a twin of
the predictor that lists questions and answers none (`QueryModel.dry_run`); the
list is counted, cut or refused; what is left is asked all at once; and the
metric is run again on answers that are known by then.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wm.core.basics import DEAD, PAD, optional
from wm.core.predictor import Predictor, Tokens

if TYPE_CHECKING:
  from wm.core.world import World

# Kinds of questions: can it go on so, with what, with which one of these, and
# which labels do sequences have?
YES_NO, ALL_NEXT, ONE_NEXT = 'yes_no', 'all_next', 'one_next'
LABELS = 'labels'


class Query(NamedTuple):
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


class QueryModel(Predictor):
  """A predictor that only answers whether a continuation is valid.

  An example is a language model behind an API. Its language is the set of
  continuations that it calls valid, whatever the acceptance rule. Its
  next-token probabilities are uniform over the single tokens that it accepts.

  One that can `ask` pays for each answer with a call; it has all of `dry_run`,
  `ask` and `calls`.
  """

  @abc.abstractmethod
  def answers(
    self,
    prefixes: Sequence[Tokens],
    suffixes: Sequence[Tokens],
    trials: Sequence[int] | None = None,
  ) -> np.ndarray:
    """[N] int8: is each suffix valid after its prefix? YES, NO, NO_ANSWER.

    prefixes, suffixes: N tuples of token ids each.
    trials: [N] that questions belong to; None is no trial.
    """

  @optional
  def dry_run(self) -> tuple[QueryModel, list[Query]]:
    """A twin that answers nothing, and the list of what the twin is asked."""
    raise NotImplementedError

  @optional
  def ask(self, questions: Sequence[Query]) -> list[Answer]:
    """Puts questions, many at a time; known answers are not asked again.

    Raises:
      InputError: there is no such provider or model, or it wants a key.
    """
    raise NotImplementedError

  @optional
  def calls(self, questions: Sequence[Query]) -> int:
    """How many calls `ask` would take if no answer were known."""
    raise NotImplementedError

  @optional
  def choose(
    self, prefixes: Sequence[Tokens], choices: Sequence[Tokens]
  ) -> np.ndarray:
    """[N] int64: place of the one chosen of choices[n], or NO_ANSWER."""
    raise NotImplementedError


def truths(world: World, questions: Sequence[Query]) -> list[Any]:
  """What the world answers; None to kinds that it cannot.

  As of `Answer.value`; of ALL_NEXT in order of id.
  """
  answers: list[Any] = [None] * len(questions)
  rows = [k for k, q in enumerate(questions) if q.kind in _TRUTHS]
  states = _reached(world, [questions[k].prefix for k in rows])
  legal = world.legal(states)
  legal[:, PAD] = False
  for kind, truth in _TRUTHS.items():
    places = [n for n, k in enumerate(rows) if questions[k].kind == kind]
    asked = [questions[rows[n]].suffixes for n in places]
    values: list[Any] = truth(world, states[places], legal[places], asked)
    for n, value in zip(places, values, strict=True):
      answers[rows[n]] = value
  return answers


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
  answers = []
  for row, choices in zip(legal, asked, strict=True):
    right = [k for k, (token,) in enumerate(choices) if row[token]]
    answers.append(right[0] if len(right) == 1 else DEAD)
  return answers


_TRUTHS: dict[str, Any] = {YES_NO: _legal, ALL_NEXT: _next, ONE_NEXT: _one}
