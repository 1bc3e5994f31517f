"""Checks of users' models and worlds, before anything is measured.

A model's predictions, activations, adapted answers and cached states must be
functions of the token sequence. `Invariances` evaluates each of them on
sequences of the world, and again after a change that must not matter:

    again        the same input
    later token  another token after the compared position
    padding      other padding tokens after the sequence, and more of them
    other rows   the same row in another slot, among other rows

`check_session` compares continuations with whole sequences. `check_world`
walks through a world at random: legality, dead states and sampled sequences
must be consistent. All checks are samples: a wrong model or world may pass.

`Contract` accompanies a reader during scoring. It reports probability on
tokens that the world lacks, and repeats a sample of the questions at the end of
each metric to detect changed answers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from wm.core import basics
from wm.core.basics import DEAD, InputError
from wm.core.capabilities import (
  Generative,
  Labelled,
  Prefixed,
  SequenceProcess,
  Written,
)
from wm.core.predictor import Predictor, chunks, padded
from wm.core.world import Sequences, World

TOLERANCE = 1e-4  # Nats; for activations, a share of the greatest one.
# Lower log-probabilities are raised to this, one in a million.
FLOOR = np.log(1e-6)
ROWS = 16  # Fewest sequences in a check.
PLACES = 6  # Compared positions of each sequence.
PARTS, WHOLE = (1.0, 0.5, 0.75, 0.25), (1.0,)  # Shares to cut sequences to.


class Sample(NamedTuple):
  """Sequences of a world, and the positions that are compared.

  Attributes:
    tokens: [N, L] int32.
    lengths: [N].
    at: [N, P] positions below the lengths, ascending.
  """

  tokens: np.ndarray
  lengths: np.ndarray
  at: np.ndarray


class Observed(NamedTuple):
  """Outputs at the P positions of each row.

  Attributes:
    values: [N, P, K] log-probabilities, activations, or scores of labels.
    allowed: [N, P] greatest difference that is allowed.
  """

  values: np.ndarray
  allowed: np.ndarray

  def apart(self, other: Observed) -> np.ndarray:
    """[N, P] greatest difference of values."""
    return np.abs(self.values - other.values).max(-1)


def finite(values: np.ndarray, what: str) -> np.ndarray:
  """Returns the values; raises InputError if one is not finite.

  what: name of their source, for the error.
  """
  if not np.isfinite(values).all():
    raise InputError(f'{what} gave NaN or infinity; expected finite numbers')
  return values


def relative(values: np.ndarray, tolerance: float) -> Observed:
  """Values [N, P, K] with a tolerance relative to a position's greatest."""
  values = values.astype(np.float64)
  return Observed(values, tolerance * np.maximum(np.abs(values).max(-1), 1))


def cut(
  sequences: Sequences,
  size: int,
  parts: Sequence[float] = PARTS,
  places: int = PLACES,
) -> Sample:
  """Cuts sequences to various lengths up to `size` and pads them to it."""
  num = len(sequences)
  lengths = np.minimum(sequences.lengths, size)
  lengths = np.ceil(lengths * np.resize(parts, num)).astype(int)
  lengths = np.maximum(lengths, 1)
  tokens = padded(sequences.tokens, lengths, num, size)
  at = np.linspace(0, lengths - 1, places, axis=1).round().astype(int)
  return Sample(tokens, lengths, at)


