"""Questions with one right answer: by hand, and on solvers of known faults."""

import numpy as np
import pytest

from wm import core
from wm.core import registry
from wm.core.measure import lacks
from wm.metrics import capability
from wm.models.serving import oracles, stateless

WORLD = registry.make('world', 'seating(length=40)')


def asked(model, world=WORLD, num=90):
  predictor = registry.make('model', model).predictor(world, 0)
  return capability.Metric(num=num)(predictor, world, 2)[0]


def test_who_is_right_and_who_guesses():
  assert (asked('oracle()').value == 1).all()
  assert (asked('solver()').value == 1).all()
  for model in ('uniform()', "solver(answer='yes')"):
    np.testing.assert_allclose(asked(model).value, 1 / 3)
  noisy = asked('solver(errors=0.1)', num=600)
  # Right: 1 of 3 answers wrong with 1/10 each; one wrong yes halves it.
  expected = 0.9 * (0.81 + 0.18 / 2 + 0.01 / 3)
  assert noisy.measured.mean() == pytest.approx(1 - 0.1 * 0.81, abs=0.04)
  assert noisy.value[noisy.measured].sum() / 600 == pytest.approx(
    expected, abs=0.05
  )


def test_by_hand():
  """A model that thinks highest of one seat, whatever was said."""
  names = ['A@1', 'B@1', 'C@3']
  likely = [WORLD.vocab.index(name) for name in names]

  class Stubborn(stateless.Stateless):
    vocab_size, end, max_len = len(WORLD.vocab), core.DEAD, 40

    def log_probs(self, tokens, lengths):
      out = np.full((*tokens.shape, self.vocab_size), -9.0, np.float32)
      out[..., likely] = -1
      out[..., -1] = 0  # No choice: does not count.
      return out

  result = capability.Metric(num=200)(Stubborn(), WORLD, 1)[0]
  answers = result.columns['answer']
  np.testing.assert_array_equal(result.value == 1, np.isin(answers, names))
  assert 0 < result.value.mean() < 1


def test_questions_are_the_worlds_and_rows_say_them():
  result = asked('oracle()')
  for prefix, state, answer in zip(
    *(result.columns[name] for name in ('prefix', 'state', 'answer')),
    strict=True,
  ):
    reached = WORLD.parse(','.join(prefix.split()))
    assert WORLD.format(reached[0]) == state
    after = WORLD.advance(reached, np.array([WORLD.vocab.index(answer)]))
    np.testing.assert_array_equal(after, reached)
  assert (result.group[:, None] == result.group).any(1).all()
  sample = asked('oracle()', num=7)
  np.testing.assert_array_equal(
    sample.columns['prefix'], result.columns['prefix'][:7]
  )


def test_what_is_not_answered_is_no_mistake():
  silent = asked('solver(silent=1.0)')
  assert set(silent.reason) == {'no_answer'}
  brief = registry.make('world', 'seating(length=4)')
  lengths = brief.questions(90, 0).lengths
  assert (lengths >= 4).any()
  reasons = asked('oracle()', brief).reason
  assert set(reasons) == {'', 'too_long'}


def test_worlds_without_questions_say_so():
  world = registry.make('world', 'lattice()')
  predictor = oracles.Oracle(world)
  missing = lacks(capability.Metric(), type(predictor), type(world))
  assert missing == [core.Verbal.questions]
  with pytest.raises(core.InputError, match='num=0'):
    capability.Metric(num=0)
