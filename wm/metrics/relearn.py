"""Relearning: how many sequences teach a model a world with one rule changed?

Two tokens exchange their effects: two directions of a map, two generators of a
group, or two squares of a board. Nothing else changes. The model is tuned on
few sequences of the changed world to predict the next token, and judged by the
legal tokens there. Knowledge of the unchanged world helps if the model
represents it independently of the token names.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np
import scipy

from wm import core
from wm.core import adapting, basics
from wm.core.fields import field
from wm.evaluation import context, fewshot

# Streams of randomness under one seed.
TRAINED, TESTED, DRAWN, ADAPTED, _, PLACES = range(41, 47)
# A world is relearned at this share of the illegal mass of token frequencies.
HALF = 0.5
# The most common tokens, of which two are exchanged.
COMMON = 16
MOST = 100_000  # Most sequences to learn from.
CHANGES = 2  # Most pairs of tokens.
HELDOUT = 100  # Scored sequences.
SCORED = 16  # Scored positions of each of them.
BATCH = 32  # Sequences of a step, drawn with replacement.


@dataclasses.dataclass(frozen=True)
class Metric(fewshot.FewShotMetric):
  """Tunes the model on sequences of worlds in which two tokens are exchanged.

  The pairs are the most common tokens whose exchange makes some sequences
  illegal; other exchanges do not change the world. Each pair and each number of
  sequences is a data set with a new head. The model reads held-out sequences of
  the changed world, and the metric takes the probability of illegal tokens at
  positions after the prompt.

  Attributes:
    sizes: numbers of sequences to learn from.
    swap: exchange the tokens; False: the model relearns the unchanged world.
    steps: ascending numbers of training steps to score after; quantities of the
      last have no number in their names.

  Glossary:
    illegal: Probability that the tuned model gives to illegal tokens of the
      changed world, mean over the numbers of sequences. It is low if few
      sequences are enough.
    sequences: Number of sequences at which the probability of illegal tokens is
      half that of token frequencies, interpolated on a logarithmic scale. It is
      missing if no number is enough.
    illegal_frequencies: Probability that token frequencies give to illegal
      tokens. A model without context has this value of illegal.
    change: the two tokens that are exchanged
  """

  needs: ClassVar[tuple[core.Need, ...]] = (core.Adaptable,)
  rate: ClassVar[float] = 3e-3
  measures: ClassVar[Mapping[str, core.Measure]] = {
    'illegal': core.Measure(0, 'relearns from few sequences'),
    'sequences': core.Measure(headline=True, less_is_better=True),
  }
  breakdown: ClassVar[tuple[str, ...]] = ('change',)

  sizes: tuple[int, ...] = field(
    (8, 32, 128), least=1, most=MOST, fewest=1, ascending=True
  )
  swap: bool = True
  steps: tuple[int, ...] = field((100,), **fewshot.STEPS)

  def __call__(
    self, predictor: core.Adaptable, world: core.World, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric; a row per change and held-out sequence."""
    names = 'illegal', 'sequences'
    task = self._task(world, seed)
    if not len(task.swaps):
      why = ['no_rule_changes']
      return tuple(core.scores(name, [np.nan], reason=why) for name in names)

    def answer(learner: core.Adaptable) -> np.ndarray:
      return task.mass(self, learner, basics.stream(seed, ADAPTED))

    rows = self.by_step(answer(predictor), task.scores)
    rows.append(task.rows('illegal_frequencies', task.frequencies))
    return tuple(rows)

  def _task(self, world: core.World, seed: int) -> ChangedWorlds:
    nums, streams = (self.sizes[-1], HELDOUT), (TRAINED, TESTED)
    trained, tested = fewshot.both_splits(world, nums, seed, streams)
    counts = np.bincount(
      trained.tokens[_places(world, trained, 1)], minlength=len(world.vocab)
    )
    swaps = _swaps(world, trained, counts, CHANGES)
    if not self.swap:
      swaps = np.repeat(np.arange(len(world.vocab))[None], len(swaps[:1]), 0)
    mask = _places(world, tested)
    rows, every = np.ogrid[: mask.shape[0], : mask.shape[1]]
    coins = basics.hash64(basics.stream(seed, PLACES), rows, every)
    places = basics.listed(basics.lowest(mask, coins, SCORED))
    shares = np.broadcast_to(
      counts / counts.sum(), (*places.shape, len(counts))
    )
    mass = _illegal(world, tested, places, shares)
    return ChangedWorlds(
      *(world, swaps, self.sizes, trained, tested, places),
      np.repeat(mass[None], len(swaps), 0),
    )


