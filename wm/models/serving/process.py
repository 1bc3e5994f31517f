"""Predictors that are processes: a state of a few integers replaces the prefix.

Subclasses define the first state, its update and its prediction (`init`,
`advance`, `next`). From these `ProcessPredictor` derives sessions and, if
states are few, a compiled table. `oracles` and `tracks` have subclasses.

  prefix  2 5 3  --init, advance-->  state [W] int32  --next-->  tokens  [K]
                                                                 nats    [K]

The state of an oracle is that of the world; of an n-gram model, the last
tokens; of a tracker, the last positions of bodies. Equal states have equal
predictions, so a session looks up each distinct state once. A small set of
states becomes a table, with which a compiled program samples:

  row  | tokens     mass        drawn   accepted  next     one row for each
  0    | 2 3 -      .5 1. 1.    1 1 0   1 0 0     1 2 0    state that trials
  1    | 3 - -      .9 .9 .9    1 0 0   1 0 0     0 0 0    can reach

NumPy applies the acceptance rules and accumulates masses when it builds the
table. A draw on the device only compares and gathers, with bit-equal results.
"""

from __future__ import annotations

import abc
import types
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wm import core
from wm.core import basics, traced
from wm.models.serving import few_shot

if TYPE_CHECKING:
  import jax

# Limit of float32 numbers per draw (16 MB).
BUDGET = 1 << 22
# Limits of rows of a table: ROWS in any case; beyond FEW rows, at least DRAWS
# draws per row, since building a row costs the host time.
ROWS, FEW, DRAWS = 1 << 16, 1 << 12, 1 << 8
# Parallel trials.
SLOTS = 64


class NextTokens(NamedTuple):
  """The possible next tokens after each of B prefixes.

  Attributes:
    tokens: [B, K] int32, ascending; DEAD entries, anywhere, are empty.
    log_probs: [B, K] float32 nats, -inf for empty entries.
  """

  tokens: np.ndarray
  log_probs: np.ndarray

  def dense(self, vocab_size: int) -> np.ndarray:
    """[B, V] float32 log-probabilities."""
    out = np.full((len(self.tokens), vocab_size), -np.inf, np.float32)
    row, place = np.nonzero(self.tokens != core.DEAD)
    out[row, self.tokens[row, place]] = self.log_probs[row, place]
    return out

  def take(self, rows: np.ndarray) -> NextTokens:
    """The given rows, in this order."""
    return NextTokens(self.tokens[rows], self.log_probs[rows])


def all_tokens(log_probs: np.ndarray) -> NextTokens:
  """Every token, with log-probabilities [B, V]."""
  tokens = np.arange(log_probs.shape[1], dtype=np.int32)
  return NextTokens(np.broadcast_to(tokens, log_probs.shape), log_probs)


