"""Networks in a compiled program; see `core.Machine`.

  rows       [R = 2 B]: slot b's first prefix is row 2 b, its second 2 b + 1
  prefix     [R, ...]         caches as `sessions` has them, with all pages
  pages      n x [R, M, ...]  there from the start: a program makes no memory
  log_probs  [R, M, V]

The steps are those of `sessions`, called from within the program.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import lax

from wm import core
from wm.models.nn.network import NetworkSpec
from wm.models.serving import sessions, tiles


class State(NamedTuple):
  """Of all rows.

  Attributes:
    prefix, pages, log_probs: see above.
    prefix_len: [R] int32 tokens of the prefix.
    added: [R, M] int32 tokens appended to it.
  """

  prefix: Any
  pages: list[Any]
  log_probs: jax.Array
  prefix_len: jax.Array
  added: jax.Array


@functools.partial(
  jax.tree_util.register_dataclass,
  data_fields=('params', 'prefixes', 'lengths'),
  meta_fields=('spec', 'num', 'room', 'accept', 'sampler'),
)
@dataclasses.dataclass(frozen=True)
class NetworkMachine:
  """A network and its trials; see `core.Predictor.machine.machine`."""

  params: nnx.State
  prefixes: Any  # NumPy's arrays on the host, JAX's in the program.
  lengths: Any
  spec: NetworkSpec
  num: int
  room: int
  accept: Any
  sampler: Any

  def blank(self, slots: int) -> State:
    """Zeros, with pages for `room` tokens."""
    shape = self.spec, 2 * slots, self.num
    # A session grows pages as it goes; a program needs them all beforehand.
    room = min(self.room, self.spec.max_len)
    pages = -(-room // sessions.page_size(self.spec))
    prefix, log_probs = sessions.new_tile(*shape)
    return State(
      prefix,
      [sessions.new_page(*shape) for _ in range(pages)],
      log_probs,
      jnp.ones(2 * slots, jnp.int32),
      jnp.zeros(shape[1:], jnp.int32),
    )

  def restart(self, state: State, fresh: jax.Array, trial: jax.Array) -> State:
    """Prefills the rows of fresh slots, a few at a time as a session does."""
    rows, length = 2 * len(trial), self.prefixes.shape[-1]
    size = max(sessions.START_TOKENS // length, 1)
    fresh = jnp.repeat(fresh, 2)  # Slots -> rows: both sides of a trial.
    tokens = self.prefixes[trial].reshape(rows, length)
    lengths = self.lengths[trial].reshape(rows)
    order = jnp.argsort(~fresh, stable=True)  # Fresh rows come first.

    def prefill(part: jax.Array, tile: tuple[Any, jax.Array]) -> Any:
      nth = part * size + jnp.arange(size)
      row = order[nth % rows]
      where = jnp.where(nth < fresh.sum(), row, rows)  # Past the end: a pad.
      return sessions.prefill(
        self.spec, self.params, *tile, where, tokens[row], lengths[row]
      )

    # As many calls as fresh rows need: often none, at the start all.
    parts, tile = -(-fresh.sum() // size), (state.prefix, state.log_probs)
    prefix, log_probs = lax.fori_loop(0, parts, prefill, tile)
    pages = sessions.restart_pages(self.spec, state.pages, prefix, fresh)
    prefix_len = jnp.where(fresh, lengths, state.prefix_len)
    added = jnp.where(fresh[:, None], 0, state.added)
    return State(prefix, pages, log_probs, prefix_len, added)

  def draw(self, state: State, uniform: jax.Array) -> jax.Array:
    """[B, M] int32; see core.Machine."""
    return self.sampler.draw(state.log_probs[::2], uniform)  # First prefixes.

  def vacuous(self, state: State) -> jax.Array:
    """[B, M] bool; see core.Machine."""
    return ~self.accept.mask(state.log_probs[::2]).any(-1)

  def accepted(self, state: State, tokens: jax.Array) -> jax.Array:
    """[B, M] bool; see core.Machine."""
    return sessions.accepts(self.accept, state.log_probs[1::2], tokens)

  def advance(self, state: State, tokens: jax.Array) -> State:
    """One step of both sides."""
    # What the first prefix drew is put to the second one too.
    both = jnp.repeat(tokens, 2, axis=0)
    pages, log_probs = sessions.decode(
      self.spec,
      self.params,
      state.prefix,
      state.pages,
      state.log_probs,
      both,
      state.prefix_len,
      state.added,
    )
    added = state.added + (both != core.DEAD)
    return state._replace(pages=pages, log_probs=log_probs, added=added)


def bucketed(
  spec: NetworkSpec, prefixes: np.ndarray, lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Prefixes [T, 2, L] cut or padded to the bucket of the longest, lengths.

  Raises:
    InputError: a prefix is too long, or has unknown tokens.
  """
  flat = prefixes.reshape(-1, prefixes.shape[-1])
  tiles.check_tokens(spec, flat, lengths.reshape(-1))
  bucket = tiles.buckets(spec)
  length = int(bucket[np.searchsorted(bucket, lengths.max())])
  flat = tiles.padded(flat, lengths.reshape(-1), len(flat), length)
  return flat.reshape(*lengths.shape, length), lengths.astype(np.int32)
