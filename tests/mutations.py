"""Mutation testing: small faults in the code that the tests should find.

  python -m tests.mutations --num=100 --seed=0

Each mutation changes one place of one file: an operator, a constant, a
comparison, a boundary, or a line that is dropped. It is made in a copy of the
tree. The tests of its module run until the first failure: those in files that
import it, or are named after it. A mutation survives if all of them pass: no
test looks at that line, or the two programs do the same (`EQUIVALENT`).
Printed is a line for each, and the share that was found.
"""

import argparse
import ast
import dataclasses
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from tests import house

ROOT = house.ROOT
ROOMS = 'core', 'kernels', 'metrics', 'evaluation', 'worlds'
SWAPS = {
  ast.Lt: ('<', '<='),
  ast.LtE: ('<=', '<'),
  ast.Gt: ('>', '>='),
  ast.GtE: ('>=', '>'),
  ast.Eq: ('==', '!='),
  ast.NotEq: ('!=', '=='),
  ast.Add: ('+', '-'),
  ast.Sub: ('-', '+'),
  ast.Mult: ('*', '+'),
  ast.FloorDiv: ('//', '*'),
  ast.Div: ('/', '*'),
  ast.And: ('and', 'or'),
  ast.Or: ('or', 'and'),
}
# Mutations that change no result: (file, part of the line, old text) -> why.
EQUIVALENT: dict[tuple[str, str, str], str] = {
  (
    'wm/worlds/maps/navigation.py',
    'ids = (current + 3) * (len(self.graph) + 2) + goal + 2',
    '2',
  ): 'ids are compared with each other alone; larger strides tell apart, too'
}


@dataclasses.dataclass(frozen=True)
class Mutation:
  """One changed place.

  Attributes:
    file: from the root.
    start, end: of the changed text, in characters of the file.
    old, new: the text before and after.
    line: its number, from 1.
  """

  file: str
  start: int
  end: int
  old: str
  new: str
  line: int

  def applied(self, text: str) -> str:
    """The file with the mutation."""
    return text[: self.start] + self.new + text[self.end :]

  def __str__(self) -> str:
    return f'{self.file}:{self.line}  {self.old!r} -> {self.new!r}'


class _Places:
  """Turns the positions of a syntax tree into indices of the text."""

  def __init__(self, text: str) -> None:
    self.text, self.lines = text, text.splitlines(keepends=True)
    self.starts = [0]
    for line in self.lines:
      self.starts.append(self.starts[-1] + len(line))

  def index(self, line: int, column: int) -> int:
    """Index of a position; columns of a syntax tree count bytes."""
    before = self.lines[line - 1].encode()[:column].decode()
    return self.starts[line - 1] + len(before)

  def span(self, node: ast.AST) -> tuple[int, int]:
    """First index of a node, and the one after its last."""
    return (
      self.index(node.lineno, node.col_offset),
      self.index(node.end_lineno, node.end_col_offset),
    )


def _skipped(tree: ast.AST) -> set[ast.AST]:
  """Nodes that no result depends on: annotations, messages, docstrings."""
  outer: list[ast.AST] = []
  for node in ast.walk(tree):
    if isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert):
      outer.append(node)
    if isinstance(node, ast.AnnAssign | ast.arg) and node.annotation:
      outer.append(node.annotation)
    if isinstance(node, ast.FunctionDef):
      outer += [*node.decorator_list, *([node.returns] if node.returns else [])]
    if isinstance(node, ast.If) and 'TYPE_CHECKING' in ast.unparse(node.test):
      outer.append(node)
  return {inner for node in outer for inner in ast.walk(node)}


def mutations(file: str, text: str) -> Iterator[Mutation]:
  """Every mutation of a file."""
  tree, places = ast.parse(text), _Places(text)
  skipped = _skipped(tree)

  def change(start: int, end: int, new: str) -> Mutation:
    line = text.count('\n', 0, start) + 1
    return Mutation(file, start, end, text[start:end], new, line)

  def swap(left: ast.AST, operator: ast.AST, right: ast.AST) -> list[Mutation]:
    old, new = SWAPS.get(type(operator), ('', ''))
    start, end = places.span(left)[1], places.span(right)[0]
    at = text.find(old, start, end) if old else -1
    return [] if at < 0 else [change(at, at + len(old), new)]

  for node in ast.walk(tree):
    if node in skipped:
      continue
    if isinstance(node, ast.Compare):
      sides = [node.left, *node.comparators]
      for left, operator, right in zip(
        sides, node.ops, sides[1:], strict=False
      ):
        yield from swap(left, operator, right)
    elif isinstance(node, ast.BinOp):
      yield from swap(node.left, node.op, node.right)
    elif isinstance(node, ast.BoolOp):
      yield from swap(node.values[0], node.op, node.values[1])
    elif isinstance(node, ast.Constant) and type(node.value) in (int, bool):
      new = not node.value if isinstance(node.value, bool) else node.value + 1
      yield change(*places.span(node), str(new))
    elif isinstance(node, ast.AugAssign) or (
      isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ):
      yield change(*places.span(node), 'pass')


