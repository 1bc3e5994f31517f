"""Random projections of states as few-shot tasks, and how answers depend.

Vafa et al. 2025, section 3: each of D data sets labels a few states with a
random projection to one number. C columns of a state, N systems with P labelled
places, M points that are asked about.

Section 2: with answers m_D of D data sets, the inductive bias of a pair of
points is I(i, j) = -min over h of E[loss(h(m_D(i)), m_D(j))]. For affine h and
squared loss it has a closed form: minus the share of the variance of m(j) that
m(i) leaves, 1 - correlation squared.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import basics
from wm.evaluation.fewshot import coin_tasks

# Streams of randomness under one seed.
TRAINED, ASKED, PLACES, DIRECTIONS, ROWS, POINTS, WEIGHTS = range(51, 58)
# States among which directions are compared, drawn once.
COMPARED = 64
# Of the small network: units of both layers, Adam's rate and its steps.
UNITS, RATE, EPOCHS = 5, 0.05, 1000


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
  """Of states [..., C] that are known; a column that never varies is 0."""
  finite = states[np.isfinite(states).all(-1)]
  deviation = finite.std(0)
  return Scale(finite.mean(0), np.where(deviation > 0, deviation, 1))


def drawn(known: np.ndarray, num: int, seed: int) -> np.ndarray:
  """[N, num] int32 random places, ascending, of those [N, L] that are known.

  Raises:
    InputError: a sequence has fewer.
  """
  if (few := known.sum(1).min(initial=num)) < num:
    raise core.InputError(
      f'a sequence has {few} places with a known state; expected {num}'
    )
  rows, places = np.arange(len(known))[:, None], np.arange(known.shape[1])
  keys = basics.hash64(coin_tasks.stream(seed, PLACES), rows, places)
  keys = np.where(known, keys >> np.uint64(1), np.uint64(2**63))
  chosen = np.argsort(keys, axis=1, kind='stable')[:, :num]
  return np.sort(chosen, axis=1).astype(np.int32)


def targets(
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
  rng = np.random.default_rng(coin_tasks.stream(seed, ROWS))
  compared = flat[rng.permutation(len(flat))[:COMPARED]]
  first, second = np.triu_indices(len(compared), 1)
  apart = _ranks(
    np.linalg.norm(compared[first] - compared[second], axis=-1)[None]
  )
  rng = np.random.default_rng(coin_tasks.stream(seed, DIRECTIONS))
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


def oracles(
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
    'mlp': _mlp(shown, labels, asked, coin_tasks.stream(seed, WEIGHTS)),
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


_ROUNDING = 1e-12


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


def affine(
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
  rho = np.einsum('dk,dk->k', z[:, first], z[:, second])
  constant = still[first] | still[second]
  return np.where(constant, 0.0, np.minimum(rho * rho, 1) - 1)


def identity(
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
  """

  model: np.ndarray
  oracle: np.ndarray

  @property
  def error(self) -> float:
    """Mean absolute difference over bins; 0 is perfect."""
    return float(np.nanmean(np.abs(self.model - self.oracle)))

  @property
  def slope(self) -> float:
    """Of the line of least squares of the model's means on the oracle's.

    1 is perfect, 0 a model whose I does not depend on the oracle's; NaN where
    the oracle's does not vary.
    """
    finite = np.isfinite(self.model) & np.isfinite(self.oracle)
    x, y = self.oracle[finite], self.model[finite]
    x = x - x.mean()
    spread = float((x * x).sum())
    return float((x * y).sum()) / spread if spread > _ROUNDING else np.nan

  def numbers(self) -> np.ndarray:
    """Error, slope, the model's means, the oracle's."""
    return np.concatenate([[self.error, self.slope], self.model, self.oracle])


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
