"""Nulls: they err as much as they are asked to, and as they say."""

import json

import numpy as np
import pytest

from tests import small
from wm import core
from wm.core import registry

CITY = 'maps(rows=6, columns=6)'


def predictor(spec: str, world: str = CITY):
  truth = registry.make('world', world)
  return registry.make('model', spec).predictor(truth, 0), truth


@pytest.mark.parametrize('kind', ['prefix', 'state', 'token', 'recency'])
def test_its_excess_loss_is_as_asked(kind):
  entries = small.scored(
    f"null(kind='{kind}', excess=0.05)", 'excess_loss(num=300)', CITY
  )
  (excess,) = [e for e in entries if e['quantity'] == 'excess_loss']
  assert excess['value'] == pytest.approx(0.05, rel=0.1)


def test_its_illegal_mass_is_as_asked_where_no_law_is_known():
  spec = "null(kind='state', illegal_mass=0.1)"
  entries = small.scored(spec, 'next_token(num=200)', 'connect4()')
  values = {e['quantity']: e['value'] for e in entries}
  assert values['valid_mass'] == pytest.approx(0.9, abs=0.02)


def test_it_is_like_a_run(tmp_path):
  scores = [{'quantity': 'excess_loss', 'value': 0.04}]
  (tmp_path / 'scores.json').write_text(json.dumps(scores))
  like, _ = predictor(f"null(like='{tmp_path}')")
  asked, _ = predictor('null(excess=0.04)')
  assert like.share == asked.share > 0


def test_like_a_perfect_run_it_makes_no_error(tmp_path):
  scores = [{'quantity': 'valid_mass', 'value': 1.0}]
  (tmp_path / 'scores.json').write_text(json.dumps(scores))
  null, _ = predictor(f"null(like='{tmp_path}')")
  assert null.share < 1e-9


@pytest.mark.parametrize('text', ['[1]', '{}', '7', '[{"value": 1}]', 'junk'])
def test_scores_that_are_none_are_one_line(tmp_path, text, one_line):
  (tmp_path / 'scores.json').write_text(text)
  with one_line('scores'):
    predictor(f"null(like='{tmp_path}')")


def test_recency_remembers_k_tokens():
  null, world = predictor("null(kind='recency', k=1, excess=0.1)")
  steps = world.sample(200, 0)
  memory = null.init(200)
  for t in range(6):
    memory = null.advance(memory, steps.tokens[:, t])
  keys = null._keys(*null._split(memory)[1:])
  assert len(np.unique(keys)) == len(np.unique(steps.tokens[:, 5]))


@pytest.mark.parametrize('kind', ['prefix', 'state', 'token', 'recency'])
def test_sessions_and_batches_say_the_same(kind):
  null, world = predictor(f"null(kind='{kind}', excess=0.1)")
  sequences = world.sample(20, 3)
  tokens, lengths = sequences.tokens, sequences.lengths
  whole = null.log_probs(tokens, lengths)
  session = null.session(tokens[:, :4], np.full(20, 4), 1)
  np.testing.assert_array_equal(session.log_probs()[:, 0], whole[:, 3])
  alone = null.log_probs(tokens[7:8], lengths[7:8])
  np.testing.assert_array_equal(alone[0, : lengths[7]], whole[7, : lengths[7]])
  mass = np.exp(whole[:, 3].astype(np.float64)).sum(-1)
  np.testing.assert_allclose(mass, 1, rtol=1e-5)
  assert np.isneginf(whole[:, 3, core.PAD]).all()


def test_support_is_exact_where_the_sampler_goes_and_nowhere_else():
  city = "maps(rows=4, columns=4, traversal='shortest')"
  null, world = predictor("null(kind='support')", city)
  bayes, _ = predictor('bayes()', city)
  sequences = world.sample(20, 3)
  args = sequences.tokens, sequences.lengths
  inside = np.arange(sequences.tokens.shape[1]) < sequences.lengths[:, None] - 1
  np.testing.assert_array_equal(
    null.log_probs(*args)[inside], bayes.log_probs(*args)[inside]
  )
  # A loop is on no shortest path.
  walk = registry.make('world', 'maps(rows=4, columns=4)').sample(50, 0)
  long = np.argmax(walk.lengths)
  last = null.log_probs(walk.tokens[[long]], walk.lengths[[long]])
  row = last[0, walk.lengths[long] - 2]
  np.testing.assert_allclose(row[1:], -np.log(len(row) - 1), rtol=1e-6)


@pytest.mark.parametrize(
  ('spec', 'words'),
  [
    ("null(illegal_mass=0.1, like='runs/city')", 'one of the two'),
    ('null(excess=90)', 'reach'),
    ("null(like='/nowhere')", 'scores.json'),
  ],
)
def test_bad_targets_are_one_line(spec, words, one_line):
  with one_line(words):
    predictor(spec)
