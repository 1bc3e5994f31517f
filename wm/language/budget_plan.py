"""Plans of metrics that question a language model within a budget.

All metrics get the same share of their trials: a few first, whose answers tell
what a trial costs, and then in two steps as many as the budget allows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from wm import core
from wm.core import registry
from wm.core.measure import lacks
from wm.core.queries import Query
from wm.evaluation.query_plans import (
  Plan,
  plan_of,
  trials_of,
  with_companions,
  with_trials,
)
from wm.language import call_ledger

PILOT = 8  # Trials before the cost of answers is measured.
# Shares of the affordable trials, asked one after the other; what is affordable
# is estimated anew before each.
SHARES = 0.5, 1.0, 1.0
_MARGIN = 1.05  # Safety factor of a step's expected cost.
SHOWN_PROMPTS = 10


class BudgetPlan:
  """Metrics that question a language model within a budget."""

  def __init__(
    self,
    metrics: Sequence[core.Metric],
    predictor: Any,
    world: core.World,
    seed: int,
    ledger: call_ledger.CallLedger,
  ) -> None:
    """Lists the first questions without asking any.

    Args:
      metrics: metrics to run, with at most their own numbers of trials; their
        companions are added.
      predictor: a language model.
      world, seed: arguments of the metrics.
      ledger: the budget.

    Raises:
      InputError: a metric's questions depend on answers, or the budget is too
        small for its first trials.
    """
    self.predictor, self.world, self.seed = predictor, world, seed
    self.ledger, self.backend = ledger, predictor.backend
    every = with_companions(metrics)
    self.without = [m for m in every if lacks(m, type(predictor), type(world))]
    self.metrics = [m for m in every if m not in self.without]
    self.steps: list[dict[str, Any]] = []
    self._done: list[Plan] = []
    first = [self._plan(metric, PILOT) for metric in self.metrics]
    # A call is made only if its maximum cost is left in the budget.
    self.reserve = max(map(self._dearest, first), default=0.0)
    if self.reserve > ledger.limit:
      raise core.InputError(
        f'budget: one call may take {ledger.text(self.reserve)}, by its prompt '
        f'and max_tokens; expected more than {ledger.text(ledger.limit)}'
      )
    self.pilot = self._first_plans()
    need = self._need(self.pilot) + self.reserve
    if need > ledger.limit - ledger.spent:
      raise core.InputError(
        f'budget: the first trials of {len(self.pilot)} metrics need about '
        f'{ledger.text(need)}; expected more than '
        f'{ledger.text(ledger.limit - ledger.spent)}'
      )
    self.planned = self._affordable()

  def _plan(self, metric: core.Metric, trials: int) -> Plan:
    few = with_trials(metric, trials)
    return plan_of(few, self.predictor, self.world, self.seed)

  def _dearest(self, plan: Plan) -> float:
    """The most that a call of a plan can cost."""
    longest = max((q.prompt for q in plan.questions), key=len, default='')
    most = self.ledger.most(longest, self.backend.settings.max_tokens)
    price: float = self.ledger.price(most)
    return price

  def _need(self, plans: Sequence[Plan], anew: bool = False) -> float:
    """Expected cost of the questions of plans without a cached answer."""
    return sum(
      self.ledger.price(self.backend.forecast(plan.questions, anew).usage)
      for plan in plans
    )

  def _first_plans(self) -> list[Plan]:
    """Plans of so few trials that they take half of the budget at most."""
    trials = PILOT
    while True:
      plans = [self._plan(metric, trials) for metric in self.metrics]
      need = 2 * self._need(plans, anew=True)
      if need <= self.ledger.limit - self.reserve or _fewest(plans):
        return plans
      trials //= 2

  def _affordable(self) -> list[Plan]:
    """Plans of the greatest share of all trials that the budget allows."""
    # Of cached answers too, so that a resumed run plans the same.
    whole = sum(
      self._need([plan], anew=True)
      * max(trials_of(metric) / max(trials_of(plan.metric), 1), 1)
      for metric, plan in zip(
        self.metrics, self._done or self.pilot, strict=True
      )
    )
    left = self.ledger.limit - self.reserve
    share = min(left / max(_MARGIN * whole, 1e-12), 1.0)
    while True:
      plans = self._shared_out(share, self.metrics)
      need = _MARGIN * self._need(plans)
      if need <= left - self.ledger.spent or _fewest(plans):
        return plans
      # Trials cost more than the first ones did.
      share *= max(0.95 * (left - self.ledger.spent) / need, 0.5)

  def _shared_out(self, share: float, of: Sequence[core.Metric]) -> list[Plan]:
    """Plans of a share of the trials of each metric of `of`."""
    return [
      self._plan(metric, int(share * trials_of(whole)))
      for metric, whole in zip(self.metrics, of, strict=True)
    ]

  def tell(self, log: Callable[[str], None], prompts: bool = False) -> None:
    """Logs the planned questions and their cost, by metric.

    prompts: also log some of the prompts of each metric.
    """
    total, listed = self.ledger.nothing, list[Query]()
    for plan in self.planned:
      need = self.backend.forecast(plan.questions)
      usage = need.usage
      total, listed = total + usage, [*listed, *plan.questions]
      guess = '' if need.measured else ', a guess before the first answers'
      log(
        f'{registry.spec(plan.metric)}: {need.calls:,} calls, about '
        f'{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out '
        f'({usage.reasoning_tokens:,} of reasoning{guess}){self._money(usage)}'
      )
    log(
      f'in all about {self.ledger.text(self.ledger.price(total))}'
      f'{self._money(total)}; {self.ledger.text(self.ledger.spent)} are spent, '
      f'of at most {self.ledger.text(self.ledger.limit)}'
    )
    if prompts:
      step = max(len(listed) // SHOWN_PROMPTS, 1)
      for query in listed[::step][:SHOWN_PROMPTS]:
        log(f'--- {query.kind}\n{query.prompt}')

  def _money(self, usage: Any) -> str:
    dollars = self.ledger.dollars(usage)
    return '' if math.isnan(dollars) else f', ${dollars:,.4g}'

  def run(self) -> list[core.Metric]:
    """Asks within the budget.

    Returns:
      The metrics with their numbers of trials; metrics without trials are
      missing.
    """
    self.backend.ledger = self.ledger
    self._take(self.pilot)
    for share in SHARES:
      if not self.ledger.closed:
        affordable = [plan.metric for plan in self._affordable()]
        self._take(self._shared_out(share, affordable))
    return [*(plan.metric for plan in self._done), *self.without]

  def _take(self, plans: list[Plan]) -> None:
    """Asks the questions of plans; a step that is cut short does not count."""
    spent, need = self.ledger.spent, self._need(plans)
    for plan in plans:
      plan.ask()
    self.steps.append({'expected': need, 'used': self.ledger.spent - spent})
    if not self.ledger.closed:
      self._done = plans

  def record(self) -> dict[str, Any]:
    """The plan and its steps as JSON values."""
    return {
      'limit': self.ledger.limit,
      'unit': self.ledger.unit,
      'planned': {p.metric.name: trials_of(p.metric) for p in self.planned},
      'trials': {p.metric.name: trials_of(p.metric) for p in self._done},
      'steps': self.steps,
      'usage': self.ledger.usage.model_dump(exclude_none=True),
    }

  def lines(self) -> list[str]:
    """Lines on used and expected costs, and on unmeasured metrics."""
    ledger, later = self.ledger, self.steps[1:]
    used, need = (sum(s[k] for s in later) for k in ('used', 'expected'))
    lines = [
      f'{ledger.text(ledger.spent)} are spent, of at most '
      f'{ledger.text(ledger.limit)}{self._money(ledger.usage)}'
    ]
    if need:
      lines.append(
        f'after the first trials {ledger.text(need)} were expected, '
        f'{ledger.text(used)} used'
      )
    if not self._done:
      lines.append('no metric was measured, as the budget is used up')
    return lines


def _fewest(plans: Sequence[Plan]) -> bool:
  """Do all metrics of these plans have at most one trial?"""
  return all(trials_of(plan.metric) <= 1 for plan in plans)
