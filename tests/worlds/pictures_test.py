"""Pictures of maps, the line and filling boards say what the state is."""

from xml.etree import ElementTree

import numpy as np
import pytest

from wm.core import registry
from wm.worlds.base import svg
from wm.worlds.maps import navigation

NS = '{http://www.w3.org/2000/svg}'


def words(drawing: str) -> list[str]:
  root = ElementTree.fromstring(drawing)
  return [element.text for element in root.iter(f'{NS}text')]


def drawn(spec: str, state: str) -> str:
  world = registry.make('world', spec)
  return world.render(world.parse(state)[0])


# Maps.


@pytest.fixture(scope='module')
def city():
  return registry.make('world', 'maps(rows=20, columns=20)')


def test_exits_are_named_as_the_tokens_are(city):
  for row in range(0, len(city.graph), 37):
    state = np.array([row, 0], np.int32)
    legal = np.flatnonzero(city.legal(state[None])[0])
    names = {city.vocab[token] for token in legal} - {'end'}
    assert names <= set(words(city.render(state)))


def test_a_large_map_is_cropped_around_the_place(city):
  view = navigation.window(city.graph, 5)
  np.testing.assert_allclose(view.points[5], navigation.SIZE / 2)
  assert navigation.NEAREST <= view.seen.sum() < len(city.graph) / 2


def test_a_small_map_is_whole_and_named():
  world = registry.make('world', 'maps()')
  assert navigation.window(world.graph, 5).seen.all()
  shown = set(words(world.render(world.sample_states(1, 0)[0])))
  assert {str(n) for n in world.graph.ids} <= shown


def test_a_destination_outside_is_told_by_distance(city):
  view = navigation.window(city.graph, 0)
  inside = np.flatnonzero(view.seen & (np.arange(len(view.seen)) > 0))[0]
  outside = np.flatnonzero(~view.seen)[0]

  def picture(goal):
    return city.render(np.array([0, goal], np.int32))

  assert any('km' in word for word in words(picture(outside)))
  assert not any('km' in word for word in words(picture(inside)))
  assert f'stroke="{svg.GOAL}"' in picture(inside)


@pytest.mark.parametrize(
  ('state', 'said'),
  [
    ('3,9', 'at 3, destination 9'),
    ('3,?', 'at 3, destination not stated yet'),
    ('3,3', 'at 3, destination 3: there'),
    ('start', 'origin not stated yet'),
    ('end', 'end'),
    ('dead', 'dead'),
  ],
)
def test_every_kind_of_map_state(state, said):
  assert said in words(drawn('maps()', state))


def test_one_way_streets_have_an_arrow():
  world = registry.make('world', 'maps()')
  graph = world.graph
  sources, _, targets = graph.edges()
  ways = set(zip(sources.tolist(), targets.tolist(), strict=True))
  row = 0
  one_way = {(a, b) for a, b in ways if (b, a) not in ways and row != a}
  root = ElementTree.fromstring(world.render(np.array([row, 5], np.int32)))
  paths = [
    path.get('d')
    for path in root.iter(f'{NS}path')
    if path.get('fill') == navigation.NODE
  ]
  assert len(paths) == 1
  assert paths[0].count('M') == len(one_way)


def test_manhattan_pictures_are_small(testdata):
  folder = testdata / 'manhattan'
  world = registry.make(
    'world', f"maps(nodes='{folder}/nodes.csv', edges='{folder}/edges.csv')"
  )
  states = [(10, 3000), (2000, 2001), (4000, 100), (1500, 1500)]
  for state in states:
    drawing = world.render(np.array(state, np.int32))
    assert len(drawing) < 100_000
    assert ElementTree.fromstring(drawing).tag == f'{NS}svg'


# Tables.


def test_the_line_lists_moves():
  shown = words(drawn('lattice()', '0'))
  assert shown == ['at 0', 'token', 'leads to', 'stay', '0', 'right', '1']


def test_discs_are_counted():
  drawing = drawn('connect4()', '1,2,6,0,3,5,2')
  assert words(drawing)[8:15] == ['1', '2', '6', '0', '3', '5', '2']


def test_dead_states_say_so():
  for spec in ('connect4()', 'lattice()', 'maps()'):
    assert words(drawn(spec, 'dead')) == ['dead']


@pytest.mark.parametrize(
  ('fen', 'row'),
  [
    ('rnb1kbnr/pppp1ppp/8/4p3/6Pq/5P2/PPPPP2P/RNBQKBNR w KQkq - 1 3', 1),
    ('rnbqkbnr/ppppp1pp/8/5p1Q/4P3/8/PPPP1PPP/RNB1KBNR b KQkq - 1 2', 8),
  ],
)
def test_a_king_in_check_is_on_red(fen, row):
  """One red square, where the king of the side to move is: e1, and e8."""
  drawing = ElementTree.fromstring(drawn('chess()', fen))
  (red,) = (
    square
    for square in drawing.iter(f'{NS}rect')
    if square.get('fill') == svg.HERE
  )
  # A square is 40 wide; the board begins at 22.
  assert float(red.get('x')) == 22 + 4 * 40
  assert float(red.get('y')) == 22 + (8 - row) * 40
