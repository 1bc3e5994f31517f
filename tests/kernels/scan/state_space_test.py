"""Chunked, associative and sequential scans of matrix states are one thing."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.kernels.scan.scans import around, close
from wm import core
from wm.kernels.scan import state_space as scan_ssd

FORMS = ('sequential', 'associative', 'chunked')
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


def defined(given: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
  """The definition, in loops over steps, ranks and heads."""
  x, b, c = given['x'], given['b'], given['c']
  y, h = np.zeros(x.shape), given['start'].astype(np.float64).copy()
  rows, length, ranks, heads, _ = x.shape
  for row, head in np.ndindex(rows, heads):
    group = min(head, b.shape[3] - 1)
    for t in range(length):
      added = sum(
        np.outer(x[row, t, r, head], b[row, t, r, group]) for r in range(ranks)
      )
      old = np.exp(given['a'][row, t, head]) * h[row, head]
      now = old + given['weight'][row, t, head] * added
      for r in range(ranks):
        y[row, t, r, head] = now @ c[row, t, r, group]
      late = 0 if given['late'] is None else given['late'][row, t, head]
      h[row, head] = now + late * added
  return y, h


def ssd(given: dict[str, jax.Array], form: str, chunk: int = K):
  """Calls the kernel with one dictionary of arrays."""
  rates = scan_ssd.Rates(*(given[name] for name in scan_ssd.Rates._fields))
  rest = {name: given[name] for name in ('x', 'b', 'c', 'start')}
  return scan_ssd.ssd(rates, **rest, form=form, chunk=chunk)


run = jax.jit(ssd, static_argnames=('form', 'chunk'))


@functools.partial(jax.jit, static_argnames=('form', 'chunk'))
def trained(given, form: str, chunk: int = K):
  """Outputs and state, and the gradient of a loss that takes all of them."""

  def loss(given):
    y, state = ssd(given, form, chunk)
    return jnp.sin(y).mean() + jnp.cos(state).mean(), (y, state)

  return jax.grad(loss, has_aux=True)(given)[::-1]


@pytest.mark.parametrize('form', FORMS)
@pytest.mark.parametrize(
  ('ranks', 'groups', 'late'),
  [(1, 1, False), (1, 3, True), (2, 3, True), (3, 1, True)],
)
def test_every_form_is_the_definition(form, ranks, groups, late):
  with jax.enable_x64(True):
    given = inputs(21, ranks=ranks, groups=groups, late=late)
    close(run(given, form), defined(given), 1e-12)


@around(K)
def test_forms_agree_forward_and_backward(length, dtype):
  with jax.enable_x64(dtype == 'float64'):
    given = inputs(length, ranks=2, dtype=dtype)
    found = trained(given, 'sequential')
    assert found[0][0].dtype == found[0][1].dtype == dtype
    # Lengths around a chunk's mean nothing to the associative form.
    for form in FORMS[2:] if length in (K - 1, K) else FORMS[1:]:
      close(trained(given, form), found, TOLERANCE[dtype])


@pytest.mark.parametrize('form', FORMS)
def test_a_decay_of_minus_infinity_forgets(form):
  with jax.enable_x64(True):
    cut, tiny = (inputs(K + 1, ranks=2) for _ in range(2))
    for given, value in ((cut, -np.inf), (tiny, -90.0)):
      given['a'][:, [0, 2, 3, K - 1, K]] = value
    found, gradients = trained(cut, form)
    close(found, defined(cut), 1e-12)
    close(gradients, trained(tiny, 'sequential')[1], 1e-12)


@pytest.mark.parametrize(
  'dtype', ['float32', pytest.param('float64', marks=pytest.mark.slow)]
)
def test_forms_agree_at_length_4096(dtype):
  with jax.enable_x64(dtype == 'float64'):
    given = inputs(4096, dtype=dtype, decay=0.05)
    found = trained(given, 'sequential')
    for form, chunk in (('associative', 0), ('chunked', 64)):
      close(trained(given, form, chunk), found, TOLERANCE[dtype])


@pytest.mark.parametrize('dtype', ['float32', 'float64'])
def test_chunks_are_the_step_recurrence(dtype):
  with jax.enable_x64(dtype == 'float64'):
    given = inputs(30, ranks=2, dtype=dtype)
    y, state = run(given, 'chunked')
    h, step = given['start'], jax.jit(scan_ssd.ssd_step)
    for t in range(30):
      x, a, b, c, weight = (
        given[name][:, t] for name in ('x', 'a', 'b', 'c', 'weight')
      )
      out, h = step(x, a, b, c, weight, h)
      close(y[:, t], out, {'float32': 1e-5, 'float64': 1e-10}[dtype])
      late = given['late'][:, t, :, None, None]
      h = h + late * scan_ssd.outer(x, b)
    close(state, h, {'float32': 1e-5, 'float64': 1e-10}[dtype])


def test_strong_decays_keep_the_digits_of_weak_ones():
  given = inputs(64, dtype='float32')
  # A forgotten past, then steps that keep nearly all: differences of running
  # sums in float32 would be off by thousands of units in the last place.
  given['a'][:, :32] = -90.3
  given['a'][:, 32:] *= 0.01
  wanted, _ = defined({k: v.astype(np.float64) for k, v in given.items()})
  for form in FORMS:
    y, _ = run(given, form, 64)
    np.testing.assert_allclose(y, wanted, rtol=2e-5, atol=2e-5)


def test_no_decay_is_too_strong():
  given = inputs(20, dtype='float32')
  given['a'][:, 3:9] = -np.inf
  wanted = defined(given)
  for form in FORMS:
    found = trained(given, form)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(found))
    close(found[0], wanted, 2e-5)


def test_empty_steps_leave_the_state():
  given, longer = inputs(10), inputs(17)
  for name in ('x', 'b', 'c', 'a', 'weight', 'late'):
    longer[name][:, :10] = given[name]
  for name in ('a', 'weight', 'late'):
    longer[name][:, 10:] = 0
  longer['start'] = given['start']
  with jax.enable_x64(True):
    for form in FORMS:
      y, state = run(longer, form)
      close((y[:, :10], state), run(given, form), 1e-12)


def test_no_later_step_changes_a_bit():
  given, other = inputs(21, dtype='float32'), inputs(21, dtype='float32')
  for name in ('x', 'b', 'c', 'a', 'weight', 'late'):
    other[name][:, 13:] = other[name][:, :8]
  for form in FORMS:
    found, again = run(given, form)[0], run(other, form)[0]
    np.testing.assert_array_equal(found[:, :13], again[:, :13])
    assert (np.asarray(found[:, 13]) != np.asarray(again[:, 13])).all()


def test_one_rank_needs_no_dimension():
  given = inputs(11, dtype='float32')
  plain = {**given, **{name: given[name][:, :, 0] for name in 'xbc'}}
  y, state = run(plain, 'chunked')
  whole, same = run(given, 'chunked')
  np.testing.assert_array_equal(y, whole[:, :, 0])
  np.testing.assert_array_equal(state, same)


def test_products_in_bfloat16_have_sums_in_float32():
  given = inputs(40, ranks=2, dtype='float32')
  wanted = run(given, 'sequential')
  half = {k: jnp.asarray(given[k], jnp.bfloat16) for k in 'xbc'}
  for form in FORMS:
    y, state = run({**given, **half}, form)
    assert y.dtype == state.dtype == jnp.float32
    close((y, state), wanted, 0.02)


def test_the_default_is_the_measured_one():
  assert scan_ssd.resolve('auto', 0, 64 * 128) == ('chunked', 32)
  assert scan_ssd.resolve('auto', 0, 32 * 32) == ('chunked', 16)
  assert scan_ssd.resolve('auto', 0, 64 * 128, ranks=4) == ('chunked', 8)
  assert scan_ssd.resolve('sequential', 5) == ('sequential', 5)


def test_bad_fields_are_named():
  with pytest.raises(core.InputError, match="form='fft'; available: auto, seq"):
    scan_ssd.resolve('fft', 0)
  with pytest.raises(core.InputError, match='chunk=-1; expected 1 or more'):
    scan_ssd.resolve('auto', -1)
