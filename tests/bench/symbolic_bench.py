"""Symbolic search of 1,000 rows, to Newton's law."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.bench import harness
from tests.kernels import symbolic_ref as ref
from wm.kernels import symbolic

ROWS, SIZE, SHORT = 1_000, 8, 6
GRAVITY = 39.4784176044
TEXT = 'm1 * m2 * inv(r * r)'


def _rows() -> tuple[dict[str, np.ndarray], np.ndarray]:
  """Quantities as of the orbits world, and forces [1, ROWS]."""
  rng = np.random.default_rng(0)
  spread = {'r': (0.5, 5.0), 'm1': (0.03, 1.5), 'm2': (0.3, 3.0)}
  columns = {
    name: low * (high / low) ** rng.random(ROWS)
    for name, (low, high) in spread.items()
  }
  force = GRAVITY * columns['m1'] * columns['m2'] / columns['r'] ** 2
  return columns, force[None]


def bench_symbolic() -> Iterator[harness.Line]:
  """All formulas up to the law's size; and the same search without cuts."""
  columns, force = _rows()
  front = symbolic.search(columns, force, SIZE)[0]
  if front[-1].text != TEXT or front[-1].error > 1e-20:
    raise AssertionError(f'the search found {front[-1]}')
  whole = harness.measure(lambda: symbolic.search(columns, force, SIZE))
  total = sum(symbolic.count(len(columns), SIZE))
  yield harness.Line(
    name=f'symbolic search, {ROWS:,} rows, all {total:,} formulas to the law',
    value=whole.wall,
    unit='s',
    compile_s=whole.compile_s,
    target='20 s',
  )
  fast = harness.measure(lambda: symbolic.search(columns, force, SHORT))
  slow = harness.measure(lambda: ref.search(columns, force, SHORT), runs=1)
  yield harness.compared(
    f'symbolic search, {ROWS:,} rows, formulas up to size {SHORT}',
    fast.wall,
    's',
    *(fast, slow, 'NumPy, a formula at a time', 'wall'),
  )
