"""What a plan says of a chip, compiled for this machine's processors."""

import dataclasses
import os
import subprocess
import sys

import pytest

import wm
from tests.launch import binaries
from wm import core
from wm.library import plan as plans_lib

WORLD = 'lattice(size=3, length=12)'
LAYERS, WIDTH = 3, 128
MODEL = f'transformer(layers={LAYERS}, width={WIDTH}, heads=2{{}})'
ROWS = 8
FORMS = '', ', scan=True', ', scan=True, remat=True'


def planned(form: str, topology: str = 'cpu:2', **options) -> wm.PodPlan:
  return wm.plan(
    WORLD, MODEL.format(form), topology, batch=ROWS, steps=10, **options
  )


@pytest.fixture(scope='module')
def plans() -> dict[str, wm.PodPlan]:
  """Of layers in a row, scanned, and scanned and computed again."""
  return {form: planned(form, optimizer='adamw') for form in FORMS}


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
    products = formula(world.max_len, len(world.vocab), 'remat' in form)
    # XLA counts what is no product too; AdamW takes 15 a parameter or so.
    products += 15 * 12 * WIDTH**2 * LAYERS / 2
    assert plan.flops == pytest.approx(products, rel=0.06), form
    assert plan.formula == pytest.approx(plan.flops, rel=0.6)


def test_stacked_blocks_count_as_often_as_they_run(plans):
  flat, stacked, _ = plans.values()
  assert stacked.flops == pytest.approx(flat.flops, rel=1e-3)
  assert stacked.sent == pytest.approx(flat.sent, rel=1e-3) != 0
  assert stacked.loops == flat.loops
  assert stacked.arguments == pytest.approx(flat.arguments, rel=0.05)


def test_loops_over_time_are_named(plans):
  plan = wm.plan(WORLD, 'rnn(layers=1, width=16)', 'cpu:2', batch=ROWS)
  assert plan.loops > plans[''].loops
  assert any('loops that remain' in line for line in plan.lines())


def test_processors_have_no_times(plans):
  plan = plans['']
  assert not plan.seconds()
  assert len([*plan.lines()]) == 8


GATHERED = '  %a = f32[16,4]{1,0} all-gather(%x), channel_id=1, replica_groups'


@pytest.mark.parametrize(
  ('line', 'size'),
  [
    (f"{GATHERED}=mesh['axis_0'=4,'axis_1'=2] {{'axis_0'}}, d={{0}}", 192),
    (f"{GATHERED}=mesh['a'=4,'b'=2] {{'a','b'}}, d={{0}}", 224),
    (f'{GATHERED}=[1,8]<=[8], d={{0}}', 224),
    ('  %a = bf16[8]{0} reduce-scatter(%x), channel_id=1, r', 16 * 7),
    ('  %a = (bf16[8], pred[]) all-reduce(%x), channel_id=1, r', 17 * 7 / 4),
    ('  %a = f32[8]{0} add(%x), channel_id=1', 0),
  ],
)
def test_bytes_that_a_chip_sends(line, size):
  assert plans_lib.sent(line, 8) == size
  # Parts of one collective name one channel.
  assert plans_lib.sent(f'{line}\n{line}', 8) == size


def test_gpus_are_by_arithmetic():
  lines: list[str] = []
  plan = planned('', 'h100:2', log=lines.append)
  assert plan.temporaries == 0
  least = max(plan.seconds().values())
  assert least >= plan.flops / 989e12
  assert lines[0] == 'h100:2, each chip in a step:'
  assert lines[-1].endswith(' days for 10 steps')
  small = plan.chip._replace(memory=plan.arguments / 2)
  lines = [*dataclasses.replace(plan, chip=small).lines()]
  assert lines[-2].startswith('DOES NOT FIT: 0.0 GB of 0')


@pytest.mark.parametrize(
  ('topology', 'text'),
  [
    ('v9:2x2', 'no such chips'),
    ('h100:2x2', 'expected 1 to 1024 devices'),
    ('cpu:2000', 'expected 1 to 1024 devices'),
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
  with pytest.raises(core.InputError, match='mesh_data=64, mesh_model=1'):
    wm.plan(WORLD, MODEL.format(''), 'cpu:2', mesh_data=64)
  line = binaries.refused('plan', f'--world={WORLD}')
  assert line == 'error: --model is required'


def test_meshes_are_compared():
  text = binaries.printed(
    'plan',
    *(f'--world={WORLD}', f'--model={MODEL.format("")}', '--topology=h100:2'),
    *(f'--batch={ROWS}', '--steps=10', '--meshes=4'),
  )
  lines = text.splitlines()
  names = [line for line in lines if line.startswith('mesh_model=')]
  assert names == ['mesh_model=1', 'mesh_model=2']
  times = [x.split()[2] for x in lines if x.startswith('at least')]
  # Two chips do not hold an axis of four.
  assert len(times) == 2
  assert lines[-2].startswith('mesh_data=0, mesh_model=4 does not fit')
  best = min(times, key=float)
  size = 1 << times.index(best)
  assert lines[-1] == f'fastest: --mesh_model={size}, {best} ms a step'


def test_a_search_of_meshes_refuses_what_a_plan_refuses():
  flags = f'--world={WORLD}', '--model=ngram()', '--topology=h100:2'
  line = binaries.refused('plan', *flags, '--meshes=4')
  assert 'is not trained by steps' in line


@pytest.mark.slow
def test_a_tpu_multiplies_as_often_as_a_processor(plans):
  pytest.importorskip('libtpu', reason='the extra tpu is not installed')
  script = (
    'import wm; plan = wm.plan(*{!r}, batch={}, optimizer="adamw"); '
    'print(plan.flops)'
  ).format((WORLD, MODEL.format(', scan=True'), 'v5e:2x2'), 2 * ROWS)
  done = subprocess.run(
    [sys.executable, '-c', script],
    env={**os.environ, 'JAX_PLATFORMS': 'cpu'},
    capture_output=True,
    text=True,
    check=False,
  )
  assert done.returncode == 0, done.stderr[-2000:]
  flops = plans[', scan=True'].flops
  assert float(done.stdout.split()[-1]) == pytest.approx(flops, rel=0.1)
