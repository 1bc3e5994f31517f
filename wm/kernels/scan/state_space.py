"""State-space duality: recurrences of matrix states with a scalar decay a head.

    h_t = e^{a_t} h_{t-1} + sum_r w_t x_t^r b_t^rT      y_t^r = h_t c_t^r

(Dao & Gu 2024, arXiv 2405.21060, sections 6 and 7.) `late` weights enter the
state only after the output of their step; the exponential-trapezoidal rule adds
nothing else (Lahoti et al. 2026, arXiv 2603.15569, section 3). In a chunk of K
steps the recurrence is a product with a lower triangular matrix:

    y = (c bT * e^{sums of a} * w) x  +  e^{a up to here} c h_before

It is computed as matrix products in chunks, one after the other, see `forms`.

Shape letters: B batch, L length, R ranks (pairs of input and output vectors
that share a step and a head's state), H heads, G groups of heads that share b
and c (1 or H), P inputs and N outputs of a state; K steps of a chunk, S
chunks, J = K R.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from wm.kernels.scan import forms

# Backend -> steps of a chunk for states of fewer than 64 x 64 numbers, and for
# larger ones; divided by the ranks. The CPU's were measured in training
# (float32, T = 600, batch 4 or 16; tests/bench/ssd_bench.py). How many times
# as fast as `lax.scan`, in CPU time:
#                          chunks of 4     8    16    32    64
#   32 x 32                        2.5   4.0   3.3   3.1   2.4
#   64 x 64, 8 heads               3.1   5.3   5.3   5.3   5.0
#   64 x 128, one group            2.9   5.2   6.9  11.3   9.2
#   64 x 128, four groups          4.0   7.0   7.0   8.4   7.8
#   64 x 128, four ranks           4.0   4.3   3.2   2.6   1.6
# Other platforms have the chunks of the published kernels.
_STEPS = {'cpu': (16, 32), 'gpu': (128, 128)}


class Rates(NamedTuple):
  """Decays and weights of each step and head.

  Attributes:
    a: [B, L, H] logarithms of the decays, at most 0; -inf erases the state.
    weight: [B, L, H] of each input.
    late: [B, L, H] extra weight of an input from the next step on; that of the
      last step is included in the returned state.
  """

  a: jax.Array
  weight: jax.Array
  late: jax.Array | None = None


def ssd(
  rates: Rates,
  x: jax.Array,
  b: jax.Array,
  c: jax.Array,
  start: jax.Array,
  *,
  chunk: int = 0,
) -> tuple[jax.Array, jax.Array]:
  """Outputs of the recurrence, and the state after the last step.

  A step whose rates are all 0 leaves the state unchanged. Matrix products have
  the dtype of x and sum in that of `start`.

  Args:
    rates: decays, and weights of the inputs.
    x: [B, L, H, P] inputs, or [B, L, R, H, P].
    b: [B, L, G, N] or [B, L, R, G, N], G = 1 or H.
    c: as b.
    start: [B, H, P, N] state before the first step.
    chunk: steps of a chunk; 0 is the measured default.

  Returns:
    y as x, and the state [B, H, P, N], both of start's dtype.
  """
  single = x.ndim == 4
  if single:
    x, b, c = x[:, :, None], b[:, :, None], c[:, :, None]
  plain = Ends(lambda _, arrays: (arrays, ()), lambda weights, extra, y: y)
  y, state = between(plain, (), (x, b, c), rates, start, chunk=chunk)
  return (y[:, :, 0] if single else y), state


class Ends(NamedTuple):
  """Step-wise functions before and after the recurrence.

  Attributes:
    read: (weights, inputs) -> ((x [B, L, R, H, P], b and c [B, L, R, G, N]),
      extra arrays for `write`).
    write: (weights, extra, y [B, L, R, H, P]) -> outputs [B, L, ...].
  """

  read: Callable[[Any, Any], tuple[tuple[jax.Array, ...], Any]]
  write: Callable[[Any, Any, jax.Array], jax.Array]


def between(
  ends: Ends,
  weights: Any,
  inputs: Any,
  rates: Rates,
  start: jax.Array,
  *,
  chunk: int = 0,
) -> tuple[jax.Array, jax.Array]:
  """`ssd` fused with a reader of its inputs and a consumer of its outputs.

  Both run chunk by chunk, and again in the backward pass, so that the large
  arrays x, b and c never exist for a whole sequence.

  Args:
    ends: functions that do not close over traced arrays.
    weights: tree of arrays, passed to both functions.
    inputs: tree of arrays [B, L, ...], the input of `ends.read`.
    rates: see `ssd`.
    start: see `ssd`.
    chunk: see `ssd`.

  Returns:
    the outputs of `ends.write`, and the state [B, H, P, N].
  """
  x = jax.eval_shape(ends.read, weights, inputs)[0][0]
  size = start.shape[-2] * start.shape[-1]
  steps = forms.usual(_STEPS)[size >= 4096] // x.shape[2]  # Fewer with ranks.
  rates = rates._replace(a=forms.bounded(rates.a))
  body = functools.partial(_chunk, ends)
  return forms.run_chunks(body, chunk or steps, weights, start, (inputs, rates))


def ssd_step(
  x: jax.Array,
  a: jax.Array,
  b: jax.Array,
  c: jax.Array,
  weight: jax.Array,
  state: jax.Array,
) -> tuple[jax.Array, jax.Array]:
  """One step: x [..., R, H, P], a and weight [..., H], b and c [..., R, G, N].

  Returns y as x, and the state [..., H, P, N] after it.
  """
  decay = jnp.exp(forms.bounded(a))[..., None, None]
  state = decay * state + outer(x * weight[..., None, :, None], b)
  return _read(state, c), state


def outer(x_XRHP: jax.Array, b_XRGN: jax.Array) -> jax.Array:
  """The update [..., H, P, N] of the state by the inputs of a step."""
  return jnp.einsum('...rhp,...rhn->...hpn', x_XRHP, _each(b_XRGN, x_XRHP))


def _read(h_XHPN: jax.Array, c_XRGN: jax.Array) -> jax.Array:
  """A state's outputs [..., R, H, P]."""
  c_XRHN = _each(c_XRGN, h_XHPN[..., None, :, :, 0])
  return jnp.einsum('...hpn,...rhn->...rhp', h_XHPN, c_XRHN)


