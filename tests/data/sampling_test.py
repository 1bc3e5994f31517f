"""Sampling: two splits, the same bytes whatever interrupted, nothing left."""

import dataclasses
import json
import types

import numpy as np
import pytest

from tests import tiny
from tests.data.pgn_texts import tree
from wm import core
from wm.data import sampling, store
from wm.options.calls import Sampling
from wm.runtime import files

FEW = Sampling(num=400, num_heldout=30, seed=3)


@dataclasses.dataclass(frozen=True)
class Distinct(tiny.World):
  """The tiny world without repeats within a call."""

  def sample(self, num: int, seed: int, split: str = 'all') -> core.Sequences:
    drawn = super().sample(4 * num, seed, split)
    first = np.unique(drawn.tokens, axis=0, return_index=True)[1]
    kept = drawn.take(np.sort(first)[:num])
    return dataclasses.replace(kept, distinct=True)


@dataclasses.dataclass(frozen=True)
class Broken(tiny.World):
  """Fails at a given split."""

  at: str = 'heldout'

  def sample(self, num: int, seed: int, split: str = 'all') -> core.Sequences:
    if split == self.at:
      raise core.InputError('no path between any pair')
    return super().sample(num, seed, split)


@dataclasses.dataclass(frozen=True)
class Killed(tiny.World):
  """Stops like a kill would, after so many calls of `sample`."""

  name = 'tiny'
  calls = [0]  # noqa: RUF012
  after = [10**9]  # noqa: RUF012

  def sample(self, num: int, seed: int, split: str = 'all') -> core.Sequences:
    self.calls[0] += 1
    if self.calls[0] > self.after[0]:
      raise KeyboardInterrupt
    return super().sample(num, seed, split)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
  monkeypatch.setattr(sampling, 'CHUNK', 64)
  monkeypatch.setattr(store, 'SHARD_TOKENS', 700)


def rows(folder) -> list[tuple[int, ...]]:
  data = store.open(folder)
  whole = data.read(0, len(data))
  return [
    tuple(tokens[:length])
    for tokens, length in zip(whole.tokens, whole.lengths, strict=True)
  ]


def test_both_splits_with_what_they_come_from(tmp_path):
  world = tiny.World()
  made = sampling.make_dataset(world, tmp_path / 'r', FEW)
  train = store.open(tmp_path / 'r' / 'data' / 'train')
  train.verify()
  assert made['train'] == train.manifest
  assert len(train) == 400
  assert made['heldout']['rows'] == 30
  assert train.manifest['world'] == 'tiny()'
  assert train.manifest['seed'] == 3
  assert train.manifest['vocab_size'] == len(world.vocab)
  assert len(train.manifest['shards']) > 1
  both = [set(rows(tmp_path / 'r' / 'data' / s)) for s in sampling.SPLITS]
  assert not both[0] & both[1]
  assert len(both[0]) > 20


def test_chunks_and_seeds_differ(tmp_path):
  for name, seed in (('a', 0), ('b', 1)):
    sampling.make_dataset(
      tiny.World(), tmp_path / name, Sampling(seed=seed, num=128, num_heldout=8)
    )
  a, b = (rows(tmp_path / name / 'data' / 'train') for name in 'ab')
  assert a[:64] != a[64:]
  assert a != b


def test_an_interrupted_run_ends_with_the_same_bytes(tmp_path):
  sampling.make_dataset(Killed(), tmp_path / 'whole', FEW)
  for stop in (0, 1, 3, 2, 1):  # Each go sees so many more calls.
    Killed.calls[0], Killed.after[0] = 0, stop
    with pytest.raises(KeyboardInterrupt):
      sampling.make_dataset(Killed(), tmp_path / 'cut', FEW)
  Killed.after[0] = 10**9
  sampling.make_dataset(Killed(), tmp_path / 'cut', FEW)
  assert tree(tmp_path / 'cut') == tree(tmp_path / 'whole')


def test_an_interrupted_run_does_not_start_over(tmp_path):
  Killed.calls[0], Killed.after[0] = 0, 5
  with pytest.raises(KeyboardInterrupt):
    sampling.make_dataset(Killed(), tmp_path / 'r', FEW)
  Killed.calls[0], Killed.after[0] = 0, 10**9
  sampling.make_dataset(Killed(), tmp_path / 'r', FEW)
  assert Killed.calls[0] < 5 + 3  # Eight in an unbroken run.


def test_again_changes_nothing(tmp_path):
  made = sampling.make_dataset(tiny.World(), tmp_path, FEW)
  before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob('*')}
  assert made == sampling.make_dataset(tiny.World(), tmp_path, FEW)
  assert before == {p: p.stat().st_mtime_ns for p in tmp_path.rglob('*')}


