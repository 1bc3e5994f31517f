"""Reads automata from files; the suffix tells the format.

JSON: one object. Names are strings or integers. `alphabet` and `states` are
optional; by default they follow from the transitions. Without `accepting`,
sequences just stop.

    {"alphabet": ["a", "b"],
     "start": "even",
     "accepting": ["even"],
     "transitions": {"even": {"a": "odd"}, "odd": {"a": "even", "b": "odd"}}}

Transitions may be a list of [state, symbol, next state]. The keys have other
names in textbooks: start_state, initial_state; accept_states,
accepting_states, final_states; input_symbols.

CSV: columns state,symbol,next. A row with an empty symbol marks its state as
`start` or `accepting`, or only declares it. Every state needs at least one row.
Without an `accepting` row, sequences just stop.

    state,symbol,next
    even,,start
    even,,accepting
    even,a,odd
    odd,,

Text (.txt): a line STATE NEXT SYMBOL for each edge, the first from the start,
and a line STATE for each accepting state, as in OpenFst.

JFLAP (.jff): finite automata, Mealy and Moore machines.

GraphML, DOT (.dot, .gv): a directed graph. The edge attribute `label` is one
symbol, including blanks and commas, or several that `separator` separates. The
start has the node attribute start=true (or initial, root), or an unlabelled
edge from a node without other edges (the usual arrow). Accepting states have
accepting=true (or final), shape=doublecircle or peripheries=2. Without any,
sequences just stop.

Blanks in a symbol are '_' in its token. A symbol is illegal in a state that has
no edge for it. Edges for the empty word (no label, eps, epsilon, lambda) and
probabilities are refused, as are nondeterministic automata; write a regular
expression instead. Files are only parsed, never run.

Outputs are read for Mealy machines, whose labels are all INPUT/OUTPUT (or edges
have `output`), and for Moore machines, whose nodes have labels NAME|OUTPUT or
NAME / OUTPUT, labels that several states share, or `output`. Tokens are the
inputs. States with different outputs are distinct even if their legal symbols
are equal.

Regular expressions are read through automata-lib (extra `automata`):

    1(01)*          every character except operators is a symbol
    <left>(<up>)*   a word in angle brackets is one symbol

The operators are | * + ? {n,m} ( ) . [a-z] [^a-z] & (intersection) and ^
(shuffle). `()` is the empty word. A backslash makes an operator a symbol.
Blanks are ignored. The alphabet is the sorted set of symbols in the expression;
`.` stands for any of them.
"""

from __future__ import annotations

import collections
import contextlib
import html
import io
import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from wm import core
from wm.core import inputs, plugins
from wm.worlds.automaton import machine
from wm.worlds.base import csv_file

# Key in JSON -> its names in textbooks and libraries.
KEYS = {
  'alphabet': 'input_symbols symbols sigma',
  'states': '',
  'start': 'start_state initial_state initial',
  'accepting': 'accept_states accepting_states final_states accept accepts '
  'final finals',
  'transitions': 'transition_function delta',
}
COLUMNS = ('state', 'symbol', 'next')
MARKS = ('start', 'accepting', '')
GRAPHML = 'http://graphml.graphdrawing.org/xmlns'
# Limit of nested groups in DOT; each level doubles the reading time.
DEEPEST = 6
# Attributes of graphs; the first present one counts.
LABELS = ('label', 'symbol', 'input')
START = ('start', 'initial', 'root')
ACCEPTING = {
  **{'accepting': ('true',), 'final': ('true',), 'peripheries': ('2',)},
  'shape': ('doublecircle', 'doubleoctagon'),
}
WEIGHTS = ('probability', 'prob', 'p', 'weight')
# Formats of automata over infinite words, and how to convert them.
OTHERS = {
  '.hoa': 'HOA): convert it by Spot, autfilt --dot FILE.hoa > FILE.dot, and '
  'make each label one symbol',
  '.ba': 'BA): write each line SYMBOL,[P]->[Q] as a row P,SYMBOL,Q of a .csv',
}
# Names of the empty word, in lower case.
EPSILON = ('', 'ε', 'ϵ', 'λ', 'eps', 'epsilon', 'lambda', '<eps>', '<epsilon>')
_IN_OUT = re.compile(r'([^/\n]*?)\s*[/\n]\s*(.*)', re.S)
_STACK = re.compile(r'.*/\s*(push|pop)\b.*', re.S)
# A label that ends in a separate number from 0 to 1.
_CHANCE = re.compile(r'(?:(.*?)[\s:;,|/(\[]+)?([01]?\.\d+|[01])[)\]]?', re.S)


