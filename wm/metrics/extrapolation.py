"""Extrapolation: do small tasks go on as the state would have them?

Vafa et al. 2025, sections 2 and 3, the inductive bias of continuous answers: a
model that has the state of planets extrapolates from a few labels as a simple
function of the state does. Curves compare the two.

Each of D data sets labels a few states with a random projection to one number
(section 3). C columns of a state, N systems with P labelled places, M points
that are asked about.

With answers m_D of D data sets, the inductive bias of a pair of points is
I(i, j) = -min over h of E[loss(h(m_D(i)), m_D(j))] (section 2). For affine h
and squared loss it has a closed form: minus the share of the variance of m(j)
that m(i) leaves, 1 - correlation squared.

Chance in answers, as of new heads, makes I smaller, and a model that has all of
the state looks like one that has a part. With H heads for each data set I is
also told without it: covariances are those of answers by different heads, which
have the data set in common and nothing else (Spearman 1904, correction for
attenuation).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from wm import core
from wm.core import adapting, basics
from wm.core.fields import field, field_error
from wm.evaluation import fewshot

# Streams of randomness under one seed.
TRAINED, ASKED, PLACES, DIRECTIONS, ROWS, POINTS, WEIGHTS = range(51, 58)
ADAPTED, FRESH = 61, 62
# States among which directions are compared, drawn once.
COMPARED = 64
# Of the small network: units of both layers, Adam's rate and its steps.
UNITS, RATE, EPOCHS = 5, 0.05, 1000
_ROUNDING = 1e-12
# Groups of data sets that are left out at a time, for intervals.
FOLDS = 20
ORACLES = ('linear', 'mlp', 'nearest')


@dataclasses.dataclass(frozen=True)
class Metric(fewshot.FewShotMetric):
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

  With several heads there is true_slope_linear of each oracle, too.

  Attributes:
    num: data sets, D.
    heads: new heads for each data set, H, with seeds of their own; of several,
      chance in answers is taken off true_slope_linear. All other quantities are
      means over heads.
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
    true_slope_linear: As slope_linear, without the chance in answers to one
      data set by different heads. Near 1 beside a small slope_linear, answers
      follow the state and are noisy; equal to it, state is lacking.
    true_slope: As slope, without the chance in answers by different heads. A
      model with a part of the state has less than 1 here too.
    reliability: Mean correlation, over points, of answers by different heads to
      the same data sets. At 1 answers are free of chance; at 0 they are noise.
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

  needs: ClassVar[tuple[core.Need, ...]] = (core.Adaptable, core.Latent)
  sized_by: ClassVar[tuple[str, ...]] = (
    'num',
    'num examples',
    'num held',
    'num points',
    'num tried',
  )
  ideal: ClassVar[Mapping[str, str]] = {
    'error_linear': '0: extrapolates by the state',
    'slope_linear': '1: extrapolates by the state',
  }
  less_is_better: ClassVar[tuple[str, ...]] = ('error_linear',)

  num: int = field(100, least=4)
  heads: int = field(1, least=1)
  examples: int = field(100, least=1)
  labels: int = field(2, least=1)
  points: int = field(200, least=4)
  tried: int = field(50, least=1)
  bins: int = field(10, least=2)
  steps: tuple[int, ...] = field((100,), **fewshot.STEPS)
  rates: tuple[float, ...] = field((6e-4,), **fewshot.RATES)
  held: int = field(0, least=0)
  part: str = field('all', choices=fewshot.PARTS)
  keep: str = field('last', choices=fewshot.KEEPS)
  untrained: bool = False
  variant: str = field('paper', choices=('paper', 'published'))

  def __post_init__(self) -> None:
    super().__post_init__()
    pairs = self.points * (self.points - 1) // 2
    if self.bins > pairs:
      expected = f'at most {pairs} bins, the pairs of points'
      raise field_error(self, 'bins points', expected)
    if self.variant == 'published' and self.heads > 1:
      raise field_error(self, 'heads variant', "heads=1, or variant='paper'")

  def passes(self) -> int:
    """See core.Metric: all heads of the model, and of one without training."""
    return self.heads * (1 + self.untrained)

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
        predictor, basics.stream(seed, FRESH), answer, score, (*names, 'rmse')
      )
    return tuple(rows)

  def _task(self, world: core.Latent, seed: int) -> ProjectionTasks:
    published = self.variant == 'published'
    stream = basics.stream
    each = self.examples + self.held
    sequences = fewshot.sequences(
      self, world, self.num * each, stream(seed, TRAINED), 'train'
    )
    seen = _ShownStates.of(world, sequences)
    sized = scale(seen.scaled_by(published))
    shown = _labelled(
      seen, sized, seen.known, self.labels, stream(seed, PLACES)
    )
    shape = self.num, each
    shown = LabelledStates(
      *(array.reshape(*shape, *array.shape[1:]) for array in shown)
    )
    if published:
      asked = self._own(seen, sized, seed)
    else:
      other = _ShownStates.of(
        world,
        fewshot.sequences(
          self, world, self.points, stream(seed, ASKED), 'heldout'
        ),
      )
      points = _labelled(other, sized, other.known, 1, stream(seed, POINTS))
      asked = LabelledStates(*(array[None] for array in points))
    labels, truth = projected_labels(
      shown, asked.states[..., 0, :], self.tried, seed
    )
    train_rows = slice(None, self.examples)
    columns = shown.states.shape[-1]
    oracles = oracle_answers(
      shown.states[:, train_rows].reshape(self.num, -1, columns),
      labels[:, train_rows].reshape(self.num, -1),
      asked.states[..., 0, :],
      seed,
    )
    return ProjectionTasks(shown, labels, asked, truth, oracles)

  def _own(self, seen: _ShownStates, sized: Scale, seed: int) -> LabelledStates:
    """The same random systems and places of each data set, as published."""
    each = self.examples + self.held
    rng = np.random.default_rng(basics.stream(seed, POINTS))
    system = rng.integers(0, self.examples, self.points)
    place = rng.choice(np.flatnonzero(seen.ends.all(0)), self.points)
    rows = np.arange(self.num)[:, None] * each + system
    places = np.broadcast_to(place, rows.shape)[..., None]
    states = sized(np.nan_to_num(seen.states[rows, place]))
    return LabelledStates(
      seen.tokens[rows], places.astype(np.int32), states[:, :, None]
    )

  def _answers(
    self, task: ProjectionTasks, seed: int, predictor: core.Adaptable
  ) -> np.ndarray:
    """[S, H, D, M]."""

    def sets(rows: slice) -> adapting.FewShotTasks:
      labels = task.labels[:, rows, :, None].astype(np.float32)
      return adapting.FewShotTasks(
        task.shown.tokens[:, rows], task.shown.places[:, rows], labels
      )

    tokens, places, _ = task.asked
    train, validation = self.with_validation(sets, self.examples)
    asked = adapting.QueryPoints(
      np.broadcast_to(tokens, (self.num, *tokens.shape[1:])),
      np.broadcast_to(places, (self.num, *places.shape[1:])),
    )
    answers = []
    for head in range(self.heads):
      # The first head's seed does not depend on how many there are.
      stream = basics.stream(seed, ADAPTED, *([head] if head else []))
      kind = adapting.Real(1)
      outputs = self.fine_tune(
        predictor, train, asked, kind, stream, validation=validation
      )
      answers.append(outputs[..., 0, 0].astype(np.float64))
    return np.stack(answers, axis=1)

  def _scores(
    self, task: ProjectionTasks, answers: np.ndarray, end: str
  ) -> list[core.Scores]:
    """All quantities of answers [H, D, M]; end: of their names."""
    quantities = [task.errors(answers, 'rmse' + end)]
    if self.heads > 1:
      quantities.append(_reliability(answers, end))
    for name in ORACLES:
      values = self._calibrated(answers, task.oracles[name])
      names = [f'{x}_{name}{end}' for x in ('error', 'slope', 'true_slope')]
      if self.heads == 1:
        names.pop()
      if not end:
        middles = (np.arange(self.bins) + 0.5) / self.bins
        names += [f'curve_{name}_{middle:g}' for middle in middles]
        names += [f'axis_{name}_{middle:g}' for middle in middles]
      for quantity, column in zip(names, values.T, strict=False):
        if np.isfinite(column).all():
          quantities.append(core.scores(quantity, column, bounds=None))
        else:
          why = 'no_variation' if 'slope' in quantity else 'empty_bin'
          if 'true' in quantity:
            why = 'unreliable'
          quantities.append(core.scores(quantity, [np.nan], reason=[why]))
    return quantities

  def _calibrated(self, answers: np.ndarray, oracle: np.ndarray) -> np.ndarray:
    """[F, 2 + 2 Q] see `jackknife`; of several heads [F, 3 + 2 Q]."""
    first, second = np.triu_indices(answers.shape[2], 1)
    bias = affine_bias
    bins = equal_counts
    if self.variant == 'published':
      bias, bins = identity_bias, equal_widths
    pairs = PointPairs(
      first, second, bins(bias(oracle, first, second), self.bins), self.bins
    )

    def calibrate(used: np.ndarray) -> Calibration:
      """Of the data sets [D] bool that are used."""
      mine = answers[:, used]
      if self.variant == 'published':
        mine = mine[:, -1:]  # A variable that is left over from a loop.
      by_head = [pairs.means(bias(head, first, second)) for head in mine]
      truly = None
      if len(mine) > 1:
        squares, most = cross_bias(mine, first, second)
        # A ratio of means: products of two small numbers divide nothing.
        size = pairs.means(most)
        reliable = np.where(size > _ROUNDING, size, np.nan)
        truly = pairs.means(squares) / reliable - 1
      return Calibration(
        np.mean(by_head, axis=0),
        pairs.means(bias(oracle[used], first, second)),
        truly,
      )

    return jackknife(calibrate, answers.shape[1], FOLDS)


class ProjectionTasks(NamedTuple):
  """D data sets, points and what oracles answer there.

  Attributes:
    shown: labelled places, those of held systems last.
    labels: [D, N, P] float64.
    asked: points [D or 1, M, 1].
    truth: [D, M] the true value there.
    oracles: name -> [D, M] answers.
  """

  shown: LabelledStates
  labels: np.ndarray
  asked: LabelledStates
  truth: np.ndarray
  oracles: dict[str, np.ndarray]

  def errors(self, answers: np.ndarray, quantity: str) -> core.Scores:
    """Root mean square error of each data set, of answers [..., D, M]."""
    squares = ((answers - self.truth) ** 2).mean(-1)
    value = np.sqrt(squares.reshape(-1, squares.shape[-1]).mean(0))
    return core.scores(quantity, value, bounds=(0.0, None))


class _ShownStates(NamedTuple):
  """N sequences and the states behind them.

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
  def of(cls, world: core.Latent, sequences: core.Sequences) -> _ShownStates:
    """Those of sampled sequences, each row of which has one state."""
    states = world.hidden_states(sequences)
    ends = np.zeros(sequences.tokens.shape, bool)
    width = core.capabilities.row_width(world)
    ends[:, world.prompt_len + width - 1 : -1 : width] = True
    return cls(sequences.tokens, states, ends)

  @property
  def known(self) -> np.ndarray:
    """[N, L] bool: ends of rows that have a state."""
    return self.ends & np.isfinite(self.states).all(-1)

  def scaled_by(self, published: bool) -> np.ndarray:
    """[K, C] states whose mean and deviation count; those without are 0."""
    return np.nan_to_num(self.states[self.ends if published else self.known])


