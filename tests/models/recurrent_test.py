"""What all recurrent families keep to, and the two oldest of them."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from wm.core import registry
from wm.models import lstm, rnn
from wm.models.base import recurrent
from wm.models.nn import network

V, LENGTH = 11, 21


def families() -> list[str]:
  return [
    name
    for name in registry.names('model')
    if issubclass(registry.find('model', name), recurrent.RecurrentModel)
  ]


def tokens(rows: int = 3, length: int = LENGTH) -> np.ndarray:
  return np.random.default_rng(0).integers(1, V, (rows, length))


@functools.cache
def made(model: recurrent.RecurrentModel, outputs: int = 0) -> nnx.Module:
  shape = network.NetworkSpec(model, V, LENGTH, outputs)
  return nnx.merge(shape.graph, network.init(shape, 0))


def changed(model: recurrent.RecurrentModel, **fields) -> nnx.Module:
  """The same weights under other fields."""
  other = dataclasses.replace(model, **fields)
  graph = network.NetworkSpec(other, V, LENGTH).graph
  return nnx.merge(graph, nnx.split(made(model))[1])


@pytest.fixture(params=families())
def model(request) -> recurrent.RecurrentModel:
  return registry.make('model', request.param)


def but(*names: str) -> list:
  """Families; those named are slow, as another test implies what is asked."""
  return [
    pytest.param(name, marks=pytest.mark.slow if name in names else ())
    for name in families()
  ]


def test_the_recurrent_families_are_found():
  assert {'rnn', 'lstm', 'slice'} <= set(families())


# What other families have of their own, float64_test asks.
@pytest.mark.parametrize(
  'model', but('mamba', 'mamba3', 'deltanet', 'slice'), indirect=True
)
def test_a_block_gives_the_same_by_steps_and_by_sequences(model):
  """Outputs and states, from `start`, for any leading dimensions."""
  block = made(model).blocks[0]
  rng = np.random.default_rng(1)
  x_BLD = jnp.asarray(rng.normal(size=(4, 9, model.width)), jnp.float32)
  lengths = jnp.array([0, 1, 5, 9])
  run = jax.jit(lambda x: (block(x, lengths), block(x)))
  (y_BLD, state), (whole_BLD, last) = run(x_BLD)
  for row, length in enumerate(lengths):
    np.testing.assert_allclose(
      y_BLD[row, :length], whole_BLD[row, :length], atol=1e-6
    )
  assert {leaf.dtype for leaf in jax.tree.leaves(state)} == {jnp.dtype('f4')}

  at, step = block.start((2, 2)), jax.jit(block.step)
  shapes = jax.tree.map(jnp.shape, at)
  states = [at]
  for t in range(9):
    y, at = step(x_BLD[:, t].reshape(2, 2, -1), at)
    np.testing.assert_allclose(
      y.reshape(4, -1), whole_BLD[:, t], atol=1e-5, rtol=1e-5
    )
    states.append(at)
  assert jax.tree.map(jnp.shape, at) == shapes
  close = functools.partial(np.testing.assert_allclose, atol=1e-5, rtol=1e-5)
  for row, length in enumerate([0, 1, 5, 9]):
    for result, ended, want in zip(
      *map(jax.tree.leaves, (state, last, states[length])), strict=True
    ):
      flat = np.asarray(want).reshape(4, *want.shape[2:])
      close(result[row], flat[row])
      if length == 9:
        close(ended[row], flat[row])


def test_a_step_costs_the_same_after_any_prefix(model):
  """What a session keeps has one size, whatever the sequence's length."""
  net = made(model)
  sizes = {
    sum(leaf.size for leaf in jax.tree.leaves(net.new_page(2, 3, size)))
    for size in (1, 7, 500)
  }
  assert len(sizes) == 1
  shared, _ = jax.eval_shape(
    net.prefill, jnp.zeros((2, 50), int), jnp.array([3, 50])
  )
  item = jax.eval_shape(lambda: net.new_page(2, 1, 1))
  assert [leaf.size for leaf in jax.tree.leaves(shared)] == [
    leaf.size for leaf in jax.tree.leaves(item)
  ]


