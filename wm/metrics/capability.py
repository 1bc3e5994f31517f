"""Capability: does a model answer questions with one right answer?"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from wm import core
from wm.core import basics, capabilities
from wm.core.fields import field
from wm.evaluation import context, membership


@dataclasses.dataclass(frozen=True)
class Metric(core.Metric):
  """Asks which of several tokens can come next, if only one can.

  Vafa et al. 2024, section 4.2 and figure 4: where does a person sit if the
  statements leave one arrangement? A model that answers well may still fail
  `compression` and `distinction`.

  Reasons of unmeasured rows: no_answer (the model gives no probability to any
  choice; the paper drops replies that cannot be parsed), too_long (the question
  is longer than the model's `max_len`).

  Attributes:
    num: maximum number of questions.

  Glossary:
    accuracy: Share of questions with one possible answer that the model answers
      correctly: its answer is the most likely choice. If n choices are equally
      likely, the right one among them counts 1/n.
  """

  needs: ClassVar[tuple[core.Need, ...]] = (
    core.Predictor,
    core.Verbal.questions,
  )
  sized_by: ClassVar[tuple[str, ...]] = ('num',)
  measures: ClassVar[Mapping[str, core.Measure]] = {
    'accuracy': core.Measure(1, 'completes every task')
  }

  num: int = field(60, least=1)

  def why_not_static(self) -> str:
    """See core.Metric."""
    return ''

  def __call__(
    self, predictor: core.Predictor, world: core.Verbal, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric; a row per question, clustered by task."""
    asked = world.questions(self.num, basics.stream(seed, context.STATES))
    value = np.zeros(len(asked))
    fits = membership.fits(predictor, asked.lengths + 1)  # With the answer.
    reason = np.where(fits, '', 'too_long').astype('<U16')
    fitting, rows = asked.take(fits), np.flatnonzero(fits)
    if core.can(predictor, core.QueryModel.choose):
      right, answered = _chosen(predictor, fitting)
      value[rows] = right
      reason[rows[~answered]] = 'no_answer'
      fitting = fitting.take(np.arange(0))
    for part, log_probs in membership.last_by_rows(
      predictor, fitting.tokens, fitting.lengths
    ):
      batch = fitting.take(np.arange(part.start, part.stop))
      shares, possible = _answered(np.asarray(log_probs), batch)
      value[rows[part]] = shares
      reason[rows[part][~possible]] = 'no_answer'
    scores = core.scores(
      'accuracy',
      value,
      reason=reason,
      group=context.clusters(world, asked),
      columns=_pictured(world, asked),
    )
    return (scores,)


def _chosen(
  predictor: core.QueryModel, asked: core.Sequences
) -> tuple[np.ndarray, np.ndarray]:
  """Two [R] bool: is the choice right, and did the model choose at all?"""
  choices = asked.side['choices']
  picks = predictor.choose(
    core.predictor.histories(asked.tokens, asked.lengths),
    [tuple(row) for row in choices.tolist()],
  )
  chosen = np.take_along_axis(choices, np.maximum(picks, 0)[:, None], 1)[:, 0]
  answered = picks != core.NO_ANSWER
  return answered & (chosen == asked.side['answer']), answered


def _answered(
  log_probs: np.ndarray, asked: core.Sequences
) -> tuple[np.ndarray, np.ndarray]:
  """[R] share of right answers, and [R] bool: is any choice possible?

  log_probs: [R, L, V] nats.
  """
  rows = np.arange(len(asked))
  last = log_probs[rows, asked.lengths - 1]
  choices = asked.side['choices']
  chance = np.take_along_axis(last, choices, axis=1)
  possible = chance.max(1) > -np.inf
  best = chance == chance.max(1, keepdims=True)
  right = (best & (choices == asked.side['answer'][:, None])).any(1)
  return right / best.sum(1), possible


def _pictured(
  world: core.World, asked: core.Sequences
) -> dict[str, np.ndarray]:
  """Side columns: `prefix`, the `state` that it reaches, and `answer`."""
  start = world.init(len(asked))
  _, states = world.walk(start, asked.tokens, asked.lengths)
  return {
    'prefix': context.token_texts(world, asked.tokens, asked.lengths),
    'state': capabilities.written(world, states),
    'answer': context.token_texts(world, asked.side['answer'][:, None]),
  }
