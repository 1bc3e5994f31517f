"""Distinction: does the model tell apart prefixes of different states?

Vafa et al. 2024, section 2.3: precision and recall of the model's
Myhill-Nerode boundary between prefixes of two states, against the world's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from wm import core
from wm.core import accept as rules
from wm.core import registry
from wm.evaluation import (
  boundaries,
  endings,
  engine,
  membership,
  prefix_pairs,
  search,
)

# Stream of randomness of the world's sampled boundary, beside those of trials.
BOUNDARY = 16


@dataclasses.dataclass(frozen=True)
class Metric(core.Metric):
  """Compares the model's boundary of two prefixes with the world's.

  The model's boundary is sampled: continuations of the first prefix, each cut
  after its first token that is not accepted after the second, or where the
  world is over. The world's is exact to length `k`, or, where suffixes to the
  end of a game are too many to list, sampled too. Each quantity
  has a row per trial (and direction).

  Reasons of unmeasured trials: vacuous (nothing is accepted after the first
  prefix; precision only), empty (the boundary is), capped (`exact` only),
  no_two_states, no_common_moves, no_two_prefixes_... (as of compression),
  no_prefix, no_room (for a token, or for any suffix of the world's boundary),
  no_answer (recall of a predictor that only accepts, where it gave none to any
  suffix).

  Attributes:
    trials: pairs of states drawn.
    samples: continuations sampled in each trial, M; 0 leaves precision out.
    accept: acceptance rule; continuations are drawn from accepted tokens.
    k: longest suffix of the world's boundary; -1 is what the world affords
      (`World.boundary_depth`, 5 as published for maps; 'sampled': no limit);
      0 leaves recall out.
    sample_k: only the first tokens of samples (figure 6); 0 is all.
    directions: 'first', or 'both': each pair also the other way round.
    prefix_filter: 'none', or 'model': prefixes whose moves it accepts.
    boundary: 'exact'; 'published' for what the published program lists of the
      world's boundary (finite worlds only; of a map, in the order of its field
      `turns`); or 'sampled': the distinct cuts, at the first token illegal from
      the second state, of random legal continuations of the first to the end of
      the game or the world's length.
    boundary_samples: such continuations in each trial.
    exact: enumerate the model's boundary to length `sample_k` instead.
    cap: most continuations of one length that `exact` follows.
    max_elements: at most so many elements of a world's boundary are tried, a
      uniform choice by seed; 0 is all.
    sampler: rule that continuations are drawn by, where it is not `accept`.
    attempts: draws of a pair before a trial is given up; 1 as published.
    batch: trials in flight; no effect on results.
  """

  version: ClassVar[str] = '2'
  breakdown: ClassVar[tuple[str, ...]] = ('direction',)
  headline: ClassVar[tuple[str, ...]] = ('precision', 'recall')
  pictures: ClassVar[Mapping[str, str]] = {
    'precision': 'told apart by the model, not by the world',
    'recall': 'told apart by the world, not by the model',
  }
  glossary: ClassVar[Mapping[str, str]] = {
    'precision': (
      'Share of the continuations by which the model tells two states apart '
      'that tell them apart in the world. Likely continuations are found '
      'first, so it depends on `samples`.'
    ),
    'precision_sampled': (
      'The same share over samples with repeats, or by `exact` weighted by '
      "the model's probability. It is free of that dependence."
    ),
    'precision_definition': (
      'As precision, where a trial without such a continuation counts 1. That '
      'is the definition, for models that accept nothing too.'
    ),
    'precision_published': (
      'As precision_definition, where a trial in which the model accepts '
      'nothing counts 0. That is what the published program makes of it.'
    ),
    'recall': (
      'Share of the shortest continuations that tell two states apart in the '
      'world that the model accepts after the first prefix and not after the '
      'second. Only those that fit in a sequence count.'
    ),
    'recall_by_length': (
      'The same, with equal weight on every length of continuation. Long ones '
      'are many and would decide alone.'
    ),
    'recall_definition': (
      'As recall, where two states that nothing tells apart count 1. That is '
      'the definition and the published program.'
    ),
    'direction': 'direction: 0 as drawn, 1 with the prefixes swapped',
  }

  trials: int = 1000
  samples: int = 30
  accept: str = 'epsilon(0.01)'
  k: int = -1
  sample_k: int = 0
  directions: str = 'first'
  prefix_filter: str = 'none'
  boundary: str = 'exact'
  boundary_samples: int = 30
  exact: bool = False
  cap: int = 64
  max_elements: int = 0
  sampler: str = ''
  attempts: int = 32
  batch: int = dataclasses.field(default=engine.BATCH, compare=False)

  def __post_init__(self) -> None:
    least = 'trials', 'cap', 'attempts', 'batch', 'boundary_samples'
    prefix_pairs.check(self, *least)
    numbers = (self.samples, self.k + 1, self.sample_k, self.max_elements)
    if min(numbers) < 0 or not (self.samples or self.k):
      raise core.InputError(
        f'distinction: samples={self.samples}, k={self.k}, sample_k='
        f'{self.sample_k}, max_elements={self.max_elements} was given; '
        'expected k >= -1, the others >= 0, and samples or k other than 0'
      )
    prefix_pairs.renamed(self, 'boundary', 'reference', 'published')
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
    found = []
    if self.samples:
      boundary = self._model_boundary(
        predictor, world, pairs, rows, accept, seed
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
  ) -> prefix_pairs.PrefixPairs:
    first = world.sample_states(
      self.trials, prefix_pairs.stream(seed, prefix_pairs.STATES)
    )
    second, reason, counts = prefix_pairs.sample_other_states(
      world, first, seed, self.attempts
    )
    keep = None
    if self.prefix_filter == 'model':
      keep = prefix_pairs.model_filter(predictor, world, accept, self.batch)
    pairs = prefix_pairs.prefix_pairs(
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
      pairs = prefix_pairs.both_directions(pairs)
    return pairs

  def _model_boundary(
    self,
    predictor: core.Predictor,
    world: core.World,
    pairs: prefix_pairs.PrefixPairs,
    rows: np.ndarray,
    accept: rules.Accept,
    seed: int,
  ) -> boundaries.Found:
    tokens, lengths = pairs.tokens[rows], pairs.lengths[rows]
    limit = prefix_pairs.budget(predictor, world)
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
        endings=endings.of(world, pairs.first[rows]),
        batch=self.batch,
      )
      reason = np.where(found.capped, 'capped', '')
      reason = np.where(found.vacuous, 'vacuous', reason)
      reason = np.where(full, 'no_room', reason)
      return boundaries.Found(found.boundary, found.shares, reason)
    sampler = registry.make('accept', self.sampler) if self.sampler else None
    found = engine.pairs(
      predictor,
      tokens,
      lengths,
      num=self.samples,
      max_len=limit,
      seeds=prefix_pairs.sample_seeds(seed, pairs, rows),
      accept=accept,
      sampler=sampler,
      limit=self.sample_k,
      endings=endings.of(world, pairs.first[rows]),
      batch=self.batch,
    )
    reason = np.where(found.vacuous, 'vacuous', '')
    reason = np.where(full, 'no_room', reason)
    return boundaries.Found(*boundaries.distinct(found), reason)

  def _precision(
    self,
    world: core.World,
    pairs: prefix_pairs.PrefixPairs,
    rows: np.ndarray,
    boundary: boundaries.Found,
  ) -> list[core.Scores]:
    sizes = boundary.elements.sizes
    wrong_at = boundaries.untrue_at(
      world, pairs.first[rows], pairs.second[rows], boundary.elements
    )
    true = wrong_at == 0
    reason = np.where(
      (boundary.reason == '') & (sizes == 0), 'empty', boundary.reason
    )
    distinct = boundaries.mean_by_trial(true, np.ones(len(true)), sizes)
    sampled = boundaries.mean_by_trial(true, boundary.weights, sizes)
    scored = _scored('precision', world, pairs, rows, distinct, reason, sizes)
    return [
      _pictured(scored, world, pairs, rows, boundary.elements, wrong_at),
      *(
        _scored(
          f'precision_{name}',
          world,
          pairs,
          rows,
          *_whole(distinct, reason, vacuous),
          sizes,
        )
        for name, vacuous in (('definition', 1.0), ('published', 0.0))
      ),
      _scored('precision_sampled', world, pairs, rows, sampled, reason, sizes),
    ]

  def _recall(
    self,
    predictor: core.Predictor,
    world: core.World,
    pairs: prefix_pairs.PrefixPairs,
    rows: np.ndarray,
    accept: rules.Accept,
    seed: int,
  ) -> list[core.Scores]:
    room = prefix_pairs.budget(predictor, world) - pairs.lengths[rows].max(1)
    listed = self._world_boundary(world, pairs, rows, room, seed)
    elements = listed.take(listed.lengths <= room[listed.pairs])
    sizes = elements.sizes
    none = np.where(listed.sizes > 0, 'no_room', 'empty')
    if self.max_elements:
      keys = core.hash64(seed, pairs.trial[rows], pairs.direction[rows])
      elements = boundaries.some(elements, keys, self.max_elements)
    if isinstance(predictor, core.AnswersOnly):
      elements, wrong_at = membership.told(
        predictor,
        pairs.tokens[rows],
        pairs.lengths[rows],
        elements,
        pairs.counts,
      )
    else:
      wrong_at = boundaries.untold_at(
        predictor, pairs, rows, elements, accept, self.batch
      )
    good = wrong_at == 0
    tried, by_length = elements.sizes, boundaries.length_weights(elements)
    reason = np.where(tried == 0, 'no_answer', '')
    reason = np.where(sizes == 0, none, reason)
    even = boundaries.mean_by_trial(good, np.ones(len(good)), tried)
    level = boundaries.mean_by_trial(good, by_length, tried)
    scored = _scored('recall', world, pairs, rows, even, reason, sizes)
    return [
      _pictured(scored, world, pairs, rows, elements, wrong_at),
      _scored(
        'recall_definition', world, pairs, rows, *_whole(even, reason), sizes
      ),
      _scored('recall_by_length', world, pairs, rows, level, reason, sizes),
    ]

  def _world_boundary(
    self,
    world: core.World,
    pairs: prefix_pairs.PrefixPairs,
    rows: np.ndarray,
    room: np.ndarray,
    seed: int,
  ) -> core.Boundary:
    first, second = pairs.first[rows], pairs.second[rows]
    if self.boundary != 'sampled':
      depth = world.boundary_depth if self.k < 0 else self.k
      return boundaries.LISTED[self.boundary](world, first, second, depth)
    keys = pairs.trial[rows], pairs.direction[rows]
    return boundaries.sampled(
      world,
      first,
      second,
      num=self.boundary_samples,
      room=room if self.k < 0 else np.minimum(room, self.k),
      seeds=core.hash64(seed, BOUNDARY, *keys),
    )


def _pictured(
  scores: core.Scores,
  world: core.World,
  pairs: prefix_pairs.PrefixPairs,
  rows: np.ndarray,
  elements: core.Boundary,
  wrong_at: np.ndarray,
) -> core.Scores:
  """The same with columns of each trial's first wrong element.

  rows: [R] trials that the R pairs of `elements` are.
  wrong_at: [S] over all elements, 0 where right; see boundaries.
  """
  suffixes: list[tuple[int, ...]] = [()] * len(pairs.reason)
  places = np.zeros(len(pairs.reason), np.int64)
  wrong = np.flatnonzero(wrong_at)
  which, first = np.unique(elements.pairs[wrong], return_index=True)
  for row, at in zip(rows[which], wrong[first], strict=True):
    suffixes[row], places[row] = elements.suffix(at), wrong_at[at]
  more = prefix_pairs.pictured(world, pairs, suffixes, places)
  return dataclasses.replace(scores, columns=scores.columns | more)


def _scored(
  quantity: str,
  world: core.World,
  pairs: prefix_pairs.PrefixPairs,
  rows: np.ndarray,
  value: np.ndarray,
  reason: np.ndarray,
  sizes: np.ndarray,
) -> core.Scores:
  """Scores of all trials, from value, reason and boundary size of `rows`."""
  total = len(pairs.reason)
  columns = prefix_pairs.columns(world, pairs)
  # Both directions of a pair are one group.
  origin = np.where(pairs.direction[:, None] == 0, pairs.first, pairs.second)
  columns['elements'] = prefix_pairs.fill(
    np.zeros(total, np.int64), rows, sizes
  )
  return core.scores(
    quantity,
    prefix_pairs.fill(np.full(total, np.nan), rows, value),
    reason=prefix_pairs.fill(pairs.reason, rows, reason),
    group=world.state_id(origin),
    columns=columns,
    counts=pairs.counts,
  )


def _whole(
  value: np.ndarray, reason: np.ndarray, vacuous: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
  """Values and reasons [R] with 1 for empty boundaries, `vacuous` for such."""
  for cause, stands in (('empty', 1.0), ('vacuous', vacuous)):
    value = np.where(reason == cause, stands, value)
    reason = np.where(reason == cause, '', reason)
  return value, reason
