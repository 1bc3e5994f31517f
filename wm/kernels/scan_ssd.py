"""State-space duality: recurrences of matrix states with a scalar decay a head.

    h_t = e^{a_t} h_{t-1} + sum_r w_t x_t^r b_t^rT      y_t^r = h_t c_t^r

(Dao & Gu 2024, arXiv 2405.21060, sections 6 and 7.) `late` weights enter the
state only after the output of their step, which is all that the exponential-
trapezoidal rule adds (Lahoti et al. 2026, arXiv 2603.15569, section 3). In a
chunk of K steps the recurrence is a product with a lower triangular matrix:

    y = (c bT * e^{sums of a} * w) x  +  e^{a up to here} c h_before

Forms: 'sequential' (`lax.scan`), 'associative' (`lax.associative_scan`, which
keeps a state for each step), 'chunked' (matrix products in chunks, a scan over
them), 'auto' (the fastest measured).

Shape letters: B batch, L length, R ranks (pairs of input and output vectors
that share a step and a head's state), H heads, G groups of heads that share b
and c (1 or H), P inputs and N outputs of a state; K steps of a chunk, S
chunks, J = K R.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from wm import core

FORMS = ('auto', 'sequential', 'associative', 'chunked')

# Backend -> (form, steps of a chunk for states of fewer than 64 x 64 numbers,
# for larger ones). The CPU's were measured in training (2 cores, float32, T =
# 600; tests/bench/ssd_bench.py): chunks take 0.4 of the time of `lax.scan` for
# 32 x 32, 0.2 to 0.25 for 64 x 128. Others have the published kernels' chunks.
_AUTO = {
  'cpu': ('chunked', 32, 64),
  'gpu': ('chunked', 128, 128),
  'tpu': ('chunked', 128, 128),
}

# e^-100 is zero in float32; a bound keeps sums of decays finite.
_LEAST = -100.0


class _Inputs(NamedTuple):
  """Arguments with every dimension written out; a chunk cuts L into S, K.

  Attributes:
    x: [B, L, R, H, P].
    a: [B, L, H].
    b, c: [B, L, R, G, N].
    now: [B, L, H] weight of a step's input from its own output on.
    late: [B, L, H] further weight, from the next output on.
  """

  x: jax.Array
  a: jax.Array
  b: jax.Array
  c: jax.Array
  now: jax.Array
  late: jax.Array | None


def resolve(
  form: str, chunk: int, size: int = 1, ranks: int = 1
) -> tuple[str, int]:
  """The form and the steps of a chunk, with 'auto' and 0 filled in.

  size: numbers of a head's state; ranks: the more, the fewer steps.

  Raises:
    InputError: there is no such form, or the chunk is negative.
  """
  if form not in FORMS:
    raise core.InputError(f'form={form!r}; available: {", ".join(FORMS)}')
  if chunk < 0:
    raise core.InputError(f'chunk={chunk}; expected 1 or more, or 0: measured')
  best, *steps = _AUTO.get(jax.default_backend(), _AUTO['gpu'])
  usual = max(steps[size >= 4096] // ranks, 1)
  return best if form == 'auto' else form, chunk or usual


def ssd(
  x: jax.Array,
  a: jax.Array,
  b: jax.Array,
  c: jax.Array,
  weight: jax.Array,
  start: jax.Array,
  *,
  late: jax.Array | None = None,
  form: str = 'auto',
  chunk: int = 0,
) -> tuple[jax.Array, jax.Array]:
  """Outputs of the recurrence, and the state after the last step.

  A step of `a`, `weight` and `late` all 0 leaves the state as it was. Matrix
  products take the dtype of x and sum in that of `start`.

  Args:
    x: [B, L, H, P] inputs, or [B, L, R, H, P].
    a: [B, L, H] logarithms of the decays, at most 0.
    b: [B, L, G, N] or [B, L, R, G, N], G = 1 or H.
    c: as b.
    weight: [B, L, H] of each input.
    start: [B, H, P, N] state before the first step.
    late: [B, L, H] weight that an input has on top from the next step on;
      that of the last step is in the state returned.
    form: see above.
    chunk: steps of a chunk; 0 is the measured default.

  Returns:
    y as x, and the state [B, H, P, N], both of start's dtype.

  Raises:
    InputError: no such form.
  """
  single = x.ndim == 4
  if single:
    x, b, c = x[:, :, None], b[:, :, None], c[:, :, None]
  size = start.shape[-2] * start.shape[-1]
  form, chunk = resolve(form, chunk, size, x.shape[2])
  given = _Inputs(x, jnp.maximum(a, _LEAST), b, c, weight, late)
  if form == 'chunked':
    y, state = _chunked(given, start, max(min(chunk, x.shape[1]), 1))
  else:
    run = _sequential if form == 'sequential' else _associative
    y, state = run(given, start)
  return (y[:, :, 0] if single else y), state


def step(
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
  decay = jnp.exp(jnp.maximum(a, _LEAST))[..., None, None]
  state = decay * state + outer(x * weight[..., None, :, None], b)
  return _read(state, c), state


def outer(x_XRHP: jax.Array, b_XRGN: jax.Array) -> jax.Array:
  """What the inputs of a step add to its state [..., H, P, N]."""
  return jnp.einsum('...rhp,...rhn->...hpn', x_XRHP, _each(b_XRGN, x_XRHP))


def _read(h_XHPN: jax.Array, c_XRGN: jax.Array) -> jax.Array:
  """A state's outputs [..., R, H, P]."""
  c_XRHN = _each(c_XRGN, h_XHPN[..., None, :, :, 0])
  return jnp.einsum('...hpn,...rhn->...rhp', h_XHPN, c_XRHN)


