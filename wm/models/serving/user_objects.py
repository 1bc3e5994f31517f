"""What a user's object can do, and the predictor that fits it.

A user gives a function, tokens to logits, or an object. An object is asked by
what it has:

  __call__(tokens)                  logits [R, L, V] of tokens [R, L] int32
  hidden(tokens, layer)             activations [R, L, D]; -1 is the last layer
  start(tokens, lengths)            R states, and logits [R, V] after them
  step(states, tokens)              R new states, and logits [R, V]
  answers(prefixes, suffixes)       is each suffix valid after its prefix?

`start` and `step` are a cache: scoring then reads every token once. A state is
whatever the user likes, one for each row, and stays as it is when a step gives
the next one. `answers` alone makes a model that says yes and no; prefixes and
suffixes are lists of tuples of token ids, answers are 1, 0, or -1 for none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from wm import core
from wm.core import plugins
from wm.core.predictor import Tokens
from wm.models.serving import accepting, callables, tiles

State = Any
ROWS = 8  # Sequences that a cache is checked on.


@runtime_checkable
class HasHidden(Protocol):
  """An object with activations."""

  def hidden(self, tokens: np.ndarray, layer: int) -> np.ndarray:
    """[R, L, D] activations after a layer, of tokens [R, L]."""


@runtime_checkable
class HasPatched(Protocol):
  """An object that goes on from activations; it has `hidden` too."""

  def patched(
    self, tokens: np.ndarray, layer: int, hidden: np.ndarray
  ) -> np.ndarray:
    """[R, L, V] logits where `hidden` of tokens [R, L] were [R, L, D]."""


@runtime_checkable
class HasCache(Protocol):
  """An object that goes on from states."""

  def start(
    self, tokens: np.ndarray, lengths: np.ndarray
  ) -> tuple[Sequence[State], np.ndarray]:
    """States of R prefixes tokens [R, L], lengths [R], and logits [R, V]."""

  def step(
    self, states: Sequence[State], tokens: np.ndarray
  ) -> tuple[Sequence[State], np.ndarray]:
    """States after a token [R] each, and logits [R, V]."""


@runtime_checkable
class HasAnswers(Protocol):
  """An object that says yes or no."""

  def answers(
    self, prefixes: list[Tokens], suffixes: list[Tokens]
  ) -> Sequence[int]:
    """[N] 1 where a suffix is valid after its prefix, 0 not, -1 unknown."""


EXPECTED = (
  'expected a function of tokens, or an object with some of __call__, hidden, '
  'patched, start and step, or answers'
)


def usable(found: object) -> bool:
  """Is it a thing that a predictor can be made of?"""
  return callable(found) or isinstance(found, HasCache | HasAnswers)


def predictor(
  found: Any, *, vocab_size: int, end: int, max_len: int, rows: int, label: str
) -> core.Predictor:
  """The predictor of the class that fits a user's object.

  Args:
    found: the object.
    vocab_size: V.
    end: id of the end token, or DEAD.
    max_len: longest sequence, in tokens.
    rows: batch size of every call for logits and activations.
    label: what errors call it.
  """
  size: dict[str, Any] = dict(
    vocab_size=vocab_size, end=end, max_len=max_len, label=label
  )
  hidden = isinstance(found, HasHidden)
  if hidden and callable(found) and isinstance(found, HasPatched):
    return WithPatched(found, **size, rows=rows)
  if isinstance(found, HasCache):
    cached = CachedWithHidden if hidden else Cached
    return cached(found, **size, rows=rows)
  if callable(found):
    whole = WithHidden if hidden else callables.FromCallable
    return whole(found, **size, rows=rows)

  def accepts(prefixes: list[Tokens], suffixes: list[Tokens]) -> np.ndarray:
    with plugins.user_code(label, found.answers):
      return np.asarray(found.answers(prefixes, suffixes))

  return accepting.Accepting(accepts, **size)


class WithHidden(callables.FromCallable, core.HiddenStates):
  """A user's callable whose activations can be probed."""

  def __init__(self, found: Any, **fields: Any) -> None:
    """fields: of FromCallable."""
    super().__init__(found, **fields)
    self._object = found

  def hidden(
    self, tokens: np.ndarray, lengths: np.ndarray, layer: int
  ) -> np.ndarray:
    """See core.HiddenStates; every call has `rows` rows, padded at the end."""
    parts = []
    for rows in core.chunks(len(tokens), 1, self.rows):
      some, length = np.asarray(tokens[rows]), self.padded(tokens.shape[1])
      given = tiles.padded(some, lengths[rows], self.rows, length)
      with plugins.user_code(self.label, self._object.hidden):
        found = callables.as_array(self._object.hidden(given, layer))
      if found.ndim != 3 or found.shape[:2] != given.shape:
        raise core.InputError(
          f'{self.label}: hidden gave {found.dtype} of shape {found.shape} '
          f'for tokens {given.shape}; expected floats [rows, length, width]'
        )
      parts.append(found[: len(some), : some.shape[1]])
    return np.concatenate(parts).astype(np.float32)


