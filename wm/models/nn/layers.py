"""Layers of the networks: embeddings, dense maps, norms, MLPs, state heads.

Shape letters besides those of `core`: R rows of a tile, P positions of a
prefix, C channels of a head, F width of the MLP, W of a convolution, X any
leading dimensions.

These layers replace Flax's for speed on a CPU. At 32 x 128 tokens of width 128,
gradients of Flax's layers take 1.5 to 1.7 times (norms), 2 to 4 times (dense
maps, bit-identical) and 9 times (convolutions) as long; dropout by `jax.random`
takes 14 times as long. Parameters are float32; computation is in `dtype`.
Projections have a separate head dimension, so that a mesh's model axis can
divide it.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import PartitionSpec

from wm.kernels import attention

# (module, parameter) -> mesh axes of the last dimensions. Weight matrices are
# divided over both axes, by heads, MLP width or vocabulary over `model`.
_SPECS: dict[tuple[str, ...], tuple[str | None, ...]] = {
  ('embedding', 'table'): ('model', 'data'),
  ('positions', 'table'): (None, 'data'),
  ('qkv', 'kernel'): ('data', None, 'model', None),
  ('qkv', 'bias'): (None, 'model', None),
  ('inputs', 'kernel'): ('data', 'model', None),
  ('out', 'kernel'): ('model', None, 'data'),
  ('up', 'kernel'): ('data', 'model'),
  ('up', 'bias'): ('model',),
  ('gate', 'kernel'): ('data', 'model'),
  ('gate', 'bias'): ('model',),
  ('down', 'kernel'): ('model', 'data'),
  ('mix', 'kernel'): ('model', 'data'),
  ('head', 'kernel'): ('data', 'model'),
  ('head', 'bias'): ('model',),
}

# Widths of an array's parts: a number, or (rows, columns) for a part that is
# transposed to [columns, rows]; see `cut`.
Sizes = tuple[int | tuple[int, int], ...]


def _names(path: tuple[Any, ...]) -> list[str]:
  """Last two names of a parameter's path, for any JAX key type."""
  names = []
  # NNX appends its own key to a parameter's path; layers are numbers.
  for key in path:
    name = getattr(key, 'key', getattr(key, 'name', key))
    if isinstance(name, str) and name not in ('value', 'raw_value'):
      names.append(name)
  return names[-2:]


def partition_spec(
  path: tuple[Any, ...], shape: tuple[int, ...]
) -> PartitionSpec:
  """Mesh axes ('data', 'model') that divide a parameter's dimensions.

  This is the best layout for computation; `wm.training.state` stores parameters
  in this layout as far as sizes are divisible. path: names from the network
  down, such as ('blocks', 0, 'mlp', 'up', 'kernel'). Leading dimensions (layers
  stacked for a scan) are not divided.
  """
  # Axes belong to the last dimensions: a scan stacks along the first.
  axes = _SPECS.get(tuple(_names(path)), ())
  return PartitionSpec(*(None,) * (len(shape) - len(axes)), *axes)


def divided(axis: str = 'data') -> bool:
  """True while tracing for a mesh with several devices along an axis."""
  return jax.sharding.get_abstract_mesh().shape.get(axis, 1) > 1


def constrain(x: jax.Array, axis: int = 0, whole: bool = False) -> jax.Array:
  """Divides the batch, dimension `axis` of x, over the mesh's data axis.

  whole: replicate the last dimension, which is summed over next.

  Weights are divided over the data axis too. Without this constraint a compiler
  may leave weights in place and send the whole batch to every device. The
  compiler chooses the other dimensions. Without such a mesh, for instance in
  predictions, x is returned unchanged.
  """
  if not divided():
    return x
  # Unconstrained: the compiler chooses how to divide the other dimensions.
  dims: list[Any] = [PartitionSpec.UNCONSTRAINED] * x.ndim
  if whole:
    dims[-1] = None
  dims[axis] = 'data'
  return jax.lax.with_sharding_constraint(x, PartitionSpec(*dims))


