"""Extrapolation: does a tuned model extrapolate as a function of the state?

Vafa et al. 2025, sections 2 and 3, inductive bias of continuous answers: a
model with the state of planets extrapolates from a few labels like a simple
function of the state. Curves compare the two.

Each of D data sets labels a few states with a random projection to one number
(section 3). Shape letters: C columns of a state, N systems with P labelled
positions, M query points.

For answers m_D on D data sets, the inductive bias of a pair of points is
I(i, j) = -min over h of E[loss(h(m_D(i)), m_D(j))] (section 2). For affine h
and squared loss it has a closed form: minus the share of the variance of m(j)
that m(i) does not explain, 1 - correlation squared.
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
from wm.core.fields import field
from wm.evaluation import fewshot

# Streams of randomness under one seed.
TRAINED, ASKED, PLACES, DIRECTIONS, ROWS, POINTS, WEIGHTS = range(51, 58)
ADAPTED, FRESH = 61, 62
# States on which projections are compared, drawn once.
COMPARED = 64
# The oracle 'mlp': units of both layers, Adam's learning rate and its steps.
UNITS, RATE, EPOCHS = 5, 0.05, 1000
_ROUNDING = 1e-12
# Groups of data sets for jackknife intervals.
FOLDS = 20
LABELS = 2  # Labelled positions of a system.
TRIED = 50  # Random projections; the most faithful of them is used.
BINS = 10  # Bins of pairs of points.
ORACLES = ('linear', 'mlp', 'nearest')


@dataclasses.dataclass(frozen=True)
class Metric(fewshot.FewShotMetric):
  """Adapts a model to random projections of the state, and compares biases.

  Each data set has `examples` systems with two labelled positions each. I of
  two points is minus the share of the variance, over data sets, of the answer
  at one point that the best affine function of the answer at the other does
  not explain: -1 to 0. Oracles see the state and the same labels. The points
  are in held-out systems and the same for all data sets. Pairs of points are in
  bins of equal counts by the oracle's I. Jackknife intervals leave out groups
  of data sets; they do not cover the choice of points or of the training seed.
  The jackknife also removes the bias of few data sets, so that a mean I may be
  slightly outside -1 to 0.

  The oracles are 'linear', 'mlp' and 'nearest'. Each has its quantities, such
  as error_linear, slope_linear and a curve: curve_linear_0.05 of the model and
  axis_linear_0.05 of the oracle, in the bin whose middle is the quantile .05.

  Attributes:
    num: data sets, D.
    examples: systems of each data set.
    points: held-out systems, with one point each.
    steps: ascending numbers of training steps to score after; quantities of the
      last have no number in their names.
    untrained: also adapt the model with random weights, if it has weights.

  Glossary:
    error_linear: Mean distance, over bins, of the model's I from that of a
      linear function of the state. At 0 the answers depend on one another as
      the linear function's do.
    slope_linear: Slope of the model's I over that of a linear function of the
      state, over bins. A model that extrapolates by the state has 1.
    error: Mean distance, over bins, of the model's I from that of an oracle. At
      0 the answers depend on one another as a function of the state does.
    slope: Slope of the model's I over that of an oracle, over bins. A model
      that extrapolates by the state has 1, a constant has 0.
    curve: Mean I of the model in the bin of pairs at this quantile of an
      oracle's I. It should equal the oracle's mean, which is called axis.
    axis: Mean I of an oracle in a bin of pairs. The curve is compared with it.
    rmse: Root mean square error of answers at points, in standard deviations of
      the labels. A model that has the state and the projection has 0.
  """

  needs: ClassVar[tuple[core.Need, ...]] = (core.Adaptable, core.Latent)
  sized_by: ClassVar[tuple[str, ...]] = ('num', 'num examples', 'num points')
  measures: ClassVar[Mapping[str, core.Measure]] = {
    'error_linear': core.Measure(0, 'extrapolates by the state'),
    'slope_linear': core.Measure(1, 'extrapolates by the state'),
  }

  num: int = field(100, least=4)
  examples: int = field(100, least=1)
  points: int = field(200, least=5)
  steps: tuple[int, ...] = field((100,), **fewshot.STEPS)
  untrained: bool = False

  def __call__(
    self, predictor: core.Adaptable, world: core.Latent, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric; a row per data set, or per group of data sets."""
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
    stream = basics.stream
    each = self.examples
    sequences = fewshot.sequences(
      world, self.num * each, stream(seed, TRAINED), 'train'
    )
    seen = _ShownStates.of(world, sequences)
    states = seen.states[seen.known]
    spread = states.std(0)  # A constant column gives 0.
    scale = states.mean(0), np.where(spread > 0, spread, 1)
    shown = _labelled(seen, scale, LABELS, stream(seed, PLACES))
    shape = self.num, each
    shown = LabelledStates(
      *(array.reshape(*shape, *array.shape[1:]) for array in shown)
    )
    heldout = fewshot.sequences(
      world, self.points, stream(seed, ASKED), 'heldout'
    )
    other = _ShownStates.of(world, heldout)
    points = _labelled(other, scale, 1, stream(seed, POINTS))
    asked = LabelledStates(*(array[None] for array in points))
    labels, truth = projected_labels(
      shown, asked.states[..., 0, :], TRIED, seed
    )
    columns = shown.states.shape[-1]
    oracles = oracle_answers(
      shown.states.reshape(self.num, -1, columns),
      labels.reshape(self.num, -1),
      asked.states[..., 0, :],
      seed,
    )
    return ProjectionTasks(shown, labels, asked, truth, oracles)

  def _answers(
    self, task: ProjectionTasks, seed: int, predictor: core.Adaptable
  ) -> np.ndarray:
    """[S, D, M] answers at the points."""
    labels = task.labels[..., None].astype(np.float32)
    shown = adapting.FewShotTasks(task.shown.tokens, task.shown.places, labels)
    tokens, places, _ = task.asked
    asked = adapting.QueryPoints(
      np.broadcast_to(tokens, (self.num, *tokens.shape[1:])),
      np.broadcast_to(places, (self.num, *places.shape[1:])),
    )
    stream = basics.stream(seed, ADAPTED)
    outputs = self.fine_tune(predictor, shown, asked, adapting.Real(1), stream)
    return outputs[..., 0, 0].astype(np.float64)

  def _scores(
    self, task: ProjectionTasks, answers: np.ndarray, end: str
  ) -> list[core.Scores]:
    """All quantities of answers [D, M]; end: suffix of their names."""
    quantities = [task.errors(answers, 'rmse' + end)]
    for name in ORACLES:
      values = self._calibrated(answers, task.oracles[name])
      names = [f'{x}_{name}{end}' for x in ('error', 'slope')]
      if not end:
        middles = (np.arange(BINS) + 0.5) / BINS
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
    """[F, 2 + 2 Q] numbers of a calibration; see `jackknife`."""
    first, second = np.triu_indices(answers.shape[1], 1)
    bins = equal_counts(affine_bias(oracle, first, second), BINS)
    counts = np.bincount(bins)  # None is 0: there are as many pairs as bins.

    def calibrate(used: np.ndarray) -> np.ndarray:
      """The calibration of the data sets where `used` [D] is True."""
      model, axis = (
        np.bincount(bins, affine_bias(each[used], first, second)) / counts
        for each in (answers, oracle)
      )
      return calibration(model, axis)

    return jackknife(calibrate, len(answers), FOLDS)


