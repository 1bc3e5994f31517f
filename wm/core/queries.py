"""Queries: the questions to a language model, listed before any is asked.

Each answer costs a call. A metric therefore first runs on a twin of the
predictor (`QueryModel.dry_run`), which lists the questions and answers none.
The list is counted, and cut or refused. The remaining questions are asked all
at once. The metric then runs again and reads the cached answers.
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

# Kinds of questions: is a suffix valid, which tokens can come next, and which
# one of several tokens comes next?
YES_NO, ALL_NEXT, ONE_NEXT = 'yes_no', 'all_next', 'one_next'
KINDS = YES_NO, ALL_NEXT, ONE_NEXT


class Query(NamedTuple):
  """One question to a language model.

  Attributes:
    prompt: the whole prompt.
    kind: one of KINDS.
    prefix: the tokens that the question is about.
    suffixes: one suffix for YES_NO, the choices of ONE_NEXT.
    trial: the trial of the question; questions of a trial are dependent.
  """

  prompt: str
  kind: str
  prefix: Tokens = ()
  suffixes: tuple[Tokens, ...] = ()
  trial: int = 0


class Answer(NamedTuple):
  """The answer to a question.

  Attributes:
    value: None if there is no answer. For YES_NO a bool; for ALL_NEXT a tuple
      of tokens, with PAD for a name that is no token; for ONE_NEXT the index
      of the choice.
    failure: reason for a missing answer, or ''.
    probability: probability of yes if the provider gives log-probabilities,
      else NaN.
    text: the whole reply.
  """

  value: Any
  failure: str = ''
  probability: float = math.nan
  text: str = ''


class QueryModel(Predictor):
  """A predictor that only answers whether a continuation is valid.

  An example is a language model behind an API. The model accepts the
  continuations that it calls valid, whatever the acceptance rule. Its
  next-token probabilities are uniform over the single tokens that it accepts.

  A model that pays a call for each answer defines `dry_run` and `ask`.
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
    trials: [N] trial of each question; None: no trials.
    """

  @optional
  def dry_run(self) -> tuple[QueryModel, list[Query]]:
    """A twin that answers nothing, and the list of the twin's questions."""
    raise NotImplementedError

  @optional
  def ask(self, questions: Sequence[Query]) -> list[Answer]:
    """Asks questions concurrently; cached answers are not asked again.

    Raises:
      InputError: unknown provider or model, or the provider needs a key.
    """
    raise NotImplementedError

  @optional
  def choose(
    self, prefixes: Sequence[Tokens], choices: Sequence[Tokens]
  ) -> np.ndarray:
    """[N] int64: index of the choice among choices[n], or NO_ANSWER."""
    raise NotImplementedError


def truths(world: World, questions: Sequence[Query]) -> list[Any]:
  """The world's answers as `Answer.value`; tokens in order of id."""
  answers: list[Any] = [None] * len(questions)
  states = _reached(world, [question.prefix for question in questions])
  legal = world.legal(states)
  legal[:, PAD] = False
  for kind, truth in _TRUTHS.items():
    places = [n for n, query in enumerate(questions) if query.kind == kind]
    asked = [questions[n].suffixes for n in places]
    values: list[Any] = truth(world, states[places], legal[places], asked)
    for n, value in zip(places, values, strict=True):
      answers[n] = value
  return answers


def table(rows: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
  """Converts rows to tokens [N, L] int32, padded, and lengths [N] int32."""
  lengths = np.array([len(row) for row in rows], np.int32)
  tokens = np.full((len(rows), int(lengths.max(initial=0))), PAD, np.int32)
  if tokens.size:
    used = np.arange(tokens.shape[1]) < lengths[:, None]
    tokens[used] = np.concatenate(rows)
  return tokens, lengths


def _reached(world: World, prefixes: Sequence[Tokens]) -> np.ndarray:
  """[N, W] states after prefixes, followed to the first illegal token."""
  return world.walk(world.init(len(prefixes)), *table(prefixes))[1]


def _legal(
  world: World, states: np.ndarray, legal: np.ndarray, asked: list
) -> list[bool]:
  tokens, lengths = table([suffix for (suffix,) in asked])
  steps, _ = world.walk(states, tokens, lengths)
  values: list[bool] = (steps == lengths).tolist()
  return values


def _next(
  world: World, states: np.ndarray, legal: np.ndarray, asked: list
) -> list[Tokens]:
  return [tuple(np.flatnonzero(row).tolist()) for row in legal]


def _one(
  world: World, states: np.ndarray, legal: np.ndarray, asked: list
) -> list[int]:
  """Index of the only legal choice; DEAD unless exactly one is legal."""
  answers = []
  for row, choices in zip(legal, asked, strict=True):
    right = [k for k, (token,) in enumerate(choices) if row[token]]
    answers.append(right[0] if len(right) == 1 else DEAD)
  return answers


_TRUTHS: dict[str, Any] = {YES_NO: _legal, ALL_NEXT: _next, ONE_NEXT: _one}
