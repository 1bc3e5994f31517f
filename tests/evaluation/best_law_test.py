"""Which formula of a front is the law: known fronts, and shipped states."""

import numpy as np
import pytest

from wm.evaluation import force_laws
from wm.kernels import symbolic

NEWTON = 'm1 * m2 * inv(r * r)'


def law(size: int, error: float) -> symbolic.Law:
  return symbolic.Law((), size, error, 1.0, f'of {size}')


@pytest.mark.parametrize(
  ('front', 'size'),
  [
    ([(3, 0.5)], 3),
    ([(1, 0.5), (4, 0.4), (8, 1e-24)], 8),
    # The law and its noise, and a longer formula of as much noise.
    ([(1, 0.5), (6, 0.1), (8, 1e-4), (9, 0.9e-4)], 8),
    # The greatest fall leaves too much.
    ([(1, 0.5), (2, 1e-2), (8, 1e-3)], 8),
  ],
)
def test_the_law_is_where_the_error_falls_most(front, size):
  assert force_laws.best([law(*pair) for pair in front]).size == size


@pytest.fixture(scope='module')
def shipped(testdata):
  """r, m1, m2 and forces of 450 states of each of five systems."""
  folder = testdata / 'orbits' / 'llm-prompts'
  states = [np.load(folder / f'true_state_{i}.npy') for i in range(5)]
  forces = [np.load(folder / f'true_force_{i}.npy') for i in range(5)]
  x, y, _, _, m1, m2 = np.concatenate(states).astype(np.float64).T
  inputs = {'r': np.hypot(x, y), 'm1': m1, 'm2': m2}
  return inputs, np.concatenate(forces)[:, 0].astype(np.float64)


def test_shipped_forces_are_newtons(shipped):
  """Masses over four decades; the states are float32."""
  inputs = {name: values[::5] for name, values in shipped[0].items()}
  force = shipped[1][::5]
  front = symbolic.search(inputs, force[None], 8, 'raw')[0]
  result = force_laws.best(front)
  assert str(result) == f'39.48 * {NEWTON}'
  assert result.error < 1e-12


def test_one_system_tells_the_power_of_the_distance(shipped):
  """Masses are constant in it: the distance is all that is left."""
  inputs, force = shipped
  item = {name: values[:450] for name, values in inputs.items()}
  front = symbolic.search({'r': item['r']}, force[None, :450], 4, 'log')[0]
  assert force_laws.best(front).text == 'inv(r * r)'
