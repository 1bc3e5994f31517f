"""Which loops over tokens run on the device, and which on the host.

On an accelerator all that JAX can trace runs there: a host that is asked at
every token waits for the way there and back. On a CPU, by `tests/bench`:
where a step is little work, as of tables and small networks, samples run in one
program as soon as there are enough of them to pay for compiling it. Larger
networks, walks and boundaries run on the host.
"""

from __future__ import annotations

from typing import TypeGuard

import numpy as np

from wm import core
from wm.evaluation.trials.context import Trials

LOOPS = ('auto', 'host', 'device')
# Tokens that may be sampled from which on a program is compiled on a CPU.
WORTH = 1 << 19


def follows(world: core.World, loop: str) -> TypeGuard[core.Enumerable]:
  """Do walks and boundaries of a world run on the device?

  Raises:
    InputError: they were to, and JAX cannot trace the world.
  """
  if not core.can(world, core.Enumerable.traced):
    _leave_to_host(loop, world.name)
    return False
  return loop == 'device' or (loop == 'auto' and _accelerated())


def steps(
  loop: str,
  world: core.World,
  states: np.ndarray,
  tokens: np.ndarray,
  lengths: np.ndarray,
) -> np.ndarray:
  """[B] int32 tokens followed before the first illegal one; `World.walk`."""
  if follows(world, loop):
    from wm.evaluation.trials import device_walks  # Deferred: it imports JAX.

    return device_walks.steps(world, states, tokens, lengths)
  return world.walk(states, tokens, lengths)[0]


def boundary(
  loop: str,
  world: core.Enumerable,
  first: np.ndarray,
  second: np.ndarray,
  depth: int,
) -> core.Boundary:
  """The world's boundaries of pairs of states [T, W]; `World.boundary`."""
  if follows(world, loop):
    from wm.evaluation.trials import device_walks  # Deferred: it imports JAX.

    return device_walks.boundary(world, first, second, depth)
  return world.boundary(first, second, depth)


def pairs(
  trials: Trials, rows: np.ndarray, num: int, budget: np.ndarray, decide: bool
) -> tuple[np.ndarray, ...] | None:
  """What `device.pairs` gives, see there; None where the host is to sample.

  Raises:
    InputError: the device was to, and JAX cannot trace what takes part.
  """
  predictor, world, loop = trials.predictor, trials.world, trials.loop
  if not core.can(predictor, core.Predictor.machine):
    _leave_to_host(loop, type(predictor).__name__)
    return None
  if world.end == core.DEAD and not core.can(world, core.Enumerable.traced):
    _leave_to_host(loop, world.name)
    return None
  if loop == 'host' or not len(rows):
    return None
  worth = predictor.light and num * int(budget.sum()) >= WORTH
  if loop == 'auto' and not worth and not _accelerated():
    return None
  from wm.evaluation.trials import device  # Deferred: it imports JAX.

  try:
    return device.pairs(trials, predictor, rows, num, budget, decide)
  except core.Untraceable:
    if loop == 'device':
      raise
    return None


def _accelerated() -> bool:
  import jax  # Deferred: it takes half a second.

  return jax.default_backend() != 'cpu'


def _leave_to_host(loop: str, name: str) -> None:
  """Raises InputError where the device was to run what JAX cannot trace."""
  if loop == 'device':
    raise core.InputError(
      f"loop='device' was given, but {name} cannot be traced by JAX; expected "
      "loop='auto' or 'host'"
    )
