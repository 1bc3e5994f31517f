"""Published networks have their published numbers of parameters."""

import pytest

from wm.core import registry
from wm.models.nn import network

CHESS = (
  "positions='rotary', norm='rms', epsilon=1e-6, mlp='swiglu', ratio=4, "
  "biases=True, tied=False, head_bias=True, init='torch', dropout=0.1"
)
SIZES = (128, 1, 2), (256, 2, 4), (384, 4, 6), (512, 6, 8)

# Walker and Lyons 2026, table 4 (Mamba-3's there is rank 1, whatever the text
# says): packed vocabulary of 20,482, 1,878 logits for 75 labels.
PUBLISHED = {
  'transformer(layers={layers}, width={width}, heads={heads}, ' + CHESS + ')': (
    3_128_150, 7_831_126, 18_048_726, 36_662_614,
  ),
  'slice(layers={layers}, width={width})': (
    3_144_662, 7_962_966, 18_641_238, 38_241_110,
  ),
  'slice(layers={layers}, width={width}, block_size=1)': (
    3_029_078, 7_041_878, 14_501_718, 27_209_558,
  ),
  'deltanet(layers={layers}, width={width}, heads={heads})': (
    3_161_402, 7_703_846, 16_886_406, 35_136_502,
  ),
  'deltanet(layers={layers}, width={width}, negative=False)': (
    3_161_402, 7_703_846, 16_886_406, 35_136_502,
  ),
  'mamba3(layers={layers}, width={width}, state=128)': (
    3_198_942, 8_250_998, 19_719_478, 40_826_902,
  ),
  'mamba3(layers={layers}, width={width}, state=128, rank=4)': (
    3_303_390, 8_668_790, 20_972_854, 43_333_654,
  ),
  'mamba2(layers={layers}, width={width}, state=128)': (
    3_195_362, 8_230_534, 19_643_750, 40_648_822,
  ),
}  # fmt: skip

# What the packed vocabulary adds to the compact one of 1,970 tokens: rows of
# the embedding that no move will ever use.
UNUSED = 20_482 - 1_970


@pytest.mark.parametrize('spec', PUBLISHED)
def test_the_chess_papers_table(spec):
  for (width, layers, heads), count in zip(SIZES, PUBLISHED[spec], strict=True):
    given = spec.format(width=width, layers=layers, heads=heads)
    model = registry.make('model', given)
    packed, compact = (
      network.NetworkSpec(model, size, 704, 1878) for size in (20_482, 1_970)
    )
    assert packed.num_params == count, given
    assert compact.num_params == count - UNUSED * width, given
