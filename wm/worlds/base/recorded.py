"""Worlds whose games are recorded in PGN files."""

from __future__ import annotations

import abc

import numpy as np

from wm import core


class Recorded(core.World):
  """What a world inherits whose games `wm.data.pgn` can read.

  Attributes:
    least: games of fewer plies are left out.
    length: longer games are cut to so many plies.
    start: '' for games from the usual first position, as recorded ones are.
  """

  least: int
  length: int
  start: str

  @abc.abstractmethod
  def from_moves(
    self, packed: np.ndarray, lengths: np.ndarray
  ) -> core.Sequences:
    """Sequences of games, opened as every sequence of the world is.

    Args:
      packed: [sum of lengths] uint16 packed moves, the games end to end.
      lengths: [N] int32 plies of each.
    """
