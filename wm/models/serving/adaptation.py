"""Fine-tunes networks on small tasks: a new head, and all other weights.

`Adapter.adapt_to` tunes a network's weights on data sets of labelled tokens and
answers for other tokens (see `wm.core.adapting`). Learners other than the
networks of wm are in `few_shot`.

Many data sets are tuned in parallel, each with its own weights; one program
tunes a chunk of them. As published (Vafa et al. 2025): full batches, or those
of a stream; AdamW with a constant rate. A chunk has C data sets of n rows, cut
after the last labelled or queried place:

  weights [C, ...]   tokens [C, n, L]
    set 0  ########    row 0..n-1  ####....   rows by length, in GROUPS groups
    set 1  ########    row 0..n-1  #####...   of one length each

A program of small products leaves most cores of a CPU idle, and JAX runs
without Python's lock. So programs run in parallel on threads:

  thread 0   first | rest . . . . . | first | rest
  thread 1           first | rest . . . . . | first

Networks from elsewhere are functions of weights and tokens; `foreign` adds a
new head to them.

`first` is the part of a call that may compile. One call at a time runs this
part, so that no two threads compile the same program.
"""

from __future__ import annotations

import concurrent.futures
import contextvars
import dataclasses
import functools
import itertools
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from wm import core
from wm.core import adapting, basics, registry
from wm.models.nn import layers, network
from wm.runtime import compute, progress

Given = TypeVar('Given')
Result = TypeVar('Result')

MOST = 8  # Parallel programs at most: each has its own weights in memory.


def max_parallel(device: jax.Device) -> int:
  """Programs that run in parallel on a device: one for each thread of a CPU.

  The configured number of threads counts, not that of cores: the number decides
  the composition of a program, and so the last bits of its results.
  """
  return min(compute.num_threads(), MOST) if device.platform == 'cpu' else 1


class ParallelCalls:
  """Runs calls in parallel on threads.

  Attributes:
    first: lock that a call holds while it may compile.
  """

  def __init__(self, num: int) -> None:
    """num: number of parallel calls."""
    self.first = threading.Lock()
    self._num, self._stopped = num, threading.Event()

  def check(self) -> None:
    """Raises CancelledError when the results are no longer awaited."""
    if self._stopped.is_set():
      raise concurrent.futures.CancelledError

  def results(
    self, call: Callable[[Given], Result], arguments: Sequence[Given]
  ) -> Iterator[Result]:
    """Yields results in order; an error or an early end stops the others."""
    # Without threads, each result is computed when it is asked for.
    if self._num == 1 or len(arguments) == 1:
      yield from map(call, arguments)
      return
    pool = concurrent.futures.ThreadPoolExecutor(self._num, 'adaptation')
    futures = [
      # Threads see the caller's progress and folder of partial results.
      pool.submit(contextvars.copy_context().run, call, argument)
      for argument in arguments
    ]
    try:
      for future in futures:
        yield future.result()
    finally:
      # A running call ends at its next `check`; waiting calls do not begin.
      self._stopped.set()
      pool.shutdown(cancel_futures=True)


# Groups of a data set's rows; all rows of a group are cut to one length.
GROUPS, ROUND = 4, 8


class LabelRows(NamedTuple):
  """Rows of C data sets, all of one length.

  Attributes:
    tokens: [C, n, L] int32.
    places: [C, n, P] int32, 0 where there is no label.
    labels: [C, n, P, H] int32 or [C, n, P, d] float32.
    weight: [C, n, P] float32 weight of a label in the mean; 0 without a label.
  """

  tokens: Any
  places: Any
  labels: Any
  weight: Any


