"""Prefix pairs: the states and the two prefixes that a trial starts from."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from wm import core
from wm.core import accept as rules
from wm.core import basics, registry
from wm.core.fields import field_error
from wm.evaluation import context, engine
from wm.evaluation import support as supports
from wm.evaluation.context import PrefixPairs, Trials, count

# Draws of a second state before a trial is given up, or `attempts` if more.
STATE_ATTEMPTS = 1000
# Attempts with one number of moves before another is drawn.
REDRAW = 4
# Why a draw gives no two prefixes -> the reason of a trial that has no other:
# a state has no prefix of so many moves (on a map, every way back meets a
# street without entry), both draws are one prefix, or the model refuses one.
NO_TWO = {
  'no_prefix': 'no_two_prefixes_missing',
  'equal_prefixes': 'no_two_prefixes_equal',
  'refused_prefix': 'no_two_prefixes_refused',
}

DIRECTIONS, FILTERS = ('first', 'both'), ('none', 'model')

# Pairs of prefixes (tokens [T, 2, L], lengths [T, 2]) -> [T] bool.
Keep = Callable[[np.ndarray, np.ndarray], np.ndarray]


class PairMetric(core.Metric):
  """Base of metrics whose trials are pairs of prefixes."""

  breakdown: ClassVar[tuple[str, ...]] = ('direction',)
  sized_by: ClassVar[tuple[str, ...]] = ('trials', 'trials samples')

  trials: int
  pairs: int
  accept: str
  sampler: str
  directions: str
  world: str
  prefix_filter: str
  support: str
  support_bound: float
  attempts: int
  batch: int
  loop: str

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.trials % self.pairs:
      expected = 'a multiple: as many trials for every state'
      raise field_error(self, 'trials pairs', expected)
    if self.support != 'all' and (
      self.pairs > 1 or self.world or self.prefix_filter != 'none'
    ):
      expected = "pairs=1, world='' and prefix_filter='none'"
      raise field_error(self, 'support pairs world prefix_filter', expected)
    for spec in filter(None, (self.accept, self.sampler)):
      registry.make('accept', spec)

  @property
  def trials_per_draw(self) -> int:
    """See core.Metric: the trials of one state."""
    return self.pairs


def draw(
  metric: PairMetric,
  predictor: core.Predictor,
  world: core.Prefixed,
  seed: int,
  *,
  two_states: bool,
) -> Trials:
  """The trials of a metric: states, and two prefixes that reach them.

  two_states: the prefixes of a trial reach different states (distinction), not
    one state (compression).
  """
  accept = registry.make('accept', metric.accept)
  sampler = registry.make('accept', metric.sampler or metric.accept)
  run = metric.batch, metric.loop, metric.trials_per_draw
  # On the sampler's support prefixes come from sampled sequences: states that
  # are drawn uniformly may have none there.
  if metric.support == 'sampler':
    pairs = supports.prefix_pairs(
      supports.Support.of(metric, world, accept),
      metric.trials,
      basics.stream(seed, context.STATES),
      two_states=two_states,
    )
    if metric.directions == 'both':
      pairs = both_directions(pairs)
    return Trials(predictor, world, pairs, accept, sampler, seed, *run)
  source = _state_source(metric, world)
  num = metric.trials // metric.pairs
  first = source.sample_states(num, basics.stream(seed, context.STATES))
  counts: dict[str, int] = {}
  second, reason = first, np.full(len(first), '')
  if two_states:
    second, reason, counts = other_states(source, first, seed, metric.attempts)
  # Each state gets `pairs` trials in a row, see `Trials.trials_per_draw`.
  first, second, reason = (
    np.repeat(array, metric.pairs, axis=0) for array in (first, second, reason)
  )
  # The model may refuse a prefix that the world allows; see `model_filter`.
  keep = None
  if metric.prefix_filter == 'model':
    keep = model_filter(predictor, world, accept, metric.batch)
  pairs = prefix_pairs(
    source,
    first,
    second,
    seed=seed,
    attempts=metric.attempts,
    reason=reason,
    keep=keep,
  )
  pairs.counts.update(counts)
  census = _census(world, pairs)
  if metric.directions == 'both':
    pairs = both_directions(pairs)
  return Trials(predictor, world, pairs, accept, sampler, seed, *run, census)


def _census(world: core.Prefixed, pairs: PrefixPairs) -> bool:
  """Was every state of the world drawn?"""
  if not core.can(world, core.Prefixed.num_states):
    return False
  return len(np.unique(world.state_id(pairs.first))) == world.num_states()


def _state_source(metric: PairMetric, world: core.Prefixed) -> core.Prefixed:
  """The world that draws states; raises InputError where its rules differ."""
  if not metric.world:
    return world
  # Such as the same game, which draws states that many games reach.
  other = registry.make('world', metric.world)
  if not core.world.same_rules(world, other):
    raise core.InputError(
      f'{metric.name}: world={metric.world!r} has other tokens or rules than '
      f'{registry.spec(world)}'
    )
  return other


def other_states(
  world: core.Prefixed, first: np.ndarray, seed: int, attempts: int
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
  # As published a pair of equal states is a lost trial, with one draw.
  most = max(STATE_ATTEMPTS, attempts) if attempts > 1 else 1
  for attempt in range(most):
    if not pending.size:
      break
    drawn = world.sample_others(
      first[pending], basics.stream(seed, context.OTHERS, attempt)
    )
    same = world.state_id(drawn) == world.state_id(first[pending])
    # Prefixes of different lengths would tell states apart by their number
    # alone, in a world that counts moves.
    low, high = _moves_range(world, first[pending], drawn)
    distant = ~same & (high < low)
    count(counts, 'same_state', same)
    count(counts, 'no_common_moves', distant)
    reason[pending[distant]] = 'no_common_moves'
    good = ~same & ~distant
    second[pending[good]] = drawn[good]
    reason[pending[good]] = ''
    pending = pending[~good]
  return second, reason, counts


def _moves_range(
  world: core.Prefixed, first: np.ndarray, second: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Least and most moves [T] of prefixes that reach either of two states."""
  # [2, T, 2]: least and most of both states; what they share is a range too.
  spans = np.stack([world.prefix_moves(first), world.prefix_moves(second)])
  return spans[..., 0].max(0), spans[..., 1].min(0)