def _each(b_XRGN: jax.Array, x_XRHP: jax.Array) -> jax.Array:
  """[..., R, H, N]: a group's vectors for each of its heads."""
  shape = (*b_XRGN.shape[:-2], x_XRHP.shape[-2], b_XRGN.shape[-1])
  return jnp.broadcast_to(b_XRGN, shape)


def _late(given: _Inputs) -> jax.Array:
  """Weight of each input once its step is over [B, L, H]."""
  if given.late is None:
    return given.now
  return given.now + given.late


def _sequential(
  given: _Inputs, start: jax.Array
) -> tuple[jax.Array, jax.Array]:
  @jax.checkpoint  # Only the states are kept for the backward pass.
  def body(h: jax.Array, now: _Inputs) -> tuple[jax.Array, jax.Array]:
    x, a, b, c, weight, late = now
    added = outer(x, b)
    wide = (..., None, None)
    old = jnp.exp(a)[wide] * h
    h = old + weight[wide] * added
    y = _read(h, c)
    return (h if late is None else h + late[wide] * added), y

  given = _Inputs(
    *(None if leaf is None else leaf.astype(start.dtype) for leaf in given)
  )
  steps = jax.tree.map(lambda leaf: leaf.swapaxes(0, 1), given)
  state, y = jax.lax.scan(body, start, steps)
  return y.swapaxes(0, 1), state


def _associative(
  given: _Inputs, start: jax.Array
) -> tuple[jax.Array, jax.Array]:
  """Scans affine maps of the state, one for each step."""
  wide = (..., None, None)
  given = _Inputs(
    *(None if leaf is None else leaf.astype(start.dtype) for leaf in given)
  )
  added = outer(given.x, given.b)

  def after(first: Any, second: Any) -> Any:
    return first[0] * second[0], second[0] * first[1] + second[1]

  decay = jnp.exp(given.a)[wide]
  product, total = jax.lax.associative_scan(
    after, (decay, _late(given)[wide] * added), axis=1
  )
  h = product * start[:, None] + total
  seen = h
  if given.late is not None:
    seen = h - given.late[wide] * added
  return _read(seen, given.c), h[:, -1]


def _chunked(
  given: _Inputs, start: jax.Array, chunk: int
) -> tuple[jax.Array, jax.Array]:
  length = given.x.shape[1]
  short = -length % chunk

  def cut(leaf: jax.Array) -> jax.Array:
    """[B, L, ...] -> [B, S, K, ...], padded by zeros."""
    rest = ((0, 0),) * (leaf.ndim - 2)
    leaf = jnp.pad(leaf, ((0, 0), (0, short), *rest))
    return leaf.reshape(leaf.shape[0], -1, chunk, *leaf.shape[2:])

  given = jax.tree.map(cut, given)
  sums = _sums(given.a)
  inner = jax.checkpoint(functools.partial(_inner, dtype=start.dtype))
  y = inner(given, sums)
  before, state = _carry(given, sums, start)
  c = given.c
  seen = _heads_product('bskrgn,bshpn->bskrhp', c, before, start.dtype)
  grown = jnp.exp(jnp.cumsum(given.a, axis=2))
  y += grown[:, :, :, None, :, None] * seen
  y = y.reshape(y.shape[0], -1, *y.shape[3:])
  return y[:, :length], state


