"""Automata from files: every format, and what is refused."""

import itertools
import json
import re

import numpy as np
import pytest

from tests import judging
from tests.worlds import languages
from wm import core
from wm.core import basics, capabilities, registry
from wm.worlds import automaton
from wm.worlds.automaton import machine, readers

# One automaton in every form: an even number of a, then perhaps b; with a state
# that nothing leads to, one that leads nowhere, and two that are alike.
TABLE = {
  'alphabet': ['a', 'b'],
  'start': 'even',
  'accepting': ['even', 'last', 'final'],
  'transitions': {
    'even': {'a': 'odd', 'b': 'last'},
    'odd': {'a': 'again', 'b': 'trap'},
    'again': {'a': 'odd', 'b': 'final'},
    'last': {},
    'final': {'a': 'trap'},
    'trap': {'a': 'trap'},
    'island': {'b': 'even'},
  },
}
TABLE['accepting'].append('again')
FACTS = {
  'states': 3,
  'states_given': 7,
  'unreachable': 1,
  'dead_ends': 1,
  'merged': 2,
}


def edges():
  for state, row in TABLE['transitions'].items():
    for symbol, after in row.items():
      yield state, symbol, after


def as_csv():
  lines = ['state,symbol,next', f'{TABLE["start"]},,start']
  lines += [f'{state},,accepting' for state in TABLE['accepting']]
  return '\n'.join([*lines, 'last,,', *map(','.join, edges())])


def as_dot():
  """As automata are drawn: an arrow out of nothing, doubled circles."""
  doubled = ' '.join(f'{state};' for state in TABLE['accepting'])
  drawn = ''.join(f'  {a} -> {b} [label="{x}"];\n' for a, x, b in edges())
  return (
    'digraph { rankdir=LR; node [shape=point]; hidden; node '
    f'[shape=doublecircle]; {doubled} node [shape=circle];\n'
    f'hidden -> {TABLE["start"]};\n{drawn}}}'
  )


@pytest.fixture(params=['.json', '.csv', '.dot', '.gv'])
def path(request, tmp_path):
  """The automaton in a file of each kind."""
  file = tmp_path / f'even{request.param}'
  if request.param == '.json':
    file.write_text(json.dumps(TABLE))
  elif request.param == '.csv':
    file.write_text(as_csv())
  else:
    pytest.importorskip('pydot')
    file.write_text(as_dot())
  return str(file)


def test_every_format_gives_the_same_world(path):
  world = registry.make('world', f'automaton(file={path!r}, length=9)')
  assert world.vocab == ('<pad>', 'end', 'a', 'b')
  assert world.stats() == FACTS
  assert set(world.names) == {'even|again', 'odd', 'last|final', 'over'}
  sample = [*languages.words('ab', 7)]
  expected = [bool(re.fullmatch('(aa)*b?', ''.join(word))) for word in sample]
  np.testing.assert_array_equal(languages.accepted(world, sample), expected)
  for text in ('again', 'even', 'even|again'):
    assert world.format(world.parse(text)[0]) == 'even|again'
  with pytest.raises(core.InputError, match='no state of automaton'):
    world.parse('trap')


def test_without_accepting_states_sequences_just_stop(tmp_path):
  file = tmp_path / 'walk.json'
  table = {'a': {'x': 'b'}, 'b': {'y': 'a', 'x': 'c'}, 'c': {}}
  file.write_text(json.dumps({'start': 'a', 'transitions': table}))
  world = automaton.World(str(file), length=6)
  assert world.end == core.DEAD
  assert world.vocab == ('<pad>', 'x', 'y')
  assert world.names == ('a', 'b', 'c')
  assert world.stats()['dead_ends'] == 1
  result = world.sample(200, 3)
  assert (judging.judge(world, result) == 'valid').all()
  assert set(result.lengths.tolist()) == {2, 4, 6}
  assert world.prefix_moves(world.parse('c')).tolist() == [[2, 4]]