def _each(b_XRGN: jax.Array, x_XRHP: jax.Array) -> jax.Array:
  """[..., R, H, N]: a group's vectors for each of its heads."""
  shape = (*b_XRGN.shape[:-2], x_XRHP.shape[-2], b_XRGN.shape[-1])
  return jnp.broadcast_to(b_XRGN, shape)


def _chunk(
  ends: Ends, weights: Any, h_BHPN: jax.Array, part: tuple[Any, Rates]
) -> tuple[jax.Array, jax.Array]:
  r"""Returns the state after a chunk, and its outputs after `write`.

  Inputs and outputs are numbered j = r K + k, rank r before step k. Scores
  are then R x R blocks of K x K, and the weight of a pair of steps, which all
  ranks share, is one such block that is repeated:

      i \ j    | r = 0      | r = 1      |      in a block, step i of the
      r = 0    | w_ik  0    | w_ik  0    |      output from step k of the
               | w_ik w_ik  | w_ik w_ik  |      input: 0 where k > i
      r = 1    | w_ik  0    | w_ik  0    |
               | w_ik w_ik  | w_ik w_ik  |
  """
  inputs, rates = part
  dtype = h_BHPN.dtype
  (x, b, c), extra = ends.read(weights, inputs)
  size, ranks = x.shape[1:3]
  x_BHJP, b_BGJN, c_BGJN = (_by_head(leaf) for leaf in (x, b, c))
  a_BHK = rates.a.astype(dtype).swapaxes(1, 2)
  # The decay from input step k to output step i.
  decay_BHKK = forms.decays(a_BHK)
  now_BHK, after_BHK = _by_step(rates, dtype)
  # An input's weight in its own step is on the diagonal, the weight it has in
  # later steps, `late` included, below it.
  pairs = jnp.where(
    jnp.eye(size, dtype=bool)[None, None],
    now_BHK[..., None, :],
    after_BHK[..., None, :],
  )
  pairs = (decay_BHKK * pairs)[:, :, None, :, None]  # [B, H, 1, K, 1, K]
  # Inputs of this chunk: y = ((c b') * pairs) x, for all heads of a group.
  scores = _product('bgin,bgjn->bgij', c_BGJN, b_BGJN, dtype)
  scores = scores.reshape(*scores.shape[:2], ranks, size, ranks, size) * pairs
  scores = scores.reshape(*x_BHJP.shape[:3], -1).astype(x.dtype)
  y = _product('bhij,bhjp->bhip', scores, x_BHJP, dtype)
  # The state before the chunk: y += e^{a up to here} c h.
  grown = jnp.exp(_sums(a_BHK))[:, :, None, :, None]
  seen = _heads_product('bgin,bhpn->bhip', c_BGJN, h_BHPN, dtype)
  y, seen = (
    leaf.reshape(*leaf.shape[:2], ranks, size, -1) for leaf in (y, seen)
  )
  y_BHRKP = y + grown * seen
  # The state after the chunk: decayed inputs plus the decayed state before.
  left = (decay_BHKK[..., -1, :] * after_BHK)[:, :, None, :, None]
  left = left * x_BHJP.reshape(y_BHRKP.shape)
  left = left.reshape(x_BHJP.shape).astype(x.dtype)
  added = _heads_product('bgjn,bhjp->bhpn', b_BGJN, left, dtype)
  h_BHPN = jnp.exp(a_BHK.sum(-1))[..., None, None] * h_BHPN + added
  return h_BHPN, ends.write(weights, extra, y_BHRKP.transpose(0, 3, 2, 1, 4))


