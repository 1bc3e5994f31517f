"""Columns of rows as people read them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wm import core


def sequences(
  world: core.World,
  tokens: Sequence[Sequence[int]] | np.ndarray,
  lengths: np.ndarray | None = None,
) -> np.ndarray:
  """[N] str: rows of tokens in words, joined by blanks.

  tokens: N rows; lengths: [N] how many of each count, default all.
  """
  vocab = world.vocab
  cut = [None] * len(tokens) if lengths is None else lengths
  words = [
    ' '.join([vocab[token] for token in row[:size]])
    for row, size in zip(tokens, cut, strict=True)
  ]
  return np.array(words, dtype=str)


def tags(world: core.World, states: np.ndarray) -> dict[str, np.ndarray]:
  """Columns [B] that break results down; see core.Described.tags."""
  return world.tags(states) if core.can(world, core.Described.tags) else {}
