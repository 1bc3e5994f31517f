"""The sentence on each model, of predictors that are right or wrong by design.

No adversary may be called coherent, and few trials are no ground to tell.
"""

import pytest

import wm
from wm.reporting import collect, sentences, tables

CITY = 'maps(rows=5, columns=5, city_seed=1)'
METRICS = [
  *('next_token(num={n})', 'traversal(num={n})'),
  *('compression(trials={n})', 'distinction(trials={n})'),
]
MODELS = {
  'oracle': 'oracle()',
  'uniform': 'uniform()',
  'untrained': 'transformer(layers=1, width=16)',
  'leaky': "adversary(kind='leaky')",
  'permuted': "adversary(kind='permuted')",
  'noisy': 'noisy_oracle(wrong=0.3)',
}


@pytest.fixture(scope='module')
def answers(tmp_path_factory):
  out = tmp_path_factory.mktemp('runs')
  runs = []
  for name, model in MODELS.items():
    metrics = [metric.format(n=60) for metric in METRICS]
    wm.score(
      *(model, metrics, CITY), out=out / name, checkpoint='none', name=name
    )
    runs.append(collect.load(out / name))
  frame = tables.results(collect.pooled(runs))
  return {each.label: each for each in sentences.answers(frame)}


def test_the_oracle_alone_has_a_world_model(answers):
  assert answers['oracle'].word in (sentences.YES, sentences.UNKNOWN)
  assert 'this city' in str(answers['oracle'])
  for name in MODELS:
    if name != 'oracle':
      assert answers[name].word != sentences.YES, str(answers[name])


def test_who_knows_nothing_is_told_so(answers):
  for name in ('uniform', 'untrained'):
    assert answers[name].word == sentences.NO, str(answers[name])


def test_a_leak_of_probability_is_in_the_sentence(answers):
  assert 'probability on legal tokens' in answers['leaky'].text


def test_few_trials_are_no_ground_to_tell(tmp_path):
  metrics = [metric.format(n=6) for metric in METRICS]
  wm.score('oracle()', metrics, CITY, out=tmp_path, name='few')
  frame = tables.results([collect.load(tmp_path)])
  (answer,) = sentences.answers(frame)
  assert answer.word == sentences.UNKNOWN
  assert 'With n = 6' in answer.text or 'n = ' in answer.text


def test_each_side_is_shown_by_one_quantity():
  from wm.core import registry
  from wm.reporting import catalog

  shown = [
    side
    for name in registry.names('metric')
    for side in catalog.metric_class(name).shows.values()
  ]
  assert sorted(shown) == sorted(sentences.SIDES)
