"""Origins: what code and which files a result is made from."""

import dataclasses
import importlib
import importlib.metadata
import os
import pathlib
import sys

import pytest

from tests import tiny
from wm import core
from wm.core import plugins, registry
from wm.runtime import provenance


def inputs(*things) -> dict[str, str]:
  return provenance.Reader().of(*things).inputs


def test_the_code_of_wm_and_versions_of_packages_count():
  results = inputs(registry.make('world', 'lattice()'))
  assert len(results['wm']) == 64
  for package in ('numba', 'llvmlite', 'numpy'):
    assert results[package] == importlib.metadata.version(package)
  assert not [name for name in results if name.endswith('.py')]
  plugins.allow('launch/examples/frog.py')
  example = registry.make('world', 'launch/examples/frog.py:World()')
  assert 'frog.py' in inputs(example)


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
  assert str(tmp_path / 'games') in result


@pytest.fixture
def code(tmp_path, monkeypatch):
  """Modules of a user, in a folder that is not the current one."""
  texts = {
    'm.py': 'import near, pkg.inner\nimport json, numpy\n',
    'near.py': 'def f():\n  from pkg import late\n',
    'pkg/__init__.py': '',
    'pkg/inner.py': 'from . import beside\nfrom .. import nothing\n',
    'pkg/beside.py': 'import named\n',
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
  assert {n for n in results if n.endswith('.py')} == OWN
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
  assert OWN | {str(code / 'weights')} <= set(result.inputs)
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
  old = {'wm': '1', **{f'w{k}.py': '1' for k in range(5)}}
  new = {**dict.fromkeys(old, '2'), 'x.py': '1'}
  assert provenance.difference(old, old) == ''
  assert provenance.difference(old, new) == (
    'w0.py, w1.py, w2.py and 4 more changed'
  )
  assert provenance.difference({'wm': '1'}, {'wm': '2', 'x.py': '1'}) == (
    'x.py and wm changed'
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
