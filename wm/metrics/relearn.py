"""Relearning: how many sequences teach a model a world with one rule changed?

Two tokens exchange what they do: on a map two directions, in a group two
generators, on a board two squares. All else stays as it was. The model is
tuned on few sequences of the changed world, to name the next token, and judged
by what is legal there. What it knew of the unchanged world helps as far as it
is kept apart from the names of the tokens.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from wm import core
from wm.core import adapting, basics
from wm.core.fields import field
from wm.evaluation import context, fewshot

# Streams of randomness under one seed.
TRAINED, TESTED, DRAWN, ADAPTED, FRESH, PLACES = range(41, 47)
# Share of the illegal mass of token frequencies that counts as relearned.
HALF = 0.5
# Tokens, the commonest ones, of which two are exchanged.
COMMON = 16
MOST = 100_000  # Sequences to learn from, and of a step.


@dataclasses.dataclass(frozen=True)
class Metric(fewshot.FewShotMetric):
  """Tunes the model on sequences of worlds in which two tokens are exchanged.

  The pairs of tokens are the commonest ones of which an exchange makes illegal
  sequences: an exchange that the world cannot tell from none is no change.
  Each pair and each number of sequences is a data set of its own with a new
  head. Held-out sequences of the changed world are read, and at places before a
  token after the prompt the probability of illegal tokens is taken.

  Attributes:
    sizes: numbers of sequences to learn from.
    changes: pairs of tokens, at most.
    tested: held-out sequences.
    places: scored in each of them, drawn; 0 is all.
    batch: sequences of a step, drawn with replacement; 0 is all at each step.
    swap: exchange the tokens; without, it is learned what was known before.
    steps: numbers of steps after which to score; the last one's quantities
      have no number in their names.
    rates: learning rates; of several, the best by validation loss.
    held: further sequences of each data set, for validation.
    part: 'all' weights are tuned, or the 'head' alone.
    keep: weights of the 'last' step, or the 'best' by validation loss.
    untrained: adapt random weights too, where there are such.

  Glossary:
    illegal: Probability that the tuned model gives to illegal tokens of the
      changed world, as a mean over the numbers of sequences. It is low if few
      sequences are enough.
    sequences: Sequences from which that probability is half of what it is for
      token frequencies, interpolated on a scale of logarithms. A change for
      which all numbers are too few has none.
    illegal_frequencies: Probability that token frequencies give to illegal
      tokens. It is what illegal is for a model that reads no context.
    illegal_untrained: As illegal, of the same network with random weights,
      tuned alike. What is below it was carried over.
    sequences_untrained: As sequences, of the same network with random weights,
      tuned alike. What is fewer was carried over.
    change: the two tokens that are exchanged
  """

  needs: ClassVar[tuple[core.Need, ...]] = (core.Adaptable,)
  sized_by: ClassVar[tuple[str, ...]] = ('tested', 'tested places')
  headline: ClassVar[tuple[str, ...]] = ('illegal', 'sequences')
  ideal: ClassVar[Mapping[str, str]] = {
    'illegal': '0: relearns from few sequences',
  }
  less_is_better: ClassVar[tuple[str, ...]] = ('illegal', 'sequences')
  breakdown: ClassVar[tuple[str, ...]] = ('change',)

  sizes: tuple[int, ...] = field(
    (8, 32, 128), least=1, most=MOST, fewest=1, ascending=True
  )
  changes: int = field(2, least=1)
  tested: int = field(100, least=1)
  places: int = field(16, least=0)
  batch: int = field(32, least=0, most=MOST)
  swap: bool = True
  steps: tuple[int, ...] = field((100,), **fewshot.STEPS)
  rates: tuple[float, ...] = field((3e-3,), **fewshot.RATES)
  held: int = field(0, least=0)
  part: str = field('all', choices=fewshot.PARTS)
  keep: str = field('last', choices=fewshot.KEEPS)
  untrained: bool = False

  def passes(self) -> int:
    """See core.Metric: the model, and one with random weights."""
    return 1 + self.untrained

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
    if self.untrained:
      rows += self.by_random_weights(
        predictor, basics.stream(seed, FRESH), answer, task.scores, names
      )
    return tuple(rows)

  def _task(self, world: core.World, seed: int) -> ChangedWorlds:
    num = self.sizes[-1] + self.held
    trained, tested = (
      fewshot.sequences(self, world, size, basics.stream(seed, word), split)
      for size, word, split in (
        (num, TRAINED, 'train'),
        (self.tested, TESTED, 'heldout'),
      )
    )
    counts = np.bincount(
      trained.tokens[_places(world, trained, 1)], minlength=len(world.vocab)
    )
    swaps = _swaps(world, trained, counts, self.changes)
    if not self.swap:
      swaps = np.repeat(np.arange(len(world.vocab))[None], len(swaps[:1]), 0)
    mask = _places(world, tested)
    if self.places:
      rows, every = np.ogrid[: mask.shape[0], : mask.shape[1]]
      coins = basics.hash64(basics.stream(seed, PLACES), rows, every)
      mask = basics.lowest(mask, coins, self.places)
    places = basics.listed(mask)
    shares = np.broadcast_to(
      counts / counts.sum(), (*places.shape, len(counts))
    )
    mass = _illegal(world, tested, places, shares)
    return ChangedWorlds(
      *(world, swaps, self.sizes, trained, tested, places),
      np.repeat(mass[None], len(swaps), 0),
    )


class ChangedWorlds(NamedTuple):
  """Worlds of C changes, and sequences of the unchanged one.

  Attributes:
    world: the unchanged one.
    swaps: [C, V] int64: the token that each one becomes; its own inverse.
    sizes: numbers of sequences to learn from, S.
    trained: [N] sequences to learn from, those of validation last.
    tested: [M] sequences to score.
    places: [M, P] of these, DEAD where there are no more.
    frequencies: [C, M, 2] illegal mass of token frequencies, and places.
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
    """[steps, S, C, M, 2] summed illegal mass, and places."""
    sets, validation = metric.with_validation(self._sets, self.sizes[-1])
    sizes = np.tile(self.sizes, len(self.swaps))[:, None]
    every = np.arange(len(sizes))[:, None]

    def drawn(step: int) -> adapting.FewShotTasks:
      # A function of the step alone, as a resumed run must read the same.
      num = metric.batch or self.sizes[-1]
      coin = basics.hash64(basics.stream(seed, DRAWN), step, np.arange(num))
      rows = (coin % sizes.astype(np.uint64)).astype(np.int64)
      if not metric.batch:
        rows = np.arange(num) % sizes
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
      validation=validation,
    )[..., 0, :]
    # [steps, C, S, M, P, V]
    shape = len(outputs), len(self.swaps), len(self.sizes), *outputs.shape[2:]
    outputs = outputs.reshape(shape)
    asked = self.world, self.tested, self.places
    return np.array(
      [
        [
          [
            _illegal(*asked, _shares(each[..., swap]))
            for swap, each in zip(self.swaps, of_step[:, s], strict=True)
          ]
          for s in range(len(self.sizes))
        ]
        for of_step in outputs
      ]
    )

  def _renamed(self, sequences: core.Sequences) -> np.ndarray:
    """[C * S, N, L] int32: tokens after the prompt, exchanged."""
    renamed = [_exchanged(self.world, sequences, swap) for swap in self.swaps]
    return np.repeat(np.array(renamed), len(self.sizes), 0)

  def _sets(self, rows: slice) -> adapting.FewShotTasks:
    """A data set for each change and size, with the sequences of the largest.

    rows: of the sequences to learn from.
    """
    sequences = self.trained.take(np.arange(len(self.trained))[rows])
    tokens = self._renamed(sequences)
    places = fewshot.every_place(_places(self.world, sequences))
    labels = np.roll(tokens, -1, axis=-1)[..., None]
    places = np.broadcast_to(places, tokens.shape)
    return adapting.FewShotTasks(tokens, places, labels)

  def scores(self, mass: np.ndarray, end: str) -> list[core.Scores]:
    """Scores of illegal mass [S, C, M, 2]; end: of the quantities' names."""
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
  """[N, L] bool: places before a token after the prompt; ahead=1: its own."""
  every = np.arange(sequences.tokens.shape[1]) - ahead
  first = max(world.prompt_len, 1) - 1
  return (every >= first) & (every + 1 < sequences.lengths[:, None])


