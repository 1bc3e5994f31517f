"""Plans: what a language model will be asked, listed before it is asked.

Each of its answers is a call that costs. So a metric is first run on a twin of
the predictor that lists questions and answers none (`QueryModel.dry_run`); the
list is counted, cut or refused; what is left is asked all at once; and the
metric is run again on answers that are known by then.
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

# Kinds of questions: can it go on so, with what, with which one of these, and
# which labels do sequences have?
YES_NO, ALL_NEXT, ONE_NEXT = 'yes_no', 'all_next', 'one_next'
LABELS = 'labels'
YES_NO_LIST = 'yes_no_list'  # Several of YES_NO in one prompt, see `merged`.


class Query(NamedTuple):
  """A question.

  Attributes:
    prompt: all of its text.
    kind: YES_NO, ALL_NEXT or ONE_NEXT; others have no truth by the world.
    prefix: the tokens that it is about; of LABELS a hash of the prompt.
    suffixes: what may follow: of YES_NO one, of YES_NO_LIST one for each item,
      of ONE_NEXT the choices; of LABELS one that says how many are wanted, of
      how many numbers, and of how many classes, 0 for real ones.
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
    value: bool of YES_NO; of YES_NO_LIST a tuple of these, None where an item
      has no answer, and `failure` says why; tuple of tokens of ALL_NEXT, PAD
      among them where it names what is none; place of the choice of ONE_NEXT;
      tuple of numbers of LABELS; None where there is none.
    failure: why there is none, or ''.
    probability: of yes, where the provider gives log-probabilities; else NaN.
    text: all that was written.
  """

  value: Any
  failure: str = ''
  probability: float = math.nan
  text: str = ''


def grouped(questions: Sequence[Query], size: int) -> list[list[Query]]:
  """Questions by prompt: up to `size` of YES_NO about one prefix, or a single.

  They are sorted by text: prompts with the longest common beginnings, which
  providers cache, follow each other, and the order tells nothing of the truth.
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
  """The question that a group is asked as; `items` divides its answer."""
  if len(group) == 1:
    return group[0]
  return group[0]._replace(
    prompt=verbal.yes_or_no_list([query.prompt for query in group]),
    kind=YES_NO_LIST,
    suffixes=tuple(query.suffixes[0] for query in group),
  )


def items(question: Query, answer: Answer) -> list[tuple[Query, Answer]]:
  """Each item of a YES_NO_LIST and its answer; else question and answer."""
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

  An example is a language model behind an API. Its language is the set of
  continuations that it calls valid, whatever the acceptance rule. Its
  next-token probabilities are uniform over the single tokens that it accepts.

  One that can `ask` pays for each answer with a call; it has all of `dry_run`,
  `ask` and `requests`.
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
  def requests(self, questions: Sequence[Query]) -> list[Query]:
    """What `ask` would send, a call each, if no answer were known."""
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
  """Place of the only legal choice; DEAD where it is not the only one."""
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
