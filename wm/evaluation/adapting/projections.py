"""Small regression tasks on states that are numbers, and who solves them.

Vafa et al. 2025, section 3: each of D data sets labels a few states with a
random projection to one number. C columns of a state, N systems with P labelled
places, M points that are asked about.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from wm import core
from wm.evaluation.adapting import coin_tasks

# Streams of randomness under one seed.
TRAINED, ASKED, PLACES, DIRECTIONS, ROWS, POINTS, WEIGHTS = range(51, 58)
# States among which directions are compared, drawn once.
COMPARED = 64
# Of the small network: units of both layers, Adam's rate and its steps.
UNITS, RATE, EPOCHS = 5, 0.05, 1000


class Labelled(NamedTuple):
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
  known = states[np.isfinite(states).all(-1)]
  deviation = known.std(0)
  return Scale(known.mean(0), np.where(deviation > 0, deviation, 1))


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
  keys = core.hash64(coin_tasks.stream(seed, PLACES), rows, places)
  keys = np.where(known, keys >> np.uint64(1), np.uint64(2**63))
  found = np.argsort(keys, axis=1, kind='stable')[:, :num]
  return np.sort(found, axis=1).astype(np.int32)


def targets(
  shown: Labelled, asked: np.ndarray, tried: int, seed: int
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
  some = flat[rng.permutation(len(flat))[:COMPARED]]
  first, second = np.triu_indices(len(some), 1)
  apart = _ranks(np.linalg.norm(some[first] - some[second], axis=-1)[None])
  rng = np.random.default_rng(coin_tasks.stream(seed, DIRECTIONS))
  directions = rng.normal(size=(num, tried, columns))
  chosen = []
  for each in directions:
    value = each @ some.T
    found = _ranks(np.abs(value[:, first] - value[:, second]))
    chosen.append(each[(found * apart).sum(-1).argmax()])
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
  for states, label, wanted in zip(shown, labels, asked, strict=True):
    fit = np.linalg.lstsq(_with_one(states), label, rcond=None)[0]
    linear.append(_with_one(wanted) @ fit)
    apart = ((wanted[:, None] - states) ** 2).sum(-1)
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
  found = [x_DTC]
  for number in range(0, len(params), 2):
    y = found[-1] @ params[number] + params[number + 1]
    found.append(np.maximum(y, 0) if number + 2 < len(params) else y)
  return found


def _gradients(
  params: list[np.ndarray], x_DTC: np.ndarray, y_DT1: np.ndarray
) -> list[np.ndarray]:
  found = _layers(params, x_DTC)
  back = 2 * (found[-1] - y_DT1) / y_DT1.shape[1]
  grads: list[np.ndarray] = []
  for number in range(len(params) - 2, -1, -2):
    given = found[number // 2]
    grads[:0] = [given.swapaxes(1, 2) @ back, back.sum(1, keepdims=True)]
    # ReLU lets the gradient through where its output is above 0.
    back = (back @ params[number].swapaxes(1, 2)) * (given > 0)
  return grads
