"""Walks and boundaries in one program are those of the compiled kernels."""

import numpy as np
import pytest

from wm import core
from wm.core import registry
from wm.evaluation import device_walks

NODES = 'node,latitude,longitude\n'
WORLDS = (
  'lattice(length=12)',
  "groups(group='s3', length=12)",
  "automaton(preset='tomita3', length=12)",
)


def _pairs(world, num):
  return world.sample_states(num, 1), world.sample_states(num, 2)


def _assert_same(found, expected):
  for one, other in zip(found, expected, strict=True):
    np.testing.assert_array_equal(one, other)
    assert one.dtype == other.dtype


@pytest.mark.parametrize('spec', WORLDS)
def test_boundaries_of_tables(spec):
  world = registry.make('world', spec)
  first, second = _pairs(world, 70)  # More than one call takes.
  first[3] = core.DEAD
  second[4] = core.DEAD
  expected = world.boundary(first, second, 3)
  _assert_same(device_walks.boundary(world, first, second, 3), expected)
  assert len(expected.lengths)


def test_boundaries_of_boards_found_with_too_little_room(monkeypatch):
  monkeypatch.setattr(device_walks, 'NODES', 64)
  world = registry.make('world', 'othello(size=4)')
  first, second = _pairs(world, 30)
  second[4] = core.DEAD
  expected = world.boundary(first, second, 2)
  _assert_same(device_walks.boundary(world, first, second, 2), expected)
  assert len(expected.lengths) > 64


@pytest.mark.parametrize('spec', [*WORLDS, 'othello(size=4)'])
def test_walks(spec):
  world = registry.make('world', spec)
  found = world.sample(40, 3)
  tokens, lengths = found.tokens.copy(), found.lengths - np.arange(40) % 3
  tokens[::2, 4] = tokens[::-2, 5]
  tokens[1, 2], tokens[3, 1] = core.PAD, len(world.vocab) - 1
  states = world.init(40)
  steps = device_walks.steps(world, states, tokens, lengths)
  np.testing.assert_array_equal(steps, world.walk(states, tokens, lengths)[0])
  assert (steps < lengths).any() or spec.startswith('groups')
