"""Runs that are killed, moved to other devices, or divided over processes."""

import json
import pathlib
import shutil
import socket

import jax
import numpy as np
import pytest

from tests import compiler, forked, tiny
from tests.training import mean_mlp
from wm.models.nn import network
from wm.options.training import Training
from wm.training import checkpoints, run_log, state

WORKER = 'tests.training.worker'
CONFIG = {
  'steps': 60,
  'batch': 16,
  'warmup': 5,
  'eval_every': 20,
  'save_every': 7,
  'log_every': 5,
  'lr': 1e-2,
  # All that a run carries along besides AdamW's moments.
  'optimizer': 'muon',
  'average': 0.1,
}
SIGKILLED = -9


def start(out, devices=1, die=None, more=(), **config) -> forked.Process:
  """A worker process on so many forced CPU devices; more: environment."""
  order = {'config': {**CONFIG, **config}, 'die': die}
  cache = str(out.parent / 'cache')
  env = {'XDG_CACHE_HOME': cache, 'XLA_FLAGS': compiler.flags(devices)}
  env.update(more)
  return forked.Process(WORKER, str(out), json.dumps(order), env=env)


def finish(process, code=0) -> dict:
  """Its summary; fails with its errors unless it exits with `code`."""
  try:
    out, err = process.communicate(timeout=600)
  finally:
    process.kill()
  assert process.returncode == code, err[-2000:]
  return json.loads(out.splitlines()[-1]) if out.strip() else {}


@pytest.fixture(scope='module')
def folder(tmp_path_factory) -> pathlib.Path:
  """Holds `whole`, a run of one device that nothing disturbed."""
  folder = tmp_path_factory.mktemp('resume')
  mean_mlp.make_data(folder / 'whole')
  mean_mlp.install()
  finish(start(folder / 'whole'))
  return folder


def copy(folder, name) -> pathlib.Path:
  """A new run folder with the same data."""
  shutil.copytree(folder / 'whole' / 'data', folder / name / 'data')
  return folder / name


def arrays(run) -> dict[str, np.ndarray]:
  """Everything in the last checkpoint of a run."""
  spec = network.NetworkSpec(
    mean_mlp.Model(), len(tiny.VOCAB), tiny.World().max_len
  )
  shapes = spec.shapes
  config = Training(**CONFIG)
  mesh = state.mesh(1, 1)
  matrices = state.matrix_axes(spec)
  rule = state.make_optimizer(config, shapes, (), matrices)
  abstract = state.abstract_state(shapes, rule, mesh)
  kept = checkpoints.Checkpoints(run, read_only=True)
  result = kept.state(kept.last(), abstract)
  kept.close()
  return jax.device_get(network.flatten(result))


def same(one, other) -> None:
  """Metrics and last checkpoints are equal to the bit."""
  metrics = [(run / 'metrics.jsonl').read_bytes() for run in (one, other)]
  assert metrics[0] == metrics[1]
  whole, result = arrays(one), arrays(other)
  assert whole.keys() == result.keys()
  for path, array in whole.items():
    assert array.tobytes() == result[path].tobytes(), path


def rows(run) -> list[dict]:
  return run_log.read(run / 'metrics.jsonl')


@pytest.mark.process
def test_killed_and_started_again_is_the_same_run_to_the_bit(folder):
  run = copy(folder, 'killed')
  for die in (['batch', 9], ['save', 21], ['line', 45]):
    finish(start(run, die=die), SIGKILLED)
  finish(start(run))
  same(folder / 'whole', run)
  kept = checkpoints.Checkpoints(run, read_only=True)
  assert kept.last() == 60
  assert not [p for p in kept.folder.iterdir() if not p.name.isdigit()]


@pytest.mark.process
def test_killed_before_old_checkpoints_are_removed_it_removes_them(folder):
  run = folder / 'old'
  shutil.copytree(folder / 'whole', run)
  (run / 'train.json').unlink()
  names = {path.name for path in (run / 'checkpoints').iterdir()}
  shutil.copytree(run / 'checkpoints' / '60', run / 'checkpoints' / '53')
  finish(start(run))
  same(folder / 'whole', run)
  assert {path.name for path in (run / 'checkpoints').iterdir()} == names


@pytest.mark.process
def test_told_to_stop_it_saves_and_goes_on_to_the_same_bits(folder):
  run = copy(folder, 'told')
  for name, code, step, word in (
    ('SIGINT', 130, 9, 'interrupted'),
    ('SIGTERM', 75, 33, 'stopped'),
  ):
    process = start(run, die=[name, step])
    err = process.communicate(timeout=600)[1]
    assert process.returncode == code
    output = [line for line in err.splitlines() if line[:7] != 'train: ']
    assert output == [f'{word}; run the same command again to go on']
    (last,) = {int(p.name) for p in (run / 'checkpoints').iterdir()} - {20}
    assert step - 3 <= last < 60, 'the step under way is saved'
  finish(start(run))
  same(folder / 'whole', run)


