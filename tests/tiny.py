"""A world small enough to work out by hand.

Four nodes, moves x and y, and `end`, legal at node 3 only:

      x        x
  0 ----> 1 ----> 3     0 -y-> 2,  2 -x-> 0,  2 -y-> 3,  3 -x-> 0
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from wm import core
from wm.core import basics

VOCAB = ('<pad>', 'end', 'x', 'y', 'at0', 'at1', 'at2', 'at3')
END, X, Y, AT = 1, 2, 3, 4
START, OVER = -2, -3
DELTA = np.array([[1, 2], [3, -1], [0, 3], [0, -1]], np.int32)
STEPS_TO_GOAL = np.array([2, 1, 1, 0])


@dataclasses.dataclass(frozen=True)
class Plain(core.World):
  """One word a state: the node, START, OVER or DEAD.

  A sequence is an origin token `at<node>`, moves and, where `ending`, `end`.
  Without `ending` there is no end token and sequences stop at 8 tokens. With
  `placed=False` there is no origin token and all start at node 0.
  """

  version: ClassVar[str] = '1'

  ending: bool = True
  placed: bool = True

  @property
  def vocab(self) -> tuple[str, ...]:
    return VOCAB

  @property
  def end(self) -> int:
    return END if self.ending else core.DEAD

  @property
  def max_len(self) -> int:
    return 12 if self.ending else 8

  @property
  def prompt_len(self) -> int:
    return 1 if self.placed else 0

  def init(self, batch: int) -> np.ndarray:
    return np.full((batch, 1), START if self.placed else 0, np.int32)

  def advance(self, states: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    node, out = states[:, 0], np.full(len(states), core.DEAD, np.int32)
    move = (node >= 0) & ((tokens == X) | (tokens == Y))
    out[move] = DELTA[node[move], tokens[move] - X]
    origin = (node == START) & (tokens >= AT) & (tokens < len(VOCAB))
    out[origin] = tokens[origin] - AT
    out[self.ending & (node == 3) & (tokens == END)] = OVER
    return out[:, None]

  def legal(self, states: np.ndarray) -> np.ndarray:
    node = states[:, 0]
    legal = np.zeros((len(states), len(VOCAB)), bool)
    legal[:, AT:] = (node == START)[:, None]
    legal[:, X : Y + 1] = (DELTA[node] != core.DEAD) & (node >= 0)[:, None]
    legal[:, END] = self.ending & (node == 3)
    return legal

  def state_id(self, states: np.ndarray) -> np.ndarray:
    return states[:, 0].astype(np.int64)

  def sample(self, num: int, seed: int, split: str = 'all') -> core.Sequences:
    rng = np.random.default_rng([seed, 5])
    rows = []
    while len(rows) < num:
      row = self._one(rng)
      held = int(basics.hash64(*row)) % 4 == 0
      if split == 'all' or held == (split == 'heldout'):
        rows.append(row)
    tokens = np.zeros((num, self.max_len), np.int32)
    for n, row in enumerate(rows):
      tokens[n, : len(row)] = row
    return core.Sequences(
      tokens, np.array([len(row) for row in rows], np.int32)
    )

  def _one(self, rng: np.random.Generator) -> list[int]:
    row = [AT + int(rng.integers(4))] if self.placed else []
    state = self.init(1)
    for token in row:
      state = self.advance(state, np.array([token]))
    if not self.ending:
      return row + self._walk(rng, state, self.max_len - len(row))
    row += self._walk(rng, state, int(rng.integers(1, 7)))
    state = self.walk(self.init(1), np.array([row]), np.array([len(row)]))[1]
    while state[0, 0] != 3:  # Straight to the goal.
      row.append(Y if state[0, 0] == 2 else X)
      state = self.advance(state, np.array(row[-1:]))
    return [*row, END]

  def _walk(
    self, rng: np.random.Generator, state: np.ndarray, steps: int
  ) -> list[int]:
    row = []
    for _ in range(steps):
      moves = np.flatnonzero(DELTA[state[0, 0]] != core.DEAD) + X
      row.append(int(rng.choice(moves)))
      state = self.advance(state, np.array(row[-1:]))
    return row


@dataclasses.dataclass(frozen=True)
class World(
  Plain,
  core.Prefixed,
  core.Labelled,
  core.Written,
  core.Enumerable,
  core.Described,
  words={'even': 'nodes with an even number'},
):
  """The same with all that metrics ask for."""

  version: ClassVar[str] = '1'

  @property
  def heads(self) -> core.Heads:
    return core.Heads((5,))  # The nodes, and over.

  def labels(self, states: np.ndarray) -> np.ndarray:
    node = np.where(states == OVER, 4, np.maximum(states, 0))
    return node.astype(self.heads.dtype)

  def sample_states(self, num: int, seed: int) -> np.ndarray:
    return np.random.default_rng([seed, 6]).integers(0, 4, (num, 1), np.int32)

  def prefix_moves(self, states: np.ndarray) -> np.ndarray:
    return np.tile(np.array([1, 5], np.int32), (len(states), 1))

  def sample_prefixes(
    self, states: np.ndarray, moves: np.ndarray, seeds: np.ndarray
  ) -> core.Prefixes:
    longest = int(moves.max(initial=0)) + 1
    tokens = np.zeros((len(states), longest), np.int32)
    for t, (state, num, seed) in enumerate(
      zip(states[:, 0], moves, seeds, strict=True)
    ):
      rng = np.random.default_rng(int(seed) & 0x7FFFFFFF)
      node = int(state)
      for k in range(int(num), 0, -1):
        sources, labels = np.nonzero(node == DELTA)
        pick = int(rng.integers(len(sources)))
        tokens[t, k], node = labels[pick] + X, int(sources[pick])
      tokens[t, 0] = AT + node
    ok = np.full(len(states), self.placed)
    return core.Prefixes(tokens, np.asarray(moves, np.int32) + 1, ok)

  def parse(self, text: str) -> np.ndarray:
    if text not in ('0', '1', '2', '3'):
      raise core.InputError(f'{text!r} is no node; available: 0, 1, 2, 3')
    return np.array([[int(text)]], np.int32)

  def format(self, state: np.ndarray) -> str:
    return str(int(state[0]))

  def boundary(
    self, first: np.ndarray, second: np.ndarray, depth: int
  ) -> core.Boundary:
    return core.boundary.stacked(
      [
        [np.array([suffix]) for suffix in self._boundary(a, b, depth)]
        for a, b in zip(first, second, strict=True)
      ]
    )

  def _boundary(
    self, first: np.ndarray, second: np.ndarray, depth: int
  ) -> list[tuple[int, ...]]:
    result, layer = [], [((), first[None], second[None])]
    for _ in range(depth):
      following = []
      for suffix, a, b in layer:
        for token in np.flatnonzero(self.legal(a)[0]):
          longer = (*suffix, int(token))
          if not self.legal(b)[0, token]:
            result.append(longer)
            continue
          step = np.array([token])
          following.append(
            (longer, self.advance(a, step), self.advance(b, step))
          )
      layer = following
    return result

  def distance_to_end(
    self, states: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray]:
    legal = self.legal(states)
    tokens = np.where(legal, np.arange(len(VOCAB)), core.DEAD)
    needed = np.ones(tokens.shape, np.int64)
    if self.ending:
      for token in (X, Y):
        after = self.advance(states, np.full(len(states), token))[:, 0]
        # This move, the moves to the goal, and `end`.
        needed[:, token] = STEPS_TO_GOAL[after] + 2
      needed[:, AT:] = STEPS_TO_GOAL + 2
    return tokens.astype(np.int32), needed

  def costs(self, sequences: core.Sequences) -> core.Costs:
    moves = (sequences.tokens == X) | (sequences.tokens == Y)
    least = np.full(len(sequences), np.nan)
    if self.placed and self.ending:
      least = STEPS_TO_GOAL[sequences.tokens[:, 0] - AT].astype(np.float64)
    return core.Costs(moves.sum(-1)[None].astype(np.float64), least[None])

  def tags(self, states: np.ndarray) -> dict[str, np.ndarray]:
    return {'even': states[:, 0] % 2 == 0}
