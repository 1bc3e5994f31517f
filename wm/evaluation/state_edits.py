"""Edits of states, and the moves of activations that represent them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import basics
from wm.evaluation import probing

# Streams of randomness under one seed.
PLACES, DRAWS = 11, 12
# Draws of a label and a value at a position before it is given up.
ATTEMPTS = 64


class Edits(NamedTuple):
  """One position in each of T sequences, and the edit of its state.

  Attributes:
    row: [T] sequence.
    tokens: [T, L] int32.
    place: [T] index of the token after which the state is edited.
    label: [T] index among the labels that a probe reads.
    old, new: [T] values of the label, as a probe reads them.
    legal: [T, V] bool, tokens that are legal in the true state.
    legal_after: [T, V] bool, tokens that are legal in the edited state.
    done: [T] bool, whether an edit was found.
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

  def take(self, rows: np.ndarray) -> Edits:
    """Selects edits by rows."""
    return Edits(*(array[rows] for array in self))


def draw(
  world: core.Labelled,
  sequences: core.Sequences,
  points: probing.LabelledPoints,
  chosen: np.ndarray,
  values: Sequence[np.ndarray],
  seed: int,
) -> Edits:
  """Draws one edit for each sequence with chosen points.

  The position is uniform over these points; label and value are uniform over
  those that give a state with legal tokens, which are not those of before.

  Args:
    world: world of the states.
    sequences: sequences of the world.
    points: labelled positions of the sequences.
    chosen: [P] bool, points that may be edited.
    values: ascending values that each of the K labels may get.
    seed: seed of all draws; sequences are independent.
  """
  at = _one_a_row(points, chosen, seed)
  row, place = points.row[at], points.position[at]
  tokens = sequences.tokens[row]
  # Edits apply to the state after a position's token.
  states = world.walk(world.init(len(at)), tokens, place + 1)[1]
  legal, none = world.legal(states), np.zeros(len(at), np.int64)
  edits = Edits(
    *(row, tokens, place, none, none.copy(), none.copy()),
    *(legal, legal.copy(), np.zeros(len(at), bool)),
  )
  for attempt in range(ATTEMPTS):
    left = np.flatnonzero(~edits.done)
    if not left.size:
      break
    drawn = basics.uniforms(
      seed, DRAWS, row[left], attempt, np.arange(2)[:, None]
    )
    label, new = _label_and_value(drawn, values)
    edited = changed(world, states[left], label, new)
    old = points.label[at[left], label].astype(np.int64)
    listed = [n in values[k] for k, n in zip(label, new, strict=True)]
    good = np.array(listed, bool) & (new != old)
    good &= world.state_id(edited) != core.DEAD
    at_good = np.flatnonzero(good)
    if not at_good.size:  # Worlds may refuse empty batches.
      continue
    after = world.legal(edited[good])
    fits = after.any(-1) & (after != legal[left[good]]).any(-1)
    good[at_good] = fits
    rows = left[good]
    edits.legal_after[rows] = after[fits]
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
      odds = logits[rows, old] - logits[rows, new]
      far = odds + np.abs(odds)  # Exchanges the old and the new value.
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