class ChangedWorlds(NamedTuple):
  """C changes of a world, and sequences of the unchanged world.

  Attributes:
    world: the unchanged world.
    swaps: [C, V] int64: new token of each token; a swap is its own inverse.
    sizes: S numbers of sequences to learn from.
    trained: [N] sequences to learn from.
    tested: [M] sequences to score.
    places: [M, P] scored positions of these, padded with DEAD.
    frequencies: [C, M, 2] summed illegal mass of token frequencies, and the
      number of positions.
  """

  world: core.World
  swaps: np.ndarray
  sizes: tuple[int, ...]
  trained: core.Sequences
  tested: core.Sequences
  places: np.ndarray
  frequencies: np.ndarray

  def mass(
    self, metric: Metric, learner: core.Adaptable, seed: int
  ) -> np.ndarray:
    """[steps, S, C, M, 2] summed illegal mass, and number of positions."""
    sets = self._sets()
    sizes = np.tile(self.sizes, len(self.swaps))[:, None]
    every = np.arange(len(sizes))[:, None]

    def drawn(step: int) -> adapting.FewShotTasks:
      # Depends on the step alone, so that a resumed run reads the same.
      coin = basics.hash64(basics.stream(seed, DRAWN), step, np.arange(BATCH))
      rows = (coin % sizes.astype(np.uint64)).astype(np.int64)
      return adapting.FewShotTasks(*(array[every, rows] for array in sets))

    tested = self._renamed(self.tested)
    places = np.broadcast_to(self.places, (len(sizes), *self.places.shape))
    queries = adapting.QueryPoints(tested, places)
    outputs = metric.fine_tune(
      learner,
      adapting.TaskStream(drawn),
      queries,
      adapting.Classes(len(self.world.vocab)),
      seed,
    )[..., 0, :]
    # [steps, C, S, M, P, V]
    shape = len(outputs), len(self.swaps), len(self.sizes), *outputs.shape[2:]
    outputs = outputs.reshape(shape)
    asked = self.world, self.tested, self.places
    return np.array(
      [
        [
          [
            _illegal(*asked, scipy.special.softmax(each[..., swap], -1))
            for swap, each in zip(self.swaps, of_step[:, s], strict=True)
          ]
          for s in range(len(self.sizes))
        ]
        for of_step in outputs
      ]
    )

  def _renamed(self, sequences: core.Sequences) -> np.ndarray:
    """[C * S, N, L] int32: sequences with exchanged tokens after the prompt."""
    renamed = [_exchanged(self.world, sequences, swap) for swap in self.swaps]
    return np.repeat(np.array(renamed), len(self.sizes), 0)

  def _sets(self) -> adapting.FewShotTasks:
    """A data set for each change and size; all hold the largest size."""
    tokens = self._renamed(self.trained)
    places = fewshot.every_place(_places(self.world, self.trained))
    labels = np.roll(tokens, -1, axis=-1)[..., None]
    places = np.broadcast_to(places, tokens.shape)
    return adapting.FewShotTasks(tokens, places, labels)

  def scores(self, mass: np.ndarray, end: str) -> list[core.Scores]:
    """Scores of illegal mass [S, C, M, 2]; end: suffix of their names."""
    rows = [self.rows(f'illegal{end}', mass.mean(0))]
    # [S, C] and [C]: means over places.
    curve, frequencies = (
      values[..., 0].sum(-1) / values[..., 1].sum(-1)
      for values in (mass, self.frequencies)
    )
    needed = [
      _crossing(self.sizes, each, HALF * start)
      for each, start in zip(curve.T, frequencies, strict=True)
    ]
    reason = np.where(np.isnan(needed), 'not_in_these', '')
    name = f'sequences{end}'
    columns = {'change': self._names()}
    rows.append(
      core.scores(
        *(name, needed), reason=reason, columns=columns, bounds=(0.0, None)
      )
    )
    return rows

  def rows(self, name: str, mass: np.ndarray) -> core.Scores:
    """Mean mass by change and sequence, of summed mass [C, M, 2]."""
    weight = mass[..., 1].ravel()
    value = mass[..., 0].ravel() / np.maximum(weight, 1)
    changes, num = mass.shape[:2]
    return core.scores(
      name,
      value,
      reason=np.where(weight > 0, '', 'no_places'),
      group=np.tile(context.clusters(self.world, self.tested), changes),
      weight=weight,
      columns={
        'change': np.repeat(self._names(), num),
        'sequence': np.tile(np.arange(num), changes),
        'places': weight.astype(np.int64),
      },
      bounds=(0.0, 1.0),
    )

  def _names(self) -> np.ndarray:
    """[C] str: the tokens that each change exchanges."""
    moved = [np.flatnonzero(s != np.arange(len(s))) for s in self.swaps]
    return np.array(
      [' <-> '.join(self.world.vocab[k] for k in each) for each in moved]
    )


