"""What a user waits for in a fresh process: imports and first calls."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator

from tests.bench import harness

IMPORT = """
import json, time
start = time.perf_counter()
import wm.core.registry, wm.worlds.othello, wm.worlds.chess
import wm.models.serving.oracles
print(json.dumps([time.perf_counter() - start]))
"""
# Two calls: the first loads a kernel from the cache, the second has it.
CALLS = """
import json, time
from wm.core import registry
world = registry.make('world', {spec!r})
times = []
for _ in range(2):
  start = time.perf_counter()
  {call}
  times.append(time.perf_counter() - start)
print(json.dumps(times))
"""
KERNELS = {
  'chess perft 3': ('chess()', 'world.count(*[world.parse("e4")[0]] * 2, 3)'),
  'chess games': ('chess()', 'world.sample(10, 0)'),
  'othello games': ('othello()', 'world.sample(10, 0)'),
  'othello trial states': ('othello()', 'world.sample_states(10, 0)'),
}


def _seconds(code: str) -> list[float]:
  """Medians over fresh processes of what the code times."""
  runs = [
    json.loads(
      subprocess.run(
        [sys.executable, '-c', code], capture_output=True, text=True, check=True
      ).stdout
    )
    for _ in range(4)
  ]
  # The first run may compile: what it leaves in the cache is what is timed.
  return [statistics.median(column) for column in zip(*runs[1:], strict=True)]


def _line(name: str, seconds: float, limit: float) -> harness.Line:
  return harness.Line(
    name=name, value=seconds, unit='s', target=f'under {limit:g} s'
  )


def bench_import() -> Iterator[harness.Line]:
  """The package, with its worlds and predictors."""
  yield _line('import of the package', _seconds(IMPORT)[0], 1.5)


def bench_first_calls() -> Iterator[harness.Line]:
  """Kernels that are compiled already, in a process that has not used them."""
  for name, (spec, call) in KERNELS.items():
    first, again = _seconds(CALLS.format(spec=spec, call=call))
    yield _line(f'{name}, first call of a cached kernel', first, 3.0)
    yield _line(f'{name}, second call', again, 0.5)
