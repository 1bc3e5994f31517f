"""Force laws of speakers whose law is known."""

from unittest import mock

import numpy as np
import pytest

from wm import core
from wm.core import adapting, registry
from wm.evaluation import force_tasks, statistics
from wm.metrics import force_law
from wm.models.serving import oracles

SEED = 3
SMALL = {'num': 2, 'examples': 12, 'labels': 3, 'searches': 0}


@pytest.fixture(autouse=True, scope='module')
def few():
  with mock.patch.object(force_law, 'SYSTEMS', 16):
    yield


RESTING = (
  "orbits(systems='exoplanets', bins=400, box=40.0, rows=161, steps=(0.4,))"
)


class Saying(oracles.Uniform, core.Adaptable):
  """Answers by a rule of target and true states, whatever it is tuned to."""

  def __init__(self, metric: force_law.Metric, world: core.Latent, rule):
    super().__init__(len(world.vocab), world.end, world.max_len)
    self._task = metric.task(world, SEED)
    self._left, self._rule = [*metric.targets], rule

  def adapt(self, sets, asked, kind, steps, seed, tuning=adapting.FINE_TUNE):
    adapting.check_adapting(sets, asked, kind, steps)
    target = self._left.pop(0)
    raw = force_tasks.labels(target, self._task.labelled.state)
    level, scale = force_law._scale(target, raw)
    there = sets.places != core.DEAD
    np.testing.assert_allclose(
      sets.labels[there], ((raw - level) / scale)[there], rtol=1e-5, atol=1e-6
    )
    values = self._rule(target, self._task.asked.state)
    values = np.nan_to_num((values - level) / scale)
    return np.stack([values] * len(steps))


def world_of(spec: str) -> core.Latent:
  return registry.make('world', spec)


def scored(rule, world, **fields) -> dict[str, core.Scores]:
  metric = force_law.Metric(**{**SMALL, **fields})
  return {
    s.quantity: s for s in metric(Saying(metric, world, rule), world, SEED)
  }


def value(outcome: dict[str, core.Scores], name: str) -> float:
  return statistics.summarize(outcome[name])['value']


def wrong(target: str, state: np.ndarray) -> np.ndarray:
  """A force that falls as 1 / r."""
  r = np.hypot(state[..., 0], state[..., 1])[..., None]
  truth = force_tasks.labels(target, state)
  return truth + np.log(r) if target.startswith('log_') else truth * r


@pytest.fixture(scope='module')
def world() -> core.Latent:
  return world_of('orbits()')


@pytest.fixture(scope='module')
def right(world) -> dict[str, core.Scores]:
  return scored(force_tasks.labels, world, searches=1)


def test_who_says_newtons_law_is_found_to(right):
  assert value(right, 'newton') == 1
  for name, power in (('r', -2), ('m1', 1), ('m2', 1), ('mass', 1)):
    assert value(right, f'exponent_{name}') == pytest.approx(power, abs=1e-5)
    state = right[f'exponent_{name}_state']
    np.testing.assert_allclose(state.value, power, atol=1e-9)
  assert value(right, 'r2') == pytest.approx(1)
  assert value(right, 'formula') == 1
  assert sorted(right['formula'].columns['law']) == [
    '39.48 * (m1 + m2) * inv(r * r)',
    '39.48 * m1 * m2 * inv(r * r)',
  ]


def test_rows_have_the_whole_front(right):
  for who in ('', '_state', '_neighbours'):
    result = right[f'law_error{who}']
    for target in set(result.columns['target']):
      rows = result.columns['target'] == target
      law, length = (result.columns[name][rows] for name in ('law', 'length'))
      assert len(law) > 3
      assert (np.diff(length) > 0).all()
      assert (np.diff(result.value[rows]) < 0).all()
      taken = right[f'formula{who}']
      taken = taken.columns['law'][taken.columns['target'] == target]
      assert taken[0] in law
  exact = right['law_error']
  assert exact.value[exact.columns['length'] == 8].max() < 1e-12


def test_near_states_do_not_tell_the_law(right):
  assert value(right, 'newton_neighbours') == 0
  assert value(right, 'formula_neighbours') == 0
  assert value(right, 'r2_neighbours') < 0.98


