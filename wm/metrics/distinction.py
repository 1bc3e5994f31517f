"""Distinction: does the model tell apart prefixes of different states?

Vafa et al. 2024, section 2.3: precision and recall of the model's
Myhill-Nerode boundary between prefixes of two states, against the world's.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from wm import core
from wm.core.fields import field, field_error
from wm.evaluation import boundaries, engine, membership, prefix_pairs
from wm.evaluation import support as supports
from wm.evaluation.context import Trials

# First numbers of the ranges of frames until two states part.
BANDS = np.array([1, 2, 6, 21])
# Random stream of the world's sampled boundary; trials use other streams.
BOUNDARY = 16
PLAYED = 30  # Continuations of a trial that sample the world's boundary.


@dataclasses.dataclass(frozen=True)
class Metric(prefix_pairs.PairMetric):
  """Asks whether a model tells sequences of different states apart.

  Compares the model's boundary of two prefixes with the world's.

  The model's boundary is sampled from continuations of the first prefix. Each
  continuation is cut after its first token that the model does not accept
  after the second prefix, or where the world is over. The world's boundary is
  exact to length `k`; it is sampled too if suffixes to the end of a game are
  too many to list. Each quantity has a row per trial.

  Reasons of unmeasured trials: vacuous (the model accepts no token after the
  first prefix; precision only), empty (the boundary has no suffix),
  no_two_states, no_common_moves, no_two_prefixes_... (see compression),
  off_support and no_two_supported_prefixes (see `support`), no_prefix, no_room
  (for a token, or for any suffix of the world's boundary), no_answer (recall
  only: a predictor that only answers gave no answer to any suffix).

  Attributes:
    trials: pairs of prefixes drawn.
    samples: continuations sampled in each trial, M; 0 leaves precision out.
    accept: acceptance rule; continuations are drawn from accepted tokens.
    k: longest suffix of the world's boundary; -1 is the world's
      `boundary_depth` (5 as published for maps), or no limit if the boundary is
      'sampled'; 0 leaves recall out.
    sample_k: only the first tokens of samples (figure 6); 0 is all.
    world: spec of a world with the same tokens and rules that draws states and
      prefixes; '' is the scored world.
    prefix_filter: 'none', or 'model': only prefixes whose moves the model
      accepts.
    boundary: 'exact'; 'published': the suffixes that the published program
      lists (finite worlds only; for a map, in the order of its field `turns`);
      or 'sampled': random legal continuations of the first state to the end of
      the game or the world's length, each cut at its first token that is
      illegal from the second state, without repeats.
    max_elements: greatest number of suffixes of a world's boundary that are
      tried, chosen uniformly by seed; 0 is all.
    sampler: rule that continuations are drawn by; '' is `accept`.
    support: 'all', or 'sampler': judge only tokens whose probability the
      world's sampler determines; see wm.evaluation.support. Prefixes are then
      cut from sampled sequences. Precision counts suffixes that are judged;
      recall counts suffixes that are supported, weighted by probability.
    attempts: draws of a pair before a trial is given up; 1 as published.
    curve: also measure precision and recall on the same trials at seven
      thresholds of acceptance, from 0.001 to 0.1.

  Glossary:
    precision: Of the continuations that separate two states for the model, the
      share that also separates them in the world. Likely continuations come
      first, so it depends on `samples`.
    precision_sampled: As precision, over samples with repeats. It does not
      depend on `samples`.
    precision_definition: As precision, but a trial in which no continuation
      separates the states for the model counts 1. That is the definition, also
      for models that accept no token.
    precision_published: As precision_definition, but a trial in which the model
      accepts no token counts 0. The published program counts so.
    recall: Of the shortest continuations that separate two states in the world,
      the share that the model accepts after the first prefix and not after the
      second. Continuations that do not fit in a sequence are left out.
    recall_by_length: As recall, with equal weight on every length of
      continuation. Otherwise the long ones, which are many, would dominate.
    recall_definition: As recall, but two states that no continuation separates
      count 1. That is the definition, and the published program agrees.
    precision_by_epsilon: As precision, a mean over seven thresholds of
      acceptance. Its breakdown is the curve, and needs `curve`.
    recall_by_epsilon: As recall, a mean over seven thresholds of acceptance.
      Its breakdown is the curve, and needs `curve`.
    epsilon: threshold of acceptance (probability)
    parts_after: frames until the sequences after the two states differ
  """

  version: ClassVar[str] = '2'
  breakdown: ClassVar[tuple[str, ...]] = ('epsilon', 'parts_after')
  needs: ClassVar[tuple[core.Need, ...]] = (
    core.Predictor,
    core.Prefixed,
    core.Enumerable,
  )
  measures: ClassVar[Mapping[str, core.Measure]] = {
    'precision': core.Measure(
      1,
      'separates only different states',
      side='real',
      picture='told apart by the model, not by the world',
    ),
    'recall': core.Measure(
      1,
      'tells all states apart',
      side='apart',
      picture='told apart by the world, not by the model',
    ),
    'precision_by_epsilon': core.Measure(panel=True),
    'recall_by_epsilon': core.Measure(panel=True),
  }
  cautions: ClassVar[tuple[core.Caution, ...]] = (
    core.Caution(
      'precision',
      'accepts the same continuations after any two prefixes, so that it '
      'cannot fail a trial of compression',
      unmeasured='empty',
    ),
  )

  trials: int = field(1000, least=1)
  samples: int = field(30, least=0)
  accept: str = 'epsilon(0.01)'
  k: int = field(-1, least=-1)
  sample_k: int = field(0, least=0)
  world: str = ''
  prefix_filter: str = field('none', choices=prefix_pairs.FILTERS)
  boundary: str = field('exact', choices=('exact', 'published', 'sampled'))
  max_elements: int = field(0, least=0)
  sampler: str = ''
  support: str = field('all', choices=supports.CHOICES)
  attempts: int = field(32, least=1)
  curve: bool = False

  def __post_init__(self) -> None:
    super().__post_init__()
    if not (self.samples or self.k):
      raise field_error(self, 'samples k', 'one of them other than 0')

  def why_not_static(self) -> str:
    """See core.Metric."""
    plain = self.prefix_filter == 'none' and self.support == 'all'
    if not self.samples and plain and not self.curve:
      return ''
    return (
      "expected samples=0, max_elements=5, prefix_filter='none' and no curve"
    )

  def __call__(
    self, predictor: core.Predictor, world: core.Prefixed, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric."""
    trials = prefix_pairs.draw(self, predictor, world, seed, two_states=True)
    several = []
    thresholds = prefix_pairs.at_thresholds(trials) if self.curve else []
    for at in (trials, *thresholds):
      quantities = []
      if self.samples:
        listed = _sampled(self, at)
        if self.support == 'sampler':
          listed = _judged(at, listed)
        quantities += _precision(at, listed)
      if self.k:
        quantities += _recall(self, at)
      several.append(quantities)
    curves = prefix_pairs.curves(several[1:], ('precision', 'recall'))
    return (*several[0], *curves)


