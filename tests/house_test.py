"""The house's rules, checked over the tree itself."""

import ast
import collections
import functools
import graphlib
import pathlib
import re
import warnings
from collections.abc import Iterable, Iterator

import pytest

import wm
from tests import house

ROOT = pathlib.Path(__file__).resolve().parent.parent

PYTHON = sorted(
  path
  for folder in ('wm', 'launch', 'tests')
  for path in (ROOT / folder).rglob('*.py')
)
TREE = house.Tree()
LIBRARY = [path for path in PYTHON if path.relative_to(ROOT).parts[0] == 'wm']


@pytest.fixture(autouse=True, scope='module')
def forgotten() -> Iterator[None]:
  """What all tests share of files is gone after them."""
  yield
  _text.cache_clear()
  _nodes.cache_clear()
  TREE.__dict__.pop('texts', None)
  TREE.__dict__.pop('nodes', None)


@functools.cache
def _text(path: pathlib.Path) -> str:
  return path.read_text(encoding='utf-8')


@functools.cache
def _nodes(path: pathlib.Path) -> tuple[ast.AST, ...]:
  """All nodes of a file's syntax but names, literals and the like."""
  return tuple(
    node
    for node in ast.walk(ast.parse(_text(path)))
    if isinstance(node, (ast.stmt, ast.ExceptHandler, ast.Call))
  )


def imported(path: pathlib.Path) -> set[str]:
  """Dotted names of everything of ours that a file imports."""
  return _imports(_nodes(path))


def _imports(nodes: Iterable[ast.AST]) -> set[str]:
  results = set()
  for node in nodes:
    if isinstance(node, ast.Import):
      results |= {alias.name for alias in node.names}
    elif isinstance(node, ast.ImportFrom) and node.module:
      results |= {f'{node.module}.{alias.name}' for alias in node.names}
  return {name for name in results if name.startswith('wm.')}


def test_metrics_name_no_world_and_no_model():
  for path in [
    *(ROOT / 'wm' / 'metrics').rglob('*.py'),
    *(ROOT / 'wm' / 'evaluation').rglob('*.py'),
  ]:
    for name in imported(path):
      assert name.split('.')[1] not in ('worlds', 'models'), (path, name)


def test_reports_name_no_metric():
  metrics = {p.stem for p in (ROOT / 'wm' / 'metrics').iterdir()} - {'__init__'}
  for path in (ROOT / 'wm' / 'reporting').rglob('*.py'):
    for node in ast.walk(ast.parse(_text(path))):
      named = isinstance(node, ast.Constant) and node.value in metrics
      assert not named, f'{path}:{node.lineno} names {node.value!r}'


def test_flags_are_defined_in_launch_only():
  for path in LIBRARY:
    text = _text(path)
    assert not re.search(r'absl\.flags|flags\.DEFINE', text), path


def test_sizes():
  for path in PYTHON:
    lines = _text(path).count('\n')
    assert lines <= 900, f'{path} has {lines} lines'
    if path.parent == ROOT / 'launch' and path.stem != 'common':
      # The text of --help is as long as it has to be.
      body = lines - ast.get_docstring(ast.parse(_text(path))).count('\n')
      assert body <= 80, f'{path} has {body} lines of code'
    for node in _nodes(path):
      if isinstance(node, ast.FunctionDef):
        doc = ast.get_docstring(node) or ''
        size = node.end_lineno - node.lineno + 1 - doc.count('\n')
        assert size <= 61, f'{path}:{node.lineno} {node.name} has {size} lines'


def test_public_functions_are_typed_and_long_ones_documented():
  for path in LIBRARY:
    for node in _nodes(path):
      if not isinstance(node, ast.FunctionDef) or node.name.startswith('_'):
        continue
      where = f'{path}:{node.lineno} {node.name}'
      assert node.returns is not None, f'{where} has no return type'
      size = node.end_lineno - node.lineno
      assert ast.get_docstring(node) or size <= 8, f'{where} has no docstring'


def test_nothing_unsafe_and_nothing_broad():
  unsafe = re.compile(
    r'\bpickle\b|allow_pickle=True|weights_only=False|(?<![\w.])eval\('
  )
  for path in LIBRARY:
    text = _text(path)
    assert not unsafe.search(text), path
    for node in _nodes(path):
      if isinstance(node, ast.ExceptHandler):
        assert node.type is not None, f'{path}:{node.lineno}'
        assert getattr(node.type, 'id', '') not in (
          'Exception',
          'BaseException',
        ), f'{path}:{node.lineno}'


def test_hints_name_extras_of_this_checkout():
  setup = (ROOT / 'setup.py').read_text(encoding='utf-8')
  hints = 0
  for path in [*LIBRARY, ROOT / 'README.md']:
    text = _text(path)
    assert not re.search(r'pip install .{0,4}wm\b', text), path
    command = r"(?:pip install -e '\.\[|inputs\.extra\(')(\w+)\b"
    for extra in re.findall(command, text):
      hints += 1
      assert f"'{extra}': [" in setup, f'{path}: no extra {extra!r}'
  assert hints >= 4


