"""Acceptance rules: masks, draws, NumPy and JAX alike."""

import hypothesis
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from wm import core
from wm.core import accept, basics, registry

RULES = (
  accept.epsilon(0.01),
  accept.epsilon(0.2),
  accept.epsilon(0),
  accept.top_k(1),
  accept.top_k(3),
  accept.top_k(50),
  accept.top_p(0.5),
  accept.top_p(0.9),
  accept.top_p(1),
  accept.published(0.01),
)


def _logs(*probs):
  with np.errstate(divide='ignore'):
    return np.log(np.array(probs, np.float32))


def _random(seed, shape=(40, 30)):
  rng = np.random.default_rng(seed)
  probs = rng.dirichlet(np.full(shape[-1], 0.2), shape[:-1])
  probs[rng.random(shape) < 0.2] = 0
  return _logs(*(probs / probs.sum(-1, keepdims=True)))


@pytest.mark.parametrize('rule', RULES, ids=repr)
def test_numpy_and_jax_agree(rule):
  log_probs = _random(0)
  uniform = np.random.default_rng(1).random(40, np.float32)
  np.testing.assert_array_equal(
    rule.mask(log_probs), np.asarray(rule.mask(jnp.asarray(log_probs)))
  )
  np.testing.assert_array_equal(
    rule.draw(log_probs, uniform),
    np.asarray(rule.draw(jnp.asarray(log_probs), jnp.asarray(uniform))),
  )


def test_epsilon_is_strict():
  # 1/4 is exact in float32, and so is its logarithm's comparison.
  mask = accept.epsilon(0.25).mask(_logs(0.25, 0.25, 0.5))
  assert mask.tolist() == [False, False, True]
  assert accept.epsilon(0).mask(_logs(0, 1e-30)).tolist() == [False, True]


@pytest.mark.parametrize('k', [1, 2, 4, 7])
def test_top_k_takes_all_that_are_as_likely(k):
  mask = accept.top_k(k).mask(_logs(*[0.125] * 8))
  assert mask.all()
  falling = accept.top_k(k).mask(_logs(*np.arange(8, 0, -1) / 36))
  assert np.flatnonzero(falling).tolist() == list(range(k))
  mixed = accept.top_k(2).mask(_logs(0.2, 0.3, 0.2, 0.3))
  assert np.flatnonzero(mixed).tolist() == [1, 3]
  tied = accept.top_k(3).mask(_logs(0.2, 0.3, 0.2, 0.3))
  assert tied.all()


def test_top_p_takes_the_token_that_crosses():
  log_probs = _logs(0.1, 0.5, 0.15, 0.25)
  kept = {
    mass: np.flatnonzero(accept.top_p(mass).mask(log_probs)).tolist()
    for mass in (0.3, 0.5, 0.51, 0.74, 0.76, 0.95)
  }
  assert kept == {
    0.3: [1],
    0.5: [1],
    0.51: [1, 3],
    0.74: [1, 3],
    0.76: [1, 2, 3],
    0.95: [0, 1, 2, 3],
  }


def test_top_p_takes_all_that_are_as_likely():
  mask = accept.top_p(0.6).mask(_logs(0.25, 0.25, 0.25, 0.25))
  assert mask.all()


@pytest.mark.parametrize('rule', RULES, ids=repr)
def test_probability_zero_is_never_accepted(rule):
  log_probs = _logs([0, 1, 0, 0], [0, 0, 0, 0], [0.5, 0, 0.5, 0])
  assert not (rule.mask(log_probs) & np.isneginf(log_probs)).any()
  uniform = np.array([0.999, 0.5, 0.999], np.float32)
  drawn = rule.draw(log_probs, uniform)
  assert drawn[:2].tolist() == [1, core.DEAD]
  assert drawn[2] in (0, 2)


@hypothesis.settings(deadline=None, max_examples=60)
@hypothesis.given(
  hnp.arrays(np.float32, 6, elements=st.floats(0, 1, width=32)),
  st.floats(0, 1, exclude_max=True, width=32),
  st.sampled_from(RULES),
)
def test_draw_never_gives_a_refused_token(weights, uniform, rule):
  total = weights.sum()
  log_probs = _logs(*(weights / total if total > 0 else weights))
  drawn = int(rule.draw(log_probs, np.float32(uniform)))
  mask = rule.mask(log_probs)
  assert (drawn == core.DEAD) == (not mask.any())
  assert drawn == core.DEAD or mask[drawn]


