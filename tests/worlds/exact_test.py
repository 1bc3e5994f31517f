"""Exact boundaries and counts of every world, and of them as text."""

import signal
import subprocess
import sys

import numpy as np
import pytest

import wm
from tests import every_world
from tests.launch import binaries
from wm import core
from wm.core import registry
from wm.library import exact
from wm.runtime import stopping
from wm.worlds import maps

CHESS = '--world=chess()'
# Runs a binary that hears Ctrl-C, also where tests run in the background and
# may have been told to ignore it.
HEARING = """
import runpy, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name='__main__')
"""


@pytest.fixture(
  scope='module',
  params=every_world.names(core.Enumerable, core.Prefixed, core.Written),
)
def world(request):
  return registry.make('world', f'{request.param}()')


def enumerated(world, state, depth):
  """Every legal token sequence of up to `depth` tokens, by brute force."""
  level, result = [((), state)], []
  for _ in range(depth):
    deeper = []
    for path, at in level:
      for token in np.flatnonzero(world.legal(at[None])[0]):
        after = world.advance(at[None], np.array([token], np.int32))[0]
        deeper.append(((*path, int(token)), after))
    result += [path for path, _ in deeper]
    level = deeper
  return result


def brute_boundary(world, first, second, depth):
  item = set(enumerated(world, first, depth))
  two = set(enumerated(world, second, depth))
  beyond = {
    s for s in item - two if all(s[:k] in two for k in range(1, len(s)))
  }
  return sorted(beyond, key=lambda suffix: (len(suffix), suffix))


def small(world):
  """A depth that brute force can reach."""
  branching = world.legal(world.sample_states(50, 1)).sum(-1).max()
  return max(1, int(np.log(1500) / np.log(max(branching, 2))))


def test_boundary_is_that_of_brute_force(world):
  states, depth = world.sample_states(16, 11), small(world)
  first, second = states[:8], states[8:]
  results = world.boundary(first, second, depth).listed()
  for t, suffixes in enumerate(results):
    assert suffixes == brute_boundary(world, first[t], second[t], depth)
    both = enumerated(world, first[t], depth)
    both = set(both) & set(enumerated(world, second[t], depth))
    results = world.count(first[t], second[t], depth)
    for sizes, listed in zip(results, (suffixes, both), strict=True):
      lengths = [len(suffix) for suffix in listed]
      assert sizes == [lengths.count(k) for k in range(1, depth + 1)]


def test_sizes_of_any_world_are_what_each_says_itself(world):
  states = np.concatenate([world.init(1), world.sample_states(3, 5)])
  for first, second in ((0, 0), (1, 1), (1, 2), (2, 3), (0, 3)):
    pair = states[first], states[second], min(small(world), 3)
    assert world.count(*pair) == core.Enumerable.count(world, *pair)


def test_count_is_that_of_enumeration(world):
  depth = small(world)
  for state in world.sample_states(6, 13):
    lengths = [len(s) for s in enumerated(world, state, depth)]
    expected = [lengths.count(k) for k in range(1, depth + 1)]
    assert world.count(state, state, depth)[1] == expected


def test_a_state_can_be_named_by_a_sequence(world):
  result = world.sample(1, 31)
  size = np.minimum(result.lengths, 3)
  words = [world.vocab[t] for t in result.tokens[0, : size[0]]]
  _, after = world.walk(world.init(1), result.tokens, size)
  np.testing.assert_array_equal(exact.locate(world, ' '.join(words)), after[0])


def test_a_named_state_is_read_first_then_a_sequence():
  world = maps.World()
  state = exact.locate(world, '3,1')
  assert world.format(state) == '3,1'
  assert world.format(exact.locate(world, '3')) == '3,?'
  for text, output in [
    ('3,999', "'999' is not among"),
    ('3 1 nowhere', 'is no map state'),
    (
      '3 1 end',
      "token 'end', number 3 of '3 1 end', is not legal in state 3,1",
    ),
    ('', 'is no map state'),
  ]:
    with pytest.raises(core.InputError, match=output):
      exact.locate(world, text)


def test_answers_about_the_lattice():
  world = registry.make('world', 'lattice(size=3)')
  assert [*wm.count(world, None, 3)] == [2, 5, 12]
  assert [*wm.count(world, 'right', 1)] == [3]
  assert wm.boundary(world, '1', '0', 2).sizes == [(1, 1, 2), (2, 2, 6)]
  result = wm.boundary(world, '1', 'stay', 2)
  assert result.suffixes() == ['left', 'stay left']
  assert result.sizes == [(1, 1, 2), (2, 2, 6)]
  assert result.by_length == [(1, 1, 2), (2, 1, 4)]


def test_boundary_from_the_command_line():
  asked = (
    *('--world=connect4(rows=6)', '--depth=5'),
    *('--first_state=1,1,1,2,2,2,2', '--second_state=3,1,1,2,2,2,2'),
  )
  code, output, _ = binaries.run('count', *asked)
  assert (code, output) == (0, '1 0 7\n2 0 56\n3 0 399\n4 1 2799\n5 25 19571\n')
  code, output, _ = binaries.run('count', *asked, '--interior')
  assert (code, output) == (0, '1 0 7\n2 0 49\n3 0 343\n4 1 2400\n5 24 16772\n')


def endless(root):
  return subprocess.Popen(
    [sys.executable, '-c', HEARING, 'count.py', '--depth=99', CHESS],
    cwd=root / 'launch',
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
  )


@pytest.mark.process
def test_a_count_without_end_shows_what_it_has(root):
  process = endless(root)
  result = [process.stdout.readline() for _ in range(4)]
  assert result == ['1 20\n', '2 400\n', '3 8902\n', '4 197281\n']
  process.send_signal(signal.SIGINT)
  error = process.communicate(timeout=600)[1]
  assert process.returncode == stopping.Exit.INTERRUPTED
  assert error == 'interrupted\n'


@pytest.mark.process
def test_a_boundary_in_compiled_code_hears_ctrl_c(root):
  """In the midst of a search that would take hours; twice it came back."""
  output = """
sys.path.insert(0, '..')
from wm.kernels.chess import positions as kernel
search = kernel._search
def said(*args):
  print('in', flush=True)
  return search(*args)
kernel._search = said
del sys.argv[0]
"""
  process = subprocess.Popen(
    [
      *(sys.executable, '-c', HEARING.replace('del sys.argv[0]', output)),
      *('count.py', CHESS, '--depth=20'),
      *('--first_state=e4 e5', '--second_state=e4 e6'),
    ],
    cwd=root / 'launch',
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
  )
  assert [process.stdout.readline() for _ in range(3)] == ['in\n'] * 3
  process.send_signal(signal.SIGINT)
  error = process.communicate(timeout=600)[1]
  assert process.returncode == stopping.Exit.INTERRUPTED
  assert error == 'interrupted\n'


@pytest.mark.parametrize(
  ('flags', 'words'),
  [
    ((), '--world is required'),
    (('--world=lattice()', '--state=7'), 'expected 0..4'),
    (('--world=lattice()', '--depth=0'), 'depth'),
    (('--world=lattice()', '--first_state=1'), '--second_state is required'),
  ],
)
def test_bad_input_is_one_line_and_exit_code_2(flags, words):
  assert words in binaries.refused('count', *flags)
