"""The cost of a training step on each chip of a pod, from its compilation.

No TPU is needed, only its compiler (`pip install -e '.[tpu]'`). XLA
counts the body of a loop once. So stacked blocks are counted one by one, in
programs of one and of two blocks: each further block costs what the second
does. Memory is that of the whole program. A time is a lower bound: that of a
chip which multiplies, reads memory and sends at its full rates, all at once.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import math
import os
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.experimental import topologies
from jax.sharding import NamedSharding, PartitionSpec

from wm import core
from wm.core import inputs, registry, resources
from wm.models import transformer
from wm.options import takes
from wm.options.calls import Topology
from wm.options.training import Training
from wm.training import loop, state

GB, DAY = 1e9, 86_400
_COLLECTIVE = re.compile(
  r' = (?P<type>.*?) (?P<kind>all-gather|all-reduce|reduce-scatter|all-to-all|'
  r'collective-permute)(?:-start)?\(.*?channel_id=(?P<channel>\d+)'
  r"(?:.*?replica_groups=mesh\[(?P<sizes>.*?)\].*?\{(?P<axes>.*?)\})?"
)  # fmt: skip


class Chip(NamedTuple):
  """Peak rates of a chip, from its maker's tables.

  Attributes:
    memory: bytes.
    flops: operations of bfloat16 products a second.
    bandwidth: bytes of memory a second.
    links: bytes that it sends to other chips a second.
  """

  memory: float
  flops: float
  bandwidth: float
  links: float


CHIPS = {
  'v5e': Chip(16e9, 197e12, 819e9, 200e9),
  'v5p': Chip(95e9, 459e12, 2765e9, 600e9),
  'h100': Chip(80e9, 989e12, 3350e9, 450e9),
}


@dataclasses.dataclass(frozen=True)
class PodPlan:
  """The cost of a training step on each chip.

  Attributes:
    topology: of the chips.
    chip: rates; None if unknown, such as for this machine's processor.
    steps, tokens: steps of training; tokens of a batch, on all chips.
    arguments: bytes of parameters, moments and the gradient.
    temporaries: further bytes; 0 if no program was compiled for the chip.
    formula: operations by 6ND: six for each parameter and token.
    flops: operations, as XLA counts them.
    accessed: bytes that all operations read and write, as XLA counts them;
      it includes memory beside the arithmetic, and fused copies twice.
    sent: bytes to other chips, around a ring.
    loops: number of loops, such as those over time; each counts as one step.
  """

  topology: str
  chip: Chip | None
  steps: int
  tokens: int
  arguments: int
  temporaries: int
  formula: float
  flops: float
  accessed: float
  sent: float
  loops: float

  def seconds(self) -> dict[str, float]:
    """Kind of work -> least time of it in a step, in seconds."""
    if self.chip is None:
      return {}
    # Arguments are read; temporaries are written once and read once.
    moved = self.arguments + 2 * self.temporaries
    flops, bandwidth, links = self.chip[1:]
    return {
      'products': self.flops / flops,
      'memory': moved / bandwidth,
      'links': self.sent / links,
    }

  def lines(self) -> Iterator[str]:
    """The plan as a table."""
    yield f'{self.topology}, each chip in a step:'
    for name, value in (
      ('parameters, moments, gradient, GB', self.arguments / GB),
      ('temporaries, GB', self.temporaries / GB),
      ('operations, TFLOP', self.flops / 1e12),
      ('operations by 6ND, TFLOP', self.formula / 1e12),
      ('bytes of all operations, GB', self.accessed / GB),
      ('sent to other chips, GB', self.sent / GB),
      ('loops that remain, counted as a step', self.loops),
    ):
      yield f'  {name:36s} {value:12.4f}'
    if self.chip is None:
      return
    need = (self.arguments + self.temporaries) / GB
    if need > self.chip.memory / GB:
      yield f'DOES NOT FIT: {need:.1f} GB of {self.chip.memory / GB:.0f}'
    least, bound = max((time, kind) for kind, time in self.seconds().items())
    yield (
      f'at least {1e3 * least:.3g} ms a step, bound by {bound}; '
      f'{self.tokens / least * DAY:.3g} tokens a day, '
      f'{self.steps * least / DAY:.3g} days for {self.steps:,} steps'
    )


def _devices(topology: str) -> tuple[list[Any], Chip | None]:
  """Devices to compile for, and what they are.

  Raises:
    InputError: no such topology, or no compiler for it.
  """
  name = f'topology={topology!r}'
  hint = "expected e.g. 'v5e:4x4', 'v5p:2x4x4', 'h100:8' or 'cpu:8'"
  match = re.fullmatch(r'(\w+):(\d{1,4}(?:x\d{1,4}){0,2})', topology)
  if not match or match[1] not in ('cpu', *CHIPS):
    raise core.InputError(f'{name}: no such chips; {hint}')
  kind, shape = match.groups()
  is_tpu = kind not in ('cpu', 'h100')
  num = 1 if is_tpu else int(shape) if shape.isdecimal() else 0
  if not 0 < num <= 1024:
    raise core.InputError(f'{name}: expected 1 to 1024 devices; {hint}')
  # No cloud is asked which TPU this would be, and two processes may compile.
  os.environ.setdefault('TPU_SKIP_MDS_QUERY', '1')
  os.environ.setdefault('ALLOW_MULTIPLE_LIBTPU_LOAD', '1')
  with contextlib.suppress(RuntimeError):  # JAX has started as it is.
    jax.config.update('jax_num_cpu_devices', num)
    jax.config.update('jax_platforms', 'cpu')
  if is_tpu:
    with inputs.extra('tpu', name):
      importlib.import_module('libtpu')
    with inputs.reading(topology, 'chips that its compiler has', hint):
      described = topologies.get_topology_desc(topology, 'tpu')
    return list(described.devices), CHIPS[kind]
  # A GPU's compiler asks for a GPU: as many processors stand for them.
  devices = jax.devices('cpu')
  if len(devices) < num:
    raise core.InputError(
      f'{name}: JAX has started with {len(devices)} devices; expected a '
      'process that has not used it'
    )
  return devices[:num], CHIPS.get(kind)


def sent(text: str, num: int) -> float:
  """Bytes that each of `num` devices sends in a compiled program's text."""
  total = 0.0
  # A collective that is cut into parts names its channel in each.
  for match in {x['channel']: x for x in _COLLECTIVE.finditer(text)}.values():
    sizes = dict(re.findall(r"'(\w+)'=(\d+)", match['sizes'] or ''))
    axes = re.findall(r"'(\w+)'", match['axes'] or '')
    group = math.prod(int(sizes[axis]) for axis in axes) if sizes else num
    arrays = re.findall(r'[a-z]+(\d*)\w*\[([\d,]*)\]', match['type'])
    size = sum(
      math.prod(int(n) for n in dims.split(',') if n) * int(bits or 8) / 8
      for bits, dims in arrays
    )
    # A result holds all parts, or is a part; a sum goes round twice.
    parts = {'all-reduce': 2 / group, 'reduce-scatter': 1}
    total += size * parts.get(match['kind'], 1 / group) * (group - 1)
  return total


