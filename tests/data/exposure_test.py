"""What training data show of held-out sequences, against brute force."""

import numpy as np
import pytest

from wm import core
from wm.core import registry
from wm.data import exposure, sampling
from wm.data import store as stores
from wm.training import run_log

MAPS = 'maps(rows=3, columns=3, max_moves=12)'


def stored(folder, world: core.World, *chunks: core.Sequences) -> stores.Store:
  about = sampling.describe(world, 0, 'train', 1)
  stores.write(folder, chunks, about)
  return stores.open(folder)


def brute(world, train: core.Sequences, held: core.Sequences):
  """(share of prefixes, share of states) by sets of Python tuples."""

  def prefixes(sequences):
    for row, length in zip(sequences.tokens, sequences.lengths, strict=True):
      for k in range(1, length + 1):
        yield tuple(row[:k].tolist())

  def states(sequences):
    for prefix in prefixes(sequences):
      state = world.init(1)
      for token in prefix:
        state = world.advance(state, np.array([token], np.int32))
      if (name := int(world.state_id(state)[0])) != core.DEAD:
        yield name

  shown = {*prefixes(train)}
  mine = [prefix in shown for prefix in prefixes(held)]
  visited, expected = {*states(train)}, {*states(held)}
  return np.mean(mine), len(expected & visited) / len(expected)


@pytest.mark.parametrize(
  'spec', [MAPS, MAPS[:-1] + ", traversal='shortest')", 'othello(size=4)']
)
def test_shares_are_those_of_brute_force(tmp_path, spec):
  world = registry.make('world', spec)
  train, held = world.sample(15, 1, 'train'), world.sample(12, 2, 'heldout')
  result = exposure.measure(
    world,
    stored(tmp_path / 'train', world, train),
    stored(tmp_path / 'held', world, held),
  )
  prefixes, states = brute(world, train, held)
  assert 0 < prefixes < 1
  assert 0 < states < 1
  assert result['prefixes_shown'] == pytest.approx(prefixes, abs=1e-12)
  assert result['states_shown'] == pytest.approx(states, abs=1e-12)
  assert result['heldout_prefixes'] == held.lengths.sum()


def test_the_same_data_show_all_and_other_words_none(tmp_path):
  world = registry.make('world', MAPS)
  both = world.sample(30, 1)
  store = stored(tmp_path / 'both', world, both)
  result = exposure.measure(world, store, store)
  assert (result['prefixes_shown'], result['states_shown']) == (1, 1)
  origin = both.tokens[:, 0]
  parts = origin <= np.median(origin), origin > np.median(origin)
  apart = [
    stored(tmp_path / str(k), world, both.take(rows))
    for k, rows in enumerate(parts)
  ]
  result = exposure.measure(world, *apart)
  assert result['prefixes_shown'] == 0
  assert result['compared'] == parts[0].sum()


def test_equal_sequences_count_once(tmp_path):
  world = registry.make('world', MAPS)
  rows = world.sample(20, 1)
  few = rows.take(np.array([0, 1, 1, 5, 0]))
  counts = exposure.counts(stored(tmp_path / 'few', world, few, few))
  distinct = {
    tuple(t[:n].tolist()) for t, n in zip(few.tokens, few.lengths, strict=True)
  }
  assert counts == (10, len(distinct), 2 * few.lengths.sum())


def test_shares_of_large_data_are_of_the_first_sequences(tmp_path):
  world = registry.make('world', MAPS)
  train, held = world.sample(40, 1, 'train'), world.sample(12, 2, 'heldout')
  stored_train = stored(tmp_path / 'train', world, train)
  most = int(train.lengths[:10].sum())
  result = exposure.measure(
    world, stored_train, stored(tmp_path / 'held', world, held), most
  )
  assert (result['compared'], result['sequences']) == (10, 40)
  prefixes, states = brute(world, train.take(np.arange(10)), held)
  assert result['prefixes_shown'] == pytest.approx(prefixes, abs=1e-12)
  assert result['states_shown'] == pytest.approx(states, abs=1e-12)
  assert exposure.compared(stored_train, 1) == 1


def test_the_training_loss_is_of_the_steps_up_to_the_checkpoint(tmp_path):
  lines = [
    '{"step": 100, "loss_moves": 9.0, "tokens": 50}',
    '{"step": 150, "loss_moves": 1.0, "tokens": 10}',
    '{"step": 300, "loss_moves": 4.0, "tokens": 30}',
    '{"step": 300, "heldout_loss_moves": 7.0, "heldout_tokens": 5}',
    '{"step": 310, "loss_moves": 8.0, "tokens": 90}',
  ]
  (tmp_path / 'metrics.jsonl').write_text('\n'.join(lines) + '\n')
  assert run_log.training_loss(tmp_path, 300) == (10 + 120) / 40
  assert run_log.training_loss(tmp_path, 90) is None
  assert run_log.training_loss(tmp_path, None) is None
