"""The published program's boundaries, by its own routine in plain Python."""

import numpy as np
import pytest

from wm import core
from wm.core import registry
from wm.worlds import maps


@pytest.fixture
def city(tmp_path):
  """Files of a crossing 1 that leads to 2, a dead end, and to 3; 3 to 1."""
  (tmp_path / 'nodes.csv').write_text(
    'osm_id,lat,lon\n1,0,0\n2,1,0\n3,0,1\n4,5,5\n'
  )
  (tmp_path / 'edges.csv').write_text(
    'node,direction,neighbor\n1,N,2\n1,E,3\n3,W,1\n'
  )
  (tmp_path / 'turns.csv').write_text('node,directions\n')

  def make(*rows):
    turns = tmp_path / 'turns.csv'
    turns.write_text('\n'.join(['node,directions', *rows]) + '\n')
    fields = {
      name: str(tmp_path / f'{name}.csv')
      for name in ('nodes', 'edges', 'turns')
    }
    return maps.World(**fields)

  return make


@pytest.mark.parametrize(
  ('rows', 'listed'),
  [
    # East first: the dead end comes after what is listed.
    (('1,E N', '3,W'), ['E', 'E W E', 'E W N']),
    # North leads to what has no entry: the rest is lost.
    (('1,N E', '3,W'), []),
    # The dead end has an entry, if an empty one: nothing is lost.
    (('1,N E', '2,', '3,W'), ['E', 'E W E', 'E W N']),
  ],
)
def test_turns_are_taken_in_the_given_order(city, rows, listed):
  world = city(*rows)
  words = {
    ' '.join(world.vocab[token] for token in suffix)
    for depth in (1, 3)
    for suffix in world.boundary(
      world.parse('1,3'), world.parse('2,3'), depth, published=True
    ).listed()[0]
  }
  assert words <= {'N', *listed}
  assert ('E' in words) == bool(listed)


@pytest.mark.parametrize(
  ('rows', 'message'),
  [
    (('1,N', '3,W'), "node 1 has directions 'N'; expected, once, those"),
    (('1,N E', '1,E N', '3,W'), "node 1 has directions 'E N'; expected, once"),
    (('1,N E',), 'node 3 is missing'),
    (('1,N E', '3,W', '9,S'), "node 9 has directions 'S'"),
    (('1,N up', '3,W'), "unknown direction 'up'"),
  ],
)
def test_turns_that_are_not_those_of_the_map_are_refused(city, rows, message):
  world = city(*rows)
  with pytest.raises(core.InputError) as error:
    world.boundary(world.init(1), world.init(1), 1, published=True)
  assert message in str(error.value)


def test_without_a_list_turns_are_taken_clockwise_from_north():
  world = maps.World(rows=4, columns=4)
  doc = registry.find('world', 'maps').__doc__
  assert 'clockwise' in doc
  states = world.sample_states(200, 0)
  first, second = states[:100], states[100:]
  for results in world.boundary(first, second, 3, published=True).listed():
    assert results == sorted(results, key=lambda s: (len(s), s))
  assert np.array_equal(maps.streets.DIRECTIONS[:2], ('N', 'NE'))
