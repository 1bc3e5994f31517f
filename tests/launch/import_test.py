"""launch/ingest.py: from a file of weights to a run that scores."""

import json

import pytest
from flax import nnx

from tests.launch import binaries
from wm.core import registry
from wm.models import transformer
from wm.models.nn import network
from wm.training import import_checkpoint

torch = pytest.importorskip('torch', reason='the extra torch is not installed')

WORLD = 'lattice(size=4)'


def test_weights_become_a_run_that_is_scored(tmp_path):
  world = registry.make('world', WORLD)
  model = transformer.Model(layers=1, width=64, context=world.max_len)
  shape = network.NetworkSpec(model, len(world.vocab), world.max_len)
  torch.manual_seed(0)
  torch.save(
    {
      import_checkpoint.LAYOUTS[0].source(path)[1][0]: torch.randn(leaf.shape)
      for path, leaf in nnx.to_flat_state(shape.abstract)
    },
    tmp_path / 'state.pt',
  )
  out = tmp_path / 'run'
  flags = f'--world={WORLD}', f'--out={out}'
  weights = f'--weights={tmp_path / "state.pt"}'
  code, output, err = binaries.run('ingest', weights, *flags)
  assert code == 0, err
  assert json.loads(output)['parameters'] == shape.num_params
  code, _, err = binaries.run('score', *flags, '--metric=next_token')
  assert code == 0, err
  scores = json.loads((out / 'scores.json').read_text())
  assert {entry['model'] for entry in scores} == {'transformer'}


def test_bad_weights_are_one_line_and_leave_nothing(tmp_path):
  (tmp_path / 'state.pt').write_text('none')
  out = tmp_path / 'run'
  weights = f'--weights={tmp_path / "state.pt"}'
  flags = weights, f'--world={WORLD}', f'--out={out}'
  assert 'is no PyTorch file' in binaries.refused('ingest', *flags)
  assert not out.exists()
