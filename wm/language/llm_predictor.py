"""A language model as a predictor: it is asked about a world told in words.

A world and a `Backend` of answers come in; a `LanguageModel` goes out, which
metrics measure as any predictor. It words questions; `QueryBackend` puts them
to a provider (`provider`), keeps the replies (`answer_cache`) and reads them
(`grammar`).
`wm.language.models.language` makes both from a spec.
"""

from __future__ import annotations

import collections
import copy
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from wm import core
from wm.core import queries, verbal
from wm.core.predictor import Tokens
from wm.core.queries import Answer, Query
from wm.language import call_ledger, provider
from wm.language.answer_cache import AnswerCache, CallReply, key
from wm.language.answers import grammar, replies
from wm.models.serving import stateless
from wm.runtime import progress

if TYPE_CHECKING:
  from inspect_ai.model import ModelUsage

  from wm.language.models.language import Model

# What a text answers to a question.
Read = Callable[[Query, str], Answer]
UNASKED = Answer(None, 'not_asked')
_HAIR = 1e-6
PREFIX = 'wm/'  # Of the models that known answers are asked of.

# Tokens of an answer that are expected before any is known; of reasoning too,
# where Inspect's tables say that a model reasons.
EXPECTED = {queries.YES_NO: 3, queries.ONE_NEXT: 8, queries.ALL_NEXT: 24}
REASONED = 500
# `verbal.text_tokens` over the tokens of SmolLM2, at the median of all worlds.
ROUNDED_UP = 1.2


class Forecast(NamedTuple):
  """What questions without a stored answer are expected to take.

  Attributes:
    calls: to be made.
    usage: tokens of prompts, and of answers with their reasoning.
    measured: answers that this is estimated from; 0 is a guess.
  """

  calls: int
  usage: ModelUsage
  measured: int


class Backend(Protocol):
  """A source of answers: a provider, a dry run, recorded answers."""

  def answers(
    self, questions: Sequence[Query], model: LanguageModel
  ) -> list[Answer]:
    """One answer to each question, which `model` has worded and reads."""

  def diagnostics(self) -> list[str]:
    """See core.TokenReader."""
    return []


