"""Mesh, shardings and the state of training.

Parameters are a flat dict from path ('blocks.0.mlp.kernel') to array, in
training and in checkpoints, so that neither depends on how the network's
classes nest; `Skeleton` turns them back into a network.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import numpy as np
import optax
from flax import nnx
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P  # noqa: N817

from wm import core
from wm.models import layers

Arrays = dict[str, jax.Array]


class State(NamedTuple):
  """What a step changes.

  Attributes:
    params: path -> array.
    opt: the optimiser's state.
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
    '.'.join(name[:-1] if name[-1:] == ['value'] else name) for name in names
  ]


def flatten(tree: Any) -> Arrays:
  """Path -> leaf."""
  return dict(zip(paths(tree), jax.tree.leaves(tree), strict=True))


@dataclasses.dataclass(frozen=True)
class Skeleton:
  """A network without its parameters.

  Attributes:
    graphdef: NNX graph definition.
    abstract: the parameters' tree with shapes in place of arrays.
  """

  graphdef: Any
  abstract: Any

  @property
  def shapes(self) -> dict[str, jax.ShapeDtypeStruct]:
    """Path -> shape and dtype of each parameter."""
    return flatten(self.abstract)

  def tree(self, params: Arrays) -> Any:
    """The parameters as the network's own tree."""
    treedef = jax.tree.structure(self.abstract)
    return treedef.unflatten(params[path] for path in paths(self.abstract))

  def network(self, params: Arrays) -> Any:
    """The network with these parameters."""
    return nnx.merge(self.graphdef, self.tree(params))


def build(model: Any, world: core.World, seed: int) -> tuple[Any, Any]:
  """(graphdef, parameters) of a newly initialised network."""
  rngs = nnx.Rngs(params=jax.random.key(seed))
  return nnx.split(model.build(len(world.vocab), world.max_len, rngs))


def skeleton(model: Any, world: core.World) -> Skeleton:
  """The model's network for a world; allocates nothing."""
  graphdefs = []

  def init() -> Any:
    graphdef, params = build(model, world, 0)
    graphdefs.append(graphdef)
    return params

  abstract = jax.eval_shape(init)
  return Skeleton(graphdefs[0], abstract)


def parameter_count(shapes: dict[str, jax.ShapeDtypeStruct]) -> int:
  """Number of parameters."""
  return sum(math.prod(shape.shape) for shape in shapes.values())


def mesh(data: int, model: int) -> Mesh:
  """Devices as ('data', 'model'); data=0 takes all; raises InputError."""
  devices = jax.device_count()
  wanted = (data or devices // model) * model
  if not wanted or wanted > devices:
    raise core.InputError(
      f'a mesh of {data or "all"} x {model} devices does not fit the '
      f'{devices} there are'
    )
  auto = jax.sharding.AxisType.Auto
  return jax.make_mesh(
    (wanted // model, model),
    ('data', 'model'),
    axis_types=(auto, auto),
    devices=jax.devices()[:wanted],
  )


def param_shardings(
  shapes: dict[str, jax.ShapeDtypeStruct], mesh: Mesh
) -> dict[str, NamedSharding]:
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
  shapes: dict[str, jax.ShapeDtypeStruct],
  optimiser: optax.GradientTransformation,
  mesh: Mesh,
) -> State:
  """Shapes, dtypes and shardings of the whole state."""
  bare = State(shapes, jax.eval_shape(optimiser.init, shapes))
  shardings = state_shardings(bare, param_shardings(shapes, mesh), mesh)
  return jax.tree.map(
    lambda leaf, sharding: jax.ShapeDtypeStruct(
      leaf.shape, leaf.dtype, sharding=sharding
    ),
    bare,
    shardings,
  )


def create(
  model: Any,
  world: core.World,
  seed: int,
  optimiser: optax.GradientTransformation,
  abstract: State,
) -> State:
  """A new state, each device making its own part."""

  def init(seed: jax.Array) -> State:
    params = flatten(build(model, world, seed)[1])
    return State(params, optimiser.init(params))

  shardings = jax.tree.map(lambda leaf: leaf.sharding, abstract)
  return jax.jit(init, out_shardings=shardings)(np.uint32(seed))
