"""launch/import_gpt2.py: from a file of weights to a run that scores."""

import json
import subprocess
import sys

import pytest
from flax import nnx

from wm.core import registry
from wm.models import transformer
from wm.models.importers import gpt2 as gpt2_import
from wm.models.nn import network

torch = pytest.importorskip('torch', reason='the extra torch is not installed')

WORLD = 'lattice(size=4)'


def launch(root, name: str, *flags: str) -> subprocess.CompletedProcess:
  return subprocess.run(
    [sys.executable, root / 'launch' / f'{name}.py', *flags],
    capture_output=True,
    text=True,
    check=False,
  )


def test_weights_become_a_run_that_is_scored(root, tmp_path):
  world = registry.make('world', WORLD)
  model = transformer.Model(layers=1, width=64, context=world.max_len)
  shape = network.NetworkSpec(model, len(world.vocab), world.max_len)
  torch.manual_seed(0)
  torch.save(
    {
      gpt2_import._theirs(path): torch.randn(leaf.shape)
      for path, leaf in nnx.to_flat_state(shape.abstract)
    },
    tmp_path / 'state.pt',
  )
  out = tmp_path / 'run'
  found = launch(
    root,
    'import_gpt2',
    f'--weights={tmp_path / "state.pt"}',
    f'--world={WORLD}',
    f'--out={out}',
  )
  assert found.returncode == 0, found.stderr
  assert json.loads(found.stdout)['parameters'] == shape.num_params
  found = launch(
    root, 'score', f'--world={WORLD}', '--metric=next_token', f'--out={out}'
  )
  assert found.returncode == 0, found.stderr
  scores = json.loads((out / 'scores.json').read_text())
  assert {entry['model'] for entry in scores} == {'transformer'}


def test_bad_weights_are_one_line_and_leave_nothing(root, tmp_path):
  (tmp_path / 'state.pt').write_text('none')
  out = tmp_path / 'run'
  found = launch(
    root,
    'import_gpt2',
    f'--weights={tmp_path / "state.pt"}',
    f'--world={WORLD}',
    f'--out={out}',
  )
  assert found.returncode == 2
  assert found.stderr.count('\n') == 1
  assert 'is no PyTorch file' in found.stderr
  assert not out.exists()
