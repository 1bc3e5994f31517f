"""Routes to a destination on a street graph: states, rules, exact answers.

The state is (current intersection, destination). A direction is legal if an
edge has this direction; `end` is legal exactly if current == destination.
Passing through the destination is legal too (Vafa et al. 2024, section 3,
appendix B).

State words: current is a row of the graph, DEAD, START (no token yet) or
OVER (after `end`); destination is a row or UNSTATED.

`render` draws the streets around the current intersection; streets that leave
the intersection are bold and labelled by direction. A triangle marks a one-way
street. The destination has a ring; if it is outside the picture, an arrow at
the edge points to it.
"""

from __future__ import annotations

import abc
import functools
import math
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NamedTuple

import numpy as np

from wm import core
from wm.core import basics
from wm.core.capabilities import Box
from wm.kernels import dfa
from wm.kernels.maps import paths
from wm.worlds.base import sampling, svg, table
from wm.worlds.maps import streets

# The published limit of `Navigation.prefix_limit`, for every traversal.
PREFIX_MOVES = 96

ATTEMPTS = 64  # Tries of a backward walk that ends at a node without entry.


START, OVER, UNSTATED = -2, -3, -2

END = 1
DIRECTION0, NODE0 = 2, 10  # First token id of directions and of nodes.

NEVER = np.iinfo(np.int64).max  # Number of tokens to an unreachable end.

# Up to so many nodes all hop distances are computed at once, in about 4 GB; of
# larger maps those of the places that are asked for, SEARCHES_BYTES of them.
TABLED, SEARCHES_BYTES = 60_000, 1 << 30
TRIES = 1 << 12  # Pairs of a large map that are tried at a time.


