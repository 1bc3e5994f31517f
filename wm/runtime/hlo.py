"""What a compiled program does on a device, read from its text (XLA's HLO).

`compiled.cost_analysis()` counts the body of a loop once. Here all is counted
as often as it runs: products of matrices, bytes to and from memory, messages
between devices, and the steps that follow each other.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import json
import math
import re
from collections.abc import Iterator

from wm import core

_BITS = {'pred': 8, 's4': 4, 'u4': 4, 'bf16': 16, 'token': 0, 'opaque': 0}
_ARRAY = re.compile(r'([a-z]\w*)\[([\d,]*)\](?:\{([^}]*)\})?')
_HEAD = re.compile(r'^(ENTRY )?%?([\w.\-]+) .*\{$')
_LINE = re.compile(r'^\s+(ROOT )?%?([\w.\-]+) = (.*)$')
_OPCODE = re.compile(r'\s*([a-z][\w\-]*)\(')
_NAME = re.compile(r'%([\w.\-]+)')
# Kinds of messages between devices.
COLLECTIVES = (
  *('all-gather', 'all-reduce', 'reduce-scatter', 'all-to-all'),
  *('collective-permute', 'ragged-all-to-all', 'collective-broadcast'),
)
# These move nothing: they name, cut or pass on what is there.
_FREE = {
  *('parameter', 'constant', 'tuple', 'get-tuple-element', 'bitcast'),
  *('while', 'conditional', 'call', 'after-all', 'partition-id', 'replica-id'),
  *('optimization-barrier', 'add-dependency', 'opt-barrier', 'domain'),
}
# Custom calls that move nothing: memory without contents, parts side by side.
_FREE_CALLS = re.compile(r'"(AllocateBuffer|ConcatBitcast)"')
_READS_PART = {'dynamic-slice', 'slice', 'gather'}


@dataclasses.dataclass(frozen=True)
class Array:
  """An array of a program.

  Attributes:
    shape: its dimensions.
    bytes: its size, without the padding of a device's layout.
    local: lies in memory beside the arithmetic, not in the device's HBM.
  """

  shape: tuple[int, ...]
  bytes: int
  local: bool


def arrays(text: str) -> list[Array]:
  """The arrays of a type, 'f32[2,3]{1,0}' or a tuple of such."""
  listed = []
  for kind, dims, layout in _ARRAY.findall(text):
    shape = tuple(int(x) for x in dims.split(',') if x)
    digits = re.search(r'\d+', kind)
    bits = _BITS.get(kind, int(digits[0]) if digits else 0)
    # S(n) is a memory space; 0, the default, is not written.
    local = 'S(' in layout
    listed.append(Array(shape, math.prod(shape) * bits // 8, local))
  return listed


@dataclasses.dataclass(frozen=True)
class Instruction:
  """A line of a computation."""

  name: str
  opcode: str
  results: list[Array]
  operands: list[str]
  inside: str  # Text between the brackets.
  rest: str  # Attributes.
  root: bool

  def attribute(self, name: str) -> str:
    """'' where there is none."""
    match = re.search(rf'\b{name}=(\{{[^}}]*\}}|[^,\s]+)', self.rest)
    return match[1] if match else ''

  def numbers(self, name: str) -> list[int]:
    """Of an attribute such as {0,1}."""
    return [int(x) for x in re.findall(r'\d+', self.attribute(name))]

  @property
  def called(self) -> list[str]:
    """Computations that run as part of it, but for those of elements."""
    names = ['calls', 'branch_computations', 'called_computations']
    names += ['true_computation', 'false_computation']
    names += ['to_apply'] if self.opcode == 'call' else []
    return [c for name in names for c in _NAME.findall(self.attribute(name))]


def _closed(text: str) -> int:
  """Length of the text up to the bracket that closes its first one."""
  depth = 0
  for n, letter in enumerate(text):
    depth += (letter == '(') - (letter == ')')
    if not depth and letter == ')':
      return n + 1
  return len(text)


def _instruction(line: str) -> Instruction | None:
  match = _LINE.match(line)
  if not match:
    return None
  text = match[3]
  # The type: a tuple in brackets, or up to the blank after its layout.
  end = _closed(text) if text[0] == '(' else text.find(' ')
  opcode = _OPCODE.match(text[end:])
  if not opcode:
    return None
  rest = text[end + opcode.end() - 1 :]
  close = _closed(rest)
  inside = rest[1 : close - 1]
  return Instruction(
    match[2],
    opcode[1],
    arrays(text[:end]),
    _NAME.findall(inside),
    inside,
    rest[close:],
    bool(match[1]),
  )


class Computation(dict[str, Instruction]):
  """Name -> instruction, in order."""

  @property
  def root(self) -> Instruction:
    """The last, which gives the result."""
    return next(x for x in self.values() if x.root)

  @functools.cached_property
  def users(self) -> dict[str, list[Instruction]]:
    """Name -> instructions that read it, through bitcasts."""
    users: dict[str, list[Instruction]] = collections.defaultdict(list)
    for instruction in reversed(self.values()):
      passed = instruction.opcode == 'bitcast' and not instruction.root
      for name in instruction.operands:
        readers = users[instruction.name] if passed else [instruction]
        users[name] += readers
    return users

  def viewed(self, name: str) -> Instruction:
    """What a value is another view of, through bitcasts."""
    return self._behind(name, {'bitcast'})

  def source(self, name: str) -> Instruction:
    """What a value is a copy of."""
    return self._behind(name, {'bitcast', 'copy', 'convert'})

  def _behind(self, name: str, opcodes: set[str]) -> Instruction:
    instruction = self[name]
    while instruction.opcode in opcodes:
      instruction = self[instruction.operands[0]]
    return instruction


@dataclasses.dataclass
class Work:
  """What a program does on one device, loops included.

  Attributes:
    flops: operations of products of matrices.
    bytes: read from and written to the device's memory.
    depth: steps of loops that follow each other: of nested ones the product.
    unknown: loops whose number of steps the text does not say: counted once.
    messages: kind of collective -> [how many, bytes that a device sends].
  """

  flops: float = 0.0
  bytes: float = 0.0
  depth: int = 0
  unknown: int = 0
  messages: dict[str, list[float]] = dataclasses.field(default_factory=dict)

  def add(self, other: Work, times: int = 1) -> None:
    """Adds work that is done so many times."""
    self.flops += times * other.flops
    self.bytes += times * other.bytes
    self.depth += times * other.depth
    self.unknown += other.unknown
    for kind, (num, size) in other.messages.items():
      before = self.messages.get(kind, [0, 0])
      self.messages[kind] = [before[0] + times * num, before[1] + times * size]

  @property
  def sent(self) -> float:
    """Bytes that a device sends to others."""
    return sum(size for _, size in self.messages.values())


class Program:
  """A program's computations; `work` counts what they do."""

  def __init__(self, text: str) -> None:
    self.computations: dict[str, Computation] = {}
    self.entry = ''
    channels: set[str] = set()
    current = Computation()
    for line in text.splitlines():
      if head := _HEAD.match(line):
        current = self.computations[head[2]] = Computation()
        self.entry = head[2] if head[1] else self.entry
      elif instruction := _instruction(line):
        # A collective may be cut into a start, a middle and an end, each of
        # which names its channel: it is one.
        channel = instruction.attribute('channel_id')
        if channel in channels:
          instruction = dataclasses.replace(instruction, opcode='bitcast')
        channels |= {channel} - {''}
        current[instruction.name] = instruction
    self._work: dict[tuple[str, bool], Work] = {}

  @property
  def work(self) -> Work:
    """Of the whole program."""
    return self._of(self.entry)

  def _of(self, name: str, fused: bool = False) -> Work:
    if (name, fused) not in self._work:
      total = Work()
      computation = self.computations[name]
      for instruction in computation.values():
        total.add(self._single(computation, instruction, fused))
      self._work[name, fused] = total
    return self._work[name, fused]

  def _single(
    self, computation: Computation, instruction: Instruction, fused: bool
  ) -> Work:
    """Of one instruction, and what it calls."""
    work = Work(flops=_flops(computation, instruction))
    kind = instruction.opcode.removesuffix('-start')
    if kind in COLLECTIVES:
      work.messages[kind] = [1, _sent(computation, instruction)]
    if not fused:
      work.bytes = self._bytes(computation, instruction)
    if instruction.opcode == 'while':
      steps = self._steps(computation, instruction)
      (body,) = _NAME.findall(instruction.attribute('body'))
      inner = Work()
      inner.add(self._of(body))
      inner.depth = max(inner.depth, 1)
      work.add(inner, 1 if steps is None else steps)
      work.unknown += steps is None
    called = [
      self._of(c, fused or kind == 'fusion') for c in instruction.called
    ]
    if instruction.opcode == 'conditional':  # One of several: the dearest.
      called = [max(called, key=lambda w: (w.flops, w.bytes))]
    for inner in called:
      work.add(inner)
    return work

  def _steps(self, computation: Computation, loop: Instruction) -> int | None:
    """How often the body of a loop runs; None where it is not constant."""
    if stated := re.search(r'"known_trip_count":\{"n":"(\d+)"', loop.rest):
      return int(stated[1])
    # JAX's loops count from a constant to a constant, by one; where messages
    # go round devices, compilers add loops that take several at a time.
    (name,) = _NAME.findall(loop.attribute('condition'))
    condition = self.computations[name]
    root = condition.root
    if root.opcode != 'compare' or 'direction=LT' not in root.rest:
      return None
    counter, limit = (condition.source(x) for x in root.operands)
    first, last = (_first(computation, loop, x) for x in (counter, limit))
    by = self._increment(loop, counter)
    if first is None or last is None or not by:
      return None
    return max(-((first - last) // by), 0)

  def _increment(self, loop: Instruction, counter: Instruction) -> int:
    """What the body of a loop adds to its counter; 0 if that is not constant.

    counter: in the condition.
    """
    (name,) = _NAME.findall(loop.attribute('body'))
    body = self.computations[name]
    if counter.opcode != 'get-tuple-element' or body.root.opcode != 'tuple':
      return 0
    index = counter.attribute('index')
    value = body.source(body.root.operands[int(index)])
    total = 0
    while value.opcode == 'add':
      parts = [body.source(x) for x in value.operands]
      constants = [x for x in parts if _constant(x) is not None]
      if len(constants) != 1:
        return 0
      total += _constant(constants[0]) or 0
      (value,) = (x for x in parts if x not in constants)
    same = value.opcode == 'get-tuple-element'
    return total if same and value.attribute('index') == index else 0

  def _bytes(self, computation: Computation, instruction: Instruction) -> float:
    """Read from and written to HBM by an instruction that is not fused."""
    opcode = instruction.opcode
    if opcode in _FREE or opcode.endswith('-done'):
      return 0
    if opcode == 'custom-call' and _FREE_CALLS.search(instruction.rest):
      return 0
    inputs = [computation[name] for name in instruction.operands]
    kind = opcode.removesuffix('-start')
    if kind in _READS_PART:
      # A start's result names its operand again, then the part.
      source = inputs[0].results[0]
      part = instruction.results[1 if opcode != kind else 0]
      return part.bytes * (2 - source.local - part.local)
    if opcode == 'dynamic-update-slice':
      return 2 * _outside(inputs[1].results)
    if opcode == 'fusion' and instruction.called:
      return self._fused(self.computations[instruction.called[0]])
    if opcode != kind:
      return _outside(instruction.results)
    read = sum(_outside(x.results) for x in inputs)
    return read + _outside(instruction.results)

  def _fused(self, computation: Computation) -> float:
    """Bytes of a fusion: of an array that it reads a part of, that part."""
    return self._written(computation) + sum(
      self._read(computation, parameter)
      for parameter in computation.values()
      if parameter.opcode == 'parameter'
    )

  def _read(self, computation: Computation, parameter: Instruction) -> float:
    """Bytes of a fusion's parameter that its instructions need."""
    whole = _outside(parameter.results)
    total = 0.0
    for user in computation.users[parameter.name] if whole else []:
      if user.opcode in _READS_PART:
        total += sum(x.bytes for x in user.results)
      elif user.opcode == 'fusion':  # A fusion in a fusion.
        inner = self.computations[user.called[0]]
        total += sum(
          self._read(inner, x)
          for x in inner.values()
          if x.opcode == 'parameter'
          and computation.viewed(user.operands[int(x.inside)]) is parameter
        )
      elif (
        user.opcode != 'dynamic-update-slice'
        or computation.source(user.operands[0]) is not parameter
      ):
        return whole
      # Else the elements that are not updated stay where they are.
    return min(total, whole)

  def _written(self, computation: Computation) -> float:
    """Bytes of a fusion's results."""
    total = 0.0
    for result in _results(computation):
      outside = _outside(result.results)
      if result.opcode == 'dynamic-update-slice':  # In place.
        update = computation[result.operands[1]].results[0]
        total += update.bytes * bool(outside)
      elif result.opcode == 'fusion':
        total += self._written(self.computations[result.called[0]])
      else:
        total += outside
    return total


def _constant(value: Instruction) -> int | None:
  if value.opcode != 'constant' or not value.inside.lstrip('-').isdigit():
    return None
  return int(value.inside)


def _first(
  computation: Computation, loop: Instruction, value: Instruction
) -> int | None:
  """A number of a loop's condition at its start; None if not constant."""
  if value.opcode == 'get-tuple-element':
    start = computation.source(loop.operands[0])
    if start.opcode != 'tuple':
      return None
    index = int(value.attribute('index'))
    value = computation.source(start.operands[index])
  return _constant(value)


def _outside(listed: list[Array]) -> int:
  return sum(x.bytes for x in listed if not x.local)


def _results(computation: Computation) -> Iterator[Instruction]:
  """What a fusion writes."""
  root = computation.root
  names = root.operands if root.opcode == 'tuple' else [root.name]
  for name in names:
    yield computation.source(name)


def _flops(computation: Computation, instruction: Instruction) -> float:
  """Of a product of matrices, 2 for each multiplication; else 0."""
  if instruction.opcode == 'dot':
    left = computation[instruction.operands[0]].results[0].shape
    summed = instruction.numbers('lhs_contracting_dims')
    size = math.prod(instruction.results[0].shape)
    return 2.0 * size * math.prod(left[n] for n in summed)
  if instruction.opcode == 'convolution':
    return _convolution(computation, instruction)
  if instruction.opcode == 'custom-call' and '"cost_estimate"' in (
    instruction.rest
  ):
    # Pallas passes on what a kernel says of itself.
    text = instruction.rest.partition('"cost_estimate":')[2]
    return float(json.JSONDecoder().raw_decode(text)[0].get('flops', 0))
  return 0.0


def _convolution(computation: Computation, instruction: Instruction) -> float:
  """A TPU's products are convolutions, batches and heads being windows."""
  inputs, kernel = (computation[x].results[0] for x in instruction.operands[:2])
  (result,) = instruction.results
  labels = instruction.attribute('dim_labels')
  left, rest = labels.split('_')
  right, out = rest.split('->')
  spatial = sorted(x for x in left if x.isdigit())
  window = dict(
    re.findall(r'(\w+)=([\dx_\-]+)', instruction.attribute('window'))
  )

  def each(name: str, default: str) -> list[str]:
    return (
      window[name].split('x') if name in window else [default] * len(spatial)
    )

  total = 2.0 * result.shape[out.index('b')] * result.shape[out.index('f')]
  total *= kernel.shape[right.index('i')]
  columns = zip(
    *(each('size', '1'), each('stride', '1'), each('pad', '0_0')),
    *(each('lhs_dilate', '1'), each('rhs_dilate', '1')),
    strict=True,
  )
  for digit, (_, stride, pad, left_gap, right_gap) in zip(
    spatial, columns, strict=True
  ):
    low = int(pad.split('_')[0])
    total *= _pairs(
      (inputs.shape[left.index(digit)], int(left_gap)),
      (kernel.shape[right.index(digit)], int(right_gap)),
      (result.shape[out.index(digit)], int(stride)),
      low,
    )
  groups = int(instruction.attribute('batch_group_count') or 1)
  return total / groups


def _pairs(
  inputs: tuple[int, int],
  kernel: tuple[int, int],
  result: tuple[int, int],
  low: int,
) -> int:
  """(element of input, of kernel) pairs that meet along one dimension.

  Each is a size and a gap: dilation, or the stride of the result.
  """
  (size, gap), count = inputs, 0
  for k in range(kernel[0]):
    for place in range(result[0]):
      at = place * result[1] + k * kernel[1] - low
      count += at % gap == 0 and 0 <= at // gap < size
  return count


def _sent(computation: Computation, instruction: Instruction) -> float:
  """Bytes that a device sends, if all devices send in a ring."""
  kind = instruction.opcode.removesuffix('-start')
  inputs = sum(
    x.bytes for name in instruction.operands for x in computation[name].results
  )
  if kind in ('collective-permute', 'collective-broadcast'):
    return float(inputs)
  others = max(_group(instruction.rest) - 1, 0)
  # An all-gather passes on its part to all others; each part of a reduction
  # goes round once, and once more where all devices get the sum.
  if kind == 'all-gather':
    return float(inputs * others)
  share = inputs * others / (others + 1)
  return 2 * share if kind == 'all-reduce' else share


def _group(rest: str) -> int:
  """Devices that take part in one collective.

  Raises:
    InputError: they are written in a way that is not read.
  """
  # mesh['a'=4,'b'=64] {'b'}, with the order of devices in between or not.
  mesh = r'replica_groups=mesh\[([^\]]*)\][^{]*\{([^}]*)\}'
  if match := re.search(mesh, rest):
    sizes = dict(re.findall(r"'(\w+)'=(\d+)", match[1]))
    axes = re.findall(r"'(\w+)'", match[2])
    return math.prod(int(sizes[axis]) for axis in axes)
  if match := re.search(r'replica_groups=\[\d+,(\d+)\]', rest):
    return int(match[1])
  if match := re.search(r'replica_groups=\{\{([\d,]+)\}', rest):
    return len(match[1].split(','))
  if 'replica_groups=' in rest:
    groups = rest.partition('replica_groups=')[2][:80]
    raise core.InputError(f'the devices of a message cannot be read: {groups}')
  return 1
