"""Sampling with cached keys against reading whole sequences at every token."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np

from tests.bench import harness
from wm import core
from wm.core import accept as rules
from wm.core import basics, registry

SIZES = ('layers=4, width=128, heads=4', 'layers=12, width=768, heads=12')
VOCAB, LONGEST, PREFIX, SAMPLES = 4589, 102, 42, 30
DRAW = rules.epsilon(0.0)  # Every token may be drawn: none ends early.


def _predictor(size: str) -> core.Predictor:
  from wm.models.nn import network
  from wm.models.serving import networks

  model = registry.make('model', f'transformer({size}, context=1024)')
  shape = network.NetworkSpec(model, VOCAB, LONGEST)
  params = network.init(shape, 0)
  return networks.NetworkPredictor(model, params, VOCAB, core.DEAD, LONGEST)


def _cached(predictor: core.Predictor, prefixes: np.ndarray, steps: int):
  lengths = np.full(len(prefixes), PREFIX)
  core.sample(
    predictor,
    prefixes,
    lengths,
    num=SAMPLES,
    max_len=PREFIX + steps,
    seeds=np.arange(len(prefixes)),
    accept=DRAW,
  )


def _recomputed(predictor: core.Predictor, prefixes: np.ndarray, steps: int):
  """The same draws, from log-probabilities of the whole sequences."""
  rows = np.repeat(prefixes, SAMPLES, axis=0)
  seeds = np.repeat(np.arange(len(prefixes)), SAMPLES)
  branch = np.tile(np.arange(SAMPLES), len(prefixes))
  for k in range(steps):
    lengths = np.full(len(rows), PREFIX + k)
    last = predictor.log_probs(rows, lengths)[:, -1]
    drawn = DRAW.draw(last, basics.uniforms(seeds, branch, k))
    rows = np.concatenate([rows, drawn[:, None]], axis=1)


def _rate(run: Callable[[int], None], steps: int, tokens: int):
  """Tokens per CPU-second, and wall seconds by which a first run is longer."""
  wall = time.perf_counter()
  run(steps)
  first = time.perf_counter() - wall
  start, wall = time.process_time(), time.perf_counter()
  run(steps)
  later = time.perf_counter() - wall
  return tokens / (time.process_time() - start), max(first - later, 0.0)


def bench_sampling() -> Iterator[harness.Line]:
  """Tokens per CPU-second after prefixes of 42 tokens, 30 samples each."""
  rng = np.random.default_rng(0)
  for size, rows, few in zip(SIZES, (16, 8), (3, 2), strict=True):
    predictor = _predictor(size)
    prefixes = rng.integers(1, VOCAB, (rows, PREFIX)).astype(np.int32)
    full = LONGEST - PREFIX
    cached, first = _rate(
      lambda n, p=predictor, x=prefixes: _cached(p, x, n),
      full,
      rows * SAMPLES * full,
    )
    sample = prefixes[:1]
    plain, _ = _rate(
      lambda n, p=predictor, x=sample: _recomputed(p, x, n), few, SAMPLES * few
    )
    yield harness.Line(
      name=f'sampling, transformer({size})',
      value=cached,
      unit='tokens/CPU-s',
      baseline='whole sequences read again for each token, same run',
      ratio=cached / plain,
      compile_s=first,
    )