@dataclasses.dataclass(frozen=True)
class Listed:
  """The model's boundaries of the R pairs that were run.

  Attributes:
    elements: the distinct suffixes of each pair.
    weights: [S] float64 weight of each suffix.
    reason: [R] str, '' if the boundary is known.
  """

  elements: core.Boundary
  weights: np.ndarray
  reason: np.ndarray


def _sampled(metric: Metric, trials: Trials) -> Listed:
  """The model's boundary, estimated from samples."""
  samples = engine.sample_and_check(
    trials, metric.samples, limit=metric.sample_k
  )
  reason = np.where(samples.vacuous, 'vacuous', '')
  reason = np.where(trials.room == 0, 'no_room', reason)
  return Listed(*boundaries.refused(samples), reason)


def _judged(trials: Trials, listed: Listed) -> Listed:
  """Selects the suffixes that are judged after both prefixes."""
  elements = listed.elements
  judged = supports.of_elements(trials, elements, (0, 1)).judged
  on = judged >= elements.lengths
  lost = (elements.sizes > 0) & (elements.take(on).sizes == 0)
  reason = np.where((listed.reason == '') & lost, 'off_support', listed.reason)
  return Listed(elements.take(on), listed.weights[on], reason)


def _precision(trials: Trials, listed: Listed) -> list[core.Scores]:
  """Quantities of the model's boundary."""
  elements, reason = listed.elements, listed.reason
  wrong_at = boundaries.model_divergence(
    trials.world, trials.first, trials.second, elements
  )
  true, sizes = wrong_at == 0, elements.sizes
  reason = np.where((reason == '') & (sizes == 0), 'empty', reason)
  distinct = boundaries.mean_by_trial(true, np.ones(len(true)), sizes)
  sampled = boundaries.mean_by_trial(true, listed.weights, sizes)
  scored = functools.partial(_scored, trials, sizes)
  return [
    _pictured(
      trials, scored('precision', distinct, reason), elements, wrong_at
    ),
    scored('precision_definition', *_fill_empty(distinct, reason)),
    scored('precision_published', *_fill_empty(distinct, reason, vacuous=0.0)),
    scored('precision_sampled', sampled, reason),
  ]


