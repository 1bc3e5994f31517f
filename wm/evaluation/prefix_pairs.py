"""Prefix pairs: the states and the two prefixes of each trial."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from wm import core
from wm.core import accept as rules
from wm.core import basics, registry
from wm.core.fields import field_error
from wm.evaluation import context, engine, membership, statistics
from wm.evaluation import support as supports
from wm.evaluation.context import PrefixPairs, Trials, count

# Draws of a second state before a trial is given up, or `attempts` if more.
STATE_ATTEMPTS = 1000
# Attempts with one number of moves before another is drawn.
REDRAW = 4
# Cause of a failed draw -> reason of a trial whose last draw failed so: a state
# has no prefix of this many moves (on a map, every way back meets a street
# without entry), both prefixes are equal, or the model refuses one.
NO_TWO = {
  'no_prefix': 'no_two_prefixes_missing',
  'equal_prefixes': 'no_two_prefixes_equal',
  'refused_prefix': 'no_two_prefixes_refused',
}

FILTERS = 'none', 'model'
# Thresholds of a curve: three a decade, so that its mean is over log epsilon.
CURVE = 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1
BY_EPSILON = '_by_epsilon'  # Ends the name of a quantity of a curve.

# Pairs of prefixes (tokens [T, 2, L], lengths [T, 2]) -> [T] bool.
Keep = Callable[[np.ndarray, np.ndarray], np.ndarray]


class PairMetric(membership.AcceptMetric):
  """Base of metrics whose trials are pairs of prefixes."""

  breakdown: ClassVar[tuple[str, ...]] = ('epsilon',)
  sized_by: ClassVar[tuple[str, ...]] = ('trials', 'trials samples')

  trials: int
  sampler: str
  world: str
  prefix_filter: str
  support: str
  attempts: int
  curve: bool

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.curve and (self.sampler or self.prefix_filter != 'none'):
      raise field_error(
        self, 'curve sampler prefix_filter', "sampler='', prefix_filter='none'"
      )
    if self.support != 'all' and (self.world or self.prefix_filter != 'none'):
      expected = "world='' and prefix_filter='none'"
      raise field_error(self, 'support world prefix_filter', expected)
    if self.sampler:
      registry.make('accept', self.sampler)


def draw(
  metric: PairMetric,
  predictor: core.Predictor,
  world: core.Prefixed,
  seed: int,
  *,
  two_states: bool,
) -> Trials:
  """Draws the trials of a metric: states, and two prefixes that reach them.

  two_states: whether the prefixes of a trial reach two different states
    (distinction) or one state (compression).
  """
  accept = sampler = membership.resolved(metric.accept, predictor, world)
  if metric.sampler:
    sampler = membership.resolved(metric.sampler, predictor, world)
  # With support='sampler' prefixes come from sampled sequences: uniformly drawn
  # states may have no supported prefix.
  if metric.support == 'sampler':
    drawn = supports.prefix_pairs(
      supports.Support.of(world, accept),
      metric.trials,
      basics.stream(seed, context.STATES),
      two_states=two_states,
    )
    return Trials(predictor, world, drawn, accept, sampler, seed)
  source = _state_source(metric, world)
  first = source.sample_states(
    metric.trials, basics.stream(seed, context.STATES)
  )
  counts: dict[str, int] = {}
  second, reason = first, np.full(len(first), '')
  if two_states:
    second, reason, counts = other_states(source, first, seed, metric.attempts)
  # The model may refuse a prefix that the world allows; see `model_filter`.
  keep = None
  if metric.prefix_filter == 'model':
    keep = model_filter(predictor, world, accept)
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
  # Was every state of the world drawn?
  census = core.can(world, core.Prefixed.num_states) and (
    len(np.unique(world.state_id(pairs.first))) == world.num_states()
  )
  return Trials(predictor, world, pairs, accept, sampler, seed, census)


def _state_source(metric: PairMetric, world: core.Prefixed) -> core.Prefixed:
  """The world that draws states; raises InputError if its rules differ."""
  if not metric.world:
    return world
  # E.g. the same game with another distribution of states.
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
  """Draws states unlike `first` [T, W] that share a possible number of moves.

  attempts: 1 draws once, as published; otherwise draws are repeated.

  Returns:
    states: [T, W].
    reason: [T] str, '' if a state was found.
    counts: cause -> number of resamples.
  """
  second = np.array(first)
  reason = np.full(len(first), 'no_two_states', dtype='<U16')
  counts: dict[str, int] = {}
  pending = np.arange(len(first))
  # As published, with one draw, equal states are a lost trial.
  most = max(STATE_ATTEMPTS, attempts) if attempts > 1 else 1
  for attempt in range(most):
    if not pending.size:
      break
    drawn = world.sample_others(
      first[pending], basics.stream(seed, context.OTHERS, attempt)
    )
    same = world.state_id(drawn) == world.state_id(first[pending])
    # Different numbers of moves alone would separate states in a world that
    # counts moves.
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
  """Fewest and most moves [T] that prefixes of both states may have."""
  # [2, T, 2]: ranges of both states; their intersection is a range too.
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
  """Draws two different prefixes with equal numbers of moves for each trial.

  The number of moves is uniform on the range that both states allow. A draw
  fails if a prefix does not exist, if both are equal, or if `keep` refuses
  them. It is then repeated for the same states, with a new number of moves
  every fourth time (Vafa et al. 2024, appendix E; the published code drops such
  trials: attempts=1).

  Args:
    world: world that the prefixes are of.
    first, second: [T, W] states; equal ones for compression.
    seed: seed of all draws; trial t depends on (seed, t) and its states alone.
    attempts: draws before a trial is given up; its reason is the last failure.
    reason: [T] str, not '' for trials that are already unmeasurable.
    keep: function that selects pairs; default: all.
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
    counts={},
  )
  # Ranges of moves that prefixes of both states can have.
  low, high = _moves_range(world, first, second)
  drawn.reason[(drawn.reason == '') & (high < low)] = 'no_prefix'
  pending = np.flatnonzero(drawn.reason == '')
  for attempt in range(attempts):
    if not pending.size:
      break
    # Trials without two prefixes try again. A trial's draws depend on its
    # number, not on other pending trials.
    share = basics.uniforms(seed, context.MOVES, pending, attempt // REDRAW)
    above = np.floor(share * (high - low + 1)[pending]).astype(np.int32)
    drawn.moves[pending] = np.minimum(low[pending] + above, high[pending])
    cause = _draw(world, drawn, pending, seed, attempt)
    if keep is not None:
      # The model is asked only about complete pairs.
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
  """Draws both prefixes of trials `rows`; returns [R] str, '' or a cause."""
  good = np.ones(len(rows), bool)
  for side, states in enumerate((drawn.first, drawn.second)):
    seeds = basics.hash64(seed, context.PREFIXES, rows, attempt, side)
    got = world.sample_prefixes(states[rows], drawn.moves[rows], seeds)
    width = got.tokens.shape[1]
    drawn.tokens[rows, side, :width] = got.tokens
    drawn.tokens[rows, side, width:] = core.PAD  # Clears earlier attempts.
    drawn.lengths[rows, side] = got.lengths
    good &= got.ok
  tokens, lengths = drawn.tokens[rows], drawn.lengths[rows]
  # No model can distinguish equal prefixes: the draw fails.
  equal = good & (lengths[:, 0] == lengths[:, 1])
  equal &= (tokens[:, 0] == tokens[:, 1]).all(1)
  cause = np.full(len(rows), '', '<U16')
  cause[~good], cause[equal] = 'no_prefix', 'equal_prefixes'
  return cause


def model_filter(
  predictor: core.Predictor, world: core.World, accept: rules.Accept
) -> Keep:
  """A filter for pairs of prefixes whose moves the model all accepts.

  The tokens of the prompt, and the first token, need not be accepted (Vafa et
  al. 2024, section 3; left out of the published code).
  """
  start = max(world.prompt_len, 1)

  def keep(tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """[T] bool, from tokens [T, 2, L] and lengths [T, 2]."""
    flat = tokens.reshape(-1, tokens.shape[-1])
    rest = np.maximum(lengths.reshape(-1) - start, 0)
    # Each prefix is a trial with one suffix: its tokens from `start` on.
    steps = engine.teacher_force(
      predictor,
      flat[:, None, :start],
      np.full((len(flat), 1), start, np.int32),
      flat[:, None, start:],
      rest[:, None],
      accept,
    )
    return (steps[:, 0, 0] == rest).reshape(-1, 2).all(1)

  return keep


def at_thresholds(trials: Trials) -> list[Trials]:
  """The same trials at each threshold of acceptance of CURVE."""
  rule = map(rules.epsilon, CURVE)
  return [dataclasses.replace(trials, accept=x, sampler=x) for x in rule]


def curves(
  several: Sequence[Sequence[core.Scores]], names: Sequence[str]
) -> list[core.Scores]:
  """Quantities by the threshold of acceptance, on the same trials.

  Rows of all thresholds of CURVE follow each other, with the threshold in the
  column `epsilon`; the mean is the area under the curve over log epsilon.

  Args:
    several: quantities at each threshold.
    names: of the quantities that have a curve.

  Returns:
    A quantity NAME_by_epsilon for each; none without thresholds.
  """
  return [
    _joined(parts)
    for parts in zip(*several, strict=True)
    if parts[0].quantity in names
  ]


def _joined(parts: Sequence[core.Scores]) -> core.Scores:
  """Rows of a quantity at all thresholds of CURVE."""
  scores = statistics.joined(parts, 'epsilon', CURVE)
  return dataclasses.replace(
    scores,
    quantity=scores.quantity + BY_EPSILON,
    columns={'epsilon': scores.columns['epsilon']},
    counts={},
  )
