"""Objects of PyTorch, Flax, ONNX and others as methods of NumPy arrays.

    nn.Module, torch.export     int64 tensors on the module's device
    Hugging Face                beside its logits, `hidden` of every layer
    flax.linen, flax.nnx        compiled, with their parameters
    onnxruntime sessions        the first input and output

A module of the user is read and left as it was: modes of all its parts, its
buffers, and the generator of random numbers. No library is imported here.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import itertools
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from wm import core
from wm.core import inputs

METHODS = ('hidden', 'patched', 'start', 'step', 'answers')
# Spacing of floats near 1, for floats narrower than float32.
NARROW = {'bfloat16': 2**-7, 'float16': 2**-10}
# Arguments of a call that switch training off.
MODES = {
  'train': False,
  'training': False,
  'is_training': False,
  'deterministic': True,
  'use_running_average': True,
}
SMALL = 10_000_000  # Weights of a module that runs on one thread.
_SEEDS = itertools.count(1)  # A module that draws at random does so each time.


def has(thing: Any, *names: str) -> bool:
  """True if a user's object has all of these methods, whatever its class."""
  return all(callable(getattr(thing, name, None)) for name in names)


def is_a(thing: Any, module: str, name: str) -> bool:
  """True if the object is of a class of a library, without importing it."""
  cls = getattr(sys.modules.get(module), name, None)
  return cls is not None and isinstance(thing, cls)


def as_array(array: Any) -> np.ndarray:
  """A NumPy, JAX or PyTorch array on any device; 16-bit floats as float32.

  A list of arrays is stacked.
  """
  narrow = str(getattr(array, 'dtype', '')).rpartition('.')[2] in NARROW
  if np.ma.is_masked(array):
    raise core.InputError(
      'a masked array was given, whose masked entries are no numbers; expected '
      '-inf where a token is impossible, as by array.filled(-numpy.inf)'
    )
  if isinstance(array, list) and any(hasattr(x, 'detach') for x in array):
    return np.stack([as_array(x) for x in array])
  # PyTorch cannot view a tensor with gradients, or on a GPU, as NumPy.
  if hasattr(array, 'detach'):  # PyTorch's.
    array = array.detach().cpu()
    array = (array.float() if narrow else array).numpy()
  # NumPy has no bfloat16: converted to float32.
  array = np.asarray(array)
  return array.astype(np.float32) if narrow else array


def logits_of(answer: Any, rows: int = 0) -> Any:
  """The logits in a model's output.

  That is the key or attribute `logits`, or of a tuple the first array with a
  number for each row and token: a loss may come before it.

  rows: R of the call; 0 is unknown.
  """
  if isinstance(answer, Mapping) and 'logits' in answer:
    return answer['logits']
  if not isinstance(answer, tuple) or not answer:
    return getattr(answer, 'logits', answer)
  # A loss is a scalar or None; a state may follow the logits.
  for part in answer:
    shape: tuple[int, ...] = tuple(getattr(part, 'shape', ()))
    if len(shape) in (2, 3) and shape[0] == (rows or shape[0]):
      return part
  return answer[0]


def adapted(thing: Any, label: str) -> Any:
  """An object whose methods take NumPy arrays, from one of any library.

  Raises InputError for a module of Flax linen without its parameters, and for
  one that needs an argument which is not known.
  """
  if is_a(thing, 'torch.export', 'ExportedProgram'):
    return _with_methods(thing, lambda name: _exported(thing))
  if is_a(thing, 'onnxruntime', 'InferenceSession'):
    return _with_methods(thing, lambda name: _session(thing))
  if is_a(thing, 'torch.nn', 'Module'):
    return _with_methods(thing, functools.partial(torch_call, thing, label))
  if (pure := functional(thing, label)) is None:
    return thing

  def call(name: str) -> Callable[..., Any]:
    apply = functools.partial(pure.apply, name)
    return functools.partial(_compiled(apply, name), pure.weights)

  return _with_methods(pure.module, call)


def _with_methods(
  thing: Any, call: Callable[[str], Callable[..., Any]]
) -> object:
  """An object with the methods of a module; `call(name)` makes a method."""
  names = [name for name in METHODS if has(thing, name)]
  methods = {name: staticmethod(call(name)) for name in names}
  # Hugging Face outputs contain hidden states by layer: no method is needed.
  if 'hidden' not in methods and is_a(thing, 'transformers', 'PreTrainedModel'):
    network = call('hidden_states')
    methods['hidden'] = staticmethod(network)
  methods['__call__'] = staticmethod(call('__call__'))
  return type(type(thing).__name__, (), methods)()