def tests_of(file: str) -> list[str]:
  """Test files of a module: its namesakes first, then those that import it.

  A module that no test imports is tested through the modules that import it.
  """
  tree = house.Tree()
  asked, files = {file}, []
  for _ in range(3):
    dotted = {
      name.removesuffix('.py').removesuffix('/__init__').replace('/', '.')
      for name in asked
    }
    files = [path for path in _test_files() if dotted & _imported(path)]
    if files:
      break
    asked |= {x for x, targets in tree.imports.items() if targets & asked}
  stem = pathlib.Path(file).with_suffix('').as_posix().removesuffix('/__init__')
  namesake = stem.replace('wm/', 'tests/', 1)
  # Plug-ins are found by their specs: tests/worlds/maps* of wm/worlds/maps/.
  plug_in = '/'.join(namesake.split('/')[:3])
  names = {str(path.relative_to(ROOT)) for path in files}
  names |= {
    name
    for path in _test_files()
    if (name := str(path.relative_to(ROOT))).startswith(plug_in)
  }
  return sorted(
    names, key=lambda name: (not name.startswith(namesake), len(name), name)
  )


def _test_files() -> list[pathlib.Path]:
  return sorted((ROOT / 'tests').rglob('*_test.py'))


def _imported(path: pathlib.Path) -> set[str]:
  """Dotted names that a test file imports."""
  names: set[str] = set()
  for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
    if isinstance(node, ast.Import):
      names |= {alias.name for alias in node.names}
    elif isinstance(node, ast.ImportFrom) and node.module:
      names |= {node.module, *(f'{node.module}.{a.name}' for a in node.names)}
  return names


def _run(tree: pathlib.Path, *tests: str, seconds: float) -> tuple[int, str]:
  """Exit code of pytest in a tree, and the first failed test or ''."""
  words = '-x', '-q', '-n0', '-p', 'no:cacheprovider', '-m', 'not slow'
  try:
    done = subprocess.run(
      [sys.executable, '-m', 'pytest', *words, *tests],
      cwd=tree,
      capture_output=True,
      text=True,
      timeout=seconds,
      check=False,
      env={**os.environ, 'PYTHONPATH': str(tree)},
    )
  except subprocess.TimeoutExpired:
    return -1, 'time is up'
  # Parameters may have blanks and dashes; the reason comes behind a dash.
  pattern = r'^(?:FAILED|ERROR) (\S+\[.+\]|.+?)(?: - |$)'
  failed = re.search(pattern, done.stdout, re.M)
  return done.returncode, failed[1] if failed else ''


def verdict(
  mutation: Mutation, tree: pathlib.Path, most: int, seconds: float
) -> str:
  """'found by TEST', 'survives TESTS', or why neither can be said."""
  tests = tests_of(mutation.file)[:most]
  if not tests:
    return 'no test imports it'
  path = tree / mutation.file
  text = path.read_text(encoding='utf-8')
  path.write_text(mutation.applied(text), encoding='utf-8')
  try:
    code, test = _run(tree, *tests, seconds=seconds)
  finally:
    path.write_text(text, encoding='utf-8')
  if code == 0:
    return 'survives ' + ' '.join(tests)
  if code < 0:  # It may never end, or the machine is slow.
    return f'unclear: {test}'
  # A test that fails without the mutation, too, has found nothing.
  if '::' in test and _run(tree, test, seconds=seconds)[0]:
    return f'unclear: {test} fails without it'
  return f'found by {test or "pytest"}'


def _why_equivalent(mutation: Mutation) -> str:
  """Why no test can find a mutation; '' if one could."""
  text = (ROOT / mutation.file).read_text(encoding='utf-8')
  line = text.splitlines()[mutation.line - 1]
  return next(
    (
      why
      for (file, part, old), why in EQUIVALENT.items()
      if file == mutation.file and part in line and old == mutation.old
    ),
    '',
  )


def main() -> None:
  """Prints a line for each mutation, and the share that was found."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument('--num', type=int, default=100, help='mutations')
  parser.add_argument('--seed', type=int, default=0)
  parser.add_argument('--most', type=int, default=8, help='test files of each')
  parser.add_argument('--seconds', type=float, default=300, help='of each')
  parser.add_argument('--files', default='', help='those that hold this text')
  options = parser.parse_args()
  every = [
    mutation
    for room in ROOMS
    for path in sorted((ROOT / 'wm' / room).rglob('*.py'))
    if options.files in (file := str(path.relative_to(ROOT)))
    for mutation in mutations(file, path.read_text(encoding='utf-8'))
  ]
  chosen = random.Random(options.seed).sample(
    every, min(options.num, len(every))
  )
  left_out = shutil.ignore_patterns('.git', '.venv', 'runs', '.*_cache')
  counts: dict[str, int] = {}
  with tempfile.TemporaryDirectory() as folder:
    tree = pathlib.Path(shutil.copytree(ROOT, f'{folder}/wm', ignore=left_out))
    for mutation in chosen:
      why = _why_equivalent(mutation)
      message = (
        f'equivalent: {why}'
        if why
        else verdict(mutation, tree, options.most, options.seconds)
      )
      word = re.split(r'[ :]', message)[0]
      counts[word] = counts.get(word, 0) + 1
      print(f'{mutation}  {message}', flush=True)
  print(f'{len(every):,} places; of {len(chosen)}: {counts}')


if __name__ == '__main__':
  main()
