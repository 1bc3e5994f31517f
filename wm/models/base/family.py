"""A family's spec and its blocks: fields, their checks, predictors, rows.

A family of networks is one file: a `Model` (a `NetworkModel`: fields and
`build`) and a `Network` (a Flax NNX module, see `nn.network`), mostly a `Stack`
of blocks between an embedding and a head.

With `patch` tokens a row, a network of any family that stacks blocks reads each
row of tokens as one position, for instance the x and y of a body (patch=2). A
row of pads precedes the first row:

  tokens      |  0    1  |  2    3  |  4    5  | ...
  rows    pads|  row 0   |  row 1   |  row 2   | ...
  stream   s0 |    s1    |    s2    |    s3    | ...
  heads       |s0.1 s1.0 |s1.1 s2.0 |s2.1 s3.0 | ...   what follows each token

Each place in a row has its own embedding table. The embeddings of a row are
concatenated and mixed by a linear map; each token of the next row has its own
head (Vafa et al. 2025, inductive bias probes, models of orbits). So y does not
see its own x. Within an unfinished row, hidden states are those of the row
before. Shape letters as in `layers`; K tokens of a
row, Y rows.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from wm import core
from wm.core.fields import field
from wm.models.nn import layers, network
from wm.models.serving import networks

DTYPES = ('float32', 'bfloat16')
LARGEST = 2**31 - 1  # Largest array index, and largest sum of sizes.
OBJECTS = 20_000  # Bytes of a layer's Python modules and compiled code.


class NetworkModel(core.Trainable):
  """A family's spec; subclasses are frozen dataclasses."""

  gives: ClassVar[tuple[type, ...]] = (
    networks.NetworkPredictor,
    networks.NetworkStatePredictor,
  )

  def predictor(
    self, world: core.World, seed: int
  ) -> networks.NetworkPredictor:
    """A predictor with random weights."""
    self.check_world(world)
    spec = network.NetworkSpec(self, len(world.vocab), world.max_len)
    placement = network.placements(spec.num_bytes, jax.local_devices())[0]
    params = network.init(spec, seed, placement)
    return networks.NetworkPredictor(
      self, params, len(world.vocab), world.end, world.max_len
    )

  def cost(self, world: core.World | None = None) -> core.Cost:
    """See core.Bounded: the memory of all weights, given a world's vocabulary.

    Without a world, a lower bound: one dense map and the module objects of
    each layer, for families with the fields `layers` and `width`.
    """
    sizes = {k: x for k, x in vars(self).items() if k in ('layers', 'width')}
    layers, width = sizes.get('layers', 1), sizes.get('width', 1)
    # A lower bound: enough to refuse sizes that no machine has.
    memory = layers * (4 * width**2 + OBJECTS)
    if world is not None:
      spec = network.NetworkSpec(self, len(world.vocab), world.max_len)
      memory = 4 * spec.num_params
    return core.Cost(memory, 0, tuple(sizes))

  def __post_init__(self) -> None:
    """Raises InputError for sizes larger than any array index."""
    for name, value in vars(self).items():
      # Checked first: in later checks, products of such sizes would overflow.
      if isinstance(value, int) and value > LARGEST:
        raise self.error(f'{name}={value}; expected at most {LARGEST}')
    super().__post_init__()

  def error(self, text: str) -> core.InputError:
    """An InputError about the model's fields."""
    return core.InputError(f'{self.name}: {text}')


