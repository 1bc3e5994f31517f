"""A click in the explorer, beside the model's own forward passes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from starlette import testclient

import wm
from tests.bench import harness
from wm.core import registry
from wm.explorer import server, views

CITY = 'maps(rows=8, columns=8, city_seed=1, max_moves=16)'
LARGE = 'transformer(layers=12, width=768)'  # GPT-2's smallest.
OF_TWO = ('transformer(layers=2, width=64)', 'transformer(layers=2, width=64)')


def bench_large_model() -> Iterator[harness.Line]:
  """A step in Othello beside a transformer of GPT-2's smallest size."""
  world = registry.make('world', 'othello()')
  model = wm.load_predictor(LARGE, world, checkpoint='none')
  accept = registry.make('accept', 'epsilon(0.01)')
  explorer = views.Explorer(world, {'large': model}, accept)
  game = world.sample(1, 0).tokens[0]
  clicks = itertools.count(10)
  row, lengths = game[None, :16], np.array([16])
  spent = harness.in_turns(
    {
      'click': lambda: explorer.walk(game[: next(clicks)]),
      'pass': lambda: np.asarray(model.predictor.log_probs(row, lengths)),
    },
    runs=10,
  )
  yield harness.compared(
    'explorer: a click, a model of 12 x 768',
    spent['click'].wall,
    's',
    *(spent['click'], spent['pass']),
    'a forward pass as metrics make it, of up to 64 rows',
    clock='wall',
    target='under 1 s',
  )


def bench_explorer() -> Iterator[harness.Line]:
  """A step in the quickstart's city beside two 2 x 64 transformers."""
  world = registry.make('world', CITY)
  loaded = {
    name: wm.load_predictor(model, world, checkpoint='none')
    for name, model in zip(('first', 'second'), OF_TWO, strict=True)
  }
  accept = registry.make('accept', 'epsilon(0.01)')
  explorer = views.Explorer(world, loaded, accept)
  sequences = world.sample(50, 0)
  long = np.flatnonzero(sequences.lengths >= 10)[:1]
  tokens = sequences.tokens[long, :10]
  query = {'tokens': tokens[0].tolist()}
  row, lengths = np.pad(tokens, ((0, 0), (0, 6))), np.array([10])
  app = server.application(explorer, 'token')
  with testclient.TestClient(app, base_url='http://127.0.0.1') as client:
    spent = harness.in_turns(
      {
        'click': lambda: client.post('/token/walk', json=query).json()[
          'models'
        ],
        'passes': lambda: [
          np.asarray(each.predictor.log_probs(row, lengths))
          for each in loaded.values()
        ],
      },
      runs=20,
    )
  yield harness.compared(
    'explorer: a click, two models of 2 x 64',
    spent['click'].wall,
    's',
    *(spent['click'], spent['passes']),
    "the two models' forward passes",
    clock='wall',
    target='under .2 s',
  )
