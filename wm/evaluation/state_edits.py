"""Edits of states, and the moves of activations that stand for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import basics
from wm.evaluation import boundaries, probing

# Streams of randomness under one seed.
PLACES, DRAWS, SOURCES = 11, 12, 14
# Draws of a label and a value at a place before it is given up.
ATTEMPTS = 64


class Edits(NamedTuple):
  """One place in each of T sequences, and what is changed there.

  Attributes:
    row: [T] sequence.
    tokens: [T, L] int32.
    place: [T] the token after which the state is edited.
    label: [T] which of the labels that a probe reads.
    old, new: [T] its values, as a probe reads them.
    legal: [T, V] bool, tokens that are legal.
    legal_after: [T, V] bool, tokens that are legal in the edited state.
    done: [T] bool, is there an edit?
    edited: [T, W] edited states.
    true: [T, W] those before.
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
    """Some of them, in order."""
    return Edits(*(array[rows] for array in self))


class EditFilter(NamedTuple):
  """Which edits are drawn.

  Attributes:
    label, value: the only ones, where they are not -1.
    horizon: tokens within which the states differ.
    pairs: see Metric.
  """

  label: int = -1
  value: int = -1
  horizon: int = 1
  pairs: str = 'other_next'

  def fits(
    self,
    world: core.World,
    states: np.ndarray,
    edited: np.ndarray,
    room: np.ndarray,
  ) -> np.ndarray:
    """[T] bool: do these states [T, W] differ as they are to?

    room: [T] tokens that fit behind them.
    """
    before, after = world.legal(states), world.legal(edited)
    other = (before != after).any(-1)
    if self.pairs == 'other_next':
      return after.any(-1) & other & (room >= (self.horizon > 1))
    # The next token cannot tell these apart: only what follows can.
    good = after.any(-1) & ~other
    rows, both = np.flatnonzero(good), np.stack([edited, states])
    # One way or the other, as far as there is room.
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
  """One edit of each sequence that has chosen points.

  The place is uniform over these points; label and value are uniform over
  those that give a state as it is to be.

  Args:
    world: whose states.
    sequences: of the world.
    points: labelled places of them.
    chosen: [P] bool, points that may be edited.
    values: ascending, those that each of the K labels may get.
    seed: of all draws; each sequence has its own.
    choice: which edits.
  """
  label, value = choice.label, choice.value
  at = _one_a_row(points, chosen, seed)
  row, place = points.row[at], points.position[at]
  tokens = sequences.tokens[row]
  # A place is edited after its token: the state behind it counts.
  states = world.walk(world.init(len(at)), tokens, place + 1)[1]
  legal, none = world.legal(states), np.zeros(len(at), np.int64)
  edits = Edits(
    *(row, tokens, place, none, none.copy(), none.copy()),
    *(legal, legal.copy(), np.zeros(len(at), bool), states.copy(), states),
  )
  counts = np.array([len(options) for options in values])
  for attempt in range(ATTEMPTS):
    left = np.flatnonzero(~edits.done)
    if not left.size:
      break
    # A label and a value of it: uniform over all pairs of both.
    first, second = (
      basics.uniforms(seed, DRAWS, row[left], attempt, k) for k in range(2)
    )
    pick = np.searchsorted(np.cumsum(counts), first * counts.sum(), 'right')
    label_T = np.full(len(left), label) if label >= 0 else pick
    place_T = (second * counts[label_T]).astype(np.int64)
    drawn = [values[k][v] for k, v in zip(label_T, place_T, strict=True)]
    new = np.full(len(left), value) if value >= 0 else np.array(drawn)
    old = points.label[at[left], label_T].astype(np.int64)
    edited = changed(world, states[left], label_T, new)
    legal_after = world.legal(edited)
    may = [n in values[k] for k, n in zip(label_T, new, strict=True)]
    good = (
      np.array(may, bool) & (new != old) & (world.state_id(edited) != core.DEAD)
    )
    at_good = np.flatnonzero(good)
    if not at_good.size:  # Worlds may refuse empty batches.
      continue
    room = world.max_len - 1 - place[left[good]]
    good[at_good] = choice.fits(world, states[left[good]], edited[good], room)
    rows = left[good]
    edits.edited[rows] = edited[good]
    edits.label[rows], edits.legal_after[rows] = (
      label_T[good],
      legal_after[good],
    )
    edits.old[rows], edits.new[rows] = old[good], new[good]
    edits.done[rows] = True
  return edits


def _one_a_row(
  points: probing.LabelledPoints, chosen: np.ndarray, seed: int
) -> np.ndarray:
  """[T] one of the chosen points of each sequence, by row."""
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


class Shifts(NamedTuple):
  """Moves of T activations.

  Attributes:
    by: [T, D] what is added.
    read, read_after: [T] bool, the probe reads the old value before, the new
      one after.
  """

  by: np.ndarray
  read: np.ndarray
  read_after: np.ndarray

  def random(self, num: int, seed: list[int]) -> np.ndarray:
    """[num, T, D] of the same lengths, in any direction."""
    directions = np.random.default_rng(seed).normal(size=(num, *self.by.shape))
    length = np.linalg.norm(self.by, axis=-1, keepdims=True)
    return directions * (
      length / np.linalg.norm(directions, axis=-1, keepdims=True)
    )


