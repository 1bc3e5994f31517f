"""Causal attention with dropout as kernels of TPUs and GPUs (Pallas).

As in `attention.blocks`, there is no array of all scores, none above the
diagonal, and the backward pass recomputes them. A block of queries stays in
registers while its blocks of keys stream by:

    forward    one program per block of queries; keys 0 .. i
    backward   one program per block of keys, queries j .. : gradients of k, v
               one program per block of queries, keys 0 .. i: gradients of q

Scores are laid out as [T keys, S queries], so that one number per query is a
row [1, S], which fits a TPU's registers. Dropout hashes a weight's place in the
global batch: both passes, any mesh and any block size drop the same weights.

Shape letters as in `attention`; S queries and T keys of a block, S = T.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import triton
from jax.sharding import PartitionSpec as P

from wm.runtime import compute

# Tokens of a block: a TPU's registers are 128 wide; a GPU's shared memory
# holds blocks of 64.
SIZES = {'tpu': 128, 'gpu': 64}
# Longest sequence whose keys and values fit in a TPU's vector memory.
LONGEST = 8192
_NEVER = -1e30


class KernelConfig(NamedTuple):
  """Static arguments of the kernels.

  Attributes:
    size: S.
    rate: of dropout; 0 disables dropout.
    heads: number of heads on all devices together.
    length: tokens of a sequence, before padding to whole blocks.
    target: 'tpu', 'gpu', or 'cpu', where kernels are interpreted.
  """

  size: int
  rate: float
  heads: int
  length: int
  target: str


def fits(shape: tuple[int, ...], target: str) -> bool:
  """True if a kernel supports queries [B, L, H, C] on this platform."""
  batch, length, _, channels = shape
  mesh = jax.sharding.get_abstract_mesh().shape
  if target not in SIZES or length > LONGEST or batch % mesh.get('data', 1):
    return False
  # A GPU's products are of powers of two, 16 at least.
  power = channels >= 16 and channels & (channels - 1) == 0
  return power if target == 'gpu' else channels % 8 == 0


def attend(
  q_BLHC: jax.Array,
  k_BLHC: jax.Array,
  v_BLHC: jax.Array,
  rate: float = 0.0,
  key: jax.Array | None = None,
  size: int = 0,
) -> jax.Array:
  """As `attention.blocks` [B, L, H, C]; see `fits`.

  Under a mesh each device computes its part of the batch and, if the number of
  heads permits, of the heads. size: S; 0 is the platform's default.
  """
  target = compute.platform()
  _, length, heads, _ = q_BLHC.shape
  size = size or SIZES.get(target, 128)
  rate = 0.0 if key is None else rate
  settings = KernelConfig(size, rate, heads, length, target)
  words = jnp.zeros(2, jnp.uint32)
  if rate:
    assert key is not None  # Otherwise the rate is 0.
    words = jax.random.bits(key, (2,))
  # Kernels read a head's tokens contiguously, in whole blocks. Padding of the
  # last block comes after all queries, so it is masked.
  short = -length % size

  def by_head(x: jax.Array) -> jax.Array:
    x = jnp.pad(x, ((0, 0), (0, short), (0, 0), (0, 0)))
    return x.swapaxes(1, 2)

  parts = (by_head(x) for x in (q_BLHC, k_BLHC, v_BLHC))
  y_BHLC = _fused(settings, *parts, words.astype(jnp.int32))
  return y_BHLC.swapaxes(1, 2)[:, :length]


def kept(
  words: tuple[Any, Any], rate: float, row: Any, query: Any, key: Any, size: int
) -> jax.Array:
  """Bool mask of kept weights, by the hash of `attention.dropout_bits`.

  Args:
    words: two int32, of the dropout's key.
    rate: of dropout.
    row: index of the sequence and head.
    query: int32 places of queries, of the result's shape.
    key: int32 places of keys, of the result's shape.
    size: tokens of a sequence.
  """
  # int32 throughout: a TPU's kernels have no unsigned arithmetic.
  shift = jax.lax.shift_right_logical

  def mixed(x: jax.Array, by: int, factor: int) -> jax.Array:
    factor -= (factor >> 31) << 32  # The same bits as a signed number.
    return (x ^ shift(x, jnp.full_like(x, by))) * jnp.int32(factor)

  x = (row * size + query) * size + key
  x = x * jnp.int32(0x9E3779B1 - 2**32) + words[0]
  x = mixed(mixed(x, 16, 0x85EBCA6B), 13, 0xC2B2AE35)
  x = (x ^ shift(x, jnp.full_like(x, 16))) + words[1]
  x = mixed(mixed(x, 16, 0x7FEB352D), 15, 0x846CA68B)
  x ^= shift(x, jnp.full_like(x, 16))
  # 24 bits against the rate: numbers without a sign.
  return shift(x, jnp.full_like(x, 8)) >= jnp.int32(round(rate * 2**24))


class _BlockPair(NamedTuple):
  """A block of keys against one of queries, [T, S]."""

  settings: KernelConfig
  words: Any  # Reference to 4 int32: two words, first row and head.
  row: Any  # Number of the sequence and head.
  i: Any  # Of queries.
  j: Any  # Of keys.

  def places(self) -> tuple[jax.Array, jax.Array]:
    """Of keys and queries."""
    size = self.settings.size
    shape = size, size
    key = self.j * size + jax.lax.broadcasted_iota(jnp.int32, shape, 0)
    query = self.i * size + jax.lax.broadcasted_iota(jnp.int32, shape, 1)
    return key, query

  def scores(self, k_TC: jax.Array, q_SC: jax.Array) -> jax.Array:
    """[T, S] float32, _NEVER where a key comes after the query."""
    key, query = self.places()
    return jnp.where(key <= query, _product(k_TC, q_SC, 1, 1), _NEVER)

  def dropped(self, weights_TS: jax.Array) -> jax.Array:
    """The weights after dropout."""
    settings = self.settings
    if not settings.rate:
      return weights_TS
    key, query = self.places()
    words = self.words[0], self.words[1]
    mask = kept(words, settings.rate, self.row, query, key, settings.length)
    return jnp.where(mask, weights_TS / (1 - settings.rate), 0)


def _number(settings: KernelConfig, words: Any) -> Any:
  """Global index of a program's sequence and head, over all devices."""
  row = (words[2] + pl.program_id(0)) * settings.heads
  return row + words[3] + pl.program_id(1)


