"""Runs benchmarks: `python -m tests.bench [NAME ...]`, a JSON object a line.

Each NAME selects by part of a name; --list prints the names. Programs are
compiled as users have them, so a machine that does other work too gives rates
that are low, and ratios that are fair.
"""

import dataclasses
import importlib
import json
import pathlib
import sys

from tests.bench import harness
from wm.runtime import compute


def benches() -> dict:
  """Name -> function, from every `*_bench.py` beside this file."""
  found = {}
  for path in sorted(pathlib.Path(__file__).parent.glob('*_bench.py')):
    module = importlib.import_module(f'tests.bench.{path.stem}')
    for name, value in vars(module).items():
      if name.startswith('bench_'):
        found[name.removeprefix('bench_')] = value
  return found


def main(argv: list[str]) -> int:
  """Prints the lines; 2 where no benchmark has that name."""
  compute.keep_freed_memory()  # As the binaries do, and for the baselines too.
  found = benches()
  if {'--help', '--list'} & {*argv}:
    print(__doc__ if '--help' in argv else '\n'.join(found))
    return 0
  for part in argv:
    if not any(part in name for name in found):
      print(
        f'error: no benchmark is named {part!r}; available: '
        + ', '.join(found),
        file=sys.stderr,
      )
      return 2
  chosen = [n for n in found if not argv or any(part in n for part in argv)]
  for name in chosen:
    try:
      for line in found[name]():
        print(json.dumps(dataclasses.asdict(line)), flush=True)
    except harness.Skip as why:
      print(f'skipped {name}: {why}', file=sys.stderr)
  return 0


if __name__ == '__main__':
  sys.exit(main(sys.argv[1:]))
