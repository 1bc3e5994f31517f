"""Lists the tests of the rooms that a change reaches.

  python -m tests.reached BASE

prints the files and folders of tests/ whose subjects import, over any number of
steps, a Python file that differs from the commit BASE. Tests that start
processes run by this list, as all of them take many minutes:

  python -m pytest -m process $(python -m tests.reached HEAD~5)
"""

from __future__ import annotations

import ast
import pathlib
import subprocess
import sys
from collections.abc import Iterable, Mapping

ROOT = pathlib.Path(__file__).resolve().parents[1]
SUBJECTS = 'wm', 'launch', 'tests'
# Where other files than Python's matter, such as templates and flagfiles.
DATA = 'wm/', 'launch/', 'tests/'


def imports(root: pathlib.Path) -> dict[str, set[str]]:
  """File -> files of the tree that it imports, in functions too."""
  paths = [path for top in SUBJECTS for path in (root / top).rglob('*.py')]
  files = {path.relative_to(root).as_posix(): path for path in paths}
  return {
    name: {
      target
      for node in ast.walk(ast.parse(path.read_text(encoding='utf-8')))
      for module in _modules(node)
      if (target := _file(module, files)) and target != name
    }
    for name, path in files.items()
  }


def _modules(node: ast.AST) -> list[str]:
  if isinstance(node, ast.Import):
    return [alias.name for alias in node.names]
  if isinstance(node, ast.ImportFrom) and node.module and not node.level:
    return [f'{node.module}.{alias.name}' for alias in node.names]
  return []


def _file(module: str, files: Mapping[str, pathlib.Path]) -> str | None:
  """The file of 'package.module' or of 'package.module.name'."""
  while module:
    base = module.replace('.', '/')
    # Binaries import what is beside them by its name alone.
    for name in (f'{base}.py', f'{base}/__init__.py', f'launch/{base}.py'):
      if name in files:
        return name
    module = module.rpartition('.')[0]
  return None


def importers(
  changed: Iterable[str], imported: Mapping[str, set[str]]
) -> set[str]:
  """The changed files, and all that import one of them over any steps."""
  reached = {*changed}
  while more := {
    name
    for name, targets in imported.items()
    if name not in reached and targets & reached
  }:
    reached |= more
  return reached


def tests_of(reached: Iterable[str]) -> set[str]:
  """The tests of files: those beside their room, and those that are reached."""
  tests = set()
  for name in reached:
    top, *inner = pathlib.PurePosixPath(name).parts
    if name.endswith('_test.py'):
      tests.add(name)
    elif top == 'wm' and len(inner) > 1:
      tests.add(f'tests/{inner[0]}')
    elif top == 'launch':
      tests.add('tests/launch')
  return {
    name
    for name in tests
    if (ROOT / name).exists()
    and not tests & {*map(str, pathlib.PurePosixPath(name).parents)}
  }


def package(name: str, files: Mapping[str, set[str]]) -> str:
  """The package that a file belongs to which is no Python file."""
  for folder in pathlib.PurePosixPath(name).parents:
    if (init := f'{folder}/__init__.py') in files:
      return init
  return name


def main(base: str) -> None:
  """Prints the tests that the changes since a commit reach, one a line."""
  command = 'git', 'diff', '--name-only', base, '--'
  result = subprocess.run(
    command, cwd=ROOT, check=True, capture_output=True, text=True
  )
  changed = [x for x in result.stdout.split('\n') if x.startswith(DATA)]
  imported = imports(ROOT)
  files = [x if x.endswith('.py') else package(x, imported) for x in changed]
  print('\n'.join(sorted(tests_of(importers(files, imported)))))


if __name__ == '__main__':
  main(sys.argv[1])
