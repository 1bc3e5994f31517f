"""Batches: every row once an epoch, whatever happened before."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wm import core
from wm.data import batches, store


def write(folder, lengths: np.ndarray) -> store.Store:
  """A store whose row n holds the number n + 1, lengths[n] times."""
  num = len(lengths)
  tokens = np.zeros((num, max(int(lengths.max(initial=0)), 1)), np.int32)
  used = np.arange(tokens.shape[1]) < lengths[:, None]
  tokens[used] = np.repeat(np.arange(num) + 1, lengths)
  data = core.Sequences(tokens, lengths.astype(np.int32))
  store.write(folder, [data], {'vocab_size': num + 1})
  return store.open(folder)


@pytest.fixture(scope='module')
def walks(tmp_path_factory):
  """Lengths as of Manhattan's random walks: 3 to 99 moves, 3 tokens more."""
  lengths = np.random.default_rng(0).integers(6, 103, 20_000)
  return write(tmp_path_factory.mktemp('walks') / 's', lengths)


@pytest.fixture(scope='module')
def few(tmp_path_factory):
  lengths = np.random.default_rng(1).integers(1, 20, 130)
  return write(tmp_path_factory.mktemp('few') / 's', lengths)


@settings(max_examples=80, deadline=None)
@given(num=st.integers(1, 700), seed=st.integers(0, 2**40))
def test_permute_is_a_permutation(num, seed):
  got = batches.permute(np.arange(num), num, seed)
  assert sorted(got) == list(range(num))


def test_permute_needs_no_neighbours_and_depends_on_its_words():
  num = 91_000_000
  sample = np.array([0, 5, num - 1])
  whole = batches.permute(sample, num, 7, 1)
  assert ((whole >= 0) & (whole < num)).all()
  for k, index in enumerate(sample):
    assert batches.permute(np.array([index]), num, 7, 1)[0] == whole[k]
  assert (whole != batches.permute(sample, num, 7, 2)).any()
  words = np.array([1, 2, 1])
  mixed = batches.permute(sample, num, 7, words)
  np.testing.assert_array_equal(mixed[[0, 2]], whole[[0, 2]])
  assert mixed[1] == batches.permute(sample, num, 7, 2)[1]


def test_permute_looks_uniform():
  # Where index 0 of 97 goes over 20,000 seeds: chi-square, 96 degrees.
  seeds = np.arange(20_000)
  got = batches.permute(np.zeros(20_000, int), 97, seeds)
  counts = np.bincount(got, minlength=97)
  expected = 20_000 / 97
  assert ((counts - expected) ** 2 / expected).sum() < 160  # p = 4e-5