def gathered(params: Any) -> Any:
  """Gathers a block's kernels on each device of the data axis.

  Each shard is sent once, in the dtype of the computation, for all products of
  the block. Without this constraint a compiler sends shards or activations
  again for each product: planned for 256 chips, 1.5 B parameters take a twelfth
  more time. Without a mesh, parameters are returned unchanged.
  """
  if not divided():
    return params

  def gather(path: tuple[Any, ...], x: jax.Array) -> jax.Array:
    if _names(path)[-1] != 'kernel':
      return x
    axes = (
      axis if axis == 'model' else None
      for axis in partition_spec(path, x.shape)
    )
    return _whole(x, PartitionSpec(*axes))

  return jax.tree_util.tree_map_with_path(gather, params)


# The gradient is not constrained: sums over devices are scattered to the
# devices that store the shards, not sent to all.
_whole = jax.custom_vjp(jax.lax.with_sharding_constraint, nondiff_argnums=(1,))
_whole.defvjp(
  lambda x, spec: (_whole(x, spec), None), lambda spec, _, dy: (dy,)
)


def decays(path: tuple[Any, ...]) -> bool:
  """True for weight matrices, to which weight decay applies.

  It does not apply to norms, biases and embedding tables. The number of
  dimensions does not decide, since a scan stacks layers.
  """
  return _names(path)[-1] == 'kernel'


def keys(key: jax.Array | None, num: int) -> Sequence[jax.Array | None]:
  """Splits a key into `num` keys; `num` times None without a key."""
  return [None] * num if key is None else list(jax.random.split(key, num))


def dropout(x: jax.Array, rate: float, key: jax.Array | None) -> jax.Array:
  """Zeroes a share `rate` of x and scales the rest; returns x without a key."""
  if key is None or not rate:
    return x
  keep = attention.kept(key, x.shape, rate)
  return jnp.where(keep, x / (1 - rate), 0).astype(x.dtype)


def cut(x: jax.Array, sizes: Sizes, axis: int = -1) -> list[jax.Array]:
  """x cut along an axis; a part of size (n, m) is transposed to m by n."""
  ends = list(itertools.accumulate(map(width_of, sizes)))
  parts = jnp.split(x, ends[:-1], axis)
  for number, size in enumerate(sizes):
    if not isinstance(size, int):
      # The kernel stores a part row by row, [n m]; readers take [m n], so that
      # sums over n read contiguous memory.
      part = jnp.moveaxis(parts[number], axis, -1)
      table = part.reshape(*part.shape[:-1], *size).swapaxes(-1, -2)
      parts[number] = jnp.moveaxis(table.reshape(part.shape), -1, axis)
  return parts


def taken(x_BLD: jax.Array, places_BP: jax.Array) -> jax.Array:
  """x at the places of each row: [B, P, D]."""
  return jnp.take_along_axis(x_BLD, places_BP[..., None], axis=1)


def along(vector: jax.Array, x: jax.Array) -> jax.Array:
  """A parameter reshaped to broadcast along the last dimensions of x."""
  return vector.reshape((1,) * (x.ndim - vector.ndim) + vector.shape)


def width_of(size: int | tuple[int, int]) -> int:
  """Columns of a part of `cut`."""
  return size if isinstance(size, int) else math.prod(size)


class Embedding(nnx.Module):
  """Rows of parameters looked up by id: tokens or positions.

  init: 'normal' is N(0, scale^2); 'torch' is PyTorch's default N(0, 1).
  """

  def __init__(
    self,
    num: int,
    width: int,
    rngs: nnx.Rngs,
    *,
    init: str = 'normal',
    scale: float = 0.02,
  ):
    table = jax.random.normal(rngs.params(), (num, width))
    self.table = nnx.Param(table if init == 'torch' else scale * table)


