"""What a plan says of a chip, compiled for this machine's processors."""

import os
import subprocess
import sys

import pytest

import wm
from tests.launch import binaries
from wm import core

WORLD = 'lattice(size=3, length=12)'
LAYERS, WIDTH = 3, 16
MODEL = f'transformer(layers={LAYERS}, width={WIDTH}, heads=2{{}})'
ROWS = 8


@pytest.fixture(scope='module')
def plans() -> dict[str, wm.PodPlan]:
  """Of layers one by one, scanned, and scanned and computed again."""
  forms = '', ', scan=True', ', scan=True, remat=True'
  return {
    form: wm.plan(
      WORLD,
      MODEL.format(form),
      'cpu:2',
      batch=ROWS,
      steps=10,
      train_only=bool(form),
    )
    for form in forms
  }


def formula(length: int, vocab: int, back: float) -> float:
  """Operations of a chip: every weight, and scores and sums of attention."""
  tokens = ROWS * (length - 1) / 2
  block = 12 * WIDTH**2 + 2 * WIDTH * (length - 1)
  # The last product of a block is not computed again: nothing needs it.
  again = back * (block - 4 * WIDTH**2)
  head = 3 * WIDTH * vocab
  return 2 * tokens * (LAYERS * (3 * block + again) + head)


def test_operations_are_the_formula_in_every_form(plans):
  world = core.registry.make('world', WORLD)
  for form, plan in plans.items():
    gradient = plan.needs[0]
    wanted = formula(world.max_len, len(world.vocab), 'remat' in form)
    assert gradient.work.flops == pytest.approx(wanted, rel=0.02), form
    assert not gradient.work.unknown


def test_layers_that_are_scanned_follow_each_other(plans):
  depths = [plan.needs[0].work.depth for plan in plans.values()]
  # A processor adds up the slopes to embeddings token by token.
  assert [depth - depths[0] for depth in depths] == [0, 2 * LAYERS, 2 * LAYERS]


def test_a_plan_has_the_programs_of_a_run(plans):
  names = [need.name for need in plans[''].needs]
  assert names == ['train: gradient', 'train: update', 'score', 'sample']
  assert len(plans[', scan=True'].needs) == 2
  gradient, update = plans[''].needs[:2]
  assert gradient.work.messages
  assert gradient.arguments > 0 < update.arguments
  # A processor has no published rates: no time is stated.
  assert plans[''].step_seconds == 0
  assert not list(plans[''].times())


def test_gpus_are_by_arithmetic():
  lines: list[str] = []
  plan = wm.plan(
    WORLD, MODEL.format(''), 'h100:2', batch=ROWS, steps=10,
    train_only=True, log=lines.append,
  )  # fmt: skip
  gradient = plan.needs[0]
  assert gradient.temporaries is None
  assert plan.step_seconds >= gradient.work.flops / 989e12
  assert lines[0] == 'h100:2: 2 chips (H100 SXM), each of 80 GB'
  assert 'lower bound of training' in lines[-1]
  tokens = gradient.tokens * 10
  assert lines[-1].endswith(f'for 10 steps, {tokens:.3g} tokens')


@pytest.mark.parametrize(
  ('topology', 'text'),
  [
    ('v9:2x2', 'no such chips'),
    ('h100:2x2', 'expected a number of devices'),
    ('cpu:2000', 'at most 1024'),
    ('cpu:64', 'JAX has started with 2 devices'),
  ],
)
def test_bad_topologies_are_refused(topology, text):
  with pytest.raises(core.InputError, match=text):
    wm.plan(WORLD, MODEL.format(''), topology)


def test_bad_input_is_refused():
  with pytest.raises(core.InputError, match='length=99; expected at most'):
    wm.plan(WORLD, MODEL.format(''), 'cpu:2', length=99)
  with pytest.raises(core.InputError, match='not trained by steps'):
    wm.plan(WORLD, 'ngram()', 'cpu:2')
  with pytest.raises(core.InputError, match='mesh of 64 x 1'):
    wm.plan(WORLD, MODEL.format(''), 'cpu:2', mesh_data=64)
  line = binaries.refused('plan', f'--world={WORLD}')
  assert line == 'error: --model is required'


@pytest.mark.slow
def test_a_tpu_multiplies_as_often_as_a_processor(plans):
  pytest.importorskip('libtpu', reason='the extra tpu is not installed')
  script = (
    'import wm; plan = wm.plan(*{!r}, batch={}, train_only=True); '
    'print(plan.needs[0].work.flops)'
  ).format((WORLD, MODEL.format(', scan=True'), 'v5e:2x2'), 2 * ROWS)
  done = subprocess.run(
    [sys.executable, '-c', script],
    env={**os.environ, 'JAX_PLATFORMS': 'cpu'},
    capture_output=True,
    text=True,
    check=False,
  )
  assert done.returncode == 0, done.stderr[-2000:]
  wanted = plans[', scan=True'].needs[0].work.flops
  assert float(done.stdout) == pytest.approx(wanted, rel=0.02)
