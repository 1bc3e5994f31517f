"""Questions with one right answer: can the model do what the world is for?"""

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
  """Asks which of some tokens can come next, where only one can.

  Vafa et al. 2024, section 4.2 and figure 4: where does a person sit, once
  what was said leaves one arrangement? A model that answers well may still
  fail `compression` and `distinction`.

  A question none of whose choices the model thinks possible is a row that
  says so (paper: what cannot be read is dropped), and so is one that is longer
  than the model was made for.

  Attributes:
    num: most questions that are asked.
    decoding: 'greedy', the likeliest choice is the answer; or 'sampled', a
      token drawn from all of the model's probabilities is, legal or not. The
      oracle then has less than 1: other legal tokens may be drawn.

  Glossary:
    accuracy: Share of questions with one possible answer that the model answers
      rightly. Where it finds several answers equally likely, each counts its
      share; where answers are sampled, each counts its probability.
  """

  needs: ClassVar[tuple[core.Need, ...]] = (
    core.Predictor,
    core.Verbal.questions,
  )
  sized_by: ClassVar[tuple[str, ...]] = ('num',)
  ideal: ClassVar[Mapping[str, str]] = {
    'accuracy': '1: completes every task',
  }

  num: int = field(60, least=1)
  decoding: str = field('greedy', choices=('greedy', 'sampled'))

  def why_not_static(self) -> str:
    """See core.Metric."""
    return '' if self.decoding == 'greedy' else "expected decoding='greedy'"

  def __call__(
    self, predictor: core.Predictor, world: core.Verbal, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric; a row per question, clustered by what comes before."""
    asked = world.questions(self.num, basics.stream(seed, context.STATES))
    value = np.zeros(len(asked))
    fits = membership.fits(predictor, asked.lengths + 1)  # With the answer.
    reason = np.where(fits, '', 'too_long').astype('<U16')
    fitting, rows = asked.take(fits), np.flatnonzero(fits)
    sampled = self.decoding == 'sampled'
    if core.can(predictor, core.QueryModel.choose):
      if sampled:
        raise core.InputError(
          "capability(decoding='sampled'): the model chooses and gives no "
          "probabilities; expected decoding='greedy'"
        )
      right, answered = _chosen(predictor, fitting)
      value[rows] = right
      reason[rows[~answered]] = 'no_answer'
      fitting = fitting.take(np.arange(0))
    for part, log_probs in membership.last_by_rows(
      predictor, fitting.tokens, fitting.lengths
    ):
      batch = fitting.take(np.arange(part.start, part.stop))
      shares, possible = _answered(np.asarray(log_probs), batch, sampled)
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
  """Two [R] bool: was the right choice made, and was any?"""
  choices = asked.side['choices']
  picks = predictor.choose(
    core.predictor.histories(asked.tokens, asked.lengths),
    [tuple(row) for row in choices.tolist()],
  )
  chosen = np.take_along_axis(choices, np.maximum(picks, 0)[:, None], 1)[:, 0]
  answered = picks != core.NO_ANSWER
  return answered & (chosen == asked.side['answer']), answered


def _answered(
  log_probs: np.ndarray, asked: core.Sequences, sampled: bool
) -> tuple[np.ndarray, np.ndarray]:
  """Share [R] that is right, and was any choice possible, from [R, L, V].

  sampled: the share is the expectation over draws, so that none is made.
  """
  rows = np.arange(len(asked))
  last = log_probs[rows, asked.lengths - 1]
  choices = asked.side['choices']
  chance = np.take_along_axis(last, choices, axis=1)
  possible = chance.max(1) > -np.inf
  if sampled:
    return np.exp(last[rows, asked.side['answer']]), possible
  best = chance == chance.max(1, keepdims=True)
  right = (best & (choices == asked.side['answer'][:, None])).any(1)
  return right / best.sum(1), possible


def _pictured(
  world: core.World, asked: core.Sequences
) -> dict[str, np.ndarray]:
  """Side columns: the tokens before, the `state` they reach, the answer."""
  start = world.init(len(asked))
  _, states = world.walk(start, asked.tokens, asked.lengths)
  return {
    'prefix': context.token_texts(world, asked.tokens, asked.lengths),
    'state': capabilities.written(world, states),
    'answer': context.token_texts(world, asked.side['answer'][:, None]),
  }
