"""Inductive bias: how does a fine-tuned model generalise from few labels?

Vafa et al. 2025 (What Has a Foundation Model Found?): a model biased towards
the world's state gives equal answers at points of one state, and may give
different answers at points of any two states.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from wm import core
from wm.core import adapting, basics
from wm.core.fields import field, field_error
from wm.evaluation import coin_tasks, fewshot
from wm.evaluation.coin_tasks import (
  ALIKE,
  ALL,
  SAME,
  UNLIKE,
  Compared,
  StatePoints,
)

# Most points that the published program scores.
POINTS = 2000
# Variant -> sequences that it scores at most, and their first position.
VISITED = {'published': (100, 0), 'published_games': (1000, 5)}
PREFIXES = 2  # Prefixes of each state.
# Reasons: no pair of points in two states; no pair of the kind q= or q!=.
NO_PAIR = 'no_two_states', 'no_pair_q_equal', 'no_pair_q_unequal'
# Quantities that are also computed for random weights, after the last step.
UNTRAINED = 'r_ib', 'd_ib', 'q_difference', 'q_difference_matched'


@dataclasses.dataclass(frozen=True)
class Metric(fewshot.FewShotMetric):
  """Tunes the model on random labels of states; asks if answers go by state.

  Each data set has `examples` sequences with one labelled position: its label
  is a coin flip for the state there. Data sets come in pairs with the same
  sequences and complementary labels; if there are few states, the pairs go
  through all assignments.

  Answers are compared at points, which are sampled states and prefixes that
  reach them, so that several points share a state in worlds of any size. Pairs
  of states with the same legal next tokens (q=) are drawn from `pool` states,
  separately from other pairs (q!=). Each pair of data sets has its own points,
  sequences and new head. Intervals are clustered by these pairs and cover all
  these draws, but not training; score several training seeds for that.

  States with the same next tokens may be nearer to each other than other
  states, as on a line. Pairs q= and q!= are therefore also compared at equal
  distances. If the world is an automaton of at most 2,000 states, the distance
  is the number of moves from one state to the other, in the shorter direction.
  Otherwise it is the number of different labels, if they are the squares or
  columns of a board. At each distance that both kinds have, the difference is
  weighted by the number of pairs of the rarer kind. Pairs without a path are
  left out; on a small map these are states with different destinations. States
  of a larger map have no distance.

  A learner of states has R 1 and, on average, D 1 for any number of labels: it
  flips a coin for each unseen state and gives all points of a state the same
  answer. A constant has R 1 and D 0. A coin flip for each point has 0 and 1,
  and one for each state has 1 and, on average, 1. Ten labels of a board game do
  not determine most states: D then measures how a model extrapolates.

  Attributes:
    num: data sets, D; even unless published.
    examples: labelled sequences of each data set.
    steps: ascending numbers of training steps to score after; quantities of the
      last have no number in their names.
    states: states scored in each data set.
    pool: number of states among which pairs q= are drawn; the number of pairs
      is half of `states`.
    untrained: also adapt the model with random weights, if it has weights.
    variant: 'paper', or 'published': as the published program, with independent
      labels, one head for all data sets, and the same 2,000 positions of up to
      100 held-out sequences scored in all; or 'published_games': as there for
      Othello, of 1,000 sequences, from their sixth position on.

  Glossary:
    r_ib: One minus twice the share of pairs of points in one state that get
      different answers (as published). At 1, the model treats any two prefixes
      of a state alike.
    d_ib: Twice the share of pairs of points in different states that get
      different answers (as published). A model that separates states has 1, as
      fair coins of states do; a constant has 0.
    d_ib_q_equal: As d_ib, for states with the same legal next tokens. Far below
      d_ib_q_unequal, the model merges states with the same next tokens.
    d_ib_q_unequal: As d_ib, for states with different legal next tokens. A
      model that has only the legal next tokens has 1 here too.
    q_difference: Difference d_ib_q_equal - d_ib_q_unequal in the same data set.
      Below 0, states with the same next tokens are separated less, perhaps
      because they are nearer to each other.
    q_difference_matched: As q_difference, for pairs of states at equal
      distances. Below 0, the model merges states with the same next tokens more
      than their distance explains; a model that has only distances has about 0.
    d_ib_normalised: Mean of d_ib, divided by that of the true labels of the
      same data sets. A model that has all labels has 1, and so have fair coins.
    d_ib_q_equal_normalised: As d_ib_normalised, for states with the same legal
      next tokens. Far below d_ib_q_unequal_normalised, states are merged.
    d_ib_q_unequal_normalised: As d_ib_normalised, for states with different
      legal next tokens. A model that has only the legal next tokens has 1 here
      too.
    d_ib_oracle: As d_ib, for the true labels instead of answers. It varies from
      data set to data set by coin flips alone, and is 1 on average.
    accuracy: Share of points whose answer is the state's label. Chance is a
      half; labels of a few states do not determine those of others.
    r_ib_untrained: As r_ib, for the same network with random weights, adapted
      in the same way. That much was not learned from sequences.
    d_ib_untrained: As d_ib, for the same network with random weights, adapted
      in the same way. That much was not learned from sequences.
    q_difference_untrained: As q_difference, for the same network with random
      weights, adapted in the same way. That much was not learned from
      sequences.
    q_difference_matched_untrained: As q_difference_matched, for the same
      network with random weights, adapted in the same way. That much was not
      learned from sequences.
  """

  version: ClassVar[str] = '3'
  needs: ClassVar[tuple[core.Need, ...]] = (core.Adaptable, core.Prefixed)
  sized_by: ClassVar[tuple[str, ...]] = (
    *('num', 'num examples', 'pool', 'states'),
  )
  measures: ClassVar[Mapping[str, core.Measure]] = {
    'r_ib': core.Measure(1, 'one answer a state'),
    'd_ib_normalised': core.Measure(1, 'states get different answers'),
    'd_ib': core.Measure(derived=lambda by: by['d_ib']),
    'r_ib / (1 - d_ib)': core.Measure(
      derived=lambda by: by['r_ib'] / (1 - by['d_ib'])
    ),
  }

  num: int = field(100, least=2)
  examples: int = field(100, least=1)
  steps: tuple[int, ...] = field((100,), **fewshot.STEPS)
  states: int = field(32, least=2)
  pool: int = field(200, least='states')
  untrained: bool = False
  variant: str = field('paper', choices=('paper', *VISITED))

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.num % 2:  # Labels and their complement.
      raise field_error(self, 'num', 'an even number')

  def __call__(
    self, predictor: core.Adaptable, world: core.Prefixed, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric; a row per data set, clustered by pairs of them."""
    if isinstance(world, core.Latent):  # No two sequences share a state.
      reason = ['state_is_hidden']
      names = [name for name in self.glossary if 'untrained' not in name]
      return tuple(core.scores(name, [np.nan], reason=reason) for name in names)
    task = self._task(world, seed)
    answer = functools.partial(task.answers, self, seed)
    score = functools.partial(_scores, task)
    rows = self.by_step(answer(predictor), score)
    if self.untrained:
      shown = {f'{name}_untrained' for name in UNTRAINED}
      untrained = self.by_random_weights(
        predictor, seed, answer, score, UNTRAINED
      )
      rows += [scores for scores in untrained if scores.quantity in shown]
    return tuple(rows)

  def _task(self, world: core.Prefixed, seed: int) -> CoinTasks:
    published = self.variant in VISITED
    twins = 1 if published else 2
    groups = self.num // twins
    trained = coin_tasks.labelled(world, groups, self.examples, seed)
    if published:
      sequences, first = VISITED[self.variant]
      scored = coin_tasks.visited(world, sequences, POINTS, first, seed)
      plain, close = scored.tokens.shape[1], np.zeros((1, 0, 2), np.int64)
    else:
      plain = self.states * PREFIXES
      scored, close = self._drawn(world, groups, seed)
    coins = coin_tasks.coins(
      self.num, seed, [trained.states, scored.states], not published
    )
    distances = coin_tasks.of_points(world, scored)
    compared = Compared(scored, plain, close, distances, twins)
    return CoinTasks(trained, compared, coins)

  def _drawn(
    self, world: core.Prefixed, groups: int, seed: int
  ) -> tuple[StatePoints, np.ndarray]:
    """Points of independent states, followed by points of pairs q=.

    Also [G, K, 2] rows of these pairs among the points, DEAD for none.
    """
    drawn = world.sample_states(
      groups * self.pool, basics.stream(seed, coin_tasks.STATES)
    )
    if len(drawn) < groups * self.pool:
      raise core.InputError(
        f'inductive_bias: the world drew {len(drawn)} states; expected '
        f'{groups * self.pool}'
      )
    pool = drawn.reshape(groups, self.pool, -1)
    close = coin_tasks.alike(
      world, pool, self.states // 2, basics.stream(seed, coin_tasks.POOL)
    )
    each = np.arange(groups)[:, None]
    flat = np.maximum(close, 0).reshape(groups, -1)
    plain = coin_tasks.reached(world, pool[:, : self.states], PREFIXES, seed)
    paired = coin_tasks.reached(world, pool[each, flat], 1, seed + 1)
    both = (
      np.concatenate(two, axis=1) for two in zip(plain, paired, strict=True)
    )
    rows = self.states * PREFIXES + np.arange(flat.shape[1])
    rows = np.where(close == core.DEAD, core.DEAD, rows.reshape(-1, 2))
    return StatePoints(*both), rows