def modes(function: Callable[..., Any], label: str, skip: int = 1) -> dict:
  """Arguments of a call, beside its arrays, that switch training off.

  Args:
    function: method of a module.
    label: name of the model in errors.
    skip: number of its first arguments, which are arrays.

  Raises:
    InputError: it needs an argument of another name.
  """
  try:
    parameters = list(inspect.signature(function).parameters.values())[skip:]
  except (TypeError, ValueError):  # Of compiled code.
    return {}
  values = {}
  # A default counts for nothing: it may be that of training.
  for each in parameters:
    if each.name in MODES:
      values[each.name] = MODES[each.name]
    elif each.default is each.empty and each.kind not in (
      each.VAR_POSITIONAL,
      each.VAR_KEYWORD,
    ):
      inputs.check_known(
        each.name,
        MODES,
        f'{label} needs an argument {each.name!r} beside its tokens; expected '
        'a function of tokens, such as lambda tokens: model(tokens, '
        f'{each.name}=...), or one of these arguments',
      )
  return values


def torch_call(module: Any, label: str, name: str) -> Callable[..., Any]:
  """A method of a PyTorch module as a function of NumPy arrays."""
  torch: Any = sys.modules['torch']

  def states(tokens: Any, layer: int) -> Any:
    """`hidden` for a Hugging Face model."""
    # The embedding and each block: layers + 1 arrays [R, L, D].
    every = module(tokens, output_hidden_states=True).hidden_states
    if not -len(every) <= layer < len(every):
      raise core.InputError(f'layer {layer}: expected at most {len(every) - 1}')
    return every[layer]

  method: Callable[..., Any] = (
    states if name == 'hidden_states' else getattr(module, name)
  )
  # `__call__` of a module takes anything; `forward` has the names.
  options = modes(module.forward, label) if name == '__call__' else {}
  untouched = Untouched(module)

  def call(*arguments: Any, **more: Any) -> Any:
    """The method in evaluation mode, on the device of the weights."""
    weights = next(module.parameters(), None)
    device = None if weights is None else weights.device
    tensors = [
      torch.as_tensor(
        np.array(x, np.int64 if np.asarray(x).dtype.kind in 'iu' else None),
        device=device,
      )
      if isinstance(x, np.ndarray)
      else x
      for x in arguments
    ]
    with untouched(), torch.no_grad():
      return method(*tensors, **options, **more)

  return call


def hooked(module: Any, layers: tuple[str, ...], label: str) -> Any:
  """A PyTorch module with `hidden` and `patched` of its submodules, by hooks.

  It shares weights and parts with the user's module, which gets no method.

  Args:
    module: the user's.
    layers: names of submodules, as of `named_modules`. Layer k is the k-th; of
      one name, every layer.
    label: name of the model in errors.

  Raises:
    InputError: it is no module of PyTorch, or has no such submodule.
  """
  if not is_a(module, 'torch.nn', 'Module'):
    raise core.InputError(
      f'{label} is of type {type(module).__name__}; expected a PyTorch module '
      'to find layer= in, or a method hidden(tokens, layer)'
    )
  parts = [name for name, _ in module.named_modules() if name]
  for name in layers:
    inputs.check_known(name, parts, f'{label} has no submodule {name!r}')
  options = modes(module.forward, label)

  def run(self: Any, tokens: Any, layer: int, change: Any) -> tuple[Any, Any]:
    """Activations of a layer, and logits after a change of them."""
    if len(layers) > 1 and not -1 <= layer < len(layers):
      listed = ', '.join(f'{k} ({name})' for k, name in enumerate(layers))
      raise core.InputError(f'layer {layer} was asked for; available: {listed}')
    name, seen = layers[layer if len(layers) > 1 else 0], []

    def hook(part: Any, arguments: Any, output: Any) -> Any:
      first, *rest = output if isinstance(output, tuple) else (output,)
      seen.append(first)
      after = change(first)
      return (after, *rest) if isinstance(output, tuple) else after

    handle = self.get_submodule(name).register_forward_hook(hook)
    try:
      logits = logits_of(self(tokens, **options), len(tokens))
    finally:
      handle.remove()
    if not seen:
      raise core.InputError(
        f'{label}: its forward does not call the submodule {name!r}; expected '
        'one that every input goes through'
      )
    return seen[0], logits

  def hidden(self: Any, tokens: Any, layer: int) -> Any:
    """Activations [R, L, D] after a layer."""
    return run(self, tokens, layer, lambda x: x)[0]

  def patched(self: Any, tokens: Any, layer: int, hidden: Any) -> Any:
    """Logits [R, L, V] from other activations on."""
    return run(self, tokens, layer, lambda x: hidden.to(x.dtype))[1]

  # A class of its own, as metrics find abilities by methods.
  twin, cls = copy.copy(module), type(module)
  methods = {'hidden': hidden, 'patched': patched}
  twin.__class__ = type(cls.__name__, (cls,), methods)
  return twin