def _product(a: jax.Array, b: jax.Array, over_a: int, over_b: int) -> jax.Array:
  """Sum over a dimension of each, in the second's dtype, float32."""
  return jax.lax.dot_general(
    a.astype(b.dtype),
    b,
    (((over_a,), (over_b,)), ((), ())),
    preferred_element_type=jnp.float32,
  )


def _block(ref: Any, number: Any, size: int) -> jax.Array:
  """Block [S, C] of a reference [L, C]."""
  return ref[pl.ds(pl.multiple_of(number * size, size), size), :]


def _row(ref: Any, number: Any, size: int) -> jax.Array:
  """Block [1, S] of a reference [1, L]."""
  return ref[:, pl.ds(pl.multiple_of(number * size, size), size)]


def _forward_kernel(
  settings: KernelConfig,
  words: Any,
  q_SC: Any,
  k_LC: Any,
  v_LC: Any,
  y_CS: Any,
  sums_1S: Any,
) -> None:
  """Transposed outputs and logarithms of sums of a block of queries."""
  size, i, q = settings.size, pl.program_id(2), q_SC[...]
  row = _number(settings, words)

  def keys(j: Any, so_far: Any) -> Any:
    """Adds one block of keys to the queries' running sums."""
    top, mass, total = so_far
    pair = _BlockPair(settings, words, row, i, j)
    scores_TS = pair.scores(_block(k_LC, j, size), q)
    new = jnp.maximum(top, scores_TS.max(0, keepdims=True))
    weights_TS, old = jnp.exp(scores_TS - new), jnp.exp(top - new)
    mass = mass * old + weights_TS.sum(0, keepdims=True)
    v_TC = _block(v_LC, j, size)
    dropped_TS = pair.dropped(weights_TS).astype(v_TC.dtype)
    return new, mass, total * old + _product(v_TC, dropped_TS, 0, 0)

  none_1S = jnp.zeros((1, size), jnp.float32)
  nothing_CS = jnp.zeros((q.shape[1], size), jnp.float32)
  top, mass, total = jax.lax.fori_loop(
    0, i + 1, keys, (none_1S + _NEVER, none_1S, nothing_CS)
  )
  y_CS[...] = (total / mass).astype(y_CS.dtype)
  sums_1S[...] = top + jnp.log(mass)


def _slope(
  pair: _BlockPair, arrays: tuple[jax.Array, ...], rows: tuple[jax.Array, ...]
) -> tuple[jax.Array, jax.Array]:
  """Gradients [T, S] of the scores of a pair, and its weights after dropout.

  arrays: k and v [T, C], q and dL/dy [S, C]. rows: [1, S] the logarithms of
  sums, and dL/dy * y.
  """
  k_TC, v_TC, q_SC, slope_SC = arrays
  sums_1S, level_1S = rows
  weights_TS = jnp.exp(pair.scores(k_TC, q_SC) - sums_1S)
  to_weights_TS = pair.dropped(_product(v_TC, slope_SC, 1, 1))
  return weights_TS * (to_weights_TS - level_1S), pair.dropped(weights_TS)


