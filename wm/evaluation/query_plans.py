"""Plans of metrics: their questions to a predictor whose answers cost.

`launch/score.py` asks the questions of a plan, and so does an Inspect data set
(wm.language.world_task). See wm.core.queries. Plans within a budget are in
wm.language.budget_plan.
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
  for metric in with_companions(metrics):
    # An unmeasured row costs no call.
    if lacks(metric, type(predictor), type(world)):
      plan = Plan(metric, predictor, ())
    else:
      plan = _fitting(metric, listed, max_calls)
      log(str(plan))
    by_spec[registry.spec(plan.metric)] = plan
  return list(by_spec.values())


def with_companions(metrics: Sequence[core.Metric]) -> list[core.Metric]:
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
    few = with_trials(metric, num)
    fitting = listed(few)
    if few is metric or fitting.calls > most:
      break
    # As many as would need twice the allowed calls, by the trials so far.
    num *= max(2 * most // max(fitting.calls, 1), 2)
  asks, cut = str(fitting), few is not metric
  if cut:
    asks = (
      f'{registry.spec(metric)}: at least {fitting.calls:,} calls, those of '
      f'its first {trials_of(few):,} trials'
    )
  # Trials need different numbers of calls: the cut plan may still be too large.
  while fitting.calls > most:
    num = trials_of(fitting.metric)
    # In proportion, and at least one fewer, so that the loop ends.
    fits = min(num * most // fitting.calls, num - 1)
    if fits < 1:
      raise core.InputError(
        f'{asks}; expected at most {most:,} calls (--max_calls): no number of '
        'trials fits'
      )
    fitting, cut = listed(with_trials(fitting.metric, fits)), True
  # Without max_calls, fewer trials are proposed, not taken.
  if cut and not max_calls:
    raise core.InputError(
      f'{asks}; expected at most {most:,} calls: '
      f'{registry.spec(fitting.metric)} would fit, or set --max_calls'
    )
  return fitting


def trials_of(metric: core.Metric) -> int:
  """The number of a metric's trials; 0 if no field counts them."""
  return getattr(metric, metric.sized_by[0]) if metric.sized_by else 0


def with_trials(metric: Any, most: int) -> core.Metric:
  """The metric with at most `most` trials, but at least one."""
  if trials_of(metric) <= max(most, 1):
    return metric
  return dataclasses.replace(metric, **{metric.sized_by[0]: max(most, 1)})
