"""Faults as a campaign: each work under each fault, and what is left of it.

  python -m tests.faults --kills=100 --tries=3
  python -m tests.faults --work=train --fault=kill --fault=clock --kills=5

A cell is a work (see `tests.attack.kills`) under a fault. It runs in a process
in which the fault is there, and has to end well, or in one line with its exit
code. Then the same command is run without the fault, and all files are compared
bit by bit with those of an undisturbed run. The first of several tries meets
the fault throughout; others differ in the moment, the limit, or the share of
calls that fail. A line of JSON for each cell:

  runs         processes that met the fault
  refused      of these, those that ended in one line; the last one is `line`
  losses       works that did not end well once the fault was gone
  differences  files that then were others, and what was not said in one line
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import functools
import json
import os
import pathlib
import random
import resource
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

# First: it sets variables that JAX and NumPy read.
from tests.attack import __main__ as attack  # noqa: F401
from tests.attack import kills, runner
from tests.attack.case import Case, flip

GRACE = 30.0  # Seconds that a scheduler gives after SIGTERM.
FLIPS = 3  # Bytes changed in a file.
SHARES = 1.0, 0.5, 0.1  # Of calls that fail, in turn.


def refuse(module: Any, name: str, number: int, n: int) -> None:
  """Makes calls of the operating system fail in this process.

  In the first of tries all of them; in others half, or a tenth, by chance.
  """
  call, dice, share = getattr(module, name), random.Random(n), SHARES[n % 3]

  def fail(*args: Any, **named: Any) -> Any:
    if dice.random() >= share:
      return call(*args, **named)
    path = args[0] if args and isinstance(args[0], str | os.PathLike) else None
    raise OSError(number, os.strerror(number), path and os.fspath(path))

  setattr(module, name, fail)


def no_locks(n: int) -> None:
  """No file can be locked."""
  import fcntl

  refuse(fcntl, 'flock', errno.ENOLCK, n)


def no_fsync(n: int) -> None:
  """No file can be made safe."""
  refuse(os, 'fsync', errno.EINVAL, n)


def no_rename(n: int) -> None:
  """Nothing can be renamed."""
  for name in ('rename', 'replace'):
    refuse(os, name, errno.EXDEV, n)


def clock(n: int) -> None:
  """The clock is set back and forth by days, again and again."""
  real, dice = time.time, random.Random(n)
  time.time = lambda: real() + dice.choice((-9e5, -3600.0, 0.0, 3600.0, 9e5))


def limit(name: str, most: int, *others: int) -> Callable[[int], None]:
  """A limit of this process: `most`, in later tries one between `others`."""
  number = getattr(resource, name)

  def act(n: int) -> None:
    size = random.Random(n).randint(*others) if n else most
    resource.setrlimit(number, (size, size))

  return act


def no_home(n: int) -> None:
  """A user whose home can be no folder, and who has no cache."""
  del n
  for name in ('XDG_CACHE_HOME', 'NUMBA_CACHE_DIR'):
    os.environ.pop(name, None)
  os.environ['HOME'] = '/proc/nobody'


# Fault -> what is done in the process that meets it, by the number of the try.
INSIDE: dict[str, Callable[[int], None]] = {
  'no locks': no_locks,
  'no fsync': no_fsync,
  'no rename': no_rename,
  'clock': clock,
  'file size': limit('RLIMIT_FSIZE', 20_000, 500, 200_000),
  'descriptors': limit('RLIMIT_NOFILE', 40, 25, 100),
  'no home': no_home,
}
OUTSIDE = 'kill', 'one of two', 'SIGTERM', 'disk', 'read-only', 'flips'


class Cell(NamedTuple):
  """What came of a work under a fault; see the module."""

  runs: int
  refused: int
  losses: int
  differences: tuple[str, ...]
  line: str = ''


class Bench:
  """A work, what it leaves undisturbed, and a folder for tries."""

  def __init__(self, name: str, folder: pathlib.Path) -> None:
    self.name, self._folder, self._tries = name, folder, 0
    self.files = kills.make_files(name, folder / 'files')
    self.whole = folder / 'whole'
    kills.prepare(name, self.whole, self.files)
    begin = time.monotonic()
    kills.finish(name, self.whole)
    self.seconds = time.monotonic() - begin
    self.results = kills.results(self.whole)

  def fresh(self) -> pathlib.Path:
    """A new folder in which the work can be done."""
    self._tries += 1
    place = self._folder / f'try{self._tries}'
    kills.prepare(self.name, place, self.files)
    return place

  def start(self, place: pathlib.Path, act: Callable[[], None]) -> int:
    """Starts the work in a process that does `act` first; its number."""
    binary, *flags = kills.WORK[self.name]
    path = str(runner.ROOT / 'launch' / f'{binary}.py')

    def run() -> None:
      act()
      sys.argv = [path, *flags]
      runpy.run_path(path, run_name='__main__')

    logs = self.logs(place)
    logs.mkdir(exist_ok=True)
    return runner.begin(Case('fault', self.name, run), place, logs)

  def logs(self, place: pathlib.Path) -> pathlib.Path:
    """Folder of what processes print."""
    return place.with_name(f'{place.name}.log')

  def judge(self, place: pathlib.Path, status: int) -> tuple[str, list[str]]:
    """The line that a process ended in, if it did not end well; faults."""
    code = os.waitstatus_to_exitcode(status)
    err = (self.logs(place) / 'err').read_text(errors='replace')
    lines = [x for x in err.splitlines() if x.startswith('error: ')]
    if code == 0:
      return '', []
    if code == 75:
      return 'stopped', []
    if code in (1, 2) and len(lines) == 1 and 'Traceback' not in err:
      return lines[0], []
    return err[-300:], [f'exit code {code}: {err[-300:]!r}']

  def after(self, place: pathlib.Path) -> tuple[int, list[str]]:
    """Does the work without the fault: losses, and files that differ."""
    status = os.waitpid(kills.start(self.name, place), 0)[1]
    line, faults = self.judge(place, status)
    if line:
      return 1, [*faults, line]
    left = kills.results(place)
    names = sorted(left.keys() | self.results.keys())
    wrong = [n for n in names if left.get(n) != self.results.get(n)]
    wrong += [f'left: {path.name}' for path in place.rglob('*.tmp')]
    return 0, wrong


def inside(bench: Bench, fault: str, n: int) -> Cell:
  """A fault that the process itself meets."""
  place = bench.fresh()
  act = functools.partial(INSIDE[fault], n)
  status = os.waitpid(bench.start(place, act), 0)[1]
  line, faults = bench.judge(place, status)
  losses, wrong = bench.after(place)
  return Cell(1, int(bool(line)), losses, (*faults, *wrong), line)


def kill(bench: Bench, num: int) -> Cell:
  """SIGKILL at random moments, up to three of a work."""
  return _signalled(bench, num, signal.SIGKILL, 3)


def terminate(bench: Bench, num: int) -> Cell:
  """SIGTERM at random moments; the work has to end within GRACE."""
  return _signalled(bench, num, signal.SIGTERM, 1)


def _signalled(bench: Bench, num: int, sign: int, most: int) -> Cell:
  dice = random.Random(f'{bench.name}{sign}')
  done, refused, losses, wrong, line = 0, 0, 0, list[str](), ''
  while done < num:
    place = bench.fresh()
    for _ in range(min(most, num - done)):
      child = bench.start(place, lambda: None)
      time.sleep(bench.seconds * dice.random())
      with contextlib.suppress(ProcessLookupError):  # It has just begun.
        os.kill(child, sign) if sign != signal.SIGKILL else os.killpg(
          child, sign
        )
      begin = time.monotonic()
      status = os.waitpid(child, 0)[1]
      done += 1
      if sign == signal.SIGTERM:
        line, faults = bench.judge(place, status)
        refused += bool(line)
        wrong += [] if os.WIFSIGNALED(status) else faults
        if time.monotonic() - begin > GRACE:
          wrong.append('it took longer than the time of grace')
    lost, other = bench.after(place)
    losses, wrong = losses + lost, wrong + other
    shutil.rmtree(place)
  return Cell(done, refused, losses, tuple(wrong), line)


def one_of_two(bench: Bench, n: int) -> Cell:
  """Two processes at one folder, of which one is killed."""
  dice = random.Random(f'{bench.name}{n}')
  place = bench.fresh()
  other = place.with_name(f'{place.name}.second')
  other.symlink_to(place)
  places = [place, other]
  children = [bench.start(each, lambda: None) for each in places]
  time.sleep(bench.seconds * dice.random())
  victim = dice.randrange(2) if n else 0
  with contextlib.suppress(ProcessLookupError):
    os.killpg(children[victim], signal.SIGKILL)
  os.waitpid(children[victim], 0)
  status = os.waitpid(children[1 - victim], 0)[1]
  line, faults = bench.judge(places[1 - victim], status)
  losses, wrong = bench.after(place)
  return Cell(2, int(bool(line)), losses, (*faults, *wrong), line)


@contextlib.contextmanager
def small_disk(place: pathlib.Path, size: int) -> Iterator[None]:
  """A disk of so many bytes at a folder, with what was in it."""
  held = place.with_name(f'{place.name}.held')
  place.rename(held)
  place.mkdir()
  options = ['-t', 'tmpfs', '-o', f'size={size}', 'tmpfs', str(place)]
  subprocess.run(['mount', *options], check=True)
  try:
    shutil.copytree(held, place, dirs_exist_ok=True)
    yield
  finally:
    subprocess.run(['umount', str(place)], check=True)


def _space(place: pathlib.Path) -> int:
  """Bytes that a folder takes of a tmpfs: whole pages, and none for folders."""
  page = resource.getpagesize()
  files = (path for path in place.rglob('*') if path.is_file())
  return sum(page * -(-path.stat().st_size // page) for path in files)


def disk(bench: Bench, n: int) -> Cell:
  """A disk that fills up on the way, and has room again for the next run.

  It is too small for the work; in odd tries another file fills it at a random
  moment, if the work has not ended by then.
  """
  dice = random.Random(n)
  share = dice.uniform(0.25, 0.9) if n else 0.5
  place = bench.fresh()
  before, after = map(_space, (place, bench.whole))
  size = before + int((after - before) * (4 if n % 2 else share))
  with small_disk(place, size):
    child = bench.start(place, lambda: None)
    if n % 2:
      time.sleep(bench.seconds * share / 2)
      _fill(place / 'other')
    line, faults = bench.judge(place, os.waitpid(child, 0)[1])
    if not line and not n % 2:
      faults.append('the disk did not fill up')
    command = ['mount', '-o', 'remount,size=1G', str(place)]
    subprocess.run(command, check=True)
    (place / 'other').unlink(missing_ok=True)
    losses, wrong = bench.after(place)
  if n % 2 and not (line or losses or wrong):  # It was not met.
    return disk(bench, n + 1)
  return Cell(1, int(bool(line)), losses, (*faults, *wrong), line)


def _fill(path: pathlib.Path) -> None:
  """Writes a file until the disk is full."""
  with contextlib.suppress(OSError), open(path, 'wb', buffering=0) as file:
    while True:
      file.write(bytes(resource.getpagesize()))


def read_only(bench: Bench, n: int) -> Cell:
  """A disk that may not be written, and then may."""
  del n
  place = bench.fresh()
  with small_disk(place, 1 << 30):
    remount = ['mount', '-o', 'remount,ro', str(place)]
    subprocess.run(remount, check=True)
    status = os.waitpid(bench.start(place, lambda: None), 0)[1]
    line, faults = bench.judge(place, status)
    subprocess.run(['mount', '-o', 'remount,rw', str(place)], check=True)
    losses, wrong = bench.after(place)
  return Cell(1, int(bool(line)), losses, (*faults, *wrong), line)


def flips(bench: Bench, num: int) -> Cell:
  """Flipped bits in a file of each kind that the work has left, or more often.

  The flipped file itself may stay as it is, as logs do: a difference is
  another file that then is other than it was.
  """
  kinds: dict[str, pathlib.Path] = {}
  for path in sorted((bench.whole / 'run').rglob('*')):
    if path.is_file() and path.stat().st_size and '.lock' not in path.name:
      kinds.setdefault(path.suffix or path.name, path)
  refused, wrong, line = 0, list[str](), ''
  files = [*kinds.values()]
  chosen = [files[n % len(files)] for n in range(max(num, len(files)))]
  for seed, path in enumerate(chosen):
    name = path.relative_to(bench.whole)
    place = bench.fresh()
    shutil.rmtree(place)
    shutil.copytree(bench.whole, place)
    flip(str(place / name), seed, FLIPS)()
    status = os.waitpid(kills.start(bench.name, place), 0)[1]
    end, faults = bench.judge(place, status)
    refused, line = refused + bool(end), end or line
    wrong += [f'{name}: {fault}' for fault in faults]
    if not end:
      left = kills.results(place)
      wrong += [
        f'{name}: {other} is another'
        for other, value in bench.results.items()
        if left.get(other) != value and other != str(name)
      ]
    shutil.rmtree(place)
  return Cell(len(chosen), refused, 0, tuple(wrong), line)


def cell(bench: Bench, fault: str, num: int) -> Cell:
  """Runs one cell, of `num` tries."""
  with_num: dict[str, Callable[[Bench, int], Cell]] = {
    'kill': kill,
    'SIGTERM': terminate,
    'flips': flips,
  }
  if fault in with_num:
    return with_num[fault](bench, num)
  alone: dict[str, Callable[[Bench, int], Cell]] = {
    'one of two': one_of_two,
    'disk': disk,
    'read-only': read_only,
  }
  meet = alone.get(fault, lambda bench, n: inside(bench, fault, n))
  tries = [meet(bench, n) for n in range(num)]
  *counts, differences, lines = zip(*tries, strict=True)
  wrong = tuple(f'try {n}: {x}' for n, xs in enumerate(differences) for x in xs)
  return Cell(*map(sum, counts), wrong, next(filter(None, lines), ''))


def main() -> int:
  """Exit code: was nothing lost, and nothing different?"""
  parser = argparse.ArgumentParser('tests.faults')
  faults = (*OUTSIDE, *INSIDE)
  parser.add_argument('--work', choices=kills.WORK, action='append')
  parser.add_argument('--fault', choices=faults, action='append')
  parser.add_argument('--kills', type=int, default=100, help='of each work')
  parser.add_argument('--tries', type=int, default=3, help='of other faults')
  options = parser.parse_args()
  runner.warm()
  runner.SPACE = resource.RLIM_INFINITY  # A report's charts need it.
  bad = 0
  for name in options.work or kills.WORK:
    with tempfile.TemporaryDirectory(prefix='wm-faults-') as folder:
      os.chmod(folder, 0o755)
      bench = Bench(name, pathlib.Path(folder))
      for fault in options.fault or faults:
        num = options.kills if fault == 'kill' else options.tries
        result = cell(bench, fault, num)
        bad += result.losses + len(result.differences)
        lines = {'work': name, 'fault': fault, **result._asdict()}
        print(json.dumps(lines), flush=True)
  return int(bad > 0)


if __name__ == '__main__':
  sys.exit(main())
