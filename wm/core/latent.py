"""Worlds whose state their tokens do not determine."""

from __future__ import annotations

import abc
from typing import NamedTuple

import numpy as np

from wm.core.basics import can, optional, plug_in_name
from wm.core.capabilities import SequenceProcess
from wm.core.world import Sequences, World


class Rollout(NamedTuple):
  """The tokens that follow N states.

  Attributes:
    tokens: [N, K] int32; DEAD where nothing is known.
    frame: [N, K] int32, time in steps from the last observed one, 1..
  """

  tokens: np.ndarray
  frame: np.ndarray


class Trajectory(NamedTuple):
  """The motion that N sequences of R rows show.

  Attributes:
    position: [N, R, 2] float64, not rounded to bins, in the world's unit.
    body: [N, R] int32: 0.. the planets, then the sun.
    frame: [N, R] int32, time in steps.
    bodies: [N] int32, rows of a frame.
    step: [N] float64, years from frame to frame.
    state: [N, R, C] float64, see `Latent.hidden_states`; NaN of the sun.
  """

  position: np.ndarray
  body: np.ndarray
  frame: np.ndarray
  bodies: np.ndarray
  step: np.ndarray
  state: np.ndarray


class Latent(World):
  """Has a state that is no function of its tokens; samples carry it.

  `init`, `advance`, `legal` and `state_id` know what the tokens alone
  determine: the format. The state is side data of sequences from `sample`,
  which `hidden_states` reads.

  A world that can `forecast` also draws states (`core.Prefixed`) of which a
  latent one is part. One sequence follows from such a state. `legal` accepts
  the token that follows, and those within a tolerance. Prefixes that reach the
  state leave its latent part as open as tokens do.

  A world with a `trajectory` shows where bodies are: after the prompt, rows of
  an x and a y token. The state of a planet begins with position and velocity
  from the sun and ends with the two masses: x, y, vx, vy, planet, sun. It also
  has `width`, `coordinates` and `coordinate_tokens`.
  """

  @property
  def width(self) -> float:
    """Width of a bin, in astronomical units."""
    raise NotImplementedError

  @abc.abstractmethod
  def hidden_states(self, sequences: Sequences) -> np.ndarray:
    """[N, L, C] float64 state after each token; NaN where there is none.

    Raises:
      InputError: the sequences have no side data of this world.
    """

  @optional
  def forecast(self, states: np.ndarray, num: int) -> Rollout:
    """The `num` tokens that follow from states [N, W], of one sequence each."""
    raise NotImplementedError

  @optional
  def posterior(
    self, particles: int, sweeps: int, seed: int
  ) -> SequenceProcess:
    """The distribution of what follows tokens, by particles that agree.

    sweeps: moves of each particle whenever few agree; with more of both it is
    nearer to the exact distribution of sequences.

    Raises:
      InputError: the world's fields have no such filter.
    """
    raise NotImplementedError

  @optional
  def trajectory(self, sequences: Sequences) -> Trajectory:
    """The motion that whole sequences of this world's `sample` show."""
    raise NotImplementedError

  @optional
  def coordinates(self, tokens: np.ndarray) -> np.ndarray:
    """Centres of bins in AU of tokens of any shape; NaN for other tokens."""
    raise NotImplementedError

  @optional
  def coordinate_tokens(self, places: np.ndarray) -> np.ndarray:
    """int32 tokens of coordinates in AU of any shape, clipped to the box."""
    raise NotImplementedError


def lacks_law(cls: type[World]) -> str:
  """A line on a class of worlds that is not `Generative`: why it is not.

  One that is `Generative` but has no law says so itself, see
  `data_distribution`.
  """
  line = (
    f'{plug_in_name(cls)} does not say how its samples are distributed '
    '(core.Generative)'
  )
  if issubclass(cls, Latent):
    line += (
      ': what comes next depends on a state that the tokens do not show, and '
      'the exact mean over all such states cannot be computed; '
      "'particle_filter()' comes near it by sampled states, and its expected "
      'loss is no smaller'
    )
  return line


ROW = 2  # Tokens of a row: x and y.


def row_width(world: World) -> int:
  """Tokens of each row of a world's sequences; 1 where these have no rows."""
  return ROW if can(world, Latent.trajectory) else 1
