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
  sample = [*languages.words('ab', 7)]
  expected = [bool(re.fullmatch('(aa)*b?', ''.join(word))) for word in sample]
  np.testing.assert_array_equal(languages.accepted(world, sample), expected)
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
  world = automaton.World(str(file), separator=',')
  assert world.vocab == ('<pad>', '0', '1', '2')
  whole = automaton.World(str(file))
  assert whole.vocab == ('<pad>', '0,_1', '2')
  assert whole.read_as()['symbols'] == 'edge attribute label, one symbol each'
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
  'key.json': (changed(goal=['even']), "unknown key 'goal'; available"),
  'keys.json': (changed(final=['even']), 'expected one of each meaning'),
  'list.json': ('[1, 2]', 'expected an object with alphabet'),
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
  'odd.graphml': ('<graphml/>', 'is not GraphML'),
  'cut.graphml': ('<graphml', 'is not GraphML'),
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
  'deep.dot': ('digraph' + 3000 * '{' + 'a' + 3000 * '}', 'has 3000 levels'),
  'some.pdf': ('a', "unknown suffix '.pdf'; available: .json, .csv"),
  'some.txt': ('a b\n', 'line 1: 2 fields; expected STATE NEXT SYMBOL'),
  'words.txt': ('HOA: v1\n', 'over infinite words'),
  'some.jff': (
    '<structure><type>pda</type></structure>',
    "type 'pda' of JFLAP",
  ),
  'none.jff': ('<structure><type>fa</type></structure>', 'has 0 start states'),
  'triple.json': (
    '{"start": "a", "transitions": [["a", "x"]]}',
    'a transition has another length',
  ),
  'chance.csv': (
    'state,symbol,next,prob\na,,start,\na,x,a,0.5\n',
    'has a column prob: a probabilistic or weighted automaton',
  ),
  'chance.dot': (
    'digraph { s -> a; s [shape=point]; a -> a [label="x (0.25)"]; '
    'a -> b [label="x (0.75)"]; b -> a [label="y (1.0)"]; }',
    "is a probabilistic automaton: labels such as 'x (0.25)'",
  ),
  'chain.dot': (  # Of each state, all symbols together.
    'digraph { s -> a; s [shape=point]; a -> a [label="x:.25"]; '
    'a -> b [label="y:.75"]; b -> a [label="y:1"]; }',
    'is a probabilistic automaton',
  ),
  'weight.dot': (
    'digraph { s -> a; s [shape=point]; a -> a [label=x, weight=0.5]; }',
    'has an edge attribute weight',
  ),
  'may.dot': (
    'digraph { s -> a; a -> a [label=x, modality=MAY]; }',
    'is a modal transition system',
  ),
  'stack.dot': (
    'digraph { s -> a; a -> a [label="( / push(()"]; a -> a [label="1"]; }',
    'is a pushdown automaton',
  ),
  'nondet.dot': (
    'digraph { s -> a; a -> a [label="x/0"]; a -> a [label="x/1"]; }',
    "answers 'x' by '1' and by '0'; expected a deterministic Mealy",
  ),
  **{
    f'empty{k}.dot': (
      f'digraph {{ s -> a; s [label=""]; a -> b [label="{word}"]; '
      'b -> a [label=x]; }',
      'stands for the empty word (epsilon)',
    )
    for k, word in enumerate(('ε', 'λ', 'eps', 'Lambda', '&epsilon;', ' '))
  },
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


def read(tmp_path, name, text, **fields):
  pytest.importorskip('pydot')
  (tmp_path / name).write_text(text)
  return automaton.World(str(tmp_path / name), **fields)


ARROW = 'none [shape=none, label=""]; none -> a;'
SAME = {
  'defaults': 'edge [label=x]; a -> b -> a [label=y]; a -> a;',
  'scopes': (
    'subgraph { edge [label=x]; a -> a; } edge [label=y]; a -> b; b -> a;'
  ),
  'clusters': (
    'subgraph cluster_1 { label=L; a -> a [label=x]; } '
    '{ edge [label=y]; a -> b:w -> a:e; }'
  ),
  'groups': (
    'a -> {b} [label=y]; {b} -> a [label="y"]; a -> a [label=<<b>x</b>>];'
  ),
}


