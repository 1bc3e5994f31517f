"""Hidden Markov processes: golden facts, and brute force over all paths."""

import itertools
import json

import numpy as np
import pytest

from wm import core
from wm.core import registry
from wm.worlds import hmm

# Shai et al. 2024, A.3; rows of RRXOR are S, 0, 1, T, F.
MESS3 = {
  'A': '.765 .00375 .00375 .0425 .0675 .00375 .0425 .00375 .0675',
  'B': '.0675 .0425 .00375 .00375 .765 .00375 .00375 .0425 .0675',
  'C': '.0675 .00375 .0425 .00375 .0675 .0425 .00375 .00375 .765',
}
RRXOR = {
  '0': '0 .5 0 0 0 0 0 0 0 .5 0 0 0 .5 0 0 0 0 0 0 1 0 0 0 0',
  '1': '0 0 .5 0 0 0 0 0 .5 0 0 0 0 0 .5 1 0 0 0 0 0 0 0 0 0',
}
SPECS = ['hmm()', "hmm(preset='rrxor')", "hmm(preset='z1r')"]
each = pytest.mark.parametrize('spec', SPECS)


def made(spec: str) -> hmm.World:
  return registry.make('world', spec)


def joint(world: hmm.World, tokens: tuple[int, ...]) -> np.ndarray:
  """[S] probability of tokens and the last hidden state, path by path."""
  _, states, matrices, start = world.process
  total = np.zeros(len(states))
  for path in itertools.product(range(len(states)), repeat=len(tokens) + 1):
    mass = start[path[0]]
    for token, i, j in zip(tokens, path[:-1], path[1:], strict=True):
      mass *= matrices[token - 1, i, j]
    total[path[-1]] += mass
  return total


def after(world: hmm.World, words: np.ndarray) -> np.ndarray:
  """[N, S] beliefs after all tokens [N, L]."""
  law = world.data_distribution()
  memory = law.init(len(words))
  for column in words.T:
    memory = law.advance(memory, column)
  return law.belief(memory)


@pytest.mark.parametrize(
  ('name', 'published'), [('mess3', MESS3), ('rrxor', RRXOR)]
)
def test_matrices_are_the_published_ones(name, published):
  process = made(f'hmm(preset={name!r})').process
  assert process.tokens == tuple(published)
  size = len(process.states)
  expected = [np.array(x.split(), float) for x in published.values()]
  expected = np.reshape(expected, (-1, size, size))
  np.testing.assert_allclose(process.matrices, expected, atol=1e-12)


@each
def test_the_filter_is_what_all_paths_say(spec):
  world = made(spec)
  tokens = range(1, len(world.vocab))
  for length in range(1, 4 if len(world.process.states) > 3 else 5):
    words = list(itertools.product(tokens, repeat=length))
    masses = np.array([joint(world, word) for word in words])
    beliefs = after(world, np.array(words, np.int32).reshape(-1, length))
    total = masses.sum(1)
    assert total.sum() == pytest.approx(1)
    possible = total > 0
    assert np.isnan(beliefs[~possible]).all()
    expected = masses[possible] / total[possible, None]
    np.testing.assert_allclose(beliefs[possible], expected, atol=1e-10)


@each
def test_next_tokens_are_what_all_paths_say(spec):
  world = made(spec)
  law = world.data_distribution()
  word = world.sample(1, 3).tokens[0, :3]
  memory = law.init(1)
  for token in word:
    memory = law.advance(memory, np.array([token]))
  listed, log_probs = law.next(memory)
  now = joint(world, tuple(word)).sum()
  for token in range(1, len(world.vocab)):
    odds = joint(world, (*word, token)).sum() / now
    place = np.flatnonzero(listed[0] == token)
    assert bool(odds) == bool(place.size)
    if odds:
      assert np.exp(log_probs[0, place]) == pytest.approx(odds, rel=1e-9)
  legal = world.legal(world.walk(world.init(1), word[None], np.array([3]))[1])
  assert set(np.flatnonzero(legal[0])) == set(listed[listed > 0])


def distinct(world: hmm.World, num: int) -> int:
  """Beliefs that sequences come to, the first included."""
  result = world.sample(num, 0)
  states = [world.init(1)]
  for length in range(1, world.max_len + 1):
    lengths = np.full(num, length)
    states.append(world.walk(world.init(num), result.tokens, lengths)[1])
  return len(np.unique(np.concatenate(states), axis=0))


