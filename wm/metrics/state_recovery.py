"""State recovery: a model is tuned to name the whole state.

Vafa et al. 2025, section 4: where a model's board is wrong, does it have the
same legal moves? Models that keep what decides the next token, and no more,
have many states wrong and most legal moves right.
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
# Scores of classes that a label does not have.
NEVER = -np.inf


@dataclasses.dataclass(frozen=True)
class Metric(fewshot.FewShotMetric):
  """Tunes a model to name all labels of the state, all at once.

  Quantities are means over random places of held-out sequences. Legal tokens
  of the state that is named are compared with those of the true state where
  something is legal, and where the world makes states of labels; labels that
  no state has are wrong in each.

  Attributes:
    num: labelled sequences.
    tested: held-out sequences.
    places: labelled places of each; 0 is all, as published.
    steps: numbers of steps after which to score; the last one's quantities
      have no number in their names. Published are 10,000.
    rates: learning rates; of several, the best by validation loss.
    held: further labelled sequences, for validation.
    part: 'all' weights are tuned, or the 'head' alone.
    keep: weights of the 'last' step, or the 'best' by validation loss.
    untrained: adapt random weights too, where there are such.

  Glossary:
    accuracy: Share of labels of the state (squares of a board) that the tuned
      model names right. Of groups of labels each: accuracy_board.
    exact: Share of places at which all labels are right. It can be small where
      accuracy is high, as one wrong label is enough.
    legal_equal: Share of places at which the named state has the true one's
      legal tokens. Above exact, some wrong states are alike in what may come
      next.
    legal_overlaps: Share of places at which the named state and the true one
      have a legal token in common. It is a weak test.
    legal_contained: Share of places at which all legal tokens of the named
      state are legal in the true one. A state without any is contained.
    legal_beyond: What legal_equal is above exact at the same places. A model
      that keeps what decides the next token, and no more, has much of it.
    majority: Share of labels that are the commonest of the labels that were
      shown. What is no better knows nothing of the sequence.
    accuracy_untrained: As accuracy, of the same network with random weights,
      tuned alike. What it has was learned from the labels.
    exact_untrained: As exact, of the same network with random weights, tuned
      alike. What it has was learned from the labels.
    legal_equal_untrained: As legal_equal, of the same network with random
      weights, tuned alike. What it has was learned from the labels.
    legal_beyond_untrained: As legal_beyond, of the same network with random
      weights, tuned alike. What it has was learned from the labels.
  """

  needs: ClassVar[tuple[core.Need, ...]] = (core.Adaptable, core.Labelled)
  sized_by: ClassVar[tuple[str, ...]] = ('num', 'held', 'tested')
  ideal: ClassVar[Mapping[str, str]] = {
    'exact': '1: whole state is right',
    'legal_equal': '1: legal moves are right',
  }

  num: int = field(128, least=1)
  tested: int = field(100, least=1)
  places: int = field(8, least=0)
  steps: tuple[int, ...] = field((200,), **fewshot.STEPS)
  rates: tuple[float, ...] = field((6e-4,), **fewshot.RATES)
  held: int = field(0, least=0)
  part: str = field('all', choices=fewshot.PARTS)
  keep: str = field('last', choices=fewshot.KEEPS)
  untrained: bool = False

  def __call__(
    self, predictor: core.Adaptable, world: core.Labelled, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric; a row per place, clustered by task."""
    stream = basics.stream
    shown, asked = (
      _points(
        world,
        fewshot.sequences(self, world, num, stream(seed, word), split),
        self.places,
        stream(seed, PLACES),
      )
      for num, word, split in (
        (self.num + self.held, TRAINED, 'train'),
        (self.tested, TESTED, 'heldout'),
      )
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
    """[S, M, P, K] int64 labels that the tuned predictor names."""
    sizes = np.array(world.heads.sizes)

    def sets(rows: slice) -> adapting.FewShotTasks:
      return adapting.FewShotTasks(
        shown.tokens[None, rows],
        shown.places[None, rows],
        shown.labels[None, rows],
      )

    train, validation = self.with_validation(sets, self.num)
    outputs = self.fine_tune(
      predictor,
      train,
      adapting.QueryPoints(asked.tokens[None], asked.places[None]),
      adapting.Classes(int(sizes.max()), len(sizes)),
      basics.stream(seed, ADAPTED),
      validation=validation,
    )[:, 0]
    valid = np.arange(outputs.shape[-1]) < sizes[:, None]
    return np.where(valid, outputs, NEVER).argmax(-1)


class BoardPoints(NamedTuple):
  """Places of N sequences, and the labels there.

  Attributes:
    tokens: [N, L] int32.
    places: [N, P] int32, DEAD where there is none.
    labels: [N, P, K] int64.
    group: [N] cluster of each sequence.
  """

  tokens: np.ndarray
  places: np.ndarray
  labels: np.ndarray
  group: np.ndarray

  @property
  def there(self) -> np.ndarray:
    """[N, P] bool."""
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
  """All quantities of labels [M, P, K] that were named; end: of their names."""
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
  """[Q, W] states at all places."""
  row, nth = np.nonzero(asked.there)
  length = asked.places[row, nth] + 1
  return world.walk(world.init(len(row)), asked.tokens[row], length)[1]


def _majority(
  world: core.Labelled, shown: BoardPoints, asked: BoardPoints
) -> core.Scores:
  """The accuracy of always naming the commonest class of each label."""
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
  """A row for each place, of values [M, P]."""
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
