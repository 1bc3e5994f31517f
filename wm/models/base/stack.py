"""Embedding, final norm and head, of transformers and recurrences alike."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from wm.models.nn import layers, network


class Stack(network.Network):
  """Embedding, blocks, final norm and head; a subclass runs the blocks.

  Attributes:
    model: the spec, with `layers`, `dtype` and `remat`.
    embedding: of tokens.
    blocks: one after the other, unless a subclass runs them otherwise.
    final: norm after the blocks, or None.
    head: or None, where logits are products with the embedding table.
    tied_bias: [V], added to these products, or None; without a head only.
    mix: of the embeddings of a row, where positions are rows; see `rows`.
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
    self, prefix: Any, pages: list[Any], step: network.DecodeStep
  ) -> tuple[list[Any], jax.Array]:
    """As `decode`, with the stream [R, M, D] in place of the logits."""

  def prefill(
    self, tokens_RP: jax.Array, lengths_R: jax.Array
  ) -> tuple[Any, jax.Array]:
    """See `network.Network`."""
    prefix, x_RD = self.absorb(tokens_RP, lengths_R)
    return prefix, self.logits(x_RD)

  def decode(
    self, prefix: Any, pages: list[Any], step: network.DecodeStep
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
