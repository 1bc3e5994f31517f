"""Boundaries as suffixes of pairs: of the world, and of the model."""

from __future__ import annotations

import numpy as np

from wm import core
from wm.core import basics
from wm.evaluation import engine
from wm.evaluation.context import Trials

# Boundary elements that are followed side by side.
WIDTH = 16
# Suffixes of a pair that futures are judged by, and random plays of a world
# whose boundaries cannot be listed.
MOST = 64


def sampled(
  world: core.World,
  first: np.ndarray,
  second: np.ndarray,
  *,
  num: int,
  room: np.ndarray,
  seeds: np.ndarray,
) -> core.Boundary:
  """Part of the world's boundaries, by random play from the first states.

  Each of `num` continuations takes uniformly legal tokens until the world is
  over, and is cut after its first token that is illegal from the second state;
  one that stays legal there gives nothing. As published for Othello, where
  boundaries to the end of the game are too large to list (Vafa et al. 2024,
  section 4.3). Of a world that forecasts they are what follows.

  Args:
    world: the truth.
    first, second: [T, W] states.
    num: continuations of each pair.
    room: [T] most tokens of a continuation.
    seeds: [T] integers; pair t depends on seeds[t] alone.

  Returns:
    The distinct suffixes of each pair.
  """
  parts: list[core.Boundary] = []
  row_size = num * max(len(world.vocab), int(room.max(initial=0)))
  for pairs in core.predictor.chunks(len(first), row_size):
    # [2, T * num, W]: both states of each continuation of a chunk of pairs.
    both = np.repeat([first[pairs], second[pairs]], num, axis=1)
    # One stream for each continuation, so that chunks make no difference.
    words = basics.hash64(seeds[pairs, None], np.arange(num)).reshape(-1)
    most = np.repeat(room[pairs], num)
    tokens, lengths = _random_play(world, both, most, words)
    total = len(words) // num
    pair, cut = np.repeat(np.arange(total), num), lengths > 0
    part, _ = _distinct(pair[cut], tokens[cut], lengths[cut], total)
    parts.append(part)
  return core.boundary.joined(parts)


def futures(
  world: core.World,
  states: np.ndarray,
  depth: int,
  room: np.ndarray,
  seed: int,
) -> core.Boundary:
  """Suffixes legal from the first of two states and not from the second.

  Listed as deep as the world lists them by default, else drawn by random play;
  at most MOST of each pair, and none longer than its room.

  Args:
    world: the truth.
    states: [2, T, W].
    depth: most tokens of a suffix.
    room: [T] most tokens that fit.
    seed: of what is drawn.
  """
  seeds = basics.hash64(seed, np.arange(states.shape[1]))
  if isinstance(world, core.Enumerable) and depth <= world.boundary_depth:
    elements = world.boundary(states[0], states[1], depth)
  else:
    fits = np.minimum(room, depth)
    elements = sampled(world, *states, num=MOST, room=fits, seeds=seeds)
  elements = elements.take(elements.lengths <= room[elements.pair_ids])
  return subsample(elements, seeds, MOST)


def _distinct(
  pair: np.ndarray, tokens: np.ndarray, lengths: np.ndarray, total: int
) -> tuple[core.Boundary, np.ndarray]:
  """Distinct suffixes [N, K], [N] of pairs [N], and how often each came [S].

  tokens: padded with PAD; total: T.
  """
  keys = np.column_stack([pair, lengths, tokens])
  # Big-endian numbers, none negative, compare as their bytes do.
  packed = np.ascontiguousarray(keys, '>u4').view(f'V{4 * keys.shape[1]}')
  _, first, times = np.unique(
    packed.reshape(-1), return_index=True, return_counts=True
  )
  # Pairs sort first, so that the suffixes of a pair follow each other.
  offsets = np.searchsorted(pair[first], np.arange(total + 1))
  return core.Boundary(offsets, tokens[first], lengths[first]), times


