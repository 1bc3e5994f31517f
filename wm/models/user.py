"""A user's own model: a function from tokens to logits, or an object.

Methods of an object are listed in `wm.models.serving.user_objects`: logits,
activations, a cache, or yes-or-no answers.

It is checked that a function predicts the next token from earlier tokens only.
It is called with sequences of the world, at the shortest and the longest input
of scoring: a repeated call must agree; later tokens, other rows of the batch,
padding and its length must not matter; logits must not be those of the token
that was just read. The checks are a sample: a model that passes may be wrong.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import os
import pathlib
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from wm import core
from wm.core import inputs, plugins, registry, resources
from wm.core.fields import field
from wm.models.serving import few_shot, stateless, user_objects

TOLERANCE = 1e-4  # Nats.
# Log-probabilities below that of one in a million count as that.
FLOOR = np.log(1e-6)
ROWS = 16  # Sequences that are asked about, at least.
PLACES = 6  # Positions compared in each.
PARTS, WHOLE = (1.0, 0.5, 0.75, 0.25), (1.0,)  # Of sequences, in turn.

# Evidence of a shift: the mean probability of the token just read, from so
# many positions at least.
SURE, LEAST_PLACES = 0.9, 32
# Or its advantage over the next one: nats (models fitted to tell t + 1 from
# t - 1 reach 0.11 on the worlds that there are, shifted bigrams 0.28 to 1.3
# where moves tell anything), and standard errors, from so many sequences and
# positions.
ADVANTAGE, DEVIATIONS, MANY, MANY_PLACES = 0.25, 6, 128, 24


class CheckInput(NamedTuple):
  """Sequences of a world, and where predictions are compared.

  Attributes:
    tokens: [N, L] int32.
    lengths: [N].
    at: [N, P] positions below the lengths, ascending.
  """

  tokens: np.ndarray
  lengths: np.ndarray
  at: np.ndarray


class CheckOutput(NamedTuple):
  """Predictions at the P positions of each row.

  Attributes:
    log_probs: [N, P, V] float32.
    allowed: [N, P] greatest difference, in nats.
  """

  log_probs: np.ndarray
  allowed: np.ndarray

  def apart(self, other: CheckOutput) -> np.ndarray:
    """[N, P] greatest difference of log-probabilities, in nats."""
    return np.abs(self.log_probs - other.log_probs).max(-1)


Ask = Callable[[CheckInput], CheckOutput]


def check(
  predictor: core.Predictor,
  world: core.World,
  label: str,
  *,
  tolerance: float = TOLERANCE,
  copies: bool = False,
) -> None:
  """Raises InputError, with the evidence, where a check fails.

  Args:
    predictor: written by a user.
    world: its sequences are the inputs.
    label: name of the model in errors.
    tolerance: greatest difference of log-probabilities, in nats, times the
      size of the greatest logit where that is above 1.
    copies: it may legitimately predict the last input token.
  """
  if predictor.vocab_size != len(world.vocab):
    return  # For the metrics to say.
  if not tolerance > 0:
    raise core.InputError(
      f'{label}: tolerance={tolerance} was given; expected nats, above 0'
    )
  # Two lengths, the shortest and the longest that scoring pads to: a model that
  # reads padding may do so only where there is much of it.
  longest, rows = min(predictor.max_len, world.max_len), ROWS
  sizes = {min(user_objects.MULTIPLE, longest), longest}
  ask = functools.partial(_by_log_probs, predictor, tolerance)
  if isinstance(predictor, user_objects.FromCallable):
    rows = predictor.rows
    sizes = {predictor.padded(1), predictor.padded(longest)}
    ask = functools.partial(_by_logits, predictor, tolerance)
  lengths = tuple(sorted(sizes))
  _Checks(ask, rows, lengths, predictor.vocab_size, label, copies).run(world)


def _by_logits(
  predictor: user_objects.FromCallable, tolerance: float, question: CheckInput
) -> CheckOutput:
  logits = predictor.logits(question.tokens)
  # A sum of 1 everywhere is no chance, and would be read as near equality.
  sums = logits.astype(np.float64).sum(-1)
  shares = (logits >= 0).all() and ((logits > 0) & (logits < 1)).any()
  if shares and np.allclose(sums, 1, atol=1e-3):
    raise core.InputError(
      f'{predictor.label} gave probabilities, which add up to 1; expected '
      'logits or log-probabilities, such as their logarithm'
    )
  # [N, L, V] -> [N, P, V]: a few positions of a row, as V may be large.
  logits = np.take_along_axis(logits, question.at[..., None], 1)
  log_probs = predictor.normal(logits)
  # Numbers of few bits are further apart the larger they are.
  least = max(tolerance, 8 * predictor.spacing)
  return CheckOutput(log_probs, least * np.maximum(np.abs(logits.max(-1)), 1))


def _by_log_probs(
  predictor: core.Predictor, tolerance: float, question: CheckInput
) -> CheckOutput:
  log_probs = np.asarray(predictor.log_probs(question.tokens, question.lengths))
  log_probs = np.take_along_axis(log_probs, question.at[..., None], 1)
  return CheckOutput(log_probs, np.full(question.at.shape, tolerance))


@dataclasses.dataclass(frozen=True)
class _Checks:
  """The checks of one model.

  Attributes:
    ask: the model.
    rows: N of every call.
    sizes: lengths L of inputs, ascending.
    vocab_size: V.
    label: what errors call the model.
    copies: the model means to say the last token again.
  """

  ask: Ask
  rows: int
  sizes: tuple[int, ...]
  vocab_size: int
  label: str
  copies: bool

  def run(self, world: core.World) -> None:
    """Raises InputError at the first check that fails."""
    # Whole batches of the size that scoring calls with.
    groups = -(-ROWS // self.rows)
    sequences = world.sample(groups * self.rows, 0)
    if not len(sequences):
      return
    # Worlds may have fewer sequences than were asked for.
    sequence = np.arange(groups * self.rows) % len(sequences)
    rng = np.random.default_rng(0)
    questions = [_cut(sequences.take(sequence), size) for size in self.sizes]
    answers = [self._ask(question) for question in questions]
    # The cheapest check comes first: a model that is random fails all others,
    # with hints that would mislead.
    hint = 'switch off dropout and all else that is random'
    again = self._ask(questions[0])
    self._agree('calling it again', hint, questions[0], answers[0], again)
    for question, seen in zip(questions, answers, strict=True):
      # First: the checks after it change other rows, too.
      self._other_rows(question, seen, rng)
      for what, hint, tokens, places in self._changes(question, rng):
        again = self._ask(question._replace(tokens=tokens))
        self._agree(what, hint, question, seen, again, places)
    if len(questions) > 1:
      short, longest = questions[0], self.sizes[-1]
      missing = longest - short.tokens.shape[1]
      longer = np.pad(short.tokens, ((0, 0), (0, missing)))
      what = f'padding to {longest} tokens, not {short.tokens.shape[1]},'
      hint = 'it must not matter; of lower precision? then give tolerance='
      again = self._ask(short._replace(tokens=longer))
      self._agree(what, hint, short, answers[0], again)
    self._shifted(world, sequences, questions[-1], answers[-1])

  def _ask(self, question: CheckInput) -> CheckOutput:
    parts = [
      self.ask(CheckInput(*(part[rows] for part in question)))
      for rows in core.predictor.chunks(len(question.tokens), 1, self.rows)
    ]
    # Floored: two answers of -inf agree, but their difference is NaN.
    answer = CheckOutput(*map(np.concatenate, zip(*parts, strict=True)))
    return answer._replace(log_probs=np.maximum(answer.log_probs, FLOOR))

  def _others(self, tokens: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Tokens of the same shape, all but padding, none where it was."""
    count = self.vocab_size - 1
    if count < 2:
      return np.ones_like(tokens)
    # 1 + (id - 1 + step) mod (V - 1): any id but padding and the one there.
    step = rng.integers(1, count, tokens.shape)
    return ((np.maximum(tokens, 1) - 1 + step) % count + 1).astype(np.int32)

  def _agree(
    self,
    what: str,
    hint: str,
    question: CheckInput,
    first: CheckOutput,
    second: CheckOutput,
    places: np.ndarray | bool = True,
  ) -> None:
    """Raises InputError where two answers differ at some of places [N, P]."""
    apart = first.apart(second)
    # NaN compares as False below, and is refused.
    excess = np.where(places, apart / first.allowed, 0)
    if excess.max() <= 1:
      return
    row, k = np.unravel_index(excess.argmax(), excess.shape)
    raise core.InputError(
      f'{self.label}: {what} changes the prediction after token '
      f'{question.at[row, k] + 1} of {question.lengths[row]} by '
      f'{apart[row, k]:.2g} nats; expected at most '
      f'{first.allowed[row, k]:.2g}: {hint}'
    )

  def _changes(
    self, question: CheckInput, rng: np.random.Generator
  ) -> Iterator[tuple[str, str, np.ndarray, np.ndarray | bool]]:
    """Yields (what changes, hint, tokens, positions that must not change)."""
    tokens, lengths, at = question
    places = np.arange(tokens.shape[1])
    used = places < lengths[:, None]
    # Rows change behind different places, so that all places are covered.
    turn = np.arange(len(tokens)) % (PLACES - 1)
    last = at[np.arange(len(tokens)), turn][:, None]  # Tokens kept, less one.
    later = used & (places > last)
    yield (
      'another later token',
      'it must depend on the tokens up to there only, as by a causal mask',
      np.where(later, self._others(tokens, rng), tokens),
      at <= last,
    )
    yield (
      'another padding token',
      'what comes after the sequence must not matter',
      np.where(used, tokens, self._others(tokens, rng)),
      True,
    )

  def _other_rows(
    self, question: CheckInput, answer: CheckOutput, rng: np.random.Generator
  ) -> None:
    """Asks the first half of each batch in other slots, beside other rows."""
    # slots    0 .. half - 1    half .. rows - 1
    # before   the first half   the second half
    # now      other tokens     the first half: its answers must not change
    half = self.rows // 2
    if not half:
      return
    starts = np.arange(0, len(question.tokens), self.rows)[:, None]
    first = (starts + np.arange(half)).ravel()
    moved = question._replace(tokens=self._others(question.tokens, rng))
    moved = CheckInput(*map(np.copy, moved))
    for new, old in zip(moved, question, strict=True):
      new[first + half] = old[first]
    again = self._ask(moved)
    self._agree(
      'another batch around its row',
      'a row must depend on its own tokens only, unlike in batch norm',
      CheckInput(*(array[first] for array in question)),
      CheckOutput(*(array[first] for array in answer)),
      CheckOutput(*(array[first + half] for array in again)),
    )

  def _shifted(
    self,
    world: core.World,
    sequences: core.Sequences,
    question: CheckInput,
    answer: CheckOutput,
  ) -> None:
    """Refuses logits of the token just read, where that is beyond doubt.

    Two kinds. The model reads token t, and all but surely says it again, while
    the world's sequences do so half as often at most. Or its logits after
    token t do not depend on t and do on t - 1, and t is likelier by them than
    t + 1, in sequences of the world, clearly and by many standard errors. A
    model that knows nothing favours neither; one that means to copy is less
    sure, or says so; one of t - 1 alone that is not shifted fits t + 1.
    """
    last = _last_tokens(world, sequences, question, answer)
    if last.used.sum() < LEAST_PLACES:
      return
    wrong = 'logits at position t must be of token t + 1'
    # The first kind: it says again the token just read.
    sure = np.exp(last.read[last.used]).mean()
    often = last.again[last.used].mean()
    if not self.copies and sure >= SURE and often <= SURE / 2:
      raise core.InputError(
        f'{self.label}: it gives the token just read a probability of '
        f'{sure:.3g} (mean of {last.used.sum()} positions), which comes again '
        f'at {often:.2g} of them: {wrong}; one that means to copy, or is '
        'untrained with tied embeddings, is given copies=True'
      )
    # The second kind: a few sequences hint at it, and MANY decide.
    if last.gains().mean() <= 0 or not self._lags(question, world.prompt_len):
      return
    more = world.sample(-(-MANY // self.rows) * self.rows, 1)
    if len(more) < MANY:
      return
    asked = _cut(more, question.tokens.shape[1], WHOLE, MANY_PLACES)
    gains = _last_tokens(world, more, asked, self._ask(asked)).gains()
    # Sequences are independent: this is the standard error of their mean.
    error = gains.std() / np.sqrt(len(gains))
    if gains.mean() > max(ADVANTAGE, DEVIATIONS * error):
      raise core.InputError(
        f'{self.label}: its prediction after token t does not depend on token '
        f't, and gives it {gains.mean():.2g} nats more than the next one, by '
        f'{len(gains)} sequences ({error:.1g} standard error): {wrong}'
      )

  def _lags(self, question: CheckInput, prompt: int) -> bool:
    """True where predictions ignore the last token, but not the one before."""
    rng, rows = np.random.default_rng(1), np.arange(len(question.tokens))
    # One position a row, of different ones in turn, as in `_changes`.
    last = question.at[rows, 1 + rows % (PLACES - 1)]
    at_last = question._replace(at=last[:, None])
    answer, other = self._ask(at_last), self._others(question.tokens, rng)
    differs = []
    # Changed in turn: the token just read, then the one before it.
    for back in (0, 1):
      place = np.maximum(last - back, 0)
      tokens = question.tokens.copy()
      tokens[rows, place] = other[rows, place]
      apart = answer.apart(self._ask(at_last._replace(tokens=tokens)))
      differs.append((apart > answer.allowed)[last > max(prompt, 1)])
    now, before = differs
    return bool(before.size) and not now.any() and before.mean() > 0.5


class _LastTokens(NamedTuple):
  """Predictions of the token just read, and of the one that follows.

  Attributes:
    read, after: [N, P] log-probability of each.
    again: [N, P] bool, they are the same token.
    used: [N, P] bool, there are such tokens, after the prompt.
  """

  read: np.ndarray
  after: np.ndarray
  again: np.ndarray
  used: np.ndarray

  def gains(self) -> np.ndarray:
    """Mean advantage of the token just read, nats, by sequence."""
    # By sequence, as positions of one sequence are not independent.
    gain = np.where(self.used, self.read - self.after, 0).sum(1)
    rows = self.used.any(1)
    return gain[rows] / self.used.sum(1)[rows]


def _last_tokens(
  world: core.World,
  sequences: core.Sequences,
  question: CheckInput,
  answer: CheckOutput,
) -> _LastTokens:
  num = len(sequences)  # Others come twice in `given`.
  at, log_probs = question.at[:num], answer.log_probs[:num]
  tokens, rows = sequences.tokens, np.arange(num)[:, None]
  # Prompts are given, not predicted, and the last token has no next one.
  used = (at >= world.prompt_len) & (at + 1 < sequences.lengths[:, None])
  read = tokens[rows, at]
  after = tokens[rows, np.minimum(at + 1, tokens.shape[1] - 1)]
  both = np.stack([read, after], -1)
  pairs = np.take_along_axis(log_probs, both, 2)
  return _LastTokens(pairs[..., 0], pairs[..., 1], read == after, used)


def _cut(
  sequences: core.Sequences,
  size: int,
  parts: Sequence[float] = PARTS,
  places: int = PLACES,
) -> CheckInput:
  """Sequences cut to lengths of all kinds, up to `size`, and padded to it."""
  num = len(sequences)
  lengths = np.minimum(sequences.lengths, size)
  lengths = np.ceil(lengths * np.resize(parts, num)).astype(int)
  lengths = np.maximum(lengths, 1)
  tokens = core.predictor.padded(sequences.tokens, lengths, num, size)
  at = np.linspace(0, lengths - 1, places, axis=1).round().astype(int)
  return CheckInput(tokens, lengths, at)


EXPECTED = "expected function='package.module:name' or 'file.py:name'"


def _label(function: str) -> str:
  return f'user model {plugins.shortened(function)!r}'


def load(function: str) -> Any:
  """The object named by 'package.module:name' or 'file.py:name'.

  Runs the user's module. Raises InputError where there is no such thing, or
  the module fails, with its file and line.
  """
  where, colon, attribute = function.rpartition(':')
  if not colon or not where or not attribute:
    raise core.InputError(f'user model: {function!r} was given; {EXPECTED}')
  label = _label(function)
  # A file is run by its path, a module looked up as `import` does.
  if where.endswith('.py'):
    thing = plugins.load(where, label)
  else:
    thing = _imported(where, label)
  with plugins.user_code(label):
    for name in attribute.split('.'):
      if not hasattr(thing, name):
        public = [key for key in dir(thing) if not key.startswith('_')]
        raise core.InputError(
          f'user model: {where!r} has no {attribute!r}; '
          + inputs.suggest(name, public)
        )
      thing = getattr(thing, name)
    if not user_objects.usable(thing):
      raise core.InputError(
        f'user model: {function!r} is of type {type(thing).__name__}; '
        f'{user_objects.EXPECTED}'
      )
  return thing


def _imported(where: str, label: str) -> types.ModuleType:
  with plugins.user_code(label), plugins.import_path(pathlib.Path.cwd()):
    try:
      return importlib.import_module(where)
    except ModuleNotFoundError as error:
      if not f'{where}.'.startswith(f'{error.name}.'):
        raise  # By a line of the user's.
      raise core.InputError(
        f'{label}: no module {error.name!r} (from {where!r}); {EXPECTED}'
      ) from error


@dataclasses.dataclass(frozen=True)
class Model(core.Model):
  """Tokens [rows, L] int32 -> logits [rows, L, V], causal; or an object.

  Attributes:
    function: 'package.module:name' or 'file.py:name'.
    max_len: longest input it takes, in tokens; 0 is the world's.
    rows: batch size of every call; the last one is filled up with pads.
    files: paths of all files that it reads, such as weights; () for none.
      Results are cached as long as these, and the function's module with its
      imports, stay the same. None: unknown, so no result is cached.
    tolerance: nats by which log-probabilities may differ where they should
      not, times the greatest logit where that is above 1. Of logits of 16
      bits, eight of their spacings if that is more. A model that computes in
      16 bits and gives 32 may need 0.1.
    copies: True if the model may legitimately predict the last input token, as
      an untrained one with tied embeddings does; otherwise this is reported as
      an off-by-one error in its logits.
  """

  gives: ClassVar[tuple[type, ...]] = (
    user_objects.FromCallable,
    few_shot.ByMethod,
    user_objects.CachedWithHidden,
    user_objects.WithPatched,
    stateless.Accepting,
  )

  function: str = ''
  max_len: int = field(0, least=0)
  rows: int = 16
  files: tuple[str, ...] | None = dataclasses.field(default=None, compare=False)
  tolerance: float = TOLERANCE
  copies: bool = False
  tokens: str = field(
    '',
    "file with the model's id of each token of the world, where they are "
    'numbered differently; other ids are left out, and the probabilities of '
    'these add up to 1',
    format=f'{user_objects.__name__}.read_tokens',
  )

  def cost(self, world: core.World | None = None) -> core.Cost:
    """See core.Bounded: tokens and logits of a call."""
    length, vocab = (world.max_len, len(world.vocab)) if world else (1, 2)
    return core.Cost(4 * self.rows * length * (1 + vocab), 0, ('rows',))

  def __post_init__(self) -> None:
    super().__post_init__()
    names = self.files
    if names is not None and not (
      isinstance(names, tuple) and all(isinstance(n, str) for n in names)
    ):
      raise core.InputError(
        f'user model: files={names!r} was given; expected a tuple of paths, '
        "such as files=('weights.pt',), or files=() for none"
      )

  def code(self) -> tuple[str, ...]:
    """See core.Model."""
    return (self.function.rpartition(':')[0],)

  def undeclared_inputs(self) -> str:
    """See core.Model."""
    if self.files is not None:
      return ''
    return (
      'a user model without files= does not say what files it reads '
      "(files=('weights.pt',); files=() for none)"
    )

  def predictor(self, world: core.World, seed: int) -> core.TokenReader:
    """See core.Model.

    Raises:
      InputError: `function` or a file is not found, the function fails, or is
        refused by `check`.
    """
    del seed
    resources.require(self, world)
    for name in self.files or ():
      if not os.path.exists(name):
        name = plugins.shortened(name)
        raise core.InputError(f'user model: no file {name!r}, of files=')
      if not os.path.isdir(name):
        with inputs.reading_file(name, 'a file, of files=') as path:
          path.open('rb').close()
    label = _label(self.function)
    with plugins.user_code(label):  # An object may fail where it is looked at.
      thing = load(self.function)
    return checked_predictor(
      thing,
      world,
      label,
      max_len=self.max_len,
      rows=self.rows,
      tolerance=self.tolerance,
      copies=self.copies,
      tokens=self.tokens or None,
    )


def checked_predictor(
  thing: Any,
  world: core.World,
  label: str,
  *,
  max_len: int = 0,
  rows: int = 16,
  tolerance: float = TOLERANCE,
  copies: bool = False,
  tokens: Mapping[str, Any] | str | os.PathLike[str] | None = None,
) -> core.TokenReader:
  """A user's object as a predictor that passed the checks of this module.

  Args:
    thing: a function or object, see `wm.models.serving.user_objects`.
    world: its sequences are what is read.
    label: what errors call it.
    max_len, rows, tolerance, copies: see Model.
    tokens: id of each token of the world, or a file of them, see
      `user_objects.read_tokens`; None where ids are the world's.

  Raises:
    InputError: it fails, gives no logits of the world's tokens, or looks ahead.
  """
  ids = None
  if tokens is not None:
    table = tokens
    if not isinstance(table, Mapping):
      table = user_objects.read_tokens(table, label)
    ids = user_objects.token_ids(table, world.vocab, label)
  with plugins.user_code(label):  # An object may fail where it is looked at.
    adapted = user_objects.adapted(thing, label)
    if ids is not None:
      adapted = user_objects.renumbered(adapted, ids, label)
    reader: Any = user_objects.predictor(
      adapted,
      vocab_size=len(world.vocab),
      end=world.end,
      max_len=max_len or world.max_len,
      rows=rows,
      label=label,
    )
  # Answers alone give no probabilities to be checked.
  if not isinstance(reader, core.QueryModel):
    check(reader, world, label, tolerance=tolerance, copies=copies)
  if isinstance(reader, user_objects.Cached):
    user_objects.check_cache(reader, world, tolerance)
  with plugins.user_code(label):
    return few_shot.adaptable(reader, thing, ids, label)


def predictor(
  model: core.Model, world: core.World, seed: int
) -> core.TokenReader:
  """The predictor of a model; that of a user's own file is checked.

  Raises InputError where `check` refuses it. It may predict the last
  input token.
  """
  reader = model.predictor(world, seed)
  if registry.is_file(model.name) and isinstance(reader, core.Predictor):
    check(reader, world, f'model {model.name!r}', copies=True)
  return reader
