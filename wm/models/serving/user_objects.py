"""Predictors of a user's own function or object.

`predictor` wraps an object as a predictor of the class that its methods permit.
`wm.models.user` checks the predictor, and `few_shot.adaptable` adds learning of
small tasks.

A user's object is a function from tokens to logits, or has some of these
methods:

  __call__(tokens)                  logits [R, L, V] of tokens [R, L] int32
  hidden(tokens, layer)             activations [R, L, D]; -1 is the last layer
  patched(tokens, layer, hidden)    logits, computed from these activations
  start(tokens, lengths)            R states, and logits [R, V] after them
  step(states, tokens)              R new states, and logits [R, V]
  answers(prefixes, suffixes)       is each suffix valid after its prefix?

With the cache of `start` and `step`, scoring reads every token once; a PyTorch
module may return its cache instead (`module_cache`). There is one state per
row, of any type; a step must not change the previous state. `answers` alone
makes a model that only answers yes or no; prefixes and suffixes are lists of
tuples of token ids, answers are 1, 0, or -1 for none.

For small tasks, Flax and PyTorch modules get a new linear head, on `hidden` of
the last layer if defined, else on their logits, and are fine-tuned as published
(Vafa et al. 2025). The weights of other functions and objects are unknown: they
do not learn.

Logits may be log-probabilities. They are an array of NumPy, JAX or PyTorch, a
key or an attribute `logits`, or part of a tuple, beside a loss or a state. They
may be of the last position alone, [R, 1, V] or [R, V]: then every position is
asked about by a call of its own. `adapters` reads modules of libraries, and
`layout` adds what a model reads before a sequence.
"""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import (
  Callable,
  Collection,
  Iterable,
  Iterator,
  Mapping,
  Sequence,
)
from typing import Any

import numpy as np

from wm import core
from wm.core import contract, inputs, plugins
from wm.core.predictor import Tokens, padded
from wm.models.serving import stateless
from wm.models.serving.adapters import NARROW, as_array, has, is_a, logits_of
from wm.models.serving.layout import LaidOut, sizes_differ
from wm.models.serving.outputs import Outputs

MULTIPLE = 16  # Lengths of a callable's inputs are multiples of this.
# Most trials in flight, and numbers of a session for each continuation of them.
IN_FLIGHT, IN_FLIGHT_LOGITS = 256, 1 << 21
# Lower bound of log-probabilities that a head reads: one in a million.
FLOOR = float(np.log(1e-6))


