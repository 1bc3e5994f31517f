"""What reaches beyond training: longer words, repeated tokens."""

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from tests.training import mean_mlp
from wm import core
from wm.core import registry
from wm.data import sampling
from wm.models.nn import network
from wm.options.calls import Sampling
from wm.options.training import Training
from wm.training import checkpoints, loop

mean_mlp.install()

SHORT, LONG = 8, 40
WORLD = "groups(group='z3', length={})"


def reach(model, length=LONG):
  shape = network.NetworkSpec(registry.make('model', model), 5, SHORT)
  return network.max_supported_length(shape, length)


def test_no_parameters_for_places_no_limit():
  assert reach('mean_mlp()') == LONG
  assert reach('lstm()') == LONG
  assert reach("transformer(positions='rotary')") == LONG
  assert reach('transformer()') == SHORT


def test_a_shorter_world_shortens_nothing():
  for model in ('mean_mlp()', 'transformer()'):
    assert reach(model, SHORT - 3) == SHORT


def test_a_context_reaches_as_far_as_it_goes():
  assert reach(f'transformer(context={LONG})') == LONG
  assert reach(f'transformer(context={LONG - 1})') == SHORT


@pytest.mark.parametrize(
  'objective', ['state', pytest.param('next', marks=pytest.mark.slow)]
)
def test_a_run_is_asked_about_longer_words_than_it_saw(objective, tmp_path):
  short, long = (registry.make('world', WORLD.format(n)) for n in (SHORT, LONG))
  sampling.make_dataset(
    short, tmp_path, Sampling(num=64, num_heldout=16, seed=0)
  )
  config = Training(objective=objective, steps=4, batch=16)
  loop.train(short, 'mean_mlp()', tmp_path, config)
  near, _ = checkpoints.load(tmp_path)
  far, info = checkpoints.load(tmp_path, world=long)
  assert (near.max_len, far.max_len) == (SHORT, LONG)
  assert info['run']['max_len'] == SHORT
  result = long.sample(5, 1)
  ask = 'states' if objective == 'state' else 'log_probs'
  ours = getattr(far, ask)(result.tokens, result.lengths)
  assert ours.shape[:2] == (5, LONG)
  cut = np.full(5, SHORT)
  expected = getattr(near, ask)(result.tokens[:, :SHORT], cut)
  np.testing.assert_allclose(ours[:, :SHORT], expected, atol=1e-5)
  with pytest.raises(core.InputError, match=f'takes up to {SHORT}'):
    getattr(near, ask)(result.tokens, result.lengths)


def test_a_slice_sees_a_repeated_token_where_its_path_is_a_sum():
  tokens = np.array([[1, 2, 2, 2], [1, 3, 3, 3]], np.int32)
  hidden = {}
  for path in ('values', 'sums'):
    model = registry.make('model', f'slice(layers=1, width=8, path={path!r})')
    shape = network.NetworkSpec(model, 5, SHORT)
    net = nnx.merge(shape.graph, network.init(shape, 0))
    block, x = net.blocks[0], net.embed(jnp.asarray(tokens))
    u = block.before_scan(x)
    before = jnp.concatenate([0 * u[:, :1], u[:, :-1]], axis=1)
    hidden[path] = np.asarray(block.increments(u, before))[..., 1:]
    state, outs = block.start((2,)), []
    for k in range(4):
      y, state = block.step(x[:, k], state)
      outs.append(y)
    np.testing.assert_allclose(np.stack(outs, 1), block(x)[0], atol=1e-5)
  assert not hidden['values'][:, 2:].any()
  assert hidden['sums'][:, 2:].any(-1).all()
  np.testing.assert_allclose(
    np.diff(hidden['sums'], axis=1), hidden['values'][:, 1:], atol=1e-6
  )