class ProcessPredictor(core.SequenceProcess, core.Predictor):
  """A predictor whose state after a prefix is a row of W integers.

  Subclasses define `init`, `advance` and `next`, see core.SequenceProcess, and
  may override the other methods with faster ones.

  Attributes:
    many_states: True if nearly every prefix has its own state, so that no table
      can hold all states.
  """

  prefers_device_loop, many_states = True, False

  @property
  def in_flight(self) -> int:  # type: ignore[override]  # Depends on a size.
    """Few calls with many trials each, unless the vocabulary is large."""
    return min(256, (1 << 17) // self.vocab_size)

  def read(self, prefixes: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """[R, W] states after prefixes [R, L] of lengths [R]."""
    lengths = np.asarray(lengths)
    states = self.init(len(lengths))
    for t in range(int(lengths.max(initial=0))):
      rows = np.flatnonzero(t < lengths)
      states[rows] = self.advance(states[rows], prefixes[rows, t])
    return states

  @abc.abstractmethod
  def next(self, memory: np.ndarray) -> NextTokens:
    """The tokens that may follow in states [R, W]; see core.SequenceProcess."""

  def lookup(self, states: np.ndarray) -> tuple[NextTokens, np.ndarray]:
    """Next tokens of U distinct states [R, W], and the row [R] of each state.

    U may be less than R if states have equal predictions.
    """
    first, index = basics.distinct(states)
    return self.next(states[first]), index

  def log_probs(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """See core.Predictor."""
    out = np.full((*tokens.shape, self.vocab_size), -np.inf, np.float32)
    # states [B, W] advance one column of tokens at a time; rows that have ended
    # do not change.
    states = self.init(len(tokens))
    for t in range(tokens.shape[1]):
      rows = np.flatnonzero(t < np.asarray(lengths))
      states[rows] = self.advance(states[rows], tokens[rows, t])
      options, index = self.lookup(states[rows])
      out[rows, t] = options.dense(self.vocab_size)[index]
    return out

  def session(
    self, prefixes: np.ndarray, lengths: np.ndarray, num: int
  ) -> ProcessSession:
    """See core.Predictor; prefixes may be empty."""
    return ProcessSession(self, prefixes, lengths, num)

  @property
  def devices(self) -> tuple[jax.Device, ...]:
    """The first device only, since a table is little work."""
    return _tables().table_devices()

  def machine(
    self,
    prefixes: np.ndarray,
    lengths: np.ndarray,
    *,
    num: int,
    room: int,
    accept: Any,
    sampler: Any,
  ) -> tuple[traced.Machine, int]:
    """See core.Predictor.machine."""
    if self.many_states:
      raise traced.Untraceable(
        f'{type(self).__name__} has states of its own for every prefix: no '
        'table holds them'
      )
    # [T, 2, L] -> [2 T, L]: each prefix starts in one row of the table.
    flat = prefixes.reshape(-1, prefixes.shape[-1])
    states = self.read(flat, lengths.reshape(-1))
    first, start = basics.distinct(states)
    unique = states[first]
    # A table is worthwhile only with enough draws per row.
    draws = len(lengths) * num * room
    most = min(max(draws // DRAWS, FEW), ROWS)
    levels = _levels(self, unique, room, most, accept, sampler)
    # Levels [S_i, K_i] of one table must have one width.
    width = max(level.tokens.shape[1] for level in levels)
    columns = [level.widened(width) for level in levels]
    table = (np.concatenate(column) for column in zip(*columns, strict=True))
    start = start.reshape(lengths.shape).astype(np.int32)
    rows = TableRows(*map(_rounded, table))
    return _tables().TableMachine(rows, start, num), SLOTS


def _tables() -> types.ModuleType:
  from wm.models.serving import sessions  # Deferred: it imports JAX.

  return sessions


class TablePredictor(few_shot.KeyTable, ProcessPredictor):
  """A process that adapts to labels by a table keyed by its states."""

  def keys(self, tokens: np.ndarray, places: np.ndarray) -> np.ndarray:
    """See few_shot.KeyTable: a hash of the state at each place."""
    hashed = np.zeros(places.shape, np.uint64)
    last = places.max(-1, initial=core.DEAD)
    rows, states = np.arange(len(tokens)), self.init(len(tokens))
    for t in range(int(last.max(initial=core.DEAD)) + 1):
      going = t <= last[rows]
      rows, states = rows[going], states[going]
      states = self.advance(states, tokens[rows, t])
      row, column = np.nonzero(places[rows] == t)
      if row.size:
        # Hashes the bytes of a state, whatever its dtype.
        words = np.ascontiguousarray(states[row]).view(np.int32)
        hashed[rows[row], column] = basics.hash64(*words.T)
    return hashed


class BeliefReader(core.HiddenStates):
  """A reader whose activations, at any layer, are exact beliefs.

  Attributes:
    law: a process with the method `belief`.
  """

  law: core.SequenceProcess

  def hidden(
    self, tokens: np.ndarray, lengths: np.ndarray, layer: int
  ) -> np.ndarray:
    """[B, L, S] float32; see core.HiddenStates."""
    del layer
    memory = self.law.after_each(tokens, lengths)
    beliefs = self.law.belief(memory.reshape(-1, memory.shape[-1]))
    return beliefs.reshape(*tokens.shape, -1).astype(np.float32)


class ProcessSession(core.Session):
  """A session of states [B, M, W]; each distinct state is looked up once."""

  def __init__(
    self,
    predictor: ProcessPredictor,
    prefixes: np.ndarray,
    lengths: np.ndarray,
    num: int,
  ) -> None:
    """See core.Predictor.session."""
    self._predictor = predictor
    states = predictor.read(prefixes, np.asarray(lengths))
    # [B, W] -> [B, M, W]: continuations differ once they advance.
    self._states = np.repeat(states[:, None], num, axis=1)
    self._forget()

  def _forget(self) -> None:
    """Drops cached look-ups after states have changed."""
    self._options: tuple[NextTokens, np.ndarray] | None = None
    self._table: np.ndarray | None = None

  def restart(
    self, rows: np.ndarray, prefixes: np.ndarray, lengths: np.ndarray
  ) -> None:
    """See core.Session."""
    states = self._predictor.read(prefixes, np.asarray(lengths))
    self._states[rows] = states[:, None]
    self._forget()

  def advance(self, tokens: np.ndarray) -> None:
    """See core.Session."""
    tokens = np.asarray(tokens)
    at = np.nonzero(tokens != core.DEAD)
    if at[0].size:  # Worlds may refuse empty batches.
      self._states[at] = self._predictor.advance(self._states[at], tokens[at])
    self._forget()

  def _lookup(self) -> tuple[NextTokens, np.ndarray]:
    """Next tokens [U, K], and their row for each continuation [B, M]."""
    if self._options is None:
      batch, num, words = self._states.shape
      states = self._states.reshape(batch * num, words)
      options, index = self._predictor.lookup(states)
      self._options = options, index.reshape(batch, num)
    return self._options

  def _dense(self) -> np.ndarray:
    """[U, V] log-probabilities."""
    if self._table is None:
      options, _ = self._lookup()
      self._table = options.dense(self._predictor.vocab_size)
    return self._table

  def log_probs(self) -> np.ndarray:
    """See core.Session."""
    _, index = self._lookup()
    return self._dense()[index]

  def mask(self, accept: Any) -> np.ndarray:
    """See core.Session; the rule is applied once per distinct state."""
    _, index = self._lookup()
    return np.asarray(accept.mask(self._dense()))[index]

  def draw(self, accept: Any, uniform: np.ndarray) -> np.ndarray:
    """See core.Session."""
    (tokens, log_probs), index = self._lookup()
    row, uniform = index.ravel(), np.asarray(uniform).ravel()
    if 1 < len(tokens) < row.size:
      # Tokens impossible in every state affect neither masks nor draws.
      used = np.flatnonzero(np.asarray(accept.mask(log_probs)).any(0))
      tokens, log_probs = tokens[:, used], log_probs[:, used]
    out = np.full(row.size, core.DEAD, np.int32)
    # In parts, since [B M, K] may be larger than memory.
    size = row.size if tokens.size else 0
    for part in core.predictor.chunks(size, tokens.shape[1], BUDGET):
      drawn = accept.draw(_of(log_probs, row[part]), uniform[part])
      taken = tokens[row[part], np.maximum(drawn, 0)]
      out[part] = np.where(drawn == core.DEAD, core.DEAD, taken)
    return out.reshape(index.shape)

  def accepted(self, accept: Any, tokens: np.ndarray) -> np.ndarray:
    """See core.Session."""
    (options, log_probs), index = self._lookup()
    mask, tokens = np.asarray(accept.mask(log_probs)), np.asarray(tokens)
    size = self._predictor.vocab_size
    if options.shape[1] == size and (options == np.arange(size)).all():
      # All tokens are listed in order, as for n-grams: no search.
      accepted = mask[index, np.maximum(tokens, 0)]
    else:
      # [B, M, K]: True where the listed token is the queried one.
      equal = _of(options, index) == tokens[..., None]
      accepted = (equal & _of(mask, index)).any(-1)
    return accepted & (tokens != core.DEAD)


def _of(array: np.ndarray, index: np.ndarray) -> np.ndarray:
  """array[index], [*, K]; a view if the index is constant or the identity."""
  shape = (*index.shape, array.shape[1])
  if len(array) == 1:
    return np.broadcast_to(array, shape)
  if np.array_equal(index.ravel(), np.arange(len(array))):
    return array.reshape(shape)
  return array[index]


class TableRows(NamedTuple):
  """Rows of the table drawn in the module's docstring; arrays [S, K]."""

  tokens: np.ndarray
  mass: np.ndarray
  drawn: np.ndarray
  accepted: np.ndarray
  next: np.ndarray

  def widened(self, width: int) -> TableRows:
    """Adds columns that are never drawn; masses stay at their sum."""
    more = ((0, 0), (0, width - self.tokens.shape[1]))
    tokens = np.pad(self.tokens, more, constant_values=core.DEAD)
    mass = np.pad(self.mass, more, mode='edge')
    return TableRows(tokens, mass, *(np.pad(x, more) for x in self[2:]))


def _rounded(array: np.ndarray) -> np.ndarray:
  """Pads rows to a power of two, so that few programs serve many tables."""
  rows = 1 << (len(array) - 1).bit_length()
  return np.pad(array, ((0, rows - len(array)), (0, 0)))


def _levels(
  predictor: ProcessPredictor,
  states: np.ndarray,
  room: int,
  most: int,
  accept: Any,
  sampler: Any,
) -> list[TableRows]:
  """The rows of all states within `room` tokens of states [S, W].

  The search is breadth first. States after the last token have no row, as
  nothing is drawn from them.

  Raises:
    Untraceable: there are more than `most` states.
  """
  # Bytes of a state -> its row; states are numbered in order of discovery.
  row_of = {state.tobytes(): row for row, state in enumerate(states)}
  levels = []
  for _ in range(room):
    fresh = [states[:0]]
    for part in core.predictor.chunks(len(states), predictor.vocab_size):
      before = states[part]
      # before [S, W] -> options [S, K] -> after [moves, W]: all listed tokens
      # are followed from all states at once.
      level, moves = _rows(predictor.next(before), accept, sampler)
      row, place = np.nonzero(moves)
      after = predictor.advance(before[row], level.tokens[row, place])
      first, back = basics.distinct(after)
      unique = after[first]
      # Rows from here on are new states: the next level.
      num_known = len(row_of)
      rows = np.array(
        [row_of.setdefault(x.tobytes(), len(row_of)) for x in unique], np.int32
      )
      level.next[row, place] = rows[back]
      levels.append(level)
      fresh.append(unique[rows >= num_known])
      if len(row_of) > most:
        raise traced.Untraceable(
          f'these trials come to more than {most:,} states of the predictor, '
          'the most that a table for so many samples has'
        )
    states = np.concatenate(fresh)
    if not len(states):
      break
  return levels


def _rows(
  options: NextTokens, accept: Any, sampler: Any
) -> tuple[TableRows, np.ndarray]:
  """Rows without `next`, and the mask [S, K] of tokens that continue.

  Tokens that neither rule accepts are removed; the others move to the front.
  """
  tokens, log_probs = options
  drawn, accepted = (rule.mask(log_probs) for rule in (sampler, accept))
  mass = np.where(drawn, np.exp(log_probs), 0).astype(np.float32)
  # In order of id, leaving out only zeros: the sums have the bits of any draw.
  mass = np.cumsum(mass, axis=-1)
  moves = drawn | accepted
  width = max(int(moves.sum(-1).max(initial=0)), 1)
  front = np.argsort(~moves, axis=-1, kind='stable')[:, :width]
  tokens, drawn, accepted, moves, sums = (
    np.take_along_axis(array, front, -1)
    for array in (tokens, drawn, accepted, moves, mass)
  )
  sums = np.where(moves, sums, mass[:, -1:])
  following = np.zeros(tokens.shape, np.int32)
  tokens = np.where(moves, tokens, core.DEAD).astype(np.int32)
  return TableRows(tokens, sums, drawn, accepted, following), moves
