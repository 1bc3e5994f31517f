"""State labels made with each batch, and what the state objective costs."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator

import numpy as np

from tests.bench import chess_bench, harness
from wm import core
from wm.core import registry

GAMES, PLIES = 128, 128


def _python_labels(world: core.World, games: core.Sequences) -> np.ndarray:
  """Labels [N, L, 75] of games by python-chess, replayed move by move."""
  peer, _ = chess_bench.python_chess()
  shape = (*games.tokens.shape, len(world.heads.sizes))
  labels = np.zeros(shape, np.uint8)
  for n, (row, length) in enumerate(
    zip(games.tokens, games.lengths, strict=True)
  ):
    board = peer.Board()
    labels[n, 0] = chess_bench.python_labels(board)
    for k in range(1, int(length)):
      board.push_uci(world.vocab[row[k]])
      labels[n, k] = chess_bench.python_labels(board)
  return labels


def bench_state_labels() -> Iterator[harness.Line]:
  """Labels of a batch of games, by plies; the published way replays them."""
  world = registry.make('world', f'chess(length={PLIES})')
  games = world.sample(GAMES, 0)
  sample = games.take(np.arange(8))
  start = time.process_time()
  expected = _python_labels(world, sample)
  slow = (time.process_time() - start) / sample.lengths.sum()
  result = world.sequence_labels(sample.tokens, sample.lengths)
  assert (result == expected).all()
  done = harness.measure(
    lambda: world.sequence_labels(games.tokens, games.lengths), 9
  )
  rate = games.lengths.sum() / done.cpu
  yield harness.Line(
    'state labels of chess batches on the fly',
    rate,
    'plies/CPU-s',
    chess_bench.python_chess()[1],
    rate * slow,
    done.compile_s,
    'at least 1,000,000',
  )


def bench_state_feed() -> Iterator[harness.Line]:
  """Batches from a store with and without labels, by plies."""
  from wm.data import batches, sampling, store
  from wm.options.calls import Sampling
  from wm.training import loop, state

  world = registry.make('world', f'chess(length={PLIES})')
  with tempfile.TemporaryDirectory() as out:
    sampling.make_dataset(world, out, Sampling(num=2000, num_heldout=1, seed=0))
    source = batches.Batches(
      store.open(f'{out}/data/train'), 32, 0, 'buckets', loop.MULTIPLE
    )
    mesh, costs = state.mesh(1, 1), {}
    for labelled in (None, world):
      step, tokens = 0, 0

      def act(labelled: core.World | None = labelled) -> None:
        nonlocal step, tokens
        rows = source.at(step)
        loop.place_batch(mesh, *rows, labelled)
        step, tokens = step + 1, tokens + int(rows[1].sum())

      act()
      step = tokens = 0
      start = time.process_time()
      for _ in range(60):
        act()
      costs[labelled is not None] = tokens / (time.process_time() - start)
  yield harness.Line(
    'batches with state labels, from disk to device',
    costs[True],
    'plies/CPU-s',
    'batches without labels, same run',
    costs[True] / costs[False],
  )