class Transition(NamedTuple):
  """An edge; `output` is None if the file gives none."""

  state: str
  label: str
  after: str
  output: str | None = None


class Sketch(NamedTuple):
  """The contents of a file.

  Attributes:
    states: names in order.
    edges: in order.
    starts: states marked as start.
    accepting: states marked as accepting.
    reads: descriptions of the parts that were read as symbols, as the start and
      as accepting states.
    symbols: the alphabet in order; None takes the symbols of the edges.
    outputs: state -> output, for Moore machines.
  """

  states: Sequence[str]
  edges: Sequence[Transition]
  starts: Sequence[str]
  accepting: Sequence[str] | None
  reads: tuple[str, str, str]
  symbols: Sequence[str] | None = None
  outputs: Mapping[str, str] = {}


def read(path: str, separator: str = '') -> machine.FiniteAutomaton:
  """The automaton in a file.

  separator: text between the symbols of a label; '' for one symbol per label.

  Raises:
    InputError: a missing file, an unknown suffix, invalid contents, or an
      automaton that is not deterministic.
  """
  readers: dict[str, tuple[str, Callable[[str], Sketch]]] = {
    '.json': ('JSON', _json),
    '.csv': ('a CSV file', _csv),
    '.graphml': ('GraphML', _graphml),
    '.dot': ('DOT', _dot),
    '.gv': ('DOT', _dot),
    '.jff': ('a file of JFLAP', _jflap),
    '.txt': ('lines of an automaton', _text),
  }
  suffix = Path(path).suffix
  if suffix in OTHERS:
    _refuse_format(path, suffix)
  inputs.check_known(suffix, readers, f'{path}: unknown suffix {suffix!r}')
  what, reader = readers[suffix]
  with inputs.reading_file(path, what):
    drawing = reader(path)
  if separator:
    edges = [
      edge._replace(label=part.strip())
      for edge in drawing.edges
      for part in edge.label.split(separator)
      if part.strip()
    ]
    symbols, start, final = drawing.reads
    reads = f'{symbols}, split at {separator!r}', start, final
    drawing = drawing._replace(edges=edges, reads=reads)
  _refuse_chances(path, drawing.edges)
  return _judged(path, drawing._replace(edges=_with_outputs(path, drawing)))


def _refuse_format(path: str, suffix: str) -> None:
  """Raises InputError for a format of automata over infinite words."""
  raise core.InputError(
    f'{path} is an automaton over infinite words; expected one of finite words '
    f'(it is {OTHERS[suffix]}'
  )


def _refuse_chances(path: str, edges: Sequence[Transition]) -> None:
  """Raises InputError where labels end in probabilities, as 'open:0.9' does."""
  chances = [match for e in edges if (match := _CHANCE.fullmatch(e.label))]
  exact = len(chances) == len(edges) and any('.' in c[2] for c in chances)
  for by_label in (True, False) if exact else ():
    total: collections.Counter[Any] = collections.Counter()
    for edge, chance in zip(edges, chances, strict=True):
      label = (chance[1] or '').split('/')[0] if by_label else ''
      total[edge.state, label] += float(chance[2])  # type: ignore[assignment]
    # Duplicate edges add up to a multiple of 1.
    if all(x > 0.5 and abs(x - round(x)) < 0.02 for x in total.values()):
      raise core.InputError(
        f'{path} is a probabilistic automaton: labels such as '
        f'{edges[0].label!r} hold probabilities; expected symbols alone. The '
        'world hmm reads hidden Markov processes'
      )


