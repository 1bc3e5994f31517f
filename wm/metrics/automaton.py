"""Automaton: how far is the automaton that a model implies from the world's?

The metric learns the minimal automaton of the tokens that a model accepts by
queries (Kearns and Vazirani 1994, An Introduction to Computational Learning
Theory, chapter 8; for networks Weiss, Goldberg and Yahav 2018, ICML) and
follows it along the world's own sequences.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from wm import core
from wm.core import basics
from wm.core.fields import field
from wm.evaluation import automaton_learner, context, implied, membership
from wm.options.calls import Extraction

PAIRS = 17  # Random stream of the second position of a pair.
CANDIDATES = 64  # Positions that are tried as the second of a pair.
MOST = 2000  # Most states of the automaton.
QUERIES = 8000  # Half of them are reserved for the held-out sequences.
WALKS = 200  # Walks of the world and of the automaton that test each round.
TOO_MANY = 'too_many_states'  # Reason: the world is too large to compare.


@dataclasses.dataclass(frozen=True)
class Metric(membership.AcceptMetric):
  """Compares the automaton that a model implies with the world's.

  The automaton is learned along walks of the world. In a world of at most 1,000
  states, learning goes on until the automaton is complete; `wm.extract` draws
  it. Held-out sequences, which learning did not use, are judged at the
  positions that `next_token` judges, except the one after `max_len` tokens,
  with a row for each position. If automaton and model agree at all positions,
  wrong_places is 1 - `exact_set` of next_token at these positions.

  Reasons of unmeasured rows: unexplored (the automaton did not reach the
  position within the budget of states or queries), unanswered (no queries were
  left to ask the model), unlike_model (automaton and model accept different
  tokens; wrong_places only), too_many_states (the world has more than 1,000
  states and is not compared state by state), budget_used_up (the model's
  automaton has more states than were learned, which may separate more states),
  rejected (the automaton rejects the sequence; pairs only), no_other_place (no
  drawn position makes a pair of this kind), answers_only (the model gives no
  next tokens).

  Attributes:
    num: held-out sequences.
    accept: rule by which the model accepts a token.

  Glossary:
    wrong_places: Share of positions of held-out sequences at which the
      automaton accepts other tokens than the legal ones, among positions at
      which it agrees with the model. All positions after a token that it
      rejects are wrong.
    merged_places: Share of pairs of positions in two states of the world that
      the automaton maps to one state. The automaton forgets the difference.
    split_places: Share of pairs of positions in one state of the world that
      the automaton maps to two states. The automaton keeps a difference that
      does not matter.
    unlike_model: Share of positions at which automaton and model accept
      different tokens. Above 0, the automaton is an approximation.
    distance: Bisimulation distance at a discount of 1/2: 2^-k if k tokens
      precede the first difference of the two automata, and 0 if there is none.
      It ignores probabilities.
    told_apart: Share of pairs of the world's states that the automaton
      separates, among states that it reaches. All pairs count equally, however
      rarely their states are drawn.
    states_ratio: Number of states of the automaton, divided by that of the
      world's minimal automaton. It is 1 for the world itself.
    budget_used_up: Whether the budget of states or queries ended the learning,
      1 or 0. At 1 the automaton is only a part of the model's.
    step: tokens of the sequence so far
  """

  version: ClassVar[str] = '2'
  needs: ClassVar[tuple[core.Need, ...]] = (core.Predictor, core.Enumerable)
  sized_by: ClassVar[tuple[str, ...]] = ('num',)
  measures: ClassVar[Mapping[str, core.Measure]] = {
    'wrong_places': core.Measure(0, 'accepts what is legal'),
    'merged_places': core.Measure(0, 'keeps different states apart'),
    'split_places': core.Measure(0, 'has one state for each'),
    'unlike_model': core.Measure(less_is_better=True),
    'distance': core.Measure(less_is_better=True),
  }
  breakdown: ClassVar[tuple[str, ...]] = ('step',)

  num: int = field(200, least=1)
  accept: str = 'epsilon(0.01)'

  def __call__(
    self, predictor: core.Predictor, world: core.Enumerable, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric; positions of all sequences of a task are a cluster."""
    if isinstance(predictor, core.QueryModel):
      return (core.scores('wrong_places', [np.nan], reason=['answers_only']),)
    options = Extraction(most=MOST, queries=QUERIES, walks=WALKS)
    rule = membership.resolved(self.accept, predictor, world)
    learned = implied.imply(predictor, world, rule, options, seed)
    sequences = world.sample(self.num, seed, split='heldout')
    lengths = np.minimum(sequences.lengths, learned.teacher.depth - 1)
    words = core.predictor.histories(sequences.tokens, lengths)
    places = learned.places(words)
    group = context.clusters(world, sequences)[places.row]
    return (
      *_of_places(places, group),
      *_of_pairs(learned, words, places, group, seed),
      *_of_automata(learned),
    )


