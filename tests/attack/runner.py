"""Runs cases: each in a process forked from this one, which is warm.

This process has imported all that binaries import, has no JAX devices and no
threads. A child runs a binary's file as `python launch/NAME.py` does, or calls
the library, and ends; its folder is compared with what it was before.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import importlib.util
import io
import json
import os
import pathlib
import pkgutil
import re
import resource
import runpy
import shutil
import signal
import stat
import sys
import tarfile
import tempfile
import time
import traceback
from typing import NamedTuple

from tests.attack import bases
from tests.attack.case import Case

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMIT = 120  # Seconds of processor time; it only guards.
# A case that waits so long, and has had less than one part in so many of a
# processor, waits for ever: on a pipe, or on a lock.
WAIT, BUSY = 60, 30
SPACE = 8 << 30  # Bytes of addresses: a runaway ends before the machine does.
_FOLDER = f'{stat.S_IFDIR:o}'  # Of `tree`.
_PROGRESS = re.compile(r'^\w+: .*\n', re.M)  # A line a minute, where it's slow.


class Result(NamedTuple):
  """What came of a case.

  Attributes:
    faults: what is wrong; none is a pass.
    code: exit code, or minus a signal.
    err: what it printed to stderr.
    seconds: of processor time.
  """

  case: Case
  faults: tuple[str, ...]
  code: int
  err: str
  seconds: float


def warm() -> None:
  """Imports what binaries import, so that no child has to."""
  sys.dont_write_bytecode = True
  sys.path.insert(0, str(ROOT / 'launch'))
  importlib.import_module('common')
  import wm

  for module in pkgutil.walk_packages(wm.__path__, 'wm.'):
    with contextlib.suppress(ImportError):  # Extras that are not installed.
      importlib.import_module(module.name)
  for name in ('pandas', 'jinja2', 'matplotlib.figure', 'tqdm'):
    with contextlib.suppress(ImportError):
      importlib.import_module(name)


def run(case: Case, place: pathlib.Path) -> Result:
  """Runs a case in a new folder `place`, and judges it."""
  place.mkdir(parents=True)
  here = os.getcwd()
  os.chdir(place)
  try:
    for name in case.bases:
      shutil.copytree(base(name), place / name, symlinks=True)
    for act in case.files:
      act()
  finally:
    os.chdir(here)
  before = tree(place)
  logs = place.with_name(f'{place.name}.log')
  logs.mkdir()
  code, seconds = fork(case, place, logs)
  out, err = ((logs / n).read_text(errors='replace') for n in ('out', 'err'))
  if case.user:
    _open(place)
  faults = judge(case, code, out, err, before, tree(place))
  shutil.rmtree(place, ignore_errors=True)
  shutil.rmtree(logs)
  return Result(case, tuple(faults), code, err, seconds)


@functools.cache
def _store() -> tempfile.TemporaryDirectory:
  return tempfile.TemporaryDirectory(prefix='wm-attack-')


@functools.cache
def base(name: str) -> pathlib.Path:
  """A good folder, made once."""
  store = pathlib.Path(_store().name)
  if name in bases.GOLDEN:
    with tarfile.open(ROOT / f'tests/golden/{name}.tar.xz') as pack:
      pack.extractall(store, filter='data')
    return store / name
  for command in bases.MADE[name]:
    with tempfile.TemporaryDirectory() as logs:
      code, _ = fork(Case('base', name, command), store, pathlib.Path(logs))
      assert code == 0, (command, pathlib.Path(logs, 'err').read_text())
  return store / name


def fork(
  case: Case, place: pathlib.Path, logs: pathlib.Path
) -> tuple[int, float]:
  """Exit code and processor seconds of a case's process."""
  child = begin(case, place, logs)
  start = time.monotonic()
  while True:
    done, status, usage = os.wait4(child, os.WNOHANG)
    if done:
      code = os.waitstatus_to_exitcode(status)
      return code, usage.ru_utime + usage.ru_stime
    waited = time.monotonic() - start
    if waited > WAIT and _used(child) < waited / BUSY:
      os.killpg(child, signal.SIGKILL)
    time.sleep(0.005 if waited < 2 else 0.1)


def _used(process: int) -> float:
  """Seconds of processor time of a process and of those it waited for."""
  stat_line = pathlib.Path(f'/proc/{process}/stat').read_text()
  ticks = stat_line.rpartition(')')[2].split()[11:15]
  return sum(map(int, ticks)) / os.sysconf('SC_CLK_TCK')


