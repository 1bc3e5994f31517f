"""Origins: what code and which files a result is made from."""

import dataclasses
import importlib
import importlib.metadata
import json
import os
import pathlib
import subprocess
import sys

import pytest

from tests import tiny
from wm import core
from wm.core import plugins, registry
from wm.runtime import provenance

PLUG_INS = [
  f'{kind}:{name}'
  for kind in ('world', 'model', 'metric')
  for name in registry.names(kind)
]


def inputs(*things) -> dict[str, str]:
  return provenance.Reader().of(*things).inputs


# What has no default.
GIVEN = {'language': {'model': 'wm/yes'}}


def make(kind: str, name: str):
  return registry.find(kind, name)(**GIVEN.get(name, {}))


@pytest.mark.parametrize('name', PLUG_INS)
def test_what_plug_ins_are_made_from(name):
  kind, name = name.split(':')
  results = inputs(make(kind, name))
  rooms = 'language/' if name == 'language' else ''
  home = f'wm/{rooms}{kind}s/{name}'
  assert {f'{home}.py', f'{home}/__init__.py'} & set(results)
  assert {'wm/__init__.py', 'wm/core/world.py', 'numpy'} <= set(results)
  # Statistics, reports and training make no trials.
  for other in ('wm/reporting', 'wm/recon', 'wm/training', 'launch', 'tests'):
    assert not [module for module in results if module.startswith(other)]
  stats = {'statistics', 'scoring', 'kept', 'results'}
  assert not {f'wm/evaluation/{one}.py' for one in stats} & set(results)


def test_other_plug_ins_are_no_part():
  result = inputs(make('metric', 'compression'))
  for name in ('detour', 'distinction', 'exactness', 'probe'):
    assert f'wm/metrics/{name}.py' not in result
  assert 'wm/evaluation/engine.py' in result
  assert 'wm/core/accept.py' in result  # Named by the field `accept`.


def test_modules_imported_in_functions_and_versions_are_there():
  result = inputs(make('world', 'lattice'))
  for name in ('dfa', 'base/bits', 'base/calls'):
    assert f'wm/kernels/{name}.py' in result
  for package in ('numba', 'llvmlite', 'numpy'):
    assert result[package] == importlib.metadata.version(package)


LOADED = """
import json, sys
from wm import core
from wm.core import plugins, registry
from wm.runtime import provenance
before = {n for n in sys.modules}
world = registry.make('world', sys.argv[1])
model = registry.make('model', sys.argv[2])
metric = registry.make('metric', sys.argv[3])
predictor = model.predictor(world, 0)
metric(predictor, world, 0)
loaded = [n for n in sys.modules if n.split('.')[0] == 'wm']
found = provenance.Reader().of(world, model, metric).inputs
files = [sys.modules[n].__spec__ for n in loaded]
names = [
  s.name.replace('.', '/') + ('/__init__' if s.submodule_search_locations
  is not None else '') + '.py' for s in files
]
print(json.dumps(sorted(set(names) - set(found))))
"""


@pytest.mark.process
@pytest.mark.parametrize(
  ('world', 'model', 'metric'),
  [
    (
      'maps(rows=3, columns=3, max_moves=8)',
      'uniform()',
      'compression(trials=4, samples=2)',
    ),
    ('lattice()', 'lstm(layers=1, width=8)', 'next_token(num=2)'),
    ('othello(size=4)', 'uniform()', 'next_token(num=4)'),
  ],
)
def test_whatever_a_run_loads_is_there(root, world, model, metric):
  done = subprocess.run(
    [sys.executable, '-c', LOADED, world, model, metric],
    cwd=root,
    capture_output=True,
    text=True,
    env={**os.environ, 'PYTHONPATH': str(root)},
  )
  assert done.returncode == 0, done.stderr[-2000:]
  # What finds origins and specs is loaded by this test itself.
  assert set(json.loads(done.stdout)) <= set(inputs('wm.runtime.provenance'))


