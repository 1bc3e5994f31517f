"""Reads automata from files; the suffix tells the format.

JSON: one object. Names are strings or integers. `alphabet` is optional; the
default is all symbols used, sorted. Without `accepting`, sequences just stop.

    {"alphabet": ["a", "b"],
     "start": "even",
     "accepting": ["even"],
     "transitions": {"even": {"a": "odd"}, "odd": {"a": "even", "b": "odd"}}}

CSV: columns state,symbol,next. A row with an empty symbol marks its state as
`start` or `accepting`, or only declares it. Every state needs some row of its
own. Without an `accepting` row, sequences just stop.

    state,symbol,next
    even,,start
    even,,accepting
    even,a,odd
    odd,,

GraphML, DOT (.dot, .gv): a directed graph. The edge attribute `label` is a
symbol, or several separated by commas or blanks. The start has the node
attribute start=true, or an unlabelled edge from a node without other edges
points to it (the usual arrow). Accepting states have accepting=true or
shape=doublecircle. Without one, sequences just stop.

A symbol is illegal in a state that has no edge for it. Nondeterministic
automata are refused; write a regular expression instead. Files are only parsed,
never run.

Regular expressions are read through automata-lib (extra `automata`):

    1(01)*          every character that is no operator is a symbol
    <left>(<up>)*   a word in angle brackets is one symbol

The operators are | * + ? {n,m} ( ) . [a-z] [^a-z] & (intersection) and ^
(shuffle). `()` is the empty word. A backslash makes an operator a symbol.
Blanks are ignored. The alphabet is the sorted set of symbols in the expression;
`.` stands for any of them.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from wm import core
from wm.core import inputs, plugins
from wm.worlds.automaton import machine
from wm.worlds.base import csv_file

KEYS = ('alphabet', 'start', 'accepting', 'transitions')
COLUMNS = ('state', 'symbol', 'next')
MARKS = ('start', 'accepting', '')
GRAPHML = 'http://graphml.graphdrawing.org/xmlns'
# Levels of groups in DOT; reading takes twice as long for each.
DEEPEST = 6


def read(path: str) -> machine.FiniteAutomaton:
  """The automaton in a file.

  Raises:
    InputError: no such file, another suffix, or not such a file.
  """
  readers = {
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
    return reader(path)


def _json(path: str) -> machine.FiniteAutomaton:
  """See the module."""

  def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; raises InputError where it has a key twice."""
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
  for key in held:
    inputs.check_known(key, KEYS, f'{path}: unknown key {key!r}')
  for key in ('start', 'transitions'):
    if key not in held:
      raise core.InputError(f'{path} has no {key!r}; expected one')
  table = held['transitions']
  if not isinstance(table, dict):
    raise core.InputError(
      f'{path}: transitions hold {_kind(table)}; expected an object of states'
    )
  edges = []
  for state, row in table.items():
    if not isinstance(row, dict):
      raise core.InputError(
        f'{path}: state {state!r} holds {_kind(row)}; expected an object of '
        'symbols and next states'
      )
    edges += [
      (state, symbol, _name(f'{path}: state {state!r}, {symbol!r}', after))
      for symbol, after in row.items()
    ]
  names = {
    key: _listed(f'{path}: {key}', held[key]) if key in held else None
    for key in ('alphabet', 'accepting')
  }
  start = _name(f'{path}: start', held['start'])
  return machine.build(
    path, [*table], edges, start, names['accepting'], names['alphabet']
  )


def _kind(value: Any) -> str:
  return f'a value of type {type(value).__name__}'


def _listed(where: str, value: Any) -> list[str]:
  if not isinstance(value, list):
    raise core.InputError(f'{where} holds {_kind(value)}; expected a list')
  return [_name(where, item) for item in value]


def _name(where: str, value: Any) -> str:
  """A string or an integer as text; anything else is refused."""
  if isinstance(value, bool) or not isinstance(value, str | int):
    raise core.InputError(
      f'{where} holds {_kind(value)}; expected one name, a text or an integer'
    )
  return str(value)


def _csv(path: str) -> machine.FiniteAutomaton:
  """See the module."""
  table = csv_file.read(path, COLUMNS)
  stripped = ([field.strip() for field in table[name]] for name in COLUMNS)
  rows = [*zip(*stripped, strict=True)]
  edges = [row for row in rows if row[1]]
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
  start = _one_start(path, marked['start'], 'a row STATE,,start')
  return machine.build(path, states, edges, start, marked['accepting'] or None)


def _one_start(path: str, starts: list[str], expected: str) -> str:
  """The start of a file; raises InputError where it has none or several."""
  if len(starts) != 1:
    named = ': ' + ', '.join(starts) if starts else ''
    raise core.InputError(
      f'{path} has {len(starts)} start states{named}; expected one, by '
      + expected
    )
  return starts[0]


def _graphml(path: str) -> machine.FiniteAutomaton:
  """See the module."""
  import networkx as nx

  for edge in ElementTree.parse(path).iter(f'{{{GRAPHML}}}edge'):
    for end in {'source', 'target'} - set(edge.keys()):
      raise core.InputError(f'{path}: an edge without {end}; expected both')
  return _of_graph(path, nx.read_graphml(path))


