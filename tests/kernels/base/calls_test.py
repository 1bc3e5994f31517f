"""Compiled work comes back to Python in pieces, which change no result."""

import time

import numpy as np

from wm.core import basics, registry
from wm.kernels import chess, dfa, othello, othello_games, pgn
from wm.kernels.base import calls
from wm.kernels.maps import paths
from wm.options.calls import Reconstruction
from wm.recon import reconstruct, routes


def test_pieces_cover_all_rows_once():
  for num in (0, 1, 63, 64, 65, 100_000):
    results = list(calls.slices(num))
    assert results[0].start == 0
    assert results[-1].stop == num
    stops = [sample.stop for sample in results]
    assert stops[:-1] == [sample.start for sample in results[1:]]


def test_pieces_are_about_as_long_as_wanted(monkeypatch):
  now = [0.0]
  monkeypatch.setattr(time, 'monotonic', lambda: now[0])
  result = []
  for sample in calls.slices(10_000):
    result.append(sample.stop - sample.start)
    now[0] += result[-1] * 0.001  # A millisecond a row.
  assert result[:3] == [64, 256, 300]
  assert max(result) <= calls.SECONDS / 0.001 + 1


def _everything():
  """Results of every kernel whose rows are given in pieces."""
  city = registry.make('world', 'maps(rows=14, columns=14)')
  delta, lengths = city.graph.delta, np.where(city.graph.delta < 0, 0, 1.5)
  games = othello_games.play(90, 3, size=6)
  sample = chess.play(80, 5, most=30)
  text = b' '.join(b'1. e4 e5 2. Nf3' for _ in range(80))
  starts = np.arange(80) * 16
  walks = city.sample(90, 0)
  read, _ = routes.extract(walks, city)
  placed = reconstruct.reconstruct(
    city.graph, read, Reconstruction(max_degree=3)
  )
  return [
    *games,
    *othello_games.play(3, 1, 4, 6, 'search', depth=2),
    *othello.replay(*games, 6),
    othello.replay_labels(*games, 6),
    othello_games.transpositions(*games, basics.hash64(1, np.arange(90)), 6, 1),
    *sample,
    *chess.replay(*sample[:2]),
    chess.outcomes(*sample[:2]),
    chess.transpositions(
      *sample[:2], basics.hash64(2, np.arange(80)), sweeps=1
    ),
    *pgn.read(text, starts, starts + 15),
    paths.hops(delta),
    paths.dijkstra(delta, lengths),
    *dfa.random_walks(delta, 90, 3, 9, 4),
    *placed,
  ]


def test_no_result_depends_on_the_pieces(monkeypatch):
  whole = _everything()
  monkeypatch.setattr(calls, 'SECONDS', 0.0)  # A row at a time.
  for first, other in zip(whole, _everything(), strict=True):
    np.testing.assert_array_equal(first, other)