def _by_head(x_BKRHP: jax.Array) -> jax.Array:
  """[B, H, J, P]."""
  x = x_BKRHP.transpose(0, 3, 2, 1, 4)
  return x.reshape(*x.shape[:2], -1, x.shape[-1])


def _by_step(rates: Rates, dtype: Any) -> tuple[jax.Array, jax.Array]:
  """Weights [B, H, K] of an input in its own step, and after it."""
  now = rates.weight.astype(dtype).swapaxes(1, 2)
  if rates.late is None:
    return now, now
  return now, now + rates.late.astype(dtype).swapaxes(1, 2)


def _sums(a_BHK: jax.Array) -> jax.Array:
  """Running sums along K, as a product with a triangle of ones."""
  upper = jnp.triu(jnp.ones(2 * a_BHK.shape[-1:], a_BHK.dtype))
  return jnp.matmul(a_BHK, upper, precision=jax.lax.Precision.HIGHEST)


def _product(
  subscripts: str, first: jax.Array, second: jax.Array, dtype: Any
) -> jax.Array:
  """An einsum of the first's dtype, summed in the one given."""
  return jnp.einsum(
    subscripts, first, second.astype(first.dtype), preferred_element_type=dtype
  ).astype(dtype)


def _heads_product(
  subscripts: str, first: jax.Array, second: jax.Array, dtype: Any
) -> jax.Array:
  """A product over g and h, where one group stands for every head."""
  if first.shape[1] == 1:
    first, subscripts = first[:, 0], subscripts.replace('g', '')
  return _product(subscripts.replace('g', 'h'), first, second, dtype)


