"""Files that users bring: formats are described, and the examples run."""

import pathlib

import networkx as nx
import numpy as np
import pytest

import wm
from tests import small
from tests.launch import binaries
from wm.core import fields, registry
from wm.worlds.maps import streets

EXAMPLES = pathlib.Path('launch/examples')
# Worlds of example files, tokens of each, and what a description must hold.
WORLDS = {
  "automaton(file='launch/examples/lift.json')": ('open', '"transitions": {'),
  "automaton(file='launch/examples/lift.dot')": ('close', 'doublecircle'),
  "maps(file='launch/examples/metro.graphml')": (
    'Central_Station',
    'networkx.write_graphml',
  ),
  "maps(nodes='launch/examples/town_nodes.csv', "
  "edges='launch/examples/town_edges.csv')": ('yard', 'osm_id,lat,lon'),
  "text_game(folder='launch/examples/games', game='hotel')": (
    'enter_lift',
    'gate --> east --> yard, step 1',
  ),
  "hmm(file='launch/examples/weather.json')": ('dry', '"matrices": {'),
}
# Fields that name files of the user's, by plug-in.
FILES = {
  ('world', 'automaton'): {'file'},
  ('world', 'hmm'): {'file'},
  ('world', 'maps'): {'nodes', 'edges', 'file', 'trips', 'turns'},
  ('world', 'othello'): {'records'},
  ('world', 'text_game'): {'folder'},
  ('model', 'huggingface'): {'tokens'},
  ('model', 'user'): {'tokens'},
}


@pytest.fixture(autouse=True)
def _at_the_root(root, monkeypatch):
  monkeypatch.chdir(root)


@pytest.mark.parametrize('spec', WORLDS)
def test_an_example_is_a_world_and_its_format_is_told(spec):
  token, format = WORLDS[spec]
  world = wm.make('world', spec)
  assert token in world.vocab
  assert len(world.sample(5, 0)) == 5
  code, out, err = binaries.run('list', f'--world={spec}')
  assert (code, err) == (0, '')
  assert format in out
  assert out.startswith(wm.describe('world', spec))


@pytest.mark.parametrize('plug_in', FILES)
def test_every_file_has_a_format(plug_in):
  kind, name = plug_in
  formats = fields.formats(registry.find(kind, name))
  assert {name for names in formats.values() for name in names} == FILES[
    plug_in
  ]
  text = wm.describe(kind, name)
  for names in formats.values():
    _, _, lines = text.partition(f'What {" and ".join(names)} may name\n\n')
    assert len(lines.partition('\n\n  ')[0]) > 30


def test_no_other_plug_in_has_a_field_of_that_name():
  for kind in registry.KINDS:
    for name in registry.names(kind):
      declared = fields.formats(registry.find(kind, name))
      assert bool(declared) == ((kind, name) in FILES)


def test_help_says_where_formats_are():
  assert "wm.describe('world', 'automaton')" in wm.__doc__
  with pytest.raises(wm.core.InputError, match=r"no kind 'worlds'.*'world'"):
    wm.describe('worlds', 'maps')


def test_every_example_file_is_used_here():
  text = pathlib.Path(__file__).read_text(encoding='utf-8')
  # Examples of code have tests of their own.
  others = 'frog', 'repeats', 'wander', 'my_model', 'hotel.map'
  for path in EXAMPLES.rglob('*.*'):
    if '__pycache__' not in path.parts:
      assert path.name in text or path.stem in others, path


def test_a_model_with_ids_of_its_own_is_scored(tmp_path):
  world = "automaton(file='launch/examples/lift.json')"
  model = (
    'user(function="launch/examples/lift_model.py:logits", '
    'tokens="launch/examples/lift_ids.json", files=())'
  )
  out = tmp_path / 'lift'
  binaries.printed(
    'score',
    *(f'--world={world}', f'--model={model}', '--metric=next_token(num=50)'),
    f'--out={out}',
  )
  values = {
    entry['quantity']: entry['value']
    for entry in small.scored(model, 'next_token(num=50)', world)
  }
  # After 'open' there is 'close', after 'up' it believes in 'down'.
  assert 0.5 < values['validity'] < 1


