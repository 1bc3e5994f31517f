"""Edits of states, and the moves of activations that represent them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import basics
from wm.evaluation import boundaries, probing

# Streams of randomness under one seed.
PLACES, DRAWS, SOURCES = 11, 12, 14
# Draws of a label and a value at a position before it is given up.
ATTEMPTS = 64
PENALTY = 1e-3  # Ridge penalty of the fit of means; see `probing.ridge`.


class Edits(NamedTuple):
  """One position in each of T sequences, and the edit of its state.

  Attributes:
    row: [T] sequence.
    tokens: [T, L] int32.
    place: [T] index of the token after which the state is edited.
    label: [T] index among the labels that a probe reads; -1 is all of them.
    old, new: [T] values of the label, as a probe reads them; -1 for all labels.
    legal: [T, V] bool, tokens that are legal in the true state.
    legal_after: [T, V] bool, tokens that are legal in the edited state.
    done: [T] bool, whether an edit was found.
    edited: [T, W] edited states.
    true: [T, W] true states.
  """

  row: np.ndarray
  tokens: np.ndarray
  place: np.ndarray
  label: np.ndarray
  old: np.ndarray
  new: np.ndarray
  legal: np.ndarray
  legal_after: np.ndarray
  done: np.ndarray
  edited: np.ndarray
  true: np.ndarray

  @property
  def both(self) -> np.ndarray:
    """[2, T, W] states, edited and true."""
    return np.stack([self.edited, self.true])

  def take(self, rows: np.ndarray) -> Edits:
    """Selects edits by rows."""
    return Edits(*(array[rows] for array in self))


class EditFilter(NamedTuple):
  """Conditions on edits.

  Attributes:
    horizon: number of tokens within which legality must differ; from 2 on the
      legal next tokens must be the same.
    whole: see `wm.metrics.intervention.Metric`.
  """

  horizon: int = 1
  whole: bool = False

  def fits(
    self,
    world: core.World,
    states: np.ndarray,
    edited: np.ndarray,
    room: np.ndarray,
  ) -> np.ndarray:
    """[T] bool: do states and edited states [T, W] meet the conditions?

    room: [T] number of tokens that fit after them.
    """
    before, after = world.legal(states), world.legal(edited)
    other = (before != after).any(-1)
    if self.horizon == 1:
      return after.any(-1) & other
    # The next token cannot separate these states: only later tokens can.
    good = after.any(-1) & ~other
    rows, both = np.flatnonzero(good), np.stack([edited, states])
    # In either direction, as far as there is room.
    apart = np.zeros(len(rows), bool)
    for pair in (both[:, rows], both[::-1, rows]):
      apart |= (
        boundaries.futures(world, pair, self.horizon, room[rows], 0).sizes > 0
      )
    good[rows] = apart
    return good


def draw(
  world: core.Labelled,
  sequences: core.Sequences,
  points: probing.LabelledPoints,
  chosen: np.ndarray,
  values: Sequence[np.ndarray],
  seed: int,
  choice: EditFilter = EditFilter(),  # noqa: B008
) -> Edits:
  """Draws one edit for each sequence with chosen points.

  The position is uniform over these points. For label edits, label and value
  are uniform over those that meet `choice`. A whole edit takes the state of
  another point at the same position.

  Args:
    world: world of the states.
    sequences: sequences of the world.
    points: labelled positions of the sequences.
    chosen: [P] bool, points that may be edited.
    values: ascending values that each of the K labels may get.
    seed: seed of all draws; sequences are independent.
    choice: conditions on edits.
  """
  at = _one_a_row(points, chosen, seed)
  row, place = points.row[at], points.position[at]
  tokens = sequences.tokens[row]
  # Edits apply to the state after a position's token.
  states = world.walk(world.init(len(at)), tokens, place + 1)[1]
  legal, none = world.legal(states), np.full(len(at), -choice.whole, np.int64)
  edits = Edits(
    *(row, tokens, place, none, none.copy(), none.copy()),
    *(legal, legal.copy(), np.zeros(len(at), bool), states.copy(), states),
  )
  # Whole edits are drawn from states of the sequences.
  others = states_at(world, sequences, points) if choice.whole else None
  for attempt in range(ATTEMPTS):
    left = np.flatnonzero(~edits.done)
    if not left.size:
      break
    drawn = basics.uniforms(
      seed, DRAWS, row[left], attempt, np.arange(2)[:, None]
    )
    if others is not None:
      other = _at_position(points.position, place[left], drawn[0])
      label, new, edited = none[left], none[left], others[other]
      old = label
      good = _all_listed(points.label[other], values)
    else:
      label, new = _label_and_value(drawn, values)
      edited = changed(world, states[left], label, new)
      old = points.label[at[left], label].astype(np.int64)
      listed = [n in values[k] for k, n in zip(label, new, strict=True)]
      good = np.array(listed, bool) & (new != old)
    good = good & (world.state_id(edited) != core.DEAD)
    at_good = np.flatnonzero(good)
    if not at_good.size:  # Worlds may refuse empty batches.
      continue
    room = world.max_len - 1 - place[left[good]]
    good[at_good] = choice.fits(world, states[left[good]], edited[good], room)
    rows = left[good]
    edits.edited[rows], edits.legal_after[rows] = (
      edited[good],
      world.legal(edited)[good],
    )
    edits.label[rows], edits.old[rows] = label[good], old[good]
    edits.new[rows], edits.done[rows] = new[good], True
  return edits


def _label_and_value(
  drawn: np.ndarray, values: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
  """A label and a value [T] of it, uniform over all pairs, by draws [2, T]."""
  counts = np.array([len(options) for options in values])
  label = np.searchsorted(np.cumsum(counts), drawn[0] * counts.sum(), 'right')
  place = (drawn[1] * counts[label]).astype(np.int64)
  new = [values[k][v] for k, v in zip(label, place, strict=True)]
  return label, np.array(new)


def _at_position(
  position: np.ndarray, asked: np.ndarray, drawn: np.ndarray
) -> np.ndarray:
  """[T] a point at each asked position [T], chosen uniformly by draws [T]."""
  # Equal positions are adjacent; a draw picks one of the run.
  order = np.argsort(position, kind='stable')
  first, last = (
    np.searchsorted(position[order], asked, side) for side in ('left', 'right')
  )
  return order[first + (drawn * (last - first)).astype(np.int64)]


def _all_listed(labels: np.ndarray, values: Sequence[np.ndarray]) -> np.ndarray:
  """[T] bool: is each of the labels [T, K] among its column's values?"""
  columns = zip(labels.T, values, strict=True)
  good = np.ones(len(labels), bool)
  for column, listed in columns:
    good &= np.isin(column, listed)
  return good