def _swaps(
  world: core.World, sequences: core.Sequences, counts: np.ndarray, most: int
) -> np.ndarray:
  """[C, V] exchanges of two common tokens that make something illegal."""
  tokens = [k for k in np.argsort(-counts, kind='stable') if counts[k]]
  tokens = [k for k in tokens if k != world.end][:COMMON]
  # By the rarer of both: an exchange with a token that is rare changes little.
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
  """[N, L] tokens of sequences, those after the prompt exchanged."""
  start = world.prompt_len
  return np.hstack(
    [sequences.tokens[:, :start], swap[sequences.tokens[:, start:]]]
  )


def _shares(outputs: np.ndarray) -> np.ndarray:
  """Probabilities of scores [..., V]."""
  odds = np.exp(outputs - outputs.max(-1, keepdims=True))
  return odds / odds.sum(-1, keepdims=True)


def _illegal(
  world: core.World,
  sequences: core.Sequences,
  places: np.ndarray,
  shares: np.ndarray,
) -> np.ndarray:
  """[M, 2] summed mass of illegal tokens by shares [M, P, V], and places."""
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
  """The size at which mass [S] comes down to `least`; NaN if at none."""
  below = np.flatnonzero(mass <= least)
  if not below.size:
    return float('nan')
  k = int(below[0])
  if k == 0:
    return float(sizes[0])
  share = (mass[k - 1] - least) / (mass[k - 1] - mass[k])
  low, high = np.log(sizes[k - 1]), np.log(sizes[k])
  return float(np.exp(low + share * (high - low)))