def test_games_of_a_pgn_file_are_read(tmp_path):
  pgn = EXAMPLES / 'openings.pgn'
  out = binaries.printed('ingest', f'--pgn={pgn}', f'--out={tmp_path}')
  assert '1 games, 1 kept' in out


# Graphs without places.


def arrows(graph: streets.StreetGraph) -> set[tuple[str, str]]:
  sources, _, targets = graph.edges()
  names = graph.names
  return {(names[u], names[v]) for u, v in zip(sources, targets, strict=True)}


def written(graph, folder: pathlib.Path) -> streets.StreetGraph:
  nx.write_graphml(graph, folder / 'graph.graphml')
  return streets.load_file(folder / 'graph.graphml')


def test_all_edges_of_a_graph_without_places_are_there(tmp_path):
  graph = nx.DiGraph(['AB', 'BA', 'BN', 'NA', 'BC', 'CA', 'AC', 'AA'])
  read = written(graph, tmp_path)
  edges = {*graph.edges} - {('A', 'A')}
  assert arrows(read) == {
    (u.replace('N', 'N_'), v.replace('N', 'N_')) for u, v in edges
  }
  assert read.counts['collisions'] == 0
  assert read.counts['self_loops'] == 1
  assert {*read.length_m[read.delta >= 0]} == {streets.HOP_M}
  again = streets.load_file(tmp_path / 'graph.graphml')
  np.testing.assert_array_equal(again.delta, read.delta)
  longest = max(
    streets.great_circle(read.lat[u], read.lon[u], read.lat[v], read.lon[v])
    for u, _, v in zip(*read.edges(), strict=True)
  )
  assert longest == pytest.approx(streets.HOP_M, rel=0.01)


def test_a_star_of_eight_has_all_directions_and_nine_are_refused(tmp_path):
  star = nx.relabel_nodes(nx.star_graph(8), lambda n: f'node {n}')
  read = written(star, tmp_path)
  assert (read.delta[0] >= 0).all()
  assert read.names[:2] == ('node_0', 'node_1')
  with pytest.raises(wm.core.InputError, match='9 edges leave node'):
    written(nx.star_graph(9), tmp_path)


@pytest.mark.parametrize(
  ('nodes', 'edges', 'message'),
  [
    ('osm_id\na\nb', 'node,neighbor\na,c', 'neighbor c is not among the 2'),
    (
      'osm_id\na\na',
      'node,neighbor\na,a',
      "nodes 1 and 2 have the same name 'a'",
    ),
    ('osm_id\nN\nN_', 'node,neighbor\nN,N_', "the same name 'N_'"),
    ('osm_id,lat\na,1\nb,2', 'node,neighbor\na,b', 'a column lat alone'),
    ('osm_id\na\n ', 'node,neighbor\na,a', 'node 2 has no name'),
    ('id\na', 'node,neighbor\na,a', "no column 'osm_id'"),
  ],
)
def test_bad_tables_are_refused(tmp_path, nodes, edges, message):
  (tmp_path / 'nodes.csv').write_text(nodes)
  (tmp_path / 'edges.csv').write_text(edges)
  with pytest.raises(wm.core.InputError, match=message):
    streets.load_csv(tmp_path / 'nodes.csv', tmp_path / 'edges.csv')


# Tokens that a model numbers otherwise.


class Numbered:
  """A predictor of `table`, all methods, with ids as given."""

  def __init__(self, table):
    self.table = table

  def __call__(self, tokens):
    return self.table[tokens]

  def hidden(self, tokens, layer):
    return self.table[tokens]

  def start(self, tokens, lengths):
    last = tokens[np.arange(len(tokens)), lengths - 1]
    return [*last], self.table[last]

  def step(self, states, tokens):
    return [*tokens], self.table[tokens]


