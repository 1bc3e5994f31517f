"""Reconstruction of Manhattan from 6,400 sequences."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.bench import harness
from tests.kernels.maps import reconstruction_ref
from wm.data import text
from wm.options.calls import Reconstruction
from wm.recon import reconstruct, routes
from wm.worlds.maps import streets


def _input() -> tuple[streets.StreetGraph, routes.Routes]:
  world = harness.manhattan_world('shortest')
  path = harness.manhattan() / 'shortest' / 'samples.txt'
  samples = text.read(path, world)
  return world.graph, routes.extract(samples, world)[0]


def bench_reconstruction() -> Iterator[harness.Line]:
  """All 6,400 sequences, candidates within reach included; one core."""
  graph, result = _input()
  num = len(result.origins)
  options = Reconstruction()

  def run() -> reconstruct.UsedEdges:
    return reconstruct.reconstruct(graph, result, options)

  def plain() -> reconstruct.UsedEdges:
    inputs = reconstruct.problem(graph, result, options)
    return reconstruction_ref.reconstruct(inputs)

  fast = harness.measure(run)
  slow = harness.measure(plain, runs=1)
  first, other = run(), plain()
  same = all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))
  if not same:
    raise AssertionError('the compiled kernel differs from the reference')
  yield harness.compared(
    'reconstruction',
    num / fast.cpu,
    'sequences/CPU-s',
    *(fast, slow, 'plain Python reference'),
  )


def bench_reconstruction_measures() -> Iterator[harness.Line]:
  """Bearings, lengths and crossings of all edges; one core."""
  graph, result = _input()
  edges = reconstruct.reconstruct(graph, result, Reconstruction())
  whole = harness.measure(lambda: reconstruct.edge_table(graph, result, edges))
  once = harness.measure(
    lambda: reconstruct.reconstruct(graph, result, Reconstruction())
  )
  yield harness.compared(
    'reconstruction measures',
    whole.wall,
    's',
    *(whole, once, 'the reconstruction'),
  )
