"""Plans of metrics: their questions to a predictor whose answers cost.

`launch/score.py` asks the questions of a plan, and so does an Inspect data set
(wm.language.world_task). See wm.core.queries.

Within a budget, all metrics get the same share of their trials: a few first,
whose answers tell what a trial costs, and then in two steps as many as the
budget allows.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wm import core
from wm.core import queries, registry, verbal
from wm.core.measure import lacks
from wm.core.queries import Query

# Default of the most calls of a metric.
MOST_CALLS = 1000
NO_LIMIT = 1 << 40  # For questions that were asked already.
FIRST = 16  # Trials that are listed first, to estimate all.
# Quantities of the answers themselves, besides those of a metric.
GLOSSARY = {
  'right_answers': 'Share of the questions that are answered rightly, of those '
  'answered at all. Why others have no answer is counted by cause.',
  'right_probability': 'Probability that the model gives to the right one of '
  'yes and no, where its provider tells log-probabilities.',
}


@dataclasses.dataclass(frozen=True)
class Plan:
  """A metric, and all of its questions.

  Attributes:
    metric: the metric.
    predictor: the predictor to ask.
    questions: the questions, each prompt once, in order of first occurrence.
  """

  metric: core.Metric
  predictor: core.QueryModel
  questions: tuple[Query, ...]

  @property
  def calls(self) -> int:
    """Number of calls without cached answers."""
    return len(self.questions)

  @property
  def tokens(self) -> int:
    """Estimated tokens of all prompts."""
    return int(verbal.prompt_tokens([query.prompt for query in self.questions]))

  def ask(self) -> None:
    """Asks all questions at once; the metric then reads cached answers."""
    self.predictor.ask(self.questions)

  def scores(self, world: core.World) -> tuple[core.Scores, ...]:
    """A row per question that the world can answer; see GLOSSARY.

    Rows are of single answers, clustered by trial.
    """
    right = queries.truths(world, self.questions)
    # The world says what is right; not every question has an answer in it.
    rows = [
      (question, answer, truth)
      for question, answer, truth in zip(
        self.questions, self.predictor.ask(self.questions), right, strict=True
      )
      if truth is not None
    ]
    if not rows:
      return ()
    questions, answers, truths = zip(*rows, strict=True)
    scored = functools.partial(
      core.scores,
      group=np.array([question.trial for question in questions]),
      columns={
        'question': np.array([question.kind for question in questions]),
        'answer': np.array([str(answer.value) for answer in answers]),
        'truth': np.array([str(truth) for truth in truths]),
      },
    )
    failures = np.array([answer.failure for answer in answers])
    values = [answer.value == truth for _, answer, truth in rows]
    answer_scores = [scored('right_answers', values, reason=failures)]
    chance = np.array([answer.probability for answer in answers])
    yes = np.array([truth is True for truth in truths])
    yes_no = np.array([q.kind == queries.YES_NO for q in questions])
    if (has_probability := ~np.isnan(chance) & yes_no).any():
      value = np.where(yes, chance, 1 - chance)
      missing = np.where(has_probability, '', 'no_probability')
      answer_scores.append(scored('right_probability', value, reason=missing))
    return tuple(answer_scores)

  def __str__(self) -> str:
    """The plan in a line."""
    return (
      f'{registry.spec(self.metric)}: {self.calls:,} calls, about '
      f'{self.tokens:,} tokens of prompts'
    )


def plan_of(
  metric: core.Metric, predictor: core.QueryModel, world: Any, seed: int
) -> Plan:
  """Runs a metric on a twin of the predictor that lists questions.

  Raises:
    InputError: the metric's questions depend on answers.
  """
  if why := metric.why_not_static():
    raise core.InputError(
      f'{registry.spec(metric)} of a language model: its questions cannot be '
      f'listed before any is answered; {why}'
    )
  # The twin records each question without an answer. The metric itself runs, so
  # that the list cannot differ from the questions asked later.
  twin, listed = predictor.dry_run()
  metric(twin, world, seed)
  # Each prompt once, in the order of its first question.
  once = {query.prompt: query for query in reversed(listed)}
  return Plan(metric, predictor, tuple(reversed(once.values())))


def plans(
  metrics: Sequence[core.Metric],
  predictor: core.QueryModel,
  world: core.World,
  seed: int,
  max_calls: int,
  log: Callable[[str], None],
) -> list[Plan]:
  """Plans of metrics and of their companions.

  A metric that needs an ability that the world or the predictor lacks has an
  empty plan.

  Args:
    metrics: metrics to run.
    predictor, world, seed: arguments of the metrics.
    max_calls: maximum calls of each metric; a metric that needs more gets fewer
      trials. 0: a metric that needs more than MOST_CALLS is refused.
    log: gets a line on each plan.

  Raises:
    InputError: a metric needs too many calls, or cannot list its questions. If
      it needs far too many, only its first trials are listed.
  """
  listed = functools.partial(
    plan_of, predictor=predictor, world=world, seed=seed
  )
  by_spec: dict[str, Plan] = {}
  for metric in _with_companions(metrics):
    # An unmeasured row costs no call.
    if lacks(metric, type(predictor), type(world)):
      plan = Plan(metric, predictor, ())
    else:
      plan = _fitting(metric, listed, max_calls)
      log(str(plan))
    by_spec[registry.spec(plan.metric)] = plan
  return list(by_spec.values())


def _with_companions(metrics: Sequence[core.Metric]) -> list[core.Metric]:
  """Metrics and their companions."""
  names = {metric.name for metric in metrics}
  with_companions = []
  for metric in metrics:
    with_companions.append(metric)
    if spec := metric.companion():
      other = registry.make('metric', spec)
      if other.name not in names:
        with_companions.append(other)
  return with_companions


def _fitting(
  metric: core.Metric, listed: Callable[[core.Metric], Plan], max_calls: int
) -> Plan:
  """The plan of a metric, with fewer trials if it needs too many calls.

  listed: function from a metric to its plan.
  """
  most = max_calls or MOST_CALLS
  # A trial's questions do not depend on later trials. Few trials are listed
  # first, so that at most about twice the allowed questions are listed.
  num = FIRST
  while True:
    few = _with_trials(metric, num)
    fitting = listed(few)
    if few is metric or fitting.calls > most:
      break
    # As many as would need twice the allowed calls, by the trials so far.
    num *= max(2 * most // max(fitting.calls, 1), 2)
  asks, cut = str(fitting), few is not metric
  if cut:
    asks = (
      f'{registry.spec(metric)}: at least {fitting.calls:,} calls, those of '
      f'its first {_trials(few):,} trials'
    )
  # Trials need different numbers of calls: the cut plan may still be too large.
  while fitting.calls > most:
    num = _trials(fitting.metric)
    # In proportion, and at least one fewer, so that the loop ends.
    fits = min(num * most // fitting.calls, num - 1)
    if fits < 1:
      raise core.InputError(
        f'{asks}; expected at most {most:,} calls (--max_calls): no number of '
        'trials fits'
      )
    fitting, cut = listed(_with_trials(fitting.metric, fits)), True
  # Without max_calls, fewer trials are proposed, not taken.
  if cut and not max_calls:
    raise core.InputError(
      f'{asks}; expected at most {most:,} calls: '
      f'{registry.spec(fitting.metric)} would fit, or set --max_calls'
    )
  return fitting


def _trials(metric: core.Metric) -> int:
  """The number of a metric's trials; 0 if no field counts them."""
  return getattr(metric, metric.sized_by[0]) if metric.sized_by else 0


def _with_trials(metric: Any, most: int) -> core.Metric:
  """The metric with at most `most` trials, but at least one."""
  if _trials(metric) <= max(most, 1):
    return metric
  return dataclasses.replace(metric, **{metric.sized_by[0]: max(most, 1)})


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
    ledger: Any,
  ) -> None:
    """Lists the first questions without asking any.

    Args:
      metrics: metrics to run, with at most their own numbers of trials; their
        companions are added.
      predictor: a language model.
      world, seed: arguments of the metrics.
      ledger: the budget, a `wm.language.call_ledger.CallLedger`.

    Raises:
      InputError: a metric's questions depend on answers, or the budget is too
        small for its first trials.
    """
    self.predictor, self.world, self.seed = predictor, world, seed
    self.ledger, self.backend = ledger, predictor.backend
    every = _with_companions(metrics)
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
    few = _with_trials(metric, trials)
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
      * max(_trials(metric) / max(_trials(plan.metric), 1), 1)
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
      self._plan(metric, int(share * _trials(whole)))
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
      'planned': {p.metric.name: _trials(p.metric) for p in self.planned},
      'trials': {p.metric.name: _trials(p.metric) for p in self._done},
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
  return all(_trials(plan.metric) <= 1 for plan in plans)
