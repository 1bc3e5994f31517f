"""Acceptance: how much of a verdict is the rule by which tokens are accepted?

Vafa et al. 2024, tables 5 to 7, vary the rule for compression and distinction.
Here the accepted tokens of many rules are compared with the legal ones at the
positions of the next-token test (section 3.1), from one run of the model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from wm import core
from wm.core import accept
from wm.core.fields import field, field_error
from wm.evaluation import context, membership

SORTED: dict[str, Any] = {'fewest': 1, 'ascending': True}
# Name of a set quantity in positions.SETS -> here.
_NAMES = {
  'set_precision': 'precision',
  'set_recall': 'recall',
  'exact_set': 'exact',
}


@dataclasses.dataclass(frozen=True)
class Metric(core.Metric):
  """Compares accepted with legal tokens under many rules of acceptance.

  Held-out sequences are teacher-forced, and judged at the positions of
  `next_token`. Quantities by epsilon, k and p have a row for each sequence and
  rule, weighted by positions, and are broken down by the rule; their value is
  the mean over all rules of the kind. A rule of all positions together is
  chosen for `exact_best`, `exact_least`, `exact_greatest` and `exact_range`,
  which have a row per sequence.

  A predictor that only answers has one set of tokens, whatever the rule.

  Reasons of unmeasured rows: nothing_accepted (precision), no_position,
  no_answer, longer_than_model; one_epsilon (`exact_least`, `exact_greatest`,
  `exact_range`), as a decade with one epsilon in it cannot show how much
  depends on it.

  Attributes:
    num: held-out sequences.
    epsilons: thresholds of probability, ascending.
    ks: numbers of most likely tokens, ascending.
    masses: masses of nucleus sets (top-p), ascending.
    decade: least and greatest epsilon that `exact_least`, `exact_greatest` and
      `exact_range` are over; the default ends at the paper's 0.01. Below, no
      state of fewer than 100 legal tokens has a rule that suits it better.

  Glossary:
    exact_best: Share of positions where the accepted tokens are exactly the
      legal ones, at the best of the epsilons. A model that knows the rules, but
      is sure of few tokens, has 1 here and less at the usual epsilon.
    exact_least: That share at the worst epsilon of the decade. It is the
      least that may be said of the model.
    exact_greatest: That share at the best epsilon of the decade. It is the most
      that may be said of the model.
    exact_range: Difference of the two. Where it is large, any verdict by one
      epsilon depends on it.
    exact_by_epsilon: Share of positions where the accepted tokens are exactly
      the legal ones, mean over all epsilons. Its breakdown is the curve.
    precision_by_epsilon: Share of the tokens of more than this probability that
      are legal, mean over all epsilons. Low at small ones: illegal tokens have
      some of it.
    recall_by_epsilon: Share of the legal tokens that have more than this
      probability, mean over all epsilons. Low at large ones: the model has
      favourites.
    exact_by_k: Share of positions where the k most likely tokens are exactly
      the legal ones, mean over all k. At most one k is right at each position.
    precision_by_k: Share of the k most likely tokens that are legal, mean over
      all k. It is 1 until k is above the number of legal tokens.
    recall_by_k: Share of the legal tokens among the k most likely ones, mean
      over all k. Where k is their number, it is what the ranking knows.
    exact_by_p: Share of positions where the nucleus is exactly the legal
      tokens, mean over all masses. A nucleus is the fewest tokens of so much
      mass.
    precision_by_p: Share of the tokens of the nucleus that are legal, mean over
      all masses. Low: illegal tokens are needed to make up the mass.
    recall_by_p: Share of the legal tokens that are in the nucleus, mean over
      all masses. Low: few of them have most of the mass.
    epsilon: threshold of acceptance (probability)
    k: accepted tokens (top-k)
    p: accepted mass (top-p)
  """

  version: ClassVar[str] = '2'
  sized_by: ClassVar[tuple[str, ...]] = ('num',)
  ideal: ClassVar[Mapping[str, str]] = {
    'exact_least': '1: accepts exactly the legal',
    'exact_greatest': '1: accepts exactly the legal',
  }
  panels: ClassVar[tuple[str, ...]] = (
    'exact_by_epsilon',
    'exact_by_k',
    'exact_by_p',
  )
  cautions: ClassVar[tuple[core.Caution, ...]] = (
    core.Caution(
      'exact_range',
      'accepts exactly the legal tokens at {exact_least} to {exact_greatest} '
      'of the positions, depending on the threshold of acceptance',
      above=0.1,
    ),
  )
  breakdown: ClassVar[tuple[str, ...]] = ('epsilon', 'k', 'p')

  num: int = field(1000, least=1)
  epsilons: tuple[float, ...] = field(
    (1e-6, 1e-5, 1e-4, 1e-3, 0.003, 0.01, 0.03, 0.1, 0.3), **SORTED
  )
  ks: tuple[int, ...] = field((1, 2, 4, 8, 16), **SORTED)
  masses: tuple[float, ...] = field((0.9, 0.99, 0.999), **SORTED)
  decade: tuple[float, ...] = field((0.001, 0.01), **SORTED)

  def __post_init__(self) -> None:
    super().__post_init__()
    self._rules()
    if not self._near().any():
      expected = f'one that holds some of epsilons={self.epsilons}'
      raise field_error(self, 'decade', expected)

  def _rules(self) -> dict[str, tuple[tuple[float, accept.Accept], ...]]:
    """Column -> number and rule of each of its places."""
    return {
      'epsilon': tuple((x, accept.epsilon(x)) for x in self.epsilons),
      'k': tuple((k, accept.top_k(k)) for k in self.ks),
      'p': tuple((p, accept.top_p(p)) for p in self.masses),
    }

  def _near(self) -> np.ndarray:
    """[E] bool: is an epsilon in the decade?"""
    epsilons = np.array(self.epsilons)
    return (self.decade[0] <= epsilons) & (epsilons <= self.decade[-1])

  def why_not_static(self) -> str:
    """See core.Metric."""
    return 'acceptance rules differ only where there are probabilities'

  def __call__(
    self, predictor: core.Predictor, world: core.World, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric; sequences of one task are one cluster."""
    sequences = world.sample(self.num, seed, split='heldout')
    rules = [
      membership.rule_for(predictor, rule)
      for places in self._rules().values()
      for _, rule in places
    ]
    # Sums and counts of sequences, rules and quantities: [N, K, Q].
    shape = len(sequences), len(rules), len(membership.SETS)
    sums, counts = np.zeros(shape), np.zeros(shape, np.int64)
    silent = np.zeros(len(sequences), np.int64)
    for position in membership.positions(
      predictor, world, sequences, membership.prompt_end(world, sequences)
    ):
      rows = position.rows
      silent[position.silent] += 1
      # Sorted once: rules that sort what is in order take linear time. Equal
      # ones stay in order of id, so that ties are settled as ever.
      order = np.argsort(-position.log_probs, axis=-1, kind='stable')
      log_probs = np.take_along_axis(position.log_probs, order, -1)
      legal = np.take_along_axis(position.legal, order, -1)
      for k, rule in enumerate(rules):
        mask = np.asarray(rule.mask(log_probs))
        values, accepted = membership.set_scores(mask, legal)
        counted = np.ones(values.shape, bool)
        counted[:, membership.SETS.index('set_precision')] = accepted
        sums[rows, k] += np.where(counted, values, 0)
        counts[rows, k] += counted
    group = context.clusters(world, sequences)
    empty = np.where(silent > 0, 'no_answer', 'no_position')
    fits = membership.fits(predictor, sequences.lengths)
    empty = np.where(fits, empty, 'longer_than_model')
    return (
      *self._chosen(sums, counts, empty, group),
      *self._curves(sums, counts, empty, group),
    )

  def _chosen(
    self,
    sums: np.ndarray,
    counts: np.ndarray,
    empty: np.ndarray,
    group: np.ndarray,
  ) -> list[core.Scores]:
    """Quantities at epsilons that all positions choose; the first of equals."""
    exact = membership.SETS.index('exact_set')
    total = sums[:, : len(self.epsilons), exact]
    weight = counts[:, 0, exact]
    value = total / np.maximum(weight, 1)[:, None]
    means = total.sum(0)
    best = int(means.argmax())
    high = int(np.where(self._near(), means, -np.inf).argmax())
    low = int(np.where(self._near(), means, np.inf).argmin())
    alone = 'one_epsilon' if self._near().sum() == 1 else ''
    chosen = {
      'exact_best': (value[:, best], (0.0, 1.0), best, ''),
      'exact_least': (value[:, low], (0.0, 1.0), low, alone),
      'exact_greatest': (value[:, high], (0.0, 1.0), high, alone),
      'exact_range': (value[:, high] - value[:, low], (-1.0, 1.0), high, alone),
    }
    return [
      core.scores(
        name,
        values,
        reason=np.where(weight > 0, why, empty),
        group=group,
        weight=weight,
        columns={'chosen_epsilon': np.full(len(values), self.epsilons[place])},
        bounds=bounds,
      )
      for name, (values, bounds, place, why) in chosen.items()
    ]

  def _curves(
    self,
    sums: np.ndarray,
    counts: np.ndarray,
    empty: np.ndarray,
    group: np.ndarray,
  ) -> list[core.Scores]:
    """A quantity for each kind of rules and each way to compare sets."""
    curves, start = [], 0
    for column, places in self._rules().items():
      span = slice(start, start + len(places))
      start = span.stop
      numbers = np.array([number for number, _ in places])
      judged = counts[:, span, membership.SETS.index('exact_set')] > 0
      reason = np.where(judged, 'nothing_accepted', empty[:, None])
      for q, quantity in enumerate(membership.SETS):
        weight = counts[:, span, q]
        value = sums[:, span, q] / np.maximum(weight, 1)
        scores = core.scores(
          f'{_NAMES[quantity]}_by_{column}',
          value.ravel(),
          reason=np.where(weight > 0, '', reason).ravel(),
          group=np.repeat(group, len(places)),
          weight=weight.ravel(),
          columns={column: np.tile(numbers, len(group))},
        )
        curves.append(scores)
    return curves
