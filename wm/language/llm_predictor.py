"""A language model as a predictor: it is asked about a world told in words.

A world and a `Backend` of answers come in; a `LanguageModel` goes out, which
metrics measure as any predictor. It words questions; `QueryBackend` puts them
to a provider (`provider`), keeps the replies (`answer_cache`) and reads them
(`grammar`).
`wm.language.models.language` makes both from a spec.

It adapts to a new task in its prompt (Vafa et al. 2025 fine-tune instead), with
one call a data set:

    the world in words
    sequences with labels          a data set of adapting.FewShotTasks
    sequences without              adapting.QueryPoints
    "Answer:" and a list           its reply
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import hashlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from wm import core
from wm.core import adapting, queries, verbal
from wm.core.predictor import Tokens
from wm.core.queries import Answer, Query
from wm.language import call_ledger, provider
from wm.language.answer_cache import AnswerCache, CallReply, key
from wm.language.answers import grammar, replies
from wm.models.serving import few_shot, stateless
from wm.runtime import progress

if TYPE_CHECKING:
  from inspect_ai.model import ModelUsage

  from wm.language.models.language import Model

# What a text answers to a question.
Read = Callable[[Query, str], Answer]
UNASKED = Answer(None, 'not_asked')
_HAIR = 1e-6
PREFIX = 'wm/'  # Of the models that known answers are asked of.
_LABELLED = re.compile(r'^\d+\. (.*)$', re.MULTILINE)
SHOWN = 'Some sequences have labels. Each line is a sequence and its label.'
WANTED = 'These sequences have labels of the same kind.'


# Tokens of an answer that are expected before any is known; of reasoning too,
# where Inspect's tables say that a model reasons. A label is a token or three.
EXPECTED = {queries.YES_NO: 3, queries.ONE_NEXT: 8, queries.ALL_NEXT: 24}
EXPECTED[queries.YES_NO_LIST] = 5  # For each item.
PER_LABEL, REASONED = 3, 500
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
  """A source of answers: a provider, a dry run, recorded answers.

  Attributes:
    per_prompt: yes-or-no questions in a prompt, at most.
  """

  per_prompt: int = 1

  def answers(
    self, questions: Sequence[Query], model: LanguageModel
  ) -> list[Answer]:
    """One answer to each question, which `model` has worded and reads."""

  def diagnostics(self) -> list[str]:
    """See core.TokenReader."""
    return []


class LanguageModel(stateless.Accepting, core.Adaptable):
  """A language model that is prompted with a description of the world.

  A continuation is one yes-or-no question, however long it is; all next tokens
  are one question, answered by a list. Without an answer to that their
  log-probabilities are NaN.

  Adapting is a prompt of sequences with labels, of no more tokens than the
  world may have.
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
    self._most, self.before = most, before
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
    dry_run = RecordedBackend(per_prompt=self.backend.per_prompt)
    return self._asking(dry_run), dry_run.questions

  def _asking(self, backend: Backend) -> LanguageModel:
    """The same, of which another backend answers the questions."""
    twin = copy.copy(self)
    twin.backend = backend
    return twin

  def ask(self, questions: Sequence[Query]) -> list[Answer]:
    """See core.QueryModel.ask."""
    return self.backend.answers(questions, self)

  def requests(self, questions: Sequence[Query]) -> list[Query]:
    """See core.QueryModel.ask."""
    once = {question.prompt: question for question in questions}
    groups = queries.grouped([*once.values()], self.backend.per_prompt)
    return [*map(queries.merged, groups)]

  def single(self) -> LanguageModel:
    """The same, which a provider is asked each question of alone."""
    if not isinstance(self.backend, QueryBackend):
      return self
    return self._asking(self.backend.single())

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

  def adapt_to(self, data: adapting.Adaptation) -> np.ndarray:
    """See core.Adaptable: one call a data set; steps make no difference.

    The class that is said has the score log 1.5, others log 0.5. All of a data
    set without an answer is NaN; places that are DEAD are 0.

    Raises:
      InputError: a place has several labels, a prompt is too long, or data
        sets have no end.
    """
    sets, asked, kind, steps, *_ = data
    if isinstance(sets, adapting.TaskStream):
      raise core.InputError(
        'a language model is shown all labels in its prompt; expected data '
        'sets, and no stream of them'
      )
    if isinstance(kind, adapting.Classes) and kind.heads > 1:
      raise core.InputError(
        f'a language model is asked for one label a place, not {kind.heads}'
      )
    # A call a data set, all in one batch: many are under way at a time.
    questions = [
      self._labels(sets, asked, kind, d) for d in range(len(sets.tokens))
    ]
    # [D, M, P]: places that are asked about, in the order of the prompt.
    # D data sets, M rows, P places; A = places of one data set in use:
    #   used [D, M, P]   labels [A] or [A, d]   outputs [D, M, P, 1, k] or [...,
    # d]
    used = asked.places != core.DEAD
    outputs = np.zeros((*used.shape, *kind.shape), np.float32)
    for d, answer in enumerate(self.ask(questions)):
      if answer.value is None:
        outputs[d] = np.nan
        continue
      labels = np.array(answer.value)
      if isinstance(kind, adapting.Classes):
        labels = few_shot.class_scores(labels, kind.k)
      outputs[d][used[d]] = labels.reshape(-1, *kind.shape)
    # All labels are in the prompt at once: steps make no difference.
    repeated = np.broadcast_to(outputs, (len(steps), *outputs.shape))
    return repeated

  def _labels(
    self,
    sets: adapting.FewShotTasks,
    asked: adapting.QueryPoints,
    kind: adapting.LabelSpec,
    d: int,
  ) -> Query:
    """The question of data set d."""
    examples = []
    # Row by row: answers are read back in the order of the prompt.
    for n, p in np.argwhere(sets.places[d] != core.DEAD):
      words = self._words(_upto(sets.tokens[d, n], sets.places[d, n, p]))
      # Six digits: more would cost tokens and say nothing to a model.
      numbers = [f'{number:.6g}' for number in sets.labels[d, n, p].tolist()]
      label = numbers[0] if len(numbers) == 1 else f'[{", ".join(numbers)}]'
      examples.append((words, label))
    unlabelled = [
      self._words(_upto(asked.tokens[d, m], asked.places[d, m, p]))
      for m, p in np.argwhere(asked.places[d] != core.DEAD)
    ]
    text = prompt(self._description, examples, unlabelled, kind)
    # Estimated before anything is sent: a provider would cut the prompt, or
    # charge for the refusal.
    tokens = verbal.text_tokens(text)
    if tokens > self._most:
      raise core.InputError(
        f'{self.world.name}: {len(examples)} sequences with labels and '
        f'{len(unlabelled)} without are about {tokens:,} tokens in words; '
        f'expected at most {self._most:,} (most_told): fewer or shorter ones'
      )
    each = (
      (1, kind.k) if isinstance(kind, adapting.Classes) else (kind.outputs, 0)
    )
    # What the reader expects of the list: its length, and the form of a label.
    form = len(unlabelled), *each
    # Data sets that differ in labels alone are told apart by a hash.
    # 52 bits, as JSON numbers are exact up to 2^53.
    mark = int(hashlib.sha256(text.encode()).hexdigest()[:13], 16)
    return Query(text, queries.LABELS, (mark,), (form,), d)