class FromCallable(stateless.Stateless):
  """Any callable, tokens [R, L] int32 -> logits [R, L, V], as a predictor.

  The callable must be causal, as rows are padded at the end: position t may
  depend only on tokens[:, :t + 1]. Every call has exactly `rows` rows. A row is
  padded to a multiple of `MULTIPLE` tokens that depends only on its own length,
  so that results do not depend on the batches of trials.

  Attributes:
    call_tokens: most tokens of a call of any number of rows; 0 if calls must
      have `rows` rows.
    by_sequence: see core.Predictor.
  """

  call_tokens = 0

  def __init__(
    self,
    function: Callable[[np.ndarray], np.ndarray],
    *,
    vocab_size: int,
    end: int,
    max_len: int,
    rows: int = 16,
    label: str = 'the callable',
    outputs: Outputs | None = None,
  ) -> None:
    """label: name in errors; rows: batch size of every call.

    function: may be a `layout.LaidOut`.
    """
    # Before any code of the user runs.
    if rows < 1:
      raise core.InputError(f'{label}: rows={rows} was given; expected >= 1')
    self._function, self.rows, self.label = function, rows, label
    self.vocab_size, self.end, self.max_len = vocab_size, end, max_len
    self.spacing, self.outputs = 2**-23, outputs or Outputs()
    self._place = plugins.placed(function)
    self.remarks: list[str] = []
    # Sessions of large vocabularies would take too much memory.
    self.in_flight = min(IN_FLIGHT, IN_FLIGHT_LOGITS // vocab_size)
    self.by_sequence = True
    self._last: Callable[[np.ndarray], np.ndarray] | None = None
    if isinstance(function, LaidOut) and function.stepwise:
      self._last, self.by_sequence = function.last, False

  def diagnostics(self) -> list[str]:
    """See core.TokenReader."""
    return [*self.remarks]

  def logits(self, tokens: np.ndarray) -> np.ndarray:
    """The callable's logits [rows, L, V] for tokens [rows, L].

    Floats or integers; 16-bit floats become float32. Raises InputError where
    the callable fails or returns something else.
    """
    with (
      plugins.user_code(self.label, self._function),
      np.errstate(all='ignore'),  # NaN is refused, -inf is allowed.
    ):
      # A copy, as a callable may write into its input.
      logits = logits_of(self._function(tokens.copy()), len(tokens))
      # 'bfloat16' of NumPy and JAX, 'torch.bfloat16' of PyTorch.
      width = str(getattr(logits, 'dtype', '')).rpartition('.')[2]
      self.spacing = NARROW.get(width, 2**-23)
      logits = as_array(logits)
    # Checked at every call, since the shape may depend on the tokens.
    expected = (*tokens.shape, self.vocab_size)
    if logits.shape != expected or logits.dtype.kind not in 'fiu':
      hint = ''
      if logits.ndim == 3 and logits.shape[:2] == tokens.shape:
        hint = f'; it {sizes_differ(logits.shape[2], self.vocab_size)}'
      raise core.InputError(
        f'{self._place}{self.label} gave {logits.dtype} of shape '
        f'{logits.shape} for tokens {tokens.shape}; expected floats of shape '
        f'[rows, length, vocabulary] = {expected}{hint}'
      )
    return logits

  def padded(self, longest: int) -> int:
    """Length of the input to which a row of `longest` tokens is padded."""
    # The shape of a row depends only on its own length.
    # Few lengths, since compiled callables compile for each shape.
    # -(-n // m) * m: n rounded up to a multiple of m.
    up = -(-longest // MULTIPLE) * MULTIPLE
    if longest > self.max_len:
      raise core.InputError(
        f'{longest} tokens: {self.label} takes up to {self.max_len}'
      )
    return min(up, self.max_len)

  def _blocks(
    self, tokens: np.ndarray, lengths: np.ndarray
  ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields rows [R] of one padded length and their logits [R, L', V]."""
    # Rows of one padded length form calls; a short call is padded with rows.
    sizes = np.array([self.padded(int(n)) for n in lengths], int)
    for size in np.unique(sizes):
      of_size = np.flatnonzero(sizes == size)
      # Logits of padding beyond the caller's width are cut off.
      width = min(int(size), tokens.shape[1])
      for rows, num in self._batches(of_size, int(size)):
        filled = padded(tokens[rows], lengths[rows], num, int(size))
        yield rows, self.logits(filled)[: len(rows), :width]

  def _batches(
    self, rows: np.ndarray, size: int
  ) -> Iterator[tuple[np.ndarray, int]]:
    """Yields rows of inputs of `size` tokens for a call, and its rows."""
    most = max(self.rows, self.call_tokens // size)
    for part in core.predictor.chunks(len(rows), 1, most):
      num = len(rows[part]) if self.call_tokens else self.rows
      yield rows[part], num

  def normal(self, logits: np.ndarray) -> np.ndarray:
    """[P, V] float32 log-probabilities, in nats, from logits of P positions.

    Padding gets probability 0.
    """
    # The largest logit of a position is NaN if any is NaN, and -inf if all are
    # -inf: one test for both.
    if not np.isfinite(logits.max(-1)).all():
      raise core.InputError(
        f'{self._place}{self.label} gave NaN, or no finite logit, at some '
        'position; expected finite logits (-inf only for impossible tokens)'
      )
    logits = logits.astype(np.float32)
    padding = logits[..., core.PAD].astype(np.float64)
    logits[..., core.PAD] = -np.inf
    top = logits.max(-1, keepdims=True)
    if not np.isfinite(top).all():
      raise core.InputError(
        f'{self._place}{self.label} gave no finite logit but that of <pad>, at '
        'some position; expected logits of the tokens of the world'
      )
    # The largest logit is now 0: exp does not overflow.
    shifted = logits - top
    # log p = z - log sum exp z; log-probabilities are unchanged.
    log_sum = np.log(np.exp(shifted).sum(-1, keepdims=True))
    if self.outputs.ids is None:
      rest = (top + log_sum)[..., 0].astype(np.float64)
      self.outputs.count(1 / (1 + np.exp(np.minimum(rest - padding, 700))))
    return shifted - log_sum

  def log_probs(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """See core.Predictor; raises InputError unless outputs are logits."""
    # An empty row is padded to one token, and none of its positions is used.
    lengths = np.maximum(np.asarray(lengths), 1)
    out = np.full((*tokens.shape, self.vocab_size), -np.inf, np.float32)
    for rows, logits in self._blocks(tokens, lengths):
      # [R, L] positions that are used; padding stays -inf.
      row, at = np.nonzero(np.arange(logits.shape[1]) < lengths[rows, None])
      out[rows[row], at] = self.normal(logits[row, at])
    return out

  def last(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """See stateless.Stateless."""
    if self._last:
      return self._last_alone(self._last, tokens, np.asarray(lengths))
    out = np.empty((len(tokens), self.vocab_size), np.float32)
    for rows, logits in self._blocks(tokens, np.asarray(lengths)):
      out[rows] = self.normal(logits[np.arange(len(rows)), lengths[rows] - 1])
    return out

  def _last_alone(
    self,
    last: Callable[[np.ndarray], np.ndarray],
    tokens: np.ndarray,
    lengths: np.ndarray,
  ) -> np.ndarray:
    """See `last`; rows of one length form calls, without padding."""
    out = np.empty((len(tokens), self.vocab_size), np.float32)
    # The last position of a padded row would be one of padding.
    for size in np.unique(lengths):
      of_size = np.flatnonzero(lengths == size)
      for rows, num in self._batches(of_size, int(size)):
        filled = np.resize(tokens[rows, :size], (num, size))
        with plugins.user_code(self.label, self._function):
          logits = last(filled)[: len(rows)]
        out[rows] = self.normal(logits)
    return out


State = Any


def read_tokens(
  path: Mapping[str, Any] | Sequence[str] | str | os.PathLike[str], label: str
) -> Mapping[str, Any]:
  """Reads the model's id or spelling of each token of a world.

  A file of JSON, such as

      {"end": 50256, "N": 45, "Broadway": [30507, 1014]}

  An integer is an id of the model. For huggingface() the value may also be a
  text, which the tokenizer cuts into pieces, or a list of ids. Every token of
  the world occurs once; `<pad>` is optional. Other tokens are ignored.
  `launch/list.py --world=...` lists a world's tokens. A call may also have the
  names of the model's tokens in its order.

  Raises:
    InputError: no such file, or another format; label names the model.
  """
  if isinstance(path, Mapping):  # A table in a call is taken as it is.
    return path
  if isinstance(path, Sequence) and not isinstance(path, str):
    return _once(((name, number) for number, name in enumerate(path)), label)
  path = pathlib.Path(path)
  if not path.is_file():  # Reading a pipe would block.
    raise core.InputError(f'{label}: no file {str(path)!r}, of tokens=')
  with plugins.user_code(f'{label}: {path}'):
    text = path.read_text(encoding='utf-8-sig')
    # Pairs, not a dict, so that duplicate tokens are noticed.
    table = json.loads(text, object_pairs_hook=lambda p: _once(p, label))
  if not isinstance(table, dict):
    raise core.InputError(
      f'{label}: {path} holds a {type(table).__name__}; expected '
      '{token: text, id or list of ids}'
    )
  return table


def _once(pairs: Iterable[Sequence[Any]], label: str) -> dict[str, Any]:
  """A dict of the pairs; raises InputError for a duplicate token."""
  table: dict[str, Any] = {}
  for token, value in pairs:
    if token in table:
      raise core.InputError(f'{label}: tokens= has {token!r} twice')
    table[token] = value
  return table


def token_ids(
  table: Mapping[str, Any],
  vocab: Sequence[str],
  label: str,
  needed: Collection[str] = (),
) -> np.ndarray:
  """[V] int64 id in the model of each token; DEAD for padding without an id.

  needed: names that must have an id, by default all; others may be DEAD, too.

  Raises:
    InputError: a token has no id, or two tokens have the same id.
  """
  needed = {*(needed or vocab)} - {vocab[core.PAD]}
  names = [name for name in vocab if name in table or name in needed]
  for name in names:
    text = f'{label}: tokens= has no {name!r} of the world'
    inputs.check_known(name, table, text)
    # `type`, not isinstance, as True is not an id.
    if type(table[name]) is not int or table[name] < 0:
      raise core.InputError(
        f'{label}: tokens= has {table[name]!r:.60} for {name!r}; expected an '
        'id of the model, 0 or more'
      )
  number: dict[int, str] = {}
  for name in names:
    if (other := number.setdefault(table[name], name)) != name:
      raise core.InputError(
        f'{label}: tokens= has the id {table[name]} for {other!r} and for '
        f'{name!r}; expected one each'
      )
  return np.array([table.get(name, core.DEAD) for name in vocab], np.int64)


def with_untrained(reader: Any, fresh: Any) -> Any:
  """Adds `fresh` as the control of probes, if both readers can be probed.

  Otherwise returns the reader itself.
  """
  if not all(isinstance(x, core.HiddenStates) for x in (reader, fresh)):
    return reader
  return extended(reader, (), {'untrained': lambda self, seed: fresh})


def extended(
  reader: Any, bases: tuple[type, ...], methods: dict[str, Any], **fields: Any
) -> Any:
  """A copy of a reader with further base classes, methods and fields."""
  cls = type(reader)
  extended: Any = object.__new__(type(cls.__name__, (*bases, cls), methods))
  extended.__dict__.update(reader.__dict__, **fields)
  return extended


EXPECTED = (
  'expected a function of tokens, or an object with some of __call__, hidden, '
  'patched, start and step, or answers'
)


def usable(thing: object) -> bool:
  """True for functions and objects that `predictor` can wrap."""
  return (
    callable(thing)
    or has(thing, 'start', 'step')
    or has(thing, 'answers')
    or is_a(thing, 'onnxruntime', 'InferenceSession')
  )


def predictor(
  thing: Any,
  *,
  vocab_size: int,
  end: int,
  max_len: int,
  rows: int,
  label: str,
  outputs: Outputs | None = None,
) -> core.Predictor:
  """Wraps a user's object as a predictor of the class that its methods permit.

  Args:
    thing: the object.
    vocab_size: V.
    end: id of the end token, or DEAD.
    max_len: longest sequence, in tokens.
    rows: batch size of every call for logits and activations.
    label: name in errors.
    outputs: collects statistics of its logits.
  """
  size: dict[str, Any] = dict(
    vocab_size=vocab_size, end=end, max_len=max_len, label=label
  )
  whole = {**size, 'rows': rows, 'outputs': outputs}
  hidden = has(thing, 'hidden')
  # The class with most methods: metrics check capabilities by type.
  if hidden and callable(thing) and has(thing, 'patched'):
    return WithPatched(thing, **whole)
  if has(thing, 'start', 'step'):
    cached = CachedWithHidden if hidden else Cached
    return cached(thing, **whole)
  if callable(thing):
    reads = WithHidden if hidden else FromCallable
    return reads(thing, **whole)

  def accepts(prefixes: list[Tokens], suffixes: list[Tokens]) -> np.ndarray:
    with plugins.user_code(label, thing.answers):
      return np.asarray(thing.answers(prefixes, suffixes))

  return stateless.Accepting(accepts, **size)


class WithHidden(FromCallable, core.HiddenStates):
  """A user's callable whose activations can be probed."""

  def __init__(self, thing: Any, **fields: Any) -> None:
    """fields: of FromCallable."""
    super().__init__(thing, **fields)
    self._object = thing
    # Function that checks a layer on first use; set once the model has passed.
    self.check_layer: Callable[[int], None] | None = None
    self._checked_layers = {-1}

  def hidden(
    self, tokens: np.ndarray, lengths: np.ndarray, layer: int
  ) -> np.ndarray:
    """See core.HiddenStates; every call has `rows` rows, padded at the end."""
    if self.check_layer and layer not in self._checked_layers:
      self._checked_layers.add(layer)
      self.check_layer(layer)
    parts = []
    for num, shape, values in self._calls(
      self._object.hidden, layer, lengths, tokens
    ):
      if values.ndim != 3 or values.shape[:2] != shape:
        raise core.InputError(
          f'{self.label}: hidden gave {values.dtype} of shape {values.shape} '
          f'for tokens {shape}; expected floats [rows, length, width]'
        )
      parts.append(values[:num, : tokens.shape[1]])
    out = np.concatenate(parts).astype(np.float32)
    used = np.arange(out.shape[1]) < np.asarray(lengths)[:, None]
    contract.finite(out[used], f'layer {layer} of hidden')
    return out

  def _calls(
    self, call: Callable, layer: int, lengths: np.ndarray, *arrays: np.ndarray
  ) -> Iterator[tuple[int, tuple[int, ...], np.ndarray]]:
    """Calls a method of the object with `rows` rows of the arrays [N, L, ...].

    Yields:
      num: rows of a call that are not padding.
      shape: of its tokens, padded at the end.
      values: its results.
    """
    # All rows of a call have one length, so that results are one array.
    length = self.padded(arrays[0].shape[1])
    for rows, num in self._batches(np.arange(len(lengths)), length):
      tokens, *more = (
        padded(np.asarray(x[rows]), lengths[rows], num, length) for x in arrays
      )
      with plugins.user_code(self.label, call):
        values = as_array(call(tokens, layer, *more))
      yield len(rows), tokens.shape, values


class WithPatched(WithHidden, core.HiddenStates):
  """A user's callable that can continue from given activations, without cache.

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
    # Without rows, there must still be an array to concatenate.
    parts = [np.zeros((0, tokens.shape[1], self.vocab_size), np.float32)]
    arrays = tokens, hidden
    for num, shape, logits in self._calls(
      self._object.patched, layer, lengths, *arrays
    ):
      expected = *shape, self.vocab_size
      if logits.shape != expected:
        raise core.InputError(
          f'{self.label}: patched gave logits of shape {logits.shape}; '
          f'expected {expected}'
        )
      parts.append(self.normal(logits)[:num, : tokens.shape[1]])
    return np.concatenate(parts)


class Cached(FromCallable):
  """A user's object with `start` and `step`."""

  def __init__(self, thing: Any, **fields: Any) -> None:
    """fields: of FromCallable."""
    # Without __call__, `start` and `step` read whole sequences.
    whole = thing if callable(thing) else self._stepwise
    super().__init__(whole, **fields)
    self._object, self.by_sequence = thing, False

  def _stepwise(self, tokens: np.ndarray) -> np.ndarray:
    """[R, L, V] logits of whole sequences, one step at a time."""
    states, first = self._object.start(
      tokens[:, :1], np.ones(len(tokens), np.int32)
    )
    logits = [as_array(first)]
    # tokens [R, L]: columns are the L - 1 steps after the first token.
    for column in tokens.T[1:]:
      states, after = self._object.step(states, column)
      logits.append(as_array(after))
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
    self, call: Callable, num: int, *arguments: Any
  ) -> tuple[list[State], np.ndarray]:
    with plugins.user_code(self.label, call):
      states, logits = call(*arguments)
      states, log_probs = list(states), as_array(logits)
    if len(states) != num or log_probs.shape != (num, self.vocab_size):
      raise core.InputError(
        f'{self.label}: {call.__name__} gave {len(states)} states and logits '
        f'of shape {log_probs.shape} for {num} rows; expected {num} states and '
        f'{(num, self.vocab_size)}'
      )
    return states, self.normal(log_probs)

  def session(
    self, prefixes: np.ndarray, lengths: np.ndarray, num: int
  ) -> core.Session:
    """See core.Predictor."""
    return CacheSession(self, prefixes, lengths, num)


class CachedWithHidden(Cached, WithHidden):
  """A user's object with `start`, `step` and `hidden`."""


class CacheSession(core.Session):
  """A session of B x M continuations with states of the user's object."""

  def __init__(
    self, predictor: Cached, prefixes: np.ndarray, lengths: np.ndarray, num: int
  ) -> None:
    self._predictor = predictor
    shape = len(lengths), num
    # [B, M] states of the user's object; equal continuations share a state.
    self._states = np.empty(shape, object)
    self._log_probs = np.zeros((*shape, predictor.vocab_size), np.float32)
    self.restart(np.arange(len(lengths)), prefixes, lengths)

  def restart(
    self, rows: np.ndarray, prefixes: np.ndarray, lengths: np.ndarray
  ) -> None:
    """See core.Session; raises InputError for an empty prefix."""
    if not len(rows):
      return
    lengths = np.asarray(lengths, np.int32)
    core.predictor.check_prefixes(lengths)
    tokens = padded(prefixes, lengths, len(lengths), lengths.max())
    states, log_probs = self._predictor.started(tokens, lengths)
    for row, state in zip(rows, states, strict=True):
      for branch in range(self._states.shape[1]):
        self._states[row, branch] = state
    self._log_probs[rows] = log_probs[:, None]

  def log_probs(self) -> np.ndarray:
    """See core.Session."""
    return self._log_probs

  def advance(self, tokens: np.ndarray) -> None:
    """See core.Session."""
    # Continuations share their first state, which no step changes.
    tokens = np.asarray(tokens)
    at = np.nonzero(tokens != core.DEAD)
    if not at[0].size:
      return
    states, log_probs = self._predictor.stepped(
      list(self._states[at]), tokens[at].astype(np.int32)
    )
    # A copy, as callers may hold the last array.
    self._log_probs = self._log_probs.copy()
    self._log_probs[at] = log_probs
    for row, branch, state in zip(*at, states, strict=True):
      self._states[row, branch] = state
