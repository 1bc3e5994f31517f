"""Reads automata from files; the suffix tells the format.

JSON: one object. Names are strings or integers. `alphabet` and `states` are
optional; by default they follow from the transitions. Without `accepting`,
sequences just stop.

    {"alphabet": ["a", "b"],
     "start": "even",
     "accepting": ["even"],
     "transitions": {"even": {"a": "odd"}, "odd": {"a": "even", "b": "odd"}}}

CSV: columns state,symbol,next. A row with an empty symbol marks its state as
`start` or `accepting`, or only declares it. Every state needs at least one row.
Without an `accepting` row, sequences just stop.

    state,symbol,next
    even,,start
    even,,accepting
    even,a,odd
    odd,,

GraphML, DOT (.dot, .gv): a directed graph without groups. The edge attribute
`label` is the symbol. The start has the node attribute start=true, or an
unlabelled edge from a node without other edges (the usual arrow). Accepting
states have accepting=true, shape=doublecircle or peripheries=2. Without any,
sequences just stop.

Blanks in a symbol are '_' in its token. A symbol is illegal in a state that has
no edge for it. Edges without a symbol and weights are refused, as are
nondeterministic automata; write a regular expression instead. Files are only
parsed, never run.

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
import io
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from wm import core
from wm.core import inputs, plugins, schema
from wm.worlds.automaton import machine
from wm.worlds.base import csv_file

GRAPHML = 'http://graphml.graphdrawing.org/xmlns'
COLUMNS = ('state', 'symbol', 'next')
MARKS = ('start', 'accepting', '')
# Attributes of graphs, and the values that mark an accepting state.
ACCEPTING = {
  'accepting': ('true',),
  'peripheries': ('2',),
  'shape': ('doublecircle',),
}
WEIGHTS = ('probability', 'prob', 'p', 'weight')


class Sketch(NamedTuple):
  """The contents of a file.

  Attributes:
    states: names in order.
    edges: (state, symbol, next state), in order.
    starts: states marked as start.
    accepting: states marked as accepting; None where sequences just stop.
    symbols: the alphabet in order; None takes the symbols of the edges.
  """

  states: Sequence[str]
  edges: Sequence[tuple[str, str, str]]
  starts: Sequence[str]
  accepting: Sequence[str] | None
  symbols: Sequence[str] | None = None


def read(path: str) -> machine.FiniteAutomaton:
  """The automaton in a file.

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
  }
  suffix = Path(path).suffix
  inputs.check_known(suffix, readers, f'{path}: unknown suffix {suffix!r}')
  what, reader = readers[suffix]
  with inputs.reading_file(path, what):
    sketch = reader(path)
  edges = [
    (state, ' '.join(label.split()), after)
    for state, label, after in sketch.edges
  ]
  for state, label, after in edges:
    if not label:
      raise core.InputError(
        f'{path}: the edge from {state} to {after} has no label, which stands '
        'for the empty word, and is nondeterministic; expected a symbol on '
        'each edge'
      )
  if len(sketch.starts) != 1:
    names = ': ' + ', '.join(sketch.starts) if sketch.starts else ''
    raise core.InputError(
      f'{path} has {len(sketch.starts)} start states{names}; expected one'
    )
  states, _, (start,), accepting, symbols = sketch
  built = machine.build(path, states, edges, start, accepting, symbols)
  reads = {'start': start, 'accepting': ', '.join(accepting or ())}
  reads['accepting'] = reads['accepting'] or 'none: sequences just stop'
  return built._replace(read_as=reads)


