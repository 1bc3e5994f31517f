"""Compression trials at GPT-2-small size, in CPU-seconds each."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator

import numpy as np

from tests.bench import harness
from wm import core
from wm.core import accept as rules
from wm.core import registry
from wm.evaluation import engine

SAMPLES, PREFIX, LONGEST = 30, 42, 102


def _predictor(world: core.World) -> core.Predictor:
  model = registry.make('model', 'transformer(layers=12, width=768, heads=12)')
  return model.predictor(world, 0)


def _prefixes(world: core.World, num: int) -> tuple[np.ndarray, np.ndarray]:
  """Different random walks [T, 2, PREFIX], and their lengths."""
  found = world.sample(20 * num, 0)
  rows = found.tokens[found.lengths > PREFIX][: 2 * num, :PREFIX]
  return rows.reshape(num, 2, PREFIX), np.full((num, 2), PREFIX, np.int32)


def _trials(
  predictor: core.Predictor,
  prefixes: tuple[np.ndarray, np.ndarray],
  accept: rules.Accept,
) -> engine.Pairs:
  return engine.pairs(
    predictor,
    *prefixes,
    num=SAMPLES,
    max_len=LONGEST,
    seeds=np.arange(len(prefixes[1])),
    accept=accept,
    decide=True,
  )


def _timed(
  name: str,
  predictor: core.Predictor,
  prefixes: tuple[np.ndarray, np.ndarray],
  accept: rules.Accept,
) -> tuple[harness.Line, engine.Pairs]:
  start = time.perf_counter()
  # A whole trial: longer continuations are a program of their own.
  _trials(predictor, tuple(array[:1] for array in prefixes), accept)
  first = time.perf_counter() - start
  start, wall = time.process_time(), time.perf_counter()
  found = _trials(predictor, prefixes, accept)
  cost = (time.process_time() - start) / len(prefixes[1])
  later = time.perf_counter() - wall
  line = harness.Line(
    name=name,
    value=cost,
    unit='CPU-s/trial',
    compile_s=max(first - later, 0.0),
  )
  return line, found


def bench_compression() -> Iterator[harness.Line]:
  """Every suffix sampled and checked; then trials that are decided early."""
  folder = harness.manhattan()
  world = registry.make(
    'world',
    f"maps(nodes='{folder}/nodes.csv', edges='{folder}/edges.csv', "
    "traversal='random')",
  )
  predictor = _predictor(world)
  whole, found = _timed(
    'compression trial, all suffixes to the end',
    predictor,
    _prefixes(world, 4),
    rules.epsilon(0.0),  # Accepts whatever is drawn.
  )
  # A rare `end` apart, all run from 42 to 102 tokens.
  if (found.lengths == LONGEST - PREFIX).mean() < 0.9:
    raise AssertionError('suffixes ended early: this is not the full work')
  yield whole
  line, found = _timed(
    'compression trial, decided early',
    predictor,
    _prefixes(world, 32),
    rules.top_k(4),
  )
  if not (found.status == engine.REFUSED).any(1).all():
    raise AssertionError('a trial was not decided early')
  yield dataclasses.replace(
    line,
    baseline='all suffixes to the end, same run',
    ratio=whole.value / line.value,
  )
