"""N-grams: hand-counted probabilities, and a plain recount as the peer."""

import collections

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import tiny
from wm import core
from wm.core import accept, basics
from wm.data import store
from wm.models import ngram

WORLD = tiny.World()
V = len(tiny.VOCAB)


def sequences(*rows: list[int]) -> core.Sequences:
  lengths = np.array([len(row) for row in rows], np.int32)
  tokens = np.zeros((len(rows), max(lengths, default=0)), np.int32)
  for n, row in enumerate(rows):
    tokens[n, : len(row)] = row
  return core.Sequences(tokens, lengths)


def recount(rows, history, model):
  """[V] probabilities by the definition, one Python loop per length."""
  start = [core.PAD] * (model.order - 1)
  p = np.array([0] + [1 / (V - 1)] * (V - 1))
  for k in range(1, model.order + 1):
    h = tuple((start + list(history))[len(history) + model.order - k :])
    seen = collections.Counter()
    for row in rows:
      padded = start + list(row)
      for t in range(model.order, len(padded)):
        if tuple(padded[t - k + 1 : t]) == h:
          seen[padded[t]] += 1
    total = sum(seen.values())
    if total:
      counts = np.array([seen[w] for w in range(V)])
      p = (counts + model.smoothing * p) / (total + model.smoothing)
  return p


def test_untrained_is_uniform_over_all_but_padding():
  got = (
    ngram.Model()
    .predictor(WORLD, 0)
    .log_probs(np.array([[4, 2, 3]]), np.array([3]))
  )
  assert got.shape == (1, 3, V)
  assert got.dtype == np.float32
  np.testing.assert_allclose(np.exp(got[..., 1:]), 1 / (V - 1), rtol=1e-6)
  assert (got[..., 0] == -np.inf).all()


rows_of_tokens = st.lists(
  st.lists(st.integers(1, V - 1), min_size=1, max_size=7),
  min_size=1,
  max_size=6,
)


@settings(max_examples=60, deadline=None)
@given(
  rows=rows_of_tokens,
  history=st.lists(st.integers(1, V - 1), min_size=1, max_size=6),
  order=st.integers(1, 4),
  smoothing=st.sampled_from([0.0, 0.1, 2.0]),
)
def test_agrees_with_a_plain_recount(rows, history, order, smoothing):
  model = ngram.Model(order, smoothing)
  fitted = model.fit([sequences(*rows)], WORLD)
  got = fitted.log_probs(np.array([history]), np.array([len(history)]))
  for t in range(len(history)):
    want = recount(rows, history[: t + 1], model)
    np.testing.assert_allclose(np.exp(got[0, t]), want, rtol=1e-5, atol=1e-7)
    assert want.sum() == pytest.approx(1)


def test_a_store_in_pieces_counts_like_its_sequences(tmp_path, monkeypatch):
  data = WORLD.sample(300, 1)
  store.write(
    tmp_path / 'data',
    [data.take(np.arange(0, 100)), data.take(np.arange(100, 300))],
    {'vocab_size': V},
    shard_tokens=500,
  )
  model = ngram.Model()
  whole = model.fit([data], WORLD)
  opened = store.open(tmp_path / 'data')
  monkeypatch.setattr(
    store.Store,
    'chunks',
    lambda self: (self.read(k, k + 7) for k in range(0, 300, 7)),
  )
  pieces = model.fit(opened.chunks(), WORLD)
  np.testing.assert_array_equal(whole.grams, pieces.grams)
  np.testing.assert_array_equal(whole.counts, pieces.counts)


@pytest.fixture(scope='module')
def fitted():
  return ngram.Model(order=3).fit([WORLD.sample(400, 2)], WORLD)


def test_sessions_agree_with_log_probs(fitted):
  data = WORLD.sample(6, 9)
  lengths = np.minimum(data.lengths, 3)
  session = fitted.session(data.tokens, lengths, 2)
  rng = np.random.default_rng(0)
  grown = np.repeat(data.tokens[:, None, :3], 2, 1)
  assert (lengths == 3).all()
  for _ in range(4):
    whole = fitted.log_probs(
      grown.reshape(12, -1), np.full(12, grown.shape[-1])
    )
    np.testing.assert_array_equal(
      session.log_probs().reshape(12, V), whole[:, -1]
    )
    tokens = rng.integers(1, V, (6, 2), np.int32)
    session.advance(tokens)
    grown = np.concatenate([grown, tokens[..., None]], -1)


