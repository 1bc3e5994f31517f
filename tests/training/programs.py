"""Whole training steps compiled for a mesh, and what they take of a device.

  python -m tests.training.programs [FAMILY ...]   a JSON line for each

The mesh may be of devices that are not there; those of the process also run
what was compiled. Work is the same for each device of the data axis.
"""

from __future__ import annotations

import json
import sys
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from wm.core import registry
from wm.models.nn import network
from wm.options.training import Training
from wm.training import loop, state
from wm.training import loss as loss_lib

ROWS, LENGTH = 32, 32
SIZE = 'layers=1, width=64'
# Family -> model and objective. The transformer's forms are programs apart.
FAMILIES = {
  'transformer': (f'transformer({SIZE}, heads=2)', 'state'),
  'transformer, scan': (
    "transformer(layers=2, width=64, heads=2, scan=True, positions='rotary', "
    "norm='rms', mlp='swiglu', tied=False)",
    'next',
  ),
  'transformer, scan, remat': (
    'transformer(layers=2, width=64, heads=2, scan=True, remat=True)',
    'next',
  ),
  'rnn': (f'rnn({SIZE})', 'state'),
  'lstm': (f'lstm({SIZE})', 'next'),
  'mamba': (f'mamba({SIZE})', 'state'),
  'mamba2': (f'mamba2({SIZE})', 'next'),
  'mamba3': (f'mamba3({SIZE})', 'state'),
  'deltanet': (f'deltanet({SIZE})', 'next'),
  'slice': (f'slice({SIZE})', 'state'),
}


class Program(NamedTuple):
  """A step that was compiled.

  Attributes:
    compiled: (state, step, *batch) -> (state, report).
    abstract: shapes and places of the state.
    mesh: the devices.
    memory: bytes of temporaries of a device.
    flops: operations of a device; a loop's body is counted once.
  """

  compiled: Any
  abstract: state.State
  mesh: Mesh
  memory: int
  flops: float


def mesh(devices: list[Any], data: int, model: int = 1) -> Mesh:
  """The first devices as ('data', 'model')."""
  chosen = np.array(devices[: data * model]).reshape(data, model)
  return Mesh(chosen, ('data', 'model'))


def compiled(
  spec: str, objective: str, mesh: Mesh, *, rows: int = ROWS
) -> Program:
  """A step on `rows` of LENGTH tokens for each device of the data axis."""
  world = registry.make('world', 'connect4()')
  config = Training(objective=objective, steps=10, warmup=0, optimizer='adamw')
  aim = loss_lib.make(config, world)
  shape = network.NetworkSpec(
    registry.make('model', spec), len(world.vocab), 42, aim.outputs
  )
  shapes = shape.shapes
  transform = state.make_optimizer(config, shapes)
  abstract = state.abstract_state(shapes, transform, mesh)
  act = loop.make_train_step(
    shape, transform, state.schedule(config), aim, 0, abstract
  )
  num = mesh.shape['data'] * rows
  sizes = [(num, LENGTH), (num,)]
  if aim.world:
    sizes.append((*sizes[0], len(world.heads.sizes)))
  parts = NamedSharding(mesh, PartitionSpec('data'))
  batch = [jax.ShapeDtypeStruct(x, np.int32, sharding=parts) for x in sizes]
  everywhere = NamedSharding(mesh, PartitionSpec())
  number = jax.ShapeDtypeStruct((), np.int32, sharding=everywhere)
  lowered = jax.jit(act).lower(abstract, number, *batch)
  result = lowered.compile()
  return Program(
    result,
    abstract,
    mesh,
    result.memory_analysis().temp_size_in_bytes,
    result.cost_analysis()['flops'],
  )


def run(
  program: Program, batch: list[np.ndarray]
) -> tuple[list[float], dict[str, np.ndarray]]:
  """Report of one step, from weights always the same, and weights after it."""
  rng = np.random.default_rng(0)

  def make(leaf: jax.ShapeDtypeStruct) -> np.ndarray:
    return np.zeros(leaf.shape, leaf.dtype)

  begin = jax.tree.map(make, program.abstract)
  params = {
    path: 0.1 * rng.normal(size=leaf.shape).astype(leaf.dtype)
    for path, leaf in begin.params.items()
  }
  begin = jax.tree.map(
    lambda leaf, like: jax.device_put(leaf, like.sharding),
    begin._replace(params=params),
    program.abstract,
  )
  rows = NamedSharding(program.mesh, PartitionSpec('data'))
  everywhere = NamedSharding(program.mesh, PartitionSpec())
  after, report = program.compiled(
    begin,
    jax.device_put(np.int32(0), everywhere),
    *(jax.device_put(part, rows) for part in batch),
  )
  params = {path: np.asarray(leaf) for path, leaf in after.params.items()}
  return np.asarray(report, float).tolist(), params


def _batch(objective: str, num: int) -> list[np.ndarray]:
  """Tokens, lengths and, where there are any, labels of `num` games."""
  world, rng = registry.make('world', 'connect4()'), np.random.default_rng(1)
  tokens = rng.integers(1, len(world.vocab), (num, LENGTH), np.int32)
  batch = [tokens, rng.integers(2, LENGTH + 1, num, np.int32)]
  if objective == 'state':
    heads = world.heads.sizes
    batch.append(rng.integers(0, heads, (num, LENGTH, len(heads)), np.int32))
  return batch


def _compared(
  one: Program, many: Program, objective: str
) -> dict[str, list[float]]:
  """What one device reports and what many do, of rows that are alike."""
  parts = many.mesh.shape['data']
  mine, rng = _batch(objective, ROWS), np.random.default_rng(2)
  # Each device has the same rows, in an order of its own.
  order = np.concatenate([rng.permutation(ROWS) for _ in range(parts)])
  report, after = run(one, mine)
  other, too = run(many, [part[order] for part in mine])
  apart = max(np.abs(after[path] - too[path]).max() for path in after)
  rows = _batch(objective, parts * ROWS)
  shares = [
    run(one, [part[n : n + ROWS] for part in rows])[0]
    for n in range(0, parts * ROWS, ROWS)
  ]
  return {
    'alike': [report, other],
    'apart': float(apart),
    'sums': [np.sum(shares, 0)[:4].tolist(), run(many, rows)[0][:4]],
  }


def main() -> None:
  """Figures and results of every family on several meshes."""
  devices = jax.devices()
  for name in sys.argv[1:] or FAMILIES:
    spec, objective = FAMILIES[name]
    meshes = [(1, 1), (8, 1)]
    if name in ('transformer, scan', 'slice'):
      meshes.append((4, 2))
    results = [
      compiled(spec, objective, mesh(devices, *size)) for size in meshes
    ]
    for size, program in zip(meshes, results, strict=True):
      line = {
        'family': name,
        'mesh': size,
        'memory': program.memory,
        'flops': program.flops,
      }
      if size != (1, 1):
        line |= _compared(results[0], program, objective)
      print(json.dumps(line), flush=True)


if __name__ == '__main__':
  main()
