"""The law of the ladder on rungs that are known."""

import numpy as np
import pytest

from tests import scripts


@pytest.fixture(scope='module')
def ladder():
  return scripts.load('ladder')


def test_a_rung_lies_between_two_runs(ladder):
  def run(steps, valid, intersections=64):
    return ladder.Run('random', intersections, steps, 100.0 * steps, 1, valid)

  runs = [run(1000, 0.9), run(4000, 0.98), run(2000, 0.94)]
  (rung,) = ladder.rungs_of(runs)
  assert rung[:2] == ('random', 64)
  assert rung.tokens == pytest.approx(100 * 2000 * 2**0.5)
  few, many = ladder.rungs_of([*runs[:1], run(1000, 0.97, 145)])
  assert np.isnan(few.tokens)
  assert np.isnan(many.tokens)


def test_a_power_is_found_and_its_interval_has_the_truth(ladder):
  def rungs(noise):
    return [
      ladder.Rung('shortest', n, 1e4 * n**1.5 * np.exp(e))
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
