"""Base classes of finite worlds, which a transition table defines.

`TableWorld` is for worlds whose states are rows of one table.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from wm import core
from wm.core import basics, inputs, resources
from wm.core.capabilities import Box
from wm.kernels import dfa
from wm.worlds.base import svg
from wm.worlds.base.sampling import UniformPlay, picks, stream

SHOWN = 8  # Number of names listed in an error.
LISTED_MOVES = 16  # Moves in the picture of a state.
# Default length limit of exact boundaries, and limit of suffixes per pair.
DEEPEST, LISTED = 5, 40_000


class Automaton(NamedTuple):
  """A transition table for compiled kernels, and the rows of B states.

  A state is (row, goal): labels change the row, the goal stays. A world without
  goals uses dfa.NO_GOAL.

  Attributes:
    delta: [S, A] int32, next row, or DEAD.
    tokens: [A] int32, token id of each label, ascending.
    end: token that is legal if row == goal, DEAD for none.
    rows: [B] int32, DEAD for states without a row.
    goals: [B] int32.
  """

  delta: np.ndarray
  tokens: np.ndarray
  end: int
  rows: np.ndarray
  goals: np.ndarray


class Tabled(core.Finite):
  """A world whose exact answers come from compiled kernels on its table."""

  @property
  def turns_known(self) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Order of the labels of each row, and the rows with an order.

    Only the published program's enumeration depends on it; None: ascending.
    """
    return None, None

  @abc.abstractmethod
  def automaton(self, states: np.ndarray) -> Automaton:
    """The table, and the rows of states [B, W]."""

  def traced(self, states: np.ndarray) -> tuple[core.traced.Rules, Any]:
    """See core.Enumerable.traced; every state of the table is allowed."""
    from wm.kernels import device_rules  # Deferred: it imports JAX.

    delta, tokens, end, rows, goals = self.automaton(states)
    rules = device_rules.table_rules(delta, tokens, end)
    return rules, device_rules.table_states(rows, goals)

  def boundary(
    self,
    first: np.ndarray,
    second: np.ndarray,
    depth: int,
    published: bool = False,
  ) -> core.Boundary:
    """Boundaries of pairs of states; the end token sorts before all others."""
    left, right = self.automaton(first), self.automaton(second)
    pairs = left.rows, right.rows, left.goals, right.goals
    order = dfa.Published(*self.turns_known) if published else None
    suffixes = dfa.boundary(left.delta, *pairs, depth, published=order)
    # DEAD is the last entry, the end label the one before it.
    tokens = np.array([*left.tokens, left.end, core.PAD], np.int32)
    lengths = suffixes.lengths.astype(np.int32)
    return core.Boundary(suffixes.offsets, tokens[suffixes.labels], lengths)

  def count(
    self, first: np.ndarray, second: np.ndarray, depth: int
  ) -> tuple[list[int], list[int]]:
    """Exact sizes of boundary and interior of a pair [W], by length."""
    left, right = self.automaton(first[None]), self.automaton(second[None])
    return _pair_sizes(left, right, depth)