@pytest.mark.parametrize(
  'change', [{'seed': 4}, {'num': 401}, {'num_heldout': 31}]
)
def test_a_folder_of_another_run_is_refused_and_kept(tmp_path, change):
  sampling.make_dataset(tiny.World(), tmp_path, FEW)
  before = tree(tmp_path)
  with pytest.raises(core.InputError, match='another sample run'):
    sampling.make_dataset(
      tiny.World(), tmp_path, dataclasses.replace(FEW, **change)
    )
  with pytest.raises(core.InputError, match='another sample run'):
    sampling.make_dataset(tiny.World(ending=False), tmp_path, FEW)
  assert tree(tmp_path) == before


def test_a_later_version_may_know_more_facts_of_a_world():
  old = {'world_facts': {'streets': 9}, 'seed': 0}
  new = {'world_facts': {'streets': 9, 'sinks': 1}, 'seed': 0}
  files.same('here', 'sample', new, old)
  files.same('here', 'sample', old, new)
  new['world_facts']['streets'] = 8
  with pytest.raises(core.InputError, match='its world_facts is'):
    files.same('here', 'sample', new, old)
  with pytest.raises(core.InputError, match='its world_facts is None'):
    files.same('here', 'sample', new, {'seed': 0})


def test_a_store_of_another_run_is_refused_without_its_claim_too(tmp_path):
  sampling.make_dataset(tiny.World(), tmp_path, FEW)
  (tmp_path / 'sample.run.json').unlink()
  before = tree(tmp_path)
  with pytest.raises(core.InputError, match='another train run'):
    sampling.make_dataset(
      tiny.World(), tmp_path, dataclasses.replace(FEW, seed=4)
    )
  assert tree(tmp_path) == before


def test_a_damaged_store_is_refused_not_reused(tmp_path):
  sampling.make_dataset(tiny.World(), tmp_path, FEW)
  shard = tmp_path / 'data' / 'train' / '00000.tokens'
  shard.write_bytes(shard.read_bytes()[:-1])
  with pytest.raises(core.InputError, match=r'00000\.tokens is truncated'):
    sampling.make_dataset(tiny.World(), tmp_path, FEW)


@pytest.mark.parametrize('at', sampling.SPLITS)
def test_bad_input_leaves_nothing(tmp_path, at):
  with pytest.raises(core.InputError, match='no path'):
    sampling.make_dataset(Broken(at=at), tmp_path / 'r', FEW)
  assert not list(tmp_path.iterdir())


def test_bad_input_keeps_what_was_there(tmp_path):
  (tmp_path / 'data').mkdir()
  (tmp_path / 'data' / 'mine.txt').write_text('mine')
  with pytest.raises(core.InputError, match='no path'):
    sampling.make_dataset(Broken(), tmp_path, FEW)
  assert tree(tmp_path) == {'data/mine.txt': b'mine'}


def test_a_distinct_world_repeats_nothing_across_chunks(tmp_path):
  made = sampling.make_dataset(Distinct(), tmp_path, FEW)
  results = rows(tmp_path / 'data' / 'train')
  assert len(results) == len(set(results)) == made['train']['rows']
  # This world has few sequences: sampling stops when no new ones come.
  assert 20 < len(results) < 400


def test_hashes_do_not_depend_on_padding():
  data = tiny.World().sample(50, 1)
  wider = np.pad(data.tokens, ((0, 0), (0, 5)))
  np.testing.assert_array_equal(
    data.hashes(), core.Sequences(wider, data.lengths).hashes()
  )


def test_check_refuses_data_of_another_vocabulary(tmp_path):
  sampling.make_dataset(tiny.World(), tmp_path, FEW)
  data = store.open(tmp_path / 'data' / 'train')
  sampling.check_vocab(data, tiny.World())

  class Other(tiny.World):
    vocab = (*tiny.VOCAB[:-1], 'at9')

  with pytest.raises(core.InputError, match='vocabulary'):
    sampling.check_vocab(data, Other())


def test_manifests_hold_nothing_of_the_machine(tmp_path):
  made = sampling.make_dataset(tiny.World(), tmp_path / 'r', FEW)
  assert str(tmp_path) not in json.dumps(made)


def test_sequences_of_earlier_chunks_are_left_out():
  """As a set of all hashes so far would do it."""
  rng, seen = np.random.default_rng(0), set()
  writer = types.SimpleNamespace(written=lambda: [])
  hashes = sampling._Seen(writer)
  for size in rng.integers(1, 40, 60):
    tokens = rng.integers(1, 6, (size, 3)).astype(np.int32)
    chunk = core.Sequences(tokens, np.full(size, 3, np.int32))
    new = [tuple(row) not in seen for row in tokens.tolist()]
    fresh = hashes.new(chunk)
    np.testing.assert_array_equal(fresh.tokens, tokens[new])
    seen |= {*map(tuple, tokens.tolist())}
  assert len(seen) > 100
  assert len(hashes._runs) < 8
