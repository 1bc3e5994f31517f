"""Calls of the library with what is of the wrong type, size or sense."""

from __future__ import annotations

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
# Argument -> wrong values of it, whatever the call.
WRONG: dict[str, tuple[Any, ...]] = {
  'world': (None, 5, b'lattice()', [LINE], OBJECT, int, '', pathlib.Path('x')),
  'source': (5, [], OBJECT, b'uniform()', pathlib.Path('gone'), {}, '', len),
  'metrics': (5, [], [5], OBJECT, {}, [None], ['next_token()', 'nope'], ''),
  'model': (5, OBJECT, None, 'uniform()', [], ''),
  'out': (5, '', 'a\0b', OBJECT, b'new', 'x' * 300),
  'rows': ([], [5], 'a', ['a'], [None], 5, [OBJECT], {'a': 'uniform()'}),
  'folders': ([], [5], 5, OBJECT, 'gone', [[]], ''),
  'pgn': ([], 5, [5], 'gone.pgn', OBJECT),
  'files': ([], 5, [5], 'gone.txt', OBJECT),
  'first': (5, '', 'x', None, [1]),
  'depth': (0, -1, 2.5, '3', None, float('nan')),
  'num': (0, -5, 'x', 2.5, None),
  'seeds': (0, -1, 'x', 1.5),
  'paper': (5, 'nope', None),
  'data': ('gone', 5, None),
  'path': ('gone.pt', 5, None),
  'file': ('gone.osm', 5),
  'folder': ('gone', 5, None),
  'grid': (5, 'lr', [5], [('lr',)], None, {'lr': 5}, {'nope': [1]}),
  'kind': ('nope', 5, None),
  'text': ('', 'nope()', 'lattice(('),
}
MORE: dict[str, dict[str, tuple[Any, ...]]] = {
  'score': {
    'seed': (-1, 2**40, 1.5, 'x', None),
    'accept': (5, 'nope', OBJECT, ''),
    'metric_overrides': ('trials', 5, 'nope=1'),
    'checkpoint': (5, 'middle', None),
    'max_calls': (-1, 'x', 2.5),
    'name': (5, '', 'a\nb'),
  },
  'ask': {
    'budget': (5, '', None, '5', '1usd', '9tok'),
    'prices': (5, 'gone.json'),
    'dry_run': ('x', 5),
    'seed': (-1, 'x'),
  },
  'sample': {'options': (5, 'x', {'num': 5})},
  'train': {'training': (5, 'x', {'steps': 5})},
  'reconstruct': {
    'options': (5, 'x'),
    'samples': (5, 'gone'),
    'pairs': ('x', 5),
  },
  'study': {
    'jobs': (0, -1, 'x'),
    'num_samples': (0, 'x'),
    'sampling': (5,),
    'seeds': (5, 'x', [-1], ['x'], [1.5]),
    'axes': (5, 'lr', [5], [('lr',)], {'lr': 5}, {'nope': [1]}, {'lr': ['x']}),
  },
  'ingest': {'shard': (5, '2/1', ''), 'games': (-1, 'x')},
  'extract': {
    'accept': ('nope', 5),
    'depth': (-1, 1, 13, 'x'),
    'most': (0, 'x', None),
    'out': (5, ''),
    'queries': (99, 'x'),
    'walks': (0, 2.5),
  },
  'count': {'state': (5, 'x', b'1')},
  'sweep': {'per': ('x', 5), 'jobs': (0, 'x'), 'top': (0,), 'fixed': (5, None)},
  'miniature': {'results': (5,), 'jobs': (0,)},
}
FIELDS: dict[str, dict[str, tuple[Any, ...]]] = {
  'Sampling': {'num': (0, 'x', 2.5, None), 'seed': (-1, 'x'), 'text': ('x',)},
  'Training': {
    'steps': (0, 'x', 2.5, None),
    'lr': (-1, 'x', float('nan'), None),
    'batch': ('x', 1.5, 0),
    'objective': ('x', 5, None),
    'seed': (-1, 2**40, 'x'),
    'decay_all': ('x', 5),
    'average': ('x', 0.9),
    'data': (5, OBJECT),
    'keep': ('500', 5),
    'log_every': (0, -1, 'x'),
  },
  'Reconstruction': {
    'max_degree': (0, 'x', 1.5),
    'max_miles': (-1, 'x', None),
    'order': (5.5, None, -1),
    'control': ('x', 5),
    'error_rate': (2, 'x'),
    'shuffles': (-1, 'x'),
  },
}


def _named(value: Any) -> str:
  if value is OBJECT:
    return 'object()'
  return repr(value) if len(repr(value)) < 50 else f'{repr(value)[:40]}~'


def _call(name: str, given: dict[str, Any]) -> Callable[[], None]:
  def act() -> None:
    import wm

    call = getattr(wm, name)
    done = call(*given.values()) if name == 'make' else call(**given)
    if name == 'count':
      list(done)  # It counts as it is asked.

  return act


def calls() -> Iterator[Case]:
  """Each argument of each call, and options of those that take them."""
  files = (*(put('m.osm', 'x'), put('t.txt', 'x'), put('g.pgn', '1. e4 *')),)
  for name, good in GOOD.items():
    kinds = {key: WRONG[key] for key in good if key in WRONG}
    if name == 'make':
      kinds.pop('text', None)
      kinds['text'] = WRONG['text']
    for key, values in (kinds | MORE.get(name, {})).items():
      for value in values:
        if name in ('score', 'report') and key == 'out' and value is None:
          continue
        act = _call(name, {**good, key: value})
        title = f'{name}({key}={_named(value)})'
        yield Case('library calls', title, act, files, ('ngram',))
  for name, fields in FIELDS.items():
    for key, values in fields.items():
      for value in values:
        title = f'{name}({key}={_named(value)})'
        yield Case('library calls', title, _call(name, {key: value}))


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

  kind = 'library calls'
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
    yield Case(kind, title, act)


def all() -> Iterator[Case]:
  """Every case of this file."""
  yield from calls()
  yield from objects()