@pytest.mark.parametrize('name', SAME)
def test_features_of_dot(name, tmp_path):
  """Each says a -x-> a -y-> b -y-> a."""
  world = read(tmp_path, 'a.dot', f'digraph {{ {ARROW} {SAME[name]} }}')
  assert world.vocab == ('<pad>', 'x', 'y')
  assert world.names == ('a', 'b')
  assert world.delta.tolist() == [[0, 1], [-1, 0]]


def test_arrows_have_no_label_by_default_either(tmp_path):
  text = f'digraph {{ edge [label=x]; {ARROW} a -> b; b -> a [label=y]; }}'
  assert read(tmp_path, 'a.dot', text).names == ('a', 'b')


@pytest.mark.parametrize(
  'mark',
  ['peripheries=2', 'shape=doublecircle', 'accepting=true', 'final=true'],
)
def test_marks_of_accepting_states(mark, tmp_path):
  text = f'digraph {{ {ARROW} a -> b [label=x]; b [{mark}]; }}'
  world = read(tmp_path, 'a.dot', text)
  assert world.vocab == ('<pad>', 'end', 'x')
  assert world.read_as()['accepting'] == mark


MACHINES = {
  'mealy': 'a -> b [label="go / hi"]; b -> a [label="go / ho"];',
  'mealy html': 'a -> b [label=<go<br/>hi>]; b -> a [label=<go<br />ho>];',
  'mealy attribute': (
    'a -> b [label=go, output=hi]; b -> a [label=go, output=ho];'
  ),
  'moore record': (
    'a [label="{a|hi}"]; b [label="{b|ho}"]; a -> b -> a [label=go];'
  ),
  'moore slash': (
    'a [label="a / hi"]; b [label="b / ho"]; a -> b -> a [label=go];'
  ),
}


@pytest.mark.parametrize('name', MACHINES)
def test_outputs_tell_states_apart(name, tmp_path):
  world = read(tmp_path, 'a.dot', f'digraph {{ {ARROW} {MACHINES[name]} }}')
  assert world.vocab == ('<pad>', 'go')
  assert world.stats()['states'] == 2
  kind = name.split()[0].capitalize()
  assert world.read_as()['outputs'].startswith(f'{kind} machine (outputs: 2)')
  notes = capabilities.notes(world)
  assert 'legality tells nothing' in notes['caution']
  assert notes['read as outputs'] == world.read_as()['outputs']
  silent = MACHINES[name].replace('ho', 'hi')
  text = f'digraph {{ {ARROW} {silent} }}'
  assert read(tmp_path, 'b.dot', text).stats()['states'] == 1


def test_labels_that_states_share_are_outputs(tmp_path):
  text = f'digraph {{ {ARROW} a -> b -> c -> a [label=t]; '
  text += 'a [label=dark]; b [label=dark]; c [label=light]; }'
  assert read(tmp_path, 'a.dot', text).stats()['states'] == 3
  plain = text.replace('label=light', 'label=dark')
  assert read(tmp_path, 'a.dot', plain).stats()['states'] == 1


JFLAP = """<structure><type>{0}</type><automaton>
<state id="0" name="p"><initial/>{1}</state><state id="1" name="q">{2}</state>
<transition><from>0</from><to>1</to><read>go</read>{3}</transition>
<transition><from>1</from><to>0</to><read>go</read>{4}</transition>
</automaton></structure>"""
OF_JFLAP = {
  'fa': ('', '<final/>', '', ''),
  'moore': ('<output>hi</output>', '<output>ho</output>', '', ''),
  'mealy': ('', '', '<transout>hi</transout>', '<transout>ho</transout>'),
}


@pytest.mark.parametrize('kind', OF_JFLAP)
def test_automata_of_jflap(kind, tmp_path):
  (tmp_path / 'a.jff').write_text(JFLAP.format(kind, *OF_JFLAP[kind]))
  world = automaton.World(str(tmp_path / 'a.jff'))
  assert world.names[:2] == ('p', 'q')
  assert (world.end != core.DEAD) == (kind == 'fa')
  assert ('outputs' in world.read_as()) == (kind != 'fa')


def test_nodes_of_a_group_at_an_end_have_their_marks(tmp_path):
  text = f'digraph {{ {ARROW} a -> {{b [shape=doublecircle]}} [label=x]; }}'
  assert read(tmp_path, 'a.dot', text).vocab == ('<pad>', 'end', 'x')
  with pytest.raises(core.InputError, match='holds more than nodes'):
    read(tmp_path, 'a.dot', text.replace('b [', 'node [')).stats()


