"""Trials of a metric, their prefixes, and the side columns of their rows."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import accept as rules
from wm.core import basics, capabilities

# Trials in flight where a metric says nothing else.
BATCH = 16
# Streams of randomness under one seed.
STATES, OTHERS, MOVES, PREFIXES, SAMPLES = range(1, 6)


def token_texts(
  world: core.World,
  tokens: Sequence[Sequence[int]] | np.ndarray,
  lengths: np.ndarray | None = None,
) -> np.ndarray:
  """[N] str: rows of tokens in words, joined by blanks.

  tokens: N rows; lengths: [N] how many of each count, default all.
  """
  vocab = world.vocab
  cut = [None] * len(tokens) if lengths is None else lengths
  words = [
    ' '.join([vocab[token] for token in row[:size]])
    for row, size in zip(tokens, cut, strict=True)
  ]
  return np.array(words, dtype=str)


def tags(world: core.World, states: np.ndarray) -> dict[str, np.ndarray]:
  """Columns [B] that break results down; see core.Described.tags."""
  # Worlds without tags are broken down by nothing of their own.
  return world.tags(states) if core.can(world, core.Described.tags) else {}


class PrefixPairs(NamedTuple):
  """Two prefixes for each of T trials, of equally many moves.

  Attributes:
    first, second: [T, W] states that they reach.
    tokens: [T, 2, L] int32.
    lengths: [T, 2] int32.
    moves: [T] int32.
    reason: [T] str, '' where there are two prefixes and the trial is run, else
      why not.
    trial: [T] number of the trial.
    direction: [T] 0, or 1 where first and second are swapped.
    counts: resamples by cause.
  """

  first: np.ndarray
  second: np.ndarray
  tokens: np.ndarray
  lengths: np.ndarray
  moves: np.ndarray
  reason: np.ndarray
  trial: np.ndarray
  direction: np.ndarray
  counts: dict[str, int]


def count(counts: dict[str, int], cause: str, rows: np.ndarray) -> None:
  """Adds the True ones among `rows` to counts[cause], if there are any."""
  if rows.any():
    counts[cause] = counts.get(cause, 0) + int(rows.sum())


def clusters(world: core.World, sequences: core.Sequences) -> np.ndarray:
  """[N] int64 cluster of each sequence: sequences of one task go together."""
  # Keys are hashes; clusters count from 0.
  return np.unique(world.split_key(sequences), return_inverse=True)[1]


@dataclasses.dataclass(frozen=True)
class Trials:
  """T trials were drawn; the R among them that have two prefixes are run.

  Arrays [R, ...] are of the trials that are run, in order; `rows` says which
  of the T they are.

  Attributes:
    predictor: what is scored.
    world: the truth.
    prefixes: of all T trials.
    accept: the rule by which the model accepts a token.
    sampler: the rule by which continuations are drawn.
    seed: of all randomness.
    batch: most trials in flight; no effect on results.
    loop: 'host', 'device' or 'auto', see `wm.evaluation.engine`: same results,
      except that ties between tokens may resolve differently.
    trials_per_draw: consecutive trials that share a drawn state.
    census: whether the first states are all that there are, see `groups`.
  """

  predictor: core.Predictor
  world: core.World
  prefixes: PrefixPairs
  accept: rules.Accept
  sampler: rules.Accept
  seed: int = 0
  batch: int = BATCH
  loop: str = 'auto'
  trials_per_draw: int = 1
  census: bool = False

  @functools.cached_property
  def groups(self) -> np.ndarray:
    """[T] int64 clusters of dependent trials.

    Trials of one first state are a cluster, as those of a state that was not
    drawn may be unlike them. In a census no state is left out: only prefixes
    and continuations are a sample, and each draw is independent. Both
    directions of a pair are in one cluster.
    """
    prefixes = self.prefixes
    if self.census:
      return prefixes.trial // self.trials_per_draw
    swapped = prefixes.direction[:, None] == 1
    origin = np.where(swapped, prefixes.second, prefixes.first)
    return self.world.state_id(origin)

  @functools.cached_property
  def rows(self) -> np.ndarray:
    """[R] which of the T trials are run."""
    return np.flatnonzero(self.prefixes.reason == '')

  @property
  def first(self) -> np.ndarray:
    """[R, W] states that the first prefixes reach."""
    return self.prefixes.first[self.rows]

  @property
  def second(self) -> np.ndarray:
    """[R, W] states that the second prefixes reach."""
    return self.prefixes.second[self.rows]

  @property
  def numbers(self) -> np.ndarray:
    """[R] numbers of the trials that are run; both directions have one."""
    return self.prefixes.trial[self.rows]

  @functools.cached_property
  def tokens(self) -> np.ndarray:
    """[R, 2, L] int32 prefixes."""
    return self.prefixes.tokens[self.rows]

  @functools.cached_property
  def lengths(self) -> np.ndarray:
    """[R, 2] int32 lengths of prefixes."""
    return self.prefixes.lengths[self.rows]

  @functools.cached_property
  def room(self) -> np.ndarray:
    """[R] most tokens that fit after the longer prefix.

    Both the model and the world are made for sequences of some length.
    """
    # A continuation has to fit both.
    longest = min(self.predictor.max_len, self.world.max_len)
    return np.maximum(longest - self.lengths.max(1), 0).astype(np.int64)

  def keys(self, *words: int) -> np.ndarray:
    """[R] uint64 hashes for one use of randomness, by trial and direction."""
    # Both directions of a pair have one number, and randomness of their own.
    direction = self.prefixes.direction[self.rows]
    return basics.hash64(self.seed, *words, self.numbers, direction)

  def filled(self, array: np.ndarray, values: np.ndarray) -> np.ndarray:
    """A copy of `array` [T] with `values` [R] for the trials that were run.

    Wide enough for both, strings included.
    """
    # Strings are cut to the width of an array's dtype without a warning.
    copy = array.astype(np.promote_types(array.dtype, values.dtype))
    copy[self.rows] = values
    return copy

  def states_once(
    self, quantities: Sequence[core.Scores]
  ) -> tuple[core.Scores, ...]:
    """Scores, weighted so that each state that was drawn counts once in each
    direction, however many of its pairs are measured.
    """
    # A number for each state and direction.
    prefixes = self.prefixes
    state = prefixes.trial // self.trials_per_draw * 2 + prefixes.direction
    weighted = []
    for scores in quantities:
      measured = np.bincount(state, scores.measured)[state]
      weight = scores.weight / np.maximum(measured, 1)
      weighted.append(dataclasses.replace(scores, weight=weight))
    return tuple(weighted)

  @functools.cached_property
  def columns(self) -> dict[str, np.ndarray]:
    """Side columns [T] of every quantity.

    Number of the trial, first state as written, moves, direction, and the
    world's tags of the first state.
    """
    return {
      'trial': self.prefixes.trial,
      'state': capabilities.written(self.world, self.prefixes.first),
      'moves': self.prefixes.moves,
      'direction': self.prefixes.direction,
      **tags(self.world, self.prefixes.first),
    }

  def picture_columns(
    self, suffixes: np.ndarray, lengths: np.ndarray, wrong_at: np.ndarray
  ) -> dict[str, np.ndarray]:
    """Side columns [T] that a report pictures trials from; see core.Metric.

    Args:
      suffixes: [R, K] the continuation that tells.
      lengths: [R] of these; 0 where none does.
      wrong_at: [R] place in it, from 1, of the token at which model and world
        part; 0 where unknown.
    """
    # Texts are of all T trials; suffixes exist for the R that were run.
    pairs, none = self.prefixes, np.zeros(len(self.prefixes.reason), np.int64)
    suffix_texts = token_texts(self.world, suffixes, lengths)
    first, second = (
      token_texts(self.world, pairs.tokens[:, side], pairs.lengths[:, side])
      for side in range(2)
    )
    return {
      'prefix': first,
      'other_prefix': second,
      'other_state': capabilities.written(self.world, pairs.second),
      'suffix': self.filled(np.full(len(none), ''), suffix_texts),
      'wrong_at': self.filled(none, wrong_at),
    }
