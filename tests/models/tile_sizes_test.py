"""How much of a device is used at a time."""

import numpy as np
import pytest

from wm.models import transformer
from wm.models.nn import network
from wm.models.serving import networks, sessions

SPEC = network.NetworkSpec(transformer.Model(layers=1, width=8), 11, 24)


def test_a_processor_has_tiles_of_its_cache():
  sizes = sessions.tile_sizes('cpu', 0, 4589)
  assert sizes == sessions.TileSizes() == (1024, 3 << 30, 0)


@pytest.mark.parametrize(
  ('memory', 'outputs', 'tokens'),
  [
    (16 * 10**9, 4589, 32_768),  # 54,477 would fit.
    (95 * 10**9, 100, 65_536),
    (10**6, 4589, 1024),
    (80 * 10**9, 50_257, 16_384),
  ],
)
def test_other_devices_have_tiles_by_their_memory(memory, outputs, tokens):
  for platform in ('tpu', 'gpu'):
    sizes = sessions.tile_sizes(platform, memory, outputs)
    assert sizes.tokens == tokens
    assert sizes.cache_bytes == memory // 4


class Device:
  """As much as is asked of a device."""

  platform = 'gpu'

  def __init__(self, stats) -> None:
    self._stats = stats

  def memory_stats(self):
    return self._stats


def test_a_device_says_what_it_has_or_is_taken_for_a_small_one():
  memory = sessions.sizes_on(Device({'bytes_limit': 1 << 34}), 100).cache_bytes
  assert memory == 1 << 32
  small = sessions.sizes_on(Device(None), 100).cache_bytes
  assert small == sessions.UNKNOWN // 4


def test_lanes_are_as_many_as_fit():
  assert sessions.tile_rows(SPEC, 4, 3 << 30) == 128
  assert sessions.tile_rows(SPEC, 4, 3 << 30, 4096) == 1024
  assert sessions.tile_rows(SPEC, 4, 0, 4096) == 1


def test_large_tiles_give_the_same_predictions():
  predictor = networks.NetworkPredictor(
    SPEC.model, network.init(SPEC, 0), 11, 1, 24
  )
  tokens = np.random.default_rng(0).integers(1, 11, (60, 24)).astype(np.int32)
  lengths = np.full(60, 24, np.int32)
  usual = predictor.log_probs(tokens, lengths)
  first = predictor.session(tokens, lengths // 2, 3).log_probs()
  predictor.tile_tokens, predictor.lanes = 4096, 1024
  large = predictor.log_probs(tokens, lengths)
  np.testing.assert_allclose(large, usual, atol=1e-5)
  again = predictor.session(tokens, lengths // 2, 3).log_probs()
  np.testing.assert_allclose(again, first, atol=1e-5)
