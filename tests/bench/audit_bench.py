"""The exact audit of a city, beside the same questions asked one by one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.bench import harness
from wm import core
from wm.core import accept as rules
from wm.core import registry
from wm.metrics import audit

CITY, MODEL = 'maps(rows=8, columns=8)', 'transformer(layers=2, width=64)'


def _by_the_row(
  predictor: core.Predictor, world: core.Prefixed, questions: int
) -> float:
  """Share of states with exactly the legal tokens, one call of the model each.

  Every call has the same shape, so that one program is compiled.
  """
  asked = audit.questions(world, 10_000, 1, 0)
  rule, right = rules.epsilon(0.01), 0
  legal = world.legal(asked.states)
  for row in range(questions):
    tokens, lengths = (
      asked.prefixes.tokens[[row]],
      asked.prefixes.lengths[[row]],
    )
    last = np.asarray(predictor.log_probs(tokens, lengths))[0, lengths[0] - 1]
    right += bool((rule.mask(last) == legal[row]).all())
  return right / questions


def bench_audit() -> Iterator[harness.Line]:
  """CPU-seconds of all 4,356 pairs of an 8 x 8 city, 2 x 64 transformer."""
  world = registry.make('world', CITY)
  predictor = registry.make('model', MODEL).predictor(world, 0)
  whole, few = audit.Metric(prefixes=1), 200
  timings = harness.in_turns(
    {
      'audit': lambda: whole(predictor, world, 0),
      'rows': lambda: _by_the_row(predictor, world, few),
    },
    runs=3,
  )
  states = len(audit.questions(world, 10_000, 1, 0).states)
  mine, rows = timings['audit'], timings['rows']
  yield harness.Line(
    name='audit of all states, maps(8, 8), 2 x 64',
    value=mine.cpu,
    unit='CPU-s',
    baseline='a call for each state, same run',
    ratio=rows.cpu / few * states / mine.cpu,
    compile_s=mine.compile_s,
    target='at most 20 CPU-s',
  )
