"""Loops over tokens on the host, and as one program on the device.

Host and device take turns in one process. On a CPU the lines say which of the
two is the default there, see `wm.evaluation.engine`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tests.bench import harness
from tests.evaluation import loops
from wm import core
from wm.core import accept as rules
from wm.core import registry
from wm.evaluation import context, engine, prefix_pairs

RUNS = 5


def _turns(
  name: str,
  unit: str,
  num: int,
  host: Callable[[], Any],
  device: Callable[[], Any],
) -> harness.Line:
  """The device's rate by wall time, and its ratio to the host's."""
  result = harness.in_turns({'host': host, 'device': device}, RUNS)
  return harness.compared(
    name,
    num / result['device'].wall,
    f'{unit}/s',
    *(result['device'], result['host'], 'the host, in turn'),
    clock='wall',
  )


def _sampling(
  name: str, predictor: core.Predictor, world: core.World, num: int
) -> harness.Line:
  """Compression trials, every continuation to its end."""
  states = world.sample_states(num, 0)
  pairs = prefix_pairs.prefix_pairs(world, states, states, seed=0, attempts=32)
  rule = rules.epsilon(0.01)
  trials = context.Trials(predictor, world, pairs, rule, rule)

  def sampled(place: str) -> engine.Continuations:
    with loops.on(place):
      return engine.sample_and_check(trials, 30)

  tokens = int(sampled('host').lengths.sum())
  return _turns(
    f'suffixes sampled on the device, {name}',
    'tokens',
    tokens,
    lambda: sampled('host'),
    lambda: sampled('device'),
  )


def bench_device_sampling() -> Iterator[harness.Line]:
  """Tables, where bits are the same; networks, small and less small."""
  world = registry.make('world', 'lattice(length=100)')
  for spec in ('oracle', 'noisy_oracle'):
    predictor = registry.make('model', spec).predictor(world, 0)
    yield _sampling(f'{spec} on a lattice', predictor, world, 100)
  for spec in (
    'rnn(layers=2, width=64)',
    'transformer(layers=2, width=64)',
    'transformer(layers=4, width=256)',
  ):
    predictor = registry.make('model', spec).predictor(world, 0)
    yield _sampling(f'{spec}', predictor, world, 16)