def prefix_pairs(
  world: core.Prefixed,
  first: np.ndarray,
  second: np.ndarray,
  *,
  seed: int,
  attempts: int,
  reason: np.ndarray | str = '',
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
    reason: [T] str, not '' where trials are unmeasurable already.
    keep: which pairs to keep; default all.
  """
  total = len(first)
  drawn = PrefixPairs(
    first,
    second,
    tokens=np.zeros((total, 2, world.max_len), np.int32),
    lengths=np.zeros((total, 2), np.int32),
    moves=np.zeros(total, np.int32),
    reason=np.full(total, reason, '<U24'),
    trial=np.arange(total),
    direction=np.zeros(total, np.int32),
    counts={},
  )
  # A number of moves that a prefix of either state can have.
  low, high = _moves_range(world, first, second)
  drawn.reason[(drawn.reason == '') & (high < low)] = 'no_prefix'
  pending = np.flatnonzero(drawn.reason == '')
  for attempt in range(attempts):
    if not pending.size:
      break
    # Trials still without two prefixes try again, each by its own number: what
    # it draws does not depend on which others are pending.
    share = basics.uniforms(seed, context.MOVES, pending, attempt // REDRAW)
    above = np.floor(share * (high - low + 1)[pending]).astype(np.int32)
    drawn.moves[pending] = np.minimum(low[pending] + above, high[pending])
    cause = _draw(world, drawn, pending, seed, attempt)
    if keep is not None:
      # The model is asked about pairs that are complete only.
      good = np.flatnonzero(cause == '')
      rows = pending[good]
      accepted = keep(drawn.tokens[rows], drawn.lengths[rows])
      cause[good[~accepted]] = 'refused_prefix'
    for name, called in NO_TWO.items():
      count(drawn.counts, name, cause == name)
      drawn.reason[pending[cause == name]] = called
    drawn.reason[pending[cause == '']] = ''
    pending = pending[cause != '']
  return drawn


def _draw(
  world: core.Prefixed,
  drawn: PrefixPairs,
  rows: np.ndarray,
  seed: int,
  attempt: int,
) -> np.ndarray:
  """Draws both prefixes of the given trials; [R] str, '' or of NO_TWO."""
  good = np.ones(len(rows), bool)
  for side, states in enumerate((drawn.first, drawn.second)):
    seeds = basics.hash64(seed, context.PREFIXES, rows, attempt, side)
    got = world.sample_prefixes(states[rows], drawn.moves[rows], seeds)
    width = got.tokens.shape[1]
    drawn.tokens[rows, side, :width] = got.tokens
    drawn.tokens[rows, side, width:] = core.PAD  # Of an attempt before.
    drawn.lengths[rows, side] = got.lengths
    good &= got.ok
  tokens, lengths = drawn.tokens[rows], drawn.lengths[rows]
  # Equal prefixes cannot be told apart by any model: no trial.
  equal = good & (lengths[:, 0] == lengths[:, 1])
  equal &= (tokens[:, 0] == tokens[:, 1]).all(1)
  cause = np.full(len(rows), '', '<U16')
  cause[~good], cause[equal] = 'no_prefix', 'equal_prefixes'
  return cause


def both_directions(pairs: PrefixPairs) -> PrefixPairs:
  """Each trial twice: as it is, then with its two prefixes swapped."""
  # Compression asks what the first accepts: the two directions are two trials
  # of one number, told apart by `direction`.
  return pairs._replace(
    first=np.concatenate([pairs.first, pairs.second]),
    second=np.concatenate([pairs.second, pairs.first]),
    tokens=np.concatenate([pairs.tokens, pairs.tokens[:, ::-1]]),
    lengths=np.concatenate([pairs.lengths, pairs.lengths[:, ::-1]]),
    moves=np.tile(pairs.moves, 2),
    reason=np.tile(pairs.reason, 2),
    trial=np.tile(pairs.trial, 2),
    direction=np.concatenate([pairs.direction, pairs.direction + 1]),
  )


def model_filter(
  predictor: core.Predictor, world: core.World, accept: rules.Accept, batch: int
) -> Keep:
  """Keeps pairs of prefixes whose every move the model accepts.

  The tokens that state the task, and the first one, are not asked for
  (Vafa et al. 2024, section 3; left out of the published code).
  """
  start = max(world.prompt_len, 1)

  def keep(tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """[T] bool of pairs [T, 2, L], [T, 2]."""
    flat = tokens.reshape(-1, tokens.shape[-1])
    rest = np.maximum(lengths.reshape(-1) - start, 0)
    # Each prefix is a trial with one suffix: what follows its first `start`
    # tokens.
    steps = engine.teacher_force(
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
