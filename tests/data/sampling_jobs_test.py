"""Sampling, ingestion and studies on a Dask cluster: the bits of one process.

The cluster, and what happens to it, is started here.
"""

import json
import os
import pathlib
import subprocess
import sys
import threading

import pytest

import wm
from tests.cluster import ROOT, Cluster
from tests.data.pgn_texts import pgn, random_games, url
from tests.runtime.tasks_test import needs_dask, until
from tests.studies import jobs_test
from wm import core
from wm.data import sampling
from wm.data import store as stores
from wm.runtime import exit_codes, tasks

FROG = f'{ROOT}/launch/examples/frog.py:World(stones=4)'  # A user's file.
# Its chunks share sequences, which are dropped.
SHORTEST = "maps(rows=4, columns=4, traversal='shortest')"


@pytest.fixture(scope='module')
def cluster(tmp_path_factory):
  needs_dask()
  with Cluster(tmp_path_factory.mktemp('cluster')) as started:
    started.work()
    yield started


def tree(folder: pathlib.Path) -> dict[str, bytes]:
  return {
    str(path.relative_to(folder)): path.read_bytes()
    for path in sorted(folder.rglob('*'))
    if path.is_file()
  }


@pytest.mark.process
@pytest.mark.parametrize('world', [FROG, SHORTEST])
def test_chunks_are_sampled_anywhere(cluster, tmp_path, monkeypatch, world):
  monkeypatch.setattr(sampling, 'CHUNK', 70)
  options = wm.Sampling(num=500, num_heldout=80)
  where = {'here': {}, 'cluster': {'cluster': cluster.address}}
  if world == FROG:  # It compiles nothing.
    where['jobs'] = {'jobs': 2}
  trees = []
  for name, workers in where.items():
    wm.sample(world, tmp_path / name, options, **workers)
    trees.append(tree(tmp_path / name))
  assert all(other == trees[0] for other in trees[1:])


def test_a_sampling_that_was_killed_takes_the_chunks_that_stand(
  tmp_path, monkeypatch
):
  monkeypatch.setattr(sampling, 'CHUNK', 70)
  options = wm.Sampling(num=500, num_heldout=8)
  wm.sample(FROG, tmp_path / 'here', options)
  parts = tmp_path / 'again' / 'data' / '.train.chunks'
  parts.mkdir(parents=True)
  for chunk in range(8):
    size = 70 if chunk < 7 else 10
    args = {'world': FROG, 'run': 0, 'seed': 0, 'split': 'train'}
    sampling.sample_chunk(**args, chunk=chunk, num=size, folder=str(parts))
  monkeypatch.setattr(sampling, 'sample_chunk', None)  # None is called.
  wm.sample(FROG, tmp_path / 'again', options, jobs=2)
  assert tree(tmp_path / 'again') == tree(tmp_path / 'here')


@pytest.mark.parametrize('error', [exit_codes.Failed, exit_codes.ClusterError])
def test_a_sampling_whose_cluster_is_lost_goes_on(tmp_path, monkeypatch, error):
  monkeypatch.setattr(sampling, 'CHUNK', 70)
  monkeypatch.setattr(stores, 'SHARD_TOKENS', 300)  # Some shards are whole.
  options = wm.Sampling(num=500, num_heldout=80)
  wm.sample(FROG, tmp_path / 'here', options)

  def lost(todo, jobs, cluster):
    for task in todo[:5]:
      yield task, task.call(**task.arguments)
    raise error('lost')

  with monkeypatch.context() as patch:
    patch.setattr(tasks, 'run', lost)
    with pytest.raises(error, match='lost'):
      wm.sample(FROG, tmp_path / 'again', options, jobs=2)
  partial = tmp_path / 'again' / 'data' / 'train.partial'
  chunks = json.loads((partial / 'progress.json').read_text())['chunks']
  assert chunks > 1
  wm.sample(FROG, tmp_path / 'again', options)
  assert tree(tmp_path / 'again') == tree(tmp_path / 'here')


def test_no_cluster_leaves_a_partial_data_set(tmp_path):
  config = needs_dask()
  partial = tmp_path / 'data' / 'train.partial'
  partial.mkdir(parents=True)
  (partial / 'progress.json').write_text('{}')
  with (
    config.set({'distributed.comm.timeouts.connect': '.2s'}),
    pytest.raises(core.InputError, match='cluster=tcp://127'),
  ):
    wm.sample(FROG, tmp_path, wm.Sampling(), cluster='tcp://127.0.0.1:9')
  assert [*tree(tmp_path)] == ['data/train.partial/progress.json']


@pytest.mark.process
def test_games_are_read_anywhere(cluster, tmp_path):
  games = random_games(150)
  paths = []
  for k in range(3):
    part = slice(k * 50, k * 50 + 50)
    sites = [url(n) for n in range(part.start, part.stop)]
    # The first game of each file is the same: two are duplicates.
    text = pgn([games[0], *games[part][1:]], sites)
    paths.append(tmp_path / f'{k}.pgn')
    paths[-1].write_text(text)
  trees = []
  for name, where in (
    ('here', {}),
    ('cluster', {'cluster': cluster.address}),
  ):
    made = wm.ingest(paths, tmp_path / name, **where)
    assert sum(len(store) for store in made.values()) == 148
    trees.append(tree(tmp_path / name))
  assert trees[0] == trees[1]


@pytest.mark.slow
def test_a_study_loses_a_worker_its_scheduler_and_its_driver(tmp_path):
  needs_dask()
  alone = jobs_test.study(tmp_path / 'alone')
  out = tmp_path / 'far'
  driver = (
    'import sys; from tests.studies import jobs_test\n'
    'print(jobs_test.study(sys.argv[1], cluster=sys.argv[2]))\n'
  )
  environment = {**os.environ, 'PYTHONPATH': str(ROOT)}
  log = out / 'plain' / 'run.log'

  def processes() -> list[int]:
    """Of rows that are at work."""
    pattern = f'wm.studies.worker .*{out}'
    words = subprocess.run(['pgrep', '-f', pattern], capture_output=True)
    return [int(word) for word in words.stdout.split()]

  with Cluster(tmp_path) as started:
    started.work(2)
    command = [sys.executable, '-c', driver, str(out), started.address]
    first = subprocess.Popen(command, env=environment)
    until(lambda: log.exists() and processes())
    first.kill()
    first.wait()
    until(lambda: not processes())  # They were told to stop.
    second = threading.Thread(target=lambda: scores.append(run()), daemon=True)
    scores: list[dict] = []

    def run() -> dict:
      return jobs_test.study(out, cluster=started.address)

    second.start()
    until(processes)
    started.workers[0].kill()
    until(lambda: second.is_alive() and processes())
    started.stop()
    started.restart()
    started.work(1)
    second.join(600)
  assert scores == [alone]
  assert not [*out.rglob('failed.json')]