def states_at(
  world: core.World, sequences: core.Sequences, points: probing.LabelledPoints
) -> np.ndarray:
  """[P, W] states after the points' tokens."""
  # All sequences advance together: points of one position are copied at once.
  after = world.init(len(sequences))
  states = np.zeros((len(points.row), *after.shape[1:]), after.dtype)
  for t in range(int(points.position.max(initial=-1)) + 1):
    rows = np.flatnonzero(t < sequences.lengths)
    after[rows] = world.advance(after[rows], sequences.tokens[rows, t])
    at = np.flatnonzero(points.position == t)
    states[at] = after[points.row[at]]
  return states


def _one_a_row(
  points: probing.LabelledPoints, chosen: np.ndarray, seed: int
) -> np.ndarray:
  """[T] one of the chosen points of each sequence, in order of row."""
  rows = np.flatnonzero(chosen)
  keys = basics.hash64(seed, PLACES, points.row[rows], points.position[rows])
  rows = rows[np.lexsort((keys, points.row[rows]))]
  return rows[np.unique(points.row[rows], return_index=True)[1]]


def changed(
  world: core.Labelled, states: np.ndarray, label: np.ndarray, new: np.ndarray
) -> np.ndarray:
  """States with another value, as a probe reads it, of its label `label`."""
  heads = world.heads
  first = heads.probe.start if heads.probe is not None else 0
  if heads.turn is not None and heads.mine:
    turn = world.labels(states)[:, heads.turn].astype(np.int64)
    new = probing.by_mover(new, turn, heads.sizes[first])
  return world.edited(states, first + label, new)


def _far(odds: np.ndarray) -> np.ndarray:
  """Change of log-odds that exchanges the old and the new value."""
  return odds + np.abs(odds)


