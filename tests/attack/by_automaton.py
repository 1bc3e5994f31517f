"""Automata in files of each kind, and regular expressions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from tests.attack.by_file import shapes, world
from tests.attack.case import Action, Case, closed, edit, put

Text = str | bytes
DFA = {
  'alphabet': ['a', 'b'],
  'start': 'even',
  'accepting': ['even'],
  'transitions': {'even': {'a': 'odd'}, 'odd': {'a': 'even', 'b': 'odd'}},
}


def automata() -> Iterator[Case]:
  """Automata in files of each kind, and regular expressions."""
  kind = 'automata'

  def of(suffix: str, name: str, *files: Action, **more) -> Case:
    spec = f'automaton(file="a.{suffix}")'
    return world(kind, f'{suffix} {name}', spec, *files, **more)

  for suffix in ('json', 'dot'):
    for name, files in shapes(f'a.{suffix}'):
      yield of(suffix, name, *files)
    shut = put(f'a.{suffix}', '{}'), closed(f'a.{suffix}')
    yield of(suffix, 'closed', *shut, user=65534)
  for suffix, texts in AUTOMATA.items():
    for name, text in texts.items():
      yield of(suffix, name, put(f'a.{suffix}', text))
  whole = put('a.json', json.dumps(DFA))
  for keys, value in (
    (('alphabet',), 'ab'),
    (('alphabet',), ['a', 'a', 'b']),
    (('alphabet',), ['a', 'b', 'a_b', 'a b']),
    (('alphabet',), ['a', 'b', '<pad>']),
    (('start',), 'nowhere'),
    (('start',), None),
    (('accepting',), ['nowhere']),
    (('accepting',), []),
    (('transitions',), {}),
    (('transitions', 'even', 'a'), 'nowhere'),
    (('transitions', 'even', 'a'), ['odd', 'even']),
    (('transitions', 'even', ''), 'odd'),
    (('transitions', 'even', '\ud800'), 'odd'),
    (('more',), 1),
  ):
    name = f'json {"/".join(keys)}={value!a}'
    yield of('json', name, whole, edit('a.json', *keys, to=value))
  for spec in (
    'automaton(preset="odd")',
    'automaton(file="a.txt")',
    'automaton(file="a")',
    'automaton(file="a.txt", preset="tomita1")',
    'automaton(length=1000000000)',
    'automaton(minimise="yes")',
  ):
    yield world(kind, spec, spec, put('a.txt', 'a'))


AUTOMATA: Mapping[str, Mapping[str, Text]] = {
  'json': {
    'key twice': '{"start": "a", "start": "b", "transitions": {}}',
    'deep': '[' * 100_000,
    'deep object': '{"a":' * 50_000,
    'cut': json.dumps(DFA)[:50],
    'of 5,000 digits': '{"start": ' + '9' * 5000 + ', "transitions": {}}',
    'UTF-16': json.dumps(DFA).encode('utf-16'),
    'no transitions': '{"start": "a"}',
  },
  'dot': {
    'cut': 'digraph { a -> ',
    'words': 'this is no graph',
    'two graphs': 'digraph { a -> b } digraph { c -> d }',
    'undirected': 'graph { a -- b [label=x] }',
    'deep': 'digraph { ' + 'subgraph { ' * 400 + 'a -> b' + ' }' * 401,
    'deep braces': '{' * 100_000,
    'subgraph': 'digraph { subgraph s { a -> b [label=x] } }',
    'no start': 'digraph { a -> a [label=x] }',
    'ports': 'digraph { h [shape=point]; h -> a; a:n:x:y -> b:s [label=x] }',
    'open quote': 'digraph { a -> b [label="x] }',
    'two starts': 'digraph { h [shape=point]; g [shape=point]; h -> a; g -> b;'
    ' a -> b [label=x] }',
  },
}


def all() -> Iterator[Case]:
  """Every case of this file."""
  yield from automata()
