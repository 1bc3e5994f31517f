"""Tables of process predictors in compiled programs; see `traced.Machine`."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from wm import core


def devices() -> tuple[jax.Device, ...]:
  """The first one: a table is little work."""
  return (jax.local_devices()[0],)


@functools.partial(
  jax.tree_util.register_dataclass,
  data_fields=('table', 'start'),
  meta_fields=('num',),
)
@dataclasses.dataclass(frozen=True)
class TableMachine:
  """A table, drawn in `process`, and its trials; the state is rows [B, 2, M].

  Arrays are NumPy's on the host, JAX's in the program.

  table: `process.TableRows` of all states.
  start: [T, 2] int32 rows after the prefixes.
  """

  table: Any
  start: Any
  num: int

  def blank(self, slots: int) -> np.ndarray:
    """Row 0."""
    return np.zeros((slots, 2, self.num), np.int32)

  def restart(
    self, state: jax.Array, fresh: jax.Array, trial: jax.Array
  ) -> jax.Array:
    """See traced.Machine."""
    # [B, 2] -> [B, 2, 1]: the M continuations of a prefix start in one row.
    start = self.start[trial][..., None]
    return jnp.where(fresh[:, None, None], start, state)

  def draw(self, state: jax.Array, uniform: jax.Array) -> jax.Array:
    """[B, M] int32: as `Accept.draw` of NumPy arrays, to the bit."""
    # The first accepted token whose cumulative mass is beyond the draw. Where
    # rounding leaves the draw beyond all of them, the last accepted one.
    row = state[:, 0]
    mass, drawn = self.table.mass[row], self.table.drawn[row]
    over = drawn & (mass > (uniform * mass[..., -1])[..., None])
    last = drawn.shape[-1] - 1 - jnp.argmax(drawn[..., ::-1], axis=-1)
    place = jnp.where(over.any(-1), jnp.argmax(over, axis=-1), last)
    return jnp.where(drawn.any(-1), self.table.tokens[row, place], core.DEAD)

  def vacuous(self, state: jax.Array) -> jax.Array:
    """[B, M] bool; see traced.Machine."""
    return ~self.table.accepted[state[:, 0]].any(-1)

  def accepted(self, state: jax.Array, tokens: jax.Array) -> jax.Array:
    """[B, M] bool; see traced.Machine."""
    # A token that a row does not list is one that neither rule accepts.
    row = state[:, 1]
    equal = self.table.tokens[row] == tokens[..., None]
    return (equal & self.table.accepted[row]).any(-1) & (tokens != core.DEAD)

  def advance(self, state: jax.Array, tokens: jax.Array) -> jax.Array:
    """See traced.Machine."""
    # [B, M] -> [B, 1, M]: both prefixes of a slot append the same tokens.
    tokens = tokens[:, None]
    place = jnp.argmax(self.table.tokens[state] == tokens[..., None], axis=-1)
    return jnp.where(tokens == core.DEAD, state, self.table.next[state, place])
