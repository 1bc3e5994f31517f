"""Measures the tree and holds it against `house.json`.

  python -m tests.house

prints every measure beside its limit; `--files=shared_class_names` lists what
a measure counts. `--fast` leaves out the files that run, which takes a minute.
"""

import argparse
import ast
import collections
import dataclasses
import functools
import io
import json
import pathlib
import subprocess
import sys
import tokenize
from collections.abc import Callable, Iterator

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMITS = json.loads((ROOT / 'tests' / 'house.json').read_text())

# Rooms in which a comment for ten lines is due.
COMMENTED = ('kernels', 'models', 'training', 'evaluation')

# Names that do not say what they hold.
VAGUE = frozenset(
  (
    *('found', 'some', 'one', 'own', 'said', 'there', 'here', 'given'),
    *('made', 'kept', 'told', 'known', 'wanted'),
  )
)

CALLS = 'training', 'scoring', 'report'

# The files that each call runs, without what imports run: a module, a
# decorator, a class.
_TRACED = """
import sys, tempfile, threading
import wm

def traced(call, run):
  files = set()
  def starts(frame, event, argument):
    code = frame.f_code
    if event == 'call' and code.co_flags & 2:  # A function, not a module.
      files.add(code.co_filename)
  threading.setprofile(starts)
  sys.setprofile(starts)
  result = run()
  sys.setprofile(None)
  threading.setprofile(None)
  print('FILES', call, *sorted(f for f in files if f.startswith(sys.argv[1])))
  return result

out = tempfile.mkdtemp()
world = 'maps(rows=4, columns=4)'
wm.sample(world, out + '/run', wm.Sampling(num=60, num_heldout=10))
model = traced('training', lambda: wm.train(
  world, 'transformer(layers=1, width=16, heads=1)', out + '/run',
  wm.Training(steps=4, batch=8, eval_every=2, save_every=2)))
metrics = ['compression(trials=8)', 'next_token(num=8)']
traced('scoring', lambda: wm.score(model, metrics))
wm.reconstruct(model, out + '/run', num=100)
traced('report', lambda: wm.report(out + '/run'))
"""


@dataclasses.dataclass(frozen=True)
class Tree:
  """The Python files of a folder `wm`, parsed.

  Attributes:
    root: the folder that holds `wm`.
  """

  root: pathlib.Path = ROOT

  @functools.cached_property
  def texts(self) -> dict[str, str]:
    """File, from the root -> text."""
    return {
      str(path.relative_to(self.root)): path.read_text(encoding='utf-8')
      for path in sorted((self.root / 'wm').rglob('*.py'))
    }

  @functools.cached_property
  def nodes(self) -> dict[str, list[ast.AST]]:
    """File -> all nodes of its syntax."""
    return {
      file: list(ast.walk(ast.parse(text))) for file, text in self.texts.items()
    }

  def every(self, kind: type) -> Iterator[tuple[str, ast.AST]]:
    """Yields (file, node) of one kind."""
    for file, nodes in self.nodes.items():
      for node in nodes:
        if isinstance(node, kind):
          yield file, node

  @functools.cached_property
  def imports(self) -> dict[str, set[str]]:
    """File -> files of the tree that it imports, in functions too."""
    return {
      file: {
        target
        for node in nodes
        for name in _names(node)
        if (target := self._file(name)) and target != file
      }
      for file, nodes in self.nodes.items()
    }

  def _file(self, name: str) -> str | None:
    base = name.replace('.', '/')
    for file in (f'{base}.py', f'{base}/__init__.py'):
      if file in self.texts:
        return file
    parent = name.rpartition('.')[0]
    return self._file(parent) if parent else None


def _names(node: ast.AST) -> list[str]:
  if isinstance(node, ast.Import):
    return [alias.name for alias in node.names]
  if isinstance(node, ast.ImportFrom) and node.module and not node.level:
    return [f'{node.module}.{alias.name}' for alias in node.names]
  return []


def _docstring_lines(nodes: list[ast.AST]) -> set[int]:
  lines = set()
  kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
  for node in nodes:
    if isinstance(node, kinds) and ast.get_docstring(node, clean=False):
      text = node.body[0]
      lines |= set(range(text.lineno, text.end_lineno + 1))
  return lines


def _lines(tree: Tree, file: str) -> tuple[int, int]:
  """Returns lines with code, and comments."""
  code, comments = set(), set()
  skipped = (
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.ENCODING,
  )
  for token in tokenize.generate_tokens(io.StringIO(tree.texts[file]).readline):
    if token.type == tokenize.COMMENT:
      comments.add(token.start[0])
    elif token.type not in skipped:
      code |= set(range(token.start[0], token.end[0] + 1))
  return len(code - _docstring_lines(tree.nodes[file])), len(comments)


def code_lines(tree: Tree) -> list[str]:
  """Lines that hold code, by room."""
  counts = collections.Counter()
  for file in tree.texts:
    counts[file.split('/')[1]] += _lines(tree, file)[0]
  return [f'{room}\t{n}' for room, n in counts.most_common() for _ in range(n)]


def files(tree: Tree) -> list[str]:
  """Python files."""
  return [*tree.texts]


def capabilities(tree: Tree) -> list[str]:
  """Classes of core for others to inherit."""
  return [
    f'{file}: {node.name}'
    for file, node in tree.every(ast.ClassDef)
    if file.startswith('wm/core/') and (_abstract(node) or _raises(node))
  ]


def _abstract(node: ast.ClassDef) -> bool:
  bases = {ast.unparse(base).rpartition('.')[2] for base in node.bases}
  methods = [f for f in node.body if isinstance(f, ast.FunctionDef)]
  return bool({'ABC', 'Protocol'} & bases) or any(
    ast.unparse(decorator).endswith('abstractmethod')
    for method in methods
    for decorator in method.decorator_list
  )


