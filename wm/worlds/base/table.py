"""What finite worlds share: everything that follows from a transition table.

`TableWorld` is for worlds whose states are rows of one table; `product` lists
the boundary of two states of any world by breadth-first product construction.
"""

from __future__ import annotations

import abc
import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from wm import core
from wm.kernels import dfa

# One key in HELDOUT is kept for the held-out split (on a map: one pair of
# origin and destination), whatever the seed of sampling.
HELDOUT, SALT = 20, 0x5EED


def product(
  world: core.World, first: np.ndarray, second: np.ndarray, depth: int
) -> core.Boundary:
  """Boundary of one pair of states [W] of any world (Vafa et al., Def. 2.4).

  Pairs of states are kept while a token is legal at both; shorter suffixes
  first, then in order of tokens. Work grows with the interior to that depth.
  """
  found: list[np.ndarray] = []
  if world.state_id(first[None])[0] == world.state_id(second[None])[0]:
    depth = 0
  firsts, seconds = first[None], second[None]
  paths = np.zeros((1, 0), np.int32)
  for _ in range(depth):
    one, two = world.legal(firsts), world.legal(seconds)
    rows, tokens = np.nonzero(one & ~two)
    found.append(np.column_stack([paths[rows], tokens]))
    rows, tokens = np.nonzero(one & two)
    if not rows.size:
      break
    firsts = world.advance(firsts[rows], tokens)
    seconds = world.advance(seconds[rows], tokens)
    paths = np.column_stack([paths[rows], tokens])
    apart = world.state_id(firsts) != world.state_id(seconds)
    firsts, seconds, paths = firsts[apart], seconds[apart], paths[apart]
  return core.stacked([found])


def products(
  world: core.World, first: np.ndarray, second: np.ndarray, depth: int
) -> core.Boundary:
  """`product` of each of the pairs of states [T, W]."""
  pairs = zip(first, second, strict=True)
  return core.joined([product(world, a, b, depth) for a, b in pairs])


def in_split(key: np.ndarray, split: str) -> np.ndarray:
  """[N] bool: do sequences with these keys belong to a split?"""
  if split not in ('all', 'train', 'heldout'):
    raise core.InputError(
      f'unknown split {split!r}; available: all, train, heldout'
    )
  if split == 'all':
    return np.ones(len(key), bool)
  held = core.hash64(key, SALT) % np.uint64(HELDOUT) == 0
  return held == (split == 'heldout')


def drawn(legal: np.ndarray, uniform: np.ndarray) -> np.ndarray:
  """[B] tokens uniform over the legal [B, V]; DEAD where there is none."""
  count = legal.sum(-1)
  place = np.minimum((uniform * count).astype(np.int64), count - 1)
  token = (np.cumsum(legal, axis=-1) > place[:, None]).argmax(-1)
  return np.where(count > 0, token, core.DEAD)


def stream(
  world: core.World,
  num: int,
  seed: int,
  split: str,
  length: int,
  play: Callable[[np.ndarray], np.ndarray] | None = None,
) -> core.Sequences:
  """The first `num` of a split from an endless list of random sequences.

  Sequence n depends on (seed, n) alone; those of another split are left out.

  play: numbers [N] -> tokens [N, length] of these sequences; default random
    play: each token uniform over the legal ones, to `length` or over.
  """
  play = play or functools.partial(_play, world, seed, length)
  kept = [np.zeros((0, length), np.int32)]
  have, first, chunk = 0, 0, max(num, 64)
  limit = 2**16 + 400 * num
  while have < num and first < limit:
    tokens = play(np.arange(first, first + chunk))
    first += chunk
    lengths = (tokens != core.PAD).sum(-1)
    key = world.key(core.Sequences(tokens, lengths))
    kept.append(tokens[in_split(key, split)])
    have += len(kept[-1])
    chunk = min(max(2 * (num - have), 64), 2**14)
  tokens = np.concatenate(kept)[:num]
  return core.Sequences(tokens, (tokens != 0).sum(-1).astype(np.int32))


def _play(
  world: core.World, seed: int, length: int, numbers: np.ndarray
) -> np.ndarray:
  tokens = np.zeros((len(numbers), length), np.int32)
  states = world.init(len(numbers))
  for k in range(length):
    token = drawn(world.legal(states), core.uniforms(seed, numbers, k))
    going = token != core.DEAD
    if not going.any():
      break
    tokens[going, k] = token[going]
    after = world.advance(states, np.maximum(token, 0))
    states = np.where(going[:, None], after, states)
  return tokens


