"""Exponents of known laws, their intervals, and the states of five systems."""

import numpy as np
import pytest

from wm import core
from wm.core import registry
from wm.evaluation import force_laws
from wm.kernels import symbolic

GRAVITY = 39.4784176044


def test_shipped_forces_are_newtons(testdata):
  """Least squares over all 2,250 rows: -2, 1 and 1."""
  folder = testdata / 'orbits' / 'llm-prompts'
  states = [np.load(folder / f'true_state_{i}.npy') for i in range(5)]
  forces = [np.load(folder / f'true_force_{i}.npy') for i in range(5)]
  x, y, _, _, m1, m2 = np.concatenate(states).astype(np.float64).T
  force, group = np.concatenate(forces)[:, 0], np.repeat(np.arange(5), 450)
  inputs = {'r': np.hypot(x, y), 'm1': m1, 'm2': m2}
  law = force_laws.fit_power_law(force, inputs, group)
  for name, exponent in (('r', -2), ('m1', 1), ('m2', 1)):
    assert law.exponents[name] == pytest.approx(exponent, abs=5e-6)
  assert law.constant == pytest.approx(GRAVITY, rel=1e-5)
  assert law.rows == 2250
  assert law.clusters == 5
  assert law.r2 == pytest.approx(1)
  for k in range(5):
    mine = group == k
    item = np.polyfit(np.log(inputs['r'][mine]), np.log(force[mine]), 1)[0]
    assert item == pytest.approx(-2, abs=1e-4)


def test_states_of_the_world_obey_the_law():
  """The oracle that knows the state finds each exponent."""
  world = registry.make('world', 'orbits()')
  sequences = world.sample(60, 5)
  state = world.trajectory(sequences).state[:, ::2]
  r = np.hypot(state[..., 0], state[..., 1])
  m1, m2 = state[..., 4], state[..., 5]
  group = np.repeat(np.arange(60), r.shape[1])
  columns = {'r': r.ravel(), 'm1': m1.ravel(), 'm2': m2.ravel()}
  force = (GRAVITY * m1 * m2 / r**2).ravel()
  law = force_laws.fit_power_law(force, columns, group)
  assert [*law.exponents.values()] == pytest.approx([-2, 1, 1], abs=1e-9)
  assert str(law) == '39.48 r^-2 m1^1 m2^1'
  other = force_laws.fit_power_law((m1 * m2 / r).ravel(), columns, group)
  low, high = other.interval('r')
  assert not low <= -2 <= high


def test_intervals_cover_with_dependent_rows():
  """Noise shared in a cluster: 95 % intervals hold the exponent."""
  rng, held = np.random.default_rng(0), 0
  group = np.repeat(np.arange(30), 8)
  for _ in range(300):
    mass = np.exp(rng.normal(size=30))[group]
    noise = rng.normal(size=30)[group] + 0.1 * rng.normal(size=240)
    law = force_laws.fit_power_law(
      mass**1.5 * np.exp(noise), {'m': mass}, group
    )
    low, high = law.interval('m')
    held += low <= 1.5 <= high
  assert 0.9 < held / 300 < 0.985


@pytest.mark.parametrize(
  ('target', 'mass', 'group', 'message'),
  [
    ([1, 2, 3, 4], [1, 2, 3, 4], [0, 0, 0, 0], '4 rows of 1 clusters'),
    ([1, 2], [1, 2], [0, 1], '2 rows of 2 clusters'),
    ([1, 2, 3, 4], [2, 2, 2, 2], [0, 0, 1, 1], 'do not determine'),
  ],
)
def test_what_has_no_law_is_told(target, mass, group, message):
  with pytest.raises(core.InputError, match=message):
    force_laws.fit_power_law(
      np.array(target), {'m': np.array(mass)}, np.array(group)
    )


@pytest.mark.parametrize('noise', [0.0, 0.1])
@pytest.mark.parametrize('power', [-1.0, -1.9, -2.0, -2.5])
def test_a_formula_is_newtons_by_its_fit_and_not_by_its_shape(
  power, noise, monkeypatch
):
  """An engine that finds nothing but Newton's shape is believed at -2 alone."""
  rng, systems, each = np.random.default_rng(0), 60, 40
  group = np.repeat(np.arange(systems), each)
  state = np.exp(rng.normal(size=(systems * each, 6)))
  state[:, 4:] = np.exp(rng.normal(size=(systems, 2)))[group]
  r = np.hypot(state[:, 0], state[:, 1])
  force = state[:, 4] * state[:, 5] * r**power
  force *= np.exp(noise * rng.normal(size=len(force)))
  rows = force_laws.LawRows(state, group, False)
  seen = []

  def search(columns, targets, size, loss):
    seen.extend(columns['r'])
    return [[symbolic.Law((), 8, 0.03, 1.0, 'newton')]] * len(targets)

  def values(code, columns):
    r, m1, m2 = columns
    return m1 * m2 / r**2

  target = 'log_force'
  verdict = rows.verdict(target, np.log(force)[:, None], 0.05)
  monkeypatch.setattr(symbolic, 'search', search)
  monkeypatch.setattr(symbolic, 'values', values)
  (result,) = rows.searched(target, {'': verdict}, 8).values()
  assert result.right == (power == -2)
  # 1,000 rows of all systems, not those of the first ones.
  assert len(seen) == 1000
  used = np.isin(r, seen)
  assert len({*group[used]}) == systems