class WithPatched(WithHidden, core.HiddenStates):
  """A user's callable that goes on from activations; without its cache.

  Every call has `rows` rows, padded at the end.
  """

  def patched(
    self,
    tokens: np.ndarray,
    lengths: np.ndarray,
    layer: int,
    hidden: np.ndarray,
  ) -> np.ndarray:
    """See core.HiddenStates.patched."""
    parts = [np.zeros((0, tokens.shape[1], self.vocab_size), np.float32)]
    for rows in core.chunks(len(tokens), 1, self.rows):
      some, length = np.asarray(tokens[rows]), self.padded(tokens.shape[1])
      given = tiles.padded(some, lengths[rows], self.rows, length)
      held = tiles.padded(hidden[rows], lengths[rows], self.rows, length)
      with plugins.user_code(self.label, self._object.patched):
        found = callables.as_array(self._object.patched(given, layer, held))
      wanted = *given.shape, self.vocab_size
      if found.shape != wanted:
        raise core.InputError(
          f'{self.label}: patched gave logits of shape {found.shape}; expected '
          f'{wanted}'
        )
      parts.append(self.normal(found)[: len(some), : some.shape[1]])
    return np.concatenate(parts)


class Cached(callables.FromCallable):
  """A user's object that goes on from states."""

  def __init__(self, found: HasCache, **fields: Any) -> None:
    """fields: of FromCallable."""
    whole = found if callable(found) else self._stepwise
    super().__init__(whole, **fields)
    self._object = found

  def _stepwise(self, tokens: np.ndarray) -> np.ndarray:
    """[R, L, V] logits of whole sequences, a step at a time."""
    states, first = self._object.start(
      tokens[:, :1], np.ones(len(tokens), np.int32)
    )
    logits = [callables.as_array(first)]
    for column in tokens.T[1:]:
      states, after = self._object.step(states, column)
      logits.append(callables.as_array(after))
    return np.stack(logits, axis=1)

  def started(
    self, tokens: np.ndarray, lengths: np.ndarray
  ) -> tuple[list[State], np.ndarray]:
    """States [R] and log-probabilities [R, V] after prefixes."""
    return self._asked(self._object.start, len(lengths), tokens, lengths)

  def stepped(
    self, states: list[State], tokens: np.ndarray
  ) -> tuple[list[State], np.ndarray]:
    """States [R] and log-probabilities [R, V] after one more token each."""
    return self._asked(self._object.step, len(tokens), states, tokens)

  def _asked(
    self, call: Callable, num: int, *given: Any
  ) -> tuple[list[State], np.ndarray]:
    with plugins.user_code(self.label, call):
      states, logits = call(*given)
      states, found = list(states), callables.as_array(logits)
    if len(states) != num or found.shape != (num, self.vocab_size):
      raise core.InputError(
        f'{self.label}: {call.__name__} gave {len(states)} states and logits '
        f'of shape {found.shape} for {num} rows; expected {num} states and '
        f'{(num, self.vocab_size)}'
      )
    return states, self.normal(found)

  def session(
    self, prefixes: np.ndarray, lengths: np.ndarray, num: int
  ) -> core.Session:
    """See core.Predictor."""
    return CacheSession(self, prefixes, lengths, num)


