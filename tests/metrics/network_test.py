"""Sampled metrics on a real network: any batch, any number of devices."""

import dataclasses

import jax
import numpy as np
import pytest

from tests import tiny
from wm import registry
from wm.metrics import compression, distinction
from wm.models import network

WORLD = tiny.World()
METRICS = (
  compression.Metric(trials=9, samples=5, accept='epsilon(0.05)', graded=True),
  compression.Metric(trials=9, k=2, cap=16, exact=True, accept='top_k(3)'),
  distinction.Metric(trials=9, samples=5, accept='top_p(0.8)'),
)


def _predictor(devices):
  model = registry.make('model', 'transformer(layers=1, width=16)')
  shape = network.Shape(model, len(WORLD.vocab), WORLD.max_len)
  # Large weights: probabilities far from uniform.
  params = jax.tree.map(lambda leaf: 4 * leaf, network.init(shape, 0))
  return network.NetworkPredictor(
    model,
    params,
    len(WORLD.vocab),
    WORLD.end,
    WORLD.max_len,
    devices=tuple(jax.devices()[:devices]),
  )


@pytest.mark.parametrize('metric', METRICS, ids=lambda m: m.name)
def test_batch_and_devices_do_not_matter(metric):
  first = None
  for devices, batch in ((1, 1), (1, 4), (2, 16)):
    predictor = _predictor(min(devices, len(jax.devices())))
    made = dataclasses.replace(metric, batch=batch)
    found = made(predictor, WORLD, 0)
    first = first or found
    for one, other in zip(first, found, strict=True):
      np.testing.assert_array_equal(one.value, other.value)
      np.testing.assert_array_equal(one.reason, other.reason)