class Linear(nnx.Module):
  """A dense map; its kernel has shape inputs + outputs, each a tuple.

  init: 'normal' has weights N(0, scale^2) and biases 0; 'torch' is PyTorch's
  default, both uniform in +-1 / sqrt(number of inputs).
  """

  def __init__(
    self,
    inputs: tuple[int, ...],
    outputs: tuple[int, ...],
    rngs: nnx.Rngs,
    *,
    bias: bool = True,
    init: str = 'normal',
    scale: float = 0.02,
  ):
    self.kernel, self.bias = _parameters(
      inputs, outputs, rngs, bias, init, scale
    )
    self.inputs, self.outputs = inputs, outputs

  def __call__(self, x: jax.Array, batch: int = 0) -> jax.Array:
    """[..., *inputs] -> [..., *outputs], as one matrix product.

    batch: index of the leading dimension that a mesh divides.
    """
    # Flattened: on a CPU a 2-D product is the fastest form.
    lead = x.shape[: x.ndim - len(self.inputs)]
    kernel = self.kernel[...].astype(x.dtype)
    kernel = kernel.reshape(math.prod(self.inputs), math.prod(self.outputs))
    if batch and divided():  # Merged with others, it could not be divided.
      y = jnp.tensordot(x.reshape(*lead, -1), kernel, 1)
    else:
      y = x.reshape(math.prod(lead), -1) @ kernel
    if self.bias is not None:
      y += along(self.bias[...].astype(x.dtype).reshape(-1), y)
    # Attention sums over the channels of a head, so each device gets all of
    # them, even where the stored weights are divided along them.
    heads = len(self.outputs) > 1
    return constrain(y.reshape(*lead, *self.outputs), batch, whole=heads)

  def split(self, x: jax.Array, sizes: Sizes) -> list[jax.Array]:
    """The outputs cut along their first dimension, one product for each part.

    Cutting one product would copy its parts and pad their gradients to the full
    size. For a transposed part, the weights are transposed instead of the
    result. Where a mesh may divide the columns, one product is computed and
    cut.
    """
    axis = x.ndim - len(self.inputs)
    if divided('model'):
      return cut(self(x), sizes, axis)
    kernel = self.kernel[...].astype(x.dtype)
    kernel = kernel.reshape(math.prod(self.inputs), *self.outputs)
    lead, x, results = x.shape[:axis], x.reshape(-1, len(kernel)), []
    # kernel [C, *outputs] is cut along its outputs.
    kernels = cut(kernel, sizes, 1)
    biases: Sequence[jax.Array | None] = [None] * len(sizes)
    if self.bias is not None:
      biases = cut(self.bias[...].astype(x.dtype), sizes, 0)
    for part, bias in zip(kernels, biases, strict=True):
      y = x @ part.reshape(len(kernel), -1)
      if bias is not None:
        y += bias.reshape(1, -1)
      y = y.reshape(*lead, *part.shape[1:])
      results.append(constrain(y, whole=len(self.outputs) > 1))
    return results


def _parameters(
  inputs: tuple[int, ...],
  outputs: tuple[int, ...],
  rngs: nnx.Rngs,
  bias: bool,
  init: str,
  scale: float,
) -> tuple[nnx.Param[jax.Array], nnx.Param[jax.Array] | None]:
  """Initial kernel and bias of a `Linear` or a `Convolution`."""
  # PyTorch's bound for both, kaiming_uniform with a = sqrt(5) and its bias.
  most = math.prod(inputs) ** -0.5

  def uniform(shape: tuple[int, ...]) -> jax.Array:
    return jax.random.uniform(rngs.params(), shape, minval=-most, maxval=most)

  if init == 'torch':
    kernel = uniform(inputs + outputs)
    return nnx.Param(kernel), nnx.Param(uniform(outputs)) if bias else None
  kernel = scale * jax.random.normal(rngs.params(), inputs + outputs)
  return nnx.Param(kernel), nnx.Param(jnp.zeros(outputs)) if bias else None


