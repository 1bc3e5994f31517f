"""Routes from sequences, their fate on the true map, and controls."""

import numpy as np
import pytest

from tests import judging, tiny
from tests.recon import cities
from tests.recon.cities import E, N, make_routes
from wm import core
from wm.core import registry
from wm.data import text
from wm.recon import routes
from wm.recon.routes import DESTINATION, LENGTH_CAP, PATH, VALID
from wm.worlds.maps import streets


@pytest.fixture(scope='module')
def world():
  return registry.make('world', "maps(rows=5, columns=5, traversal='shortest')")


def _read(tmp_path, world, *lines):
  path = tmp_path / 'samples.txt'
  path.write_text('\n'.join(lines))
  return routes.extract(text.read(path, world), world)


def test_causes_of_ill_formed_sequences(tmp_path, world):
  a, b = world.vocab[-2:]
  long = ' '.join(['N'] * (world.max_len - 2))
  result, ill_formed = _read(
    tmp_path,
    world,
    f'{a} {b} N NE end',
    f'{a} {b} end',  # No direction.
    f'{a} {b} N N',
    f'{a} {b} {long}',
    f'N {b} N N end',
    f'{a} {b} {a} SW {b} end',
  )
  assert ill_formed == {
    'fewer_than_4_tokens': 1,
    'no_end': 1,
    'length_cap': 1,
    'header_not_two_nodes': 1,
  }
  assert result.lines.tolist() == [1, 6]
  assert result.lengths.tolist() == [2, 3]
  assert result.others == (a, b)
  south_west = streets.DIRECTIONS.index('SW')
  assert result.labels.tolist() == [0, 1, 8, south_west, 9]
  rows = world.graph.ids[[result.origins[0], result.destinations[0]]]
  assert rows.astype(str).tolist() == [a, b]


def test_unknown_tokens_are_named_with_their_line(tmp_path, world):
  a, b = world.vocab[-2:]
  with pytest.raises(core.InputError, match="line 2: unknown token 'NNW'"):
    _read(tmp_path, world, f'{a} {b} N end', f'{a} {b} NNW end')


def test_fates_agree_with_the_world(world):
  sequences = world.sample(40, seed=0)
  tokens = sequences.tokens.copy()
  rng = np.random.default_rng(0)
  at = rng.integers(2, np.maximum(sequences.lengths - 1, 3))
  rows = np.arange(0, 40, 2)
  tokens[rows, at[rows]] = rng.integers(2, 10, len(rows))
  sequences = core.Sequences(tokens, sequences.lengths)
  result, ill_formed = routes.extract(sequences, world)
  assert not any(ill_formed.values())
  kind = routes.follow(result, world.graph).kind
  names = np.array(['valid', 'path_fail', 'dest_fail'])
  assert names[kind].tolist() == judging.judge(world, sequences).tolist()
  assert set(kind) >= {VALID, PATH}


def test_routes_cut_off_are_a_class_of_their_own():
  result = make_routes((0, 3, [E, E]), (0, 3, [E, E]), (0, 2, [E, E]))
  result = result._replace(capped=np.array([True, False, True]))
  fate = routes.follow(result, cities.row(5))
  assert fate.kind.tolist() == [DESTINATION, DESTINATION, VALID]
  assert fate.groups(result).tolist() == [LENGTH_CAP, DESTINATION, VALID]


def test_taking_rows_again_and_in_any_order():
  result = make_routes((0, 1, [E]), (1, 3, [E, E]), (2, 0, [N, E, 8]))
  taken = result.take(np.array([2, 0, 2]))
  assert taken.labels.tolist() == [N, E, 8, E, N, E, 8]
  assert taken.lengths.tolist() == [3, 1, 3]
  assert taken.lines.tolist() == [3, 1, 3]
  assert result.take(np.array([], int)).labels.size == 0


def test_a_world_without_streets_is_refused():
  with pytest.raises(core.InputError, match='no street map'):
    routes.street_graph(tiny.World())


@pytest.fixture(scope='module')
def mixed(world):
  """300 routes of the world, a third of them with some mistake."""
  result, _ = routes.extract(world.sample(300, seed=1), world)
  rng = np.random.default_rng(1)
  labels, destinations = result.labels.copy(), result.destinations.copy()
  for n in range(0, 300, 6):
    labels[result.offsets[n] + rng.integers(result.lengths[n])] ^= 4
    destinations[n + 3] = rng.integers(len(world.graph))
  return result._replace(labels=labels, destinations=destinations)