def _sums(a_BSKH: jax.Array) -> jax.Array:
  """[B, S, H, K, K]: sums of a over steps j + 1 to i, for i >= j; else 0.

  These are differences of running sums, which lose their digits after strong
  decays unless what each sum rounds off is kept too.
  """
  fixed = jax.lax.stop_gradient(a_BSKH)
  high, low = jax.lax.associative_scan(
    _exact_sum, (fixed, jnp.zeros_like(fixed)), axis=2
  )
  running = jnp.cumsum(a_BSKH, axis=2)
  high += running - jax.lax.stop_gradient(running)  # 0, with its gradient.
  high, low = high.swapaxes(2, 3), low.swapaxes(2, 3)
  sums = high[..., None] - high[..., None, :]
  sums += low[..., None] - low[..., None, :]
  return jnp.tril(sums)


def _exact_sum(first: Any, second: Any) -> tuple[jax.Array, jax.Array]:
  """Sum of two numbers, each of two parts (Knuth's two-sum, renormalised)."""
  high = first[0] + second[0]
  back = high - first[0]
  error = (first[0] - (high - back)) + (second[0] - back)
  low = error + (first[1] + second[1])
  total = high + low
  return total, low - (total - high)


def _heads_product(
  subscripts: str, first: jax.Array, second: jax.Array, dtype: Any
) -> jax.Array:
  """An einsum over g and h, where one group stands for every head."""
  if first.shape[subscripts.split(',')[0].index('g')] == 1:
    axis = subscripts.split(',')[0].index('g')
    first, subscripts = jnp.squeeze(first, axis), subscripts.replace('g', '')
  subscripts = subscripts.replace('g', 'h')
  second = second.astype(first.dtype)
  return jnp.einsum(
    subscripts, first, second, preferred_element_type=dtype
  ).astype(dtype)


def _inner(given: _Inputs, sums_BSHKK: jax.Array, dtype: Any) -> jax.Array:
  """What a chunk's inputs add to its own outputs [B, S, K, R, H, P]."""
  x, _, b, c, now, late = given
  size = x.shape[2]
  lower = jnp.tril(jnp.ones((size, size), dtype))[None, None, None]
  decay = lower * jnp.exp(sums_BSHKK)
  weights = now.swapaxes(2, 3)[..., None, :]
  if late is not None:
    late = late.swapaxes(2, 3)[..., None, :]
    weights = weights + jnp.tril(lower, -1) * late
  weights = decay * weights
  scores = jnp.einsum(
    'bskrgn,bsjqgn->bsgkrjq', c, b, preferred_element_type=dtype
  )
  scores = scores * weights[:, :, :, :, None, :, None]
  y = jnp.einsum(
    'bshkrjq,bsjqhp->bshkrp',
    scores.astype(x.dtype),
    x,
    preferred_element_type=dtype,
  )
  return y.transpose(0, 1, 3, 4, 2, 5)


def _carry(
  given: _Inputs, sums_BSHKK: jax.Array, start: jax.Array
) -> tuple[jax.Array, jax.Array]:
  """States before each chunk [B, S, H, P, N], and after the last."""
  left = jnp.exp(sums_BSHKK[..., -1, :]).swapaxes(2, 3)
  weight = (left * _late(given))[:, :, :, None, :, None]
  x, b = given.x, given.b
  scaled = (x * weight).astype(x.dtype)
  added = _heads_product('bskrgn,bskrhp->bshpn', b, scaled, start.dtype)
  decay = jnp.exp(given.a.sum(2))[..., None, None]

  def body(h: jax.Array, now: Any) -> tuple[jax.Array, jax.Array]:
    return now[0] * h + now[1], h

  state, before = jax.lax.scan(
    body, start, (decay.swapaxes(0, 1), added.swapaxes(0, 1))
  )
  return before.swapaxes(0, 1), state
