"""The world as a predictor, against the other predictors without training."""

from __future__ import annotations

import csv
import pathlib
import tempfile
from collections.abc import Iterator

import numpy as np

from tests.bench import harness
from wm import core
from wm.core import registry
from wm.metrics import compression

WALKS = 20_000


def _seconds(
  predictor: core.Predictor, world: core.World, accept: str, num: int
) -> harness.Timing:
  metric = compression.Metric(trials=num, accept=accept)
  return harness.measure(lambda: metric(predictor, world, 0), runs=2)


def bench_oracle() -> Iterator[harness.Line]:
  """Compression on Manhattan: the same trials by each predictor.

  By epsilon(0.01) the uniform predictor accepts nothing, and no trial begins:
  it is compared where every token that is possible at all is accepted.
  """
  world = harness.manhattan_world()
  made = {
    name: registry.make('model', f'{name}()')
    for name in ('oracle', 'ngram', 'uniform')
  }
  oracle = made['oracle'].predictor(world, 0)
  ngram = made['ngram'].fit([world.sample(WALKS, 0)], world)
  uniform = made['uniform'].predictor(world, 0)
  for name, accept, num, other in (
    ('ngram', 'epsilon(0.01)', 100, ngram),
    ('uniform', 'epsilon(0.0)', 5, uniform),
  ):
    ours, theirs = (_seconds(p, world, accept, num) for p in (oracle, other))
    yield harness.compared(
      f'oracle, {num} compression trials, {accept}',
      ours.cpu,
      'CPU-s',
      *(ours, theirs, f'{name}(), same trials'),
      target='more than 1',
    )


def bench_large_map() -> Iterator[harness.Line]:
  """A generated city of 101,116 intersections, in a first call: CPU-s."""
  spec = 'maps(rows=318, columns=318)'
  for metric, seconds in (('compression(trials=20)', 6), ('detour(num=10)', 3)):
    world = registry.make('world', spec)
    oracle = registry.make('model', 'oracle()').predictor(world, 0)
    measure = registry.make('metric', metric)
    timing = harness.measure(
      lambda m=measure, p=oracle, w=world: m(p, w, 0), runs=1
    )
    yield harness.Line(
      name=f'oracle on {spec}, {metric}',
      value=timing.cpu,
      unit='CPU-s',
      compile_s=timing.compile_s,
      target=f'at most {seconds} s',
    )
  spec = "maps(rows=318, columns=318, max_moves=20, traversal='shortest')"
  planned = registry.make('world', spec)
  timing = harness.measure(lambda: planned.sample(2000, 0), runs=1)
  yield harness.Line(
    f'2,000 shortest paths of {spec}',
    timing.cpu,
    'CPU-s',
    compile_s=timing.compile_s,
    target='at most 5 s',
  )


def bench_large_automaton() -> Iterator[harness.Line]:
  """An automaton of a million states, from a CSV file of 2,000,002 rows."""
  size = 1_000_000
  following = np.random.default_rng(0).integers(0, size, size).tolist()
  with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder, 'automaton.csv')
    with path.open('w') as file:
      file.write('state,symbol,next\ns0,,start\ns5,,accepting\n')
      for state, other in enumerate(following):
        file.write(f's{state},a,s{(state + 1) % size}\ns{state},b,s{other}\n')

    def read() -> None:
      with path.open() as file:
        for _ in csv.reader(file):
          pass

    def make() -> None:
      world = registry.make('world', f"automaton(file='{path}', length=40)")
      assert len(world.delta) == size + 1

    timings = harness.in_turns({'make': make, 'read': read}, 1)
  yield harness.compared(
    'automaton of 1,000,000 states from CSV',
    timings['make'].cpu,
    'CPU-s',
    *(timings['make'], timings['read']),
    "the standard library's reader of the same file, in turn",
    target='5 CPU-s',
  )