class ProbeData(NamedTuple):
  """The data that a probe is fit on.

  Attributes:
    points: all labelled places.
    target: [P, K] their labels, as classes of each column.
    values: the label that each class of a column is, ascending.
    train: [P] bool, the points that it is fit on.
  """

  points: probing.LabelledPoints
  target: np.ndarray
  values: list[np.ndarray]
  train: np.ndarray

  def knows(self, edits: Edits) -> np.ndarray:
    """[T] bool: has the fit seen the old value?"""
    seen = [np.unique(column) for column in self.points.label[self.train].T]
    pairs = zip(edits.label, edits.old, strict=True)
    return np.array([old in seen[k] for k, old in pairs], bool)

  def along(
    self,
    features: np.ndarray,
    probe: tuple[np.ndarray, np.ndarray],
    edits: Edits,
    strength: float,
    by: np.ndarray | None,
  ) -> Shifts:
    """Moves of the edited places' activations.

    Args:
      features: [P, D] activations of all points.
      probe: weights [D, K, C] and biases [K, C].
      edits: where, and to which values.
      strength: the log-odds of the new value against the old one become so
        many times what those of the old one were, less once.
      by: [T, D] moves of strength 2 instead of those that the probe says.
    """
    x = features[self.at(edits)]
    w, bias = probe[0][:, edits.label], probe[1][edits.label]  # [D, T, C].
    old, new = self._classes(edits, edits.old), self._classes(edits, edits.new)
    logits = np.einsum('td,dtc->tc', x, w) + bias
    rows = np.arange(len(x))
    if by is not None:
      by = strength / 2 * by
    else:
      odds = logits[rows, old] - logits[rows, new]
      far = odds + (strength - 1) * np.abs(odds)
      by = self._way(probe[0], edits.label, old, new) * far[:, None]
    after = logits + np.einsum('td,dtc->tc', by, w)
    return Shifts(by, logits.argmax(-1) == old, after.argmax(-1) == new)

  def _way(
    self,
    weights: np.ndarray,
    label: np.ndarray,
    old: np.ndarray,
    new: np.ndarray,
  ) -> np.ndarray:
    """[T, D] least moves by which the new value gains 1 on the old one.

    Each gives half, and the logits of all other values stay as they are; in
    the sense of least squares where there are more values than dimensions.
    """
    moves = np.zeros((len(label), len(weights)))
    for k in np.unique(label):
      rows, count = np.flatnonzero(label == k), len(self.values[k])
      w = weights[:, k, :count].astype(np.float64)
      # What all logits have in common says nothing.
      back = np.linalg.pinv(w - w.mean(1, keepdims=True))  # [C, D].
      moves[rows] = (back[new[rows]] - back[old[rows]]) / 2
    return moves

  def at(self, edits: Edits) -> np.ndarray:
    """[T] the points that are edited; points are in order."""
    size = self.points.position.max(initial=0) + 1
    keys = self.points.row * size + self.points.position
    return np.searchsorted(keys, edits.row * size + edits.place)

  def _classes(self, edits: Edits, value: np.ndarray) -> np.ndarray:
    """[T] classes that values [T] of the edited labels are."""
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
    """[T] a point in each of some states [T, W], by chance; DEAD is none."""
    points, ids = self.points, np.full(len(self.train), core.DEAD, np.int64)
    after = world.init(len(sequences))
    for t in range(int(points.position.max(initial=-1)) + 1):
      rows = np.flatnonzero(t < sequences.lengths)
      after[rows] = world.advance(after[rows], sequences.tokens[rows, t])
      at = np.flatnonzero(points.position == t)
      if at.size:  # Worlds may refuse empty batches.
        ids[at] = world.state_id(after[points.row[at]])
    return _drawn_equal(ids, world.state_id(states), seed)

  def between_places(
    self, features: np.ndarray, edits: Edits, seed: int
  ) -> np.ndarray:
    """[T, D] to a place with the new value, by chance, of those of the fit."""
    away = np.zeros((len(edits.row), features.shape[1]))
    train = np.flatnonzero(self.train & ~self.points.prompt)
    for label in np.unique(edits.label):
      rows = np.flatnonzero(edits.label == label)
      value = self.points.label[train, label]
      source = train[_drawn_equal(value, edits.new[rows], seed)]
      away[rows] = features[source] - features[self.at(edits.take(rows))]
    return away

  def between_means(self, features: np.ndarray, edits: Edits) -> np.ndarray:
    """[T, D] from the mean activation of the old value to the new one's."""
    first, second = (
      self._means(features, edits, value) for value in (edits.old, edits.new)
    )
    return second - first

  def _means(
    self, features: np.ndarray, edits: Edits, value: np.ndarray
  ) -> np.ndarray:
    """[T, D] mean activations where the edited labels have values [T]."""
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
  """[T] one of the places [P] with each value [T], by chance; DEAD is none."""
  keys = basics.hash64(seed, SOURCES, np.arange(len(values)))
  order = np.lexsort((keys, values))
  first, last = (
    np.searchsorted(values[order], asked, side) for side in ('left', 'right')
  )
  pick = basics.uniforms(seed, SOURCES, np.arange(len(asked))) * (last - first)
  at = order[np.minimum(first + pick.astype(np.int64), len(values) - 1)]
  return np.where(last > first, at, core.DEAD)
