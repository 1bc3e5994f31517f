"""What JAX can trace: worlds and predictors inside one compiled program.

A loop over tokens that asks the host at every token waits for the way there
and back. What is traced runs on the device from the first token to the last:
`wm.evaluation.device` samples with it, walks by it and lists boundaries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from wm.core.basics import InputError

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
