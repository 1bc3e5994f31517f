"""Networks that read a row of tokens as one position."""

import functools

import jax
import numpy as np
import pytest

import wm
from tests.marks import few
from wm import core
from wm.core import adapting, registry
from wm.models.nn import network
from wm.models.serving import networks

V, LONGEST, B, M, K = 13, 11, 5, 2, 2
SPECS = (
  'transformer(layers=1, width=16, patch=2)',
  'lstm(layers=1, width=16, patch=2)',
  'transformer(layers=2, width=16, patch=2, scan=True)',
  'mamba(layers=1, width=16, state=4, patch=2)',
)


@functools.cache
def predictor(spec: str) -> networks.NetworkPredictor:
  model = registry.make('model', spec)
  shape = network.NetworkSpec(model, V, LONGEST)
  # Large weights: a careless network would show it.
  params = jax.tree.map(lambda leaf: 3 * leaf, network.init(shape, 0))
  return networks.NetworkPredictor(model, params, V, core.DEAD, LONGEST)


def tokens() -> np.ndarray:
  return np.random.default_rng(0).integers(1, V, (B, LONGEST)).astype(np.int32)


FULL = np.full(B, LONGEST)


@pytest.fixture(params=SPECS)
def spec(request) -> str:
  return request.param


def changed(outcome: networks.NetworkPredictor, place: int) -> np.ndarray:
  """[L]: at which places does another token at `place` change anything?"""
  other = tokens()
  other[:, place] = 1 + other[:, place] % (V - 1)
  before = outcome.log_probs(tokens(), FULL)
  return (outcome.log_probs(other, FULL) != before).any((0, 2))


@pytest.mark.parametrize('place', few(8, [0, 1, 2, 7, 9]))
def test_y_does_not_see_its_own_x(spec, place):
  seen = np.arange(LONGEST) >= place
  if place % K == 0:
    seen[place] = False  # What follows an x is that row's y.
  np.testing.assert_array_equal(changed(predictor(spec), place), seen)


def test_an_x_place_has_the_hidden_state_of_the_row_before(spec):
  result = predictor(spec)
  for layer in (0, 1, -1):
    hidden = result.hidden(tokens(), FULL, layer)
    assert hidden.shape == (B, LONGEST, 16)
    np.testing.assert_array_equal(hidden[:, 1:9:2], hidden[:, 2:10:2])
    assert (hidden[:, 2:9:2] != hidden[:, 3:10:2]).any(-1).all()
    # No row is before the first: all sequences begin alike.
    assert (hidden[:, 0] == hidden[0, 0]).all()


def test_sessions_give_what_whole_sequences_give_from_any_token_on(spec):
  result, inputs, rows = predictor(spec), tokens(), np.arange(B)
  full = result.log_probs(inputs, FULL)
  before = 1 + rows
  session = result.session(inputs, before, M)
  for k in range(LONGEST - B):
    want = np.repeat(full[rows, before + k - 1][:, None], M, axis=1)
    np.testing.assert_allclose(session.log_probs(), want, atol=1e-4)
    session.advance(np.repeat(inputs[rows, before + k][:, None], M, axis=1))


def test_sessions_restart_and_wait_in_the_middle_of_a_row(spec):
  result, inputs, rows = predictor(spec), tokens(), np.arange(B)
  full = result.log_probs(inputs, FULL)
  session = result.session(inputs, np.full(B, 2), M)
  session.advance(np.repeat(inputs[:, 2:3], M, 1))
  # Row 0 begins again; rows 3 and 4 wait.
  session.restart(np.array([0]), inputs[:1], np.array([5]))
  place = np.array([5, 3, 3, 3, 3])
  first = inputs[rows, place][:, None].repeat(M, 1)
  first[3:] = core.DEAD
  session.advance(first)
  place[:3] += 1
  want = np.repeat(full[rows, place - 1][:, None], M, axis=1)
  np.testing.assert_allclose(session.log_probs(), want, atol=1e-4)


def test_all_lengths_give_the_same(spec):
  result = predictor(spec)
  full = result.log_probs(tokens(), FULL)
  odd = np.array([1, 2, 3, 6, 9])
  sample = result.log_probs(tokens(), odd)
  used = np.arange(LONGEST) < odd[:, None]
  np.testing.assert_array_equal(sample[used], full[used])
  assert np.allclose(np.exp(full).sum(-1), 1, atol=1e-5)


def test_going_on_from_activations_that_were_read_changes_nothing(spec):
  result = predictor(spec)
  full = result.log_probs(tokens(), FULL)
  for layer in (0, 1, -1):
    hidden = result.hidden(tokens(), FULL, layer)
    again = result.patched(tokens(), FULL, layer, hidden)
    np.testing.assert_allclose(again, full, atol=1e-5)
    hidden[:, 5] += 1.0  # The last token of row 2.
    moved = result.patched(tokens(), FULL, layer, hidden)
    assert (moved[:, :5] == again[:, :5]).all()
    assert (moved[:, 5:7] != again[:, 5:7]).any(-1).all()


def test_the_published_model_of_orbits_has_two_positions_more():
  # Vafa et al. 2025: 999 rows are read. Here the pads before them and the last
  # row, which a predictor may be asked about, have positions too.
  model = registry.make(
    'model',
    "transformer(layers=12, width=768, patch=2, mlp='gelu_erf', "
    'head_bias=True)',
  )
  shape = network.NetworkSpec(model, 7003, 2000)
  assert shape.num_params == 108_530_870 + 2 * 768


def test_adapted_networks_learn_labels_at_either_token():
  result = predictor(SPECS[0])
  sets = adapting.FewShotTasks(
    tokens()[None],
    np.tile(np.array([[2, 5]], np.int32), (1, B, 1)),
    np.random.default_rng(1).integers(0, 2, (1, B, 2, 1)).astype(np.int32),
  )
  asked = adapting.QueryPoints(*sets[:2])
  tuning = adapting.FineTuneConfig(rate=0.03)
  out = result.adapt(sets, asked, adapting.Classes(2), (60,), 0, tuning)
  output = out[0].argmax(-1)
  np.testing.assert_array_equal(output, sets.labels)


@pytest.mark.parametrize(
  ('model', 'world', 'says'),
  [
    ('lstm(patch=2)', 'lattice()', 'patch=2, but lattice has no rows'),
    ('transformer(patch=3)', 'orbits()', 'rows of 2 tokens; expected patch=1'),
    ('transformer(patch=0)', 'orbits()', 'patch=0; expected at least 1'),
    (
      'transformer(patch=2, context=80)',
      'orbits()',
      'context=80 is shorter than the longest sequence, 82 rows',
    ),
  ],
)
def test_bad_rows_are_refused_in_a_line(model, world, says, one_line):
  with one_line(says):
    wm.load_predictor(model, world)
