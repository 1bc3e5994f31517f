"""What answers about worlds are worth, from an Inspect log or while it runs."""

from __future__ import annotations

import collections
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from wm import core
from wm.core import registry
from wm.core.queries import Answer, Query
from wm.evaluation import statistics
from wm.language.world import questions
from wm.language.world.questions import Recall, Setting
from wm.models.serving import llm_predictor

# Answers to one question, one for each epoch, by setting and question.
Known = dict[Setting, dict[Recall, list[Answer]]]


def kept(answer: Answer) -> dict[str, Any]:
  """An answer as metadata of a score; `answered` reads it."""
  unknown = math.isnan(answer.probability)
  return {
    'value': questions.stored(answer.value),
    'failure': answer.failure,
    'probability': None if unknown else answer.probability,
  }


def answered(data: Mapping[str, Any]) -> Answer:
  """The answer that `kept` made metadata of; InputError where it is none."""
  with core.reading('a score', 'one of wm/world'):
    chance = data['probability']
    chance = math.nan if chance is None else chance
    return Answer(questions.value(data['value']), data['failure'], chance)


def gathered(
  pairs: Iterable[tuple[Mapping[str, Any], Answer]],
) -> Known:
  """Answers by setting and question, from samples' metadata and answers."""
  found: Known = collections.defaultdict(lambda: collections.defaultdict(list))
  for data, answer in pairs:
    setting, question, _ = questions.restored(data)
    found[setting][questions.recall(question)].append(answer)
  return found


def predictor(
  setting: Setting, answers: Mapping[Recall, Sequence[Answer]]
) -> llm_predictor.LanguageModel:
  """A predictor that answers what is known; most of several answers win."""
  known = {key: llm_predictor.voted(some) for key, some in answers.items()}
  return setting.predictor(questions.Recalled(known))


def values(known: Known) -> dict[str, float]:
  """Headline quantities of all metrics, means over the settings.

  NAME_sd is the standard deviation over settings that differ in wording, names
  and order, where there are several.
  """
  found: dict[str, list[float]] = collections.defaultdict(list)
  for setting, answers in known.items():
    model = predictor(setting, answers)
    for spec in setting.metrics:
      metric = registry.make('metric', spec)
      world = questions.made_world(setting.world)
      for scores in metric(model, world, setting.seed):
        if scores.quantity in metric.headline:
          value = statistics.summarize(scores)['value']
          found[f'{metric.name}_{scores.quantity}'].append(
            math.nan if value is None else value
          )
  means = {name: float(np.mean(some)) for name, some in found.items()}
  spread = {
    f'{name}_sd': float(np.std(some, ddof=1))
    for name, some in found.items()
    if len(some) > 1
  }
  return means | spread


def worth(question: Query, answer: Answer, truth: Any) -> dict[str, float]:
  """Of one answer: is it one, is it right, and P(right); NaN where unknown."""
  right, chance = math.nan, answer.probability
  if not answer.failure and truth is not None:
    right = float(answer.value == truth)
  return {
    'answered': float(not answer.failure),
    'right': right,
    'probability': chance if truth is True else 1 - chance,
  }