def _labelled(
  seen: _ShownStates, sized: Scale, mask: np.ndarray, num: int, seed: int
) -> LabelledStates:
  """`num` random places of each sequence among those that are known."""
  places = random_places(mask, num, seed)
  rows = np.arange(len(places))[:, None]
  return LabelledStates(seen.tokens, places, sized(seen.states[rows, places]))


class LabelledStates(NamedTuple):
  """Places of sequences with the state there, standardised.

  Attributes:
    tokens: [D, N, L] int32.
    places: [D, N, P] int32.
    states: [D, N, P, C] float64.
  """

  tokens: np.ndarray
  places: np.ndarray
  states: np.ndarray


class Scale(NamedTuple):
  """Mean and standard deviation [C] of states."""

  mean: np.ndarray
  deviation: np.ndarray

  def __call__(self, states: np.ndarray) -> np.ndarray:
    """States [..., C] in standard deviations from the mean; NaN stays."""
    return (states - self.mean) / self.deviation


def scale(states: np.ndarray) -> Scale:
  """The scale of the known states of [..., C]; a constant column becomes 0."""
  finite = states[np.isfinite(states).all(-1)]
  deviation = finite.std(0)
  return Scale(finite.mean(0), np.where(deviation > 0, deviation, 1))


def random_places(mask: np.ndarray, num: int, seed: int) -> np.ndarray:
  """[N, num] int32 random places, ascending, of those [N, L] that are known.

  Raises:
    InputError: a sequence has fewer.
  """
  if (few := mask.sum(1).min(initial=num)) < num:
    raise core.InputError(
      f'a sequence has {few} places with a known state; expected {num}'
    )
  rows, places = np.arange(len(mask))[:, None], np.arange(mask.shape[1])
  keys = basics.hash64(basics.stream(seed, PLACES), rows, places)
  return basics.listed(basics.lowest(mask, keys, num), num)