def check_cache(predictor: Cached, world: core.World, tolerance: float) -> None:
  """Raises InputError where a cache does not say what the whole model says.

  Rows begin and grow unevenly, as they do in sessions. A state must also be as
  it was after a step was taken from it, since several continuations go on from
  it.

  tolerance: greatest difference of log-probabilities, in nats.
  """
  sample = world.sample(ROWS, 0)
  rows = np.arange(len(sample))
  length = int(min(sample.lengths.min(), predictor.max_len))
  tokens = sample.tokens[:, :length]
  every = np.full(len(rows), length, np.int32)
  whole = np.exp(predictor.log_probs(tokens, every))
  sizes = np.maximum(length // 2 - rows % 3, 1).astype(np.int32)
  prefixes = tiles.padded(tokens, sizes, len(rows), int(sizes.max()))
  states, log_probs = predictor.started(prefixes, sizes)
  for turn in range(2 * length):
    apart = np.abs(np.exp(log_probs) - whole[rows, sizes - 1]).max(1)
    if not apart.max() <= tolerance:
      raise core.InputError(
        f'{predictor.label}: after token {sizes[apart.argmax()]} start and '
        f'step give a probability that differs by {apart.max():.3g} from that '
        f'of the whole sequence; expected at most {tolerance:g}'
      )
    # All rows first; then some rows wait at each step.
    going = (turn == 0) | ((rows + turn) % 3 > 0)
    moving = np.flatnonzero(going & (sizes < length))
    if not len(moving):
      continue
    before = [states[row] for row in moving]
    column = tokens[moving, sizes[moving]]
    after, log_probs[moving] = predictor.stepped(before, column)
    _, again = predictor.stepped(before, column)
    if np.abs(np.exp(log_probs[moving]) - np.exp(again)).max() > tolerance:
      raise core.InputError(
        f'{predictor.label}: step gives another answer when it is taken again '
        f'from the same states, after token {sizes[moving[0]]}; it must not '
        'change the states that it was given'
      )
    for row, state in zip(moving, after, strict=True):
      states[row] = state
    sizes[moving] += 1


class CachedWithHidden(Cached, WithHidden):
  """A user's object with both."""


class CacheSession(core.Session):
  """B x M continuations, each with a state of the user's."""

  def __init__(
    self, predictor: Cached, prefixes: np.ndarray, lengths: np.ndarray, num: int
  ) -> None:
    self._predictor = predictor
    shape = len(lengths), num
    self._states = np.empty(shape, object)
    self._found = np.zeros((*shape, predictor.vocab_size), np.float32)
    self.restart(np.arange(len(lengths)), prefixes, lengths)

  def restart(
    self, rows: np.ndarray, prefixes: np.ndarray, lengths: np.ndarray
  ) -> None:
    """See core.Session; InputError for an empty prefix."""
    if not len(rows):
      return
    lengths = np.asarray(lengths, np.int32)
    tiles.check_prefixes(lengths)
    tokens = tiles.padded(prefixes, lengths, len(lengths), lengths.max())
    states, found = self._predictor.started(tokens, lengths)
    for row, state in zip(rows, states, strict=True):
      for branch in range(self._states.shape[1]):
        self._states[row, branch] = state
    self._found[rows] = found[:, None]

  def log_probs(self) -> np.ndarray:
    """See core.Session."""
    return self._found

  def advance(
    self, tokens: np.ndarray, parents: np.ndarray | None = None
  ) -> None:
    """See core.Session."""
    if parents is not None:
      self._states = np.take_along_axis(self._states, parents, 1)
      self._found = np.take_along_axis(self._found, parents[..., None], 1)
    tokens = np.asarray(tokens)
    at = np.nonzero(tokens != core.DEAD)
    if not at[0].size:
      return
    states, found = self._predictor.stepped(
      list(self._states[at]), tokens[at].astype(np.int32)
    )
    self._found = self._found.copy()
    self._found[at] = found
    for row, branch, state in zip(*at, states, strict=True):
      self._states[row, branch] = state
