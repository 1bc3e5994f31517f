"""Few-shot adaptation for metrics: tasks, random-weight controls, scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from wm import core
from wm.core import adapting, basics, registry

# Maps answers to all tasks after one number of steps, and a suffix for the
# names of quantities, to scores.
Score = Callable[[np.ndarray, str], list[core.Scores]]
# Limits of the field `steps` of few-shot metrics.
STEPS: dict[str, Any] = {'least': 1, 'fewest': 1, 'ascending': True}


class FewShotMetric(core.Metric):
  """A metric that fine-tunes a model on few-shot tasks, and scores its answers.

  A subclass declares `steps`, draws its tasks, and scores answers:

    tasks, queries --fine_tune--> outputs [S, D, M, P, ...] --by_step--> Scores
                                  S numbers of steps

  Attributes:
    steps: ascending numbers of training steps to score after; quantities of the
      last have no number in their names.
  """

  repeats: ClassVar[tuple[str, ...]] = ('steps',)
  # Learning rate, as published.
  rate: ClassVar[float] = 6e-4

  steps: tuple[int, ...]

  def fine_tune(
    self,
    predictor: core.Adaptable,
    tasks: adapting.FewShotTasks | adapting.TaskStream,
    queries: adapting.QueryPoints,
    labels: adapting.LabelSpec,
    seed: int,
    *,
    one_head: bool = False,
  ) -> np.ndarray:
    """[S, D, M, P, ...] outputs of the predictor, tuned to each task."""
    config = adapting.FineTuneConfig(self.rate, one_head=one_head)
    return predictor.adapt(tasks, queries, labels, self.steps, seed, config)

  def by_step(self, answers: np.ndarray, score: Score) -> list[core.Scores]:
    """Scores of answers [S, ...] after each number of steps."""
    rows: list[core.Scores] = []
    for step, after in zip(self.steps, answers, strict=True):
      # E.g. accuracy_100; quantities of the last number have no suffix.
      rows += score(after, '' if step == self.steps[-1] else f'_{step}')
    return rows

  def by_random_weights(
    self,
    predictor: core.Adaptable,
    seed: int,
    answer: Callable[[core.Adaptable], np.ndarray],
    score: Score,
    names: tuple[str, ...],
  ) -> list[core.Scores]:
    """Scores NAME_untrained of the same network with random weights.

    Args:
      predictor: the model; one without a network gives unmeasured rows.
      seed: seed of the random weights.
      answer: function that tunes a predictor on the tasks and returns answers
        [S, ...], of which the last are scored.
      score: see Score.
      names: names of the quantities of unmeasured rows.
    """
    untrained = twin(predictor, seed)
    if untrained is None:
      return [
        core.scores(
          f'{name}_untrained', [np.nan], reason=['no_untrained_model']
        )
        for name in names
      ]
    # The reported control is after the last number of steps.
    return score(answer(untrained)[-1], '_untrained')


def sequences(
  world: core.World, num: int, seed: int, split: str, *, whole: bool = False
) -> core.Sequences:
  """Samples `num` sequences of a split; perhaps fewer of 'heldout'.

  whole: no fewer of 'heldout', either.

  Raises:
    InputError: the world has no sequence, or fewer than `num`.
  """
  drawn = world.sample(num, seed, split=split)
  least = num if whole or split == 'train' else 1
  if len(drawn) < least:
    raise core.InputError(
      f'{registry.spec(world)} gave {len(drawn)} sequences of split {split}; '
      f'expected {least}'
    )
  return drawn


def both_splits(
  world: core.World, nums: tuple[int, int], seed: int, streams: tuple[int, int]
) -> tuple[core.Sequences, core.Sequences]:
  """So many sequences of 'train' and of 'heldout'; see `sequences`."""
  train, heldout = (
    sequences(world, num, basics.stream(seed, stream), split)
    for num, stream, split in zip(
      nums, streams, ('train', 'heldout'), strict=True
    )
  )
  return train, heldout


def twin(predictor: core.Adaptable, seed: int) -> core.Adaptable | None:
  """The same network with random weights; None if it cannot be adapted."""
  network: object = None
  if core.can(predictor, core.HiddenStates.untrained):
    network = predictor.untrained(seed)
  return network if isinstance(network, core.Adaptable) else None


def labelled_places(world: core.World, drawn: core.Sequences) -> np.ndarray:
  """[N, L] bool: positions of sequences that may have labels.

  They are after the prompt, not at an end token, and before the longest
  sequence's last token, which a next-token model was never trained to read.
  """
  every = np.arange(drawn.tokens.shape[1])
  valid = every < drawn.lengths[:, None]
  valid &= (every >= world.prompt_len) & (every < world.max_len - 1)
  return valid & ((drawn.tokens != world.end) | (world.end == core.DEAD))


def places(
  world: core.World, drawn: core.Sequences, num: int, seed: int
) -> np.ndarray:
  """[N, P] int32 positions from `labelled_places`, ascending, padded with DEAD.

  num: random positions of each sequence, P; 0 is all.
  """
  valid = labelled_places(world, drawn)
  if num:
    rows, every = np.arange(len(valid))[:, None], np.arange(valid.shape[1])
    valid = basics.lowest(valid, basics.hash64(seed, rows, every), num)
  return basics.listed(valid)


def every_place(mask: np.ndarray) -> np.ndarray:
  """[N, L] int32: each position where the mask is True, else DEAD."""
  places = np.arange(mask.shape[1], dtype=np.int32)
  return np.where(mask, places, np.int32(core.DEAD))