def projected_labels(
  shown: LabelledStates, asked: np.ndarray, tried: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
  """Labels [D, N, P] of what is shown, and [D, M] of states asked about.

  Of `tried` standard normal directions the one is taken whose distances go
  best with distances of states, by Spearman's correlation over pairs of
  COMPARED states; labels have mean 0 and variance 1 where they are shown.

  asked: [D or 1, M, C].
  """
  num, columns = len(shown.states), shown.states.shape[-1]
  flat = shown.states.reshape(-1, columns)
  rng = np.random.default_rng(basics.stream(seed, ROWS))
  compared = flat[rng.permutation(len(flat))[:COMPARED]]
  first, second = np.triu_indices(len(compared), 1)
  apart = _ranks(
    np.linalg.norm(compared[first] - compared[second], axis=-1)[None]
  )
  rng = np.random.default_rng(basics.stream(seed, DIRECTIONS))
  directions = rng.normal(size=(num, tried, columns))
  chosen = []
  for each in directions:
    value = each @ compared.T
    ranks = _ranks(np.abs(value[:, first] - value[:, second]))
    chosen.append(each[(ranks * apart).sum(-1).argmax()])
  direction = np.stack(chosen)
  labels = np.einsum('dnpc,dc->dnp', shown.states, direction)
  mean = labels.mean((1, 2), keepdims=True)
  spread = labels.std((1, 2), keepdims=True)
  spread = np.where(spread > 0, spread, 1)
  asked = np.broadcast_to(asked, (num, *asked.shape[1:]))
  truth = np.einsum('dmc,dc->dm', asked, direction)
  return (labels - mean) / spread, (truth - mean[..., 0]) / spread[..., 0]


def _ranks(values: np.ndarray) -> np.ndarray:
  """Ranks of rows [R, K], with mean 0 and length 1."""
  ranks = values.argsort(-1).argsort(-1).astype(float)
  ranks -= ranks.mean(-1, keepdims=True)
  return ranks / np.linalg.norm(ranks, axis=-1, keepdims=True)


def oracle_answers(
  shown: np.ndarray, labels: np.ndarray, asked: np.ndarray, seed: int
) -> dict[str, np.ndarray]:
  """Answers [D, M] of learners that see the state and the same labels.

  'linear' is least squares, 'mlp' a network of two layers of five units as
  published, 'nearest' the label of the nearest state.

  Args:
    shown: [D, T, C] states.
    labels: [D, T].
    asked: [D or 1, M, C].
    seed: of the network's initial weights.
  """
  asked = np.broadcast_to(asked, (len(shown), *asked.shape[1:]))
  linear, nearest = [], []
  for states, label, queries in zip(shown, labels, asked, strict=True):
    fit = np.linalg.lstsq(_with_one(states), label, rcond=None)[0]
    linear.append(_with_one(queries) @ fit)
    apart = ((queries[:, None] - states) ** 2).sum(-1)
    nearest.append(label[apart.argmin(-1)])
  return {
    'linear': np.stack(linear),
    'mlp': _mlp(shown, labels, asked, basics.stream(seed, WEIGHTS)),
    'nearest': np.stack(nearest),
  }


def _with_one(states: np.ndarray) -> np.ndarray:
  return np.append(states, np.ones((len(states), 1)), axis=1)


def _mlp(
  x_DTC: np.ndarray, y_DT: np.ndarray, asked_DMC: np.ndarray, seed: int
) -> np.ndarray:
  """[D, M] of ReLU networks fit by Adam to the squared error, all at once."""
  rng = np.random.default_rng(seed)
  sizes = x_DTC.shape[-1], UNITS, UNITS, 1
  params = []
  for low, high in itertools.pairwise(sizes):
    bound = low**-0.5
    params.append(rng.uniform(-bound, bound, (len(x_DTC), low, high)))
    params.append(rng.uniform(-bound, bound, (len(x_DTC), 1, high)))
  moments = [[np.zeros_like(p), np.zeros_like(p)] for p in params]
  for step in range(1, EPOCHS + 1):
    grads = _gradients(params, x_DTC, y_DT[..., None])
    for param, grad, both in zip(params, grads, moments, strict=True):
      both[0] += 0.1 * (grad - both[0])
      both[1] += 0.001 * (grad * grad - both[1])
      first = both[0] / (1 - 0.9**step)
      second = both[1] / (1 - 0.999**step)
      param -= RATE * first / (np.sqrt(second) + 1e-8)
  return _layers(params, asked_DMC)[-1][..., 0]


def _layers(params: list[np.ndarray], x_DTC: np.ndarray) -> list[np.ndarray]:
  """Inputs and outputs of all layers."""
  layers = [x_DTC]
  for number in range(0, len(params), 2):
    y = layers[-1] @ params[number] + params[number + 1]
    layers.append(np.maximum(y, 0) if number + 2 < len(params) else y)
  return layers


def _gradients(
  params: list[np.ndarray], x_DTC: np.ndarray, y_DT1: np.ndarray
) -> list[np.ndarray]:
  layers = _layers(params, x_DTC)
  back = 2 * (layers[-1] - y_DT1) / y_DT1.shape[1]
  grads: list[np.ndarray] = []
  for number in range(len(params) - 2, -1, -2):
    inputs = layers[number // 2]
    grads[:0] = [inputs.swapaxes(1, 2) @ back, back.sum(1, keepdims=True)]
    # ReLU lets the gradient through where its output is above 0.
    back = (back @ params[number].swapaxes(1, 2)) * (inputs > 0)
  return grads


class PointPairs(NamedTuple):
  """K pairs of points, each in one of Q bins by what an oracle says of it.

  Attributes:
    first, second: [K] points.
    bin: [K], DEAD for none.
    num: Q.
  """

  first: np.ndarray
  second: np.ndarray
  bin: np.ndarray
  num: int

  def means(self, value: np.ndarray) -> np.ndarray:
    """[Q] of values [K]; NaN in an empty bin."""
    binned = self.bin >= 0
    total = np.bincount(self.bin[binned], value[binned], self.num)
    count = np.bincount(self.bin[binned], minlength=self.num)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def affine_bias(
  answers: np.ndarray, first: np.ndarray, second: np.ndarray
) -> np.ndarray:
  """[K] I of pairs for affine h, in variances of the second: -1 to 0.

  answers: [D, M]. It is the same in both directions. An answer that no data
  set changes is known from anything: 0.
  """
  z = answers - answers.mean(0)
  length = np.sqrt((z * z).sum(0))
  still = length <= _ROUNDING * np.maximum(np.abs(answers).max(0), 1)
  z = z / np.where(still, 1, length)
  rho = (z.T @ z)[first, second]  # [M, M]: [D, K] would be D / 2 times that.
  constant = still[first] | still[second]
  return np.where(constant, 0.0, np.minimum(rho * rho, 1) - 1)


def _shared(answers: np.ndarray) -> np.ndarray:
  """[M, M] covariance over data sets of answers by different heads.

  answers: [H, D, M]; in units of the variance of a point's answers by one head,
    so that the diagonal has the reliabilities of the points.
  """
  z = answers - answers.mean(1, keepdims=True)
  length = np.sqrt((z * z).sum(1).mean(0))
  still = length <= _ROUNDING * np.maximum(np.abs(answers).max((0, 1)), 1)
  z = np.where(still, 0, z / np.where(still, 1, length))
  total = z.sum(0)
  alone = np.einsum('hdm,hdn->mn', z, z)
  return (total.T @ total - alone) / (len(z) * (len(z) - 1))


def cross_bias(
  answers: np.ndarray, first: np.ndarray, second: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """[K] squares of covariances of pairs, and what they are at most.

  answers: [H, D, M], H heads. The ratio of both is the square of the
    correlation that answers without chance would have.
  """
  shared = _shared(answers)
  variance = shared.diagonal()
  return shared[first, second] ** 2, variance[first] * variance[second]


def _reliability(answers: np.ndarray, end: str) -> core.Scores:
  """Mean reliability of points, of answers [H, D, M]; a row for each point."""
  value = _shared(answers).diagonal()
  moves = np.ptp(answers, axis=1).any(0)
  reason = np.where(moves, '', 'no_variation')
  return core.scores('reliability' + end, value, reason=reason, bounds=None)


def identity_bias(
  answers: np.ndarray, first: np.ndarray, second: np.ndarray
) -> np.ndarray:
  """[K] I for h that changes nothing: minus the mean absolute difference."""
  return -np.abs(answers[:, first] - answers[:, second]).mean(0)


def equal_counts(value: np.ndarray, num: int) -> np.ndarray:
  """[K] bins of as many pairs each, by value, ascending."""
  order = np.argsort(value, kind='stable')
  bins = np.empty(len(value), np.int64)
  bins[order] = np.arange(len(value)) * num // len(value)
  return bins


def equal_widths(value: np.ndarray, num: int) -> np.ndarray:
  """[K] bins of equal width; -1 on an edge, as the published program has it."""
  edges = np.linspace(value.min(), value.max(), num + 1)
  bins = np.searchsorted(edges, value, side='left') - 1
  return np.where(np.isin(value, edges), -1, bins)


class Calibration(NamedTuple):
  """A model's I against an oracle's, in Q bins by the oracle's.

  Attributes:
    model, oracle: [Q] means; NaN in empty bins.
    truly: [Q] the model's without chance in answers; None of one head.
  """

  model: np.ndarray
  oracle: np.ndarray
  truly: np.ndarray | None = None

  @property
  def error(self) -> float:
    """Mean absolute difference over bins; 0 is perfect."""
    return float(np.nanmean(np.abs(self.model - self.oracle)))

  @property
  def slope(self) -> float:
    """The slope of the model's means on the oracle's, by least squares.

    1 is perfect, 0 a model whose I does not depend on the oracle's; NaN where
    the oracle's does not vary.
    """
    return self._slope(self.model)

  def _slope(self, model: np.ndarray) -> float:
    finite = np.isfinite(model) & np.isfinite(self.oracle)
    if not finite.any():
      return np.nan
    x, y = self.oracle[finite], model[finite]
    x = x - x.mean()
    spread = float((x * x).sum())
    return float((x * y).sum()) / spread if spread > _ROUNDING else np.nan

  def numbers(self) -> np.ndarray:
    """Error, slope, that of `truly` if any, the model's means, the oracle's."""
    true = [] if self.truly is None else [self._slope(self.truly)]
    head = [self.error, self.slope, *true]
    return np.concatenate([head, self.model, self.oracle])


def jackknife(
  calibrate: Callable[[np.ndarray], Calibration], num: int, folds: int
) -> np.ndarray:
  """[F, 2 + 2 Q] pseudo-values of all numbers of a calibration.

  Their mean estimates the number without the bias that goes with 1 / D, and
  their spread says how uncertain it is with data sets (Tukey 1958).

  calibrate: of the data sets [D] bool that are used.
  num: data sets, D.
  folds: F, groups of data sets that are left out at a time.
  """
  folds = min(folds, num)
  fold = np.arange(num) % folds
  every = calibrate(np.ones(num, bool)).numbers()
  without = [calibrate(fold != f).numbers() for f in range(folds)]
  return folds * every - (folds - 1) * np.stack(without)
