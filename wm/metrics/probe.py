"""Current-state probe: can the state be read from the model's activations?

Vafa et al. 2024, section 3.1 and table 1: a linear softmax classifier from
the activation after a token to the state of the sequence there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from wm import core
from wm.core import basics
from wm.core.fields import field
from wm.evaluation import context, probing, statistics

CONTROL = 9  # Random stream of the control task.


@dataclasses.dataclass(frozen=True)
class Metric(probing.ProbeMetric):
  """Asks whether a linear map of the model's activations gives the state.

  The map is trained on some sequences and tested on others.

  A probe reads the labels after each move: those of `core.Labelled.heads`, or
  the whole state as one class. Prompt tokens before the last state a part of
  the task, so their label is trivial. They are in the training data, as in the
  published program, but scored separately. The last prompt token and the end
  token are left out, as published.

  Each quantity is a mean over test positions. A class that is not in the
  training data counts as an error. If a world has K labels of a state (the
  squares of a board), K independent classifiers are fitted, and the value of a
  position is the share of right ones.

  Attributes:
    num: sequences that activations are taken from.
    layers: activations after each of these layers are probed separately; -1 is
      the last, after the final norm, and so is (). Each quantity includes rows
      of all layers, and a report draws accuracy and selectivity by layer.
    control: number of last tokens before a position that determine its random
      labels in a control task; 0 is no control task. Each such window of tokens
      gets the labels of a random position (Hewitt and Liang 2019, whose windows
      are single words). In a small vocabulary, longer windows give as many
      different windows as there are states.
    split: 'sequence': the fifth for testing shares no task with the rest;
      'token': random positions, as published (sequences leak).
    data: split of the world's sequences; 'train' as published.
    epochs: passes over the training positions.

  Glossary:
    accuracy: Share of test positions after moves at which a linear map of the
      activations gives the right state. Test and training sequences share no
      task.
    accuracy_all: As accuracy, with prompt tokens, whose state is trivial, among
      the positions. The paper prints this.
    accuracy_prompt: As accuracy, on prompt tokens only. The state there is a
      part of the task that the model has just read.
    untrained: Accuracy for the same model with random weights. That much was
      not learned.
    majority: Accuracy of always answering with the most common state of the
      training data. A probe that is no better reads nothing about the state.
    control: Accuracy of a probe on the control task, whose labels are as many
      and as frequent but random for the last tokens. A probe can memorise as
      much.
    selectivity: Difference of accuracy and the control task's accuracy at the
      same positions. Far above 0, the probe reads the state and not the tokens.
    layer: layer whose activations are probed
  """

  needs: ClassVar[tuple[core.Need, ...]] = (core.HiddenStates,)
  sized_by: ClassVar[tuple[str, ...]] = ('num', 'num control')
  measures: ClassVar[Mapping[str, core.Measure]] = {
    'accuracy': core.Measure(1, 'its state is readable'),
    'selectivity': core.Measure(headline=True),
  }
  breakdown: ClassVar[tuple[str, ...]] = ('layer',)

  num: int = field(25_000, least=1)
  split: str = field('sequence', choices=('sequence', 'token'))
  data: str = field('heldout', choices=probing.SPLITS)
  epochs: int = field(100, least=1)
  layers: tuple[int, ...] = field((), least=-1, distinct=True)
  control: int = field(0, least=0)

  def __call__(
    self, predictor: core.HiddenStates, world: core.World, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric; a row per test sequence and layer, clustered by task."""
    sequences = world.sample(self.num, seed, split=self.data)
    points = probing.label(world, sequences)
    keys = world.split_key(sequences)
    test = _SPLITS[self.split](points, keys, seed)
    columns = zip(points.label[test].T, points.label[~test].T, strict=True)
    unseen = sum(int((~np.isin(a, b)).sum()) for a, b in columns)
    group = context.clusters(world, sequences)
    tested = _Tested(points, test, group, unseen)
    untrained = None
    if core.can(predictor, core.HiddenStates.untrained):
      untrained = predictor.untrained(seed)
    quantities = [
      self._scores(predictor, untrained, sequences, tested, layer, seed)
      for layer in self.layers or (-1,)
    ]
    if not self.layers:
      return quantities[0]
    return tuple(
      statistics.joined(each, 'layer', self.layers)
      for each in zip(*quantities, strict=True)
    )

  def _scores(
    self,
    predictor: core.HiddenStates,
    untrained: core.HiddenStates | None,
    sequences: core.Sequences,
    tested: _Tested,
    layer: int,
    seed: int,
  ) -> tuple[core.Scores, ...]:
    """All quantities of one layer."""
    points, test = tested.points, tested.test
    places = sequences, points, layer
    features = probing.activations(predictor, *places)
    right = self._right(features, points.label, test, seed)
    without = None
    if untrained is not None:
      other = probing.activations(untrained, *places)
      without = self._right(other, points.label, test, seed)
    moves, every = ~points.prompt, np.ones(len(test), bool)
    quantities = [
      tested.scores('accuracy', right, moves),
      tested.scores('accuracy_all', right, every),
      tested.scores('accuracy_prompt', right, points.prompt),
      tested.scores('untrained', without, moves),
      tested.scores('majority', _majority(points, test), moves),
    ]
    if self.control:
      label = _control(points, sequences, self.control, seed)
      by_heart = self._right(features, label, test, seed)
      quantities += [
        tested.scores('control', by_heart, moves),
        tested.scores('selectivity', right - by_heart, moves, (-1.0, 1.0)),
      ]
    return tuple(quantities)

  def _right(
    self, features: np.ndarray, label: np.ndarray, test: np.ndarray, seed: int
  ) -> np.ndarray:
    """[P] share of labels [P, K] that probes of activations [P, D] predict."""
    if test.all() or not test.any():
      return np.zeros(len(test))
    from wm.evaluation import linear_probe  # Deferred: it imports JAX.

    target, values = probing.classes(label)
    classes = np.array([len(column) for column in values])
    params = linear_probe.fit(
      features[~test], target[~test], classes, epochs=self.epochs, seed=seed
    )
    right = np.zeros(len(test))
    for rows in core.predictor.chunks(len(test), params[1].size):
      named = linear_probe.named(features[rows], *params)
      right[rows] = (named == target[rows]).mean(-1)
    return right


