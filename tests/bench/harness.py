"""What a benchmark file needs: timing, and the line it reports.

A file `<topic>_bench.py` holds functions named `bench_<name>()`, each giving
an iterable of `Line`. They measure themselves and, where there is one, a named
baseline in the same run; a `Skip` says why one cannot run here.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

MANHATTAN = (
  pathlib.Path(
    os.environ.get(
      'WM_TESTDATA',
      pathlib.Path(__file__).resolve().parents[3] / 'shared' / 'data',
    )
  )
  / 'manhattan'
)


class Skip(RuntimeError):
  """This benchmark cannot run here; the message says why."""


@dataclasses.dataclass(frozen=True)
class Line:
  """One measurement.

  Attributes:
    name: what was measured.
    value: the measurement, in `unit`.
    unit: e.g. 'sequences/s', 'CPU-s/trial'.
    baseline: what `ratio` compares with, run by the same process at its best
      setting, e.g. 'scipy 1.17, same run'; '' where nothing is.
    ratio: how many times better than the baseline (above 1 is better); None
      without one. A figure of another run is no baseline.
    compile_s: seconds of the first call beyond a later one; 0 if none.
    target: the ratio or value aimed at, as text.
    share: of training, its rate beside that of its matrix products alone.
  """

  name: str
  value: float
  unit: str
  baseline: str = ''
  ratio: float | None = None
  compile_s: float = 0.0
  target: str = ''
  share: str = ''

  def __post_init__(self) -> None:
    if (self.ratio is None) != (not self.baseline):
      raise ValueError(f'{self.name}: a ratio and its baseline go together')


@dataclasses.dataclass(frozen=True)
class Timing:
  """Medians over runs, in seconds; `first` is the first call's wall time."""

  wall: float
  cpu: float
  first: float

  @property
  def compile_s(self) -> float:
    """First call beyond a later one."""
    return max(self.first - self.wall, 0.0)

  def by(self, clock: str) -> float:
    """Seconds by 'cpu' or 'wall'."""
    return {'cpu': self.cpu, 'wall': self.wall}[clock]


def measure(function: Callable[[], Any], runs: int = 5) -> Timing:
  """Times a call after a first one that compiles; CPU is this process's."""
  return in_turns({'': function}, runs)['']


def in_turns(
  functions: Mapping[str, Callable[[], Any]], runs: int = 5
) -> dict[str, Timing]:
  """As `measure`; calls take turns, so that all see the same machine."""
  first = {name: _spent(function)[0] for name, function in functions.items()}
  spent: dict[str, list[tuple[float, float]]] = {name: [] for name in functions}
  for _ in range(runs):
    for name, function in functions.items():
      spent[name].append(_spent(function))
  return {
    name: Timing(*map(statistics.median, zip(*each, strict=True)), first[name])
    for name, each in spent.items()
  }


def _spent(function: Callable[[], Any]) -> tuple[float, float]:
  """Wall and CPU seconds of a call."""
  wall, cpu = time.perf_counter(), time.process_time()
  function()
  return time.perf_counter() - wall, time.process_time() - cpu


def compared(
  name: str,
  value: float,
  unit: str,
  mine: Timing,
  other: Timing,
  baseline: str,
  clock: str = 'cpu',
  target: str = '',
) -> Line:
  """The line of a timing beside that of a baseline, by 'cpu' or 'wall'."""
  return Line(
    name=name,
    value=value,
    unit=unit,
    baseline=f'{baseline}, same run',
    ratio=other.by(clock) / mine.by(clock),
    compile_s=mine.compile_s,
    target=target,
  )


def rated(
  name: str,
  unit: str,
  num: int,
  run: Callable[[], Any],
  few: int,
  plain: Callable[[], Any],
  target: str = '',
) -> Line:
  """`num` things a CPU-second, against the plain reference on `few` of them."""
  timing = measure(run)
  rate = num / timing.cpu
  return Line(
    name=name,
    value=rate,
    unit=f'{unit}/CPU-s',
    baseline='plain reference, same run',
    ratio=rate / (few / measure(plain, 1).cpu),
    compile_s=timing.compile_s,
    target=target,
  )


def manhattan_world(traversal: str = 'random') -> Any:
  """Routes on Manhattan; raises Skip where the data is absent."""
  from wm.core import registry

  folder = manhattan()
  files = f"nodes='{folder}/nodes.csv', edges='{folder}/edges.csv'"
  return registry.make('world', f'maps({files}, traversal={traversal!r})')


def manhattan() -> pathlib.Path:
  """The Manhattan data folder; raises Skip where it is absent."""
  if not MANHATTAN.is_dir():
    raise Skip(f'no Manhattan data at {MANHATTAN} (set WM_TESTDATA)')
  return MANHATTAN
