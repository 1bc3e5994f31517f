"""The law of the ladder on rungs that are known."""

import importlib.util
import pathlib

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope='module')
def ladder():
  path = ROOT / 'launch' / 'flags' / 'sizes' / 'ladder.py'
  spec = importlib.util.spec_from_file_location('ladder', path)
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module


def test_a_share_is_reached_where_three_checkpoints_have_it(ladder):
  steps = np.array([100, 200, 300, 400])
  values = np.array([0.5, 0.95, 0.98, 0.97])
  assert ladder.reach(steps, values, 0.96) == 200
  assert ladder.reach(steps, values, 0.8) == 100
  assert np.isnan(ladder.reach(steps, values, 0.97))


def test_a_power_is_found_and_its_interval_has_the_truth(ladder):
  def rungs(noise):
    return [
      ladder.Rung('shortest', n, 0, 1, 1e4 * n**1.5 * np.exp(e), 0, 1)
      for n, e in zip((60, 150, 300, 600), noise, strict=True)
    ]

  slope, tokens, low, high = ladder.law(rungs(np.zeros(4)), 1200)
  assert slope == pytest.approx(1.5)
  assert tokens == pytest.approx(1e4 * 1200**1.5)
  assert low == pytest.approx(tokens) == high
  rng, inside = np.random.default_rng(0), 0
  for _ in range(400):
    _, _, low, high = ladder.law(rungs(0.2 * rng.normal(size=4)), 1200)
    truth = 1e4 * 1200**1.5 * np.exp(0.2 * rng.normal())
    inside += low <= truth <= high
  assert 0.92 < inside / 400 < 0.98
