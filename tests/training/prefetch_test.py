"""Batches reach the devices in order, divided, and none is left out."""

import jax
import numpy as np
import pytest

from tests import tiny
from tests.training import mean_mlp
from wm.data import batches, store
from wm.training import loop, state


@pytest.fixture(scope='module')
def data(tmp_path_factory):
  out = tmp_path_factory.mktemp('feed')
  mean_mlp.make_data(out)
  return store.open(out / 'data' / 'train'), store.open(out / 'data/heldout')


def stream(data) -> batches.Batches:
  return batches.Batches(data[0], 8, 0, 'buckets', 16)


def test_steps_come_in_order_and_divided_over_devices(data):
  source = stream(data)
  mesh = state.mesh(2, 1)
  with loop.Prefetch(source, mesh, 9, 12) as running:
    seen = []
    for step, (tokens, lengths) in running.run(4):
      seen.append(step)
      want, used = source.at(step)
      np.testing.assert_array_equal(tokens, want[:, :12])
      np.testing.assert_array_equal(lengths, used)
      assert tokens.addressable_shards[0].data.shape[0] == 4
  assert seen == [4, 5, 6, 7, 8]


def test_nothing_is_made_past_the_last_step(data):
  source = stream(data)
  with loop.Prefetch(source, state.mesh(1, 1), 3, 12) as running:
    assert list(running.run(3)) == []


def test_held_out_rows_come_once_each(data):
  heldout = data[1]
  results = []
  for tokens, lengths in loop.heldout_batches(heldout, 7, tiny.World().max_len):
    assert tokens.shape == (7, tokens.shape[1])
    assert tokens.shape[1] <= tiny.World().max_len
    results += [
      tuple(row[:used])
      for row, used in zip(tokens, lengths, strict=True)
      if used
    ]
  every = heldout.read(0, len(heldout))
  want = [
    tuple(row[:used])
    for row, used in zip(every.tokens, every.lengths, strict=True)
  ]
  assert sorted(results) == sorted(want)


def test_a_part_in_process_memory_is_enough():
  mesh = state.mesh(2, 1)
  tokens, lengths = loop.place_batch(
    mesh, np.arange(8, dtype=np.int32).reshape(4, 2), np.arange(4)
  )
  np.testing.assert_array_equal(jax.device_get(lengths), np.arange(4))
  assert tokens.sharding.spec == jax.sharding.PartitionSpec('data')
