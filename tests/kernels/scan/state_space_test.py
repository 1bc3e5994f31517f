"""Chunks of matrix states are the recurrence, step by step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.kernels.scan import scans
from tests.kernels.scan.scans import around, close, matrix_steps
from wm.kernels.scan import state_space as scan_ssd

K = 8
TOLERANCE = {'float32': 2e-5, 'float64': 1e-10}


def inputs(
  length: int,
  *,
  ranks: int = 1,
  groups: int = 3,
  late: bool = True,
  dtype: str = 'float64',
  decay: float = 0.3,
) -> dict[str, np.ndarray]:
  """Arguments of `ssd` for 2 rows, 3 heads, states of 4 x 5."""
  rng = np.random.default_rng(length)

  def draw(*shape: int) -> np.ndarray:
    return rng.normal(size=(2, *shape)).astype(dtype)

  return {
    'x': draw(length, ranks, 3, 4),
    'a': -decay * np.abs(draw(length, 3)),
    'b': draw(length, ranks, groups, 5),
    'c': draw(length, ranks, groups, 5),
    'weight': np.abs(draw(length, 3)),
    'start': draw(3, 4, 5),
    'late': np.abs(draw(length, 3)) if late else None,
  }


def defined(taken: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
  """The definition, in loops over steps, ranks and heads."""
  x, b, c = taken['x'], taken['b'], taken['c']
  y, h = np.zeros(x.shape), taken['start'].astype(np.float64).copy()
  rows, length, ranks, heads, _ = x.shape
  for row, head in np.ndindex(rows, heads):
    group = min(head, b.shape[3] - 1)
    for t in range(length):
      added = sum(
        np.outer(x[row, t, r, head], b[row, t, r, group]) for r in range(ranks)
      )
      old = np.exp(taken['a'][row, t, head]) * h[row, head]
      now = old + taken['weight'][row, t, head] * added
      for r in range(ranks):
        y[row, t, r, head] = now @ c[row, t, r, group]
      late = 0 if taken['late'] is None else taken['late'][row, t, head]
      h[row, head] = now + late * added
  return y, h


def ssd(taken: dict[str, jax.Array], chunk: int = K):
  """Calls the kernel with one dictionary of arrays; `chunk=0` goes by steps."""
  if not chunk:
    return matrix_steps(taken)
  rates = scan_ssd.Rates(*(taken[name] for name in scan_ssd.Rates._fields))
  rest = {name: taken[name] for name in ('x', 'b', 'c', 'start')}
  return scan_ssd.ssd(rates, **rest, chunk=chunk)


run = jax.jit(ssd, static_argnames='chunk')
trained = scans.trained(ssd)


@pytest.mark.parametrize(
  ('ranks', 'groups', 'late'),
  [(1, 1, False), (1, 3, True), (2, 3, True), (3, 1, True)],
)
def test_chunks_are_the_definition(ranks, groups, late):
  with jax.enable_x64(True):
    arguments = inputs(21, ranks=ranks, groups=groups, late=late)
    close(run(arguments), defined(arguments), 1e-12)


@around(K)
def test_chunks_are_the_steps_forward_and_backward(length, dtype):
  with jax.enable_x64(dtype == 'float64'):
    arguments = inputs(length, ranks=2, dtype=dtype)
    steps = trained(arguments, 0)
    chunks = trained(arguments)
    assert chunks[0][0].dtype == chunks[0][1].dtype == dtype
    close(chunks, steps, TOLERANCE[dtype])


def test_a_decay_of_minus_infinity_forgets():
  with jax.enable_x64(True):
    cut, tiny = (inputs(K + 1, ranks=2) for _ in range(2))
    for arguments, value in ((cut, -np.inf), (tiny, -90.0)):
      arguments['a'][:, [0, 2, 3, K - 1, K]] = value
    results, gradients = trained(cut)
    close(results, defined(cut), 1e-12)
    close(gradients, trained(tiny, 0)[1], 1e-12)


@pytest.mark.parametrize(
  'dtype', ['float32', pytest.param('float64', marks=pytest.mark.slow)]
)
def test_chunks_are_the_steps_at_length_4096(dtype):
  with jax.enable_x64(dtype == 'float64'):
    arguments = inputs(4096, dtype=dtype, decay=0.05)
    close(trained(arguments, 64), trained(arguments, 0), TOLERANCE[dtype])


def test_strong_decays_keep_the_digits_of_weak_ones():
  arguments = inputs(64, dtype='float32')
  # A forgotten past, then steps that keep nearly all: differences of running
  # sums in float32 would be off by thousands of units in the last place.
  arguments['a'][:, :32] = -90.3
  arguments['a'][:, 32:] *= 0.01
  expected, _ = defined({k: v.astype(np.float64) for k, v in arguments.items()})
  y, _ = run(arguments, 64)
  np.testing.assert_allclose(y, expected, rtol=2e-5, atol=2e-5)


def test_no_decay_is_too_strong():
  arguments = inputs(20, dtype='float32')
  arguments['a'][:, 3:9] = -np.inf
  results = trained(arguments)
  assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(results))
  close(results[0], defined(arguments), 2e-5)


def test_one_rank_needs_no_dimension():
  arguments = inputs(11, dtype='float32')
  plain = {**arguments, **{name: arguments[name][:, :, 0] for name in 'xbc'}}
  y, state = run(plain)
  whole, same = run(arguments)
  np.testing.assert_array_equal(y, whole[:, :, 0])
  np.testing.assert_array_equal(state, same)


def test_products_in_bfloat16_have_sums_in_float32():
  arguments = inputs(40, ranks=2, dtype='float32')
  half = {k: jnp.asarray(arguments[k], jnp.bfloat16) for k in 'xbc'}
  y, state = run({**arguments, **half})
  assert y.dtype == state.dtype == jnp.float32
  close((y, state), run(arguments, 0), 0.02)