def test_session_stays_and_restarts(fitted):
  data = WORLD.sample(2, 4)
  ones = np.array([1, 1])
  session = fitted.session(data.tokens, ones, 2)
  start = session.log_probs()
  session.advance(np.array([[core.DEAD] * 2] * 2))
  np.testing.assert_array_equal(session.log_probs(), start)
  session.advance(np.array([[2, 3], [2, 3]]))
  session.restart(np.array([1]), data.tokens[1:], ones[1:])
  np.testing.assert_array_equal(session.log_probs()[1], start[1])


@pytest.mark.parametrize(
  'rule', [accept.epsilon(0.05), accept.top_k(2), accept.top_p(0.7)]
)
def test_draws_and_acceptance_are_those_of_the_rule(fitted, rule):
  data = WORLD.sample(20, 5)
  session = fitted.session(data.tokens, np.full(20, 2), 3)
  log_probs = session.log_probs()
  uniform = basics.uniforms(np.arange(60)).reshape(20, 3)
  np.testing.assert_array_equal(
    session.draw(rule, uniform), rule.draw(log_probs, uniform)
  )
  tokens = np.random.default_rng(1).integers(-1, V, (20, 3))
  want = np.take_along_axis(
    rule.mask(log_probs), np.maximum(tokens, 0)[..., None], -1
  )[..., 0] & (tokens != core.DEAD)
  np.testing.assert_array_equal(session.accepted(rule, tokens), want)


@pytest.mark.parametrize('legal', [False, True])
def test_save_and_load_is_identity(legal, tmp_path):
  model = ngram.Model(order=3, legal=legal)
  fitted = model.fit([WORLD.sample(400, 2)], WORLD)
  model.save(fitted, tmp_path / 'model.npz')
  again = model.load(tmp_path / 'model.npz', WORLD)
  data = WORLD.sample(20, 8)
  np.testing.assert_array_equal(
    again.log_probs(data.tokens, data.lengths),
    fitted.log_probs(data.tokens, data.lengths),
  )
  assert [path.name for path in tmp_path.iterdir()] == ['model.npz']


def test_what_does_not_fit_is_refused(fitted, tmp_path):
  path = tmp_path / 'model.npz'
  with pytest.raises(core.InputError, match='no such file'):
    fitted.model.load(path, WORLD)
  fitted.model.save(fitted, path)
  with pytest.raises(core.InputError, match='order is 3, not 4'):
    ngram.Model(order=4).load(path, WORLD)
  path.write_bytes(path.read_bytes()[:200])
  with pytest.raises(core.InputError, match=r'model\.npz'):
    fitted.model.load(path, WORLD)
  path.write_bytes(b'')
  with pytest.raises(core.InputError, match=r'model\.npz'):
    fitted.model.load(path, WORLD)


@pytest.mark.parametrize('fields', [{'order': 0}, {'smoothing': -1.0}])
def test_bad_fields_are_refused(fields):
  with pytest.raises(core.InputError, match='ngram'):
    ngram.Model(**fields)


def test_a_gram_must_fit_an_integer():
  with pytest.raises(core.InputError, match='order <= 20'):
    ngram.Model(order=21).predictor(WORLD, 0)


class TestLegal:
  """An n-gram model that knows the rules."""

  @pytest.fixture(scope='class')
  def both(self):
    data = WORLD.sample(30, 3)
    return [
      ngram.Model(order=3, legal=legal).fit([data], WORLD)
      for legal in (False, True)
    ]

  def test_is_the_plain_model_restricted_to_legal_tokens(self, both):
    data = WORLD.sample(20, 8)
    plain, legal = (x.log_probs(data.tokens, data.lengths) for x in both)
    state = WORLD.init(len(data))
    for t in range(data.tokens.shape[1]):
      rows = np.flatnonzero(t < data.lengths)
      state[rows] = WORLD.advance(state[rows], data.tokens[rows, t])
      mask = WORLD.legal(state[rows])
      probs = np.where(mask, np.exp(plain[rows, t]), 0)
      going = mask.any(-1)
      expected = probs[going] / probs[going].sum(-1, keepdims=True)
      np.testing.assert_allclose(
        np.exp(legal[rows, t][going]), expected, atol=1e-6
      )
      assert (legal[rows, t][~going] == -np.inf).all()

  def test_without_a_count_all_legal_tokens_are_alike(self):
    model = ngram.Model(order=3, smoothing=0, legal=True)
    got = model.predictor(WORLD, 0).log_probs(np.array([[4, 2]]), np.array([2]))
    state = WORLD.advance(WORLD.init(1), np.array([4]))
    mask = WORLD.legal(state)[0]
    np.testing.assert_allclose(np.exp(got[0, 0]), mask / mask.sum(), atol=1e-6)

  def test_after_an_illegal_token_nothing_is_possible(self, both):
    got = both[1].log_probs(np.array([[4, 1, 2]]), np.array([3]))
    assert (got[0, 1:] == -np.inf).all()