def _dot(path: str) -> machine.FiniteAutomaton:
  """See the module."""
  import networkx as nx

  with inputs.extra('automata', 'an automaton in DOT'):
    import pydot
  text = Path(path).read_text('utf-8-sig')
  if (levels := _levels(text)) > DEEPEST:
    raise core.InputError(
      f'{path} has {levels} levels of groups in each other; expected at most '
      f'{DEEPEST}'
    )
  messages = io.StringIO()
  with contextlib.redirect_stdout(messages):  # Where pydot says what is wrong.
    parsed = pydot.graph_from_dot_data(text)
  if not parsed or len(parsed) != 1:
    why = messages.getvalue().strip().rpartition('\n')[2] or 'not one graph'
    raise core.InputError(f'{path} is not DOT: {why}')
  if any(part.get_edge_list() for part in _subgraphs(parsed[0])):
    raise core.InputError(
      f'{path} has edges in a subgraph; expected all of them in the graph'
    )
  graph = nx.nx_pydot.from_pydot(parsed[0])
  for node, shape in _shapes(parsed[0]):
    graph.nodes[node].setdefault('shape', shape)
  return _of_graph(path, graph)


def _levels(text: str) -> int:
  """How deep braces stand in each other in DOT, those in quotes left out."""
  plain = re.sub(r'"(\\.|[^"\\])*"', '', text)
  steps = ({'{': 1, '}': -1}.get(c, 0) for c in plain)
  return max(itertools.accumulate(steps), default=0)


def _subgraphs(graph: Any) -> Iterator[Any]:
  """All subgraphs, and those within them."""
  for part in graph.get_subgraph_list():
    yield part
    yield from _subgraphs(part)


def _shapes(graph: Any) -> list[tuple[str, str]]:
  """Each node with the shape of the last `node [shape=...]` before it."""
  defaults = sorted(
    (node.get_sequence(), node.get('shape'))
    for node in graph.get_nodes()
    if node.get_name() == 'node' and node.get('shape')
  )
  shapes = []
  for node in graph.get_nodes():
    before = [shape for at, shape in defaults if at < node.get_sequence()]
    if before and node.get_name() not in ('node', 'edge', 'graph'):
      shapes.append((node.get_name().strip('"'), before[-1]))
  return shapes


def _of_graph(path: str, graph: Any) -> machine.FiniteAutomaton:
  """An automaton from a networkx graph."""
  if not graph.is_directed():
    raise core.InputError(f'{path} is undirected; expected a directed graph')
  bare = [
    (tail, head)
    for tail, head, data in graph.edges(data=True)
    if not _attribute(data, 'label')
  ]
  # An arrow out of nothing, as automata are drawn, is no edge.
  arrows = {
    tail: head
    for tail, head in bare
    if graph.degree(tail) == 1 and tail != head
  }
  for tail, head in bare:
    if tail not in arrows:
      raise core.InputError(
        f'{path}: the edge from {tail} to {head} has no label; expected a '
        'symbol on each'
      )
  nodes = [node for node in graph if node not in arrows]
  starts = dict.fromkeys([str(head) for head in arrows.values()])
  edges, accepting = [], []
  for node in nodes:
    data = graph.nodes[node]
    if _attribute(data, 'start').lower() == 'true':
      starts[str(node)] = None
    double = _attribute(data, 'shape') == 'doublecircle'
    if double or _attribute(data, 'accepting').lower() == 'true':
      accepting.append(str(node))
  for tail, head, data in graph.edges(data=True):
    if tail not in arrows:
      labels = re.split(r'[,\s]+', _attribute(data, 'label'))
      edges += [(str(tail), label, str(head)) for label in labels if label]
  start = _one_start(path, [*starts], 'start=true or an arrow out of nothing')
  names = [str(node) for node in nodes]
  return machine.build(path, names, edges, start, accepting or None)


def _attribute(data: dict[str, Any], name: str) -> str:
  """An attribute as text without quotes; '' if it is not there."""
  return str(data.get(name, '')).strip().strip('"').strip()


# The library takes single characters, so each word becomes a private one.
FIRST, MOST_WORDS = 0xE000, 6400
OPERATORS = frozenset('*|()?&+.^{}[]')
# Symbols of an expression once its repetitions are written out, and all members
# of the sets of these that its automaton's states stand for.
MOST_SYMBOLS, MOST_MEMBERS = 10_000, 1_000_000
_PARTS = re.compile(r'\\.|\[[^\]]*\]|\{[^}]*\}|.')


def read_regex(text: str) -> machine.FiniteAutomaton:
  """The automaton of a regular expression.

  Raises:
    InputError: it is none, or the extra is missing.
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
  """About how many symbols an expression has without repetitions.

  What is shuffled or intersected has as many as the product of its parts'.
  """
  groups: list[list[list[int]]] = [[[]]]  # In each, factors of terms.
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
  """Raises InputError where the states of a deterministic one are too many."""
  steps, budget = automaton.transitions, MOST_MEMBERS

  def closed(states: set) -> frozenset:
    """With all that the empty word leads to."""
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
  """The library's automaton as ours; words: character -> the word it is for."""
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
