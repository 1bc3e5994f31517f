"""The gated delta rule: chunks are its steps, and what it can do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.kernels.scan import scans
from tests.kernels.scan.scans import around, close, delta_steps
from wm.kernels.scan import delta_rule as scan_delta

C = 5  # Steps of a chunk.
NAMES = (
  'q_BLHK', 'k_BLHK', 'v_BLHV', 'g_BLH', 'beta_BLH', 'start_BHKV',
)  # fmt: skip
TOLERANCE = {'float32': 3e-5, 'float64': 1e-12}


def inputs(
  length: int, dtype: str = 'float64', batch: int = 2, decay: float = 0.1
) -> dict[str, jax.Array]:
  """Keys of unit length, beta up to 2, decays from none to strong."""
  rng = np.random.default_rng(length)
  shape, key, value = (batch, length, 2), 4, 3
  q, k = rng.normal(size=(2, *shape, key))
  k /= np.linalg.norm(k, axis=-1, keepdims=True)
  v = rng.normal(size=(*shape, value))
  g = -decay * np.exp(rng.normal(size=shape))
  beta = 2 / (1 + np.exp(-2 * rng.normal(size=shape)))
  start = rng.normal(size=(batch, 2, key, value))
  arrays = (jnp.asarray(x, dtype) for x in (q, k, v, g, beta, start))
  return dict(zip(NAMES, arrays, strict=True))


def defined(taken: dict[str, jax.Array]) -> tuple[np.ndarray, np.ndarray]:
  """The definition, with every transition written out as a matrix."""
  q, k, v, g, beta, start = (np.asarray(taken[name]) for name in NAMES)
  state, y = start.copy(), np.zeros(v.shape)
  for row, t, head in np.ndindex(g.shape):
    key, b = k[row, t, head], beta[row, t, head]
    move = np.eye(len(key)) - b * np.outer(key, key)
    move = np.exp(g[row, t, head]) * move
    added = b * np.outer(key, v[row, t, head])
    state[row, head] = move @ state[row, head] + added
    y[row, t, head] = state[row, head].T @ q[row, t, head]
  return y, state


def delta(taken: dict[str, jax.Array], chunk: int = C):
  """Calls the kernel; `chunk=0` goes by `delta_step`."""
  if chunk:
    return scan_delta.delta(**taken, chunk=chunk)
  return delta_steps(*(taken[name] for name in NAMES))


run = jax.jit(delta, static_argnames='chunk')
both = scans.trained(delta)


@pytest.mark.parametrize('chunk', [0, 1, 3, C, 64])
def test_any_chunk_is_the_definition(chunk):
  with jax.enable_x64(True):
    arguments = inputs(2 * C + 3)
    close(run(arguments, chunk), defined(arguments), 1e-12)


@around(C)
def test_chunks_are_the_steps_forward_and_backward(length, dtype):
  with jax.enable_x64(dtype == 'float64'):
    arguments = inputs(length, dtype)
    chunks = both(arguments)
    assert {leaf.dtype for leaf in jax.tree.leaves(chunks)} == {np.dtype(dtype)}
    close(chunks, both(arguments, 0), TOLERANCE[dtype])


@pytest.mark.parametrize(
  'dtype', ['float32', pytest.param('float64', marks=pytest.mark.slow)]
)
def test_chunks_are_the_steps_at_length_4096(dtype):
  with jax.enable_x64(dtype == 'float64'):
    arguments = inputs(4096, dtype, batch=1, decay=0.02)
    close(both(arguments, 32), both(arguments, 0), TOLERANCE[dtype])


def test_a_step_takes_any_leading_dimensions():
  with jax.enable_x64(True):
    arguments = inputs(C + 3)
    step = jax.jit(scan_delta.delta_step)
    many = [arguments[name][None, :, 0] for name in NAMES[:-1]]
    start = arguments['start_BHKV'][None]
    close(step(*many, start)[0][0], run(arguments)[0][:, 0], 1e-12)


def test_weak_decays_keep_their_digits_after_strong_ones():
  with jax.enable_x64(True):
    arguments = inputs(32)
    g = np.full((2, 32, 2), -1e-3)
    g[:, :20] = -300.0
    arguments |= {'g_BLH': jnp.asarray(g)}
    single = {name: x.astype(jnp.float32) for name, x in arguments.items()}
    close(run(single, 32)[0], run(arguments, 0)[0], 2e-6)


def test_far_inputs_give_no_nan():
  arguments = inputs(700, 'float32', batch=1)
  arguments |= {
    'g_BLH': 1e4 * arguments['g_BLH'],
    'v_BLHV': 1e3 * arguments['v_BLHV'],
  }
  for leaf in jax.tree.leaves(both(arguments)):
    assert np.isfinite(leaf).all()


def test_a_decay_of_minus_infinity_forgets():
  """Anywhere in a chunk, twice running, and as its first and last token."""
  with jax.enable_x64(True):
    arguments = inputs(2 * C + 3)
    rows = jnp.array([0, 2, 3, C - 1, C, 2 * C + 2])
    cut, tiny = (
      {**arguments, 'g_BLH': arguments['g_BLH'].at[:, rows].set(value)}
      for value in (-jnp.inf, -90.0)
    )
    results, gradients = both(cut)
    close(results, defined(cut), 1e-13)
    close(gradients, both(tiny, 0)[1], 1e-12)


def test_the_inverse_of_a_unit_triangle():
  rng = np.random.default_rng(0)
  with jax.enable_x64(True):
    for size in (1, 2, 5, 16, 33):
      strict = np.tril(0.3 * rng.normal(size=(3, size, size)), -1)
      want = np.linalg.inv(np.eye(size) + strict)
      close(scan_delta.unit_inverse(jnp.asarray(strict)), want, 1e-12)
