"""A language model as a predictor: it is asked about a world told in words."""

from __future__ import annotations

import collections
import math
import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from wm import core
from wm.core import queries, verbal
from wm.core.predictor import Tokens
from wm.core.queries import Answer, Query
from wm.language import replies
from wm.models.serving import accepting, provider
from wm.models.serving.answer_cache import AnswerCache, Key, Reply, key
from wm.models.serving.name_reader import NameReader
from wm.runtime import progress

# What a text answers to a question.
Read = Callable[[Query, str], Answer]
Solve = Callable[[Sequence[Query]], list[dict[str, Any]]]
UNASKED = Answer(None, 'not_asked')
_HAIR = 1e-6


class Answers(Protocol):
  """What answers questions, however it does.

  Attributes:
    repeats: times that each is put.
  """

  repeats: int

  def answers(self, questions: Sequence[Query], read: Read) -> list[Answer]:
    """One answer to each question; `read` reads what was written."""

  def diagnostics(self) -> list[str]:
    """See core.TokenReader."""


class LanguageModel(accepting.Accepting):
  """Answers by what a language model says of a world told in words.

  A continuation is put as one yes-or-no question, however long it is; all next
  tokens are one question that lists them. Where that has no answer, their
  log-probabilities are NaN.

  Attributes:
    reads: what reads the answers.
  """

  reads: type[NameReader] = NameReader

  def __init__(
    self,
    world: verbal.Verbal,
    telling: verbal.PromptStyle,
    asker: Answers,
    most: int = verbal.MAX_TOKENS,
    before: verbal.Verbal | None = None,
  ) -> None:
    """Puts the world in words.

    Args:
      world: what is asked about.
      telling: how it is told.
      asker: what answers questions.
      most: tokens of the words, at most.
      before: a world of the same tokens, told as what held before.

    Raises:
      InputError: the world has no such wording, or too much to say.
    """
    super().__init__(
      lambda prefixes, suffixes: self.answers(prefixes, suffixes),
      vocab_size=len(world.vocab),
      end=world.end,
      max_len=world.max_len,
      label='the language model',
    )
    self.world, self.telling, self._asker = world, telling, asker
    self._told = verbal.render_description(world, telling, most, before)
    self._most, self._before = most, before
    self._reader = self.reads(world.token_names(telling))

  def yes_no(self, prefix: Tokens, suffix: Tokens, trial: int = 0) -> Query:
    """The question whether a prefix can go on with a suffix."""
    words = self._words
    prompt = verbal.yes_or_no(self._told, words(prefix), words(suffix))
    return Query(prompt, queries.YES_NO, prefix, (suffix,), trial)

  def all_next(self, prefix: Tokens, trial: int = 0) -> Query:
    """The question what can come after a prefix."""
    prompt = verbal.all_next(self._told, self._words(prefix))
    return Query(prompt, queries.ALL_NEXT, prefix, (), trial)

  def one_next(self, prefix: Tokens, choices: Tokens, trial: int = 0) -> Query:
    """The question which one of some tokens comes after a prefix."""
    names = [self._words((token,)) for token in choices]
    prompt = verbal.one_next(self._told, self._words(prefix), names)
    single = tuple((token,) for token in choices)
    return Query(prompt, queries.ONE_NEXT, prefix, single, trial)

  def _words(self, tokens: Tokens) -> str:
    return self.world.render_tokens(tokens, self.telling)

  def dry_run(self) -> tuple[LanguageModel, list[Query]]:
    """See core.QueryModel.ask."""
    lister = Lister()
    twin = type(self)(
      self.world, self.telling, lister, self._most, self._before
    )
    return twin, lister.questions

  def ask(self, questions: Sequence[Query]) -> list[Answer]:
    """See core.QueryModel.ask."""
    return self._asker.answers(questions, self._reader.read)

  def calls(self, questions: Sequence[Query]) -> int:
    """See core.QueryModel.ask."""
    return len({one.prompt for one in questions}) * self._asker.repeats

  def answers(
    self,
    prefixes: Sequence[Tokens],
    suffixes: Sequence[Tokens],
    trials: Sequence[int] | None = None,
  ) -> np.ndarray:
    """See core.QueryModel.ask."""
    numbers = range(len(prefixes)) if trials is None else trials
    triples = zip(prefixes, suffixes, numbers, strict=True)
    found = self.ask([self.yes_no(*one) for one in triples])
    return np.array([_code(one) for one in found], np.int8)

  def choose(
    self, prefixes: Sequence[Tokens], choices: Sequence[Tokens]
  ) -> np.ndarray:
    """See core.QueryModel.choose."""
    pairs = enumerate(zip(prefixes, choices, strict=True))
    found = self.ask([self.one_next(*pair, trial=n) for n, pair in pairs])
    return np.array([_code(one) for one in found], np.int64)

  def last(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """[R, V] float32, uniform over what it lists; NaN without an answer.

    PAD stands for what it lists that the world has no token for, by a hair less
    likely than the others.
    """
    prefixes = core.histories(tokens, np.asarray(lengths))
    found = self.ask([self.all_next(p, n) for n, p in enumerate(prefixes)])
    out = np.full((len(prefixes), self.vocab_size), -np.inf, np.float32)
    for row, one in enumerate(found):
      if one.value is None:
        out[row] = np.nan
      elif one.value:
        out[row, list(one.value)] = -math.log(len(one.value))
    out[:, core.PAD] -= _HAIR
    return out

  def next_mask(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """[R, V] bool of the tokens that it lists; see Accepting."""
    return self.last(tokens, lengths) > -np.inf

  def diagnostics(self) -> list[str]:
    """See core.TokenReader."""
    return self._asker.diagnostics()


def _code(answer: Answer) -> int:
  return core.NO_ANSWER if answer.value is None else int(answer.value)


class Lister:
  """Answers nothing and lists what it was asked."""

  repeats = 1

  def __init__(self) -> None:
    self.questions: list[Query] = []

  def answers(
    self,
    questions: Sequence[Query],
    read: Read,
  ) -> list[Answer]:
    """Nothing to each."""
    del read
    self.questions += questions
    return [UNASKED] * len(questions)

  def diagnostics(self) -> list[str]:
    """None."""
    return []


class Asker:
  """Asks a provider what the answer cache does not know."""

  def __init__(
    self,
    settings: provider.Settings,
    *,
    repeats: int = 1,
    by_probability: bool = False,
    where: str | os.PathLike = '',
    solve: Solve | None = None,
  ) -> None:
    """Opens the answer cache.

    Args:
      settings: model and how it is asked.
      repeats: times that each question is put; most answers win, a tie is none.
      by_probability: yes or no is read off the log-probabilities of the first
        token, not off the text.
      where: folder of answers; '' is the user's own.
      solve: solutions of questions, see `solutions`; of known answers alone.
    """
    self._solve = solve
    self.repeats = repeats
    self._settings, self._by_probability = settings, by_probability
    self._cache = AnswerCache(where, settings.about())
    self._failed: dict[Key, Reply] = {}
    self._counts: collections.Counter[str] = collections.Counter()
    self._causes: collections.Counter[str] = collections.Counter()
    self._seen: set[Key] = set()

  def answers(
    self,
    questions: Sequence[Query],
    read: Read,
  ) -> list[Answer]:
    """One answer to each question; see core.QueryModel.ask."""
    hashed = {one.prompt: key(one.prompt, 0)[0] for one in questions}
    missing = {}
    for one in questions:
      for repeat in range(self.repeats):
        place = hashed[one.prompt], repeat
        if self._known(place) is None:
          missing[place] = one
    if missing:
      self._ask(missing)
    found: dict[tuple[str, str], Answer] = {}
    for one in questions:
      asked = hashed[one.prompt], one.kind
      if asked not in found:
        found[asked] = voted(
          [
            self._read(one, (hashed[one.prompt], repeat), read)
            for repeat in range(self.repeats)
          ]
        )
    return [found[hashed[one.prompt], one.kind] for one in questions]

  def _known(self, place: Key) -> Reply | None:
    return self._cache.get(place) or self._failed.get(place)

  def _ask(self, missing: dict[Key, Query]) -> None:
    """Puts questions to the provider; keeps each answer at once."""
    self._cache.refresh()  # Another process may have asked them.
    missing = {k: x for k, x in missing.items() if self._known(k) is None}
    places = list(missing)
    with progress.Progress('questions', len(places), 'calls') as shown:

      def keep(number: int, reply: Reply) -> None:
        """Keeps the reply to a call."""
        place = places[number]
        if reply.failure:
          self._failed[place] = reply
        else:
          self._cache.put(place, reply)
        self._counts['calls'] += 1
        self._counts['tokens_in'] += reply.tokens_in
        self._counts['tokens_out'] += reply.tokens_out
        shown.update()

      if places:
        questions = list(missing.values())
        prompts = [question.prompt for question in questions]
        solved = (self._solve(questions),) if self._solve else ()
        provider.replies(self._settings, prompts, keep, *solved)

  def _read(
    self,
    question: Query,
    place: Key,
    read: Read,
  ) -> Answer:
    reply = self._known(place)
    assert reply is not None
    found = answer(question, reply, read, self._by_probability)
    if place not in self._seen:  # Counted once, however often it is read.
      self._seen.add(place)
      self._counts['answers'] += 1
      seen = replies.visible(reply.text)
      self._counts['reasoning'] += reply.reasoning + seen.reasoning
      if found.failure:
        self._causes[found.failure] += 1
    return found

  def diagnostics(self) -> list[str]:
    """What was asked, and why some has no answer."""
    counts: Any = self._counts
    lines = [
      f'{self._settings.model}: {counts["answers"]:,} answers, '
      f'{counts["calls"]:,} of them asked for now: {counts["tokens_in"]:,} '
      f'tokens in, {counts["tokens_out"]:,} out'
    ]
    if counts['reasoning']:
      lines.append(f'{counts["reasoning"]:,} characters of reasoning, not read')
    if self._causes:
      listed = ', '.join(f'{k} {n:,}' for k, n in sorted(self._causes.items()))
      lines.append(f'no answer: {listed}')
    errors = (
      one.text
      for one in self._failed.values()
      if one.failure == provider.UNNAMED
    )
    if first := next(errors, ''):
      lines.append(f'the first {provider.UNNAMED}: {first}')
    return lines


def voted(each: Sequence[Answer]) -> Answer:
  """The answer that most of some to one question give; none where there is a
  tie.
  """
  if len(each) == 1:
    return each[0]
  votes = collections.Counter(one.value for one in each if not one.failure)
  known = [x for one in each if not math.isnan(x := one.probability)]
  mean = sum(known) / len(known) if known else math.nan
  first = votes.most_common(2)
  if not first:
    return each[0]
  if len(first) == 2 and first[0][1] == first[1][1]:
    return Answer(None, 'tie', mean, each[0].text)
  chosen = next(one for one in each if one.value == first[0][0])
  return chosen._replace(probability=mean)


def answer(
  question: Query,
  reply: Reply,
  read: Read,
  by_probability: bool = False,
) -> Answer:
  """What a reply answers.

  by_probability: see Asker.
  """
  yes_no = question.kind == queries.YES_NO
  chance = reply.probability if yes_no else None
  chance = math.nan if chance is None else chance
  if reply.failure:
    return Answer(None, reply.failure, chance, reply.text)
  if by_probability and yes_no:
    if math.isnan(chance):
      return Answer(None, 'no_probability', chance, reply.text)
    return Answer(chance > 0.5, '', chance, reply.text)
  found = read(question, reply.text)
  failure = found.failure
  if failure and reply.stop in _STOPPED:
    failure = _STOPPED[reply.stop]
  return found._replace(failure=failure, probability=chance)


# Why a reply that cannot be read ended -> what that is called.
_STOPPED = {
  'max_tokens': 'cut_off',
  'model_length': 'cut_off',
  'content_filter': 'refused',
}
