"""Current-state probe: can the state be read from the model's activations?

Vafa et al. 2024, section 3.1 and table 1: a linear softmax classifier from
the activation after a token to the state that the sequence is then in.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from wm import core
from wm.evaluation import context, fields

HELD_OUT = 5  # One part in so many is for testing.


@dataclasses.dataclass(frozen=True)
class Metric(core.Metric):
  """Trains a linear probe and tests it on other sequences.

  Labels are read after each move: the labels that `core.Heads.probe` names, or
  the whole state as one class. The tokens of the prompt before its last state
  a part of the task, so their label is trivial: they are trained on, as in the
  published program, but scored apart. The last prompt token and the end token
  are left out, as published.

  Each quantity is a mean over test positions. A class that training never saw
  counts as an error. Where a world gives K labels of a state (the squares of a
  board), K classifiers are fit, each alone, and a position's value is the share
  of them that are right.

  Attributes:
    num: sequences that activations are taken from.
    layer: activations after this layer; -1 is the last, final norm included.
    split: 'sequence': the fifth tested on shares no task with the rest;
      'token': positions at random, as published (sequences leak).
    data: which split of the world's sequences; 'train' as published.
    lr: Adam's learning rate for the softmax cross-entropy.
    batch: positions in a step of the fit.
    epochs: passes over the positions trained on.

  Glossary:
    accuracy: Share of test positions after moves at which a linear map of the
      activations names the right state. The test sequences share no task with
      those that it was fit on.
    accuracy_all: The same, with the tokens of the prompt, whose state is
      trivial, among the positions. This is what the paper prints.
    accuracy_prompt: The same on tokens of the prompt only. The state there is a
      part of the task that was just read.
    untrained: Accuracy of the same model with random weights. What the probe
      finds there was not learned.
    majority: Accuracy of always naming the most common state of the fit. A
      probe that is no better knows nothing of the state.
  """

  version: ClassVar[str] = '1'
  needs: ClassVar[tuple[type, ...]] = (core.HiddenStates,)
  sized_by: ClassVar[tuple[str, ...]] = ('num',)
  headline: ClassVar[tuple[str, ...]] = ('accuracy',)
  glossary: ClassVar[Mapping[str, str]] = core.section(__doc__, 'Glossary')

  num: int = 25_000
  layer: int = -1
  split: str = 'sequence'
  data: str = 'heldout'
  lr: float = 0.01
  batch: int = 2048
  epochs: int = 100

  def __post_init__(self) -> None:
    fields.one_of(self, split=tuple(_SPLITS), data=('heldout', 'train', 'all'))
    fields.at_least(self, num=1, batch=1, epochs=1, layer=-1)

  def __call__(
    self, predictor: core.HiddenStates, world: core.World, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric; a row per test sequence, clustered by task."""
    sequences = world.sample(self.num, seed, split=self.data)
    points = label(world, sequences)
    group = context.clusters(world, sequences)
    keys = world.split_key(sequences)
    test = _SPLITS[self.split](points, keys, seed)
    right = self._right(predictor, sequences, points, test, seed)
    untrained = None
    if isinstance(predictor, core.Reinitializable):
      control = predictor.untrained(seed)
      untrained = self._right(control, sequences, points, test, seed)
    moves, every = ~points.prompt, np.ones(len(test), bool)
    columns = zip(points.label[test].T, points.label[~test].T, strict=True)
    unseen = sum(int((~np.isin(a, b)).sum()) for a, b in columns)
    tested = _Tested(points, test, group, unseen)
    return (
      tested.scores('accuracy', right, moves),
      tested.scores('accuracy_all', right, every),
      tested.scores('accuracy_prompt', right, points.prompt),
      tested.scores('untrained', untrained, moves),
      tested.scores('majority', _majority(points, test), moves),
    )

  def _right(
    self,
    predictor: core.HiddenStates,
    sequences: core.Sequences,
    points: Points,
    test: np.ndarray,
    seed: int,
  ) -> np.ndarray:
    """[P] share of a point's labels that probes name."""
    features = activations(predictor, sequences, points, self.layer)
    if test.all() or not test.any():
      return np.zeros(len(test))
    from wm.metrics.probe import linear  # Deferred: it imports JAX.

    target, classes = _classes(points.label)
    params = linear.fit(
      features[~test],
      target[~test],
      classes,
      lr=self.lr,
      batch=self.batch,
      epochs=self.epochs,
      seed=seed,
    )
    right = np.zeros(len(test))
    for rows in core.chunks(len(test), params[1].size):
      named = linear.named(features[rows], *params)
      right[rows] = (named == target[rows]).mean(-1)
    return right