def test_rrxor_has_36_beliefs_and_mess3_one_for_each_history():
  rrxor = made("hmm(preset='rrxor', length=24)")
  assert len(rrxor.process.states) == 5
  assert distinct(rrxor, 4000) == 36  # Shai et al. 2024, section 3.2.
  assert distinct(made("hmm(preset='z1r', length=30)"), 500) == 7
  mess3 = made('hmm(length=6)')
  words = np.unique(mess3.sample(20_000, 0).tokens, axis=0)
  assert len(np.unique(after(mess3, words), axis=0)) == len(words) > 700


@each
def test_sequences_are_as_likely_as_all_paths_say(spec):
  world = registry.make('world', spec.replace('(', '(length=3, ', 1))
  num = 40_000
  words, count = np.unique(world.sample(num, 1).tokens, axis=0, return_counts=1)
  likely = np.array([joint(world, tuple(word)).sum() for word in words])
  assert likely.sum() > 0.99
  error = np.sqrt(likely * (1 - likely) / num)
  assert (np.abs(count / num - likely) < 5 * error).all()


def test_hidden_states_are_as_likely_as_beliefs_say():
  world = made('hmm()')
  result = world.sample(30_000, 2)
  shown = world.hidden_states(result)
  assert shown.shape == (30_000, 10, 3)
  assert (shown.sum(-1) == 1).all()
  beliefs = after(world, result.tokens)
  for low in (0.0, 0.1, 0.5, 0.9):
    rows = (beliefs >= low) & (beliefs < low + 0.1)
    assert shown[:, -1][rows].mean() == pytest.approx(
      beliefs[rows].mean(), abs=0.02
    )
  bare = core.Sequences(result.tokens, result.lengths)
  with pytest.raises(core.InputError, match="without side data 'hidden'"):
    world.hidden_states(bare)


GOOD = {'a': [[0.5, 0], [0.2, 0.3]], 'b': [[0, 0.5], [0.5, 0]]}


def test_a_file_is_read_as_written(tmp_path):
  path = tmp_path / 'one.json'
  parts = {'matrices': GOOD, 'states': ['rain', 'sun'], 'start': [1, 0]}
  path.write_text(json.dumps(parts))
  process = hmm.World(file=str(path)).process
  assert process.tokens == ('a', 'b')
  assert process.states == ('rain', 'sun')
  np.testing.assert_array_equal(process.matrices, list(GOOD.values()))
  np.testing.assert_array_equal(process.start, [1, 0])
  path.write_text(json.dumps({'matrices': GOOD}))
  process = hmm.World(file=str(path)).process
  assert process.states == ('s0', 's1')
  moves = process.matrices.sum(0)
  np.testing.assert_allclose(process.start @ moves, process.start, rtol=1e-10)


TRAP = {'a': [[0.5, 0.5], [0, 1]]}
# In state 0, which is never left, the token b would have -0.4.
SIGNED = {'a': [[1.4, 0], [0.5, 0.1]], 'b': [[-0.4, 0], [0.2, 0.2]]}
BAD = [
  ({'matrices': {}}, 'expected words'),
  ([], 'expected an object of matrices'),
  ({'matrices': GOOD, 'stats': []}, 'expected an object of matrices'),
  ({'matrices': {'a b': [[1]]}}, "'a b'.*expected words"),
  ({'matrices': {'<pad>': [[1]]}}, 'expected words'),
  ({'matrices': {'a': 1}}, 'is not a hidden Markov process'),
  ({'matrices': {'a': [[0.5, 0.5], [1]]}}, "matrix of 'a' is not 2 x 2 num"),
  ({'matrices': {'a': [[1, 0]]}}, "'a' has shape .1, 2.; expected 1 x 1"),
  ({'matrices': {**GOOD, 'c': [[0]]}}, "'c' has shape .1, 1.; expected 2 x 2"),
  ({'matrices': {'a': [[-0.5, 1.5], [0, 1]]}}, 'holds -0.5; expected 2 x 2'),
  ({'matrices': {'a': [[float('nan')]]}}, 'holds nan'),
  ({'matrices': {'a': [[None]]}}, 'holds nan'),
  ({'matrices': {'a': [[10**400]]}}, 'is not 1 x 1 numbers'),
  ({'matrices': {'a': [[0.5, 0.4], [0, 1]]}}, "rows of state 's0' sum to 0.9"),
  (
    {'matrices': {'a': np.eye(2).tolist()}},
    "'s0' and 's1' never lead to each other.*\"start\"",
  ),
  (
    {'matrices': {'a': [[0.5, 0], [0, 1]]}, 'start': [1, 0]},
    'a process that stops',
  ),
  ({'matrices': SIGNED, 'start': [1, 0]}, "'a' holds 1.4; expected"),
  ({'matrices': GOOD, 'states': ['x']}, 'expected 2 different names'),
  ({'matrices': GOOD, 'states': ['x', 'x']}, 'expected 2 different names'),
  ({'matrices': GOOD, 'states': 'xy'}, 'expected 2 different names'),
  ({'matrices': GOOD, 'start': [1]}, 'start has shape'),
  ({'matrices': GOOD, 'start': [0.5, 0.4]}, 'start sums to 0.9; expected 1'),
  ({'matrices': GOOD, 'start': [2, -1]}, 'start holds'),
]


