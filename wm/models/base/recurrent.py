"""Shared parts of recurrent families: embedding, blocks, final norm, head.

A family is a `Model` (a `RecurrentModel`) that makes `Block`s. A block maps a
whole sequence or one token, and its state has a constant size: a network of
blocks samples sequences of any length at O(1) per token. The stream between
blocks and the states are float32; a block casts the factors of its matrix
products to the model's `dtype`. Shape letters as in `layers`; X is any leading
dimensions.

The Mamba families also share `SsmModel`'s fields, step sizes and scaled maps,
as in mamba-ssm (Walker & Lyons 2026). N is the second dimension of the state, P
the channels of a head.
"""

from __future__ import annotations

import abc
import dataclasses
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from wm.core.fields import field
from wm.models.base import family
from wm.models.nn import layers, network


class Mixer(nnx.Module):
  """The recurrence of a layer, without norm and dropout.

  A state is a tree of float32 arrays [*X, ...].
  """

  @abc.abstractmethod
  def start(self, lead: tuple[int, ...]) -> Any:
    """The state before the first token, with leading dimensions `lead`."""

  @abc.abstractmethod
  def __call__(
    self, x_BLD: jax.Array, lengths_B: jax.Array | None = None
  ) -> tuple[jax.Array, Any]:
    """Output [B, L, D] from `start` on, and the state after lengths_B tokens.

    Without lengths, the state is the one after all L tokens. Tokens beyond a
    row's length do not change its state.
    """

  @abc.abstractmethod
  def step(self, x_XD: jax.Array, state_X: Any) -> tuple[jax.Array, Any]:
    """One token: output [*X, D] and the state after it."""


class Block(Mixer):
  """One layer; in residual families its output includes its input stream.

  A call takes the `key` of dropout, too; without it there is none.
  """


class Residual(Block):
  """A mixer and an optional MLP, each with an RMS norm before and a residual.

  rate: of dropout on the output of each of the two.
  """

  def __init__(
    self,
    model: RecurrentModel,
    mixer: Mixer,
    mlp: layers.Mlp | None,
    *,
    epsilon: float,
    rate: float = 0.0,
  ):
    self.dtype, self.rate = model.dtype, rate
    self.before_mixer = layers.Norm(model.width, 'rms', epsilon)
    self.mixer, self.mlp = mixer, mlp
    self.before_mlp = mlp and layers.Norm(model.width, 'rms', epsilon)

  def start(self, lead: tuple[int, ...]) -> Any:
    """The start of the mixer."""
    return self.mixer.start(lead)

  def __call__(
    self,
    x_BLD: jax.Array,
    lengths_B: jax.Array | None = None,
    key: jax.Array | None = None,
  ) -> tuple[jax.Array, Any]:
    """See `Block`."""
    # For dropout on the mixer's output and on the MLP's.
    keys = layers.keys(key, 2)
    # Norms read the float32 stream; their outputs are cast for the products.
    normed_BLD = self.before_mixer(x_BLD).astype(self.dtype)
    y_BLD, state = self.mixer(normed_BLD, lengths_B)
    x_BLD = self.add(x_BLD, y_BLD, keys[0])
    return self.feed(x_BLD, keys[1]), state

  def step(self, x_XD: jax.Array, state_X: Any) -> tuple[jax.Array, Any]:
    """One token."""
    normed_XD = self.before_mixer(x_XD).astype(self.dtype)
    y_XD, state_X = self.mixer.step(normed_XD, state_X)
    return self.feed(self.add(x_XD, y_XD)), state_X

  def feed(self, x_XD: jax.Array, key: jax.Array | None = None) -> jax.Array:
    """The MLP half."""
    if self.mlp is None or self.before_mlp is None:
      return x_XD
    y_XD = self.mlp(self.before_mlp(x_XD).astype(self.dtype))
    return self.add(x_XD, y_XD, key)

  def at(self, x_BLD: jax.Array, places_BP: jax.Array) -> jax.Array:
    """The stream [B, P, D] at some places; the MLP runs only at these."""
    # The mixer runs over all L tokens; norm, MLP and head over P of them.
    y_BLD, _ = self.mixer(self.before_mixer(x_BLD).astype(self.dtype))
    both = [layers.taken(x, places_BP) for x in (x_BLD, y_BLD)]
    return self.feed(self.add(*both))

  def add(
    self, x_XD: jax.Array, y_XD: jax.Array, key: jax.Array | None = None
  ) -> jax.Array:
    """The float32 stream with y added, after dropout."""
    # Added in float32: 16 bits would lose small summands.
    return x_XD + layers.dropout(y_XD, self.rate, key).astype(jnp.float32)


class StackStyle(NamedTuple):
  """Embedding, final norm and head around a family's blocks.

  Attributes:
    embedding: standard deviation of the embedding table.
    epsilon: of the final RMS norm; 0 omits the norm.
    head: initialisation of the head, a name as in `layers.Linear`.
    dropout: True applies dropout to the embeddings.
  """

  embedding: float = 0.02
  epsilon: float = 0.0
  head: str = 'normal'
  dropout: bool = False