def _of_places(
  places: implied.Places, group: np.ndarray
) -> tuple[core.Scores, ...]:
  """The quantities of single positions."""
  reason = np.where(places.unlike < 0, 'unanswered', '')
  unexplored = places.state == automaton_learner.UNEXPLORED
  reason = np.where(unexplored, 'unexplored', reason)
  columns = {'step': places.length}
  scored = functools.partial(core.scores, group=group, columns=columns)
  # An automaton that differs from the model shows nothing about the model.
  judged = np.where(places.unlike > 0, 'unlike_model', reason)
  return (
    scored('wrong_places', places.wrong, reason=judged),
    scored('unlike_model', places.unlike, reason=reason),
  )


def _of_pairs(
  learned: implied.Implied,
  words: list[core.predictor.Tokens],
  places: implied.Places,
  group: np.ndarray,
  seed: int,
) -> tuple[core.Scores, ...]:
  """The quantities of pairs: each position and a random other one."""
  quantities, num = [], len(places.row)
  state = np.zeros(num, int)
  if learned.truth is not None:
    follows = [*map(learned.truth.automaton.follow, words)]
    at = zip(places.row, places.length, strict=True)
    state = np.array([follows[row][size] for row, size in at])
  share = basics.uniforms(
    seed, PAIRS, np.arange(num)[:, None], np.arange(CANDIDATES)
  )
  other = np.floor(share * num).astype(np.int64)
  same = state[:, None] == state[other]
  # A rejected sequence is in no state, and in none together with others.
  inside = places.state >= 0
  outside = np.where(places.state == core.DEAD, 'rejected', 'unexplored')
  distinct = other != np.arange(num)[:, None]
  for name, fits in (
    ('merged_places', ~same),
    ('split_places', same & distinct),
  ):
    fits = fits & inside[other]
    first = other[np.arange(num), fits.argmax(1)]
    together = places.state == places.state[first]
    reason = np.where(fits.any(1), '', 'no_other_place')
    reason = np.where(inside, reason, outside)
    if name == 'merged_places' and learned.stopped:
      reason = np.full(num, 'budget_used_up')
    if learned.truth is None:
      reason = np.full(num, TOO_MANY)
    value = together if name == 'merged_places' else ~together
    quantities.append(core.scores(name, value, reason=reason, group=group))
  return tuple(quantities)


def _of_automata(learned: implied.Implied) -> tuple[core.Scores, ...]:
  """The quantities of both automata as a whole, a row each."""
  comparison, truth = learned.compare(), learned.truth
  stopped = 'budget_used_up' if learned.stopped else ''
  values = {'distance': np.nan, 'told_apart': np.nan, 'states_ratio': np.nan}
  reasons = dict.fromkeys(values, TOO_MANY)
  if comparison is not None and truth is not None:
    apart, pairs = comparison.told_apart
    values = {
      'distance': comparison.distance,
      'told_apart': apart / max(pairs, 1),
      'states_ratio': len(learned.automaton.access) / len(truth.names),
    }
    reasons = {
      'distance': '',
      'told_apart': stopped if pairs else 'no_other_place',
      'states_ratio': stopped,
    }
  values['budget_used_up'] = float(bool(learned.stopped))
  # One automaton is no sample: with an upper bound, one row had an interval.
  return tuple(
    core.scores(
      name, [value], reason=[reasons.get(name, '')], bounds=(0.0, None)
    )
    for name, value in values.items()
  )
