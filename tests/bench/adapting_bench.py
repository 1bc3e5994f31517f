"""Networks adapted to many data sets: side by side, and one by one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from tests.bench import harness, products
from wm.core import adapting, registry
from wm.models.nn import network
from wm.models.serving import adaptation

SETS, EXAMPLES, STEPS = 16, 25, 10


def bench_adapting() -> Iterator[harness.Line]:
  """A transformer of 2 x 64 on a lattice; labels at random places."""
  world = registry.make('world', 'lattice()')
  model = registry.make('model', 'transformer(layers=2, width=64)')
  predictor = model.predictor(world, 0)
  rng = np.random.default_rng(0)
  tokens = world.sample(SETS * EXAMPLES, 0).tokens
  tokens = tokens.reshape(SETS, EXAMPLES, -1)
  places = rng.integers(0, 99, (SETS, EXAMPLES, 1)).astype(np.int32)
  labels = rng.integers(0, 2, (SETS, EXAMPLES, 1, 1))
  sets = adapting.FewShotTasks(tokens, places, labels)
  asked = adapting.QueryPoints(tokens[:, :1], places[:, :1])
  network = predictor.spec, predictor.placed(predictor.devices[0])

  def adapt(chunk: int, at_once: int) -> Callable[[], Any]:
    adapter = adaptation.Adapter(*network, chunk, at_once)
    task = sets, asked, adapting.Classes(2), (STEPS,), 0, adapting.FINE_TUNE
    return lambda: adapter.adapt(*task)

  made = _products(predictor.spec, sets)
  large = products.Products({(1, 8192, 64, 256): 1})
  alone, plain = 'one by one', 'a step of optax on whole sequences, one by one'
  result = harness.in_turns(
    {
      '': adapt(0, 0),
      alone: adapt(1, 1),
      plain: _plain(predictor.spec, sets),
      'large': products.alone(large),
    }
  )
  mine = result['']
  spent = mine.cpu / (SETS * STEPS)
  for baseline in alone, plain:
    line = harness.compared(
      'adapting 2 x 64, 16 data sets of 25',
      STEPS * int((places + 1).sum()) / mine.wall,
      'tokens/s up to the labels',
      *(mine, result[baseline], baseline),
      clock='wall',
      target='1.3 x',
    )
    share = products.share(made, spent, result['large'].cpu, large)
    yield dataclasses.replace(line, share=share)


def _plain(
  spec: network.NetworkSpec, sets: adapting.FewShotTasks
) -> Callable[[], None]:
  """Tunes fresh weights to each data set in turn, as a training step is."""
  spec = dataclasses.replace(spec, outputs=2)
  optimizer = optax.chain(
    optax.clip_by_global_norm(1.0), optax.adamw(6e-4, 0.9, 0.95)
  )
  begun = network.init(spec, 0)
  state = optimizer.init(begun)

  @jax.jit
  def step(
    params: nnx.State, state: optax.OptState, rows: list[jax.Array]
  ) -> tuple[nnx.State, optax.OptState]:
    tokens, places, labels = rows

    def loss(params: nnx.State) -> jax.Array:
      logits = nnx.merge(spec.graph, params)(tokens)
      logits = jnp.take_along_axis(logits, places[..., None], axis=1)
      each = optax.softmax_cross_entropy_with_integer_labels(
        logits, labels[..., 0]
      )
      return each.mean()

    updates, state = optimizer.update(jax.grad(loss)(params), state, params)
    return optax.apply_updates(params, updates), state

  def run() -> None:
    for number in range(SETS):
      rows = [jnp.asarray(array[number]) for array in sets]
      params, now = begun, state
      for _ in range(STEPS):
        params, now = step(params, now, rows)
      jax.block_until_ready(params)

  return run


def _products(
  spec: network.NetworkSpec, sets: adapting.FewShotTasks
) -> products.Products:
  """Of a step of one data set."""
  kind = adapting.Classes(2)
  spec = dataclasses.replace(spec, outputs=kind.outputs)
  supply = adaptation.TrainingRows.of(spec, sets, kind)
  groups = supply.first.taken(np.arange(1))

  def forward(params: nnx.State) -> list[jax.Array]:
    net = nnx.merge(spec.graph, params)
    return [net.at(rows.tokens[0], rows.places[0]) for rows in groups]

  return products.traced(forward, network.init(spec, 0))