@contextlib.contextmanager
def own_random_numbers(devices: Collection[Any] = ()) -> Iterator[None]:
  """PyTorch draws from a generator of its own; the user's stays as it is.

  devices: of CUDA, whose generators stay, too.
  """
  torch: Any = sys.modules['torch']
  seed = next(_SEEDS)
  with torch.random.fork_rng(devices=devices):
    # `torch.manual_seed` takes milliseconds, as it notes who asked for it.
    torch.default_generator.manual_seed(seed)
    for device in devices:
      with torch.cuda.device(device):
        torch.cuda.manual_seed(seed)
    yield


def is_small(module: Any) -> bool:
  """Has a PyTorch module few weights, so that calls cost more than work?"""
  return sum(x.numel() for x in module.parameters()) < SMALL


@contextlib.contextmanager
def few_threads(module: Any) -> Iterator[None]:
  """One thread of PyTorch if a module is small; restores their number.

  Threads that wait for each other on a busy machine take up to five times as
  long as one, and a small module gains little from them.
  """
  torch: Any = sys.modules['torch']
  threads = torch.get_num_threads()
  if is_small(module):
    torch.set_num_threads(1)
  try:
    yield
  finally:
    torch.set_num_threads(threads)


class Untouched:
  """Runs a PyTorch module in evaluation mode, and leaves it as it was."""

  def __init__(self, module: Any) -> None:
    self._module = module
    # Buffers may be large: they are copied until a call changes none.
    self._copies = True

  @contextlib.contextmanager
  def __call__(self) -> Iterator[None]:
    """Restores modes, buffers, threads and the generator of randomness."""
    torch: Any = sys.modules['torch']
    parts = list(self._module.modules())
    training = [part.training for part in parts]
    buffers = [
      (part, name, x, x._version, x.clone() if self._copies else x)
      for part in parts
      for name, x in part._buffers.items()
      if x is not None
    ]
    for part in parts:
      # `eval` of a user may do more than set the mode.
      part.training = False
    cuda = {x.device for *_, x in buffers if x.device.type == 'cuda'}
    try:
      with few_threads(self._module), own_random_numbers(cuda):
        yield
    finally:
      for part, mode in zip(parts, training, strict=True):
        part.training = mode
      # A version counts changes in place; a buffer may also be another tensor.
      changed = [
        each
        for each in buffers
        if each[0]._buffers[each[1]] is not each[2]
        or each[2]._version != each[3]
      ]
      for part, name, buffer, version, before in changed:
        part._buffers[name] = buffer
        if buffer._version != version:
          with torch.no_grad():
            buffer.copy_(before)
      self._copies = bool(changed)


def _of_fixed_shape(
  call: Callable[[np.ndarray], Any], shape: Sequence[Any]
) -> Callable[[np.ndarray], Any]:
  """Pads inputs of a program that takes tokens of one shape alone.

  shape: of its input; a number is a fixed size, anything else takes any.
  """
  rows, length = (x if isinstance(x, int) else 0 for x in shape)

  def padded(tokens: np.ndarray) -> np.ndarray:
    """Logits [R, L, V] of tokens [R, L]."""
    num, long = tokens.shape
    if length and long > length:
      raise core.InputError(
        f'the program takes {length} tokens, and {long} were given; expected '
        f'max_len={length}'
      )
    # Zeros behind the tokens: a causal program does not see them.
    width = length or long
    filled = np.pad(tokens, ((0, 0), (0, width - long)))
    # The last call of a fixed number of rows is filled with rows of zeros.
    step = rows or num
    parts = []
    for start in range(0, num, step):
      part = filled[start : start + step]
      missing = ((0, step - len(part)), (0, 0))
      parts.append(as_array(logits_of(call(np.pad(part, missing)), step)))
    values = np.concatenate(parts)[:num]
    return values[:, :long] if values.ndim == 3 else values

  return padded


