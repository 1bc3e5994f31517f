"""Plain references that tests compare with."""

from typing import Any

import numpy as np

from wm import core
from wm.models.serving import oracles


def accepted_steps(
  predictor: core.Predictor,
  prefixes: np.ndarray,
  lengths: np.ndarray,
  suffixes: np.ndarray,
  suffix_lengths: np.ndarray,
  accept: Any,
) -> np.ndarray:
  """[B, M] int32: tokens of each suffix accepted before the first refusal.

  prefixes: [B, L], lengths: [B], suffixes: [B, M, K], suffix_lengths: [B, M].
  A suffix is in the model's language exactly when this equals its length.
  """
  batch, num, longest = suffixes.shape
  steps = np.zeros((batch, num), np.int32)
  alive = suffix_lengths > 0
  session = predictor.session(prefixes, lengths, num)
  for k in range(longest):
    tokens = np.where(alive, suffixes[..., k], core.DEAD)
    alive &= session.accepted(accept, tokens)
    steps += alive
    alive &= k + 1 < suffix_lengths
    if not alive.any():
      break
    session.advance(np.where(alive, tokens, core.DEAD))
  return steps


def check_sessions(
  predictor: core.Predictor,
  tokens: np.ndarray,
  starts: list[int],
  steps: int,
  atol: float = 2e-5,
) -> None:
  """Sessions say at each step what is said there of whole sequences."""
  rows, at = np.arange(len(tokens)), np.array(starts)
  full = predictor.log_probs(tokens, np.full(len(tokens), tokens.shape[1]))
  session = predictor.session(tokens, at, 2)
  for k in range(steps):
    want = full[rows, at + k - 1]
    for branch in (0, 1):
      result = session.log_probs()[:, branch]
      np.testing.assert_allclose(result, want, atol=atol)
    session.advance(np.repeat(tokens[rows, at + k][:, None], 2, axis=1))


def world_log_probs(world: core.World, states: np.ndarray) -> np.ndarray:
  """[B, V] float32: what an oracle says of all tokens."""
  return oracles.likely(world, states).dense(len(world.vocab))


def dense(
  predictor: oracles.WorldPredictor, states: np.ndarray, history: np.ndarray
) -> np.ndarray:
  """[B, V] float32 log-probabilities in states [B, W] after histories [B]."""
  result = predictor.support(states, history)
  return result.dense(predictor.vocab_size)