def _places(
  world: core.World, sequences: core.Sequences, ahead: int = 0
) -> np.ndarray:
  """[N, L] bool: positions just before tokens after the prompt.

  ahead: 1 gives the positions of these tokens themselves.
  """
  every = np.arange(sequences.tokens.shape[1]) - ahead
  first = max(world.prompt_len, 1) - 1
  return (every >= first) & (every + 1 < sequences.lengths[:, None])


def _swaps(
  world: core.World, sequences: core.Sequences, counts: np.ndarray, most: int
) -> np.ndarray:
  """[C, V] exchanges of two common tokens that make some sequences illegal."""
  tokens = [k for k in np.argsort(-counts, kind='stable') if counts[k]]
  tokens = [k for k in tokens if k != world.end][:COMMON]
  # Ordered by the rarer token: exchanging a rare token changes little.
  pairs = sorted(
    itertools.combinations(range(len(tokens)), 2), key=lambda pair: pair[1]
  )
  swaps: list[np.ndarray] = []
  for first, second in pairs:
    swap = np.arange(len(world.vocab))
    swap[[tokens[first], tokens[second]]] = tokens[second], tokens[first]
    legal, _ = world.walk(
      world.init(len(sequences)),
      _exchanged(world, sequences, swap),
      sequences.lengths,
    )
    if (legal < sequences.lengths).any():
      swaps.append(swap)
    if len(swaps) == most:
      break
  return np.array(swaps, np.int64).reshape(-1, len(world.vocab))


def _exchanged(
  world: core.World, sequences: core.Sequences, swap: np.ndarray
) -> np.ndarray:
  """[N, L] tokens of sequences, exchanged after the prompt."""
  start = world.prompt_len
  return np.hstack(
    [sequences.tokens[:, :start], swap[sequences.tokens[:, start:]]]
  )


def _illegal(
  world: core.World,
  sequences: core.Sequences,
  places: np.ndarray,
  shares: np.ndarray,
) -> np.ndarray:
  """[M, 2] summed mass of illegal tokens, and number of positions.

  shares: [M, P, V] probabilities.
  """
  sums = np.zeros((len(sequences), 2))
  states = world.init(len(sequences))
  for t in range(int(places.max(initial=core.DEAD)) + 1):
    rows = np.flatnonzero(t < sequences.lengths)
    states[rows] = world.advance(states[rows], sequences.tokens[rows, t])
    rows, column = np.nonzero(places == t)
    legal = world.legal(states[rows])
    sums[rows, 0] += np.where(legal, 0, shares[rows, column]).sum(-1)
    sums[rows, 1] += 1
  return sums


def _crossing(sizes: tuple[int, ...], mass: np.ndarray, least: float) -> float:
  """The size at which mass [S] falls to `least`; NaN if it never does."""
  below = np.flatnonzero(mass <= least)
  if not below.size:
    return float('nan')
  k = int(below[0])
  if k == 0:
    return float(sizes[0])
  share = (mass[k - 1] - least) / (mass[k - 1] - mass[k])
  low, high = np.log(sizes[k - 1]), np.log(sizes[k])
  return float(np.exp(low + share * (high - low)))
