"""The two forms of the selective scan are one function."""

import functools

import jax
import numpy as np
import pytest

from tests.kernels.scan import scans
from tests.kernels.scan.scans import around, close
from wm.kernels.scan import state_space as scan_ssd

FORMS = ('sequential', 'associative')
K = 8
TOLERANCE = {'float32': 2e-5, 'float64': 1e-10}


def inputs(length: int, dtype: str = 'float64') -> list[np.ndarray]:
  """Arguments for 2 rows, 3 channels of 4 states."""
  rng = np.random.default_rng(length)

  def draw(*shape: int) -> np.ndarray:
    return rng.normal(size=shape).astype(dtype)

  sizes = np.abs(draw(2, length, 3))
  rates = -np.abs(draw(3, 4))
  b, c = draw(2, length, 4), draw(2, length, 4)
  return [draw(2, length, 3), sizes, rates, b, c, draw(2, 3, 4)]


def defined(taken: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
  """The definition, step by step and channel by channel."""
  x, delta, rate, b, c, start = taken
  y, h = np.zeros(x.shape), start.copy()
  for row, channel in np.ndindex(2, x.shape[2]):
    for t in range(x.shape[1]):
      size = delta[row, t, channel]
      decay = np.exp(size * rate[channel])
      added = size * x[row, t, channel] * b[row, t]
      h[row, channel] = decay * h[row, channel] + added
      y[row, t, channel] = h[row, channel] @ c[row, t]
  return y, h


@functools.partial(jax.jit, static_argnames=('form', 'chunk'))
def run(taken, form: str, chunk: int = K):
  return scan_ssd.selective(*taken, form=form, chunk=chunk)


trained = scans.trained(run)


@pytest.mark.parametrize('form', FORMS)
def test_every_form_is_the_definition(form):
  with jax.enable_x64(True):
    arguments = inputs(21)
    close(run(arguments, form), defined(arguments), 1e-12)


@around(K, 4096)
def test_forms_agree_forward_and_backward(length, dtype):
  chunk = 64 if length > 100 else K
  with jax.enable_x64(dtype == 'float64'):
    arguments = inputs(length, dtype)
    steps = trained(arguments, 'sequential', 1)
    assert steps[0][0].dtype == dtype
    for form in FORMS:
      close(trained(arguments, form, chunk), steps, TOLERANCE[dtype])


def test_steps_are_the_whole_sequence():
  x, delta, rate, b, c, h = arguments = inputs(19, 'float32')
  y, state = run(arguments, 'associative')
  step = jax.jit(scan_ssd.selective_step)
  for t in range(19):
    out, h = step(x[:, t], delta[:, t], rate, b[:, t], c[:, t], h)
    close(y[:, t], out, 1e-5)
  close(state, h, 1e-5)


def test_huge_steps_forget_and_are_finite():
  arguments = inputs(20, 'float32')
  arguments[1][:, 4:8] = 1e6
  for form in FORMS:
    leaves = jax.tree.leaves(trained(arguments, form))
    assert all(np.isfinite(leaf).all() for leaf in leaves)


@pytest.mark.parametrize('form', FORMS)
def test_a_rate_of_minus_infinity_forgets(form):
  with jax.enable_x64(True):
    cut, tiny = inputs(K + 1), inputs(K + 1)
    cut[2][:, 1], tiny[2][:, 1] = -np.inf, -1e6
    for arguments in (cut, tiny):
      arguments[1] += 0.1
    result, gradients = trained(cut, form)
    close(result, defined(cut), 1e-12)
    close(gradients, trained(tiny, 'sequential')[1], 1e-10)
    still = [*cut]
    still[1] = np.zeros_like(cut[1])
    y, state = run(still, form)
    close(state, cut[5], 1e-12)
    assert np.isfinite(y).all()
