"""Plans of metrics: their questions to a predictor whose answers cost.

`launch/score.py` asks the questions of a plan, and so does an Inspect data set
(wm.language.world_task). See wm.core.queries.

Within a budget, each step gives trials to the metric with the greatest decrease
of squared interval widths per cost: S^2 (1/n - 1/m) / (c (m - n)) from n trials
to m, where S^2 is the sum of the squared widths times n, and c the cost of a
trial. So n tends to be proportional to S / sqrt(c), the optimum allocation of
Neyman (1934, Journal of the Royal Statistical Society 97) at unequal costs
(Cochran 1977, Sampling Techniques, 5.5).

Without a target width, the number of questions does not depend on answers, and
intervals are as usual. With one, measuring stops when intervals are narrow
enough, and their level is raised for that: see `statistics`.
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
from wm.core.measure import headline_quantities, lacks
from wm.core.queries import Query
from wm.evaluation import shared_prompts, statistics

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

  @functools.cached_property
  def requests(self) -> list[Query]:
    """The calls without cached answers, one Query each."""
    return self.predictor.requests(self.questions)

  @property
  def calls(self) -> int:
    """Number of calls without cached answers."""
    return len(self.requests)

  @property
  def tokens(self) -> int:
    """Estimated tokens of all prompts."""
    return int(verbal.prompt_tokens([query.prompt for query in self.requests]))

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
    """The plan in a line, and the cost of one prompt for each question."""
    calls = self.calls
    text = (
      f'{registry.spec(self.metric)}: {calls:,} calls, about '
      f'{self.tokens:,} tokens of prompts'
    )
    each = calls / max(len({query.prompt for query in self.requests}), 1)
    alone = int(each * len(self.questions))
    if alone == calls:
      return text
    single = [query.prompt for query in self.questions]
    return text + _single_form(alone, each * verbal.prompt_tokens(single))


def _single_form(calls: int, tokens: float) -> str:
  return f'; one question a prompt: {calls:,} calls, about {tokens:,.0f} tokens'


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
    draw, num = fitting.metric.trials_per_draw, _trials(fitting.metric)
    # In proportion, and at least one draw fewer, so that the loop ends.
    fits = min(num * most // fitting.calls, num - draw)
    if fits < draw:
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
  """The metric with at most `most` trials, but at least one draw."""
  # Whole draws: both labels of a pair, or all pairs of a state.
  num = max(most // metric.trials_per_draw, 1) * metric.trials_per_draw
  if _trials(metric) <= num:
    return metric
  return dataclasses.replace(metric, **{metric.sized_by[0]: num})


TESTED = 64  # Trials whose questions `shared_prompts` uses.
PILOT = 8  # Fewest trials before measured widths are used.
RATIO = 1.25  # Ratio of consecutive numbers of trials.
_MARGIN = 1.05  # Safety factor of a step's expected cost.
SHOWN_PROMPTS = 10


@dataclasses.dataclass
class Arm:
  """A metric that shares a budget with others, and its progress.

  Attributes:
    metric: the metric, with its greatest number of trials.
    sizes: possible numbers of trials, ascending.
    cost: expected cost of a trial.
    spread: squared interval widths of its headline quantities times trials.
    steps: number of sizes that are done.
    finished: whether it gets no more trials.
  """

  metric: core.Metric
  sizes: list[int]
  cost: float
  spread: float
  steps: int = 0
  finished: bool = False

  @property
  def trials(self) -> int:
    """Number of finished trials."""
    return self.sizes[self.steps - 1] if self.steps else 0

  @property
  def missing(self) -> int:
    """Number of trials in the next step."""
    return self.sizes[self.steps] - self.trials

  def gain(self) -> float:
    """Decrease of squared widths in the next step, per cost."""
    if not self.steps:
      return math.inf  # The spread is not known yet.
    shorter = 1 / self.trials - 1 / self.sizes[self.steps]
    return self.spread * shorter / max(self.cost * self.missing, 1e-12)

  def shorten(self) -> None:
    """Halves the next step; if it cannot be halved, the arm is finished."""
    middle = self.trials + self.missing // 2
    middle -= middle % self.metric.trials_per_draw
    if middle > self.trials:
      self.sizes.insert(self.steps, middle)
    else:
      self.finished = True


def _sizes(metric: core.Metric) -> list[int]:
  """Possible numbers of trials of a metric, up to its own."""
  total = _trials(metric) or 1
  draw, size, sizes = metric.trials_per_draw, 1.0, {total}
  while size < total:
    sizes.add(max(int(size) // draw, 1) * draw)
    size *= 2 if size < PILOT else RATIO
  return sorted(sizes)


def _quantities(metric: core.Metric) -> int:
  return max(len(headline_quantities(metric)), 1)


def allocate(arms: Sequence[Arm], take: Callable[[Arm], None]) -> None:
  """Takes steps of arms, always of the arm with the greatest gain.

  take: function that does a step, and counts it or finishes the arm.
  """
  while ready := [
    arm for arm in arms if not arm.finished and arm.steps < len(arm.sizes)
  ]:
    take(max(ready, key=Arm.gain))


class BudgetPlan:
  """Metrics that question a language model within a budget."""

  def __init__(
    self,
    metrics: Sequence[core.Metric],
    predictor: Any,
    world: core.World,
    seed: int,
    ledger: Any,
    width: float = 0.0,
  ) -> None:
    """Lists the first questions without asking any.

    Args:
      metrics: metrics to run, with at most their own numbers of trials; their
        companions are added.
      predictor: a language model.
      world, seed: arguments of the metrics.
      ledger: the budget, a `wm.language.call_ledger.CallLedger`.
      width: width of intervals at which measuring stops; 0: never.

    Raises:
      InputError: a metric's questions depend on answers, or the budget is too
        small for its first trials.
    """
    self.predictor, self.world, self.seed = predictor, world, seed
    self.ledger, self.width = ledger, width
    self.backend = predictor.backend
    # A call is made only if its maximum cost is left in the budget.
    self.reserve, self._tested = 0.0, list[Query]()
    every = _with_companions(metrics)
    lacking = [m for m in every if lacks(m, type(predictor), type(world))]
    self.arms = [self._arm(m) for m in every if m not in lacking]
    self.without = lacking
    self.steps: list[dict[str, Any]] = []
    if self.reserve > ledger.limit:
      raise core.InputError(
        f'budget: one call may take {ledger.text(self.reserve)}, by its prompt '
        f'and max_tokens; expected more than {ledger.text(ledger.limit)}'
      )
    self.planned = self._simulated()

  def _plan(self, metric: core.Metric, trials: int) -> Plan:
    few = _with_trials(metric, trials)
    return plan_of(few, self.predictor, self.world, self.seed)

  def _arm(self, metric: core.Metric) -> Arm:
    plan = self._plan(metric, PILOT)
    # The number of trials ignores forecasts, so that a resumed run tests the
    # same.
    if self.backend.per_prompt > 1:
      self._tested += self._plan(metric, TESTED).questions
    longest = max((q.prompt for q in plan.requests), key=len, default='')
    most = self.ledger.most(longest, self.backend.settings.max_tokens)
    self.reserve = max(self.reserve, self.ledger.price(most))
    # As for shares near one half, whose intervals are the widest.
    level = statistics.SEQUENTIAL if self.width else statistics.LEVEL
    low, high = statistics.proportion(0.5, MOST_CALLS, level)
    spread = MOST_CALLS * float(high - low) ** 2 * _quantities(metric)
    return Arm(metric, _sizes(metric), self._cost(plan), spread)

  def _cost(self, plan: Plan) -> float:
    """Expected cost of a trial, regardless of cached answers."""
    need = self.backend.forecast(plan.questions, anew=True)
    return self.ledger.price(need.usage) / max(_trials(plan.metric), 1)

  def _test(self) -> Any:
    """Forecast for single questions of the paired test, at its first look."""
    pairs = shared_prompts.sample(self._tested, self.backend.per_prompt)
    few = [query for query, _ in pairs[: shared_prompts.PAIRS[0]]]
    return self.predictor.single().backend.forecast(few)

  def _simulated(self) -> list[Arm]:
    """The arms after a simulated run with expected costs."""
    arms = [dataclasses.replace(a, sizes=[*a.sizes]) for a in self.arms]
    left = (
      self.ledger.limit - self.reserve - self.ledger.price(self._test().usage)
    )

    def take(arm: Arm) -> None:
      """A step at its expected cost."""
      nonlocal left
      cost = _MARGIN * arm.cost * arm.missing
      if cost > left:
        arm.shorten()
        return
      left -= cost
      arm.steps += 1
      wide = math.sqrt(arm.spread / _quantities(arm.metric) / arm.trials)
      arm.finished = bool(self.width) and wide <= self.width

    allocate(arms, take)
    if any(not arm.steps for arm in arms):
      need = sum(arm.cost * arm.sizes[0] for arm in self.arms) + self.reserve
      raise core.InputError(
        f'budget: the first trials of {len(arms)} metrics need about '
        f'{self.ledger.text(need)}; expected more than '
        f'{self.ledger.text(self.ledger.limit)}'
      )
    return arms

  def tell(self, log: Callable[[str], None], prompts: bool = False) -> None:
    """Logs the planned questions and their cost, by metric.

    prompts: also log some of the prompts of each metric.
    """
    total, listed = self.ledger.nothing, list[Query]()
    for arm in self.planned:
      plan = self._plan(arm.metric, arm.trials)
      need = self.backend.forecast(plan.questions)
      usage = need.usage
      total, listed = total + usage, [*listed, *plan.requests]
      guess = '' if need.measured else ', a guess before the first answers'
      log(
        f'{registry.spec(plan.metric)}: {need.calls:,} calls, about '
        f'{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out '
        f'({usage.reasoning_tokens:,} of reasoning{guess}){self._money(usage)}'
        f'{self._alone(plan)}'
      )
    if (test := self._test()).calls:
      usage = test.usage
      total += usage
      log(
        f'paired test of shared prompts: {test.calls:,} more calls, about '
        f'{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out; '
        f'{shared_prompts.PAIRS[-1]} calls at most'
      )
    log(
      f'in all about {self.ledger.text(self.ledger.price(total))}'
      f'{self._money(total)}; {self.ledger.text(self.ledger.spent)} are spent, '
      f'of at most {self.ledger.text(self.ledger.limit)}'
    )
    if self.width:
      log(
        f'each metric stops at intervals of {self.width:g}, whose level is '
        f'raised to {statistics.SEQUENTIAL:g} for that'
      )
    if prompts:
      for query in listed[:: max(len(listed) // SHOWN_PROMPTS, 1)][
        :SHOWN_PROMPTS
      ]:
        log(f'--- {query.kind}\n{query.prompt}')

  def _alone(self, plan: Plan) -> str:
    """Cost of one prompt for each question, if prompts are shared."""
    if self.backend.per_prompt == 1:
      return ''
    need = self.predictor.single().backend.forecast(plan.questions)
    return _single_form(need.calls, need.usage.input_tokens)

  def _money(self, usage: Any) -> str:
    dollars = self.ledger.dollars(usage)
    return '' if math.isnan(dollars) else f', ${dollars:,.4g}'

  def run(self, log: Callable[[str], None]) -> list[core.Metric]:
    """Asks within the budget.

    log: see `shared_prompts.check`.

    Returns:
      The metrics with their numbers of trials; metrics without trials are
      missing.

    Raises:
      InputError: see `shared_prompts.check`.
    """
    self.backend.ledger = self.ledger
    shared_prompts.check(self._tested, self.predictor, self.world, log)
    allocate(self.arms, self._take)
    done = [_with_trials(a.metric, a.trials) for a in self.arms if a.steps]
    return [*done, *self.without]

  def _take(self, arm: Arm) -> None:
    """The next step of an arm."""
    trials, spent = arm.sizes[arm.steps], self.ledger.spent
    plan = self._plan(arm.metric, trials)
    need = self.ledger.price(self.backend.forecast(plan.questions).usage)
    if self.ledger.closed:
      arm.finished = True
    elif need and _MARGIN * need > self.ledger.limit - self.reserve - spent:
      arm.shorten()
    else:
      plan.ask()
      self.steps.append(
        {
          'metric': registry.spec(plan.metric),
          'expected': need,
          'used': self.ledger.spent - spent,
        }
      )
      # A truncated step does not count.
      if not self.ledger.closed:
        arm.steps += 1
        arm.cost = self._cost(plan)
        if self.width and arm.trials >= min(PILOT, arm.sizes[-1]):
          self._look(arm, plan.metric)

  def _look(self, arm: Arm, metric: core.Metric) -> None:
    """Are the intervals of an arm narrow enough by now?"""
    widths = []
    for scores in metric(self.predictor, self.world, self.seed):
      if scores.quantity in headline_quantities(metric):
        stopped = dataclasses.replace(scores, sequential=True)
        summary = statistics.summarize(stopped, self.seed)
        low, high = summary['low'], summary['high']
        widths.append(math.inf if low is None else high - low)
    if widths and max(widths) < math.inf:
      arm.spread = arm.trials * sum(width * width for width in widths)
      arm.finished = max(widths) <= self.width

  def record(self) -> dict[str, Any]:
    """The plan and its steps as JSON values."""
    return {
      'limit': self.ledger.limit,
      'unit': self.ledger.unit,
      'width': self.width,
      'planned': {a.metric.name: a.trials for a in self.planned},
      'trials': {a.metric.name: a.trials for a in self.arms},
      'steps': self.steps,
      'usage': self.ledger.usage.model_dump(exclude_none=True),
    }

  def lines(self) -> list[str]:
    """Lines on used and expected costs, and on unmeasured metrics."""
    ledger, later = self.ledger, self.steps[len(self.arms) :]
    used, need = (sum(s[k] for s in later) for k in ('used', 'expected'))
    lines = [
      f'{ledger.text(ledger.spent)} are spent, of at most '
      f'{ledger.text(ledger.limit)}{self._money(ledger.usage)}'
    ]
    if need:
      lines.append(
        f'after the first steps {ledger.text(need)} were expected, '
        f'{ledger.text(used)} used'
      )
    lines += [
      f'{registry.spec(arm.metric)}: not measured, as the budget is used up'
      for arm in self.arms
      if not arm.steps
    ]
    return lines