def prompt(
  world: str,
  examples: Sequence[tuple[str, str]],
  unlabelled: Sequence[str],
  kind: adapting.LabelSpec,
) -> str:
  """The prompt of a data set.

  Args:
    world: in words.
    examples: sequences in words, and their labels.
    unlabelled: sequences in words.
    kind: of labels.
  """
  # Numbered lines: known answers find the labelled sequences by `_LABELLED`.
  shown = [
    f'{n}. {words}: {label}' for n, (words, label) in enumerate(examples, 1)
  ]
  asked_of = [f'{n}. {words}' for n, words in enumerate(unlabelled, 1)]
  if isinstance(kind, adapting.Classes):
    classes = [str(k) for k in range(kind.k)]
    form = f'{", ".join(classes[:-1])} or {classes[-1]}'
  else:
    form = 'a number' if kind.d == 1 else f'a list of {kind.d} numbers'
  return '\n'.join(
    [
      world,
      '',
      SHOWN,
      *shown,
      '',
      WANTED,
      *asked_of,
      '',
      f'Which labels? Write a list of {len(unlabelled)} labels in this order, '
      f'each {form}, in square brackets after "Answer:".',
    ]
  )


def _upto(tokens: np.ndarray, place: int) -> Tokens:
  return tuple(tokens[: place + 1].tolist())


def _code(answer: Answer) -> int:
  return core.NO_ANSWER if answer.value is None else int(answer.value)