def _compiled(steps: loop.CompiledSteps, length: int) -> list[Any]:
  """The two programs of a step: gradient and update."""
  rows, labels = steps.training.batch, steps.objective.world
  shapes: list[tuple[int, ...]] = [(rows, length), (rows,)]
  if labels is not None:
    shapes.append((rows, length, len(labels.heads.sizes)))

  def placed(x: Any, *axes: str) -> jax.ShapeDtypeStruct:
    sharding = NamedSharding(steps.mesh, PartitionSpec(*axes))
    return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding)

  arrays = [jax.ShapeDtypeStruct(shape, np.int32) for shape in shapes]
  batch = [placed(x, 'data') for x in arrays]
  seed, number = placed(np.uint32(0)), placed(np.int32(0))
  params = steps.abstract[0]
  gradient = steps.train_step.gradient.lower(params, seed, number, *batch)
  sums = jax.tree.map(placed, gradient.out_info[1])
  update = steps.train_step.update.lower(steps.abstract, params, sums)
  return [gradient.compile(), update.compile()]


def _counted(programs: list[Any], num: int) -> np.ndarray:
  """Operations, bytes accessed, bytes sent and loops of programs."""
  total = np.zeros(4)
  for program in programs:
    cost, text = program.cost_analysis(), program.as_text()
    work = cost['flops'], cost['bytes accessed'], sent(text, num)
    total += *work, text.count(' while(')
  return total


@takes(training=Training)
def plan(
  world: core.World | str,
  model: core.Model | str,
  topology: str = Topology.topology,
  training: Training | None = None,
  *,
  length: int = Topology.length,
  log: Callable[[str], None] = lambda line: None,
) -> PodPlan:
  """Compiles a training step for chips, and counts what it takes of each.

  It starts JAX on the processor: call it in a process that does nothing else.

  Args:
    world: whose sequences are trained on.
    model: what is trained.
    topology: 'v5e:16x16', 'v5p:2x4x4', 'h100:8' (nothing is compiled for
      GPUs: operations, arguments and messages are as on so many processors),
      or 'cpu:8'.
    training: all of the keywords below in one object, instead of these.
    length: tokens of a sequence; 0 is the world's longest.
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
  mesh = state.mesh(training.mesh_data, training.mesh_model, devices)
  forms: list[Any] = [model]
  if isinstance(model, transformer.Model) and model.scan:
    forms += [
      dataclasses.replace(model, scan=False, layers=num) for num in (1, 2)
    ]
  with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
    steps = [loop.CompiledSteps(training, world, form, mesh) for form in forms]
    programs = [_compiled(each, length) for each in steps]
  counts, *blocks = (_counted(each, mesh.size) for each in programs)
  if blocks:
    counts = blocks[0] + (forms[0].layers - 1) * (blocks[1] - blocks[0])
  memory = [each.memory_analysis() for each in programs[0]]
  tokens = training.batch * length
  # Temporaries on a processor say nothing of a GPU.
  beside = [x.temp_size_in_bytes for x in memory if chip != CHIPS['h100']]
  result = PodPlan(
    *(topology, chip, training.steps, tokens),
    *(memory[1].argument_size_in_bytes, max(beside, default=0)),
    6 * steps[0].spec.num_params * tokens / mesh.size,
    *counts.tolist(),
  )
  for line in result.lines():
    log(line)
  return result