def _json(path: str) -> Sketch:
  """See the module."""

  def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; raises InputError for a duplicate key."""
    repeated = [
      k for k, n in collections.Counter(k for k, _ in pairs).items() if n > 1
    ]
    if repeated:
      raise core.InputError(
        f'{path}: {repeated[0]!r} is there twice; expected a deterministic '
        'automaton'
      )
    return dict(pairs)

  text = Path(path).read_text('utf-8-sig')
  value = inputs.parse_json(text, object_pairs_hook=unique)
  value = schema.check(value, _AUTOMATON, path)
  edges = [
    (state, symbol, str(after))
    for state, row in value['transitions'].items()
    for symbol, after in row.items()
  ]
  alphabet, accepting = (
    [*map(str, value[key])] if key in value else None
    for key in ('alphabet', 'accepting')
  )
  states = [*map(str, value.get('states', value['transitions']))]
  return Sketch(states, edges, [str(value['start'])], accepting, alphabet)


_NAMES = schema.List(str | int)
_AUTOMATON = schema.Object(
  {
    'start': str | int,
    'transitions': schema.Dictionary(schema.Dictionary(str | int)),
  },
  dict.fromkeys(('alphabet', 'states', 'accepting'), _NAMES),
  closed=True,
)


def _csv(path: str) -> Sketch:
  """See the module."""
  table = csv_file.read(path, COLUMNS)
  _refuse_weights(path, table)
  stripped = ([field.strip() for field in table[name]] for name in COLUMNS)
  rows = [*zip(*stripped, strict=True)]
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
  edges = [row for row in rows if row[1]]
  return Sketch(states, edges, marked['start'], marked['accepting'] or None)


def _refuse_weights(path: str, names: Iterable[str]) -> None:
  """Raises InputError for numbers of edges that would be ignored."""
  for name in names:
    if name.lower() in WEIGHTS:
      raise core.InputError(
        f'{path} has {name}: a probabilistic or weighted automaton; expected '
        'symbols alone. The world hmm reads hidden Markov processes'
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
  # Each level of groups doubles the time of the parser.
  if re.sub(r'"(\\.|[^"\\])*"', '', text).count('{') > 1:
    raise core.InputError(
      f'{path} has groups of nodes; expected nodes and edges alone'
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
  defaults: Nodes = {'node': {}, 'edge': {}, 'graph': {}}
  parts: list[Any] = [
    *parsed[0].get_edge_list(),
    *parsed[0].get_node_list(),
  ]
  for part in sorted(parts, key=lambda part: part.get_sequence()):
    data = {k: _plain(v) for k, v in part.get_attributes().items()}
    if isinstance(part, pydot.Edge):
      tail, head = map(_plain, (part.get_source(), part.get_destination()))
      arcs.append((tail, head, {**defaults['edge'], **data}))
      for name in (tail, head):
        nodes.setdefault(name, dict(defaults['node']))
    elif part.get_name() in defaults:
      defaults[part.get_name()] |= data
    else:
      name = _plain(part.get_name())
      nodes.setdefault(name, dict(defaults['node'])).update(data)
  return _of_graph(path, nodes, arcs)


def _plain(value: Any) -> str:
  """A name or an attribute of DOT without its quotes."""
  text = str(value).strip()
  if text[:1] == text[-1:] == '"' and len(text) > 1:
    text = text[1:-1].replace('\\"', '"')
  return text.strip()


def _of_graph(path: str, nodes: Nodes, arcs: Arcs) -> Sketch:
  """Contents of an automaton drawn as a graph, with text attributes."""
  for _, _, data in arcs:
    _refuse_weights(path, [name for name in data if data[name] != '1'])
  ends = collections.Counter(end for arc in arcs for end in {*arc[:2]})
  # The source of an arrow to a start is no state.
  arrows = {
    tail: head
    for tail, head, data in arcs
    if ends[tail] == 1 and tail != head and not data.get('label')
  }
  states = {name: data for name, data in nodes.items() if name not in arrows}
  edges = [
    (tail, data.get('label', ''), head)
    for tail, head, data in arcs
    if tail not in arrows
  ]
  starts = dict.fromkeys(arrows.values())
  for name, data in states.items():
    if data.get('start', '').lower() == 'true':
      starts[name] = None
  accepting = [
    name
    for name, data in states.items()
    if any(data.get(k, '').lower() in values for k, values in ACCEPTING.items())
  ]
  return Sketch([*states], edges, [*starts], accepting or None)


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
    from automata.fa import nfa
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
  names = {letter: word for word, letter in words.items()}
  return _determined(text, expression, names)


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


def _determined(
  text: str, automaton: Any, words: Mapping[str, str]
) -> machine.FiniteAutomaton:
  """The deterministic automaton of an expression's; words: letter -> symbol.

  Raises:
    InputError: it has too many states.
  """
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
  names = {queue[0]: 's0'}
  edges = []
  while queue:
    states = queue.pop()
    after: dict[str, set] = {}
    for state in states:
      for symbol, heads in steps.get(state, {}).items():
        after.setdefault(symbol, set()).update(heads)
    after.pop('', None)
    for symbol, heads in after.items():
      head = closed(heads)
      if head not in names:
        names[head] = f's{len(names)}'
        queue.append(head)
        budget -= len(head)
      edges.append((names[states], words.get(symbol, symbol), names[head]))
    if budget < 0:
      raise core.InputError(
        f'regex={plugins.shortened(text)!r} needs more than {len(names):,} '
        f'states as a deterministic automaton, of {MOST_MEMBERS:,} members in '
        'all; expected an expression that remembers fewer symbols'
      )
  accepting = [n for s, n in names.items() if s & automaton.final_states]
  symbols = sorted(words.get(x, x) for x in automaton.input_symbols)
  where = f'regex={text!r}'
  built = machine.build(
    where, [*names.values()], edges, 's0', accepting, symbols
  )
  return built._replace(states=None)
