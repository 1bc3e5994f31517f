"""Every family beside the others, at the chess paper's smallest size.

Training steps are measured in turns, so that all see the same machine; CPU
time is this process's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.bench import harness, products
from wm.core import accept as rules
from wm.core import registry

GAMES, PLIES, ROUNDS = 32, 128, 7
TRANSFORMER = (
  "transformer(layers=1, width=128, positions='rotary', norm='rms', "
  "epsilon=1e-6, mlp='swiglu', ratio=4, biases=True, tied=False, "
  "head_bias=True, init='torch', dropout=0.1)"
)
FAMILIES = {
  'Transformer': TRANSFORMER,
  'SLiCE b=8': 'slice(layers=1, width=128, dropout=0.1)',
  'SLiCE b=1': 'slice(layers=1, width=128, block_size=1, dropout=0.1)',
  'Gated DeltaNet': 'deltanet(layers=1, width=128)',
  'Mamba-3': 'mamba3(layers=1, width=128, state=128, dropout=0.1)',
  'Mamba-3, rank 4': 'mamba3(layers=1, width=128, state=128, rank=4)',
  'Mamba-2': 'mamba2(layers=1, width=128, state=128, dropout=0.1)',
  'Mamba': 'mamba(layers=1, width=128)',
  'LSTM': 'lstm(layers=1, width=128)',
  'RNN': 'rnn(layers=1, width=128)',
}
DRAW = rules.epsilon(0.0)


def world_of(length: int = PLIES, vocabulary: str = 'compact') -> Any:
  return registry.make(
    'world', f'chess(length={length}, vocabulary={vocabulary!r})'
  )


def step_of(
  world: Any,
  spec: str,
  objective: str,
  plies: int = PLIES,
  optimizer: str = 'auto',
) -> tuple[Callable[[], None], products.Products]:
  """One update, on games that are on the device already; its products."""
  import jax

  from wm.models.nn import network
  from wm.options.training import Training
  from wm.training import loop, state
  from wm.training import loss as loss_lib

  config = Training(objective=objective, batch=GAMES, optimizer=optimizer)
  aim = loss_lib.make(config, world)
  model, mesh = registry.make('model', spec), state.mesh(1, 1)
  shape = network.NetworkSpec(
    model, len(world.vocab), world.max_len, aim.outputs
  )
  shapes = shape.shapes
  rule = state.make_optimizer(
    config, shapes, model.undecayed, state.matrix_axes(shape)
  )
  abstract = state.abstract_state(shapes, rule, mesh)
  update = loop.make_train_step(
    shape, rule, state.schedule(config), aim, 0, abstract
  )
  # The next token is judged at one place less.
  tokens = world.sample(GAMES, 0).tokens
  tokens = tokens[:, : plies + (objective == 'next')]
  assert tokens.shape[1] == plies + (objective == 'next')
  lengths = np.full(GAMES, tokens.shape[1], np.int32)
  batch = loop.place_batch(mesh, tokens, lengths, aim.world)
  held = [state.create(shape, 0, rule, abstract), 0]

  def run() -> None:
    held[0], report = update(held[0], np.int32(held[1]), *batch)
    held[1] += 1
    jax.block_until_ready(report)

  def forward(params: Any) -> Any:
    return state.merge(shape, params)(tokens[:, :plies])

  return run, products.traced(forward, held[0].params)


def _training(objective: str) -> Iterator[harness.Line]:
  world = world_of()
  runs = {
    name: step_of(world, spec, objective) for name, spec in FAMILIES.items()
  }
  steps = {name: run for name, (run, _) in runs.items()}
  bare = {
    f'{n} alone': products.alone(result) for n, (_, result) in runs.items()
  }
  result = harness.in_turns(steps | bare, ROUNDS)
  spent = {name: timing.cpu for name, timing in result.items()}
  for name in FAMILIES:
    rate = GAMES * PLIES / spent[name]
    yield harness.Line(
      name=f'training step, {objective}, {name}, d128/l1, {GAMES} x {PLIES}',
      value=rate,
      unit='tokens/CPU-s',
      baseline='Transformer, same run',
      ratio=spent['Transformer'] / spent[name],
      compile_s=result[name].first,
      target='ratio >= 0.5',
      share=products.share(runs[name][1], spent[name], spent[f'{name} alone']),
    )


def bench_models_state() -> Iterator[harness.Line]:
  """Training of the 75 labels, all families."""
  return _training('state')


def bench_models_next() -> Iterator[harness.Line]:
  """Training of the next token, all families."""
  return _training('next')


def bench_models_packed() -> Iterator[harness.Line]:
  """What 18,512 tokens that never occur cost."""
  runs = {
    kind: step_of(world_of(vocabulary=kind), TRANSFORMER, 'state')
    for kind in ('compact', 'packed')
  }
  made = runs['packed'][1]
  steps = {kind: run for kind, (run, _) in runs.items()}
  result = harness.in_turns(steps | {'alone': products.alone(made)}, ROUNDS)
  spent = {name: timing.cpu for name, timing in result.items()}
  rate = GAMES * PLIES / spent['packed']
  yield harness.Line(
    name='training step, state, Transformer, packed vocabulary',
    value=rate,
    unit='tokens/CPU-s',
    baseline='compact vocabulary, same run',
    ratio=spent['compact'] / spent['packed'],
    compile_s=result['packed'].first,
    share=products.share(made, spent['packed'], spent['alone']),
  )


def _memory(spec: str, length: int) -> float:
  """MiB that a gradient of one batch of games needs besides its inputs."""
  import jax
  import jax.numpy as jnp
  from flax import nnx

  from wm.models.nn import layers, network

  heads = world_of().heads.sizes
  model = registry.make('model', spec)
  shape = network.NetworkSpec(model, 1970, length, sum(heads))

  def loss(params: Any, tokens: jax.Array, labels: jax.Array) -> jax.Array:
    logits = nnx.merge(shape.graph, params)(tokens, jax.random.key(0))
    return layers.state_losses(logits, labels, heads).mean()

  rows = jax.ShapeDtypeStruct((GAMES, length), jnp.int32)
  labels = jax.ShapeDtypeStruct((GAMES, length, len(heads)), jnp.int32)
  lowered = jax.jit(jax.grad(loss)).lower(shape.abstract, rows, labels)
  return lowered.compile().memory_analysis().temp_size_in_bytes / 2**20


def bench_models_memory() -> Iterator[harness.Line]:
  """Temporary memory of a gradient at 512 plies."""
  base = _memory(TRANSFORMER, 512)
  for name, spec in FAMILIES.items():
    used = base if spec == TRANSFORMER else _memory(spec, 512)
    yield harness.Line(
      name=f'memory of a gradient, {name}, d128/l1, {GAMES} x 512',
      value=used,
      unit='MiB',
      baseline=f'Transformer, same compiler: {base:.0f} MiB',
      ratio=base / used,
      target='ratio >= 0.5',
    )


def _sampling(spec: str, length: int) -> tuple[float, float]:
  """CPU-seconds a token at `length`: by a step, by reading all again."""
  from wm.models.serving import sessions

  world, few = world_of(length - 1), 8
  predictor = registry.make('model', spec).predictor(world, 0)
  prefixes = world.sample(16, 1).tokens[:, : length - few - 1]
  tile = sessions.tile_rows(predictor.spec, 1, predictor.cache_bytes)
  lengths, num = np.full(16, prefixes.shape[1]), tile // 16
  session = predictor.session(prefixes, lengths, num)
  uniform = np.random.default_rng(0).random((few, 16, num))

  def step(k: int) -> None:
    session.advance(session.draw(DRAW, uniform[k].astype(np.float32)))

  step(0)
  session.log_probs()
  start = time.process_time()
  for k in range(1, few):
    step(k)
  session.log_probs()
  steps = (time.process_time() - start) / ((few - 1) * 16 * num)
  rows = np.pad(prefixes, ((0, 0), (0, few)), mode='edge')
  whole = harness.measure(
    lambda: predictor.log_probs(rows, lengths + few), runs=3
  )
  return steps, whole.cpu / 16


def bench_models_sampling() -> Iterator[harness.Line]:
  """A token of a continuation at length 256, compact vocabulary."""
  for name, spec in FAMILIES.items():
    steps, whole = _sampling(spec, 256)
    yield harness.Line(
      name=f'sampling at length 256, {name}, d128/l1',
      value=1 / steps,
      unit='tokens/CPU-s',
      baseline=f'whole prefix read again, same run: {1 / whole:.0f} tokens/'
      'CPU-s',
      ratio=whole / steps,
      target='ratio >= 10',
    )


def _delta(chunk: int, length: int) -> Callable[[], None]:
  """Forward and backward of the delta rule as d128 has it, 16 rows.

  chunk: 0 goes by steps.
  """
  import jax

  from tests.kernels.scan.scans import delta_steps
  from wm.kernels.scan import delta_rule as scan_delta

  rng, shape = np.random.default_rng(0), (16, length, 2)
  q, k = rng.normal(size=(2, *shape, 48))
  k /= np.linalg.norm(k, axis=-1, keepdims=True)
  v = rng.normal(size=(*shape, 96))
  g, beta = -0.1 * rng.random(shape), 2 * rng.random(shape)
  inputs = [
    np.float32(x) for x in (q, k, v, g, beta, np.zeros((16, 2, 48, 96)))
  ]

  def loss(inputs: list[jax.Array]) -> jax.Array:
    if not chunk:
      return (delta_steps(*inputs)[0] ** 2).sum()
    return (scan_delta.delta(*inputs, chunk=chunk)[0] ** 2).sum()

  gradient = jax.jit(jax.grad(loss))
  return lambda: jax.block_until_ready(gradient(inputs))


def bench_models_delta() -> Iterator[harness.Line]:
  """Chunks of the delta rule at 600 tokens, in training."""
  runs = {'lax.scan': _delta(0, 600)}
  runs |= {f'chunks of {chunk}': _delta(chunk, 600) for chunk in (16, 32, 64)}
  result = harness.in_turns(runs, 3)
  spent = {name: timing.cpu for name, timing in result.items()}
  for name in list(runs)[1:]:
    yield harness.Line(
      name=f'delta rule, forward and backward, 16 x 600, {name}',
      value=1e3 * spent[name],
      unit='CPU-ms',
      baseline=f'lax.scan, same run: {1e3 * spent["lax.scan"]:.0f} CPU-ms',
      ratio=spent['lax.scan'] / spent[name],
      compile_s=result[name].first,
      target='ratio >= 2.5',
    )