@settings(max_examples=20, deadline=None)
@given(
  num=st.integers(1, 40_000), seed=st.integers(0, 999), skip=st.integers(0, 9)
)
def test_the_stream_holds_every_row_once_an_epoch(num, seed, skip):
  place = np.arange(skip * num, (skip + 1) * num)
  rows = batches.shuffled(place, num, seed)
  np.testing.assert_array_equal(np.sort(rows), np.arange(num))
  # Any part of the stream is the same by itself.
  sample = place[:: max(num // 7, 1)]
  np.testing.assert_array_equal(
    batches.shuffled(sample, num, seed), rows[:: max(num // 7, 1)]
  )


def test_a_window_of_a_large_store_mixes_all_of_it():
  num = 1_000_003
  rows = batches.shuffled(np.arange(4096), num, 0)
  tenth = np.bincount(rows * 10 // num, minlength=10)
  assert (tenth > 0).all()
  assert len(np.unique(rows // 64)) >= 64
  again = batches.shuffled(np.arange(4096) + num, num, 0)
  assert len(np.intersect1d(rows, again)) < 200  # 17 by chance.


@pytest.mark.parametrize('mode', batches.MODES)
@pytest.mark.parametrize('batch', [1, 8, 10, 64, 200])
def test_every_row_once_an_epoch(few, mode, batch):
  # Windows are in order of the stream, so whole windows cover whole epochs.
  stream = batches.Batches(few, batch, 3, mode)
  window = stream.window
  steps = np.lcm(len(few), batch * window) // batch
  epochs = steps * batch // len(few)
  seen = np.concatenate([stream.rows(step) for step in range(steps)])
  counts = np.bincount(seen, minlength=len(few))
  assert (counts == epochs).all()


@pytest.mark.parametrize('mode', batches.MODES)
def test_a_batch_depends_on_its_step_alone(walks, mode):
  first = batches.Batches(walks, 32, 5, mode)
  order = [0, 1, 63, 64, 900, 64, 0]
  got = [first.at(step) for step in order]
  for step, (tokens, lengths) in zip(order, got, strict=True):
    again = batches.Batches(walks, 32, 5, mode).at(step)
    np.testing.assert_array_equal(tokens, again[0])
    np.testing.assert_array_equal(lengths, again[1])
  other = batches.Batches(walks, 32, 6, mode).at(0)
  assert not np.array_equal(other[1], got[0][1])


@pytest.mark.parametrize('mode', batches.MODES)
def test_tokens_are_the_rows_padded_to_a_multiple(walks, mode):
  stream = batches.Batches(walks, 16, 5, mode, multiple=16)
  for step in (0, 7, 200):
    tokens, lengths = stream.at(step)
    assert tokens.dtype == lengths.dtype == np.int32
    assert tokens.shape == (16, stream.length(step))
    assert tokens.shape[1] % 16 == 0
    assert 0 <= tokens.shape[1] - lengths.max() < 16
    used = np.arange(tokens.shape[1]) < lengths[:, None]
    assert (tokens[~used] == core.PAD).all()
    want = np.repeat(stream.rows(step) + 1, lengths)
    np.testing.assert_array_equal(tokens[used], want)


def _useful(stream):
  """Share of tokens that are no padding."""
  parts = [stream.at(step) for step in range(300)]
  used = sum(int(lengths.sum()) for _, lengths in parts)
  return used / sum(tokens.size for tokens, _ in parts)


def test_buckets_waste_little_and_random_batches_half(walks):
  useful = {
    mode: _useful(batches.Batches(walks, 64, 0, mode)) for mode in batches.MODES
  }
  assert useful['buckets'] >= 0.95
  assert useful['random'] < 0.56
  coarse = batches.Batches(walks, 64, 0, 'buckets', multiple=16)
  assert 0.85 < _useful(coarse) < 0.92
  shapes = {coarse.length(step) for step in range(300)}
  assert shapes == {16, 32, 48, 64, 80, 96, 112}


def test_batches_of_a_window_come_in_no_order_of_length(walks):
  stream = batches.Batches(walks, 64, 0)
  means = np.array([stream.at(step)[1].mean() for step in range(64)])
  rank = np.argsort(np.argsort(means))
  assert abs(np.corrcoef(rank, np.arange(64))[0, 1]) < 0.5
  # Over a window, lengths are those of the data: no order between windows.
  assert means.mean() == pytest.approx(walks.lengths.mean(), rel=0.03)


def test_parts_of_processes_make_up_the_global_batch(walks):
  stream = batches.Batches(walks, 12, 2)
  whole = stream.at(9)
  parts = [
    batches.Batches(walks, 12, 2, part_ids=mine, num_parts=3).at(9)
    for mine in ([0], [1, 2])
  ]
  for k in range(2):
    np.testing.assert_array_equal(
      np.concatenate([part[k] for part in parts]), whole[k]
    )


def test_a_process_reads_no_tokens_of_other_parts(walks, monkeypatch):
  rows = []
  ragged = type(walks).ragged

  def counted(self, asked):
    rows.extend(asked)
    return ragged(self, asked)

  monkeypatch.setattr(type(walks), 'ragged', counted)
  stream = batches.Batches(walks, 12, 2, part_ids=[1], num_parts=3)
  mine = {row for n in range(stream.window) for row in stream.rows(n)[4:8]}
  for step in range(stream.window):
    stream.at(step)
  assert set(rows) == mine
  assert len(rows) < 0.5 * stream.window * 12


def test_no_row_stands_beside_itself_where_the_data_are_enough(few):
  stream = batches.Batches(few, 13, 1)  # Ten batches to an epoch.
  for step in range(100):
    assert len(set(stream.rows(step))) == 13


def test_an_empty_store_is_refused(tmp_path):
  empty = write(tmp_path / 's', np.zeros(0, np.int64))
  with pytest.raises(core.InputError, match='no sequences'):
    batches.Batches(empty, 4, 0)