@pytest.mark.process
@pytest.mark.parametrize(
  'rounds', [1, pytest.param(10, marks=pytest.mark.slow)]
)
def test_of_many_that_start_at_once_one_trains(folder, rounds):
  for k in range(rounds):
    run = copy(folder, f'many{rounds}_{k}')
    crowd = [start(run) for _ in range(2)]
    output = [process.communicate(timeout=600)[1] for process in crowd]
    assert sorted(process.returncode for process in crowd) == [0, 2], output
    for process, err in zip(crowd, output, strict=True):
      if process.returncode:
        assert len(err.splitlines()) == 1
        assert f'{run}: another process (' in err
        assert "is at its stage 'train'" in err
    same(folder / 'whole', run)
    shutil.rmtree(run)


@pytest.mark.process
def test_goes_on_with_other_numbers_of_devices(folder):
  run = copy(folder, 'moved')
  finish(start(run, devices=2, die=['saved', 14]), SIGKILLED)
  finish(start(run, devices=4, mesh_model=2, die=['saved', 35]), SIGKILLED)
  finish(start(run, devices=1))
  for first, other in zip(rows(folder / 'whole'), rows(run), strict=True):
    assert first == pytest.approx(other, rel=1e-4)
  moved = arrays(run)
  for path, array in arrays(folder / 'whole').items():
    np.testing.assert_allclose(array, moved[path], atol=2e-4)


def two(run, die=(None, None), slurm=False, num=2) -> list[forked.Process]:
  """The `num` processes of one run, as flags or as a cluster names them."""
  with socket.socket() as free:
    free.bind(('127.0.0.1', 0))
    port = free.getsockname()[1]
  if slurm:
    return [
      start(
        run,
        die=die[k],
        distributed='auto',
        save_every=60,
        more={
          **{'SLURM_JOB_ID': '1', 'SLURM_STEP_NODELIST': '127.0.0.1'},
          **{'SLURM_NTASKS': '2', 'SLURM_PROCID': str(k)},
          **{'SLURM_LOCALID': '0', 'JAX_COORDINATOR_PORT': str(port)},
        },
      )
      for k in range(2)
    ]
  place = {'coordinator': f'127.0.0.1:{port}', 'num_processes': num}
  return [
    start(run, die=die[k], process_id=k, save_every=60, **place)
    for k in range(num)
  ]


@pytest.mark.slow
@pytest.mark.parametrize(
  ('name', 'codes'), [('SIGTERM', [75, 75]), ('SIGINT', [75, 130])]
)
def test_two_processes_stop_together(folder, name, codes):
  run = copy(folder, f'together_{name}')
  pair = two(run, die=(None, [name, 9]))
  output = [process.communicate(timeout=600)[1] for process in pair]
  assert [process.returncode for process in pair] == codes, output
  (last,) = [int(path.name) for path in (run / 'checkpoints').iterdir()]
  assert 6 <= last < 60
  for process in two(run):
    finish(process)
  assert [row['step'] for row in rows(run)] == [
    row['step'] for row in rows(folder / 'whole')
  ]


@pytest.mark.slow
def test_goes_on_with_other_numbers_of_processes(folder):
  """Two, then one, then four."""
  run = copy(folder, 'processes')
  pair = two(run, die=(None, ['SIGTERM', 9]))
  output = [process.communicate(timeout=600)[1] for process in pair]
  assert [process.returncode for process in pair] == [75, 75], output
  finish(start(run, die=['SIGTERM', 33], save_every=60), 75)
  summaries = [finish(x) for x in two(run, die=(None,) * 4, num=4)]
  assert {x['step'] for x in summaries} == {60}
  for first, other in zip(rows(folder / 'whole'), rows(run), strict=True):
    assert first == pytest.approx(other, rel=1e-4)
  moved = arrays(run)
  for path, array in arrays(folder / 'whole').items():
    np.testing.assert_allclose(array, moved[path], atol=2e-4)


@pytest.mark.process
@pytest.mark.parametrize(
  'slurm', [False, pytest.param(True, marks=pytest.mark.slow)]
)
def test_two_processes_end_where_one_does(folder, slurm):
  run = copy(folder, f'two_{slurm}')
  summaries = [finish(process) for process in two(run, slurm=slurm)]
  item = rows(folder / 'whole')[-1]
  assert summaries[0]['heldout_loss'] == summaries[1]['heldout_loss']
  assert summaries[0]['heldout_loss'] == pytest.approx(
    item['heldout_loss'], rel=1e-4
  )
  assert [row['step'] for row in rows(run)] == [
    row['step'] for row in rows(folder / 'whole')
  ]


@pytest.mark.slow
def test_a_damaged_shard_ends_both_processes(folder):
  run = copy(folder, 'damaged')
  shard = next((run / 'data' / 'train').glob('*.tokens'))
  shard.write_bytes(bytes(len(shard.read_bytes())))
  pair = two(run)
  errors = [process.communicate(timeout=600)[1] for process in pair]
  assert [process.returncode for process in pair] == [2, 2], errors
  assert 'damaged' in errors[0]
  assert 'process 0 could not read the data' in errors[1]
