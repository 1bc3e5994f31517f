"""Routes on a street graph: how trials draw them, how they are written.

States and rules are those of `journeys`.
"""

from __future__ import annotations

import functools

import numpy as np

from wm import core
from wm.kernels import dfa
from wm.worlds.base import svg
from wm.worlds.maps import picture as map_picture
from wm.worlds.maps.journeys import (
  DIRECTION0,
  NODE0,
  OVER,
  START,
  UNSTATED,
  Journeys,
)

# The published limit of `Navigation.prefix_limit`, for every traversal.
PREFIX_MOVES = 96

ATTEMPTS = 64  # Backward walks that met a street without entry start again.


class Navigation(
  Journeys,
  core.Prefixed,
  core.Labelled,
  core.Written,
  core.Described,
  words={'two_way': 'two-way streets at the current intersection'},
):
  """A world of routes on `graph`; subclasses say how they are sampled."""

  @property
  def prefix_limit(self) -> int:
    """Bound on the directions of a prefix and its shortest way on."""
    return self.moves

  # Trials.

  @functools.cached_property
  def _pairs_from(self) -> np.ndarray:
    """[S + 1] int64: (current, destination) states before each row's."""
    usable = self._usable(self.hops).sum(1)
    return np.concatenate([[0], np.cumsum(usable, dtype=np.int64)])

  def _usable(self, hops: np.ndarray) -> np.ndarray:
    """Mask of distances that trials use, below `prefix_limit`."""
    none = np.iinfo(hops.dtype).max
    return (hops >= 1) & (hops < self.prefix_limit) & (hops < none)

  def sample_states(self, num: int, seed: int) -> np.ndarray:
    """(current, destination) uniform over pairs less than `prefix_limit` hops
    apart, and not the same."""
    before = self._pairs_from
    pick = core.hash64(seed, np.arange(num)) % np.uint64(before[-1])
    pick = pick.astype(np.int64)
    rows = np.searchsorted(before, pick, side='right') - 1
    states = np.empty((num, 2), np.int32)
    for n, row in enumerate(rows):
      columns = np.flatnonzero(self._usable(self.hops[row]))
      states[n] = row, columns[pick[n] - before[row]]
    return states

  def prefix_moves(self, states: np.ndarray) -> np.ndarray:
    """1 .. `prefix_limit` less the nodes on the shortest path (Vafa et al.
    2024, public code)."""
    rows, goals = self._placed(states)
    hops = self.hops[rows, goals].astype(np.int64)
    reached = (rows >= 0) & (hops < np.iinfo(self.hops.dtype).max)
    most = np.where(reached, np.maximum(self.prefix_limit - 1 - hops, 0), 0)
    return np.stack([np.ones_like(most), most], axis=-1).astype(np.int32)

  @functools.cached_property
  def _predecessors(self) -> dfa.Predecessors:
    return dfa.predecessors(self.graph.delta)

  def sample_prefixes(
    self, states: np.ndarray, moves: np.ndarray, seeds: np.ndarray
  ) -> core.Prefixes:
    """Walks back from the state, uniform over in-edges at each step.

    A walk that comes to an intersection that no street enters is drawn again,
    up to ATTEMPTS times: prefixes are distributed as walks that never do.
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
        core.hash64(np.asarray(seeds)[left], attempt),
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
    if current < 0:
      return svg.card([self.format(state)])
    ids = self.vocab[NODE0:]
    note = f'at {ids[current]}, destination '
    note += ids[goal] if goal >= 0 else 'not stated yet'
    if current == goal:
      note += ': there'
    return map_picture.picture(self.graph, current, goal, note)

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
    """See core.Labelled: on the way, at any intersection to any other."""
    after = np.array(states)
    after[np.arange(len(states)), label] = value - 1
    known = (states >= 0).all(-1) & (value >= 1) & (value <= len(self.graph))
    after[~known] = core.DEAD
    return after

  def from_labels(self, labels: np.ndarray) -> np.ndarray:
    """See core.Labelled: on the way, where both labels are known."""
    states = labels.astype(np.int32) - 1
    known = ((states >= 0) & (states < len(self.graph))).all(-1, keepdims=True)
    return np.where(known, states, core.DEAD).astype(np.int32)

  def functions(self, states: np.ndarray) -> dict[str, np.ndarray]:
    """'hops': directions of the shortest way to the destination.

    0 where it is not known yet, and where there is no way.
    """
    rows, goals = self._placed(states)
    found = self.hops[np.maximum(rows, 0), np.maximum(goals, 0)]
    none = (rows < 0) | (goals < 0) | (found == np.iinfo(found.dtype).max)
    return {'hops': np.where(none, 0, found).astype(np.int64)}

  @functools.cached_property
  def _two_way(self) -> np.ndarray:
    return np.append(self.graph.two_way(), 0)

  def tags(self, states: np.ndarray) -> dict[str, np.ndarray]:
    """The column of figure 7 (Vafa et al. 2024)."""
    rows, _ = self._placed(states)
    return {'two_way': self._two_way[rows]}
