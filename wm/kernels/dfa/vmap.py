"""An automaton's moves in JAX, for programs that never leave the device.

The functions of one state, to be mapped over many; see `traced.Rules`. A
position is (row, goal), as `wm.kernels.dfa` has states:

  delta   | e 0 1 2 ...      a column for each token, ascending; the end token
  row 0   | - 4 - 7          leads nowhere here: it is legal where row == goal
  ...     |
  row S   | - - - -          where the end token leads: over, alive, nothing on
"""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from wm import core
from wm.kernels.base import checks


class Position(NamedTuple):
  """A state.

  Attributes:
    row: of the table, S once over, DEAD where dead.
    goal: row where the end token is legal, NONE for no row.
  """

  row: jax.Array
  goal: jax.Array


@functools.partial(
  jax.tree_util.register_dataclass,
  data_fields=('delta', 'tokens', 'end'),
  meta_fields=(),
)
@dataclasses.dataclass(frozen=True)
class Rules:
  """Rules of a table.

  Attributes:
    delta: [S + 1, A] int32 next rows, DEAD where illegal; see above.
    tokens: [A] int32, ascending.
    end: number of the end token's move, or DEAD.
  """

  delta: jax.Array
  tokens: jax.Array
  end: jax.Array

  def legal(self, position: Position) -> jax.Array:
    """[A] bool."""
    row, goal = position
    # A dead row reads row 0, and is masked: indices must be in range.
    moves = self.delta[jnp.maximum(row, 0)] >= 0
    moves |= (jnp.arange(len(moves)) == self.end) & (row == goal)
    return moves & (row >= 0)

  def advance(self, position: Position, move: jax.Array) -> Position:
    """The next position; DEAD where the move, or its number, is illegal."""
    row, goal = position
    alive = (row >= 0) & (move >= 0)
    head = self.delta[jnp.maximum(row, 0), jnp.maximum(move, 0)]
    # The end token's column holds DEAD: where it is legal, go to the last row.
    ends = alive & (move == self.end) & (row == goal)
    head = jnp.where(ends, len(self.delta) - 1, head)
    return Position(
      jnp.where(alive, head, core.DEAD), jnp.where(ends, checks.NONE, goal)
    )

  def alive(self, position: Position) -> jax.Array:
    """Bool."""
    return position.row >= 0


def rules(delta: np.ndarray, tokens: np.ndarray, end: int = core.DEAD) -> Rules:
  """Rules of a table [S, A] whose labels are tokens [A], ascending.

  end: the token that is legal where row == goal; DEAD for none.
  """
  over = np.full((1, delta.shape[1]), core.DEAD, np.int32)
  # One more row, where the end token leads; one more column, in its place among
  # the tokens, which holds DEAD: `legal` and `advance` ask for the goal.
  delta, place = np.concatenate([delta, over]), core.DEAD
  if end != core.DEAD:
    place = int(np.searchsorted(tokens, end))
    delta = np.insert(delta, place, core.DEAD, axis=1)
    tokens = np.insert(tokens, place, end)
  return Rules(*(jnp.asarray(x, jnp.int32) for x in (delta, tokens, place)))


def positions(rows: np.ndarray, goals: np.ndarray) -> Position:
  """Positions [B] of states (rows, goals) [B]."""
  return Position(jnp.asarray(rows, jnp.int32), jnp.asarray(goals, jnp.int32))
