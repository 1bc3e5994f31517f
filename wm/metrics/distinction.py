"""Distinction: does the model tell apart prefixes of different states?

Vafa et al. 2024, section 2.3: precision and recall of the model's
Myhill-Nerode boundary between prefixes of two states, against the world's.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from wm import accept as rules
from wm import core, registry
from wm.metrics import boundaries, rollouts, search, trials


@dataclasses.dataclass(frozen=True)
class Metric(core.Metric):
  """Compares the model's boundary of two prefixes with the world's.

  The model's boundary is sampled: continuations of the first prefix, each cut
  after its first token that is not accepted after the second. The world's is
  exact to length `k`. Quantities, each with a row per trial (and direction):

    precision: share of the distinct elements of the model's boundary that
      are legal from the first state and not from the second (as published).
      It depends on `samples`: likely elements are found first.
    precision_sampled: the same share over samples, with repeats: free of that
      bias. By `exact`, elements weighted by the model's probability.
    recall: share of the world's boundary that is accepted after the first
      prefix and not after the second.
    recall_by_length: the same, each length of suffix with the same weight.
    precision_definition, recall_definition: as precision and recall, with 1
      for an empty boundary (Def. 2.4 and the published program).

  Reasons of unmeasured trials: vacuous (nothing is accepted after the first
  prefix; precision only), empty (the boundary is), capped (`exact` only),
  no_two_states, no_common_moves, no_two_prefixes, no_prefix, no_room.

  Attributes:
    trials: pairs of states drawn.
    samples: continuations sampled in each trial, M; 0 leaves precision out.
    accept: acceptance rule; continuations are drawn from accepted tokens.
    k: longest suffix of the world's boundary; 0 leaves recall out.
    sample_k: only the first tokens of samples (figure 6); 0 is all.
    directions: 'first', or 'both': each pair also the other way round.
    prefix_filter: 'none', or 'model': prefixes whose moves it accepts.
    boundary: 'exact', or 'reference' for what the published program lists of
      the world's boundary (finite worlds only).
    exact: enumerate the model's boundary to length `sample_k` instead.
    cap: most continuations of one length that `exact` follows.
    max_elements: at most so many elements of a world's boundary are tried, a
      uniform choice by seed; 0 is all.
    sampler: rule that continuations are drawn by, where it is not `accept`.
    attempts: draws of a pair before a trial is given up; 1 as published.
    batch: trials in flight; no effect on results.
  """

  version: ClassVar[str] = '1'
  breakdown: ClassVar[tuple[str, ...]] = ('direction',)
  headline: ClassVar[tuple[str, ...]] = ('precision', 'recall')

  trials: int = 1000
  samples: int = 30
  accept: str = 'epsilon(0.01)'
  k: int = 5
  sample_k: int = 0
  directions: str = 'first'
  prefix_filter: str = 'none'
  boundary: str = 'exact'
  exact: bool = False
  cap: int = 64
  max_elements: int = 0
  sampler: str = ''
  attempts: int = 32
  batch: int = dataclasses.field(default=rollouts.BATCH, compare=False)

  def __post_init__(self) -> None:
    trials.check(self, 'trials', 'cap', 'attempts', 'batch')
    numbers = (self.samples, self.k, self.sample_k, self.max_elements)
    if min(numbers) < 0 or not (self.samples or self.k):
      raise core.InputError(
        f'distinction: samples={self.samples}, k={self.k}, sample_k='
        f'{self.sample_k}, max_elements={self.max_elements} was given; '
        'expected none below 0, and samples or k above it'
      )
    if self.boundary not in boundaries.VARIANTS:
      raise core.InputError(
        f'distinction: boundary={self.boundary!r} was given; available: '
        + ', '.join(boundaries.VARIANTS)
      )
    if self.exact and not self.sample_k:
      raise core.InputError('distinction: exact=True needs sample_k >= 1')

  def __call__(
    self, predictor: core.Predictor, world: core.World, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric."""
    accept = registry.make('accept', self.accept)
    pairs = self._pairs(predictor, world, accept, seed)
    rows = np.flatnonzero(pairs.reason == '')
    limit = trials.budget(predictor, world)
    found = []
    if self.samples:
      boundary = self._model_boundary(
        predictor, pairs, rows, accept, limit, seed
      )
      found += self._precision(world, pairs, rows, boundary)
    if self.k:
      found += self._recall(predictor, world, pairs, rows, accept, seed)
    return tuple(found)

  def _pairs(
    self,
    predictor: core.Predictor,
    world: core.World,
    accept: rules.Accept,
    seed: int,
  ) -> trials.PrefixPairs:
    first = world.sample_states(self.trials, trials.stream(seed, trials.STATES))
    second, reason, counts = trials.sample_other_states(
      world, first, seed, self.attempts
    )
    keep = None
    if self.prefix_filter == 'model':
      keep = trials.model_filter(predictor, world, accept, self.batch)
    pairs = trials.prefix_pairs(
      world,
      first,
      second,
      seed=seed,
      attempts=self.attempts,
      reason=reason,
      keep=keep,
    )
    pairs.counts.update(counts)
    if self.directions == 'both':
      pairs = trials.both_directions(pairs)
    return pairs

  def _model_boundary(
    self,
    predictor: core.Predictor,
    pairs: trials.PrefixPairs,
    rows: np.ndarray,
    accept: rules.Accept,
    limit: int,
    seed: int,
  ) -> boundaries.Boundary:
    tokens, lengths = pairs.tokens[rows], pairs.lengths[rows]
    full = lengths.max(1) >= limit
    if self.exact:
      found = search.search(
        predictor,
        tokens,
        lengths,
        depth=self.sample_k,
        max_len=limit,
        cap=self.cap,
        accept=accept,
        batch=self.batch,
      )
      reason = np.where(found.capped, 'capped', '')
      reason = np.where(found.vacuous, 'vacuous', reason)
      reason = np.where(full, 'no_room', reason)
      return boundaries.Boundary(found.boundary, found.shares, reason)
    sampler = registry.make('accept', self.sampler) if self.sampler else None
    found = rollouts.pairs(
      predictor,
      tokens,
      lengths,
      num=self.samples,
      max_len=limit,
      seeds=trials.sample_seeds(seed, pairs, rows),
      accept=accept,
      sampler=sampler,
      limit=self.sample_k,
      batch=self.batch,
    )
    reason = np.where(found.vacuous, 'vacuous', '')
    reason = np.where(full, 'no_room', reason)
    return boundaries.Boundary(*boundaries.distinct(found), reason)

  def _precision(
    self,
    world: core.World,
    pairs: trials.PrefixPairs,
    rows: np.ndarray,
    boundary: boundaries.Boundary,
  ) -> list[core.Scores]:
    sizes = np.array([len(e) for e in boundary.elements], np.int64)
    true = boundaries.true_boundary(
      world, pairs.first[rows], pairs.second[rows], boundary.elements
    )
    weight = np.concatenate([np.zeros(0), *boundary.weights])
    reason = np.where(
      (boundary.reason == '') & (sizes == 0), 'empty', boundary.reason
    )
    distinct = boundaries.mean_by_trial(true, np.ones(len(true)), sizes)
    sampled = boundaries.mean_by_trial(true, weight, sizes)
    return [
      _scored('precision', world, pairs, rows, distinct, reason, sizes),
      _defined('precision', world, pairs, rows, distinct, reason, sizes),
      _scored('precision_sampled', world, pairs, rows, sampled, reason, sizes),
    ]

  def _recall(
    self,
    predictor: core.Predictor,
    world: core.World,
    pairs: trials.PrefixPairs,
    rows: np.ndarray,
    accept: rules.Accept,
    seed: int,
  ) -> list[core.Scores]:
    listed = boundaries.VARIANTS[self.boundary]
    elements = listed(world, pairs.first[rows], pairs.second[rows], self.k)
    sizes = np.array([len(e) for e in elements], np.int64)
    if self.max_elements:
      keys = core.hash64(seed, pairs.trial[rows], pairs.direction[rows])
      elements = [
        boundaries.some(e, key, self.max_elements)
        for e, key in zip(elements, keys, strict=True)
      ]
    good = boundaries.accepted_apart(
      predictor, pairs, rows, elements, accept, self.batch
    )
    tried = np.array([len(e) for e in elements], np.int64)
    by_length = np.concatenate(
      [np.zeros(0), *(boundaries.length_weights(e) for e in elements)]
    )
    reason = np.where(sizes == 0, 'empty', '')
    even = boundaries.mean_by_trial(good, np.ones(len(good)), tried)
    level = boundaries.mean_by_trial(good, by_length, tried)
    return [
      _scored('recall', world, pairs, rows, even, reason, sizes),
      _defined('recall', world, pairs, rows, even, reason, sizes),
      _scored('recall_by_length', world, pairs, rows, level, reason, sizes),
    ]


