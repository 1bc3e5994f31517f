"""Extrapolation: do small tasks go on as the state would have them?

Vafa et al. 2025, sections 2 and 3, the inductive bias of continuous answers: a
model that has the state of planets extrapolates from a few labels as a simple
function of the state does. Curves compare the two.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from wm import core
from wm.core import adapting, basics
from wm.evaluation import fields
from wm.evaluation.fewshot import coin_tasks, projections, runner

ADAPTED, FRESH = 61, 62
# Groups of data sets that are left out at a time, for intervals.
FOLDS = 20
ORACLES = ('linear', 'mlp', 'nearest')


@dataclasses.dataclass(frozen=True)
class Metric(runner.FewShotMetric):
  """Adapts a model to random projections of the state, and compares biases.

  Each data set has `examples` systems with `labels` labelled places. I of two
  points is minus the share of the variance of the answer at one, over data
  sets, that the best affine function of the answer at the other leaves: -1 to
  0. Oracles see the state and the same labels. Points are those of held-out
  systems, the same for all data sets; pairs are in bins of equal counts by the
  oracle's I. Intervals are over data sets, by leaving out groups of them; they
  do not hold the chance in points, nor that of training. So is the bias of few
  data sets taken off, by which a mean I may end a little beyond -1 or 0.

  Of each oracle, 'linear', 'mlp' and 'nearest': error_linear, slope_linear, and
  the curve: curve_linear_0.05 of the model and axis_linear_0.05 of the oracle
  in the bin whose middle is the quantile .05.

  Attributes:
    num: data sets, D.
    examples: systems of each.
    labels: labelled places of a system.
    points: held-out systems, with one point each.
    tried: random projections of which the most faithful one is taken.
    bins: of pairs; at most as many as there are pairs.
    steps: numbers of steps after which to score; the last one's quantities
      have no number in their names.
    rates: learning rates; of several, the best by validation loss.
    held: further systems of each data set, for validation.
    part: 'all' weights are tuned, or the 'head' alone.
    keep: weights of the 'last' step, or the 'best' by validation loss.
    untrained: adapt random weights too, where there are such.
    variant: 'paper', or 'published', its program: I is minus the mean absolute
      difference of answers, the model's of the last data set alone; points are
      of each data set's own systems, the suns' too, whose state is 0; bins are
      of equal width, and edges in none.

  Glossary:
    error_linear: Mean distance over bins of the model's I from that of a linear
      function of the state. At 0, answers depend on one another as it does.
    slope_linear: Slope of the model's I over that of a linear function of the
      state, over bins. A model that extrapolates by the state has 1.
    error: Mean distance over bins of the model's I from that of an oracle. At
      0, answers depend on one another as those of a function of the state do.
    slope: Slope of the model's I over that of an oracle, over bins. A model
      that extrapolates by the state has 1, a constant has 0.
    curve: Mean I of the model in the bin of pairs at this quantile of an
      oracle's. It should be the oracle's, which is called axis.
    axis: Mean I of an oracle in a bin of pairs. It is what curve is compared
      with.
    rmse: Root mean square error of answers at points, in standard deviations of
      the labels. Whoever knows the state and the projection has 0.
  """

  version: ClassVar[str] = '1'
  needs: ClassVar[tuple[core.Need, ...]] = (core.Adaptable, core.Latent)
  sized_by: ClassVar[tuple[str, ...]] = (
    'num',
    'num examples',
    'num held',
    'num points',
    'num tried',
  )
  headline: ClassVar[tuple[str, ...]] = ('error_linear', 'slope_linear')
  less_is_better: ClassVar[tuple[str, ...]] = ('error_linear',)
  glossary: ClassVar[Mapping[str, str]] = basics.section(__doc__, 'Glossary')

  num: int = 100
  examples: int = 100
  labels: int = 2
  points: int = 200
  tried: int = 50
  bins: int = 10
  steps: tuple[int, ...] = (100,)
  rates: tuple[float, ...] = (6e-4,)
  held: int = 0
  part: str = 'all'
  keep: str = 'last'
  untrained: bool = False
  variant: str = 'paper'

  def __post_init__(self) -> None:
    super().__post_init__()
    fields.at_least(self, num=4, examples=1, labels=1, tried=1)
    fields.at_least(self, points=4, bins=2)
    pairs = self.points * (self.points - 1) // 2
    if self.bins > pairs:
      raise core.InputError(
        f'extrapolation: bins={self.bins} of points={self.points} were given; '
        f'expected at most {pairs}, the pairs of points'
      )
    fields.one_of(self, variant=('paper', 'published'))
    self.check_fine_tuning()

  def __call__(
    self, predictor: core.Adaptable, world: core.Latent, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric; a row per data set, or per group of them."""
    task = self._task(world, seed)
    answer = functools.partial(self._answers, task, seed)
    score = functools.partial(self._scores, task)
    rows = self.by_step(answer(predictor), score)
    rows += [
      task.errors(task.oracles[name], f'rmse_{name}') for name in ORACLES
    ]
    if self.untrained:
      names = [
        f'{kind}_{name}' for name in ORACLES for kind in ('error', 'slope')
      ]
      rows += self.by_random_weights(
        predictor,
        coin_tasks.stream(seed, FRESH),
        answer,
        score,
        (*names, 'rmse'),
      )
    return tuple(rows)

  def _task(self, world: core.Latent, seed: int) -> Task:
    published = self.variant == 'published'
    stream = coin_tasks.stream
    each = self.examples + self.held
    sequences = runner.sequences(
      self,
      world,
      self.num * each,
      stream(seed, projections.TRAINED),
      'train',
    )
    seen = _Seen.of(world, sequences)
    sized = projections.scale(seen.scaled_by(published))
    shown = _labelled(
      seen, sized, seen.known, self.labels, stream(seed, projections.PLACES)
    )
    shape = self.num, each
    shown = projections.LabelledStates(
      *(array.reshape(*shape, *array.shape[1:]) for array in shown)
    )
    if published:
      asked = self._own(seen, sized, seed)
    else:
      other = _Seen.of(
        world,
        runner.sequences(
          self, world, self.points, stream(seed, projections.ASKED), 'heldout'
        ),
      )
      points = _labelled(
        other, sized, other.known, 1, stream(seed, projections.POINTS)
      )
      asked = projections.LabelledStates(*(array[None] for array in points))
    labels, truth = projections.targets(
      shown, asked.states[..., 0, :], self.tried, seed
    )
    train_rows = slice(None, self.examples)
    columns = shown.states.shape[-1]
    oracles = projections.oracles(
      shown.states[:, train_rows].reshape(self.num, -1, columns),
      labels[:, train_rows].reshape(self.num, -1),
      asked.states[..., 0, :],
      seed,
    )
    return Task(shown, labels, asked, truth, oracles)

  def _own(
    self, seen: _Seen, sized: projections.Scale, seed: int
  ) -> projections.LabelledStates:
    """The same random systems and places of each data set, as published."""
    each = self.examples + self.held
    rng = np.random.default_rng(coin_tasks.stream(seed, projections.POINTS))
    system = rng.integers(0, self.examples, self.points)
    place = rng.choice(np.flatnonzero(seen.ends.all(0)), self.points)
    rows = np.arange(self.num)[:, None] * each + system
    places = np.broadcast_to(place, rows.shape)[..., None]
    states = sized(np.nan_to_num(seen.states[rows, place]))
    return projections.LabelledStates(
      seen.tokens[rows], places.astype(np.int32), states[:, :, None]
    )

  def _answers(
    self, task: Task, seed: int, predictor: core.Adaptable
  ) -> np.ndarray:
    """[S, D, M]."""

    def sets(rows: slice) -> adapting.FewShotTasks:
      labels = task.labels[:, rows, :, None].astype(np.float32)
      return adapting.FewShotTasks(
        task.shown.tokens[:, rows], task.shown.places[:, rows], labels
      )

    tokens, places, _ = task.asked
    train, validation = self.with_validation(sets, self.examples)
    outputs = self.fine_tune(
      predictor,
      train,
      adapting.QueryPoints(
        np.broadcast_to(tokens, (self.num, *tokens.shape[1:])),
        np.broadcast_to(places, (self.num, *places.shape[1:])),
      ),
      adapting.Real(1),
      coin_tasks.stream(seed, ADAPTED),
      validation=validation,
    )
    return outputs[..., 0, 0].astype(np.float64)

  def _scores(
    self, task: Task, answers: np.ndarray, end: str
  ) -> list[core.Scores]:
    """All quantities of answers [D, M]; end: of their names."""
    quantities = [task.errors(answers, 'rmse' + end)]
    for name in ORACLES:
      values = self._calibrated(answers, task.oracles[name])
      names = [f'error_{name}{end}', f'slope_{name}{end}']
      if not end:
        middles = (np.arange(self.bins) + 0.5) / self.bins
        names += [f'curve_{name}_{middle:g}' for middle in middles]
        names += [f'axis_{name}_{middle:g}' for middle in middles]
      for quantity, column in zip(names, values.T, strict=False):
        if np.isfinite(column).all():
          quantities.append(core.scores(quantity, column, bounds=None))
        else:
          why = 'no_variation' if 'slope' in quantity else 'empty_bin'
          quantities.append(core.scores(quantity, [np.nan], reason=[why]))
    return quantities

  def _calibrated(self, answers: np.ndarray, oracle: np.ndarray) -> np.ndarray:
    """[F, 2 + 2 Q] see extrapolating.jackknife."""
    first, second = np.triu_indices(answers.shape[1], 1)
    bias = projections.affine
    bins = projections.equal_counts
    if self.variant == 'published':
      bias, bins = projections.identity, projections.equal_widths
    pairs = projections.PointPairs(
      first, second, bins(bias(oracle, first, second), self.bins), self.bins
    )

    def calibrate(used: np.ndarray) -> projections.Calibration:
      mine = answers[used]
      if self.variant == 'published':
        mine = mine[-1:]  # A variable that is left over from a loop.
      return projections.Calibration(
        pairs.means(bias(mine, first, second)),
        pairs.means(bias(oracle[used], first, second)),
      )

    return projections.jackknife(calibrate, len(answers), FOLDS)


