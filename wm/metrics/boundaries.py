"""Boundaries as lists of suffixes: of the world, and of the model."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from wm import accept as rules
from wm import core
from wm.kernels import dfa
from wm.metrics import rollouts, trials

Suffix = tuple[int, ...]
# Boundary elements that are followed side by side.
WIDTH = 16


def exact(
  world: core.World, first: np.ndarray, second: np.ndarray, depth: int
) -> list[list[Suffix]]:
  """The world's boundaries of pairs of states [T, W], see core.World."""
  return world.boundary(first, second, depth)


def reference(
  world: core.World, first: np.ndarray, second: np.ndarray, depth: int
) -> list[list[Suffix]]:
  """What the published program of Vafa et al. 2024 lists of them.

  Its enumeration knows no end token, drops continuations that die before
  `depth`, and leaves a state at the first label that leads nowhere.

  Raises:
    InputError: the world has no finite table.
  """
  table = world.automaton()
  if table is None or not hasattr(world, 'rows_goals'):
    raise core.InputError(
      f"boundary='reference' was given; {world.name} has no finite table: "
      "only 'exact' is available"
    )
  (row1, goal1), (row2, goal2) = map(world.rows_goals, (first, second))
  found = dfa.boundary(
    table.delta, row1, row2, goal1, goal2, depth, 'reference'
  )
  spans = zip(found.offsets, found.offsets[1:], strict=False)
  tokens = np.append(table.tokens, world.end)
  suffixes = [
    tuple(tokens[labels[:length]].tolist())
    for labels, length in zip(found.labels, found.lengths, strict=True)
  ]
  return [suffixes[start:stop] for start, stop in spans]


VARIANTS = {'exact': exact, 'reference': reference}


@dataclasses.dataclass(frozen=True)
class Boundary:
  """The model's boundary of T pairs of prefixes.

  Attributes:
    elements: per trial, its distinct suffixes.
    weights: per trial, [n] float64 weight of each.
    reason: [T] str, '' where it is known.
  """

  elements: list[list[Suffix]]
  weights: list[np.ndarray]
  reason: np.ndarray


def distinct(
  found: rollouts.Pairs,
) -> tuple[list[list[Suffix]], list[np.ndarray]]:
  """Distinct refused samples of each trial, and how often each came."""
  elements, weights = [], []
  for tokens, lengths, status in zip(
    found.tokens, found.lengths, found.status, strict=True
  ):
    times: dict[Suffix, int] = {}
    for m in np.flatnonzero(status == rollouts.REFUSED):
      suffix = tuple(tokens[m, : lengths[m]].tolist())
      times[suffix] = times.get(suffix, 0) + 1
    elements.append(sorted(times, key=lambda s: (len(s), s)))
    weights.append(np.array([times[s] for s in elements[-1]], np.float64))
  return elements, weights


def table(suffixes: Sequence[Suffix]) -> tuple[np.ndarray, np.ndarray]:
  """Suffixes as tokens [N, K] int32, padded with PAD, and lengths [N]."""
  lengths = np.array([len(s) for s in suffixes], np.int32)
  tokens = np.zeros((len(suffixes), int(lengths.max(initial=0))), np.int32)
  for n, suffix in enumerate(suffixes):
    tokens[n, : len(suffix)] = suffix
  return tokens, lengths


def true_boundary(
  world: core.World,
  first: np.ndarray,
  second: np.ndarray,
  elements: list[list[Suffix]],
) -> np.ndarray:
  """[N] bool over all elements: legal from the first state alone.

  first, second: [T, W] states; elements: suffixes of each pair.
  """
  trial = np.repeat(np.arange(len(elements)), [len(e) for e in elements])
  tokens, lengths = table([s for e in elements for s in e])
  whole = [
    world.walk(states[trial], tokens, lengths)[0] == lengths
    for states in (first, second)
  ]
  return whole[0] & ~whole[1]


def mean_by_trial(
  value: np.ndarray, weight: np.ndarray, sizes: np.ndarray
) -> np.ndarray:
  """[T] weighted means of consecutive runs of `sizes` values; 0 where none."""
  trial = np.repeat(np.arange(len(sizes)), sizes)
  total = np.bincount(trial, weight * value, minlength=len(sizes))
  mass = np.bincount(trial, weight, minlength=len(sizes))
  return total / np.where(mass > 0, mass, 1)


def length_weights(elements: list[Suffix]) -> np.ndarray:
  """[n] float64 weights by which every length of suffix counts the same."""
  lengths = np.array([len(s) for s in elements], np.int64)
  return 1 / np.bincount(lengths)[lengths] if elements else np.zeros(0)


def some(elements: list[Suffix], key: np.ndarray, most: int) -> list[Suffix]:
  """At most `most` of the elements, uniformly by `key`, in their order."""
  if len(elements) <= most:
    return elements
  rank = np.argsort(core.hash64(key, np.arange(len(elements))), kind='stable')
  return [elements[n] for n in sorted(rank[:most])]


def accepted_apart(
  predictor: core.Predictor,
  pairs: trials.PrefixPairs,
  rows: np.ndarray,
  elements: list[list[Suffix]],
  accept: rules.Accept,
  batch: int,
) -> np.ndarray:
  """[N] bool over all elements: accepted after the first prefix alone.

  rows: [R] trials of `pairs` that `elements`, a list for each, belong to.
  """
  sizes = np.array([len(e) for e in elements], np.int64)
  tokens, lengths = table([s for e in elements for s in e])
  # Each trial's elements fill whole blocks of WIDTH places.
  blocks = -(-sizes // WIDTH)
  start = np.concatenate([[0], np.cumsum(blocks * WIDTH)])[:-1]
  within = np.arange(len(tokens)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
  place = np.repeat(start, sizes) + within
  num = int(blocks.sum())
  suffixes = np.zeros((num * WIDTH, tokens.shape[1]), np.int32)
  suffix_lengths = np.zeros(num * WIDTH, np.int32)
  suffixes[place], suffix_lengths[place] = tokens, lengths
  trial = np.repeat(rows, blocks)
  steps = rollouts.forced(
    predictor,
    pairs.tokens[trial],
    pairs.lengths[trial],
    suffixes.reshape(num, WIDTH, -1) if num else suffixes[:, None],
    suffix_lengths.reshape(num, WIDTH),
    accept,
    batch,
  )
  whole = steps == suffix_lengths.reshape(num, 1, WIDTH)
  return (whole[:, 0] & ~whole[:, 1]).reshape(-1)[place]