def test_draw_at_the_edges_of_the_uniform():
  log_probs = _logs(0.25, 0.0, 0.5, 0.25)
  rule = accept.epsilon(0.01)
  edges = np.array([0, 0.2499, 0.25, 0.7499, 0.75, 1 - 2**-24], np.float32)
  drawn = [int(rule.draw(log_probs, edge)) for edge in edges]
  assert drawn == [0, 0, 2, 2, 3, 3]


def test_a_line_at_the_whole_mass_draws_the_last_accepted_token():
  # Rounding may put the line there, as a uniform of 1 does. Of 500 tokens, in
  # several blocks of a draw, only two of the first have mass.
  log_probs = _logs(*np.bincount([3, 5], minlength=500) / 2)
  rule, edge = accept.epsilon(0.01), np.float32(1)
  assert int(rule.draw(log_probs, edge)) == 5
  assert int(rule.draw(jnp.asarray(log_probs), jnp.asarray(edge))) == 5


def test_draw_frequencies_are_renormalised():
  log_probs = np.tile(_logs(0.004, 0.396, 0.1, 0.5), (40_000, 1))
  uniform = basics.uniforms(9, np.arange(40_000))
  drawn = accept.epsilon(0.2).draw(log_probs, uniform)
  share = np.bincount(drawn, minlength=4) / 40_000
  np.testing.assert_allclose(share, [0, 0.442, 0, 0.558], atol=0.01)


@pytest.mark.parametrize(
  'text',
  ['epsilon(1.0)', 'epsilon(-0.1)', 'top_k(0)', 'top_p(0.0)', 'top_p(1.5)'],
)
def test_bad_parameters_are_named(text):
  with pytest.raises(core.InputError, match='expected'):
    registry.make('accept', text)


def test_rules_are_hashable_and_have_specs():
  for rule in RULES:
    assert hash(rule) == hash(registry.make('accept', registry.spec(rule)))


@pytest.mark.parametrize('rule', RULES, ids=repr)
@pytest.mark.parametrize('spread', [0.05, 2.0])
def test_numpy_and_jax_agree_on_many_tokens(rule, spread):
  # More than one block of a draw, and more tokens than top_p tries first.
  rng = np.random.default_rng(3)
  log_probs = _logs(*rng.dirichlet(np.full(500, spread), 60))
  log_probs[:, ::7] = -np.inf
  log_probs[:, 1::7] = log_probs[:, 2::7]  # Ties.
  uniform = rng.random(60, np.float32)
  log_probs -= np.log(np.exp(log_probs).sum(-1, keepdims=True))
  on_device = jnp.asarray(log_probs)
  mask = rule.mask(log_probs)
  np.testing.assert_array_equal(mask, np.asarray(rule.mask(on_device)))
  drawn = np.asarray(rule.draw(on_device, jnp.asarray(uniform)))
  np.testing.assert_array_equal(drawn == core.DEAD, ~mask.any(-1))
  assert mask[np.arange(60), drawn][drawn != core.DEAD].all()
  # Sums rounded in another order may move a draw by one accepted token.
  expected = rule.draw(log_probs, uniform)
  assert (drawn == expected).mean() > 0.95


def test_top_p_of_one_row_does_not_depend_on_another():
  flat, steep = np.full(500, 1 / 500), np.full(500, 1e-5)
  steep[40] = 1 - 499e-5
  rule = accept.top_p(0.9)
  both = np.asarray(rule.mask(jnp.asarray(_logs(flat, steep))))
  alone = np.asarray(rule.mask(jnp.asarray(_logs(steep))))
  np.testing.assert_array_equal(both[1:], alone)
  # All tokens of the flat row are as likely as the last that is needed.
  assert both.sum(-1).tolist() == [500, 1]


@pytest.mark.parametrize('share', [0.0, 0.02, 0.3, 1.0])
def test_drawing_from_a_list_is_drawing_from_the_row(share):
  rng = np.random.default_rng(3)
  for size in (4, 61, 700):
    kept = rng.random((5, 40, size)) < share
    log_probs = np.where(kept, rng.normal(size=kept.shape), -np.inf)
    log_probs = log_probs.astype(np.float32)
    uniform = rng.random((5, 40)).astype(np.float32)
    uniform[0, :20], uniform[0, 20:] = 0, 1 - 2**-24
    mask = log_probs > -1
    np.testing.assert_array_equal(
      accept._draw_sparse(mask, log_probs, uniform),
      accept._draw_dense(mask, log_probs, uniform),
    )
