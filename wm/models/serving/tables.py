"""Predictors of few states inside one compiled program, as a table.

  row  | tokens     mass        drawn   kept    next       a row for each state
  0    | 2 3 -      .5 1. 1.    1 1 0   1 0 0   1 2 0      that the trials can
  1    | 3 - -      .9 .9 .9    1 0 0   1 0 0   0 0 0      come to

Rules of acceptance are applied, and masses are summed up, by NumPy when the
table is made: a draw on the device compares and takes, with the same bits.
"""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wm import core
from wm.models.serving.state_session import StateSession, Support

if TYPE_CHECKING:
  import jax

  from wm.models.serving.table_machine import TableMachine

# Most rows of a table. A row takes the host as long as a draw, so that there
# are to be DRAWS for each of them, beyond the FEW that any table may have.
ROWS, FEW, DRAWS = 1 << 16, 1 << 12, 1 << 8
# Trials in flight: a table has work for many.
SLOTS = 64


class Tabulated(core.TracedPredictor):
  """A predictor that remembers one of few states of a prefix.

  A state is a row of W integers; equal rows predict the same.
  """

  light = True

  @abc.abstractmethod
  def enter(self, prefixes: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """[R, W] states after prefixes [R, L] of lengths [R]."""

  @abc.abstractmethod
  def follow(self, states: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """[R, W] states after one token [R] each."""

  @abc.abstractmethod
  def known(self, states: np.ndarray) -> tuple[Support, np.ndarray]:
    """What may come next in U of the states [R, W], and [R] which is whose.

    U is less than R where states that predict the same are looked up once.
    """

  def options(self, states: np.ndarray) -> Support:
    """What may come next in states [R, W]."""
    support, place = self.known(states)
    return support.take(place)

  def log_probs(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """See core.Predictor."""
    out = np.full((*tokens.shape, self.vocab_size), -np.inf, np.float32)
    states = self.enter(tokens, np.zeros(len(tokens), np.int32))
    for t in range(tokens.shape[1]):
      rows = np.flatnonzero(t < np.asarray(lengths))
      states[rows] = self.follow(states[rows], tokens[rows, t])
      out[rows, t] = self.options(states[rows]).dense(self.vocab_size)
    return out

  def session(
    self, prefixes: np.ndarray, lengths: np.ndarray, num: int
  ) -> StateSession:
    """See core.Predictor; prefixes may be empty."""
    return StateSession(self, prefixes, lengths, num)

  @property
  def devices(self) -> tuple[jax.Device, ...]:
    """The first one: a table is little work."""
    import jax  # Deferred: on the host a table needs none.

    return (jax.local_devices()[0],)

  def machine(
    self,
    prefixes: np.ndarray,
    lengths: np.ndarray,
    *,
    num: int,
    room: int,
    accept: Any,
    sampler: Any,
  ) -> tuple[TableMachine, int]:
    """See core.TracedPredictor."""
    from wm.models.serving import table_machine  # Deferred: it imports JAX.

    flat = prefixes.reshape(-1, prefixes.shape[-1])
    states = self.enter(flat, lengths.reshape(-1))
    unique, start = np.unique(states, axis=0, return_inverse=True)
    draws = len(lengths) * num * room
    most = min(max(draws // DRAWS, FEW), ROWS)
    levels = _levels(self, unique, room, most, accept, sampler)
    width = max(level.tokens.shape[1] for level in levels)
    columns = [level.widened(width) for level in levels]
    table = (np.concatenate(column) for column in zip(*columns, strict=True))
    start = start.reshape(lengths.shape).astype(np.int32)
    found = table_machine.TableMachine(*map(_rounded, table), start, num)
    return found, SLOTS


class Level(NamedTuple):
  """Rows of the table; see above. Arrays [S, K]."""

  tokens: np.ndarray
  mass: np.ndarray
  drawn: np.ndarray
  kept: np.ndarray
  next: np.ndarray

  def widened(self, width: int) -> Level:
    """With columns that nothing takes; masses stay at their sum."""
    more = ((0, 0), (0, width - self.tokens.shape[1]))
    tokens = np.pad(self.tokens, more, constant_values=core.DEAD)
    mass = np.pad(self.mass, more, mode='edge')
    return Level(tokens, mass, *(np.pad(x, more) for x in self[2:]))


def _rounded(array: np.ndarray) -> np.ndarray:
  """Rows up to a power of two, so that few programs serve many tables."""
  rows = 1 << (len(array) - 1).bit_length()
  return np.pad(array, ((0, rows - len(array)), (0, 0)))


def _levels(
  predictor: Tabulated,
  states: np.ndarray,
  room: int,
  most: int,
  accept: Any,
  sampler: Any,
) -> list[Level]:
  """The table of all that `room` tokens from states [S, W] come to.

  Breadth first. States that the last token leads to have no row of theirs:
  nothing is drawn there.

  Raises:
    Untraceable: there are more than `most` of them.
  """
  row_of = {state.tobytes(): row for row, state in enumerate(states)}
  levels = []
  for _ in range(room):
    fresh = [states[:0]]
    for part in core.chunks(len(states), predictor.vocab_size):
      here = states[part]
      level, moves = _rows(predictor.options(here), accept, sampler)
      row, place = np.nonzero(moves)
      after = predictor.follow(here[row], level.tokens[row, place])
      unique, back = np.unique(after, axis=0, return_inverse=True)
      before = len(row_of)
      rows = [row_of.setdefault(x.tobytes(), len(row_of)) for x in unique]
      rows = np.array(rows, np.int32)
      level.next[row, place] = rows[back.reshape(-1)]
      levels.append(level)
      fresh.append(unique[rows >= before])
      if len(row_of) > most:
        raise core.Untraceable(
          f'these trials come to more than {most:,} states of the predictor, '
          'the most that a table for so many samples has'
        )
    states = np.concatenate(fresh)
    if not len(states):
      break
  return levels


def _rows(
  found: Support, accept: Any, sampler: Any
) -> tuple[Level, np.ndarray]:
  """Rows but for `next`, and where a token leads on [S, K] bool.

  What neither rule accepts is left out; the others move to the front.
  """
  tokens, log_probs = found
  drawn, kept = (rule.mask(log_probs) for rule in (sampler, accept))
  mass = np.where(drawn, np.exp(log_probs), 0).astype(np.float32)
  # In order of id, with nothing left out but zeros: the bits of any draw.
  mass = np.cumsum(mass, axis=-1)
  moves = drawn | kept
  width = max(int(moves.sum(-1).max(initial=0)), 1)
  front = np.argsort(~moves, axis=-1, kind='stable')[:, :width]
  tokens, drawn, kept, moves, some = (
    np.take_along_axis(array, front, -1)
    for array in (tokens, drawn, kept, moves, mass)
  )
  some = np.where(moves, some, mass[:, -1:])
  none = np.zeros(tokens.shape, np.int32)
  tokens = np.where(moves, tokens, core.DEAD).astype(np.int32)
  return Level(tokens, some, drawn, kept, none), moves
