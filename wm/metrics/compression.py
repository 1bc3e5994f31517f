"""Compression: do two prefixes that reach one state mean the same thing?

Vafa et al. 2024, section 2.3: the precision of the model's Myhill-Nerode
boundary between prefixes of one state, where the true boundary is empty: 1
exactly when whatever the model accepts after one it accepts after the other.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from wm import core
from wm.core import accept as rules
from wm.core import registry
from wm.evaluation import endings, engine, membership, prefix_pairs, search


@dataclasses.dataclass(frozen=True)
class Metric(core.Metric):
  """Takes continuations of one prefix and checks them after another.

  Each quantity has a row per trial (and direction); `accepted_share` and
  `first_violation` only where `graded`.

  Reasons of unmeasured trials: vacuous (the model accepts nothing after the
  first prefix), capped (`exact`: more continuations than `cap`), no_answer
  (after both prefixes, to any continuation), no_two_prefixes_... (a second one
  is missing, equal to the first, or refused by the model), no_prefix, no_room
  (no token left to sample), no_violation. By suffixes='world' no trial is
  vacuous.

  Side columns of `precision`: `suffix`, the first continuation refused, and
  what else a report pictures a trial from; see `prefix_pairs.pictured`.

  Attributes:
    trials: states drawn.
    samples: continuations sampled in each trial, M.
    accept: acceptance rule; continuations are drawn from accepted tokens.
    k: only the first k tokens of continuations (figure 6); 0 is all.
    suffixes: 'model': sampled from the model after the first prefix; 'world':
      drawn by the world, half of them whatever is legal, and asked as a whole
      after both prefixes, where any disagreement counts (as published for
      logic puzzles, whose models only answer: k=1, samples=5).
    directions: 'first': continuations of the first prefix; 'both': also of
      the second, as a row of its own in the same group.
    prefix_filter: 'none', or 'model': prefixes whose moves it accepts.
    graded: also the graded quantities; no trial ends early then.
    exact: search all continuations to depth k instead of sampling.
    cap: most continuations of one length that `exact` follows.
    sampler: rule that continuations are drawn by, where it is not `accept`,
      e.g. 'published(0.01)'.
    attempts: draws of prefixes before a trial is given up; 1 as published.
    batch: trials in flight; no effect on results.
  """

  version: ClassVar[str] = '1'
  breakdown: ClassVar[tuple[str, ...]] = ('direction',)
  headline: ClassVar[tuple[str, ...]] = ('precision',)
  pictures: ClassVar[Mapping[str, str]] = {
    'precision': 'accepted after one prefix, refused after the other',
  }
  glossary: ClassVar[Mapping[str, str]] = {
    'precision': (
      'Share of pairs of prefixes of one state after which the model accepts '
      'the same continuations. Only so many continuations are sampled, so it '
      'is an upper bound that falls with their number; vacuous trials are not '
      'measured.'
    ),
    'precision_definition': (
      'The same, where a trial in which the model accepts nothing counts 1. '
      'That is the definition: an empty boundary is precise.'
    ),
    'precision_published': (
      'The same, where a trial in which the model accepts nothing counts 0. '
      'That is what the published program makes of it.'
    ),
    'accepted_share': (
      'Share of the continuations that are accepted in full after the other '
      'prefix too. It grades what precision counts as 0 or 1.'
    ),
    'first_violation': (
      'Tokens of a refused continuation up to the first that is refused, that '
      'one included. Early violations are worse.'
    ),
    'direction': 'direction: 0 as drawn, 1 with the prefixes swapped',
  }

  trials: int = 1000
  samples: int = 30
  accept: str = 'epsilon(0.01)'
  k: int = 0
  suffixes: str = 'model'
  directions: str = 'first'
  prefix_filter: str = 'none'
  graded: bool = False
  exact: bool = False
  cap: int = 64
  sampler: str = ''
  attempts: int = 32
  batch: int = dataclasses.field(default=engine.BATCH, compare=False)

  def __post_init__(self) -> None:
    prefix_pairs.check(self, 'trials', 'samples', 'cap', 'attempts', 'batch')
    if self.k < 0 or (self.exact and not self.k):
      raise core.InputError(
        f'compression: k={self.k}, exact={self.exact} was given; expected '
        'k >= 0, and k >= 1 with exact=True'
      )
    if self.suffixes == 'world' and (self.exact or not self.k or self.sampler):
      raise core.InputError(
        f"compression: suffixes='world', k={self.k}, exact={self.exact}, "
        f'sampler={self.sampler!r} was given; expected k >= 1, exact=False '
        'and no sampler'
      )

  def __call__(
    self, predictor: core.Predictor, world: core.World, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric."""
    accept = registry.make('accept', self.accept)
    states = world.sample_states(
      self.trials, prefix_pairs.stream(seed, prefix_pairs.STATES)
    )
    keep = None
    if self.prefix_filter == 'model':
      keep = prefix_pairs.model_filter(predictor, world, accept, self.batch)
    pairs = prefix_pairs.prefix_pairs(
      world, states, states, seed=seed, attempts=self.attempts, keep=keep
    )
    if self.directions == 'both':
      pairs = prefix_pairs.both_directions(pairs)
    rows = np.flatnonzero(pairs.reason == '')
    measure = self._search if self.exact else self._sample
    if self.suffixes == 'world':
      measure = self._ask
    outcome = measure(predictor, world, pairs, rows, accept, seed)
    return self._scores(world, pairs, rows, outcome)

  def _sample(
    self,
    predictor: core.Predictor,
    world: core.World,
    pairs: prefix_pairs.PrefixPairs,
    rows: np.ndarray,
    accept: rules.Accept,
    seed: int,
  ) -> Outcome:
    sampler = registry.make('accept', self.sampler) if self.sampler else None
    limit = prefix_pairs.budget(predictor, world)
    found = engine.pairs(
      predictor,
      pairs.tokens[rows],
      pairs.lengths[rows],
      num=self.samples,
      max_len=limit,
      seeds=prefix_pairs.sample_seeds(seed, pairs, rows),
      accept=accept,
      sampler=sampler,
      limit=self.k,
      decide=not self.graded,
      endings=endings.of(world, pairs.first[rows]),
      batch=self.batch,
    )
    refused = found.status == engine.REFUSED
    reason = np.where(found.vacuous, 'vacuous', '')
    reason[(found.lengths == 0).all(1) & ~found.vacuous] = 'no_room'
    num = refused.sum(1)
    positions = np.where(refused, found.lengths, 0).sum(1)
    telling = _first(found.tokens, found.lengths, refused)
    return Outcome(
      ~refused.any(1), reason, 1 - num / self.samples, positions, num, telling
    )

  def _search(
    self,
    predictor: core.Predictor,
    world: core.World,
    pairs: prefix_pairs.PrefixPairs,
    rows: np.ndarray,
    accept: rules.Accept,
    seed: int,
  ) -> Outcome:
    del seed
    limit = prefix_pairs.budget(predictor, world)
    found = search.search(
      predictor,
      pairs.tokens[rows],
      pairs.lengths[rows],
      depth=self.k,
      max_len=limit,
      cap=self.cap,
      accept=accept,
      decide=not self.graded,
      endings=endings.of(world, pairs.first[rows]),
      batch=self.batch,
    )
    reason = np.where(found.vacuous, 'vacuous', '')
    unknown = found.capped & ~found.refused if not self.graded else found.capped
    reason[unknown] = 'capped'
    reason[pairs.lengths[rows].max(1) >= limit] = 'no_room'
    refused, sizes = found.boundary, found.boundary.sizes
    total = np.bincount(refused.pairs, refused.lengths, len(sizes))
    telling = [
      refused.suffix(first) if size else ()
      for first, size in zip(refused.offsets, sizes, strict=False)
    ]
    return Outcome(
      ~found.refused, reason, 1 - found.mass, total, sizes, telling
    )

  def _ask(
    self,
    predictor: core.Predictor,
    world: core.World,
    pairs: prefix_pairs.PrefixPairs,
    rows: np.ndarray,
    accept: rules.Accept,
    seed: int,
  ) -> Outcome:
    limit = prefix_pairs.budget(predictor, world)
    room = np.maximum(limit - pairs.lengths[rows].max(1), 0)
    tokens, lengths = membership.suffixes(
      world,
      pairs.first[rows],
      room,
      num=self.samples,
      longest=self.k,
      seeds=prefix_pairs.sample_seeds(seed, pairs, rows),
    )
    answers = np.full((len(rows), 2, self.samples), core.NO_ANSWER)
    # Each answer of a closed model costs: none is asked for after it decided.
    single = isinstance(predictor, core.AnswersOnly) and not self.graded
    width = 1 if single else self.samples
    left = np.flatnonzero(room > 0)
    for start in range(0, self.samples, width):
      some = slice(start, start + width)
      got = answers[left, :, some] = membership.answers(
        predictor,
        pairs.tokens[rows[left]],
        pairs.lengths[rows[left]],
        tokens[left, some],
        lengths[left, some],
        accept,
        self.batch,
      )
      membership.count_silence(pairs.counts, got, lengths[left, some])
      if single:
        left = left[~membership.disagree(answers[left]).any(1)]
    return _agreement(answers, tokens, lengths)

  def _scores(
    self,
    world: core.World,
    pairs: prefix_pairs.PrefixPairs,
    rows: np.ndarray,
    outcome: Outcome,
  ) -> tuple[core.Scores, ...]:
    reason = prefix_pairs.fill(pairs.reason, rows, outcome.reason)
    vacuous = reason == 'vacuous'
    same = prefix_pairs.fill(np.full(len(reason), np.nan), rows, outcome.same)
    columns = prefix_pairs.columns(world, pairs)
    group = world.state_id(pairs.first)
    pictured = self._pictured(world, pairs, rows, outcome)

    scored = functools.partial(
      core.scores, group=group, columns=columns, counts=pairs.counts
    )

    kept = np.where(vacuous, '', reason)
    found = [
      scored('precision', same, reason=reason, columns=columns | pictured),
      scored('precision_definition', np.where(vacuous, 1, same), reason=kept),
      scored('precision_published', np.where(vacuous, 0, same), reason=kept),
    ]
    if self.graded:
      share = prefix_pairs.fill(np.zeros(len(reason)), rows, outcome.share)
      num = prefix_pairs.fill(np.zeros(len(reason)), rows, outcome.refused)
      total = prefix_pairs.fill(np.zeros(len(reason)), rows, outcome.positions)
      none = np.where((reason == '') & (num == 0), 'no_violation', reason)
      found += [
        scored('accepted_share', share, reason=reason),
        scored(
          'first_violation',
          total / np.maximum(num, 1),
          reason=none,
          weight=num,
          bounds=(0.0, None),
        ),
      ]
    return tuple(found)

  def _pictured(
    self,
    world: core.World,
    pairs: prefix_pairs.PrefixPairs,
    rows: np.ndarray,
    outcome: Outcome,
  ) -> dict[str, np.ndarray]:
    telling: list[tuple[int, ...]] = [()] * len(pairs.reason)
    for row, suffix, reason in zip(
      rows, outcome.telling, outcome.reason, strict=True
    ):
      telling[row] = suffix if not reason else ()
    wrong_at = prefix_pairs.parting(world, pairs.first, telling)
    return prefix_pairs.pictured(world, pairs, telling, wrong_at)


