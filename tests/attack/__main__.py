"""Runs all cases, prints what failed and the table.

  python -m tests.attack
  python -m tests.attack --only='folders/' --show
  python -m tests.attack --every=10 --json

--every=N runs one in N of each category, and --part=K which of them.
"""

from __future__ import annotations

import argparse
import collections
import os
import pathlib
import sys
import tempfile

from tests import compiler

# Before JAX and NumPy are imported.
os.environ.setdefault('JAX_PLATFORMS', 'cpu')
os.environ.setdefault('XLA_FLAGS', compiler.flags())
os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')
# Programs are compiled once for all children.
_COMPILED = tempfile.TemporaryDirectory(prefix='wm-attack-')
os.environ.setdefault('JAX_COMPILATION_CACHE_DIR', _COMPILED.name)
os.environ.setdefault('JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS', '0.05')
os.environ.setdefault('JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES', '-1')

from tests.attack import cases, runner  # noqa: E402


def chosen(options: argparse.Namespace) -> list[cases.Case]:
  """The cases that are asked for."""
  counts: collections.Counter[str] = collections.Counter()
  taken = []
  for case in cases.all():
    counts[case.category] += 1
    if counts[case.category] % options.every == options.part % options.every:
      taken.append(case)
  return [case for case in taken if options.only in case.title]


def main() -> int:
  """Exit code: were all passed?"""
  parser = argparse.ArgumentParser(
    'tests.attack', description=__doc__.partition('\n')[0]
  )
  add = parser.add_argument
  add('--only', default='', help="cases whose 'category/name' holds this")
  add('--every', type=int, default=1, help='one case in so many')
  add('--part', type=int, default=1, help='which of them, with --every')
  add('--json', action='store_true', help='a line of JSON for each case')
  add('--show', action='store_true', help='what each case prints')
  add('--list', action='store_true', help='names of the cases, run none')
  options = parser.parse_args()
  picked = chosen(options)
  if options.list:
    print(*(case.title for case in picked), sep='\n')
    return 0
  runner.warm()
  results, skipped = [], collections.Counter[str]()
  with tempfile.TemporaryDirectory(prefix='wm-attack-') as folder:
    os.chmod(folder, 0o755)
    for number, case in enumerate(picked):
      if runner.skipped(case):
        skipped[case.needs or 'root'] += 1
        continue
      place = pathlib.Path(folder, str(number), 'case')
      result = runner.run(case, place)
      results.append(result)
      if options.json:
        print(runner.as_json(result), flush=True)
      elif result.faults or options.show:
        print(*_lines(result), sep='\n', flush=True)
  if not options.json:
    print(table(results))
    print(
      *(f'{n} left out: no {what}' for what, n in skipped.items()), sep='\n'
    )
  return int(any(result.faults for result in results))


def _lines(result: runner.Result) -> list[str]:
  head = f'{result.case.title} ({result.seconds:.1f} s)'
  if not result.faults:
    return [f'{head}: {result.err.strip()}']
  run = result.case.run
  line = '' if callable(run) else f'    {" ".join(run)[:300]!r}'
  return [f'FAILED {head}', line, *(f'    {f}' for f in result.faults)]


def table(results: list[runner.Result]) -> str:
  """Category, cases, passed; and processor time."""
  titles = dict.fromkeys(result.case.category for result in results)
  of = {
    name: [r for r in results if r.case.category == name] for name in titles
  }
  lines = ['| bad input | cases | passed |', '| --- | ---: | ---: |']
  for name, several in {**of, 'all': results}.items():
    passed = sum(not result.faults for result in several)
    lines.append(f'| {name} | {len(several)} | {passed} |')
  seconds = sum(result.seconds for result in results)
  return '\n'.join([*lines, f'{seconds:.0f} s of processor time'])


if __name__ == '__main__':
  sys.exit(main())