def _scored(
  quantity: str,
  world: core.World,
  pairs: trials.PrefixPairs,
  rows: np.ndarray,
  value: np.ndarray,
  reason: np.ndarray,
  sizes: np.ndarray,
) -> core.Scores:
  """Scores of all trials, from value, reason and boundary size of `rows`."""
  total = len(pairs.reason)
  columns = trials.columns(world, pairs)
  # Both directions of a pair are one group.
  origin = np.where(pairs.direction[:, None] == 0, pairs.first, pairs.second)
  columns['elements'] = trials.fill(np.zeros(total, np.int64), rows, sizes)
  return core.scores(
    quantity,
    trials.fill(np.full(total, np.nan), rows, value),
    reason=trials.fill(pairs.reason, rows, reason),
    group=world.state_id(origin),
    columns=columns,
    counts=pairs.counts,
  )


def _defined(
  quantity: str,
  world: core.World,
  pairs: trials.PrefixPairs,
  rows: np.ndarray,
  value: np.ndarray,
  reason: np.ndarray,
  sizes: np.ndarray,
) -> core.Scores:
  """The same with 1 for an empty boundary, vacuous trials included."""
  none = np.isin(reason, ('empty', 'vacuous'))
  value, reason = np.where(none, 1.0, value), np.where(none, '', reason)
  name = f'{quantity}_definition'
  return _scored(name, world, pairs, rows, value, reason, sizes)
