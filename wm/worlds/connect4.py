"""Cumulative Connect-4: discs drop into columns, and nobody ever wins.

A token is a column, legal while the column has room; the state is the number
of discs in each column (Vafa et al. 2024, Fig. 1 and section 2). A model that
allows every column is right in nearly every state, without representing any.

State words: discs in each column; all DEAD in a dead state.
"""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

import numpy as np

from wm import core
from wm.core import basics, resources
from wm.core.fields import field
from wm.worlds.base import sampling, svg, verbal

TEXTS = verbal.Texts(__file__)


@dataclasses.dataclass(frozen=True)
class World(
  sampling.UniformPlay,
  core.Prefixed,
  core.Enumerable,
  core.Labelled,
  core.Written,
  core.Verbal,
):
  """A board that fills up with discs."""

  noun: ClassVar[str] = 'Connect-4'

  rows: int = field(6, 'discs that a column holds', least=1)
  columns: int = field(7, 'number of columns', least=2)

  def cost(self, world: core.World | None = None) -> core.Cost:
    """See core.Bounded."""
    del world
    rows, columns = self.rows, self.columns
    return resources.sequences_cost(
      rows * columns, 'rows', 'columns', vocab=columns, words=columns
    )

  @property
  def vocab(self) -> tuple[str, ...]:
    """'<pad>', then columns from '1'."""
    return ('<pad>', *(str(c + 1) for c in range(self.columns)))

  @property
  def max_len(self) -> int:
    """A full board."""
    return self.rows * self.columns

  def init(self, batch: int) -> np.ndarray:
    """An empty board."""
    return np.zeros((batch, self.columns), np.int32)

  def advance(self, states: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """States [B, columns] after tokens [B]."""
    after = np.array(states, np.int32)
    column = np.asarray(tokens) - 1
    valid = (column >= 0) & (column < self.columns)
    rows, column = np.arange(len(after)), np.where(valid, column, 0)
    ok = valid & (after[rows, column] < self.rows) & (after[:, 0] >= 0)
    after[rows, column] += 1
    after[~ok] = core.DEAD
    return after

  def legal(self, states: np.ndarray) -> np.ndarray:
    """[B, V] bool: columns with room."""
    room = (states >= 0) & (states < self.rows)
    return np.concatenate([np.zeros((len(states), 1), bool), room], axis=1)

  def state_id(self, states: np.ndarray) -> np.ndarray:
    """[B] int64: the counts as one number, hashed where that is too large."""
    if (self.rows + 1) ** self.columns < 2**63:
      radix = (self.rows + 1) ** np.arange(self.columns, dtype=np.int64)
      ids = states.astype(np.int64) @ radix
    else:
      ids = (basics.hash64(*states.T) >> np.uint64(1)).astype(np.int64)
    return np.where(states[:, 0] < 0, core.DEAD, ids)

  @property
  def heads(self) -> core.Heads:
    """Discs in each column."""
    return core.Heads((self.rows + 1,) * self.columns)

  def labels(self, states: np.ndarray) -> np.ndarray:
    """[B, columns], the state itself."""
    return np.maximum(states, 0).astype(self.heads.dtype)

  def sample(self, num: int, seed: int, split: str = 'all') -> core.Sequences:
    """Full boards, each disc uniform over the columns with room."""
    return sampling.stream(self, num, seed, split)

  def sample_states(self, num: int, seed: int) -> np.ndarray:
    """States uniform over disc counts, except the empty and the full board."""
    states = np.zeros((num, self.columns), np.int32)
    trial, column = np.arange(num)[:, None], np.arange(self.columns)
    attempt = 0
    while True:
      total = states.sum(-1)
      bad = np.flatnonzero((total == 0) | (total == self.max_len))
      if not bad.size:
        return states
      words = basics.hash64(seed, trial[bad], column, attempt)
      states[bad] = (words % np.uint64(self.rows + 1)).astype(np.int32)
      attempt += 1

  def prefix_moves(self, states: np.ndarray) -> np.ndarray:
    """[T, 2] int32: the number of discs, twice; at least one move."""
    total = states.sum(-1)
    most = np.where((states >= 0).all(-1), total, 0)
    return np.stack([np.maximum(most, 1), most], axis=-1).astype(np.int32)

  def sample_prefixes(
    self, states: np.ndarray, moves: np.ndarray, seeds: np.ndarray
  ) -> core.Prefixes:
    """Prefixes uniform over all orders of the discs."""
    ok = (states >= 0).all(-1) & (states.sum(-1) == moves) & (moves > 0)
    tokens = np.zeros((len(states), int(np.max(moves, initial=0))), np.int32)
    for t in np.flatnonzero(ok):
      discs = np.repeat(np.arange(1, self.columns + 1), states[t])
      order = np.argsort(basics.hash64(seeds[t], np.arange(len(discs))))
      tokens[t, : len(discs)] = discs[order]
    return core.Prefixes(tokens, np.where(ok, moves, 0).astype(np.int32), ok)

  def rules(self, style: core.PromptStyle) -> str:
    """See core.Verbal."""
    rules = TEXTS.lines('board_rules', style, rows=self.rows)
    return TEXTS.render('board', columns=self.columns, rules=' '.join(rules))

  def parse(self, text: str) -> np.ndarray:
    """Discs per column, '1,1,1,2,2,2,2'; or 'dead'."""
    if text.strip() == 'dead':
      return np.full((1, self.columns), core.DEAD, np.int32)
    wrong = core.InputError(
      f'{text!r} is no state; expected {self.columns} numbers of discs, each '
      f'0..{self.rows}, separated by commas'
    )
    try:
      discs = [int(part) for part in text.split(',')]
    except ValueError as error:
      raise wrong from error
    if len(discs) != self.columns or not all(
      0 <= disc <= self.rows for disc in discs
    ):
      raise wrong
    return np.array([discs], np.int32)

  def format(self, state: np.ndarray) -> str:
    """As `parse` reads it."""
    if state[0] < 0:
      return 'dead'
    return ','.join(map(str, state.tolist()))

  def render(self, state: np.ndarray) -> str:
    """A table of the number of discs in each column."""
    if state[0] < 0:
      return svg.card(['dead'])
    heads, discs = self.vocab[1:], [str(disc) for disc in state.tolist()]
    notes = [f'discs in columns of {self.rows}']
    return svg.table(heads, [discs], 'columns', notes=notes)

  def _room(self, state: np.ndarray) -> list[int]:
    """Free places of each column; 0 for a dead board."""
    if state[0] < 0:
      return [0] * self.columns
    return [self.rows - int(disc) for disc in state]

  def count(
    self, first: np.ndarray, second: np.ndarray, depth: int
  ) -> tuple[list[int], list[int]]:
    """Exact sizes of boundary and interior of a pair [W], by length.

    A boundary suffix ends with a disc that does not fit in some column of
    `second`. Before it, in any order, are the discs that fill that column, and
    discs in other columns that both states have room for.
    """
    room1, room2 = self._room(first), self._room(second)
    both = [min(pair) for pair in zip(room1, room2, strict=True)]
    sizes = [0] * depth
    for column in range(self.columns):
      fill = room2[column]
      if room1[column] <= fill:
        continue
      others = _arrangements(both[:column] + both[column + 1 :], depth)
      for length in range(fill + 1, depth + 1):
        ways = math.comb(length - 1, fill)
        sizes[length - 1] += ways * others[length - 1 - fill]
    return sizes, _arrangements(both, depth)[1:]


def _arrangements(room: list[int], depth: int) -> list[int]:
  """Sequences of columns of lengths 0..depth that respect `room`, exact."""
  ways = [1] + [0] * depth
  for most in room:
    ways = [
      sum(
        math.comb(length, discs) * ways[length - discs]
        for discs in range(min(most, length) + 1)
      )
      for length in range(depth + 1)
    ]
  return ways
