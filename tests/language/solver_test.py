"""Solvers with faults, against what can be worked out by hand."""

import numpy as np
import pytest

from tests import tiny
from wm import core
from wm.core import registry
from wm.core.measure import headline_quantities
from wm.evaluation import statistics
from wm.models.serving import stateless

WORLD = registry.make('world', 'seating()')
COMPRESSION = "compression(trials={}, samples=5, k=1, suffixes='world')"
RECALL = 'distinction(trials={}, samples=0, k=1, max_elements=5)'
SPECS = (
  'solver()',
  "solver(answer='yes')",
  'solver(errors=0.3)',
  "solver(errors=0.3, by='state')",
  'solver(memory=2)',
  'solver(silent=0.4, errors=0.2)',
)


def _model(spec, world=WORLD, seed=0):
  return registry.make('model', spec).predictor(world, seed)


def _score(spec, metric, num=300, world=WORLD):
  made = registry.make('metric', metric.format(num))
  result = made(_model(spec, world), world, 1)
  assert result[0].quantity == headline_quantities(made)[-1]
  return result[0]


def _value(scores):
  return statistics.summarize(scores)['value']


@pytest.mark.parametrize('people', [3, 4])
def test_a_perfect_solver_is_perfect(people):
  world = registry.make('world', f'seating(people={people})')
  for metric in (COMPRESSION, RECALL):
    scores = _score('solver()', metric, 100, world)
    assert _value(scores) == 1
    assert scores.measured.sum() >= 50


def test_a_solver_that_says_yes_tells_nothing_apart():
  assert _value(_score("solver(answer='yes')", COMPRESSION)) == 1
  assert _value(_score("solver(answer='yes')", RECALL)) == 0


def test_a_solver_that_is_always_wrong_is_wrong_alike():
  assert _value(_score('solver(errors=1.0)', COMPRESSION)) == 1
  assert _value(_score('solver(errors=1.0)', RECALL)) == 0


def test_faults_of_a_state_leave_compression_alone():
  spec = "solver(errors=0.2, by='state')"
  assert _value(_score(spec, COMPRESSION)) == 1
  assert 0.3 < _value(_score(spec, RECALL)) < 1


def test_faults_of_a_question_by_formula():
  """Right after both prefixes or wrong after both, for each of 5 suffixes."""
  errors, num = 0.1, 1500
  agree = (1 - errors) ** 2 + errors**2
  scores = _score(f'solver(errors={errors})', COMPRESSION, num)
  # Five draws, each of 21 or of the legal ones by even chances, repeat.
  legal = WORLD.legal(WORLD.sample_states(400, 3))
  chance = 0.5 / 21 + 0.5 * legal[:, 1:] / legal.sum(1)[:, None]
  rng = np.random.default_rng(0)
  distinct = [len(set(rng.choice(21, 5, p=row))) for row in chance]
  expected = np.mean(agree ** np.array(distinct))
  assert _value(scores) == pytest.approx(expected, abs=0.05)
  result = _score(f'solver(errors={errors})', RECALL, num)
  assert _value(result) == pytest.approx((1 - errors) ** 2, abs=0.04)


def _statements(scores, name):
  ids = {word: n for n, word in enumerate(WORLD.vocab)}
  return [[ids[w] for w in text.split()] for text in scores.columns[name]]


@pytest.mark.parametrize('memory', [1, 2])
def test_a_short_memory_by_hand(memory):
  """It agrees exactly where the last statements leave the same."""
  metric = COMPRESSION.replace('samples=5', 'samples=200')
  scores = _score(f'solver(memory={memory})', metric, 150)
  ids = []
  for name in ('prefix', 'other_prefix'):
    rows = [row[-memory:] for row in _statements(scores, name)]
    states = [
      WORLD.parse(','.join(WORLD.vocab[t] for t in row)) for row in rows
    ]
    ids.append(np.concatenate(states)[:, 0])
  expected = ids[0] == ids[1]
  assert 0.1 < expected.mean() < 1
  np.testing.assert_array_equal(scores.value, expected)


def test_a_longer_memory_than_the_prefix_is_no_fault():
  for metric in (COMPRESSION, RECALL):
    assert _value(_score('solver(memory=5)', metric, 60)) == 1


def test_no_answer_is_a_third_outcome():
  scores = _score('solver(silent=1.0)', COMPRESSION)
  assert set(scores.reason) == {'no_answer'}
  assert scores.counts['no_answer'] == 300 * 2 * 5
  sample = _score('solver(silent=0.3)', COMPRESSION)
  assert _value(sample) == 1
  assert 0 < (sample.reason == 'no_answer').sum() < 60
  asked = 0.3 * 300 * 2 * 5
  assert sample.counts['no_answer'] == pytest.approx(asked, rel=0.1)


@pytest.mark.parametrize('spec', SPECS)
def test_single_answers_are_the_next_tokens(spec):
  """`next_mask` is what the questions, put one by one, give."""
  world = registry.make('world', 'seating(length=4)')
  fast = _model(spec, world)
  slow = stateless.Accepting(
    lambda p, s: fast.answers(p, s),
    vocab_size=fast.vocab_size,
    end=fast.end,
    max_len=fast.max_len,
  )
  result = world.sample(20, 0)
  log_probs = [m.log_probs(result.tokens, result.lengths) for m in (fast, slow)]
  np.testing.assert_array_equal(*log_probs)
  assert np.isfinite(log_probs[0]).any()


@pytest.mark.parametrize('spec', SPECS)
def test_a_whole_suffix_is_legal_as_a_whole(spec):
  """Without faults, an answer about several tokens is that of each in turn."""
  fast = _model('solver()')
  tokens = WORLD.sample(10, 4).tokens
  prefixes = [tuple(row[:2]) for row in tokens.tolist()]
  assert (fast.answers(prefixes, [tuple(row[2:]) for row in tokens]) == 1).all()
  bad = [(*row[2:4], core.PAD) for row in tokens.tolist()]
  assert not _model(spec).answers(prefixes, bad).clip(0).any()


def test_it_runs_on_worlds_that_state_a_task():
  for world in (tiny.World(), registry.make('world', 'maps()')):
    result = world.sample(5, 0)
    for spec in ('solver()', 'solver(memory=1)', 'solver(memory=100)'):
      model = _model(spec, world)
      log_probs = model.log_probs(result.tokens, result.lengths)
      at = np.arange(result.tokens.shape[1] - 1) < result.lengths[:, None] - 1
      taken = np.take_along_axis(
        log_probs[:, :-1], result.tokens[:, 1:, None], 2
      )
      if spec != 'solver(memory=1)':
        assert np.isfinite(taken[..., 0][at]).all()


def test_seeds_move_faults():
  tokens, lengths = WORLD.sample(30, 0).tokens, np.full(30, 3)
  first, again, other = (
    _model('solver(errors=0.2)', seed=s).log_probs(tokens, lengths)[:, :3]
    for s in (0, 0, 1)
  )
  np.testing.assert_array_equal(first, again)
  assert (first != other).any()
