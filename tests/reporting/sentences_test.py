"""The sentence on each model, of predictors that are right or wrong by design.

No adversary may be called coherent, and few trials are no ground to tell.
"""

import numpy as np
import pytest

import wm
from wm.core import registry
from wm.reporting import collect, sentences, tables

CITY = 'maps(rows=4, columns=4, city_seed=1, heldout=0.5, max_moves=12)'
WORLDS = {
  'this city': CITY,
  'Othello': 'othello(size=4)',
  'this automaton': "automaton(preset='random_60_5_2_0')",
}
METRICS = [
  *('next_token(num={n})', 'compression(trials={n})'),
  'distinction(trials={n})',
]
TASKS = 'traversal(num={n})'
MODELS = {
  'oracle': 'oracle()',
  'uniform': 'uniform()',
  'untrained': None,
  'leaky': "adversary(kind='leaky')",
  'memoriser': "adversary(kind='memoriser', num=20)",
  'noisy': 'noisy_oracle(wrong=0.3)',
  'illegal': 'noisy_oracle(illegal=0.3)',
}


def untrained(world):
  """Logits by the last token, as of a network with random weights."""
  size = len(registry.make('world', world).vocab)
  table = np.random.default_rng(0).normal(0, 0.3, (size, size))
  return lambda tokens: table[np.asarray(tokens)].astype(np.float32)


def scored(out, world, models, metrics, n=120):
  """Label -> answer of models that are scored together."""
  metrics = [metric.format(n=n) for metric in metrics]
  runs = []
  for name, model in models.items():
    place = out / name
    model = model or untrained(world)
    wm.score(model, metrics, world, out=place, checkpoint='none', name=name)
    runs.append(collect.load(place))
  frame = tables.results(collect.pooled(runs))
  return {each.label: each for each in sentences.answers(frame)}


@pytest.fixture(
  scope='module',
  params=[
    pytest.param(name, marks=pytest.mark.slow if number else ())
    for number, name in enumerate(WORLDS)
  ],
)
def of_world(request, tmp_path_factory):
  world = WORLDS[request.param]
  has_tasks = [TASKS] if world == CITY else []
  permuted = {'permuted': "adversary(kind='permuted')"} if has_tasks else {}
  out = tmp_path_factory.mktemp('runs')
  return request.param, scored(
    out, world, MODELS | permuted, METRICS + has_tasks
  )


@pytest.fixture(scope='module')
def answers(of_world):
  return of_world[1]


def test_the_oracle_alone_has_a_world_model(of_world):
  noun, answers = of_world
  assert answers['oracle'].word == sentences.YES, str(answers['oracle'])
  assert f'a model that knows {noun}: all ' in str(answers['oracle'])
  for name, answer in answers.items():
    if name != 'oracle':
      assert answer.word != sentences.YES, str(answer)


def test_who_knows_nothing_is_told_so(answers):
  for name in ('uniform', 'untrained'):
    assert answers[name].word == sentences.NO, str(answers[name])


def test_a_world_with_tasks_is_asked_for_them(tmp_path):
  (answer,) = scored(tmp_path, CITY, {'oracle': 'oracle()'}, METRICS).values()
  assert answer.word == sentences.UNSHOWN
  assert answer.text.endswith(
    'A yes takes more than was measured: whether it completes its tasks.'
  )


def test_what_a_game_completes_is_no_task(tmp_path):
  world = WORLDS['Othello']
  of = scored(tmp_path, world, {'oracle': 'oracle()'}, [*METRICS, TASKS])
  assert of['oracle'].word == sentences.YES
  assert 'tasks' not in {each.side for each in of['oracle'].judged}


@pytest.mark.parametrize(
  ('world', 'sides'),
  [
    ('maps()', sentences.NEEDED),
    ('cognitive_graph()', sentences.NEEDED),
    ('othello()', sentences.NEEDED[:-1]),
    ('lattice()', sentences.NEEDED[:-1]),
    ('hmm()', ('mass',)),
    ('', sentences.NEEDED),
  ],
)
def test_sides_that_a_world_has(world, sides):
  assert sentences.sides_of(world, ['next_token']) == sides


def test_where_no_states_can_be_compared_nothing_is_shown(tmp_path):
  models = {'oracle': 'oracle()', 'uniform': 'uniform()'}
  answers = scored(tmp_path, "hmm(preset='mess3')", models, METRICS[:1])
  for answer in answers.values():
    assert answer.word == sentences.UNSHOWN, str(answer)
    assert 'A yes takes a comparison of known states' in answer.text


def test_the_oracle_is_not_asked_what_is_likely(tmp_path):
  world = 'orbits(rows=41)'
  metrics = ['trajectory(num=20)', 'excess_loss(num=20)', METRICS[0]]
  models = {name: MODELS[name] for name in ('oracle', 'uniform', 'untrained')}
  of = scored(tmp_path, world, models, metrics, 40)
  keys = {
    name: {metric for metric, _ in (each.key for each in answer.judged)}
    for name, answer in of.items()
  }
  assert keys['oracle'] == {'next_token'}
  assert of['oracle'].word in (sentences.YES, sentences.UNSHOWN)
  assert {'trajectory', 'next_token'} <= keys['uniform']


@pytest.mark.parametrize(
  'world',
  [
    "automaton(preset='tomita3')",
    pytest.param('lattice(size=5)', marks=pytest.mark.slow),
  ],
)
def test_of_few_states_all_of_which_are_drawn_a_yes_can_be_told(
  tmp_path, world
):
  models = {
    'oracle': 'oracle()',
    'noisy': 'noisy_oracle(wrong=0.3, by="prefix")',
  }
  of = scored(tmp_path, world, models, METRICS, 300)
  assert of['oracle'].word == sentences.YES, str(of['oracle'])
  assert of['noisy'].word != sentences.YES
  for each in of['oracle'].judged:
    if each.side in ('same', 'apart'):
      assert each.entry['clusters'] == each.entry['n'] > 200


def test_a_leak_of_probability_is_in_the_sentence(answers):
  assert 'probability on legal tokens' in answers['leaky'].text


def test_few_trials_are_no_ground_to_tell(tmp_path):
  few = scored(tmp_path, CITY, {'few': 'oracle()'}, [*METRICS, TASKS], 6)
  (answer,) = few.values()
  assert answer.word == sentences.UNKNOWN
  assert 'With n = ' in answer.text


def test_each_side_is_shown_by_one_quantity():
  from wm.reporting import catalog

  shown = [
    side
    for name in registry.names('metric')
    for measure in catalog.metric_class(name).measures.values()
    if (side := measure.side)
  ]
  assert sorted(shown) == sorted(sentences.SIDES)