def _recall(metric: Metric, trials: Trials) -> list[core.Scores]:
  """Quantities of the world's boundary."""
  # Suffixes that do not fit after the longer prefix cannot be asked about.
  listed = _world_boundary(metric, trials)
  elements = listed.take(listed.lengths <= trials.room[listed.pair_ids])
  none = np.where(listed.sizes > 0, 'no_room', 'empty')
  if metric.support == 'sampler':
    ahead = supports.of_elements(trials, elements, (0,))
    none = np.where(elements.sizes > 0, 'off_support', none)
    elements = elements.take(ahead.supported >= elements.lengths)
  sizes = elements.sizes
  if metric.max_elements:
    elements = boundaries.subsample(
      elements, trials.keys(), metric.max_elements
    )
  elements, wrong_at = membership.divergence(trials, elements)
  good, tried = wrong_at == 0, elements.sizes
  by_length = boundaries.length_weights(elements)
  reason = np.where(tried == 0, 'no_answer', '')
  reason = np.where(sizes == 0, none, reason)
  weights = np.ones(len(good))
  if metric.support == 'sampler':
    ahead = supports.of_elements(trials, elements, (0,))
    weights = np.exp(ahead.log_probs)
  even = boundaries.mean_by_trial(good, weights, tried)
  level = boundaries.mean_by_trial(good, by_length, tried)
  scored = functools.partial(_scored, trials, sizes)
  return [
    _pictured(trials, scored('recall', even, reason), elements, wrong_at),
    scored('recall_definition', *_fill_empty(even, reason)),
    scored('recall_by_length', level, reason),
  ]


def _world_boundary(metric: Metric, trials: Trials) -> core.Boundary:
  """The suffixes of the world's boundaries."""
  world, states, room = trials.world, (trials.first, trials.second), trials.room
  if metric.boundary == 'sampled':
    return boundaries.sampled(
      world,
      *states,
      num=PLAYED,
      room=room if metric.k < 0 else np.minimum(room, metric.k),
      seeds=trials.keys(BOUNDARY),
    )
  assert isinstance(world, core.Enumerable)  # By the metric's `needs`.
  depth = world.boundary_depth if metric.k < 0 else metric.k
  if metric.boundary == 'exact':
    return world.boundary(*states, depth)
  if not isinstance(world, core.Finite):
    raise core.InputError(
      f"boundary='published' was given; {world.name} has no finite table: only "
      "'exact' is available"
    )
  return world.boundary(*states, depth, published=True)


def _pictured(
  trials: Trials,
  scores: core.Scores,
  elements: core.Boundary,
  wrong_at: np.ndarray,
) -> core.Scores:
  """Adds columns for each trial's first wrong suffix to scores.

  wrong_at: [S] position of the wrong token in each suffix, 0 if it is right;
    see boundaries.
  """
  wrong = elements.take(wrong_at > 0)
  places = np.zeros(len(wrong.sizes), np.int64)
  nonempty = wrong.sizes > 0
  places[nonempty] = wrong_at[wrong_at > 0][wrong.offsets[:-1][nonempty]]
  more = trials.picture_columns(*wrong.firsts(), places)
  return dataclasses.replace(scores, columns=scores.columns | more)


def _scored(
  trials: Trials,
  sizes: np.ndarray,
  quantity: str,
  value: np.ndarray,
  reason: np.ndarray,
) -> core.Scores:
  """Scores of all trials; sizes, value and reason are [R] of those run."""
  pairs, filled = trials.prefixes, trials.filled
  total = len(pairs.reason)
  elements = filled(np.zeros(total, np.int64), sizes)
  return core.scores(
    quantity,
    filled(np.full(total, np.nan), value),
    reason=filled(pairs.reason, reason),
    group=trials.groups,
    columns={**trials.columns, 'elements': elements, **_parting(trials)},
    counts=pairs.counts,
  )


def _parting(trials: Trials) -> dict[str, np.ndarray]:
  """A column of how soon pairs part, of worlds that know what follows."""
  world, first = trials.world, trials.prefixes.first
  if not core.can(world, core.Latent.forecast):
    return {}
  tokens, frame = world.forecast(first, world.max_len)
  sizes = np.full(len(tokens), tokens.shape[1], np.int32)
  steps, _ = world.walk(trials.prefixes.second, tokens, sizes)
  at = np.minimum(steps, tokens.shape[1] - 1)
  band = np.searchsorted(BANDS, frame[np.arange(len(at)), at], side='right')
  ends = [*(BANDS[1:] - 1).tolist(), None]
  words = [
    f'{low}' if low == high else f'{low}-{high}' if high else f'{low} or more'
    for low, high in zip(BANDS.tolist(), ends, strict=True)
  ]
  column = np.array(words)[np.maximum(band - 1, 0)]
  return {'parts_after': np.where(steps < sizes, column, 'never')}


def _fill_empty(
  value: np.ndarray, reason: np.ndarray, vacuous: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
  """Values and reasons [R]; 1 where a boundary is empty, `vacuous` likewise."""
  for cause, constant in (('empty', 1.0), ('vacuous', vacuous)):
    value = np.where(reason == cause, constant, value)
    reason = np.where(reason == cause, '', reason)
  return value, reason
