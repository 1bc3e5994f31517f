"""A linear probe, fitted on demand, that reads the state from activations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wm import core
from wm.evaluation import probing

LAYER = -1  # The last layer, where most of the state is computed.
POINTS = 20_000  # Most positions to fit, and most to test.
EPOCHS = 40


class StateProbe(NamedTuple):
  """A linear softmax classifier for each of K labels after the last layer.

  Attributes:
    weights: [D, K, C] float32.
    biases: [K, C] float32.
    values: K arrays, the value of each class of a label.
    accuracy: [K] accuracy on held-out positions.
  """

  weights: np.ndarray
  biases: np.ndarray
  values: list[np.ndarray]
  accuracy: np.ndarray

  def read(self, hidden: np.ndarray) -> np.ndarray:
    """[K] label values that the probe predicts from activations [D]."""
    from wm.evaluation import linear_probe  # Deferred: it imports JAX.

    classes = linear_probe.named(hidden[None], self.weights, self.biases)[0]
    return np.array([v[c] for v, c in zip(self.values, classes, strict=True)])


def fit(
  predictor: core.HiddenStates,
  world: core.Labelled,
  num: int,
  seed: int,
) -> StateProbe:
  """Fits a probe on sequences of a world (Vafa et al. 2024, section 3.1).

  Fits on about four fifths of the tasks, and tests on the rest.

  Args:
    predictor: whose activations are read.
    world: its states are the labels, as `metrics.probe` reads them.
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
  features = probing.activations(predictor, sequences, points, LAYER)
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
  return StateProbe(weights, biases, values, accuracy)
