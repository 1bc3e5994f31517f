"""Early steps see fewer rows and shorter sequences; none is left out."""

import numpy as np
import pytest

from tests import tiny
from tests.training import mean_mlp
from wm import core
from wm.data import batches, store
from wm.options.training import Training


@pytest.fixture(scope='module')
def train(tmp_path_factory):
  out = tmp_path_factory.mktemp('curriculum')
  mean_mlp.make_data(out)
  return store.open(out / 'data' / 'train')


def made(train, **fields) -> batches.Curriculum:
  options = Training(batch=8, **fields)
  whole = batches.Batches(train, 8, 0, 'buckets', 16)
  world = tiny.World()
  return batches.Curriculum(whole, options, world.max_len, world.prompt_len)


def test_without_one_steps_are_the_batches(train):
  plain = made(train, steps=9)
  for step in range(9):
    tokens, lengths = plain.at(step)
    want, used = plain.batches.at(step)
    np.testing.assert_array_equal(tokens, want[:, : tiny.World().max_len])
    np.testing.assert_array_equal(lengths, used)


@pytest.mark.parametrize('steps', [40, 41, 47])
def test_rows_double_and_each_is_seen_once(train, steps):
  growing = made(train, steps=steps, first_batch=2)
  sizes = [len(growing.at(step)[1]) for step in range(steps)]
  assert sizes == sorted(sizes)
  long = steps // 4
  assert sizes[: 2 * long] == [2] * long + [4] * long
  assert set(sizes[2 * long :]) == {8}
  seen = [growing.part(step) for step in range(steps)]
  rows = [
    (number, row)
    for number, first, stride in seen
    for row in range(first, 8, stride)
  ]
  assert len(rows) == len(set(rows)) == sum(sizes)
  assert [number for number, *_ in seen] == sorted(n for n, *_ in seen)


def test_lengths_double_over_a_share_of_the_run(train):
  growing = made(train, steps=60, curriculum=0.5)
  longest = [growing.longest(step) for step in range(60)]
  whole = tiny.World().max_len
  assert longest[0] == -(-whole // 8)
  assert longest[29] == -(-whole // 2)
  assert longest == sorted(longest)
  assert longest[30:] == [whole] * 30
  for step in (0, 29, 30):
    tokens, lengths = growing.at(step)
    want, used = growing.batches.at(step)
    assert tokens.shape[1] <= longest[step]
    np.testing.assert_array_equal(tokens, want[:, : longest[step]])
    np.testing.assert_array_equal(lengths, np.minimum(used, longest[step]))


@pytest.mark.parametrize(('batch', 'first'), [(8, 3), (8, 16), (24, 8)])
def test_a_first_batch_that_does_not_double_is_refused(batch, first):
  with pytest.raises(
    core.InputError, match=rf'first_batch={first} .* available: 0, {batch}'
  ):
    Training(batch=batch, first_batch=first)


@pytest.mark.parametrize(('max_len', 'prompt_len'), [(5, 0), (12, 2), (1, 0)])
def test_no_cut_leaves_nothing_to_learn(train, max_len, prompt_len):
  options = Training(batch=8, steps=10, curriculum=1.0)
  whole = batches.Batches(train, 8, 0)
  growing = batches.Curriculum(whole, options, max_len, prompt_len)
  least = min(max(prompt_len + 1, 2), max_len)
  assert growing.longest(0) == least