def _keys_kernel(settings: KernelConfig, words: Any, *references: Any) -> None:
  """Gradients of a block of keys and values."""
  q_LC, k_TC, v_TC, slope_LC, sums_1L, level_1L, to_k_TC, to_v_TC = references
  size, j, k, v = settings.size, pl.program_id(2), k_TC[...], v_TC[...]
  row = _number(settings, words)

  def queries(i: Any, slopes: Any) -> Any:
    to_k, to_v = slopes
    q_SC, slope_SC = (_block(ref, i, size) for ref in (q_LC, slope_LC))
    rows = _row(sums_1L, i, size), _row(level_1L, i, size)
    pair = _BlockPair(settings, words, row, i, j)
    to_scores_TS, dropped_TS = _slope(pair, (k, v, q_SC, slope_SC), rows)
    to_k += _product(to_scores_TS, q_SC, 1, 0)
    return to_k, to_v + _product(dropped_TS, slope_SC, 1, 0)

  nothing = jnp.zeros(k.shape, jnp.float32)
  num = q_LC.shape[0] // size
  to_k, to_v = jax.lax.fori_loop(j, num, queries, (nothing, nothing))
  to_k_TC[...] = to_k.astype(to_k_TC.dtype)
  to_v_TC[...] = to_v.astype(to_v_TC.dtype)


def _queries_kernel(
  settings: KernelConfig, words: Any, *references: Any
) -> None:
  """Gradients of a block of queries."""
  q_SC, k_LC, v_LC, slope_SC, sums_1S, level_1S, to_q_SC = references
  size, i, q = settings.size, pl.program_id(2), q_SC[...]
  slope, rows = slope_SC[...], (sums_1S[...], level_1S[...])
  row = _number(settings, words)

  def keys(j: Any, to_q: jax.Array) -> jax.Array:
    k_TC, v_TC = (_block(ref, j, size) for ref in (k_LC, v_LC))
    pair = _BlockPair(settings, words, row, i, j)
    to_scores_TS, _ = _slope(pair, (k_TC, v_TC, q, slope), rows)
    return to_q + _product(to_scores_TS, k_TC, 0, 0)

  nothing = jnp.zeros(q.shape, jnp.float32)
  to_q = jax.lax.fori_loop(0, i + 1, keys, nothing)
  to_q_SC[...] = to_q.astype(to_q_SC.dtype)


# The part of an array [B, H, ...] for program (b, h, n): block n of the tokens,
# or all tokens; also for rows [B, H, 1, L] and transposed arrays [B, H, C, L].
def _spec(kind: str, size: int, length: int, channels: int) -> pl.BlockSpec:
  shapes: dict[str, tuple[tuple[int, int], Any]] = {
    'part': ((size, channels), lambda b, h, n: (b, h, n, 0)),
    'all': ((length, channels), lambda b, h, n: (b, h, 0, 0)),
    'row': ((1, size), lambda b, h, n: (b, h, 0, n)),
    'rows': ((1, length), lambda b, h, n: (b, h, 0, 0)),
    'turned': ((channels, size), lambda b, h, n: (b, h, 0, n)),
  }
  shape, place = shapes[kind]
  return pl.BlockSpec((None, None, *shape), place)


def _call(
  kernel: Any,
  settings: KernelConfig,
  words: jax.Array,
  arrays: dict[str, tuple[str, jax.Array]],
  results: dict[str, tuple[str, Any]],
  products: int,
) -> list[jax.Array]:
  """Runs a kernel for all sequences, heads and blocks.

  Args:
    kernel: of one program.
    settings: see there.
    words: [4] int32, see `_BlockPair`.
    arrays: name -> kind of part, see `_spec`, and the array.
    results: name -> kind of part, and the shape and dtype of the result.
    products: number of matrix products for a pair of blocks.
  """
  (batch, heads, length, channels) = arrays['q'][1].shape
  size, target = settings.size, settings.target
  num = length // size
  sizes = size, length, channels
  scalars = (
    pl.BlockSpec(memory_space=pltpu.SMEM)
    if target == 'tpu'
    else pl.BlockSpec((4,), lambda b, h, n: (0,))
  )
  pairs = batch * heads * num * (num + 1) // 2
  shapes = [x for _, x in (*arrays.values(), *results.values())]
  moved = sum(math.prod(x.shape) * x.dtype.itemsize for x in shapes)
  call = pl.pallas_call(
    functools.partial(kernel, settings),
    grid=(batch, heads, num),
    in_specs=[scalars, *(_spec(how, *sizes) for how, _ in arrays.values())],
    out_specs=[_spec(how, *sizes) for how, _ in results.values()],
    out_shape=[shape for _, shape in results.values()],
    # On other platforms kernels are interpreted, for tests.
    interpret=target not in SIZES,
    compiler_params=(
      triton.CompilerParams(num_warps=4) if target == 'gpu' else None
    ),
    cost_estimate=pl.CostEstimate(
      flops=2 * products * pairs * size * size * channels,
      transcendentals=pairs * size * size,
      bytes_accessed=moved,
    ),
  )
  return list(call(words, *(x for _, x in arrays.values())))


