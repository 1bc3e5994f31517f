"""Worlds whose state their tokens do not fix, and worlds of moving bodies."""

from __future__ import annotations

import abc
from typing import NamedTuple

import numpy as np

from wm.core.basics import plug_in_name
from wm.core.capabilities import Prefixed, Process
from wm.core.sequences import Sequences
from wm.core.world import World


class Hidden(World):
  """Has a state that is no function of its tokens; samples carry it.

  `init`, `advance`, `legal` and `state_id` know what the tokens alone fix: the
  format. What the state was is side data of sequences that `sample` gave,
  which `hidden_states` reads.
  """

  @property
  @abc.abstractmethod
  def state_columns(self) -> tuple[str, ...]:
    """What the C numbers of a state are, with their units."""

  @abc.abstractmethod
  def hidden_states(self, sequences: Sequences) -> np.ndarray:
    """[N, L, C] float64 state after each token; NaN where there is none.

    Raises:
      InputError: the sequences have no side data of this world.
    """


class Future(NamedTuple):
  """What follows from N states.

  Attributes:
    tokens: [N, K] int32; DEAD where nothing is known.
    frame: [N, K] int32, time in steps from the last one that was seen, 1..
  """

  tokens: np.ndarray
  frame: np.ndarray


class Foretold(Hidden, Prefixed):
  """Draws states that a hidden one is part of, and knows what follows.

  From such a state one sequence follows. What is `legal` there is near it: the
  token that follows, and those within a tolerance. Prefixes that reach it
  leave the hidden part as open as tokens do.
  """

  @abc.abstractmethod
  def future(self, states: np.ndarray, num: int) -> Future:
    """The `num` tokens that follow from states [N, W], of one sequence each."""

  @abc.abstractmethod
  def posterior(self, particles: int, sweeps: int, seed: int) -> Process:
    """What may follow tokens, by particles that agree with them.

    sweeps: moves of each particle whenever few agree; with more of both it is
    nearer to the exact distribution of sequences.

    Raises:
      InputError: the world's fields have no such filter.
    """


def lacks_law(cls: type[World]) -> str:
  """A line on a class of worlds that is not `Generative`: why it is not.

  One that is `Generative` but has no law says so itself, see `process`.
  """
  line = (
    f'{plug_in_name(cls)} does not say how its samples are distributed '
    '(core.Generative)'
  )
  if issubclass(cls, Hidden):
    line += (
      ': what follows tokens is a mean over hidden states, of which a model of '
      "particles comes near, and has no less loss ('particle_filter()')"
    )
  return line


class Motion(NamedTuple):
  """What N sequences of R rows show.

  Attributes:
    position: [N, R, 2] float64, not rounded to bins, in the world's unit.
    body: [N, R] int32: 0.. the planets, then the sun.
    frame: [N, R] int32, time in steps.
    bodies: [N] int32, rows of a frame.
    step: [N] float64, years from frame to frame.
    state: [N, R, C] float64, see `Hidden.state_columns`; NaN of the sun.
  """

  position: np.ndarray
  body: np.ndarray
  frame: np.ndarray
  bodies: np.ndarray
  step: np.ndarray
  state: np.ndarray


ROW = 2  # Tokens of a row of a moving world.


class Moving(Hidden):
  """Shows where bodies are: after the prompt, rows of an x and a y token.

  The state of a planet begins with position and velocity from the sun and
  ends with the two masses: x, y, vx, vy, planet, sun.
  """

  @property
  @abc.abstractmethod
  def width(self) -> float:
    """Width of a bin, in astronomical units."""

  @abc.abstractmethod
  def motion(self, sequences: Sequences) -> Motion:
    """What sequences of this world's `sample` show, whole ones."""

  @abc.abstractmethod
  def coordinates(self, tokens: np.ndarray) -> np.ndarray:
    """Centres of bins in AU of tokens of any shape; NaN where none is meant."""

  @abc.abstractmethod
  def coordinate_tokens(self, places: np.ndarray) -> np.ndarray:
    """int32 tokens of coordinates in AU of any shape, clipped to the box."""


def row_width(world: World) -> int:
  """Tokens of each row of a world's sequences; 1 where these have no rows."""
  return ROW if isinstance(world, Moving) else 1
