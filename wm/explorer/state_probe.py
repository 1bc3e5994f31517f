"""A linear probe, fitted on demand, that reads the state from activations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wm import core
from wm.evaluation import probing

READ_LAYER = -1  # The last layer, where most of the state is computed.
EDIT_LAYER = 1  # Early enough that later layers act on an edit.
POINTS = 20_000  # Most positions to fit, and most to test.
EPOCHS = 40


class StateProbe(NamedTuple):
  """A linear softmax classifier for each of K labels after one layer.

  Attributes:
    layer: whose activations the probe reads.
    weights: [D, K, C] float32.
    biases: [K, C] float32.
    values: K arrays, the value of each class of a label.
    accuracy: [K] accuracy on held-out positions.
  """

  layer: int
  weights: np.ndarray
  biases: np.ndarray
  values: list[np.ndarray]
  accuracy: np.ndarray

  def read(self, hidden: np.ndarray) -> np.ndarray:
    """[K] label values that the probe predicts from activations [D]."""
    from wm.evaluation import linear_probe  # Deferred: it imports JAX.

    classes = linear_probe.named(hidden[None], self.weights, self.biases)[0]
    return np.array([v[c] for v, c in zip(self.values, classes, strict=True)])

  def moved(
    self, hidden: np.ndarray, label: int, value: int, strength: float
  ) -> np.ndarray:
    """Moves activations [D] until the probe reads a label as another value.

    The move is along the difference of the class weights, w_new - w_old. If d
    is the log-odds of the old value against the new one, the log-odds of the
    new value become (strength - 1) * d (Nanda et al. 2023).

    Raises:
      InputError: the probe has not seen this value of the label.
    """
    new = np.flatnonzero(self.values[label] == value)
    if not new.size:
      seen = ', '.join(map(str, self.values[label]))
      raise core.InputError(
        f'value {value} of label {label}: the probe has seen only {seen}'
      )
    weights = self.weights[:, label].astype(np.float64)  # [D, C]
    logits = hidden @ weights + self.biases[label]
    old = int(logits.argmax())
    if old == new[0]:
      return hidden
    way = weights[:, new[0]] - weights[:, old]
    odds = logits[old] - logits[new[0]]
    moved = hidden + way * (strength * odds / (way @ way))
    return moved.astype(np.float32)


def fit(
  predictor: core.HiddenStates,
  world: core.Labelled,
  layer: int,
  num: int,
  seed: int,
) -> StateProbe:
  """Fits a probe on sequences of a world (Vafa et al. 2024, section 3.1).

  Fits on about four fifths of the tasks, and tests on the rest.

  Args:
    predictor: whose activations are read.
    world: its states are the labels, as `metrics.probe` reads them.
    layer: see `core.HiddenStates.hidden`.
    num: held-out sequences.
    seed: of the sequences and of the fit.

  Raises:
    InputError: the sequences have no labelled state.
  """
  from wm.evaluation import linear_probe  # Deferred: it imports JAX.

  sequences = world.sample(num, seed, split='heldout')
  fits = sequences.lengths <= predictor.max_len
  sequences = sequences.take(np.flatnonzero(fits))
  points = probing.label(world, sequences)
  if not len(points.row):
    raise core.InputError(f'{world.name}: no state to read in {num} sequences')
  test = probing.by_task(points, world.split_key(sequences), seed)
  target, values = probing.classes(points.label)
  features = probing.activations(predictor, sequences, points, layer)
  train = np.flatnonzero(~test) if (~test).any() else np.arange(len(test))
  train = np.random.default_rng([seed, 1]).permutation(train)[:POINTS]
  weights, biases = linear_probe.fit(
    features[train],
    target[train],
    np.array([len(seen) for seen in values]),
    lr=0.01,
    batch=2048,
    epochs=EPOCHS,
    seed=seed,
  )
  tested = np.flatnonzero(test)[:POINTS]
  named = linear_probe.named(features[tested], weights, biases)
  accuracy = (named == target[tested]).mean(0)
  return StateProbe(layer, weights, biases, values, accuracy)