def begin(case: Case, place: pathlib.Path, logs: pathlib.Path) -> int:
  """Starts a case's process; what it prints goes to `logs`/out and /err."""
  sys.stdout.flush()
  child = os.fork()
  if not child:
    _child(case, place, logs)
  return child


def _child(case: Case, place: pathlib.Path, logs: pathlib.Path) -> None:
  """Runs a case, and ends this process."""
  code = 1
  try:
    os.setsid()
    for stream, name in ((1, 'out'), (2, 'err')):
      os.dup2(os.open(logs / name, os.O_CREAT | os.O_RDWR, 0o666), stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdout = io.TextIOWrapper(io.FileIO(1, 'w', closefd=False))
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT + 5))
    resource.setrlimit(resource.RLIMIT_AS, (SPACE, SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.chdir(place)
    if case.user:
      _open(place.parent)
      os.chown(place, case.user, case.user)
      os.setgroups([])
      os.setgid(case.user)
      os.setuid(case.user)
    code = _call(case)
    sys.stdout.flush()
  except SystemExit as end:
    code = end.code if isinstance(end.code, int) else int(bool(end.code))
  except BaseException:
    traceback.print_exc()
  finally:
    sys.stderr.flush()
    os._exit(code)


def _open(place: pathlib.Path) -> None:
  os.chmod(place, 0o755)


def _call(case: Case) -> int:
  if not callable(case.run):
    binary, *flags = case.run
    path = str(ROOT / 'launch' / f'{binary}.py')
    sys.argv = [path, *flags]
    runpy.run_path(path, run_name='__main__')
    return 0
  from wm import core

  try:
    case.run()
  except core.InputError as error:
    print(f'error: {error}', file=sys.stderr)
    return 2
  return 0


def tree(place: pathlib.Path) -> dict[str, str]:
  """Path -> what is there, of all in a folder."""
  result = {}
  for inner, folders, names in os.walk(place):
    for name in (*folders, *names):
      path = os.path.join(inner, name)
      mode = os.lstat(path).st_mode
      if stat.S_ISREG(mode):
        data = pathlib.Path(path).read_bytes()
        kind = hashlib.sha256(data).hexdigest()
      elif stat.S_ISLNK(mode):
        kind = f'link to {os.readlink(path)}'
      else:
        kind = f'{stat.S_IFMT(mode):o}'
      result[os.path.relpath(path, place)] = kind
  return result


def judge(
  case: Case,
  code: int,
  out: str,
  err: str,
  before: dict[str, str],
  after: dict[str, str],
) -> list[str]:
  """What is wrong with how a case ended; empty is nothing."""
  if code in (-signal.SIGKILL, -signal.SIGXCPU):
    return ['did not end']
  faults = []
  # Folders alone lose nothing.
  new = {k for k in after.keys() - before.keys() if after[k] != _FOLDER}
  if code != case.code:
    faults.append(f'exit code {code}, not {case.code}')
  message = err
  if not re.fullmatch(r'error: [^\n]+\n', message):
    message = _PROGRESS.sub(lambda m: m[0] if 'error' in m[0] else '', err)
  if 'Traceback (most recent call last)' in out + err:
    faults.append(f'traceback: {err.strip().splitlines()[-1][:300]}')
  elif not re.fullmatch(r'error: [^\n]+\n', message):
    faults.append(f'{len(err.splitlines())} lines: {err[:600]!r}')
  elif not re.search(case.says, message):
    faults.append(f'does not say {case.says!r}: {message.strip()[:400]!r}')
  elif len(message) > 1000:
    faults.append(f'a line of {len(message)} characters')
  changed = sorted(k for k in before if after.get(k) != before[k])
  if changed:
    faults.append(f'changed: {", ".join(changed[:5])}')
  if new:
    faults.append(f'left {len(new)}: {", ".join(sorted(new)[:5])}')
  return faults


def skipped(case: Case) -> bool:
  """Does a case need a package that is not installed, or another user?"""
  if case.user and os.getuid():
    return True
  return bool(case.needs) and importlib.util.find_spec(case.needs) is None


def as_json(result: Result) -> str:
  """A line that another process reads."""
  known = result._asdict()
  known['case'] = result.case.title
  return json.dumps(known)
