"""Affine recurrences: all forms against plain NumPy, forward and backward."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.kernels.scan.scans import around
from wm.kernels.scan import affine_scan as scan

LONG = 33
FORMS = ('sequential', 'associative')
TOLERANCE = {'float32': 2e-5, 'float64': 1e-12}


def problem(
  length: int, size: int, dtype: str, seed: int = 0, batch: int = 2
) -> tuple[np.ndarray, ...]:
  """a, b, start and an output gradient; contractions, of blocks of `size`."""
  rng = np.random.default_rng(seed)
  shape = (batch, length, 3, size) if size else (batch, length, 5)
  b, weight = rng.normal(size=shape), rng.normal(size=shape)
  start = rng.normal(size=(batch, *shape[2:]))
  if size:
    a = np.linalg.qr(rng.normal(size=(*shape, size)))[0]
    a *= rng.uniform(0.5, 0.99, (*shape[:-1], 1, 1))
  else:
    a = rng.uniform(-0.99, 0.99, shape)
  return tuple(x.astype(dtype) for x in (a, b, start, weight))


def plain(a: np.ndarray, b: np.ndarray, start: np.ndarray) -> np.ndarray:
  """y by its definition."""
  out, y = np.zeros_like(b), start
  for t in range(b.shape[1]):
    step = a[:, t] * y if a.ndim == b.ndim else (a[:, t] @ y[..., None])[..., 0]
    out[:, t] = y = step + b[:, t]
  return out


def plain_gradients(a, b, start, weight) -> tuple[np.ndarray, ...]:
  """Gradients of sum(weight * y), adjoint step by adjoint step."""
  y = plain(a, b, start)
  to_a, to_b = np.zeros_like(a), np.zeros_like(b)
  later = np.zeros_like(start)
  for t in reversed(range(b.shape[1])):
    to_b[:, t] = h = weight[:, t] + later
    before = start if t == 0 else y[:, t - 1]
    if a.ndim == b.ndim:
      to_a[:, t], later = h * before, a[:, t] * h
    else:
      to_a[:, t] = h[..., :, None] * before[..., None, :]
      later = (a[:, t].swapaxes(-1, -2) @ h[..., None])[..., 0]
  return to_a, to_b, later


@functools.partial(jax.jit, static_argnums=0)
def both(form: str, a, b, start, weight):
  def value(a, b, start):
    y = scan.affine(a, b, start, form)
    return (weight * y).sum(), y

  gradients, y = jax.grad(value, argnums=(0, 1, 2), has_aux=True)(a, b, start)
  return y, gradients


@pytest.mark.parametrize('size', [0, 3])
def test_maps_that_forget_all(size):
  inputs = problem(LONG, size, 'float64')
  inputs[0][:, [0, 2, 3, LONG - 2, LONG - 1]] = 0
  with jax.enable_x64(True):
    for form in FORMS:
      y, gradients = both(form, *inputs)
      np.testing.assert_allclose(y, plain(*inputs[:3]), atol=1e-12)
      for result, slope in zip(
        gradients, plain_gradients(*inputs), strict=True
      ):
        np.testing.assert_allclose(result, slope, atol=2e-11)


@pytest.mark.parametrize('size', [0, 3])
@around(LONG, 4096)
def test_all_forms_agree_forward_and_backward(length, dtype, size):
  inputs = problem(length, size, dtype)
  want = plain(*inputs[:3])
  slopes = plain_gradients(*inputs)
  with jax.enable_x64(dtype == 'float64'):
    for form in FORMS:
      y, gradients = both(form, *inputs)
      assert y.dtype == dtype
      close = functools.partial(
        np.testing.assert_allclose, atol=TOLERANCE[dtype], rtol=1e-5
      )
      close(y, want, err_msg=form)
      for result, slope in zip(gradients, slopes, strict=True):
        assert result.dtype == dtype
        close(result, slope, atol=20 * TOLERANCE[dtype], err_msg=form)


run = jax.jit(scan.affine, static_argnums=(3, 4))


@pytest.mark.parametrize('size', [0, 2])
def test_time_may_come_first_and_a_start_may_be_shared(size):
  a, b, start, _ = problem(7, size, 'float32')
  shared = start[:1]
  want = plain(a, b, np.broadcast_to(shared, start.shape))
  np.testing.assert_allclose(scan.affine(a, b, shared[0]), want, atol=1e-5)
  turned = a.swapaxes(0, 1), b.swapaxes(0, 1)
  result = scan.affine(*turned, shared[0], axis=0)
  np.testing.assert_allclose(result.swapaxes(0, 1), want, atol=1e-5)
  slope = jax.grad(lambda s: scan.affine(a, b, s).sum())(shared[0])
  whole = jax.grad(lambda s: scan.affine(a, b, s).sum())(start * 1.0)
  np.testing.assert_allclose(slope, whole.sum(0), rtol=1e-5)


@pytest.mark.parametrize('size', [0, 3])
def test_steps_are_the_recurrence(size):
  a, b, start, _ = problem(5, size, 'float32')
  y = jnp.asarray(start)
  for t in range(5):
    y = scan.affine_step(a[:, t], b[:, t], y)
  np.testing.assert_allclose(y, plain(a, b, start)[:, -1], atol=1e-5)


@pytest.mark.parametrize('form', FORMS)
def test_gradients_of_gradients(form):
  a, b, start, along = problem(6, 0, 'float64', batch=1)

  def value(a):
    return (scan.affine(a, b, start, form) ** 2).sum()

  with jax.enable_x64(True):
    slope = jax.jit(jax.grad(value))
    result = jax.jit(jax.grad(lambda a: (slope(a) * along).sum()))(a)
    small = 1e-5 * along
    numeric = (slope(a + small) - slope(a - small)) / 2e-5
  np.testing.assert_allclose(result, numeric, atol=1e-6)


@pytest.mark.parametrize('form', FORMS)
def test_what_overflows_is_not_hidden(form):
  """Maps that double 700 times leave float32: infinite, not some number."""
  a = jnp.full((1, 700, 2), 2.0)
  y = run(a, jnp.ones_like(a), jnp.ones((1, 2)), form)
  finite = np.isfinite(np.asarray(y)).all(-1)[0]
  assert finite[:120].all()
  assert not finite[130:].any()


@pytest.mark.parametrize('form', FORMS)
def test_maps_that_vanish_leave_no_nan(form):
  a = jnp.full((1, 700, 2), 1e-30).at[:, 5].set(0.0)
  y, slopes = both(form, a, jnp.ones_like(a), jnp.ones((1, 2)), a * 0 + 1)
  np.testing.assert_allclose(y, 1.0)
  assert all(np.isfinite(np.asarray(slope)).all() for slope in slopes)
