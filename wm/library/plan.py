"""What a run takes of the chips of a pod, by compiling it for them.

The programs are those that training, scoring and sampling run. TPUs need not
be there, only their compiler (`pip install -e '.[tpu]'`). A time is a lower
bound: a chip that multiplies, reads memory or sends at its full rate, all at
the same time, takes so long.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from wm import core
from wm.core import registry, resources
from wm.models.nn import network
from wm.models.serving import networks, sessions
from wm.options import takes
from wm.options.calls import Topology
from wm.options.training import Training
from wm.runtime import hlo
from wm.training import loop
from wm.training.run_log import PEAKS

GB, DAY = 1e9, 86_400


class Chip(NamedTuple):
  """Rates of a chip at most, from its maker's tables.

  Attributes:
    name: as it is sold.
    memory: bytes.
    flops: operations of bfloat16 products a second.
    bandwidth: bytes of memory a second.
    links: bytes that it sends to other chips a second.
  """

  name: str
  memory: float
  flops: float
  bandwidth: float
  links: float


CHIPS = {
  'v5e': Chip('TPU v5e', 16e9, PEAKS['TPU v5 lite'], 819e9, 200e9),
  'v5p': Chip('TPU v5p', 95e9, PEAKS['TPU v5'], 2765e9, 600e9),
  'h100': Chip('H100 SXM', 80e9, PEAKS['NVIDIA H100 80GB HBM3'], 3350e9, 450e9),
}


class Need(NamedTuple):
  """What one program takes of a chip.

  Attributes:
    name: train: gradient, train: update, score or sample.
    tokens: that one run of it is of, on all chips; 0: of the gradient's.
    arguments: bytes, the state that waits beside them included.
    temporaries: bytes, results included; None where none was compiled.
    work: see `hlo.Work`.
  """

  name: str
  tokens: int
  arguments: int
  temporaries: int | None
  work: hlo.Work

  def lines(self) -> Iterator[str]:
    """Rows of a table."""
    work, rest = self.work, self.temporaries
    yield (
      f'{self.name:16s} {self.arguments / GB:12.3f}  '
      + (f'{rest / GB:14.3f}' if rest is not None else f'{"-":>14s}')
      + f' {work.flops / 1e12:8.4f} {work.bytes / GB:10.3f} '
      + f'{work.sent / GB:8.3f} {work.depth:7d}'
    )
    for kind, (count, size) in sorted(work.messages.items()):
      yield f'  {kind}: {count:.0f}, {size / GB:.3f} GB sent'
    if work.unknown:
      yield f'  {work.unknown} loops of unknown length, counted once'

  def seconds(self, chip: Chip) -> dict[str, float]:
    """Kind of work -> the time that it takes alone."""
    return {
      'products': self.work.flops / chip.flops,
      'memory': self.work.bytes / chip.bandwidth,
      'links': self.work.sent / chip.links,
    }


@dataclasses.dataclass(frozen=True)
class PodPlan:
  """What a run takes of each chip.

  Attributes:
    chip: None where rates are not known, as of this machine's processor.
    topology, num: of the chips, and how many there are.
    needs: of each program.
    steps: of training.
  """

  chip: Chip | None
  topology: str
  num: int
  needs: list[Need]
  steps: int

  @property
  def step_seconds(self) -> float:
    """Of a training step at least; 0 where rates are not known."""
    parts = [x for x in self.needs if x.name.startswith('train')]
    chip = self.chip
    return sum(max(x.seconds(chip).values()) for x in parts) if chip else 0.0

  def head(self) -> Iterator[str]:
    """The chips, and the columns of a table."""
    yield f'{self.topology}: {self.num} chips' + (
      f' ({self.chip.name}), each of {self.chip.memory / GB:.0f} GB'
      if self.chip
      else ''
    )
    yield (
      'a chip           arguments GB  temporaries GB    TFLOP  memory GB  '
      'sent GB   depth'
    )

  def times(self) -> Iterator[str]:
    """Lower bounds of times, where rates are known."""
    if self.chip is None:
      return
    chip = self.chip
    held = max(x.arguments + (x.temporaries or 0) for x in self.needs)
    if held > chip.memory:
      yield f'DOES NOT FIT: {held / GB:.1f} GB of {chip.memory / GB:.0f}'
    for need in self.needs:
      times = need.seconds(chip)
      bound = max(times, key=lambda kind: times[kind])
      most = times[bound]
      rate = f', {need.tokens / most:,.0f} tokens/s' if need.tokens else ''
      yield (
        f'{need.name}: at least {1e3 * most:.3g} ms, bound by {bound}{rate}'
      )
    tokens = next(x.tokens for x in self.needs)
    days = self.steps * self.step_seconds / DAY
    yield (
      f'lower bound of training: {1e3 * self.step_seconds:.3g} ms a step, '
      f'{tokens / self.step_seconds * DAY:.3g} tokens a day, {days:.3g} days '
      f'for {self.steps:,} steps, {self.steps * tokens:.3g} tokens'
    )


def _refused(topology: str, why: str) -> core.InputError:
  return core.InputError(
    f"topology={topology!r}: {why}; expected e.g. 'v5e:4x4', 'v5p:2x4x4', "
    "'h100:8' or 'cpu:8'"
  )


def _devices(topology: str) -> tuple[list[Any], Chip | None]:
  """Devices to compile for, and what they are.

  Raises:
    InputError: no such topology, or no compiler for it.
  """
  match = re.fullmatch(r'(cpu|\w+):(\d{1,4}(?:x\d{1,4}){0,2})', topology)
  if not match or (match[1] != 'cpu' and match[1] not in CHIPS):
    raise _refused(topology, 'no such chips')
  kind, shape = match.groups()
  if kind in ('cpu', 'h100'):
    # A GPU's compiler asks for a GPU: what does not depend on it is taken from
    # the same number of processors.
    if 'x' in shape or not int(shape):
      raise _refused(topology, 'expected a number of devices')
    return _processors(topology, int(shape)), CHIPS.get(kind)
  if importlib.util.find_spec('libtpu') is None:
    raise core.InputError(
      f"topology={topology!r} needs a compiler; pip install -e '.[tpu]'"
    )
  _start()
  try:
    described = topologies.get_topology_desc(topology, 'tpu')
  except jax.errors.JaxRuntimeError as error:
    raise _refused(topology, str(error).partition('\n')[0][:200]) from error
  return list(described.devices), CHIPS[kind]


def _start(devices: int = 1) -> None:
  """JAX on this machine's processor, if it has not started."""
  # Nothing asks a cloud's metadata server which TPU this would be.
  os.environ.setdefault('TPU_SKIP_MDS_QUERY', '1')
  # Two processes may compile at once, as neither uses a chip.
  os.environ.setdefault('ALLOW_MULTIPLE_LIBTPU_LOAD', '1')
  try:
    jax.config.update('jax_num_cpu_devices', devices)
    jax.config.update('jax_platforms', 'cpu')
  except RuntimeError:  # It has started, with what devices it has.
    return