class RowGroups(NamedTuple):
  """Rows of D data sets in groups, each cut to one length.

  Attributes:
    sets: the data sets; `taken` copies their rows.
    number: dtype of labels.
    orders: for each group, row indices [D, n] into each data set.
    lengths: tokens per row of each group.
  """

  sets: adapting.FewShotTasks
  number: np.dtype
  orders: list[np.ndarray]
  lengths: list[int]

  @property
  def size(self) -> int:
    """Number of tokens of one data set."""
    groups = zip(self.orders, self.lengths, strict=True)
    return sum(order.shape[1] * length for order, length in groups)

  def taken(self, chosen: np.ndarray) -> list[LabelRows]:
    """The groups of the chosen data sets [C]."""
    places = self.sets.places[chosen]
    # Weights of a data set add up to 1: all data sets count equally.
    used = (places != core.DEAD).astype(np.float32)
    weight = used / np.maximum(used.sum((1, 2), keepdims=True), 1)
    groups = []
    for order, length in zip(self.orders, self.lengths, strict=True):
      # row [C, n]: the rows of this group in each chosen data set.
      row = order[chosen]
      shared, copied = (
        (chosen[:, None], row),
        (np.arange(len(row))[:, None], row),
      )
      arrays = (
        self.sets.tokens[shared][..., :length],
        np.maximum(places[copied], 0),
        self.sets.labels[shared].astype(self.number),
        weight[copied],
      )
      groups.append(LabelRows(*map(jnp.asarray, arrays)))
    return groups