@dataclasses.dataclass(frozen=True)
class Fields(core.Metric):
  """Has fields of every kind."""

  version = '1'

  weights: str = ''
  several: tuple[str, ...] = ()
  world: str = ''
  num: int = 3

  def __call__(self, predictor, world, seed):
    return ()


def test_files_that_fields_name(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  folder = pathlib.Path('folder/inner')
  folder.mkdir(parents=True)
  for path in ('one', 'two', 'folder/inner/three'):
    pathlib.Path(path).write_text('old')
  thing = Fields(weights='one', several=('two', 'folder', 'absent', 'x\0y'))
  first = inputs(thing)
  assert {'one', 'two', 'folder'} <= set(first)
  assert 'absent' not in first
  for changed, path in [
    ('one', 'one'),
    ('two', 'two'),
    ('folder', 'folder/inner/three'),
    ('folder', 'folder/inner/four'),
  ]:
    before = inputs(thing)
    pathlib.Path(path).write_text('new ' + path)
    assert provenance.difference(before, inputs(thing)) == f'{changed} changed'
  os.rename('folder/inner/four', 'folder/four')
  pathlib.Path('folder/again').symlink_to('..')
  assert provenance.difference(first, inputs(thing)) == (
    'folder, one and two changed'
  )


def test_a_spec_in_a_field_counts_with_its_files(tmp_path):
  (tmp_path / 'games').write_text('f5d6')
  spec = f'othello(size=4, records={str(tmp_path / "games")!r})'
  result = inputs(Fields(world=spec))
  assert 'wm/worlds/othello/__init__.py' in result
  assert str(tmp_path / 'games') in result


@pytest.fixture
def code(tmp_path, monkeypatch):
  """Modules of a user, in a folder that is not the current one."""
  texts = {
    'm.py': 'import near, pkg.inner\nimport json, numpy\n',
    'near.py': 'def f():\n  from pkg import late\n',
    'pkg/__init__.py': '',
    'pkg/inner.py': 'from . import beside\nfrom .. import nothing\n',
    'pkg/beside.py': 'import importlib\nimportlib.import_module("named")\n',
    'pkg/late.py': 'from wm.worlds.maps import streets\n',
    'pkg/unused.py': '',
    'named.py': 'import near, m\nimport not_installed_anywhere\n',
    'broken.py': 'def f(:\n',
  }
  for name, text in texts.items():
    path = tmp_path / 'code' / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
  return tmp_path / 'code'


OWN = {
  'm.py',
  'near.py',
  'pkg/__init__.py',
  'pkg/inner.py',
  'pkg/beside.py',
  'pkg/late.py',
  'named.py',
}


def test_modules_that_a_file_imports_are_followed(code):
  results = inputs(str(code / 'm.py'))
  mine = {n for n in results if n.endswith('.py') and not n.startswith('wm/')}
  assert mine == OWN
  assert 'wm/worlds/maps/streets.py' in results
  assert results['numpy'] == importlib.metadata.version('numpy')
  assert 'json' not in results
  for name in OWN:
    before = inputs(str(code / 'm.py'))
    (code / name).write_text((code / name).read_text() + '\n# edited\n')
    after = inputs(str(code / 'm.py'))
    assert provenance.difference(before, after) == f'{name} changed'


def test_a_module_is_found_from_the_current_folder_and_moves_along(
  code, tmp_path, monkeypatch
):
  monkeypatch.chdir(code)
  first = inputs('pkg.inner')
  assert 'named.py' in first
  moved = code.rename(tmp_path / 'elsewhere')
  monkeypatch.chdir(moved)
  assert inputs('pkg.inner') == first
  assert 'broken.py' in inputs('broken')


def test_the_model_of_a_user_is_its_function_and_files(code):
  (code / 'weights').write_text('1 2 3')
  model = registry.resolve(
    'model',
    f'user({str(code / "m.py") + ":f"!r}, files=({str(code / "weights")!r},))',
  )
  result = provenance.Reader().of(model)
  assert result.unknown == ''
  assert OWN | {str(code / 'weights'), 'wm/models/user.py'} <= set(
    result.inputs
  )
  silent = dataclasses.replace(model, files=None)
  assert 'files=' in provenance.Reader().of(silent).unknown
  assert registry.spec(silent) == registry.spec(model)
  nothing = dataclasses.replace(model, files=())
  assert provenance.Reader().of(nothing).unknown == ''


def test_modules_that_imports_do_not_name_count_once_they_are_loaded(
  code, monkeypatch
):
  monkeypatch.setattr(sys, 'path', [*sys.path])
  (code / 'lib').mkdir()
  (code / 'lib' / 'far.py').write_text('x = 1')
  (code / 'finds.py').write_text(
    'import importlib, pathlib, sys\n'
    'sys.path.append(str(pathlib.Path(__file__).parent / "lib"))\n'
    'importlib.import_module("f" + "ar")\n'
    'importlib.import_module("ne" + "ar")\n'
  )
  result = []
  for text in ('x = 1', 'x = 2'):
    (code / 'lib' / 'far.py').write_text(text)
    reader, before = provenance.Reader(), {*sys.modules}
    origin = reader.of(str(code / 'finds.py'))
    plugins.load(str(code / 'finds.py'), 'model')
    result.append(reader.with_loaded(origin, before).inputs)
    for name in ('far', 'near', 'pkg', 'pkg.late'):
      sys.modules.pop(name, None)
  assert {'finds.py', 'far.py', 'near.py'} <= result[0].keys()
  assert provenance.difference(*result) == 'far.py changed'


def test_two_files_of_one_name_are_two(code, tmp_path):
  other = tmp_path / 'm.py'
  other.write_text('x = 1')
  assert {'m.py', "m.py'"} <= set(inputs(str(code / 'm.py'), str(other)))


def test_code_without_a_file_is_unknown():
  made = dataclasses.make_dataclass(
    'Made', [('num', int, 1)], bases=(tiny.World,), frozen=True
  )
  made.__module__ = 'a_notebook'
  result = provenance.Reader().of(made())
  assert result.unknown == 'the source of Made is not found'


def test_code_that_was_edited_after_it_was_loaded_is_told(code, monkeypatch):
  monkeypatch.syspath_prepend(code)
  path = code / 'loaded_once.py'
  path.write_text('x = 1')
  module = importlib.import_module('loaded_once')
  assert provenance.Reader().of('loaded_once').unknown == ''
  path.write_text('x = 10')
  result = provenance.Reader().of('loaded_once')
  assert result.unknown == (
    'loaded_once.py was edited after this process had loaded it'
  )
  importlib.reload(module)
  assert provenance.Reader().of('loaded_once').unknown == ''


def test_an_object_in_the_place_of_a_module_is_no_error(code, monkeypatch):
  monkeypatch.chdir(code)
  monkeypatch.setitem(sys.modules, 'near', object())
  assert 'near.py' in inputs('near')


def test_differences_are_named_the_users_own_first():
  old = {f'wm/{k}.py': '1' for k in range(5)}
  new = {**dict.fromkeys(old, '2'), 'm.py': '1'}
  assert provenance.difference(old, old) == ''
  assert provenance.difference(old, new) == (
    'm.py, wm/0.py, wm/1.py and 3 more changed'
  )


def test_a_package_is_read_before_a_module_of_its_name(tmp_path):
  """As Python imports them."""
  (tmp_path / 'helper').mkdir()
  (tmp_path / 'helper' / '__init__.py').write_text('SIZE = 1\n')
  (tmp_path / 'helper.py').write_text('SIZE = 2\n')
  path = tmp_path / 'mine.py'
  path.write_text(
    'import dataclasses\n\nimport helper\nfrom tests import tiny\n\n\n'
    '@dataclasses.dataclass(frozen=True)\nclass World(tiny.World):\n'
    '  """Reads a package."""\n'
  )
  plugins.trust(tmp_path)
  names = {*inputs(registry.make('world', f'{path}:World()'))}
  assert any(name.endswith('helper/__init__.py') for name in names)
  assert not any(name.endswith('helper.py') for name in names)