class Navigation(
  table.Tabled,
  core.Prefixed,
  core.Labelled,
  core.Written,
  core.Described,
  words={'two_way': 'two-way streets at the current intersection'},
):
  """A world of routes on `graph`; subclasses define their distribution."""

  move: ClassVar[str] = 'street'

  @property
  def prefix_limit(self) -> int:
    """Limit of the directions of a prefix plus the shortest path after it."""
    return self.moves

  # Trials.

  @functools.cached_property
  def _pairs_from(self) -> np.ndarray:
    """[S + 1] int64: cumulative number of (current, destination) states."""
    usable = self._usable(self.hops).sum(1)
    return np.concatenate([[0], np.cumsum(usable, dtype=np.int64)])

  def _usable(self, hops: np.ndarray) -> np.ndarray:
    """Mask of distances that trials use, below `prefix_limit`."""
    none = np.iinfo(hops.dtype).max
    return (hops >= 1) & (hops < self.prefix_limit) & (hops < none)

  def sample_states(self, num: int, seed: int) -> np.ndarray:
    """(current, destination), uniform over distinct nodes less than
    `prefix_limit` hops apart."""
    if len(self.graph) > TABLED:
      return self._sampled_pairs(num, seed)
    before = self._pairs_from
    pick = sampling.picks(seed, num, before[-1])
    rows = np.searchsorted(before, pick, side='right') - 1
    states = np.empty((num, 2), np.int32)
    for n, row in enumerate(rows):
      columns = np.flatnonzero(self._usable(self.hops[row]))
      states[n] = row, columns[pick[n] - before[row]]
    return states

  def _sampled_pairs(self, num: int, seed: int) -> np.ndarray:
    """`sample_states` of a large map.

    A node and a number below the count of all nodes are drawn, until the number
    is one of a node in reach: all pairs are equally likely, and the search does
    not go beyond `prefix_limit`.
    """
    size, states = len(self.graph), np.empty((num, 2), np.int32)
    left, attempt = np.arange(num), 0
    while left.size:
      if attempt >= 1000 * ATTEMPTS:
        raise core.InputError(
          f'no two of {size:,} intersections less than {self.prefix_limit} '
          'directions apart were drawn; expected a map with more streets'
        )
      # Several attempts in one call; the first one in reach counts.
      tries = attempt + np.arange(max(min(TRIES // left.size, ATTEMPTS), 1))
      drawn = basics.hash64(
        seed, left[:, None, None], tries[:, None], np.arange(2)
      )
      rows, picks = (drawn % np.uint64(size)).astype(np.int64).reshape(-1, 2).T
      reached = self._reach.picked(rows, picks, self.prefix_limit - 1)
      reached = reached.reshape(len(left), -1)
      first = np.argmax(reached >= 0, 1)
      at = np.arange(len(left)), first
      states[left, 0] = rows.reshape(reached.shape)[at]
      states[left, 1] = reached[at]
      left, attempt = left[reached[at] < 0], attempt + len(tries)
    return states

  def num_states(self) -> int:
    """See core.Prefixed; of a large map, that of all pairs of nodes."""
    size = len(self.graph)
    return size * size if size > TABLED else int(self._pairs_from[-1])

  def prefix_moves(self, states: np.ndarray) -> np.ndarray:
    """1 .. `prefix_limit` minus the nodes on the shortest path (Vafa et al.
    2024, public code)."""
    rows, goals = self._placed(states)
    hops = self.hops_between(rows, goals)
    most = np.maximum(self.prefix_limit - 1 - hops, 0)
    return np.stack([np.ones_like(most), most], axis=-1).astype(np.int32)

  @functools.cached_property
  def _predecessors(self) -> dfa.Predecessors:
    return dfa.predecessors(self.graph.delta)

  def sample_prefixes(
    self, states: np.ndarray, moves: np.ndarray, seeds: np.ndarray
  ) -> core.Prefixes:
    """Walks back from the state, uniform over in-edges at each step.

    A walk that reaches an intersection without an entry is drawn again, up to
    ATTEMPTS times: prefixes are distributed as walks that never reach one.
    """
    rows, goals = self._placed(states)
    moves = np.asarray(moves, np.int32)
    width = int(moves.max(initial=0))
    labels = np.full((len(rows), width), core.DEAD, np.int8)
    origins = np.full(len(rows), core.DEAD, np.int32)
    for attempt in range(ATTEMPTS):
      left = np.flatnonzero((origins < 0) & (rows >= 0) & (moves >= 1))
      if not left.size:
        break
      walked, starts, _ = dfa.reverse_walk(
        self._predecessors,
        rows[left],
        moves[left],
        basics.hash64(np.asarray(seeds)[left], attempt),
      )
      origins[left] = starts
      labels[left, : walked.shape[1]] = walked
    ok = origins >= 0
    tokens = np.zeros((len(rows), width + 2), np.int32)
    tokens[ok, 0] = origins[ok] + NODE0
    tokens[ok, 1] = goals[ok] + NODE0
    moved = (labels >= 0) & ok[:, None]
    tokens[:, 2:][moved] = labels[moved] + DIRECTION0
    return core.Prefixes(tokens, np.where(ok, moves + 2, 0), ok)

  # Written states.

  def parse(self, text: str) -> np.ndarray:
    """'current,destination' by node id; 'origin,?', 'start', 'end', 'dead'."""
    words = {'start': (START, UNSTATED), 'end': (OVER, UNSTATED)}
    words['dead'] = (core.DEAD, core.DEAD)
    if text.strip() in words:
      return np.array([words[text.strip()]], np.int32)
    parts = [part.strip() for part in text.split(',')]
    if len(parts) != 2:
      raise core.InputError(
        f'{text!r} is no map state; expected current,destination'
      )
    goal = UNSTATED if parts[1] == '?' else self._row(parts[1])
    return np.array([(self._row(parts[0]), goal)], np.int32)

  def _row(self, text: str) -> int:
    index = self._index.get(text)
    if index is None:
      raise core.InputError(
        f'{text!r} is not among the {len(self.graph)} nodes; the first is '
        f'{self.vocab[NODE0]}'
      )
    return index

  @functools.cached_property
  def _index(self) -> dict[str, int]:
    return {token: row for row, token in enumerate(self.vocab[NODE0:])}

  def format(self, state: np.ndarray) -> str:
    """As `parse` reads it."""
    current, goal = map(int, state)
    if current < 0:
      return {START: 'start', OVER: 'end', core.DEAD: 'dead'}[current]
    ids = self.vocab[NODE0:]
    return f'{ids[current]},{ids[goal] if goal >= 0 else "?"}'

  def render(self, state: np.ndarray) -> str:
    """The streets around the current intersection.

    The current intersection is a red dot, the streets that leave it are blue.
    A green ring is the destination; an arrow points to one out of sight.
    """
    current, goal = map(int, state)
    if current == START and len(self.graph) <= WHOLE:
      return picture(self.graph, core.DEAD, goal, 'origin not stated yet')
    if current < 0:
      return svg.card([self.format(state)])
    ids = self.vocab[NODE0:]
    note = f'at {ids[current]}, destination '
    note += ids[goal] if goal >= 0 else 'not stated yet'
    if current == goal:
      note += ': there'
    return picture(self.graph, current, goal, note)

  def token_boxes(
    self, state: np.ndarray, tokens: Iterable[int]
  ) -> dict[int, list[Box]]:
    """See core.Written: intersections, or the target of a direction.

    `end` is the current intersection.
    """
    current, goal = map(int, state)
    if current in (OVER, core.DEAD) or (
      current == START and len(self.graph) > WHOLE
    ):
      return {}
    named = current == START or goal < 0  # Otherwise the next token is a step.
    view, rows = window(self.graph, current), {}
    for token in filter(None, tokens):
      if named and token >= NODE0:
        rows[token] = token - NODE0
      elif not named and token == END:
        rows[token] = current
      elif not named and token < NODE0:
        rows[token] = int(self.graph.delta[current, token - DIRECTION0])
    seen = {t: row for t, row in rows.items() if row >= 0 and view.seen[row]}
    # The map is 8 pixels from the picture's edge.
    return svg.around({t: view.points[row] + 8 for t, row in seen.items()})

  # Labels.

  @property
  def heads(self) -> core.Heads:
    """Current intersection and destination, each with one class for none.

    A probe reads the intersection.
    """
    groups = {'position': slice(0, 1), 'destination': slice(1, 2)}
    sizes = (len(self.graph) + 1,) * 2
    return core.Heads(sizes, groups, probe=groups['position'])

  def labels(self, states: np.ndarray) -> np.ndarray:
    """[B, 2] rows plus one; 0 before origin or destination, and after `end`."""
    return np.maximum(states + 1, 0).astype(self.heads.dtype)

  def edited(
    self, states: np.ndarray, label: np.ndarray, value: np.ndarray
  ) -> np.ndarray:
    """See core.Labelled: any intersection and any destination."""
    after = np.array(states)
    after[np.arange(len(states)), label] = value - 1
    valid = (states >= 0).all(-1) & (value >= 1) & (value <= len(self.graph))
    after[~valid] = core.DEAD
    return after

  def from_labels(self, labels: np.ndarray) -> np.ndarray:
    """See core.Labelled: states in which both labels are nodes."""
    states = labels.astype(np.int32) - 1
    valid = ((states >= 0) & (states < len(self.graph))).all(-1, keepdims=True)
    return np.where(valid, states, core.DEAD).astype(np.int32)

  def functions(self, states: np.ndarray) -> dict[str, np.ndarray]:
    """'hops': directions on the shortest path to the destination.

    0 before the destination is stated, and without a path.
    """
    rows, goals = self._placed(states)
    hops = self.hops_between(rows, goals)
    return {'hops': np.where(hops == NEVER, 0, hops)}

  @functools.cached_property
  def _two_way(self) -> np.ndarray:
    return np.append(self.graph.two_way(), 0)

  def tags(self, states: np.ndarray) -> dict[str, np.ndarray]:
    """The column of figure 7 (Vafa et al. 2024)."""
    rows, _ = self._placed(states)
    return {'two_way': self._two_way[rows]}

  def locations(self, states: np.ndarray) -> np.ndarray:
    """Names of the current intersections, whatever the destination."""
    rows, _ = self._placed(states)
    return np.array(['', *self.vocab[NODE0:]])[rows + 1]

  # The automaton.

  @property
  @abc.abstractmethod
  def graph(self) -> streets.StreetGraph:
    """The street graph."""

  @property
  @abc.abstractmethod
  def moves(self) -> int:
    """Limit of directions in a sequence."""

  @property
  def max_len(self) -> int:
    """Origin, destination, directions and `end`."""
    return self.moves + 3

  @functools.cached_property
  def vocab(self) -> tuple[str, ...]:
    """'<pad>', 'end', the eight directions, then nodes in file order."""
    return ('<pad>', 'end', *streets.DIRECTIONS, *self.graph.names)

  @property
  def end(self) -> int:
    """Id of 'end'."""
    return END

  @property
  def prompt_len(self) -> int:
    """Origin and destination."""
    return 2

  # The automaton.

  @functools.cached_property
  def hops(self) -> np.ndarray:
    """[S, S] hops from row to column; the maximum of the dtype: no path."""
    return paths.hops(self.graph.delta)

  @functools.cached_property
  def _reach(self) -> paths.Reach:
    """Searches for hops, of a large map."""
    return paths.Reach(self.graph.delta)

  @functools.cached_property
  def _searched(self) -> Callable[[int, bool], np.ndarray]:
    """Hops [S] int32 from all rows to a goal, or from a row; cached.

    DEAD without a path.
    """
    most = max(SEARCHES_BYTES // (4 * len(self.graph)), 1)
    return functools.lru_cache(most)(self._reach.hops)

  def hops_between(self, rows: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """Hops from rows to goals, int64, which broadcast; NEVER without a path."""
    rows, goals = np.broadcast_arrays(rows, goals)
    stated = (rows >= 0) & (goals >= 0)
    result = np.full(rows.shape, NEVER)
    if len(self.graph) <= TABLED:
      far = self.hops[rows[stated], goals[stated]]
      none = far == np.iinfo(far.dtype).max
      result[stated] = np.where(none, NEVER, far.astype(np.int64))
      return result
    mine, theirs = rows[stated], goals[stated]
    far = np.empty(len(mine), np.int64)
    # One search for each goal, or for each row, if these are fewer.
    to_goals = len(np.unique(theirs)) <= len(np.unique(mine))
    near, other = (theirs, mine) if to_goals else (mine, theirs)
    for root in np.unique(near):
      asked = near == root
      far[asked] = self._searched(int(root), to_goals)[other[asked]]
    result[stated] = np.where(far < 0, NEVER, far)
    return result

  def automaton(self, states: np.ndarray) -> table.Automaton:
    """Table over intersections; destinations are goals.

    The row is DEAD before origin and destination are stated, and after the end.
    """
    tokens = np.arange(DIRECTION0, NODE0, dtype=np.int32)
    places = self._placed(states)
    return table.Automaton(self.graph.delta, tokens, END, *places)

  def _placed(self, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows and goals [B] of the automaton."""
    placed = (states >= 0).all(-1)
    rows = np.where(placed, states[:, 0], core.DEAD)
    return rows, np.where(placed, states[:, 1], UNSTATED)

  def traced(self, states: np.ndarray) -> tuple[core.traced.Rules, Any]:
    """See core.Enumerable.traced: origin and destination are stated."""
    if self._asks(states).any():
      raise core.InputError(
        'a state without origin or destination was given; expected both, to '
        'go on from there on the device'
      )
    return super().traced(states)

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
    legal = np.zeros((len(states), NODE0 + len(self.graph)), bool)
    legal[self._asks(states), NODE0:] = True
    rows, goals = self._placed(states)
    placed = rows >= 0
    legal[placed, DIRECTION0:NODE0] = self.graph.delta[rows[placed]] >= 0
    legal[:, END] = placed & (rows == goals)
    return legal

  def distance_to_end(
    self, states: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray]:
    """Legal tokens, and the tokens to the end with each; see core.Enumerable.

    [B, 9] `end` and the directions; [B, S] nodes in the prompt.
    """
    rows, goals = self._placed(states)
    placed, asks = rows >= 0, self._asks(states)
    nodes = NODE0 + np.arange(len(self.graph) * asks.any())
    tokens = np.full((len(states), max(len(nodes), NODE0 - 1)), core.DEAD)
    needed = np.full(tokens.shape, 3)  # Origin, destination and `end`.
    tokens[placed & (rows == goals), 0] = END
    needed[placed, 0] = 1
    heads = self.graph.delta[rows[placed]]
    moves = np.arange(DIRECTION0, NODE0)
    tokens[placed, 1 : NODE0 - 1] = np.where(heads >= 0, moves, core.DEAD)
    needed[placed, 1 : NODE0 - 1] = self._to_end(heads, goals[placed, None])
    tokens[asks, : len(nodes)] = nodes
    stated = asks & (states[:, 0] >= 0)
    if stated.any():
      current = states[stated, :1]
      ends = np.arange(len(self.graph))
      needed[stated, : len(nodes)] = self._to_end(current, ends)
    needed[tokens == core.DEAD] = NEVER
    return tokens.astype(np.int32), needed

  def _to_end(self, rows: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """Tokens to `end`, including one that leads to `rows`; NEVER if no path."""
    hops = self.hops_between(rows, goals)
    return np.where(hops == NEVER, NEVER, hops + 2)

  def state_id(self, states: np.ndarray) -> np.ndarray:
    """[B] int64."""
    current, goal = states.T.astype(np.int64)
    ids = (current + 3) * (len(self.graph) + 2) + goal + 2
    return np.where(current == core.DEAD, core.DEAD, ids)

  def walk(
    self, states: np.ndarray, tokens: np.ndarray, lengths: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray]:
    """As `core.World.walk`, compiled."""
    states, lengths = np.array(states), np.asarray(lengths)
    steps = np.zeros(len(states), np.int32)
    tokens = np.asarray(tokens)
    alive = np.ones(len(states), bool)
    for _ in range(2):  # Origin and destination, if they are to come.
      rows = np.flatnonzero(self._asks(states) & alive & (steps < lengths))
      if rows.size:
        after = self.advance(states[rows], tokens[rows, steps[rows]])
        ok = after[:, 0] != core.DEAD
        states[rows[ok]] = after[ok]
        steps[rows[ok]] += 1
        alive[rows[~ok]] = False
    rows, goals = self._placed(states)
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

  # Exact answers.

  def boundary(
    self,
    first: np.ndarray,
    second: np.ndarray,
    depth: int,
    published: bool = False,
  ) -> core.Boundary:
    """Boundaries of pairs; `end` makes them depend on destinations."""
    asks = self._asks(first) | self._asks(second)
    if published or not asks.any():
      return super().boundary(first, second, depth, published)
    parts = [
      core.boundary.product(self, first[t], second[t], depth)
      if asks[t]
      else self.boundary(first[t : t + 1], second[t : t + 1], depth)
      for t in range(len(first))
    ]
    return core.boundary.joined(parts)

  @staticmethod
  def _asks(states: np.ndarray) -> np.ndarray:
    """[B] bool: True before origin and destination are stated."""
    current, goal = states.T
    return (current == START) | ((current >= 0) & (goal == UNSTATED))

  def count(
    self, first: np.ndarray, second: np.ndarray, depth: int
  ) -> tuple[list[int], list[int]]:
    """Sizes of boundary and interior of a pair [W], by length, exact."""
    if not self._asks(np.stack([first, second])).any():
      return super().count(first, second, depth)
    if (first == second).all():
      return [0] * depth, self._count_asking(first, depth)
    return core.Enumerable.count(self, first, second, depth)

  def _count_asking(self, state: np.ndarray, depth: int) -> list[int]:
    """Legal sequences of each length from a state within the prompt.

    The destination may be any intersection; summed over destinations, `end` is
    legal exactly once after every walk.
    """
    size, start = len(self.graph), int(state[0]) == START
    walks = np.full(size, 1, object)  # From each row, one length at a time.
    sums = []
    for _ in range(depth):
      sums.append(int(walks.sum() if start else walks[state[0]]))
      heads = np.append(walks, 0)[self.graph.delta]
      walks = heads.sum(axis=1)
    stated = [size * a + b for a, b in zip(sums, [0, *sums], strict=False)]
    return ([size, *stated] if start else stated)[:depth]


SIZE = 400  # Pixels of the map's side.
NEAREST = 80  # Intersections around the current one that are to be seen.
NAMED = 150  # Small maps have the intersections' names on them.
WHOLE = 600  # Most intersections of a map that is shown before any is current.
STREET, NODE, WAY = '#9aa3af', '#5b6470', '#2563a8'


class MapWindow(NamedTuple):
  """The part of the graph that is shown.

  Attributes:
    points: [S, 2] pixels of all intersections, inside or not.
    seen: [S] bool, inside the window.
    metres: width of a pixel in metres.
    height: pixels; the width is SIZE.
  """

  points: np.ndarray
  seen: np.ndarray
  metres: float
  height: float


def window(graph: streets.StreetGraph, row: int) -> MapWindow:
  """A square around an intersection with NEAREST others, or all of a small map.

  row: of the graph; a negative row shows the whole map.
  """
  places = streets.project(graph, graph.lat, graph.lon)
  if len(graph) <= NAMED or row < 0:
    low, high = places.min(0), places.max(0)
    middle = (low + high) / 2
    wide, tall = np.maximum(high - low, 50.0) * 1.12
    tall = min(max(tall, wide / 4), wide * 1.5)
  else:
    middle = places[row]
    near = np.partition(np.abs(places - middle).max(1), NEAREST)[NEAREST]
    wide = tall = 2.12 * max(float(near), 50.0)
  metres = float(wide) / SIZE
  half = np.array([SIZE, float(tall) / metres]) / 2
  points = (places - middle) * (1, -1) / metres + half
  seen = (np.abs(points - half) <= half).all(1)
  return MapWindow(points, seen, metres, 2 * float(half[1]))


def picture(graph: streets.StreetGraph, row: int, goal: int, note: str) -> str:
  """Map around the intersection `row`; negative rows mean none."""
  view = window(graph, row)
  parts = [*_edges(graph, view, row), *_nodes(graph, view)]
  if row >= 0:
    parts += _exits(graph, view, row)
  parts += _goal_mark(view, goal)
  if row >= 0:
    x, y = view.points[row].tolist()
    parts.append(svg.circle(x, y, 6.5, svg.HERE, 'stroke="#fff"'))
  parts += _scale(view)
  tall = view.height
  inner = f'<svg x="8" y="8" width="{SIZE}" height="{tall:.0f}">'
  frame = svg.rect(8, 8, SIZE, tall, 'none', f'stroke="{svg.LINE}"')
  words = svg.text(10, tall + 26, note, size=12)
  shown = [frame, inner, *parts, '</svg>', words]
  return svg.picture(SIZE + 16, round(tall) + 36, shown, note)


def _edges(graph: streets.StreetGraph, view: MapWindow, row: int) -> list[str]:
  """Streets as one path, and the triangles of one-way ones as another."""
  sources, _, targets = graph.edges()
  pairs = set(zip(sources.tolist(), targets.tolist(), strict=True))
  near = view.seen[sources] | view.seen[targets]
  lines, heads = [], []
  for a, b in sorted(set(zip(sources[near], targets[near], strict=True))):
    both = (b, a) in pairs
    if a == b or row == a or (both and (a > b or row == b)):
      continue
    lines.append('M{:.0f} {:.0f}L{:.0f} {:.0f}'.format(*_ends(view, a, b)))
    if not both:
      heads.append(_triangle(*_ends(view, a, b), 0.55, 4.0))
  return [
    f'<path d="{"".join(lines)}" stroke="{STREET}" stroke-width="1.6"/>',
    f'<path d="{"".join(heads)}" fill="{NODE}"/>',
  ]


def _ends(view: MapWindow, a: int, b: int) -> tuple[float, float, float, float]:
  return (*view.points[a].tolist(), *view.points[b].tolist())


def _triangle(
  x1: float, y1: float, x2: float, y2: float, share: float, size: float
) -> str:
  """Path of a triangle that points along a line, at a share of it."""
  long = math.hypot(x2 - x1, y2 - y1) or 1.0
  dx, dy = (x2 - x1) / long * size, (y2 - y1) / long * size
  x, y = x1 + (x2 - x1) * share, y1 + (y2 - y1) * share
  return (
    f'M{x + dx:.1f} {y + dy:.1f}L{x - dx - dy:.1f} {y - dy + dx:.1f}'
    f'L{x - dx + dy:.1f} {y - dy - dx:.1f}z'
  )


def _nodes(graph: streets.StreetGraph, view: MapWindow) -> list[str]:
  """Intersections in the window; named where the map is small."""
  seen = np.flatnonzero(view.seen)
  dots = ''.join(
    'M{:.0f} {:.0f}h0'.format(*point) for point in view.points[seen].tolist()
  )
  parts = [
    f'<path d="{dots}" stroke="{NODE}" stroke-width="5" '
    'stroke-linecap="round"/>'
  ]
  if len(graph) <= NAMED:
    for k in seen.tolist():
      x, y = view.points[k].tolist()
      name = graph.names[k]
      parts.append(
        svg.text(x + 4, y - 4, name, size=9, fill=svg.INK, more=svg.HALO)
      )
  return parts


def _exits(graph: streets.StreetGraph, view: MapWindow, row: int) -> list[str]:
  """Streets that leave the current intersection, with their directions."""
  parts = []
  for label in np.flatnonzero(graph.delta[row] != core.DEAD):
    target = int(graph.delta[row, label])
    x1, y1, x2, y2 = _ends(view, row, target)
    parts.append(svg.line(x1, y1, x2, y2, WAY, 3))
    tip = _triangle(x1, y1, x2, y2, 0.75, 5.5)
    parts.append(f'<path d="{tip}" fill="{WAY}"/>')
    long = math.hypot(x2 - x1, y2 - y1) or 1.0
    # Beyond the street's end, or along the street if its end is far.
    out = long + 14 if long < 46 else 30.0
    x, y = x1 + (x2 - x1) / long * out, y1 + (y2 - y1) / long * out + 4
    name = streets.DIRECTIONS[label]
    parts.append(svg.label(x, y, name, fill=WAY, more=svg.BOLD + svg.HALO))
  return parts


def _goal_mark(view: MapWindow, goal: int) -> list[str]:
  """A ring around the destination, or an arrow towards it at the edge."""
  if goal < 0:
    return []
  x, y = view.points[goal].tolist()
  if view.seen[goal]:
    ring = f'stroke="{svg.GOAL}" stroke-width="3.5"'
    return [svg.circle(x, y, 10, 'none', ring)]
  half = SIZE / 2, view.height / 2
  dx, dy = x - half[0], y - half[1]
  share = min(
    (h - 14) / max(abs(d), 1) for h, d in zip(half, (dx, dy), strict=True)
  )
  tip = half[0] + dx * share, half[1] + dy * share
  arrow = _triangle(*half, *tip, 1.0, 11.0)
  metres = math.hypot(dx, dy) * view.metres
  far = f'{metres / 1000:.1f} km' if metres >= 1000 else f'{metres:.0f} m'
  at = half[0] + dx * share * 0.84, half[1] + dy * share * 0.84 + 4
  return [
    f'<path d="{arrow}" fill="{svg.GOAL}"/>',
    svg.text(
      *at, far, anchor='middle', fill=svg.GOAL, more=svg.BOLD + svg.HALO
    ),
  ]


def _scale(view: MapWindow) -> list[str]:
  """A bar of a round number of metres."""
  most = view.metres * SIZE / 4
  length = 10 ** math.floor(math.log10(most))
  length *= 5 if most >= 5 * length else 2 if most >= 2 * length else 1
  wide, y = length / view.metres, view.height - 8
  return [
    svg.rect(4, y - 16, wide + 8, 20, svg.PAPER, 'opacity="0.85"'),
    svg.line(8, y, 8 + wide, y, svg.INK, 2),
    svg.text(8, y - 4, f'{length:g} m', size=10),
  ]
