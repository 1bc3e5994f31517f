"""Traversal: does decoding complete the task, and how well?

Vafa et al. 2024, section 3.1 and appendix: greedy completions of the prompts of
held-out sequences, and the shares of legal and of optimal ones.
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
  """Completes held-out prompts, greedily and sampled; asks if that is legal.

  The cost quantities require a world that defines costs. The oracle knows
  legality, not costs: it is valid, but rarely optimal. A completion may be as
  long as the world's sequences. Games state no task and start from the first
  move. Prompts are then few, each with one greedy game, which is one cluster. A
  game without a mistake to its end is valid.

  Attributes:
    num: held-out prompts.

  Glossary:
    valid: Share of prompts that the model completes legally if its most likely
      token is taken at every step. The oracle has 1.
    valid_uncapped: As valid, over prompts that did not reach the cap on length.
      It leaves out routes that were cut off rather than wrong.
    sampled_legal: Share of prompts after which all tokens are legal, up to the
      end or the cap on length, if tokens are sampled from all of the model's
      probabilities. It shows illegal tokens that a greedy choice hides.
    path_fail: Share of prompts that end at an illegal token other than the end
      token. On a map this is a street that does not exist.
    dest_fail: Share of prompts that end with an illegal end token. On a map the
      route stops before its destination.
    cap: Share of prompts that reach the cap on length without an end. All
      tokens up to there were legal.
    stuck: Share of prompts after which all of the model's tokens have
      probability 0. Decoding stops there.
    optimal: Share of prompts completed at the least possible cost. The optimum
      is exact, not the held-out shortest route; optimal_NAME uses another cost
      function of the world.
    within: Share of prompts completed at a cost within this percentage of the
      least possible. Illegal completions count 0.
    optimal_of_valid: Share of the valid completions that have the least
      possible cost. It leaves out invalid ones.
  """

  version: ClassVar[str] = '4'
  sized_by: ClassVar[tuple[str, ...]] = ('num',)
  measures: ClassVar[Mapping[str, core.Measure]] = {
    'valid': core.Measure(
      1, 'completes every task', side='tasks', needs=core.Described.costs
    ),
    'sampled_legal': core.Measure(1, 'draws no illegal token'),
  }
  # Sequences of a world without costs have no task.
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

  def __call__(
    self, predictor: core.Predictor, world: core.World, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric; a row per prompt, clustered by task."""
    sequences = world.sample(self.num, seed, split='heldout')
    prompts = decoding.prompts(world, sequences, 0)
    cap = min(world.max_len, predictor.max_len)
    drawn = context.clusters(world, sequences)
    group = decoding.merged(prompts, drawn)
    sampled, decoded = (
      decoding.decode(predictor, world, prompts, policy, cap)
      for policy in (decoding.Sampled(seed), decoding.Greedy(seed))
    )
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
  """Criterion -> [T] bool; cost: [T] true costs, infinite if invalid."""
  best = costs.least[0]
  # Costs are sums of floats: two routes of equal cost may differ by rounding.
  cheapest = costs.cost <= costs.least * (1 + basics.OPTIMAL_TOLERANCE)
  criteria = {'optimal': cost <= best * (1 + basics.OPTIMAL_TOLERANCE)}
  if len(cheapest) > 1:  # Cost functions besides the true one.
    criteria['optimal_any_weighting'] = cheapest[1:].any(0) & valid
  for percent in WITHIN:
    most = best * (1 + percent / 100) * (1 + basics.OPTIMAL_TOLERANCE)
    criteria[f'within_{percent}'] = cost <= most
  return criteria