def _local(function: Any, heads: int) -> Any:
  """`function` of (words, *arrays [B, H, ...]) on each device's part.

  A compiler cannot divide a kernel and would replicate all arrays. `words` get
  the index of the first row and head of the part.
  """
  mesh = jax.sharding.get_abstract_mesh()

  def numbered(words: jax.Array, *arrays: jax.Array) -> Any:
    first = jnp.zeros(2, jnp.int32)
    if divided:
      batch, part = arrays[0].shape[:2]
      row = jax.lax.axis_index('data') * batch
      head = jax.lax.axis_index('model') * part if by_model else 0
      first = jnp.stack([row, jnp.int32(head)]).astype(jnp.int32)
    return function(jnp.concatenate([words, first]), *arrays)

  divided = mesh.size > 1 and {'data', 'model'} <= {*mesh.axis_names}
  by_model = divided and heads % mesh.shape['model'] == 0
  if not divided:
    return numbered
  spec = P('data', 'model' if by_model else None)

  def mapped(words: jax.Array, *arrays: jax.Array) -> Any:
    return jax.shard_map(
      numbered,
      in_specs=(P(), *(spec for _ in arrays)),
      out_specs=spec,
      check_vma=False,
    )(words, *arrays)

  return mapped


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _fused(
  settings: KernelConfig, q: jax.Array, k: jax.Array, v: jax.Array, words: Any
) -> jax.Array:
  return _forward(settings, q, k, v, words)[0]


def _forward(
  settings: KernelConfig, q: jax.Array, k: jax.Array, v: jax.Array, words: Any
) -> tuple[jax.Array, Any]:
  """Outputs [B, H, L, C], and residuals for the backward pass."""

  def run(words: Any, q: jax.Array, k: jax.Array, v: jax.Array) -> Any:
    """Transposed outputs and logarithms of sums."""
    batch, heads, length, channels = q.shape
    turned = jax.ShapeDtypeStruct((batch, heads, channels, length), q.dtype)
    rows = jax.ShapeDtypeStruct((batch, heads, 1, length), jnp.float32)
    return _call(
      _forward_kernel,
      settings,
      words,
      {'q': ('part', q), 'k': ('all', k), 'v': ('all', v)},
      {'y': ('turned', turned), 'sums': ('row', rows)},
      2,
    )

  y_BHCL, sums = _local(run, settings.heads)(words, q, k, v)
  y = y_BHCL.swapaxes(2, 3)
  return y, (q, k, v, words, y, sums)


def _backward(settings: KernelConfig, residuals: Any, slope: jax.Array) -> Any:
  """Gradients of queries, keys and values."""
  q, k, v, words, y, sums = residuals
  # See `attention._backward`: dL/dy * y, one number per query.
  level = (slope.astype(jnp.float32) * y.astype(jnp.float32)).sum(-1)[
    :, :, None
  ]

  def run(words: Any, *arrays: jax.Array) -> Any:
    """Gradients of q, k and v."""
    q, k, v, slope, sums, level = arrays
    like = jax.ShapeDtypeStruct(q.shape, q.dtype)
    both = {'slope': ('all', slope), 'sums': ('rows', sums)}
    to_k, to_v = _call(
      _keys_kernel,
      settings,
      words,
      {'q': ('all', q), 'k': ('part', k), 'v': ('part', v), **both}
      | {'level': ('rows', level)},
      {'k': ('part', like), 'v': ('part', like)},
      4,
    )
    both = {'slope': ('part', slope), 'sums': ('row', sums)}
    (to_q,) = _call(
      _queries_kernel,
      settings,
      words,
      {'q': ('part', q), 'k': ('all', k), 'v': ('all', v), **both}
      | {'level': ('row', level)},
      {'q': ('part', like)},
      3,
    )
    return to_q, to_k, to_v

  arrays = q, k, v, slope.astype(q.dtype), sums, level
  return *_local(run, settings.heads)(words, *arrays), None


_fused.defvjp(_forward, _backward)