def test_names_that_a_merged_state_would_take_stay_apart(tmp_path):
  table = {'s': {'x': 'a', 'y': 'b', 'z': 'a|b'}, 'a': {}, 'b': {}}
  table['a|b'] = {'x': 'a'}
  held = {'start': 's', 'accepting': ['a', 'b'], 'transitions': table}
  file = tmp_path / 'names.json'
  file.write_text(json.dumps(held))
  world = automaton.World(str(file))
  assert world.names == ('s', "a|b'", 'a|b', 'over')
  for row, name in enumerate(world.names):
    assert world.parse(name)[0, 0] == row


def changed(**more):
  return json.dumps({**TABLE, **more})


ROWS = TABLE['transitions']
BAD = {
  'no_start.json': (
    json.dumps({'transitions': {'a': {'x': 'a'}}}),
    'lacks start',
  ),
  'unknown.json': (
    changed(transitions={**ROWS, 'last': {'a': 'q9'}}),
    "unknown state 'q9'; available: even",
  ),
  'begins.json': (changed(start='q9'), "unknown start state 'q9'"),
  'symbol.json': (changed(alphabet=['a']), "unknown symbol 'b'"),
  'several.json': (
    changed(transitions={**ROWS, 'last': {'a': ['even', 'odd']}}),
    'expected a text or a whole number',
  ),
  'twice.json': (
    '{"start": "a", "transitions": {"a": {"x": "a", "x": "b"}}}',
    "'x' is there twice",
  ),
  'empty.json': (changed(accepting=[]), 'its language is empty'),
  'trap.json': (changed(start='trap'), 'accepts no word'),
  'key.json': (changed(goal=['even']), "has an unknown 'goal'"),
  'list.json': ('[1, 2]', 'expected an object with named fields'),
  'text.json': ('{"start"', 'is not JSON'),
  'deep.json': ('[' * 100_000, 'is not JSON'),
  'nothing.json': (
    json.dumps({'start': 'a', 'accepting': ['a'], 'transitions': {'a': {}}}),
    'has 0 symbols',
  ),
  'blank.json': (
    changed(alphabet=['a', 'b', 'c d', 'c_d']),
    "symbol 'c d' becomes 'c_d', which another one is",
  ),
  'end.json': (changed(alphabet=['a', 'b', 'end']), "'end' is no symbol"),
  'taken.json': (
    changed(transitions={**ROWS, 'dead': {}}),
    "a state is named 'dead'",
  ),
  'word.json': (
    json.dumps(
      {
        'start': 'a',
        'accepting': ['a'],
        'transitions': {'a': {'x': 'b'}, 'b': {}},
      }
    ),
    'has no word but the empty one',
  ),
  'columns.csv': ('from,symbol,to\na,x,b\n', "no column 'state'"),
  'start.csv': ('state,symbol,next\na,x,a\n', 'has 0 start states'),
  'starts.csv': (
    'state,symbol,next\na,,start\nb,,start\na,x,a\n',
    'has 2 start states: a, b',
  ),
  'mark.csv': ('state,symbol,next\na,,begin\n', "that says 'begin'"),
  'both.csv': (
    'state,symbol,next\na,,start\na,x,a\na,x,b\nb,,\n',
    "leads with 'x' to both 'a' and 'b'; expected a deterministic",
  ),
  'unknown.csv': ('state,symbol,next\na,,start\na,x,b\n', "unknown state 'b'"),
  'short.csv': ('state,symbol,next\na,x\n', 'line 2: 2 fields, expected 3'),
  'odd.dot': ('digraph {', 'is not DOT'),
  'plain.dot': ('graph { a -- b [label=x]; }', 'expected a directed graph'),
  'bare.dot': (
    'digraph { a [start=true]; a -> b; b -> a [label=x]; }',
    'the edge from a to b has no label',
  ),
  'both.dot': (
    'digraph { a [start=true]; a -> b [label=x]; a -> a [label=x]; }',
    'expected a deterministic automaton',
  ),
  'deep.dot': ('digraph' + 3000 * '{' + 'a' + 3000 * '}', 'has groups'),
  'some.pdf': ('a', "unknown suffix '.pdf'; available: .json, .csv"),
  'chance.csv': (
    'state,symbol,next,prob\na,,start,\na,x,a,0.5\n',
    'has prob: a probabilistic or weighted automaton',
  ),
  'weight.dot': (
    'digraph { s -> a; s [shape=point]; a -> a [label=x, weight=0.5]; }',
    'has weight: a probabilistic',
  ),
}