def test_a_model_is_the_same_under_any_numbering():
  world = wm.make('world', "automaton(file='launch/examples/lift.json')")
  rng = np.random.default_rng(0)
  vocab = len(world.vocab)
  ids = rng.permutation(vocab + 4)[:vocab]
  table = rng.normal(size=(vocab, vocab)).astype(np.float32)
  other = np.full((vocab + 4, vocab + 4), 9, np.float32)
  other[np.ix_(ids, ids)] = table
  names = dict(zip(world.vocab, ids.tolist(), strict=True))
  plain = wm.wrap(Numbered(table), world)
  mapped = wm.wrap(Numbered(other), world, tokens=names)
  drawn = world.sample(9, 0)
  kinds = [
    [cls.__name__ for cls in type(x.predictor).__mro__] for x in (plain, mapped)
  ]
  assert kinds[0] == kinds[1]
  np.testing.assert_allclose(
    mapped.predictor.log_probs(drawn.tokens, drawn.lengths),
    plain.predictor.log_probs(drawn.tokens, drawn.lengths),
    atol=1e-6,
  )
  metrics = ['next_token(num=50)', 'compression(trials=20)']
  assert [e['value'] for e in small.scored(mapped, metrics)] == [
    e['value'] for e in small.scored(plain, metrics)
  ]


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    ({'up': None}, "tokens= has None for 'up'; expected an id"),
    ({'up': True}, "tokens= has True for 'up'; expected an id"),
    ({'up': 3}, "tokens= has the id 3 for 'down' and for 'up'"),
    ({'up': 99}, r'gives logits of 6 tokens; tokens= has the id 99'),
    ({'op': 3, 'open': ...}, "tokens= has no 'open' of the world"),
  ],
)
def test_bad_ids_are_refused(change, message):
  world = wm.make('world', "automaton(file='launch/examples/lift.json')")
  names = {word: k for k, word in enumerate(world.vocab)} | change
  names = {word: k for word, k in names.items() if k is not ...}
  with pytest.raises(wm.core.InputError, match=message):
    wm.wrap(lambda tokens: np.zeros((*tokens.shape, 6)), world, tokens=names)


class Walking:
  """A model of walks that knows its place, or nothing."""

  def __init__(self, world, *, knows):
    self.delta, self.knows = world.delta, knows

  def _places(self, tokens, lengths):
    here, passed = np.zeros(len(tokens), int), []
    for column in tokens.T:
      after = self.delta[here, column - 1]
      here = np.where((column > 0) & (after >= 0), after, here)
      passed.append(here)
    return np.stack(passed, axis=1)

  def hidden(self, tokens, lengths, layer):
    assert layer == -1
    places = self._places(tokens, lengths)
    return np.eye(len(self.delta))[places if self.knows else 0 * places]

  def log_probs(self, tokens, lengths):
    legal = self.delta[self._places(tokens, lengths)] >= 0
    legal = np.pad(legal, [(0, 0), (0, 0), (1, 0)])
    with np.errstate(divide='ignore'):
      return np.log(legal / legal.sum(-1, keepdims=True))


def test_questions_of_mango_are_put_to_a_model_of_walks():
  world = wm.make('world', 'mazes()')
  metric = wm.make('metric', 'launch/examples/mango.py:Metric(num=100)')
  knows, guesses = (
    {x.quantity: x for x in metric(Walking(world, knows=knows), world, 0)}
    for knows in (True, False)
  )
  for kind, num in (('destination', 100), ('route', 12 * 11)):
    scores = knows[kind]
    assert scores.value.all()
    assert len(scores.value) >= num
    assert len(set(scores.group.tolist())) == 12
  assert 0 < guesses['destination'].value.mean() < 0.5
  assert guesses['route'].value.mean() == 0