# The selective scan (S6): a diagonal recurrence that takes its step sizes.
#
#   h_t = e^{d_t rate} h_{t-1} + d_t x_t b_t        y_t = <h_t, c_t>
#
# for each channel, with N numbers of state (Gu & Dao 2023, arXiv 2312.00752,
# section 3). Every state has its own decay, so a chunk is not a matrix product.
# The backward pass recomputes chunks, so that one state per chunk is stored
# instead of one per step. Forms: 'sequential' runs the steps of a chunk one by
# one; 'associative' composes them in a tree, so that L / K chunks are
# sequential instead of L steps.
# Shape letters: D channels, N states of a channel.

# Platform -> (form, steps of a chunk); the CPU's was measured in training (2
# cores, float32; tests/bench/ssd_bench.py), the others' were not.
_SELECTIVE = {'cpu': ('sequential', 16), 'gpu': ('associative', 64)}

# A step of 1e-8 decays to zero in float32, and no gradient overflows.
_LEAST_RATE = -1e10


def selective(
  x: jax.Array,
  delta: jax.Array,
  rate: jax.Array,
  b: jax.Array,
  c: jax.Array,
  start: jax.Array,
  *,
  form: str = '',
  chunk: int = 0,
) -> tuple[jax.Array, jax.Array]:
  """Outputs [B, L, D] of the recurrence, and the state after the last step.

  Steps of size 0 leave the state unchanged.

  Args:
    x: [B, L, D] inputs.
    delta: [B, L, D] step sizes, at least 0.
    rate: [D, N], at most 0; -inf erases the state at every step of size > 0.
    b: [B, L, N].
    c: [B, L, N].
    start: [B, D, N] state before the first step; its dtype is that of the
      computation.
    form: see above; '' is that of the platform.
    chunk: steps of a chunk; 0 is that of the platform.
  """
  usual, steps = forms.usual(_SELECTIVE)
  inputs = tuple(leaf.astype(start.dtype) for leaf in (x, delta, b, c))
  rate = _bounded_rate(rate.astype(start.dtype))
  bodies = {'sequential': _selective_run, 'associative': _selective_tree}
  body = bodies[form or usual]
  return forms.run_chunks(body, chunk or steps, rate, start, inputs)


def selective_step(
  x_XD: jax.Array,
  delta_XD: jax.Array,
  rate_DN: jax.Array,
  b_XN: jax.Array,
  c_XN: jax.Array,
  state_XDN: jax.Array,
) -> tuple[jax.Array, jax.Array]:
  """One step: outputs [..., D] and the state after it."""
  rate = _bounded_rate(rate_DN).reshape((1,) * (x_XD.ndim - 1) + rate_DN.shape)
  decay = jnp.exp(delta_XD[..., None] * rate)
  added = (delta_XD * x_XD)[..., None] * b_XN[..., None, :]
  state = decay * state_XDN + added
  return (state * c_XN[..., None, :]).sum(-1), state


def _bounded_rate(rate: jax.Array) -> jax.Array:
  """Finite, since a step of size 0 is multiplied by it."""
  return jnp.maximum(rate, _LEAST_RATE)


def _selective_run(rate: jax.Array, start: jax.Array, inputs: Any) -> Any:
  """(state after, y [B, K, D]) of a chunk of steps [B, K, ...]."""

  @jax.checkpoint  # Only the states are kept for the backward pass.
  def body(h: jax.Array, now: Any) -> tuple[jax.Array, jax.Array]:
    x, delta, b, c = now
    y, h = selective_step(x, delta, rate, b, c, h)
    return h, y

  steps = tuple(leaf.swapaxes(0, 1) for leaf in inputs)
  state, y_KBD = jax.lax.scan(body, start, steps)
  return state, y_KBD.swapaxes(0, 1)


def _selective_tree(rate: jax.Array, start: jax.Array, inputs: Any) -> Any:
  """(state after, y [B, K, D]) of a chunk of steps [B, K, ...]."""
  x, delta, b, c = inputs
  decay = jnp.exp(delta[..., None] * rate[None, None])
  added = (delta * x)[..., None] * b[:, :, None]
  h = forms.diagonal(decay, added, start)
  return h[:, -1], jnp.einsum('bldn,bln->bld', h, c)
