"""Causal attention in blocks beside the form with all scores at once.

Values and all gradients, in turn in one process, float32; temporaries as the
compiler says, beside one array of all scores.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.bench import harness

# Batch, length, heads, channels of a head: width 128.
SHAPES = ((32, 128, 2, 64), (32, 128, 8, 16), (8, 704, 2, 64), (8, 704, 8, 16))
ROUNDS = 15


def _gradient(attend: Any, arguments: list[Any]) -> Any:
  """Compiled gradients by all arguments."""
  import jax

  def loss(*arguments: jax.Array) -> jax.Array:
    return (attend(*arguments) ** 2).sum()

  gradient = jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2)))
  return gradient.lower(*arguments).compile()


def _lines(shape: tuple[int, int, int, int]) -> Iterator[harness.Line]:
  import jax

  from wm.kernels import attention as kernel
  from wm.models import transformer

  rng = np.random.default_rng(0)
  inputs = list(rng.normal(size=(3, *shape)).astype(np.float32))
  runs = {
    'whole': _gradient(transformer.whole, inputs),
    'used': _gradient(transformer.attend, inputs),
    'blocks': _gradient(functools.partial(kernel.blocks, size=64), inputs),
  }
  result = harness.in_turns(
    {
      name: lambda run=run: jax.block_until_ready(run(*inputs))
      for name, run in runs.items()
    },
    ROUNDS,
  )
  cpu = {name: 1e3 * timing.cpu for name, timing in result.items()}
  batch, length, heads, channels = shape
  scores = 4 * batch * heads * length**2
  used = {
    name: run.memory_analysis().temp_size_in_bytes / scores
    for name, run in runs.items()
  }
  what = f'{batch} x {length}, {heads} heads of {channels}'
  yield harness.Line(
    name=f'attention, gradient, {what}',
    value=cpu['used'],
    unit='CPU-ms',
    baseline=f'all scores at once, same run: {cpu["whole"]:.1f} CPU-ms (in '
    f'blocks, used or not: {cpu["blocks"]:.1f})',
    ratio=cpu['whole'] / cpu['used'],
    target='ratio >= 1',
  )
  yield harness.Line(
    name=f'attention, temporaries of a gradient, {what}',
    value=used['used'],
    unit='of an array of all scores',
    baseline=f'all scores at once, same compiler: {used["whole"]:.2f}',
    ratio=used['whole'] / used['used'],
    target='at most 0.25 at 704',
  )


def bench_attention() -> Iterator[harness.Line]:
  """Lengths 128 and 704, wide and narrow heads."""
  for shape in SHAPES:
    yield from _lines(shape)


def _timed(run: Any, arguments: list[Any]) -> None:
  import jax

  jax.block_until_ready(run(*arguments))


def bench_attention_device() -> Iterator[harness.Line]:
  """On a TPU or GPU: every form, bfloat16, with dropout and without."""
  import jax
  import jax.numpy as jnp

  from wm.kernels import attention as kernel
  from wm.models import transformer
  from wm.runtime import compute

  if compute.platform() == 'cpu':
    raise harness.Skip('no accelerator')
  for length in (512, 1024, 2048):
    for rate in (0.0, 0.1):
      shape = (8, length, 12, 64)
      rng = np.random.default_rng(0)
      inputs = list(jnp.asarray(rng.normal(size=(3, *shape)), jnp.bfloat16))
      rest = {'rate': rate, 'key': jax.random.key(0)}
      blocks = functools.partial(kernel.blocks, size=128)
      forms = {
        'used': transformer.attend,
        'whole': transformer.whole,
        'blocks': blocks,
      }
      runs = {
        name: _gradient(functools.partial(form, **rest), inputs)
        for name, form in forms.items()
      }
      times = harness.in_turns(
        {
          name: functools.partial(_timed, run, inputs)
          for name, run in runs.items()
        },
        ROUNDS,
      )
      wall = {name: 1e3 * timing.wall for name, timing in times.items()}
      others = min('whole', 'blocks', key=lambda name: wall[name])
      yield harness.Line(
        name=f'attention, gradient, 8 x {length}, 12 heads, dropout {rate}',
        value=wall['used'],
        unit='ms',
        baseline=f'{others}, same run: {wall[others]:.2f} ms',
        ratio=wall[others] / wall['used'],
        compile_s=times['used'].compile_s,
      )
