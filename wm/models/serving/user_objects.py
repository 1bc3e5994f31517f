"""Predictors of a user's own function or object.

An object comes in; a predictor goes out, of the class that its methods allow
(`predictor`). `wm.models.user` checks it, and `few_shot.adaptable` lets it
learn small tasks.

A user gives a function, tokens to logits, or an object with some of these
methods:

  __call__(tokens)                  logits [R, L, V] of tokens [R, L] int32
  hidden(tokens, layer)             activations [R, L, D]; -1 is the last layer
  patched(tokens, layer, hidden)    logits, going on from these activations
  start(tokens, lengths)            R states, and logits [R, V] after them
  step(states, tokens)              R new states, and logits [R, V]
  answers(prefixes, suffixes)       is each suffix valid after its prefix?
  adapt(tokens, places, labels, task)   learns a small task, and gives a
                                        function of (tokens, places)

`start` and `step` are a cache: scoring then reads every token once. A state is
whatever the user likes, one for each row, and stays as it is when a step gives
the next one. `answers` alone makes a model that says yes and no; prefixes and
suffixes are lists of tuples of token ids, answers are 1, 0, or -1 for none.

`adapt` gets tokens [N, L] int32; `places`, the rows and columns of T labels, so
that features[places] are [T, D]; labels [T, H] integers, or [T, d] numbers;
and a `task`, see `wm.core.adapting.TaskSpec`. What it gives is called with
other tokens and places, and answers by labels of the same kind, or by scores
[T, H, k] of k classes, the highest of which wins. Without `adapt`, modules of
Flax and PyTorch get a new linear head, on `hidden` of the last layer if they
have that, else on their logits, and are fine-tuned as published (Vafa et al.
2025). Weights of other functions and objects are unknown: the head alone is.

Logits may be log-probabilities, as an array of NumPy, JAX or PyTorch, the first
of a tuple, or in an attribute `logits`. Modules are called as they are used:
PyTorch's in eval mode, without gradients, by int64 tensors on their device;
Flax's compiled, nnx in eval mode, linen as (module, parameters) or bound. Of a
model of Hugging Face `hidden` is there by itself.
"""

from __future__ import annotations

import csv
import functools
import json
import os
import pathlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from wm import core
from wm.core import inputs, plugins
from wm.core.predictor import Tokens, padded
from wm.models.serving import stateless
from wm.models.serving.outputs import Outputs

MULTIPLE = 16  # Lengths that a callable is given are multiples of this.
# Least log-probability that a head reads, that of one in a million.
FLOOR = float(np.log(1e-6))
# Spacing of numbers next to 1, of floats narrower than float32.
_NARROW = {'bfloat16': 2**-7, 'float16': 2**-10}


