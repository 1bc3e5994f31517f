"""Conformance: every network found by name; at its default size: slow."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from wm import core
from wm.core import accept, basics, registry
from wm.models.base import family
from wm.models.nn import layers, network
from wm.models.serving import networks, sessions
from wm.training import state

V, END, LONGEST, B, M = 13, 1, 20, 7, 3
ALL = accept.epsilon(0.0)


def families() -> list[str]:
  return [
    name
    for name in registry.names('model')
    if issubclass(registry.find('model', name), family.NetworkModel)
  ]


# A cache, a state in steps, and one in chunks. What is asked of these is for
# the better part up to the serving, which all families share.
SERVED = 'transformer', 'lstm', 'mamba2'
# Each step is one of a whole tile of continuations.
SMALL = {'mamba2': {'width': 32, 'channels': 16, 'state': 8}}
SMALL['mamba3'] = SMALL['mamba2']


def small(name: str) -> family.NetworkModel:
  """One layer, or several where serving is asked about: all share a stack."""
  made = registry.make('model', name)
  layers = made.layers if name in SERVED else 1
  return dataclasses.replace(made, layers=layers, **SMALL.get(name, {}))


def sized(kept: list[str]) -> list:
  """Small ones of the families that are kept; all at their default size."""
  return [
    *(pytest.param(small(name), id=name) for name in kept),
    *(
      pytest.param(
        registry.make('model', name), id=f'{name}()', marks=pytest.mark.slow
      )
      for name in families()
    ),
  ]


@pytest.fixture(params=sized(families()))
def model(request) -> family.NetworkModel:
  return request.param


@pytest.fixture(params=sized([*SERVED]))
def served(request) -> family.NetworkModel:
  return request.param


@functools.cache
def predictor(
  model: family.NetworkModel, devices: int = 1
) -> networks.NetworkPredictor:
  shape = network.NetworkSpec(model, V, LONGEST)
  # Large weights: a careless network would show it in all of these tests.
  params = jax.tree.map(lambda leaf: 3 * leaf, network.init(shape, 0))
  return networks.NetworkPredictor(
    model, params, V, END, LONGEST, devices=tuple(jax.devices()[:devices])
  )


def data() -> tuple[np.ndarray, np.ndarray]:
  rng = np.random.default_rng(0)
  tokens = rng.integers(1, V, (B, LONGEST)).astype(np.int32)
  return tokens, rng.integers(3, LONGEST + 1, B)


def trajectory(
  outcome: core.Predictor,
  rows: np.ndarray,
  num: int = M,
  session: core.Session | None = None,
) -> tuple[np.ndarray, np.ndarray]:
  """Log-probabilities and tokens of six drawn steps of the given rows."""
  tokens, lengths = data()
  before = np.minimum(lengths[rows], LONGEST - 6)
  session = session or outcome.session(tokens[rows], before, num)
  seen, drawn = [], []
  for k in range(6):
    uniform = basics.uniforms(rows[:, None], np.arange(num)[None], k)
    seen.append(session.log_probs())
    drawn.append(session.draw(ALL, uniform))
    assert session.accepted(ALL, drawn[-1]).all()
    session.advance(drawn[-1])
  return np.stack(seen, 1), np.stack(drawn, 1)


def test_log_probs_are_normalised_and_blind_to_pads(model):
  tokens, lengths = data()
  result = predictor(model).log_probs(tokens, lengths)
  assert result.shape == (B, LONGEST, V)
  assert result.dtype == np.float32
  used = np.arange(LONGEST)[None] < lengths[:, None]
  np.testing.assert_allclose(np.exp(result[used]).sum(-1), 1, atol=1e-5)
  other = np.where(used, tokens, 0)
  again = predictor(model).log_probs(other, lengths)
  np.testing.assert_array_equal(again[used], result[used])


def test_gradients_to_later_tokens_are_zero(model):
  item = dataclasses.replace(model, layers=1)
  shape = network.NetworkSpec(item, V, LONGEST)
  params, place, rare = network.init(shape, 0), 6, 5
  tokens = np.full((1, 12), 3, np.int32)
  tokens[0, place] = rare

  def logits(params: nnx.State, t: jax.Array) -> jax.Array:
    # A tied head uses the row of `rare` for its own logit, which is left out.
    out = nnx.merge(shape.graph, params)(jnp.asarray(tokens))
    return jnp.delete(out[0, t], rare).sum()

  gradient = jax.jit(jax.grad(logits))
  for t in range(12):
    rows = gradient(params, t)['embedding']['table'][...]
    assert bool((rows[rare] != 0).any()) == (t >= place), t


def test_no_later_token_changes_a_bit(model):
  tokens, _ = data()
  full = np.full(B, LONGEST)
  result = predictor(model).log_probs(tokens, full)
  changed = tokens.copy()
  changed[:, 10:] = 1 + (changed[:, 10:] + 3) % (V - 1)
  again = predictor(model).log_probs(changed, full)
  np.testing.assert_array_equal(again[:, :10], result[:, :10])
  assert (again[:, 10] != result[:, 10]).any(-1).all()


@pytest.mark.parametrize('name', ['rnn', 'transformer'])
def test_a_network_goes_on_from_its_own_activations(name):
  made = registry.make('model', name)
  result, (tokens, lengths) = predictor(made), data()
  want = result.log_probs(tokens, lengths)
  for layer in (-1, 1):
    hidden = result.hidden(tokens, lengths, layer)
    got = result.patched(tokens, lengths, layer, hidden)
    np.testing.assert_allclose(got, want, atol=1e-5)
  hidden[:, 2, 0] += 9  # It is seen there, not before, and by later tokens.
  apart = abs(result.patched(tokens, lengths, layer, hidden) - want).max((0, 2))
  assert (apart[:2] <= 1e-5).all()
  assert (apart[2:4] > 1e-4).all()
  with pytest.raises(core.InputError, match=r'layer 3 of .*: -1 to 2'):
    result.patched(tokens, lengths, 3, hidden)


def test_a_session_gives_what_whole_sequences_give(model):
  tokens, _ = data()
  full = predictor(model).log_probs(tokens, np.full(B, LONGEST))
  before = np.arange(1, B + 1)
  session = predictor(model).session(tokens, before, M)
  rows = np.arange(B)
  for k in range(LONGEST - B):
    want = np.repeat(full[rows, before + k - 1][:, None], M, axis=1)
    np.testing.assert_allclose(session.log_probs(), want, atol=1e-4)
    session.advance(np.repeat(tokens[rows, before + k][:, None], M, axis=1))


def test_rows_do_not_depend_on_how_many_there_are(model):
  result = predictor(model)
  seen, drawn = trajectory(result, np.arange(B))
  for rows in ([4], [6, 1], [3, 3, 0, 5, 2]):
    sample, tokens = trajectory(result, np.array(rows))
    np.testing.assert_array_equal(sample, seen[rows])
    np.testing.assert_array_equal(tokens, drawn[rows])


def test_rows_do_not_depend_on_tiles_and_devices(served):
  assert len(jax.devices()) >= 2
  item = predictor(served)
  tile = sessions.tile_rows(item.spec, M, item.cache_bytes)
  many = np.arange(2 * tile + 3) % B
  seen, drawn = trajectory(predictor(served), np.arange(B))
  for devices in (1, 2):
    sample, tokens = trajectory(predictor(served, devices), many)
    np.testing.assert_array_equal(sample, seen[many])
    np.testing.assert_array_equal(tokens, drawn[many])


def test_whole_sequences_do_not_depend_on_batch_and_devices(model):
  tokens, lengths = data()
  result = predictor(model).log_probs(tokens, lengths)
  again = np.tile(tokens, (30, 1)), np.tile(lengths, 30)
  for devices in (1, 2):
    many = predictor(model, devices).log_probs(*again)
    np.testing.assert_array_equal(many, np.tile(result, (30, 1, 1)))
  for row in range(B):
    item = predictor(model).log_probs(tokens[[row]], lengths[[row]])
    np.testing.assert_array_equal(item, result[[row]])


def test_sampling_does_not_depend_on_the_batch(served):
  tokens, lengths = data()
  before, seeds = np.minimum(lengths, 9), np.arange(B)
  draw = functools.partial(
    core.sample, predictor(served), num=M, max_len=LONGEST, accept=ALL
  )
  whole = draw(tokens, before, seeds=seeds)
  assert (whole.status == core.ENDED).any()
  for row in range(B):
    item = draw(tokens[[row]], before[[row]], seeds=seeds[[row]])
    size = item.tokens.shape[-1]
    np.testing.assert_array_equal(item.tokens[0], whole.tokens[row, :, :size])
    np.testing.assert_array_equal(item.status[0], whole.status[row])


def test_restart_leaves_nothing_behind(served):
  tokens, lengths = data()
  seen, drawn = trajectory(predictor(served), np.arange(B))
  session = predictor(served).session(tokens[:, ::-1], np.full(B, 8), M)
  session.advance(np.full((B, M), 2))
  kept = session.log_probs()
  sample = np.array([5, 0, 2])
  before = np.minimum(lengths, LONGEST - 6)
  session.restart(sample, tokens[sample], before[sample])
  rest = np.setdiff1d(np.arange(B), sample)
  np.testing.assert_array_equal(session.log_probs()[rest], kept[rest])
  session.restart(rest, tokens[rest], before[rest])
  again, same = trajectory(predictor(served), np.arange(B), session=session)
  np.testing.assert_array_equal(again, seen)
  np.testing.assert_array_equal(same, drawn)


def test_dead_tokens_leave_a_continuation_as_it_was(model):
  tokens, _ = data()
  before = np.full(B, 5)
  session = predictor(model).session(tokens, before, M)
  plain = predictor(model).session(tokens, before, M)
  first, second = np.full((B, M), 4), np.full((B, M), 7)
  plain.advance(first)
  middle = plain.log_probs()
  plain.advance(second)
  half = first.copy()
  half[:, 1] = core.DEAD
  start = session.log_probs()
  session.advance(half)
  np.testing.assert_array_equal(session.log_probs()[:, 1], start[:, 1])
  np.testing.assert_array_equal(session.log_probs()[:, 0], middle[:, 0])
  late = second.copy()
  late[:, 1] = first[:, 1]
  session.advance(late)
  np.testing.assert_array_equal(session.log_probs()[:, 1], middle[:, 1])
  np.testing.assert_array_equal(
    session.log_probs()[:, [0, 2]], plain.log_probs()[:, [0, 2]]
  )


def test_hidden_has_the_first_layer_and_the_last(model):
  tokens, lengths = data()
  result = predictor(model)
  last = nnx.merge(result.spec.graph, result.spec.abstract).num_layers
  widths = {
    result.hidden(tokens, lengths, layer).shape for layer in (-1, 0, last)
  }
  (shape,) = widths
  assert shape[:2] == (B, LONGEST)
  with pytest.raises(core.InputError, match=f'-1 to {last}'):
    result.hidden(tokens, lengths, last + 1)


def test_the_spec_and_the_seed_decide_the_weights(model):
  shape = network.NetworkSpec(model, V, LONGEST)
  first, again, other = (network.init(shape, seed) for seed in (3, 3, 4))
  same = jax.tree.map(lambda a, b: bool((a == b).all()), first, again)
  assert all(jax.tree.leaves(same))
  differs = jax.tree.map(lambda a, b: bool((a != b).any()), first, other)
  assert any(jax.tree.leaves(differs))
  count = sum(leaf.size for leaf in jax.tree.leaves(first))
  assert shape.num_params == count


def test_outputs_have_a_head_of_their_own(model):
  shape = network.NetworkSpec(model, V, LONGEST, 2 * V)
  tokens, _ = data()
  logits = jax.eval_shape(
    lambda params: nnx.merge(shape.graph, params)(jnp.asarray(tokens)),
    shape.abstract,
  )
  assert logits.shape == (B, LONGEST, 2 * V)
  assert logits.dtype == np.float32
  plain = network.NetworkSpec(model, V, LONGEST)
  assert shape.num_params > plain.num_params
  head = (
    network.NetworkSpec(model, V, LONGEST, 3 * V).num_params - shape.num_params
  )
  assert head % V == 0
  assert head > 0


def test_the_untrained_control_has_weights_of_its_own(model):
  tokens, lengths = data()
  control = predictor(model).untrained(1).log_probs(tokens, lengths)
  shape = network.NetworkSpec(model, V, LONGEST)
  fresh = networks.NetworkPredictor(
    model, network.init(shape, 1), V, END, LONGEST
  )
  np.testing.assert_array_equal(control, fresh.log_probs(tokens, lengths))
  assert (control != predictor(model).log_probs(tokens, lengths)).any()


def test_every_parameter_can_be_divided(model):
  shape = network.NetworkSpec(model, 2 * V, LONGEST)
  shapes = shape.shapes
  local, _ = state.memory(shapes, {'data': 1, 'model': 2})
  whole, _ = state.memory(shapes, {'data': 1, 'model': 1})
  assert local < whole
  for path, leaf in shapes.items():
    spec = layers.partition_spec(tuple(path.split('.')), leaf.shape)
    assert len(spec) == leaf.ndim


@pytest.mark.parametrize(
  ('tokens', 'lengths', 'match'),
  [
    ([[1, V]], [2], f'token {V}'),
    ([[1, -1]], [2], 'token -1'),
    ([[1] * (LONGEST + 1)], [LONGEST + 1], 'takes up to'),
    ([[1, 2]], [0], 'empty prefix'),
  ],
)
def test_bad_input_is_named(model, tokens, lengths, match):
  tokens, lengths = np.array(tokens), np.array(lengths)
  with pytest.raises(core.InputError, match=match):
    predictor(model).session(tokens, lengths, M)
  if lengths[0]:
    with pytest.raises(core.InputError, match=match):
      predictor(model).log_probs(tokens, lengths)


def test_a_session_ends_where_the_model_does(model):
  tokens, _ = data()
  session = predictor(model).session(tokens, np.full(B, LONGEST - 1), M)
  session.advance(np.full((B, M), 2))
  with pytest.raises(core.InputError, match='grows past'):
    session.advance(np.full((B, M), 2))
  with pytest.raises(core.InputError, match='ids 0 to'):
    session.advance(np.full((B, M), V))


def test_no_rows_are_no_trouble(model):
  none = np.zeros((0, 4), np.int32), np.zeros(0, np.int32)
  assert predictor(model).log_probs(*none).shape == (0, 4, V)
  session = predictor(model).session(*none, M)
  assert session.log_probs().shape == (0, M, V)
  assert session.draw(ALL, np.zeros((0, M), np.float32)).shape == (0, M)
