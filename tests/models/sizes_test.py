"""Published networks have their published numbers of parameters."""

import dataclasses
import pathlib
import re

import pytest

from tests.marks import few
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


@pytest.mark.parametrize('spec', few(3, PUBLISHED))
def test_the_chess_papers_table(spec):
  for (width, layers, heads), count in zip(SIZES, PUBLISHED[spec], strict=True):
    inputs = spec.format(width=width, layers=layers, heads=heads)
    model = registry.make('model', inputs)
    packed, compact = (
      network.NetworkSpec(model, size, 704, 1878) for size in (20_482, 1_970)
    )
    assert packed.num_params == count, inputs
    assert compact.num_params == count - UNUSED * width, inputs


# Vafa et al. 2025, section 4: counted of the authors' program, which reads
# Othello as 61 tokens in 59 places and the lattice as 3 in 99 (Mamba-2 on the
# lattice by its formula). And parameters that our worlds add.
INDUCTIVE = {
  'othello_transformer': (85_148_221, 768),
  'othello_rnn': (7_180_861, 0),
  'othello_lstm': (28_442_173, 0),
  'othello_mamba': (90_708_157, 0),
  'othello_mamba2': (86_306_557, 0),
  'lattice_transformer': (85_134_339, 1_537),
  'lattice_rnn': (2_366_979, 1_537),
  'lattice_lstm': (9_454_083, 1_537),
  'lattice_mamba': (90_619_011, 1_537),
  'lattice_mamba2': (86_217_411, 1_537),
}
FLAGS = pathlib.Path(__file__).parents[2] / 'launch/flags/inductive2025'


@pytest.mark.parametrize('name', few(3, INDUCTIVE))
def test_the_five_families_of_inductive_bias_probes(name):
  text = (FLAGS / f'{name}.flags').read_text()
  inputs = dict(re.findall(r'^--(world|model)=(.+)$', text, re.M))
  model = registry.make('model', inputs['model'])
  world = registry.make('world', inputs['world'])
  count, more = INDUCTIVE[name]
  shape = (61, 59) if name.startswith('othello') else (3, 99)
  assert network.NetworkSpec(model, *shape).num_params == count
  ours = network.NetworkSpec(model, len(world.vocab), world.max_len)
  assert ours.num_params == count + more
  assert f'# {count:,} parameters' in text
  assert not more or f'{more:,} more' in text
  if name.endswith('mamba'):  # Its other initial step sizes are as many.
    other = dataclasses.replace(model, steps='mamba')
    assert network.NetworkSpec(other, *shape).num_params == count