def _by_token(
  points: probing.LabelledPoints, keys: np.ndarray, seed: int
) -> np.ndarray:
  """[P] bool: test points, one in HELD_OUT, regardless of their sequence."""
  del keys
  mixed = basics.hash64(seed, points.row, points.position)
  return mixed % np.uint64(probing.HELD_OUT) == 0


_SPLITS = {'sequence': probing.by_task, 'token': _by_token}


def _control(
  points: probing.LabelledPoints, sequences: core.Sequences, num: int, seed: int
) -> np.ndarray:
  """[P, K] random labels, determined by the last `num` tokens of each point.

  Equal tokens get the true labels of one random position after a move. Random
  labels thus have the frequencies and correlations of true ones.
  """
  moves = np.flatnonzero(~points.prompt)
  if not len(moves):
    return points.label
  padded = np.pad(sequences.tokens, ((0, 0), (num - 1, 0)))
  window = [padded[points.row, points.position + k] for k in range(num)]
  drawn = basics.hash64(seed, CONTROL, *window) % np.uint64(len(moves))
  return points.label[moves[drawn.astype(np.int64)]]


def _majority(points: probing.LabelledPoints, test: np.ndarray) -> np.ndarray:
  """[P] share of labels equal to the most common one in training."""
  trained = points.label[~test & ~points.prompt]
  right = np.zeros(len(test))
  for column, train_labels in zip(points.label.T, trained.T, strict=True):
    seen, count = np.unique(train_labels, return_counts=True)
    if seen.size:
      right += column == seen[count.argmax()]
  return right / points.label.shape[1]


class _Tested(NamedTuple):
  """Converts shares of right labels at points to rows."""

  points: probing.LabelledPoints
  test: np.ndarray
  group: np.ndarray
  unseen: int

  def scores(
    self,
    quantity: str,
    right: np.ndarray | None,
    where: np.ndarray,
    bounds: tuple[float, float] = (0.0, 1.0),
  ) -> core.Scores:
    """Rows of the test sequences; `right` None gives one unmeasured row."""
    if right is None:
      return core.scores(quantity, [np.nan], reason=['no_untrained_model'])
    use = self.test & where
    if not use.any() or self.test.all():
      empty = 'no_test_points' if not use.any() else 'no_training_points'
      return core.scores(quantity, [np.nan], reason=[empty])
    rows, at = np.unique(self.points.row[use], return_inverse=True)
    total = np.bincount(at)
    good = np.bincount(at, weights=right[use])
    return core.scores(
      quantity,
      good / total,
      group=self.group[rows],
      weight=total,
      columns={'sequence': rows, 'positions': total},
      counts={'points_of_unseen_class': self.unseen},
      bounds=bounds,
    )
