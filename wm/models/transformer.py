"""Decoder-only transformers: GPT-2 style by default, others by fields.

GPT-2 (Radford et al. 2019, as trained by Vafa et al. 2024, appendix D): learned
positions, layer norm before each part, GELU, biases, tied head. LLaMA (Touvron
et al. 2023): `positions='rotary', norm='rms', mlp='swiglu', tied=False`, and
no biases. Vafa et al. 2025: as GPT-2, with `mlp='gelu_erf', head_bias=True`.
Chess (Walker and Lyons 2026): as LLaMA, with `biases=True,
head_bias=True, ratio=4, epsilon=1e-6, init='torch', dropout=0.1`; their runs
have `positions='rotary_published'`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from wm.core.fields import field
from wm.kernels import attention as kernel
from wm.models.base import family
from wm.models.nn import layers, network
from wm.runtime import compute

# Kinds of positions that rotate queries and keys; see `rotate`.
KINDS = ('rotary', 'rotary_published')


def rotate(
  x_XHC: jax.Array, positions_X: jax.Array, *, published: bool = False
) -> jax.Array:
  """Rotates channel pairs (c, c + C/2) by position * 10000^(-2c/C) radians.

  Su et al. 2021: norms do not change, and the product of a rotated query and
    key
  depends only on their distance. `published` is the program of Walker and Lyons
  2026: angles as above, but neighbours (2c, 2c + 1) are mixed, each with its
    own
  angle. This is not a rotation, and neither property holds.
  """
  # angle of pair c at position p: p * 10000^(-2c/C); slow pairs separate
  # distant positions, fast pairs near ones.
  half = x_XHC.shape[-1] // 2
  rates = 10000.0 ** (-jnp.arange(half, dtype=jnp.float32) / half)
  angles = positions_X[..., None].astype(jnp.float32)
  angles = angles * layers.along(rates, angles)
  cos = jnp.cos(angles)[..., None, None, :].astype(x_XHC.dtype)
  sin = jnp.sin(angles)[..., None, None, :].astype(x_XHC.dtype)
  # The halves form a separate dimension, which avoids a copy.
  halves = x_XHC.reshape(*x_XHC.shape[:-1], 2, half)
  signed = jnp.concatenate([-sin, sin], -2)
  if published:
    pairs = x_XHC.reshape(*x_XHC.shape[:-1], half, 2)
    mixed = jnp.stack([-pairs[..., 1], pairs[..., 0]], -1)
    turned = halves * cos + mixed.reshape(halves.shape) * sin
  else:
    turned = halves * cos + halves[..., ::-1, :] * signed
  return turned.reshape(x_XHC.shape)


# Up to this length, computing all scores at once is as fast as blocks.
_WHOLE = 128
# Backend -> tokens of a block.
_BLOCK, _ELSEWHERE = {'cpu': 64}, 128
_FUSED = range(8, 129, 8)  # Channels of a head that cuDNN supports.

# Finite, so that exp(_NEVER - _NEVER) is not NaN where all keys are masked.
_NEVER = -1e30


def attend(
  q_BLHC: jax.Array,
  k_BLHC: jax.Array,
  v_BLHC: jax.Array,
  rate: float = 0.0,
  key: jax.Array | None = None,
) -> jax.Array:
  """Causal attention [B, L, H, C] of scaled queries; dropout with a key.

  On a GPU, cuDNN computes low precision without dropout. Longer sequences are
  computed in blocks (not timed on accelerators).
  """
  length, channels = q_BLHC.shape[1], q_BLHC.shape[3]
  low = q_BLHC.dtype in (jnp.bfloat16, jnp.float16)
  cudnn = low and channels in _FUSED and (key is None or not rate)
  if cudnn and compute.platform() == 'gpu':
    return jax.nn.dot_product_attention(
      q_BLHC, k_BLHC, v_BLHC, scale=1.0, is_causal=True, implementation='cudnn'
    )
  if length <= _WHOLE:
    return whole(q_BLHC, k_BLHC, v_BLHC, rate, key)
  size = _BLOCK.get(compute.platform(), _ELSEWHERE)
  return kernel.blocks(q_BLHC, k_BLHC, v_BLHC, size, rate, key)


def whole(
  q_BLHC: jax.Array,
  k_BLHC: jax.Array,
  v_BLHC: jax.Array,
  rate: float = 0.0,
  key: jax.Array | None = None,
) -> jax.Array:
  """`attend` with all scores [B, H, L, L] at once."""
  # scores [B, H, L, L]: row l has the scores of query l for all keys m <= l.
  length = q_BLHC.shape[1]
  scores = jnp.einsum('blhc,bmhc->bhlm', q_BLHC, k_BLHC)
  # Softmax in float32: many 16-bit weights would not sum to 1.
  scores = scores.astype(jnp.promote_types(scores.dtype, jnp.float32))
  causal = jnp.tril(jnp.ones((length, length), bool))[None, None]
  weights = jax.nn.softmax(jnp.where(causal, scores, -jnp.inf), axis=-1)
  weights = layers.dropout(weights.astype(v_BLHC.dtype), rate, key)
  return jnp.einsum('bhlm,bmhc->blhc', weights, v_BLHC)


class Partial(NamedTuple):
  """Softmax attention over a subset of keys; disjoint subsets can be merged.

  Attributes:
    top: [...] largest score.
    mass: [...] sum of exp(score - top).
    total: [..., C] values weighted by exp(score - top).
  """

  top: jax.Array
  mass: jax.Array
  total: jax.Array

  def merge(self, other: Partial) -> Partial:
    """Attention over both sets; exactly this one where the other is empty."""
    # Both are rescaled to the larger score, so that no exp overflows.
    top = jnp.maximum(self.top, other.top)
    mine, its = jnp.exp(self.top - top), jnp.exp(other.top - top)
    return Partial(
      top,
      self.mass * mine + other.mass * its,
      self.total * mine[..., None] + other.total * its[..., None],
    )


def partial(scores: jax.Array, seen: jax.Array, values: Any) -> Partial:
  """Attention over the keys [..., K] where `seen`.

  values: maps weights [..., K] to the weighted sums of values [..., C].
  """
  # top [..., 1], weights [..., K]; masked keys have weight 0 exactly.
  scores = jnp.where(seen, scores.astype(jnp.float32), _NEVER)
  top = scores.max(-1)
  weights = jnp.where(seen, jnp.exp(scores - top[..., None]), 0)
  total = values(weights).astype(jnp.float32)
  return Partial(top, weights.sum(-1), total)


class Attention(nnx.Module):
  """Causal multi-head attention, over whole sequences or with a cache.

  positions: queries and keys are rotated if this is one of `KINDS`.
  """

  def __init__(
    self,
    width: int,
    heads: int,
    rngs: nnx.Rngs,
    *,
    positions: str,
    bias: bool,
    scale: float,
    init: str = 'normal',
  ):
    channels, self.positions = width // heads, positions
    linear = functools.partial(layers.Linear, rngs=rngs, bias=bias, init=init)
    self.qkv = linear((width,), (3, heads, channels))
    self.out = linear((heads, channels), (width,), scale=scale)

  def project(
    self, x_XD: jax.Array, positions_X: jax.Array
  ) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Queries (scaled), keys and values, each [..., H, C]."""
    # qkv [D, 3, H, C]: three products, as cutting one product would copy it.
    q, k, v = (part[..., 0, :, :] for part in self.qkv.split(x_XD, (1,) * 3))
    if self.positions in KINDS:
      published = self.positions == 'rotary_published'
      q = rotate(q, positions_X, published=published)
      k = rotate(k, positions_X, published=published)
    # 1 / sqrt(C) is applied here, to L C numbers instead of L^2 scores.
    return q * q.shape[-1] ** -0.5, k, v

  def __call__(
    self, x_BLD: jax.Array, rate: float = 0.0, key: jax.Array | None = None
  ) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    """Output [B, L, D], and the keys and values [B, L, H, C]."""
    q, k, v = self.project(x_BLD, places(x_BLD))
    y_BLHC = attend(q, k, v, rate, key)
    return self.out(y_BLHC), (k, v)

  def at(self, x_BLD: jax.Array, places_BP: jax.Array) -> jax.Array:
    """Output [B, P, D] at some places."""
    # Queries at P places, keys and values at all L: P L scores, not L^2.
    q_BPHC = self.project(layers.taken(x_BLD, places_BP), places_BP)[0]
    _, k, v = self.project(x_BLD, places(x_BLD))
    seen = jnp.arange(x_BLD.shape[1])[None, None] <= places_BP[..., None]
    part = partial(
      jnp.einsum('bphc,blhc->bhpl', q_BPHC, k),
      seen[:, None],
      lambda w: jnp.einsum('bhpl,blhc->bhpc', w.astype(v.dtype), v),
    )
    y_BPHC = (part.total / part.mass[..., None]).swapaxes(1, 2)
    return self.out(y_BPHC.astype(x_BLD.dtype))

  def new_page(self, rows: int, num: int, size: int, dtype: Any) -> Any:
    """Empty keys and values [R, M, H, K, C] for K = `size` tokens."""
    _, heads, channels = self.qkv.outputs
    page = jnp.zeros((rows, num, heads, size, channels), dtype)
    return page, page

  def decode(
    self,
    x_RMD: jax.Array,
    prefix: tuple[jax.Array, jax.Array],
    pages: list[tuple[jax.Array, jax.Array]],
    step: network.DecodeStep,
  ) -> tuple[jax.Array, list[tuple[jax.Array, jax.Array]]]:
    """One token of each continuation: output [R, M, D], updated pages.

      key           0 .... prefix_len | 0 ... added, this token
      cache         prefix, of P      | pages[0], of K | pages[1] | ...

    The prefix is read once for the M continuations that share it. Attention is
    computed for each page alone and merged, so that further pages do not change
    the results of the first ones by a bit.

    prefix: keys and values [R, H, P, C]; step.prefix_len places are in use.
    pages: from `new_page`; step.added places are in use and at least one more
      is free.
    """
    added_RM = step.added
    q, k, v = self.project(x_RMD, step.prefix_len[:, None] + added_RM)
    # [R, H, M, C] x [R, H, P, C] -> scores [R, H, M, P]: the M continuations
    # are rows of one product with the prefix's keys.
    q_RHMC = q.swapaxes(1, 2)
    keys, values = prefix
    seen = jnp.arange(keys.shape[2])[None] < step.prefix_len[:, None]
    part = partial(
      jnp.einsum('rhmc,rhpc->rhmp', q_RHMC, keys),
      seen[:, None, None],
      lambda w: jnp.einsum('rhmp,rhpc->rhmc', w.astype(v.dtype), values),
    )
    # Back to [R, M, H, ...], as pages have a cache for each continuation.
    part = jax.tree.map(lambda leaf: leaf.swapaxes(1, 2), part)
    after, start = [], 0
    for page in pages:
      page = _write(page, k, v, added_RM - start)
      further = _over_page(q, page, added_RM - start)
      # Compiled separately, so that further pages do not change a bit.
      part = jax.lax.optimization_barrier(part.merge(further))
      after.append(page)
      start += page[0].shape[3]
    y_RMHC = part.total / part.mass[..., None]
    return self.out(y_RMHC.astype(x_RMD.dtype)), after