def test_the_citation_is_of_this_version():
  assert f'version: {wm.__version__}\n' in _text(ROOT / 'CITATION.cff')
  assert f'## {wm.__version__}' in _text(ROOT / 'CHANGELOG.md')


# BUILD: one target a room and binary; `deps` say which way imports run.


def _value(node: ast.expr) -> object:
  """A value as BUILD says it: a literal, a glob, or lists added up."""
  if isinstance(node, ast.BinOp):
    return _value(node.left) + _value(node.right)
  if not isinstance(node, ast.Call):
    return ast.literal_eval(node)
  assert node.func.id == 'glob'
  named = {k.arg: ast.literal_eval(k.value) for k in node.keywords}
  result, left_out = (
    {str(p.relative_to(ROOT)) for pattern in sample for p in ROOT.glob(pattern)}
    for sample in (ast.literal_eval(node.args[0]), named.get('exclude', []))
  )
  return sorted(result - left_out)


def _targets() -> dict[str, dict]:
  """Name -> keyword values of every py_* rule in BUILD."""
  result = {}
  for node in ast.parse((ROOT / 'BUILD').read_text()).body:
    call = getattr(node, 'value', None)
    if isinstance(call, ast.Call) and call.func.id.startswith('py_'):
      keywords = {k.arg: _value(k.value) for k in call.keywords}
      result[keywords['name']] = {'rule': call.func.id, **keywords}
  return result


def test_build_covers_every_file_once():
  listed = [s for target in _targets().values() for s in target['srcs']]
  assert len(listed) == len(set(listed))
  assert sorted(listed) == sorted(str(p.relative_to(ROOT)) for p in PYTHON)


def _owner(name: str, home: dict[str, str]) -> str | None:
  """The target that holds a dotted name of ours."""
  parts = name.split('.')
  for count in range(len(parts), 0, -1):
    base = '/'.join(parts[:count])
    for source in (f'{base}.py', f'{base}/__init__.py'):
      if source in home:
        return home[source]
  return None


def test_imports_run_one_way():
  targets = _targets()
  deps = {
    name: {d[1:] for d in target.get('deps', []) if d.startswith(':')}
    for name, target in targets.items()
  }
  graphlib.TopologicalSorter(deps).prepare()  # Raises on a cycle.
  home = {src: name for name, t in targets.items() for src in t['srcs']}
  for source, name in home.items():
    if source.startswith('wm/'):
      for other in imported(ROOT / source):
        owner = _owner(other, home)
        known = owner in deps[name] | {name, None}
        assert known, f'{source} imports {other}; {name} needs :{owner}'


def test_the_guide_to_the_code_is_true():
  """Rooms in the order of imports; files and functions that exist."""
  guide = (ROOT / 'wm' / 'README.md').read_text()
  rooms = re.findall(r'^\| `(\w+)/` \|', guide, re.M)
  folders = {p.parent.name for p in (ROOT / 'wm').glob('*/__init__.py')}
  assert sorted(rooms) == sorted(folders)
  targets = _targets()
  for place, room in enumerate(rooms):
    below = {d[1:] for d in targets[room]['deps'] if d.startswith(':')}
    assert below & {*folders} <= {*rooms[:place]}, room
  paths = re.findall(r'`((?:\w+/)+\w+\.\w+)(?:: (\w+))?`', guide)
  assert len(paths) > 40
  for path, function in paths:
    base = ROOT if path.split('/')[0] in ('launch', 'tests') else ROOT / 'wm'
    text = (base / path).read_text()
    assert not function or re.search(rf'^(def|class) {function}\b', text, re.M)


def _checks_types(test: ast.expr) -> bool:
  """Is this `TYPE_CHECKING`, by itself or with more?"""
  names = {getattr(node, 'id', '') for node in ast.walk(test)}
  attributes = {getattr(node, 'attr', '') for node in ast.walk(test)}
  return 'TYPE_CHECKING' in names | attributes


def _runs(path: pathlib.Path) -> set[str]:
  """As `imported`, without imports for type checkers alone."""
  left_out = {
    node
    for condition in _nodes(path)
    if isinstance(condition, ast.If) and _checks_types(condition.test)
    for statement in condition.body
    for node in ast.walk(statement)
  }
  return _imports(node for node in _nodes(path) if node not in left_out)


def test_no_module_imports_itself_in_a_circle():
  """Imports inside functions included."""
  home = {str(path.relative_to(ROOT)): path for path in LIBRARY}
  files = {source: source for source in home}
  graph = {
    source: {_owner(name, files) for name in _runs(path)} - {source, None}
    for source, path in home.items()
  }
  assert sum(map(len, graph.values())) > len(graph)
  graphlib.TopologicalSorter(graph).prepare()  # Raises on a cycle.