def _exported(program: Any) -> Callable[[np.ndarray], Any]:
  """The program of torch.export as a function of tokens."""
  torch: Any = sys.modules['torch']
  module, names = program.module(), program.graph_signature.user_inputs
  # The shape and type with which it was exported; symbols are free sizes.
  node = next(x for x in program.graph.nodes if x.name == names[0])
  tokens = node.meta['val']

  def call(array: np.ndarray) -> Any:
    with torch.no_grad():
      return module(torch.as_tensor(array).to(tokens.dtype))

  return _of_fixed_shape(call, tokens.shape)


def _session(session: Any) -> Callable[[np.ndarray], Any]:
  """The program of an ONNX session as a function of tokens."""
  # Masks and caches are other inputs: what they mean is not known.
  first, *others = session.get_inputs()
  if others:
    raise core.InputError(
      f'the session has inputs {first.name}, '
      f'{", ".join(x.name for x in others)}; expected one, of tokens'
    )
  kind = np.int64 if 'int64' in first.type else np.int32

  def call(array: np.ndarray) -> Any:
    return tuple(session.run(None, {first.name: array.astype(kind)}))

  return _of_fixed_shape(call, first.shape)


class Functional(NamedTuple):
  """A module of Flax as functions of its weights.

  Attributes:
    module: the module, with its methods.
    weights: tree of arrays.
    apply: (name of a method, weights, arguments) -> result of the method.
  """

  module: Any
  weights: Any
  apply: Callable[..., Any]

  @property
  def features(self) -> Callable[[Any, Any], Any]:
    """Weights and tokens [R, L] -> activations or logits [R, L, D]."""
    if has(self.module, 'hidden'):
      return lambda weights, tokens: self.apply('hidden', weights, tokens, -1)
    return lambda *both: logits_of(self.apply('__call__', *both))


def functional(thing: Any, label: str) -> Functional | None:
  """A Flax module with separate or bound parameters; None for other objects.

  Raises InputError for a module of Flax linen without its parameters.
  """
  module, params = thing, None
  if isinstance(thing, tuple) and len(thing) == 2:
    module, params = thing
  if is_a(module, 'flax.linen', 'Module'):
    if params is None and module.scope is None:
      raise core.InputError(
        f'{label} is a module of Flax linen without parameters; expected '
        '(module, params), or module.bind(...)'
      )
    return _linen(module, params, label)
  if is_a(module, 'flax.nnx', 'Module'):
    return _nnx(module, params, label)
  return None


def _linen(module: Any, params: Any, label: str) -> Functional:
  """A Flax linen module, with parameters from `params` or bound to it."""
  if params is None:
    module, params = module.unbind()
  # {'params': ..., 'batch_stats': ...}, or only the parameters.
  has_kinds = isinstance(params, Mapping) and 'params' in params
  variables = dict(params) if has_kinds else {'params': params}
  # Skipped are `self` and the tokens.
  options = modes(type(module).__call__, label, skip=2)

  def apply(name: str, weights: Any, *arguments: Any) -> Any:
    more = options if name == '__call__' else {}
    return module.apply(
      {**variables, 'params': weights}, *arguments, **more, method=name
    )

  return Functional(module, variables['params'], apply)


def _nnx(module: Any, params: Any, label: str) -> Functional:
  """A copy of a Flax nnx module in eval mode, with `params` if given."""
  nnx: Any = sys.modules['flax.nnx']
  # A copy, as `eval` would change the user's module.
  twin = nnx.merge(*nnx.split(module), copy=True)
  if params is not None:
    nnx.update(twin, params)
  twin.eval()
  graph, weights, others = nnx.split(twin, nnx.Param, ...)
  options = modes(type(module).__call__, label, skip=2)

  def apply(name: str, weights: Any, *arguments: Any) -> Any:
    # Copies: a call may change its variables, such as a counter.
    network = nnx.merge(graph, weights, others, copy=True)
    more = options if name == '__call__' else {}
    return getattr(network, name)(*arguments, **more)

  return Functional(twin, weights, apply)


def _compiled(apply: Callable[..., Any], name: str) -> Callable[..., Any]:
  """Compiles a function of weights and arrays, for methods with few shapes."""
  jax: Any = sys.modules['jax']  # Flax imported it.
  if name == '__call__':
    return jax.jit(apply)
  if name in ('hidden', 'patched'):  # Arguments: weights, tokens, layer, ...
    # The layer is static: one program is compiled for each.
    return jax.jit(apply, static_argnums=2)
  return apply
