"""Views of the explorer, by predictors whose answers are known."""

import itertools
from xml.etree import ElementTree

import numpy as np
import pytest

import wm
from tests import every_world
from wm import core
from wm.core import registry
from wm.explorer import page as explore
from wm.explorer import views
from wm.worlds.maps import navigation

CITY = 'maps(rows=4, columns=5)'
OTHELLO = 'othello(size=6)'
SMALL = 'transformer(layers=2, width=32)'


def explorer(world: str, *models: str, **more) -> views.Explorer:
  place = registry.make('world', world)
  accept = registry.make('accept', 'epsilon(0.01)')
  loaded = {
    model: wm.load_predictor(model, place, checkpoint='none')
    for model in models
  }
  return views.Explorer(place, loaded, accept, **more)


@pytest.fixture(scope='module')
def city() -> views.Explorer:
  return explorer(CITY, 'oracle()', 'uniform()', SMALL)


@pytest.fixture(scope='module')
def walk(city) -> list[int]:
  sequences = city.world.sample(1, 0)
  return sequences.tokens[0, : sequences.lengths[0] - 1].tolist()


def test_an_oracle_accepts_what_is_legal(city, walk):
  view = city.walk(city.tokens(walk[:3]))
  assert view['steps'] == 3
  assert not view['over']
  rows = view['models']['oracle()']['tokens']
  assert sorted(row[0] for row in rows if row[3]) == view['legal']
  assert view['models']['oracle()']['legal_mass'] == pytest.approx(1)
  # To a uniform guesser all tokens are as likely, most of them illegal.
  guesses = view['models']['uniform()']['tokens']
  assert sum(row[3] and not row[2] for row in guesses) > 3
  # An illegal direction has no place on the map, the end has.
  assert set(view['boxes']) - {city.world.end} == set(view['legal'])


def test_an_illegal_token_shows_the_place_before_it(city, walk):
  tokens = city.tokens([*walk[:2], city.world.end])
  view = city.walk(tokens)
  assert view['steps'] == 2
  assert view['legal'] == []
  assert view['place'] == city.place(city.state(tokens[:2])[1])


@pytest.mark.parametrize(
  'inputs', ['nowhere', ['x'], [0], [True], [1e3], [10**6], 'N ' * 5000, {}]
)
def test_what_are_no_tokens_is_refused_in_a_line(city, inputs, one_line):
  with one_line(r'token|expected') as error:
    city.tokens(inputs)
  assert len(str(error.value)) < 200


def test_an_oracle_continues_two_ways_to_one_place_alike(city, walk):
  view = city.twins(city.tokens(walk[:4]), seed=1)
  first, second = view['prefixes']
  assert first != second
  ids = [
    city.world.state_id(city.state(city.tokens(p))[1][None])[0]
    for p in (first, second, walk[:4])
  ]
  assert len(set(ids)) == 1
  oracle = view['models']['oracle()']
  assert oracle['agreed'] == 1.0
  for row in oracle['continuations']:
    assert row['refused_at'] is None
    assert row['illegal_at'] is None


def test_an_oracle_knows_what_tells_two_places_apart(city, walk):
  view = city.apart(city.tokens(walk[:4]), None)
  assert not view['same']
  assert view['listed'] > 0
  for row in view['models']['oracle()']:
    assert row['first'] is None
    assert row['second'] is not None
  for row in view['models']['uniform()']:
    assert row == {'first': None, 'second': None}
  same = city.apart(city.tokens(walk[:4]), city.tokens(walk[:4]))
  assert same['same']
  assert same['suffixes'] == []


def test_following_the_rules_or_a_model_is_a_function_of_the_seed(city, walk):
  tokens = city.tokens(walk[:3])
  for model in ('', 'oracle()', SMALL):
    drawn = [city.follow(model, tokens, seed)['token'] for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1]
    if model != SMALL:
      assert set(drawn) <= set(city.walk(tokens)['legal'])


def test_clicks_in_any_order_give_what_a_whole_pass_gives(city):
  reader = city.loaded[SMALL].predictor
  sequences = city.world.sample(12, 1)
  rng = np.random.default_rng(0)
  for _ in range(60):  # More than sessions are kept, and back and forth.
    row = rng.integers(12)
    size = rng.integers(3, sequences.lengths[row] + 1)
    tokens = sequences.tokens[row, :size]
    whole = np.asarray(reader.log_probs(tokens[None], np.array([size])))[0, -1]
    view = city.walk(tokens)['models'][SMALL]['tokens']
    p = {token: q for token, q, *_ in view}
    assert p == pytest.approx({t: np.exp(whole[t]) for t in p}, abs=1e-5)