def _random_play(
  world: core.World, both: np.ndarray, room: np.ndarray, seeds: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Tokens [N, K] and lengths [N] of continuations; 0 where none was cut.

  Of one that was not cut the tokens say nothing. both: [2, N, W], both states,
  which follow.
  """
  tokens = np.zeros((len(room), int(room.max(initial=0))), np.int32)
  lengths = np.zeros(len(room), np.int32)
  live = np.arange(len(room))
  forecast = None
  if core.can(world, core.Latent.forecast):
    forecast = world.forecast(both[0], tokens.shape[1]).tokens
  for k in range(tokens.shape[1]):
    live = live[k < room[live]]
    if forecast is None:
      token = choice(
        world.legal(both[0, live]), basics.uniforms(seeds[live], k)
      )
    else:
      token = forecast[live, k]
    live, token = live[token != core.DEAD], token[token != core.DEAD]
    if not live.size:
      break
    tokens[live, k] = token
    for states in both:
      states[live] = world.advance(states[live], token)
    # The token is legal from the first state: only the second can be dead now.
    cut = world.state_id(both[1, live]) == core.DEAD
    lengths[live[cut]] = k + 1
    live = live[~cut]
  return tokens, lengths


def choice(options: np.ndarray, uniform: np.ndarray) -> np.ndarray:
  """[R] a token of the options [R, V], uniform; DEAD where there are none."""
  # All options in one list, row after row; those of a row begin where the
  # counts of the rows before it end.
  row, token = np.divmod(np.flatnonzero(options), options.shape[1])
  count = np.bincount(row, minlength=len(options))
  place = np.minimum((uniform * count).astype(np.int64), count - 1)
  chosen = np.full(len(options), core.DEAD, np.int64)
  possible = count > 0
  chosen[possible] = token[(np.cumsum(count) - count + place)[possible]]
  return chosen


def refused(samples: engine.Continuations) -> tuple[core.Boundary, np.ndarray]:
  """Distinct refused samples of each pair, and how often each came [S]."""
  trial, sample = np.nonzero(samples.status == core.REFUSED)
  # Samples repeat likely suffixes; how often is their weight in
  # `precision_sampled`.
  elements, times = _distinct(
    trial,
    samples.tokens[trial, sample],
    samples.lengths[trial, sample],
    len(samples.status),
  )
  return elements, times.astype(np.float64)


def model_divergence(
  world: core.World,
  first: np.ndarray,
  second: np.ndarray,
  elements: core.Boundary,
  loop: str = 'auto',
) -> np.ndarray:
  """[S] int32 over all elements of the model's boundary: where it is wrong.

  0 where an element is legal from the first state and not from the second;
  else the place, from 1, of the first token on which the model, which accepts
  the element after the first prefix and refuses its last token after the
  second, and the world disagree.

  first, second: [T, W] states; elements: of these T pairs; loop: see
  `context.Trials`.
  """
  trial, (_, tokens, lengths) = elements.pair_ids, elements
  first_legal, second_legal = (
    engine.legal_steps(loop, world, states[trial], tokens, lengths)
    for states in (first, second)
  )
  # Where the second state refuses the last token only, they agree on it.
  apart = np.where(
    second_legal == lengths - 1, lengths, np.minimum(second_legal + 1, lengths)
  )
  # The earlier of two mistakes counts: the first token that is illegal after
  # the first state, and the place where the second state decides otherwise.
  wrong = np.minimum(np.minimum(first_legal + 1, lengths), apart)
  return np.where((first_legal == lengths) & (second_legal < lengths), 0, wrong)


def mean_by_trial(
  value: np.ndarray, weight: np.ndarray, sizes: np.ndarray
) -> np.ndarray:
  """[T] weighted means of consecutive runs of `sizes` values; 0 where none."""
  trial = np.repeat(np.arange(len(sizes)), sizes)
  total = np.bincount(trial, weight * value, minlength=len(sizes))
  mass = np.bincount(trial, weight, minlength=len(sizes))
  return total / np.where(mass > 0, mass, 1)


def length_weights(elements: core.Boundary) -> np.ndarray:
  """[S] float64: every length of suffix of a pair has the same weight."""
  # One number for each pair and length.
  key = elements.pair_ids * (elements.tokens.shape[1] + 1) + elements.lengths
  return 1 / np.bincount(key)[key]


def subsample(
  elements: core.Boundary, keys: np.ndarray, most: int
) -> core.Boundary:
  """At most `most` elements of each pair, uniformly by keys [T], in order."""
  pair = elements.pair_ids
  place = np.arange(len(pair)) - elements.offsets[pair]
  # In the order of hashes within each pair, the first are a uniform subset.
  order = np.lexsort((place, basics.hash64(keys[pair], place), pair))
  mask = np.empty(len(pair), bool)
  mask[order] = place < most
  return elements.take(mask)


def world_divergence(trials: Trials, elements: core.Boundary) -> np.ndarray:
  """[S] int32 over elements of the world's boundary: where the model fails.

  0 where an element is accepted after the first prefix and not after the
  second; else the place, from 1, of the token that the first prefix refuses
  or, the last one, that the second should have refused.

  The elements of a pair are followed side by side, in blocks of WIDTH; the
  last block of a pair is filled up with suffixes of length 0:

    elements         | pair 0: 0 1 ... 18              | pair 1: 19 20 21 ...
    places           | 0 ... 15 | 16 17 18 - ... -  31 | 32 33 34 - ... -  47
    rows of the engine | block 0  | block 1              | block 2

  elements: of the R pairs that are run.
  """
  sizes, (_, tokens, lengths) = elements.sizes, elements
  blocks = -(-sizes // WIDTH)  # [R] of each pair.
  start = WIDTH * (np.cumsum(blocks) - blocks)  # [R] first place of each pair.
  within = np.arange(len(tokens)) - elements.offsets[elements.pair_ids]
  place = start[elements.pair_ids] + within  # [S].
  num = int(blocks.sum())
  suffixes = np.zeros((num * WIDTH, tokens.shape[1]), np.int32)
  suffix_lengths = np.zeros(num * WIDTH, np.int32)
  suffixes[place], suffix_lengths[place] = tokens, lengths
  pair = np.repeat(np.arange(len(sizes)), blocks)
  steps = engine.teacher_force(
    trials.predictor,
    trials.tokens[pair],
    trials.lengths[pair],
    suffixes.reshape(num, WIDTH, tokens.shape[1]),
    suffix_lengths.reshape(num, WIDTH),
    trials.accept,
    trials.batch,
  )
  # [blocks, 2, WIDTH] -> of each prefix the count at every place.
  first_accepted, second_accepted = steps.transpose(1, 0, 2).reshape(2, -1)[
    :, place
  ]
  right = (first_accepted == lengths) & (second_accepted < lengths)
  return np.where(right, 0, np.minimum(first_accepted + 1, lengths))