class Task(NamedTuple):
  """D data sets, points and what oracles answer there.

  Attributes:
    shown: labelled places, those of held systems last.
    labels: [D, N, P] float64.
    asked: points [D or 1, M, 1].
    truth: [D, M] the true value there.
    oracles: name -> [D, M] answers.
  """

  shown: projections.LabelledStates
  labels: np.ndarray
  asked: projections.LabelledStates
  truth: np.ndarray
  oracles: dict[str, np.ndarray]

  def errors(self, answers: np.ndarray, quantity: str) -> core.Scores:
    """Root mean square error of each data set, of answers [D, M]."""
    value = np.sqrt(((answers - self.truth) ** 2).mean(1))
    return core.scores(quantity, value, bounds=(0.0, None))


class _Seen(NamedTuple):
  """What N sequences show, and the states.

  Attributes:
    tokens: [N, L] int32.
    states: [N, L, C] float64; NaN where there is none.
    ends: [N, L] bool, last tokens of rows, at which a state is known whole;
      not in the prompt, and not the last token of all, which no model of next
      tokens was trained to read.
  """

  tokens: np.ndarray
  states: np.ndarray
  ends: np.ndarray

  @classmethod
  def of(cls, world: core.Latent, sequences: core.Sequences) -> _Seen:
    """Of sequences that a world has sampled; their rows have one state each."""
    states = world.hidden_states(sequences)
    ends = np.zeros(sequences.tokens.shape, bool)
    same = (states[:, 1:] == states[:, :-1]) | (
      np.isnan(states[:, 1:]) & np.isnan(states[:, :-1])
    )
    ends[:, :-1] = ~same.all(-1)
    ends[:, : world.prompt_len] = False
    return cls(sequences.tokens, states, ends)

  @property
  def known(self) -> np.ndarray:
    """[N, L] bool: ends of rows that have a state."""
    return self.ends & np.isfinite(self.states).all(-1)

  def scaled_by(self, published: bool) -> np.ndarray:
    """[K, C] states whose mean and deviation count; those without are 0."""
    return np.nan_to_num(self.states[self.ends if published else self.known])


def _labelled(
  seen: _Seen, sized: projections.Scale, known: np.ndarray, num: int, seed: int
) -> projections.LabelledStates:
  """`num` random places of each sequence among those that are known."""
  places = projections.drawn(known, num, seed)
  rows = np.arange(len(places))[:, None]
  return projections.LabelledStates(
    seen.tokens, places, sized(seen.states[rows, places])
  )