class TableWorld(core.TracedWorld):
  """A world whose state is one word, a row of `delta`; label a is token a + 1.

  Sequences start in row 0, have no end token and run to `max_len` tokens.
  Subclasses are frozen dataclasses that give `delta`, `vocab`, `max_len`.
  """

  @property
  @abc.abstractmethod
  def delta(self) -> np.ndarray:
    """[S, A] int32 next rows, DEAD where illegal."""

  @functools.cached_property
  def checked(self) -> np.ndarray:
    """`delta` as [S, A] int32.

    Raises:
      InputError: it is no such table, or does not fit the vocabulary.
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
  def labels(self) -> int:
    """A."""
    return self.checked.shape[1]

  def automaton(self) -> core.Automaton:
    """The table; it has no goals."""
    tokens = np.arange(1, self.labels + 1, dtype=np.int32)
    return core.Automaton(self.checked, tokens)

  def rows_goals(self, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows and goals [B] of the automaton."""
    return states[:, 0], np.full(len(states), dfa.NONE)

  def traced(self, states: np.ndarray) -> tuple[core.Rules, Any]:
    """See core.TracedWorld; any state will do."""
    from wm.kernels.dfa import vmap  # Deferred: it imports JAX.

    table = self.automaton()
    return vmap.rules(table.delta, table.tokens), vmap.positions(
      *self.rows_goals(states)
    )

  def init(self, batch: int) -> np.ndarray:
    """Row 0."""
    return np.zeros((batch, 1), np.int32)

  def advance(self, states: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """States [B, 1] after tokens [B]."""
    labels = np.asarray(tokens) - 1
    return dfa.advance(self.checked, states[:, 0], labels)[:, None]

  def legal(self, states: np.ndarray) -> np.ndarray:
    """[B, V] bool."""
    legal = np.zeros((len(states), self.labels + 1), bool)
    legal[:, 1:] = dfa.legal(self.checked, *self.rows_goals(states))[:, :-1]
    return legal

  def state_id(self, states: np.ndarray) -> np.ndarray:
    """[B] int64, the row."""
    return states[:, 0].astype(np.int64)

  @property
  def state_heads(self) -> tuple[int, ...]:
    """The row."""
    return (len(self.checked),)

  def state_labels(self, states: np.ndarray) -> np.ndarray:
    """[B, 1], the row."""
    return np.maximum(states, 0).astype(self.state_dtype)

  def sample(self, num: int, seed: int, split: str = 'all') -> core.Sequences:
    """Random play of `max_len` tokens."""
    return stream(self, num, seed, split, self.max_len)

  def sample_states(self, num: int, seed: int) -> np.ndarray:
    """Uniform over the states that some prefix reaches."""
    rows = np.flatnonzero(self._arrivals[1:].any(0))
    pick = core.hash64(seed, np.arange(num)) % np.uint64(len(rows))
    return rows[pick.astype(np.int64)].astype(np.int32)[:, None]

  @functools.cached_property
  def _ways(self) -> np.ndarray:
    """[max_len, S]: prefixes of k moves to each row, each k scaled by its max.

    Prefixes leave room for one more token. Ratios within a k are all that
    backward sampling needs, and scaling keeps them finite.
    """
    ways = np.zeros((self.max_len, len(self.checked)))
    ways[0, 0] = 1.0
    sources, labels = np.nonzero(self.checked >= 0)
    heads = self.checked[sources, labels]
    for k in range(1, self.max_len):
      np.add.at(ways[k], heads, ways[k - 1, sources])
      ways[k] /= max(ways[k].max(), 1e-300)
    return ways

  @functools.cached_property
  def _arrivals(self) -> np.ndarray:
    """[max_len, S] bool: is a row reached by some prefix of k moves?"""
    return self._ways > 0

  def prefix_moves(self, states: np.ndarray) -> np.ndarray:
    """[T, 2] int32; between them there may be numbers without a prefix."""
    some = self._arrivals[1:, states[:, 0]]
    least = some.argmax(0) + 1
    most = len(some) - some[::-1].argmax(0)
    most = np.where((states[:, 0] >= 0) & some.any(0), most, 0)
    return np.stack([least, most], axis=-1).astype(np.int32)

  def sample_prefixes(
    self, states: np.ndarray, moves: np.ndarray, seeds: np.ndarray
  ) -> core.Prefixes:
    """Uniform over all prefixes of moves[t] tokens that end in states[t]."""
    rows, moves = states[:, 0].copy(), np.asarray(moves)
    ok = (rows >= 0) & (moves >= 1) & (moves < self.max_len)
    ok[ok] = self._ways[moves[ok], rows[ok]] > 0
    tokens = np.zeros((len(rows), int(moves.max(initial=0))), np.int32)
    edges = dfa.predecessors(self.checked)
    for t in np.flatnonzero(ok):
      row = rows[t]
      draws = core.uniforms(seeds[t], np.arange(moves[t]))
      for k in range(moves[t], 0, -1):
        into = slice(edges.indptr[row], edges.indptr[row + 1])
        mass = np.cumsum(self._ways[k - 1, edges.sources[into]])
        pick = np.searchsorted(mass, draws[k - 1] * mass[-1], side='right')
        pick = min(pick, np.flatnonzero(np.diff(mass, prepend=0.0))[-1])
        tokens[t, k - 1] = edges.labels[into][pick] + 1
        row = edges.sources[into][pick]
    return core.Prefixes(tokens, np.where(ok, moves, 0).astype(np.int32), ok)

  def boundary(
    self, first: np.ndarray, second: np.ndarray, depth: int
  ) -> core.Boundary:
    """Exact boundaries of pairs of states."""
    none = np.full(len(first), dfa.NONE)
    found = dfa.boundary(
      self.checked, first[:, 0], second[:, 0], none, none, depth
    )
    return suffixes(found, self.automaton().tokens)

  def boundary_sizes(
    self, first: np.ndarray, second: np.ndarray, depth: int
  ) -> list[int]:
    """Boundary sizes of a pair [W], to each length bound 1..depth, exact."""
    return pair_sizes(self, first, second, depth)[0]

  def interior_sizes(
    self, first: np.ndarray, second: np.ndarray, depth: int
  ) -> list[int]:
    """Suffixes legal from both states [W], to each bound 1..depth, exact."""
    return pair_sizes(self, first, second, depth)[1]

  def count(self, state: np.ndarray, depth: int) -> list[int]:
    """Legal token sequences of lengths 1..depth, exact."""
    return dfa.count(self.checked, int(state[0]), dfa.NONE, depth)

  def parse_state(self, text: str) -> np.ndarray:
    """The row as a number, or 'dead'."""
    if text.strip() == 'dead':
      return np.array([[core.DEAD]], np.int32)
    size = len(self.checked)
    if not text.strip().isdecimal() or int(text) >= size:
      raise core.InputError(
        f'{text!r} is no state of {self.name}; expected 0..{size - 1}'
      )
    return np.array([[int(text)]], np.int32)

  def format_state(self, state: np.ndarray) -> str:
    """As `parse_state` reads it."""
    return 'dead' if state[0] < 0 else str(int(state[0]))


def cumulated(sizes: list[int]) -> list[int]:
  """Running sums of integers of any size."""
  return list(itertools.accumulate(sizes))


def pair_sizes(
  world: core.World, first: np.ndarray, second: np.ndarray, depth: int
) -> tuple[list[int], list[int]]:
  """Cumulative sizes of boundary and interior of one pair [W], any size.

  For worlds with a table; pairs of rows are counted, not suffixes, in Python
  integers (Vafa et al. 2024, Defs. 2.3 and 2.4).
  """
  delta = world.automaton().delta
  rows, goals = world.rows_goals(np.stack([first, second]))
  goal1, goal2 = goals.tolist()
  level = {tuple(rows.tolist()): 1}
  outer, inner = [], []
  for _ in range(depth):
    outer.append(0)
    inner.append(0)
    deeper: dict[tuple[int, int], int] = {}
    for (one, two), ways in level.items():
      if one >= 0 and one == goal1:  # The end token.
        sizes = inner if two >= 0 and two == goal2 else outer
        sizes[-1] += ways
      for pair in _heads(delta, one, two):
        sizes = outer if pair[1] < 0 else inner
        sizes[-1] += ways
        if pair[1] >= 0:
          deeper[pair] = deeper.get(pair, 0) + ways
    level = deeper
  return cumulated(outer), cumulated(inner)


def _heads(delta: np.ndarray, one: int, two: int) -> list[tuple[int, int]]:
  """Pairs of next rows by labels legal at `one`; DEAD where not at `two`."""
  if one < 0:
    return []
  firsts = delta[one].tolist()
  seconds = delta[two].tolist() if two >= 0 else [core.DEAD] * len(firsts)
  return [pair for pair in zip(firsts, seconds, strict=True) if pair[0] >= 0]


def suffixes(
  found: dfa.Suffixes, tokens: np.ndarray, end: int = core.DEAD
) -> core.Boundary:
  """A kernel's suffixes as tokens.

  tokens: [A] token of each label; `end` is the token of the end label.
  """
  table = np.array([*tokens, end, core.PAD], np.int32)  # DEAD is the last.
  lengths = found.lengths.astype(np.int32)
  return core.Boundary(found.offsets, table[found.labels], lengths)
