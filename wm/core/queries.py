"""Queries: the questions to a language model, listed before any is asked.

Each answer costs a call. A metric therefore first runs on a twin of the
predictor (`QueryModel.dry_run`), which lists the questions and answers none.
The list is counted, and cut or refused. The remaining questions are asked all
at once. The metric then runs again and reads the cached answers.
"""

from __future__ import annotations

import abc
import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wm.core import verbal
from wm.core.basics import DEAD, PAD, optional
from wm.core.predictor import Predictor, Tokens

if TYPE_CHECKING:
  from wm.core.world import World

# Kinds of questions: is a suffix valid, which tokens can come next, which one
# of several tokens comes next, and which labels do sequences have?
YES_NO, ALL_NEXT, ONE_NEXT = 'yes_no', 'all_next', 'one_next'
LABELS = 'labels'
YES_NO_LIST = 'yes_no_list'  # Several of YES_NO in one prompt, see `merged`.


class Query(NamedTuple):
  """One question to a language model.

  Attributes:
    prompt: the whole prompt.
    kind: YES_NO, YES_NO_LIST, ALL_NEXT, ONE_NEXT or LABELS; the world has no
      answer to LABELS.
    prefix: the tokens that the question is about; for LABELS a hash of the
      prompt.
    suffixes: one suffix for YES_NO, one for each item of YES_NO_LIST, the
      choices of ONE_NEXT. For LABELS one tuple: how many labels, numbers of
      each, and classes of each (0 for real numbers).
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
    value: None if there is no answer. For YES_NO a bool; for YES_NO_LIST a
      tuple of bools, None for an item without an answer; for ALL_NEXT a tuple
      of tokens, with PAD for a name that is no token; for ONE_NEXT the index
      of the choice; for LABELS a tuple of numbers.
    failure: reason for a missing answer, or ''.
    probability: probability of yes if the provider gives log-probabilities,
      else NaN.
    text: the whole reply.
  """

  value: Any
  failure: str = ''
  probability: float = math.nan
  text: str = ''


def grouped(questions: Sequence[Query], size: int) -> list[list[Query]]:
  """Groups questions by prompt: up to `size` YES_NO of one prefix, else one.

  Questions are sorted by text. Prompts with long common beginnings then follow
  each other, which providers cache, and the order does not reveal the truth.
  """
  groups: list[list[Query]] = []
  ordered = sorted(questions, key=lambda query: query.prompt)
  for (kind, _), equal in itertools.groupby(
    ordered, lambda q: (q.kind, q.prefix)
  ):
    rest = list(equal)
    num = -(-len(rest) // (size if kind == YES_NO else 1))
    groups += [rest[k::num] for k in range(num)]
  return groups


def merged(group: Sequence[Query]) -> Query:
  """Merges a group into one question; `items` splits its answer again."""
  if len(group) == 1:
    return group[0]
  return group[0]._replace(
    prompt=verbal.yes_or_no_list([query.prompt for query in group]),
    kind=YES_NO_LIST,
    suffixes=tuple(query.suffixes[0] for query in group),
  )


def items(question: Query, answer: Answer) -> list[tuple[Query, Answer]]:
  """The items of a YES_NO_LIST with their answers; else the pair as it is."""
  if question.kind != YES_NO_LIST:
    return [(question, answer)]
  values = answer.value or [None] * len(question.suffixes)
  return [
    (
      question._replace(kind=YES_NO, suffixes=(suffix,)),
      Answer(value, answer.failure if value is None else '', text=answer.text),
    )
    for suffix, value in zip(question.suffixes, values, strict=True)
  ]


class QueryModel(Predictor):
  """A predictor that only answers whether a continuation is valid.

  An example is a language model behind an API. The model accepts the
  continuations that it calls valid, whatever the acceptance rule. Its
  next-token probabilities are uniform over the single tokens that it accepts.

  A model that pays a call for each answer defines all of `dry_run`, `ask` and
  `requests`.
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
  def requests(self, questions: Sequence[Query]) -> list[Query]:
    """The calls of `ask`, one Query each, if no answer were cached."""
    raise NotImplementedError

  @optional
  def choose(
    self, prefixes: Sequence[Tokens], choices: Sequence[Tokens]
  ) -> np.ndarray:
    """[N] int64: index of the choice among choices[n], or NO_ANSWER."""
    raise NotImplementedError


def truths(world: World, questions: Sequence[Query]) -> list[Any]:
  """The world's answers as `Answer.value`; None for LABELS.

  Tokens of ALL_NEXT are in order of id.
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
  """Converts tuples to tokens [N, L] int32, padded, and lengths [N] int32."""
  lengths = np.array([len(row) for row in rows], np.int32)
  tokens = np.full((len(rows), int(lengths.max(initial=0))), PAD, np.int32)
  for n, row in enumerate(rows):
    tokens[n, : len(row)] = row
  return tokens, lengths


def _reached(world: World, prefixes: Sequence[Tokens]) -> np.ndarray:
  """[N, W] states after prefixes, followed to the first illegal token."""
  return world.walk(world.init(len(prefixes)), *table(prefixes))[1]


def _legal(
  world: World, states: np.ndarray, legal: np.ndarray, asked: list
) -> list[bool]:
  return [value for (value,) in _each_legal(world, states, legal, asked)]


def _each_legal(
  world: World, states: np.ndarray, legal: np.ndarray, asked: list
) -> list[tuple[bool, ...]]:
  counts = [len(suffixes) for suffixes in asked]
  tokens, lengths = table([*itertools.chain(*asked)])
  steps, _ = world.walk(np.repeat(states, counts, 0), tokens, lengths)
  values = iter((steps == lengths).tolist())
  return [tuple(itertools.islice(values, num)) for num in counts]


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


_TRUTHS: dict[str, Any] = {
  YES_NO: _legal,
  YES_NO_LIST: _each_legal,
  ALL_NEXT: _next,
  ONE_NEXT: _one,
}
