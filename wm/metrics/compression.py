"""Compression: does a model treat two prefixes of one state alike?

Vafa et al. 2024, section 2.3: the precision of the model's Myhill-Nerode
boundary between two prefixes of one state. The true boundary is empty, so the
precision is 1 exactly if the model accepts the same suffixes after both.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from wm import core
from wm.core.fields import field, field_error
from wm.evaluation import engine, membership, prefix_pairs
from wm.evaluation import support as supports
from wm.evaluation.context import SAMPLES, Trials


@dataclasses.dataclass(frozen=True)
class Metric(prefix_pairs.PairMetric):
  """Asks whether a model continues two sequences of one state alike.

  Samples continuations of one prefix and checks them after the other.

  Each quantity has a row per trial; `accepted_share` needs `graded`.

  Reasons of unmeasured trials: vacuous (the model accepts no token after the
  first prefix), no_answer (to any continuation after both prefixes),
  no_two_prefixes_... (the second prefix is missing, equals the first, or is
  refused by the model), no_prefix, no_room (no token left to sample),
  nothing_sampled (`sampler` accepts no token that the model accepts). With
  suffixes='world' no trial is vacuous.

  Side columns of `precision`: `suffix`, the first refused continuation, and
  the other columns from which reports picture a trial; see core.Measure.

  Attributes:
    trials: pairs of prefixes drawn.
    samples: continuations sampled in each trial, M.
    accept: acceptance rule; continuations are drawn from accepted tokens.
    k: only the first k tokens of continuations (figure 6); 0 is all.
    suffixes: 'model': continuations are sampled from the model after the first
      prefix; 'world': the world draws them, half of them without regard to
      legality. The model is then asked about whole continuations after both
      prefixes, and any disagreement counts (as published for logic puzzles,
      whose models only answer: k=1, samples=5).
    world: spec of a world with the same tokens and rules that draws states and
      prefixes; '' is the scored world.
    prefix_filter: 'none', or 'model': only prefixes whose moves the model
      accepts.
    graded: also compute `accepted_share`; no trial then ends early.
    sampler: rule that continuations are drawn by, e.g. 'published(0.01)'; '' is
      `accept`.
    support: 'all', or 'sampler': judge only tokens whose probability the
      world's sampler determines; see wm.evaluation.support. Prefixes are then
      cut from sampled sequences. A trial without judged tokens is unmeasured
      (off_support).
    attempts: draws of prefixes before a trial is given up; 1 as published.
    curve: also measure precision on the same trials at seven thresholds of
      acceptance, from 0.001 to 0.1.

  Glossary:
    precision: Share of pairs of prefixes of one state after which the model
      accepts the same continuations. The number of sampled continuations is
      limited, so it is an upper bound that falls with that number; vacuous
      trials are not measured.
    precision_definition: As precision, but a trial in which the model accepts
      no token counts 1. That is the definition: an empty boundary is precise.
    precision_published: As precision, but a trial in which the model accepts
      no token counts 0. The published program counts so.
    accepted_share: Share of continuations of one prefix that the model accepts
      in full after the other prefix too. It grades what precision counts as 0
      or 1.
    precision_by_epsilon: As precision, a mean over seven thresholds of
      acceptance. Its breakdown is the curve, and needs `curve`.
    epsilon: threshold of acceptance (probability)
  """

  needs: ClassVar[tuple[core.Need, ...]] = (core.Predictor, core.Prefixed)
  measures: ClassVar[Mapping[str, core.Measure]] = {
    'precision': core.Measure(
      1,
      'merges all equal states',
      side='same',
      picture='accepted after one prefix, refused after the other',
    ),
    'precision_by_epsilon': core.Measure(panel=True),
  }

  trials: int = field(1000, least=1)
  samples: int = field(30, least=1)
  accept: str = 'epsilon(0.01)'
  k: int = field(0, least=0)
  suffixes: str = field('model', choices=('model', 'world'))
  world: str = ''
  prefix_filter: str = field('none', choices=prefix_pairs.FILTERS)
  graded: bool = False
  sampler: str = ''
  support: str = field('all', choices=supports.CHOICES)
  attempts: int = field(32, least=1)
  curve: bool = False

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.curve and self.suffixes != 'model':
      raise field_error(self, 'curve suffixes', "suffixes='model'")
    if self.support != 'all' and self.suffixes != 'model':
      raise field_error(self, 'support suffixes', "suffixes='model'")
    if self.suffixes == 'world' and (not self.k or self.sampler):
      raise field_error(self, 'suffixes k sampler', 'k >= 1 and no sampler')

  def why_not_static(self) -> str:
    """See core.Metric."""
    plain = self.prefix_filter == 'none' and self.support == 'all'
    if self.suffixes == 'world' and plain:
      return ''
    return "expected suffixes='world', k=1, samples=5, prefix_filter='none'"

  def companion(self) -> str:
    """See core.Metric; a model that accepts everything has compression 1."""
    same = ('trials', 'attempts', 'world')
    settings = [f'{name}={getattr(self, name)!r}' for name in same]
    return f'distinction(samples=0, max_elements=5, {", ".join(settings)})'

  def __call__(
    self, predictor: core.Predictor, world: core.Prefixed, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric."""
    trials = prefix_pairs.draw(self, predictor, world, seed, two_states=False)
    measure = _asked if self.suffixes == 'world' else _sampled
    quantities = self._scores(trials, measure(self, trials))
    if not self.curve:
      return quantities
    plain = dataclasses.replace(self, graded=False)
    several = [
      plain._scores(at, _sampled(plain, at))
      for at in prefix_pairs.at_thresholds(trials)
    ]
    return (*quantities, *prefix_pairs.curves(several, ('precision',)))

  def _scores(
    self, trials: Trials, outcome: Outcome
  ) -> tuple[core.Scores, ...]:
    # Values of the R trials that were run fill rows of all T trials.
    filled, total = trials.filled, len(trials.prefixes.reason)
    reason = filled(trials.prefixes.reason, outcome.reason)
    vacuous = reason == 'vacuous'
    same = filled(np.full(total, np.nan), ~outcome.refused)
    columns = trials.columns
    scored = functools.partial(
      core.scores,
      group=trials.groups,
      columns=columns,
      counts=trials.prefixes.counts,
    )
    # Vacuous trials count in the definition and in the published program.
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
      share = filled(np.zeros(total), outcome.share)
      quantities.append(scored('accepted_share', share, reason=reason))
    return tuple(quantities)


