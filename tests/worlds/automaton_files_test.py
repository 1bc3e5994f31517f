"""Automata from files: every format, and what is refused."""

import itertools
import json
import re

import numpy as np
import pytest

from tests import judging
from tests.worlds import languages
from wm import core
from wm.core import basics, registry
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


def as_graphml(path):
  import networkx as nx

  graph = nx.MultiDiGraph()
  for state in TABLE['transitions']:
    marks = {'accepting': state in TABLE['accepting']}
    graph.add_node(state, start=state == TABLE['start'], **marks)
  for state, symbol, after in edges():
    graph.add_edge(state, after, label=symbol)
  nx.write_graphml(graph, path)


@pytest.fixture(params=['.json', '.csv', '.graphml', '.dot', '.gv'])
def path(request, tmp_path):
  """The automaton in a file of each kind."""
  file = tmp_path / f'even{request.param}'
  if request.param == '.graphml':
    as_graphml(file)
  elif request.param == '.json':
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
  some = [*languages.words('ab', 7)]
  wanted = [bool(re.fullmatch('(aa)*b?', ''.join(word))) for word in some]
  np.testing.assert_array_equal(languages.accepted(world, some), wanted)
  for text in ('again', 'even', 'even|again'):
    assert world.format(world.parse(text)[0]) == 'even|again'
  with pytest.raises(core.InputError, match='no state of automaton'):
    world.parse('trap')


def test_states_that_are_alike_may_be_kept(tmp_path):
  file = tmp_path / 'even.json'
  file.write_text(json.dumps(TABLE))
  world = automaton.World(str(file), minimise=False)
  assert world.stats() == {**FACTS, 'states': 5, 'merged': 0}
  twins = np.concatenate([world.parse(t) for t in ('even', 'again')])
  assert twins[0, 0] != twins[1, 0]
  assert not world.boundary(twins[:1], twins[1:], 5).sizes.any()


def test_labels_of_a_graph_may_hold_several_symbols(tmp_path):
  pytest.importorskip('pydot')
  file = tmp_path / 'any.dot'
  file.write_text(
    'digraph { s [start=true]; s -> t [label="0, 1"]; t -> s [label=2]; }'
  )
  world = automaton.World(str(file))
  assert world.vocab == ('<pad>', '0', '1', '2')
  assert world.delta.tolist() == [[1, 1, -1], [-1, -1, 0]]


def test_without_accepting_states_sequences_just_stop(tmp_path):
  file = tmp_path / 'walk.json'
  table = {'a': {'x': 'b'}, 'b': {'y': 'a', 'x': 'c'}, 'c': {}}
  file.write_text(json.dumps({'start': 'a', 'transitions': table}))
  world = automaton.World(str(file), length=6)
  assert world.end == core.DEAD
  assert world.vocab == ('<pad>', 'x', 'y')
  assert world.names == ('a', 'b', 'c')
  assert world.stats()['dead_ends'] == 1
  found = world.sample(200, 3)
  assert (judging.judge(world, found) == 'valid').all()
  assert set(found.lengths.tolist()) == {2, 4, 6}
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
    "has no 'start'",
  ),
  'unknown.json': (
    changed(transitions={**ROWS, 'last': {'a': 'q9'}}),
    "unknown state 'q9'; available: even",
  ),
  'begins.json': (changed(start='q9'), "unknown start state 'q9'"),
  'symbol.json': (changed(alphabet=['a']), "unknown symbol 'b'"),
  'several.json': (
    changed(transitions={**ROWS, 'last': {'a': ['even', 'odd']}}),
    'expected one name',
  ),
  'twice.json': (
    '{"start": "a", "transitions": {"a": {"x": "a", "x": "b"}}}',
    "'x' is there twice",
  ),
  'empty.json': (changed(accepting=[]), 'its language is empty'),
  'trap.json': (changed(start='trap'), 'accepts no word'),
  'key.json': (changed(final=['even']), "unknown key 'final'; available"),
  'list.json': ('[1, 2]', 'expected an object with alphabet'),
  'text.json': ('{"start"', 'is not JSON'),
  'deep.json': ('[' * 100_000, 'is not JSON'),
  'nothing.json': (
    json.dumps({'start': 'a', 'accepting': ['a'], 'transitions': {'a': {}}}),
    'has 0 symbols',
  ),
  'blank.json': (changed(alphabet=['a', 'b', 'c d']), "'c d' is no symbol"),
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
  'odd.graphml': ('<graphml/>', 'is not GraphML'),
  'cut.graphml': ('<graphml', 'is not GraphML'),
  'odd.dot': ('digraph {', 'is not DOT'),
  'plain.dot': ('graph { a -- b [label=x]; }', 'expected a directed graph'),
  'bare.dot': (
    'digraph { a [start=true]; a -> b; b -> a [label=x]; }',
    'the edge from a to b has no label',
  ),
  'hidden.dot': (
    'digraph { a [start=true]; subgraph k { a -> b [label=x]; } }',
    'edges in a subgraph',
  ),
  'both.dot': (
    'digraph { a [start=true]; a -> b [label=x]; a -> a [label="x,y"]; }',
    'expected a deterministic automaton',
  ),
  'deep.dot': ('digraph' + 3000 * '{' + 'a' + 3000 * '}', 'has 3000 levels'),
  'some.txt': ('a', "unknown suffix '.txt'; available: .json, .csv"),
}


@pytest.mark.parametrize('name', BAD)
def test_a_bad_file_is_one_clear_line(name, tmp_path):
  if name.endswith('.dot'):
    pytest.importorskip('pydot')
  text, match = BAD[name]
  file = tmp_path / name
  file.write_text(text)
  with pytest.raises(core.InputError, match=re.escape(match)) as error:
    automaton.World(str(file)).stats()
  assert '\n' not in str(error.value)
  assert name in str(error.value)


def test_two_hundred_malformed_files_are_read_or_refused(tmp_path):
  """Bytes dropped, doubled or changed: a world, or one line that says why."""
  as_graphml(tmp_path / 'given.graphml')
  forms = {
    '.json': json.dumps(TABLE),
    '.csv': as_csv(),
    '.graphml': (tmp_path / 'given.graphml').read_text(),
  }
  refused = []
  for number, suffix in itertools.product(range(70), forms):
    data = bytearray(forms[suffix].encode())
    for k in range(1 + number % 4):
      at = int(basics.hash64(number, k)) % len(data)
      data[at : at + k] = bytes([int(basics.hash64(number, k, 1)) % 256])
    file = tmp_path / f'bad{suffix}'
    file.write_bytes(bytes(data))
    try:
      machine.reduced(str(file), readers.read(str(file)), True)
    except core.InputError as error:
      refused.append(str(error))
  assert len(refused) > 70
  assert not any('\n' in line for line in refused)