def _processors(topology: str, num: int) -> list[Any]:
  if num > 1024:
    raise _refused(topology, 'at most 1024 devices')
  _start(num)
  devices = jax.devices('cpu')
  if len(devices) < num:
    raise core.InputError(
      f'topology={topology!r}: JAX has started with {len(devices)} devices; '
      'expected a process that has not used it'
    )
  return devices[:num]


def _mesh(devices: list[Any], training: Training) -> Mesh:
  model = training.mesh_model
  data = training.mesh_data or len(devices) // model
  if not data or data * model > len(devices):
    raise core.InputError(
      f'a mesh of {training.mesh_data or "all"} x {model} devices does not '
      f'fit the {len(devices)} of the topology'
    )
  auto = (jax.sharding.AxisType.Auto,) * 2
  chosen = np.array(devices[: data * model]).reshape(data, model)
  return Mesh(chosen, ('data', 'model'), axis_types=auto)


def _placed(tree: Any, sharding: Any) -> Any:
  return jax.tree.map(
    lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), tree
  )


def _local(tree: Any) -> int:
  """Bytes that a device holds of a tree."""
  return sum(
    int(np.prod(x.sharding.shard_shape(x.shape))) * x.dtype.itemsize
    for x in jax.tree.leaves(tree)
  )


def _need(
  name: str, tokens: int, lowered: Any, waiting: int, compiles: bool
) -> Need:
  """Compiles a program; waiting: bytes that stay on a chip beside it."""
  compiled = lowered.compile()
  memory = compiled.memory_analysis()
  work = hlo.Program(compiled.as_text()).work
  arguments = memory.argument_size_in_bytes
  results = memory.output_size_in_bytes - memory.alias_size_in_bytes
  temporaries = memory.temp_size_in_bytes + max(results, 0)
  if not compiles:  # Of another device: arguments are read, results written.
    work.bytes = float(arguments + memory.output_size_in_bytes)
  return Need(
    name, tokens, arguments + waiting, temporaries if compiles else None, work
  )


def _compiles(chip: Chip | None) -> bool:
  """Is this machine's compiler one for these chips?"""
  return chip != CHIPS['h100']


def _training(
  steps: loop.CompiledSteps, length: int, chip: Chip | None
) -> Iterator[Need]:
  """The two programs of a step on a global batch of such length."""
  compiles = _compiles(chip)
  rows, mesh = steps.training.batch, steps.mesh
  parts = NamedSharding(mesh, PartitionSpec('data'))
  everywhere = NamedSharding(mesh, PartitionSpec())
  shapes: list[tuple[int, ...]] = [(rows, length), (rows,)]
  if steps.objective.world is not None:
    labels = len(steps.objective.world.heads.sizes)
    shapes.append((rows, length, labels))
  batch = [jax.ShapeDtypeStruct(x, np.int32, sharding=parts) for x in shapes]
  params, opt = steps.abstract
  number = jax.ShapeDtypeStruct((), np.int32, sharding=everywhere)
  seed = jax.ShapeDtypeStruct((), np.uint32, sharding=everywhere)
  lowered = steps.train_step.gradient.lower(params, seed, number, *batch)
  tokens = rows * length
  yield _need('train: gradient', tokens, lowered, _local(opt), compiles)
  sums = _placed(lowered.out_info[1], everywhere)
  lowered = steps.train_step.update.lower(steps.abstract, params, sums)
  yield _need('train: update', 0, lowered, 0, compiles)