class Stack(network.Network):
  """Embedding, blocks, final norm and head; a subclass runs the blocks.

  Attributes:
    model: the spec, with `layers`, `dtype` and `remat`.
    embedding: token embeddings.
    blocks: run one after the other, unless a subclass overrides this.
    final: norm after the blocks, or None.
    head: output map, or None where the head is tied to the embedding table.
    tied_bias: [V], added to tied logits, or None; only without a head.
    mix: map of a row's embeddings, where positions are rows; see `RowModel`.
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
    # Mixed embeddings keep the mean square of single ones.
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
    # Stacked tables [K V, D]: place k of a row looks up id + k V.
    num = tokens_X.shape[-1]  # K, the number of tables.
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
    """Runs blocks first, .., last - 1 on the stream; returns the stream.

    keys: of dropout, one for each block of the stack.
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
    """The stream after a block, given as nnx.split left it; see `remat`."""

    def block(params: Any, x_BLD: jax.Array, key: Any) -> jax.Array:
      # Blocks return (stream, cache or state); training needs only the stream.
      params = layers.gathered(params)
      return nnx.merge(graph, params)(x_BLD, key=key)[0]

    # Only the stream between blocks is stored for the backward pass.
    block = jax.checkpoint(block) if self.model.remat else block
    return block(params, x_BLD, key)

  def __call__(
    self, tokens_BL: jax.Array, key: jax.Array | None = None
  ) -> jax.Array:
    """Logits [B, L, V] float32; dropout only with a key."""
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
    """See `network.Network`; the last block runs mostly at these places."""
    # Earlier blocks run at every place, since later places read them.
    x_BLD = self.stream(tokens_BL, self.num_layers - 1)
    return self.logits(self.end(x_BLD, places_BP))

  def end(self, x_BLD: jax.Array, places_BP: jax.Array) -> jax.Array:
    """Runs the last block; returns the stream [B, P, D] at some places."""
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
    """Logits [B, L, V] from the output of `hidden`, or from a patched one."""
    del tokens_BL  # The stream already contains them.
    if layer == -1:
      return self.read(x_BLD)
    keys = [None] * self.num_layers
    return self.logits(self.through(x_BLD, layer, self.num_layers, keys))

  def normed(self, x_XD: jax.Array) -> jax.Array:
    """The stream after the final norm, if any."""
    return x_XD if self.final is None else self.final(x_XD)

  def logits(self, x_XD: jax.Array) -> jax.Array:
    """Final norm and head: [..., V] float32."""
    return self.read(self.normed(x_XD))

  def read(self, x_XD: jax.Array) -> jax.Array:
    """Logits [..., V] float32 from the output of the final norm."""
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


@dataclasses.dataclass(frozen=True)
class RowModel(NetworkModel):
  """A family whose networks may read rows of tokens as one position.

  Attributes:
    patch: tokens per row, hence per position; 1 reads tokens one by one.
      Worlds of moving bodies have rows of 2 tokens; others have no rows.
  """

  patch: int = field(1, least=1, kw_only=True)

  def check_world(self, world: core.World) -> None:
    """Raises InputError unless the world has rows of `patch` tokens.

    See core.Trainable.
    """
    width = core.capabilities.row_width(world)
    if self.patch not in (1, width):
      rows = f'rows of {width} tokens' if width > 1 else 'no rows of tokens'
      raise self.error(
        f'patch={self.patch}, but {world.name} has {rows}; expected patch='
        + ' or '.join(map(str, sorted({1, width})))
      )

  def num_positions(self, max_len: int) -> int:
    """Positions of sequences of max_len tokens, with the row of pads."""
    # 1 for the row of pads, from which the first row is predicted.
    return max_len if self.patch == 1 else 1 + max_len // self.patch

  def build(
    self, vocab_size: int, max_len: int, rngs: nnx.Rngs, outputs: int = 0
  ) -> network.Network:
    """The network with fresh weights; see core.Trainable."""
    sizes = vocab_size, self.num_positions(max_len), rngs, outputs
    net = self.bare(*sizes)
    return net if self.patch == 1 else RowNetwork(net, self.patch)

  @abc.abstractmethod
  def bare(
    self, vocab_size: int, positions: int, rngs: nnx.Rngs, outputs: int = 0
  ) -> Stack:
    """Embedding, blocks and head, for sequences of `positions` positions."""


class RowCache(NamedTuple):
  """The state after reading prefixes, or a page of continuations.

  Pages after page 0 use only the field `cache`.

  Attributes:
    cache: of the blocks, after the last whole row.
    stream: residual stream after that row.
    begun: int32 tokens of the unfinished row, each in its place.
  """

  cache: Any
  stream: jax.Array
  begun: jax.Array


