"""What JAX can trace: worlds and predictors inside one compiled program.

A loop over tokens that asks the host at every token waits for the way there
and back. What is traced runs on the device from the first token to the last:
`wm.evaluation.trials.device` samples with it, walks by it and lists boundaries.
"""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from wm.core.basics import InputError
from wm.core.predictor import Predictor
from wm.core.world import World

if TYPE_CHECKING:
  import jax


class Rules(Protocol):
  """A world's moves as JAX functions of one position, to be mapped over many.

  A position is a tree of arrays; two are the same where all of these are.

  Attributes:
    tokens: [A] int32, ascending: all that is ever legal. Moves are numbered
      by their place in it.
  """

  @property
  def tokens(self) -> jax.Array: ...

  def legal(self, position: Any) -> jax.Array:
    """[A] bool: which moves are legal; none where it is over or dead."""

  def advance(self, position: Any, move: jax.Array) -> Any:
    """The position after a move; a dead one where the move is illegal."""

  def alive(self, position: Any) -> jax.Array:
    """Bool: the position is not dead."""


class TracedWorld(World):
  """A world whose rules JAX can trace."""

  @abc.abstractmethod
  def traced(self, states: np.ndarray) -> tuple[Rules, Any]:
    """The rules, and positions (a tree of arrays [B, ...]) of states [B, W].

    Raises:
      InputError: a state in which the task itself is still to be stated.
    """


class Untraceable(InputError):
  """This predictor cannot be traced, for instance as it has too many states."""


class Machine(Protocol):
  """A predictor in a compiled program: T trials of two prefixes, M branches.

  B slots hold a trial each. The state is a tree of arrays, all sides and
  continuations of the slots.
  """

  def blank(self, slots: int) -> Any:
    """The state before any trial is put in a slot."""

  def restart(self, state: Any, fresh: jax.Array, trial: jax.Array) -> Any:
    """Puts the prefixes of trials [B] in the slots where fresh [B]."""

  def draw(self, state: Any, uniform: jax.Array) -> jax.Array:
    """[B, M] int32 tokens after the first prefixes, by the sampling rule.

    DEAD where the rule accepts nothing; uniform: [B, M] float32.
    """

  def vacuous(self, state: Any) -> jax.Array:
    """[B, M] bool: the checking rule accepts nothing after the first prefix."""

  def accepted(self, state: Any, tokens: jax.Array) -> jax.Array:
    """[B, M] bool: the rule accepts tokens [B, M] after the second prefixes."""

  def advance(self, state: Any, tokens: jax.Array) -> Any:
    """Appends tokens [B, M] to both sides; DEAD leaves them as they are."""


class TracedPredictor(Predictor):
  """A predictor that JAX can trace."""

  @property
  @abc.abstractmethod
  def devices(self) -> tuple[Any, ...]:
    """Where trials are dealt out to."""

  @property
  @abc.abstractmethod
  def light(self) -> bool:
    """Is a step less work than the host's loop around it?"""

  @abc.abstractmethod
  def machine(
    self,
    prefixes: np.ndarray,
    lengths: np.ndarray,
    *,
    num: int,
    room: int,
    accept: Any,
    sampler: Any,
  ) -> tuple[Machine, int]:
    """The machine of trials with prefixes [T, 2, L], and how many slots suit.

    Args:
      prefixes: [T, 2, L] int32.
      lengths: [T, 2] int32.
      num: continuations of each prefix, M.
      room: most tokens of a continuation.
      accept: the rule that checks, from `wm.core.accept`.
      sampler: the rule that draws.

    Raises:
      Untraceable: it has too many states, or they are not known.
    """
