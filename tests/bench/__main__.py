"""Runs benchmarks: `python -m tests.bench [NAME ...]`, a JSON object a line.

Each NAME selects by part of a name; --list prints the names, and --suite=users
runs what users wait for (ten minutes). Programs are
compiled as users have them, so a machine that does other work too gives rates
that are low, and ratios that are fair.
"""

import dataclasses
import importlib
import json
import pathlib
import re
import sys

from tests.bench import harness
from wm.runtime import compute

SUITES = {
  'users': (
    *('import', 'first_calls', 'user_torch', 'user_gpt2', 'sampling'),
    *(
      'compression',
      'distinction',
      'audit',
      'large_map',
      'large_automaton',
      'user_cache',
    ),
    *('models_next', 'noisy_routes', 'prefix_lengths', 'rows_of_200_runs'),
    *('selective', 'train_small', 'train_default'),
  )
}


def benches() -> dict[str, str]:
  """Name -> module, of every `*_bench.py` beside this file.

  Nothing is imported: many need packages that are extras.
  """
  paths = sorted(pathlib.Path(__file__).parent.glob('*_bench.py'))
  return {
    name: f'tests.bench.{path.stem}'
    for path in paths
    for name in re.findall(r'^def bench_(\w+)', path.read_text(), re.M)
  }


def main(argv: list[str]) -> int:
  """Prints the lines; 2 where no benchmark has that name."""
  compute.keep_freed_memory()  # As the binaries do, and for the baselines too.
  results = benches()
  if {'--help', '--list'} & {*argv}:
    print(__doc__ if '--help' in argv else '\n'.join(results))
    return 0
  suites = {f'--suite={name}': [*names] for name, names in SUITES.items()}
  if len(argv) == 1 and argv[0] in suites:
    results = {name: results[name] for name in suites[argv[0]]}
    argv = []
  for part in argv:
    if not any(part in name for name in results):
      print(
        f'error: no benchmark is named {part!r}; available: '
        + ', '.join([*suites, *results]),
        file=sys.stderr,
      )
      return 2
  chosen = [n for n in results if not argv or any(part in n for part in argv)]
  for name in chosen:
    try:
      module = importlib.import_module(results[name])
      for line in getattr(module, f'bench_{name}')():
        print(json.dumps(dataclasses.asdict(line)), flush=True)
    except (harness.Skip, ModuleNotFoundError) as why:
      print(f'skipped {name}: {why}', file=sys.stderr)
  return 0


if __name__ == '__main__':
  sys.exit(main(sys.argv[1:]))