@pytest.mark.parametrize(
  ('world', 'prefix', 'token', 'boxes'),
  [
    ('othello(size=6)', '', 'c2', [(102, 62, 40, 40)]),
    (*('chess()', '<start>', 'e2e4'), [(182, 262, 40, 40), (182, 182, 40, 40)]),
    ('lattice()', 'right', 'left', [(10, 52, 60, 22)]),
  ],
)
def test_tokens_have_known_places_in_pictures(world, prefix, token, boxes):
  view = explorer(world, 'oracle()')
  shown = view.walk(view.tokens(prefix))['boxes']
  assert shown[view.world.vocab.index(token)] == boxes


@pytest.mark.parametrize('name', every_world.names(core.Written))
def test_places_of_tokens_are_within_pictures(name):
  world = registry.make('world', f'{name}()')
  sequences = world.sample(3, 0)
  for size in (0, 1, 2, 5):
    lengths = np.minimum(sequences.lengths, size)
    states = world.walk(world.init(3), sequences.tokens, lengths)[1]
    for state, legal in zip(states, world.legal(states), strict=True):
      tokens = np.flatnonzero(legal).tolist()
      boxes = world.token_boxes(state, tokens)
      assert set(boxes) <= set(tokens)
      root = ElementTree.fromstring(world.render(state))
      wide, high = float(root.get('width')), float(root.get('height'))
      for x, y, width, height in itertools.chain(*boxes.values()):
        assert width > 4
        assert height > 4
        assert 0 <= x + width / 2 <= wide
        assert 0 <= y + height / 2 <= high
  dead = np.full_like(states[0], core.DEAD)
  assert world.token_boxes(dead, range(len(world.vocab))) == {}


def test_a_direction_is_where_it_leads(city, walk):
  graph = city.world.graph
  view = city.walk(city.tokens(walk[:2]))
  row = int(city.state(city.tokens(walk[:2]))[1][0])
  places = navigation.window(graph, row).points + 8
  del view['boxes'][city.world.end]  # Accepted by a guesser.
  for token, ((x, y, width, height),) in view['boxes'].items():
    target = graph.delta[row, token - navigation.DIRECTION0]
    middle = x + width / 2, y + height / 2
    assert middle == pytest.approx(tuple(places[target]))


@pytest.mark.parametrize(
  ('fragment', 'line'),
  [
    ('nope', 'no view'),
    ('prefix=nowhere', 'no token'),
    ('from=1', 'no field of a view'),
    ('second=%00', 'no token'),
    ('prefix=11&tab', 'no view'),
  ],
)
def test_what_is_no_view_is_refused_in_a_line(city, fragment, line, one_line):
  with one_line(line):
    city.check_fragment(fragment)


def test_a_probe_reads_the_state():
  board = explorer(OTHELLO, SMALL)
  tokens = board.tokens(board.world.sample(1, 3).tokens[0, :9].tolist())
  view = board.read(SMALL, tokens)
  assert len(view['labels']) == 36
  assert 0.3 < view['accuracy'] <= 1
  true = [row[1] for row in view['labels']]
  assert true == board._targets(tokens).tolist()
  probe = board.probe(SMALL)
  hidden = board._hidden(board.loaded[SMALL].predictor, tokens)[0, 8]
  assert [row[2] for row in view['labels']] == probe.read(hidden).tolist()


@pytest.mark.parametrize('world', ['lattice()', 'groups()', 'connect4()'])
def test_every_kind_of_world_is_walked(world):
  view = explorer(world, 'oracle()')
  tokens = view.world.sample(1, 0).tokens[0, :2]
  shown = view.walk(tokens)
  assert '<svg' in shown['place']['picture']
  assert shown['models']['oracle()']['legal_mass'] == pytest.approx(1)


def test_a_world_of_beliefs_is_walked_too():
  view = explorer('hmm()', 'uniform()')
  assert view.about()['labels'] == 0
  shown = view.walk(view.world.sample(1, 0).tokens[0, :2])
  assert 's1 0.97' in shown['place']['picture']
  with pytest.raises(core.InputError, match='draws no prefixes'):
    view.twins(view.tokens(['A']), 1)


def test_worst_trials_have_prefixes_that_can_be_walked(tmp_path):
  out = tmp_path / 'run'
  wm.score(
    'noisy_oracle(wrong=0.1, by="prefix")',
    ['compression(trials=20)', 'distinction(trials=20)'],
    CITY,
    out=out,
  )
  place = registry.make('world', CITY)
  groups = explore.worst_trials('noisy', out, place)
  assert {group['model'] for group in groups} == {'noisy'}
  view = explorer(CITY, 'oracle()')
  for group in groups:
    assert group['short'] <= group['measured']
    for trial in group['trials']:
      assert trial['value'] < 1
      for prefix in trial['prefixes']:
        assert view.walk(view.tokens(prefix))['steps'] == len(prefix)
  assert explore.worst_trials('none', tmp_path, place) == []
