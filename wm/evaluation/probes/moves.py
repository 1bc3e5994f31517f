"""Moves of activations to where a linear probe reads another value."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wm.evaluation.probes import probing
from wm.evaluation.probes.edits import Edits


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
    found = np.random.default_rng(seed).normal(size=(num, *self.by.shape))
    length = np.linalg.norm(self.by, axis=-1, keepdims=True)
    return found * (length / np.linalg.norm(found, axis=-1, keepdims=True))


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
    found = np.zeros((len(label), len(weights)))
    for k in np.unique(label):
      some, count = np.flatnonzero(label == k), len(self.values[k])
      w = weights[:, k, :count].astype(np.float64)
      # What all logits have in common says nothing.
      back = np.linalg.pinv(w - w.mean(1, keepdims=True))  # [C, D].
      found[some] = (back[new[some]] - back[old[some]]) / 2
    return found

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
    found = np.zeros((len(value), features.shape[1]))
    inputs, labels = features[self.train], self.points.label[self.train]
    pairs = np.stack([edits.label, value], -1)
    for k, one in np.unique(pairs, axis=0):
      mean = inputs[labels[:, k] == one].mean(0)
      found[(pairs == (k, one)).all(-1)] = mean
    return found