class ProjectionTasks(NamedTuple):
  """D data sets, query points and the oracles' answers.

  Attributes:
    shown: labelled positions.
    labels: [D, N, P] float64.
    asked: query points [D or 1, M, 1].
    truth: [D, M] true values at the query points.
    oracles: name -> [D, M] answers.
  """

  shown: LabelledStates
  labels: np.ndarray
  asked: LabelledStates
  truth: np.ndarray
  oracles: dict[str, np.ndarray]

  def errors(self, answers: np.ndarray, quantity: str) -> core.Scores:
    """Root mean square error of each data set, of answers [D, M]."""
    value = np.sqrt(((answers - self.truth) ** 2).mean(-1))
    return core.scores(quantity, value, bounds=(0.0, None))


class _ShownStates(NamedTuple):
  """N sequences and their hidden states.

  Attributes:
    tokens: [N, L] int32.
    states: [N, L, C] float64; NaN if there is no state.
    ends: [N, L] bool, last tokens of rows, after which a state is complete.
      The prompt and the last token of a sequence are left out; a next-token
      model was never trained to read the latter.
  """

  tokens: np.ndarray
  states: np.ndarray
  ends: np.ndarray

  @classmethod
  def of(cls, world: core.Latent, sequences: core.Sequences) -> _ShownStates:
    """The states of sampled sequences, whose rows have one state each."""
    states = world.hidden_states(sequences)
    ends = np.zeros(sequences.tokens.shape, bool)
    width = core.capabilities.row_width(world)
    ends[:, world.prompt_len + width - 1 : -1 : width] = True
    return cls(sequences.tokens, states, ends)

  @property
  def known(self) -> np.ndarray:
    """[N, L] bool: ends of rows that have a state."""
    return self.ends & np.isfinite(self.states).all(-1)