class RecordedBackend(Backend):
  """Answers from a record, without one nothing; lists all questions.

  Keys of the record are questions without prompt and trial.

  Attributes:
    questions: all that were asked, in order.
  """

  def __init__(
    self, record: Mapping[Query, Answer] | None = None, per_prompt: int = 1
  ) -> None:
    self._record, self.per_prompt = record or {}, per_prompt
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
    self.settings, self.per_prompt = settings, settings.per_prompt
    self._cache = AnswerCache(settings.answers, settings.identity())
    self._failed: dict[str, CallReply] = {}
    self._calls: list[CallReply] = []  # Made now.
    self._readings: dict[str, tuple[CallReply, Answer]] = {}
    # Replies whose tokens are known, after kind and size of their questions.
    self._counted: dict[str, tuple[str, int, CallReply]] = {}

  def single(self) -> QueryBackend:
    """One of the same ledger that puts each question in a prompt of its own."""
    if self.per_prompt == 1:
      return self
    backend = QueryBackend(dataclasses.replace(self.settings, per_prompt=1))
    backend.ledger = self.ledger
    return backend

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
    # By prompt and kind: one text can be read as yes or no, or as a list.
    answers: dict[tuple[str, str], Answer] = {}
    for question in questions:
      asked = question.prompt, question.kind
      if asked not in answers:
        answers[asked] = self._read(question, places[asked[0]], model.read)
    return [answers[question.prompt, question.kind] for question in questions]

  def _known(self, place: str) -> CallReply | None:
    return self._cache.get(place) or self._failed.get(place)

  def _ask(self, missing: dict[str, Query], model: LanguageModel) -> None:
    """Puts questions to the provider; keeps each answer at once."""
    self._cache.make_folder()  # Before anything is paid for.
    self._cache.refresh()  # Another process may have asked them.
    # Only what is still missing is counted as a call, and paid for.
    missing = {k: x for k, x in missing.items() if self._known(k) is None}
    marks = {question.prompt: mark for mark, question in missing.items()}
    sent = [
      ([marks[question.prompt] for question in group], group)
      for group in queries.grouped([*missing.values()], self.per_prompt)
    ]
    with progress.Progress('questions', len(sent), 'calls') as shown:
      # Runs on the thread of the event loop: a reply is stored as it comes.
      def keep(number: int, reply: CallReply) -> None:
        """Keeps the reply to a call."""
        places, _ = sent[number]
        if reply.failure:
          # A failure is remembered for this run alone: the next run asks again.
          self._failed |= dict.fromkeys(places, reply)
        else:
          self._cache.put(places[0], reply, *places[1:])
        self._calls.append(reply)
        shown.update()

      if sent:
        questions = [queries.merged(group) for _, group in sent]
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
    unknown = list[Query]()
    for question in once.values():
      place = key(question.prompt)
      reply = self._cache.get(place)
      if reply is None or anew:
        unknown.append(question)
      # One item of a list stands for all: their prompts are of one length.
      if reply is not None and reply.tokens_out and not reply.item:
        alike = queries.merged([question] * max(reply.items, 1))
        self._counted[place] = alike.kind, len(alike.prompt), reply
    groups = queries.grouped(unknown, self.per_prompt)
    missing = [*map(queries.merged, groups)]
    prompts = [question.prompt for question in missing]
    tokens_in = verbal.prompt_tokens(prompts) / ROUNDED_UP
    if self._counted:
      _, sizes, counted = zip(*self._counted.values(), strict=True)
      rate = sum(reply.tokens_in for reply in counted) / sum(sizes)
      tokens_in = rate * sum(map(len, prompts))
    answers = {
      kind: self._expected(kind, missing)
      for kind in {question.kind for question in missing}
    }
    # Tokens of all answers, and those among them that are reasoning.
    tokens_out = np.zeros(2)
    for question in missing:
      is_list = question.kind == queries.YES_NO_LIST
      num = len(question.suffixes) if is_list else 1
      tokens = np.multiply(answers[question.kind], num)
      tokens_out += np.minimum(tokens, self.settings.max_tokens)
    usage = call_ledger.inspect_models().ModelUsage(
      input_tokens=round(tokens_in),
      output_tokens=round(tokens_out[0]),
      reasoning_tokens=round(tokens_out[1]),
    )
    return Forecast(len(missing), usage, len(self._counted))

  def _expected(
    self, kind: str, missing: Sequence[Query]
  ) -> tuple[float, float]:
    """Tokens of an answer of a kind, and those of them that are reasoning.

    Of a YES_NO_LIST for each item.
    """
    alike = [x for name, _, x in self._counted.values() if name == kind]
    if alike:
      num = sum(max(reply.items, 1) for reply in alike)
      out = sum(reply.tokens_out for reply in alike) / num
      return out, sum(reply.thinking for reply in alike) / num
    visible: float = EXPECTED.get(kind, 0)
    if kind == queries.LABELS:
      forms = [q.suffixes[0] for q in missing if q.kind == kind]
      visible = PER_LABEL * sum(num * each for num, each, _ in forms)
      visible /= len(forms)
    # As much for each item of a list, up to max_tokens of a call.
    info = call_ledger.model_info(self.settings.model)
    thinking = REASONED if info and info.reasoning else 0
    return visible + thinking, thinking

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
  question: Query,
  reply: CallReply,
  read: Read,
  by_probability: bool = False,
) -> Answer:
  """The answer in a reply.

  by_probability: yes or no is read off the log-probabilities of the first
    token, not off the text.
  """
  # The whole reply is kept for each item, so that a better reader of lists
  # reads old answers anew.
  if reply.items:
    asked = queries.merged([question] * reply.items)
    whole = answer(asked, reply._replace(items=0), read)
    return queries.items(asked, whole)[reply.item][1]
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
    `choices`, the possible answers ('Yes.' and 'No.', names of tokens, labels);
    `num`, labels or items that are asked for.
  """
  names = world.token_names(style)
  truths = queries.truths(world, questions)
  stale = queries.truths(before, questions) if before else truths
  return [
    _labels(world, names, question)
    if question.kind == queries.LABELS
    else {
      'kind': question.kind,
      'right': _written(question, names, truth),
      'stale': _written(question, names, old),
      'choices': choices(question, names),
      'num': len(question.suffixes),
    }
    for question, truth, old in zip(questions, truths, stale, strict=True)
  ]


def choices(question: Query, names: Sequence[str]) -> list[str]:
  """All that a question can be answered by."""
  if question.kind in (queries.YES_NO, queries.YES_NO_LIST):
    return ['Yes.', 'No.']
  if question.kind == queries.ALL_NEXT:
    return [name for token, name in enumerate(names) if token != core.PAD]
  return [names[token] for (token,) in question.suffixes]


def _written(question: Query, names: Sequence[str], truth: Any) -> str:
  """A truth, see `queries.truths`, in words."""
  if question.kind == queries.YES_NO:
    return 'Yes.' if truth else 'No.'
  if question.kind == queries.YES_NO_LIST:
    return '\n'.join(
      f'{number}. {"Yes." if value else "No."}'
      for number, value in enumerate(truth, 1)
    )
  if question.kind == queries.ALL_NEXT:
    listed = '; '.join(names[token] for token in truth)
    return f'Answer: {listed or verbal.NOTHING}'
  if truth == core.DEAD:
    return 'Answer: unknown'
  (token,) = question.suffixes[truth]
  return f'Answer: {names[token]}'


def _labels(
  world: core.World, names: Sequence[str], question: Query
) -> dict[str, Any]:
  """The label of each sequence's state, as the examples of a prompt have it.

  Sequences are read from the prompt, as a question of this kind has no tokens.
  A state without a label gets a class by a hash of the prompt and of the
  state's place in it; numbers are means, of all labels where there are none.
  """
  _, _, text = question.prompt.rpartition(SHOWN)
  shown, _, truth = text.partition(WANTED)
  pairs = [line.rpartition(': ') for line in _LABELLED.findall(shown)]
  asked = _LABELLED.findall(truth)
  ((_, _, classes),) = question.suffixes
  states = _states(world, names, [words for words, _, _ in pairs] + asked)
  labels = collections.defaultdict(list)
  for state, (_, _, label) in zip(states, pairs, strict=False):
    labels[state].append(label)
  every = [label for _, _, label in pairs]
  answers: list[str] = []
  order: dict[int, int] = {}
  for state in states[len(pairs) :]:
    if not classes:
      answers.append(_mean(labels.get(state, every)))
      continue
    place = order.setdefault(state, len(order))
    digest = hashlib.sha256(f'{place} {question.prompt}'.encode()).digest()
    votes = collections.Counter(labels.get(state, [str(digest[0] % classes)]))
    answers.append(min(votes, key=lambda label: (-votes[label], label)))
  right = f'Answer: [{", ".join(answers)}]'
  return {
    'kind': question.kind,
    'right': right,
    'stale': right,
    'choices': [str(k) for k in range(classes)] or every,
    'num': len(asked),
  }


def _states(
  world: core.World, names: Sequence[str], sequences: Sequence[str]
) -> list[int]:
  """The state after each sequence in words."""
  tokens = {name: token for token, name in enumerate(names)}
  rows = [
    tuple(tokens[name] for name in words.split(', ')) for words in sequences
  ]
  _, states = world.walk(world.init(len(rows)), *queries.table(rows))
  ids: list[int] = world.state_id(states).tolist()
  return ids


def _mean(labels: Sequence[str]) -> str:
  """Mean of numbers, or of lists of them, as they are written."""
  rows = [[float(x) for x in label.strip('[]').split(', ')] for label in labels]
  means = [
    f'{sum(column) / len(rows):.6g}' for column in zip(*rows, strict=True)
  ]
  return means[0] if len(means) == 1 else f'[{", ".join(means)}]'
