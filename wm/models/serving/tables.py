"""Predictors of few states inside one compiled program, as a table.

  row  | tokens     mass        drawn   kept    next       a row for each state
  0    | 2 3 -      .5 1. 1.    1 1 0   1 0 0   1 2 0      that the trials can
  1    | 3 - -      .9 .9 .9    1 0 0   1 0 0   0 0 0      come to

Rules of acceptance are applied, and masses are summed up, by NumPy when the
table is made: a draw on the device compares and takes, with the same bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wm import core
from wm.models.serving.state_session import Stateful, Support, distinct

if TYPE_CHECKING:
  import jax

# Most rows of a table. A row takes the host as long as a draw, so that there
# are to be DRAWS for each of them, beyond the FEW that any table may have.
ROWS, FEW, DRAWS = 1 << 16, 1 << 12, 1 << 8
# Trials in flight: a table has work for many.
SLOTS = 64


class Tabulated(Stateful, core.Predictor):
  """A predictor of few states, a table of which makes a compiled program."""

  light = True

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
  ) -> tuple[core.Machine, int]:
    """See core.Predictor.machine."""
    from wm.models.serving import table_machine  # Deferred: it imports JAX.

    flat = prefixes.reshape(-1, prefixes.shape[-1])
    states = self.enter(flat, lengths.reshape(-1))
    first, start = distinct(states)
    unique = states[first]
    draws = len(lengths) * num * room
    most = min(max(draws // DRAWS, FEW), ROWS)
    levels = _levels(self, unique, room, most, accept, sampler)
    width = max(level.tokens.shape[1] for level in levels)
    columns = [level.widened(width) for level in levels]
    table = (np.concatenate(column) for column in zip(*columns, strict=True))
    start = start.reshape(lengths.shape).astype(np.int32)
    rows = Level(*map(_rounded, table))
    return table_machine.TableMachine(rows, start, num), SLOTS


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
      first, back = distinct(after)
      unique = after[first]
      before = len(row_of)
      rows = np.array(
        [row_of.setdefault(x.tobytes(), len(row_of)) for x in unique], np.int32
      )
      level.next[row, place] = rows[back]
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