def _serving(
  steps: loop.CompiledSteps, length: int, chip: Chip | None
) -> Iterator[Need]:
  """A tile of scoring, and a step of sampling, on one chip."""
  compiles = _compiles(chip)
  mesh = _mesh(list(steps.mesh.devices.flat[:1]), Training())
  whole = NamedSharding(mesh, PartitionSpec())
  models: list[core.Trainable] = []

  def convert(params: Any) -> Any:
    model, params = steps.spec.model.for_inference(params)
    models.append(model)
    return params

  params = _placed(jax.eval_shape(convert, steps.spec.abstract), whole)
  spec = dataclasses.replace(steps.spec, model=models[0])

  def number(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, np.int32, sharding=whole)

  sizes = sessions.tile_sizes(
    mesh.devices.flat[0].platform,
    int(chip.memory if chip else 0),
    spec.outputs or spec.vocab_size,
  )
  rows = max(sizes.tokens // length, 1)
  tile, tokens = number(rows, length), rows * length
  with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
    if steps.objective.world is not None:
      heads = steps.objective.world.heads.sizes
      states = networks.tile_states.lower(spec, heads, params, tile)
      yield _need('score', tokens, states, 0, compiles)
      return
    scores = networks.tile_log_probs.lower(spec, params, tile)
    yield _need('score', tokens, scores, 0, compiles)
    yield _need('sample', *_sampling(spec, sizes, params, whole), 0, compiles)


def _sampling(
  spec: network.NetworkSpec,
  sizes: sessions.TileSizes,
  params: Any,
  whole: Any,
) -> tuple[int, Any]:
  """Tokens of a step, and its program, where one page holds them."""
  rows = sessions.tile_rows(spec, 1, sizes.cache_bytes, sizes.lanes)
  prefix, page = _placed(sessions.caches(spec, rows, 1), whole)
  log_probs, row, lane = (
    jax.ShapeDtypeStruct(shape, kind, sharding=whole)
    for shape, kind in (
      ((rows, 1, spec.vocab_size), np.float32),
      ((rows,), np.int32),
      ((rows, 1), np.int32),
    )
  )
  lowered = sessions.decode.lower(
    spec, params, prefix, [page], log_probs, lane, row, lane
  )
  return rows, lowered


def _silent(line: str) -> None:
  """Tells nobody."""


@takes(training=Training)
def plan(
  world: core.World | str,
  model: core.Model | str,
  topology: str = Topology.topology,
  training: Training | None = None,
  *,
  length: int = Topology.length,
  train_only: bool = Topology.train_only,
  log: Callable[[str], None] = _silent,
) -> PodPlan:
  """Compiles the programs of a run for chips, and counts what they take.

  It starts JAX on the processor: call it in a process that does nothing else.

  Args:
    world: whose sequences are trained on.
    model: what is trained.
    topology: 'v5e:16x16', 'v5p:2x4x4', 'h100:8' (nothing is compiled for
      GPUs: products, arguments and messages are as on so many processors), or
      'cpu:8'.
    training: all of the keywords below in one object, instead of these.
    length: tokens of a sequence; 0 is the world's longest.
    train_only: compile training alone, not scoring and sampling, whose layers
      are never scanned and take longer to compile.
    log: gets the lines of a table.

  Raises:
    InputError: no such chips, no compiler for them, or a model that has
      nothing to train.
  """
  training = training or Training()
  world = registry.resolve('world', world)
  model = registry.resolve('model', model)
  if not isinstance(model, core.Trainable):
    raise core.InputError(
      f'model {registry.spec(model)!r} is not trained by steps'
    )
  if length > world.max_len:
    raise core.InputError(
      f'length={length}; expected at most {world.max_len}, the longest '
      f'sequence of {world.name}'
    )
  model.check_world(world)
  devices, chip = _devices(topology)
  length = length or world.max_len
  resources.require_memory(8 * training.batch * length, f'{training.batch=}')
  mesh = _mesh(devices, training)
  with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
    steps = loop.CompiledSteps(training, world, model, mesh)
  result = PodPlan(chip, topology, mesh.size, [], training.steps)
  for line in result.head():
    log(line)
  for programs in (_training, _serving)[: 1 if train_only else 2]:
    for need in programs(steps, length, chip):
      result.needs.append(need)
      for line in need.lines():
        log(line)
  for line in result.times():
    log(line)
  return result