class LanguageModel(stateless.Accepting):
  """A language model that is prompted with a description of the world.

  A continuation is one yes-or-no question, however long it is; all next tokens
  are one question, answered by a list. Without an answer to that their
  log-probabilities are NaN.
  """

  unreadable = frozenset(replies.FAILURES)

  def __init__(
    self,
    world: verbal.Verbal,
    style: verbal.PromptStyle,
    backend: Backend,
    most: int = verbal.MAX_TOKENS,
    before: verbal.Verbal | None = None,
  ) -> None:
    """Puts the world in words.

    Args:
      world: what is asked about.
      style: how it is told.
      backend: what answers questions.
      most: tokens of the words, at most.
      before: a world of the same tokens, told as what held before.

    Raises:
      InputError: the world has too much to say.
    """
    super().__init__(
      lambda prefixes, suffixes: self.answers(prefixes, suffixes),
      vocab_size=len(world.vocab),
      end=world.end,
      max_len=world.max_len,
      label='the language model',
    )
    self.world, self.style, self.backend = world, style, backend
    # Rendered once: it heads every prompt, and providers cache equal heads.
    self._description = verbal.render_description(world, style, most, before)
    self.before = before
    # Answers name tokens as the prompt does.
    self.read = grammar.AnswerReader(world.token_names(style)).read

  def yes_no(self, prefix: Tokens, suffix: Tokens, trial: int = 0) -> Query:
    """The question whether a prefix can go on with a suffix."""
    words = self._words
    # A prompt holds the whole question: equal prompts are one call.
    prompt = verbal.yes_or_no(self._description, words(prefix), words(suffix))
    return Query(prompt, queries.YES_NO, prefix, (suffix,), trial)

  def all_next(self, prefix: Tokens, trial: int = 0) -> Query:
    """The question what can come after a prefix."""
    prompt = verbal.all_next(self._description, self._words(prefix))
    return Query(prompt, queries.ALL_NEXT, prefix, (), trial)

  def one_next(self, prefix: Tokens, choices: Tokens, trial: int = 0) -> Query:
    """The question which one of some tokens comes after a prefix."""
    # Choices are named as in the rest of the prompt, so an answer can be read.
    names = [self._words((token,)) for token in choices]
    prompt = verbal.one_next(self._description, self._words(prefix), names)
    single = tuple((token,) for token in choices)
    return Query(prompt, queries.ONE_NEXT, prefix, single, trial)

  def _words(self, tokens: Tokens) -> str:
    return self.world.render_tokens(tokens, self.style)

  def dry_run(self) -> tuple[LanguageModel, list[Query]]:
    """See core.QueryModel.ask."""
    # The twin asks the same questions, as they depend on no answer.
    dry_run = RecordedBackend()
    twin = copy.copy(self)
    twin.backend = dry_run
    return twin, dry_run.questions

  def ask(self, questions: Sequence[Query]) -> list[Answer]:
    """See core.QueryModel.ask."""
    return self.backend.answers(questions, self)

  def answers(
    self,
    prefixes: Sequence[Tokens],
    suffixes: Sequence[Tokens],
    trials: Sequence[int] | None = None,
  ) -> np.ndarray:
    """See core.QueryModel.ask."""
    # The trial tells equal prompts apart in a list of queries, not in the
    # cache.
    numbers = range(len(prefixes)) if trials is None else trials
    # All questions of a metric in one call: many are under way at a time.
    triples = zip(prefixes, suffixes, numbers, strict=True)
    answers = self.ask([self.yes_no(*triple) for triple in triples])
    return np.array([_code(triple) for triple in answers], np.int8)

  def choose(
    self, prefixes: Sequence[Tokens], choices: Sequence[Tokens]
  ) -> np.ndarray:
    """See core.QueryModel.choose."""
    pairs = enumerate(zip(prefixes, choices, strict=True))
    answers = self.ask([self.one_next(*pair, trial=n) for n, pair in pairs])
    return np.array([_code(answer) for answer in answers], np.int64)

  def last(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """[R, V] float32, uniform over the tokens it lists; NaN without an answer.

    PAD stands for listed names that are no tokens of the world, and is slightly
    less likely than the others.
    """
    # One question a prefix, each of a trial of its own.
    prefixes = core.predictor.histories(tokens, np.asarray(lengths))
    answers = self.ask([self.all_next(p, n) for n, p in enumerate(prefixes)])
    # NaN, not -inf, where there is no answer: a trial is then not measured.
    out = np.full((len(prefixes), self.vocab_size), -np.inf, np.float32)
    for row, answer in enumerate(answers):
      if answer.value is None:
        out[row] = np.nan
      elif answer.value:
        out[row, list(answer.value)] = -math.log(len(answer.value))
    # A hair below: the most likely token is one of the world's wherever it
    # lists any.
    out[:, core.PAD] -= _HAIR
    return out

  def next_mask(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """[R, V] bool of the tokens that it lists; see Accepting."""
    return self.last(tokens, lengths) > -np.inf

  def diagnostics(self) -> list[str]:
    """See core.TokenReader."""
    return self.backend.diagnostics()


def _code(answer: Answer) -> int:
  return core.NO_ANSWER if answer.value is None else int(answer.value)


class RecordedBackend(Backend):
  """Answers from a record, without one nothing; lists all questions.

  Keys of the record are questions without prompt and trial.

  Attributes:
    questions: all that were asked, in order.
  """

  def __init__(self, record: Mapping[Query, Answer] | None = None) -> None:
    self._record = record or {}
    self.questions: list[Query] = []

  def answers(
    self, questions: Sequence[Query], model: LanguageModel
  ) -> list[Answer]:
    """The recorded answer to each question, else UNASKED."""
    del model
    self.questions += questions
    bare = [question._replace(prompt='', trial=0) for question in questions]
    return [self._record.get(question, UNASKED) for question in bare]


class QueryBackend(Backend):
  """Asks a provider the questions that the answer cache has no answer to."""

  def __init__(self, settings: Model) -> None:
    """Opens the answer cache of the model that a spec names."""
    self.ledger: call_ledger.CallLedger | None = None
    self.settings = settings
    self._cache = AnswerCache(settings.answers, settings.identity())
    self._failed: dict[str, CallReply] = {}
    self._calls: list[CallReply] = []  # Made now.
    self._readings: dict[str, tuple[CallReply, Answer]] = {}
    # Replies whose tokens are known, after kind and size of their questions.
    self._counted: dict[str, tuple[str, int, CallReply]] = {}

  def answers(
    self, questions: Sequence[Query], model: LanguageModel
  ) -> list[Answer]:
    """One answer to each question; see core.QueryModel.ask."""
    # Prompts may be long and repeat: each is hashed once.
    places = {
      prompt: key(prompt)
      for prompt in {question.prompt for question in questions}
    }
    missing = {
      places[question.prompt]: question
      for question in questions
      if self._known(places[question.prompt]) is None
    }
    if missing:
      self._ask(missing, model)
    answers: dict[str, Answer] = {}
    for question in questions:
      asked = question.prompt
      if asked not in answers:
        answers[asked] = self._read(question, places[asked], model.read)
    return [answers[question.prompt] for question in questions]

  def _known(self, place: str) -> CallReply | None:
    return self._cache.get(place) or self._failed.get(place)

  def _ask(self, missing: dict[str, Query], model: LanguageModel) -> None:
    """Puts questions to the provider; keeps each answer at once."""
    self._cache.make_folder()  # Before anything is paid for.
    self._cache.refresh()  # Another process may have asked them.
    # Only what is still missing is counted as a call, and paid for.
    missing = {k: x for k, x in missing.items() if self._known(k) is None}
    # Providers cache the common beginnings of prompts that follow each other.
    sent = sorted(missing.items(), key=lambda item: item[1].prompt)
    with progress.Progress('questions', len(sent), 'calls') as shown:
      # Runs on the thread of the event loop: a reply is stored as it comes.
      def keep(number: int, reply: CallReply) -> None:
        """Keeps the reply to a call."""
        place, _ = sent[number]
        if reply.failure:
          # A failure is remembered for this run alone: the next run asks again.
          self._failed[place] = reply
        else:
          self._cache.put(place, reply)
        self._calls.append(reply)
        shown.update()

      if sent:
        questions = [question for _, question in sent]
        prompts = [question.prompt for question in questions]
        solved = list[dict[str, Any]]()  # Other models get no solutions.
        if self.settings.model.startswith(PREFIX):
          about = model.world, model.style, model.before
          solved = solutions(*about, questions)
        provider.replies(self.settings, prompts, keep, solved, self.ledger)

  def forecast(
    self, questions: Sequence[Query], anew: bool = False
  ) -> Forecast:
    """What is expected of questions, by the answers that are known by now.

    Prompts have as many tokens per character as those that a provider has
    counted; answers have the mean of their kind.

    anew: as if no answer were known already.
    """
    once = {question.prompt: question for question in questions}
    missing = list[Query]()
    for question in once.values():
      place = key(question.prompt)
      reply = self._cache.get(place)
      if reply is None or anew:
        missing.append(question)
      if reply is not None and reply.tokens_out:
        self._counted[place] = question.kind, len(question.prompt), reply
    prompts = [question.prompt for question in missing]
    tokens_in = verbal.prompt_tokens(prompts) / ROUNDED_UP
    if self._counted:
      _, sizes, counted = zip(*self._counted.values(), strict=True)
      rate = sum(reply.tokens_in for reply in counted) / sum(sizes)
      tokens_in = rate * sum(map(len, prompts))
    answers = {
      kind: self._expected(kind)
      for kind in {question.kind for question in missing}
    }
    # Tokens of all answers, and those among them that are reasoning.
    tokens_out = np.zeros(2)
    for question in missing:
      tokens = answers[question.kind]
      tokens_out += np.minimum(tokens, self.settings.max_tokens)
    usage = call_ledger.inspect_models().ModelUsage(
      input_tokens=round(tokens_in),
      output_tokens=round(tokens_out[0]),
      reasoning_tokens=round(tokens_out[1]),
    )
    return Forecast(len(missing), usage, len(self._counted))

  def _expected(self, kind: str) -> tuple[float, float]:
    """Tokens of an answer of a kind, and those of them that are reasoning."""
    alike = [x for name, _, x in self._counted.values() if name == kind]
    if alike:
      out = sum(reply.tokens_out for reply in alike) / len(alike)
      return out, sum(reply.thinking for reply in alike) / len(alike)
    info = call_ledger.model_info(self.settings.model)
    thinking = REASONED if info and info.reasoning else 0
    return EXPECTED.get(kind, 0) + thinking, thinking

  def _read(self, question: Query, place: str, read: Read) -> Answer:
    reply = self._known(place)
    assert reply is not None
    by_probability = self.settings.read == 'logprobs'
    reading = answer(question, reply, read, by_probability)
    # Counted once, however often it is read.
    self._readings.setdefault(place, (reply, reading))
    return reading

  def diagnostics(self) -> list[str]:
    """Numbers of calls and tokens, and causes of missing answers."""
    calls, readings = self._calls, self._readings.values()
    lines = [
      f'{self.settings.model}: {len(readings):,} answers; '
      f'{len(calls):,} calls were made now: '
      f'{sum(reply.tokens_in for reply in calls):,} tokens in, '
      f'{sum(reply.tokens_out for reply in calls):,} out'
    ]
    if characters := sum(
      reply.reasoning + replies.visible(reply.text).reasoning
      for reply, _ in readings
    ):
      lines.append(f'{characters:,} characters of reasoning, not read')
    causes = collections.Counter(x.failure for _, x in readings if x.failure)
    if causes:
      listed = ', '.join(f'{k} {n:,}' for k, n in sorted(causes.items()))
      lines.append(f'no answer: {listed}')
    errors = (
      reply.text
      for reply in self._failed.values()
      if reply.failure == provider.UNNAMED
    )
    if first := next(errors, ''):
      lines.append(f'the first {provider.UNNAMED}: {first}')
    return lines


def voted(each: Sequence[Answer]) -> Answer:
  """The most frequent of several answers to a question; none for a tie."""
  if len(each) == 1:
    return each[0]
  votes = collections.Counter(
    answer.value for answer in each if not answer.failure
  )
  chances = [x for answer in each if not math.isnan(x := answer.probability)]
  mean = sum(chances) / len(chances) if chances else math.nan
  # Two of equal number are a tie, whichever came first.
  first = votes.most_common(2)
  if not first:
    return each[0]
  if len(first) == 2 and first[0][1] == first[1][1]:
    return Answer(None, 'tie', mean, each[0].text)
  chosen = next(answer for answer in each if answer.value == first[0][0])
  return chosen._replace(probability=mean)


def answer(
  question: Query, reply: CallReply, read: Read, by_probability: bool = False
) -> Answer:
  """The answer in a reply.

  by_probability: yes or no is read off the log-probabilities of the first
    token, not off the text.
  """
  yes_no = question.kind == queries.YES_NO
  # Log-probabilities of other kinds of questions say nothing of yes.
  chance = reply.probability if yes_no else None
  chance = math.nan if chance is None else chance
  if reply.failure:
    return Answer(None, reply.failure, chance, reply.text)
  if by_probability and yes_no:
    if math.isnan(chance):
      return Answer(None, 'no_probability', chance, reply.text)
    return Answer(chance > 0.5, '', chance, reply.text)
  reading = read(question, reply.text)
  failure = replies.cause(reading.failure, reply.stop)
  return reading._replace(failure=failure, probability=chance)


def solutions(
  world: verbal.Verbal,
  style: verbal.PromptStyle,
  before: verbal.Verbal | None,
  questions: Sequence[Query],
) -> list[dict[str, Any]]:
  """What the known answers `wm/oracle` etc. know of each question.

  Args:
    world: that questions are about.
    style: how it is described, hence the names of its tokens.
    before: the world as it was before a change, if there was one.
    questions: of any kind.

  Returns:
    Metadata of each question, JSON values: `kind`, see `core.queries`; `right`,
    the right answer in words; `stale`, the right answer before the change;
    `choices`, the possible answers ('Yes.' and 'No.', names of tokens).
  """
  names = world.token_names(style)
  truths = queries.truths(world, questions)
  stale = queries.truths(before, questions) if before else truths
  return [
    {
      'kind': question.kind,
      'right': _written(question, names, truth),
      'stale': _written(question, names, old),
      'choices': choices(question, names),
    }
    for question, truth, old in zip(questions, truths, stale, strict=True)
  ]


def choices(question: Query, names: Sequence[str]) -> list[str]:
  """All that a question can be answered by."""
  if question.kind == queries.YES_NO:
    return ['Yes.', 'No.']
  if question.kind == queries.ALL_NEXT:
    return [name for token, name in enumerate(names) if token != core.PAD]
  return [names[token] for (token,) in question.suffixes]


def _written(question: Query, names: Sequence[str], truth: Any) -> str:
  """A truth, see `queries.truths`, in words."""
  if question.kind == queries.YES_NO:
    return 'Yes.' if truth else 'No.'
  if question.kind == queries.ALL_NEXT:
    listed = '; '.join(names[token] for token in truth)
    return f'Answer: {listed or verbal.NOTHING}'
  if truth == core.DEAD:
    return 'Answer: unknown'
  (token,) = question.suffixes[truth]
  return f'Answer: {names[token]}'
