"""Shared fixtures: real data by WM_TESTDATA, strict JAX."""

import contextlib
import gc
import importlib.metadata
import multiprocessing.process
import os
import pathlib
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import hypothesis
import pytest

from tests import compiler

# How quick a machine is, or how busy, fails no law.
hypothesis.settings.register_profile(
  'suite',
  deadline=None,
  suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile('suite')

# Two CPU devices everywhere: sharding mistakes show up in any test.
os.environ['XLA_FLAGS'] = compiler.flags(devices=2)
os.environ.setdefault('JAX_NUMPY_RANK_PROMOTION', 'raise')
# Set before NumPy is imported. Two processes share two cores here: threads of
# small matrices would wait for each other ten times as long as one takes.
os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')
# Of XLA: as many as runs have by default, on any number of cores.
os.environ.setdefault('PJRT_NPROC', '2')

ROOT = pathlib.Path(__file__).resolve().parent.parent

# What one process has compiled, the others and later runs read: most time of a
# first run is XLA's. Of Python, sources are compiled once, too, where the
# environment keeps them from writing bytecode.
sys.dont_write_bytecode = False
os.environ.pop('PYTHONDONTWRITEBYTECODE', None)
COMPILED = ROOT / '.pytest_cache' / 'jax'
MOST_COMPILED = 2 << 30  # Bytes, of which more are removed before a run.
if 'JAX_COMPILATION_CACHE_DIR' not in os.environ:
  if sum(x.stat().st_size for x in COMPILED.glob('*')) > MOST_COMPILED:
    shutil.rmtree(COMPILED, ignore_errors=True)
  os.environ['JAX_COMPILATION_CACHE_DIR'] = str(COMPILED)
  os.environ['JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS'] = '0.05'
  os.environ['JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES'] = '-1'

# The processes that tests start hear Ctrl-C, also where this one was started to
# ignore it, as scripts start what runs in the background.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
  signal.signal(signal.SIGINT, signal.default_int_handler)

# Files that take longest come first, so that processes which share the suite
# end at about the same time.
FIRST = (
  'training/mesh_test.py',
  'launch/notebooks_test.py',
  'training/resume_test.py',
  'launch/sweep_test.py',
  'evaluation/device_test.py',
  'models_test.py',
  'metrics_test.py',
)
# They take what is compiled along to copies of the checkout: by then, most is.
LATER = ('adding_test.py',)


def pytest_configure(config: pytest.Config) -> None:
  """Files are shared out in the order below, not by their number of tests."""
  config.option.loadscopereorder = False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
  """Orders files; a file's tests stay together and in order."""
  tests = ROOT / 'tests'
  names = [str(item.path.relative_to(tests)) for item in items]
  files = list(dict.fromkeys(names))
  order = [name for name in FIRST if name in files]
  order += [name for name in files if name not in (*FIRST, *LATER)]
  later = [name for name in LATER if name in files]
  order[len(order) * 3 // 4 : len(order) * 3 // 4] = later
  place = {name: k for k, name in enumerate(order)}
  items.sort(key=lambda item: place[str(item.path.relative_to(tests))])
  # A full collection of garbage would look through all tests and modules.
  gc.freeze()


# Commands that any test may run: they take milliseconds. What a script of bash
# starts is not seen here; a test of one that starts Python has the mark.
# Matplotlib asks for the fonts of a machine, once.
BRIEF = 'git', 'tar', 'bash', 'fc-list'


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
  """A test that starts processes is marked `process`: seconds of imports each.

  So the default run has none of them. A long study may start some.
  """
  if any(map(item.get_closest_marker, ('process', 'slow'))):
    return (yield)

  def refusing(start: Callable[..., Any]) -> Callable[..., Any]:
    def refuse(self: Any, *args: Any, **keywords: Any) -> Any:
      command = args[0] if args else keywords.get('args', '')
      program = command[0] if isinstance(command, list | tuple) else command
      if os.path.basename(str(program)) in BRIEF:
        return start(self, *args, **keywords)
      raise RuntimeError(
        f'{item.nodeid} starts a process; expected the mark `process`'
      )

    return refuse

  popen, process = subprocess.Popen, multiprocessing.process.BaseProcess
  with (
    mock.patch.object(popen, '__init__', refusing(popen.__init__)),
    mock.patch.object(process, 'start', refusing(process.start)),
  ):
    return (yield)


def pytest_report_header() -> str:
  """The versions that results of a run depend on."""
  packages = 'jax', 'jaxlib', 'flax', 'optax', 'orbax-checkpoint', 'numpy'
  result = (f'{name} {importlib.metadata.version(name)}' for name in packages)
  return ', '.join(result)


@pytest.fixture(autouse=True, scope='module')
def programs_go() -> Iterator[None]:
  """Compiled programs are dropped after each file.

  The thousands of all tests together are more than a process may map.
  """
  yield
  if 'jax' in sys.modules:
    sys.modules['jax'].clear_caches()


@pytest.fixture(scope='session')
def root() -> pathlib.Path:
  """The checkout."""
  return ROOT


@pytest.fixture(scope='session')
def testdata() -> pathlib.Path:
  """Folder of real data; tests that need it are skipped where it is absent."""
  folder = pathlib.Path(
    os.environ.get('WM_TESTDATA', ROOT.parent / 'shared' / 'data')
  )
  if not folder.is_dir():
    pytest.skip(f'no real data at {folder} (set WM_TESTDATA)')
  return folder


@pytest.fixture(scope='session')
def cases(testdata: pathlib.Path) -> pathlib.Path:
  """Folder of files as people have them, beside the real data."""
  folder = testdata.parent / 'cases'
  if not folder.is_dir():
    pytest.skip(f'no cases at {folder}')
  return folder


@pytest.fixture(scope='session')
def real(testdata: pathlib.Path) -> Callable[[str], pathlib.Path]:
  """Gives a part of the real data; skips where it is absent."""

  def part(name: str) -> pathlib.Path:
    path = testdata / name
    if not path.exists():
      pytest.skip(f'no real data at {path}')
    return path

  return part


@pytest.fixture(scope='session')
def manhattan(real: Callable[[str], pathlib.Path]) -> pathlib.Path:
  """Manhattan's street graph, trips and model-made routes."""
  return real('manhattan')


@pytest.fixture(scope='session')
def one_line() -> Callable[..., Any]:
  """Asserts that what is done within is refused, in a line that matches."""
  from wm import core

  @contextlib.contextmanager
  def refused(match: str | None = None) -> Iterator[pytest.ExceptionInfo]:
    with pytest.raises(core.InputError, match=match) as error:
      yield error
    assert '\n' not in str(error.value)

  return refused
