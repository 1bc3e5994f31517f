"""Networks that are adapted: a new head, and by default all other weights.

Many data sets are tuned side by side, each with weights of its own:

  weights [C, ...]   tokens [C, n, P]        C data sets of a chunk
    set 0  ########    row 0..n-1  ####....   rows by length, in GROUPS groups,
    set 1  ########    row 0..n-1  #####...   each cut behind its last place

Full batches, or those of a stream, as published (Vafa et al. 2025): AdamW,
constant rate. Chunks run side by side on the cores of a CPU.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from wm import core
from wm.core import registry
from wm.models.nn import layers, network
from wm.models.serving import abreast, adapted_rows
from wm.runtime import progress, unfinished

# Steps of one call, so that Ctrl-C is heard between them.
PIECE = 10
# Most bytes of weights and moments of all chunks at a time, and tokens of one
# step of a chunk. Products of many sets at once run on one core of a CPU.
CHUNK_BYTES = 1 << 30
CHUNK_TOKENS = {'cpu': 1 << 12}
ELSEWHERE = 1 << 15
BETA1, BETA2, DECAY, CLIP = 0.9, 0.95, 0.1, 1.0

Arrays = dict[tuple[Any, ...], jax.Array]


class _Task(NamedTuple):
  """What is static in compiled functions.

  Attributes:
    spec: the network with the new head.
    kind: what labels are.
    part: 'all' or 'head'.
  """

  spec: network.NetworkSpec
  kind: core.Kind
  part: str

  def tuned(self, path: tuple[Any, ...]) -> bool:
    """Does this parameter move?"""
    return self.part == 'all' or _of_head(path)


def _of_head(path: tuple[Any, ...]) -> bool:
  # A new head also takes the place of the bias of logits that are tied.
  return 'head' in path or 'tied_bias' in path


def _flat(params: nnx.State) -> Arrays:
  return {path: leaf[...] for path, leaf in nnx.to_flat_state(params)}


def _outputs(
  task: _Task, params: Arrays, tokens_NL: jax.Array, places_NP: jax.Array
) -> jax.Array:
  """[N, P, H, k] scores or [N, P, d], float32."""
  spec, kind = task.spec, task.kind
  flat = [
    (path, leaf.replace(params[path]))
    for path, leaf in nnx.to_flat_state(spec.abstract)
  ]
  net = nnx.merge(spec.graph, nnx.from_flat_state(flat))
  found_NPO = jnp.take_along_axis(net(tokens_NL), places_NP[..., None], axis=1)
  if isinstance(kind, core.Classes):
    return found_NPO.reshape(*found_NPO.shape[:2], kind.heads, kind.k)
  return found_NPO


def _loss(
  task: _Task, params: Arrays, groups: list[adapted_rows.Rows]
) -> jax.Array:
  """Mean over labels of one data set: nats, or squared error."""
  total = jnp.zeros(())
  for rows in groups:
    found = _outputs(task, params, rows.tokens, rows.places)
    if isinstance(task.kind, core.Classes):
      each = optax.softmax_cross_entropy_with_integer_labels(found, rows.labels)
    else:
      each = (found - rows.labels) ** 2
    total += (each.mean(-1) * rows.weight).sum()
  return total


def _optimizer(task: _Task) -> optax.GradientTransformation:
  """Updates before the learning rate; matrices alone decay."""

  def mask(params: Arrays) -> dict[tuple[Any, ...], bool]:
    return {path: layers.decays(path) for path in params}

  return optax.chain(
    optax.clip_by_global_norm(CLIP),
    optax.scale_by_adam(b1=BETA1, b2=BETA2),
    optax.add_decayed_weights(DECAY, mask),
  )


@functools.partial(jax.jit, static_argnums=0)
def _begin(
  task: _Task, body: Arrays, seeds_C: jax.Array
) -> tuple[Arrays, Arrays, Any]:
  """Weights that move [C, ...], those that do not, and optimizer states."""

  def fresh(seed: jax.Array) -> Arrays:
    built = task.spec.build(nnx.Rngs(jax.random.key(seed)))
    made = _flat(nnx.split(built)[1])
    return {
      path: leaf if _of_head(path) else body[path]
      for path, leaf in made.items()
      if task.tuned(path)
    }

  moving = jax.vmap(fresh)(seeds_C)
  still = {path: leaf for path, leaf in body.items() if not task.tuned(path)}
  return moving, still, jax.vmap(_optimizer(task).init)(moving)


@functools.partial(jax.jit, static_argnums=0, donate_argnums=(2, 3))
def _advance(
  task: _Task,
  still: Arrays,
  moving: Arrays,
  state: Any,
  groups: list[adapted_rows.Rows],
  num: jax.Array,
  rate: jax.Array,
) -> tuple[Arrays, Any]:
  """Weights and optimizer states after `num` steps."""
  optimizer = _optimizer(task)

  def one_step(
    moving: Arrays, state: Any, groups: list[adapted_rows.Rows]
  ) -> tuple[Arrays, Any]:
    """Of one data set: weights [...] and optimizer state after a step."""

    def loss(moving: Arrays) -> jax.Array:
      return _loss(task, {**still, **moving}, groups)

    updates, state = optimizer.update(jax.grad(loss)(moving), state, moving)
    updates = jax.tree.map(lambda leaf: -rate * leaf, updates)
    return optax.apply_updates(moving, updates), state

  def body(_: jax.Array, carry: tuple[Arrays, Any]) -> tuple[Arrays, Any]:
    return jax.vmap(one_step)(*carry, groups)

  return jax.lax.fori_loop(0, num, body, (moving, state))


@functools.partial(jax.jit, static_argnums=0)
def _answer(
  task: _Task, still: Arrays, moving: Arrays, rows: adapted_rows.Rows
) -> jax.Array:
  """[C, n, P, H, k] or [C, n, P, d]."""

  def of_one(moving: Arrays, rows: adapted_rows.Rows) -> jax.Array:
    """[n, P, H, k] or [n, P, d], of one data set."""
    return _outputs(task, {**still, **moving}, rows.tokens, rows.places)

  return jax.vmap(of_one)(moving, rows)


@functools.partial(jax.jit, static_argnums=0)
def _losses(
  task: _Task, still: Arrays, moving: Arrays, groups: list[adapted_rows.Rows]
) -> jax.Array:
  """[C] mean loss of each data set."""

  def of_one(moving: Arrays, groups: list[adapted_rows.Rows]) -> jax.Array:
    """[] mean loss of one data set."""
    return _loss(task, {**still, **moving}, groups)

  return jax.vmap(of_one)(moving, groups)


def chunk_size(
  spec: network.NetworkSpec, part: str, tokens: int, device: jax.Device
) -> int:
  """Data sets of so many tokens that are tuned as one program on a device."""
  copies = 4 * 4 * spec.num_params if part == 'all' else 1
  room = CHUNK_BYTES // copies // abreast.at_once(device)
  most = CHUNK_TOKENS.get(device.platform, ELSEWHERE)
  return max(min(most // max(tokens, 1), room), 1)


def adapt(
  spec: network.NetworkSpec,
  params: nnx.State,
  sets: core.Sets | core.Stream,
  asked: core.Asked,
  kind: core.Kind,
  steps: tuple[int, ...],
  seed: int,
  tuning: core.Tuning,
  chunk: int = 0,
  at_once: int = 0,
) -> core.Adapted:
  """See core.Adaptable; of a network with these weights.

  chunk: data sets of one program; 0 is as many as suit. It changes no more
    than rounding.
  at_once: programs at a time; 0 is as many as suit. It changes nothing.

  Raises:
    InputError: see core.Adaptable, or the network's head cannot be replaced.
  """
  core.check_adapting(sets, asked, kind, steps, tuning)
  data = adapted_rows.Supply.of(spec, sets, kind)
  held = None
  if tuning.held is not None:
    held = adapted_rows.Supply.of(spec, tuning.held, kind).first
  adapted_rows.check(spec, asked.tokens, asked.places)
  questions = adapted_rows.questions(asked)
  shaped = dataclasses.replace(spec, outputs=kind.outputs)
  task = _Task(shaped, kind, tuning.part)
  body = {
    path: leaf for path, leaf in _flat(params).items() if not _of_head(path)
  }
  _check_head(task, body)
  (device,) = next(iter(body.values())).devices()
  size = chunk or chunk_size(shaped, tuning.part, data.first.size, device)
  side = abreast.Abreast(at_once or abreast.at_once(device))
  cuts = data, questions, held
  run = _Run(task, body, *cuts, steps, seed, tuning, size, device, side)
  return _all(run, len(asked.tokens))


def _all(run: _Run, num: int) -> core.Adapted:
  """All chunks of D data sets at all rates."""
  rates = run.tuning.rates
  losses = np.zeros((len(rates), len(run.steps), num))
  outputs: np.ndarray | None = None
  done, mark = 0, run.mark() if unfinished.active() else ''
  chunks = [*core.chunks(num, 1, run.size)]
  given = [(r, rows) for r in range(len(rates)) for rows in chunks]

  def made(one: tuple[int, slice]) -> tuple[np.ndarray, ...]:
    """Outputs and losses of a chunk."""
    rate, rows = rates[one[0]], one[1]
    # The last chunk is filled up: one program serves all.
    chosen = np.resize(np.arange(rows.start, rows.stop), min(run.size, num))
    name = unfinished.digest([mark, chosen, float(rate)]) if mark else ''
    return unfinished.part(name, functools.partial(run.chunk, chosen, rate))

  results = run.side.results(made, given)
  for (r, rows), (found, loss) in zip(given, results, strict=True):
    if outputs is None:
      outputs = np.zeros((*losses.shape, *found.shape[2:]), np.float32)
    kept = rows.stop - rows.start
    outputs[r, :, rows], losses[r, :, rows] = found[:, :kept], loss[:, :kept]
    done += kept
    progress.report(done, num * len(rates))
  assert outputs is not None  # There is a data set and a rate.
  return _chosen(outputs, losses, run.tuning)


class _Run(NamedTuple):
  """All that a chunk of data sets needs."""

  task: _Task
  body: Arrays
  data: adapted_rows.Supply
  asked: adapted_rows.Cut
  held: adapted_rows.Cut | None
  steps: tuple[int, ...]
  seed: int
  tuning: core.Tuning
  size: int
  device: jax.Device
  side: abreast.Abreast

  def mark(self) -> str:
    """Hash of all that chunks depend on, but for their data sets and rate."""
    # Of a stream, its first step stands for all.
    cuts = [x for x in (self.data.first, self.asked, self.held) if x]
    arrays = [array for cut in cuts for array in cut.sets]
    # What all data sets share is read once.
    arrays = [x if x.strides[0] else x[:1] for x in arrays]
    body = [np.asarray(leaf) for leaf in self.body.values()]
    return unfinished.digest(
      [
        registry.spec(self.task.spec.model),
        *(self.task.kind, self.task.part, self.steps, self.seed),
        *(self.data.stream is None, self.tuning.one_head, [*self.body]),
        *(*body, *arrays),
      ]
    )

  def chunk(
    self, rows: np.ndarray, rate: float
  ) -> tuple[np.ndarray, np.ndarray]:
    """Outputs [S, C, M, ...] and losses [S, C] on held labels, 0 without."""
    words = np.zeros(len(rows), np.int64) if self.tuning.one_head else rows
    seeds = (core.hash64(self.seed, words) >> np.uint64(32)).astype(np.uint32)
    with jax.default_device(self.device):  # Each thread has its own.
      return self._tuned(rows, jnp.asarray(seeds), np.float32(rate))

  def _tuned(
    self, rows: np.ndarray, seeds_C: jax.Array, rate: np.float32
  ) -> tuple[np.ndarray, np.ndarray]:
    """As `chunk`."""
    supply, asked = self.data.steps(rows), self.asked.taken(rows)
    held = self.held.taken(rows) if self.held else []
    most = PIECE if self.data.stream is None else 1
    advance = functools.partial(_advance, self.task)
    with self.side.first:
      moving, still, state = _begin(self.task, self.body, seeds_C)
      moving, state = advance(still, moving, state, next(supply), 1, rate)
      jax.block_until_ready(state)
    outputs, losses, done = [], [], 1
    for wanted in self.steps:
      while done < wanted:
        self.side.check()
        num = min(most, wanted - done)
        moving, state = advance(still, moving, state, next(supply), num, rate)
        done += num
        jax.block_until_ready(state)
      with self.side.first:
        answers = [_answer(self.task, still, moving, part) for part in asked]
        loss = np.zeros(len(rows))
        if held:
          loss = np.asarray(_losses(self.task, still, moving, held))
      outputs.append(self._restored(rows, [np.asarray(x) for x in answers]))
      losses.append(loss)
    return np.stack(outputs), np.stack(losses)

  def _restored(
    self, rows: np.ndarray, answers: list[np.ndarray]
  ) -> np.ndarray:
    """[C, M, ...]: the answers of all groups, in the order they were asked."""
    num = sum(order.shape[1] for order in self.asked.orders)
    found = np.zeros((len(rows), num, *answers[0].shape[2:]), np.float32)
    sets = np.arange(len(rows))[:, None]
    for order, values in zip(self.asked.orders, answers, strict=True):
      found[sets, order[rows]] = values
    return found


def _chosen(
  outputs: np.ndarray, losses: np.ndarray, tuning: core.Tuning
) -> core.Adapted:
  """Of outputs [R, S, D, ...] those that the losses [R, S, D] are for."""
  # NaN is worst: a rate that diverges is never taken.
  losses = np.where(np.isnan(losses), np.inf, losses)
  if tuning.keep == 'best':
    for s in range(1, losses.shape[1]):
      worse = losses[:, s] >= losses[:, s - 1]
      outputs[:, s] = np.where(
        worse.reshape(*worse.shape, *(1,) * (outputs.ndim - 3)),
        outputs[:, s - 1],
        outputs[:, s],
      )
      losses[:, s] = np.minimum(losses[:, s], losses[:, s - 1])
  best = losses.mean(-1).argmin(0)
  taken = outputs[best, np.arange(len(best))]
  return core.Adapted(taken, np.array(tuning.rates, np.float64)[best])


def _check_head(task: _Task, body: Arrays) -> None:
  """Raises InputError where a new head is none, or not all that is new."""
  spec = task.spec
  shapes = {path: leaf.shape for path, leaf in nnx.to_flat_state(spec.abstract)}
  found = jax.eval_shape(
    lambda params: nnx.merge(spec.graph, params)(jnp.zeros((1, 1), jnp.int32)),
    spec.abstract,
  )
  if not any(map(_of_head, shapes)):
    wrong = "no parameter has 'head' in its path"
  elif found.shape[-1] != task.kind.outputs:
    wrong = (
      f'with outputs={task.kind.outputs} it gives {found.shape[-1]} for a token'
    )
  else:
    kept = {path: leaf.shape for path, leaf in body.items()}
    other = {path: x for path, x in shapes.items() if not _of_head(path)}
    changed = sorted({str(path) for path, _ in kept.items() ^ other.items()})
    if not changed:
      return
    wrong = f'with it {changed[0]} changes'
  raise core.InputError(
    f'the head of {registry.spec(spec.model)} cannot be replaced: {wrong}'
  )
