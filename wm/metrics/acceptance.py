"""Acceptance: how much does a verdict depend on the acceptance rule?

Vafa et al. 2024, tables 5 to 7, vary the rule for compression and distinction.
This metric compares accepted with legal tokens for many rules in one run of
the model, at the positions of the next-token test (section 3.1).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from wm import core
from wm.core import accept
from wm.core.fields import field
from wm.evaluation import context, membership

# Thresholds of probability, numbers of most likely tokens, masses (top-p).
EPSILONS = 1e-6, 1e-5, 1e-4, 1e-3, 0.003, 0.01, 0.03, 0.1, 0.3
KS, MASSES = (1, 2, 4, 8, 16), (0.9, 0.99, 0.999)
# Column -> ascending numbers and their rules.
RULES: dict[str, tuple[tuple[float, accept.Accept], ...]] = {
  'epsilon': (*zip(EPSILONS, map(accept.epsilon, EPSILONS), strict=True),),
  'k': (*zip(KS, map(accept.top_k, KS), strict=True),),
  'p': (*zip(MASSES, map(accept.top_p, MASSES), strict=True),),
}
# Range of epsilons of `exact_least`, `exact_greatest` and `exact_range`; the
# greatest is the paper's. A smaller epsilon suits only states with 100 legal
# tokens or more.
DECADE = 0.001, 0.01
# Name in membership.SETS -> name of the quantity here.
_NAMES = {
  'set_precision': 'precision',
  'set_recall': 'recall',
  'exact_set': 'exact',
}


@dataclasses.dataclass(frozen=True)
class Metric(core.Metric):
  """Compares accepted with legal tokens under many acceptance rules.

  The model reads held-out sequences, judged at the positions of `next_token`.
  Quantities by epsilon, k and p have a row for each sequence and rule, weighted
  by positions, and are broken down by the rule; their value is the mean over
  all rules of the kind. `exact_best`, `exact_least`, `exact_greatest` and
  `exact_range` have a row per sequence; each uses one epsilon for all
  positions.

  A predictor that only answers has the same accepted tokens under all rules.

  Reasons of unmeasured rows: nothing_accepted (precision), no_position,
  no_answer, longer_than_model.

  Attributes:
    num: held-out sequences.

  Glossary:
    exact_best: Share of positions where the accepted tokens are exactly the
      legal ones, at the best epsilon of all. A model that finds some legal
      tokens unlikely can have 1 here and less at the usual epsilon.
    exact_least: Share of positions where the accepted tokens are exactly the
      legal ones, at the worst epsilon from 0.001 to 0.01. It is the lowest
      result that a choice of epsilon in this range gives.
    exact_greatest: Share of positions where the accepted tokens are exactly the
      legal ones, at the best epsilon from 0.001 to 0.01. It is the highest
      result that a choice of epsilon in this range gives.
    exact_range: Difference of exact_greatest and exact_least. If it is large,
      a verdict depends on the choice of epsilon.
    exact_by_epsilon: Share of positions where the accepted tokens are exactly
      the legal ones, mean over all epsilons. Its breakdown is the curve.
    precision_by_epsilon: Of the tokens of probability above epsilon, the share
      that is legal, mean over all epsilons. If it is low at small epsilons,
      illegal tokens have some probability.
    recall_by_epsilon: Share of the legal tokens that have a probability above
      epsilon, mean over all epsilons. If it is low at large epsilons, the model
      favours few legal tokens.
    exact_by_k: Share of positions where the k most likely tokens are exactly
      the legal ones, mean over all k. At most one k can be right at each
      position.
    precision_by_k: Share of the k most likely tokens that are legal, mean over
      all k. It can be 1 only until k exceeds the number of legal tokens.
    recall_by_k: Share of the legal tokens among the k most likely ones, mean
      over all k. With k legal tokens, it shows whether legal tokens rank first.
    exact_by_p: Share of positions where the nucleus is exactly the legal
      tokens, mean over all masses. A nucleus is the smallest set of most likely
      tokens with at least a given mass.
    precision_by_p: Share of the tokens of the nucleus that are legal, mean over
      all masses. If it is low, the legal tokens lack the mass.
    recall_by_p: Share of the legal tokens that are in the nucleus, mean over
      all masses. If it is low, few legal tokens have most of the mass.
    epsilon: threshold of acceptance (probability)
    k: accepted tokens (top-k)
    p: accepted mass (top-p)
  """

  version: ClassVar[str] = '3'
  sized_by: ClassVar[tuple[str, ...]] = ('num',)
  measures: ClassVar[Mapping[str, core.Measure]] = {
    'exact_least': core.Measure(1, 'accepts exactly the legal'),
    'exact_greatest': core.Measure(1, 'accepts exactly the legal'),
    'exact_by_epsilon': core.Measure(panel=True),
    'exact_by_k': core.Measure(panel=True),
    'exact_by_p': core.Measure(panel=True),
  }
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

  def why_not_static(self) -> str:
    """See core.Metric."""
    return 'acceptance rules differ only for models with probabilities'

  def __call__(
    self, predictor: core.Predictor, world: core.World, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric; sequences of one task are one cluster."""
    sequences = world.sample(self.num, seed, split='heldout')
    rules = [
      membership.rule_for(predictor, rule)
      for places in RULES.values()
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
      # Sorted once for all rules: sorting a sorted array takes linear time.
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
      *_chosen(sums, counts, empty, group),
      *_curves(sums, counts, empty, group),
    )


def _chosen(
  sums: np.ndarray, counts: np.ndarray, empty: np.ndarray, group: np.ndarray
) -> list[core.Scores]:
  """Quantities at one epsilon for all positions; ties take the smallest."""
  exact = membership.SETS.index('exact_set')
  epsilons = np.array([number for number, _ in RULES['epsilon']])
  total = sums[:, : len(epsilons), exact]
  weight = counts[:, 0, exact]
  value = total / np.maximum(weight, 1)[:, None]
  means = total.sum(0)
  near = (DECADE[0] <= epsilons) & (epsilons <= DECADE[1])
  best = int(means.argmax())
  high = int(np.where(near, means, -np.inf).argmax())
  low = int(np.where(near, means, np.inf).argmin())
  chosen = {
    'exact_best': (value[:, best], (0.0, 1.0), best),
    'exact_least': (value[:, low], (0.0, 1.0), low),
    'exact_greatest': (value[:, high], (0.0, 1.0), high),
    'exact_range': (value[:, high] - value[:, low], (-1.0, 1.0), high),
  }
  return [
    core.scores(
      name,
      values,
      reason=np.where(weight > 0, '', empty),
      group=group,
      weight=weight,
      columns={'chosen_epsilon': np.full(len(values), epsilons[place])},
      bounds=bounds,
    )
    for name, (values, bounds, place) in chosen.items()
  ]


def _curves(
  sums: np.ndarray, counts: np.ndarray, empty: np.ndarray, group: np.ndarray
) -> list[core.Scores]:
  """One quantity for each kind of rule and each comparison of sets."""
  curves, start = [], 0
  for column, places in RULES.items():
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