class Shifts(NamedTuple):
  """Moves of T activations.

  Attributes:
    by: [T, D] vectors to add.
    read, read_after: [T] bool, whether the probe reads the old value before,
      and the new value after the move.
  """

  by: np.ndarray
  read: np.ndarray
  read_after: np.ndarray

  def random(self, seed: list[int]) -> np.ndarray:
    """[T, D] moves of the same lengths in random directions."""
    directions = np.random.default_rng(seed).normal(size=self.by.shape)
    length = np.linalg.norm(self.by, axis=-1, keepdims=True)
    return directions * (
      length / np.linalg.norm(directions, axis=-1, keepdims=True)
    )


class ProbeData(NamedTuple):
  """The data that a probe is fitted to.

  Attributes:
    points: all labelled positions.
    target: [P, K] their labels, as classes of each column.
    values: label of each class of a column, ascending.
    train: [P] bool, training points.
  """

  points: probing.LabelledPoints
  target: np.ndarray
  values: list[np.ndarray]
  train: np.ndarray

  def knows(self, edits: Edits) -> np.ndarray:
    """[T] bool: do the training points have the old values?"""
    seen = [np.unique(column) for column in self.points.label[self.train].T]
    if (edits.label < 0).all():
      return _all_listed(self.points.label[self.at(edits)], seen)
    pairs = zip(edits.label, edits.old, strict=True)
    return np.array([old in seen[k] for k, old in pairs], bool)

  def along(
    self,
    features: np.ndarray,
    probe: tuple[np.ndarray, np.ndarray],
    edits: Edits,
    by: np.ndarray | None,
  ) -> Shifts:
    """Moves of the edited positions' activations.

    Args:
      features: [P, D] activations of all points.
      probe: weights [D, K, C] and biases [K, C].
      edits: the edits.
      by: [T, D] moves; None: the probe's moves, which exchange the log-odds of
        the two values.
    """
    x = features[self.at(edits)]
    w, bias = probe[0][:, edits.label], probe[1][edits.label]  # [D, T, C].
    old, new = self._classes(edits, edits.old), self._classes(edits, edits.new)
    logits = np.einsum('td,dtc->tc', x, w) + bias
    rows = np.arange(len(x))
    if by is None:
      far = _far(logits[rows, old] - logits[rows, new])
      by = self._way(probe[0], edits.label, old, new) * far[:, None]
    after = logits + np.einsum('td,dtc->tc', by, w)
    return Shifts(by, logits.argmax(-1) == old, after.argmax(-1) == new)

  def along_all(
    self,
    features: np.ndarray,
    probe: tuple[np.ndarray, np.ndarray],
    old: np.ndarray,
    new: np.ndarray,
    by: np.ndarray | None,
  ) -> Shifts:
    """As `along`, for all labels at once.

    Args:
      features: [T, D] activations of the edited positions.
      probe: weights [D, K, C] and biases [K, C].
      old, new: [T, K] classes of all labels.
      by: see `along`.
    """
    columns, (first, second) = np.arange(old.shape[1]), np.stack([old, new])
    logits = np.einsum('td,dkc->tkc', features, probe[0]) + probe[1]
    rows = np.arange(len(old))[:, None]
    if by is None:
      odds = logits[rows, columns, first] - logits[rows, columns, second]
      far = np.where(first == second, 0, _far(odds)) / 2
      ways = np.zeros_like(logits, np.float64)
      ways[rows, columns, second] += far
      ways[rows, columns, first] -= far
      # One least-squares move for all labels: [T, K C] changes of logits times
      # the pseudo-inverse [K C, D] of all weights. Equal labels have changes of
      # 0, so that they stay. The mean over the logits of a label has no effect,
      # and is subtracted from the weights.
      sizes = [len(values) for values in self.values]
      listed = np.arange(logits.shape[-1]) < np.array(sizes)[:, None]
      w = probe[0].astype(np.float64) * listed
      w -= w.sum(-1, keepdims=True) / listed.sum(-1)[:, None] * listed
      by = ways.reshape(len(old), -1) @ np.linalg.pinv(
        w.reshape(len(w), -1), rcond=1e-6
      )
    after = logits + np.einsum('td,dkc->tkc', by, probe[0])
    read = (logits.argmax(-1) == old).all(-1)
    return Shifts(by, read, (after.argmax(-1) == new).all(-1))

  def _way(
    self,
    weights: np.ndarray,
    label: np.ndarray,
    old: np.ndarray,
    new: np.ndarray,
  ) -> np.ndarray:
    """[T, D] smallest moves by which the new value gains 1 over the old one.

    The two logits change by half each, and those of other values stay; by least
    squares if there are more values than dimensions.
    """
    moves = np.zeros((len(label), len(weights)))
    for k in np.unique(label):
      rows, count = np.flatnonzero(label == k), len(self.values[k])
      w = weights[:, k, :count].astype(np.float64)
      # The mean over the logits has no effect.
      back = np.linalg.pinv(w - w.mean(1, keepdims=True))  # [C, D].
      moves[rows] = (back[new[rows]] - back[old[rows]]) / 2
    return moves

  def at(self, edits: Edits) -> np.ndarray:
    """[T] indices of the edited points; points are in order."""
    size = self.points.position.max(initial=0) + 1
    keys = self.points.row * size + self.points.position
    return np.searchsorted(keys, edits.row * size + edits.place)

  def _classes(self, edits: Edits, value: np.ndarray) -> np.ndarray:
    """[T] classes of values [T] of the edited labels."""
    pairs = zip(edits.label, value, strict=True)
    indices = [np.searchsorted(self.values[k], value_t) for k, value_t in pairs]
    return np.array(indices, np.int64)

  def in_states(
    self,
    world: core.World,
    sequences: core.Sequences,
    states: np.ndarray,
    seed: int,
  ) -> np.ndarray:
    """[T] a random point in each of the states [T, W]; DEAD for none."""
    if not len(self.points.row):  # Worlds may refuse empty batches.
      return np.full(len(states), core.DEAD, np.int64)
    ids = world.state_id(states_at(world, sequences, self.points))
    return _drawn_equal(ids, world.state_id(states), seed)

  def between_places(
    self, features: np.ndarray, edits: Edits, seed: int
  ) -> np.ndarray:
    """[T, D] moves to a random training position with the new value."""
    away = np.zeros((len(edits.row), features.shape[1]))
    train = np.flatnonzero(self.train & ~self.points.prompt)
    for label in np.unique(edits.label):
      rows = np.flatnonzero(edits.label == label)
      value = self.points.label[train, label]
      source = train[_drawn_equal(value, edits.new[rows], seed)]
      away[rows] = features[source] - features[self.at(edits.take(rows))]
    return away

  def between_states(
    self, features: np.ndarray, old: np.ndarray, new: np.ndarray
  ) -> np.ndarray:
    """[T, D] moves between the fitted mean activations of two states.

    Mean activations are fitted as sums over the labels of the state.

    features: [P, D] of all points; old, new: [T, K] classes of all labels.
    """
    # Squares of a board are dependent: differences of plain means would count
    # their common part once for each square.
    fit = probing.ridge(
      self._hot(self.target[self.train]), features[self.train], PENALTY
    )
    return fit(self._hot(new)) - fit(self._hot(old))

  def _hot(self, classes: np.ndarray) -> np.ndarray:
    """[N, S] one-hot columns of all labels [N, K]."""
    columns = zip(classes.T, self.values, strict=True)
    hot = [np.eye(len(values))[column] for column, values in columns]
    return np.concatenate(hot, axis=1)

  def between_means(self, features: np.ndarray, edits: Edits) -> np.ndarray:
    """[T, D] moves from the old value's mean activation to the new one's."""
    first, second = (
      self._means(features, edits, value) for value in (edits.old, edits.new)
    )
    return second - first

  def _means(
    self, features: np.ndarray, edits: Edits, value: np.ndarray
  ) -> np.ndarray:
    """[T, D] mean activations of points whose edited labels have values [T]."""
    means = np.zeros((len(value), features.shape[1]))
    inputs, labels = features[self.train], self.points.label[self.train]
    pairs = np.stack([edits.label, value], -1)
    for k, value_of in np.unique(pairs, axis=0):
      mean = inputs[labels[:, k] == value_of].mean(0)
      means[(pairs == (k, value_of)).all(-1)] = mean
    return means


def _drawn_equal(
  values: np.ndarray, asked: np.ndarray, seed: int
) -> np.ndarray:
  """[T] a random index [P] of each asked value [T]; DEAD for none."""
  keys = basics.hash64(seed, SOURCES, np.arange(len(values)))
  order = np.lexsort((keys, values))
  first, last = (
    np.searchsorted(values[order], asked, side) for side in ('left', 'right')
  )
  pick = basics.uniforms(seed, SOURCES, np.arange(len(asked))) * (last - first)
  at = order[np.minimum(first + pick.astype(np.int64), len(values) - 1)]
  return np.where(last > first, at, core.DEAD)
