"""The methods that a network defines, for training and for predictions.

From `__call__` alone it can be trained; from `hidden` and `resume` it gets
probes and interventions, from `prefill`, `new_page` and `decode` (and
`restart`) sessions, for attention (caches that grow) and recurrences (states
of constant size) alike. A `Stack` has all these from the blocks of a family.
Shape letters as in `layers`.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import NamedSharding

from wm import core
from wm.core import registry, resources
from wm.models.nn import layers, placement

SMALL = 5_000_000  # Parameters below which compiling costs more than pads.


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
  recalls = False  # Has it the states that `recall` reads?

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

  def recall(
    self, tokens_BL: jax.Array, layer: int, shift_BLD: jax.Array | None = None
  ) -> tuple[jax.Array, jax.Array]:
    """States [B, L, D] float32 of a recurrence, and logits [B, L, V].

    Args:
      tokens_BL: read one after the other.
      layer: block 1, 2, ... whose state is meant; -1 is all, side by side.
      shift_BLD: added to the state after each token.
    """
    raise _undefined(self, 'recall')

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
  def shapes(self) -> dict[str, jax.ShapeDtypeStruct]:
    """Path -> shape and dtype of each parameter."""
    return flatten(self.abstract)

  def tree(self, params: dict[str, Any]) -> Any:
    """Parameters by path as the network's own tree."""
    leaves = [params[path] for path in paths(self.abstract)]
    return jax.tree.unflatten(jax.tree.structure(self.abstract), leaves)

  @functools.cached_property
  def buckets(self) -> np.ndarray:
    """Lengths that rows are padded to, ascending; the last is max_len."""
    # One bucket is one program; four cut the padding of large networks.
    if self.num_params < SMALL:
      return np.array([self.max_len])
    return np.unique([-(-self.max_len * n // 4) for n in (1, 2, 3, 4)])

  def check_ids(self, tokens: np.ndarray) -> None:
    """Raises InputError for ids [N] outside the vocabulary."""
    wrong = tokens[(tokens < 0) | (tokens >= self.vocab_size)]
    if wrong.size:
      raise core.InputError(
        f'token {wrong[0]}: the model has ids 0 to {self.vocab_size - 1}'
      )

  def check_tokens(self, tokens: np.ndarray, lengths: np.ndarray) -> None:
    """Raises InputError for ids outside the vocabulary or too long rows."""
    self.check_ids(tokens[np.arange(tokens.shape[1]) < lengths[:, None]])
    if lengths.size and lengths.max() > self.max_len:
      raise core.InputError(
        f'a sequence of {lengths.max()} tokens: the model takes up to '
        f'{self.max_len}'
      )

  @property
  def num_params(self) -> int:
    """Parameters, counted without allocating them."""
    return sum(leaf.size for leaf in jax.tree.leaves(self.abstract))

  @property
  def num_bytes(self) -> int:
    """Bytes of all parameters."""
    leaves = jax.tree.leaves(self.abstract)
    return sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)


def paths(tree: Any) -> list[str]:
  """Dotted paths of the leaves of a pytree, in its own order."""
  # ('blocks', 0, 'mlp', 'kernel', 'value') -> 'blocks.0.mlp.kernel'
  leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
  names = [
    jax.tree_util.keystr(path, simple=True, separator='.') for path, _ in leaves
  ]
  # NNX variables hold their array under a last key of their own.
  return [
    name.removesuffix('.value').removesuffix('.raw_value') for name in names
  ]


def flatten(tree: Any) -> dict[str, Any]:
  """Path -> leaf."""
  return dict(zip(paths(tree), jax.tree.leaves(tree), strict=True))


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
  # Under a mesh weights are divided, and perhaps only compiled for.
  if jax.default_backend() == 'cpu' and not layers.divided():
    leaves = jax.tree.leaves(state)
    size = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves)
    # Refused here by name, not by the kernel's out-of-memory killer.
    what = f'weights of {registry.spec(spec.model)}'
    resources.require_memory(size // jax.process_count(), what)
  return graph, state


@functools.partial(jax.jit, static_argnums=0)
def _init(spec: NetworkSpec, seed: jax.Array) -> nnx.State:
  return nnx.split(spec.build(nnx.Rngs(jax.random.key(seed))))[1]


def init(
  spec: NetworkSpec, seed: int, place: placement.Place | None = None
) -> nnx.State:
  """Fresh weights; at a group of devices each makes its own part of them."""
  if not isinstance(place, NamedSharding):
    return _init(spec, np.uint32(seed % 2**32))
  where = spec.tree(placement.of_weights(spec.shapes, place))
  divided = jax.jit(_init, static_argnums=0, out_shardings=where)
  weights: nnx.State = divided(spec, np.uint32(seed % 2**32))
  return weights


class Stack(Network):
  """Embedding, blocks, final norm and head; a subclass runs the blocks.

  Attributes:
    model: the spec, with `layers`, `dtype` and `remat`.
    embedding: of tokens.
    blocks: one after the other, unless a subclass runs them otherwise.
    final: norm after the blocks, or None.
    head: or None, where logits are products with the embedding table.
    tied_bias: [V], added to these products, or None; without a head only.
    mix: of the embeddings of a row, where positions are rows; see `RowModel`.
  """

  embedding: layers.Embedding
  blocks: Any
  final: layers.Norm | None
  head: layers.Linear | None
  tied_bias: nnx.Param[jax.Array] | None
  mix: layers.Linear | None

  def __init__(self, model: Any, rngs: nnx.Rngs):
    self.model, self.num_layers = model, model.layers
    # mix [K D, D]: the K embeddings of a row, side by side, become one stream.
    self.width, inputs = model.width, model.patch * model.width
    # What embeddings are mixed to has their mean square.
    mix = {'scale': inputs**-0.5}
    self.mix = (
      layers.Linear((inputs,), (self.width,), rngs, **mix)
      if model.patch > 1
      else None
    )

  def look_up(self, tokens_X: jax.Array) -> jax.Array:
    """Embeddings [*X, D] of tokens [*X], or of rows [*X, K] where mixed."""
    table = self.embedding.table[...]
    if self.mix is None:
      return table[tokens_X]
    # table [K V, D]: place k of a row looks up id + k V.
    num = tokens_X.shape[-1]  # A table for each place of a row, stacked.
    start_K = jnp.arange(num) * (len(table) // num)
    x_XKD = table[tokens_X + layers.along(start_K, tokens_X)]
    return self.mix(x_XKD.reshape(*x_XKD.shape[:-2], -1))

  @abc.abstractmethod
  def stream(
    self, tokens_BL: jax.Array, depth: int, key: jax.Array | None = None
  ) -> jax.Array:
    """The residual stream [B, L, D] after `depth` blocks."""

  def through(
    self,
    x_BLD: jax.Array,
    first: int,
    last: int,
    keys: Sequence[jax.Array | None],
  ) -> jax.Array:
    """The stream after blocks first, .., last - 1, given that before them.

    keys: of dropout, for each of all blocks.
    """
    for number in range(first, last):
      x_BLD = self.run(*nnx.split(self.blocks[number]), x_BLD, keys[number])
    return x_BLD

  @abc.abstractmethod
  def absorb(
    self, tokens_RP: jax.Array, lengths_R: jax.Array
  ) -> tuple[Any, jax.Array]:
    """Prefills the cache; returns final hidden states [R, D], not logits."""

  @abc.abstractmethod
  def append(
    self, prefix: Any, pages: list[Any], step: DecodeStep
  ) -> tuple[list[Any], jax.Array]:
    """As `decode`, with the stream [R, M, D] in place of the logits."""

  def prefill(
    self, tokens_RP: jax.Array, lengths_R: jax.Array
  ) -> tuple[Any, jax.Array]:
    """See `network.Network`."""
    prefix, x_RD = self.absorb(tokens_RP, lengths_R)
    return prefix, self.logits(x_RD)

  def decode(
    self, prefix: Any, pages: list[Any], step: DecodeStep
  ) -> tuple[list[Any], jax.Array]:
    """See `network.Network`."""
    pages, x_RMD = self.append(prefix, pages, step)
    return pages, self.logits(x_RMD)

  def run(
    self, graph: Any, params: Any, x_BLD: jax.Array, key: jax.Array | None
  ) -> jax.Array:
    """The stream after the block that nnx.split parted so; see `remat`."""

    def block(params: Any, x_BLD: jax.Array, key: Any) -> jax.Array:
      # Of (stream, cache or state) training needs the stream alone.
      return nnx.merge(graph, params)(x_BLD, key=key)[0]

    # Only the stream between blocks is kept for the backward pass.
    block = jax.checkpoint(block) if self.model.remat else block
    return block(params, x_BLD, key)

  def __call__(
    self, tokens_BL: jax.Array, key: jax.Array | None = None
  ) -> jax.Array:
    """Logits [B, L, V] float32; dropout only where a key is given."""
    return self.logits(self.stream(tokens_BL, self.num_layers, key))

  def parts(
    self, tokens_BL: jax.Array, key: jax.Array | None, sizes: layers.Sizes
  ) -> list[jax.Array]:
    """See `network.Network`."""
    if self.head is None:
      return super().parts(tokens_BL, key, sizes)
    x_BLD = self.normed(self.stream(tokens_BL, self.num_layers, key))
    parts = self.head.split(x_BLD.astype(self.model.dtype), sizes)
    return [part.astype(jnp.float32) for part in parts]

  def at(self, tokens_BL: jax.Array, places_BP: jax.Array) -> jax.Array:
    """See `network.Network`; most of the last block is at these places only."""
    # All blocks but the last need every place: later places read them.
    x_BLD = self.stream(tokens_BL, self.num_layers - 1)
    return self.logits(self.end(x_BLD, places_BP))

  def end(self, x_BLD: jax.Array, places_BP: jax.Array) -> jax.Array:
    """The stream [B, P, D] after the last block, given that before it."""
    keys = [None] * self.num_layers
    x_BLD = self.through(x_BLD, self.num_layers - 1, self.num_layers, keys)
    return layers.taken(x_BLD, places_BP)

  def hidden(self, tokens_BL: jax.Array, layer: int) -> jax.Array:
    """Stream [B, L, D] after `layer` blocks; -1 after the final norm."""
    if layer == -1:
      x_BLD = self.normed(self.stream(tokens_BL, self.num_layers))
    else:
      x_BLD = self.stream(tokens_BL, layer)
    return x_BLD.astype(jnp.float32)

  def resume(
    self, tokens_BL: jax.Array, layer: int, x_BLD: jax.Array
  ) -> jax.Array:
    """Logits [B, L, V] from what `hidden` gives, or something else, on."""
    del tokens_BL  # All that is known of them is in the stream.
    if layer == -1:
      return self.read(x_BLD)
    keys = [None] * self.num_layers
    return self.logits(self.through(x_BLD, layer, self.num_layers, keys))

  def normed(self, x_XD: jax.Array) -> jax.Array:
    """After the final norm, where there is one."""
    return x_XD if self.final is None else self.final(x_XD)

  def place_logits(self, x_XKD: jax.Array) -> jax.Array:
    """As `read`, [..., K, V], of a row's K places, each with its own stream."""
    places = x_XKD.shape[-2]
    assert self.head is not None  # It is tied nowhere where rows are read.
    x_XKD = x_XKD.astype(self.model.dtype)
    # Of the head's K V columns, place k reads k V to (k + 1) V.
    kernel_DKV = self.head.kernel[...].reshape(self.width, places, -1)
    kernel_DKV = kernel_DKV.astype(x_XKD.dtype)
    logits_XKV = jnp.einsum('...kd,dkv->...kv', x_XKD, kernel_DKV)
    if self.head.bias is not None:
      bias_KV = self.head.bias[...].reshape(places, -1)
      logits_XKV += layers.along(bias_KV, logits_XKV)
    return layers.constrain(logits_XKV).astype(jnp.float32)

  def logits(self, x_XD: jax.Array) -> jax.Array:
    """Final norm and head: [..., V] float32."""
    return self.read(self.normed(x_XD))

  def read(self, x_XD: jax.Array) -> jax.Array:
    """Logits [..., V] float32 of what the final norm gives."""
    x_XD = x_XD.astype(self.model.dtype)
    if self.head is not None:
      return self.head(x_XD).astype(jnp.float32)
    # Tied: a token's logit is the product of the stream with its embedding.
    table_VD = self.embedding.table[...].astype(x_XD.dtype)
    logits_XV = jnp.einsum('...d,vd->...v', x_XD, table_VD)
    if self.tied_bias is not None:
      logits_XV += layers.along(self.tied_bias[...], logits_XV).astype(
        x_XD.dtype
      )
    return layers.constrain(logits_XV).astype(jnp.float32)