def _raises(node: ast.ClassDef) -> bool:
  """Does a class have a method for others to write?"""
  return any(
    isinstance(inner, ast.Raise) and 'NotImplementedError' in ast.unparse(inner)
    for inner in ast.walk(node)
  )


def core_names(tree: Tree) -> list[str]:
  """Names that `wm.core` gives."""
  return sorted(
    alias.asname or alias.name
    for node in tree.nodes['wm/core/__init__.py']
    if isinstance(node, ast.ImportFrom) and node.module != '__future__'
    for alias in node.names
  )


def shared_class_names(tree: Tree) -> list[str]:
  """Names of classes in several files, without a leading underscore."""
  homes = collections.defaultdict(set)
  for file, node in tree.every(ast.ClassDef):
    homes[node.name.lstrip('_')].add(file)
  return sorted(
    f'{name}: {" ".join(sorted(where))}'
    for name, where in homes.items()
    if len(where) > 1
  )


def parameters(tree: Tree) -> list[str]:
  """The parameters of the function that has most, without self."""
  most, which = [], ''
  for file, node in tree.every(ast.FunctionDef):
    # Kernels are compiled: their arrays cannot be bundled.
    if compiled(node):
      continue
    group = node.args
    names = [a.arg for a in group.posonlyargs + group.args + group.kwonlyargs]
    names = [name for name in names if name not in ('self', 'cls')]
    if len(names) > len(most):
      most, which = names, f'{file}:{node.lineno} {node.name}'
  return [f'{which} {name}' for name in most]


def compiled(node: ast.FunctionDef) -> bool:
  """Is this a kernel, whose types Numba or JAX infers?"""
  names = ' '.join(ast.unparse(d) for d in node.decorator_list)
  return 'jit' in names or 'intrinsic' in names


def lazy_imports(tree: Tree) -> list[str]:
  """Imports inside functions."""
  lines = set()
  for file, node in tree.every(ast.FunctionDef):
    for inner in ast.walk(node):
      if isinstance(inner, (ast.Import, ast.ImportFrom)):
        lines.add(f'{file}:{inner.lineno} {ast.unparse(inner)}')
  return sorted(lines)


def one_importer(tree: Tree) -> list[str]:
  """Modules that one other module imports, but plug-ins and packages."""
  importers = collections.defaultdict(set)
  for file, targets in tree.imports.items():
    for target in targets:
      importers[target].add(file)
  return sorted(
    f'{file} <- {next(iter(importers[file]))}'
    for file in tree.texts
    if len(importers[file]) == 1 and not file.endswith('__init__.py')
  )


def comments_per_100(tree: Tree) -> list[str]:
  """Comments for 100 lines of code, in rooms where why matters."""
  code = comments = 0
  for file in tree.texts:
    if file.split('/')[1] in COMMENTED:
      lines = _lines(tree, file)
      code, comments = code + lines[0], comments + lines[1]
  return [''] * (100 * comments // max(code, 1))


def vague_names(tree: Tree) -> list[str]:
  """Bindings of names that do not say what they hold."""
  lines = []
  for file, nodes in tree.nodes.items():
    for node in nodes:
      bound = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
      if bound and node.id in VAGUE:
        lines.append(f'{file}:{node.lineno} {node.id}')
      if isinstance(node, ast.arg) and node.arg in VAGUE:
        lines.append(f'{file}:{node.lineno} {node.arg}')
  return lines


@functools.cache
def runs(root: pathlib.Path) -> dict[str, list[str]]:
  """Call -> files of wm that it runs."""
  done = subprocess.run(
    [sys.executable, '-c', _TRACED, f'{root}/wm/'],
    cwd=root,
    capture_output=True,
    text=True,
    check=False,
  )
  if done.returncode:
    raise RuntimeError(done.stderr[-2000:])
  lines = (x.split() for x in done.stdout.splitlines())
  return {
    words[1]: [str(pathlib.Path(file).relative_to(root)) for file in words[2:]]
    for words in lines
    if words[:1] == ['FILES']
  }


MEASURES: dict[str, Callable[[Tree], list[str]]] = {
  'code_lines': code_lines,
  'files': files,
  'capabilities': capabilities,
  'core_names': core_names,
  'shared_class_names': shared_class_names,
  'parameters': parameters,
  'lazy_imports': lazy_imports,
  'one_importer': one_importer,
  'comments_per_100': comments_per_100,
  'vague_names': vague_names,
  **{
    f'files_of_{call}': lambda tree, call=call: runs(tree.root)[call]
    for call in CALLS
  },
}


def holds(name: str, value: int) -> bool:
  """Is a measure within its limit? Comments have a least, all else a most."""
  limit = LIMITS[name]
  return value >= limit if name == 'comments_per_100' else value <= limit


def main() -> None:
  """Prints the measures, or what one of them counts."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument('--files', choices=MEASURES, help='list what one counts')
  parser.add_argument('--fast', action='store_true', help='run no call')
  parser.add_argument('--root', type=pathlib.Path, default=ROOT)
  options = parser.parse_args()
  tree = Tree(options.root.resolve())
  if options.files:
    for line in dict.fromkeys(MEASURES[options.files](tree)):
      print(line)
    return
  for name, measure in MEASURES.items():
    if options.fast and name.startswith('files_of'):
      continue
    value = len(measure(tree))
    mark = '' if holds(name, value) else '  over'
    print(f'{name:20} {value:7,} {LIMITS[name]:7,}{mark}', flush=True)


if __name__ == '__main__':
  main()
