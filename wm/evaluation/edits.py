"""Edits of one label of the state, and moves of activations to match them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import basics
from wm.evaluation import probing

# Draws of a label and a value at a place before it is given up.
ATTEMPTS = 64
# Streams of randomness under one seed.
PLACES, DRAWS = 11, 12


class Edits(NamedTuple):
  """One place in each of T sequences, and what is changed there.

  Attributes:
    row: [T] sequence.
    tokens: [T, L] int32.
    place: [T] the token after which the state is edited.
    label: [T] which of the labels that a probe reads.
    old, new: [T] its values, as a probe reads them.
    legal: [T, V] bool, tokens that are legal.
    wanted: [T, V] bool, tokens that are legal in the edited state.
    done: [T] bool, is there an edit?
  """

  row: np.ndarray
  tokens: np.ndarray
  place: np.ndarray
  label: np.ndarray
  old: np.ndarray
  new: np.ndarray
  legal: np.ndarray
  wanted: np.ndarray
  done: np.ndarray

  def take(self, rows: np.ndarray) -> Edits:
    """Some of them, in order."""
    return Edits(*(array[rows] for array in self))


def draw(
  world: core.Labelled,
  sequences: core.Sequences,
  points: probing.Points,
  chosen: np.ndarray,
  values: Sequence[np.ndarray],
  seed: int,
  *,
  label: int = -1,
  value: int = -1,
) -> Edits:
  """One edit of each sequence that has chosen points.

  The place is uniform over these points; label and value are uniform over
  those that give a state with other legal tokens.

  Args:
    world: whose states.
    sequences: of the world.
    points: labelled places of them.
    chosen: [P] bool, points that may be edited.
    values: ascending, those that each of the K labels may get.
    seed: of all draws; each sequence has its own.
    label, value: the only ones, where they are not -1.
  """
  at = _one_a_row(points, chosen, seed)
  row, place = points.row[at], points.position[at]
  tokens = sequences.tokens[row]
  states = world.walk(world.init(len(at)), tokens, place + 1)[1]
  legal, none = world.legal(states), np.zeros(len(at), np.int64)
  found = Edits(
    *(row, tokens, place, none, none.copy(), none.copy()),
    *(legal, legal.copy(), np.zeros(len(at), bool)),
  )
  counts = np.array([len(options) for options in values])
  for attempt in range(ATTEMPTS):
    left = np.flatnonzero(~found.done)
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
    edited = _edited(world, states[left], label_T, new)
    wanted = world.legal(edited)
    may = [n in values[k] for k, n in zip(label_T, new, strict=True)]
    good = (
      np.array(may, bool) & (new != old) & (world.state_id(edited) != core.DEAD)
    )
    good &= wanted.any(-1) & (wanted != legal[left]).any(-1)
    rows = left[good]
    found.label[rows], found.wanted[rows] = label_T[good], wanted[good]
    found.old[rows], found.new[rows] = old[good], new[good]
    found.done[rows] = True
  return found


def _one_a_row(
  points: probing.Points, chosen: np.ndarray, seed: int
) -> np.ndarray:
  """[T] one of the chosen points of each sequence, by row."""
  rows = np.flatnonzero(chosen)
  keys = basics.hash64(seed, PLACES, points.row[rows], points.position[rows])
  rows = rows[np.lexsort((keys, points.row[rows]))]
  return rows[np.unique(points.row[rows], return_index=True)[1]]


def _edited(
  world: core.Labelled, states: np.ndarray, label: np.ndarray, new: np.ndarray
) -> np.ndarray:
  """States with another value, as a probe reads it, of its label `label`."""
  heads = world.heads
  first = heads.probe.start if heads.probe is not None else 0
  if heads.turn is not None and heads.mine:
    turn = world.labels(states)[:, heads.turn].astype(np.int64)
    new = probing.by_mover(new, turn, heads.sizes[first])
  return world.edited(states, first + label, new)


class Moves(NamedTuple):
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


class Fitted(NamedTuple):
  """What a probe is fit on.

  Attributes:
    points: all labelled places.
    target: [P, K] their labels, as classes of each column.
    values: the label that each class of a column is, ascending.
    train: [P] bool, the points that it is fit on.
  """

  points: probing.Points
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
    means: bool,
  ) -> Moves:
    """Moves of the edited places' activations.

    Args:
      features: [P, D] activations of all points.
      probe: weights [D, K, C] and biases [K, C].
      edits: where, and to which values.
      strength: the log-odds of the new value against the old one become so
        many times what those of the old one were, less once.
      means: move by the difference of the means of both values, at strength 2
        all of it, instead of where the probe says.
    """
    x = features[self._at(edits)]
    w, bias = probe[0][:, edits.label], probe[1][edits.label]  # [D, T, C].
    old, new = self._classes(edits, edits.old), self._classes(edits, edits.new)
    logits = np.einsum('td,dtc->tc', x, w) + bias
    rows = np.arange(len(x))
    if means:
      first, second = (
        self._means(features, edits, value) for value in (edits.old, edits.new)
      )
      by = strength / 2 * (second - first)
    else:
      odds = logits[rows, old] - logits[rows, new]
      far = odds + (strength - 1) * np.abs(odds)
      by = self._way(probe[0], edits.label, old, new) * far[:, None]
    after = logits + np.einsum('td,dtc->tc', by, w)
    return Moves(by, logits.argmax(-1) == old, after.argmax(-1) == new)

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

  def _at(self, edits: Edits) -> np.ndarray:
    """[T] the points that are edited; points are in order."""
    size = self.points.position.max(initial=0) + 1
    keys = self.points.row * size + self.points.position
    return np.searchsorted(keys, edits.row * size + edits.place)

  def _classes(self, edits: Edits, value: np.ndarray) -> np.ndarray:
    """[T] classes that values [T] of the edited labels are."""
    pairs = zip(edits.label, value, strict=True)
    found = [np.searchsorted(self.values[k], one) for k, one in pairs]
    return np.array(found, np.int64)

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
