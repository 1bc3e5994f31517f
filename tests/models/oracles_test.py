"""Oracles, uniform, user callables, and their sessions."""

import sys

import numpy as np
import pytest

from tests import plain, tiny
from wm import core
from wm.core import accept, basics, registry
from wm.models.serving import oracles, stateless

SPECS = (
  'uniform',
  'oracle',
  'noisy_oracle(illegal=0.2, wrong=0.3)',
  "noisy_oracle(illegal=0.1, wrong=0.5, by='prefix')",
  'solver()',
  "adversary(kind='leaky')",
  "adversary(kind='peaked')",
  "adversary(kind='memoriser', num=5)",
  "adversary(kind='forgets', moves=2)",
)


def _make(spec, world=None, seed=0):
  return registry.resolve('model', spec).predictor(world or tiny.World(), seed)


def _rows(num=8, seed=0):
  sequences = tiny.World().sample(num, seed)
  return sequences.tokens, sequences.lengths


class Chain(stateless.Stateless):
  """Logits that depend on all tokens so far; a predictor by `log_probs`."""

  vocab_size, end, max_len = len(tiny.VOCAB), tiny.END, 12

  def log_probs(self, tokens, lengths):
    history = np.zeros(tokens.shape, np.uint64)
    mixed = np.zeros(len(tokens), np.uint64)
    for t in range(tokens.shape[1]):
      mixed = basics.hash64(mixed, tokens[:, t])
      history[:, t] = mixed
    mass = 1 + basics.uniforms(history[..., None], np.arange(self.vocab_size))
    return np.log(mass / mass.sum(-1, keepdims=True)).astype(np.float32)


def _all():
  return [_make(spec) for spec in SPECS] + [Chain()]


@pytest.mark.parametrize('predictor', _all(), ids=[*SPECS, 'stateless'])
def test_probabilities_sum_to_one_or_nothing_is_possible(predictor):
  tokens, lengths = _rows()
  log_probs = predictor.log_probs(tokens, lengths)
  assert log_probs.shape == (*tokens.shape, len(tiny.VOCAB))
  assert log_probs.dtype == np.float32
  total = np.exp(log_probs).sum(-1)
  for row, length in enumerate(lengths):
    inner = total[row, : length - 1]
    np.testing.assert_allclose(inner, 1, rtol=1e-5)
    assert total[row, length - 1] in (0, pytest.approx(1, rel=1e-5))


@pytest.mark.parametrize('predictor', _all(), ids=[*SPECS, 'stateless'])
def test_sessions_agree_with_log_probs(predictor):
  """Row by row, with ragged prefixes, skipped continuations, and restarts."""
  tokens, lengths = _rows()
  full = predictor.log_probs(tokens, lengths)
  at = np.array([1, 2, 3, 1, 2, 3, 1, 2])
  session = predictor.session(tokens, at, 2)
  at = np.stack([at, at], axis=1)
  rng = np.random.default_rng(0)
  for _ in range(6):
    seen = session.log_probs()
    for row, branch in np.ndindex(8, 2):
      np.testing.assert_array_equal(
        seen[row, branch], full[row, at[row, branch] - 1]
      )
    go = (rng.random((8, 2)) < 0.7) & (at < lengths[:, None])
    following = tokens[np.arange(8)[:, None], np.minimum(at, 11)]
    session.advance(np.where(go, following, core.DEAD))
    at = at + go
    again = np.array([rng.integers(8)])
    session.restart(again, tokens[again], lengths[again] - 1)
    at[again] = lengths[again] - 1


@pytest.mark.parametrize('predictor', _all(), ids=[*SPECS, 'stateless'])
def test_batches_do_not_matter(predictor):
  tokens, lengths = _rows()
  full = predictor.log_probs(tokens, lengths)
  for row in range(8):
    alone = predictor.log_probs(tokens[row : row + 1], lengths[row : row + 1])
    used = lengths[row]
    np.testing.assert_array_equal(alone[0, :used], full[row, :used])


