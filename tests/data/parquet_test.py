"""Sequences as Parquet files and Datasets, and back."""

import numpy as np
import pytest

import wm

WORLD = 'maps(rows=3, columns=3, max_moves=6)'


@pytest.fixture(scope='module')
def stores(tmp_path_factory):
  folder = tmp_path_factory.mktemp('sampled')
  return wm.sample(WORLD, folder, num=300, num_heldout=20)


def test_parquet_is_read_back(stores, tmp_path):
  parquet = pytest.importorskip('pyarrow.parquet')
  path = tmp_path / 'train.parquet'
  stores['train'].to_parquet(path)
  vocab = wm.make('world', WORLD).vocab
  sequences = stores['train'].read(0, 300)
  column = parquet.read_table(path)['tokens'].to_pylist()
  assert column == [
    [vocab[k] for k in row[:length]]
    for row, length in zip(sequences.tokens, sequences.lengths, strict=True)
  ]
  other = tmp_path / 'heldout.parquet'
  stores['heldout'].to_parquet(other)
  again = wm.ingest([path, other], tmp_path / 'run', world=WORLD)
  texts = wm.ingest_text(path, tmp_path / 'other', WORLD, heldout=other)
  for split, store in stores.items():
    tokens = store.read(0, 400).tokens
    np.testing.assert_array_equal(again[split].read(0, 400).tokens, tokens)
    np.testing.assert_array_equal(texts[split].read(0, 400).tokens, tokens)


def test_a_parquet_of_other_columns_is_refused_in_one_line(tmp_path, one_line):
  pa = pytest.importorskip('pyarrow')
  parquet = pytest.importorskip('pyarrow.parquet')
  path = tmp_path / 'other.parquet'
  parquet.write_table(pa.table({'words': [['a']]}), path)
  (tmp_path / 'no.parquet').write_text('a b c end\n')
  for name in ('other', 'no', 'gone'):
    with one_line(rf'{name}\.parquet'):
      wm.ingest(tmp_path / f'{name}.parquet', tmp_path / 'run', world=WORLD)