def places(x_BLX: jax.Array) -> jax.Array:
  """[B, L] the position of each token of whole sequences."""
  return jnp.broadcast_to(jnp.arange(x_BLX.shape[1])[None], x_BLX.shape[:2])


def _write(
  page: tuple[jax.Array, jax.Array],
  k_RMHC: jax.Array,
  v_RMHC: jax.Array,
  place_RM: jax.Array,
) -> tuple[jax.Array, jax.Array]:
  """Writes keys and values at those of their places that lie in the page."""
  rows, num, heads, size, _ = page[0].shape
  # Places of other pages are out of range, and are dropped.
  place = jnp.where(place_RM < 0, size, place_RM)  # Negative ones would wrap.
  where = (
    jnp.arange(rows)[:, None, None],
    jnp.arange(num)[None, :, None],
    jnp.arange(heads)[None, None],
    place[..., None],
  )

  def put(old: jax.Array, new: jax.Array) -> jax.Array:
    return old.at[where].set(new, mode='drop', unique_indices=True)

  return put(page[0], k_RMHC), put(page[1], v_RMHC)


def _over_page(
  q_RMHC: jax.Array, page: tuple[jax.Array, jax.Array], last_RM: jax.Array
) -> Partial:
  """Attention over one page, of which places up to last_RM are seen."""
  keys, values = page
  seen = jnp.arange(keys.shape[3])[None, None] <= last_RM[..., None]
  return partial(
    jnp.einsum('rmhc,rmhkc->rmhk', q_RMHC, keys),
    seen[:, :, None],
    lambda w: jnp.einsum('rmhk,rmhkc->rmhc', w.astype(keys.dtype), values),
  )