def test_separator_needs_a_file():
  with pytest.raises(core.InputError, match='separator'):
    automaton.World(preset='tomita3', separator=',')


# File of others -> symbols and states, or what it is refused as.
CASES = {
  '01/turnstile.dot': ('pay walk', 2),
  '01/session.dot': ('Close_Now Data_Empty Hello_One', 2),
  '01/packets.dot': ('INIT[ACK,FIN] INIT[ACK,PING] SHORT[ACK,DATA]', 2),
  '03/alarm.dot': 'is a probabilistic automaton',
  '03/coin.dot': 'is a probabilistic automaton',
  '04/room.json': ('down left right up', 1),
  '04/vending.dot': ('coin press', 3),
  '05/chain.dot': ('stay tick', 3),
  '05/chain2.dot': ('tick', 1),
  '05/classic.dot': ('end S SS a b', 4),
  '05/cluster.dot': ('x y', 2),
  '05/emptyname.dot': ('end a b', 2),
  '05/eps.dot': "label 'ε', which stands for the empty word",
  '05/group.dot': "'r0' leads with 'x' to both 'r1' and 'r2'",
  '05/group2.dot': ('x y z', 2),
  '05/html.dot': ('back go', 2),
  '05/htmleps.dot': "label 'ε', which stands for the empty word",
  '05/lambda.dot': "label 'λ', which stands for the empty word",
  '05/quoted.dot': ('end small_to_1 small_to_2', 2),
  '06/even.ba': r'over infinite words; .* \(it is BA\)',
  '06/even.hoa': r'over infinite words; .* \(it is HOA\)',
  '06/even.jff': ('end a b', 2),
  '06/even.txt': ('end a b', 2),
  '06/psa.json': ('end 5c 10c gum', 3),
  '06/quint.json': ('end 0 1', 3),
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
  legal = name[:5] in ('01/tu', '04/ro', '04/ve') or name == '05/chain2.dot'
  assert ('caution' in capabilities.notes(world)) == legal


def test_words_of_the_textbook_automata(cases):
  words = [*languages.words('ab', 6)]
  for name in ('even.jff', 'even.txt'):
    world = automaton.World(str(cases / '06' / name), length=7)
    accepted = languages.accepted(world, words)
    # No b before the first a of a pair.
    even = [bool(re.fullmatch('(ab*a)*', ''.join(word))) for word in words]
    np.testing.assert_array_equal(accepted, even)
  bits = [*languages.words('01', 6)]
  zeros = automaton.World(str(cases / '06' / 'quint.json'), length=7)
  two = ['00' in ''.join(word) for word in bits]
  np.testing.assert_array_equal(languages.accepted(zeros, bits), two)


def test_the_flip_flop_language(cases):
  world = automaton.World(str(cases / '17' / 'flipflop.json'))
  start = world.init(1)[0]
  assert world.count(start, start, 5)[1] == [1, 2, 6, 10, 30]


def test_walks_by_names_of_nodes_have_as_many_symbols(tmp_path):
  """Each step names the node that it goes to: a symbol for each state."""
  size = 12
  cells = [(r, c) for r in range(size) for c in range(size)]
  steps = ((0, 1), (0, -1), (1, 0), (-1, 0))
  name = {cell: f'{cell[0]}.{cell[1]}' for cell in cells}
  table = {
    name[r, c]: {
      name[r + y, c + x]: name[r + y, c + x]
      for y, x in steps
      if (r + y, c + x) in name
    }
    for r, c in cells
  }
  path = tmp_path / 'walk.json'
  path.write_text(json.dumps({'start': '0.0', 'transitions': table}))
  world = registry.make('world', f"automaton(file='{path}', length=20)")
  assert world.stats()['states'] == 144
  assert len(world.vocab) == 145
  states = world.sample_states(8, 0)
  sequences = world.sample(20, 0)
  walked = world.walk(world.init(20), sequences.tokens, sequences.lengths)
  assert walked[0].tolist() == sequences.lengths.tolist()
  # A step from one node and not from the other: all of its neighbours.
  boundary = world.boundary(states[:1], states[1:2], 1)
  legal = world.legal(states[:2])
  assert boundary.lengths.size == (legal[0] & ~legal[1]).sum()


def test_the_case_of_walks_has_144_states(cases):
  for size in (10, 12):
    path = cases / '19' / f'walk{size}.json'
    world = registry.make('world', f"automaton(file='{path}', length=20)")
    assert world.stats()['states'] == size**2
