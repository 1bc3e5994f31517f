"""Few-shot adaptation as the metrics run it: tasks, random twins, answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from wm import core
from wm.core import adapting, basics, registry
from wm.core.fields import field_error

# Scores of answers to all tasks after one number of steps; the suffix ends the
# names of their quantities.
Score = Callable[[np.ndarray, str], list[core.Scores]]
# Limits of the fields that few-shot metrics share.
STEPS: dict[str, Any] = {'least': 1, 'fewest': 1, 'ascending': True}
RATES: dict[str, Any] = {'above': 0, 'fewest': 1}
PARTS, KEEPS = ('all', 'head'), ('last', 'best')


class FewShotMetric(core.Metric):
  """A metric that fine-tunes a model on few-shot tasks, and scores its answers.

  A subclass declares the fields below, draws its tasks, and scores answers:

    tasks, queries --fine_tune--> outputs [S, D, M, P, ...] --by_step--> Scores
                                  S numbers of steps

  Attributes:
    steps: numbers of steps after which to score; the last one's quantities
      have no number in their names.
    rates: learning rates; of several, the best by validation loss.
    held: further labelled sequences of each task, for validation.
    part: 'all' weights, or the 'head' alone.
    keep: weights of the 'last' step, or the 'best' by validation loss.
  """

  repeats: ClassVar[tuple[str, ...]] = ('steps rates',)

  steps: tuple[int, ...]
  rates: tuple[float, ...]
  held: int
  part: str
  keep: str

  def __post_init__(self) -> None:
    super().__post_init__()
    if (len(self.rates) > 1 or self.keep == 'best') and not self.held:
      expected = 'validation labels to choose by, held >= 1'
      raise field_error(self, 'rates keep held', expected)

  def fine_tune(
    self,
    predictor: core.Adaptable,
    tasks: adapting.FewShotTasks | adapting.TaskStream,
    queries: adapting.QueryPoints,
    labels: adapting.LabelSpec,
    seed: int,
    *,
    validation: adapting.FewShotTasks | None = None,
    one_head: bool = False,
  ) -> np.ndarray:
    """[S, D, M, P, ...] outputs of the predictor, tuned to each task alone."""
    config = adapting.FineTuneConfig(
      self.rates, self.part, self.keep, one_head, validation
    )
    return predictor.adapt(
      tasks, queries, labels, self.steps, seed, config
    ).outputs

  def with_validation(
    self, part: Callable[[slice], adapting.FewShotTasks], num: int
  ) -> tuple[adapting.FewShotTasks, adapting.FewShotTasks | None]:
    """The first `num` sequences of tasks, and the others for validation.

    part: rows of the sequences -> tasks of these alone.
    """
    train = part(slice(None, num))
    return train, part(slice(num, None)) if self.held else None

  def by_step(self, answers: np.ndarray, score: Score) -> list[core.Scores]:
    """Scores of answers [S, ...] after each number of steps."""
    rows: list[core.Scores] = []
    for step, after in zip(self.steps, answers, strict=True):
      # Names of all but the last number of steps end with it, as accuracy_100.
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
    """Quantities NAME_untrained: the same network with random weights.

    Args:
      predictor: the model; one without a network has rows with a reason.
      seed: of the random weights.
      answer: tunes a predictor on the tasks -> answers [S, ...]; the last are
        scored.
      score: see Score.
      names: of the quantities that rows with a reason have.
    """
    untrained = twin(predictor, seed)
    if untrained is None:
      return [
        core.scores(
          f'{name}_untrained', [np.nan], reason=['no_untrained_model']
        )
        for name in names
      ]
    # After the last number of steps: the control that is reported.
    return score(answer(untrained)[-1], '_untrained')


def sequences(
  metric: core.Metric, world: core.World, num: int, seed: int, split: str
) -> core.Sequences:
  """`num` sequences of a split; fewer only of held-out ones.

  Raises:
    InputError: the world has fewer.
  """
  drawn = world.sample(num, seed, split=split)
  if not len(drawn):
    raise core.InputError(
      f'{metric.name}: {registry.spec(world)} gave no sequence of split {split}'
    )
  if split == 'train' and len(drawn) < num:
    raise core.InputError(
      f'{metric.name}: {registry.spec(world)} gave {len(drawn)} training '
      f'sequences; expected {num}'
    )
  return drawn


def batches(
  sets: adapting.FewShotTasks, num: int, seed: int
) -> adapting.FewShotTasks | adapting.TaskStream:
  """Data sets whose every step reads `num` of their sequences, by chance.

  Vafa et al. 2025: drawn with replacement, or all in order where there are no
  more than so many; 0 is all, too.
  """
  many, size = sets.tokens.shape[:2]
  if not 0 < num < size:
    return sets
  each = np.arange(many)[:, None]

  def draw(step: int) -> adapting.FewShotTasks:
    """Each data set's own sequences."""
    # A function of step and data set alone, as a resumed run must read the
    # same.
    coin = basics.hash64(seed, step, each, np.arange(num))
    # With replacement, as the published program draws them.
    rows = (coin % np.uint64(size)).astype(np.int64)
    return adapting.FewShotTasks(*(array[each, rows] for array in sets))

  return adapting.TaskStream(draw)


def twin(predictor: core.Adaptable, seed: int) -> core.Adaptable | None:
  """The same network with random weights, if there is one to adapt."""
  network: object = None
  if core.can(predictor, core.HiddenStates.untrained):
    network = predictor.untrained(seed)
  return network if isinstance(network, core.Adaptable) else None


def labelled_places(world: core.World, drawn: core.Sequences) -> np.ndarray:
  """[N, L] bool: places of sequences at which a state may be asked about.

  After the prompt, not after an end token, and before the longest sequence's
  last token, which no model of next tokens was trained to read.
  """
  every = np.arange(drawn.tokens.shape[1])
  valid = every < drawn.lengths[:, None]
  valid &= (every >= world.prompt_len) & (every < world.max_len - 1)
  return valid & ((drawn.tokens != world.end) | (world.end == core.DEAD))


def places(
  world: core.World, drawn: core.Sequences, num: int, seed: int
) -> np.ndarray:
  """[N, P] int32 of `labelled_places`, ascending, DEAD where no more.

  num: random ones of each sequence, P; 0 is all.
  """
  valid = labelled_places(world, drawn)
  if num:
    rows, every = np.arange(len(valid))[:, None], np.arange(valid.shape[1])
    valid = basics.lowest(valid, basics.hash64(seed, rows, every), num)
  return basics.listed(valid)


def every_place(mask: np.ndarray) -> np.ndarray:
  """[N, L] int32: the place itself where the mask is true, else DEAD."""
  places = np.arange(mask.shape[1], dtype=np.int32)
  return np.where(mask, places, np.int32(core.DEAD))
