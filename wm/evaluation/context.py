"""Trials of a metric, their prefixes, and the side columns of their rows."""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import accept as rules
from wm.core import basics, capabilities

# Trials in flight; results do not depend on it.
BATCH = 16
# Streams of randomness under one seed.
STATES, OTHERS, MOVES, PREFIXES, SAMPLES, TIES = range(1, 7)


def token_texts(
  world: core.World,
  tokens: Sequence[Sequence[int]] | np.ndarray,
  lengths: np.ndarray | None = None,
) -> np.ndarray:
  """[N] str: token strings of each row, joined by blanks.

  tokens: N rows. lengths: [N] number of tokens of each row; default: all.
  """
  vocab = world.vocab
  cut = [None] * len(tokens) if lengths is None else lengths
  words = [
    ' '.join([vocab[token] for token in row[:size]])
    for row, size in zip(tokens, cut, strict=True)
  ]
  return np.array(words, dtype=str)


def marked_tokens(world: core.World, mask: np.ndarray) -> np.ndarray:
  """[T] str: the tokens that a mask [T, V] marks, joined by blanks."""
  return token_texts(world, [[*np.flatnonzero(row)] for row in mask])


def move_counts(
  columns: Mapping[str, Iterable[str]], name: str
) -> collections.Counter[tuple[str, str]]:
  """Counts of moves, a location and a token, in a column of marked tokens."""
  return collections.Counter(
    (str(place), token)
    for place, tokens in zip(columns['location'], columns[name], strict=True)
    for token in tokens.split()
  )


def locations(world: core.World, states: np.ndarray) -> np.ndarray:
  """[T] str: the part of states [T, W] that decides which moves are legal."""
  if core.can(world, core.Described.locations):
    return world.locations(states)
  return capabilities.written(world, states)


def tags(world: core.World, states: np.ndarray) -> dict[str, np.ndarray]:
  """Columns [B] that break results down; see core.Described.tags."""
  # Worlds without tags add no columns.
  return world.tags(states) if core.can(world, core.Described.tags) else {}


class PrefixPairs(NamedTuple):
  """Two prefixes with equal numbers of moves for each of T trials.

  Attributes:
    first, second: [T, W] states that the prefixes reach.
    tokens: [T, 2, L] int32.
    lengths: [T, 2] int32.
    moves: [T] int32.
    reason: [T] str, '' if the trial has two prefixes and is run, else the
      reason why not.
    trial: [T] number of the trial.
    counts: cause -> number of resamples.
  """

  first: np.ndarray
  second: np.ndarray
  tokens: np.ndarray
  lengths: np.ndarray
  moves: np.ndarray
  reason: np.ndarray
  trial: np.ndarray
  counts: dict[str, int]


def count(counts: dict[str, int], cause: str, rows: np.ndarray) -> None:
  """Adds the number of True `rows` to counts[cause], unless it is 0."""
  if rows.any():
    counts[cause] = counts.get(cause, 0) + int(rows.sum())


def clusters(world: core.World, sequences: core.Sequences) -> np.ndarray:
  """[N] int64 cluster of each sequence; sequences of one task share it."""
  # Keys are hashes; clusters count from 0.
  return np.unique(world.split_key(sequences), return_inverse=True)[1]


@dataclasses.dataclass(frozen=True)
class Trials:
  """T drawn trials, of which the R trials with two prefixes are run.

  Arrays [R, ...] hold the trials that are run, in order; `rows` are their
  indices among the T.

  Attributes:
    predictor: the scored model.
    world: the world that it is scored in.
    prefixes: prefixes of all T trials.
    accept: rule by which the model accepts a token.
    sampler: rule by which continuations are drawn.
    seed: seed of all randomness.
    census: whether the first states are all states of the world; see `groups`.
  """

  predictor: core.Predictor
  world: core.World
  prefixes: PrefixPairs
  accept: rules.Accept
  sampler: rules.Accept
  seed: int = 0
  census: bool = False

  @functools.cached_property
  def groups(self) -> np.ndarray:
    """[T] int64 clusters of dependent trials.

    Trials of one first state are a cluster, because undrawn states may have
    different trials. A census draws every state: then only prefixes and
    continuations are random, and each draw is a cluster.
    """
    if self.census:
      return self.prefixes.trial
    return self.world.state_id(self.prefixes.first)

  @functools.cached_property
  def rows(self) -> np.ndarray:
    """[R] indices of the trials that are run, among all T."""
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
    """[R] numbers of the trials that are run."""
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
    """[R] number of tokens that fit after the longer prefix.

    It is limited by the `max_len` of the model and of the world.
    """
    # A continuation must fit both prefixes.
    longest = min(self.predictor.max_len, self.world.max_len)
    return np.maximum(longest - self.lengths.max(1), 0).astype(np.int64)

  def keys(self, *words: int) -> np.ndarray:
    """[R] uint64 hashes for one use of randomness, by trial."""
    return basics.hash64(self.seed, *words, self.numbers, 0)

  def filled(self, array: np.ndarray, values: np.ndarray) -> np.ndarray:
    """A copy of `array` [T] with `values` [R] for the trials that were run.

    Its dtype holds both, strings included.
    """
    # NumPy cuts strings to the width of an array's dtype without a warning.
    copy = array.astype(np.promote_types(array.dtype, values.dtype))
    copy[self.rows] = values
    return copy

  @functools.cached_property
  def columns(self) -> dict[str, np.ndarray]:
    """Side columns [T] of every quantity.

    They are the trial's number, its first state as written by the world, moves,
    and the world's tags of the first state.
    """
    return {
      'trial': self.prefixes.trial,
      'state': capabilities.written(self.world, self.prefixes.first),
      'moves': self.prefixes.moves,
      **tags(self.world, self.prefixes.first),
    }

  def picture_columns(
    self, suffixes: np.ndarray, lengths: np.ndarray, wrong_at: np.ndarray
  ) -> dict[str, np.ndarray]:
    """Side columns [T] from which reports picture trials; see core.Measure.

    Args:
      suffixes: [R, K] the continuation that shows the result.
      lengths: [R] lengths of these; 0 for none.
      wrong_at: [R] position in it, from 1, of the token at which model and
        world disagree; 0 if unknown.
    """
    # Columns have all T trials; suffixes exist for the R that were run.
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