def test_oracle_supports_exactly_what_is_legal():
  world = tiny.World()
  predictor = _make('oracle')
  session = predictor.session(np.zeros((1, 1), np.int32), np.array([0]), 1)
  mass = np.exp(session.log_probs()[0, 0])
  np.testing.assert_allclose(mass, [0] * 4 + [0.25] * 4, rtol=2e-3)
  tokens, lengths = (
    np.array([[7, tiny.END], [4, 1]], np.int32),
    np.array([1, 2]),
  )
  log_probs = predictor.log_probs(tokens, lengths)
  np.testing.assert_allclose(
    np.exp(log_probs[0, 0]), [0, 0.5, 0.5, 0, 0, 0, 0, 0], rtol=2e-3
  )
  assert np.isneginf(log_probs[1, 1]).all()  # `end` at node 0 is dead.
  assert (world.legal(np.array([[3]])) == (log_probs[0, 0] > -np.inf)).all()


def test_oracle_prefers_the_soonest_completion():
  world = tiny.World()
  best = {
    node: int(plain.world_log_probs(world, np.array([[node]])).argmax())
    for node in range(4)
  }
  assert best == {0: tiny.X, 1: tiny.X, 2: tiny.Y, 3: tiny.END}
  states = np.array([[0], [2], [3], [-1]], np.int32)
  result = np.exp(plain.world_log_probs(world, states))
  best = (result == result.max(-1, keepdims=True)) & (result > 0)
  assert [np.flatnonzero(row).tolist() for row in best] == [
    [tiny.X, tiny.Y],
    [tiny.Y],
    [tiny.END],
    [],
  ]


def test_uniform_is_one_over_all_tokens_but_padding():
  log_probs = _make('uniform').log_probs(np.ones((1, 3), int), np.array([3]))
  np.testing.assert_allclose(
    np.exp(log_probs[0, 2]), [0] + [1 / 7] * 7, rtol=1e-6
  )


def test_noise_of_zero_is_the_oracle():
  tokens, lengths = _rows(20)
  np.testing.assert_array_equal(
    _make('noisy_oracle(illegal=0.0, wrong=0.0)').log_probs(tokens, lengths),
    _make('oracle').log_probs(tokens, lengths),
  )


def test_illegal_mass_is_on_one_token_fixed_by_the_state():
  world = tiny.World()
  predictor = _make('noisy_oracle(illegal=0.3, wrong=0.0)', world, seed=4)
  states = np.array([[0], [1], [2], [3]] * 2, np.int32)
  mass = np.exp(plain.dense(predictor, states, np.arange(8).astype(np.uint64)))
  legal = world.legal(states)
  np.testing.assert_allclose((mass * ~legal).sum(-1), 0.3, rtol=1e-5)
  assert ((mass > 0) & ~legal).sum(-1).tolist() == [1] * 8
  assert (mass[:, core.PAD] == 0).all()
  np.testing.assert_array_equal(mass[:4], mass[4:])


def test_wrong_share_is_what_was_asked():
  world = tiny.World()
  states = np.zeros((20_000, 1), np.int32)
  history = basics.hash64(np.arange(20_000))
  predictor = _make("noisy_oracle(wrong=0.4, by='prefix')", world)
  odd = (
    (plain.dense(predictor, states, history) > -np.inf) != world.legal(states)
  ).any(-1)
  # Of the states taken instead, those like node 0 (0 and 2) do not show.
  pool = world.sample_states(oracles.NoisyOracle.STATES, 0)[:, 0]
  assert odd.mean() == pytest.approx(0.4 * (pool % 2 == 1).mean(), abs=0.02)


def test_faults_by_state_agree_between_prefixes_and_by_prefix_do_not():
  prefixes = np.array([[4, 2, 0], [6, 2, 2]], np.int32)  # Both reach node 1.
  lengths = np.array([2, 3])
  for by, same in (('state', True), ('prefix', False)):
    result = set()
    for seed in range(20):
      predictor = _make(f'noisy_oracle(illegal=0.2, by={by!r})', seed=seed)
      log_probs = predictor.session(prefixes, lengths, 1).log_probs()
      result.add(bool((log_probs[0] == log_probs[1]).all()))
    assert result == ({True} if same else {True, False})