def _first(
  tokens: np.ndarray, lengths: np.ndarray, marked: np.ndarray
) -> list[tuple[int, ...]]:
  """[R] the first marked [R, M] suffix of tokens [R, M, K], () where none."""
  at = marked.argmax(1)
  return [
    tuple(tokens[r, m, : lengths[r, m]].tolist()) if marked[r, m] else ()
    for r, m in enumerate(at)
  ]


def _agreement(
  answers: np.ndarray, tokens: np.ndarray, lengths: np.ndarray
) -> Outcome:
  """Outcome from answers [R, 2, M] about suffixes [R, M, K], [R, M]."""
  apart, num = membership.disagree(answers), membership.answered(answers).sum(1)
  reason = np.where(num == 0, 'no_answer', '')
  reason[(lengths == 0).all(1)] = 'no_room'
  return Outcome(
    ~apart.any(1),
    reason,
    1 - apart.sum(1) / np.maximum(num, 1),
    np.where(apart, lengths, 0).sum(1),
    apart.sum(1),
    _first(tokens, lengths, apart),
  )


@dataclasses.dataclass(frozen=True)
class Outcome:
  """What T trials gave.

  Attributes:
    same: [T] bool, no continuation was refused.
    reason: [T] str, '' where measured.
    share: [T] float64, share of continuations accepted in full.
    positions: [T] sum of the refused continuations' lengths.
    refused: [T] number of refused continuations.
    telling: [T] the first refused continuation, () where there is none.
  """

  same: np.ndarray
  reason: np.ndarray
  share: np.ndarray
  positions: np.ndarray
  refused: np.ndarray
  telling: list[tuple[int, ...]]
