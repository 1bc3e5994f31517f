"""Calls of the library with what is of the wrong type, size or sense."""

from __future__ import annotations

import inspect
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.attack.bases import LINE, WORLD
from tests.attack.case import Case, put

# Call -> arguments with which it works, in a folder with the bases.
GOOD: dict[str, dict[str, Any]] = {
  'sample': {'world': LINE, 'out': 'new'},
  'train': {'world': LINE, 'model': 'ngram()', 'out': 'new'},
  'score': {
    'source': 'uniform()',
    'metrics': 'next_token(num=5)',
    'world': LINE,
    'out': 'new',
  },
  'ask': {
    'model': "language(model='wm/yes', answers='cache')",
    'metrics': 'next_token(num=5)',
    'world': LINE,
    'out': 'new',
    'budget': '90000tok',
  },
  'load_predictor': {'source': 'uniform()', 'world': LINE},
  'study': {
    'rows': ['a: uniform()'],
    'world': LINE,
    'metrics': 'next_token(num=5)',
    'out': 'new',
  },
  'reconstruct': {'source': 'uniform()', 'out': 'new', 'world': WORLD},
  'report': {'folders': 'ngram', 'out': 'new'},
  'ingest': {'pgn': 'g.pgn', 'out': 'new'},
  'ingest_text': {'files': 't.txt', 'out': 'new', 'world': LINE},
  'boundary': {'world': LINE, 'first': '1', 'second': '2'},
  'count': {'world': LINE},
  'extract': {'source': 'uniform()', 'world': LINE},
  'recorded': {'paper': 'cogeval', 'data': 'answers', 'out': 'new'},
  'findings': {'folder': 'minis', 'out': 'new'},
  'miniature': {
    'rows': ['a: uniform()'],
    'world': LINE,
    'metrics': 'next_token(num=5)',
    'out': 'new',
    'seeds': 1,
  },
  'sweep': {'grid': {}, 'out': 'new', 'fixed': {}},
  'make': {'kind': 'world', 'text': LINE},
}
OBJECT = object()
# Argument -> values of its type that make no sense, whatever the call.
WRONG: dict[str, tuple[Any, ...]] = {
  'world': ('',),
  'source': (pathlib.Path('gone'), '', len),
  'metrics': ([], ['next_token()', 'nope'], ''),
  'model': ('uniform()', ''),
  'out': ('', 'a\0b', 'x' * 300),
  'rows': ([], ['a']),
  'folders': ([], 'gone', ''),
  'pgn': ([], 'gone.pgn'),
  'files': ([], 'gone.txt'),
  'first': ('', 'x'),
  'paper': ('nope',),
  'data': ('gone',),
  'folder': ('gone',),
  'grid': ({'nope': [1]},),
  'kind': ('nope',),
  'text': ('', 'nope()', 'lattice(('),
}
MORE: dict[str, dict[str, tuple[Any, ...]]] = {
  'score': {
    'seed': (2**40,),
    'accept': ('nope', ''),
    'metric_overrides': ('trials', 'nope=1'),
    'checkpoint': ('middle',),
    'name': ('', 'a\nb'),
  },
  'ask': {'budget': ('', '5', '1usd', '9tok'), 'prices': ('gone.json',)},
  'reconstruct': {'samples': ('gone',), 'pairs': ('x',)},
  'study': {'seeds': ([-1],), 'axes': ({'nope': [1]}, {'lr': ['x']})},
  'ingest': {'shard': ('2/1', '')},
  'extract': {
    'accept': ('nope',),
    'depth': (13,),
    'out': ('',),
    'queries': (99,),
  },
  'count': {'state': ('x',)},
  'sweep': {'per': ('x',)},
}


def _named(value: Any) -> str:
  if value is OBJECT:
    return 'object()'
  return repr(value) if len(repr(value)) < 50 else f'{repr(value)[:40]}~'


def _call(name: str, arguments: dict[str, Any]) -> Callable[[], None]:
  def act() -> None:
    import wm

    call = getattr(wm, name)
    done = call(*arguments.values()) if name == 'make' else call(**arguments)
    if name == 'count':
      list(done)  # It counts as it is asked.

  return act


def _outside(name: str) -> Iterator[tuple[str, Any]]:
  """Each field of a class of options with what is beyond its limits."""
  import wm
  from wm.options import declared

  for field, (_, option) in declared(getattr(wm, name)).items():
    yield field, OBJECT
    if option.least is not None:
      yield field, option.least - 1
    if option.most is not None:
      yield field, option.most + 1
    if option.choices:
      yield field, 'nope'


def calls() -> Iterator[Case]:
  """Each argument of each call, and options of those that take them."""
  import wm

  kind = 'library calls'
  files = (*(put('m.osm', 'x'), put('t.txt', 'x'), put('g.pgn', '1. e4 *')),)
  for name, good in GOOD.items():
    taken = inspect.signature(getattr(wm, name)).parameters
    wrong = [(key, OBJECT) for key in taken]
    for table in (
      {key: WRONG.get(key, ()) for key in good},
      MORE.get(name, {}),
    ):
      wrong += [(key, value) for key in table for value in table[key]]
    for key, value in wrong:
      act = _call(name, {**good, key: value})
      title = f'{name}({key}={_named(value)})'
      yield Case(kind, title, act, files, ('ngram',))
  for name in ('Sampling', 'Training', 'Reconstruction'):
    for key, value in _outside(name):
      title = f'{name}({key}={_named(value)})'
      yield Case(kind, title, _call(name, {key: value}))


class Broken:
  """No predictor, though it looks like one."""

  def log_probs(self, tokens: np.ndarray) -> None:
    """Nothing."""


def objects() -> Iterator[Case]:
  """Objects of classes of one's own, and graphs."""

  def graph(edges: list, **fields: Any) -> Callable[[], None]:
    def act() -> None:
      import networkx as nx

      import wm

      made = nx.MultiDiGraph()
      made.add_nodes_from([(0, {'x': 0, 'y': 0}), (1, {'x': 1, 'y': 1})])
      made.add_edges_from(edges)
      wm.from_graph(made, 'new', **fields)

    return act

  def of(value: Any) -> Callable[[], None]:
    def act() -> None:
      import wm

      wm.from_graph(value, 'new')

    return act

  for title, act in {
    'graph without edges': graph([]),
    'graph of nodes without places': graph([(0, 5)]),
    'graph with an odd field': graph([(0, 1), (1, 0)], nope=1),
    'graph of a wrong field': graph([(0, 1), (1, 0)], max_moves=-1),
    'graph of a number': of(5),
    'graph of a text': of('x'),
    'predictor that is none': _call(
      'score', {**GOOD['score'], 'source': Broken()}
    ),
    'a class for an object': _call(
      'score', {**GOOD['score'], 'source': Broken}
    ),
  }.items():
    yield Case('library calls', title, act)


def all() -> Iterator[Case]:
  """Every case of this file."""
  yield from calls()
  yield from objects()