def _by_task(points: Points, keys: np.ndarray, seed: int) -> np.ndarray:
  """[P] bool: points to test on, all those of one task in HELD_OUT.

  keys: [N] split key of each sequence, which stands for its task.
  """
  tasks, task = np.unique(keys, return_inverse=True)
  order = np.argsort(core.hash64(seed, tasks), kind='stable')
  chosen = np.zeros(len(tasks), bool)
  chosen[order[: -(-len(tasks) // HELD_OUT)]] = True
  return chosen[task][points.row]


def _by_token(points: Points, keys: np.ndarray, seed: int) -> np.ndarray:
  """[P] bool: points to test on, one in HELD_OUT, whatever their sequence."""
  del keys
  mixed = core.hash64(seed, points.row, points.position)
  return mixed % np.uint64(HELD_OUT) == 0


_SPLITS = {'sequence': _by_task, 'token': _by_token}


def _classes(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Labels [P, K] as classes 0, 1, ... of each column, and their numbers."""
  found = [np.unique(column, return_inverse=True) for column in labels.T]
  sizes = np.array([len(seen) for seen, _ in found])
  kind = np.min_scalar_type(sizes.max())
  target = [back.astype(kind) for _, back in found]
  return np.stack(target, axis=-1), sizes


class Points(NamedTuple):
  """Positions with a label.

  Attributes:
    row: [P] sequence.
    position: [P] token.
    label: [P, K] integers; K is 1 unless a state has several.
    prompt: [P] bool, a prompt token, whose label is trivial.
  """

  row: np.ndarray
  position: np.ndarray
  label: np.ndarray
  prompt: np.ndarray


def label(world: core.World, sequences: core.Sequences) -> Points:
  """All labelled positions, by sequence and then position."""
  num, longest = sequences.tokens.shape
  states, last = world.init(num), world.prompt_len - 1
  ends = (sequences.tokens == world.end) & (world.end != core.DEAD)
  none = np.zeros(0, np.int64)
  blocks = [(none, none, targets(world, world.init(1))[:0])]
  for t in range(longest):
    # All sequences go on in step: blocks come by position.
    rows = np.flatnonzero(t < sequences.lengths)
    states[rows] = world.advance(states[rows], sequences.tokens[rows, t])
    rows = rows[~ends[rows, t]]
    if t != last:
      found = targets(world, states[rows])
      known = (found != core.DEAD).all(-1)
      blocks.append((rows[known], np.full(known.sum(), t), found[known]))
  row, position, labels = map(np.concatenate, zip(*blocks, strict=True))
  order = np.lexsort((position, row))
  position = position[order]
  return Points(row[order], position, labels[order], position < last)


def targets(world: core.World, states: np.ndarray) -> np.ndarray:
  """[B, K] classes that probes read out; DEAD where nobody is to move.

  The state as one class, or the labels that `core.Heads.probe` names.
  """
  if not isinstance(world, core.Labelled) or world.heads.probe is None:
    return world.state_id(states)[:, None]
  heads = world.heads
  # Many numbers: the smallest type that holds all classes, and DEAD.
  kind = np.min_scalar_type(-max(heads.sizes))
  labels = world.labels(states).astype(kind)
  found = labels[:, heads.probe]
  if heads.turn is None:
    return found
  turn = labels[:, [heads.turn]]  # 1 becomes mine and 2 theirs.
  found = np.where(found > 0, 1 + (found - 1 + turn) % 2, 0)
  return np.where(turn < 2, found, core.DEAD)


def activations(
  predictor: core.HiddenStates,
  sequences: core.Sequences,
  points: Points,
  layer: int,
) -> np.ndarray:
  """[P, D] float32 activations at the points."""
  found = []
  for rows in core.chunks(len(sequences), sequences.tokens.shape[1] * 1024):
    hidden = predictor.hidden(
      sequences.tokens[rows], sequences.lengths[rows], layer
    )
    here = (points.row >= rows.start) & (points.row < rows.stop)
    at = points.row[here] - rows.start, points.position[here]
    found.append(np.asarray(hidden)[at])
  return np.concatenate(found).astype(np.float32)


def _majority(points: Points, test: np.ndarray) -> np.ndarray:
  """[P] share of labels that are the commonest after moves in training."""
  trained = points.label[~test & ~points.prompt]
  right = np.zeros(len(test))
  for column, known in zip(points.label.T, trained.T, strict=True):
    seen, count = np.unique(known, return_counts=True)
    if seen.size:
      right += column == seen[count.argmax()]
  return right / points.label.shape[1]


class _Tested(NamedTuple):
  """What turns points, each with the share that is right, into rows."""

  points: Points
  test: np.ndarray
  group: np.ndarray
  unseen: int

  def scores(
    self, quantity: str, right: np.ndarray | None, where: np.ndarray
  ) -> core.Scores:
    """Rows of the test sequences; None is one row with a reason."""
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
    )
