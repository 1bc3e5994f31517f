"""Rates of directions and routes, against plain loops."""

import json

import numpy as np
import pytest

import wm
from wm.core import registry
from wm.evaluation import statistics
from wm.options.calls import Reconstruction
from wm.recon import reconstruct
from wm.recon import routes as routes_lib
from wm.recon.routes import Routes
from wm.studies import rows, runs

WORLD = 'maps(rows=3, columns=3, max_moves=12)'
SHARE = {'value', 'low', 'high', 'n'}


def drawn(graph, num: int, seed: int) -> Routes:
  """Routes of random directions, some of them no directions at all."""
  rng = np.random.default_rng(seed)
  lengths = rng.integers(1, 6, num)
  return Routes(
    rng.integers(len(graph), size=num).astype(np.int32),
    rng.integers(len(graph), size=num).astype(np.int32),
    np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
    rng.integers(9, size=int(lengths.sum())).astype(np.int32),
    np.arange(1, num + 1),
    np.zeros(num, bool),
    ('odd',),
  )


@pytest.mark.parametrize('seed', range(3))
def test_directions_are_those_of_a_plain_loop(seed):
  graph = routes_lib.street_graph(registry.make('world', WORLD))
  routes = drawn(graph, 40, seed)
  fate = routes_lib.follow(routes, graph)
  edges = reconstruct.reconstruct(graph, routes, Reconstruction())
  result = reconstruct.rates(graph, routes, fate, edges)
  taken, wrong, hits = set(), set(), []
  num = 0
  for k, node in enumerate(routes.origins.tolist()):
    hits.append(0)
    for label in routes.labels[routes.offsets[k] : routes.offsets[k + 1]]:
      num += 1
      taken.add((node, int(label)))
      after = graph.delta[node, label] if label < 8 else -1
      if after < 0:
        wrong.add((node, int(label)))
        hits[-1] = 1
        break
      node = int(after)
  rate = result['illegal_directions']
  assert {*rate} == SHARE
  assert rate['n'] == num
  assert rate['value'] == pytest.approx(sum(hits) / num)
  assert rate['low'] < rate['value'] < rate['high']
  assert result['distinct_directions'] == len(taken)
  assert result['distinct_illegal_directions'] == len(wrong)
  failed = result['failed_routes']
  counts = reconstruct.counts(graph, routes, fate, edges)
  assert failed['value'] == counts['failed'] / 40
  low, high = statistics.proportion(failed['value'], 40)
  assert (failed['low'], failed['high']) == pytest.approx(
    (float(low), float(high))
  )


def test_without_routes_there_is_no_rate():
  graph = routes_lib.street_graph(registry.make('world', WORLD))
  routes = drawn(graph, 1, 0).take(np.zeros(0, np.int64))
  fate = routes_lib.follow(routes, graph)
  edges = reconstruct.reconstruct(graph, routes, Reconstruction())
  result = reconstruct.rates(graph, routes, fate, edges)
  none = {'value': None, 'low': None, 'high': None, 'n': 0}
  assert result['illegal_directions'] == result['failed_routes'] == none
  assert result['distinct_directions'] == 0


@pytest.mark.parametrize('model', ['bayes()', "bayes(off='replan')"])
@pytest.mark.parametrize('traversal', ['random', 'shortest'])
def test_a_bayes_predictor_implies_no_false_street(tmp_path, model, traversal):
  world = f'{WORLD[:-1]}, traversal={traversal!r})'
  result = wm.reconstruct(model, tmp_path, world, num=200)
  assert result['routes'] > 100
  assert (result['new_edges'], result['failed']) == (0, 0)
  assert result['illegal_directions']['value'] == 0
  assert 0 < result['illegal_directions']['high'] < 0.03


def test_rows_beside_trained_ones_have_maps_of_their_own():
  texts = {
    'net: transformer(layers=1)': True,
    'guess: uniform()': True,
    'best: bayes()': True,
    "plans: bayes(off='replan')": True,
    'rules: oracle()': False,
    f'grams: ngram() on {WORLD}': True,
  }
  for text, mapped in texts.items():
    (row,) = rows.rows_of([text], WORLD)
    assert runs.is_mapped(row) == mapped, text
    (row,) = rows.rows_of([text.replace(WORLD, 'othello()')], 'othello()')
    assert not runs.is_mapped(row)


@pytest.mark.process
def test_units_keep_the_rates(tmp_path):
  wm.miniature(
    ['bayes: bayes()'],
    WORLD,
    'next_token(num=20)',
    tmp_path / 'out',
    seeds=1,
    baselines=False,
    results=tmp_path / 'results',
    num_samples=40,
  )
  unit = json.loads((tmp_path / 'results' / 'bayes-0.json').read_text())
  assert {*unit['map']['illegal_directions']} == SHARE
  assert {*unit['map']['failed_routes']} == SHARE
  assert (unit['map']['sequences'], unit['map']['new_edges']) == (40, 0)
