"""Which loops over tokens run on the device, and which on the host.

On an accelerator all that JAX can trace runs there: a host that is asked at
every token waits for the way there and back. On a CPU, by `tests/bench`:
where a step is little work, as of tables and small networks, samples run in one
program as soon as there are enough of them to pay for compiling it. Larger
networks, walks and boundaries run on the host.
"""

from __future__ import annotations

import numpy as np

from wm import core
from wm.evaluation.context import Trials

LOOPS = ('auto', 'host', 'device')
# Tokens that may be sampled from which on a program is compiled on a CPU.
WORTH = 1 << 19


def follows(loop: str, world: core.World) -> bool:
  """Do walks and boundaries of a world run on the device?

  Raises:
    InputError: they were to, and JAX cannot trace the world.
  """
  traced = isinstance(world, core.TracedWorld)
  if loop == 'device' and not traced:
    raise _untraced(world.name)
  return loop == 'device' or (loop == 'auto' and traced and _accelerated())


def steps(
  loop: str,
  world: core.World,
  states: np.ndarray,
  tokens: np.ndarray,
  lengths: np.ndarray,
) -> np.ndarray:
  """[B] int32 tokens followed before the first illegal one; `World.walk`."""
  if not follows(loop, world):
    return world.walk(states, tokens, lengths)[0]
  from wm.evaluation import device_walks  # Deferred: it imports JAX.

  return device_walks.steps(world, states, tokens, lengths)


def boundary(
  loop: str,
  world: core.World,
  first: np.ndarray,
  second: np.ndarray,
  depth: int,
) -> core.Boundary:
  """The world's boundaries of pairs of states [T, W]; `World.boundary`."""
  if not follows(loop, world):
    return world.boundary(first, second, depth)
  from wm.evaluation import device_walks  # Deferred: it imports JAX.

  return device_walks.boundary(world, first, second, depth)


def pairs(
  trials: Trials, rows: np.ndarray, num: int, budget: np.ndarray, decide: bool
) -> tuple[np.ndarray, ...] | None:
  """What `device.pairs` gives, see there; None where the host is to sample.

  Raises:
    InputError: the device was to, and JAX cannot trace what takes part.
  """
  predictor, world, missing = trials.predictor, trials.world, ''
  if not isinstance(predictor, core.TracedPredictor):
    missing = type(predictor).__name__
  elif world.end == core.DEAD and not isinstance(world, core.TracedWorld):
    missing = world.name
  if trials.loop == 'device' and missing:
    raise _untraced(missing)
  if trials.loop == 'host' or missing or not len(rows):
    return None
  worth = predictor.light and num * int(budget.sum()) >= WORTH
  if trials.loop == 'auto' and not worth and not _accelerated():
    return None
  from wm.evaluation import device  # Deferred: it imports JAX.

  try:
    return device.pairs(trials, rows, num, budget, decide)
  except core.Untraceable:
    if trials.loop == 'device':
      raise
    return None


def _accelerated() -> bool:
  import jax  # Deferred: it takes half a second.

  return jax.default_backend() != 'cpu'


def _untraced(name: str) -> core.InputError:
  return core.InputError(
    f"loop='device' was given, but {name} cannot be traced by JAX; expected "
    "loop='auto' or 'host'"
  )
