"""Sampling and ingestion in several processes: the bits of one process."""

import json
import pathlib

import pytest

import wm
from tests.data.sampling_test import tree
from wm.data import sampling
from wm.data import store as stores
from wm.runtime import exit_codes, tasks

ROOT = pathlib.Path(__file__).parents[2]
FROG = f'{ROOT}/launch/examples/frog.py:World(stones=4)'  # A user's file.


@pytest.mark.process
def test_chunks_are_sampled_anywhere(tmp_path, monkeypatch):
  monkeypatch.setattr(sampling, 'CHUNK', 70)
  options = wm.Sampling(num=500, num_heldout=80)
  trees = []
  for jobs in (1, 2):
    wm.sample(FROG, tmp_path / str(jobs), options, jobs=jobs)
    trees.append(tree(tmp_path / str(jobs)))
  assert trees[0] == trees[1]


def test_a_sampling_whose_processes_are_lost_goes_on(tmp_path, monkeypatch):
  error = exit_codes.Failed
  monkeypatch.setattr(sampling, 'CHUNK', 70)
  monkeypatch.setattr(stores, 'SHARD_TOKENS', 300)  # Some shards are whole.
  options = wm.Sampling(num=500, num_heldout=80)
  wm.sample(FROG, tmp_path / 'here', options)

  def lost(todo, jobs):
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
