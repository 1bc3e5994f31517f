"""States and pairs of prefixes that trials of a metric start from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import accept as rules
from wm.core import registry
from wm.evaluation import engine

# Streams of randomness under one seed.
STATES, OTHERS, MOVES, PREFIXES, SAMPLES = range(1, 6)
# Draws of a second state before a trial is given up.
STATE_ATTEMPTS = 1000
# Attempts with one number of moves before another is drawn.
REDRAW = 4
# Why a draw gives no two prefixes -> what a trial that has no other is called:
# a state has no prefix of so many moves (on a map, every way back meets a
# street without entry), both draws are one prefix, or the model refuses one.
NO_TWO = {
  'no_prefix': 'no_two_prefixes_missing',
  'equal_prefixes': 'no_two_prefixes_equal',
  'refused_prefix': 'no_two_prefixes_refused',
}

Keep = Callable[[np.ndarray, np.ndarray], np.ndarray]


class PrefixPairs(NamedTuple):
  """Two prefixes for each trial, of equally many moves.

  Attributes:
    first, second: [T, W] states that they reach.
    tokens: [T, 2, L] int32.
    lengths: [T, 2] int32.
    moves: [T] int32.
    reason: [T] str, '' where there are two prefixes, else why not.
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


def stream(seed: int, *words: int) -> int:
  """A non-negative integer seed for one use of randomness under `seed`."""
  return int(core.hash64(seed, *words) >> np.uint64(2))


def sample_other_states(
  world: core.World, first: np.ndarray, seed: int, attempts: int
) -> tuple[np.ndarray, np.ndarray, dict[str, int]]:
  """States unlike `first` [T, W] that a prefix of as many moves can reach.

  attempts: 1 draws once, as published; more draws until there are some.

  Returns:
    states: [T, W].
    reason: [T] str, '' where one was found.
    counts: resamples by cause.
  """
  second = np.array(first)
  reason = np.full(len(first), 'no_two_states', dtype='<U16')
  counts: dict[str, int] = {}
  pending = np.arange(len(first))
  for attempt in range(STATE_ATTEMPTS if attempts > 1 else 1):
    if not pending.size:
      break
    drawn = world.sample_states(len(pending), stream(seed, OTHERS, attempt))
    same = world.state_id(drawn) == world.state_id(first[pending])
    low, high = _moves_range(world, first[pending], drawn)
    apart = ~same & (high < low)
    _count(counts, 'same_state', same)
    _count(counts, 'no_common_moves', apart)
    reason[pending[apart]] = 'no_common_moves'
    good = ~same & ~apart
    second[pending[good]] = drawn[good]
    reason[pending[good]] = ''
    pending = pending[~good]
  return second, reason, counts


