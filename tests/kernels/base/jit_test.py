"""Kernels are kept between runs, but not beyond a change of their sources."""

import fcntl
import os
import pathlib
import shutil
import subprocess
import sys
from concurrent import futures

import numba
import pytest
from numba.core import config

from wm.kernels.base import jit

HELPER = """
from kernels.base.jit import njit
@njit
def step(x): return x + {}
"""
ENTRY = """
from kernels.base.jit import njit
from kernels.base.helper import step
@njit
def run(x): return step(x)
print(run(1), sum(run.stats.cache_hits.values()))
"""


@pytest.fixture
def package(tmp_path):
  """A folder of kernels with a copy of our decorator."""
  folder = tmp_path / 'kernels'
  (folder / 'base').mkdir(parents=True)
  shutil.copy(jit.__file__, folder / 'base' / 'jit.py')
  (folder / 'base' / 'helper.py').write_text(HELPER.format(1))
  (folder / 'entry.py').write_text(ENTRY)
  return folder


def ran(package: pathlib.Path, **environ: str) -> tuple[int, int]:
  """(result, kernels found compiled) of a fresh process."""
  clean = {k: v for k, v in os.environ.items() if k != 'NUMBA_CACHE_DIR'}
  done = subprocess.run(
    [sys.executable, '-m', 'kernels.entry'],
    cwd=package.parent,
    env={
      **clean,
      'XDG_CACHE_HOME': str(package.parent),
      # Files are edited within a second, which Python's own cache misses.
      'PYTHONDONTWRITEBYTECODE': '1',
      **environ,
    },
    capture_output=True,
    text=True,
  )
  assert done.returncode == 0, done.stderr[-2000:]
  result, hits = done.stdout.split()
  return int(result), int(hits)


def kept(package: pathlib.Path) -> list[pathlib.Path]:
  """Folders of the entry's kernels."""
  return list((package.parent / 'wm' / 'kernels').glob('entry-*'))


@pytest.mark.process
def test_a_second_process_compiles_nothing(package):
  assert ran(package) == (2, 0)
  assert ran(package) == (2, 1)
  assert len(kept(package)) == 1


def test_a_kernel_is_not_compiled_while_another_process_does(
  monkeypatch, tmp_path
):
  monkeypatch.setenv('NUMBA_CACHE_DIR', str(tmp_path))
  jit.folder.cache_clear()
  kernel = jit.njit(lambda x: x + 1)
  cache = jit.folder(__file__)
  with futures.ThreadPoolExecutor() as pool, open(cache / '.lock', 'w') as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)  # As another process would.
    result = pool.submit(kernel, 1)
    assert not futures.wait([result], timeout=2).done
    fcntl.flock(lock, fcntl.LOCK_UN)
    assert result.result() == 2
  jit.folder.cache_clear()


@pytest.mark.process
def test_a_changed_helper_in_another_file_is_seen(package):
  assert ran(package) == (2, 0)
  (package / 'base' / 'helper.py').write_text(HELPER.format(5))
  assert ran(package) == (6, 0)
  (package / 'base' / 'helper.py').write_text(HELPER.format(1))
  assert ran(package) == (2, 1)
  assert len(kept(package)) == 2


@pytest.mark.process
def test_a_change_of_what_a_package_gathers_compiles_nothing_again(package):
  entry = ENTRY.replace(
    'kernels.base.helper import step', 'kernels.base import helper'
  )
  (package / 'entry.py').write_text(entry.replace('step(x)', 'helper.step(x)'))
  gathered = package / 'base' / '__init__.py'
  gathered.write_text('x = 1\n')
  assert ran(package) == (2, 0)
  gathered.write_text('x = 2\n')
  assert ran(package) == (2, 1)
  (package / 'base' / 'helper.py').write_text(HELPER.format(5))
  assert ran(package) == (6, 0)


@pytest.mark.process
def test_a_change_two_imports_away_is_seen(package):
  (package / 'base' / 'amount.py').write_text('AMOUNT = 1\n')
  helper = 'from kernels.base import amount' + HELPER.format('amount.AMOUNT')
  (package / 'base' / 'helper.py').write_text(helper)
  assert ran(package) == (2, 0)
  (package / 'base' / 'amount.py').write_text('AMOUNT = 7\n')
  assert ran(package) == (8, 0)


@pytest.mark.process
def test_folders_that_nobody_uses_are_removed(package):
  assert ran(package) == (2, 0)
  (old,) = kept(package)
  long_ago = old.stat().st_mtime - (jit.KEPT_DAYS + 1) * 86400
  os.utime(old, (long_ago, long_ago))
  (package / 'base' / 'helper.py').write_text(HELPER.format(2))
  assert ran(package) == (3, 0)
  assert old not in kept(package)


@pytest.mark.process
def test_numbas_own_setting_goes_first(package):
  chosen = package.parent / 'chosen'
  assert ran(package, NUMBA_CACHE_DIR=str(chosen)) == (2, 0)
  assert [path.name for path in chosen.iterdir()] == ['wm']
  assert not (package.parent / 'wm').exists()


@pytest.mark.process
def test_a_folder_that_cannot_be_made_is_no_error(package):
  blocked = package.parent / 'file'
  blocked.touch()
  assert ran(package, XDG_CACHE_HOME=str(blocked))[0] == 2


@pytest.mark.process
def test_numba_is_imported_by_the_first_call(package):
  code = 'import sys, wm.kernels.chess, wm.kernels.symbolic, wm.kernels.pgn\n'
  code += 'from wm.kernels import othello as rules\n'
  code += "assert 'numba' not in sys.modules; rules.legal(rules.start())\n"
  code += "assert 'numba' in sys.modules"
  subprocess.run([sys.executable, '-c', code], check=True)


@pytest.mark.process
def test_what_was_edited_since_the_process_began_is_not_cached(package):
  edit = 'import pathlib, time, kernels.base.jit\n'
  edit += "path = pathlib.Path('kernels/base/helper.py')\n"
  edit += (
    'old = path.read_text(); import kernels.base.helper; time.sleep(0.1)\n'
  )
  edit += "path.write_text(old.replace('+ 1', '+ 5')); import kernels.entry"
  done = subprocess.run(
    [sys.executable, '-c', edit],
    cwd=package.parent,
    env={**os.environ, 'NUMBA_CACHE_DIR': str(package.parent / 'cache')},
    capture_output=True,
    text=True,
    check=True,
  )
  assert done.stdout.split() == ['2', '0']  # The helper in memory is the old.
  assert not (package.parent / 'cache').exists()


def test_other_functions_of_a_process_keep_their_cache():
  before = config.CACHE_DIR
  kernel = jit.njit(lambda x: x)
  assert before == config.CACHE_DIR
  assert isinstance(kernel.compiled, numba.core.dispatcher.Dispatcher)