class Norm(nnx.Module):
  """Layer normalisation ('layer') or root mean square ('rms'), in float32."""

  def __init__(self, width: int, kind: str, eps: float = 1e-5):
    self.eps = eps
    self.scale = nnx.Param(jnp.ones(width))
    self.bias = nnx.Param(jnp.zeros(width)) if kind == 'layer' else None

  def __call__(self, x_XD: jax.Array) -> jax.Array:
    """The normed x, of the same shape and dtype."""
    # Mean and variance in float32: 16 bits would lose them for wide streams.
    x = x_XD.astype(jnp.float32)
    if self.bias is not None:
      x -= x.mean(-1, keepdims=True)
    x *= jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + self.eps)
    x *= along(self.scale[...], x)
    if self.bias is not None:
      x += along(self.bias[...], x)
    return constrain(x.astype(x_XD.dtype))


class Mlp(nnx.Module):
  """Two-layer perceptron: 'gelu', 'gelu_erf' (exact) or 'swiglu'.

  hidden: 0 means 4 D, and for 'swiglu' 8/3 D rounded up to a multiple of 8.
  """

  def __init__(
    self,
    width: int,
    kind: str,
    rngs: nnx.Rngs,
    *,
    bias: bool,
    scale: float = 0.02,
    hidden: int = 0,
    init: str = 'normal',
  ):
    gated = kind == 'swiglu'
    # A gated MLP has three maps, not two: 8/3 D has the parameters of 4 D.
    usual = -(-8 * width // 24) * 8 if gated else 4 * width
    inside, outside = (hidden or usual,), (width,)
    linear = functools.partial(Linear, rngs=rngs, bias=bias, init=init)
    self.exact = kind == 'gelu_erf'
    # up, gate [D, F]; down [F, D] has its own scale, as it adds to the stream.
    self.up = linear(outside, inside)
    self.gate = linear(outside, inside) if gated else None
    self.down = linear(inside, outside, scale=scale)

  def __call__(self, x_XD: jax.Array) -> jax.Array:
    """[..., D] -> [..., D]."""
    if self.gate is None:
      x_XF = jax.nn.gelu(self.up(x_XD), approximate=not self.exact)
    else:
      x_XF = jax.nn.silu(self.gate(x_XD)) * self.up(x_XD)
    return self.down(x_XF)


class Convolution(nnx.Module):
  """A short causal depthwise convolution over time.

  y_t = sum of kernel_w * x_(t - W + 1 + w) over w < W = 4; inputs before the
  sequence are zero. init: 'normal' has weights N(0, .02^2); 'torch' is
  PyTorch's default, uniform in +-1 / sqrt(W), also for the bias.
  """

  def __init__(
    self,
    channels: int,
    rngs: nnx.Rngs,
    *,
    bias: bool = True,
    init: str = 'normal',
  ):
    self.kernel, self.bias = _parameters(
      (4,), (channels,), rngs, bias, init, 0.02
    )

  def start(self, lead: tuple[int, ...]) -> jax.Array:
    """Zeros [*lead, W - 1, D] float32: the inputs before the first one."""
    width, channels = self.kernel.shape
    return jnp.zeros((*lead, width - 1, channels))

  def __call__(
    self, x_BLD: jax.Array, lengths_B: jax.Array | None = None
  ) -> tuple[jax.Array, jax.Array]:
    """Output [B, L, D], and the last W - 1 of lengths_B inputs, for `step`."""
    before, length = self.kernel.shape[0] - 1, x_BLD.shape[1]
    # padded  0 0 0 x0 x1 x2 ...   tap w of W = 4 reads padded[t + w] at time t
    padded = jnp.pad(x_BLD, ((0, 0), (before, 0), (0, 0)))
    kernel = self.kernel[...].astype(x_BLD.dtype)
    # Shifted products: gradients of a convolution are 9 times as slow.
    y_BLD = sum(
      padded[:, w : w + length] * tap[None, None]
      for w, tap in enumerate(kernel)
    )
    if lengths_B is None:
      past = padded[:, length:]
    else:
      # Input t is at index t + W - 1 of `padded`: take the last W - 1 inputs.
      place = lengths_B[:, None] + jnp.arange(before)[None]
      past = jnp.take_along_axis(padded, place[..., None], axis=1)
    return self._offset(y_BLD), past.astype(jnp.float32)

  def step(
    self, x_XD: jax.Array, past: jax.Array
  ) -> tuple[jax.Array, jax.Array]:
    """Output and new `past` after one input [..., D]; `past` holds W - 1."""
    last = x_XD[..., None, :]
    inputs = jnp.concatenate([past.astype(x_XD.dtype), last], -2)
    kernel = self.kernel[...].astype(x_XD.dtype)
    y_XD = (inputs * along(kernel, inputs)).sum(-2)
    return self._offset(y_XD), inputs[..., 1:, :].astype(jnp.float32)

  def _offset(self, y_XD: jax.Array) -> jax.Array:
    if self.bias is None:
      return y_XD
    return y_XD + along(self.bias[...].astype(y_XD.dtype), y_XD)


# A state has K labels. Each has a head, a softmax over its classes (Walker and
# Lyons 2026, section 3). Neighbouring heads with equal numbers of classes form
# a run; one matrix product computes one or several runs. For chess:
#
#   heads     13 13 ... 13   2 2 2 2 2   9   3   256 256 256 256
#   runs      64 heads       5 heads     1   1   4 heads
#   products  64 x 13        5 x 2 + 9 + 3       4 x 256
#   layout    [*X, 13, 64]   [*X, 22]            [*X, 1024]
#
# A run is one array operation. A wide run has its own product; neighbouring
# narrow runs share one. Where a wide run has more heads than classes, its heads
# come last: sums over few classes are then vectorised over many heads.
Heads = tuple[int, ...]
Logits = jax.Array | list[jax.Array]

# Runs with fewer logits than this share a matrix product.
_NARROW = 64


def head_runs(heads: Heads) -> list[tuple[int, int, int]]:
  """(first logit, number of heads, classes of each) of runs of equal heads."""
  equal, first = [], 0
  for classes, run in itertools.groupby(heads):
    num = len(list(run))
    equal.append((first, num, classes))
    first += num * classes
  return equal


def _groups(heads: Heads) -> list[list[tuple[int, int, int]]]:
  """The runs of each product."""
  groups: list[list[tuple[int, int, int]]] = []
  before = False
  for run in head_runs(heads):
    # Neighbours that are both narrow share a product.
    narrow = run[1] * run[2] < _NARROW
    if narrow and before:
      groups[-1].append(run)
    else:
      groups.append([run])
    before = narrow
  return groups


def _heads_last(num: int, classes: int) -> bool:
  """True if a run with its own product is laid out [classes, heads]."""
  return num > classes and num * classes >= _NARROW


def state_widths(heads: Heads) -> Sizes:
  """Number of logits of each product, (heads, classes) where heads come last.

  `Network.parts` and `layers.cut` take these sizes.
  """
  sizes = []
  for group in _groups(heads):
    _, num, classes = group[0]
    total = sum(num * classes for _, num, classes in group)
    sizes.append((num, classes) if _heads_last(num, classes) else total)
  return tuple(sizes)


def _cut(logits_XC: Logits, heads: Heads) -> list[tuple[jax.Array, int]]:
  """Logits of each run, and the axis of the classes.

  [*X, heads, classes] and -1, or [*X, classes, heads] and -2.
  """
  pieces, apart = [], isinstance(logits_XC, list)
  groups = _groups(heads) if apart else [head_runs(heads)]
  parts = logits_XC if isinstance(logits_XC, list) else [logits_XC]
  for part, group in zip(parts, groups, strict=True):
    for first, num, classes in group:
      start = first - group[0][0]
      piece, shape = part[..., start : start + num * classes], (num, classes)
      last = apart and _heads_last(num, classes)
      shape = shape[::-1] if last else shape
      piece = piece.reshape(*piece.shape[:-1], *shape)
      pieces.append((piece, -2 if last else -1))
  return pieces


def state_classes(logits_XC: Logits, heads: Heads) -> jax.Array:
  """[*X, K] int32 most likely class of each head; ties take the lowest."""
  parts = [jnp.argmax(part, axis) for part, axis in _cut(logits_XC, heads)]
  return jnp.concatenate(parts, axis=-1).astype(jnp.int32)


def state_losses(
  logits_XC: Logits, labels_XK: jax.Array, heads: Heads
) -> jax.Array:
  """[*X, K] float32: -log p(label) of each head, nats.

  logits_XC: one array, or an array for each product of `state_widths`, so that
  their gradients need no concatenation.
  """
  losses, first = [], 0
  for part, axis in _cut(logits_XC, heads):
    num = part.shape[-3 - axis]
    label_XK = labels_XK[..., first : first + num]
    losses.append(_loss(axis, part.astype(jnp.float32), label_XK))
    first += num
  return jnp.concatenate(losses, axis=-1)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _loss(axis: int, logits_XC: jax.Array, label_X: jax.Array) -> jax.Array:
  """[*X] cross-entropies, to full precision even where they are tiny.

  axis: dimension of the classes in the logits.

  p(label) = e / (e + s), where s is the mass of the other classes. Where the
  label has the largest logit, the loss is log1p(s / e): rounding would destroy
  a difference of logarithms below 1e-7, the size of the best published losses.
  """
  return _forward(axis, logits_XC, label_X)[0]


def _forward(
  axis: int, logits_XC: jax.Array, label_X: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, ...]]:
  """Losses, and residuals that save the gradient a second exp."""
  # The largest logit is subtracted: every exp is at most 1, and one is 1.
  hit_XC = _hit(axis, logits_XC, label_X)
  logits_XC = logits_XC - logits_XC.max(axis, keepdims=True)
  place_X1 = jnp.expand_dims(label_X.astype(jnp.int32), axis)
  picked = jnp.take_along_axis(logits_XC, place_X1, axis).squeeze(axis)
  # The label's own exp is set to 0: the sum is s, without a subtraction.
  rest_XC = jnp.exp(jnp.where(hit_XC, -jnp.inf, logits_XC))
  others = rest_XC.sum(axis)
  best = picked >= 0
  safe = jnp.where(best, picked, 0)  # No overflow where it is not used.
  # Label largest: log1p(s / e). Otherwise log(s + e) - log(e), never small.
  loss_X = jnp.where(
    best,
    jnp.log1p(others * jnp.exp(-safe)),
    jnp.log(others + jnp.exp(picked)) - picked,
  )
  return loss_X, (rest_XC, label_X, picked, others)


def _backward(
  axis: int, residuals: tuple[jax.Array, ...], slope_X: jax.Array
) -> tuple[jax.Array, None]:
  """The slope times p; at the label, the slope times -s / (e + s)."""
  # d loss / d logit = p - [is the label]. At the label, p - 1 is computed as
  # -s / (e + s), since p - 1 would be rounded to 0 for p near 1.
  rest_XC, label_X, picked, others = residuals
  scale_X = slope_X / (others + jnp.exp(picked))
  at_label_X1 = jnp.expand_dims(-others * scale_X, axis)
  slope_XC = rest_XC * jnp.expand_dims(scale_X, axis)
  hit_XC = _hit(axis, rest_XC, label_X)
  return jnp.where(hit_XC, at_label_X1, slope_XC), None


_loss.defvjp(_forward, _backward)


def _hit(axis: int, logits_XC: jax.Array, label_X: jax.Array) -> jax.Array:
  """One-hot mask of the labels, [*X, C] bool."""
  shape = [1] * logits_XC.ndim
  shape[axis] = -1
  classes = jnp.arange(logits_XC.shape[axis]).reshape(shape)
  return jnp.expand_dims(label_X.astype(jnp.int32), axis) == classes