@dataclasses.dataclass(frozen=True)
class RecurrentModel(family.RowModel):
  """Fields and checks that all recurrent families have.

  Attributes:
    layers: number of blocks.
    width: D, the width of the stream.
    dropout: rate; each family decides where it applies.
    dtype: of matrix products; parameters, stream and states are float32.
    remat: recompute blocks in the backward pass, which saves memory.
  """

  layers: int = field(2, least=1)
  width: int = field(64, least=1)
  dropout: float = field(0.0, least=0, below=1)
  dtype: str = field('float32', choices=family.DTYPES)
  remat: bool = False

  @property
  def style(self) -> StackStyle:
    """Embedding, norm and head around the blocks."""
    return StackStyle()

  @abc.abstractmethod
  def block(self, number: int, rngs: nnx.Rngs) -> Block:
    """Block `number` (0-based) with fresh weights."""

  def bare(
    self, vocab_size: int, positions: int, rngs: nnx.Rngs, outputs: int = 0
  ) -> RecurrentNetwork:
    """See `family.RowModel`; weights do not depend on the length."""
    del positions
    return RecurrentNetwork(self, vocab_size, outputs or vocab_size, rngs)


class RecurrentNetwork(family.Stack, network.StatefulNetwork):
  """Embedding, blocks, final norm where the style has one, and head."""

  head: layers.Linear

  def __init__(
    self, model: RecurrentModel, vocab_size: int, outputs: int, rngs: nnx.Rngs
  ):
    super().__init__(model, rngs)
    # table [V K, D] and head [D, O K]: K = 1 unless positions are rows.
    style = model.style
    self.embedding = layers.Embedding(
      vocab_size * model.patch, model.width, rngs, scale=style.embedding
    )
    self.blocks = nnx.List(
      [model.block(number, rngs) for number in range(model.layers)]
    )
    # Families without a final norm (RNN, LSTM, SLiCE) have epsilon 0.
    norm = layers.Norm(model.width, 'rms', style.epsilon)
    self.final = norm if style.epsilon else None
    outputs *= model.patch
    self.head = layers.Linear((model.width,), (outputs,), rngs, init=style.head)

  def embed(self, tokens_X: jax.Array) -> jax.Array:
    """Token embeddings [*X, D] float32."""
    return layers.constrain(self.look_up(tokens_X))

  def stream(
    self, tokens_BL: jax.Array, depth: int, key: jax.Array | None = None
  ) -> jax.Array:
    """See `family.Stack`."""
    # One key for the embeddings, then one for each block.
    key = key if self.model.dropout else None
    keys = layers.keys(key, self.num_layers + 1)
    rate = self.model.dropout if self.model.style.dropout else 0.0
    x_BLD = layers.dropout(self.embed(tokens_BL), rate, keys[0])
    return self.through(x_BLD, 0, depth, keys[1:])

  def end(self, x_BLD: jax.Array, places_BP: jax.Array) -> jax.Array:
    """See `family.Stack`."""
    # Recurrences need all tokens; the MLP after the last one does not.
    block = self.blocks[-1]
    if isinstance(block, Residual):
      return block.at(x_BLD, places_BP)
    return super().end(x_BLD, places_BP)

  def absorb(
    self, tokens_RP: jax.Array, lengths_R: jax.Array
  ) -> tuple[Any, jax.Array]:
    """Each block's state after the prefix, and the stream [R, D]."""
    x_RPD, prefix = self.embed(tokens_RP), []
    for block in self.blocks:
      # Pads come last: they do not affect outputs before them, and states stop
      # at the row's length.
      x_RPD, state = block(x_RPD, lengths_R)
      prefix.append(state)
    return prefix, at_length(x_RPD, lengths_R)

  def new_page(self, rows: int, num: int, size: int) -> Any:
    """The only page: each block's state [R, M, ...]."""
    del size  # The size of a state does not depend on the number of tokens.
    return [block.start((rows, num)) for block in self.blocks]

  def restart(
    self, pages: list[Any], prefix: Any, fresh_RM: jax.Array
  ) -> list[Any]:
    """The prefix's state in each fresh continuation."""

    # Where old [R, M, ...] is fresh it becomes new [R, ...].
    def copy(old: jax.Array, new: jax.Array) -> jax.Array:
      fresh = jnp.expand_dims(fresh_RM, range(2, old.ndim))
      return jnp.where(fresh, new[:, None], old)

    return [jax.tree.map(copy, pages[0], prefix)]

  def append(
    self, prefix: Any, pages: list[Any], step: network.DecodeStep
  ) -> tuple[list[Any], jax.Array]:
    """States after one token of each continuation, and the stream."""
    del prefix  # `restart` has copied its state into the page.

    # All continuations are computed; those that did not move keep their state.
    def keep(old: jax.Array, new: jax.Array) -> jax.Array:
      moved = jnp.expand_dims(step.moved, range(2, old.ndim))
      return jnp.where(moved, new, old)

    x_RMD, after = self.embed(step.tokens), []
    for block, state in zip(self.blocks, pages[0], strict=True):
      x_RMD, new = block.step(x_RMD, state)
      after.append(jax.tree.map(keep, state, new))
    return [after], x_RMD


