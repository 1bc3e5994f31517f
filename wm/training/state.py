"""The state of training: mesh, shardings, parameters and the optimizer.

Parameters are a flat dict from path ('blocks.0.mlp.kernel') to array, in
training and in checkpoints, so that neither depends on the containers in which
a network's classes nest; `merge` turns them back into a network.

Two kinds of update. 'adamw' moves every parameter by AdamW. 'muon' (Jordan et
al. 2024) moves the kernels of dense maps by their orthogonalised momentum, and
the rest (embeddings, heads, norms, biases, convolutions, and what families
declare themselves) by AdamW.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Iterable, Mapping
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

Arrays = dict[str, Any]  # Of jax.Array, or what stands for them.
Shapes = dict[str, jax.ShapeDtypeStruct]
SHARE, LEAST = 1.5, 1 << 30  # See `check_memory`.


class State(NamedTuple):
  """What a step changes.

  Attributes:
    params: path -> array.
    opt: the optimizer's state.
  """

  params: Arrays
  opt: Any


def merge(spec: network.NetworkSpec, params: Arrays) -> network.Network:
  """The network with these parameters."""
  return nnx.merge(spec.graph, spec.tree(params))


def mesh(data: int, model: int) -> Mesh:
  """Devices as ('data', 'model'); data=0 takes all; raises InputError."""
  devices = jax.device_count()
  num_devices = (data or devices // model) * model
  if not num_devices or num_devices > devices:
    raise core.InputError(
      f'mesh_data={data}, mesh_model={model} does not fit the {devices} '
      f'devices of all processes; expected a product of at most {devices}'
    )
  # A process without a part in the mesh would wait for ever in the first
  # collective operation.
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
    devices=jax.devices()[:num_devices],
  )


def data_parts(mesh: Mesh) -> tuple[tuple[int, ...], int]:
  """Parts of a batch that devices of this process hold, and how many there are.

  Devices along 'model' hold the same rows, those along 'data' one part each.
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
  """Bytes of parameters a device of a mesh, and what an equal share would be.

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

  That is, SHARE times an equal share and LEAST bytes more than it: the sizes of
  the model lack factors of the number of devices.
  """
  local, equal = memory(abstract, mesh, copies)
  if local <= max(SHARE * equal, equal + LEAST):
    return
  devices = mesh['data'] * mesh['model']
  fewer = (
    {'data': num // mesh['model'], 'model': mesh['model']}
    for num in range(devices - 1, 0, -1)
    if num % mesh['model'] == 0
  )
  # There is none where no mesh divides the sizes.
  good = next(
    (
      f'; {best["data"]} x {best["model"]} hold less'
      for best in fewer
      if memory(abstract, best, copies)[0] < local
    ),
    '',
  )
  raise core.InputError(
    f'a mesh of {mesh["data"]} x {mesh["model"]} devices would hold '
    f'{local / 1e9:.2f} GB of state each, an equal share being '
    f'{equal / 1e9:.2f}: they do not divide the sizes of the model{good}'
  )


def state_shardings(
  abstract: State, params: dict[str, NamedSharding], mesh: Mesh
) -> State:
  """Moments live with their parameter; counters everywhere."""
  everywhere = NamedSharding(mesh, P())

  def place(path: Any, leaf: jax.ShapeDtypeStruct) -> NamedSharding:
    name = jax.tree_util.keystr(path[-1:], simple=True)
    # A moment has the name and the shape of its parameter; all else, such as a
    # counter, is on every device.
    same = name in params and leaf.shape == abstract.params[name].shape
    return params[name] if same else everywhere

  return State(params, jax.tree_util.tree_map_with_path(place, abstract.opt))


def abstract_state(
  shapes: Shapes,
  optimizer: optax.GradientTransformation,
  mesh: Mesh,
) -> State:
  """Shapes, dtypes and shardings of the whole state."""
  # Traced alone: no array of the size of the model is made on the host.
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
  """A new state, each device making its own part.

  The parameters are those of the model's predictor before training.
  """

  def init(seed: jax.Array) -> State:
    # Within jit: each device makes its own part, by the same random bits.
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
    # Within jit: each device makes the moments of the parameters that it holds,
    # and no array of the size of the model is made on the host.
    return State(params, optimizer.init(params))

  shardings = jax.tree.map(lambda leaf: leaf.sharding, abstract)
  return jax.jit(init, out_shardings=shardings)(params)


def schedule(training: Training) -> optax.Schedule:
  """Learning rate by update: linear warm-up, then as `schedule` says.

  From the warm-up's end to the horizon, and constant from there: the published
  chess runs' schedules (Walker and Lyons 2026, appendix). Raises InputError
  where the horizon is within the warm-up.
  """
  warmup = min(training.warmup, training.steps)
  if 0 < training.horizon <= warmup:
    raise core.InputError(
      f'--horizon={training.horizon} is not after the warm-up of {warmup} steps'
    )
  # `join_schedules` counts `after` from the end of the warm-up, so its length
  # is what remains.
  # From the end of the warm-up to the horizon; the rate is constant after it.
  rest = max((training.horizon or training.steps) - warmup, 1)
  low = training.lr * training.floor
  after = {
    'cosine': optax.cosine_decay_schedule(training.lr, rest, training.floor),
    'linear': optax.linear_schedule(training.lr, low, rest),
    'constant': optax.constant_schedule(training.lr),
  }[training.schedule]
  if not warmup:
    return after
  # Step 0 already moves: the ramp starts at one part in `warmup`.
  ramp = optax.linear_schedule(
    training.lr / warmup, training.lr, max(warmup - 1, 1)
  )
  return optax.join_schedules([ramp, after], [warmup])


def decay_mask(
  paths: Iterable[str], decay_all: bool, never: Collection[str] = ()
) -> dict[str, bool]:
  """Which parameters decay: matrices; not biases, norms or embeddings.

  decay_all: all of them, as the published runs have it, but for those whose
  last name is in `never`.
  """
  return {
    path: path.rpartition('.')[2] not in never
    and (decay_all or layers.decays(tuple(path.split('.'))))
    for path in paths
  }


def matrix_axes(
  spec: network.NetworkSpec,
) -> dict[str, contrib.MuonDimensionNumbers]:
  """Path -> which axes of a dense map's kernel are its inputs and outputs.

  Kernels have one axis for each part of their inputs and outputs, so that a
  mesh can divide heads; as matrices they are [inputs, outputs]. Axes before
  these are layers that a scan stacks, and the first of three output axes
  counts maps that lie side by side (queries, keys and values): each is a
  matrix of its own. The head is left out: it is no map between hidden states.
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
      tuple(range(-last - len(module.inputs), -last)),
      tuple(range(-outputs, 0)),
    )
  return axes


def update_rules(
  training: Training, paths: Iterable[str], matrices: Collection[str]
) -> dict[str, str]:
  """Path -> 'muon' or 'adamw': what moves each parameter."""
  adamw = training.optimizer == 'adamw'
  return {
    path: 'adamw' if adamw or path not in matrices else 'muon' for path in paths
  }


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
    never: last names of parameters that do not decay in any run.
    matrices: see `matrix_axes`; 'adamw' takes no notice of them.
    divided: several devices may each have a part of a parameter.

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
    if not divided:  # Parts of several devices would be sent to make a stack.
      muon = stacked(muon, _muon(training, lambda _: _STACK), matrices)
    rule = optax.partition(
      {'muon': muon, 'adamw': rule},
      update_rules(training, paths, matrices),
    )
  # Clipped by the norm over all parameters, before the rule sees the gradient.
  clip = [optax.clip_by_global_norm(training.clip)] if training.clip else []
  # From inside out: clip, rule, average, guard. A step that is skipped thus
  # leaves the average alone, too.
  whole = optax.chain(*clip, rule)
  if training.average:
    whole = averaged(whole, training.average)
  return guarded(whole) if training.skips else whole


_STACK = contrib.MuonDimensionNumbers(1, 2)  # Of [N, inputs, outputs].
_LARGE = 1 << 20  # Elements of a matrix whose products need no company.


def _muon(
  training: Training,
  axes: Callable[[str], contrib.MuonDimensionNumbers | None],
) -> optax.GradientTransformation:
  """Muon on matrices alone, by the same schedule to a peak of its own.

  axes: of a parameter's path; None for those that AdamW moves.
  """
  return contrib.muon(
    schedule(dataclasses.replace(training, lr=training.matrix_lr)),
    weight_decay=training.weight_decay,
    # Optax asks with all names, those that AdamW moves masked.
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
      # A large one is a stack of its own: a copy of it would gain nothing.
      name = str(sizes) if math.prod(sizes) < _LARGE else path
      stacks.setdefault(name, []).append(path)

    def join(tree: Arrays) -> Arrays:
      """Stacks by name, of parameters by path."""
      if not jax.tree.leaves(tree):  # All are masked, so the stacks are.
        return dict.fromkeys(stacks, optax.MaskedNode())
      return {
        name: jnp.concatenate([_matrices(tree[x], matrices[x]) for x in paths])
        for name, paths in stacks.items()
      }

    def part(tree: Arrays) -> Arrays:
      """Parameters by path, of stacks by name."""
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
  """A state, with `act` done to each dict in it that has these names."""

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
  """The kernel of a shape that `_matrices` made x of."""
  order = _order(len(shape), axes)
  return x.reshape([shape[n] for n in order]).transpose(np.argsort(order))


def guarded(
  inner: optax.GradientTransformationExtraArgs,
) -> optax.GradientTransformationExtraArgs:
  """No update, and `inner` as it was, where loss or gradient is not finite."""

  def update(
    grads: Any, state: Any, params: Any = None, *, loss: Any = 0.0, **extra: Any
  ) -> tuple[Any, Any]:
    """Changes of the parameters and the next state; 0 and `state` if bad."""
    # The norm is finite only if every gradient is: one test for all arrays.
    good = jnp.isfinite(loss) & jnp.isfinite(optax.tree.norm(grads))
    changes, after = inner.update(grads, state, params, loss=loss, **extra)
    changes = jax.tree.map(lambda x: jnp.where(good, x, 0), changes)
    # Moments must not take the bad gradient in: NaN would stay in them.
    new_state = jax.tree.map(lambda x, y: jnp.where(good, x, y), after, state)
    return changes, new_state

  return optax.GradientTransformationExtraArgs(inner.init, update)


class Averaged(NamedTuple):
  """State of `averaged`: parameters that gradients are taken at.

  Attributes:
    latest: path -> array, the parameters after the last update.
    updates: [] int32, how many it is over.
    inner: state of the optimizer that moves `latest`.
  """

  latest: Any
  updates: jax.Array
  inner: Any


def averaged(
  inner: optax.GradientTransformationExtraArgs, width: float
) -> optax.GradientTransformationExtraArgs:
  """The parameters are an average over the run so far, which `inner` makes.

  After t updates the one before s of them weighs as s^g, with the g whose
  standard deviation of s / t is `width` (Karras et al. 2024, section 3.1), so
  the average is over the same share of a run whenever it is looked at. What
  a run evaluates, saves and serves is the average; see `latest_params`.
  """
  # The weights s^g have the standard deviation t * width where
  # (g + 1) / ((g + 2)^2 (g + 3)) = width^2: the largest root of a cubic.
  power = max(np.roots([1, 7, 16 - width**-2, 12 - width**-2]).real)

  def init(params: Any) -> Averaged:
    # A copy: a step gives up the buffers of both.
    latest = jax.tree.map(jnp.copy, params)
    return Averaged(latest, jnp.zeros([], jnp.int32), inner.init(params))

  def update(
    grads: Any, state: Any, params: Any = None, **extra: Any
  ) -> tuple[Any, Averaged]:
    """Moves `latest`, then the average by its share of the way there."""
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
  """The parameters that the next gradient is taken at."""
  return state.latest if isinstance(state, Averaged) else params


def num_updates(state: Any) -> jax.Array:
  """[] int32: updates made so far, by an optimizer's state."""
  # Each rule that has a schedule counts for itself, and all count alike: a
  # skipped step adds to none.
  counts = jax.tree.leaves(
    state, is_leaf=lambda x: isinstance(x, optax.ScaleByScheduleState)
  )
  return next(
    x.count for x in counts if isinstance(x, optax.ScaleByScheduleState)
  )
