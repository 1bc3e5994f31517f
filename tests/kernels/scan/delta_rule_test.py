"""The gated delta rule: one function in three forms, and what it can do."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.kernels.scan.scans import around, close
from wm import core
from wm.kernels.scan import delta_rule as scan_delta

C = 5  # Steps of a chunk.
NAMES = (
  'q_BLHK', 'k_BLHK', 'v_BLHV', 'g_BLH', 'beta_BLH', 'start_BHKV',
)  # fmt: skip
TOLERANCE = {'float32': 3e-5, 'float64': 1e-12}
FORMS = ('sequential', 'associative', 'chunked')


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


def defined(given: dict[str, jax.Array]) -> tuple[np.ndarray, np.ndarray]:
  """The definition, with every transition written out as a matrix."""
  q, k, v, g, beta, start = (np.asarray(given[name]) for name in NAMES)
  state, y = start.copy(), np.zeros(v.shape)
  for row, t, head in np.ndindex(g.shape):
    key, b = k[row, t, head], beta[row, t, head]
    move = np.eye(len(key)) - b * np.outer(key, key)
    move = np.exp(g[row, t, head]) * move
    added = b * np.outer(key, v[row, t, head])
    state[row, head] = move @ state[row, head] + added
    y[row, t, head] = state[row, head].T @ q[row, t, head]
  return y, state


@functools.partial(jax.jit, static_argnames=('form', 'chunk'))
def run(given: dict[str, jax.Array], form: str = 'chunked', chunk: int = C):
  return scan_delta.delta(**given, form=form, chunk=chunk)


@functools.partial(jax.jit, static_argnames=('form', 'chunk'))
def both(given: dict[str, jax.Array], form: str, chunk: int = C):
  """Results, and gradients of a loss that depends on all of them."""

  def loss(given: dict[str, jax.Array]):
    y, state = scan_delta.delta(**given, form=form, chunk=chunk)
    return jnp.sin(y).mean() + jnp.cos(state).mean(), (y, state)

  gradients, found = jax.grad(loss, has_aux=True)(given)
  return found, gradients


@pytest.mark.parametrize('form', FORMS)
def test_every_form_is_the_definition(form):
  with jax.enable_x64(True):
    given = inputs(2 * C + 3)
    close(run(given, form), defined(given), 1e-13)


@around(C)
def test_forms_agree_forward_and_backward(length, dtype):
  with jax.enable_x64(dtype == 'float64'):
    given = inputs(length, dtype)
    found = both(given, 'sequential')
    assert {leaf.dtype for leaf in jax.tree.leaves(found)} == {np.dtype(dtype)}
    for form in FORMS[1:]:
      close(both(given, form), found, TOLERANCE[dtype])


@pytest.mark.parametrize(
  'dtype', ['float32', pytest.param('float64', marks=pytest.mark.slow)]
)
def test_forms_agree_at_length_4096(dtype):
  with jax.enable_x64(dtype == 'float64'):
    given = inputs(4096, dtype, batch=1, decay=0.02)
    found = both(given, 'sequential')
    for form, chunk in (('associative', 0), ('chunked', 32)):
      close(both(given, form, chunk), found, TOLERANCE[dtype])


@pytest.mark.parametrize('chunk', [1, 3, 7, 64])
def test_any_chunk_will_do(chunk):
  with jax.enable_x64(True):
    given = inputs(20)
    close(run(given, chunk=chunk), run(given, 'sequential'), 1e-12)


def test_steps_are_the_whole_sequence():
  with jax.enable_x64(True):
    given = inputs(C + 3)
    found, end = run(given)
    state = given['start_BHKV']
    step = jax.jit(scan_delta.delta_step)
    for t in range(C + 3):
      y, state = step(*(given[name][:, t] for name in NAMES[:-1]), state)
      close(y, found[:, t], 1e-12)
    close(state, end, 1e-12)
    many = [given[name][None, :, 0] for name in NAMES[:-1]]
    start = given['start_BHKV'][None]
    close(step(*many, start)[0][0], found[:, 0], 1e-12)


def test_tokens_without_decay_and_beta_leave_the_state():
  given = inputs(2 * C, 'float32')
  used = np.arange(2 * C) < C + 3
  for name in ('g_BLH', 'beta_BLH'):
    given[name] = given[name] * used[None, :, None]
  short = {
    name: x if name == 'start_BHKV' else x[:, : C + 3]
    for name, x in given.items()
  }
  for form in FORMS:
    close(run(given, form)[1], run(short, form)[1], 1e-6)


@pytest.mark.parametrize('form', FORMS)
def test_no_later_token_changes_a_bit(form):
  given = inputs(2 * C + 3, 'float32')
  other = dict(given)
  for name in NAMES[:-1]:
    changed = 3 * given[name][:, C + 2 :]
    other[name] = jnp.concatenate([given[name][:, : C + 2], changed], 1)
  found, again = (run(x, form)[0] for x in (given, other))
  np.testing.assert_array_equal(found[:, : C + 2], again[:, : C + 2])
  assert (found[:, C + 2] != again[:, C + 2]).any()


def alike(length: int, beta: float) -> dict[str, jax.Array]:
  """One key for all tokens, nothing to write, no decay."""
  given = inputs(length, 'float32')
  given['k_BLHK'] = jnp.zeros_like(given['k_BLHK']).at[..., 0].set(1)
  given['v_BLHV'] *= 0
  given['g_BLH'] *= 0
  return given | {'beta_BLH': jnp.full_like(given['beta_BLH'], beta)}


@pytest.mark.parametrize('form', FORMS)
def test_a_beta_of_two_reflects_one_of_one_erases(form):
  for length, beta, factor in ((63, 2.0, -1), (64, 2.0, 1), (5, 1.0, 0)):
    given = alike(length, beta)
    want = np.array(given['start_BHKV'])
    want[:, :, 0] *= factor
    np.testing.assert_allclose(run(given, form, 64)[1], want, atol=1e-5)


def test_a_key_reads_back_what_was_last_written():
  given = inputs(1, 'float32', decay=0.0)
  given |= {'q_BLHK': given['k_BLHK']}
  given |= {'beta_BLH': jnp.ones_like(given['beta_BLH'])}
  np.testing.assert_allclose(run(given)[0], given['v_BLHV'], atol=1e-6)


def test_weak_decays_keep_their_digits_after_strong_ones():
  with jax.enable_x64(True):
    given = inputs(32)
    g = np.full((2, 32, 2), -1e-3)
    g[:, :20] = -300.0
    given |= {'g_BLH': jnp.asarray(g)}
    single = {name: x.astype(jnp.float32) for name, x in given.items()}
    close(run(single, chunk=32)[0], run(given, 'sequential')[0], 2e-6)


def test_far_inputs_give_no_nan():
  given = inputs(700, 'float32', batch=1)
  given |= {'g_BLH': 1e4 * given['g_BLH'], 'v_BLHV': 1e3 * given['v_BLHV']}
  for form in ('sequential', 'chunked'):
    for leaf in jax.tree.leaves(both(given, form)):
      assert np.isfinite(leaf).all()


@pytest.mark.parametrize('form', FORMS)
def test_a_decay_of_minus_infinity_forgets(form):
  """Anywhere in a chunk, twice running, and as its first and last token."""
  with jax.enable_x64(True):
    given = inputs(2 * C + 3)
    rows = jnp.array([0, 2, 3, C - 1, C, 2 * C + 2])
    cut, tiny = (
      {**given, 'g_BLH': given['g_BLH'].at[:, rows].set(value)}
      for value in (-jnp.inf, -90.0)
    )
    found, gradients = both(cut, form)
    close(found, defined(cut), 1e-13)
    close(gradients, both(tiny, 'sequential')[1], 1e-12)


def test_the_inverse_of_a_unit_triangle():
  rng = np.random.default_rng(0)
  with jax.enable_x64(True):
    for size in (1, 2, 5, 16, 33):
      strict = np.tril(0.3 * rng.normal(size=(3, size, size)), -1)
      want = np.linalg.inv(np.eye(size) + strict)
      close(scan_delta.unit_inverse(jnp.asarray(strict)), want, 1e-12)


@pytest.mark.parametrize(
  ('given', 'match'),
  [
    ({'form': 'scan'}, "form='scan'.*sequential"),
    ({'chunk': -1}, 'chunk=-1'),
  ],
)
def test_bad_fields_are_named(given, match):
  with pytest.raises(core.InputError, match=match):
    scan_delta.delta(**inputs(2, 'float32'), **given)