class TableWorld(
  UniformPlay, Tabled, core.Prefixed, core.Labelled, core.Written
):
  """A world whose state is one word, a row of `delta`; label a is token a + 1.

  Sequences start in row 0, have no end token and have up to `max_len` tokens.
  Subclasses are frozen dataclasses that define `delta`, `vocab`, and a field
  `length` or `max_len`.
  """

  length: int = 0  # 0: the subclass defines `max_len` instead.

  @property
  @abc.abstractmethod
  def delta(self) -> np.ndarray:
    """[S, A] int32 next rows, DEAD for illegal tokens."""

  @functools.cached_property
  def checked(self) -> np.ndarray:
    """`delta` as [S, A] int32.

    Raises:
      InputError: `delta` is malformed, or does not fit the vocabulary.
    """
    delta, tokens = np.asarray(self.delta), len(self.vocab)
    if delta.ndim != 2 or delta.dtype.kind != 'i' or not delta.size:
      raise core.InputError(
        f'{self.name}: delta is {delta.dtype} of shape {delta.shape}; expected '
        'integers of shape [states, tokens without padding]'
      )
    if delta.shape[1] != tokens - 1:
      raise core.InputError(
        f'{self.name}: delta has {delta.shape[1]} columns and vocab {tokens} '
        f'tokens; expected a column for each token but padding, {tokens - 1}'
      )
    odd = (delta < core.DEAD) | (delta >= len(delta))
    if odd.any():
      row, column = np.argwhere(odd)[0].tolist()
      raise core.InputError(
        f'{self.name}: delta[{row}, {column}] is {delta[row, column]}, for '
        f'token {self.vocab[column + 1]!r}; expected a state, 0..'
        f'{len(delta) - 1}, or {core.DEAD} where it is illegal'
      )
    return delta.astype(np.int32, copy=False)

  @property
  def max_len(self) -> int:
    """Maximum tokens of a sequence, `end` included."""
    return self.length

  def cost(self, world: core.World | None = None) -> core.Cost:
    """See core.Bounded; grows with the field `length`, if it exists."""
    del world
    fields = ('length',) if self.length else ()
    return resources.sequences_cost(self.max_len, *fields)

  @property
  def boundary_depth(self) -> int:
    """DEEPEST, or less if a state may have more than LISTED suffixes."""
    most = int((self.checked >= 0).sum(1).max())
    depths = range(2, DEEPEST + 1)
    return max([1, *(depth for depth in depths if most**depth <= LISTED)])

  def automaton(self, states: np.ndarray) -> Automaton:
    """The table, which has no goals, and the states' rows."""
    tokens = np.arange(1, len(self.vocab), dtype=np.int32)
    none = np.full(len(states), dfa.NO_GOAL)
    return Automaton(self.checked, tokens, core.DEAD, states[:, 0], none)

  def init(self, batch: int) -> np.ndarray:
    """Row 0."""
    return np.zeros((batch, 1), np.int32)

  def advance(self, states: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """States [B, 1] after tokens [B]."""
    labels = np.asarray(tokens) - 1
    return dfa.advance(self.checked, states[:, 0], labels)[:, None]

  def legal(self, states: np.ndarray) -> np.ndarray:
    """[B, V] bool."""
    legal = np.zeros((len(states), len(self.vocab)), bool)
    none = np.full(len(states), dfa.NO_GOAL)
    legal[:, 1:] = dfa.legal(self.checked, states[:, 0], none)[:, :-1]
    return legal

  def state_id(self, states: np.ndarray) -> np.ndarray:
    """[B] int64, the row."""
    return states[:, 0].astype(np.int64)

  @property
  def heads(self) -> core.Heads:
    """One label, the row."""
    return core.Heads((len(self.checked),))

  def labels(self, states: np.ndarray) -> np.ndarray:
    """[B, 1], the row."""
    return np.maximum(states, 0).astype(self.heads.dtype)

  def edited(
    self, states: np.ndarray, label: np.ndarray, value: np.ndarray
  ) -> np.ndarray:
    """See core.Labelled.edited: an edit may give any state."""
    valid = (label == 0) & (value >= 0) & (value < self.heads.sizes[0])
    valid &= states[:, 0] >= 0
    return np.where(valid, value, core.DEAD).astype(np.int32)[:, None]

  def from_labels(self, labels: np.ndarray) -> np.ndarray:
    """See core.Labelled.from_labels: the label is the row of the table."""
    valid = labels < self.heads.sizes[0]
    return np.where(valid, labels, core.DEAD).astype(np.int32)

  def sample(self, num: int, seed: int, split: str = 'all') -> core.Sequences:
    """Random play of `max_len` tokens."""
    return stream(self, num, seed, split)

  def sample_states(self, num: int, seed: int) -> np.ndarray:
    """States uniform over those that some prefix reaches."""
    rows = np.flatnonzero(self._arrivals[1:].any(0))
    return rows[picks(seed, num, len(rows))].astype(np.int32)[:, None]

  def num_states(self) -> int:
    """See core.Prefixed."""
    return int(self._arrivals[1:].any(0).sum())

  @functools.cached_property
  def _ways(self) -> np.ndarray:
    """[max_len, S]: numbers of prefixes of k moves to each row, scaled per k.

    Prefixes leave room for one more token. Each k is scaled by its maximum,
    which keeps numbers finite: backward sampling only needs ratios within a k.
    """
    resources.require_memory(9 * self.max_len * len(self.checked), self.name)
    ways = np.zeros((self.max_len, len(self.checked)))
    ways[0, 0] = 1.0
    sources, labels = np.nonzero(self.checked >= 0)
    heads = self.checked[sources, labels]
    for k in range(1, self.max_len):
      np.add.at(ways[k], heads, ways[k - 1, sources])
      # A row of zeros, without any prefix, stays zero.
      ways[k] /= max(ways[k].max(), 1e-300)
    return ways

  @functools.cached_property
  def _arrivals(self) -> np.ndarray:
    """[max_len, S] bool: does a prefix of k moves reach each row?"""
    return self._ways > 0

  def prefix_moves(self, states: np.ndarray) -> np.ndarray:
    """[T, 2] int32; some numbers of moves in between may have no prefix."""
    bounds = first_and_last(self._arrivals[1:, states[:, 0]])
    bounds[states[:, 0] < 0, 1] = 0
    return bounds

  def sample_prefixes(
    self, states: np.ndarray, moves: np.ndarray, seeds: np.ndarray
  ) -> core.Prefixes:
    """Prefixes uniform over those of moves[t] tokens that reach states[t]."""
    rows, moves = states[:, 0].copy(), np.asarray(moves)
    ok = (rows >= 0) & (moves >= 1) & (moves < self.max_len)
    ok[ok] = self._ways[moves[ok], rows[ok]] > 0
    tokens = np.zeros((len(rows), int(moves.max(initial=0))), np.int32)
    edges = dfa.predecessors(self.checked)
    for t in np.flatnonzero(ok):
      row = rows[t]
      draws = basics.uniforms(seeds[t], np.arange(moves[t]))
      for k in range(moves[t], 0, -1):
        into = slice(edges.indptr[row], edges.indptr[row + 1])
        mass = np.cumsum(self._ways[k - 1, edges.sources[into]])
        pick = np.searchsorted(mass, draws[k - 1] * mass[-1], side='right')
        # Rounding may lead past the last predecessor with mass.
        pick = min(pick, np.flatnonzero(np.diff(mass, prepend=0.0))[-1])
        tokens[t, k - 1] = edges.labels[into][pick] + 1
        row = edges.sources[into][pick]
    return core.Prefixes(tokens, np.where(ok, moves, 0).astype(np.int32), ok)

  def parse(self, text: str) -> np.ndarray:
    """The row as a number, or 'dead'."""
    if text.strip() == 'dead':
      return np.array([[core.DEAD]], np.int32)
    size = len(self.checked)
    if not text.strip().isdecimal() or int(text) >= size:
      raise core.InputError(
        f'{text!r} is no state of {self.name}; expected 0..{size - 1}'
      )
    return np.array([[int(text)]], np.int32)

  def format(self, state: np.ndarray) -> str:
    """As `parse` reads it."""
    return 'dead' if state[0] < 0 else str(int(state[0]))

  def _listed(self, state: np.ndarray) -> tuple[list[int], int]:
    """Tokens in the picture of a state, and how many more are legal."""
    legal = np.flatnonzero(self.legal(state[None])[0])
    return legal[:LISTED_MOVES].tolist(), max(len(legal) - LISTED_MOVES, 0)

  def render(self, state: np.ndarray) -> str:
    """A table of the legal tokens and their next states; DEAD has none."""
    name, (listed, more) = self.format(state), self._listed(state)
    if not listed:
      return svg.card([name])
    states = np.repeat(state[None], len(listed), axis=0)
    after = self.advance(states, np.array(listed))
    words = [self.vocab[token] for token in listed]
    rows = [*zip(words, map(self.format, after), strict=True)]
    notes = [f'and {more} more'] if more else []
    return svg.table(('token', 'leads to'), rows, f'at {name}', notes=notes)

  def token_boxes(
    self, state: np.ndarray, tokens: Iterable[int]
  ) -> dict[int, list[Box]]:
    """See core.Written: the lines of the table that `render` makes."""
    listed, _ = self._listed(state)
    return {
      token: [svg.row_box(listed.index(token))]
      for token in tokens
      if token in listed
    }


class NamedTableWorld(TableWorld):
  """A TableWorld whose rows have names."""

  @property
  @abc.abstractmethod
  def names(self) -> tuple[str, ...]:
    """[S] name of each row; 'dead' is reserved."""

  @functools.cached_property
  def rows(self) -> Mapping[str, int]:
    """Name that `parse` accepts -> row."""
    return {name: row for row, name in enumerate(self.names)}

  def parse(self, text: str) -> np.ndarray:
    """A name, or 'dead'."""
    name = text.strip()
    rows = {**self.rows, 'dead': core.DEAD}
    text = f'{text!r} is no state of {self.name}'
    inputs.check_known(name, rows, text, SHOWN)
    return np.array([[rows[name]]], np.int32)

  def format(self, state: np.ndarray) -> str:
    """As `parse` reads it."""
    return 'dead' if state[0] < 0 else self.names[int(state[0])]


def first_and_last(reached: np.ndarray) -> np.ndarray:
  """[T, 2] int32 fewest and most moves, from reached [K, T] by k + 1 moves.

  The most is 0 if no number of moves reaches.
  """
  least = reached.argmax(0) + 1
  most = np.where(reached.any(0), len(reached) - reached[::-1].argmax(0), 0)
  return np.stack([least, most], axis=-1).astype(np.int32)


def _pair_sizes(
  left: Automaton, right: Automaton, depth: int
) -> tuple[list[int], list[int]]:
  """Sizes of boundary and interior of one pair of states, by length.

  It counts pairs of rows instead of listing suffixes, in Python integers of any
  size (Vafa et al. 2024, Defs. 2.3 and 2.4).

  left, right: the same table with one state each.
  """
  (row1,), (row2,) = left.rows.tolist(), right.rows.tolist()
  (goal1,), (goal2,) = left.goals.tolist(), right.goals.tolist()
  delta, size = left.delta, len(left.delta) + 1
  heads: dict[int, tuple[int, list[int]]] = {}
  # A pair is a number: DEAD (-1) is row 0 of `size`.
  level = {(row1 + 1) * size + row2 + 1: 1}
  outer, inner = [], []
  for _ in range(depth):
    outer.append(0)
    inner.append(0)
    deeper: dict[int, int] = {}
    for pair, ways in level.items():
      row1, row2 = pair // size - 1, pair % size - 1
      if row1 >= 0 and row1 == goal1:  # The end token.
        sizes = inner if row2 >= 0 and row2 == goal2 else outer
        sizes[-1] += ways
      if pair not in heads:
        heads[pair] = _heads(delta, row1, row2)
      alone, ahead = heads[pair]
      outer[-1] += ways * alone
      inner[-1] += ways * len(ahead)
      for after in ahead:
        deeper[after] = deeper.get(after, 0) + ways
    level = deeper
  return outer, inner


def _heads(delta: np.ndarray, row: int, other: int) -> tuple[int, list[int]]:
  """How many labels are legal at `row` alone; next pairs by those of both."""
  firsts = delta[row].tolist() if row >= 0 else []
  seconds = delta[other].tolist() if other >= 0 else [core.DEAD] * len(firsts)
  size = len(delta) + 1
  legal = [(a, b) for a, b in zip(firsts, seconds, strict=False) if a >= 0]
  ahead = [(a + 1) * size + b + 1 for a, b in legal if b >= 0]
  return len(legal) - len(ahead), ahead