@pytest.mark.parametrize(('parts', 'message'), BAD)
def test_a_bad_file_is_one_line(tmp_path, parts, message, one_line):
  path = tmp_path / 'bad.json'
  path.write_text(json.dumps(parts))
  with one_line(message) as error:
    hmm.World(file=str(path)).init(1)
  assert str(path) in str(error.value)


def test_a_trap_with_a_start_is_a_process(tmp_path):
  path = tmp_path / 'trap.json'
  path.write_text(json.dumps({'matrices': TRAP, 'start': [1, 0]}))
  world = hmm.World(file=str(path))
  beliefs = after(world, np.ones((1, 3), np.int32))
  np.testing.assert_allclose(beliefs, [[1 / 8, 7 / 8]])


@pytest.mark.parametrize(
  ('fields', 'message'),
  [
    ({'preset': 'mess4'}, 'available: mess3, rrxor, z1r'),
    ({'preset': 'mess3', 'file': 'x.json'}, 'one of these alone'),
    ({'length': 1}, 'at least 2 tokens'),
  ],
)
def test_bad_fields(fields, message):
  with pytest.raises(core.InputError, match=message):
    hmm.World(**fields)


def test_no_such_file():
  with pytest.raises(core.InputError, match=r'no such file: none\.json'):
    hmm.World(file='none.json').init(1)


def test_beliefs_are_written_and_read():
  world = made("hmm(preset='rrxor')")
  state = world.advance(world.init(1), np.array([1]))
  text = world.format(state[0])
  assert text.split(', ')[:3] == [
    'S 0.33333333333348',
    'S0 0.33333333333348',
    'S1 0',
  ]
  np.testing.assert_array_equal(world.parse(text), state)
  half = world.format(world.parse('S 0.5,T 0.5')[0])
  assert half == 'S 0.5, S0 0, S1 0, T 0.5, F 0'
  for bad in ('S 0.5', 'S 2, T -1', 'Q 1', 'S'):
    with pytest.raises(core.InputError, match=r'belief|unknown state'):
      world.parse(bad)


def test_a_stationary_start_may_leave_states_behind(tmp_path):
  """Any chain with one class of states that is never left has one."""
  rng = np.random.default_rng(0)
  for size in (2, 3, 5):
    moves = rng.dirichlet(np.ones(size), size)
    moves[-1] = np.eye(size)[-1]  # The rest is left for good.
    path = tmp_path / 'chain.json'
    path.write_text(json.dumps({'matrices': {'a': moves.tolist()}}))
    start = hmm.World(file=str(path)).process.start
    np.testing.assert_array_equal(start, np.eye(size)[-1])
  ring = np.roll(np.eye(4), 1, axis=1)
  path.write_text(json.dumps({'matrices': {'a': ring.tolist()}}))
  np.testing.assert_allclose(hmm.World(file=str(path)).process.start, 1 / 4)


CASES = {
  '07/leftright.json': (0, 0, 1),
  '07/periodic.json': (0.5, 0.5),
  '07/two_class.json': 'no single distribution is stationary',
  '07/two_class_start.json': (0.25,) * 4,
  '08/signed.json': 'holds -0.1; expected 2 x 2 numbers from 0 to 1',
  '08/stopping.json': 'a process that stops',
}


@pytest.mark.parametrize('name', CASES)
def test_processes_of_others(name, cases):
  world = hmm.World(file=str(cases / name))
  if isinstance(CASES[name], str):
    with pytest.raises(core.InputError, match=CASES[name]):
      world.init(1)
  else:
    np.testing.assert_allclose(world.process.start, CASES[name], atol=1e-12)
