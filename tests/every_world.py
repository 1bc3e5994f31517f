"""Every world with its defaults, corners of some, and states of each."""

import functools

import numpy as np
import pytest

from wm import core
from wm.core import registry
from wm.worlds.base import games

SPECS = [f'{name}()' for name in registry.names('world')] + [
  "maps(traversal='shortest')",
  "maps(traversal='noisy', weightings=3)",
  'maps(rows=14, columns=14, max_moves=30)',
  'connect4(rows=2, columns=4)',
  "othello(size=6, states='recurring')",
  "chess(vocabulary='packed', length=40, policy='promotions', least=0)",
  "chess(states='recurring', length=21)",
  'lattice(size=2, length=40)',
  'lattice(size=3, length=12)',
  "othello(size=6, openings='b2 c2 d2 b3 b4 e5')",
  "groups(group='a5', tokens='generators', length=21)",
  'seating(people=4, length=9, most=5)',
  'seating(people=5)',
  "automaton(preset='tomita3')",
  "automaton(preset='s3_generators', length=20)",
  "automaton(preset='random_12_6_3_0')",
  "hmm(preset='rrxor', length=24)",
  "cognitive_graph(name='n15star', edit='teleDetour', walks='shortest')",
  "orbits(systems='exoplanets', planets=3, bins=300, box=50.0, rows=20)",
]
WORLDS = {spec: registry.make('world', spec) for spec in SPECS}
STATES = 24


def names(*abilities: core.Need) -> list[str]:
  """Names of worlds whose class has all of some abilities."""
  known = {n: registry.find('world', n) for n in registry.names('world')}
  return [
    n for n, cls in known.items() if all(core.can(cls, a) for a in abilities)
  ]


def having(ability: core.Need) -> pytest.MarkDecorator:
  """Runs a test with each world that has an ability, found by type."""
  specs = [spec for spec, made in WORLDS.items() if core.can(made, ability)]
  return pytest.mark.parametrize(
    'world', [WORLDS[spec] for spec in specs], ids=specs
  )


@functools.cache
def states_of(world: core.World) -> np.ndarray:
  """[B, W] initial, trial and walked states; the last one is dead."""
  result = [world.init(1)]
  if isinstance(world, core.Prefixed):
    result.append(world.sample_states(STATES, 3))
  sequences = world.sample(8, 5)
  for cut in (1, 2, 3, 5, world.max_len):
    lengths = np.minimum(sequences.lengths, cut)
    result.append(world.walk(world.init(8), sequences.tokens, lengths)[1])
  result.append(world.advance(world.init(1), np.zeros(1, np.int32)))
  return np.concatenate(result)


def canonical(world: core.World, states: np.ndarray) -> np.ndarray:
  """The words that make a state what it is; a game's history is none."""
  if isinstance(world, games.GameWorld):
    return world.canonical(states)
  return states
