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
from wm.core.fields import field, field_error
from wm.evaluation import engine, exhaustive, membership, prefix_pairs
from wm.evaluation import support as supports
from wm.evaluation.context import BATCH, SAMPLES, Trials


@dataclasses.dataclass(frozen=True)
class Metric(prefix_pairs.PairMetric):
  """Asks whether two sequences that reach the same state are continued alike.

  Takes continuations of one prefix and checks them after another.

  Each quantity has a row per trial (and direction); `accepted_share` and
  `first_violation` only where `graded`.

  Reasons of unmeasured trials: vacuous (the model accepts nothing after the
  first prefix), capped (`exact`: more continuations than `cap`), no_answer
  (after both prefixes, to any continuation), no_two_prefixes_... (a second one
  is missing, equal to the first, or refused by the model), no_prefix, no_room
  (no token left to sample), nothing_sampled (`sampler` accepts none of what the
  model accepts), no_violation. By suffixes='world' no trial is
  vacuous.

  Side columns of `precision`: `suffix`, the first continuation refused, and
  what else a report pictures a trial from; see core.Metric.

  Attributes:
    trials: pairs of prefixes drawn.
    pairs: trials that share a drawn state; `trials` is a multiple of it. Each
      state counts once.
    samples: continuations sampled in each trial, M.
    accept: acceptance rule; continuations are drawn from accepted tokens.
    k: only the first k tokens of continuations (figure 6); 0 is all.
    suffixes: 'model': sampled from the model after the first prefix; 'world':
      drawn by the world, half of them whatever is legal, and asked as a whole
      after both prefixes, where any disagreement counts (as published for
      logic puzzles, whose models only answer: k=1, samples=5).
    directions: 'first': continuations of the first prefix; 'both': also of
      the second, as a row of its own in the same group.
    world: spec of a world of the same tokens and rules that draws states and
      prefixes; '' is the one scored.
    prefix_filter: 'none', or 'model': prefixes whose moves it accepts.
    graded: also the graded quantities; no trial ends early then.
    exact: search all continuations to depth k instead of sampling.
    cap: most continuations of one length that `exact` follows.
    sampler: rule that continuations are drawn by, where it is not `accept`,
      e.g. 'published(0.01)'.
    support: 'all'; or 'sampler': what the sampler of the world determines, see
      wm.evaluation.support. Prefixes are cut from sampled sequences,
      and of continuations only what is judged counts: a trial is
      unmeasured (off_support) where none of it is.
    support_bound: least probability, exclusive, of a supported token.
    attempts: draws of prefixes before a trial is given up; 1 as published.
    batch: trials in flight; no effect on results.
    loop: where tokens are sampled, 'host', 'device' in one program, or 'auto',
      the faster: same results, except that ties between tokens may resolve
      differently.

  Glossary:
    precision: Share of pairs of prefixes of one state after which the model
      accepts the same continuations. Only so many continuations are sampled, so
      it is an upper bound that falls with their number; vacuous trials are not
      measured.
    precision_definition: The same, where a trial in which the model accepts
      nothing counts 1. That is the definition: an empty boundary is precise.
    precision_published: The same, where a trial in which the model accepts
      nothing counts 0. That is what the published program makes of it.
    accepted_share: Share of the continuations that are accepted in full after
      the other prefix too. It grades what precision counts as 0 or 1.
    first_violation: Tokens of a refused continuation up to the first that is
      refused, that one included. Early violations are worse.
    direction: direction: 0 as drawn, 1 with the prefixes swapped
  """

  needs: ClassVar[tuple[core.Need, ...]] = (core.Predictor, core.Prefixed)
  ideal: ClassVar[Mapping[str, str]] = {
    'precision': '1: merges all equal states',
  }
  shows: ClassVar[Mapping[str, str]] = {'precision': 'same'}
  pictures: ClassVar[Mapping[str, str]] = {
    'precision': 'accepted after one prefix, refused after the other'
  }

  trials: int = field(1000, least=1)
  pairs: int = field(1, least=1)
  samples: int = field(30, least=1)
  accept: str = 'epsilon(0.01)'
  k: int = field(0, least=0)
  suffixes: str = field('model', choices=('model', 'world'))
  directions: str = field('first', choices=prefix_pairs.DIRECTIONS)
  world: str = ''
  prefix_filter: str = field('none', choices=prefix_pairs.FILTERS)
  graded: bool = False
  exact: bool = False
  cap: int = field(64, least=1)
  sampler: str = ''
  support: str = field('all', choices=supports.CHOICES)
  support_bound: float = field(0.01, least=0, below=1)
  attempts: int = field(32, least=1)
  batch: int = field(BATCH, least=1, compare=False)
  loop: str = field('auto', choices=engine.LOOPS, compare=False)

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.exact and not self.k:
      raise field_error(self, 'k exact', 'k >= 1 with exact=True')
    if self.support != 'all' and (self.exact or self.suffixes != 'model'):
      expected = "suffixes='model' and exact=False"
      raise field_error(self, 'support suffixes exact', expected)
    if self.suffixes == 'world' and (self.exact or not self.k or self.sampler):
      expected = 'k >= 1, exact=False and no sampler'
      raise field_error(self, 'suffixes k exact sampler', expected)

  def why_not_static(self) -> str:
    """See core.Metric."""
    plain = self.prefix_filter == 'none' and self.support == 'all'
    if self.suffixes == 'world' and plain:
      return ''
    return "expected suffixes='world', k=1, samples=5, prefix_filter='none'"

  def companion(self) -> str:
    """See core.Metric: what accepts everything has a compression of 1."""
    same = ('trials', 'pairs', 'directions', 'attempts', 'world')
    settings = [f'{name}={getattr(self, name)!r}' for name in same]
    return f'distinction(samples=0, max_elements=5, {", ".join(settings)})'

  def __call__(
    self, predictor: core.Predictor, world: core.Prefixed, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric."""
    trials = prefix_pairs.draw(self, predictor, world, seed, two_states=False)
    measure = _searched if self.exact else _sampled
    if self.suffixes == 'world':
      measure = _asked
    return self._scores(trials, measure(self, trials))

  def _scores(
    self, trials: Trials, outcome: Outcome
  ) -> tuple[core.Scores, ...]:
    # From the R trials that were run to all T, whose reasons say why not.
    filled, total = trials.filled, len(trials.prefixes.reason)
    reason = filled(trials.prefixes.reason, outcome.reason)
    vacuous = reason == 'vacuous'
    same = filled(np.full(total, np.nan), outcome.refused == 0)
    columns = trials.columns
    scored = functools.partial(
      core.scores,
      group=trials.groups,
      columns=columns,
      counts=trials.prefixes.counts,
    )
    # By the definition and the published program vacuous trials count.
    reasons = np.where(vacuous, '', reason)
    pictured = columns | _pictured(trials, outcome)
    quantities = [
      scored('precision', same, reason=reason, columns=pictured),
      scored(
        'precision_definition', np.where(vacuous, 1, same), reason=reasons
      ),
      scored('precision_published', np.where(vacuous, 0, same), reason=reasons),
    ]
    if self.graded:
      share, num, places = (
        filled(np.zeros(total), values)
        for values in (outcome.share, outcome.refused, outcome.positions)
      )
      none = np.where((reason == '') & (num == 0), 'no_violation', reason)
      quantities += [
        scored('accepted_share', share, reason=reason),
        scored(
          'first_violation',
          places / np.maximum(num, 1),
          reason=none,
          weight=num,
          bounds=(0.0, None),
        ),
      ]
    return trials.states_once(quantities)


@dataclasses.dataclass(frozen=True)
class Outcome:
  """Results of the R trials that were run, of `samples` continuations each.

  Attributes:
    reason: [R] str, '' where measured.
    share: [R] float64, share of continuations accepted in full.
    positions: [R] int64 sum of the refused continuations' lengths, each up to
      and with the refused token.
    refused: [R] int64 number of refused continuations.
    refusal: tokens [R, K] and lengths [R] of the first refused continuation; 0
      where there is none.
  """

  reason: np.ndarray
  share: np.ndarray
  positions: np.ndarray
  refused: np.ndarray
  refusal: tuple[np.ndarray, np.ndarray]


def _sampled(metric: Metric, trials: Trials) -> Outcome:
  """Continuations drawn by the model."""
  on_support = metric.support == 'sampler'
  samples = engine.sample_and_check(
    trials,
    metric.samples,
    limit=metric.k,
    decide=not metric.graded and not on_support,
  )
  refused = samples.status == core.REFUSED
  reason = np.where(samples.vacuous, 'vacuous', '')
  if on_support:
    judged = supports.of_pairs(metric, trials, samples)
    refused &= judged >= samples.lengths
    off = (judged == 0).all(1) & ~samples.vacuous
    reason = np.where(off, 'off_support', reason)
  # Something is accepted and yet nothing was drawn: there was no room for it,
  # or the sampler accepts none of it.
  nothing = (samples.lengths == 0).all(1) & ~samples.vacuous
  why = np.where(trials.room == 0, 'no_room', 'nothing_sampled')
  reason = np.where(nothing, why, reason)
  num = refused.sum(1)
  return Outcome(
    reason,
    1 - num / metric.samples,
    np.where(refused, samples.lengths, 0).sum(1),
    num,
    _first(samples.tokens, samples.lengths, refused),
  )


def _searched(metric: Metric, trials: Trials) -> Outcome:
  """All continuations of up to k tokens."""
  comparison = exhaustive.compare_prefixes(
    trials, depth=metric.k, cap=metric.cap, decide=not metric.graded
  )
  # A trial that was decided before the cap is known, unless it is graded.
  unknown = (
    comparison.capped
    if metric.graded
    else comparison.capped & ~comparison.refused
  )
  reason = np.where(comparison.vacuous, 'vacuous', '')
  reason[unknown] = 'capped'
  reason[trials.room == 0] = 'no_room'
  refused, sizes = comparison.boundary, comparison.boundary.sizes
  total = np.bincount(refused.pair_ids, refused.lengths, len(sizes))
  share, first = 1 - comparison.mass, refused.firsts()
  return Outcome(reason, share, total, sizes, first)


def _asked(metric: Metric, trials: Trials) -> Outcome:
  """Continuations drawn by the world, about which the model is asked."""
  tokens, lengths = membership.suffixes(
    trials.world,
    trials.first,
    trials.room,
    num=metric.samples,
    longest=min(metric.k, trials.world.max_len),  # There is no more room.
    seeds=trials.keys(SAMPLES),
  )
  answers = membership.ask_pairs(
    trials, tokens, lengths, decide=not metric.graded
  )
  apart = membership.disagree(answers)
  num = membership.answered(answers).sum(1)
  reason = np.where(num == 0, 'no_answer', '')
  reason[(lengths == 0).all(1)] = 'no_room'
  return Outcome(
    reason,
    1 - apart.sum(1) / np.maximum(num, 1),
    np.where(apart, lengths, 0).sum(1),
    apart.sum(1),
    _first(tokens, lengths, apart),
  )


def _first(
  tokens: np.ndarray, lengths: np.ndarray, marked: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Tokens [R, K] and lengths [R] of each row's first marked suffix.

  tokens: [R, M, K]; lengths: [R, M]; that of a row without a mark is 0.
  """
  first = np.arange(len(marked)), marked.argmax(1)
  return tokens[first], np.where(marked[first], lengths[first], 0)


def _pictured(trials: Trials, outcome: Outcome) -> dict[str, np.ndarray]:
  """Side columns [T] that trials are pictured from; see core.Metric.

  A refused continuation goes wrong at its first token that is illegal in the
  world, where the model accepts too much, or else at its last, which the model
  refuses.
  """
  tokens, lengths = outcome.refusal
  lengths = np.where(outcome.reason == '', lengths, 0)
  steps, _ = trials.world.walk(trials.first, tokens, lengths)
  return trials.picture_columns(tokens, lengths, np.minimum(steps + 1, lengths))
