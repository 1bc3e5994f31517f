"""Mesh, shardings and the state of training.

Parameters are a flat dict from path ('blocks.0.mlp.kernel') to array, in
training and in checkpoints, so that neither depends on the containers in which
a network's classes nest; `merge` turns them back into a network.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
import optax
from flax import nnx
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from wm import core
from wm.models.nn import layers, network

Arrays = dict[str, Any]  # Of jax.Array, or what stands for them.
Shapes = dict[str, jax.ShapeDtypeStruct]


class State(NamedTuple):
  """What a step changes.

  Attributes:
    params: path -> array.
    opt: the optimizer's state.
  """

  params: Arrays
  opt: Any


def _key(entry: Any) -> str:
  for field in ('key', 'name', 'idx'):
    if hasattr(entry, field):
      return str(getattr(entry, field))
  return str(entry)


def paths(tree: Any) -> list[str]:
  """Dotted paths of the leaves of a pytree, in its own order."""
  leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
  names = [[_key(entry) for entry in path] for path, _ in leaves]
  # NNX variables hold their array under a last key of their own.
  return [
    '.'.join(name[:-1] if name[-1] in ('value', 'raw_value') else name)
    for name in names
  ]


def flatten(tree: Any) -> Arrays:
  """Path -> leaf."""
  return dict(zip(paths(tree), jax.tree.leaves(tree), strict=True))


def shapes(shape: network.NetworkSpec) -> Shapes:
  """Path -> shape and dtype of each parameter of a network."""
  return flatten(shape.abstract)


def tree(shape: network.NetworkSpec, params: Arrays) -> Any:
  """Parameters as the network's own tree."""
  treedef = jax.tree.structure(shape.abstract)
  leaves = [params[path] for path in paths(shape.abstract)]
  return jax.tree.unflatten(treedef, leaves)


def merge(shape: network.NetworkSpec, params: Arrays) -> network.Network:
  """The network with these parameters."""
  return nnx.merge(shape.graph, tree(shape, params))


def mesh(data: int, model: int) -> Mesh:
  """Devices as ('data', 'model'); data=0 takes all; raises InputError."""
  devices = jax.device_count()
  num_devices = (data or devices // model) * model
  if not num_devices or num_devices > devices:
    raise core.InputError(
      f'a mesh of {data or "all"} x {model} devices does not fit the '
      f'{devices} there are'
    )
  if jax.process_count() > 1 and num_devices != devices:
    raise core.InputError(
      f'a mesh of {num_devices // model} x {model} devices leaves out some of '
      f'the {devices} of {jax.process_count()} processes'
    )
  auto = jax.sharding.AxisType.Auto
  return jax.make_mesh(
    (num_devices // model, model),
    ('data', 'model'),
    axis_types=(auto, auto),
    devices=jax.devices()[:num_devices],
  )


def param_shardings(shapes: Shapes, mesh: Mesh) -> dict[str, NamedSharding]:
  """Where each parameter lives, as the model layers say."""
  return {
    path: layers.sharding(mesh, tuple(path.split('.')), leaf.shape)
    for path, leaf in shapes.items()
  }


def state_shardings(
  abstract: State, params: dict[str, NamedSharding], mesh: Mesh
) -> State:
  """Moments live with their parameter; counters everywhere."""
  everywhere = NamedSharding(mesh, P())

  def place(path: Any, leaf: jax.ShapeDtypeStruct) -> NamedSharding:
    name = _key(path[-1])
    same = name in params and leaf.shape == abstract.params[name].shape
    return params[name] if same else everywhere

  return State(params, jax.tree_util.tree_map_with_path(place, abstract.opt))


def abstract_state(
  shapes: Shapes,
  optimizer: optax.GradientTransformation,
  mesh: Mesh,
) -> State:
  """Shapes, dtypes and shardings of the whole state."""
  bare = State(shapes, jax.eval_shape(optimizer.init, shapes))
  shardings = state_shardings(bare, param_shardings(shapes, mesh), mesh)
  return jax.tree.map(
    lambda leaf, sharding: jax.ShapeDtypeStruct(
      leaf.shape, leaf.dtype, sharding=sharding
    ),
    bare,
    shardings,
  )


def create(
  shape: network.NetworkSpec,
  seed: int,
  optimizer: optax.GradientTransformation,
  abstract: State,
) -> State:
  """A new state, each device making its own part.

  The parameters are those of the model's predictor before training.
  """

  def init(seed: jax.Array) -> State:
    built = shape.build(nnx.Rngs(jax.random.key(seed)))
    params = flatten(nnx.split(built)[1])
    return State(params, optimizer.init(params))

  shardings = jax.tree.map(lambda leaf: leaf.sharding, abstract)
  return jax.jit(init, out_shardings=shardings)(np.uint32(seed))


def begun(
  params: Arrays, optimizer: optax.GradientTransformation, abstract: State
) -> State:
  """A new state with parameters that there are already."""

  def init(params: Arrays) -> State:
    return State(params, optimizer.init(params))

  shardings = jax.tree.map(lambda leaf: leaf.sharding, abstract)
  return jax.jit(init, out_shardings=shardings)(params)
