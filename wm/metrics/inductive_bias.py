"""Inductive bias: what does a model make of small tasks about the state?

Vafa et al. 2025 (What Has a Foundation Model Found?): a model whose bias is
towards the world's state gives points of one state one answer, and may give
any two states different ones.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from wm import core
from wm.evaluation import fields
from wm.evaluation.adapting import coin_tasks, tuning
from wm.evaluation.adapting.coin_tasks import Points
from wm.kernels import pairs

# Most points that the published program scores.
POINTS = 2000
# Kinds of pairs, as `pairs.Counts` has them; ALL is of two states.
SAME, ALIKE, UNLIKE, ALL = range(4)


@dataclasses.dataclass(frozen=True)
class Metric(core.Metric):
  """Adapts a model to random labels of states, and compares its answers.

  Each data set has `examples` sequences with one labelled place: a coin of the
  state there. Data sets come in twos that differ by their labels alone, which
  are complements; where there are few states, all assignments come in turn.

  Answers are compared at points that are drawn as states and prefixes that
  reach them, so that points meet in a state however large the world is; pairs
  of states with the same legal next tokens (q=) are drawn apart from the
  others (q!=), from `pool` states. Each two data sets have points, sequences
  and a new head of their own: clustered by twos, intervals hold the chance in
  all of them, but not that of training; score several training seeds for that.

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
    rates: learning rates; of several, that which is best on `held` labels.
    held: further labelled sequences of each data set, which choose.
    part: 'all' weights are tuned, or the 'head' alone.
    keep: weights of the 'last' step, or the 'best' by `held` labels.
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
      set. Below 0, what may come next counts more than the state.
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
  """

  version: ClassVar[str] = '2'
  needs: ClassVar[tuple[type, ...]] = (core.Adaptable, core.Prefixed)
  sized_by: ClassVar[tuple[str, ...]] = (
    *('num', 'num examples', 'num held', 'pool', 'sequences'),
    'states prefixes',
  )
  repeats: ClassVar[tuple[str, ...]] = ('steps rates',)
  headline: ClassVar[tuple[str, ...]] = ('r_ib', 'd_ib_normalised')
  derived: ClassVar[Mapping[str, Callable[[Mapping[str, float]], float]]] = {
    'd_ib': lambda by: by['d_ib'],
    # What the published program correlates with transfer.
    'r_ib / (1 - d_ib)': lambda by: by['r_ib'] / (1 - by['d_ib']),
  }
  glossary: ClassVar[Mapping[str, str]] = core.section(__doc__, 'Glossary')

  num: int = 100
  examples: int = 100
  steps: tuple[int, ...] = (100,)
  states: int = 32
  prefixes: int = 2
  pool: int = 200
  rates: tuple[float, ...] = (6e-4,)
  held: int = 0
  part: str = 'all'
  keep: str = 'last'
  untrained: bool = False
  variant: str = 'paper'
  sequences: int = 100
  first: int = 0

  def __post_init__(self) -> None:
    super().__post_init__()
    fields.at_least(self, num=2, examples=1, states=2, prefixes=2, held=0)
    fields.at_least(self, sequences=1, first=0)
    fields.at_least(self, pool=self.states)
    fields.one_of(self, variant=('paper', 'published'))
    if self.num % self.together:
      raise core.InputError(
        f'inductive_bias: num={self.num} was given; expected an even number'
      )
    fields.tuning(self)

  @property
  def together(self) -> int:
    """See core.Metric: labels and their complement."""
    return 2

  def unlisted(self) -> str:
    """See core.Metric."""
    return 'expected held=0' if self.held else ''

  def __call__(
    self, predictor: core.Adaptable, world: core.Prefixed, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric; a row per data set, clustered by twos."""
    if isinstance(world, core.Hidden):  # No two sequences come to one state.
      reason = ['state_is_hidden']
      names = [name for name in self.glossary if 'untrained' not in name]
      return tuple(core.scores(name, [np.nan], reason=reason) for name in names)
    task = self._task(world, seed)
    answers = task.answers(self, predictor, seed)
    found: list[core.Scores] = []
    for step, named in zip(self.steps, answers, strict=True):
      end = '' if step == self.steps[-1] else f'_{step}'
      found += _scores(task, named, end)
    if self.untrained:
      found += self._untrained(task, predictor, seed)
    return tuple(found)

  def _untrained(
    self, task: Task, predictor: core.Adaptable, seed: int
  ) -> list[core.Scores]:
    """R and D of random weights after the last step."""
    names = 'r_ib', 'd_ib'
    twin = tuning.twin(predictor, seed)
    if twin is None:
      return tuning.no_twin(names)
    scores = _scores(task, task.answers(self, twin, seed)[-1], '')
    return [
      dataclasses.replace(one, quantity=f'{one.quantity}_untrained')
      for one in scores
      if one.quantity in names
    ]

  def _task(self, world: core.Prefixed, seed: int) -> Task:
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
    return Task(trained, scored, plain, close, coins)

  def _drawn(
    self, world: core.Prefixed, groups: int, seed: int
  ) -> tuple[Points, np.ndarray]:
    """Points of independent states, and behind them those of pairs q=.

    And [G, K, 2] rows of these pairs among the points, DEAD for none.
    """
    drawn = world.sample_states(
      groups * self.pool, coin_tasks.stream(seed, coin_tasks.STATES)
    )
    if len(drawn) < groups * self.pool:
      raise core.InputError(
        f'inductive_bias: the world drew {len(drawn)} states; expected '
        f'{groups * self.pool}'
      )
    pool = drawn.reshape(groups, self.pool, -1)
    close = coin_tasks.alike(
      world, pool, self.states // 2, coin_tasks.stream(seed, coin_tasks.POOL)
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
    return Points(*both), rows


class Task(NamedTuple):
  """D data sets in groups that share sequences and points.

  Attributes:
    trained: labelled sequences [G, N], held ones last.
    scored: points [G or 1, M, P].
    plain: of these M rows, those that are all compared with each other.
    close: [G, K, 2] rows of pairs q= among the others; DEAD for none. K is 0
      where q= is compared among the plain rows too.
    coins: labels of states.
  """

  trained: Points
  scored: Points
  plain: int
  close: np.ndarray
  coins: coin_tasks.Coins

  def answers(
    self, metric: Metric, predictor: core.Adaptable, seed: int
  ) -> np.ndarray:
    """[S, D, M, P] int64 classes that the predictor answers.

    DEAD in all of a data set to which one that is asked gave no answer.
    """
    of = np.arange(metric.num) // self.coins.twins
    labels = self.coins.labels(self.trained.states)[..., None]

    def sets(rows: slice) -> core.Sets:
      some = self.trained.rows(rows)
      return core.Sets(some.tokens[of], some.places[of], labels[:, rows])

    held = sets(slice(metric.examples, None)) if metric.held else None
    scored = self.scored
    if len(scored.tokens) > 1:
      asked = core.Asked(scored.tokens[of], scored.places[of])
    else:
      shape = metric.num, *scored.tokens.shape[1:2]
      asked = core.Asked(
        np.broadcast_to(scored.tokens, (*shape, scored.tokens.shape[2])),
        np.broadcast_to(scored.places, (*shape, scored.places.shape[2])),
      )
    found = predictor.adapt(
      sets(slice(None, metric.examples)),
      asked,
      core.Classes(2),
      metric.steps,
      coin_tasks.stream(seed, coin_tasks.CHOSEN),
      core.Tuning(
        metric.rates,
        metric.part,
        metric.keep,
        one_head=metric.variant == 'published',
        held=held,
      ),
    )
    outputs = found.outputs[..., 0, :]
    answers = outputs.argmax(-1)
    if isinstance(predictor, core.Questioned):
      answers[np.isnan(outputs).any((-3, -2, -1))] = core.DEAD
    return answers

  def shares(self, answers: np.ndarray) -> np.ndarray:
    """[D, 4] shares of pairs that answers [D, M, P] tell apart.

    Of SAME, ALIKE and UNLIKE pairs, and of all of different states; NaN where
    there is no such pair.
    """
    found = np.full((len(answers), 4), np.nan)
    for g in range(len(self.scored.states)):
      # The data sets that are scored at these points: all, or those of a group.
      rows = np.arange(len(answers))
      if len(self.scored.states) > 1:
        rows = rows[rows // self.coins.twins == g]
      states, legal = (
        array[g, : self.plain].reshape(-1)
        for array in (self.scored.states, self.scored.legal)
      )
      there = states != core.DEAD
      mine = answers[rows, : self.plain].reshape(len(rows), -1)[:, there]
      apart, total = pairs.count(mine, states[there], legal[there])
      apart = np.append(apart, apart[:, ALIKE:].sum(1, keepdims=True), axis=1)
      total = np.append(total, total[ALIKE:].sum())
      if self.close.shape[1]:
        apart[:, ALIKE], total[ALIKE] = self._close(answers[rows], g)
      known = total > 0
      found[np.ix_(rows, known)] = apart[:, known] / total[known]
    return found

  def _close(self, answers: np.ndarray, g: int) -> tuple[np.ndarray, int]:
    """Pairs q= of group g told apart by answers [R, M, 1], and their number."""
    first, second = self.close[g].T
    states = self.scored.states[g, :, 0]
    # Both have a prefix; what stands for no pair is the last row, and dropped.
    both = (first != core.DEAD) & (states[first] != core.DEAD)
    both &= states[second] != core.DEAD
    first, second = first[both], second[both]
    apart = answers[:, first, 0] != answers[:, second, 0]
    return apart.sum(1), len(first)


def _scores(task: Task, answers: np.ndarray, end: str) -> list[core.Scores]:
  """All quantities of answers [D, M, P]; end: of their names."""
  truth = task.coins.labels(task.scored.states)
  silent = (answers == core.DEAD).any((1, 2))
  found, ideal = task.shares(np.maximum(answers, 0)), task.shares(truth)
  found[silent] = np.nan
  num, weight = len(answers), task.coins.weight
  columns = {'data_set': np.arange(num)}
  group = np.arange(num) // task.coins.twins

  def scores(
    name: str,
    value: np.ndarray,
    bounds: tuple[float, float | None] | None,
    reason: np.ndarray | str,
    weight: np.ndarray = weight,
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

  def normalised(name: str, kind: int, missing: str) -> core.Scores:
    """Ratio of the mean shares, answers' to true labels'; see `ratio_parts`."""
    ratios = coin_tasks.ratio_parts(found[:, kind], ideal[:, kind], weight)
    # A part may be below 0.
    return scores(name, ratios, None, missing)

  right = np.where(silent, np.nan, _right(task, answers, truth))
  other, both = 'no_two_states', (0.0, 2.0)
  alike, unlike = 'no_pair_q_equal', 'no_pair_q_unequal'
  least = np.where(np.isnan(found[:, ALIKE]), alike, unlike)
  differ = 2 * (found[:, ALIKE] - found[:, UNLIKE])
  return [
    scores('r_ib', 1 - 2 * found[:, SAME], (-1.0, 1.0), 'no_pair_of_one_state'),
    scores('d_ib', 2 * found[:, ALL], both, other),
    scores('d_ib_q_equal', 2 * found[:, ALIKE], both, alike),
    scores('d_ib_q_unequal', 2 * found[:, UNLIKE], both, unlike),
    scores('q_difference', differ, (-2.0, 2.0), least),
    normalised('d_ib_normalised', ALL, other),
    normalised('d_ib_q_equal_normalised', ALIKE, alike),
    normalised('d_ib_q_unequal_normalised', UNLIKE, unlike),
    scores('d_ib_oracle', 2 * ideal[:, ALL], both, other),
    scores('accuracy', right, (0.0, 1.0), 'no_points'),
  ]


def _right(task: Task, answers: np.ndarray, truth: np.ndarray) -> np.ndarray:
  """[D] share of compared points with the right answer; NaN without a point."""
  states = task.scored.states[:, : task.plain]
  there = np.broadcast_to(states != core.DEAD, (*states.shape,))
  if len(there) > 1:
    there = np.repeat(there, task.coins.twins, axis=0)
  right = (answers == truth)[:, : task.plain] & there
  total = np.broadcast_to(there, right.shape).sum((1, 2))
  return np.where(total > 0, right.sum((1, 2)) / np.maximum(total, 1), np.nan)