@dataclasses.dataclass(frozen=True)
class Invariances:
  """Checks that certain changes of the input do not change the output.

  Attributes:
    ask: the function that is checked.
    rows: N of every call.
    sizes: lengths L of inputs, ascending.
    vocab_size: V.
    label: name of the model in errors.
    noun: name of the output in errors.
    unit: unit of the values in errors.
  """

  ask: Callable[[Sample], Observed]
  rows: int
  sizes: tuple[int, ...]
  vocab_size: int
  label: str
  noun: str = 'the prediction'
  unit: str = ' nats'

  def check(self, sequences: Sequences) -> tuple[Sample, Observed]:
    """Checks the function on one sequence or more.

    Returns:
      The longest inputs, and the function's values on them.

    Raises:
      InputError: a value depends on something that must not matter.
    """
    # Whole batches of the size that scoring calls with.
    num = -(-ROWS // self.rows) * self.rows
    # Worlds may have fewer sequences than were asked for.
    sequences = sequences.take(np.arange(num) % len(sequences))
    questions = [cut(sequences, size) for size in self.sizes]
    rng = np.random.default_rng(0)
    answers = [self.answer(question) for question in questions]
    # The cheapest check comes first: a model that is random fails all others,
    # with hints that would mislead.
    hint = 'switch off dropout and all else that is random'
    again = self.answer(questions[0])
    self._agree('calling it again', hint, questions[0], answers[0], again)
    for question, seen in zip(questions, answers, strict=True):
      # First: the checks after it change other rows, too.
      self._other_rows(question, seen, rng)
      for what, hint, tokens, places in self._changes(question, rng):
        again = self.answer(question._replace(tokens=tokens))
        self._agree(what, hint, question, seen, again, places)
    if len(questions) > 1:
      short, longest = questions[0], self.sizes[-1]
      missing = max(longest - short.tokens.shape[1], 0)
      longer = np.pad(short.tokens, ((0, 0), (0, missing)))
      what = f'padding to {longest} tokens, not {short.tokens.shape[1]},'
      hint = 'it must not matter; of lower precision? then give tolerance='
      again = self.answer(short._replace(tokens=longer))
      self._agree(what, hint, short, answers[0], again)
    # A model may keep state from call to call.
    what = 'asking the first question again, after others,'
    again = self.answer(questions[0])
    hint = 'an answer must depend on its tokens only, not on earlier calls'
    self._agree(what, hint, questions[0], answers[0], again)
    return questions[-1], answers[-1]

  def answer(self, question: Sample) -> Observed:
    """Calls the function in whole batches."""
    parts = [
      self.ask(Sample(*(part[rows] for part in question)))
      for rows in chunks(len(question.tokens), 1, self.rows)
    ]
    return Observed(*map(np.concatenate, zip(*parts, strict=True)))

  def others(self, tokens: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Random tokens of the same shape, none of them padding or unchanged."""
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
    question: Sample,
    first: Observed,
    second: Observed,
    places: np.ndarray | bool = True,
  ) -> None:
    """Raises InputError if two answers differ where places [N, P] is True."""
    apart = first.apart(second)
    # NaN compares as False below, and is refused.
    excess = np.where(places, apart / first.allowed, 0)
    if excess.max() <= 1:
      return
    row, k = np.unravel_index(excess.argmax(), excess.shape)
    raise InputError(
      f'{self.label}: {what} changes {self.noun} after token '
      f'{question.at[row, k] + 1} of {question.lengths[row]} by '
      f'{apart[row, k]:.2g}{self.unit}; expected at most '
      f'{first.allowed[row, k]:.2g}: {hint}'
    )

  def _changes(
    self, question: Sample, rng: np.random.Generator
  ) -> Iterator[tuple[str, str, np.ndarray, np.ndarray | bool]]:
    """Yields (what changes, hint, tokens, positions that must not change)."""
    tokens, lengths, at = question
    places = np.arange(tokens.shape[1])
    used = places < lengths[:, None]
    # Rows change behind different places, so that all places are covered.
    turn = np.arange(len(tokens)) % max(at.shape[1] - 1, 1)
    last = at[np.arange(len(tokens)), turn][:, None]  # Tokens kept, less one.
    later = used & (places > last)
    yield (
      'another later token',
      'it must depend on the tokens up to there only, as by a causal mask',
      np.where(later, self.others(tokens, rng), tokens),
      at <= last,
    )
    yield (
      'another padding token',
      'what comes after the sequence must not matter',
      np.where(used, tokens, self.others(tokens, rng)),
      True,
    )

  def _other_rows(
    self, question: Sample, answer: Observed, rng: np.random.Generator
  ) -> None:
    """Repeats the first half of each batch in other slots, among other rows."""
    # slots    0 .. half - 1    half .. rows - 1
    # before   the first half   the second half
    # now      other tokens     the first half: its answers must not change
    half = self.rows // 2
    if not half:
      return
    starts = np.arange(0, len(question.tokens), self.rows)[:, None]
    first = (starts + np.arange(half)).ravel()
    moved = question._replace(tokens=self.others(question.tokens, rng))
    moved = Sample(*map(np.copy, moved))
    for new, old in zip(moved, question, strict=True):
      new[first + half] = old[first]
    again = self.answer(moved)
    self._agree(
      'another batch around its row',
      'a row must depend on its own tokens only, unlike in batch norm',
      Sample(*(array[first] for array in question)),
      Observed(*(array[first] for array in answer)),
      Observed(*(array[first + half] for array in again)),
    )


def check_session(
  predictor: Predictor, sequences: Sequences, label: str, tolerance: float
) -> None:
  """Raises InputError if a session disagrees with `log_probs` of sequences.

  Rows begin and grow unevenly, as they do in scoring. Each row has two
  branches from one state, which take the same steps one after the other.

  Args:
    predictor: predictor whose sessions are checked.
    sequences: legal sequences of the world; illegal ones may have no state.
    label: name of the predictor in errors.
    tolerance: greatest allowed difference of probabilities.
  """
  rows = np.arange(len(sequences))
  length = int(min(sequences.lengths.min(), predictor.max_len))
  tokens = sequences.tokens[:, :length]
  every = np.full(len(rows), length, np.int32)
  # Probabilities, not their logarithms: those of rare tokens differ freely.
  whole = np.exp(predictor.log_probs(tokens, every))
  sizes = np.maximum(length // 2 - rows % 3, 1).astype(np.int32)
  prefixes = padded(tokens, sizes, len(rows), int(sizes.max()))
  session = predictor.session(prefixes, sizes, 2)
  wait = np.full(len(rows), DEAD, np.int32)
  for turn in range(2 * length):
    now = np.exp(np.asarray(session.log_probs()))
    apart = np.abs(now - whole[rows, sizes - 1][:, None]).max((1, 2))
    if not apart.max() <= tolerance:
      raise InputError(
        f'{label}: after token {sizes[apart.argmax()]} a continuation (start '
        'and step, or a session) gives a probability that differs by '
        f'{apart.max():.3g} from that of the whole sequence; expected at most '
        f'{tolerance:g}. A step must not change the state that it goes on from'
      )
    # All rows first; then some rows wait at each step.
    going = ((turn == 0) | ((rows + turn) % 3 > 0)) & (sizes < length)
    step = np.where(going, tokens[rows, np.minimum(sizes, length - 1)], DEAD)
    # One branch after the other: no step changes the state of the other.
    session.advance(np.stack([step, wait], 1))
    session.advance(np.stack([wait, step], 1))
    sizes = sizes + going


# Parts of a world that `check_world` and scoring's `check_oracle` check.
OF_WORLDS = (
  *('vocabulary', 'legal', 'advance', 'state_id', 'sample', 'walk', 'over'),
  'oracle',
)
FIELDS = 'checked', 'drift', 'cautions'  # Added to scores by `settle`.


class Contract:
  """The checks that a user's reader passed, and its behaviour since then.

  Attributes:
    checked: outputs that passed the checks: 'logits', 'activations', ...
    allowed: greatest allowed difference of probabilities between two answers
      to one question.
    fingerprint: a few answers that identify the reader.
  """

  def __init__(self, checked: tuple[str, ...], allowed: float) -> None:
    """See the attributes."""
    self.checked, self.allowed = checked, allowed
    self.fingerprint: tuple[float, ...] = ()
    # Warnings for scores, such as probability on no token of the world.
    self.cautions: Callable[[], list[str]] = list
    # Repeats questions: (greatest difference, number of questions).
    self.asked_again: Callable[[], tuple[float, int]] | None = None

  def settle(self, label: str) -> dict[str, Any]:
    """Fields that scores get after a metric: checks, drift and cautions.

    Raises:
      InputError: the model's answers to repeated questions have changed.
    """
    drift, num = self.asked_again() if self.asked_again else (0.0, 0)
    if not drift <= self.allowed:
      raise InputError(
        f'{label} now answers otherwise than it did: asked {num} of its '
        f'questions again, in other batches, an answer differs by {drift:.2g}; '
        f'expected at most {self.allowed:.2g}'
      )
    return {
      'checked': ', '.join(self.checked),
      'drift': drift,
      'cautions': self.cautions(),
    }


# A world that defines all methods of one of these classes must inherit it.
_ABILITIES = (Prefixed, Labelled, Written)
_STEPS, _TOKENS = 12, 32  # Checked positions, and tokens tried at each.


def check_world(world: World, label: str) -> None:
  """Raises InputError if the parts of a world are inconsistent.

  Args:
    world: a user's world; random walks go through it.
    label: name of the world in errors.
  """
  _check_vocab(world, label)
  legal = np.asarray(world.legal(world.init(1)))
  size = len(world.vocab)
  if legal.shape != (1, size) or legal.dtype != bool:
    raise InputError(
      f'{label}: legal gives {legal.dtype} of shape {legal.shape} for one '
      f'state, vocab has {size} tokens; expected bool of shape (1, {size})'
    )
  if legal[0, basics.PAD] or not legal.any():
    what = 'padding' if legal[0, basics.PAD] else 'no token'
    raise InputError(
      f'{label}: {what} is legal in the first state; expected some of '
      f'1..{size - 1}'
    )
  _check_step(world, label, int(legal[0].argmax()))
  _check_abilities(world, label)
  _Walk(world, label).check()


def _check_vocab(world: World, label: str) -> None:
  vocab, end = world.vocab, world.end
  if not isinstance(vocab, tuple) or len(vocab) < 2 or vocab[0] != '<pad>':
    raise InputError(
      f'{label}: vocab is {basics.one_line(repr(vocab), 100)}; expected a '
      "tuple of '<pad>' and at least one token"
    )
  odd = [word for word in vocab if not _is_word(word)]
  if odd or len(set(vocab)) < len(vocab):
    what = repr(odd[0]) if odd else 'a word twice'
    raise InputError(
      f'{label}: vocab has {what}; expected different words without blanks'
    )
  if end != DEAD and not 1 <= end < len(vocab):
    raise InputError(
      f'{label}: end={end} is no token of vocab, which has {len(vocab)}; '
      f'expected 1..{len(vocab) - 1}, or {DEAD} for none'
    )
  if not isinstance(world.max_len, int) or world.max_len < 1:
    raise InputError(
      f'{label}: max_len={world.max_len!r}; expected an integer of at least 1'
    )


def _is_word(word: Any) -> bool:
  """Is it text without blanks, which files can hold?"""
  return (
    isinstance(word, str)
    and word.split() == [word]
    and not any('\ud800' <= char <= '\udfff' for char in word)
  )


def _check_abilities(world: World, label: str) -> None:
  """Raises InputError if a world implements a class without inheriting it."""
  for ability in _ABILITIES:
    methods = ability.__abstractmethods__ - World.__abstractmethods__
    if methods <= {*dir(type(world))} and not isinstance(world, ability):
      raise InputError(
        f'{label} has {", ".join(sorted(methods))} and does not inherit '
        f'core.{ability.__name__}; add it to the bases of '
        f'{type(world).__name__}'
      )
  if isinstance(world, Labelled):
    labels, sizes = world.labels(world.init(2)), world.heads.sizes
    if np.shape(labels) != (2, len(sizes)) or not sizes:
      raise InputError(
        f'{label}: labels gives shape {np.shape(labels)} for two states, heads '
        f'has {len(sizes)} labels; expected (2, {max(len(sizes), 1)})'
      )


def _check_step(world: World, label: str, token: int) -> None:
  """Raises InputError if `init` or a first `advance` returns no states."""
  before = np.asarray(world.init(2))
  after = np.asarray(world.advance(before, np.full(2, token, np.int32)))
  for name, states in (('init', before), ('advance', after)):
    fits = states.ndim == 2 and states.shape == (2, before.shape[-1])
    if not fits or states.dtype.kind != 'i':
      raise InputError(
        f'{label}: {name} gives {states.dtype} of shape {states.shape} for two '
        'states; expected integers of shape (2, words of a state)'
      )
  ids = np.asarray(world.state_id(after))
  if ids.shape != (2,) or (ids == DEAD).any():
    raise InputError(
      f'{label}: after token {world.vocab[token]!r}, which is legal first, '
      f'state_id gives {ids.tolist()}; expected two numbers, not {DEAD}'
    )


@dataclasses.dataclass(frozen=True)
class _Walk:
  """Follows sequences that a world samples by the world's own rules."""

  world: World
  label: str

  def check(self) -> None:
    """Raises InputError if sequences, rules and states are inconsistent."""
    sequences = self._sequences()
    if not len(sequences):
      return
    rows = np.arange(len(sequences))
    states = np.array(self.world.init(len(sequences)))
    longest = int(sequences.lengths.max())
    shown = np.linspace(0, longest - 1, min(_STEPS, longest)).astype(int)
    visited = []
    for t in range(longest):
      rows = rows[t < sequences.lengths[rows]]
      token = sequences.tokens[rows, t]
      legal = self._legal(states[rows])
      if not (taken := legal[np.arange(len(rows)), token]).all():
        row = rows[~taken][0]
        self._fail(
          f'sample gives {self._words(sequences, row, t)}, the last of which '
          'legal says is illegal'
        )
      if t in shown:
        visited.append((states[rows], legal))
        self._tried(states[rows], legal)
      states[rows] = self.world.advance(states[rows], token)
    self._ids(*map(np.concatenate, zip(*visited, strict=True)))
    if isinstance(self.world, Generative):
      self._law(self.world, sequences)
    start = self.world.init(len(sequences))
    steps, _ = self.world.walk(start, sequences.tokens, sequences.lengths)
    if not np.array_equal(steps, sequences.lengths):
      self._fail('walk stops within a sequence that sample gives')

  def _fail(self, text: str) -> None:
    raise InputError(f'{self.label}: {text}')

  def _words(self, sequences: Sequences, row: int, last: int) -> str:
    words = [self.world.vocab[k] for k in sequences.tokens[row, : last + 1]]
    return repr(basics.one_line(' '.join(words), 80))

  def _sequences(self) -> Sequences:
    """Samples sequences and checks their arrays."""
    first, again = self.world.sample(ROWS, 0), self.world.sample(ROWS, 0)
    for name in ('tokens', 'lengths'):
      array: Any = getattr(first, name, None)
      if not isinstance(array, np.ndarray) or array.dtype.kind != 'i':
        kind = type(array).__name__
        self._fail(f'sample gives {name} as {kind}; expected integers in NumPy')
      if not np.array_equal(array, getattr(again, name)):
        self._fail(f'sample(16, seed=0) gives other {name} when called again')
    tokens, lengths = first.tokens, first.lengths
    if tokens.ndim != 2 or lengths.shape != tokens.shape[:1]:
      self._fail(
        f'sample gives tokens of shape {tokens.shape} and lengths of shape '
        f'{lengths.shape}; expected (N, L) and (N,)'
      )
    if not len(lengths):
      return first
    most = min(self.world.max_len, tokens.shape[1])
    if lengths.min() < 1 or lengths.max() > most:
      self._fail(
        f'sample gives lengths from {lengths.min()} to {lengths.max()}; '
        f'expected 1 to {most}, as max_len is {self.world.max_len} and tokens '
        f'have {tokens.shape[1]} columns'
      )
    used = np.arange(tokens.shape[1]) < lengths[:, None]
    inside = tokens[used]
    if inside.min() < 1 or inside.max() >= len(self.world.vocab):
      self._fail(
        f'sample gives tokens from {inside.min()} to {inside.max()}; expected '
        f'1 to {len(self.world.vocab) - 1}, and 0 behind each sequence'
      )
    return first

  def _legal(self, states: np.ndarray) -> np.ndarray:
    """[B, V] legal tokens; raises InputError if they depend on the batch."""
    legal = np.asarray(self.world.legal(states))
    turned = np.asarray(self.world.legal(states[::-1]))[::-1]
    alone = np.asarray(self.world.legal(states[:1]))
    if not (np.array_equal(legal, turned) and np.array_equal(legal[:1], alone)):
      self._fail('legal gives other tokens for a state in another batch')
    return legal

  def _tried(self, states: np.ndarray, legal: np.ndarray) -> None:
    """Checks that `advance` gives dead states after illegal tokens only."""
    rng = np.random.default_rng(0)
    for mask in (legal, ~legal):
      mask = mask.copy()
      mask[:, basics.PAD] = False
      keys = rng.integers(0, 1 << 62, mask.shape).astype(np.uint64)
      row, token = np.nonzero(basics.lowest(mask, keys, _TOKENS // 2))
      if not row.size:
        continue
      after = np.asarray(self.world.advance(states[row], token))
      turned = np.asarray(self.world.advance(states[row][::-1], token[::-1]))[
        ::-1
      ]
      ids = np.asarray(self.world.state_id(after))
      if not np.array_equal(ids, self.world.state_id(turned)):
        self._fail('advance leads to another state in another batch')
      wrong = (ids != DEAD) != legal[row, token]
      if wrong.any():
        name = self.world.vocab[token[wrong][0]]
        verdict = ('illegal', 'legal')[int(legal[row, token][wrong][0])]
        fate = ('dead', 'alive')[int((ids != DEAD)[wrong][0])]
        self._fail(
          f'legal says that token {name!r} is {verdict}, and after it advance '
          f'is {fate} ({wrong.sum()} of {len(wrong)} tokens that were tried); '
          'expected a dead state after illegal tokens, and after no other'
        )
      dead = after[ids == DEAD]
      if len(dead) and np.asarray(self.world.legal(dead)).any():
        self._fail('legal gives tokens in a dead state; expected none')

  def _law(self, world: Generative, sequences: Sequences) -> None:
    """Checks that the data distribution and beliefs fit the samples."""
    law, num = world.data_distribution(), len(sequences)
    memory = law.after_each(sequences.tokens, sequences.lengths)
    middle = sequences.lengths // 2
    rows = np.flatnonzero(middle > 0)
    at = memory[rows, middle[rows] - 1]
    tokens, log_probs = law.next(at)
    total = np.exp(log_probs).sum(1)
    if not np.allclose(total, 1, atol=1e-6):
      worst = total[np.abs(total - 1).argmax()]
      self._fail(
        f'data_distribution gives probabilities that add up to {worst:.6g} '
        f'within a sequence that sample gives, one of {num}; expected 1'
      )
    taken = sequences.tokens[rows, middle[rows]]
    if not ((tokens == taken[:, None]) & (log_probs > -np.inf)).any(1).all():
      self._fail('data_distribution rules out a token that sample gives')
    if basics.can(law, SequenceProcess.belief):
      belief = law.belief(at)
      if (belief < -1e-9).any() or not np.allclose(belief.sum(1), 1):
        self._fail('belief gives no probabilities that add up to 1')

  def _ids(self, states: np.ndarray, legal: np.ndarray) -> None:
    """Checks that state ids agree with legal tokens and with equal states."""
    ids = np.asarray(self.world.state_id(states))
    first, same = np.unique(ids, return_index=True, return_inverse=True)[1:]
    if (legal != legal[first[same.reshape(-1)]]).any():
      self._fail(
        'state_id is the same for two states in which other tokens are legal; '
        'expected equal ids exactly where two states are the same'
      )
    firsts, number = basics.distinct(np.ascontiguousarray(states))
    if (ids != ids[firsts[number]]).any():
      self._fail('state_id differs between two equal states')
    over = np.asarray(self.world.over(states))
    if not np.array_equal(over, (ids != DEAD) & ~legal.any(-1)):
      self._fail('over disagrees with legal: expected alive, and nothing legal')
