"""Affine recurrences: forms against `lax.scan`, and what SLiCE costs."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.bench import harness
from wm.core import registry

# Batch, length, width, block (0: diagonal).
PROBLEMS = (
  (16, 128, 128, 0),
  (16, 600, 512, 0),
  (16, 128, 128, 8),
  (16, 600, 512, 4),
)
FORMS = ('sequential', 'associative')
SIZE = 'layers=1, width=128'
TRANSFORMER = (
  f"transformer({SIZE}, heads=2, positions='rotary', norm='rms', "
  "mlp='swiglu', tied=False)"
)
SLICE = f'slice({SIZE})'
VOCAB, OUTPUTS, BATCH = 1970, 1878, 32


def _plain(a: Any, b: Any, start: Any) -> Any:
  """`lax.scan`, differentiated as it stands."""
  import jax

  from wm.kernels.scan import affine_scan as scan

  def body(y: Any, arguments: Any) -> tuple[Any, Any]:
    y = scan.affine_step(*arguments, y)
    return y, y

  return jax.lax.scan(body, start, (a, b))[1]


def _compiled(
  function: Callable[..., Any], *arguments: Any
) -> tuple[Any, float]:
  """The compiled function and the wall seconds that took."""
  import jax

  start = time.perf_counter()
  made = jax.jit(function).lower(*arguments).compile()
  return made, time.perf_counter() - start


def _interleaved(
  runs: dict[str, Any], arguments: dict[str, Any], times: int = 5
):
  """Median CPU seconds of each, taken in turns."""
  import jax

  calls = {
    name: lambda name=name: jax.block_until_ready(runs[name](*arguments[name]))
    for name in runs
  }
  result = harness.in_turns(calls, times)
  return {name: timing.cpu for name, timing in result.items()}


def bench_scan_forms() -> Iterator[harness.Line]:
  """Forward and backward of each form, time first."""
  import jax
  import jax.numpy as jnp

  from wm.kernels.scan import affine_scan as scan

  rng = np.random.default_rng(0)
  for batch, length, width, size in PROBLEMS:
    rest = (width // size, size) if size else (width,)
    b = jnp.asarray(rng.normal(size=(length, batch, *rest)), jnp.float32)
    wide = b.shape + (size,) * bool(size)
    a = jnp.asarray(0.3 * rng.normal(size=wide), jnp.float32)
    arguments = a, b, jnp.zeros((batch, *rest))
    forms = {'lax.scan': _plain} | {
      form: functools.partial(scan.affine, form=form, axis=0) for form in FORMS
    }
    runs, compiling = {}, {}
    for name, form in forms.items():

      def slopes(*arguments: Any, form: Any = form) -> Any:
        return jax.grad(lambda *x: jnp.sin(form(*x)).sum(), (0, 1, 2))(
          *arguments
        )

      runs[name], compiling[name] = _compiled(slopes, *arguments)
    spent = _interleaved(runs, dict.fromkeys(runs, arguments))
    what = f'{size} x {size} blocks' if size else 'diagonal'
    for name in FORMS:
      yield harness.Line(
        f'{what}, {batch} x {length} x {width}, {name}',
        1e3 * spent[name],
        'CPU-ms forward and backward',
        'lax.scan',
        spent['lax.scan'] / spent[name],
        compiling[name],
      )


def _step(spec: str, length: int) -> tuple[Any, tuple[Any, ...], float]:
  """Loss and gradient of a stand-in for the state objective, compiled."""
  import jax
  import jax.numpy as jnp
  from flax import nnx

  from wm.models.nn import network

  model = registry.make('model', spec)
  shape = network.NetworkSpec(model, VOCAB, length, OUTPUTS)
  rng = np.random.default_rng(0)
  tokens = jnp.asarray(rng.integers(1, VOCAB, (BATCH, length)))

  def loss(params: Any, tokens: Any) -> Any:
    logits = nnx.merge(shape.graph, params)(tokens)
    heads = logits[..., : 13 * 64].reshape(*tokens.shape, 64, 13)
    rest = jax.nn.logsumexp(logits[..., 13 * 64 :], -1)
    return jax.nn.logsumexp(heads, -1).mean() + rest.mean()

  inputs = network.init(shape, 0), tokens
  made, seconds = _compiled(jax.value_and_grad(loss), *inputs)
  return made, inputs, seconds


def bench_scan_slice() -> Iterator[harness.Line]:
  """A training step's speed at 128 tokens, and its memory at 512."""
  for length in (128, 512):
    specs = {'transformer': TRANSFORMER, 'slice': SLICE}
    made = {name: _step(spec, length) for name, spec in specs.items()}
    runs = {name: run for name, (run, _, _) in made.items()}
    if length == 128:
      spent = _interleaved(runs, {name: made[name][1] for name in made})
      for name, seconds in spent.items():
        yield harness.Line(
          f'{name}, gradient of {BATCH} x {length} tokens, {OUTPUTS} outputs',
          BATCH * length / seconds,
          'tokens/CPU-s',
          'transformer',
          spent['transformer'] / seconds,
          made[name][2],
          target='10,000' if name == 'transformer' else '6,000',
        )
    room = {
      name: run.memory_analysis().temp_size_in_bytes / 2**20
      for name, run in runs.items()
    }
    yield harness.Line(
      f'slice, memory of a gradient at {BATCH} x {length} tokens',
      room['slice'],
      'MiB',
      'transformer',
      room['transformer'] / room['slice'],
      target='>= 0.5 at 512',
    )