@pytest.mark.parametrize('name', BAD)
def test_a_bad_file_is_one_clear_line(name, tmp_path, one_line):
  if name.endswith('.dot'):
    pytest.importorskip('pydot')
  text, match = BAD[name]
  file = tmp_path / name
  file.write_text(text)
  with one_line(re.escape(match)) as error:
    automaton.World(str(file)).stats()
  assert name in str(error.value)


def test_two_hundred_malformed_files_are_read_or_refused(tmp_path):
  """Bytes dropped, doubled or changed: a world, or one line that says why."""
  forms = {'.json': json.dumps(TABLE), '.csv': as_csv()}
  refused = []
  for number, suffix in itertools.product(range(105), forms):
    data = bytearray(forms[suffix].encode())
    for k in range(1 + number % 4):
      at = int(basics.hash64(number, k)) % len(data)
      data[at : at + k] = bytes([int(basics.hash64(number, k, 1)) % 256])
    file = tmp_path / f'bad{suffix}'
    file.write_bytes(bytes(data))
    try:
      machine.reduced(str(file), readers.read(str(file)))
    except core.InputError as error:
      refused.append(str(error))
  assert len(refused) > 70
  assert not any('\n' in line for line in refused)


def read(tmp_path, name, text, **fields):
  pytest.importorskip('pydot')
  (tmp_path / name).write_text(text)
  return automaton.World(str(tmp_path / name), **fields)


ARROW = 'none [shape=none, label=""]; none -> a;'


@pytest.mark.parametrize(
  'mark', ['peripheries=2', 'shape=doublecircle', 'accepting=true']
)
def test_marks_of_accepting_states(mark, tmp_path):
  text = f'digraph {{ {ARROW} a -> b [label=x]; b [{mark}]; }}'
  world = read(tmp_path, 'a.dot', text)
  assert world.vocab == ('<pad>', 'end', 'x')
  assert world.read_as()['accepting'] == 'b'


# File of others -> symbols and states, or what it is refused as.
CASES = {
  '04/room.json': ('down left right up', 1),
  '05/chain.dot': ('stay tick', 3),
  '05/chain2.dot': ('tick', 1),
  '05/classic.dot': ('end S SS a b', 4),
  '05/cluster.dot': 'has groups of nodes',
  '05/quoted.dot': ('end small_to_1 small_to_2', 2),
  '06/even.hoa': "unknown suffix '.hoa'",
  '06/even.jff': "unknown suffix '.jff'",
  '06/psa.json': 'lacks start',
  '17/flipflop.json': ('0 1 i r w', 8),
}


@pytest.mark.parametrize('name', CASES)
def test_automata_of_others(name, cases):
  pytest.importorskip('pydot')
  world = automaton.World(str(cases / name))
  if isinstance(CASES[name], str):
    with pytest.raises(core.InputError, match=CASES[name]):
      world.stats()
    return
  symbols, states = CASES[name]
  assert ' '.join(world.vocab[1:]) == symbols
  assert world.stats()['states'] == states
  legal = name[:5] == '04/ro' or name == '05/chain2.dot'
  assert ('caution' in capabilities.notes(world)) == legal


def test_the_flip_flop_language(cases):
  world = automaton.World(str(cases / '17' / 'flipflop.json'))
  start = world.init(1)[0]
  assert world.count(start, start, 5)[1] == [1, 2, 6, 10, 30]


def test_the_case_of_walks_has_144_states(cases):
  for size in (10, 12):
    path = cases / '19' / f'walk{size}.json'
    world = registry.make('world', f"automaton(file='{path}', length=20)")
    assert world.stats()['states'] == size**2