@dataclasses.dataclass(frozen=True)
class Model(family.RowModel):
  """A transformer's size and style.

  Attributes:
    layers: number of blocks.
    width: D, width of the residual stream.
    heads: number of heads; 0 means one per 64 of width.
    positions: 'learned', 'rotary', or 'rotary_published', the faulty variant
      explained in `rotate`.
    norm: 'layer' or 'rms'.
    epsilon: of the norms.
    mlp: 'gelu', 'gelu_erf' (exact) or 'swiglu'.
    ratio: width of the MLP / width; 0 means 4, or 8/3 for 'swiglu'.
    biases: of attention and MLP; None means only with norm='layer'.
    init: 'gpt2' (normal; maps into the stream are scaled down with depth) or
      'torch', PyTorch's defaults.
    head_bias: add a bias to the logits, whether the head is tied or not.
    tied: tie the head to the embedding table; ignored for rows of tokens and
      for outputs other than next tokens.
    dropout: rate, on embeddings, attention weights and both parts' outputs.
    dtype: of computation; parameters are float32.
    scan: run stacked blocks by a scan, which compiles deep models faster.
    remat: recompute blocks in the backward pass, which saves memory.
    context: number of learned positions (rows, where rows are read); 0 means
      those of the world's longest sequence.
  """

  layers: int = field(2, least=1)
  width: int = field(64, least=1)
  heads: int = field(0, least=0)
  positions: str = field('learned', choices=('learned', *KINDS))
  norm: str = field('layer', choices=('layer', 'rms'))
  mlp: str = field('gelu', choices=('gelu', 'gelu_erf', 'swiglu'))
  tied: bool = True
  dropout: float = field(0.0, least=0, below=1)
  dtype: str = field('float32', choices=family.DTYPES)
  ratio: int = field(0, least=0)
  biases: bool | None = field(None, choices=(None, True, False))
  head_bias: bool = False
  init: str = field('gpt2', choices=('gpt2', 'torch'))
  epsilon: float = field(1e-5, above=0)
  scan: bool = False
  remat: bool = False
  context: int = field(0, least=0)

  def __post_init__(self) -> None:
    super().__post_init__()
    # Rotary positions rotate pairs of channels.
    channels = 2 if self.positions in KINDS else 1
    if self.width % (self.num_heads * channels):
      raise self.error(
        f'width={self.width} is not a multiple of {channels} * '
        f'{self.num_heads} heads'
      )

  @property
  def num_heads(self) -> int:
    """Heads, with the default filled in."""
    return self.heads or max(self.width // 64, 1)

  @property
  def linear_init(self) -> str:
    """Initialisation of tables and dense maps, a name as in `layers`."""
    return 'torch' if self.init == 'torch' else 'normal'

  def bare(
    self, vocab_size: int, positions: int, rngs: nnx.Rngs, outputs: int = 0
  ) -> Transformer:
    """See `family.RowModel`; raises InputError if `context` is too short."""
    if self.context and self.context < positions:
      what = 'tokens' if self.patch == 1 else 'rows'
      raise self.error(
        f'context={self.context} is shorter than the longest sequence, '
        f'{positions} {what}'
      )
    context = self.context or positions
    return Transformer(self, vocab_size, context, rngs, outputs)

  def for_inference(
    self, params: nnx.State
  ) -> tuple[family.NetworkModel, nnx.State]:
    """Unstacks scanned blocks, which decoding would slice at every step."""
    if not self.scan:
      return self, params
    flat = {}
    for path, leaf in nnx.to_flat_state(params):
      if 'blocks' not in path:
        flat[path] = leaf
        continue
      place = path.index('blocks') + 1
      # blocks.attention... [layers, ...] -> blocks.n.attention... [...]
      for n in range(self.layers):
        unstacked = (*path[:place], n, *path[place:])
        flat[unstacked] = leaf.replace(leaf[...][n])
    return dataclasses.replace(self, scan=False), nnx.from_flat_state(flat)


class TransformerBlock(nnx.Module):
  """Attention and MLP, each after a norm and added to the stream."""

  def __init__(self, model: Model, rngs: nnx.Rngs):
    # 2 * layers outputs are added to the stream: smaller initial weights keep
    # its variance near that of the embeddings.
    rest: dict[str, Any] = {
      'bias': model.norm == 'layer' if model.biases is None else model.biases,
      'scale': 0.02 * (2 * model.layers) ** -0.5,
      'init': model.linear_init,
    }
    norm = model.width, model.norm, model.epsilon
    self.rate = model.dropout
    self.before_attention = layers.Norm(*norm)
    self.attention = Attention(
      model.width, model.num_heads, rngs, positions=model.positions, **rest
    )
    self.before_mlp = layers.Norm(*norm)
    hidden = model.ratio * model.width
    self.mlp = layers.Mlp(model.width, model.mlp, rngs, hidden=hidden, **rest)

  def feed(self, x_XD: jax.Array, key: jax.Array | None = None) -> jax.Array:
    """The MLP half."""
    y_XD = self.mlp(self.before_mlp(x_XD))
    return x_XD + layers.dropout(y_XD, self.rate, key)

  def __call__(
    self, x_BLD: jax.Array, key: jax.Array | None = None
  ) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    """The stream after this block, and keys and values [B, L, H, C]."""
    # For dropout on attention weights, on attention's output and on the MLP's.
    keys = layers.keys(key, 3)
    y_BLD, cache = self.attention(
      self.before_attention(x_BLD), self.rate, keys[0]
    )
    x_BLD = x_BLD + layers.dropout(y_BLD, self.rate, keys[1])
    return self.feed(x_BLD, keys[2]), cache


class Transformer(family.Stack):
  """Embedding, blocks, final norm and head."""

  def __init__(
    self,
    model: Model,
    vocab_size: int,
    context: int,
    rngs: nnx.Rngs,
    outputs: int = 0,
  ):
    super().__init__(model, rngs)
    init, learned = model.linear_init, model.positions == 'learned'
    table = functools.partial(layers.Embedding, init=init)
    self.embedding = table(vocab_size * model.patch, model.width, rngs)
    self.positions = table(context, model.width, rngs) if learned else None
    blocks = [TransformerBlock(model, rngs) for _ in range(model.layers)]
    self.blocks = _stack(blocks) if model.scan else nnx.List(blocks)
    self.final = layers.Norm(model.width, model.norm, model.epsilon)
    # Only next-token outputs of single tokens can be tied.
    tied = model.tied and not outputs and model.patch == 1
    outputs = (outputs or vocab_size) * model.patch
    head = functools.partial(layers.Linear, bias=model.head_bias, init=init)
    self.head = None if tied else head((model.width,), (outputs,), rngs)
    biased = tied and model.head_bias
    self.tied_bias = nnx.Param(jnp.zeros(vocab_size)) if biased else None

  def embed(self, tokens_X: jax.Array, positions_X: jax.Array) -> jax.Array:
    """Token (and learned position) embeddings [..., D]."""
    x_XD = self.look_up(tokens_X)
    if self.positions is not None:
      x_XD += self.positions.table[...][positions_X]
    return layers.constrain(x_XD.astype(self.model.dtype))

  def stream(
    self, tokens_BL: jax.Array, depth: int, key: jax.Array | None = None
  ) -> jax.Array:
    """See `family.Stack`."""
    x_BLD = self.embed(tokens_BL, places(tokens_BL))
    # One key for the embeddings, one that is split among the blocks.
    first, key = layers.keys(key if self.model.dropout else None, 2)
    x_BLD = layers.dropout(x_BLD, self.model.dropout, first)
    return self.through(x_BLD, 0, depth, layers.keys(key, self.num_layers))

  def through(
    self,
    x_BLD: jax.Array,
    first: int,
    last: int,
    keys: Sequence[jax.Array | None],
  ) -> jax.Array:
    """See `family.Stack`."""
    x_BLD = x_BLD.astype(self.model.dtype)
    if not self.model.scan:
      return super().through(x_BLD, first, last, keys)
    # params [layers, ...]: one block is compiled and run last - first times.
    graph, params = nnx.split(self.blocks)
    used = [key for key in keys if key is not None]
    stacked = jnp.stack(used) if used else None
    xs = jax.tree.map(lambda leaf: leaf[first:last], (params, stacked))

    def body(x_BLD: jax.Array, xs: Any) -> tuple[jax.Array, None]:
      return self.run(graph, xs[0], x_BLD, xs[1]), None

    return jax.lax.scan(body, x_BLD, xs)[0]

  def end(self, x_BLD: jax.Array, places_BP: jax.Array) -> jax.Array:
    """See `family.Stack`; other places have only keys and values."""
    # x_BLD, all places -> keys, values; x_BPD, chosen places -> queries, MLP
    block = self.blocks[-1]
    normed_BLD = block.before_attention(x_BLD)
    y_BPD = block.attention.at(normed_BLD, places_BP)
    return block.feed(layers.taken(x_BLD, places_BP) + y_BPD)

  def absorb(
    self, tokens_RP: jax.Array, lengths_R: jax.Array
  ) -> tuple[Any, jax.Array]:
    """Keys and values [R, H, P, C] of each block, and the stream [R, D]."""
    x_RPD = self.embed(tokens_RP, places(tokens_RP))
    # Within a block keys are [R, P, H, C]; caches have heads first, as decoding
    # reads a head's places in one stride.
    prefix = []
    for block in self.blocks:
      x_RPD, cache = block(x_RPD)
      prefix.append(tuple(leaf.swapaxes(1, 2) for leaf in cache))
    last = jnp.take_along_axis(x_RPD, lengths_R[:, None, None] - 1, axis=1)
    return prefix, last[:, 0]

  def page_size(self, max_len: int) -> int:
    """See `network.Network`; one page for narrow networks, to compile less."""
    return min(32 if self.model.width >= 128 else 128, max_len)

  def new_page(self, rows: int, num: int, size: int) -> Any:
    """An empty page of each block's cache; see `Attention.new_page`."""
    return [
      block.attention.new_page(rows, num, size, self.model.dtype)
      for block in self.blocks
    ]

  def append(
    self, prefix: Any, pages: list[Any], step: network.DecodeStep
  ) -> tuple[list[Any], jax.Array]:
    """Caches after one token of each continuation, and the stream."""
    # `moved` is not needed: entries past a continuation's length are masked,
    # and overwritten when the continuation advances.
    # Position of the new token in its sequence.
    place_RM = step.prefix_len[:, None] + step.added
    x_RMD = self.embed(step.tokens, place_RM)
    after = []
    for number, block in enumerate(self.blocks):
      normed_RMD = block.before_attention(x_RMD)
      # pages [n][block] -> this block's of all n pages.
      mine = [page[number] for page in pages]
      y_RMD, written = block.attention.decode(
        normed_RMD, prefix[number], mine, step
      )
      x_RMD = block.feed(x_RMD + y_RMD)
      after.append(written)
    # By blocks, then pages -> by pages, then blocks.
    pages = [list(page) for page in zip(*after, strict=True)]
    return pages, x_RMD


def _stack(blocks: list[TransformerBlock]) -> TransformerBlock:
  """One block whose parameters have a leading dimension of layers."""
  # All blocks have one structure: the first one's graph stands for all.
  graphs, params = zip(*map(nnx.split, blocks), strict=True)
  stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *params)
  return nnx.merge(graphs[0], stacked)