@dataclasses.dataclass(frozen=True)
class Outcome:
  """Results of the R trials that were run, of `samples` continuations each.

  Attributes:
    reason: [R] str, '' where measured.
    share: [R] float64, share of continuations accepted in full.
    refused: [R] bool, whether a continuation is refused.
    refusal: tokens [R, K] and lengths [R] of the first refused continuation;
      length 0 if none is refused.
  """

  reason: np.ndarray
  share: np.ndarray
  refused: np.ndarray
  refusal: tuple[np.ndarray, np.ndarray]


def _sampled(metric: Metric, trials: Trials) -> Outcome:
  """Outcome of continuations that are sampled from the model."""
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
    judged = supports.of_pairs(trials, samples)
    refused &= judged >= samples.lengths
    off = (judged == 0).all(1) & ~samples.vacuous
    reason = np.where(off, 'off_support', reason)
  # A token is accepted, but none was drawn: there was no room for it, or the
  # sampler accepts none.
  nothing = (samples.lengths == 0).all(1) & ~samples.vacuous
  why = np.where(trials.room == 0, 'no_room', 'nothing_sampled')
  reason = np.where(nothing, why, reason)
  return Outcome(
    reason,
    1 - refused.sum(1) / metric.samples,
    refused.any(1),
    _first(samples.tokens, samples.lengths, refused),
  )


def _asked(metric: Metric, trials: Trials) -> Outcome:
  """Outcome of questions about continuations that the world draws."""
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
    apart.sum(1) > 0,
    _first(tokens, lengths, apart),
  )


def _first(
  tokens: np.ndarray, lengths: np.ndarray, marked: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Tokens [R, K] and lengths [R] of each row's first marked suffix.

  tokens: [R, M, K]; lengths: [R, M]. The length of a row without a mark is 0.
  """
  first = np.arange(len(marked)), marked.argmax(1)
  return tokens[first], np.where(marked[first], lengths[first], 0)


def _pictured(trials: Trials, outcome: Outcome) -> dict[str, np.ndarray]:
  """Side columns [T] from which reports picture trials; see core.Measure.

  The wrong token of a refused continuation is the first that is illegal in the
  world, which the model accepts; without one, it is the last token, which the
  model refuses.
  """
  tokens, lengths = outcome.refusal
  lengths = np.where(outcome.reason == '', lengths, 0)
  steps, _ = trials.world.walk(trials.first, tokens, lengths)
  return trials.picture_columns(tokens, lengths, np.minimum(steps + 1, lengths))
