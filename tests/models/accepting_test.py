"""Predictors that only answer, and their sessions."""

import numpy as np
import pytest

from tests import tiny
from wm import core
from wm.core import accept
from wm.models.serving import oracles, stateless

WORLD = tiny.World()
ANY = accept.epsilon(0.5)


class Asked:
  """The world's answers, and every question that was put."""

  def __init__(self) -> None:
    self.questions: list[tuple[tuple[int, ...], tuple[int, ...]]] = []

  def __call__(self, prefixes, suffixes):
    asked = list(zip(prefixes, suffixes, strict=True))
    self.questions += asked
    return np.array([self.legal(*item) for item in asked])

  def legal(self, prefix, suffix):
    tokens = np.array([prefix + suffix])
    steps, _ = WORLD.walk(WORLD.init(1), tokens, np.array([tokens.size]))
    return bool(steps[0] == tokens.size)


def _model(accepts=None, cls=stateless.Accepting, **fields):
  return cls(
    accepts or Asked(),
    vocab_size=len(WORLD.vocab),
    end=WORLD.end,
    max_len=WORLD.max_len,
    **fields,
  )


class Masking(stateless.Accepting):
  def next_mask(self, tokens, lengths):
    _, states = WORLD.walk(WORLD.init(len(tokens)), tokens, lengths)
    return WORLD.legal(states)


@pytest.mark.parametrize('cls', [stateless.Accepting, Masking])
def test_its_language_is_what_it_says_yes_to(cls):
  result = WORLD.sample(6, 0)
  model = _model(cls=cls)
  log_probs = model.log_probs(result.tokens, result.lengths)
  oracle = oracles.Oracle(WORLD).log_probs(result.tokens, result.lengths)
  used = np.arange(result.tokens.shape[1]) < result.lengths[:, None]
  np.testing.assert_array_equal(
    np.isfinite(log_probs)[used], np.isfinite(oracle)[used]
  )
  mass = np.exp(log_probs[used])
  sample = np.isfinite(log_probs[used])
  expected = sample / np.maximum(sample.sum(-1, keepdims=True), 1)
  np.testing.assert_allclose(mass, expected, rtol=1e-6)


@pytest.mark.parametrize('cls', [stateless.Accepting, Masking])
def test_a_session_accepts_by_any_rule(cls):
  result = WORLD.sample(6, 0)
  model = _model(cls=cls)
  session = model.session(result.tokens, np.ones(6, int), 2)
  _, states = WORLD.walk(WORLD.init(6), result.tokens, np.ones(6, np.int32))
  legal = np.repeat(WORLD.legal(states)[:, None], 2, axis=1)
  assert (legal.sum(-1) == 2).any()  # Of a half each: not more than 0.5.
  for token in range(len(WORLD.vocab)):
    got = session.accepted(ANY, np.full((6, 2), token))
    np.testing.assert_array_equal(got, legal[..., token])
  np.testing.assert_array_equal(session.mask(ANY), legal)
  drawn = session.draw(ANY, np.full((6, 2), 0.99, np.float32))
  last = legal.shape[-1] - 1 - legal[..., ::-1].argmax(-1)
  np.testing.assert_array_equal(drawn, last)
  assert not session.accepted(ANY, np.full((6, 2), core.DEAD)).any()


def test_it_asks_about_the_tokens_at_hand_and_about_each_once():
  asked = Asked()
  session = _model(asked).session(np.full((3, 1), tiny.AT), np.ones(3, int), 2)
  tokens = np.array([[tiny.X, tiny.Y], [tiny.X, core.DEAD], [tiny.X, tiny.X]])
  session.accepted(ANY, tokens)
  assert sorted(asked.questions) == [
    ((tiny.AT,), (tiny.X,)),
    ((tiny.AT,), (tiny.Y,)),
  ]
  asked.questions.clear()
  session.mask(ANY)
  assert len(asked.questions) == len(WORLD.vocab) - 1


def test_a_prefix_may_be_empty():
  session = _model().session(np.zeros((2, 0), np.int32), np.zeros(2, int), 1)
  np.testing.assert_array_equal(
    session.mask(ANY)[0, 0], WORLD.legal(WORLD.init(1))[0]
  )
  session.advance(np.full((2, 1), tiny.AT))
  _, state = WORLD.walk(WORLD.init(1), np.array([[tiny.AT]]), np.array([1]))
  np.testing.assert_array_equal(session.mask(ANY)[1, 0], WORLD.legal(state)[0])


def test_silence_is_an_answer_but_not_yes():
  model = _model(lambda prefixes, suffixes: np.full(len(prefixes), -1))
  np.testing.assert_array_equal(model.answers([(1,)], [(2, 3)]), [-1])
  assert not np.isfinite(model.log_probs(np.array([[1]]), np.array([1]))).any()
  assert not len(model.answers([], []))


@pytest.mark.parametrize(
  'outcome', [np.zeros(3, int), np.full(2, 2), np.array([0.5, 1]), None]
)
def test_answers_are_checked(outcome):
  model = _model(lambda prefixes, suffixes: outcome, label='a reader')
  with pytest.raises(core.InputError, match='a reader gave') as error:
    model.answers([(1,), (2,)], [(2,), (2,)])
  assert '2 answers' in str(error.value)


def test_many_questions_come_in_parts(monkeypatch):
  monkeypatch.setattr('wm.models.serving.stateless.QUESTIONS', 5)
  sizes = []

  def accepts(prefixes, suffixes):
    sizes.append(len(prefixes))
    return np.array([prefix[0] % 2 for prefix in prefixes])

  result = _model(accepts).answers([(n,) for n in range(12)], [(1,)] * 12)
  np.testing.assert_array_equal(result, np.arange(12) % 2)
  assert sizes == [5, 5, 2]
