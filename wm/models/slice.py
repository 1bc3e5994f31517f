"""SLiCE: a state that each token maps by block-diagonal affine maps.

Walker et al. 2025 (arXiv 2505.17761), as run by Walker and Lyons 2026. The
state is driven by a constant and the increments of a layer's inputs u, w_t =
scale [1, u_t - u_{t-1}] with u_{-1} = 0:

  y_t = (I + A_t) y_{t-1} + W_B w_t,    A_t = W_A w_t in blocks of k x k

from a learned y_{-1}. Blocks of size 1 are the diagonal variant. A layer adds
y of RMS(x), then an MLP of RMS(x), to the stream; there is no norm before the
head. As in their program, dropout applies to the embeddings, y and the MLP.

I + A is not bounded: states may overflow on long inputs far from training.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
from flax import nnx

from wm.core.fields import field
from wm.kernels.scan import affine_scan as scan
from wm.kernels.scan import forms
from wm.models.base import recurrent
from wm.models.nn import layers

# Tokens per chunk; the backward pass recomputes the transitions of a chunk.
# Steps on a CPU (width 128, blocks of 8, training a layer of 32 x 128 tokens):
# 54 ms and 9 MiB at 16, 66 ms and 25 MiB at 64, 69 ms and 38 MiB at 128. Other
# devices have the published chunk length.
_STEPS = {'cpu': 16, 'gpu': 256}


@dataclasses.dataclass(frozen=True)
class Model(recurrent.RecurrentModel):
  """SLiCE: each token maps the state by block-diagonal matrices.

  Attributes:
    block_size: k, size of the transition's blocks; a divisor of width.
    scale: factor of the increments.
    init_std: sigma, standard deviation of the initial W_B and y_{-1}; that of
      W_A is sigma / sqrt(k).
    transition: 'plain' is I + A. 'exp' is exp(A). 'bounded' divides I + A by a
      bound of its norm where this exceeds 1, so that only W_B w_t lets a state
      grow; it can represent permutations and sign changes.
    path: 'values' as published: the inputs are the path, so increments are
      differences, which are 0 for a repeated token. 'sums': their running sum
      is the path, so the increment u_t - u_{t-1} above is u_t.
  """

  version: ClassVar[str] = '2'

  block_size: int = field(8, least=1)
  scale: float = 0.1
  init_std: float = 0.1
  transition: str = field('plain', choices=('plain', 'exp', 'bounded'))
  path: str = field('values', choices=('values', 'sums'))

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.width % self.block_size:
      raise self.error(
        f'block_size={self.block_size}; expected a divisor of '
        f'width={self.width}'
      )

  @property
  def style(self) -> recurrent.StackStyle:
    """PyTorch's initial weights, dropout on embeddings, no final norm."""
    return recurrent.StackStyle(embedding=1.0, head='torch', dropout=True)

  def block(self, number: int, rngs: nnx.Rngs) -> Layer:
    """One layer."""
    del number
    return Layer(self, rngs)


