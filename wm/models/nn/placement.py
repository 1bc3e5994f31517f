"""Where weights live: on one device, or divided over several.

Training stores parameters on a `storage_mesh`, whose axes are the prime factors
of its sizes. Serving puts a copy of the weights at each of some `places`: a
device, or a group of devices where one cannot hold them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import jax
import numpy as np
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from wm import core
from wm.models.nn import layers

SMALL = 1 << 12  # Numbers of an array that every device may hold whole.
_DIGITS = '0123456789'
# A device, or all devices of a group, each of which has the array whole.
Place: TypeAlias = jax.Device | NamedSharding


def _axes(size: int, name: str) -> dict[str, int]:
  """A mesh axis as one for each prime factor, the largest first."""
  factors, prime = [], 2
  while size > 1:
    if size % prime:
      prime += 1
    else:
      factors.append(prime)
      size //= prime
  return {f'{name}{n}': x for n, x in enumerate(reversed(factors or [1]))}


def storage_axes(mesh: Mapping[str, int]) -> dict[str, int]:
  """Axes that parameters are stored over, from those of a mesh.

  {'data': 12, 'model': 1} -> {'data0': 3, 'data1': 2, 'data2': 2, 'model0': 1}:
  a dimension that 12 devices cannot divide takes 2 of them, and another one 6.
  """
  return _axes(mesh['data'], 'data') | _axes(mesh['model'], 'model')


def storage_mesh(mesh: Mesh) -> Mesh:
  """The devices of a mesh by `storage_axes`."""
  axes = storage_axes(mesh.shape)
  auto = (AxisType.Auto,) * len(axes)
  devices = mesh.devices.reshape(tuple(axes.values()))
  return Mesh(devices, tuple(axes), axis_types=auto)


def batch_mesh(storage: Mesh) -> Mesh:
  """The mesh ('data', 'model') that `storage_mesh` was made from."""
  sizes = [x for name, x in storage.shape.items() if name[:5] == 'model']
  devices = storage.devices.reshape(-1, int(np.prod(sizes)))
  return Mesh(devices, ('data', 'model'), axis_types=(AxisType.Auto,) * 2)


def division(
  path: str, shape: tuple[int, ...], axes: Mapping[str, int]
) -> tuple[P, int]:
  """Which of `storage_axes` divide a parameter, and a device's numbers of it.

  As the layer says, as far as its dimensions are divisible. Axes that are left
  divide another dimension of an array that is not SMALL, so that it takes
  1 / devices of each device's memory wherever its size has the factors.
  """
  keys = path.split('.')
  usual = layers.partition_spec(tuple(keys), shape)
  local = list(shape)
  names: list[list[str]] = [[] for _ in shape]
  # A scan reads a layer at a time: the dimension that it stacks is not divided.
  stacked = int(keys[0] == 'blocks' and not keys[1].isdigit())

  def put(axis: str, dims: Iterable[int]) -> bool:
    for dim in dims:
      if local[dim] % axes[axis] == 0:
        names[dim].append(axis)
        local[dim] //= axes[axis]
        return True
    return False

  left = []
  for axis in axes:
    layer = [d for d, name in enumerate(usual) if name == axis.rstrip(_DIGITS)]
    if not put(axis, layer):
      left.append(axis)
  if np.prod(shape) > SMALL:
    for axis in left:
      put(axis, sorted(range(stacked, len(shape)), key=lambda d: -local[d]))
  return P(*(tuple(dim) or None for dim in names)), int(np.prod(local))


def shardings(
  shapes: Mapping[str, Any], storage: Mesh | AbstractMesh
) -> dict[str, NamedSharding]:
  """Where each parameter, of a shape, lives on a `storage_mesh`."""
  axes = dict(storage.shape)
  return {
    path: NamedSharding(storage, division(path, leaf.shape, axes)[0])
    for path, leaf in shapes.items()
  }


def places(
  weights: int, devices: Sequence[jax.Device], shards: int = 0
) -> tuple[Place, ...]:
  """Devices, or groups of them, that hold a copy of the weights each.

  Args:
    weights: bytes of all parameters.
    devices: of this process.
    shards: devices of a group; 0 is the fewest whose memory is twice as large
      as the weights, or 1 where devices do not say what they have.

  Raises:
    InputError: devices cannot be divided into such groups.
  """
  num = len(devices)
  memory = _memory(devices[0])
  if not shards:
    fitting = (n for n in range(1, num) if num % n == 0)
    enough = (n for n in fitting if not memory or 2 * weights <= n * memory)
    shards = next(enough, num)
  if not 1 <= shards <= num or num % shards:
    divisors = [str(n) for n in range(1, num + 1) if num % n == 0]
    raise core.InputError(
      f'{num} devices cannot be divided into groups of {shards}; expected '
      f'{" or ".join(divisors)}'
    )
  if shards == 1:
    return tuple(devices)
  return tuple(
    NamedSharding(_group(devices[first : first + shards]), P())
    for first in range(0, num, shards)
  )


def _memory(device: jax.Device) -> int:
  """Bytes; 0 is not known, as of processors."""
  stats = device.memory_stats() if device.platform != 'cpu' else None
  return int((stats or {}).get('bytes_limit', 0))


def _group(devices: Sequence[jax.Device]) -> Mesh:
  auto = (AxisType.Auto,) * 2
  shape = np.array(devices).reshape(1, -1)
  return storage_mesh(Mesh(shape, ('data', 'model'), axis_types=auto))


def first(place: Place) -> jax.Device:
  """A device of a place."""
  if isinstance(place, NamedSharding):
    device: jax.Device = place.mesh.devices.flat[0]
    return device
  return place


def of_weights(shapes: Mapping[str, Any], place: Place) -> dict[str, Any]:
  """Where each parameter, of a shape, lives at a place."""
  if isinstance(place, NamedSharding):
    return {**shardings(shapes, place.mesh)}
  return dict.fromkeys(shapes, jax.sharding.SingleDeviceSharding(place))