def _moves_range(
  world: core.World, first: np.ndarray, second: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  spans = np.stack([world.prefix_moves(first), world.prefix_moves(second)])
  return spans[..., 0].max(0), spans[..., 1].min(0)


def prefix_pairs(
  world: core.World,
  first: np.ndarray,
  second: np.ndarray,
  *,
  seed: int,
  attempts: int,
  reason: np.ndarray | None = None,
  keep: Keep | None = None,
) -> PrefixPairs:
  """Two different prefixes of equally many moves for pairs of states [T, W].

  The number of moves is uniform on the range that both states allow. A pair
  with a prefix that cannot be had, that is equal, or that `keep` refuses, is
  drawn again for the same states, after every fourth time with another number
  of moves (Vafa et al. 2024, appendix E; published code drops such trials:
  attempts=1).

  Args:
    world: whose prefixes.
    first, second: [T, W] states; the same ones for compression.
    seed: of all draws; trial t depends on (seed, t) and its states alone.
    attempts: draws before a trial is given up, by the last draw's NO_TWO.
    reason: [T] str, trials that are unmeasurable already.
    keep: (tokens [T, 2, L], lengths [T, 2]) -> [T] bool.
  """
  total = len(first)
  found = PrefixPairs(
    first,
    second,
    tokens=np.zeros((total, 2, world.max_len), np.int32),
    lengths=np.zeros((total, 2), np.int32),
    moves=np.zeros(total, np.int32),
    reason=np.full(total, '', '<U24'),
    trial=np.arange(total),
    direction=np.zeros(total, np.int32),
    counts={},
  )
  if reason is not None:
    found.reason[:] = reason
  low, high = _moves_range(world, first, second)
  found.reason[(found.reason == '') & (high < low)] = 'no_prefix'
  pending = np.flatnonzero(found.reason == '')
  for attempt in range(attempts):
    if not pending.size:
      break
    share = core.uniforms(seed, MOVES, pending, attempt // REDRAW)
    above = np.floor(share * (high - low + 1)[pending]).astype(np.int32)
    found.moves[pending] = np.minimum(low[pending] + above, high[pending])
    cause = _draw(world, found, pending, seed, attempt)
    if keep is not None:
      good = np.flatnonzero(cause == '')
      rows = pending[good]
      kept = keep(found.tokens[rows], found.lengths[rows])
      cause[good[~kept]] = 'refused_prefix'
    for name, called in NO_TWO.items():
      _count(found.counts, name, cause == name)
      found.reason[pending[cause == name]] = called
    found.reason[pending[cause == '']] = ''
    pending = pending[cause != '']
  return found


def _draw(
  world: core.World,
  found: PrefixPairs,
  rows: np.ndarray,
  seed: int,
  attempt: int,
) -> np.ndarray:
  """Draws both prefixes of the given trials; [R] str, '' or of NO_TWO."""
  good = np.ones(len(rows), bool)
  for side, states in enumerate((found.first, found.second)):
    seeds = core.hash64(seed, PREFIXES, rows, attempt, side)
    got = world.sample_prefixes(states[rows], found.moves[rows], seeds)
    width = got.tokens.shape[1]
    found.tokens[rows, side, :width] = got.tokens
    found.tokens[rows, side, width:] = core.PAD
    found.lengths[rows, side] = got.lengths
    good &= got.ok
  tokens, lengths = found.tokens[rows], found.lengths[rows]
  equal = good & (lengths[:, 0] == lengths[:, 1])
  equal &= (tokens[:, 0] == tokens[:, 1]).all(1)
  cause = np.full(len(rows), '', '<U16')
  cause[~good], cause[equal] = 'no_prefix', 'equal_prefixes'
  return cause


def _count(counts: dict[str, int], cause: str, rows: np.ndarray) -> None:
  if rows.any():
    counts[cause] = counts.get(cause, 0) + int(rows.sum())


def both_directions(pairs: PrefixPairs) -> PrefixPairs:
  """Each trial twice: as it is, then with its two prefixes swapped."""

  def twice(array: np.ndarray) -> np.ndarray:
    return np.concatenate([array, array])

  return PrefixPairs(
    np.concatenate([pairs.first, pairs.second]),
    np.concatenate([pairs.second, pairs.first]),
    np.concatenate([pairs.tokens, pairs.tokens[:, ::-1]]),
    np.concatenate([pairs.lengths, pairs.lengths[:, ::-1]]),
    twice(pairs.moves),
    twice(pairs.reason),
    twice(pairs.trial),
    np.repeat(np.arange(2, dtype=np.int32), len(pairs.moves)),
    pairs.counts,
  )


def model_filter(
  predictor: core.Predictor,
  world: core.World,
  accept: rules.Accept,
  batch: int,
) -> Keep:
  """Keeps pairs of prefixes whose every move the model accepts.

  The tokens that state the task, and the first one, are not asked for
  (Vafa et al. 2024, section 3; left out of the published code).
  """
  start = max(world.prompt_len(), 1)

  def keep(tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """[T] bool of pairs [T, 2, L], [T, 2]."""
    flat = tokens.reshape(-1, tokens.shape[-1])
    rest = np.maximum(lengths.reshape(-1) - start, 0)
    steps = engine.forced(
      predictor,
      flat[:, None, :start],
      np.full((len(flat), 1), start, np.int32),
      flat[:, None, start:],
      rest[:, None],
      accept,
      batch,
    )
    return (steps[:, 0, 0] == rest).reshape(-1, 2).all(1)

  return keep


def columns(world: core.World, pairs: PrefixPairs) -> dict[str, np.ndarray]:
  """Side columns of trials: state as written, moves, direction, tags."""
  written = [world.format_state(state) for state in pairs.first]
  return {
    'trial': pairs.trial,
    'state': np.array(written, dtype=str),
    'moves': pairs.moves,
    'direction': pairs.direction,
    **world.tags(pairs.first),
  }


def words(
  world: core.World, tokens: Sequence[int], vocab: Sequence[str] | None = None
) -> str:
  """Token strings joined by blanks; `vocab` where it is at hand."""
  vocab = world.vocab if vocab is None else vocab
  return ' '.join([vocab[token] for token in tokens])


def pictured(
  world: core.World,
  pairs: PrefixPairs,
  suffixes: Sequence[Sequence[int]],
  wrong_at: np.ndarray,
) -> dict[str, np.ndarray]:
  """Side columns that a report pictures trials from, beside `columns`.

  `prefix` and `other_prefix`, `other_state`, `suffix` as text, and `wrong_at`.

  Args:
    world: the truth.
    pairs: T trials.
    suffixes: [T] the continuation that tells, empty where none does.
    wrong_at: [T] place in it, from 1, of the token at which model and world
      part; 0 where unknown.
  """
  vocab = world.vocab

  def text(rows: Sequence[Sequence[int]]) -> np.ndarray:
    return np.array([words(world, row, vocab) for row in rows], dtype=str)

  def prefix(side: int) -> np.ndarray:
    rows = pairs.tokens[:, side].tolist()
    sizes = pairs.lengths[:, side].tolist()
    return text([row[:n] for row, n in zip(rows, sizes, strict=True)])

  others = [world.format_state(state) for state in pairs.second]
  return {
    'prefix': prefix(0),
    'other_prefix': prefix(1),
    'other_state': np.array(others, dtype=str),
    'suffix': text(suffixes),
    'wrong_at': np.asarray(wrong_at, np.int64),
  }


def parting(
  world: core.World, states: np.ndarray, suffixes: Sequence[Sequence[int]]
) -> np.ndarray:
  """[T] int64 place, from 1, where a refused continuation goes wrong.

  The first token that is illegal from states [T, W]: there the model accepts
  too much; else the last, which it refuses; 0 where there is no suffix.
  """
  lengths = np.array([len(suffix) for suffix in suffixes], np.int32)
  tokens = np.zeros((len(suffixes), int(lengths.max(initial=0))), np.int32)
  for t, suffix in enumerate(suffixes):
    tokens[t, : len(suffix)] = suffix
  steps, _ = world.walk(states, tokens, lengths)
  return np.minimum(steps + 1, lengths).astype(np.int64)


def sample_seeds(seed: int, pairs: PrefixPairs, rows: np.ndarray) -> np.ndarray:
  """[R] uint64 seeds of the sampled continuations of trials `rows`."""
  return core.hash64(seed, SAMPLES, pairs.trial[rows], pairs.direction[rows])


def budget(predictor: core.Predictor, world: core.World) -> int:
  """Longest sequence, in tokens, that both the model and world are made for."""
  return min(predictor.max_len, world.max_len)


def need_memory(metric: core.Metric, world: core.World) -> None:
  """Raises InputError where a metric's trials are more than memory holds."""
  for name in ('trials', 'num'):
    num = getattr(metric, name, 0)
    if not isinstance(num, int):
      continue  # A field of somebody's own.
    row = 2 * (world.max_len + world.init(1).shape[1])
    row += getattr(metric, 'samples', 0) * world.max_len
    core.need_memory(4 * num * row, f'{metric.name}({name}={num})')


def fill(array: np.ndarray, rows: np.ndarray, values: np.ndarray) -> np.ndarray:
  """A copy of `array` with `values` at `rows`, wide enough for strings."""
  kind = np.promote_types(array.dtype, values.dtype)
  filled = array.astype(kind)
  filled[rows] = values
  return filled


CHOICES = {
  'suffixes': ('model', 'world'),
  'directions': ('first', 'both'),
  'prefix_filter': ('none', 'model'),
}


def renamed(metric: core.Metric, field: str, old: str, new: str) -> None:
  """Raises InputError where a spec of before has a value's former name."""
  if getattr(metric, field) == old:
    raise core.InputError(
      f'{metric.name}: {field}={old!r} is called {field}={new!r} now'
    )


def check(metric: core.Metric, *positive: str) -> None:
  """Raises InputError for fields of a metric that make no sense.

  positive: names of fields that must be at least 1.
  """
  for name in positive:
    if getattr(metric, name) < 1:
      raise core.InputError(
        f'{metric.name}: {name}={getattr(metric, name)} was given; '
        'expected at least 1'
      )
  for name, choices in CHOICES.items():
    if getattr(metric, name, choices[0]) not in choices:
      raise core.InputError(
        f'{metric.name}: {name}={getattr(metric, name)!r} was given; '
        f'available: {", ".join(choices)}'
      )
  registry.make('accept', metric.accept)
  if metric.sampler:
    registry.make('accept', metric.sampler)
