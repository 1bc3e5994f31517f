"""Automaton kernels in JAX, for arrays that live beside a model.

The functions of one state are mapped over the batch; `wm.kernels.dfa`
documents them. The jitted functions below the line also take and give JAX
arrays; the ones above are their NumPy forms.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from wm import core


def advance(
  delta: np.ndarray, rows: np.ndarray, labels: np.ndarray
) -> np.ndarray:
  """Rows after one label each."""
  return np.asarray(advance_jit(delta, rows, labels))


def legal(delta: np.ndarray, rows: np.ndarray, goals: np.ndarray) -> np.ndarray:
  """Masks of legal labels, end last."""
  return np.asarray(legal_jit(delta, rows, goals))


def walk(
  delta: np.ndarray,
  rows: np.ndarray,
  goals: np.ndarray,
  labels: np.ndarray,
  lengths: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Follows labels up to the first illegal one."""
  steps, after, over = walk_jit(delta, rows, goals, labels, lengths)
  return np.asarray(steps), np.asarray(after), np.asarray(over)


def reachable(delta: np.ndarray, rows: np.ndarray) -> np.ndarray:
  """Spreads along all edges at once until nothing is new."""
  return np.asarray(reachable_jit(delta, rows))


# ---------------------------------------------------------------------------


def _next(delta: jax.Array, row: jax.Array, label: jax.Array) -> jax.Array:
  """Next row of one state; DEAD for labels that are no column."""
  known = (row >= 0) & (label >= 0) & (label < delta.shape[1])
  head = delta[jnp.maximum(row, 0), jnp.clip(label, 0, delta.shape[1] - 1)]
  return jnp.where(known, head, core.DEAD)


def _mask(delta: jax.Array, row: jax.Array, goal: jax.Array) -> jax.Array:
  """[A + 1] legal labels of one state."""
  moves = delta[jnp.maximum(row, 0)] >= 0
  return jnp.append(moves, row == goal) & (row >= 0)


def _walk(
  delta: jax.Array,
  row: jax.Array,
  goal: jax.Array,
  labels: jax.Array,
  length: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array]:
  """Steps, row and over of one walk."""
  end = delta.shape[1]

  def step(carry: tuple, x: tuple) -> tuple[tuple, None]:
    """One label; nothing moves after the first illegal one or `end`."""
    steps, row, over, alive = carry
    k, label = x
    label = label.astype(jnp.int32)
    head = _next(delta, row, label)
    ends = (label == end) & (row == goal) & (row >= 0)
    alive &= (k < length) & ~over & (ends | (head >= 0))
    row = jnp.where(alive & ~ends, head, row)
    return (steps + alive, row, over | (alive & ends), alive), None

  start = jnp.int32(0), row, jnp.bool_(False), jnp.bool_(True)
  places = jnp.arange(labels.shape[0], dtype=jnp.int32)
  (steps, row, over, _), _ = jax.lax.scan(step, start, (places, labels))
  return steps, row, over


@jax.jit
def advance_jit(
  delta: jax.Array, rows: jax.Array, labels: jax.Array
) -> jax.Array:
  """`dfa.advance`: delta [S, A], rows [B], labels [B], all int32 -> [B]."""
  return jax.vmap(_next, (None, 0, 0))(delta, rows, labels)


@jax.jit
def legal_jit(delta: jax.Array, rows: jax.Array, goals: jax.Array) -> jax.Array:
  """`dfa.legal`: delta [S, A], rows [B], goals [B], int32 -> [B, A + 1]."""
  return jax.vmap(_mask, (None, 0, 0))(delta, rows, goals)


@jax.jit
def walk_jit(
  delta: jax.Array,
  rows: jax.Array,
  goals: jax.Array,
  labels: jax.Array,
  lengths: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array]:
  """`dfa.walk`: [S, A], [B], [B], [B, K], [B] int32 -> three [B]."""
  mapped = jax.vmap(_walk, (None, 0, 0, 0, 0))
  return mapped(delta, rows, goals, labels, lengths)


@jax.jit
def reachable_jit(delta: jax.Array, rows: jax.Array) -> jax.Array:
  """`dfa.reachable`: delta [S, A], rows [B] int32 -> [S] bool."""
  size = delta.shape[0]
  # One row past the last takes what leads nowhere.
  heads = jnp.where(delta >= 0, delta, size)
  found = jnp.zeros(size + 1, bool)
  found = found.at[jnp.where(rows >= 0, rows, size)].set(True)

  def spread(state: tuple) -> tuple[jax.Array, jax.Array]:
    found, _ = state
    from_row = jnp.broadcast_to(found[:-1, None], heads.shape)
    more = found.at[heads].max(from_row).at[size].set(False)
    return more, (more != found).any()

  start = found.at[size].set(False), jnp.bool_(True)
  return jax.lax.while_loop(lambda state: state[1], spread, start)[0][:-1]
