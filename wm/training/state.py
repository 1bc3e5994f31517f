"""The state of training: mesh, shardings, parameters and the optimizer.

Parameters are a flat dict from path ('blocks.0.mlp.kernel') to array, in
training and in checkpoints, independent of how a network's classes nest;
`merge` converts them back to a network.

There are two update rules. 'adamw' updates every parameter by AdamW. 'muon'
(Jordan et al. 2024) updates the kernels of dense layers by their orthogonalised
momentum, and the others (embeddings, heads, norms, biases, convolutions, and
parameters that families declare) by AdamW.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from optax import contrib

from wm import core
from wm.models.nn import layers, network
from wm.options.training import Training

Arrays = dict[str, Any]  # Path -> jax.Array or a placeholder.
Shapes = dict[str, jax.ShapeDtypeStruct]
SHARE, LEAST = 1.5, 1 << 30  # Tolerances of `check_memory`.


class State(NamedTuple):
  """The training state, which each step updates.

  Attributes:
    params: path -> array.
    opt: the optimizer's state.
  """

  params: Arrays
  opt: Any


def merge(spec: network.NetworkSpec, params: Arrays) -> network.Network:
  """The network with these parameters."""
  return nnx.merge(spec.graph, spec.tree(params))


def mesh(
  data: int, model: int, chosen: Sequence[jax.Device] | None = None
) -> Mesh:
  """A mesh of devices with axes ('data', 'model').

  data: devices along 'data'; 0 takes all.
  chosen: devices to use; None: those of all processes.

  Raises:
    InputError: the mesh does not fit the devices.
  """
  listed = jax.devices() if chosen is None else chosen
  devices = len(listed)
  num_devices = (data or devices // model) * model
  if not num_devices or num_devices > devices:
    raise core.InputError(
      f'mesh_data={data}, mesh_model={model} does not fit the {devices} '
      f'devices of all processes; expected a product of at most {devices}'
    )
  # A process without devices in the mesh would hang in the first collective
  # operation.
  if jax.process_count() > 1 and num_devices != devices:
    raise core.InputError(
      f'a mesh of {num_devices // model} x {model} devices leaves out some of '
      f'the {devices} of {jax.process_count()} processes'
    )
  # Auto: XLA propagates shardings from the constraints that layers state.
  auto = jax.sharding.AxisType.Auto
  return jax.make_mesh(
    (num_devices // model, model),
    ('data', 'model'),
    axis_types=(auto, auto),
    devices=listed[:num_devices],
  )


def data_parts(mesh: Mesh) -> tuple[tuple[int, ...], int]:
  """The parts of a batch on devices of this process, and the number of parts.

  Devices along 'data' hold one part each; devices along 'model' hold the same
  rows.
  """
  process = jax.process_index()
  parts = tuple(
    part
    for part, devices in enumerate(mesh.devices)
    if any(device.process_index == process for device in devices)
  )
  return parts, len(mesh.devices)


def memory(
  abstract: Shapes, mesh: Mapping[str, int], copies: int = 1
) -> tuple[int, float]:
  """Bytes of parameters on a device of a mesh, and bytes of an equal share.

  copies: arrays for each parameter, such as moments.
  """
  axes, local, total = network.storage_axes(mesh), 0, 0
  for path, leaf in abstract.items():
    size = leaf.dtype.itemsize * copies
    local += size * network.division(path, leaf.shape, axes)[1]
    total += size * int(np.prod(leaf.shape))
  return local, total / int(np.prod([*axes.values()]))


def check_memory(
  abstract: Shapes, mesh: Mapping[str, int], copies: int
) -> None:
  """Raises InputError if a device holds far more than its share of the state.

  The limit is SHARE times an equal share, and LEAST bytes more than it. It is
  exceeded if the model's sizes are not divisible by the number of devices.
  """
  local, equal = memory(abstract, mesh, copies)
  if local <= max(SHARE * equal, equal + LEAST):
    return
  raise core.InputError(
    f'a mesh of {mesh["data"]} x {mesh["model"]} devices would hold '
    f'{local / 1e9:.2f} GB of state each, an equal share being '
    f'{equal / 1e9:.2f}: they do not divide the sizes of the model'
  )


def state_shardings(
  abstract: State, params: dict[str, NamedSharding], mesh: Mesh
) -> State:
  """Shardings: moments like their parameter, counters replicated."""
  everywhere = NamedSharding(mesh, P())

  def place(path: Any, leaf: jax.ShapeDtypeStruct) -> NamedSharding:
    name = jax.tree_util.keystr(path[-1:], simple=True)
    # A moment has the name and the shape of its parameter; other arrays, such
    # as counters, are on every device.
    same = name in params and leaf.shape == abstract.params[name].shape
    return params[name] if same else everywhere

  return State(params, jax.tree_util.tree_map_with_path(place, abstract.opt))


def abstract_state(
  shapes: Shapes, optimizer: optax.GradientTransformation, mesh: Mesh
) -> State:
  """Shapes, dtypes and shardings of the whole state."""
  # Only traced, so that the host holds no array of the model's size.
  bare = State(shapes, jax.eval_shape(optimizer.init, shapes))
  params = network.storage_shardings(shapes, network.storage_mesh(mesh))
  shardings = state_shardings(bare, params, mesh)
  return jax.tree.map(
    lambda leaf, sharding: jax.ShapeDtypeStruct(
      leaf.shape, leaf.dtype, sharding=sharding
    ),
    bare,
    shardings,
  )


def create(
  spec: network.NetworkSpec,
  seed: int,
  optimizer: optax.GradientTransformation,
  abstract: State,
) -> State:
  """Creates a new state; each device creates its own part.

  The parameters equal those of the model's untrained predictor.
  """

  def init(seed: jax.Array) -> State:
    # Within jit, each device makes its own part, by the same random bits.
    built = spec.build(nnx.Rngs(jax.random.key(seed)))
    params = network.flatten(nnx.split(built)[1])
    return State(params, optimizer.init(params))

  shardings = jax.tree.map(lambda leaf: leaf.sharding, abstract)
  return jax.jit(init, out_shardings=shardings)(np.uint32(seed))


def from_params(
  params: Arrays, optimizer: optax.GradientTransformation, abstract: State
) -> State:
  """A new state with parameters from elsewhere."""

  def init(params: Arrays) -> State:
    # Within jit, each device makes the moments of its own parameters, and the
    # host holds no array of the model's size.
    return State(params, optimizer.init(params))

  shardings = jax.tree.map(lambda leaf: leaf.sharding, abstract)
  return jax.jit(init, out_shardings=shardings)(params)


def schedule(training: Training) -> optax.Schedule:
  """Learning rate by update: linear warm-up, then by `training.schedule`.

  The rate decays from the end of the warm-up to the last step.
  """
  warmup = min(training.warmup, training.steps)
  # `join_schedules` counts `after` from the end of the warm-up.
  rest = max(training.steps - warmup, 1)
  low = training.lr * training.floor
  after = {
    'cosine': optax.cosine_decay_schedule(training.lr, rest, training.floor),
    'linear': optax.linear_schedule(training.lr, low, rest),
    'constant': optax.constant_schedule(training.lr),
  }[training.schedule]
  if not warmup:
    return after
  # Step 0 already has a rate: the ramp starts at 1 / warmup of the peak.
  ramp = optax.linear_schedule(
    training.lr / warmup, training.lr, max(warmup - 1, 1)
  )
  return optax.join_schedules([ramp, after], [warmup])


def decay_mask(
  paths: Iterable[str], decay_all: bool, never: Collection[str] = ()
) -> dict[str, bool]:
  """Path -> whether weight decay applies: to matrices alone by default.

  decay_all: decay biases, norms and embeddings too, as in the published runs.
  never: last names of parameters without decay in any case.
  """
  return {
    path: path.rpartition('.')[2] not in never
    and (decay_all or layers.decays(tuple(path.split('.'))))
    for path in paths
  }


def matrix_axes(
  spec: network.NetworkSpec,
) -> dict[str, contrib.MuonDimensionNumbers]:
  """Path -> input and output axes of each dense layer's kernel.

  Kernels have one axis for each part of their inputs and outputs, so that a
  mesh can divide heads; as matrices they are [inputs, outputs]. Axes before
  these are layers stacked for a scan, and the first of three output axes
  counts parallel maps (queries, keys and values): each is a separate matrix.
  The head is left out, because its outputs are not hidden states.
  """
  axes = {}
  for path, module in nnx.iter_graph(spec.network):
    if not isinstance(module, layers.Linear) or path[-1] == 'head':
      continue
    # [..., inputs, (maps,) outputs]: of three output axes the first counts
    # maps, which is left to stand before the matrix.
    outputs = min(len(module.outputs), 2)
    last = len(module.outputs)
    axes['.'.join(map(str, (*path, 'kernel')))] = contrib.MuonDimensionNumbers(
      tuple(range(-last - len(module.inputs), -last)), tuple(range(-outputs, 0))
    )
  return axes


def make_optimizer(
  training: Training,
  paths: Iterable[str],
  never: Collection[str] = (),
  matrices: Mapping[str, contrib.MuonDimensionNumbers] | None = None,
  *,
  divided: bool = False,
) -> optax.GradientTransformationExtraArgs:
  """The optimizer of a run.

  Args:
    training: the run's options.
    paths: names of all parameters.
    never: last names of parameters that never decay.
    matrices: see `matrix_axes`; 'adamw' ignores them.
    divided: whether parameters may be divided over several devices.

  Raises:
    InputError: 'muon' without a matrix, or options that exclude each other.
  """
  paths, matrices = list(paths), matrices or {}
  if training.optimizer == 'muon' and not matrices:
    raise core.InputError(
      "--optimizer=muon finds no dense maps in this model; expected 'adamw'"
    )
  rate, decay = schedule(training), training.weight_decay
  rule = optax.adamw(
    rate,
    b2=training.beta2,
    weight_decay=decay,
    mask=decay_mask(paths, training.decay_all, never),
  )
  if training.optimizer != 'adamw' and matrices:
    muon = _muon(training, matrices.get)
    if not divided:  # Stacking would move parts between devices.
      muon = stacked(muon, _muon(training, lambda _: _STACK), matrices)
    rule = optax.partition(
      {'muon': muon, 'adamw': rule},
      {path: 'muon' if path in matrices else 'adamw' for path in paths},
    )
  # Clips by the norm over all parameters, before the update rules.
  clip = [optax.clip_by_global_norm(training.clip)] if training.clip else []
  # From inside out: clip, rule, average, guard. A skipped step thus leaves the
  # average unchanged, too.
  whole = optax.chain(*clip, rule)
  if training.average:
    whole = averaged(whole, training.average)
  return guarded(whole) if training.skips else whole


_STACK = contrib.MuonDimensionNumbers(1, 2)  # For [N, inputs, outputs].
_LARGE = 1 << 20  # Elements of a matrix that is too large to gain by stacking.


def _muon(
  training: Training, axes: Callable[[str], contrib.MuonDimensionNumbers | None]
) -> optax.GradientTransformation:
  """Muon for matrices, with the same schedule and its own peak rate.

  axes: function from a parameter's path to axes; None if AdamW updates it.
  """
  return contrib.muon(
    schedule(dataclasses.replace(training, lr=training.matrix_lr)),
    weight_decay=training.weight_decay,
    # Optax passes all names; parameters of AdamW are masked.
    muon_weight_dimension_numbers=lambda params: {x: axes(x) for x in params},
  )


def stacked(
  each: optax.GradientTransformation,
  inner: optax.GradientTransformation,
  matrices: Mapping[str, contrib.MuonDimensionNumbers],
) -> optax.GradientTransformation:
  """`each`, computed by `inner` on stacks of all small matrices of one shape.

  A CPU multiplies a stack in two thirds of the time that its matrices take one
  by one. The state is that of `each`, so checkpoints do not depend on stacks.

  Args:
    each: the rule for parameters by path.
    inner: the same rule for stacks [N, inputs, outputs].
    matrices: see `matrix_axes`; other parameters are masked.
  """

  def update(grads: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
    """Changes of the parameters, and the next state."""
    stacks: dict[str, list[str]] = {}  # Name -> paths.
    for path in matrices:
      sizes = _matrices(grads[path], matrices[path]).shape[1:]
      # A large matrix is a separate stack, as copying it gains nothing.
      name = str(sizes) if math.prod(sizes) < _LARGE else path
      stacks.setdefault(name, []).append(path)

    def join(tree: Arrays) -> Arrays:
      """Converts parameters by path to stacks by name."""
      if not jax.tree.leaves(tree):  # All are masked, and so are the stacks.
        return dict.fromkeys(stacks, optax.MaskedNode())
      return {
        name: jnp.concatenate([_matrices(tree[x], matrices[x]) for x in paths])
        for name, paths in stacks.items()
      }

    def part(tree: Arrays) -> Arrays:
      """Converts stacks by name to parameters by path."""
      parts = dict.fromkeys(grads, optax.MaskedNode())
      for name, paths in stacks.items() if jax.tree.leaves(tree) else ():
        start = 0
        for path in paths:
          shape, axes = grads[path].shape, matrices[path]
          stop = start + _matrices(grads[path], axes).shape[0]
          parts[path] = _kernel(tree[name][start:stop], shape, axes)
          start = stop
      return parts

    changes, after = inner.update(
      join(grads), _replaced(state, grads, join), join(params)
    )
    return part(changes), _replaced(after, stacks, part)

  return optax.GradientTransformation(each.init, update)


def _replaced(state: Any, names: Any, act: Callable[[Arrays], Arrays]) -> Any:
  """Applies `act` to each dict of a state that has these names as keys."""

  def named(x: Any) -> bool:
    return isinstance(x, dict) and x.keys() == names.keys()

  return jax.tree.map(lambda x: act(x) if named(x) else x, state, is_leaf=named)


def _order(ndim: int, axes: contrib.MuonDimensionNumbers) -> list[int]:
  """Dimensions of a kernel: those before its matrices, inputs, outputs."""
  last = [x + ndim for x in (*axes.reduction_axis, *axes.output_axis)]
  return [x for x in range(ndim) if x not in last] + last


def _matrices(x: jax.Array, axes: contrib.MuonDimensionNumbers) -> jax.Array:
  """A kernel as [N, inputs, outputs]."""
  inputs, outputs = (
    math.prod(x.shape[axis] for axis in part)
    for part in (axes.reduction_axis, axes.output_axis)
  )
  return x.transpose(_order(x.ndim, axes)).reshape(-1, inputs, outputs)


def _kernel(
  x: jax.Array, shape: tuple[int, ...], axes: contrib.MuonDimensionNumbers
) -> jax.Array:
  """The inverse of `_matrices`, for a kernel of a shape."""
  order = _order(len(shape), axes)
  return x.reshape([shape[n] for n in order]).transpose(np.argsort(order))


def guarded(
  inner: optax.GradientTransformationExtraArgs,
) -> optax.GradientTransformationExtraArgs:
  """Skips the update if loss or gradient is not finite; the state stays."""

  def update(
    grads: Any, state: Any, params: Any = None, *, loss: Any = 0.0, **extra: Any
  ) -> tuple[Any, Any]:
    """Changes of the parameters and the next state; 0 and `state` if bad."""
    # The norm is finite only if every gradient is: one test for all arrays.
    good = jnp.isfinite(loss) & jnp.isfinite(optax.tree.norm(grads))
    changes, after = inner.update(grads, state, params, loss=loss, **extra)
    changes = jax.tree.map(lambda x: jnp.where(good, x, 0), changes)
    # A bad gradient would leave NaN in the moments.
    new_state = jax.tree.map(lambda x, y: jnp.where(good, x, y), after, state)
    return changes, new_state

  return optax.GradientTransformationExtraArgs(inner.init, update)


class Averaged(NamedTuple):
  """State of `averaged`.

  Attributes:
    latest: path -> array, the parameters after the last update, at which
      gradients are taken.
    updates: [] int32, number of updates in the average.
    inner: state of the optimizer that updates `latest`.
  """

  latest: Any
  updates: jax.Array
  inner: Any


def averaged(
  inner: optax.GradientTransformationExtraArgs, width: float
) -> optax.GradientTransformationExtraArgs:
  """Averages the parameters of `inner` over the run so far.

  After t updates, the parameters after update s have a weight proportional to
  s^g. The exponent g is such that s / t has the standard deviation `width`
  (Karras et al. 2024, section 3.1), so the average covers the same share of a
  run at any time. A run evaluates, saves and serves the average; see
  `latest_params`.
  """
  # The weights s^g have the standard deviation t * width where
  # (g + 1) / ((g + 2)^2 (g + 3)) = width^2: the largest root of a cubic.
  power = max(np.roots([1, 7, 16 - width**-2, 12 - width**-2]).real)

  def init(params: Any) -> Averaged:
    # A copy, because a step donates the buffers of both.
    latest = jax.tree.map(jnp.copy, params)
    return Averaged(latest, jnp.zeros([], jnp.int32), inner.init(params))

  def update(
    grads: Any, state: Any, params: Any = None, **extra: Any
  ) -> tuple[Any, Averaged]:
    """Updates `latest`, then moves the average a share of the way to it."""
    changes, after = inner.update(grads, state.inner, state.latest, **extra)
    latest = optax.apply_updates(state.latest, changes)
    count = optax.safe_increment(state.updates)
    # mean_t = mean_{t-1} + share (x_t - mean_{t-1}) has weights close to s^g
    # where share = 1 - (1 - 1/t)^(g+1).
    share = 1 - (1 - 1 / count.astype(jnp.float32)) ** (power + 1)
    moves = jax.tree.map(lambda x, mean: share * (x - mean), latest, params)
    return moves, Averaged(latest, count, after)

  return optax.GradientTransformationExtraArgs(init, update)


def latest_params(params: Any, state: Any) -> Any:
  """The parameters at which the next gradient is taken."""
  return state.latest if isinstance(state, Averaged) else params


def num_updates(state: Any) -> jax.Array:
  """[] int32: number of updates so far, from an optimizer's state."""
  # Each rule with a schedule has a counter, and all counters agree: a skipped
  # step adds to none.
  counts = jax.tree.leaves(
    state, is_leaf=lambda x: isinstance(x, optax.ScaleByScheduleState)
  )
  return next(
    x.count for x in counts if isinstance(x, optax.ScaleByScheduleState)
  )
