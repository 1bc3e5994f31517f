"""Scans of matrix states in training: chunks beside `lax.scan`, T = 600.

A time is that of outputs and all gradients. The baseline is one `lax.scan`,
whose body keeps nothing but states for its backward pass: twice as fast as one
that keeps all.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from tests.bench import harness

LENGTH = 600


class _Case(NamedTuple):
  """Sizes; letters as in `wm.kernels.scan.state_space`."""

  name: str
  batch: int
  ranks: int
  heads: int
  groups: int
  inputs: int
  outputs: int
  late: bool


CASES = (
  _Case('linear attention, D 128, 32 x 32', 16, 1, 4, 4, 32, 32, False),
  _Case('linear attention, D 512, 64 x 64', 4, 1, 8, 8, 64, 64, False),
  _Case('Mamba-2, D 128, 64 x 128', 4, 1, 4, 1, 64, 128, False),
  _Case('Mamba-3 SISO, D 128, 64 x 128', 4, 1, 4, 4, 64, 128, True),
  _Case('Mamba-3 MIMO r4, D 128, 64 x 128', 4, 4, 4, 4, 64, 128, True),
)


def _normal(*shape: int) -> np.ndarray:
  return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


def _trained(scan: Callable[..., Any], arguments: Any) -> Callable[[], Any]:
  """Outputs and gradients of a scan, compiled."""
  import jax
  import jax.numpy as jnp

  def run(arguments: Any) -> Any:
    result, pull = jax.vjp(scan, arguments)
    return result, pull(jax.tree.map(jnp.ones_like, result))

  compiled = jax.jit(run)
  arguments = jax.tree.map(jnp.asarray, arguments)
  return lambda: jax.block_until_ready(compiled(arguments))


def _matrix(case: _Case, by_steps: bool) -> harness.Timing:
  from tests.kernels.scan.scans import matrix_steps
  from wm.kernels.scan import state_space as scan_ssd

  steps = case.batch, LENGTH
  weights = (*steps, case.heads)
  vectors = (*steps, case.ranks, case.groups, case.outputs)
  arguments = {
    'x': _normal(*steps, case.ranks, case.heads, case.inputs),
    'a': -0.3 * np.abs(_normal(*weights)),
    'b': _normal(*vectors),
    'c': _normal(*vectors),
    'weight': np.abs(_normal(*weights)),
    'start': _normal(case.batch, case.heads, case.inputs, case.outputs),
  }
  if case.late:
    arguments['late'] = np.abs(_normal(*weights))

  def scan(arguments: Any) -> Any:
    rates = scan_ssd.Rates(
      arguments['a'], arguments['weight'], arguments.get('late')
    )
    rest = {name: arguments[name] for name in ('x', 'b', 'c', 'start')}
    return scan_ssd.ssd(rates, **rest)

  run = matrix_steps if by_steps else scan
  return harness.measure(_trained(run, arguments), runs=3)


def bench_matrix_states() -> Iterator[harness.Line]:
  """Linear attention, Mamba-2 and Mamba-3."""
  for case in CASES:
    scan, chunks = _matrix(case, True), _matrix(case, False)
    yield harness.Line(
      f'{case.name}, T {LENGTH}, batch {case.batch}: forward and backward',
      case.batch * LENGTH / chunks.cpu,
      'steps/CPU-s',
      f'lax.scan, same run: {case.batch * LENGTH / scan.cpu:.0f}',
      scan.cpu / chunks.cpu,
      chunks.compile_s,
      'ratio >= 2.5',
    )


def _selective(chunk: int) -> harness.Timing:
  from wm.kernels.scan import state_space as scan_ssd

  arguments = (
    _normal(4, LENGTH, 256),
    0.1 * np.abs(_normal(4, LENGTH, 256)),
    -4 * np.abs(_normal(256, 16)),
    _normal(4, LENGTH, 16),
    _normal(4, LENGTH, 16),
    _normal(4, 256, 16),
  )
  scan = functools.partial(scan_ssd.selective, chunk=chunk)
  return harness.measure(
    _trained(lambda arguments: scan(*arguments), arguments), runs=3
  )


def bench_selective() -> Iterator[harness.Line]:
  """S6 at D 128: chunks must cost no time, they are there for memory."""
  scan, chunks = _selective(LENGTH), _selective(0)
  yield harness.Line(
    f'Mamba (S6), D 128, T {LENGTH}, batch 4: forward and backward',
    4 * LENGTH / chunks.cpu,
    'steps/CPU-s',
    f'lax.scan, same run: {4 * LENGTH / scan.cpu:.0f}',
    scan.cpu / chunks.cpu,
    chunks.compile_s,
    'ratio >= 0.9',
  )
