"""Predictors made by hand, and what they accept found by brute force."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests import tiny
from wm import core
from wm.models.serving import stateless

Rule = Callable[[tuple[int, ...]], dict[int, float]]


class Ruled(stateless.Stateless):
  """Next-token probabilities by a rule on the whole history."""

  def __init__(self, rule: Rule, max_len: int = 12) -> None:
    self.rule = rule
    self.vocab_size, self.end = len(tiny.VOCAB), tiny.END
    self.max_len = max_len

  def log_probs(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    out = np.full((*tokens.shape, self.vocab_size), -np.inf, np.float32)
    for b, row in enumerate(tokens):
      for t in range(int(lengths[b])):
        for token, prob in self.rule(tuple(row[: t + 1].tolist())).items():
          out[b, t, token] = np.log(prob)
    return out


def split(history: tuple[int, ...]) -> dict[int, float]:
  """After origins 0 and 1 both moves, after 2 and 3 only x; never ends."""
  if history[0] in (tiny.AT, tiny.AT + 1):
    return {tiny.X: 0.5, tiny.Y: 0.5}
  return {tiny.X: 1.0}


def language(
  predictor: core.Predictor, prefix: tuple[int, ...], depth: int, accept: object
) -> set[tuple[int, ...]]:
  """Every continuation of length 1..depth that is accepted token by token.

  Nothing goes on after the end token.
  """
  if not depth:
    return set()
  row, size = np.array([prefix], np.int32), np.array([len(prefix)])
  last = np.asarray(predictor.log_probs(row, size))[0, -1]
  result = set()
  for token in np.flatnonzero(accept.mask(last)).tolist():
    result.add((token,))
    if token != predictor.end:
      rest = language(predictor, (*prefix, token), depth - 1, accept)
      result |= {(token, *suffix) for suffix in rest}
  return result


def boundary(
  first: set[tuple[int, ...]], second: set[tuple[int, ...]]
) -> list[tuple[int, ...]]:
  """Minimal members of the first language that are not in the second."""
  return sorted(
    (
      s
      for s in first - second
      if all(s[:n] in second for n in range(1, len(s)))
    ),
    key=lambda s: (len(s), s),
  )
