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

DOT (.dot, .gv): a directed graph without groups. The edge attribute
`label` is the symbol. The start has the node attribute start=true, or an
unlabelled edge from a node without other edges (the usual arrow). Accepting
states have accepting=true, shape=doublecircle or peripheries=2. Without any,
sequences just stop.

Blanks in a symbol are '_' in its token. A symbol is illegal in a state that has
no edge for it. Edges without a symbol and weights are refused, as are
nondeterministic automata. Files are only parsed, never run.
"""

from __future__ import annotations

import collections
import contextlib
import io
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple

from wm import core
from wm.core import inputs, schema
from wm.worlds.automaton import machine
from wm.worlds.base import csv_file

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
    edges: states, symbols and next states, in order.
    starts: states marked as start.
    accepting: states marked as accepting; None where sequences just stop.
    symbols: the alphabet in order; None takes the symbols of the edges.
  """

  states: Sequence[str]
  edges: machine.Edges
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
    '.dot': ('DOT', _dot),
    '.gv': ('DOT', _dot),
  }
  suffix = Path(path).suffix
  inputs.check_known(suffix, readers, f'{path}: unknown suffix {suffix!r}')
  what, reader = readers[suffix]
  with inputs.reading_file(path, what):
    sketch = reader(path)
  sources, labels, targets = sketch.edges
  plain = {label: ' '.join(label.split()) for label in {*labels}}
  labels = [plain[label] for label in labels]
  if not all(plain.values()):
    first = labels.index('')
    raise core.InputError(
      f'{path}: the edge from {sources[first]} to {targets[first]} has no '
      'label, which stands for the empty word, and is nondeterministic; '
      'expected a symbol on each edge'
    )
  if len(sketch.starts) != 1:
    names = ': ' + ', '.join(sketch.starts) if sketch.starts else ''
    raise core.InputError(
      f'{path} has {len(sketch.starts)} start states{names}; expected one'
    )
  states, _, (start,), accepting, symbols = sketch
  edges = sources, labels, targets
  built = machine.build(path, states, edges, start, accepting, symbols)
  reads = {'start': start, 'accepting': ', '.join(accepting or ())}
  reads['accepting'] = reads['accepting'] or 'none: sequences just stop'
  return built._replace(read_as=reads)


def _columns(edges: Sequence[tuple[str, str, str]]) -> machine.Edges:
  sources, labels, targets = ([edge[k] for edge in edges] for k in range(3))
  return sources, labels, targets


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
  starts = [str(value['start'])]
  return Sketch(states, _columns(edges), starts, accepting, alphabet)


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
  columns = [[*map(str.strip, table[name])] for name in COLUMNS]
  marked: dict[str, list[str]] = {mark: [] for mark in MARKS}
  for state, symbol, mark in zip(*columns, strict=True):
    if symbol:
      continue
    if mark not in MARKS:
      raise core.InputError(
        f'{path}: state {state!r} has a row without symbol that says {mark!r}; '
        "available: 'start', 'accepting', or nothing"
      )
    marked[mark].append(state)
  states, symbols, _ = columns
  sources, labels, targets = ([*compress(x, symbols)] for x in columns)
  edges = sources, labels, targets
  accepting = marked['accepting'] or None
  return Sketch([*dict.fromkeys(states)], edges, marked['start'], accepting)


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
  parts: list[Any] = [*parsed[0].get_edge_list(), *parsed[0].get_node_list()]
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
  return Sketch([*states], _columns(edges), [*starts], accepting or None)
