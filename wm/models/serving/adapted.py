"""Networks that are adapted: a new head, and by default all other weights.

Many data sets are tuned at a time, each with weights of its own: chunks of them
are one program each (`adapted_steps`), and programs run side by side on the
cores of a CPU. Full batches, or those of a stream, as published (Vafa et al.
2025): AdamW, constant rate.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from wm import core
from wm.core import registry
from wm.models.nn import network
from wm.models.serving import abreast, adapted_rows, adapted_steps
from wm.runtime import partial_results, progress

# Steps of one call, so that Ctrl-C is heard between them.
PIECE = 10
# Most bytes of weights and moments of all chunks at a time, and tokens of one
# step of a chunk. Products of many sets at once run on one core of a CPU.
CHUNK_BYTES = 1 << 30
CHUNK_TOKENS = {'cpu': 1 << 11}
ELSEWHERE = 1 << 15


def chunk_size(
  spec: network.NetworkSpec,
  part: str,
  num: int,
  tokens: int,
  device: jax.Device,
) -> int:
  """Data sets, of `num` of so many tokens, that are one program on a device.

  All programs are as large, and as many run at a time: none waits for others
  that have more to do.
  """
  copies = 4 * 4 * spec.num_params if part == 'all' else 1
  side = abreast.at_once(device)
  most = CHUNK_TOKENS.get(device.platform, ELSEWHERE) // max(tokens, 1)
  size = max(min(most, CHUNK_BYTES // copies // side), 1)
  rounds = -(-num // (size * side))
  return -(-num // (rounds * side))


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
  task = adapted_steps.Task(shaped, kind, tuning.part)
  body = {
    path: leaf
    for path, leaf in adapted_steps.flat(params).items()
    if not adapted_steps.of_head(path)
  }
  _check_head(task, body)
  (device,) = next(iter(body.values())).devices()
  num = len(asked.tokens)
  size = chunk or chunk_size(shaped, tuning.part, num, data.first.size, device)
  side = abreast.Abreast(at_once or abreast.at_once(device))
  cuts = data, questions, held
  run = _Run(task, body, *cuts, steps, seed, tuning, size, device, side)
  return _all(run, num)


def _all(run: _Run, num: int) -> core.Adapted:
  """All chunks of D data sets at all rates."""
  rates = run.tuning.rates
  losses = np.zeros((len(rates), len(run.steps), num))
  outputs: np.ndarray | None = None
  done, mark = 0, run.mark() if partial_results.active() else ''
  chunks = [*core.chunks(num, 1, run.size)]
  given = [(r, rows) for r in range(len(rates)) for rows in chunks]

  def made(one: tuple[int, slice]) -> tuple[np.ndarray, ...]:
    """Outputs and losses of a chunk."""
    rate, rows = rates[one[0]], one[1]
    # The last chunk is filled up: one program serves all.
    chosen = np.resize(np.arange(rows.start, rows.stop), min(run.size, num))
    name = partial_results.digest([mark, chosen, float(rate)]) if mark else ''
    return partial_results.part(
      name, functools.partial(run.chunk, chosen, rate)
    )

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

  task: adapted_steps.Task
  body: adapted_steps.Arrays
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
    return partial_results.digest(
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
    advance = functools.partial(adapted_steps.advance, self.task)
    with self.side.first:
      moving, still, state = adapted_steps.begin(self.task, self.body, seeds_C)
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
        answers = [
          adapted_steps.answer(self.task, still, moving, part) for part in asked
        ]
        loss = np.zeros(len(rows))
        if held:
          loss = np.asarray(
            adapted_steps.losses(self.task, still, moving, held)
          )
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


def _check_head(task: adapted_steps.Task, body: adapted_steps.Arrays) -> None:
  """Raises InputError where a new head is none, or not all that is new."""
  spec = task.spec
  shapes = {path: leaf.shape for path, leaf in nnx.to_flat_state(spec.abstract)}
  found = jax.eval_shape(
    lambda params: nnx.merge(spec.graph, params)(jnp.zeros((1, 1), jnp.int32)),
    spec.abstract,
  )
  if not any(map(adapted_steps.of_head, shapes)):
    wrong = "no parameter has 'head' in its path"
  elif found.shape[-1] != task.kind.outputs:
    wrong = (
      f'with outputs={task.kind.outputs} it gives {found.shape[-1]} for a token'
    )
  else:
    kept = {path: leaf.shape for path, leaf in body.items()}
    other = {
      path: x for path, x in shapes.items() if not adapted_steps.of_head(path)
    }
    changed = sorted({str(path) for path, _ in kept.items() ^ other.items()})
    if not changed:
      return
    wrong = f'with it {changed[0]} changes'
  raise core.InputError(
    f'the head of {registry.spec(spec.model)} cannot be replaced: {wrong}'
  )
