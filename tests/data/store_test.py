"""The store: what comes back is what went in, or a clear refusal."""

import json
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wm import core
from wm.data import store


def make(num: int, seed: int = 0, vocab: int = 4589) -> core.Sequences:
  rng = np.random.default_rng(seed)
  lengths = rng.integers(1, 30, num).astype(np.int32)
  tokens = rng.integers(1, vocab, (num, 30)).astype(np.int32)
  tokens[np.arange(30) >= lengths[:, None]] = core.PAD
  return core.Sequences(tokens, lengths)


def pieces(data: core.Sequences, size: int):
  for first in range(0, len(data), size):
    yield data.take(np.arange(first, min(first + size, len(data))))


@pytest.fixture
def opened(tmp_path):
  data = make(500)
  store.write(
    tmp_path / 's', pieces(data, 60), {'vocab_size': 4589}, shard_tokens=2000
  )
  return data, store.open(tmp_path / 's')


def test_a_read_that_the_system_cuts_goes_on(opened, monkeypatch):
  data, folder = opened
  whole, calls = os.preadv, []

  def at_most_7(handle, buffers, offset):
    calls.append(offset)
    return whole(handle, [buffers[0][:7]], offset)

  monkeypatch.setattr(os, 'preadv', at_most_7)
  got = folder.read(0, len(data))
  np.testing.assert_array_equal(
    got.tokens, data.tokens[:, : got.tokens.shape[1]]
  )
  assert len(calls) > 100


@settings(max_examples=25, deadline=None)
@given(
  rows=st.lists(st.lists(st.integers(1, 400), max_size=6), max_size=12),
  cuts=st.integers(1, 5),
  limit=st.integers(1, 20),
)
def test_written_and_read_is_identity(tmp_path_factory, rows, cuts, limit):
  lengths = np.array([len(row) for row in rows], np.int32)
  tokens = np.zeros((len(rows), 6), np.int32)
  for n, row in enumerate(rows):
    tokens[n, : len(row)] = row
  data = core.Sequences(tokens, lengths)
  folder = tmp_path_factory.mktemp('store') / 's'
  manifest = store.write(
    folder, pieces(data, cuts), {'vocab_size': 401}, shard_tokens=limit
  )
  got = store.open(folder)
  got.verify()
  assert len(got) == manifest['rows'] == len(rows)
  assert manifest['tokens'] == lengths.sum()
  np.testing.assert_array_equal(got.lengths, lengths)
  whole = got.read(0, len(rows))
  np.testing.assert_array_equal(
    whole.tokens, tokens[:, : whole.tokens.shape[1]]
  )
  np.testing.assert_array_equal(whole.lengths, lengths)


def test_rows_in_any_order_across_shards(opened):
  data, got = opened
  assert len(got.manifest['shards']) > 2
  rows = np.random.default_rng(1).integers(0, 500, 800)
  tokens, lengths = got.take(rows)
  assert tokens.dtype == lengths.dtype == np.int32
  np.testing.assert_array_equal(lengths, data.lengths[rows])
  width = data.lengths[rows].max()
  np.testing.assert_array_equal(tokens, data.tokens[rows, :width])


def test_chunks_join_to_the_whole(opened):
  data, got = opened
  for size in (1, 7, 64, 1000):
    lengths = np.concatenate([part.lengths for part in got.chunks(size)])
    np.testing.assert_array_equal(lengths, data.lengths)
  part = got.read(123, 131)
  np.testing.assert_array_equal(
    part.tokens, data.tokens[123:131, : part.tokens.shape[1]]
  )


@pytest.mark.parametrize(
  ('vocab', 'width'), [(2, 1), (256, 1), (257, 2), (65536, 2), (65537, 4)]
)
def test_tokens_take_no_more_bytes_than_the_vocabulary_needs(
  tmp_path, vocab, width
):
  assert store.token_dtype(vocab).itemsize == width
  top = core.Sequences(
    np.array([[vocab - 1]], np.int32), np.array([1], np.int32)
  )
  store.write(tmp_path / 's', [top], {'vocab_size': vocab})
  assert (tmp_path / 's' / '00000.tokens').stat().st_size == width
  assert store.open(tmp_path / 's').take([0])[0][0, 0] == vocab - 1


@pytest.mark.parametrize('rows', [[-1], [500], [0, 7000]])
def test_rows_that_are_not_there(opened, rows):
  with pytest.raises(core.InputError, match=r'rows 0\.\.499'):
    opened[1].take(np.array(rows))


@pytest.mark.parametrize('kind', ['tokens', 'offsets'])
def test_a_truncated_shard_is_refused_when_opened(opened, kind):
  path = opened[1].folder / f'00001.{kind}'
  path.write_bytes(path.read_bytes()[:-2])
  with pytest.raises(core.InputError, match=f'00001.{kind} is truncated'):
    store.open(opened[1].folder)
  path.unlink()
  with pytest.raises(core.InputError, match=f'00001.{kind} is truncated'):
    store.open(opened[1].folder)


