"""Networks adapted to many data sets: side by side, and one by one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.bench import harness
from wm import core
from wm.core import registry
from wm.models.serving import adapted

SETS, EXAMPLES, STEPS = 16, 25, 10


def bench_adapting() -> Iterator[harness.Line]:
  """A transformer of 2 x 64 on a lattice; labels at random places."""
  world = registry.make('world', 'lattice()')
  model = registry.make('model', 'transformer(layers=2, width=64)')
  predictor = model.predictor(world, 0)
  rng = np.random.default_rng(0)
  tokens = world.sample(SETS * EXAMPLES, 0).tokens
  tokens = tokens.reshape(SETS, EXAMPLES, -1)
  places = rng.integers(0, 99, (SETS, EXAMPLES, 1)).astype(np.int32)
  labels = rng.integers(0, 2, (SETS, EXAMPLES, 1, 1))
  sets = core.Sets(tokens, places, labels)
  asked = core.Asked(tokens[:, :1], places[:, :1])
  given = predictor.spec, predictor.placed(predictor.devices[0]), sets, asked

  def run(chunk: int, at_once: int) -> harness.Timing:
    asked = core.Classes(2), (STEPS,), 0, core.TUNING, chunk, at_once
    return harness.measure(lambda: adapted.adapt(*given, *asked), runs=3)

  together, alone = run(0, 0), run(1, 1)
  read = STEPS * int((places + 1).sum())
  yield harness.compared(
    'adapting 2 x 64, 16 data sets of 25',
    read / together.wall,
    'tokens/s up to the labels',
    *(together, alone, 'one by one'),
    clock='wall',
    target='1.3 x',
  )
