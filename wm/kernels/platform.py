"""The platform that a program is traced for, by which kernels are chosen."""

from __future__ import annotations

import jax


def target() -> str:
  """'cpu', 'gpu' or 'tpu': of the mesh in use, else of this process.

  A program may be compiled for devices that this machine has not: then it is
  traced under their mesh, see `jax.sharding.use_abstract_mesh`.
  """
  device = jax.sharding.get_abstract_mesh().abstract_device
  return jax.default_backend() if device is None else device.platform
