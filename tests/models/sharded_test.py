"""Networks whose weights are divided over several devices."""

import copy
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

from wm.core import registry
from wm.models.nn import network

WORLD = 'maps(rows=3, columns=4)'
FAMILIES = (
  'transformer(layers=2, width=64, heads=4)',
  # Three heads: no two devices divide them.
  'transformer(layers=2, width=48, heads=3, scan=True)',
  'lstm(layers=1, width=64)',
  'mamba2(layers=1, width=64)',
)


class Chip(NamedTuple):
  """A device that says what memory it has."""

  id: int
  gigabytes: int = 16
  platform: str = 'tpu'

  def memory_stats(self):
    return {'bytes_limit': self.gigabytes << 30}


def sharded(whole: Any) -> Any:
  """A copy that divides the weights over two devices."""
  twin = copy.copy(whole)
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(network, 'memory_of', lambda device: whole.spec.num_bytes)
    twin.devices = network.placements(whole.spec.num_bytes, whole._local)
  twin._placed = {}
  return twin


@pytest.fixture(scope='module')
def world():
  return registry.make('world', WORLD)


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
  'spec',
  [FAMILIES[0], *(pytest.param(spec, marks=SLOW) for spec in FAMILIES[1:])],
)
def test_divided_networks_agree_with_whole_ones(spec, world):
  whole = registry.make('model', spec).predictor(world, 0)
  divided = sharded(whole)
  assert len(divided.devices) == len(whole.devices) // 2
  drawn = world.sample(30, 0, split='heldout')
  rows = drawn.tokens, drawn.lengths
  first, second = (of.log_probs(*rows) for of in (whole, divided))
  np.testing.assert_allclose(first, second, atol=5e-6)
  first, second = (of.hidden(*rows, 1) for of in (whole, divided))
  np.testing.assert_allclose(first, second, atol=2e-5)
  both = [
    of.session(drawn.tokens[:6, :3], np.full(6, 3), 2)
    for of in (whole, divided)
  ]
  for token in (2, 3):
    for session in both:
      session.advance(np.full((6, 2), token, np.int32))
    first, second = (session.log_probs() for session in both)
    np.testing.assert_allclose(first, second, atol=5e-6)


@pytest.mark.parametrize('spec', FAMILIES)
def test_each_device_holds_its_share(spec, world):
  divided = sharded(registry.make('model', spec).predictor(world, 0))
  (place,) = divided.devices
  weights = jax.tree.leaves(divided.placed(place))
  held = sum(leaf.addressable_shards[0].data.nbytes for leaf in weights)
  assert held < 0.55 * divided.spec.num_bytes


def test_untrained_weights_are_the_same_wherever_they_are_made(world):
  whole = registry.make('model', FAMILIES[0]).predictor(world, 0)
  drawn = world.sample(10, 0, split='heldout')
  first, second = (
    of.untrained(5).log_probs(drawn.tokens, drawn.lengths)
    for of in (whole, sharded(whole))
  )
  np.testing.assert_allclose(first, second, atol=5e-6)


def test_networks_that_do_not_fit_are_divided_by_themselves(world, monkeypatch):
  monkeypatch.setattr(network, 'memory_of', lambda device: 1 << 15)
  predictor = registry.make('model', FAMILIES[0]).predictor(world, 0)
  assert predictor.spec.num_bytes > 1 << 15
  assert len(predictor.devices) == len(jax.local_devices()) // 2
  # Programs that hold weights as constants are of whole networks.
  assert not predictor.prefers_device_loop


@pytest.mark.parametrize(
  ('gigabytes', 'groups'), [(6, 8), (9, 4), (40, 1), (1000, 1)]
)
def test_groups_are_as_small_as_hold_the_weights(
  gigabytes, groups, monkeypatch
):
  chips = [Chip(n) for n in range(8)]
  monkeypatch.setattr(network, '_group', lambda chips: jax.make_mesh((1,), 'x'))
  placements = network.placements(gigabytes << 30, chips)
  assert len(placements) == groups
