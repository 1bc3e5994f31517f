"""Few-shot adaptation as the metrics run it: tasks, random twins, answers."""

from __future__ import annotations

import numpy as np

from wm import core
from wm.core import registry


def sequences(
  metric: core.Metric, world: core.World, num: int, seed: int, split: str
) -> core.Sequences:
  """`num` sequences of a split; fewer only of held-out ones.

  Raises:
    InputError: the world has fewer.
  """
  found = world.sample(num, seed, split=split)
  if not len(found):
    raise core.InputError(
      f'{metric.name}: {registry.spec(world)} gave no sequence of split {split}'
    )
  if split == 'train' and len(found) < num:
    raise core.InputError(
      f'{metric.name}: {registry.spec(world)} gave {len(found)} training '
      f'sequences; expected {num}'
    )
  return found


def batches(sets: core.Sets, num: int, seed: int) -> core.Sets | core.Stream:
  """Data sets whose every step reads `num` of their sequences, by chance.

  Vafa et al. 2025: drawn with replacement, or all in order where there are no
  more than so many; 0 is all, too.
  """
  many, size = sets.tokens.shape[:2]
  if not 0 < num < size:
    return sets
  each = np.arange(many)[:, None]

  def draw(step: int) -> core.Sets:
    """Each data set's own sequences."""
    coin = core.hash64(seed, step, each, np.arange(num))
    rows = (coin % np.uint64(size)).astype(np.int64)
    return core.Sets(*(array[each, rows] for array in sets))

  return core.Stream(draw)


def twin(predictor: core.Adaptable, seed: int) -> core.Adaptable | None:
  """The same network with random weights, if there is one to adapt."""
  found: object = None
  if core.can(predictor, core.HiddenStates.untrained):
    found = predictor.untrained(seed)
  return found if isinstance(found, core.Adaptable) else None


def no_twin(names: tuple[str, ...]) -> list[core.Scores]:
  """Rows NAME_untrained that say that there is none."""
  why = ['no_untrained_model']
  return [
    core.scores(f'{name}_untrained', [np.nan], reason=why) for name in names
  ]


def places(
  world: core.World, found: core.Sequences, num: int, seed: int
) -> np.ndarray:
  """[N, P] int32 places of each sequence, ascending, DEAD where no more.

  After the prompt, not after an end token, and before the longest sequence's
  last token, which no model of next tokens was trained to read.

  num: random ones of each, P; 0 is all.
  """
  tokens = found.tokens
  every = np.arange(tokens.shape[1], dtype=np.int32)
  there = every < found.lengths[:, None]
  there &= (every >= world.prompt_len) & (every < world.max_len - 1)
  there &= (tokens != world.end) | (world.end == core.DEAD)
  rows = np.arange(len(tokens))[:, None]
  if num:
    keys = core.hash64(seed, rows, every) >> np.uint64(1)
    keys = np.where(there, keys, np.uint64(2**63))
    rank = keys.argsort(axis=1, kind='stable').argsort(axis=1)
    there &= rank < num
  width = max(int(there.sum(1).max(initial=0)), 1)
  # Those that are there come first, ascending.
  order = np.where(there, every, np.int32(len(every))).argsort(
    axis=1, kind='stable'
  )[:, :width]
  return np.where(there[rows, order], every[order], np.int32(core.DEAD))
