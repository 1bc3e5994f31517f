"""Myhill-Nerode classes of worlds (Vafa et al. 2024, appendix C)."""

import dataclasses
import subprocess
import sys

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import wm
from wm import core
from wm.core import registry
from wm.worlds.base import table


@dataclasses.dataclass(frozen=True)
class Given(table.TableWorld):
  """A table as it is given."""

  rows: tuple[tuple[int, ...], ...] = ((0,),)

  @property
  def delta(self):
    return np.array(self.rows, np.int32)

  @property
  def vocab(self):
    return ('<pad>', *map(str, range(len(self.rows[0]))))

  @property
  def max_len(self):
    return 9


def language(world, state, depth):
  """Every legal sequence of up to `depth` tokens, as definition C.1 asks."""
  result = set()
  for token in np.flatnonzero(world.legal(state[None])[0]).tolist():
    result.add((token,))
    if depth > 1:
      after = world.advance(state[None], np.array([token], np.int32))[0]
      result |= {(token, *rest) for rest in language(world, after, depth - 1)}
  return result


def test_states_that_nothing_tells_apart_are_one_class():
  # From 0 to 1 and 2, which both lead to 3 and back; 4 is never reached.
  world = Given(rows=((1, 2), (3, -1), (3, -1), (-1, 0), (0, 0)))
  result = wm.classes(world)
  assert result.names.tolist() == ['0', '1', '2', '3']
  assert result.block.tolist() == [0, 1, 1, 2]
  assert result.told_apart == [1, 3]
  assert result.shared() == [['1', '2']]
  assert result.lines() == [
    'states 4',
    'classes 3',
    'told apart by suffixes of at most k tokens:',
    '  0 1',
    '  1 3',
    'theorem C.2 holds: the minimal automaton has 3 states',
    'classes of several states 1',
    '  1 | 2',
  ]


TABLES = arrays.arrays(
  np.int32, st.tuples(st.integers(1, 6), st.integers(1, 3)), elements=st.just(0)
).flatmap(
  lambda some: arrays.arrays(
    np.int32, some.shape, elements=st.integers(-1, len(some) - 1)
  )
)


@hypothesis.given(TABLES)
@hypothesis.settings(deadline=None, max_examples=50)
def test_classes_are_those_of_the_definition(delta):
  hypothesis.assume((delta[0] >= 0).any())  # Worlds begin.
  world = Given(rows=tuple(map(tuple, delta.tolist())))
  result = wm.classes(world)
  rows = [int(name) for name in result.names]
  depth = len(delta)  # Suffixes shorter than the states tell all apart.
  languages = [
    frozenset(language(world, np.array([row]), depth)) for row in rows
  ]
  assert len(set(languages)) == result.minimal == result.told_apart[-1]
  for item in range(len(rows)):
    for two in range(len(rows)):
      same = languages[item] == languages[two]
      assert same == (result.block[item] == result.block[two])
  shorter = [
    len({frozenset(s for s in sample if len(s) <= k) for sample in languages})
    for k in range(len(result.told_apart))
  ]
  assert result.told_apart == shorter


@pytest.mark.parametrize(
  ('spec', 'states', 'classes'),
  [
    ('connect4(rows=3, columns=4)', 256, 256),  # Every count of discs.
    ('lattice(size=5)', 5, 5),
    ('seating()', 19, 19),
    ('othello(size=4)', 52887, 15392),
  ],
)
def test_classes_of_worlds(spec, states, classes):
  result = wm.classes(spec)
  assert len(result.names) == states
  assert result.minimal == result.told_apart[-1] == classes


def test_classes_of_a_map_are_the_papers_states():
  """A class for each reachable pair (intersection, destination), section 3."""
  world = registry.make('world', 'maps(rows=3, columns=3)')
  places, result = len(world.graph), wm.classes(world)
  # Besides pairs: nothing yet, an origin alone, and after `end`.
  assert len(result.names) <= places**2 + places + 2
  assert result.minimal == len(result.names)
  pairs = {name for name in result.names if '?' not in name and ',' in name}
  assert len(pairs) == len(result.names) - places - 2


def run(root, *args):
  return subprocess.run(
    [sys.executable, root / 'launch' / 'count.py', '--classes', *args],
    capture_output=True,
    text=True,
    check=False,
  )


@pytest.mark.process
def test_classes_from_the_command_line(root):
  done = run(root, '--world=lattice(size=3)')
  assert (done.returncode, done.stderr) == (0, '')
  assert done.stdout.splitlines()[:2] == ['states 3', 'classes 3']
  done = run(root, '--world=connect4()')
  assert (done.returncode, done.stdout) == (2, '')
  assert done.stderr == (
    'error: connect4 has more than 131072 states: too many to enumerate; '
    'take a smaller one\n'
  )


def test_a_bound_is_kept():
  with pytest.raises(core.InputError, match='more than 255 states'):
    wm.classes('connect4(rows=3, columns=4)', most=255)
  assert wm.classes('connect4(rows=3, columns=4)', most=256).minimal == 256
