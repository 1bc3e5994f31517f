"""Named functions of the state along sequences, and what the clock says."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wm import core


class Labels(NamedTuple):
  """Functions of the states of N sequences.

  Attributes:
    there: [N, L] bool: after the prompt, before the longest sequence's last
      token, which no model of next tokens was trained to read, and not after
      an end token.
    values: name -> [N, L] int64, 0 where there is none.
  """

  there: np.ndarray
  values: dict[str, np.ndarray]


def labels(world: core.Labelled, sequences: core.Sequences) -> Labels:
  """All functions at all places."""
  tokens = sequences.tokens
  there = np.arange(tokens.shape[1]) < sequences.lengths[:, None]
  there[:, : world.prompt_len] = False
  there[:, world.max_len - 1 :] = False
  there &= (tokens != world.end) | (world.end == core.DEAD)
  states = world.init(len(tokens))
  values = {
    name: np.zeros(tokens.shape, np.int64) for name in world.functions(states)
  }
  for t in range(tokens.shape[1]):
    rows = np.flatnonzero(t < sequences.lengths)
    states[rows] = world.advance(states[rows], tokens[rows, t])
    rows = rows[there[rows, t]]
    if not rows.size:
      continue
    for name, found in world.functions(states[rows]).items():
      values[name][rows, t] = found
  return Labels(there, values)


class Clock(NamedTuple):
  """What the number of the token alone says of a function.

  Attributes:
    log_share: [L, k] float64 log shares of the classes at each place, in nats.
  """

  log_share: np.ndarray

  def at(self, places: np.ndarray) -> np.ndarray:
    """[..., k] of places, those beyond the last known one as that one."""
    return self.log_share[np.minimum(places, len(self.log_share) - 1)]


def clock(there: np.ndarray, values: np.ndarray, classes: int) -> Clock:
  """Shares of the classes [N, L] at each place, each counted once more.

  So that a class that was not seen there is not impossible.
  """
  places = np.broadcast_to(np.arange(there.shape[1]), there.shape)
  counts = np.ones((there.shape[1], classes))
  np.add.at(counts, (places[there], values[there]), 1)
  return Clock(np.log(counts / counts.sum(1, keepdims=True)))
