"""Protocols for worlds and predictors that JAX can trace.

A loop over tokens with host code waits for a round trip at every token. A
traced loop stays on the device from the first token to the last;
`wm.evaluation.device` uses it to sample, walk and list boundaries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from wm.core.basics import InputError

if TYPE_CHECKING:
  import jax


class Rules(Protocol):
  """A world's moves as JAX functions of one position, suited to `vmap`.

  A position is a tree of arrays; positions are equal if all arrays are.

  Attributes:
    tokens: [A] int32, ascending: every token that is legal in some position. A
      move is an index into it.
  """

  @property
  def tokens(self) -> jax.Array: ...

  def legal(self, position: Any) -> jax.Array:
    """[A] bool: the legal moves; none if the position is over or dead."""

  def advance(self, position: Any, move: jax.Array) -> Any:
    """The position after a move; a dead position if the move is illegal."""

  def alive(self, position: Any) -> jax.Array:
    """[] bool: the position is not dead."""


class Untraceable(InputError):
  """The predictor cannot be traced; it may have too many states."""


class Machine(Protocol):
  """A predictor in a compiled program, for trials of two prefixes.

  Each of B slots holds one trial with M continuations of both prefixes. The
  state is a tree of arrays for all slots.
  """

  def blank(self, slots: int) -> Any:
    """The state of empty slots."""

  def restart(self, state: Any, fresh: jax.Array, trial: jax.Array) -> Any:
    """Puts the prefixes of trials [B] in slots where fresh [B] is True."""

  def draw(self, state: Any, uniform: jax.Array) -> jax.Array:
    """[B, M] int32 tokens drawn after the first prefixes, by the sampling rule.

    DEAD if the rule accepts no token. uniform: [B, M] float32 in [0, 1).
    """

  def vacuous(self, state: Any) -> jax.Array:
    """[B, M] bool: the checking rule accepts nothing after first prefixes."""

  def accepted(self, state: Any, tokens: jax.Array) -> jax.Array:
    """[B, M] bool: the checking rule accepts tokens after second prefixes."""

  def advance(self, state: Any, tokens: jax.Array) -> Any:
    """Appends tokens [B, M] after both prefixes; DEAD appends nothing."""
