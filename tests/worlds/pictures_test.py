"""Pictures of maps, the line and filling boards say what the state is."""

from xml.etree import ElementTree

import numpy as np
import pytest

from wm.core import registry
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


@pytest.mark.parametrize(
  ('state', 'message'),
  [
    ('3,9', 'at 3, destination 9'),
    ('3,?', 'at 3, destination not stated yet'),
    ('3,3', 'at 3, destination 3: there'),
    ('start', 'origin not stated yet'),
    ('end', 'end'),
    ('dead', 'dead'),
  ],
)
def test_every_kind_of_map_state(state, message):
  assert message in words(drawn('maps()', state))


# Tables.


def test_dead_states_say_so():
  for spec in ('connect4()', 'lattice()', 'maps()'):
    assert words(drawn(spec, 'dead')) == ['dead']
