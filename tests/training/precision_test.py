"""Matrix products in bfloat16, as the published Mamba-3 runs have them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import tiny
from tests.training import mean_mlp
from wm.core import registry
from wm.options.training import Training
from wm.training import loop
from wm.training import setup as setup_lib

mean_mlp.install()
STEPS = 30


@pytest.fixture(scope='module')
def data(tmp_path_factory):
  """Stores of the tiny world."""
  out = tmp_path_factory.mktemp('precision')
  mean_mlp.make_data(out)
  return setup_lib.open_data(out, tiny.World())


def losses(model: str, data) -> tuple[list[float], loop.state_lib.State]:
  """Loss of each step, and the state after them."""
  config = Training(steps=STEPS, batch=16, lr=0.01, warmup=2)
  made = registry.make('model', model)
  trainer = loop.Trainer(config, tiny.World(), made, data)
  state = loop.state_lib.create(
    trainer.spec, 0, trainer.optimizer, trainer.abstract
  )
  result = []
  source = loop.Prefetch(trainer.batches, trainer.mesh, STEPS, trainer.max_len)
  for step, batch in source.run(0):
    state, report = trainer.train_step(state, np.int32(step), *batch)
    result.append(float(report[0] / report[1]))
  return result, state


@pytest.mark.parametrize(
  'family', ['rnn', pytest.param('mamba3', marks=pytest.mark.slow)]
)
def test_bfloat16_learns_as_float32_and_keeps_its_state_in_it(family, data):
  fields = 'layers=1, width=8'
  fields += ', channels=8' if family == 'mamba3' else ''
  full, _ = losses(f'{family}({fields})', data)
  half, state = losses(f"{family}({fields}, dtype='bfloat16')", data)
  for leaf in jax.tree.leaves(state):
    assert leaf.dtype in (jnp.float32, jnp.int32)
  assert half != full
  np.testing.assert_allclose(half, full, rtol=0.05)
  assert half[-1] < 0.8 * half[0]