def test_who_says_another_law_is_found_to(world, monkeypatch):
  monkeypatch.setattr(force_law, 'NODES', 6)
  result = scored(wrong, world, searches=1)
  assert value(result, 'newton') == 0
  assert value(result, 'exponent_r') == pytest.approx(-1, abs=1e-5)
  assert value(result, 'exponent_m1') == pytest.approx(1, abs=1e-5)
  assert value(result, 'formula') == 0
  assert all('inv(r)' in law for law in result['formula'].columns['law'])


def test_noise_widens_but_does_not_bend(world, monkeypatch):
  rng = np.random.default_rng(0)

  def noisy(target, state):
    truth = force_tasks.labels(target, state)
    return truth + 0.02 * rng.normal(size=truth.shape)

  monkeypatch.setattr(force_law, 'SYSTEMS', 40)
  result = scored(noisy, world)
  assert value(result, 'newton') == 1
  assert 0.99 < value(result, 'r2') < 1


def test_vectors_and_raw_magnitudes(world):
  targets = ('acceleration', 'force_vector')

  def turned(target, state):
    truth = force_tasks.labels(target, state)
    return truth[..., ::-1] * (1, -1) if 'vector' in target else truth

  result = scored(turned, world, targets=targets)
  assert value(result, 'newton') == 1
  assert value(result, 'positive') == 1
  np.testing.assert_allclose(result['angle'].value, 90, atol=1e-4)
  np.testing.assert_allclose(result['angle_state'].value, 0, atol=1e-5)
  assert (
    result['r2'].value[result['r2'].columns['target'] == targets[1]].max() < 0
  )

  rng = np.random.default_rng(0)

  def around(target, state):
    return rng.normal(size=(*state.shape[:-1], 1))

  result = scored(around, world, targets=targets[:1])
  assert set(result['newton'].reason) == {'not_positive'}
  assert 0.3 < value(result, 'positive') < 0.7
  assert value(result, 'r2') < 0.1


def test_a_constant_has_no_law(world, monkeypatch):
  monkeypatch.setattr(force_law, 'NODES', 3)
  metric = force_law.Metric(**{**SMALL, 'steps': (1, 5), 'searches': 1})
  lookup = registry.make('model', "lookup(by='nothing')").predictor(world, 0)
  result = {s.quantity: s for s in metric(lookup, world, SEED)}
  for end in ('', '_1'):
    assert value(result, f'newton{end}') == 0
    np.testing.assert_allclose(result[f'exponent_r{end}'].value, 0, atol=1e-9)
    assert set(result[f'formula{end}'].reason) == {'constant'}
  assert 'newton_state_1' not in result


def test_where_suns_rest_nobody_knows_the_planets_mass():
  result = scored(force_tasks.labels, world_of(RESTING))
  force = result['newton'].columns['target'] == 'log_force'
  for name in ('newton', 'newton_state', 'exponent_r'):
    assert set(result[name].reason[force]) == {'sun_rests'}
  assert set(result['exponent_m1'].reason) == {'sun_rests'}
  assert result['newton_state'].value[~force].min() == 1


def test_near_states_are_averaged():
  known = np.array([[0.0, 0], [1, 0], [0, 1], [9, 9]])
  values = np.array([[1.0], [3.0], [7.0], [100.0]])
  expected = np.array([[0.4, 0.0], [np.nan, 0.0]])
  result = force_tasks.neighbours(known, values, expected)
  np.testing.assert_array_equal(result, [[2.0], [np.nan]])


def test_systems_that_no_memory_holds(world):
  metric = force_law.Metric(num=1, examples=10**9, searches=0)
  output = '1 data sets of 1,000,000,000 systems: .* of memory are needed'
  with pytest.raises(core.InputError, match=output):
    metric(oracles.Oracle(world), world, SEED)


@pytest.mark.parametrize(
  ('inputs', 'message'),
  [
    ({'targets': ('mass',)}, "targets has 'mass'; available: log_acceleration"),
    ({'targets': ()}, r'targets=\(\)'),
    ({'steps': (3, 1)}, 'ascending'),
  ],
)
def test_bad_fields_are_told(inputs, message):
  with pytest.raises(core.InputError, match=message):
    force_law.Metric(**inputs)
