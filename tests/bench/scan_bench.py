"""Affine recurrences: forms against `lax.scan`, and what SLiCE costs."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.bench import harness

# Batch, length, width, block (0: diagonal).
PROBLEMS = (
  (16, 128, 128, 0),
  (16, 600, 512, 0),
  (16, 128, 128, 8),
  (16, 600, 512, 4),
)
FORMS = ('sequential', 'associative')
VOCAB, OUTPUTS, BATCH = 1970, 1878, 32


def _plain(a: Any, b: Any, start: Any) -> Any:
  """`lax.scan`, differentiated as it stands."""
  import jax

  from wm.kernels.scan import affine_scan as scan

  def body(y: Any, given: Any) -> tuple[Any, Any]:
    y = scan.affine_step(*given, y)
    return y, y

  return jax.lax.scan(body, start, (a, b))[1]


def _compiled(function: Callable[..., Any], *given: Any) -> tuple[Any, float]:
  """The compiled function and the wall seconds that took."""
  import jax

  start = time.perf_counter()
  made = jax.jit(function).lower(*given).compile()
  return made, time.perf_counter() - start


def _interleaved(runs: dict[str, Any], given: dict[str, Any], times: int = 5):
  """Median CPU seconds of each, taken in turns."""
  import jax

  calls = {
    name: lambda name=name: jax.block_until_ready(runs[name](*given[name]))
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
    given = a, b, jnp.zeros((batch, *rest))
    forms = {'lax.scan': _plain} | {
      form: functools.partial(scan.affine, form=form, axis=0) for form in FORMS
    }
    runs, compiling = {}, {}
    for name, form in forms.items():

      def slopes(*given: Any, form: Any = form) -> Any:
        return jax.grad(lambda *x: jnp.sin(form(*x)).sum(), (0, 1, 2))(*given)

      runs[name], compiling[name] = _compiled(slopes, *given)
    spent = _interleaved(runs, dict.fromkeys(runs, given))
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
