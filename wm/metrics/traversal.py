"""Traversal: does decoding complete the task, and how well?

Vafa et al. 2024, section 3.1 and appendix: prompts of held-out sequences are
completed greedily; the share of legal completions, and of optimal ones.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from wm import core
from wm.core import basics
from wm.core.fields import field
from wm.evaluation import context, decoding

WITHIN = (1, 5, 10, 50)  # Percent above the optimum.


@dataclasses.dataclass(frozen=True)
class Metric(core.Metric):
  """Completes held-out prompts, greedily by default; asks if that is legal.

  The cost quantities exist only in worlds that define costs. The oracle
  knows what is legal, not what is cheap: it is valid, but seldom optimal.

  Attributes:
    num: held-out prompts.
    prompt: moves of the held-out sequence that are given, beside what states
      the task. Games state none and start from the first move at least: few
      prompts, each with one greedy game, which is one cluster. A game without
      a mistake to its end is valid.
    max_len: total tokens at the cap; 0 is the length the world's sequences
      have at most (128 is the published program's, beyond the lengths that
      models were trained on).
    decoding: 'greedy', the most likely token at every step; or 'sampled', each
      token drawn by seed from all of the model's probabilities, at temperature
      1. Probability on illegal tokens shows only when they are drawn; an oracle
      without aim may then run into the cap.

  Glossary:
    valid: Share of prompts that the model completes legally, where its most
      likely token is taken at every step, or one is drawn from its
      probabilities (decoding='sampled'). A greedy oracle has 1.
    valid_uncapped: The same, of the prompts that did not run into the cap on
      length. It leaves out routes that were cut off rather than wrong.
    sampled_legal: Share of prompts after which all tokens are legal, up to the
      end or the cap on length, where each is drawn from all of the model's
      probabilities. It shows illegal ones that a greedy choice hides.
    path_fail: Share of prompts that end at an illegal token other than the end
      token. On a map this is a street that is not there.
    dest_fail: Share of prompts that end with the end token where it is illegal.
      On a map the route stops short of its destination.
    cap: Share of prompts that come to no end within the cap on length. Nothing
      was illegal until then.
    stuck: Share of prompts at which the model has no possible token left. It
      stops there.
    optimal: Share of prompts completed at the least possible cost. The optimum
      is exact, not the shortest route that was held out; optimal_NAME is by
      another criterion of the world.
    within: Share of prompts completed at a cost within so many percent of the
      least possible. Illegal completions count 0.
    optimal_of_valid: Share of the valid completions that have the least
      possible cost. It says nothing of the others.
  """

  version: ClassVar[str] = '3'
  sized_by: ClassVar[tuple[str, ...]] = ('num',)
  ideal: ClassVar[Mapping[str, str]] = {
    'valid': '1: completes every task',
    'sampled_legal': '1: draws no illegal token',
  }
  shows: ClassVar[Mapping[str, str]] = {'valid': 'tasks'}
  # A sequence of a world without costs is for nothing: it has no task.
  side_needs: ClassVar[Mapping[str, core.Need]] = {
    'tasks': core.Described.costs
  }
  cautions: ClassVar[tuple[core.Caution, ...]] = (
    core.Caution(
      'dest_fail',
      'ends its sequences where they may not end in {value} of its tasks',
      above=0.1,
    ),
    core.Caution(
      'sampled_legal',
      'draws an illegal token in {rest} of its tasks',
      below=0.9,
    ),
  )

  num: int = field(1000, least=1)
  prompt: int = field(0, least=0)
  max_len: int = field(0, least=0)
  decoding: str = field('greedy', choices=('greedy', 'sampled'))

  def passes(self) -> int:
    """See core.Metric: sampled, and greedy."""
    return 1 + (self.decoding == 'greedy')

  def __call__(
    self, predictor: core.Predictor, world: core.World, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric; a row per prompt, clustered by task."""
    sequences = world.sample(self.num, seed, split='heldout')
    prompts = decoding.prompts(world, sequences, self.prompt)
    cap = decoding.cap(predictor, world, self.max_len)
    drawn = group = context.clusters(world, sequences)
    sampled = decoding.decode(
      predictor, world, prompts, decoding.Sampled(seed), cap
    )
    decoded = sampled
    if self.decoding == 'greedy':
      group = decoding.merged(prompts, group)
      decoded = decoding.decode(predictor, world, prompts, decoding.greedy, cap)
    columns = {
      'outcome': np.array(decoding.OUTCOMES)[decoded.outcome],
      'tokens': decoded.lengths,
    }
    pictures = decoding.picture_columns(world, prompts, decoded)
    return (
      *_outcomes(decoded.outcome, group, columns | pictures),
      core.scores('sampled_legal', decoding.legal(sampled), group=drawn),
      *_costs(world, sequences, decoded, group, columns),
    )


def _outcomes(
  outcome: np.ndarray, group: np.ndarray, columns: dict[str, np.ndarray]
) -> list[core.Scores]:
  valid = outcome == decoding.VALID
  capped = np.where(outcome == decoding.CAP, 'cap', '')
  quantities = [
    core.scores('valid', valid, group=group, columns=columns),
    core.scores('valid_uncapped', valid, reason=capped, group=group),
  ]
  for code, name in enumerate(decoding.OUTCOMES):
    if code != decoding.VALID:
      quantities.append(core.scores(name, outcome == code, group=group))
  return quantities


def _costs(
  world: core.World,
  sequences: core.Sequences,
  decoded: decoding.Decoded,
  group: np.ndarray,
  columns: dict[str, np.ndarray],
) -> list[core.Scores]:
  if not core.can(world, core.Described.costs):
    return []
  # Prompts state the task, so all decoded sequences have its least cost.
  costs = world.costs(core.Sequences(decoded.tokens, decoded.lengths))
  best = costs.least[0]
  if np.isnan(best).all():
    return []
  valid = decoded.outcome == decoding.VALID
  cost = np.where(valid, costs.cost[0], np.inf)
  unknown = np.where(np.isnan(best), 'no_optimum', '')
  outcome = np.array(decoding.OUTCOMES)[decoded.outcome]
  failed = np.where(valid, unknown, outcome)
  valid_cost = np.where(valid, cost, np.nan)
  columns = {**columns, 'cost': valid_cost, 'optimal_cost': best}
  quantities = []
  for name, good in _criteria(costs, cost, valid).items():
    quantities.append(core.scores(name, good, reason=unknown, group=group))
    quantities.append(
      core.scores(f'{name}_of_valid', good, reason=failed, group=group)
    )
  return [dataclasses.replace(quantities[0], columns=columns), *quantities[1:]]


def _criteria(
  costs: core.Costs, cost: np.ndarray, valid: np.ndarray
) -> dict[str, np.ndarray]:
  """[T] bool of each criterion; cost: [T] true ones, infinite if invalid."""
  best = costs.least[0]
  # Costs are sums of floats: two ways of equal cost may differ by rounding.
  cheapest = costs.cost <= costs.least * (1 + basics.OPTIMAL_TOLERANCE)
  criteria = {'optimal': cost <= best * (1 + basics.OPTIMAL_TOLERANCE)}
  if len(cheapest) > 1:  # Besides the true way of weighing.
    criteria['optimal_any_weighting'] = cheapest[1:].any(0) & valid
  for percent in WITHIN:
    most = best * (1 + percent / 100) * (1 + basics.OPTIMAL_TOLERANCE)
    criteria[f'within_{percent}'] = cost <= most
  return criteria