def group_rows(
  sets: adapting.FewShotTasks, number: str, least: Sequence[int] = ()
) -> RowGroups:
  """Groups rows by their last place; a group is cut after its longest row.

  number: dtype of labels. least: minimum lengths of the groups.
  """
  # [D, n]: tokens after a row's last place do not affect its answers.
  last = sets.places.max(-1)
  size, most = sets.tokens.shape[1:]
  # Short rows first: a group of them is cut shorter than the others.
  order = np.argsort(last, axis=1, kind='stable')
  # Few rows form one group: each group is one more shape to compile.
  parts = np.array_split(order, GROUPS if size >= 4 * GROUPS else 1, axis=1)
  orders = [rows for rows in parts if rows.size]
  lengths = []
  for rows in orders:
    # Rounded up to a multiple of ROUND: few lengths, hence few programs.
    longest = int(np.take_along_axis(last, rows, 1).max()) + 1
    lengths.append(min(max(-(-longest // ROUND) * ROUND, 1), most))
  if least:
    lengths = [*map(max, lengths, least)]
  return RowGroups(sets, np.dtype(number), orders, lengths)


def question_rows(asked: adapting.QueryPoints) -> RowGroups:
  """Rows without labels."""
  # No label at any place: rows with H = 0.
  none = np.zeros((*asked.places.shape, 0), np.int32)
  return group_rows(adapting.FewShotTasks(*asked, none), 'int32')


class TrainingRows(NamedTuple):
  """Rows that D data sets are tuned on, step by step.

  Attributes:
    first: rows of the first step.
    kind: of labels.
    spec: the network that reads them.
    stream: source of later steps' rows; None repeats the first rows.
  """

  first: RowGroups
  kind: adapting.LabelSpec
  spec: network.NetworkSpec
  stream: adapting.TaskStream | None

  @classmethod
  def of(
    cls,
    spec: network.NetworkSpec,
    sets: adapting.FewShotTasks | adapting.TaskStream,
    kind: adapting.LabelSpec,
  ) -> TrainingRows:
    """Raises InputError for sequences that the network cannot read."""
    number = 'int32' if isinstance(kind, adapting.Classes) else 'float32'
    stream = sets if isinstance(sets, adapting.TaskStream) else None
    batch = sets.batch(0, kind)
    check_rows(spec, batch.tokens, batch.places)
    return cls(group_rows(batch, number), kind, spec, stream)

  def steps(self, chosen: np.ndarray) -> Iterator[list[LabelRows]]:
    """Yields the groups of the chosen data sets for each step, endlessly.

    Groups of a stream never become shorter, so that few lengths are compiled.
    Raises InputError for a sequence that the network cannot read.
    """
    latest = self.first
    groups = latest.taken(chosen)
    # Without a stream the same groups come again at every step.
    for step in itertools.count(1):
      yield groups
      if self.stream is not None:
        sets = self.stream.batch(step, self.kind)
        check_rows(self.spec, sets.tokens, sets.places)
        latest = group_rows(sets, latest.number.name, latest.lengths)
        groups = latest.taken(chosen)


def check_rows(
  spec: network.NetworkSpec, tokens: np.ndarray, places: np.ndarray
) -> None:
  """Raises InputError unless the network can read rows up to the last place."""
  # Tokens after the last place are cut off and not checked.
  used = np.arange(tokens.shape[2]) <= places.max(-1, initial=0)[..., None]
  wrong = tokens[used & ((tokens < 0) | (tokens >= spec.vocab_size))]
  if wrong.size:
    raise core.InputError(
      f'token {wrong[0]}: the model has ids 0 to {spec.vocab_size - 1}'
    )
  if int(places.max(initial=0)) >= spec.max_len:
    raise core.InputError(
      f'place {int(places.max())}: the model takes up to {spec.max_len} tokens'
    )


BETA1, BETA2, DECAY, CLIP = 0.9, 0.95, 0.1, 1.0

Arrays = dict[tuple[Any, ...], jax.Array]


class TunedTask(NamedTuple):
  """Static arguments of compiled functions.

  Attributes:
    spec: the network with the new head.
    kind: kind of labels.
  """

  spec: network.NetworkSpec
  kind: adapting.LabelSpec


def of_head(path: tuple[Any, ...]) -> bool:
  """True for parameters of the head, which is replaced."""
  # The bias of a tied head is outside `head`, and is replaced too.
  return 'head' in path or 'tied_bias' in path


def flat(params: nnx.State) -> Arrays:
  """Arrays of all parameters by their paths."""
  return {path: leaf[...] for path, leaf in nnx.to_flat_state(params)}


def _outputs(
  task: TunedTask, params: Arrays, tokens_NL: jax.Array, places_NP: jax.Array
) -> jax.Array:
  """[N, P, H, k] scores or [N, P, d], float32."""
  spec, kind = task.spec, task.kind
  # Puts the arrays into the tree of the network with the new head.
  leaves = [
    (path, leaf.replace(params[path]))
    for path, leaf in nnx.to_flat_state(spec.abstract)
  ]
  net = nnx.merge(spec.graph, nnx.from_flat_state(leaves))
  outputs_NPO = net.at(tokens_NL, places_NP)
  if isinstance(kind, adapting.Classes):
    return outputs_NPO.reshape(*outputs_NPO.shape[:2], kind.heads, kind.k)
  return outputs_NPO


def _loss(
  task: TunedTask, params: Arrays, groups: list[LabelRows]
) -> jax.Array:
  """Mean loss over the labels of one data set: nats, or squared error."""
  # The weights of all groups add up to 1, so their sum is the mean.
  total = jnp.zeros(())
  for rows in groups:
    outputs = _outputs(task, params, rows.tokens, rows.places)
    if isinstance(task.kind, adapting.Classes):
      each = optax.softmax_cross_entropy_with_integer_labels(
        outputs, rows.labels
      )
    else:
      each = (outputs - rows.labels) ** 2
    total += (each.mean(-1) * rows.weight).sum()
  return total


def _each(call: Callable[..., Any], *trees: Any) -> Any:
  """Results of a call for each of C data sets, from trees [C, ...]."""
  if len(jax.tree.leaves(trees)[0]) > 1:
    return jax.vmap(call)(*trees)
  # With an extra dimension of size 1, Mamba takes up to six times as long on a
  # CPU.
  results = call(*jax.tree.map(lambda leaf: leaf[0], trees))
  return jax.tree.map(lambda leaf: leaf[None], results)


def _optimizer() -> optax.GradientTransformation:
  """Updates before scaling by the learning rate.

  Weight decay applies to all parameters but biases and norms. As in the
  published program it includes embeddings, unlike in `wm.training`.
  """

  def mask(params: Arrays) -> dict[tuple[Any, ...], bool]:
    # Names decide too, since biases of several heads have several dimensions.
    return {
      path: leaf.ndim > 1 and not re.search('bias|scale', str(path[-1]))
      for path, leaf in params.items()
    }

  return optax.chain(
    optax.clip_by_global_norm(CLIP),
    optax.scale_by_adam(b1=BETA1, b2=BETA2),
    optax.add_decayed_weights(DECAY, mask),
  )


@functools.partial(jax.jit, static_argnums=0)
def begin(
  task: TunedTask, body: Arrays, seeds_C: jax.Array
) -> tuple[Arrays, Any]:
  """Weights [C, ...] and optimizer states of C data sets."""

  def fresh(seed: jax.Array) -> Arrays:
    """A new head, and the weights of the body."""
    # A whole new network is built for its head; XLA removes the rest.
    built = task.spec.build(nnx.Rngs(jax.random.key(seed)))
    params = flat(nnx.split(built)[1])
    return {
      path: leaf if of_head(path) else body[path]
      for path, leaf in params.items()
    }

  weights = jax.vmap(fresh)(seeds_C)
  return weights, jax.vmap(_optimizer().init)(weights)


@functools.partial(jax.jit, static_argnums=0, donate_argnums=(1, 2))
def take_steps(
  task: TunedTask,
  weights: Arrays,
  state: Any,
  groups: list[LabelRows],
  num: jax.Array,
  rate: jax.Array,
) -> tuple[Arrays, Any]:
  """Weights and optimizer states after `num` steps."""
  optimizer = _optimizer()

  def one_step(
    weights: Arrays, state: Any, groups: list[LabelRows]
  ) -> tuple[Arrays, Any]:
    """Weights [...] and optimizer state of one data set after a step."""

    def loss(weights: Arrays) -> jax.Array:
      return _loss(task, weights, groups)

    updates, state = optimizer.update(jax.grad(loss)(weights), state, weights)
    # The rate is a traced argument: one program serves all rates.
    updates = jax.tree.map(lambda leaf: -rate * leaf, updates)
    return optax.apply_updates(weights, updates), state

  def of_one(
    weights: Arrays, state: Any, groups: list[LabelRows]
  ) -> tuple[Arrays, Any]:
    """Weights and optimizer state of one data set after all steps."""

    def body(_: jax.Array, carry: tuple[Arrays, Any]) -> tuple[Arrays, Any]:
      return one_step(*carry, groups)

    # The number of steps is a traced argument: one program for any number.
    return jax.lax.fori_loop(0, num, body, (weights, state))

  return _each(of_one, weights, state, groups)


@functools.partial(jax.jit, static_argnums=0)
def answer_rows(task: TunedTask, weights: Arrays, rows: LabelRows) -> jax.Array:
  """[C, n, P, H, k] or [C, n, P, d]."""

  def of_one(weights: Arrays, rows: LabelRows) -> jax.Array:
    """[n, P, H, k] or [n, P, d], of one data set."""
    return _outputs(task, weights, rows.tokens, rows.places)

  return _each(of_one, weights, rows)


PIECE = 10  # Steps per call; Ctrl-C is handled between calls.
# Limits: bytes of weights and moments of all parallel chunks, and tokens of one
# step of a chunk. On a CPU, batched products of many sets run on one core.
CHUNK_BYTES = 1 << 30
CHUNK_TOKENS = {'cpu': 1 << 11}
ELSEWHERE = 1 << 15


def chunk_size(
  spec: network.NetworkSpec, num: int, tokens: int, device: jax.Device
) -> int:
  """Number of data sets per program on a device.

  num: data sets in all; tokens: of each. Programs have equal sizes and run in
  full rounds, so that none waits for a larger one.
  """
  # Four float32 copies for each set: weights, gradient, Adam's two moments.
  copies = 4 * 4 * spec.num_params
  side = max_parallel(device)
  most = CHUNK_TOKENS.get(device.platform, ELSEWHERE) // max(tokens, 1)
  size = max(min(most, CHUNK_BYTES // copies // side), 1)
  # Rounds of `side` programs; sizes are then equalised within a round.
  rounds = -(-num // (size * side))
  return -(-num // (rounds * side))


@dataclasses.dataclass(frozen=True, eq=False)
class Adapter(core.Adaptable):
  """A network with weights that is adapted to data sets.

  Attributes:
    spec: of the network.
    params: its weights.
  """

  spec: network.NetworkSpec
  params: nnx.State

  def adapt_to(self, data: adapting.Adaptation) -> np.ndarray:
    """See core.Adaptable.

    Raises:
      InputError: see core.Adaptable, or the network's head cannot be replaced.
    """
    sets, asked, kind, steps, seed, tuning = data
    rows = TrainingRows.of(self.spec, sets, kind)
    check_rows(self.spec, asked.tokens, asked.places)
    shaped = dataclasses.replace(self.spec, outputs=kind.outputs)
    task = TunedTask(shaped, kind)
    body = {
      path: leaf
      for path, leaf in flat(self.params).items()
      if not of_head(path)
    }
    _check_head(task, body)
    # Programs run on the device of the weights.
    devices = sorted(next(iter(body.values())).devices(), key=lambda d: d.id)
    device = devices[0]
    num = len(asked.tokens)
    size = min(chunk_size(shaped, num, rows.first.size, device), num)
    # Programs that span several devices would wait for one another: run one
    # at a time.
    calls = ParallelCalls(1 if len(devices) > 1 else max_parallel(device))
    run = _AdaptRun(
      task, body, rows, question_rows(asked), steps, seed, tuning, device, calls
    )
    # The last chunk is padded, so that one program serves all chunks.
    parts = [*core.predictor.chunks(num, 1, size)]
    chunks = [np.resize(np.arange(num)[part], size) for part in parts]
    results = []
    for part, result in zip(
      parts, calls.results(run.chunk, chunks), strict=True
    ):
      results.append(result[:, : part.stop - part.start])
      progress.report(part.stop, num)
    return np.concatenate(results, axis=1)


class _AdaptRun(NamedTuple):
  """Arguments of all chunks of data sets."""

  task: TunedTask
  body: Arrays
  data: TrainingRows
  asked: RowGroups
  steps: tuple[int, ...]
  seed: int
  tuning: adapting.FineTuneConfig
  device: jax.Device
  calls: ParallelCalls

  def chunk(self, rows: np.ndarray) -> np.ndarray:
    """Outputs [S, C, M, ...]."""
    # Seeds depend on the data set's number, not on its place in a chunk.
    words = np.zeros(len(rows), np.int64) if self.tuning.one_head else rows
    # 32 of 64 bits: JAX's keys take a uint32.
    seeds = (basics.hash64(self.seed, words) >> np.uint64(32)).astype(np.uint32)
    with jax.default_device(self.device):  # The default is per thread.
      return self._tuned(rows, jnp.asarray(seeds))

  def _tuned(self, rows: np.ndarray, seeds_C: jax.Array) -> np.ndarray:
    """As `chunk`."""
    supply, asked = self.data.steps(rows), self.asked.taken(rows)
    rate = np.float32(self.tuning.rate)
    # The rows of a stream change at each step: then a call is one step.
    most = PIECE if self.data.stream is None else 1
    advance = functools.partial(take_steps, self.task)
    with self.calls.first:
      weights, state = begin(self.task, self.body, seeds_C)
      weights, state = advance(weights, state, next(supply), 1, rate)
      jax.block_until_ready(state)
    # The first step is done: its program was compiled while `first` was held.
    outputs, done = [], 1
    for goal in self.steps:
      while done < goal:
        self.calls.check()
        num = min(most, goal - done)
        weights, state = advance(weights, state, next(supply), num, rate)
        done += num
        jax.block_until_ready(state)
      with self.calls.first:
        # answers: for each group [C, n, P, ...], in the order of its rows
        answers = [answer_rows(self.task, weights, part) for part in asked]
      outputs.append(self._restored(rows, [np.asarray(x) for x in answers]))
    return np.stack(outputs)

  def _restored(
    self, rows: np.ndarray, answers: list[np.ndarray]
  ) -> np.ndarray:
    """[C, M, ...]: the answers of all groups, in the order of the queries."""
    num = sum(order.shape[1] for order in self.asked.orders)
    ordered = np.zeros((len(rows), num, *answers[0].shape[2:]), np.float32)
    # order [C, n]: index of each row among the M queried rows.
    sets = np.arange(len(rows))[:, None]
    for order, values in zip(self.asked.orders, answers, strict=True):
      ordered[sets, order[rows]] = values
    return ordered


def _check_head(task: TunedTask, body: Arrays) -> None:
  """Raises InputError if a new head is missing or changes other parameters."""
  spec = task.spec
  # Shapes of the network with the new head, by tracing only.
  shapes = {path: leaf.shape for path, leaf in nnx.to_flat_state(spec.abstract)}
  logits = jax.eval_shape(
    lambda params: nnx.merge(spec.graph, params)(jnp.zeros((1, 1), jnp.int32)),
    spec.abstract,
  )
  if not any(map(of_head, shapes)):
    wrong = "no parameter has 'head' in its path"
  elif logits.shape[-1] != task.kind.outputs:
    num = logits.shape[-1]
    wrong = f'with outputs={task.kind.outputs} it gives {num} for a token'
  else:
    old = {path: leaf.shape for path, leaf in body.items()}
    new = {path: x for path, x in shapes.items() if not of_head(path)}
    changed = sorted({str(path) for path, _ in old.items() ^ new.items()})
    if not changed:
      return
    wrong = f'with it {changed[0]} changes'
  raise core.InputError(
    f'the head of {registry.spec(spec.model)} cannot be replaced: {wrong}'
  )


@dataclasses.dataclass(frozen=True, eq=False)
class Foreign:
  """Stands in for a `core.Trainable` that builds a function of weights.

  Attributes:
    apply: (leaves of weights, tokens [N, L]) -> features [N, L, D].
    shapes: shapes of the leaves.
    width: D.
  """

  name: ClassVar[str] = 'module'

  apply: Callable[[list[jax.Array], jax.Array], jax.Array]
  shapes: tuple[jax.ShapeDtypeStruct, ...]
  width: int

  def build(
    self, vocab_size: int, max_len: int, rngs: nnx.Rngs, outputs: int
  ) -> HeadedNetwork:
    """See core.Trainable; the weights are 0, the head is new."""
    del vocab_size, max_len
    return HeadedNetwork(self, rngs, outputs or 1)


class HeadedNetwork(nnx.Module):
  """A function of weights with a linear head."""

  def __init__(self, model: Foreign, rngs: nnx.Rngs, outputs: int):
    self.model = model
    self.body = nnx.List(
      [nnx.Param(jnp.zeros(x.shape, x.dtype)) for x in model.shapes]
    )
    self.head = layers.Linear((model.width,), (outputs,), rngs)

  def features(self, tokens_NL: jax.Array) -> jax.Array:
    """[N, L, D] float32."""
    leaves = [x[...] for x in self.body]
    return self.model.apply(leaves, tokens_NL).astype(jnp.float32)

  def __call__(self, tokens_NL: jax.Array) -> jax.Array:
    """[N, L, O] outputs of the head."""
    return self.head(self.features(tokens_NL))

  def at(self, tokens_NL: jax.Array, places_NP: jax.Array) -> jax.Array:
    """[N, P, O] at some places."""
    return self.head(layers.taken(self.features(tokens_NL), places_NP))


def foreign(
  apply: Callable[[Any, jax.Array], jax.Array],
  weights: Any,
  vocab_size: int,
  max_len: int,
) -> Adapter:
  """Adapts a function of weights and tokens [N, L] -> features [N, L, D].

  weights: tree of arrays of floats.
  """
  leaves, tree = jax.tree.flatten(weights)
  leaves = [*map(jnp.asarray, leaves)]

  def of_leaves(leaves: list[jax.Array], tokens_NL: jax.Array) -> jax.Array:
    return apply(jax.tree.unflatten(tree, leaves), tokens_NL)

  tokens = jax.ShapeDtypeStruct((1, min(2 * ROUND, max_len)), 'int32')
  width = jax.eval_shape(of_leaves, leaves, tokens).shape[-1]
  shapes = tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in leaves)
  model = cast(core.Trainable, Foreign(of_leaves, shapes, width))
  spec = network.NetworkSpec(model, vocab_size, max_len)
  net = cast(HeadedNetwork, spec.build(nnx.Rngs(0)))
  for param, value in zip(net.body, leaves, strict=True):
    param[...] = value
  return Adapter(spec, nnx.split(net)[1])
