"""State recovery: can a model be tuned to predict the whole state?

Vafa et al. 2025, section 4: does a wrongly predicted board have the same legal
moves as the true one? A model that represents only the legal next tokens
predicts many wrong states, most of them with the right legal moves.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from wm import core
from wm.core import adapting, basics
from wm.core.fields import field
from wm.evaluation import context, fewshot

# Streams of randomness under one seed.
TRAINED, TESTED, PLACES, ADAPTED, FRESH = range(41, 46)
# Score of classes that a label does not have.
NEVER = -np.inf
MOST = 8  # Labelled positions of a sequence; published: all.


@dataclasses.dataclass(frozen=True)
class Metric(fewshot.FewShotMetric):
  """Tunes a model to predict all labels of the state, all at once.

  Quantities are means over random positions of held-out sequences. Legal tokens
  of the predicted state are compared with those of the true state, at positions
  with legal tokens and in worlds that define `from_labels`; labels of no state
  count as wrong.

  Attributes:
    num: labelled sequences.
    tested: held-out sequences.
    steps: ascending numbers of training steps to score after; quantities of the
      last have no number in their names. Published: 10,000.
    untrained: also adapt the model with random weights, if it has weights.

  Glossary:
    accuracy: Share of labels of the state (squares of a board) that the tuned
      model predicts correctly. Groups of labels have their own, such as
      accuracy_board.
    exact: Share of positions at which all labels are right. It can be low while
      accuracy is high, as one wrong label is enough.
    legal_equal: Share of positions at which predicted and true state have the
      same legal tokens. Above exact, some wrong states allow the same next
      tokens.
    legal_overlaps: Share of positions at which predicted and true state have a
      legal token in common. It is a weak test.
    legal_contained: Share of positions at which all legal tokens of the
      predicted state are legal in the true one. It holds for a state without
      legal tokens.
    legal_beyond: Difference of legal_equal and exact at the same positions. It
      is high for a model that represents only the legal next tokens.
    majority: Share of labels equal to the most common label of the training
      data. A model that is no better reads nothing from the sequence.
    accuracy_untrained: As accuracy, for the same network with random weights,
      tuned in the same way. That much was learned from the labels.
    exact_untrained: As exact, for the same network with random weights, tuned
      in the same way. That much was learned from the labels.
    legal_equal_untrained: As legal_equal, for the same network with random
      weights, tuned in the same way. That much was learned from the labels.
    legal_beyond_untrained: As legal_beyond, for the same network with random
      weights, tuned in the same way. That much was learned from the labels.
  """

  needs: ClassVar[tuple[core.Need, ...]] = (core.Adaptable, core.Labelled)
  sized_by: ClassVar[tuple[str, ...]] = ('num', 'tested')
  measures: ClassVar[Mapping[str, core.Measure]] = {
    'exact': core.Measure(1, 'whole state is right'),
    'legal_equal': core.Measure(1, 'legal moves are right'),
  }

  num: int = field(128, least=1)
  tested: int = field(100, least=1)
  steps: tuple[int, ...] = field((200,), **fewshot.STEPS)
  untrained: bool = False

  def __call__(
    self, predictor: core.Adaptable, world: core.Labelled, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric; a row per position, clustered by task."""
    stream = basics.stream
    nums, streams = (self.num, self.tested), (TRAINED, TESTED)
    shown, asked = (
      _points(world, drawn, MOST, stream(seed, PLACES))
      for drawn in fewshot.both_splits(world, nums, seed, streams)
    )
    answer = functools.partial(self._named, shown, asked, world, seed)
    score = functools.partial(_scores, world, asked)
    rows = self.by_step(answer(predictor), score)
    rows.append(_majority(world, shown, asked))
    if self.untrained:
      names = 'accuracy', 'exact', 'legal_equal', 'legal_beyond'
      rows += self.by_random_weights(
        predictor, stream(seed, FRESH), answer, score, names
      )
    return tuple(rows)

  def _named(
    self,
    shown: BoardPoints,
    asked: BoardPoints,
    world: core.Labelled,
    seed: int,
    predictor: core.Adaptable,
  ) -> np.ndarray:
    """[S, M, P, K] int64 labels that the tuned predictor predicts."""
    sizes = np.array(world.heads.sizes)
    outputs = self.fine_tune(
      predictor,
      adapting.FewShotTasks(
        shown.tokens[None], shown.places[None], shown.labels[None]
      ),
      adapting.QueryPoints(asked.tokens[None], asked.places[None]),
      adapting.Classes(int(sizes.max()), len(sizes)),
      basics.stream(seed, ADAPTED),
    )[:, 0]
    valid = np.arange(outputs.shape[-1]) < sizes[:, None]
    return np.where(valid, outputs, NEVER).argmax(-1)


