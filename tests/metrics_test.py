"""What holds for every (world, metric) pair: each one found is run, small.

The world itself, as a predictor, is perfect; the uniform predictor scores
what a formula says.
"""

import dataclasses
import functools
import re

import numpy as np
import pytest

from tests import small, tiny
from wm import core
from wm.core import registry
from wm.core.measure import headline_quantities, lacks
from wm.evaluation import engine, statistics
from wm.models.serving import oracles

NUM = 12
SEED = 1
SLOW = pytest.mark.slow
WORLDS = registry.names('world')
METRICS = registry.names('metric')
# Its headline is no law of legality.
OPEN = (
  'automaton',
  'coherence',
  'probe',
  'excess_loss',
  'force_law',
  'inductive_bias',
  'trajectory',
  'transfer',
  'relearn',
  'state_recovery',
  'extrapolation',
)
# The oracle is uniform over legal tokens: of many, each has less than 0.01.
BY_RULE = 'exact_least', 'exact_greatest'


@pytest.fixture(autouse=True, scope='module')
def small_constants():
  with small.constants():
    yield


@functools.cache
def world(name: str) -> core.World:
  return tiny.World() if name == 'tiny' else registry.make('world', name)


@functools.cache
def model(name: str, world_name: str) -> core.Predictor:
  return registry.make('model', name).predictor(world(world_name), 0)


def metric(name: str, **fields) -> core.Metric:
  """The metric with its number of trials made small."""
  made = registry.make('metric', name)
  known = {field.name: field.default for field in dataclasses.fields(made)}
  counts = 'trials', 'num', 'examples', 'states', 'pool'
  sizes = {key: NUM for key in counts if isinstance(known.get(key), int)}
  # Without a control task there is no selectivity.
  sizes |= {'control': 1} if 'control' in known else {}
  # Chess has 20,482 tokens to learn to name.
  sizes |= {'sizes': (4,), 'steps': (2,)} if 'sizes' in known else {}
  if 'accept' not in known:
    fields.pop('accept', None)
  return dataclasses.replace(made, **sizes | fields)


def results(
  predictor: str, world_name: str, metric_name: str, accept: str
) -> tuple[core.Scores, ...]:
  """Once for all rules where the metric takes none."""
  fields = dataclasses.fields(registry.find('metric', metric_name))
  takes = any(field.name == 'accept' for field in fields)
  return measured(predictor, world_name, metric_name, accept if takes else '')


@functools.cache
def measured(
  predictor: str, world_name: str, metric_name: str, accept: str
) -> tuple[core.Scores, ...]:
  truth, scored = world(world_name), model(predictor, world_name)
  made = metric(metric_name, accept=accept)
  missing = lacks(made, type(scored), type(truth))
  if missing:
    pytest.skip(f'{predictor} on {world_name} is no {missing[0].__name__}')
  return made(scored, truth, SEED)


@pytest.fixture(params=['tiny', *WORLDS])
def world_name(request):
  return request.param


@pytest.fixture(params=METRICS)
def metric_name(request):
  return request.param


def _threshold(world_name: str) -> float:
  """Below the probability of each of any state's legal tokens."""
  legal = world(world_name).legal(_some(world_name))
  return 0.5 / max(int(legal.sum(1).max()), 1)


def _free(world_name: str) -> bool:
  """Is every token legal in every state, so that no two are told apart?"""
  return bool(world(world_name).legal(_some(world_name))[:, 1:].all())


def _hidden(world_name: str) -> bool:
  """Do tokens not fix the state, so that they tell no two apart?"""
  return isinstance(world(world_name), core.Latent)


def _some(world_name: str) -> np.ndarray:
  truth = world(world_name)
  # Of a hidden state the oracle knows what tokens fix.
  if isinstance(truth, core.Prefixed) and not isinstance(truth, core.Latent):
    return truth.sample_states(50, 0)
  result = truth.sample(25, 0)
  lengths = np.repeat([truth.prompt_len, truth.max_len - 1], 25)
  tokens = np.tile(result.tokens, (2, 1))
  return truth.walk(truth.init(50), tokens, lengths)[1]


def _accept(predictor: str, world_name: str) -> str:
  """The oracle's has all that is legal."""
  least = _threshold(world_name) if predictor == 'oracle' else 0.01
  return f'epsilon({least:.4f})'


def test_the_world_is_perfect(world_name, metric_name):
  accept = _accept('oracle', world_name)
  outcomes = results('oracle', world_name, metric_name, accept)
  headline = headline_quantities(metric(metric_name))
  for name in headline:
    # NAME itself, or NAME_0.5 and the like: a series over a number.
    expected = re.compile(rf'{name}(_[\d.]+)?')
    matching = [s for s in outcomes if expected.fullmatch(s.quantity)]
    assert matching, f'no quantity {name}'
    lawful = metric_name not in OPEN
    lawful &= name not in BY_RULE or _threshold(world_name) > 0.005
    for scores in matching if lawful else ():
      summary = statistics.summarize(scores)
      if metric_name == 'distinction' and _free(world_name):
        assert set(summary['unmeasured']) == {'empty'}
        continue
      if metric_name == 'distinction' and _hidden(world_name):
        assert summary['value'] == {'precision': None, 'recall': 0}[name]
        continue
      assert summary['value'] == pytest.approx(1, abs=1e-6), (name, summary)
      assert summary['n'] >= NUM / 2