def at_length(
  x_BLX: jax.Array, lengths_B: jax.Array | None, start: jax.Array | None = None
) -> jax.Array:
  """Takes x [B, L, ...] at each row's last token: [B, ...].

  lengths_B: None means L tokens in every row.
  start: value for rows of length 0, broadcast to [B, ...].
  """
  if lengths_B is None:
    return x_BLX[:, -1]
  # Rows of length 0 read token 0; `start` replaces them below.
  wide = (-1,) + (1,) * (x_BLX.ndim - 2)
  place = jnp.maximum(lengths_B - 1, 0).reshape(-1, 1, *wide[1:])
  last = jnp.take_along_axis(x_BLX, place, axis=1)[:, 0]
  if start is None:
    return last
  return jnp.where(lengths_B.reshape(wide) > 0, last, start)


def used(x_BLX: jax.Array, lengths_B: jax.Array | None) -> jax.Array:
  """x with zeros beyond each row's length; x itself without lengths."""
  if lengths_B is None:
    return x_BLX
  inside = jnp.arange(x_BLX.shape[1])[None] < lengths_B[:, None]
  return jnp.where(
    inside.reshape(*inside.shape, *(1,) * (x_BLX.ndim - 2)), x_BLX, 0
  )


EPSILON = 1e-5


@dataclasses.dataclass(frozen=True)
class SsmModel(RecurrentModel):
  """Fields that all Mamba families have, besides `RecurrentModel`'s.

  Attributes:
    state: N, state size per channel.
    expand: width of the mixer in multiples of the stream's width.
  """

  state: int = field(16, least=1)
  expand: int = field(2, least=1)

  @property
  def inner(self) -> int:
    """Channels of the mixer."""
    return self.expand * self.width

  @property
  def init(self) -> str:
    """Initialisation of dense maps, a name as in `layers.Linear`."""
    return 'normal'

  @property
  def style(self) -> StackStyle:
    """Dropout on the embeddings alone, a final norm, a head with a bias."""
    return StackStyle(epsilon=EPSILON, head=self.init, dropout=True)

  def bare(
    self, vocab_size: int, positions: int, rngs: nnx.Rngs, outputs: int = 0
  ) -> RecurrentNetwork:
    """See `family.RowModel`; the head's biases start at 0."""
    network = super().bare(vocab_size, positions, rngs, outputs)
    network.head.bias = nnx.Param(jnp.zeros(network.head.outputs))
    return network


def down(
  inputs: int, width: int, rngs: nnx.Rngs, *, init: str, parts: int, **rest: Any
) -> layers.Linear:
  """A map into the stream, one of `parts` maps whose outputs are added to it.

  PyTorch's initial weights are divided by sqrt(parts), as in mamba-ssm.
  """
  linear = layers.Linear((inputs,), (width,), rngs, init=init, **rest)
  # This keeps the stream's variance independent of the number of maps.
  if init == 'torch':
    linear.kernel = nnx.Param(linear.kernel[...] * parts**-0.5)
  return linear


def gated_mlp(
  width: int, times: int, rngs: nnx.Rngs, *, init: str, parts: int
) -> layers.Mlp:
  """SwiGLU without biases, `times` D wide, rounded up to a multiple of 128."""
  # As in mamba-ssm, which rounds for its matrix products.
  hidden = -(-times * width // 128) * 128
  mlp = layers.Mlp(width, 'swiglu', rngs, bias=False, hidden=hidden, init=init)
  mlp.down = down(hidden, width, rngs, init=init, parts=parts, bias=False)
  return mlp


def step_bias(num: int, rngs: nnx.Rngs) -> jax.Array:
  """[num] biases whose softplus is log-uniform from 0.001 to 0.1."""
  # Step sizes from 0.001 to 0.1: states that last from 10 to 1000 tokens.
  low, high = math.log(1e-3), math.log(1e-1)
  dt = jnp.exp(
    jax.random.uniform(rngs.params(), (num,), minval=low, maxval=high)
  )
  # The inverse of softplus: log(e^dt - 1), without the overflow of e^dt.
  return dt + jnp.log(-jnp.expm1(-dt))


def product(x_XC: jax.Array, kernel_CF: jax.Array) -> jax.Array:
  """x @ kernel: [..., F], in x's dtype."""
  # Flattened to one 2-D product, the fastest form on a CPU.
  flat = x_XC.reshape(-1, x_XC.shape[-1]) @ kernel_CF.astype(x_XC.dtype)
  return flat.reshape(*x_XC.shape[:-1], kernel_CF.shape[1])


def heads(x_XC: jax.Array, channels: int) -> jax.Array:
  """[..., H P] -> [..., H, P]."""
  return x_XC.reshape(*x_XC.shape[:-1], -1, channels)


def merged(x_XHP: jax.Array) -> jax.Array:
  """[..., H, P] -> [..., H P]."""
  return x_XHP.reshape(*x_XHP.shape[:-2], -1)