class CoinTasks(NamedTuple):
  """D data sets in groups that share sequences and points.

  Attributes:
    trained: labelled sequences [G, N].
    compared: points to score.
    coins: labels of states.
  """

  trained: StatePoints
  compared: Compared
  coins: coin_tasks.Coins

  def answers(
    self, metric: Metric, seed: int, predictor: core.Adaptable
  ) -> np.ndarray:
    """[S, D, M, P] int64 classes that the predictor answers."""
    of = np.arange(metric.num) // self.coins.twins
    labels = self.coins.labels(self.trained.states)[..., None]
    train = adapting.FewShotTasks(
      self.trained.tokens[of], self.trained.places[of], labels
    )
    scored = self.compared.scored
    if len(scored.tokens) > 1:
      asked = adapting.QueryPoints(scored.tokens[of], scored.places[of])
    else:
      shape = metric.num, *scored.tokens.shape[1:2]
      asked = adapting.QueryPoints(
        np.broadcast_to(scored.tokens, (*shape, scored.tokens.shape[2])),
        np.broadcast_to(scored.places, (*shape, scored.places.shape[2])),
      )
    outputs = metric.fine_tune(
      predictor,
      train,
      asked,
      adapting.Classes(2),
      basics.stream(seed, coin_tasks.CHOSEN),
      one_head=metric.variant in VISITED,
    )[..., 0, :]
    return outputs.argmax(-1)


