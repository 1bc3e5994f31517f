"""Paths of moving bodies, observed in tokens and predicted by a model."""

from __future__ import annotations

import numpy as np

from wm import core


def _coordinates(world: core.Latent, log_probs: np.ndarray) -> np.ndarray:
  """[...] most likely coordinate tokens, from log_probs [..., V]."""
  meant = np.isfinite(world.coordinates(np.arange(log_probs.shape[-1])))
  # Tokens without a coordinate, such as the prompt's, are excluded.
  return np.where(meant, log_probs, -np.inf).argmax(-1)


def seen(world: core.Latent, sequences: core.Sequences) -> np.ndarray:
  """[N, R, 2] AU: centres of the bins in sequences, row by row."""
  tokens = sequences.tokens[:, world.prompt_len :]
  # Tokens alternate: x, y of a row, x, y of the next.
  rows = tokens.shape[1] // 2
  return world.coordinates(tokens).reshape(len(tokens), rows, 2)


def _expected(log_probs: np.ndarray, centres: np.ndarray) -> np.ndarray:
  """[...] mean coordinates under log_probs [..., K]; NaN if all are -inf."""
  # Subtracting the maximum keeps exp from underflowing to 0 / 0.
  top = log_probs.max(-1, keepdims=True)
  chance = np.exp(log_probs - np.where(np.isfinite(top), top, 0))
  with np.errstate(invalid='ignore'):  # 0 / 0
    return chance @ centres / chance.sum(-1)


def forced(
  predictor: core.Predictor, world: core.Latent, sequences: core.Sequences
) -> tuple[np.ndarray, np.ndarray]:
  """Predicts each row by teacher forcing; y follows the true x."""
  first = world.prompt_len
  num, size = len(sequences), sequences.tokens.shape[1]
  tokens = np.zeros((num, size - first), np.int64)
  expected = np.full((num, size - first), np.nan)
  centres = world.coordinates(np.arange(predictor.vocab_size))
  meant = np.isfinite(centres)
  for part, log_probs in core.predictor.log_probs_by_rows(
    predictor, sequences.tokens, sequences.lengths
  ):
    # Log-probabilities at t predict token t + 1: [N, L] -> [N, L - first].
    rows = log_probs[:, first - 1 : size - 1]
    tokens[part] = _coordinates(world, rows)
    expected[part] = _expected(rows[..., meant], centres[meant])
  shape = num, (size - first) // 2, 2
  return world.coordinates(tokens).reshape(shape), expected.reshape(shape)


def rolled(
  predictor: core.Predictor,
  world: core.Latent,
  sequences: core.Sequences,
  prefix: int,
  rows: int,
) -> np.ndarray:
  """[N, rows, 2] AU: rows that the model predicts after `prefix` true rows."""
  num, size = len(sequences), world.prompt_len + 2 * prefix
  tokens = np.zeros((num, 2 * rows), np.int64)
  if not num or not rows:
    return np.zeros((num, rows, 2))
  for part in core.predictor.chunks(num, predictor.vocab_size * size):
    before = sequences.tokens[part, :size]
    # The model continues from its own tokens, x and y in turn.
    session = predictor.session(before, np.full(len(before), size), 1)
    for k in range(2 * rows):
      predicted = _coordinates(world, np.asarray(session.log_probs()))
      tokens[part, k] = predicted[:, 0]
      if k + 1 < 2 * rows:
        session.advance(predicted)
  return world.coordinates(tokens).reshape(num, rows, 2)
