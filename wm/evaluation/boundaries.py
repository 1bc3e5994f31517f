"""Boundaries of the world and of the model, as suffixes of pairs."""

from __future__ import annotations

import numpy as np

from wm import core
from wm.core import basics
from wm.evaluation import engine
from wm.evaluation.context import Trials

# Boundary elements that are followed side by side.
WIDTH = 16


def sampled(
  world: core.World,
  first: np.ndarray,
  second: np.ndarray,
  *,
  num: int,
  room: np.ndarray,
  seeds: np.ndarray,
) -> core.Boundary:
  """Samples the world's boundaries by random play from the first states.

  Each of `num` continuations takes uniformly drawn legal tokens until the world
  is over. It is cut after its first token that is illegal from the second
  state, and dropped if it stays legal there. This is as published for Othello,
  where boundaries to the end of the game are too large to list (Vafa et al.
  2024, section 4.3). In a world that forecasts, continuations are the tokens
  that follow.

  Args:
    world: world that the states are of.
    first, second: [T, W] states.
    num: continuations of each pair.
    room: [T] maximum tokens of a continuation.
    seeds: [T] integers; pair t depends on seeds[t] alone.

  Returns:
    The distinct suffixes of each pair.
  """
  parts: list[core.Boundary] = []
  row_size = num * max(len(world.vocab), int(room.max(initial=0)))
  for pairs in core.predictor.chunks(len(first), row_size):
    # [2, T * num, W]: both states of each continuation of a chunk of pairs.
    both = np.repeat([first[pairs], second[pairs]], num, axis=1)
    # One stream for each continuation, so that results ignore chunks.
    words = basics.hash64(seeds[pairs, None], np.arange(num)).reshape(-1)
    most = np.repeat(room[pairs], num)
    tokens, lengths = _random_play(world, both, most, words)
    total = len(words) // num
    pair, cut = np.repeat(np.arange(total), num), lengths > 0
    part, _ = _distinct(pair[cut], tokens[cut], lengths[cut], total)
    parts.append(part)
  return core.boundary.joined(parts)


def _distinct(
  pair: np.ndarray, tokens: np.ndarray, lengths: np.ndarray, total: int
) -> tuple[core.Boundary, np.ndarray]:
  """Distinct suffixes of pairs, and the count of each [S].

  pair: [N]. tokens: [N, K], padded with PAD. lengths: [N]. total: T.
  """
  keys = np.column_stack([pair, lengths, tokens])
  # Big-endian numbers, none negative, compare as their bytes do.
  packed = np.ascontiguousarray(keys, '>u4').view(f'V{4 * keys.shape[1]}')
  _, first, times = np.unique(
    packed.reshape(-1), return_index=True, return_counts=True
  )
  # Rows sort by pair first, so that the suffixes of a pair are consecutive.
  offsets = np.searchsorted(pair[first], np.arange(total + 1))
  return core.Boundary(offsets, tokens[first], lengths[first]), times


def _random_play(
  world: core.World, both: np.ndarray, room: np.ndarray, seeds: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Tokens [N, K] and lengths [N] of continuations that were cut.

  A continuation that was not cut has length 0 and arbitrary tokens. both:
  [2, N, W] both states, updated.
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
  """[R] a token drawn uniformly from options [R, V]; DEAD without options."""
  # All options are in one list, row after row; a row's options begin after
  # those of the rows before it.
  row, token = np.divmod(np.flatnonzero(options), options.shape[1])
  count = np.bincount(row, minlength=len(options))
  place = np.minimum((uniform * count).astype(np.int64), count - 1)
  chosen = np.full(len(options), core.DEAD, np.int64)
  possible = count > 0
  chosen[possible] = token[(np.cumsum(count) - count + place)[possible]]
  return chosen


def refused(samples: engine.Continuations) -> tuple[core.Boundary, np.ndarray]:
  """Distinct refused samples of each pair, and the count of each [S]."""
  trial, sample = np.nonzero(samples.status == core.REFUSED)
  # Samples repeat likely suffixes; the count is the weight in
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
) -> np.ndarray:
  """[S] int32 position of the wrong token in suffixes of the model's boundary.

  It is 0 if a suffix is legal from the first state and not from the second.
  Otherwise it is the position, from 1, of the first token on which model and
  world disagree. The model accepts the suffix after the first prefix, and
  refuses its last token after the second.

  first, second: [T, W] states. elements: suffixes of these T pairs.
  """
  trial, (_, tokens, lengths) = elements.pair_ids, elements
  first_legal, second_legal = (
    world.walk(states[trial], tokens, lengths)[0] for states in (first, second)
  )
  # If the second state refuses only the last token, the world agrees.
  apart = np.where(
    second_legal == lengths - 1, lengths, np.minimum(second_legal + 1, lengths)
  )
  # The earlier of two mistakes counts: the first token that is illegal from the
  # first state, and the first disagreement about the second state.
  wrong = np.minimum(np.minimum(first_legal + 1, lengths), apart)
  return np.where((first_legal == lengths) & (second_legal < lengths), 0, wrong)


def mean_by_trial(
  value: np.ndarray, weight: np.ndarray, sizes: np.ndarray
) -> np.ndarray:
  """[T] weighted means of consecutive runs of `sizes` values; 0 if empty."""
  trial = np.repeat(np.arange(len(sizes)), sizes)
  total = np.bincount(trial, weight * value, minlength=len(sizes))
  mass = np.bincount(trial, weight, minlength=len(sizes))
  return total / np.where(mass > 0, mass, 1)


def length_weights(elements: core.Boundary) -> np.ndarray:
  """[S] float64 weights: all suffix lengths of a pair weigh the same."""
  # One number for each pair and length.
  key = elements.pair_ids * (elements.tokens.shape[1] + 1) + elements.lengths
  return 1 / np.bincount(key)[key]


def subsample(
  elements: core.Boundary, keys: np.ndarray, most: int
) -> core.Boundary:
  """A uniform subset of at most `most` elements of each pair, in order.

  keys: [T] integers that determine the choice.
  """
  pair = elements.pair_ids
  place = np.arange(len(pair)) - elements.offsets[pair]
  # Sorted by hashes within each pair, the first are a uniform subset.
  order = np.lexsort((place, basics.hash64(keys[pair], place), pair))
  mask = np.empty(len(pair), bool)
  mask[order] = place < most
  return elements.take(mask)


def world_divergence(trials: Trials, elements: core.Boundary) -> np.ndarray:
  """[S] int32 position of the wrong token in suffixes of the world's boundary.

  It is 0 if the model accepts a suffix after the first prefix and not after the
  second. Otherwise it is the position, from 1, of the token refused after the
  first prefix, or of the last token, which the second should have refused.

  The suffixes of a pair are followed in parallel, in blocks of WIDTH; the last
  block of a pair is padded with suffixes of length 0:

    elements         | pair 0: 0 1 ... 18              | pair 1: 19 20 21 ...
    places           | 0 ... 15 | 16 17 18 - ... -  31 | 32 33 34 - ... -  47
    rows of the engine | block 0  | block 1              | block 2

  elements: suffixes of the R pairs that are run.
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
  )
  # [blocks, 2, WIDTH] -> for each prefix, the count at every place.
  first_accepted, second_accepted = steps.transpose(1, 0, 2).reshape(2, -1)[
    :, place
  ]
  right = (first_accepted == lengths) & (second_accepted < lengths)
  return np.where(right, 0, np.minimum(first_accepted + 1, lengths))
