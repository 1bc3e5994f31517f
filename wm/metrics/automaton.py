"""Automaton: how far is the automaton that a model implies from the world's?

The minimal automaton of the tokens that a model accepts is learned by queries
(Kearns and Vazirani 1994, An Introduction to Computational Learning Theory,
chapter 8; for networks Weiss, Goldberg and Yahav 2018, ICML) and followed along
the world's own sequences.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from wm import core
from wm.core import basics, registry
from wm.core.fields import field
from wm.evaluation import automaton_learner, context, implied
from wm.options.calls import Extraction

PAIRS = 17  # Stream of randomness of the second place of a pair.
CANDIDATES = 64  # Places that are tried as the second of a pair.
TOO_MANY = 'too_many_states'  # Reason: the world has more than are compared.


@dataclasses.dataclass(frozen=True)
class Metric(core.Metric):
  """Compares the automaton that a model implies with the world's.

  The automaton is learned along walks of the world, and, where the world has at
  most 1,000 states, until it is complete; see `wm.extract`, which draws it. It
  is judged at the places of held-out sequences that `next_token` judges, but
  for that after `max_len` tokens; it was not learned from them, a row for each.
  Where it is the model's at all places, wrong_places is what `exact_set` of
  next_token lacks there.

  Reasons of unmeasured rows: unexplored (the budget of states or queries did
  not suffice for the automaton to come there), unanswered (it did not suffice
  to ask the model), unlike_model (the automaton accepts others than the model
  there; wrong_places only), too_many_states (the world has more than 1,000
  states and is not compared state by state), budget_used_up (the model's
  automaton has more states than were learned, and may tell more apart),
  rejected (the automaton accepts no such sequence; pairs only), no_other_place
  (no drawn place makes such a pair), answers_only (the model gives no next
  tokens).

  Attributes:
    num: held-out sequences.
    depth: longest word that the model is asked about, in tokens; 0 is the
      longest sequence that world and model have.
    most: states of the automaton at most.
    queries: words that the model reads at most; half of them are left for the
      held-out sequences.
    walks: random walks of the world, and of the automaton, that test it in each
      round.
    accept: the rule by which the model accepts a token.

  Glossary:
    wrong_places: Share of the places of held-out sequences at which the
      automaton accepts others than the legal tokens, of those at which it
      accepts what the model accepts. A sequence that it rejects is
      wrong from there on.
    merged_places: Share of the pairs of places in two states of the world that
      the automaton puts in one state. It forgets what tells them apart.
    split_places: Share of the pairs of places in one state of the world that
      the automaton puts in two states. It remembers what does not matter.
    unlike_model: Share of places at which the automaton accepts others than the
      model. Above 0, the automaton is an approximation.
    distance: Bisimulation distance at a discount of 1/2, 2^-k where k tokens
      precede the first difference of the two automata, and 0 if there is none.
      It knows no probabilities.
    told_apart: Share of the pairs of the world's states that the automaton
      tells apart, of those that it reaches. All pairs count alike, however
      seldom their states are drawn.
    states_ratio: Number of states of the automaton, over that of the world's
      minimal automaton. It is 1 for the world itself.
    budget_used_up: Whether the budget of states or queries ended the learning,
      1 or 0. At 1 the automaton is only part of the model's.
    step: tokens of the sequence so far
  """

  version: ClassVar[str] = '2'
  needs: ClassVar[tuple[core.Need, ...]] = (core.Predictor, core.Enumerable)
  sized_by: ClassVar[tuple[str, ...]] = ('num', 'walks')
  ideal: ClassVar[Mapping[str, str]] = {
    'wrong_places': '0: accepts what is legal',
    'merged_places': '0: keeps different states apart',
    'split_places': '0: has one state for each',
  }
  less_is_better: ClassVar[tuple[str, ...]] = (
    *('wrong_places', 'merged_places', 'split_places', 'unlike_model'),
    'distance',
  )
  breakdown: ClassVar[tuple[str, ...]] = ('step',)

  num: int = field(200, least=1)
  depth: int = field(0, least=0)
  most: int = field(2000, least=1)
  queries: int = field(8000, least=100, most=10_000_000)
  walks: int = field(200, least=1, most=100_000)
  accept: str = 'epsilon(0.01)'

  def __post_init__(self) -> None:
    super().__post_init__()
    registry.make('accept', self.accept)

  def __call__(
    self, predictor: core.Predictor, world: core.Enumerable, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric; the places of sequences of one task are a cluster."""
    if isinstance(predictor, core.QueryModel):
      return (core.scores('wrong_places', [np.nan], reason=['answers_only']),)
    options = Extraction(self.depth, self.most, self.queries, self.walks)
    rule = registry.make('accept', self.accept)
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
  """The quantities of single places."""
  reason = np.where(places.unlike < 0, 'unanswered', '')
  unexplored = places.state == automaton_learner.UNEXPLORED
  reason = np.where(unexplored, 'unexplored', reason)
  columns = {'step': places.length}
  scored = functools.partial(core.scores, group=group, columns=columns)
  # Where it is not the model's, it says nothing of the model.
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
  """The quantities of pairs: each place, and another one by chance."""
  quantities, num = [], len(places.row)
  same = np.zeros((num, CANDIDATES), bool)
  other = np.zeros((num, CANDIDATES), np.int64)
  if learned.truth is not None:
    follows = [learned.truth.automaton.follow(word) for word in words]
    state = np.array(
      [
        follows[row][size]
        for row, size in zip(places.row, places.length, strict=True)
      ]
    )
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