class Layer(recurrent.Block):
  """The recurrence and the MLP, each after a norm and added to the stream.

  The state is y [*X, D] and the last input u [*X, D].
  """

  def __init__(self, model: Model, rngs: nnx.Rngs):
    width, size = model.width, model.block_size
    self.model = model
    self.before_scan = layers.Norm(width, 'rms', 1e-6)
    std = model.init_std
    self.transition = layers.Linear(
      (width + 1,),
      (width // size, size, size),
      rngs,
      bias=False,
      scale=std * size**-0.5,
    )
    self.drive = layers.Linear(
      (width + 1,), (width // size, size), rngs, bias=False, scale=std
    )
    self.first = nnx.Param(std * jax.random.normal(rngs.params(), (width,)))
    self.before_mlp = layers.Norm(width, 'rms', 1e-6)
    self.mlp = layers.Mlp(width, 'gelu_erf', rngs, bias=True, init='torch')

  def start(self, lead: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    """y_{-1} and u_{-1} = 0."""
    shape = (*lead, self.model.width)
    return jnp.broadcast_to(self.first[...], shape), jnp.zeros(shape)

  def __call__(
    self,
    x_BLD: jax.Array,
    lengths_B: jax.Array | None = None,
    key: jax.Array | None = None,
  ) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    """See `recurrent.Block`."""
    start_BD = self.start(x_BLD.shape[:1])
    # Inputs minus the preceding inputs: u_0 - u_{-1}, u_1 - u_0, ...
    u_BLD = self.before_scan(x_BLD)
    before_BLD = jnp.concatenate([start_BD[1][:, None], u_BLD[:, :-1]], 1)
    # E = D + 1, with the constant. The scan runs along the first dimension.
    w_LBE = self.increments(u_BLD, before_BLD).swapaxes(0, 1)
    y_BLD = self.states(w_LBE, start_BD[0]).swapaxes(0, 1)
    state = (
      recurrent.at_length(y_BLD, lengths_B, start_BD[0]),
      recurrent.at_length(u_BLD, lengths_B, start_BD[1]),
    )
    return self.feed(x_BLD, y_BLD, *layers.keys(key, 2)), state

  def step(
    self, x_XD: jax.Array, state_X: tuple[jax.Array, jax.Array]
  ) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    """One token."""
    y_XD, before_XD = state_X
    u_XD = self.before_scan(x_XD)
    # y is stored flat [*X, D]; the kernel takes blocks [*X, N, k].
    a, b = self.maps(self.increments(u_XD, before_XD))
    y_XD = scan.affine_step(a, b, y_XD.reshape(b.shape)).reshape(x_XD.shape)
    return self.feed(x_XD, y_XD), (y_XD, u_XD)

  def feed(
    self,
    x_XD: jax.Array,
    y_XD: jax.Array,
    first: jax.Array | None = None,
    second: jax.Array | None = None,
  ) -> jax.Array:
    """The stream after y and the MLP are added; dropout by keys."""
    rate = self.model.dropout
    x_XD = x_XD + layers.dropout(y_XD, rate, first)
    z_XD = self.mlp(self.before_mlp(x_XD).astype(self.model.dtype))
    return x_XD + layers.dropout(z_XD.astype(x_XD.dtype), rate, second)

  def increments(self, u_XD: jax.Array, before_XD: jax.Array) -> jax.Array:
    """w [*X, D + 1]."""
    # Through the constant, repeated tokens (increment 0) still act on the
    # state.
    ones = jnp.ones_like(u_XD[..., :1])
    if self.model.path == 'values':
      u_XD = u_XD - before_XD
    return self.model.scale * jnp.concatenate([ones, u_XD], -1)

  def maps(
    self, w_XE: jax.Array, batch: int = 0
  ) -> tuple[jax.Array, jax.Array]:
    """Transitions [*X, N, k, k] (k = 1: [*X, N]), and the terms W_B w."""
    w_XE = w_XE.astype(self.model.dtype)
    a = self.transition(w_XE, batch).astype(jnp.float32)
    a = transition(a, self.model.transition)
    b = self.drive(w_XE, batch).astype(jnp.float32)
    return (a, b) if self.model.block_size > 1 else (a[..., 0, 0], b[..., 0])

  def states(self, w_LBE: jax.Array, start_BD: jax.Array) -> jax.Array:
    """y [L, B, D], by chunks that the backward pass recomputes."""
    length, rows, _ = w_LBE.shape
    chunk = min(forms.usual(_STEPS), length)
    # A pad's w is 0, which leaves the state unchanged.
    w_LBE = jnp.pad(w_LBE, ((0, -length % chunk), (0, 0), (0, 0)))

    # Transitions are k times as large as states: the backward pass recomputes
    # them chunk by chunk, so they are never stored for all tokens.
    @jax.checkpoint
    def body(y_BD: jax.Array, w_KBE: jax.Array) -> tuple[jax.Array, jax.Array]:
      a, b = self.maps(w_KBE, batch=1)
      y_KBN = scan.affine(a, b, y_BD.reshape(b.shape[1:]), axis=0)
      y_KBD = y_KBN.reshape(chunk, rows, -1)
      return y_KBD[-1], y_KBD

    # [L, B, E] -> [chunks, K, B, E]: the scan carries y from chunk to chunk.
    w_SKBE = w_LBE.reshape(-1, chunk, rows, w_LBE.shape[-1])
    y_SKBD = jax.lax.scan(body, start_BD, w_SKBE)[1]
    return y_SKBD.reshape(-1, *start_BD.shape)[:length]


def transition(a: jax.Array, kind: str) -> jax.Array:
  """The maps of driven blocks A [..., k, k]; see `Model.transition`."""
  if kind == 'exp':
    return jnp.exp(a) if a.shape[-1] == 1 else jax.scipy.linalg.expm(a)
  a += jnp.broadcast_to(jnp.eye(a.shape[-1], dtype=a.dtype), a.shape)
  if kind == 'bounded':
    # By Hoelder's inequality the spectral norm is at most the geometric mean of
    # the largest row sum and column sum, which is 1 for permutations.
    rows = jnp.abs(a).sum(-1).max(-1)
    columns = jnp.abs(a).sum(-2).max(-1)
    a /= jnp.maximum(rows * columns, 1.0)[..., None, None] ** 0.5
  return a
