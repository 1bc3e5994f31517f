"""Trials of compression at GPT-2-small size, of distinction at a small one."""

from __future__ import annotations

import dataclasses
import functools
import tempfile
import time
from collections.abc import Iterator

import numpy as np

import wm
from tests.bench import harness
from wm import core
from wm.core import accept as rules
from wm.core import registry
from wm.evaluation import context, engine
from wm.metrics import distinction

SAMPLES, PREFIX, LONGEST = 30, 42, 102


def _predictor(world: core.World) -> core.Predictor:
  model = registry.make('model', 'transformer(layers=12, width=768, heads=12)')
  return model.predictor(world, 0)


def _trials(
  predictor: core.Predictor, world: core.World, num: int, accept: rules.Accept
) -> context.Trials:
  """Different random walks of PREFIX tokens, two a trial."""
  result = world.sample(20 * num, 0)
  rows = result.tokens[result.lengths > PREFIX][: 2 * num, :PREFIX]
  tokens = rows.reshape(num, 2, PREFIX)
  lengths = np.full((num, 2), PREFIX, np.int32)
  ends = world.walk(world.init(2 * num), rows, lengths.reshape(-1))[1]
  first, second = ends.reshape(num, 2, -1).swapaxes(0, 1)
  pairs = context.PrefixPairs(
    *(first, second, tokens, lengths, lengths[:, 0]),
    *(np.full(num, ''), np.arange(num), {}),
  )
  return context.Trials(predictor, world, pairs, accept, accept)


def _some(trials: context.Trials, num: int) -> context.Trials:
  """The first trials of some."""
  parts = [array[:num] for array in trials.prefixes[:-1]]
  pairs = context.PrefixPairs(*parts, {})
  return dataclasses.replace(trials, prefixes=pairs)


def _timed(
  name: str, trials: context.Trials
) -> tuple[harness.Line, engine.Continuations]:
  start = time.perf_counter()
  # A whole trial: longer continuations are a program of their own.
  engine.sample_and_check(_some(trials, 1), SAMPLES, decide=True)
  first = time.perf_counter() - start
  start, wall = time.process_time(), time.perf_counter()
  result = engine.sample_and_check(trials, SAMPLES, decide=True)
  cost = (time.process_time() - start) / len(trials.rows)
  later = time.perf_counter() - wall
  line = harness.Line(
    name=name, value=cost, unit='CPU-s/trial', compile_s=max(first - later, 0.0)
  )
  return line, result


def bench_compression() -> Iterator[harness.Line]:
  """Every suffix sampled and checked; then trials that are decided early."""
  world = harness.manhattan_world()
  predictor = _predictor(world)
  whole, result = _timed(
    'compression trial, all suffixes to the end',
    # Accepts whatever is drawn.
    _trials(predictor, world, 4, rules.epsilon(0.0)),
  )
  # A rare `end` apart, all run from 42 to 102 tokens.
  if (result.lengths == LONGEST - PREFIX).mean() < 0.9:
    raise AssertionError('suffixes ended early: this is not the full work')
  yield whole
  line, result = _timed(
    'compression trial, decided early',
    _trials(predictor, world, 32, rules.top_k(4)),
  )
  if not (result.status == core.REFUSED).any(1).all():
    raise AssertionError('a trial was not decided early')
  yield dataclasses.replace(
    line,
    baseline='all suffixes to the end, same run',
    ratio=whole.value / line.value,
  )


def bench_distinction() -> Iterator[harness.Line]:
  """A small trained network; the baseline samples all suffixes side by side."""
  city = 'maps(rows=8, columns=8, max_moves=16)'
  with tempfile.TemporaryDirectory() as folder:
    wm.sample(city, folder, num=20_000, num_heldout=100)
    wm.train(city, 'transformer(layers=2, width=64)', folder, steps=400)
    loaded = wm.load_predictor(folder)
  predictor, metric = loaded.predictor, distinction.Metric(trials=200)
  lanes = predictor.session_lanes

  def score(at_once: int) -> None:
    predictor.session_lanes = at_once
    metric(predictor, loaded.world, 0)

  mine = harness.measure(lambda: score(lanes), 3)
  yield harness.compared(
    'distinction, 2 x 64',
    *(metric.trials / mine.cpu, 'trials/CPU-s'),
    *(mine, harness.measure(lambda: score(0), 3)),
    'all suffixes of a trial side by side',
    target='250 trials/CPU-s',
  )


def bench_prefix_lengths() -> Iterator[harness.Line]:
  """How time grows with the length of walks; the model accepts whole ones."""
  costs = {}
  for moves in (25, 200):
    world = registry.make(
      'world', f'maps(rows=8, columns=8, max_moves={moves})'
    )
    model = 'transformer(layers=2, width=64)'
    for name, trials in ('compression', 30), ('distinction', 30):
      score = functools.partial(wm.score, model, f'{name}({trials=})', world)
      costs[name, moves] = harness.measure(score, 2).cpu
  for name in ('compression', 'distinction'):
    growth = costs[name, 200] / costs[name, 25]
    yield harness.Line(
      f'{name}, 2 x 64, walks of 25 to 200 moves: exponent of the length',
      np.log(growth) / np.log(200 / 25),
      'exponent',
      target='at most 1.1',
    )
