"""Counts pairs of points with different answers, by kind of pair."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wm import core
from wm.kernels.base import calls
from wm.kernels.base.jit import njit

# Limit of classes of answers, since a table has all states times classes.
MOST_CLASSES = 256


class PairCounts(NamedTuple):
  """Unordered pairs of distinct points, and those whose D answers differ.

  Kinds of pairs, the last axis:
    0  of one state
    1  of two states with the same legal next tokens (q=)
    2  of two states with different legal next tokens (q!=)

  Attributes:
    apart: [D, 3] int64 pairs with different answers.
    pairs: [3] int64 all pairs.
  """

  apart: np.ndarray
  pairs: np.ndarray


def count(
  answers: np.ndarray, states: np.ndarray, legal: np.ndarray
) -> PairCounts:
  """Counts exactly the pairs of points whose answers differ.

  Vafa et al. 2025 average over these pairs, whose number is quadratic in the
  points. In a group with n_c points of answer c, sum_c n_c (n_c - 1) / 2 pairs
  agree, so that counts by state and answer suffice: O(D n) time, and memory for
  one table of states times classes.

  Args:
    answers: [D, n] integers below MOST_CLASSES: D answers to each point.
    states: [n] integers, equal where two points are in one state.
    legal: [n] integers, equal where two points have the same legal tokens.

  Raises:
    InputError: shapes do not match, an answer is not a class, or points of one
      state have different legal tokens.
  """
  answers, states, legal = map(np.asarray, (answers, states, legal))
  shapes = {states.shape, legal.shape, answers.shape[1:]}
  if answers.ndim != 2 or len(shapes) > 1:
    raise core.InputError(
      f'answers have shape {answers.shape}, states {states.shape}, legal '
      f'{legal.shape}; expected [D, n], [n] and [n]'
    )
  least, most = int(answers.min(initial=0)), int(answers.max(initial=0))
  if least < 0 or most >= MOST_CLASSES or answers.dtype.kind not in 'biu':
    raise core.InputError(
      f'answers are {answers.dtype} from {least} to {most}; expected integers '
      f'from 0 to {MOST_CLASSES - 1}'
    )
  _, first, state = np.unique(states, return_index=True, return_inverse=True)
  _, group = np.unique(legal, return_inverse=True)
  # A state's legal tokens, by its first point: all its points must agree.
  of_state = group[first]
  if (of_state[state] != group).any():
    wrong = int((of_state[state] != group).argmax())
    raise core.InputError(
      f'point {wrong} has other legal tokens than another point of its state'
    )
  pairs = _pairs(state), _pairs(group), len(state) * (len(state) - 1) // 2
  agree = _agreements(
    calls.frozen(answers, np.uint8),
    calls.frozen(state, np.int32),
    calls.frozen(of_state, np.int32),
    most + 1,
  )
  # Within states, within legal sets, all: each includes the one before.
  apart = np.array(pairs, np.int64) - agree
  return PairCounts(
    np.diff(apart, axis=-1, prepend=0),
    np.diff(np.array(pairs, np.int64), prepend=0),
  )


@njit
def _agreements(
  answers: np.ndarray, state: np.ndarray, legal: np.ndarray, classes: int
) -> np.ndarray:
  """[D, 3] int64 agreeing pairs within states, within legal sets, of all.

  answers: [D, n] uint8; state: [n] int32, dense; legal: [S] int32, dense, of
  each state; classes: above all answers.
  """
  num, points = answers.shape
  sets = 0
  for s in range(len(legal)):
    sets = max(sets, legal[s] + 1)
  #   by_state [S, C]   points by state and answer
  #   by_set   [Q, C]   its rows added up by set of legal tokens
  #   total    [C]      all points by answer
  #   A cell of n points has n (n - 1) / 2 pairs that agree: int64, as squares
  #   of 10^5 points are beyond int32.
  agreeing = np.zeros((num, 3), np.int64)
  by_state = np.zeros((len(legal), classes), np.int32)
  by_set = np.zeros((sets, classes), np.int64)
  for d in range(num):
    by_state[:] = 0
    by_set[:] = 0
    for k in range(points):
      by_state[state[k], answers[d, k]] += 1
    for s in range(len(legal)):
      for c in range(classes):
        n = np.int64(by_state[s, c])
        agreeing[d, 0] += n * (n - 1) // 2
        by_set[legal[s], c] += n
    for c in range(classes):
      total = np.int64(0)
      for q in range(sets):
        n = by_set[q, c]
        agreeing[d, 1] += n * (n - 1) // 2
        total += n
      agreeing[d, 2] += total * (total - 1) // 2
  return agreeing


def _pairs(groups: np.ndarray) -> int:
  """Pairs of points [n] within groups 0, 1, ..."""
  size = np.bincount(groups).astype(np.int64)
  return int((size * (size - 1) // 2).sum())