# File -> what it asks of objects that are not ours, or of any that a user may
# bring. What ours can do is a class, which `isinstance` asks for.
SNIFFED = {
  'wm/core/plugins.py': {'__code__'},  # Not all callables are functions.
  'wm/core/registry.py': {
    '__dataclass_params__',  # Of a user's class: is it a frozen dataclass?
    'name',  # Worlds, models and metrics have one; parts of specs need none.
  },
  'wm/core/resources.py': {'sysconf_names'},  # Unix has it.
  'wm/library/loading.py': {'__name__'},  # Functions have one, models none.
  'wm/models/serving/tokenization.py': {
    'max_position_embeddings'  # Some networks'.
  },
  'wm/models/serving/gpt2.py': {
    '__module__',
    'func',
  },  # Of hooks, any callables.
  'wm/models/nn/layers.py': {'key', 'name'},  # Kinds of pytree keys.
  'wm/language/provider.py': {
    'last_attempt',  # Of one kind of errors.
    'provider_message',  # Of Inspect's own.
    'status_code',  # Of errors of some providers.
  },
  'wm/models/serving/adapters.py': {
    'detach',  # Of a user's arrays.
    'dtype',
    'logits',  # Of what models of Hugging Face give.
    'shape',
  },
  'wm/models/serving/user_objects.py': {'dtype'},
  # A user's world may have none.
  'wm/reporting/sentences.py': {'noun', 'move'},
  'wm/runtime/files.py': {
    'register_at_fork',  # Unix has it.
    'strerror',  # Of OSError, not of ValueError.
  },
  'wm/runtime/provenance.py': {'__file__', '__spec__'},  # Some modules lack it.
  'wm/runtime/compute.py': {'sched_getaffinity'},  # Linux has it.
  'wm/studies/runs.py': {'sched_setaffinity'},  # Linux has it.
  'wm/training/checkpoints.py': {'__name__'},  # Of Python's own hook.
}


def test_only_what_is_not_ours_is_asked_for_attributes_by_name():
  result = {}
  for path in PYTHON:
    source = str(path.relative_to(ROOT))
    for node in _nodes(path):
      if (
        not source.startswith('tests/')
        and isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ('hasattr', 'getattr')
        and isinstance(node.args[1], ast.Constant)
      ):
        result.setdefault(source, set()).add(node.args[1].value)
  assert result == SNIFFED


def test_what_wm_uses_that_will_be_dropped_is_an_error():
  for category in (DeprecationWarning, FutureWarning):
    with pytest.raises(category):
      warnings.warn_explicit('old', category, 'core.py', 1, module='wm.core')
    with pytest.warns(category):
      warnings.warn_explicit('old', category, 'nnx.py', 1, module='flax.nnx')


def test_public_functions_say_the_types_of_what_they_take():
  for path in LIBRARY:
    for node in _nodes(path):
      if not isinstance(node, ast.FunctionDef) or node.name.startswith('_'):
        continue
      if house.compiled(node):
        continue  # Numba infers them.
      inputs = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
      for one in inputs:
        typed = one.annotation is not None or one.arg in ('self', 'cls')
        assert typed, f'{path}:{one.lineno} {node.name}({one.arg}) has no type'


def test_arguments_that_a_docstring_names_are_parameters():
  section = re.compile(r'^Args:\n((?:  .*\n|\n)*)', re.M)
  entry = re.compile(r'^  (\*{0,2}\w+(?:, \*{0,2}\w+)*):', re.M)
  documented = 0
  for path in LIBRARY:
    for node in _nodes(path):
      if not isinstance(node, ast.FunctionDef):
        continue
      listed = section.search((ast.get_docstring(node) or '') + '\n')
      entries = entry.findall(listed[1]) if listed else []
      names = {x.strip('*') for each in entries for x in each.split(', ')}
      arguments = [x for x in ast.walk(node.args) if isinstance(x, ast.arg)]
      parameters = {x.arg for x in arguments}
      stale = names - parameters
      assert not stale, f'{path}:{node.lineno} {node.name} has no {stale}'
      documented += bool(names)
  assert documented > 100


RUNS = {
  name: pytest.mark.process for name in house.MEASURES if 'files_of' in name
}


@pytest.mark.parametrize(
  'name',
  [pytest.param(name, marks=RUNS.get(name, ())) for name in house.MEASURES],
)
def test_the_tree_is_within_its_limits(name):
  value = len(house.MEASURES[name](TREE))
  assert house.holds(name, value), f'{name}: {value}; see python -m tests.house'


# Of the limits of all rooms together. A room's limit is raised only by a change
# that takes as many lines from another's.
ALL_ROOMS = 56_836


def test_every_room_is_within_its_limit():
  limits = house.LIMITS['rooms']
  lines = [line.partition('\t')[0] for line in house.code_lines(TREE)]
  sizes = collections.Counter(lines)
  del sizes['__init__.py'], sizes['__main__.py']
  assert sizes.keys() == limits.keys()
  assert not {room: n for room, n in sizes.items() if n > limits[room]}
  assert sum(limits.values()) <= ALL_ROOMS
