"""A run is the same on one core and on two, killed or not."""

import json
import os
import shutil

import pytest

from tests import compiler, forked
from tests.training import mean_mlp
from tests.training.resume_test import SIGKILLED, WORKER, finish, rows
from wm.options.training import Training
from wm.runtime import compute

# Gradients sum over 3,000 tokens: XLA divides these sums over its threads.
MODEL = 'mean_mlp(width=64)'
CONFIG = {
  'steps': 12,
  'batch': 256,
  'eval_every': 6,
  'save_every': 3,
  'log_every': 1,
}
CORES = [*range(compute.cores())]
if hasattr(os, 'sched_getaffinity'):
  CORES = sorted(os.sched_getaffinity(0))
pytestmark = [
  pytest.mark.process,
  pytest.mark.skipif(
    len(CORES) < 2 or not hasattr(os, 'sched_setaffinity'),
    reason='this process may use one core, or may not choose',
  ),
]


def train(out, cores, code=0, die=None, **config) -> dict:
  order = {'config': {**CONFIG, **config}, 'model': MODEL}
  text = json.dumps({**order, 'cores': cores, 'die': die})
  cache = str(out.parent / 'cache')
  env = {'XDG_CACHE_HOME': cache, 'XLA_FLAGS': compiler.flags()}
  return finish(forked.Process(WORKER, str(out), text, env=env), code)


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  """Holds `two`, a run on two cores."""
  folder = tmp_path_factory.mktemp('threads')
  mean_mlp.make_data(folder / 'two')
  mean_mlp.install()
  assert train(folder / 'two', CORES[:2])['threads'] == Training.threads
  return folder


def copy(folder, name):
  shutil.copytree(folder / 'two' / 'data', folder / name / 'data')
  return folder / name


def test_one_core_gives_the_bits_of_two(folder):
  run = copy(folder, 'one')
  train(run, CORES[:1])
  assert rows(run) == rows(folder / 'two')
  recorded = json.loads((run / 'train.run.json').read_text())
  assert recorded['threads'] == Training.threads


def test_killed_on_two_cores_it_goes_on_with_one(folder):
  run = copy(folder, 'killed')
  train(run, CORES[:2], SIGKILLED, die=['batch', 8])
  train(run, CORES[:1])
  assert rows(run) == rows(folder / 'two')


def test_another_number_of_threads_is_another_run(folder):
  run = copy(folder, 'one_thread')
  assert train(run, CORES[:2], threads=1)['threads'] == 1
  train(run, CORES[:2], code=2)


def test_jax_that_has_started_keeps_its_threads(monkeypatch):
  import jax

  jax.devices()
  monkeypatch.setenv('PJRT_NPROC', '3')
  assert compute.fix_threads(5) == compute.num_threads() == 3
