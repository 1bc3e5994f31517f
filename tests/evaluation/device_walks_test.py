"""Walks and boundaries in one program are those of the compiled kernels."""

import numpy as np
import pytest

from wm import core
from wm.core import registry
from wm.evaluation import device

CITY = 'maps(rows=3, columns=3, max_moves=8)'
WORLDS = (
  'lattice(length=12)',
  "groups(group='s3', length=12)",
  "automaton(preset='tomita3', length=12)",
  CITY,
)


def _pairs(world, num):
  return world.sample_states(num, 1), world.sample_states(num, 2)


def _assert_same(found, expected):
  for first, other in zip(found, expected, strict=True):
    np.testing.assert_array_equal(first, other)
    assert first.dtype == other.dtype


@pytest.mark.parametrize('spec', WORLDS)
def test_boundaries_of_tables(spec):
  world = registry.make('world', spec)
  first, second = _pairs(world, 70)  # More than one call takes.
  first[3] = core.DEAD
  second[4] = core.DEAD
  expected = world.boundary(first, second, 3)
  _assert_same(device.boundary(world, first, second, 3), expected)
  assert len(expected.lengths)


def test_boundaries_of_boards():
  world = registry.make('world', 'othello(size=4)')
  first, second = _pairs(world, 30)
  second[4] = core.DEAD
  expected = world.boundary(first, second, 2)
  _assert_same(device.boundary(world, first, second, 2), expected)
  assert len(expected.lengths) > 64


def test_a_search_without_room_is_made_again(monkeypatch):
  world = registry.make('world', WORLDS[0])
  pairs = _pairs(world, 60)
  whole, searches = device.boundary(world, *pairs, 4), []
  real = device.search

  def search(*args):
    searches.append(args[:3])
    return real(*args)

  monkeypatch.setattr(device, 'NODES', 64)
  monkeypatch.setattr(device, 'search', search)
  _assert_same(device.boundary(world, *pairs, 4), whole)
  assert searches[0] == (4, 64, 64)
  assert searches[-1][1] > 64


@pytest.mark.parametrize('spec', [*WORLDS, 'othello(size=4)'])
def test_walks(spec):
  world = registry.make('world', spec)
  result = world.sample(40, 3)
  tokens, lengths = result.tokens.copy(), result.lengths - np.arange(40) % 3
  tokens[::2, 4] = tokens[::-2, 5]
  tokens[1, 2], tokens[3, 1] = core.PAD, len(world.vocab) - 1
  states = world.init(40)
  if spec == CITY:  # From where origin and destination are stated.
    with pytest.raises(core.InputError, match='without origin'):
      device.steps(world, states, tokens, lengths)
    _, states = world.walk(states, result.tokens, np.full(40, 2))
    tokens, lengths = tokens[:, 2:], np.maximum(lengths - 2, 0)
  steps = device.steps(world, states, tokens, lengths)
  np.testing.assert_array_equal(steps, world.walk(states, tokens, lengths)[0])
  assert (steps < lengths).any() or spec.startswith('groups')