def test_stateless_sessions_need_a_token():
  with pytest.raises(core.InputError, match='empty prefix'):
    Chain().session(np.zeros((1, 1), np.int32), np.array([0]), 1)


def test_chunks_cover_rows_once():
  slices = list(core.predictor.chunks(10, 100, budget=350))
  assert [(s.start, s.stop) for s in slices] == [
    (0, 3),
    (3, 6),
    (6, 9),
    (9, 10),
  ]
  assert [s.stop for s in core.predictor.chunks(2, 10**9, budget=1)] == [1, 2]
  assert list(core.predictor.chunks(0, 5)) == []


# A user's own model.

MODEL = """
import numpy as np

def logits(tokens):
  rows, length = tokens.shape
  calls.append(tokens.shape)
  out = np.zeros((rows, length, 8))
  out[..., 2] = tokens
  return out

def short(tokens):
  return np.zeros((len(tokens), 7))

def nan(tokens):
  return np.full((*tokens.shape, 8), np.nan)

def words(tokens):
  return np.full((*tokens.shape, 8), 'x')

calls = []
table = {'logits': 1}
"""


@pytest.fixture
def model_file(tmp_path):
  path = tmp_path / 'my_model.py'
  path.write_text(MODEL)
  return path


def test_user_callable_from_a_file(model_file):
  predictor = _make(f"user(function='{model_file}:logits', rows=4)")
  tokens, lengths = _rows(6)
  log_probs = predictor.log_probs(tokens, lengths)
  expected = np.zeros((*tokens.shape, 8))
  expected[..., 2] = tokens
  expected[..., core.PAD] = -np.inf  # Padding is no token of a sequence.
  expected -= np.log(np.exp(expected).sum(-1, keepdims=True))
  used = np.arange(tokens.shape[1]) < lengths[:, None]
  np.testing.assert_allclose(log_probs[used], expected[used], rtol=1e-4)
  result = core.sample(
    predictor,
    tokens[:, :1],
    np.ones(6, int),
    num=3,
    max_len=5,
    seeds=np.arange(6),
    accept=accept.epsilon(0.01),
  )
  assert result.tokens.shape == (6, 3, 4)


def test_user_callable_always_sees_one_batch_size(model_file):
  predictor = _make(f"user(function='{model_file}:logits', rows=4)")
  tokens, lengths = _rows(6)
  predictor.log_probs(tokens, lengths)
  predictor.log_probs(tokens[:1], lengths[:1])
  shapes = predictor._function.__globals__['calls']
  assert {rows for rows, _ in shapes} == {4}
  assert max(length for _, length in shapes) <= predictor.max_len


def test_user_module_may_import_its_neighbours(model_file, monkeypatch):
  (model_file.parent / 'wm_test_helper.py').write_text('from my_model import *')
  path = model_file.with_name('wm_test_helper.py')
  before = list(sys.path)
  assert _make(f"user(function='{path}:logits')").vocab_size == 8
  monkeypatch.chdir(model_file.parent)
  monkeypatch.delitem(sys.modules, 'my_model')
  assert _make("user(function='my_model:logits')").vocab_size == 8
  monkeypatch.delitem(sys.modules, 'my_model')
  assert sys.path[: len(before)] == before  # What functions import is found.


@pytest.mark.parametrize(
  ('function', 'message'),
  [
    ('', 'expected function='),
    ('no_colon', 'expected function='),
    ('no.such.module:f', "no module 'no'"),
    ('no_such_file.py:f', 'no file'),
    ('numpy:no_such_thing', 'no_such_thing'),
    ('numpy:pi', 'of type float; expected a function of tokens'),
  ],
)
def test_user_callable_that_is_not_there(function, message):
  with pytest.raises(core.InputError, match=message):
    _make(f'user(function={function!r})')
