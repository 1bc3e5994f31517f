"""Inductive bias: what does a model make of small tasks about the state?

Vafa et al. 2025 (What Has a Foundation Model Found?): a model whose bias is
towards the world's state gives points of one state one answer, and may give
any two states different ones.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
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
# Reasons: no pair of points in two states, of the kind q= or q!=.
NO_PAIR = 'no_two_states', 'no_pair_q_equal', 'no_pair_q_unequal'
# Quantities that random weights have too, after the last step.
UNTRAINED = 'r_ib', 'd_ib', 'q_difference', 'q_difference_matched'


@dataclasses.dataclass(frozen=True)
class Metric(fewshot.FewShotMetric):
  """Tunes the model on random labels of states; asks if answers go by state.

  Each data set has `examples` sequences with one labelled place: a coin of the
  state there. Data sets come in twos that differ by their labels alone, which
  are complements; where there are few states, all assignments come in turn.

  Answers are compared at points that are drawn as states and prefixes that
  reach them, so that points meet in a state however large the world is; pairs
  of states with the same legal next tokens (q=) are drawn apart from the
  others (q!=), from `pool` states. Each two data sets have points, sequences
  and a new head of their own: clustered by twos, intervals hold the chance in
  all of them, but not that of training; score several training seeds for that.

  States with the same next tokens may be nearer each other than others: on a
  line they are. So pairs q= and q!= are also compared at equal distances: the
  moves from one state to the other, or back, whichever are fewer, where the
  world is an automaton of at most 2,000 states; else the number of labels that
  differ, where they are the squares or columns of a board. At each distance
  that both have, the difference counts as often as pairs of the rarer kind.
  Pairs that no path joins are left out; on a small map these are the states
  with different destinations. States of a larger map have no distance.

  A learner that knows the states has R 1, and D 1 on average, from any number
  of labels: an unseen state gets a coin, and all its points the same.

  A constant has R 1 and D 0; a coin for each point 0 and 1; the state's coin 1
  and 1 on average. Ten labels of a board game say nothing of most states: D
  then measures how a model goes on beyond its labels.

  Attributes:
    num: data sets, D; even unless published.
    examples: labelled sequences of each.
    steps: numbers of steps after which to score; the last one's quantities
      have no number in their names.
    states: states scored in each data set.
    prefixes: of each state.
    pool: states that pairs q= are drawn from; half as many as `states`.
    rates: learning rates; of several, the best by validation loss.
    held: further labelled sequences of each data set, for validation.
    part: 'all' weights are tuned, or the 'head' alone.
    keep: weights of the 'last' step, or the 'best' by validation loss.
    untrained: adapt random weights too, where there are such.
    variant: 'paper', or 'published', its program: independent labels, one head
      for all, 2,000 places of held-out sequences scored in all data sets.
    sequences: these held-out sequences, or fewer where there are no more.
    first: their first place that is scored, from 0.

  Glossary:
    r_ib: One less twice the share of pairs of points in one state that get
      different answers (as published). At 1, the model knows of any two
      prefixes of a state that they are one.
    d_ib: Twice the share of pairs of points in different states that get
      different answers (as published). A model that tells states apart has 1,
      as fair coins of states do; a constant has 0.
    d_ib_q_equal: The same of states with the same legal next tokens. Far below
      d_ib_q_unequal, the model lumps states by what may come next.
    d_ib_q_unequal: The same of states with different legal next tokens. A model
      that knows the next token's rule alone has 1 here too.
    q_difference: What d_ib_q_equal is above d_ib_q_unequal in the same data
      set. Below 0, states with the same next tokens are told apart less; which
      may be so because they are nearer each other.
    q_difference_matched: As q_difference, of pairs of states that are equally
      far apart. Below 0, what may come next lumps states beyond how near each
      other they are; a model that knows near from far alone has about 0.
    distance_correlation: Pearson correlation, over pairs of points in two
      states, of different answers with the distance of the states: moves, or
      squares that differ. A learner of states has 0 on average; above 0, far
      states are told apart more than near ones.
    distance_correlation_mover: As distance_correlation, of boards as the side
      to move sees them, with pieces that are its own or not. Above
      distance_correlation, the model keeps a board by sides, not by colours.
    d_ib_normalised: The mean of d_ib over that of the true labels of the same
      data sets. A model that knows all labels has 1, and so have fair coins.
    d_ib_q_equal_normalised: As d_ib_normalised, of states with the same legal
      next tokens. Far below d_ib_q_unequal_normalised, states are lumped.
    d_ib_q_unequal_normalised: As d_ib_normalised, of states with different
      legal next tokens. A model of the next token's rule alone has 1 here too.
    d_ib_oracle: Of the true labels themselves, what d_ib is of answers. It
      varies from one data set to the next by coins alone, and is 1 on average.
    accuracy: Share of points whose answer is the state's label. A half is
      chance; labels of a few states say nothing of others.
    r_ib_untrained: As r_ib, of the same network with random weights, adapted
      alike. What it has was not learned from sequences.
    d_ib_untrained: As d_ib, of the same network with random weights, adapted
      alike. What it has was not learned from sequences.
    q_difference_untrained: As q_difference, of the same network with random
      weights, adapted alike. What it has was not learned from sequences.
    q_difference_matched_untrained: As q_difference_matched, of the same network
      with random weights, adapted alike. What it has was not learned from
      sequences.
  """

  version: ClassVar[str] = '3'
  needs: ClassVar[tuple[core.Need, ...]] = (core.Adaptable, core.Prefixed)
  sized_by: ClassVar[tuple[str, ...]] = (
    *('num', 'num examples', 'num held', 'pool', 'sequences'),
    'states prefixes',
  )
  ideal: ClassVar[Mapping[str, str]] = {
    'r_ib': '1: one answer a state',
    'd_ib_normalised': '1: states get different answers',
  }
  derived: ClassVar[Mapping[str, Callable[[Mapping[str, float]], float]]] = {
    'd_ib': lambda by: by['d_ib'],
    # What the published program correlates with transfer.
    'r_ib / (1 - d_ib)': lambda by: by['r_ib'] / (1 - by['d_ib']),
  }

  num: int = field(100, least=2)
  examples: int = field(100, least=1)
  steps: tuple[int, ...] = field((100,), **fewshot.STEPS)
  states: int = field(32, least=2)
  prefixes: int = field(2, least=2)
  pool: int = field(200, least='states')
  rates: tuple[float, ...] = field((6e-4,), **fewshot.RATES)
  held: int = field(0, least=0)
  part: str = field('all', choices=fewshot.PARTS)
  keep: str = field('last', choices=fewshot.KEEPS)
  untrained: bool = False
  variant: str = field('paper', choices=('paper', 'published'))
  sequences: int = field(100, least=1)
  first: int = field(0, least=0)

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.num % self.trials_per_draw:
      raise field_error(self, 'num', 'an even number')

  @property
  def trials_per_draw(self) -> int:
    """See core.Metric: labels and their complement."""
    return 2

  def why_not_static(self) -> str:
    """See core.Metric."""
    return 'expected held=0' if self.held else ''

  def passes(self) -> int:
    """See core.Metric: the model, and one with random weights."""
    return 1 + self.untrained

  def __call__(
    self, predictor: core.Adaptable, world: core.Prefixed, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric; a row per data set, clustered by twos."""
    if isinstance(world, core.Latent):  # No two sequences come to one state.
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
    published = self.variant == 'published'
    twins = 1 if published else 2
    groups, num = self.num // twins, self.examples + self.held
    trained = coin_tasks.labelled(world, groups, num, seed)
    if published:
      scored = coin_tasks.visited(
        world, self.sequences, POINTS, self.first, seed
      )
      plain, close = scored.tokens.shape[1], np.zeros((1, 0, 2), np.int64)
    else:
      plain = self.states * self.prefixes
      scored, close = self._drawn(world, groups, seed)
    coins = coin_tasks.coins(
      self.num, seed, [trained.states, scored.states], not published
    )
    distances = coin_tasks.of_points(world, scored)
    compared = Compared(scored, plain, close, distances, twins)
    squares = coin_tasks.by_squares(world, scored)
    return CoinTasks(trained, compared, coins, squares)

  def _drawn(
    self, world: core.Prefixed, groups: int, seed: int
  ) -> tuple[StatePoints, np.ndarray]:
    """Points of independent states, and behind them those of pairs q=.

    And [G, K, 2] rows of these pairs among the points, DEAD for none.
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
    plain = coin_tasks.reached(
      world, pool[:, : self.states], self.prefixes, seed
    )
    paired = coin_tasks.reached(world, pool[each, flat], 1, seed + 1)
    both = (
      np.concatenate(two, axis=1) for two in zip(plain, paired, strict=True)
    )
    rows = self.states * self.prefixes + np.arange(flat.shape[1])
    rows = np.where(close == core.DEAD, core.DEAD, rows.reshape(-1, 2))
    return StatePoints(*both), rows


class CoinTasks(NamedTuple):
  """D data sets in groups that share sequences and points.

  Attributes:
    trained: labelled sequences [G, N], held ones last.
    compared: where they are scored.
    coins: labels of states.
    squares: distances of points, see coin_tasks.by_squares.
  """

  trained: StatePoints
  compared: Compared
  coins: coin_tasks.Coins
  squares: tuple[coin_tasks.Distances | None, coin_tasks.Distances | None]

  def answers(
    self, metric: Metric, seed: int, predictor: core.Adaptable
  ) -> np.ndarray:
    """[S, D, M, P] int64 classes that the predictor answers.

    DEAD in all of a data set to which one that is asked gave no answer.
    """
    of = np.arange(metric.num) // self.coins.twins
    labels = self.coins.labels(self.trained.states)[..., None]

    def sets(rows: slice) -> adapting.FewShotTasks:
      part = self.trained.rows(rows)
      return adapting.FewShotTasks(
        part.tokens[of], part.places[of], labels[:, rows]
      )

    train, validation = metric.with_validation(sets, metric.examples)
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
      validation=validation,
      one_head=metric.variant == 'published',
    )[..., 0, :]
    answers = outputs.argmax(-1)
    if core.can(predictor, core.QueryModel.ask):
      answers[np.isnan(outputs).any((-3, -2, -1))] = core.DEAD
    return answers

  def correlations(
    self, answers: np.ndarray
  ) -> Iterator[tuple[str, np.ndarray, tuple[float, float], str]]:
    """Name, values [D], bounds and reason of correlations with distances.

    answers: [D, M, P]; where they are all the same there is none.
    """
    for whose, distances in zip(('', '_mover'), self.squares, strict=True):
      value = self.compared.correlated(answers, distances)
      why = 'no_variation' if distances else 'no_distance_of_states'
      yield f'distance_correlation{whose}', value, (-1.0, 1.0), why


def _scores(
  task: CoinTasks, answers: np.ndarray, end: str
) -> list[core.Scores]:
  """All quantities of answers [D, M, P]; end: of their names."""
  compared = task.compared
  truth = task.coins.labels(compared.scored.states)
  silent = (answers == core.DEAD).any((1, 2))
  apart = compared.shares(np.maximum(answers, 0))  # [D, 4] by kind of pair.
  ideal = compared.shares(truth)  # What a learner of the true labels has.
  apart[silent] = np.nan
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
    """Rows of data sets; NaN is unmeasured, for a reason."""
    reason = np.where(silent & np.isnan(value), 'no_answer', reason)
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

  # Mean shares of answers over those of true labels, as a ratio of means; its
  # parts may be below 0, so that nothing bounds them.
  ratios = [
    coin_tasks.ratio_parts(apart[:, kind], ideal[:, kind], weight)
    for kind in (ALL, ALIKE, UNLIKE)
  ]
  right = np.where(silent, np.nan, compared.right(answers, truth))
  (other, alike, unlike), both = NO_PAIR, (0.0, 2.0)
  least = np.where(np.isnan(apart[:, ALIKE]), alike, unlike)
  differ = 2 * (apart[:, ALIKE] - apart[:, UNLIKE])
  matched = np.where(silent, np.nan, 2 * compared.matched(answers))
  far = np.where(np.isnan(differ), least, compared.unmatched)
  return [
    scores('r_ib', 1 - 2 * apart[:, SAME], (-1.0, 1.0), 'no_pair_of_one_state'),
    scores('d_ib', 2 * apart[:, ALL], both, other),
    scores('d_ib_q_equal', 2 * apart[:, ALIKE], both, alike),
    scores('d_ib_q_unequal', 2 * apart[:, UNLIKE], both, unlike),
    scores('q_difference', differ, (-2.0, 2.0), least),
    scores('q_difference_matched', matched, (-2.0, 2.0), far),
    *(scores(*row) for row in task.correlations(answers)),
    scores('d_ib_normalised', ratios[0], None, other),
    scores('d_ib_q_equal_normalised', ratios[1], None, alike),
    scores('d_ib_q_unequal_normalised', ratios[2], None, unlike),
    scores('d_ib_oracle', 2 * ideal[:, ALL], both, other),
    scores('accuracy', right, (0.0, 1.0), 'no_points'),
  ]
