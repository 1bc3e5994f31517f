"""A GPU's training and decoding, as a share of its peak and beside PyTorch."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.bench import harness, train_bench

# Products of bfloat16 a second at most, by the maker's tables, of a device with
# the word in its name.
PEAKS = {'H100': 989e12, 'H200': 989e12, 'A100': 312e12, 'L4': 121e12}
STEPS = 20
PAPER = 12, 768, 12
LENGTH, VOCAB = 48, 4592


def _gpu() -> Any:
  import jax

  device = jax.devices()[0]
  if device.platform != 'gpu' and not os.environ.get('WM_BENCH_ANY_DEVICE'):
    raise harness.Skip('JAX has no GPU here')
  return device


def _peak(device: Any) -> float:
  named = (x for name, x in PEAKS.items() if name in device.device_kind)
  return next(named, float('nan'))


def _seconds(step: Callable[[], Any], steps: int) -> tuple[float, float]:
  """Seconds of a step, and of the first one."""
  start = time.perf_counter()
  step()
  first = time.perf_counter() - start
  start = time.perf_counter()
  for _ in range(steps):
    step()
  return (time.perf_counter() - start) / steps, first


def training(
  layers: int, width: int, heads: int, batch: int, steps: int = STEPS
) -> harness.Line:
  """Our step of a transformer in bfloat16, and PyTorch's where it is there."""
  import jax
  import jax.numpy as jnp
  import optax
  from flax import nnx

  from wm.core import registry

  device = _gpu()
  spec = f'transformer(layers={layers}, width={width}, heads={heads}'
  model: Any = registry.make('model', f"{spec}, dtype='bfloat16')")
  graph, params = nnx.split(model.build(VOCAB, LENGTH, nnx.Rngs(0)))
  optimizer = optax.adamw(1e-4)
  tokens = np.random.default_rng(0).integers(0, VOCAB, (batch, LENGTH))

  def loss(params: Any, tokens: Any) -> Any:
    logits = nnx.merge(graph, params)(tokens).astype(jnp.float32)
    likely = jax.nn.log_softmax(logits[:, :-1])
    return -jnp.take_along_axis(likely, tokens[:, 1:, None], -1).mean()

  @jax.jit
  def update(params: Any, moments: Any, tokens: Any) -> Any:
    value, slopes = jax.value_and_grad(loss)(params, tokens)
    changes, moments = optimizer.update(slopes, moments, params)
    return optax.apply_updates(params, changes), moments, value

  held = [params, optimizer.init(params)]
  placed = jax.device_put(tokens.astype(np.int32), device)

  def step() -> None:
    *held[:], value = update(*held, placed)
    value.block_until_ready()

  seconds, first = _seconds(step, steps)
  num = sum(x.size for x in jax.tree.leaves(params))
  rate = batch * LENGTH / seconds
  theirs = _torch_rate(layers, width, heads, tokens, steps)
  return harness.Line(
    name=f'training {layers} x {width}, batch {batch}, on {device.device_kind}',
    value=rate,
    unit='tokens/s',
    baseline=f'PyTorch, bfloat16: {theirs:.0f} tokens/s' if theirs else '',
    ratio=rate / theirs if theirs else None,
    compile_s=first - seconds,
    target='.45 of the peak',
    share=f'{6 * num * rate / _peak(device):.3f} of the peak, by 6ND',
  )


def _torch_rate(
  layers: int, width: int, heads: int, tokens: np.ndarray, steps: int
) -> float:
  """Tokens a second of PyTorch on its GPU; 0 where it has none."""
  try:
    import torch
  except ImportError:
    return 0.0
  if not torch.cuda.is_available():
    return 0.0
  network = train_bench._gpt2(torch, layers, width, heads, VOCAB).cuda()
  optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, fused=True)
  compiled = torch.compile(network)
  placed = torch.from_numpy(tokens).long().cuda()

  def step() -> None:
    with torch.autocast('cuda', dtype=torch.bfloat16):
      logits = compiled(placed[:, :-1])
      loss = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), placed[:, 1:].flatten()
      )
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    torch.cuda.synchronize()

  return tokens.size / _seconds(step, steps)[0]


def decoding(layers: int, width: int, heads: int, rows: int) -> harness.Line:
  """Routes that a transformer samples, all rows in step."""
  from wm.core import registry
  from wm.evaluation import decoding as lib

  device = _gpu()
  world: Any = registry.make('world', 'maps()')
  spec = f'transformer(layers={layers}, width={width}, heads={heads})'
  model: Any = registry.make('model', spec)
  predictor = model.predictor(world, 0)
  prompts = lib.prompts(world, world.sample(rows, 0))

  def decode() -> Any:
    policy, cap = lib.Sampled(0), world.max_len
    return lib.decode(predictor, world, prompts, policy, cap, batch=rows)

  seconds, first = _seconds(decode, 2)
  tokens = (decode().lengths - prompts[1]).sum()
  return harness.Line(
    name=f'decoding {layers} x {width}, {rows} rows, on {device.device_kind}',
    value=float(tokens / seconds),
    unit='tokens/s',
    compile_s=first - seconds,
  )


def bench_gpu_training() -> Iterator[harness.Line]:
  """The paper's 89 M parameters, and 12 rows for each of 32."""
  yield training(*PAPER, batch=384)


def bench_gpu_decoding() -> Iterator[harness.Line]:
  """The paper's 89 M parameters, 512 rows."""
  yield decoding(*PAPER, rows=512)