class BoardPoints(NamedTuple):
  """Positions of N sequences, and the labels there.

  Attributes:
    tokens: [N, L] int32.
    places: [N, P] int32 positions, padded with DEAD.
    labels: [N, P, K] int64.
    group: [N] cluster of each sequence.
  """

  tokens: np.ndarray
  places: np.ndarray
  labels: np.ndarray
  group: np.ndarray

  @property
  def there(self) -> np.ndarray:
    """[N, P] bool: not padding."""
    return self.places != core.DEAD


def _points(
  world: core.Labelled, sequences: core.Sequences, num: int, seed: int
) -> BoardPoints:
  places = fewshot.places(world, sequences, num, seed)
  every = world.sequence_labels(sequences.tokens, sequences.lengths)
  rows = np.arange(len(sequences))[:, None]
  labels = every[rows, np.maximum(places, 0)].astype(np.int64)
  return BoardPoints(
    sequences.tokens, places, labels, context.clusters(world, sequences)
  )


def _scores(
  world: core.Labelled, asked: BoardPoints, named: np.ndarray, end: str
) -> list[core.Scores]:
  """All quantities of predicted labels [M, P, K]; end: of their names."""
  right = named == asked.labels
  whole = right.all(-1)
  quantities = [
    _rows('accuracy' + end, right.mean(-1), asked),
    _rows('exact' + end, whole, asked),
  ]
  if not end:
    quantities += [
      _rows(f'accuracy_{name}', right[..., part].mean(-1), asked)
      for name, part in world.heads.groups.items()
    ]
  names = 'legal_equal', 'legal_overlaps', 'legal_contained', 'legal_beyond'
  if not core.can(world, core.Labelled.from_labels):
    why = ['labels_make_no_state']
    return quantities + [
      core.scores(name + end, [np.nan], reason=why) for name in names
    ]
  mask = asked.there
  states = world.from_labels(named[mask])
  alive = (world.state_id(states) != core.DEAD)[:, None]
  legal = np.where(alive, world.legal(states), False)
  true = world.legal(_reached(world, asked))
  equal = (legal == true).all(-1) & alive[:, 0]
  overlaps = (legal & true).any(-1)
  contained = alive[:, 0] & ~(legal & ~true).any(-1)
  reason = np.zeros(mask.shape, '<U16')
  reason[mask] = np.where(true.any(-1), '', 'nothing_legal')
  beyond = equal.astype(float) - whole[mask]
  for name, value in zip(
    names, (equal, overlaps, contained, beyond), strict=True
  ):
    every = np.zeros(mask.shape)
    every[mask] = value
    bounds = (-1.0, 1.0) if name == 'legal_beyond' else (0.0, 1.0)
    quantities.append(_rows(name + end, every, asked, reason, bounds))
  return quantities


def _reached(world: core.World, asked: BoardPoints) -> np.ndarray:
  """[Q, W] states at all positions."""
  row, nth = np.nonzero(asked.there)
  length = asked.places[row, nth] + 1
  return world.walk(world.init(len(row)), asked.tokens[row], length)[1]


def _majority(
  world: core.Labelled, shown: BoardPoints, asked: BoardPoints
) -> core.Scores:
  """Accuracy of always predicting the most common class of each label."""
  labels = shown.labels[shown.there]
  commonest = [
    np.bincount(column, minlength=size).argmax()
    for column, size in zip(labels.T, world.heads.sizes, strict=True)
  ]
  right = asked.labels == np.array(commonest)
  return _rows('majority', right.mean(-1), asked)


def _rows(
  quantity: str,
  value: np.ndarray,
  asked: BoardPoints,
  reason: np.ndarray | None = None,
  bounds: tuple[float, float] = (0.0, 1.0),
) -> core.Scores:
  """A row for each position, of values [M, P]."""
  row, nth = np.nonzero(asked.there)
  why = np.full(len(row), '') if reason is None else reason[row, nth]
  return core.scores(
    quantity,
    value[row, nth],
    reason=why,
    group=asked.group[row],
    columns={'sequence': row, 'place': asked.places[row, nth]},
    bounds=bounds,
  )