def _scores(
  task: CoinTasks, answers: np.ndarray, end: str
) -> list[core.Scores]:
  """All quantities of answers [D, M, P]; end: suffix of their names."""
  compared = task.compared
  truth = task.coins.labels(compared.scored.states)
  apart = compared.shares(answers)  # [D, 4] by kind of pair.
  ideal = compared.shares(truth)  # Shares of a learner of the true labels.
  num, weight = len(answers), task.coins.weight
  columns = {'data_set': np.arange(num)}
  if (strata := task.coins.strata) is not None:
    columns['stratum'] = strata
  group = np.arange(num) // task.coins.twins

  def scores(
    name: str,
    value: np.ndarray,
    bounds: tuple[float, float | None] | None,
    reason: np.ndarray | str,
  ) -> core.Scores:
    """Rows of data sets; a NaN value is unmeasured for this reason."""
    why = np.where(np.isnan(value), reason, '')
    return core.scores(
      name + end,
      value,
      reason=why,
      group=group,
      weight=np.where(why == '', weight, 0),
      columns=columns,
      bounds=bounds,
    )

  # Ratios of mean shares of answers to those of true labels. The parts of data
  # sets may be negative, so the ratios are unbounded.
  ratios = [
    coin_tasks.ratio_parts(apart[:, kind], ideal[:, kind], weight)
    for kind in (ALL, ALIKE, UNLIKE)
  ]
  right = compared.right(answers, truth)
  (other, alike, unlike), both = NO_PAIR, (0.0, 2.0)
  least = np.where(np.isnan(apart[:, ALIKE]), alike, unlike)
  differ = 2 * (apart[:, ALIKE] - apart[:, UNLIKE])
  matched = 2 * compared.matched(answers)
  far = np.where(np.isnan(differ), least, compared.unmatched)
  return [
    scores('r_ib', 1 - 2 * apart[:, SAME], (-1.0, 1.0), 'no_pair_of_one_state'),
    scores('d_ib', 2 * apart[:, ALL], both, other),
    scores('d_ib_q_equal', 2 * apart[:, ALIKE], both, alike),
    scores('d_ib_q_unequal', 2 * apart[:, UNLIKE], both, unlike),
    scores('q_difference', differ, (-2.0, 2.0), least),
    scores('q_difference_matched', matched, (-2.0, 2.0), far),
    scores('d_ib_normalised', ratios[0], None, other),
    scores('d_ib_q_equal_normalised', ratios[1], None, alike),
    scores('d_ib_q_unequal_normalised', ratios[2], None, unlike),
    scores('d_ib_oracle', 2 * ideal[:, ALL], both, other),
    scores('accuracy', right, (0.0, 1.0), 'no_points'),
  ]
