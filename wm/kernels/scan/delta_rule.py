"""The gated delta rule: a matrix state with corrections and decay.

  S_t = a_t (I - beta_t k_t k_t') S_(t-1) + beta_t k_t v_t',  a_t = exp(g_t)
  y_t = S_t' q_t

(Yang, Kautz, Hatamizadeh 2024.) Shape letters: B batch, L length, H heads, K
width of a key, V width of a value, N chunks, C length of a chunk.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from wm.kernels.scan import forms

# Tokens of a chunk. Training on a CPU, ms of CPU time, K = 48 and V =
# 96 in 2 heads, 16 x 600 tokens (tests/bench/models_bench.py): 709 sequential,
# which keeps each token's matrix for the backward pass; chunks of 16: 199, of
# 32: 131, of 64: 170. A GPU has the published chunk, not measured here.
_STEPS = {'cpu': 32, 'gpu': 64}


def delta(
  q_BLHK: jax.Array,
  k_BLHK: jax.Array,
  v_BLHV: jax.Array,
  g_BLH: jax.Array,
  beta_BLH: jax.Array,
  start_BHKV: jax.Array,
  chunk: int = 0,
) -> tuple[jax.Array, jax.Array]:
  """Outputs y [B, L, H, V] and the state [B, H, K, V] after the last token.

  All have one floating dtype, also that of the computation. g is the logarithm
  of the decay, at most 0; -inf erases the state. A token with g = 0 and beta =
  0 leaves the state unchanged. Keys of unit length and beta < 2 keep the state
  bounded. Computed in the WY form (Yang et al. 2024, with decays) in chunks of
  `chunk` tokens; 0 is the platform's default.
  """
  inputs = q_BLHK, k_BLHK, v_BLHV, forms.bounded(g_BLH), beta_BLH
  return _chunked(inputs, start_BHKV, chunk or forms.usual(_STEPS))


def delta_step(
  q_XHK: jax.Array,
  k_XHK: jax.Array,
  v_XHV: jax.Array,
  g_XH: jax.Array,
  beta_XH: jax.Array,
  state_XHKV: jax.Array,
) -> tuple[jax.Array, jax.Array]:
  """One token, any leading dimensions: y [..., H, V] and the state after."""
  state = jnp.exp(g_XH)[..., None, None] * state_XHKV
  held_XHV = jnp.einsum('...kv,...k->...v', state, k_XHK)
  change_XHV = beta_XH[..., None] * (v_XHV - held_XHV)
  state += k_XHK[..., :, None] * change_XHV[..., None, :]
  return jnp.einsum('...kv,...k->...v', state, q_XHK), state


Inputs = tuple[jax.Array, ...]  # q, k, v, g, beta


def _split(x_BLHX: jax.Array, chunk: int) -> jax.Array:
  """[B, L, H, ...] -> [N, B, H, C, ...], zero-padded at the end."""
  batch, length = x_BLHX.shape[:2]
  num = -(-length // chunk)
  widths = ((0, 0), (0, num * chunk - length)) + ((0, 0),) * (x_BLHX.ndim - 2)
  x = jnp.pad(x_BLHX, widths)
  x = x.reshape(batch, num, chunk, *x_BLHX.shape[2:])
  return jnp.moveaxis(x, (1, 3), (0, 2))


@jax.custom_jvp
def unit_inverse(strict_XCC: jax.Array) -> jax.Array:
  """(I + L)^-1 of strictly lower triangular L [..., C, C].

  Inverses of diagonal blocks of 1, 2, 4, ... rows: [[A, 0], [L, D]]^-1 holds
  -D^-1 L A^-1 below the diagonal. Only matrix products: XLA's batched
  triangular solve can deadlock on a CPU and is slow on a GPU.
  """
  size = strict_XCC.shape[-1]
  rows, wide = jnp.arange(size), (1,) * (strict_XCC.ndim - 2)
  x_XCC = jnp.broadcast_to(
    jnp.eye(size, dtype=strict_XCC.dtype).reshape(*wide, size, size),
    strict_XCC.shape,
  )
  #  before     x holds the inverses of diagonal blocks of `half` rows: A, D
  #  between    L: of each pair of blocks, the odd one's rows and the even
  #             one's columns
  #  after      x - x L x, since x L x is D^-1 L A^-1 there and 0 elsewhere
  half = 1
  while half < size:
    pair, odd = rows // (2 * half), rows // half % 2 == 1
    below = (pair[:, None] == pair[None]) & odd[:, None] & ~odd[None]
    between = jnp.where(below.reshape(*wide, size, size), strict_XCC, 0)
    x_XCC -= between if half == 1 else x_XCC @ between @ x_XCC
    half *= 2
  return x_XCC


@unit_inverse.defjvp
def _unit_inverse_jvp(
  primals: tuple[jax.Array], tangents: tuple[jax.Array]
) -> tuple[jax.Array, jax.Array]:
  x_XCC = unit_inverse(*primals)
  return x_XCC, -x_XCC @ tangents[0] @ x_XCC


def _chunked(
  inputs: Inputs, start_BHKV: jax.Array, chunk: int
) -> tuple[jax.Array, jax.Array]:
  """The WY form: the tokens of a chunk write X [C, V] = U - W S.

  (I + L) U = diag(beta) V and (I + L) W = diag(beta e^G) K. L [C, C] has the
  products of each key with earlier keys in the chunk, decayed and times beta; G
  are the running sums of g; S is the state before the chunk. So a chunk is
  computed by matrix products, and the scan carries only S.
  """
  batch, length, heads, _ = inputs[0].shape
  chunk = min(chunk, length)
  q, k, v, g, beta = (_split(x, chunk) for x in inputs)
  decay = forms.decays(g)  # [N, B, H, C, C], from token j to token i.
  total = jnp.exp(jnp.cumsum(g, -1))[..., None]
  overlap = (k @ k.swapaxes(-1, -2)) * decay * beta[..., None]
  # U and W are solved together: their right sides are concatenated.
  right = beta[..., None] * jnp.concatenate([v, total * k], -1)
  solved = unit_inverse(jnp.tril(overlap, -1)) @ right
  write, clear = solved[..., : v.shape[-1]], solved[..., v.shape[-1] :]
  # A query reads writes of the chunk by `near`, and S by `total * q`. `lasting`
  # is the decayed key of a token at the end of the chunk.
  near = (q @ k.swapaxes(-1, -2)) * decay
  lasting = decay[..., -1, :, None] * k
  operands = write, clear, near, total * q, lasting, total[..., -1:, :]

  def body(
    state: jax.Array, operands: tuple[jax.Array, ...]
  ) -> tuple[jax.Array, jax.Array]:
    write, clear, near, far, lasting, total = operands
    x_BHCV = write - clear @ state
    y_BHCV = far @ state + near @ x_BHCV
    return total * state + lasting.swapaxes(-1, -2) @ x_BHCV, y_BHCV

  state, y_NBHCV = jax.lax.scan(body, start_BHKV, operands)
  y = jnp.moveaxis(y_NBHCV, (0, 3), (1, 2))
  return y.reshape(batch, -1, heads, y.shape[-1])[:, :length], state
