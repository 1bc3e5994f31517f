"""Going to a destination on a street graph: states, rules, exact answers.

The state is (current intersection, destination). A direction is legal where
an edge has it, `end` exactly where current == destination; going on through
the destination is legal too (Vafa et al. 2024, section 3, appendix B).

State words: current is a row of the graph, DEAD, START (no token yet) or
OVER (after `end`); destination is a row or UNSTATED.
"""

from __future__ import annotations

import abc
import functools
from typing import Any

import numpy as np

from wm import core
from wm.kernels import dfa
from wm.worlds.base import table
from wm.worlds.maps import routes, streets

START, OVER, UNSTATED = -2, -3, -2

END = 1
DIRECTION0, NODE0 = 2, 10  # First token id of directions and of nodes.

MOST_NODES = 60_000  # All hop distances of as many take about 4 GB.


class Journeys(core.TracedWorld):
  """The automaton of routes on `graph`."""

  @property
  @abc.abstractmethod
  def graph(self) -> streets.StreetGraph:
    """The street graph."""

  @property
  @abc.abstractmethod
  def moves(self) -> int:
    """Most directions in a sequence."""

  @property
  def max_len(self) -> int:
    """Origin, destination, directions and `end`."""
    return self.moves + 3

  @functools.cached_property
  def vocab(self) -> tuple[str, ...]:
    """'<pad>', 'end', the eight directions, then node ids in file order."""
    nodes = tuple(map(str, self.graph.ids.tolist()))
    return ('<pad>', 'end', *streets.DIRECTIONS, *nodes)

  @property
  def end(self) -> int:
    """Id of 'end'."""
    return END

  def prompt_len(self) -> int:
    """Origin and destination."""
    return 2

  # The automaton.

  @functools.cached_property
  def hops(self) -> np.ndarray:
    """[S, S] unit distances, from row to column; its type's maximum is none."""
    num = len(self.graph.delta)
    if num > MOST_NODES:
      raise core.InputError(
        f'{num} intersections: all hop distances would take {num**2 / 1e9:.0f} '
        f'GB; up to {MOST_NODES:,} can be measured'
      )
    return routes.hops(self.graph.delta)

  def automaton(self) -> core.Automaton:
    """Table over intersections; destinations are goals."""
    return core.Automaton(
      self.graph.delta, np.arange(DIRECTION0, NODE0, dtype=np.int32)
    )

  def rows_goals(self, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows and goals [B] of the automaton; DEAD row where on no street."""
    placed = (states >= 0).all(-1)
    rows = np.where(placed, states[:, 0], core.DEAD)
    return rows, np.where(placed, states[:, 1], UNSTATED)

  def traced(self, states: np.ndarray) -> tuple[core.Rules, Any]:
    """See core.TracedWorld: origin and destination are stated."""
    from wm.kernels.dfa import vmap  # Deferred: it imports JAX.

    if self._asks(states).any():
      raise core.InputError(
        'a state without origin or destination was given; expected both, to '
        'go on from there on the device'
      )
    table = self.automaton()
    rules = vmap.rules(table.delta, table.tokens, END)
    return rules, vmap.positions(*self.rows_goals(states))

  def init(self, batch: int) -> np.ndarray:
    """START, UNSTATED."""
    return np.full((batch, 2), (START, UNSTATED), np.int32)

  def advance(self, states: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """States [B, 2] after tokens [B]."""
    current, goal = states.T
    after = np.full(states.shape, core.DEAD, np.int32)
    node = np.asarray(tokens) - NODE0
    named = (node >= 0) & (node < len(self.graph))
    origin = named & (current == START)
    after[origin, 0] = node[origin]
    after[origin, 1] = UNSTATED
    stated = named & (current >= 0) & (goal == UNSTATED)
    after[stated, 0] = current[stated]
    after[stated, 1] = node[stated]
    placed = (current >= 0) & (goal >= 0)
    move = placed & (tokens >= DIRECTION0) & (tokens < NODE0)
    after[move, 0] = self.graph.delta[current[move], tokens[move] - DIRECTION0]
    after[move, 1] = np.where(after[move, 0] < 0, core.DEAD, goal[move])
    after[placed & (current == goal) & (tokens == END)] = (OVER, UNSTATED)
    return after

  def legal(self, states: np.ndarray) -> np.ndarray:
    """[B, V] bool."""
    current, goal = states.T
    legal = np.zeros((len(states), NODE0 + len(self.graph)), bool)
    asks = (current == START) | ((current >= 0) & (goal == UNSTATED))
    legal[asks, NODE0:] = True
    rows, goals = self.rows_goals(states)
    here = rows >= 0
    legal[here, DIRECTION0:NODE0] = self.graph.delta[rows[here]] >= 0
    legal[:, END] = here & (rows == goals)
    return legal

  def options(self, states: np.ndarray) -> np.ndarray:
    """[B, 9] int32 `end` and directions; [B, S] where a node may be stated."""
    rows, goals = self.rows_goals(states)
    asks = self._asks(states)
    nodes = NODE0 + np.arange(len(self.graph) * asks.any())
    width = max(len(nodes), NODE0 - 1)
    found = np.full((len(states), width), core.DEAD, np.int32)
    found[(rows >= 0) & (rows == goals), 0] = END
    tokens = np.arange(DIRECTION0, NODE0)
    moves = (rows[:, None] >= 0) & (self.graph.delta[rows] >= 0)
    found[:, 1 : NODE0 - 1] = np.where(moves, tokens, core.DEAD)
    found[asks, : len(nodes)] = nodes
    return found

  def soonest(self, states: np.ndarray, options: np.ndarray) -> np.ndarray:
    """[B, K] bool; see core.World."""
    rows, goals = self.rows_goals(states)
    never = np.iinfo(np.int64).max - 2
    none = np.iinfo(self.hops.dtype).max
    # Tokens to `end`, this one included: of any way on, an origin, or `end`.
    need = np.full(options.shape, 3, np.int64)
    here, asks = rows >= 0, states[:, 1] == UNSTATED
    asks &= states[:, 0] >= 0
    heads = self.graph.delta[rows[here]]
    hops = self.hops[heads, goals[here, None]].astype(np.int64)
    need[here, 1 : NODE0 - 1] = np.where(hops == none, never, hops) + 2
    need[here, 0] = 1
    if asks.any():
      hops = self.hops[states[asks, 0]].astype(np.int64)
      need[asks, : len(self.graph)] = np.where(hops == none, never, hops) + 2
    need[options == core.DEAD] = never
    least = need.min(1, initial=never, keepdims=True)
    return need <= np.minimum(least, self.max_len)

  def state_id(self, states: np.ndarray) -> np.ndarray:
    """[B] int64."""
    current, goal = states.T.astype(np.int64)
    ids = (current + 3) * (len(self.graph) + 2) + goal + 2
    return np.where(current == core.DEAD, core.DEAD, ids)

  def complete(self, states: np.ndarray) -> np.ndarray:
    """After `end` only: a street without exit completes nothing."""
    return states[:, 0] == OVER

  def walk(
    self, states: np.ndarray, tokens: np.ndarray, lengths: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray]:
    """As `core.World.walk`, compiled."""
    states, lengths = np.array(states), np.asarray(lengths)
    steps = np.zeros(len(states), np.int32)
    tokens = np.asarray(tokens)
    alive = np.ones(len(states), bool)
    for _ in range(2):  # Origin and destination, where they are to come.
      asks = ((states[:, 0] == START) | (states[:, 1] == UNSTATED)) & alive
      rows = np.flatnonzero(asks & (steps < lengths) & (states[:, 0] != OVER))
      if rows.size:
        after = self.advance(states[rows], tokens[rows, steps[rows]])
        ok = after[:, 0] != core.DEAD
        states[rows[ok]] = after[ok]
        steps[rows[ok]] += 1
        alive[rows[~ok]] = False
    rows, goals = self.rows_goals(states)
    rows = np.where(alive, rows, core.DEAD)
    labels = self._labels(tokens, steps)
    more, rows, over = dfa.walk(
      self.graph.delta, rows, goals, labels, lengths - steps
    )
    states[rows >= 0, 0] = rows[rows >= 0]
    states[over] = (OVER, UNSTATED)
    return steps + more, states

  def _labels(self, tokens: np.ndarray, skip: np.ndarray) -> np.ndarray:
    """Labels [B, K] int8 of tokens after the first `skip` [B] of each row."""
    labels = np.full(tokens.shape, core.DEAD, np.int8)
    move = (tokens >= DIRECTION0) & (tokens < NODE0)
    labels[move] = tokens[move] - DIRECTION0
    labels[tokens == END] = len(streets.DIRECTIONS)
    if skip.any():
      columns = np.arange(tokens.shape[1]) + skip[:, None]
      columns = np.minimum(columns, tokens.shape[1] - 1)
      labels = np.take_along_axis(labels, columns, axis=1)
    return labels

  def completable(self, states: np.ndarray, budget: np.ndarray) -> np.ndarray:
    """Directions, or a destination, from which it is not too far to `end`."""
    legal, left = self.legal(states), np.asarray(budget)[:, None]
    rows, goals = self.rows_goals(states)
    here = np.flatnonzero(rows >= 0)
    heads = self.graph.delta[rows[here]]
    hops = self.hops[heads, goals[here, None]].astype(np.int64)
    none = np.iinfo(self.hops.dtype).max
    fits = (hops < none) & (hops + 2 <= left[here])
    legal[here, DIRECTION0:NODE0] &= fits
    asks = np.flatnonzero((states[:, 0] >= 0) & (states[:, 1] == UNSTATED))
    hops = self.hops[states[asks, 0]].astype(np.int64)
    legal[asks, NODE0:] &= (hops < none) & (hops + 2 <= left[asks])
    legal[:, END] &= left[:, 0] >= 1
    legal[states[:, 0] == START] &= left[states[:, 0] == START] >= 3
    return legal

  # Exact answers.

  def boundary(
    self, first: np.ndarray, second: np.ndarray, depth: int
  ) -> core.Boundary:
    """Exact boundaries of pairs, destinations included through `end`."""
    asks = self._asks(first) | self._asks(second)
    if asks.any():
      parts = [
        table.product(self, first[t], second[t], depth)
        if asks[t]
        else self.boundary(first[t : t + 1], second[t : t + 1], depth)
        for t in range(len(first))
      ]
      return core.joined(parts)
    rows1, goals1 = self.rows_goals(first)
    rows2, goals2 = self.rows_goals(second)
    pairs = (rows1, rows2, goals1, goals2)
    found = dfa.boundary(self.graph.delta, *pairs, depth, end_first=True)
    return table.suffixes(found, self.automaton().tokens, END)

  @staticmethod
  def _asks(states: np.ndarray) -> np.ndarray:
    """[B] bool: origin or destination is still to be stated."""
    current, goal = states.T
    return (current == START) | ((current >= 0) & (goal == UNSTATED))

  def boundary_sizes(
    self, first: np.ndarray, second: np.ndarray, depth: int
  ) -> list[int]:
    """Cumulative boundary sizes of one pair [W] to each bound 1..depth."""
    if self._asks(np.stack([first, second])).any():
      return super().boundary_sizes(first, second, depth)
    return table.pair_sizes(self, first, second, depth)[0]

  def interior_sizes(
    self, first: np.ndarray, second: np.ndarray, depth: int
  ) -> list[int]:
    """Suffixes legal from both states [W], to each bound 1..depth, exact."""
    if self._asks(np.stack([first, second])).any():
      return super().interior_sizes(first, second, depth)
    return table.pair_sizes(self, first, second, depth)[1]

  def count(self, state: np.ndarray, depth: int) -> list[int]:
    """Legal token sequences of lengths 1..depth, exact.

    A destination may be any intersection; over all of them, `end` is legal
    once after every walk.
    """
    row, goal = (int(words[0]) for words in self.rows_goals(state[None]))
    if row >= 0:
      return dfa.count(self.graph.delta, row, goal, depth)
    if not self._asks(state[None])[0]:
      return [0] * depth
    size, start = len(self.graph), int(state[0]) == START
    walks = np.full(size, 1, object)  # From each row, a length at a time.
    sums = []
    for _ in range(depth):
      sums.append(int(walks.sum() if start else walks[state[0]]))
      heads = np.append(walks, 0)[self.graph.delta]
      walks = heads.sum(axis=1)
    stated = [size * a + b for a, b in zip(sums, [0, *sums], strict=False)]
    return ([size, *stated] if start else stated)[:depth]
