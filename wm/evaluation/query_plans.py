"""Plans of metrics: what they will ask of a predictor whose answers cost.

The same plan is asked by `launch/score.py` and as a data set of Inspect
(wm.language.world_task). See wm.core.queries.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wm import core
from wm.core import queries, registry, verbal
from wm.core.measure import lacks
from wm.core.queries import Answer, Query

# Most calls of a metric, unless told otherwise.
MOST_CALLS = 1000
SAMPLED = 16  # Prompts that the tokens of all are estimated from.
FIRST = 16  # Trials that are listed before all are.
# Quantities of the answers themselves, beside those of a metric.
GLOSSARY = {
  'right_answers': 'Share of the questions that are answered rightly, of those '
  'answered at all. Why others have no answer is counted by cause.',
  'right_probability': 'Probability that the model gives to the right one of '
  'yes and no, where its provider tells log-probabilities.',
}


@dataclasses.dataclass(frozen=True)
class Plan:
  """A metric, and all that it will ask.

  Attributes:
    metric: what asks.
    predictor: what is asked.
    questions: each prompt once, in the order in which they come up.
  """

  metric: core.Metric
  predictor: core.QueryModel
  questions: tuple[Query, ...]

  @property
  def calls(self) -> int:
    """Calls where no answer is known."""
    return self.predictor.calls(self.questions)

  @property
  def tokens(self) -> int:
    """Tokens of all prompts, about."""
    prompts = [query.prompt for query in self.questions]
    # Tokens of some prompts, scaled by the characters of all: tokenizing
    # thousands takes longer than a plan should.
    few = prompts[:: len(prompts) // SAMPLED + 1]
    share = sum(map(verbal.text_tokens, few)) / max(sum(map(len, few)), 1)
    each = self.calls / max(len(prompts), 1)
    return int(each * share * sum(map(len, prompts)))

  def ask(self) -> None:
    """Puts all questions at once; the metric then finds them answered."""
    self.predictor.ask(self.questions)

  def scores(self, world: core.World) -> tuple[core.Scores, ...]:
    """Scores of the single answers, clustered by trial."""
    return scores(world, self.questions, self.predictor.ask(self.questions))

  def __str__(self) -> str:
    return (
      f'{registry.spec(self.metric)}: {self.calls:,} calls, about '
      f'{self.tokens:,} tokens of prompts'
    )


def scores(
  world: core.World, questions: Sequence[Query], answers: Sequence[Answer]
) -> tuple[core.Scores, ...]:
  """A row per question that the world can answer; see GLOSSARY."""
  right = queries.truths(world, questions)
  # The world says what is right; not every question has an answer in it.
  rows = [k for k, truth in enumerate(right) if truth is not None]
  if not rows:
    return ()
  scored = functools.partial(
    core.scores,
    group=np.array([questions[k].trial for k in rows]),
    columns={
      'question': np.array([questions[k].kind for k in rows]),
      'answer': np.array([str(answers[k].value) for k in rows]),
      'truth': np.array([str(right[k]) for k in rows]),
    },
  )
  failures = np.array([answers[k].failure for k in rows])
  values = [answers[k].value == right[k] for k in rows]
  answer_scores = [scored('right_answers', values, reason=failures)]
  chance = np.array([answers[k].probability for k in rows])
  truth = np.array([right[k] is True for k in rows])
  yes_no = np.array([questions[k].kind == queries.YES_NO for k in rows])
  if (has_probability := ~np.isnan(chance) & yes_no).any():
    value = np.where(truth, chance, 1 - chance)
    missing = np.where(has_probability, '', 'no_probability')
    answer_scores.append(scored('right_probability', value, reason=missing))
  return tuple(answer_scores)


def plan_of(
  metric: core.Metric, predictor: core.QueryModel, world: Any, seed: int
) -> Plan:
  """Runs a metric on a twin of the predictor that lists questions.

  Raises:
    InputError: what it asks depends on the answers.
  """
  if why := metric.why_not_static():
    raise core.InputError(
      f'{registry.spec(metric)} of a language model: its questions cannot be '
      f'listed before any is answered; {why}'
    )
  # The twin answers nothing and notes each question: the metric is run for
  # real, so that the list cannot differ from what will be asked.
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
  """Plans of metrics, and of those without which their numbers mislead.

  Metrics that need what the world or the predictor lacks have an empty plan.

  Args:
    metrics: what will be run.
    predictor, world, seed: on which.
    max_calls: of each metric; one that asks more gets fewer trials, whole ones.
      0: it is refused above MOST_CALLS.
    log: gets a line on each plan.

  Raises:
    InputError: a metric asks too much, or cannot list its questions. Of one
      that asks far too much only the first trials are listed.
  """
  by_spec: dict[str, Plan] = {}
  for metric in _with_beside(metrics):
    # Its row with a reason costs no call.
    if lacks(metric, type(predictor), type(world)):
      plan = Plan(metric, predictor, ())
    else:
      plan = _fitting(metric, predictor, world, seed, max_calls)
      log(str(plan))
    by_spec[registry.spec(plan.metric)] = plan
  return list(by_spec.values())


def _with_beside(metrics: Sequence[core.Metric]) -> list[core.Metric]:
  """Metrics, and those that must be shown beside them."""
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
  metric: core.Metric,
  predictor: core.QueryModel,
  world: core.World,
  seed: int,
  max_calls: int,
) -> Plan:
  """The plan of a metric, cut to whole trials where it asks too much."""
  most = max_calls or MOST_CALLS
  fitting = _listed(metric, predictor, world, seed, most)
  asks = str(fitting)
  if fitting.metric is not metric:
    asks = (
      f'{registry.spec(metric)}: at least {fitting.calls:,} calls, those of '
      f'its first {_trials(fitting.metric):,} trials'
    )
  cut = fitting.metric is not metric
  # Trials cost different numbers of calls: what is cut may still be too much.
  while fitting.calls > most:
    smaller = _cut(fitting, most)
    if smaller is None:
      raise core.InputError(
        f'{asks}; expected at most {most:,} calls (--max_calls): no number of '
        'trials fits'
      )
    fitting, cut = plan_of(smaller, predictor, world, seed), True
  # Nobody asked for fewer trials: they are offered, not taken.
  if cut and not max_calls:
    raise core.InputError(
      f'{asks}; expected at most {most:,} calls: '
      f'{registry.spec(fitting.metric)} would fit, or set --max_calls'
    )
  return fitting


def _listed(
  metric: core.Metric,
  predictor: core.QueryModel,
  world: core.World,
  seed: int,
  most: int,
) -> Plan:
  """The plan of a metric, or of its first trials where these ask too much.

  A trial asks the same, however many follow: few are listed before many, so
  that what is listed in vain is about twice what may be asked.
  """
  num = FIRST
  while True:
    smaller = _with_trials(metric, num)
    listed = plan_of(smaller, predictor, world, seed)
    if smaller is metric or listed.calls > most:
      return listed
    # As many as would ask twice what is allowed, by those so far.
    num *= max(2 * most // max(listed.calls, 1), 2)


def _cut(current: Plan, most: int) -> core.Metric | None:
  """The metric with fewer trials, or None."""
  num = _trials(current.metric)
  # In proportion, and at least one draw less, so that the loop ends.
  fits = min(num * most // current.calls, num - current.metric.trials_per_draw)
  if fits < current.metric.trials_per_draw:
    return None
  return _with_trials(current.metric, fits)


def _trials(metric: core.Metric) -> int:
  """The number of a metric's trials; 0 where no field counts them."""
  return getattr(metric, metric.sized_by[0]) if metric.sized_by else 0


def _with_trials(metric: Any, most: int) -> core.Metric:
  """The metric with at most so many trials, at least those of one multiple."""
  # Whole draws: both labels of a pair, or all pairs of a state.
  num = max(most // metric.trials_per_draw, 1) * metric.trials_per_draw
  if _trials(metric) <= num:
    return metric
  return dataclasses.replace(metric, **{metric.sized_by[0]: num})