# Of the others ssm_test asks the same.
@pytest.mark.parametrize(
  'model', but('mamba', 'mamba2', 'mamba3'), indirect=True
)
def test_the_stream_and_the_states_are_float32_in_bfloat16(model):
  low = changed(model, dtype='bfloat16')
  inputs = jnp.asarray(tokens())
  logits = jax.jit(low.__call__)(inputs)
  assert logits.dtype == jnp.float32
  assert np.isfinite(np.asarray(logits)).all()
  exact = jax.jit(made(model).__call__)(inputs)
  scale = float(jnp.abs(exact).max())
  np.testing.assert_allclose(logits, exact, atol=0.1 * max(scale, 1))
  assert (np.asarray(logits) != np.asarray(exact)).any()


@pytest.mark.parametrize('module', [rnn, lstm])
def test_cells_are_those_of_pytorch(module):
  torch = pytest.importorskip('torch', reason='PyTorch is not installed')
  model = module.Model(layers=2, width=12)
  net = made(model)
  kind = {'rnn': torch.nn.RNN, 'lstm': torch.nn.LSTM}[model.name]
  peer = kind(12, 12, num_layers=2, batch_first=True)
  names = {'input': 'ih', 'state': 'hh'}
  with torch.no_grad():
    for number, block in enumerate(net.blocks):
      for name, short in names.items():
        linear = getattr(block, name)
        for part, values in (
          ('weight', np.asarray(linear.kernel[...]).reshape(12, -1).T),
          ('bias', np.asarray(linear.bias[...]).reshape(-1)),
        ):
          target = getattr(peer, f'{part}_{short}_l{number}')
          target.copy_(torch.tensor(values))
    x = np.asarray(net.embed(jnp.asarray(tokens())))
    want = peer(torch.tensor(x))[0].numpy()
  np.testing.assert_allclose(net.hidden(tokens(), -1), want, atol=1e-6)
  bound = 12**-0.5
  every = np.concatenate(
    [np.ravel(leaf) for leaf in jax.tree.leaves(nnx.split(net.blocks)[1])]
  )
  assert 0.9 * bound < np.abs(every).max() <= bound
  assert abs(every.mean()) < 0.1 * bound


@pytest.mark.parametrize('module', [rnn, lstm])
def test_dropout_is_between_the_layers_and_only_with_a_key(module):
  model = module.Model(layers=2, width=12, dropout=0.5)
  net, plain = made(model), changed(model, dropout=0.0)
  inputs, key = jnp.asarray(tokens()), jax.random.key(3)
  np.testing.assert_array_equal(net(inputs), plain(inputs))
  first = net.blocks[0](net.embed(inputs), key=key)[0]
  assert 0.4 < float((first == 0).mean()) < 0.6
  last = net.blocks[1](net.embed(inputs), key=key)[0]
  assert not bool((last == 0).any())
  item = dataclasses.replace(model, layers=1)
  np.testing.assert_array_equal(made(item)(inputs, key), made(item)(inputs))


def test_remat_changes_no_value_and_no_gradient():
  model = rnn.Model(layers=2, width=12, dropout=0.3)
  inputs, key = jnp.asarray(tokens()), jax.random.key(0)

  def run(net: nnx.Module):
    graph, params = nnx.split(net)
    return jax.jit(
      jax.value_and_grad(lambda p: nnx.merge(graph, p)(inputs, key).var())
    )(params)

  value, slopes = run(made(model))
  again, same = run(changed(model, remat=True))
  np.testing.assert_allclose(again, value, rtol=1e-6)
  jax.tree.map(
    functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-7),
    same,
    slopes,
  )