class RowNetwork(network.StatefulNetwork):
  """A stack of blocks that reads rows but is queried token by token."""

  def __init__(self, net: Stack, patch: int):
    self.stack, self.patch = net, patch
    self.num_layers, self.width = net.num_layers, net.width

  # Tokens and rows.

  def rows(self, tokens_BL: jax.Array) -> jax.Array:
    """[B, 1 + L // K, K]: pads, then all whole rows."""
    batch, length = tokens_BL.shape
    # An unfinished row is not read: the last whole row predicts its tokens.
    whole = tokens_BL[:, : length - length % self.patch]
    pads = jnp.full((batch, self.patch), core.PAD, tokens_BL.dtype)
    return jnp.concatenate([pads, whole], 1).reshape(batch, -1, self.patch)

  def by_token(self, values_BYKX: jax.Array, length: int) -> jax.Array:
    """[B, Y, K, ...] values before each token -> [B, L, ...] after each."""
    # [B, Y K, ...]: entry n holds before token n, so entry n + 1 holds after
    # it.
    flat = values_BYKX.reshape(len(values_BYKX), -1, *values_BYKX.shape[3:])
    return flat[:, 1 : length + 1]

  def heads(self, x_XD: jax.Array) -> jax.Array:
    """[..., K, outputs] logits of each token of the next row.

    x_XD: the stream after the final norm.
    """
    # One product for the K heads, [..., K V].
    flat = self.stack.read(x_XD)
    return flat.reshape(*flat.shape[:-1], self.patch, -1)

  # Whole sequences.

  def __call__(
    self, tokens_BL: jax.Array, key: jax.Array | None = None
  ) -> jax.Array:
    """See `network.Network`."""
    rows = self.rows(tokens_BL)
    x_BYD = self.stack.stream(rows, self.num_layers, key)
    return self._logits(tokens_BL, self.stack.normed(x_BYD))

  def _logits(self, tokens_BL: jax.Array, x_BYD: jax.Array) -> jax.Array:
    """Logits [B, L, V] from the normed streams of pads and rows."""
    return self.by_token(self.heads(x_BYD), tokens_BL.shape[1])

  def hidden(self, tokens_BL: jax.Array, layer: int) -> jax.Array:
    """Stream [B, L, D] of the last whole row; see `network.Network`."""
    x_BYD = self.stack.hidden(self.rows(tokens_BL), layer)
    # The tokens of an unfinished row have the stream of the row before.
    each = jnp.repeat(x_BYD[:, :, None], self.patch, 2)
    return self.by_token(each, tokens_BL.shape[1])

  def resume(
    self, tokens_BL: jax.Array, layer: int, x_BLD: jax.Array
  ) -> jax.Array:
    """See `network.Network`; a row takes the stream at its last token."""
    # The row of pads has no token: it takes the stream at the first token.
    last = jnp.arange(1 + x_BLD.shape[1] // self.patch) * self.patch - 1
    x_BYD = x_BLD[:, jnp.maximum(last, 0)]
    if layer != -1:
      rest = [None] * self.num_layers
      x_BYD = self.stack.through(x_BYD, layer, self.num_layers, rest)
      x_BYD = self.stack.normed(x_BYD)
    return self._logits(tokens_BL, x_BYD)

  # Sessions.

  def prefill(
    self, tokens_RP: jax.Array, lengths_R: jax.Array
  ) -> tuple[Any, jax.Array]:
    """See `network.Network`."""
    # 1 + whole: the blocks read the row of pads and all whole rows.
    whole_R = lengths_R // self.patch
    cache, x_RD = self.stack.absorb(self.rows(tokens_RP), 1 + whole_R)
    place = whole_R[:, None] * self.patch + jnp.arange(self.patch)[None]
    last = tokens_RP.shape[1] - 1  # Later places are clipped and not used.
    begun = jnp.take_along_axis(tokens_RP, jnp.minimum(place, last), 1)
    prefix = RowCache(cache, x_RD.astype(jnp.float32), begun)
    return prefix, self._after(x_RD, lengths_R)

  def _after(self, x_XD: jax.Array, count_X: jax.Array) -> jax.Array:
    """Logits [..., V] after `count` tokens of a sequence."""
    logits_XKV = self.heads(self.stack.normed(x_XD))
    # The head of the next token's place in its row.
    place_X = (count_X % self.patch)[..., None, None]
    return jnp.take_along_axis(logits_XKV, place_X, -2)[..., 0, :]

  def page_size(self, max_len: int) -> int:
    """Tokens of a page, in whole rows; see `network.Network`."""
    # A page of the blocks has one position per row of K tokens.
    return self.patch * self.stack.page_size(1 + max_len // self.patch)

  def new_page(self, rows: int, num: int, size: int) -> Any:
    """See `network.Network`."""
    return RowCache(
      self.stack.new_page(rows, num, size // self.patch),
      jnp.zeros((rows, num, self.width)),
      jnp.zeros((rows, num, self.patch), jnp.int32),
    )

  def restart(
    self, pages: list[Any], prefix: Any, fresh_RM: jax.Array
  ) -> list[Any]:
    """The prefix's state in each fresh continuation."""
    caches = [page.cache for page in pages]
    if isinstance(self.stack, network.StatefulNetwork):
      caches = self.stack.restart(caches, prefix.cache, fresh_RM)
    # [R, M, 1], against stream [R, M, D] and begun [R, M, K].
    wide = fresh_RM[..., None]
    first = RowCache(
      caches[0],
      jnp.where(wide, prefix.stream[:, None], pages[0].stream),
      jnp.where(wide, prefix.begun[:, None], pages[0].begun),
    )
    others = [
      page._replace(cache=cache)
      for page, cache in zip(pages[1:], caches[1:], strict=True)
    ]
    return [first, *others]

  def decode(
    self, prefix: Any, pages: list[Any], step: network.DecodeStep
  ) -> tuple[list[Any], jax.Array]:
    """See `network.Network`; blocks run where a continuation ends a row."""
    # count            4       5         tokens so far, rows of K = 2
    # place in row     0       1
    # begun        [t4, .] [t4, t5]      t5 ends the row: the blocks read it
    count_RM = step.prefix_len[:, None] + step.added
    places = jnp.arange(self.patch)[None, None]
    written = places == (count_RM % self.patch)[..., None]
    begun = jnp.where(
      written & step.moved[..., None], step.tokens[..., None], pages[0].begun
    )
    ends = step.moved & written[..., -1]
    # The blocks count rows: those of the prefix with the pads, and `added`,
    # the rows read since.
    before_R = step.prefix_len // self.patch
    added = count_RM // self.patch - before_R[:, None]
    by_row = network.DecodeStep(begun, 1 + before_R, added, ends)
    # The blocks need not run in steps in which no row ends.
    caches, x_RMD = jax.lax.cond(
      ends.any(),
      lambda caches, x_RMD: self._read_row(prefix, caches, x_RMD, by_row),
      lambda caches, x_RMD: (caches, x_RMD),
      [page.cache for page in pages],
      pages[0].stream,
    )
    pages = [
      page._replace(cache=cache)
      for page, cache in zip(pages, caches, strict=True)
    ]
    pages[0] = pages[0]._replace(stream=x_RMD, begun=begun)
    return pages, self._after(x_RMD, count_RM + 1)

  def _read_row(
    self,
    prefix: Any,
    caches: list[Any],
    x_RMD: jax.Array,
    step: network.DecodeStep,
  ) -> tuple[list[Any], jax.Array]:
    """Caches and stream, updated for continuations whose row has ended."""
    caches, new = self.stack.append(prefix.cache, caches, step)
    return caches, jnp.where(step.moved[..., None], new, x_RMD)