@pytest.mark.parametrize('kind', ['tokens', 'offsets'])
def test_a_flipped_bit_is_found_by_its_hash(opened, kind):
  path = opened[1].folder / f'00002.{kind}'
  damaged = bytearray(path.read_bytes())
  damaged[len(damaged) // 2] ^= 1
  path.write_bytes(damaged)
  with pytest.raises(core.InputError, match=f'00002.{kind}'):
    store.open(opened[1].folder).verify()


def test_damaged_offsets_never_read_past_the_data(opened):
  path = opened[1].folder / '00000.offsets'
  damaged = np.frombuffer(path.read_bytes(), '<u4').copy()
  damaged[5] = 2**32 - 1
  path.write_bytes(damaged.tobytes())
  got = store.open(opened[1].folder)
  for read in (lambda: got.take(np.array([4])), lambda: got.read(0, 9)):
    with pytest.raises(core.InputError, match=r'00000\.offsets'):
      read()


def test_a_shard_cut_while_in_use(opened):
  got = opened[1]
  got.take(np.arange(3))
  path = got.folder / '00000.tokens'
  with path.open('r+b') as file:
    file.truncate(3)
  for read in (lambda: got.take(np.array([9])), lambda: got.read(0, 50)):
    with pytest.raises(core.InputError, match=r'00000\.tokens is truncated'):
      read()


@pytest.mark.parametrize(
  'change',
  [
    {'format': 'other'},
    {'dtype': '<f8'},
    {'dtype': 'O'},
    {'shards': {}},
    {'shards': [{'name': '00000'}]},
    {'shards': ['00000']},
    {'rows': 10**6},
    {'tokens': 0},
  ],
)
def test_what_is_no_manifest_is_refused(opened, change):
  path = opened[1].folder / 'manifest.json'
  path.write_text(json.dumps({**opened[1].manifest, **change}))
  with pytest.raises(
    core.InputError, match=r'not a manifest|expected|lacks|sum of'
  ):
    store.open(opened[1].folder)


def test_no_store_there(tmp_path):
  with pytest.raises(core.InputError, match=r'launch/sample\.py'):
    store.open(tmp_path)
  (tmp_path / 'manifest.json').write_text('{')
  with pytest.raises(core.InputError, match='is not JSON'):
    store.open(tmp_path)


def test_a_failure_leaves_nothing(tmp_path):
  def broken():
    yield make(100)
    raise core.InputError('no more')

  with pytest.raises(core.InputError, match='no more'):
    store.write(tmp_path / 's', broken(), {'vocab_size': 4589})
  assert not list(tmp_path.iterdir())


def test_a_failure_keeps_the_store_that_was_there(opened):
  data, got = opened

  def broken():
    yield make(10, seed=5)
    raise core.InputError('no more')

  with pytest.raises(core.InputError, match='no more'):
    store.write(got.folder, broken(), {'vocab_size': 4589})
  again = store.open(got.folder)
  again.verify()
  assert len(again) == len(data)


def test_a_writer_goes_on_after_its_last_complete_shard(tmp_path):
  data = list(pieces(make(500), 60))
  fields = {'vocab_size': 4589}
  store.write(tmp_path / 'whole', data, fields, shard_tokens=2000)
  killed = store.Writer(tmp_path / 'cut', fields, shard_tokens=2000)
  for part in data[:5]:
    killed.add(part)
  del killed  # As a kill would: nothing is closed or cleaned up.
  writer = store.Writer(tmp_path / 'cut', fields, shard_tokens=2000)
  assert writer.chunks == 3
  left = [len(part) for part in writer.written()]
  assert sum(left) == writer.rows == 60 * writer.chunks
  for part in data[writer.chunks :]:
    writer.add(part)
  writer.finish()
  for path in (tmp_path / 'whole').iterdir():
    assert path.read_bytes() == (tmp_path / 'cut' / path.name).read_bytes()
  assert len(list((tmp_path / 'cut').iterdir())) == len(
    list((tmp_path / 'whole').iterdir())
  )


def test_a_writer_starts_anew_where_the_run_is_another(tmp_path):
  writer = store.Writer(tmp_path / 's', {'vocab_size': 9}, shard_tokens=1)
  writer.add(make(5, vocab=9))
  again = store.Writer(tmp_path / 's', {'vocab_size': 8}, shard_tokens=1)
  assert again.chunks == again.rows == 0


def test_counts_add_up(tmp_path):
  data = make(10)
  parts = [
    core.Sequences(data.tokens, data.lengths, counts={'dropped': 2}),
    core.Sequences(data.tokens, data.lengths, counts={'dropped': 3, 'b': 1}),
  ]
  manifest = store.write(tmp_path / 's', parts, {'vocab_size': 4589})
  assert manifest['counts'] == {'dropped': 5, 'b': 1}