@pytest.mark.parametrize('predictor', ['oracle', 'uniform'])
def test_rows_are_whole(predictor, world_name, metric_name):
  accept = _accept(predictor, world_name)
  for scores in results(predictor, world_name, metric_name, accept):
    num = len(scores.value)
    assert num > 0
    for array in (scores.reason, scores.group, scores.weight):
      assert array.shape == (num,)
    for name, column in scores.columns.items():
      assert column.shape == (num,), name
    np.testing.assert_array_equal(np.isnan(scores.value), ~scores.measured)
    assert scores.reason.dtype.kind == 'U'
    assert (scores.weight >= 0).all()
    if scores.bounds is not None:
      low, high = scores.limits
      values = scores.value[scores.measured]
      assert ((values >= low - 1e-6) & (values <= high + 1e-6)).all()
    summary = statistics.summarize(scores)
    if summary['low'] is not None:
      assert summary['low'] < summary['high']


def test_same_seed_same_rows(world_name, metric_name):
  accept = _accept('oracle', world_name)
  first = results('oracle', world_name, metric_name, accept)
  made = metric(metric_name, accept=accept)
  again = made(model('oracle', world_name), world(world_name), SEED)
  for item, other in zip(first, again, strict=True):
    assert item.quantity == other.quantity
    np.testing.assert_array_equal(item.value, other.value)
    np.testing.assert_array_equal(item.reason, other.reason)
    assert item.counts == other.counts


def test_a_metric_is_its_spec(metric_name):
  made = metric(metric_name)
  assert registry.make('metric', registry.spec(made)) == made
  assert made.name == metric_name
  assert made.version


def _needs_prefixes(world_name):
  if not isinstance(world(world_name), core.Prefixed):
    pytest.skip(f'{world_name} is not Prefixed')


def _uniform(world_name, metric_name, factor):
  share = factor / (len(world(world_name).vocab) - 1)
  outcomes = results('uniform', world_name, metric_name, f'epsilon({share!r})')
  return {s.quantity: statistics.summarize(s) for s in outcomes}


def test_uniform_above_the_threshold_accepts_everything(world_name):
  _needs_prefixes(world_name)
  result = _uniform(world_name, 'compression', 0.9)
  assert result['precision']['value'] == 1
  result = _uniform(world_name, 'distinction', 0.9)
  assert result['precision']['unmeasured']['empty'] > 0
  assert result['precision']['n'] == 0
  assert result['precision_definition']['value'] == 1
  assert result['recall']['value'] == (None if _free(world_name) else 0)
  result = _uniform(world_name, 'next_token', 0.9)
  assert result['set_recall']['value'] == 1
  mass = result['valid_mass']['value']
  assert result['set_precision']['value'] == pytest.approx(mass)


def test_uniform_below_the_threshold_is_vacuous(world_name):
  _needs_prefixes(world_name)
  result = _uniform(world_name, 'compression', 1.1)
  assert result['precision']['n'] == 0
  assert result['precision']['unmeasured']['vacuous'] > 0
  assert result['precision_definition']['value'] == 1
  assert result['precision_published']['value'] == 0
  result = _uniform(world_name, 'distinction', 1.1)
  assert result['precision']['n'] == 0
  assert result['recall']['value'] == (None if _free(world_name) else 0)


# Each rule in the smallest world, and one in all.
RULES = ('epsilon(0.05)', 'top_k(2)', 'top_p(0.9)')
IN_FLIGHT = [
  pytest.param(
    name, rule, marks=() if name == 'tiny' or rule == RULES[2] else SLOW
  )
  for name in ('tiny', *WORLDS)
  for rule in RULES
]


@pytest.mark.parametrize('name', ['compression', 'distinction'])
@pytest.mark.parametrize(('world_name', 'accept'), IN_FLIGHT)
def test_trials_in_flight_do_not_matter(world_name, name, accept, monkeypatch):
  _needs_prefixes(world_name)
  truth = world(world_name)
  noisy = oracles.NoisyOracle(
    truth, illegal=0.1, wrong=0.1, by='prefix', seed=2
  )
  rows = []
  for in_flight in (1, 9):
    monkeypatch.setattr(engine, 'BATCH', in_flight)
    rows.append(metric(name, accept=accept)(noisy, truth, SEED))
  item, many = rows
  for a, b in zip(item, many, strict=True):
    np.testing.assert_array_equal(a.value, b.value)
    np.testing.assert_array_equal(a.reason, b.reason)


@pytest.mark.parametrize('name', ['compression', 'distinction'])
def test_the_real_map_is_perfect_too(manhattan, name):
  truth = registry.make(
    'world',
    f"maps(nodes='{manhattan}/nodes.csv', "
    f"edges='{manhattan}/random/edges.csv', traversal='random')",
  )
  made = metric(name, trials=6, samples=10)
  outcomes = made(oracles.Oracle(truth), truth, SEED)
  for scores in outcomes:
    if scores.quantity in headline_quantities(made):
      assert statistics.summarize(scores)['value'] == 1
