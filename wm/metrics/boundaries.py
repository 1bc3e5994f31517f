"""Boundaries as lists of suffixes: of the world, and of the model."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from wm import accept as rules
from wm import core, predictors
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


def published(
  world: core.World, first: np.ndarray, second: np.ndarray, depth: int
) -> list[list[Suffix]]:
  """What the published program of Vafa et al. 2024 lists of them.

  Its enumeration knows no end token, drops continuations that die before
  `depth`, and leaves a state at the first label, in the order of the world's
  table (`core.Automaton.turns`), that leads nowhere.

  Raises:
    InputError: the world has no finite table.
  """
  table = world.automaton()
  if table is None or not hasattr(world, 'rows_goals'):
    raise core.InputError(
      f"boundary='published' was given; {world.name} has no finite table: "
      "only 'exact' is available"
    )
  (row1, goal1), (row2, goal2) = map(world.rows_goals, (first, second))
  found = dfa.boundary(
    table.delta,
    row1,
    row2,
    goal1,
    goal2,
    depth,
    'published',
    turns=table.turns,
    known=table.known,
  )
  spans = zip(found.offsets, found.offsets[1:], strict=False)
  tokens = np.append(table.tokens, world.end)
  suffixes = [
    tuple(tokens[labels[:length]].tolist())
    for labels, length in zip(found.labels, found.lengths, strict=True)
  ]
  return [suffixes[start:stop] for start, stop in spans]


def sampled(
  world: core.World,
  first: np.ndarray,
  second: np.ndarray,
  *,
  num: int,
  room: np.ndarray,
  seeds: np.ndarray,
) -> list[list[Suffix]]:
  """Part of the world's boundaries, by random play from the first states.

  Each of `num` continuations takes uniformly legal tokens until the world is
  over, and is cut after its first token that is illegal from the second state;
  one that stays legal there gives nothing. As published for Othello, where
  boundaries to the end of the game are too large to list (Vafa et al. 2024,
  section 4.3).

  Args:
    world: the truth.
    first, second: [T, W] states.
    num: continuations of each pair.
    room: [T] most tokens of a continuation.
    seeds: [T] integers; pair t depends on seeds[t] alone.

  Returns:
    Per pair its distinct suffixes, by length, then by tokens.
  """
  found: list[list[Suffix]] = []
  row_size = num * max(len(world.vocab), int(room.max(initial=0)))
  for pairs in predictors.chunks(len(first), row_size):
    lanes = [np.repeat(a[pairs], num, axis=0) for a in (first, second, room)]
    branch = np.arange(num)
    words = core.hash64(seeds[pairs, None], branch).reshape(-1)
    tokens, lengths = _cut_play(world, *lanes, words)
    suffixes = [
      tuple(row[:size]) for row, size in zip(tokens, lengths, strict=True)
    ]
    for start in range(0, len(suffixes), num):
      distinct = set(suffixes[start : start + num]) - {()}
      found.append(sorted(distinct, key=lambda s: (len(s), s)))
  return found


def _cut_play(
  world: core.World,
  first: np.ndarray,
  second: np.ndarray,
  room: np.ndarray,
  seeds: np.ndarray,
) -> tuple[list[list[int]], list[int]]:
  """Tokens and lengths of N continuations; length 0 where none was cut."""
  first, second = first.copy(), second.copy()
  tokens = np.zeros((len(first), int(room.max(initial=0))), np.int32)
  lengths = np.zeros(len(first), np.int32)
  live = np.arange(len(first))
  for k in range(tokens.shape[1]):
    live = live[k < room[live]]
    token = _choice(world.legal(first[live]), core.uniforms(seeds[live], k))
    live, token = live[token != core.DEAD], token[token != core.DEAD]
    if not live.size:
      break
    tokens[live, k] = token
    first[live] = world.advance(first[live], token)
    second[live] = world.advance(second[live], token)
    cut = world.state_id(second[live]) == core.DEAD
    lengths[live[cut]] = k + 1
    live = live[~cut]
  return tokens.tolist(), lengths.tolist()


def _choice(options: np.ndarray, uniform: np.ndarray) -> np.ndarray:
  """[R] a token of the options [R, V], uniform; DEAD where there are none."""
  row, token = np.divmod(np.flatnonzero(options), options.shape[1])
  count = np.bincount(row, minlength=len(options))
  place = np.minimum((uniform * count).astype(np.int64), count - 1)
  chosen = np.full(len(options), core.DEAD, np.int64)
  some = count > 0
  chosen[some] = token[(np.cumsum(count) - count + place)[some]]
  return chosen


LISTED = {'exact': exact, 'published': published}
VARIANTS = (*LISTED, 'sampled')


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


def untrue_at(
  world: core.World,
  first: np.ndarray,
  second: np.ndarray,
  elements: list[list[Suffix]],
) -> np.ndarray:
  """[N] int32 over all elements of the model's boundary: where it is wrong.

  0 where an element is legal from the first state and not from the second;
  else the place, from 1, of the first token on which the model, which accepts
  the element after the first prefix and refuses its last token after the
  second, and the world disagree.

  first, second: [T, W] states; elements: suffixes of each pair.
  """
  trial = np.repeat(np.arange(len(elements)), [len(e) for e in elements])
  tokens, lengths = table([s for e in elements for s in e])
  one, two = (
    world.walk(states[trial], tokens, lengths)[0] for states in (first, second)
  )
  # Where the second state refuses the last token only, they agree on it.
  apart = np.where(two == lengths - 1, lengths, np.minimum(two + 1, lengths))
  wrong = np.minimum(np.minimum(one + 1, lengths), apart)
  return np.where((one == lengths) & (two < lengths), 0, wrong)


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


def untold_at(
  predictor: core.Predictor,
  pairs: trials.PrefixPairs,
  rows: np.ndarray,
  elements: list[list[Suffix]],
  accept: rules.Accept,
  batch: int,
) -> np.ndarray:
  """[N] int32 over all elements of the world's boundary: where a model fails.

  0 where an element is accepted after the first prefix and not after the
  second; else the place, from 1, of the token that the first prefix refuses
  or, the last one, that the second should have refused.

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
  one, two = steps.transpose(1, 0, 2).reshape(2, -1)[:, place]
  told = (one == lengths) & (two < lengths)
  return np.where(told, 0, np.minimum(one + 1, lengths))
