"""Runs that are killed, moved to other devices, or divided over processes."""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys

import jax
import numpy as np
import pytest

from tests import tiny
from tests.train import toy
from wm.models import network
from wm.train import checkpoints, optimiser, state, writers
from wm.train.config import Config

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIG = {
  'steps': 60,
  'batch': 16,
  'warmup': 5,
  'eval_every': 20,
  'save_every': 7,
  'log_every': 5,
  'lr': 1e-2,
}
SIGKILLED = -9


def start(out, devices=1, die=None, **config) -> subprocess.Popen:
  """A worker process on so many forced CPU devices."""
  order = {'config': {**CONFIG, **config}, 'die': die}
  flags = (
    f'--xla_force_host_platform_device_count={devices} '
    '--xla_backend_optimization_level=0'
  )
  cache = {'XDG_CACHE_HOME': str(out.parent / 'cache')}
  return subprocess.Popen(
    [sys.executable, '-m', 'tests.train.worker', str(out), json.dumps(order)],
    cwd=ROOT,
    env={**os.environ, **cache, 'XLA_FLAGS': flags},
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
  )


def finish(process, code=0) -> dict:
  """Its summary; fails with its errors unless it exits with `code`."""
  try:
    out, err = process.communicate(timeout=120)
  finally:
    process.kill()
  assert process.returncode == code, err[-2000:]
  return json.loads(out.splitlines()[-1]) if out.strip() else {}


@pytest.fixture(scope='module')
def folder(tmp_path_factory) -> pathlib.Path:
  """Holds `whole`, a run of one device that nothing disturbed."""
  folder = tmp_path_factory.mktemp('resume')
  toy.make_data(folder / 'whole')
  toy.install()
  finish(start(folder / 'whole'))
  return folder


def copy(folder, name) -> pathlib.Path:
  """A new run folder with the same data."""
  shutil.copytree(folder / 'whole' / 'data', folder / name / 'data')
  return folder / name


def arrays(run) -> dict[str, np.ndarray]:
  """Everything in the last checkpoint of a run."""
  shape = network.Shape(toy.Model(), len(tiny.VOCAB), tiny.World().max_len)
  shapes = state.shapes(shape)
  config = Config(toy.WORLD, toy.MODEL, **CONFIG)
  mesh = state.mesh(1, 1)
  abstract = state.abstract_state(shapes, optimiser.make(config, shapes), mesh)
  kept = checkpoints.Checkpoints(run, read_only=True)
  found = kept.state(kept.last(), abstract)
  kept.close()
  return jax.device_get(state.flatten(found))


def rows(run) -> list[dict]:
  return writers.read_metrics(run / 'metrics.jsonl')


def test_killed_and_started_again_is_the_same_run_to_the_bit(folder):
  run = copy(folder, 'killed')
  for die in (['feed', 9], ['save', 21], ['line', 45]):
    finish(start(run, die=die), SIGKILLED)
  finish(start(run))
  assert (run / 'metrics.jsonl').read_bytes() == (
    folder / 'whole' / 'metrics.jsonl'
  ).read_bytes()
  whole, killed = arrays(folder / 'whole'), arrays(run)
  assert whole.keys() == killed.keys()
  for path, array in whole.items():
    assert array.tobytes() == killed[path].tobytes(), path
  kept = checkpoints.Checkpoints(run, read_only=True)
  assert kept.last() == 60
  assert not [p for p in kept.folder.iterdir() if not p.name.isdigit()]


def test_goes_on_with_other_numbers_of_devices(folder):
  run = copy(folder, 'moved')
  finish(start(run, devices=2, die=['saved', 14]), SIGKILLED)
  finish(start(run, devices=4, mesh_model=2, die=['saved', 35]), SIGKILLED)
  finish(start(run, devices=1))
  for one, other in zip(rows(folder / 'whole'), rows(run), strict=True):
    assert one == pytest.approx(other, rel=1e-4)
  moved = arrays(run)
  for path, array in arrays(folder / 'whole').items():
    np.testing.assert_allclose(array, moved[path], atol=2e-4)


def test_two_processes_end_where_one_does(folder):
  run = copy(folder, 'two')
  with socket.socket() as free:
    free.bind(('127.0.0.1', 0))
    address = f'127.0.0.1:{free.getsockname()[1]}'
  pair = [
    start(
      run, coordinator=address, num_processes=2, process_id=k, save_every=60
    )
    for k in range(2)
  ]
  summaries = [finish(process) for process in pair]
  one = rows(folder / 'whole')[-1]
  assert summaries[0]['heldout_loss'] == summaries[1]['heldout_loss']
  assert summaries[0]['heldout_loss'] == pytest.approx(
    one['heldout_loss'], rel=1e-4
  )
  assert [row['step'] for row in rows(run)] == [
    row['step'] for row in rows(folder / 'whole')
  ]