def _labelled(
  seen: _ShownStates, scale: tuple[np.ndarray, np.ndarray], num: int, seed: int
) -> LabelledStates:
  """`num` random positions of each sequence, with a state.

  scale: mean and deviation [C] by which states are standardised.
  """
  places = random_places(seen.known, num, seed)
  rows, (mean, deviation) = np.arange(len(places))[:, None], scale
  states = (seen.states[rows, places] - mean) / deviation
  return LabelledStates(seen.tokens, places, states)


class LabelledStates(NamedTuple):
  """Positions of sequences with their standardised states.

  Attributes:
    tokens: [D, N, L] int32.
    places: [D, N, P] int32.
    states: [D, N, P, C] float64.
  """

  tokens: np.ndarray
  places: np.ndarray
  states: np.ndarray


def random_places(mask: np.ndarray, num: int, seed: int) -> np.ndarray:
  """[N, num] int32 random positions, ascending, where mask [N, L] is True.

  Raises:
    InputError: a sequence has fewer than `num` such positions.
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
  """Labels [D, N, P] of shown states, and [D, M] of query states.

  The projection is the best of `tried` standard normal directions: distances of
  its labels have the highest Spearman correlation with distances of states,
  over pairs of COMPARED states. Shown labels have mean 0 and variance 1.

  asked: [D or 1, M, C] query states.
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
  """Ranks within each row of [R, K], with mean 0 and norm 1."""
  ranks = values.argsort(-1).argsort(-1).astype(float)
  ranks -= ranks.mean(-1, keepdims=True)
  return ranks / np.linalg.norm(ranks, axis=-1, keepdims=True)


def oracle_answers(
  shown: np.ndarray, labels: np.ndarray, asked: np.ndarray, seed: int
) -> dict[str, np.ndarray]:
  """Answers [D, M] of learners that see the state and the same labels.

  'linear' is least squares; 'mlp' is a network of two layers of five units, as
  published; 'nearest' answers with the label of the nearest state.

  Args:
    shown: [D, T, C] labelled states.
    labels: [D, T] their labels.
    asked: [D or 1, M, C] query states.
    seed: seed of the network's initial weights.
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
  """[D, M] answers of D ReLU networks, fitted by Adam to the squared error."""
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
    # ReLU passes the gradient if its output is above 0.
    back = (back @ params[number].swapaxes(1, 2)) * (inputs > 0)
  return grads


def affine_bias(
  answers: np.ndarray, first: np.ndarray, second: np.ndarray
) -> np.ndarray:
  """[K] I of pairs for affine h, in variances of the second: -1 to 0.

  I is symmetric. It is 0 if an answer is the same in all data sets.

  answers: [D, M].
  """
  z = answers - answers.mean(0)
  length = np.sqrt((z * z).sum(0))
  still = length <= _ROUNDING * np.maximum(np.abs(answers).max(0), 1)
  z = z / np.where(still, 1, length)
  rho = (z.T @ z)[first, second]  # [M, M]: [D, K] would be D / 2 times that.
  constant = still[first] | still[second]
  return np.where(constant, 0.0, np.minimum(rho * rho, 1) - 1)


def equal_counts(value: np.ndarray, num: int) -> np.ndarray:
  """[K] bin of each value; bins ascend and have equal counts."""
  order = np.argsort(value, kind='stable')
  bins = np.empty(len(value), np.int64)
  bins[order] = np.arange(len(value)) * num // len(value)
  return bins


def calibration(model: np.ndarray, oracle: np.ndarray) -> np.ndarray:
  """[2 + 2 Q] numbers of a model's I and an oracle's I [Q], means of bins.

  They are the mean absolute difference, which is 0 if perfect; the
  least-squares slope of the model's means over the oracle's, which is 1 if
  perfect, 0 if the model's I does not depend on the oracle's, and NaN if the
  oracle's does not vary; the model's means; and the oracle's.
  """
  x = oracle - oracle.mean()
  spread = float((x * x).sum())
  slope = float((x * model).sum()) / spread if spread > _ROUNDING else np.nan
  return np.concatenate([[np.abs(model - oracle).mean(), slope], model, oracle])


def jackknife(
  calibrate: Callable[[np.ndarray], np.ndarray], num: int, folds: int
) -> np.ndarray:
  """[F, 2 + 2 Q] jackknife pseudo-values of a calibration's numbers.

  Their mean estimates each number without its bias of order 1 / D; their spread
  gives the uncertainty over data sets (Tukey 1958).

  calibrate: function from used data sets, [D] bool, to their `calibration`.
  num: number of data sets, D.
  folds: F, groups of data sets that are left out in turn.
  """
  folds = min(folds, num)
  fold = np.arange(num) % folds
  every = calibrate(np.ones(num, bool))
  without = [calibrate(fold != f) for f in range(folds)]
  return folds * every - (folds - 1) * np.stack(without)