class FromCallable(stateless.Stateless):
  """Any callable, tokens [R, L] int32 -> logits [R, L, V], as a predictor.

  The callable must be causal: position t may depend on tokens[:, :t + 1]
  only, as rows are padded at the end. It is always called with exactly
  `rows` rows, each padded to a multiple of `MULTIPLE` tokens that depends on
  its own length only, so that results do not depend on how trials were batched.
  """

  def __init__(
    self,
    function: Callable[[np.ndarray], np.ndarray],
    *,
    vocab_size: int,
    end: int,
    max_len: int,
    rows: int = 16,
    label: str = 'the callable',
    outputs: Outputs | None = None,
  ) -> None:
    """label: its name in errors; rows: batch size of every call."""
    # Before anything of the user's runs.
    if rows < 1:
      raise core.InputError(f'{label}: rows={rows} was given; expected >= 1')
    self._function, self.rows, self.label = function, rows, label
    self.vocab_size, self.end, self.max_len = vocab_size, end, max_len
    self.spacing, self.outputs = 2**-23, outputs or Outputs()
    self._place = plugins.placed(function)

  def logits(self, tokens: np.ndarray) -> np.ndarray:
    """[rows, L, V] what the callable gives for tokens [rows, L].

    Floats, or integers; of 16 bits they come as float32. Raises InputError
    where it fails or gives something else.
    """
    with (
      plugins.user_code(self.label, self._function),
      np.errstate(all='ignore'),  # NaN is refused, -inf is allowed.
    ):
      # A copy: a callable that writes into its input would change our trials.
      logits = logits_of(self._function(tokens.copy()))
      # 'bfloat16' of NumPy and JAX, 'torch.bfloat16' of PyTorch.
      width = str(getattr(logits, 'dtype', '')).rpartition('.')[2]
      self.spacing = _NARROW.get(width, 2**-23)
      logits = as_array(logits)
    # Checked at every call, not at the first alone: a shape may depend on the
    # tokens.
    expected = (*tokens.shape, self.vocab_size)
    if logits.shape != expected or logits.dtype.kind not in 'fiu':
      raise core.InputError(
        f'{self._place}{self.label} gave {logits.dtype} of shape '
        f'{logits.shape} for tokens {tokens.shape}; expected floats of shape '
        f'[rows, length, vocabulary] = {expected}'
      )
    return logits

  def padded(self, longest: int) -> int:
    """Length of the input that a row of `longest` tokens is padded to."""
    # By a row's own length: its shape does not depend on other rows.
    # Few lengths: a callable that compiles does so for each shape.
    # -(-n // m) * m: n rounded up to a multiple of m.
    up = -(-longest // MULTIPLE) * MULTIPLE
    if longest > self.max_len:
      raise core.InputError(
        f'{longest} tokens: {self.label} takes up to {self.max_len}'
      )
    return min(up, self.max_len)

  def _blocks(
    self, tokens: np.ndarray, lengths: np.ndarray
  ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields rows [R] of one padded length and their logits [R, L', V]."""
    # Rows of one padded length go together; a short call is filled up.
    sizes = np.array([self.padded(int(n)) for n in lengths], int)
    for size in np.unique(sizes):
      of_size = np.flatnonzero(sizes == size)
      # Logits of what was padded here, beyond the caller's own width, are cut
      # off.
      width = min(int(size), tokens.shape[1])
      for part in core.predictor.chunks(len(of_size), 1, self.rows):
        rows = of_size[part]
        filled = padded(tokens[rows], lengths[rows], self.rows, int(size))
        yield rows, self.logits(filled)[: len(rows), :width]

  def normal(self, logits: np.ndarray) -> np.ndarray:
    """[P, V] float32 log-probabilities, in nats, from logits of P positions.

    Nothing of them is on padding, which is no token of a sequence.
    """
    # The greatest logit of a position is NaN where any is, and -inf where all
    # are: one test for both.
    if not np.isfinite(logits.max(-1)).all():
      raise core.InputError(
        f'{self._place}{self.label} gave NaN, or no finite logit, at some '
        'position; expected finite logits (-inf only for impossible tokens)'
      )
    logits = logits.astype(np.float32)
    padding = logits[..., core.PAD].astype(np.float64)
    logits[..., core.PAD] = -np.inf
    top = logits.max(-1, keepdims=True)
    if not np.isfinite(top).all():
      raise core.InputError(
        f'{self._place}{self.label} gave no finite logit but that of <pad>, at '
        'some position; expected logits of the tokens of the world'
      )
    # The greatest logit is 0: exp overflows for none.
    shifted = logits - top
    # log p = z - log sum exp z; log-probabilities come out as they were.
    log_sum = np.log(np.exp(shifted).sum(-1, keepdims=True))
    if self.outputs.ids is None:
      rest = (top + log_sum)[..., 0].astype(np.float64)
      self.outputs.count(1 / (1 + np.exp(np.minimum(rest - padding, 700))))
    return shifted - log_sum

  def log_probs(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """See core.Predictor; InputError if the callable's output is no logits."""
    # A row without tokens is padded to one, and none of its positions is used.
    lengths = np.maximum(np.asarray(lengths), 1)
    out = np.full((*tokens.shape, self.vocab_size), -np.inf, np.float32)
    for rows, logits in self._blocks(tokens, lengths):
      # [R, L] positions that are used; what was padded stays -inf.
      row, at = np.nonzero(np.arange(logits.shape[1]) < lengths[rows, None])
      out[rows[row], at] = self.normal(logits[row, at])
    return out

  def last(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """See stateless.Stateless."""
    out = np.empty((len(tokens), self.vocab_size), np.float32)
    for rows, logits in self._blocks(tokens, np.asarray(lengths)):
      out[rows] = self.normal(logits[np.arange(len(rows)), lengths[rows] - 1])
    return out


def as_array(array: Any) -> np.ndarray:
  """A NumPy, JAX or PyTorch array on any device; 16-bit floats as float32."""
  narrow = str(getattr(array, 'dtype', '')).rpartition('.')[2] in _NARROW
  if np.ma.is_masked(array):
    raise core.InputError(
      'a masked array was given, whose masked entries are no numbers; expected '
      '-inf where a token is impossible, as by array.filled(-numpy.inf)'
    )
  # PyTorch has no view as NumPy of a tensor with gradients, or on a GPU.
  if hasattr(array, 'detach'):  # PyTorch's.
    array = array.detach().cpu()
    array = (array.float() if narrow else array).numpy()
  # bfloat16 is no type of NumPy's own: computed with as float32.
  array = np.asarray(array)
  return array.astype(np.float32) if narrow else array


State = Any
METHODS = ('hidden', 'patched', 'start', 'step', 'answers')


def has(thing: Any, *names: str) -> bool:
  """Has a user's object all of these methods? It need not inherit from ours."""
  return all(callable(getattr(thing, name, None)) for name in names)


def adapted(thing: Any, label: str) -> Any:
  """An object whose methods take NumPy arrays, whatever library it is of.

  Raises InputError for a module of Flax linen without its parameters.
  """
  if is_a(thing, 'torch.nn', 'Module'):
    return _with_methods(thing, functools.partial(_torch_call, thing))
  if (pure := functional(thing, label)) is None:
    return thing

  def call(name: str) -> Callable[..., Any]:
    apply = functools.partial(pure.apply, name)
    return functools.partial(_compiled(apply, name), pure.weights)

  return _with_methods(pure.module, call)


class Functional(NamedTuple):
  """A module of Flax as functions of its weights.

  Attributes:
    module: with its methods.
    weights: tree of arrays.
    apply: (name of a method, weights, arguments) -> what it gives.
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
  """A module of Flax, its parameters beside it or bound; None for others.

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
    return _linen(module, params)
  if is_a(module, 'flax.nnx', 'Module'):
    return _nnx(module, params)
  return None


def read_tokens(path: str | os.PathLike[str], label: str) -> dict[str, Any]:
  """Each token of a world, and what stands for it in the model.

  JSON, an object:                  CSV, with a head:

      {"end": 50256,                    token,id
       "N": 45,                         end,50256
       "Broadway": [30507, 1014]}       N,45

  An integer is an id of the model. For huggingface() it may also be a text,
  which the tokenizer cuts into pieces, or a list of ids; the columns are then
  `token,text`. Every token of the world is there, once; `<pad>` need not be.
  Further tokens are left out. `launch/list.py --world=...` lists a world's.

  Raises:
    InputError: no such file, or not such a file; label names the model.
  """
  path = pathlib.Path(path)
  if not path.is_file():  # A pipe would be waited for.
    raise core.InputError(f'{label}: no file {str(path)!r}, of tokens=')
  with plugins.user_code(f'{label}: {path}'):
    text = path.read_text(encoding='utf-8-sig')
    if path.suffix == '.csv':
      rows = list(csv.reader(text.splitlines()))
      return _by_columns(rows, path, label)
    # Pairs, not a dict: a token that stands twice must be noticed.
    table = json.loads(text, object_pairs_hook=lambda p: _once(p, label))
  if not isinstance(table, dict):
    raise core.InputError(
      f'{label}: {path} holds a {type(table).__name__}; expected '
      '{token: text, id or list of ids}'
    )
  return table


def _by_columns(
  rows: list[list[str]], path: pathlib.Path, label: str
) -> dict[str, Any]:
  """Token -> text or id, of rows under a head."""
  # Empty lines, which spreadsheets leave at the end, are no rows.
  columns, *rows = [row for row in rows if row] or [[]]
  if all(len(row) == 2 for row in rows):
    if columns == ['token', 'text']:
      return _once(rows, label)
    if columns == ['token', 'id'] and all(x.isdecimal() for _, x in rows):
      return _once([(token, int(piece)) for token, piece in rows], label)
  raise core.InputError(
    f'{label}: {path} has columns {columns}; expected token and text, or '
    'token and id (whole numbers)'
  )


def _once(pairs: Iterable[Sequence[Any]], label: str) -> dict[str, Any]:
  """A table in which each token stands once."""
  table: dict[str, Any] = {}
  for token, value in pairs:
    if token in table:
      raise core.InputError(f'{label}: tokens= has {token!r} twice')
    table[token] = value
  return table


def token_ids(
  table: Mapping[str, Any], vocab: Sequence[str], label: str
) -> np.ndarray:
  """[V] int64 id in the model of each token; DEAD of padding without one.

  Raises:
    InputError: a token has no id, or two have the same.
  """
  names = [name for name in vocab if name in table or name != vocab[core.PAD]]
  for name in names:
    text = f'{label}: tokens= has no {name!r} of the world'
    inputs.check_known(name, table, text)
    # `type`, not isinstance: True is no id.
    if type(table[name]) is not int or table[name] < 0:
      raise core.InputError(
        f'{label}: tokens= has {table[name]!r:.60} for {name!r}; expected an '
        'id of the model, 0 or more'
      )
  number: dict[int, str] = {}
  for name in names:
    if (other := number.setdefault(table[name], name)) != name:
      raise core.InputError(
        f'{label}: tokens= has the id {table[name]} for {other!r} and for '
        f'{name!r}; expected one each'
      )
  return np.array([table.get(name, core.DEAD) for name in vocab], np.int64)


def renumbered(
  thing: Any, ids: np.ndarray, label: str, outputs: Outputs
) -> object:
  """An object that reads and gives the world's tokens by the model's ids.

  Logits of all other ids are left out, and the others' probabilities add up
  to 1.

  Args:
    thing: as `adapted` gives it.
    ids: [V] of each token of the world; DEAD of padding without one, which is
      read as 0 and impossible.
    label: of the model, in errors.
    outputs: sees those of all ids.
  """
  read = np.maximum(ids, 0)

  def logits(answer: Any, used: np.ndarray) -> np.ndarray:
    """[..., V] of the world's tokens, from [..., V'] of the model's.

    used: [...] bool, where they are not of padding.
    """
    values = as_array(logits_of(answer))
    size = values.shape[-1] if values.ndim else 0
    if (large := ids[ids >= size]).size:
      raise core.InputError(
        f'{label} gives logits of {size} tokens; tokens= has the id {large[0]}'
      )
    if values.shape[:-1] == used.shape and values.dtype.kind in 'fiu':
      outputs.see(values[used])
      outputs.count_ids(values[used])
    values = values[..., read].astype(np.result_type(values, np.float32))
    values[..., ids < 0] = -np.inf
    return values

  def sent(tokens: Any) -> Any:
    """Ids that the model reads."""
    if isinstance(tokens, list):  # Of tuples, prefixes or suffixes.
      return [tuple(read[list(row)].tolist()) for row in tokens]
    return read[tokens].astype(np.int32)

  def call(name: str) -> Callable[..., Any]:
    """A method that reads and gives the world's tokens."""
    method = thing if name == '__call__' else getattr(thing, name)

    def renumber(*arguments: Any) -> Any:
      """The method, between ids of the world and of the model."""
      if name == 'answers':
        return method(*map(sent, arguments))
      if name == 'step':
        states, after = method(arguments[0], sent(arguments[1]))
        return states, logits(after, np.ones(len(arguments[1]), bool))
      answer = method(sent(arguments[0]), *arguments[1:])
      if name == 'start':
        return answer[0], logits(answer[1], np.ones(len(arguments[0]), bool))
      used = np.asarray(arguments[0]) != core.PAD
      return answer if name == 'hidden' else logits(answer, used)

    renumber.__name__ = name  # Errors say it.
    return renumber

  names = [name for name in (*METHODS, '__call__') if has(thing, name)]
  methods = {name: staticmethod(call(name)) for name in names}
  return type(type(thing).__name__, (), methods)()


def is_a(thing: Any, module: str, name: str) -> bool:
  """Is it of a class of a library? One that is not imported has no objects."""
  cls = getattr(sys.modules.get(module), name, None)
  return cls is not None and isinstance(thing, cls)


def logits_of(answer: Any) -> Any:
  """Logits, alone or with what else a model returns."""
  if isinstance(answer, tuple) and answer:
    return answer[0]
  return getattr(answer, 'logits', answer)


def _with_methods(
  thing: Any, call: Callable[[str], Callable[..., Any]]
) -> object:
  """An object with the methods of a module; `call` makes one by its name."""
  names = [name for name in METHODS if has(thing, name)]
  methods = {name: staticmethod(call(name)) for name in names}
  # Its hidden states are in the output, by layer: no method has to be written.
  if 'hidden' not in methods and is_a(thing, 'transformers', 'PreTrainedModel'):
    network = call('hidden_states')
    methods['hidden'] = staticmethod(network)
  methods['__call__'] = staticmethod(call('__call__'))
  return type(type(thing).__name__, (), methods)()


def _torch_call(module: Any, name: str) -> Callable[..., Any]:
  """A method of a PyTorch module, of NumPy arrays."""
  torch: Any = sys.modules['torch']

  def states(tokens: Any, layer: int) -> Any:
    """As `hidden`, of a model of Hugging Face."""
    # The embedding and each block: layers + 1 arrays [R, L, D].
    every = module(tokens, output_hidden_states=True).hidden_states
    if not -len(every) <= layer < len(every):
      raise core.InputError(f'layer {layer}: expected at most {len(every) - 1}')
    return every[layer]

  method = states if name == 'hidden_states' else getattr(module, name)

  def call(*arguments: Any) -> Any:
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
    # A user may go on training after the score: the mode is put back.
    training = module.training
    module.eval()
    try:
      with torch.no_grad():
        return method(*tensors)
    finally:
      module.train(training)

  return call


def _linen(module: Any, params: Any) -> Functional:
  """A module of Flax linen, its parameters from `params` or bound to it."""
  if params is None:
    module, params = module.unbind()
  # {'params': ..., 'batch_stats': ...}, or the parameters alone.
  has_kinds = isinstance(params, Mapping) and 'params' in params
  variables = dict(params) if has_kinds else {'params': params}

  def apply(name: str, weights: Any, *arguments: Any) -> Any:
    return module.apply(
      {**variables, 'params': weights}, *arguments, method=name
    )

  return Functional(module, variables['params'], apply)


def _nnx(module: Any, params: Any) -> Functional:
  """A copy of a module of Flax nnx in eval mode, with `params` if given."""
  nnx: Any = sys.modules['flax.nnx']
  # A copy: `eval` would change the user's module.
  twin = nnx.merge(*nnx.split(module))
  if params is not None:
    nnx.update(twin, params)
  twin.eval()
  graph, weights, others = nnx.split(twin, nnx.Param, ...)

  def apply(name: str, weights: Any, *arguments: Any) -> Any:
    return getattr(nnx.merge(graph, weights, others), name)(*arguments)

  return Functional(twin, weights, apply)


def _compiled(apply: Callable[..., Any], name: str) -> Callable[..., Any]:
  """A function of weights and arrays, compiled where its shapes are few."""
  jax: Any = sys.modules['jax']  # Flax imported it.
  if name == '__call__':
    return jax.jit(apply)
  if name in ('hidden', 'patched'):  # Of weights, tokens, layer, ...
    # The layer chooses the program: one is compiled for each.
    return jax.jit(apply, static_argnums=2)
  return apply


def with_untrained(reader: Any, fresh: Any) -> Any:
  """A reader whose probes have `fresh` as their control, where both can be
  probed; else the reader itself.
  """
  if not all(isinstance(x, core.HiddenStates) for x in (reader, fresh)):
    return reader
  return extended(reader, (), {'untrained': _untrained}, fresh=fresh)


def extended(
  reader: Any, bases: tuple[type, ...], methods: dict[str, Any], **fields: Any
) -> Any:
  """A copy of a reader that is also of other classes."""
  cls = type(reader)
  extended: Any = object.__new__(type(cls.__name__, (*bases, cls), methods))
  extended.__dict__.update(reader.__dict__, **fields)
  return extended


def _untrained(self: Any, seed: int) -> Any:
  """See core.HiddenStates.untrained."""
  del seed
  return self.fresh


EXPECTED = (
  'expected a function of tokens, or an object with some of __call__, hidden, '
  'patched, start and step, or answers'
)


def usable(thing: object) -> bool:
  """True for functions and objects that a predictor can be made of."""
  return callable(thing) or has(thing, 'start', 'step') or has(thing, 'answers')


def predictor(
  thing: Any,
  *,
  vocab_size: int,
  end: int,
  max_len: int,
  rows: int,
  label: str,
  outputs: Outputs | None = None,
) -> core.Predictor:
  """A user's object as a predictor, of the class that its methods allow.

  Args:
    thing: the object.
    vocab_size: V.
    end: id of the end token, or DEAD.
    max_len: longest sequence, in tokens.
    rows: batch size of every call for logits and activations.
    label: what errors call it.
    outputs: what sees its logits.
  """
  size: dict[str, Any] = dict(
    vocab_size=vocab_size, end=end, max_len=max_len, label=label
  )
  whole = {**size, 'rows': rows, 'outputs': outputs}
  hidden = has(thing, 'hidden')
  # The class that can do most: metrics ask by type what it can do.
  if hidden and callable(thing) and has(thing, 'patched'):
    return WithPatched(thing, **whole)
  if has(thing, 'start', 'step'):
    cached = CachedWithHidden if hidden else Cached
    return cached(thing, **whole)
  if callable(thing):
    reads = WithHidden if hidden else FromCallable
    return reads(thing, **whole)

  def accepts(prefixes: list[Tokens], suffixes: list[Tokens]) -> np.ndarray:
    with plugins.user_code(label, thing.answers):
      return np.asarray(thing.answers(prefixes, suffixes))

  return stateless.Accepting(accepts, **size)


class WithHidden(FromCallable, core.HiddenStates):
  """A user's callable whose activations can be probed."""

  def __init__(self, thing: Any, **fields: Any) -> None:
    """fields: of FromCallable."""
    super().__init__(thing, **fields)
    self._object = thing
    # Checks a layer when it is first read; set once the model has passed.
    self.check_layer: Callable[[int], None] | None = None
    self._checked_layers = {-1}

  def hidden(
    self, tokens: np.ndarray, lengths: np.ndarray, layer: int
  ) -> np.ndarray:
    """See core.HiddenStates; every call has `rows` rows, padded at the end."""
    if self.check_layer and layer not in self._checked_layers:
      self._checked_layers.add(layer)
      self.check_layer(layer)
    parts = []
    for num, shape, values in self._calls(
      self._object.hidden, layer, lengths, tokens
    ):
      if values.ndim != 3 or values.shape[:2] != shape:
        raise core.InputError(
          f'{self.label}: hidden gave {values.dtype} of shape {values.shape} '
          f'for tokens {shape}; expected floats [rows, length, width]'
        )
      parts.append(values[:num, : tokens.shape[1]])
    return np.concatenate(parts).astype(np.float32)

  def _calls(
    self, call: Callable, layer: int, lengths: np.ndarray, *arrays: np.ndarray
  ) -> Iterator[tuple[int, tuple[int, ...], np.ndarray]]:
    """Calls a method of the object on `rows` rows of arrays [N, L, ...] each.

    Yields:
      num: rows of a call that are not fill.
      shape: of its tokens, padded at the end.
      values: that it gave.
    """
    # One length for all rows: activations [N, L, D] of a call are one array.
    length = self.padded(arrays[0].shape[1])
    for rows in core.predictor.chunks(len(lengths), 1, self.rows):
      tokens, *more = (
        padded(np.asarray(x[rows]), lengths[rows], self.rows, length)
        for x in arrays
      )
      with plugins.user_code(self.label, call):
        values = as_array(call(tokens, layer, *more))
      yield len(lengths[rows]), tokens.shape, values


class WithPatched(WithHidden, core.HiddenStates):
  """A user's callable that goes on from activations; without its cache.

  Every call has `rows` rows, padded at the end.
  """

  def patched(
    self,
    tokens: np.ndarray,
    lengths: np.ndarray,
    layer: int,
    hidden: np.ndarray,
  ) -> np.ndarray:
    """See core.HiddenStates.patched."""
    # Of no rows at all there is still an array to join.
    parts = [np.zeros((0, tokens.shape[1], self.vocab_size), np.float32)]
    arrays = tokens, hidden
    for num, shape, logits in self._calls(
      self._object.patched, layer, lengths, *arrays
    ):
      expected = *shape, self.vocab_size
      if logits.shape != expected:
        raise core.InputError(
          f'{self.label}: patched gave logits of shape {logits.shape}; '
          f'expected {expected}'
        )
      parts.append(self.normal(logits)[:num, : tokens.shape[1]])
    return np.concatenate(parts)


class Cached(FromCallable):
  """A user's object that goes on from states."""

  def __init__(self, thing: Any, **fields: Any) -> None:
    """fields: of FromCallable."""
    # Without __call__, whole sequences are read through the cache.
    whole = thing if callable(thing) else self._stepwise
    super().__init__(whole, **fields)
    self._object = thing

  def _stepwise(self, tokens: np.ndarray) -> np.ndarray:
    """[R, L, V] logits of whole sequences, a step at a time."""
    states, first = self._object.start(
      tokens[:, :1], np.ones(len(tokens), np.int32)
    )
    logits = [as_array(first)]
    # tokens [R, L]: columns are the L - 1 steps after the first token.
    for column in tokens.T[1:]:
      states, after = self._object.step(states, column)
      logits.append(as_array(after))
    return np.stack(logits, axis=1)

  def started(
    self, tokens: np.ndarray, lengths: np.ndarray
  ) -> tuple[list[State], np.ndarray]:
    """States [R] and log-probabilities [R, V] after prefixes."""
    return self._asked(self._object.start, len(lengths), tokens, lengths)

  def stepped(
    self, states: list[State], tokens: np.ndarray
  ) -> tuple[list[State], np.ndarray]:
    """States [R] and log-probabilities [R, V] after one more token each."""
    return self._asked(self._object.step, len(tokens), states, tokens)

  def _asked(
    self, call: Callable, num: int, *arguments: Any
  ) -> tuple[list[State], np.ndarray]:
    with plugins.user_code(self.label, call):
      states, logits = call(*arguments)
      states, log_probs = list(states), as_array(logits)
    if len(states) != num or log_probs.shape != (num, self.vocab_size):
      raise core.InputError(
        f'{self.label}: {call.__name__} gave {len(states)} states and logits '
        f'of shape {log_probs.shape} for {num} rows; expected {num} states and '
        f'{(num, self.vocab_size)}'
      )
    return states, self.normal(log_probs)

  def session(
    self, prefixes: np.ndarray, lengths: np.ndarray, num: int
  ) -> core.Session:
    """See core.Predictor."""
    return CacheSession(self, prefixes, lengths, num)


class CachedWithHidden(Cached, WithHidden):
  """A user's object with both."""


class CacheSession(core.Session):
  """B x M continuations, each with a state of the user's."""

  def __init__(
    self, predictor: Cached, prefixes: np.ndarray, lengths: np.ndarray, num: int
  ) -> None:
    self._predictor = predictor
    shape = len(lengths), num
    # [B, M] objects of the user's; continuations share them until they part.
    self._states = np.empty(shape, object)
    self._log_probs = np.zeros((*shape, predictor.vocab_size), np.float32)
    self.restart(np.arange(len(lengths)), prefixes, lengths)

  def restart(
    self, rows: np.ndarray, prefixes: np.ndarray, lengths: np.ndarray
  ) -> None:
    """See core.Session; InputError for an empty prefix."""
    if not len(rows):
      return
    lengths = np.asarray(lengths, np.int32)
    core.predictor.check_prefixes(lengths)
    tokens = padded(prefixes, lengths, len(lengths), lengths.max())
    states, log_probs = self._predictor.started(tokens, lengths)
    for row, state in zip(rows, states, strict=True):
      for branch in range(self._states.shape[1]):
        self._states[row, branch] = state
    self._log_probs[rows] = log_probs[:, None]

  def log_probs(self) -> np.ndarray:
    """See core.Session."""
    return self._log_probs

  def advance(
    self, tokens: np.ndarray, parents: np.ndarray | None = None
  ) -> None:
    """See core.Session."""
    if parents is not None:
      # A state may be shared: a step leaves it as it is, as is checked.
      self._states = np.take_along_axis(self._states, parents, 1)
      self._log_probs = np.take_along_axis(
        self._log_probs, parents[..., None], 1
      )
    tokens = np.asarray(tokens)
    at = np.nonzero(tokens != core.DEAD)
    if not at[0].size:
      return
    states, log_probs = self._predictor.stepped(
      list(self._states[at]), tokens[at].astype(np.int32)
    )
    # Callers may hold the last array.
    self._log_probs = self._log_probs.copy()
    self._log_probs[at] = log_probs
    for row, branch, state in zip(*at, states, strict=True):
      self._states[row, branch] = state
