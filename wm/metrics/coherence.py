"""Coherence: are a model's errors a function of the state?

A model may hold a wrong map consistently: then an error after one prefix comes
again after every other prefix of the same state. Or it may be unsure: then
errors depend on the prefix. Compression cannot tell the two apart, as it counts
pairs of prefixes that are treated alike, and an acceptance rule that accepts
more treats more of them alike.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from wm import core
from wm.core import basics, capabilities
from wm.core.fields import field
from wm.evaluation import context, membership, prefix_pairs

Move = tuple[str, str]  # A location and a token.
_ATTEMPTS = 32  # Draws of two prefixes before a trial is given up.


@dataclasses.dataclass(frozen=True)
class Metric(membership.AcceptMetric):
  """Asks about each error again after another prefix of the same state.

  A false token is accepted and illegal, a missing one is legal and refused. For
  each, R is the share of errors that recur after the other prefix, and C the
  share of states in which the same token is the same error: what recurs by
  chance. The coherence of errors is (R - C) / (1 - C), a mean over errors.

  Each quantity has a row per state, weighted by the sum of 1 - C over its
  errors. States without an error are not measured (no_error). Side columns:
  `location`, the part of the state that decides which moves are legal;
  `error_tokens` after one of the prefixes or both; `recurring_tokens` after
  both.

  Attributes:
    trials: states drawn, with two prefixes of as many moves each.
    accept: acceptance rule.

  Glossary:
    false: Share of false tokens that are accepted again after another prefix of
      the same state, above chance. It is 1 if the model holds a wrong map
      consistently, and 0 if its errors do not depend on the state.
    missing: Share of missing tokens that are refused again after another prefix
      of the same state, above chance. It is 1 if the model lacks the same moves
      whatever came before.
  """

  needs: ClassVar[tuple[core.Need, ...]] = (core.Predictor, core.Prefixed)
  sized_by: ClassVar[tuple[str, ...]] = ('trials',)
  measures: ClassVar[Mapping[str, core.Measure]] = {
    'false': core.Measure(headline=True),
    'missing': core.Measure(headline=True),
  }

  trials: int = field(2000, least=1)
  accept: str = 'epsilon(0.01)'

  def __call__(
    self, predictor: core.Predictor, world: core.Prefixed, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric; a row per state."""
    rule = self.rule(predictor, world)
    states = world.sample_states(
      self.trials, basics.stream(seed, context.STATES)
    )
    pairs = prefix_pairs.prefix_pairs(
      world, states, states, seed=seed, attempts=_ATTEMPTS
    )
    legal = world.legal(states)
    # No sequence contains padding.
    possible = np.arange(legal.shape[1]) != core.PAD
    accepted = np.zeros((len(states), 2, legal.shape[1]), bool)
    reason = pairs.reason.astype('<U24')
    for side in range(2):
      answers = membership.accepted_after(
        predictor, pairs.tokens[:, side], pairs.lengths[:, side], rule, reason
      )
      accepted[:, side], reason = answers.accepted, answers.reason
    ids = np.unique(world.state_id(states), return_inverse=True)[1]
    columns = {
      'state': capabilities.written(world, states),
      'location': context.locations(world, states),
      **context.tags(world, states),
    }
    candidates = {
      'false': (accepted, ~legal & possible),
      'missing': (~accepted, legal),
    }
    return tuple(
      _scores(
        name,
        errors & where[:, None],
        where,
        reason,
        ids,
        columns | _tokens(world, errors & where[:, None]),
      )
      for name, (errors, where) in candidates.items()
    )


def _tokens(world: core.World, errors: np.ndarray) -> dict[str, np.ndarray]:
  """Side columns of errors [T, 2, V]."""
  return {
    'error_tokens': context.marked_tokens(world, errors.max(1)),
    'recurring_tokens': context.marked_tokens(world, errors.min(1)),
  }


def recurrence(columns: Mapping[str, np.ndarray]) -> dict[Move, float]:
  """Share of the errors of each move that recur after the other prefix.

  columns: side columns of the measured rows of `false` or `missing`.
  """
  names = 'error_tokens', 'recurring_tokens'
  either, both = (context.move_counts(columns, name) for name in names)
  return {
    move: 2 * both[move] / (num + both[move]) for move, num in either.items()
  }


def _scores(
  quantity: str,
  errors: np.ndarray,
  where: np.ndarray,
  reason: np.ndarray,
  ids: np.ndarray,
  columns: dict[str, np.ndarray],
) -> core.Scores:
  """Coherence of one kind of error.

  Args:
    quantity: name of it.
    errors: [T, 2, V] bool, after each of two prefixes.
    where: [T, V] bool: can the token be such an error in this state?
    reason: [T] str, not '' for states that were not asked about.
    ids: [T] number of the state, from 0.
    columns: side columns.
  """
  asked = (reason == '')[:, None]
  num = errors.sum(1) * asked  # [T, V]: 0, 1 or 2 errors.
  chance = _chance(num, 2 * (where & asked), ids)
  # An error recurs if both prefixes have it; both are asked to recur.
  recurs = np.where(num == 2, 2, 0)
  weight = (num * (1 - chance)).sum(-1)
  value = (recurs - num * chance).sum(-1) / np.where(weight > 0, weight, 1)
  wrong = num.any(-1)
  # A row is lowest if nothing recurs.
  odds = np.where(weight > 0, (num * chance).sum(-1), 0) / np.where(
    weight > 0, weight, 1
  )
  none = np.where(wrong, 'everywhere', 'no_error')
  return core.scores(
    quantity,
    value,
    reason=np.where((reason == '') & (weight <= 0), none, reason),
    group=ids,
    weight=weight,
    columns=columns,
    counts={'errors': int(num.sum()), 'recurring': int(recurs.sum())},
    bounds=(-float(odds.max(initial=0)), 1.0),
  )


def _chance(
  errors: np.ndarray, questions: np.ndarray, ids: np.ndarray
) -> np.ndarray:
  """[T, V] share of questions about a token, in other states, that are errors.

  errors, questions: [T, V] numbers of both. 1 if no other state was asked.
  """
  num = ids.max(initial=0) + 1
  of_state = np.zeros((2, num, errors.shape[1]))
  np.add.at(of_state[0], ids, errors)
  np.add.at(of_state[1], ids, questions)
  # The state itself is left out: it would raise its own chance.
  rest, asked = (of_state.sum(1, keepdims=True) - of_state)[:, ids]
  return np.where(asked > 0, rest / np.maximum(asked, 1), 1.0)