def _with_outputs(path: str, drawing: Sketch) -> list[Transition]:
  """Edges with one-line labels; splits labels of Mealy machines at outputs."""
  edges = [*drawing.edges]
  if stack := [edge.label for edge in edges if _STACK.fullmatch(edge.label)]:
    raise core.InputError(
      f'{path} is a pushdown automaton: the label {stack[0]!r} moves a stack; '
      'expected a finite automaton'
    )
  pairs = [match for e in edges if (match := _IN_OUT.fullmatch(e.label))]
  plain = drawing.symbols is None and all(e.output is None for e in edges)
  if plain and len(pairs) == len(edges):
    edges = [
      edge._replace(label=pair[1], output=pair[2])
      for edge, pair in zip(edges, pairs, strict=True)
    ]
  return [edge._replace(label=' '.join(edge.label.split())) for edge in edges]


def _judged(path: str, drawing: Sketch) -> machine.FiniteAutomaton:
  """The automaton of a file's contents; raises InputError if invalid."""
  read_as = dict(zip(('symbols', *MARKS), drawing.reads, strict=False))
  shown: dict[Any, str] = dict(drawing.outputs)
  kinds = ['Moore'] if shown else []
  kinds += ['Mealy'] if any(edge.output for edge in drawing.edges) else []
  for state, label, after, output in drawing.edges:
    if label.lower() in EPSILON:
      raise core.InputError(
        f'{path}: the edge from {state} to {after} has '
        + (f'the label {label!r}' if label else 'no label')
        + ', which stands for the empty word (epsilon), and is '
        'nondeterministic; expected a symbol on each edge'
      )
    if output is not None and output != shown.setdefault(
      (state, label), output
    ):
      raise core.InputError(
        f'{path}: state {state!r} answers {label!r} by {output!r} and by '
        f'{shown[state, label]!r}; expected a deterministic Mealy machine'
      )
  if shown:
    read_as['outputs'] = (
      f'{" and ".join(kinds)} machine (outputs: {len({*shown.values()})}); '
      'they tell states apart, and are no tokens'
    )
  starts = drawing.starts
  if len(starts) != 1:
    named = ': ' + ', '.join(starts) if starts else ''
    raise core.InputError(
      f'{path} has {len(starts)} start states{named}; expected one, by '
      f'{read_as["start"]}'
    )
  if not drawing.accepting:
    read_as['accepting'] = 'no state is marked: sequences just stop'
  edges = [edge[:3] for edge in drawing.edges]
  states, symbols, final = drawing.states, drawing.symbols, drawing.accepting
  built = machine.build(path, states, edges, starts[0], final, symbols, shown)
  return built._replace(read_as=read_as)


