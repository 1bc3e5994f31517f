"""The methods that a network defines, for training and for predictions.

From `__call__` alone it can be trained; from `hidden` and `resume` it gets
probes and interventions, from `prefill`, `new_page` and `decode` (and
`restart`) sessions, for attention (caches that grow) and recurrences (states
of constant size) alike. Shape letters as in `layers`.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
from typing import Any, NamedTuple, cast

import jax
import numpy as np
from flax import nnx

from wm import core
from wm.core import registry, resources
from wm.models.nn import layers


class DecodeStep(NamedTuple):
  """One more token of each continuation.

  Attributes:
    tokens: [R, M] int32.
    prefix_len: [R] int32, tokens of the prefix.
    added: [R, M] int32, tokens appended to it so far.
    moved: [R, M] bool, False where a continuation stays as it was and its
      logits are not used.
  """

  tokens: jax.Array
  prefix_len: jax.Array
  added: jax.Array
  moved: jax.Array


class Network(nnx.Module):
  """A network of a family; tokens are int32, logits float32.

  Pads come only at the end of a row and the network is causal, so there is
  no mask.
  """

  num_layers: int

  @abc.abstractmethod
  def __call__(
    self, tokens_BL: jax.Array, key: jax.Array | None = None
  ) -> jax.Array:
    """Logits [B, L, V] of each next token; dropout only with a key."""

  def parts(
    self, tokens_BL: jax.Array, key: jax.Array | None, sizes: layers.Sizes
  ) -> list[jax.Array]:
    """The logits as `layers.cut` does; a family may do without a cut."""
    return layers.cut(self(tokens_BL, key), sizes)

  def at(self, tokens_BL: jax.Array, places_BP: jax.Array) -> jax.Array:
    """Logits [B, P, V] at some places; a family may do without the others."""
    return layers.taken(self(tokens_BL), places_BP)

  def hidden(self, tokens_BL: jax.Array, layer: int) -> jax.Array:
    """[B, L, D] float32 after `layer` layers; -1 after the final norm."""
    raise _undefined(self, 'hidden')

  def resume(
    self, tokens_BL: jax.Array, layer: int, x_BLD: jax.Array
  ) -> jax.Array:
    """Logits [B, L, V] where `hidden` were x_BLD, of those tokens."""
    raise _undefined(self, 'resume')

  def prefill(
    self, tokens_RP: jax.Array, lengths_R: jax.Array
  ) -> tuple[Any, jax.Array]:
    """Reads prefixes: the cache they leave, and logits [R, V] after them.

    The cache is a tree of arrays [R, ...], whose other dimensions may grow
    with P; that of a recurrence is the state after the prefix.
    """
    raise _undefined(self, 'prefill')

  def page_size(self, max_len: int) -> int:
    """Tokens that one page of a continuation's cache has room for.

    Pages are made as continuations grow, up to `max_len` tokens. A recurrence
    needs but one, whatever it holds: the default.
    """
    return max_len

  def new_page(self, rows: int, num: int, size: int) -> Any:
    """An empty page for `size` tokens: a tree of arrays [R, M, ...]."""
    raise _undefined(self, 'new_page')

  def decode(
    self, prefix: Any, pages: list[Any], step: DecodeStep
  ) -> tuple[list[Any], jax.Array]:
    """Appends a token to each continuation: pages after it, logits [R, M, V].

    prefix: the cache from `prefill`.
    pages: those so far, with room for one more token.
    """
    raise _undefined(self, 'decode')


class StatefulNetwork(Network):
  """A network whose continuations hold states, as recurrences do.

  Attention sees as many positions as there are tokens, so what is left in its
  pages does not matter; a state must be put back when a row restarts.
  """

  @abc.abstractmethod
  def restart(
    self, pages: list[Any], prefix: Any, fresh_R: jax.Array
  ) -> list[Any]:
    """Pages with the prefix's state in each continuation of a fresh row."""


def _undefined(network: Network, method: str) -> core.InputError:
  kind = type(network).__name__
  return core.InputError(f'{kind} defines no {method}: it can be trained only')


@dataclasses.dataclass(frozen=True)
class NetworkSpec:
  """The structure of a network, a static argument of jitted functions.

  Attributes:
    model: builds it.
    vocab_size, max_len, outputs: arguments of `build`.
  """

  model: core.Trainable
  vocab_size: int
  max_len: int
  outputs: int = 0

  def build(self, rngs: nnx.Rngs) -> Network:
    """The network with fresh weights."""
    sizes = self.vocab_size, self.max_len, rngs, self.outputs
    # core knows of no `Network`: what a family builds is one by contract.
    return cast(Network, self.model.build(*sizes))

  @property
  def graph(self) -> nnx.GraphDef:
    """The network without its weights."""
    return _structure(self)[0]

  @property
  def abstract(self) -> nnx.State:
    """Shapes and dtypes of the weights."""
    return _structure(self)[1]

  @property
  def network(self) -> Network:
    """The network with shapes in place of weights."""
    return nnx.merge(self.graph, self.abstract)

  @property
  def num_params(self) -> int:
    """Parameters, counted without allocating them."""
    return sum(leaf.size for leaf in jax.tree.leaves(self.abstract))


def max_supported_length(spec: NetworkSpec, length: int) -> int:
  """Longest sequences that weights of this spec suit, as far as `length`.

  At least the spec's max_len; `length` where no parameter depends on it (a
  recurrence, rotary positions), so that a network trained on short sequences
  can be asked about long ones.
  """
  # What was built for max_len takes anything shorter.
  if length <= spec.max_len:
    return spec.max_len
  try:
    longer = dataclasses.replace(spec, max_len=length).abstract
  except core.InputError:  # The family says that it is too long.
    return spec.max_len
  # Equal shapes: no parameter grows with the length, so the weights fit.
  sizes = [
    [leaf.shape for leaf in jax.tree.leaves(tree)]
    for tree in (spec.abstract, longer)
  ]
  return length if sizes[0] == sizes[1] else spec.max_len


@functools.lru_cache(maxsize=64)
def _structure(spec: NetworkSpec) -> tuple[nnx.GraphDef, nnx.State]:
  # Traced, not run: shapes cost no memory, whatever the model's size.
  graph, state = nnx.split(nnx.eval_shape(lambda: spec.build(nnx.Rngs(0))))
  if jax.default_backend() == 'cpu':
    leaves = jax.tree.leaves(state)
    size = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves)
    # Refused here by name, not by the kernel's out-of-memory killer.
    what = f'weights of {registry.spec(spec.model)}'
    resources.require_memory(size // jax.process_count(), what)
  return graph, state


@functools.partial(jax.jit, static_argnums=0)
def _init(spec: NetworkSpec, seed: jax.Array) -> nnx.State:
  return nnx.split(spec.build(nnx.Rngs(jax.random.key(seed))))[1]


def init(spec: NetworkSpec, seed: int) -> nnx.State:
  """Fresh weights."""
  return _init(spec, np.uint32(seed % 2**32))