def _json(path: str) -> Sketch:
  """See the module."""

  def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; raises InputError for a duplicate key."""
    seen: set[str] = set()
    for key, _ in pairs:
      if key in seen:
        raise core.InputError(
          f'{path}: {key!r} is there twice; expected a deterministic automaton'
        )
      seen.add(key)
    return dict(pairs)

  text = Path(path).read_text('utf-8-sig')
  held = inputs.parse_json(text, object_pairs_hook=unique)
  if not isinstance(held, dict):
    raise core.InputError(
      f'{path} holds {_kind(held)}; expected an object with {", ".join(KEYS)}'
    )
  called = {other: key for key in KEYS for other in KEYS[key].split()}
  for key in held:
    if key not in called:
      inputs.check_known(key, KEYS, f'{path}: unknown key {key!r}')
  names = {called.get(key, key): key for key in held}
  if len(names) < len(held):
    raise core.InputError(
      f'{path} has keys {", ".join(held)}; expected one of each meaning'
    )
  held = {key: held[name] for key, name in names.items()}
  for key in ('start', 'transitions'):
    if key not in held:
      raise core.InputError(f'{path} has no {key!r}; expected one')
  lists = {
    key: _listed(f'{path}: {key}', held[key]) if key in held else None
    for key in ('alphabet', 'states', 'accepting')
  }
  alphabet, states, accepting = lists.values()
  edges = _transitions(path, held['transitions'], alphabet)
  if states is None and isinstance(held['transitions'], dict):
    states = [*held['transitions']]
  start = _name(f'{path}: start', held['start'])
  start_key, final_key = (f'key {names.get(key)}' for key in MARKS[:2])
  reads = 'symbols of transitions, one each', start_key, final_key
  states = _all_states(edges) if states is None else states
  return Sketch(states, edges, [start], accepting, reads, alphabet)


def _all_states(edges: Sequence[Transition]) -> list[str]:
  """States of edges, in order of first occurrence."""
  ends = ((edge.state, edge.after) for edge in edges)
  return [*dict.fromkeys(itertools.chain(*ends))]


def _transitions(
  path: str, table: Any, alphabet: Sequence[str] | None
) -> list[Transition]:
  """Edges of a JSON object of states, or of a list of triples."""
  if isinstance(table, list):
    triples = [_listed(f'{path}: transitions', row) for row in table]
    if any(len(row) != 3 for row in triples):
      raise core.InputError(
        f'{path}: a transition has another length; expected [state, symbol, '
        'next state]'
      )
    if alphabet and {*alphabet}.isdisjoint(row[1] for row in triples):
      triples = [[row[0], row[2], row[1]] for row in triples]
    return [Transition(*row) for row in triples]
  if not isinstance(table, dict):
    raise core.InputError(
      f'{path}: transitions hold {_kind(table)}; expected an object of states, '
      'or a list of [state, symbol, next state]'
    )
  edges = []
  for state, row in table.items():
    if not isinstance(row, dict):
      raise core.InputError(
        f'{path}: state {state!r} holds {_kind(row)}; expected an object of '
        'symbols and next states'
      )
    edges += [
      Transition(
        state, symbol, _name(f'{path}: state {state!r}, {symbol!r}', after)
      )
      for symbol, after in row.items()
    ]
  return edges


def _kind(value: Any) -> str:
  return f'a value of type {type(value).__name__}'


def _listed(where: str, value: Any) -> list[str]:
  if not isinstance(value, list):
    raise core.InputError(f'{where} holds {_kind(value)}; expected a list')
  return [_name(where, item) for item in value]


def _name(where: str, value: Any) -> str:
  """A string or an integer as text; raises InputError for other types."""
  if isinstance(value, bool) or not isinstance(value, str | int):
    raise core.InputError(
      f'{where} holds {_kind(value)}; expected one name, a text or an integer'
    )
  return str(value)


def _csv(path: str) -> Sketch:
  """See the module."""
  table = csv_file.read(path, COLUMNS)
  for name in table:
    if name.lower() in WEIGHTS:
      _refuse_weight(path, f'a column {name}')
  stripped = ([field.strip() for field in table[name]] for name in COLUMNS)
  rows = [*zip(*stripped, strict=True)]
  outputs: Sequence[str | None] = table.get('output') or [None] * len(rows)
  answers = zip(rows, outputs, strict=True)
  edges = [
    Transition(state, symbol, after, output)
    for (state, symbol, after), output in answers
    if symbol
  ]
  marked: dict[str, list[str]] = {mark: [] for mark in MARKS}
  for state, symbol, mark in rows:
    if not symbol and mark not in MARKS:
      raise core.InputError(
        f'{path}: state {state!r} has a row without symbol that says {mark!r}; '
        "available: 'start', 'accepting', or nothing"
      )
    if not symbol:
      marked[mark].append(state)
  states = [*dict.fromkeys(state for state, _, _ in rows)]
  reads = (
    'column symbol, one each',
    'a row STATE,,start',
    'rows STATE,,accepting',
  )
  accepting = marked['accepting'] or None
  return Sketch(states, edges, marked['start'], accepting, reads)


def _refuse_weight(path: str, what: str) -> None:
  """Raises InputError for numbers of edges that would be ignored."""
  raise core.InputError(
    f'{path} has {what}: a probabilistic or weighted automaton; expected '
    'symbols alone. The world hmm reads hidden Markov processes'
  )


def _text(path: str) -> Sketch:
  """See the module."""
  lines = Path(path).read_text('utf-8-sig').splitlines()
  if lines and lines[0].startswith('HOA:'):
    _refuse_format(path, '.hoa')
  rows = [(n, line.split()) for n, line in enumerate(lines, 1) if line.strip()]
  for number, row in rows:
    if len(row) not in (1, 3):
      raise core.InputError(
        f'{path}, line {number}: {len(row)} fields; expected STATE NEXT '
        'SYMBOL, or an accepting STATE alone; weights and outputs are not read'
      )
  edges = [
    Transition(row[0], row[2], row[1]) for _, row in rows if len(row) == 3
  ]
  accepting = [row[0] for _, row in rows if len(row) == 1]
  states = [*dict.fromkeys([*_all_states(edges), *accepting])]
  starts = [edge.state for edge in edges[:1]]
  reads = 'third field, one each', 'the first line with a SYMBOL', 'lines STATE'
  return Sketch(states, edges, starts, accepting or None, reads)


def _jflap(path: str) -> Sketch:
  """See the module."""
  root = ElementTree.parse(path).getroot()
  kind = (root.findtext('type') or '').strip()
  kinds = 'fa', 'mealy', 'moore'
  inputs.check_known(kind, kinds, f'{path} is of the type {kind!r} of JFLAP')
  nodes = [*root.iter('state')]
  names = {str(node.get('id')): node.get('name') or '' for node in nodes}
  if len({*names.values()}) < len(nodes) or '' in names.values():
    names = {number: number for number in names}

  def text(element: ElementTree.Element, tag: str) -> str:
    return (element.findtext(tag) or '').strip()

  def name(number: str) -> str:
    inputs.check_known(number, names, f'{path}: unknown state {number!r}')
    return names[number]

  edges = [
    Transition(
      name(text(edge, 'from')),
      text(edge, 'read'),
      name(text(edge, 'to')),
      text(edge, 'transout') if kind == 'mealy' else None,
    )
    for edge in root.iter('transition')
  ]
  starts, accepting = (
    [names[str(node.get('id'))] for node in nodes if node.find(tag) is not None]
    for tag in ('initial', 'final')
  )
  outputs = {names[str(node.get('id'))]: text(node, 'output') for node in nodes}
  reads = 'element read, one each', 'element initial', 'element final'
  return Sketch(
    *([*names.values()], edges, starts, accepting or None, reads, None),
    outputs if kind == 'moore' else {},
  )


Nodes = dict[str, dict[str, str]]
Arcs = list[tuple[str, str, dict[str, str]]]


def _graphml(path: str) -> Sketch:
  """See the module."""
  import networkx as nx

  for edge in ElementTree.parse(path).iter(f'{{{GRAPHML}}}edge'):
    for end in {'source', 'target'} - set(edge.keys()):
      raise core.InputError(f'{path}: an edge without {end}; expected both')
  graph = nx.read_graphml(path)
  if not graph.is_directed():
    raise core.InputError(f'{path} is undirected; expected a directed graph')

  def texts(data: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value).strip() for name, value in data.items()}

  nodes = {str(node): texts(graph.nodes[node]) for node in graph}
  arcs = [(str(u), str(v), texts(d)) for u, v, d in graph.edges(data=True)]
  return _of_graph(path, nodes, arcs)


def _dot(path: str) -> Sketch:
  """See the module."""
  with inputs.extra('automata', 'an automaton in DOT'):
    import pydot
  text = Path(path).read_text('utf-8-sig')
  if (levels := _levels(text)) > DEEPEST:
    raise core.InputError(
      f'{path} has {levels} levels of groups in each other; expected at most '
      f'{DEEPEST}'
    )
  messages = io.StringIO()
  with contextlib.redirect_stdout(messages):  # pydot prints its errors there.
    parsed = pydot.graph_from_dot_data(text)
  if not parsed or len(parsed) != 1:
    why = messages.getvalue().strip().rpartition('\n')[2] or 'not one graph'
    raise core.InputError(f'{path} is not DOT: {why}')
  if parsed[0].get_type() != 'digraph':
    raise core.InputError(f'{path} is undirected; expected a directed graph')
  nodes: Nodes = {}
  arcs: Arcs = []
  _walk_dot(path, parsed[0], ({}, {}), nodes, arcs)
  return _of_graph(path, nodes, arcs)


def _levels(text: str) -> int:
  """Nesting depth of braces in DOT, ignoring braces in quotes."""
  plain = re.sub(r'"(\\.|[^"\\])*"', '', text)
  steps = ({'{': 1, '}': -1}.get(c, 0) for c in plain)
  return max(itertools.accumulate(steps), default=0)


def _walk_dot(
  path: str,
  part: Any,
  defaults: tuple[dict[str, str], dict[str, str]],
  nodes: Nodes,
  arcs: Arcs,
) -> None:
  """Adds nodes and edges of a graph or subgraph, in the order of the file.

  defaults: default attributes of nodes and edges at the start of this part.
  """
  of_nodes, of_edges = map(dict, defaults)
  members = [('edge to', edge) for edge in part.get_edge_list()]
  members += [('part', inner) for inner in part.get_subgraph_list()]
  members += [(node.get_name(), node) for node in part.get_node_list()]
  for name, member in sorted(members, key=lambda each: each[1].get_sequence()):
    cleaned = {k: _plain(v) for k, v in member.get_attributes().items()}
    if name == 'edge to':
      ends = member.get_source(), member.get_destination()
      tails, heads = (_ends(path, end) for end in ends)
      for node, data in (tails | heads).items():
        nodes.setdefault(node, dict(of_nodes)).update(data)
      pairs = itertools.product(tails, heads)
      arcs += [(*pair, {**of_edges, **cleaned}) for pair in pairs]
    elif name == 'part':
      _walk_dot(path, member, (of_nodes, of_edges), nodes, arcs)
    elif name == 'node':
      of_nodes |= cleaned
    elif name == 'edge':
      of_edges |= cleaned
    elif name != 'graph':
      nodes.setdefault(_unquoted(name), dict(of_nodes)).update(cleaned)


def _ends(path: str, end: Any) -> Nodes:
  """Nodes at one end of an edge in DOT: one node or a group of nodes."""
  if isinstance(end, str):
    match = re.match(r'"(?:\\.|[^"\\])*"|[^:]+', end)  # Without its port.
    return {_unquoted(match[0] if match else end): {}}
  if end['edges'] or end['subgraphs'] or {'node', 'edge'} & {*end['nodes']}:
    raise core.InputError(
      f'{path} has an edge to a group that holds more than nodes; expected its '
      'edges, groups and defaults by themselves'
    )
  return {
    _unquoted(name): {k: _plain(v) for k, v in node['attributes'].items()}
    for name, statements in end['nodes'].items()
    for node in statements
  }


def _unquoted(text: str) -> str:
  if text[:1] == text[-1:] == '"' and len(text) > 1:
    text = text[1:-1].replace('\\"', '"')
  return text.strip()


def _plain(value: Any) -> str:
  """The text of an attribute in DOT; HTML line breaks become line breaks."""
  text = str(value).strip()
  if text[:1] == '<' and text[-1:] == '>':
    text = re.sub(r'(?i)<br\s*/?>', '\n', text[1:-1])
    text = re.sub(r'<[^<>]*>', ' ', text)
  else:
    text = re.sub(r'\\[nlr]', ' ', _unquoted(text))
  lines = html.unescape(text).strip().split('\n')
  return '\n'.join(' '.join(line.split()) for line in lines)


def _of_graph(path: str, nodes: Nodes, arcs: Arcs) -> Sketch:
  """Contents of an automaton drawn as a graph, with text attributes."""
  for _, _, data in arcs:
    for name in (name for name in data if name.lower() in WEIGHTS):
      if name.lower() != 'weight' or data[name] not in ('1', '1.0'):
        _refuse_weight(path, f'an edge attribute {name}')
    if data.get('modality', 'MUST') != 'MUST':
      raise core.InputError(
        f'{path} is a modal transition system: an edge has '
        f'modality={data["modality"]}; expected edges that are always there'
      )
  names = {name for _, _, data in arcs for name in data}
  label = next((name for name in LABELS if name in names), LABELS[0])
  arrows = _arrows(nodes, arcs, label)
  states = {name: data for name, data in nodes.items() if name not in arrows}
  edges = [
    Transition(tail, data.get(label, ''), head, data.get('output'))
    for tail, head, data in arcs
    if tail not in arrows
  ]
  starts = dict.fromkeys(arrows.values())
  accepting: dict[str, str] = {}
  start = 'an arrow out of nothing' + ' or start=true' * (not starts)
  for name, data in states.items():
    for mark in START:
      if data.get(mark, '').lower() == 'true':
        starts[name], start = None, f'{mark}=true'
    for mark, values in ACCEPTING.items():
      if (value := data.get(mark, '').lower()) in values:
        accepting[name] = f'{mark}={value}'
  marks = ', '.join(dict.fromkeys(accepting.values()))
  reads = f'edge attribute {label}, one symbol each', start, marks
  final = [*accepting] or None
  outputs = _moore(states)
  return Sketch([*states], edges, [*starts], final, reads, None, outputs)


def _arrows(nodes: Nodes, arcs: Arcs, label: str) -> dict[str, str]:
  """Source node of an arrow to a start, not itself a state -> the start."""
  ends = collections.Counter(end for arc in arcs for end in {*arc[:2]})
  arrows = {}
  for tail, head, data in arcs:
    look = nodes[tail]
    hidden = look.get('style', '').startswith('invis') or (
      look.get('shape') == 'point'
      or (look.get('shape') == 'none' and not look.get('label', tail))
    )
    sole = ends[tail] == 1 and tail != head
    if sole and (hidden or not data.get(label)):
      arrows[tail] = head
  return arrows


def _moore(states: Nodes) -> dict[str, str]:
  """Output of each state of a Moore machine; {} for other automata."""
  if states and all('output' in data for data in states.values()):
    return {name: data['output'] for name, data in states.items()}
  labels = {name: data.get('label', '') for name, data in states.items()}
  for mark in '|/':
    fields = {
      name: [field.strip() for field in text.strip('{} ').split(mark)]
      for name, text in labels.items()
    }
    if states and all(len(parts) == 2 for parts in fields.values()):
      return {name: parts[1] for name, parts in fields.items()}
  num = len({*labels.values()})
  shared = all(labels.values()) and 1 < num < len(labels)
  return labels if shared else {}


# The library takes single characters, so each word becomes a private one.
FIRST, MOST_WORDS = 0xE000, 6400
OPERATORS = frozenset('*|()?&+.^{}[]')
# Limits: symbols of an expression with repetitions expanded, and members of all
# subsets that are states of its deterministic automaton.
MOST_SYMBOLS, MOST_MEMBERS = 10_000, 1_000_000
_PARTS = re.compile(r'\\.|\[[^\]]*\]|\{[^}]*\}|.')


def read_regex(text: str) -> machine.FiniteAutomaton:
  """The automaton of a regular expression.

  Raises:
    InputError: the expression is invalid, or the extra is not installed.
  """
  with inputs.extra('automata', 'a regular expression'):
    from automata.base import exceptions
    from automata.fa import dfa, nfa
  words: dict[str, str] = {}

  def letter(match: re.Match[str]) -> str:
    return words.setdefault(match[1], chr(FIRST + len(words) % MOST_WORDS))

  short = re.sub(r'<([^<>\s]+)>', letter, text)
  short = ''.join(short.split())
  # The library itself adds the symbols of classes and after backslashes.
  plain = re.sub(r'\\.|\[[^\]]*\]|\{[^}]*\}', '', short)
  if (size := _written_out(short)) > MOST_SYMBOLS:
    raise core.InputError(
      f'regex={plugins.shortened(text)!r} has {size:,} symbols once its '
      f'repetitions are written out; expected at most {MOST_SYMBOLS:,}'
    )
  try:
    expression = nfa.NFA.from_regex(short, input_symbols=set(plain) - OPERATORS)
    _check_subsets(text, expression)
    deterministic = dfa.DFA.from_nfa(expression)
  except core.InputError:
    raise
  except (
    exceptions.AutomatonException,
    exceptions.RegexException,
    ValueError,
    IndexError,
    RecursionError,
  ) as error:
    raise core.InputError(
      f'regex={text!r} is no regular expression: '
      + ' '.join(str(error).split())
    ) from error
  return _from_library(
    f'regex={text!r}', deterministic, {c: w for w, c in words.items()}
  )


def _written_out(text: str) -> int:
  """Approximate number of symbols of an expression, repetitions expanded.

  For shuffles and intersections, the product of the parts' numbers.
  """
  groups: list[list[list[int]]] = [[[]]]  # Groups of terms of factors.
  for part in _PARTS.findall(text):
    terms = groups[-1][-1]
    if part == '(':
      groups.append([[]])
    elif part == ')' and len(groups) > 1:
      size = _product(groups.pop())
      groups[-1][-1].append(size)
    elif part in '&^':
      groups[-1].append([])
    elif part[0] == '{' and terms:
      terms[-1] *= max([1, *map(int, re.findall('[0-9]{1,18}', part))])
    elif part not in OPERATORS:
      terms.append(1)
  return math.prod(map(_product, groups))


def _product(factors: list[list[int]]) -> int:
  return math.prod(max(sum(terms), 1) for terms in factors)


def _check_subsets(text: str, automaton: Any) -> None:
  """Raises InputError if the deterministic automaton has too many states."""
  steps, budget = automaton.transitions, MOST_MEMBERS

  def closed(states: set) -> frozenset:
    """The closure of states under the empty word."""
    left, reached = [*states], set(states)
    while left:
      new = steps.get(left.pop(), {}).get('', frozenset()) - reached
      reached |= new
      left += new
    return frozenset(reached)

  queue = [closed({automaton.initial_state})]
  seen = {*queue}
  while queue:
    states = queue.pop()
    after: dict[str, set] = {}
    for state in states:
      for symbol, heads in steps.get(state, {}).items():
        after.setdefault(symbol, set()).update(heads)
    after.pop('', None)
    new = {closed(heads) for heads in after.values()} - seen
    budget -= sum(map(len, new))
    if budget < 0:
      raise core.InputError(
        f'regex={plugins.shortened(text)!r} needs more than {len(seen):,} '
        f'states as a deterministic automaton, of {MOST_MEMBERS:,} members in '
        'all; expected an expression that remembers fewer symbols'
      )
    seen |= new
    queue += new


def _from_library(
  where: str, automaton: Any, words: dict[str, str]
) -> machine.FiniteAutomaton:
  """Converts the library's automaton; words: character -> word it replaces."""
  number = {
    state: k for k, state in enumerate(sorted(automaton.states, key=str))
  }
  names = [f's{k}' for k in number.values()]
  edges = [
    (names[number[state]], words.get(symbol, symbol), names[number[after]])
    for state, row in automaton.transitions.items()
    for symbol, after in row.items()
  ]
  symbols = sorted(
    words.get(symbol, symbol) for symbol in automaton.input_symbols
  )
  start = names[number[automaton.initial_state]]
  accepting = [names[number[state]] for state in automaton.final_states]
  built = machine.build(where, names, edges, start, accepting, symbols)
  return built._replace(states=None)
